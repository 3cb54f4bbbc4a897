//! Makes text from outside fit for a terminal, a CI log or a JSON document, and hides secrets in it.
//!
//! Registries, labels and files may hold terminal escapes (CVE-2024-52005 and its kin). Removing
//! ANSI sequences leaves single control characters, the C1 block and the bidirectional overrides of
//! "Trojan Source" (CVE-2021-42574) in place, so those are replaced one by one.

/// Returns `text` without escape sequences, control characters (line feed and tab stay),
/// bidirectional overrides and secrets.
pub(crate) fn sanitise(text: &str) -> String {
    names::mask(&plain(text)).into_owned()
}

/// The same with as many characters as without the secrets hidden, so that columns stay right.
pub(crate) fn sanitise_in_place(text: &str) -> (String, String) {
    let plain = plain(text);
    let masked = names::mask_in_place(&plain).into_owned();
    (plain, masked)
}

fn plain(text: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !is_bidirectional_control(c);
    if text.chars().all(|c| is_plain(c) || c == '\n' || c == '\t') {
        return text.to_owned();
    }
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped
        .chars()
        .map(|c| if is_plain(c) || c == '\n' || c == '\t' { c } else { '\u{fffd}' })
        .collect()
}

/// The same for text that must stay on its line.
pub(crate) fn sanitise_line(text: &str) -> String {
    sanitise(text).replace(['\n', '\t'], " ")
}

/// Sanitises every text of a JSON document.
pub(crate) fn sanitise_json(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => *text = sanitise(text),
        Value::Array(items) => items.iter_mut().for_each(sanitise_json),
        Value::Object(fields) => {
            let unclean = |key: &String| sanitise(key) != *key;
            if fields.keys().any(unclean) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, value)| (sanitise(&key), value))
                    .collect();
            }
            fields.values_mut().for_each(sanitise_json);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_bidirectional_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What terminals act on: titles, clears, clipboard writes, C1 forms of the same, overrides.
    const PAYLOADS: [&str; 18] = [
        "\x1b]0;title\x07",
        "\x1b]2;title\x1b\\",
        "\x1b[2J\x1b[H",
        "\x1b[31mred\x1b[0m",
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1bP1$r\x1b\\",
        "\x1b_apc\x1b\\",
        "\x1b^pm\x1b\\",
        "\x1bXsos\x1b\\",
        "\u{9b}31m",
        "\u{9d}0;title\u{9c}",
        "back\x08\x08space",
        "bell\x07",
        "over\rwrite",
        "nul\0nul",
        "del\x7f",
        "\u{202e}desrever\u{202c}",
        "\u{2066}isolated\u{2069}",
    ];

    #[test]
    fn no_payload_gets_through() {
        for payload in PAYLOADS {
            let clean = sanitise(&format!("a{payload}b"));
            let rest: Vec<char> =
                clean.chars().filter(|c| c.is_control() || is_bidirectional_control(*c)).collect();
            assert!(rest.is_empty(), "{payload:?} became {clean:?}");
            assert!(clean.starts_with('a') && clean.ends_with('b'), "{payload:?} became {clean:?}");
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "two\nlines\tand a tab", "Größe 3,2 GB – fertig", "日本語", "a🙂b"]
        {
            assert_eq!(sanitise(text), text);
        }
        assert_eq!(sanitise_line("two\nlines"), "two lines");
    }

    #[test]
    fn json_is_cleaned_in_keys_and_values() {
        let mut value = serde_json::json!({ "a\x1b[2J": ["\u{9b}1m", { "b": "\x07" }] });
        sanitise_json(&mut value);
        assert!(
            !value.to_string().contains("\\u001b")
                && !value.to_string().chars().any(char::is_control)
        );
    }
}
