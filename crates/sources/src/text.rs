//! Sanitises text from servers and archives for display (see [`net::clean`]), and formats
//! hexadecimal digits.

pub(crate) use net::{clean, quoted};

/// The maximum number of bytes that are quoted; anything after them would not be shown.
const MAX_SHOWN: usize = 1200;

/// Returns external bytes between backticks.
pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN)]))
}

/// Returns `bytes` as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_digits() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
    }
}
