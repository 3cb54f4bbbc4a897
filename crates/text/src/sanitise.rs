//! Makes untrusted text safe for a terminal, a CI log or a JSON document, and hides secrets in it.
//!
//! Registries, labels and files may contain terminal escapes (CVE-2024-52005 and similar). Removing
//! only ANSI sequences would leave single control characters, the C1 block and the bidirectional
//! overrides of "Trojan Source" (CVE-2021-42574), so those are replaced one by one.

/// Returns `text` without escape sequences, control characters (except line feed and tab),
/// bidirectional overrides and secrets.
pub fn sanitise(text: &str) -> String {
    names::mask(&plain(text)).into_owned()
}

/// Returns whether [`sanitise`] keeps every character of a text that contains no secret.
pub fn is_printable(text: &str) -> bool {
    text.chars().all(|c| is_plain(c) || c == '\n' || c == '\t')
}

fn is_plain(c: char) -> bool {
    !c.is_control() && !is_bidirectional_control(c)
}

/// Returns the sanitised text twice: first with its secrets, then with each secret masked by the
/// same number of characters, so that columns do not move.
pub fn sanitise_in_place(text: &str) -> (String, String) {
    let plain = plain(text);
    let masked = names::mask_in_place(&plain).into_owned();
    (plain, masked)
}

/// Returns text without escape sequences, control characters and bidirectional overrides.
fn plain(text: &str) -> String {
    if is_printable(text) {
        return text.to_owned();
    }
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped
        .chars()
        .map(|c| if is_plain(c) || c == '\n' || c == '\t' { c } else { '\u{fffd}' })
        .collect()
}

/// Returns the sanitised text on a single line.
pub fn sanitise_line(text: &str) -> String {
    sanitise(text).replace(['\n', '\t'], " ")
}

/// Sanitises every string in a JSON document.
pub fn sanitise_json(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => *text = sanitise(text),
        Value::Array(items) => items.iter_mut().for_each(sanitise_json),
        Value::Object(fields) => {
            let unclean = |key: &String| sanitise(key) != *key;
            if fields.keys().any(unclean) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, field)| (sanitise(&key), field))
                    .collect();
            }
            fields.values_mut().for_each(sanitise_json);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a character changes the direction of text.
fn is_bidirectional_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use testkit::{Corpus, TERMINAL_PAYLOADS, fuzz_part, gate_cases};

    use super::*;

    #[test]
    fn no_payload_gets_through() {
        for payload in TERMINAL_PAYLOADS {
            let clean = sanitise(&format!("a{payload}b"));
            let rest: Vec<char> =
                clean.chars().filter(|c| c.is_control() || is_bidirectional_control(*c)).collect();
            assert!(rest.is_empty(), "{payload:?} became {clean:?}");
            assert!(clean.starts_with('a') && clean.ends_with('b'), "{payload:?} became {clean:?}");
        }
    }

    #[test]
    fn fuzzed_text_does_nothing_to_a_terminal() {
        const WORDS: [&[u8]; 16] = [
            b"\x1b",
            b"\x1b[",
            b"\x1b]",
            b"\x1b\\",
            b"\x07",
            b"\xc2\x9b",
            b"\xc2\x9d",
            b"\xe2\x80\xae",
            b"\xe2\x81\xa6",
            b"\r",
            b"\0",
            b"\xff",
            b"https://me:canary-77@",
            b"token=canary-77 ",
            b"\n",
            b"\t",
        ];
        let inputs =
            TERMINAL_PAYLOADS.map(|payload| format!("a{payload}b https://me:pw@h/x").into_bytes());
        let corpus = Corpus { inputs: inputs.into(), words: &WORDS, seed: 0x5eed_0060 };
        fuzz_part(&corpus, gate_cases(2_000, 1_000_000), |bytes, _| {
            let text = String::from_utf8_lossy(&bytes);
            let bad = |c: char| c.is_control() || is_bidirectional_control(c);
            let clean = sanitise(&text);
            assert!(!clean.chars().any(|c| bad(c) && c != '\n' && c != '\t'), "{clean:?}");
            assert!(!sanitise_line(&text).chars().any(bad), "{clean:?}");
            assert_eq!(sanitise(&clean), clean, "clean text does not change");
            let (plain, masked) = sanitise_in_place(&text);
            assert_eq!(plain.chars().count(), masked.chars().count(), "{plain:?}");
        });
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
