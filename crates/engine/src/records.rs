//! The records in a build's stream: one JSON document per line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::buildkit;
use crate::error::EngineError;
use crate::transcript::Piece;

/// The maximum size of a record, in bytes. Engines split output into 32 KiB chunks; JSON may expand
/// a byte to six, and a base64 record may contain several messages of BuildKit.
const RECORD_CAP: usize = 16 << 20;

/// Splits the stream into records. Holds at most one incomplete record.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    held: Vec<u8>,
}

#[derive(Deserialize)]
struct Record {
    stream: Option<String>,
    error: Option<String>,
    #[serde(rename = "errorDetail")]
    error_detail: Option<ErrorDetail>,
    aux: Option<Value>,
}

#[derive(Deserialize)]
struct ErrorDetail {
    message: Option<String>,
}

impl RecordReader {
    /// Takes bytes, and passes each piece that they complete to `emit`.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        emit: &mut dyn FnMut(Piece),
    ) -> Result<(), EngineError> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (record, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.held.is_empty() {
                read(record, emit)?;
            } else {
                self.held.extend_from_slice(record);
                read(&self.held, emit)?;
                self.held.clear();
            }
            bytes = rest;
        }
        if self.held.len() + bytes.len() > RECORD_CAP {
            return Err(nonsense(&format!("a record is longer than {RECORD_CAP} bytes")));
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads the last record, which may lack its line feed.
    pub(crate) fn finish(self, emit: &mut dyn FnMut(Piece)) -> Result<(), EngineError> {
        read(&self.held, emit)
    }
}

fn read(record: &[u8], emit: &mut dyn FnMut(Piece)) -> Result<(), EngineError> {
    if record.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let record: Record = serde_json::from_slice(record)
        .map_err(|error| nonsense(&format!("a record in the stream is malformed ({error})")))?;
    let detail = record.error_detail.and_then(|detail| detail.message);
    if let Some(text) = detail.or(record.error) {
        emit(Piece::Error(text));
    }
    if let Some(text) = record.stream {
        emit(Piece::Text(text));
    }
    match record.aux {
        Some(Value::String(status)) => {
            let pieces = STANDARD.decode(status).ok().and_then(|bytes| buildkit::pieces(&bytes));
            let Some(pieces) = pieces else {
                return Err(nonsense("a BuildKit message is malformed"));
            };
            pieces.into_iter().for_each(emit);
        }
        Some(aux) => {
            if let Some(id) = aux.get("ID").and_then(Value::as_str) {
                emit(Piece::Image(id.to_owned()));
            }
        }
        None => {}
    }
    Ok(())
}

fn nonsense(detail: &str) -> EngineError {
    EngineError::Nonsense { action: "build the image".to_owned(), detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunks: &[&[u8]]) -> Result<Vec<Piece>, String> {
        let mut found = Vec::new();
        let mut reader = RecordReader::default();
        for chunk in chunks {
            reader.push(chunk, &mut |piece| found.push(piece)).map_err(|e| e.to_string())?;
        }
        reader.finish(&mut |piece| found.push(piece)).map_err(|error| error.to_string())?;
        Ok(found)
    }

    #[test]
    fn records_are_read_wherever_they_are_cut() {
        let stream = b"{\"stream\":\"a \\u003e b\\n\"}\r\n\r\n{\"status\":\"Pulling\"}\n{\"aux\":{\"ID\":\"sha256:x\"}}\n{\"errorDetail\":{\"message\":\"bad\"},\"error\":\"worse\"}\n{\"error\":\"old\"}";
        let expected = [
            Piece::Text("a > b\n".to_owned()),
            Piece::Image("sha256:x".to_owned()),
            Piece::Error("bad".to_owned()),
            Piece::Error("old".to_owned()),
        ];
        for cut in 0..stream.len() {
            assert_eq!(
                pieces(&[&stream[..cut], &stream[cut..]]).unwrap(),
                expected,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for bad in [
            "{\"stream\":\"cut",
            "<html>",
            "{\"stream\":1}",
            "{\"aux\":\"%%\"}",
            "{\"stream\":\"a\"}{\"stream\":\"b\"}",
        ] {
            assert!(pieces(&[bad.as_bytes()]).is_err(), "{bad}");
        }
        let endless = vec![b'x'; RECORD_CAP];
        assert!(pieces(&[&endless, b"x"]).unwrap_err().contains("longer"));
    }
}
