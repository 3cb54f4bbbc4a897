//! Remembers the secrets that were used, and removes them from messages: a server may echo what it
//! received.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use net::lock;

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// The secrets of one client.
#[derive(Default)]
pub(super) struct Secrets(Mutex<BTreeSet<String>>);

impl Secrets {
    /// Remembers a secret, unless it is very short. Short secrets would also replace ordinary
    /// words.
    pub(super) fn remember(&self, secret: &str) {
        if secret.len() >= 4 {
            lock(&self.0).insert(secret.to_owned());
        }
    }

    /// Replaces every secret in `text`, even if it is fully or partly percent-encoded.
    pub(super) fn scrub(&self, text: String) -> String {
        lock(&self.0).iter().fold(text, |text, secret| scrubbed(text, secret))
    }
}

/// Returns `text` without a secret.
fn scrubbed(text: String, secret: &str) -> String {
    let text = text.replace(secret, REDACTED);
    if !text.contains('%') {
        return text;
    }
    let decoded = decoded(&text);
    let is_here = |at: usize| {
        let bytes = decoded.iter().skip(at).map(|(byte, _)| *byte);
        bytes.take(secret.len()).eq(secret.bytes())
    };
    let place = |at: usize| decoded.get(at).map_or(text.len(), |(_, place)| *place);
    let (mut clean, mut kept, mut at) = (String::new(), 0, 0);
    while at < decoded.len() {
        if !is_here(at) {
            at += 1;
            continue;
        }
        clean.push_str(text.get(kept..place(at)).unwrap_or_default());
        clean.push_str(REDACTED);
        at += secret.len();
        kept = place(at);
    }
    clean.push_str(text.get(kept..).unwrap_or_default());
    clean
}

/// Returns the bytes of a text after percent-decoding (RFC 3986, section 2.1), each with its
/// position.
fn decoded(text: &str) -> Vec<(u8, usize)> {
    let digit = |at: usize| char::from(*text.as_bytes().get(at)?).to_digit(16);
    let mut decoded = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let pair = digit(at + 1).zip(digit(at + 2)).filter(|_| *byte == b'%');
        match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(unescaped) => {
                decoded.push((unescaped, at));
                at += 3;
            }
            None => {
                decoded.push((*byte, at));
                at += 1;
            }
        }
    }
    decoded
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_however_they_are_percent_encoded() {
        let secrets = Secrets::default();
        secrets.remember("p@ss w\u{f6}rd%");
        for text in [
            "p@ss w\u{f6}rd%",
            "p%40ss%20w%C3%B6rd%25",
            "p%40ss%20w%c3%b6rd%25",
            "%70%40%73%73%20%77%c3%b6%72%64%25",
            "p@ss%20w\u{f6}rd%25",
        ] {
            let found = secrets.scrub(format!("100% of {text}, twice: {text}; \u{fc}"));
            assert_eq!(found, "100% of [redacted], twice: [redacted]; \u{fc}");
        }
        for text in ["", "%", "%4", "%zz", "p%40ss", "\u{fc}%c3"] {
            assert_eq!(secrets.scrub(text.to_owned()), text);
        }
    }
}
