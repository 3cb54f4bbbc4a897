//! Parses `WWW-Authenticate`, the authentication methods that a registry offers.
//!
//! RFC 9110 §11.6.1: a header may contain several challenges, and there may be several headers. The
//! value of a parameter is a token or a quoted string. The header may be malicious, so the parser
//! never fails; on malformed input it just finds fewer challenges.

/// One challenge: a scheme and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The scheme in lower case: `bearer`, `basic`.
    pub(super) scheme: String,
    /// The parameters, names in lower case, in order.
    pub(super) parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Returns the value of the first parameter called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the challenges of one header value, in order.
pub(super) fn parse(text: &str) -> Vec<Challenge> {
    let mut rest = text;
    let mut challenges: Vec<Challenge> = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, behind) = token(rest);
        if word.is_empty() {
            // Anything other than tokens and separators is skipped, one character at a time.
            let mut characters = rest.chars();
            if characters.next().is_none() {
                return challenges;
            }
            rest = characters.as_str();
            continue;
        }
        let after_space = behind.trim_start_matches([' ', '\t']);
        match (after_space.strip_prefix('='), challenges.last_mut()) {
            (Some(value), Some(challenge)) => {
                let (value, after_value) = value_of(value.trim_start_matches([' ', '\t']));
                challenge.parameters.push((word.to_ascii_lowercase(), value));
                rest = after_value;
            }
            (Some(value), None) => rest = value,
            (None, _) => {
                let scheme = word.to_ascii_lowercase();
                challenges.push(Challenge { scheme, parameters: Vec::new() });
                rest = after_space;
            }
        }
    }
}

/// Splits a token (RFC 9110 §5.6.2) off the front. The token is empty if there is none.
fn token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    text.split_at(text.find(|c| !is_token(c)).unwrap_or(text.len()))
}

/// Splits a parameter's value off the front: a quoted string, or everything up to the next
/// separator.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    (value, characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::{Corpus, fuzz_some};

    fn shown(text: &str) -> String {
        let one = |c: &Challenge| {
            let parameters: Vec<_> =
                c.parameters.iter().map(|(k, v)| format!("{k}=<{v}>")).collect();
            format!("{} {}", c.scheme, parameters.join(" "))
        };
        parse(text).iter().map(one).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn parse_reads_what_registries_send() {
        for (text, wanted) in [
            (
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull""#,
                "bearer realm=<https://auth.docker.io/token> service=<registry.docker.io> scope=<repository:a/b:pull>",
            ),
            (r#"Basic realm="Registry Realm""#, "basic realm=<Registry Realm>"),
            (r#"bearer realm=https://a/t , service = x"#, "bearer realm=<https://a/t> service=<x>"),
            (
                r#"Negotiate, Basic realm="a, b", Bearer realm="https://h/t",scope="a:b:pull,push""#,
                "negotiate  | basic realm=<a, b> | bearer realm=<https://h/t> scope=<a:b:pull,push>",
            ),
            (r#"Bearer Realm="a\"b\\c""#, r#"bearer realm=<a"b\c>"#),
            (r#"Bearer realm="unclosed"#, "bearer realm=<unclosed>"),
            (r#"Bearer realm="ends in \"#, "bearer realm=<ends in >"),
            (r#"=,=;"x" Bearer"#, "x  | bearer "),
            ("", ""),
            ("Basic", "basic "),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn fuzzed_challenges_are_taken_apart() {
        const WORDS: [&[u8]; 14] = [
            b"\"",
            b"\\",
            b",",
            b"=",
            b" ",
            b"\t",
            b"Bearer ",
            b"Basic ",
            b"realm=",
            b"service=",
            b"\0",
            b"\x1b[",
            b"\xc3\xbc",
            b"\xff",
        ];
        let inputs = [
            r#"Bearer realm="https://h/t",service="h",scope="repository:a/b:pull,push""#,
            r#"Negotiate, Basic realm="a, \"b\"", Bearer realm=https://h/t ,error = x"#,
        ];
        let inputs = inputs.map(|text| text.as_bytes().to_vec()).into();
        let (mut good, mut runs) = (0, 0);
        fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0023 }, |bytes, _| {
            runs += 1;
            let text = String::from_utf8_lossy(&bytes);
            let challenges = parse(&text);
            good += usize::from(
                challenges.iter().any(|one| one.parameters.iter().any(|(key, _)| key == "realm")),
            );
            for one in &challenges {
                // No value is made up: apart from backslashes, each one occurs in the header.
                let plain = text.replace('\\', "");
                let occurs =
                    |(_, value): &(String, String)| plain.contains(&value.replace('\\', ""));
                assert!(one.parameters.iter().all(occurs), "{text}");
            }
        });
        assert!(good * 4 > runs, "only {good} of {runs} got through");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,200}") {
            parse(&text);
        }
    }
}
