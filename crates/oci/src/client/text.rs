//! Sanitises text from servers for display: no control characters, no secrets, limited length.

/// The maximum length of displayed server text, in characters.
const MAX_SHOWN: usize = 300;
/// Returns `text` on one line, without control characters, direction characters and secrets, cut at
/// 300 characters.
pub(super) fn clean(text: &str) -> String {
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
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", clean(text).replace('`', "'"))
}

/// Returns whether `character` changes the direction of text or has no width.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns a short form of an error body: the messages of an OCI errors document, or the text
/// itself, or a note that it is a web page. Returns `None` for an empty body.
pub(super) fn error_body(body: &str) -> Option<String> {
    let text = body.trim();
    if text.is_empty() {
        return None;
    }
    if is_html(text.as_bytes()) {
        return Some("a web page".to_owned());
    }
    let said = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|json| oci_errors(&json))
        .unwrap_or_else(|| text.to_owned());
    Some(quoted(&said))
}

/// Returns whether a body is a web page, as sent by login portals and proxies.
pub(super) fn is_html(body: &[u8]) -> bool {
    let head = body.trim_ascii_start();
    let head = &head[..head.len().min(64)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    head.starts_with("<!doctype") || head.starts_with("<html") || head.starts_with("<?xml")
}

/// Returns `CODE: message` for every error of an OCI errors document, or a token server's message.
fn oci_errors(json: &serde_json::Value) -> Option<String> {
    let text = |value: &serde_json::Value, key: &str| {
        value.get(key).and_then(serde_json::Value::as_str).map(str::to_owned)
    };
    let one = |error: &serde_json::Value| match (text(error, "code"), text(error, "message")) {
        (Some(code), Some(message)) if !message.is_empty() => Some(format!("{code}: {message}")),
        (code, message) => code.or(message),
    };
    if let Some(errors) = json.get("errors").and_then(serde_json::Value::as_array) {
        let all: Vec<String> = errors.iter().filter_map(one).collect();
        return (!all.is_empty()).then(|| all.join("; "));
    }
    ["details", "error_description", "message", "error"].iter().find_map(|key| text(json, key))
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

    #[test]
    fn error_bodies_in_short() {
        for (body, wanted) in [
            ("", None),
            (" \n", None),
            ("<!DOCTYPE html><p>log in", Some("a web page")),
            (
                r#"{"errors":[{"code":"DENIED","message":"no"},{"code":"X"}]}"#,
                Some("`DENIED: no; X`"),
            ),
            (
                r#"{"details":"incorrect username or password"}"#,
                Some("`incorrect username or password`"),
            ),
            (r#"{"errors":[]}"#, Some(r#"`{"errors":[]}`"#)),
            ("upstream\u{1b}[2J gone", Some("`upstream [2J gone`")),
        ] {
            assert_eq!(error_body(body).as_deref(), wanted, "{body}");
        }
    }
}
