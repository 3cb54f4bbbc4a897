//! Sanitises text from servers and archives for display: one line, no control characters, no
//! secrets, limited length.

/// The maximum length of displayed text, in characters.
const MAX_SHOWN: usize = 300;

/// Returns `text` on one line, without control characters, direction characters and secrets, cut at
/// 300 characters.
pub(crate) fn clean(text: &str) -> String {
    let text = names::mask(text);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut shown = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.extend(word.chars().filter(|c| !is_direction(*c)));
        if shown.len() > 4 * MAX_SHOWN {
            break;
        }
    }
    match shown.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// Returns external text between backticks.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", clean(text).replace('`', "'"))
}

/// Returns external bytes between backticks.
pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_SHOWN)]))
}

/// Returns whether `character` changes the direction of text or has no width.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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
    fn clean_leaves_nothing_a_terminal_obeys() {
        for (text, wanted) in [
            ("plain", "plain"),
            ("a\u{1b}]0;pwn\u{7}b", "a ]0;pwn b"),
            ("a\r\nb\tc", "a b c"),
            ("a\u{9b}31mb", "a 31mb"),
            ("a\u{202e}b\u{2066}c\u{200b}d", "abcd"),
        ] {
            assert_eq!(clean(text), wanted);
        }
        assert_eq!(quoted("a `b` c"), "`a 'b' c`");
        assert_eq!(clean(&"é".repeat(5000)).chars().count(), MAX_SHOWN + 1);
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
    }
}
