//! The packets of git's protocol: a length of four hexadecimal digits, followed by data.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::error::{ErrorKind, Failure};
use crate::text;

/// The maximum length of a packet, including its length field.
const MAX_PACKET: usize = 65_520;

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// Data, without its length.
    Data(Bytes),
    /// `0000`: the end of a message.
    Flush,
    /// `0001`: the end of a section.
    Delimiter,
    /// `0002`: the end of a stateless response.
    End,
}

impl Packet {
    /// Returns the data as a line without its line feed, or `None` for a marker.
    pub(crate) fn line(&self) -> Option<&[u8]> {
        match self {
            Self::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            Self::Flush | Self::Delimiter | Self::End => None,
        }
    }
}

/// Splits a stream of bytes into packets.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Adds bytes from the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns whether the stream may end here.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the next packet, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, Failure> {
        let Some(digits) = self.buffer.get(..4) else { return Ok(None) };
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let length = std::str::from_utf8(digits).ok().filter(|_| is_hex);
        let length = length.and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let mark = match length {
            Some(0) => Packet::Flush,
            Some(1) => Packet::Delimiter,
            Some(2) => Packet::End,
            Some(length @ 4..=MAX_PACKET) => {
                if self.buffer.len() < length {
                    return Ok(None);
                }
                self.buffer.advance(4);
                return Ok(Some(Packet::Data(self.buffer.split_to(length - 4).freeze())));
            }
            Some(_) | None => {
                let start = text::quoted_bytes(&self.buffer[..self.buffer.len().min(60)]);
                let detail = format!("the server does not speak git's protocol: it sent {start}");
                return Err(Failure::fatal(ErrorKind::Content, detail));
            }
        };
        self.buffer.advance(4);
        Ok(Some(mark))
    }
}

/// Writes a message.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    /// Adds a line. All lines of this tool are much shorter than the maximum.
    #[must_use]
    pub(crate) fn line(self, line: &str) -> Self {
        self.data(format!("{line}\n").as_bytes())
    }

    /// Adds a packet with this data.
    #[must_use]
    pub(crate) fn data(mut self, data: &[u8]) -> Self {
        self.0.extend_from_slice(format!("{:04x}", data.len() + 4).as_bytes());
        self.0.extend_from_slice(data);
        self
    }

    /// Adds `0001`.
    #[must_use]
    pub(crate) fn delimiter(mut self) -> Self {
        self.0.extend_from_slice(b"0001");
        self
    }

    /// Adds `0000`.
    #[must_use]
    pub(crate) fn flush(mut self) -> Self {
        self.0.extend_from_slice(b"0000");
        self
    }

    /// Returns the message.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut Decoder) -> Vec<Packet> {
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    #[test]
    fn packets_come_out_whatever_the_pieces() {
        let message = Encoder::default().line("a").delimiter().data(b"").flush().bytes();
        assert_eq!(message, b"0006a\n000100040000");
        let wanted = vec![
            Packet::Data(Bytes::from_static(b"a\n")),
            Packet::Delimiter,
            Packet::Data(Bytes::new()),
            Packet::Flush,
        ];
        for size in 1..=message.len() {
            let mut decoder = Decoder::default();
            let mut packets = Vec::new();
            for piece in message.chunks(size) {
                decoder.push(piece);
                packets.extend(all(&mut decoder));
            }
            assert_eq!(packets, wanted);
            assert!(decoder.is_empty());
        }
        assert_eq!(wanted[0].line(), Some(&b"a"[..]));
        assert_eq!(wanted[3].line(), None);
    }

    #[test]
    fn what_is_no_packet() {
        for bytes in ["0003", "+123", "zzzz", "ffff", "<!DOCTYPE html>", "fff1"] {
            let mut decoder = Decoder::default();
            decoder.push(bytes.as_bytes());
            let failure = decoder.next().unwrap_err();
            assert!(failure.detail.contains("does not speak git"), "{}", failure.detail);
        }
    }
}
