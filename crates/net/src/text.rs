//! Sanitises text from servers for display: no control characters, no secrets, limited length.

/// The maximum length of displayed server text, in characters.
const MAX_SHOWN: usize = 300;

/// Returns `text` on one line, cut at 300 characters, without secrets, control characters, and
/// characters that change the text direction or have no width.
pub fn clean(text: &str) -> String {
    let text = names::mask(text);
    let mut shown = String::new();
    let mut count = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !shown.is_empty() {
            shown.push(' ');
            count += 1;
        }
        for character in word.chars().filter(|c| !is_direction(*c)) {
            if count >= MAX_SHOWN {
                shown.push('…');
                return shown;
            }
            shown.push(character);
            count += 1;
        }
    }
    shown
}

/// Returns a server's text between backticks, sanitised like [`clean`].
pub fn quoted(text: &str) -> String {
    format!("`{}`", clean(text).replace('`', "'"))
}

/// Returns whether `character` changes the direction of text or has no width.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns whether a body is a web page, as sent by login portals and proxies.
pub fn is_html(body: &[u8]) -> bool {
    let head = body.trim_ascii_start();
    let head = &head[..head.len().min(64)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    head.starts_with("<!doctype") || head.starts_with("<html") || head.starts_with("<?xml")
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
        assert_eq!(clean(&"x".repeat(5000)).chars().count(), MAX_SHOWN + 1);
    }

    #[test]
    fn clean_hides_secrets() {
        assert_eq!(clean("at https://me:secret@host/v2/?a=b"), "at https://***@host/v2/?***");
    }
}
