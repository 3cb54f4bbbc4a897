//! BuildKit's progress messages: protocol buffers in base64 in JSON.
//!
//! Only the names, errors and output of the vertices in `moby.buildkit.v1.StatusResponse`
//! (BuildKit's `api/services/control/control.proto`) are needed. These are eight fields in three
//! messages. Generated code for the whole protocol would add about fifty crates.

use crate::transcript::Piece;

/// Reads a `StatusResponse`. Returns `None` if it is malformed.
pub(crate) fn pieces(bytes: &[u8]) -> Option<Vec<Piece>> {
    let mut found = Vec::new();
    for field in fields(bytes)? {
        match field {
            (1, Value::Bytes(vertex)) => found.extend(begun(vertex)?),
            (3, Value::Bytes(log)) => found.push(output(log)?),
            _ => {}
        }
    }
    Some(found)
}

/// `Vertex`: digest 1, name 3, started 5, error 7. Returns nothing for a vertex that has neither
/// started nor failed.
///
/// A vertex is reported when it starts and again when it ends. A busy daemon reports both at once,
/// and a vertex whose cache key cannot be computed ends without a start.
fn begun(bytes: &[u8]) -> Option<Option<Piece>> {
    let [mut digest, mut name, mut error] = [const { String::new() }; 3];
    let mut is_started = false;
    for field in fields(bytes)? {
        match field {
            (1, Value::Bytes(text)) => digest = String::from_utf8_lossy(text).into_owned(),
            (3, Value::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
            (5, Value::Bytes(_)) => is_started = true,
            (7, Value::Bytes(text)) => error = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    let is_told = is_started || !error.is_empty();
    Some(is_told.then_some(Piece::Vertex { digest, name, error }))
}

/// `VertexLog`: vertex 1, msg 4.
fn output(bytes: &[u8]) -> Option<Piece> {
    let (mut vertex, mut text) = (String::new(), Vec::new());
    for field in fields(bytes)? {
        match field {
            (1, Value::Bytes(digest)) => vertex = String::from_utf8_lossy(digest).into_owned(),
            (4, Value::Bytes(msg)) => text = msg.to_vec(),
            _ => {}
        }
    }
    Some(Piece::Output { vertex, bytes: text })
}

/// The value of a field. Numbers of any width are skipped.
#[derive(Debug, PartialEq, Eq)]
enum Value<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// Splits a message into its fields (protocol buffers encoding: key = number << 3 | type).
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => {
                varint(&mut bytes)?;
                Value::Number
            }
            1 => {
                bytes = bytes.get(8..)?;
                Value::Number
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let value = bytes.get(..length)?;
                bytes = &bytes[length..];
                Value::Bytes(value)
            }
            5 => {
                bytes = bytes.get(4..)?;
                Value::Number
            }
            _ => return None,
        };
        found.push((key >> 3, value));
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    /// Sent by dockerd 20.10.24 for `RUN echo hello; printf "no newline"; exit 7`.
    const LOG: &str = "GmsKR3NoYTI1Njo0NWFhN2FlNTRlMmUyYjExMGIzMTFjMTVhMDNhMjhkMGVlODVlYWM2Njg4Njc5YjQ3OGQzNzkxNWI2YjE1OGE2EgwI6+CH2AYQq7yC9AIYASIQaGVsbG8Kbm8gbmV3bGluZQ==";

    #[test]
    fn output_is_read() {
        let bytes = STANDARD.decode(LOG).unwrap();
        let vertex = "sha256:45aa7ae54e2e2b110b311c15a03a28d0ee85eac6688679b478d37915b6b158a6";
        let output =
            Piece::Output { vertex: vertex.to_owned(), bytes: b"hello\nno newline".to_vec() };
        assert_eq!(pieces(&bytes), Some(vec![output]));
        for end in 1..bytes.len() {
            assert_eq!(pieces(&bytes[..end]), None, "cut at {end}");
        }
    }

    /// Returns a field that contains bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    #[test]
    fn a_vertex_that_has_started_or_failed_is_told() {
        let named = [field(1, b"d"), field(3, b"[2/2] COPY a /a")].concat();
        let read = |rest: &[u8]| pieces(&field(1, &[&named[..], rest].concat())).unwrap();
        let vertex = |error: &str| Piece::Vertex {
            digest: "d".to_owned(),
            name: "[2/2] COPY a /a".to_owned(),
            error: error.to_owned(),
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&field(5, b"")), [vertex("")]);
        // Start and end in the same report.
        assert_eq!(read(&[field(5, b""), field(6, b"")].concat()), [vertex("")]);
        assert_eq!(read(&field(7, b"\"/a\" not found")), [vertex("\"/a\" not found")]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(pieces(&bytes));
        }
    }
}
