//! The fields of a header block.

use crate::BLOCK;

/// The position of a field in a header.
pub(crate) type Field = std::ops::Range<usize>;

pub(crate) const NAME: Field = 0..100;
pub(crate) const MODE: Field = 100..108;
pub(crate) const UID: Field = 108..116;
pub(crate) const GID: Field = 116..124;
pub(crate) const SIZE: Field = 124..136;
pub(crate) const MTIME: Field = 136..148;
const SUM: Field = 148..156;
pub(crate) const TYPE: usize = 156;
pub(crate) const LINK: Field = 157..257;
pub(crate) const MAJOR: Field = 329..337;
pub(crate) const MINOR: Field = 337..345;
const PREFIX: Field = 345..500;
/// Star's shorter prefix. It is followed by the access and change times.
const STAR_PREFIX: Field = 345..476;

/// The dialects that differ in the meaning of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// No magic: no prefix, no device numbers.
    V7,
    Ustar,
    Star,
    Gnu,
}

/// A header block.
#[derive(Debug, Clone)]
pub(crate) struct Block(pub(crate) [u8; BLOCK]);

impl Block {
    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Returns whether the checksum is correct. Old tars compute it from signed bytes, so both sums
    /// are accepted.
    pub(crate) fn has_right_sum(&self) -> bool {
        let Some(stated) = number(&self.0[SUM]) else { return false };
        let bytes = self.0.iter().enumerate();
        let bytes = bytes.map(|(at, byte)| if SUM.contains(&at) { b' ' } else { *byte });
        let unsigned: i64 = bytes.clone().map(i64::from).sum();
        let signed: i64 = bytes.map(|byte| i64::from(byte.cast_signed())).sum();
        stated == unsigned || stated == signed
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match (&self.0[257..263], &self.0[263..265]) {
            (b"ustar ", b" \0") => Dialect::Gnu,
            (b"ustar\0", _) if &self.0[508..512] == b"tar\0" => Dialect::Star,
            (b"ustar\0", _) => Dialect::Ustar,
            _ => Dialect::V7,
        }
    }

    /// Returns a text field, up to its NUL.
    pub(crate) fn text(&self, field: Field) -> &[u8] {
        let field = &self.0[field];
        field.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the path, with the prefix if the dialect has one.
    pub(crate) fn path(&self) -> Vec<u8> {
        let name = self.text(NAME);
        let prefix = match self.dialect() {
            Dialect::Ustar => self.text(PREFIX),
            Dialect::Star => self.text(STAR_PREFIX),
            Dialect::V7 | Dialect::Gnu => b"",
        };
        match prefix {
            b"" => name.to_vec(),
            prefix => [prefix, b"/", name].concat(),
        }
    }
}

/// Parses a number field: octal digits between spaces and NULs, or base-256 as written by GNU and
/// star (high bit of the first byte set, two's complement). An empty field is 0.
pub(crate) fn number(field: &[u8]) -> Option<i64> {
    let first = *field.first()?;
    if first & 0x80 != 0 {
        let start =
            if first & 0x40 == 0 { i128::from(first & 0x7f) } else { i128::from(first) - 256 };
        let value = field[1..].iter().try_fold(start, |value, byte| {
            value.checked_mul(256).map(|value| value + i128::from(*byte))
        })?;
        return i64::try_from(value).ok();
    }
    let is_blank = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(is_blank).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + i64::from(digit - b'0')),
        _ => None,
    })
}

/// Returns whether all readers parse a number field the same way: it has only digits between
/// leading spaces and trailing spaces and NULs, or it is a positive number in base-256.
pub(crate) fn is_unambiguous(field: &[u8]) -> bool {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| *byte != b' ').unwrap_or(field.len());
    let mut rest = field[start..].iter().skip_while(|byte| byte.is_ascii_digit());
    field.first() == Some(&0x80) || rest.all(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_dialects_are_read() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"777777777777"), Some(0o7777_7777_7777));
        assert_eq!(number(b"0000648\0"), None);
        assert_eq!(number(b"-0000644"), None);
        assert_eq!(number(b"\x80\0\0\0\0\x2d\xc6\xc0"), Some(3_000_000));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(number(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }

    #[test]
    fn numbers_on_which_readers_disagree_are_recognised() {
        for field in [&b"0000644\0"[..], b"   644 \0", b"\0\0\0", b"   ", b"777", b"\x80\0\0\x01"] {
            assert!(is_unambiguous(field), "{field:?}");
        }
        for field in
            [&b"644\x007\0"[..], b"\x00000644\0", b"644 1", b"-644", b"\xff\xff", b"\x81\0"]
        {
            assert!(!is_unambiguous(field), "{field:?}");
        }
    }
}
