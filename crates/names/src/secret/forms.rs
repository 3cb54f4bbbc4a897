//! Tokens that can be recognised by their form, wherever they are, and values that are no secret.

use std::ops::Range;

/// The start of a token, the least number of characters after it, and the characters that may
/// follow besides letters and digits. The services document these forms, so that they can be found
/// in files.
const FORMS: [(&str, usize, &str); 18] = [
    ("hf_", 20, ""),
    ("ghp_", 30, ""),
    ("gho_", 30, ""),
    ("ghu_", 30, ""),
    ("ghs_", 30, ""),
    ("ghr_", 30, ""),
    ("github_pat_", 30, "_"),
    ("glpat-", 20, "_-"),
    ("sk-", 20, "_-"),
    ("AKIA", 16, ""),
    ("ASIA", 16, ""),
    ("AIza", 35, "_-"),
    ("xoxb-", 20, "-"),
    ("xoxp-", 20, "-"),
    ("npm_", 36, ""),
    ("pypi-AgE", 40, "_-"),
    ("dckr_pat_", 20, "_-"),
    ("nvapi-", 40, "_-"),
];

/// The length of the shortest token: `AKIA` with 16 characters.
const SHORTEST: usize = 20;

/// Returns the tokens in a text.
pub(super) fn known_tokens(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    if text.len() < SHORTEST {
        return all;
    }
    for (start, least, others) in FORMS {
        let mut end = 0;
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            if at < end || before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &text[at + start.len()..];
            let is_part = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
            let token = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
            end = at + start.len() + token.len();
            if token.len() >= least && is_random(start, token) {
                all.push(at..end);
            }
        }
    }
    all
}

/// Returns whether the text after the start of a token is not made of words.
fn is_random(start: &str, token: &str) -> bool {
    let has = |is: fn(char) -> bool| token.contains(is);
    if start.starts_with('A') && start != "AIza" {
        return token.len() == 16 && !has(|c| c.is_ascii_lowercase());
    }
    let is_long = |run: &str| run.len() >= 20;
    let has_digit = has(|c| c.is_ascii_digit());
    let is_mixed = has(|c| c.is_ascii_uppercase()) && has(|c| c.is_ascii_lowercase());
    token.split(['-', '_']).any(is_long) && (has_digit || is_mixed) || (has_digit && is_mixed)
}

/// Returns whether a value obviously stands for a secret that is set elsewhere.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 17] = [
        "changeme",
        "dummy",
        "empty",
        "example",
        "false",
        "no",
        "none",
        "not-needed",
        "null",
        "off",
        "on",
        "placeholder",
        "redacted",
        "sk-no-key-required",
        "true",
        "yes",
        "unused",
    ];
    const STARTS: [&str; 6] = ["change-me", "change_me", "your-", "your_", "replace-", "replace_"];
    let value = value.trim_matches(['"', '\'', '`', ' ', ',', ';', ')', ']', '.']);
    let part = |part: &str| {
        let lower = part.to_ascii_lowercase();
        let is_filler = lower.bytes().all(|byte| b"*x.?".contains(&byte));
        let is_inserted = (part.starts_with("${") || part.starts_with("{{")) && part.ends_with('}')
            || part.starts_with("$(") && part.ends_with(')')
            || part.starts_with('<') && part.ends_with('>');
        let is_variable = part.strip_prefix('$').is_some_and(|name| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        is_filler
            || is_inserted
            || is_variable
            || WORDS.contains(&lower.as_str())
            || STARTS.iter().any(|start| lower.starts_with(start))
            || part.ends_with("EXAMPLE")
    };
    part(value) || value.split(':').all(part)
}

/// Returns whether a value consists of words that readers replace, such as `HOST:PORT/v1`, `KEY` and
/// `id=NAME,env=VARIABLE`, of the name of a variable such as `$TOKEN`, or of `true` or `false`.
pub(super) fn is_example(value: &str) -> bool {
    const WORDS: [&str; 12] = [
        "ADDRESS",
        "CONTAINER",
        "FILE",
        "HOST",
        "KEY",
        "NAME",
        "PASSWORD",
        "PORT",
        "TOKEN",
        "USER",
        "VALUE",
        "VARIABLE",
    ];
    let name = value.split('/').next().unwrap_or_default();
    if matches!(value, "true" | "false") || name.ends_with(":PORT") {
        return true;
    }
    if let Some(variable) = name.strip_prefix('$') {
        let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
        return !variable.is_empty() && name == value && variable.chars().all(is_part);
    }
    let mut words =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let is_key = |word: &str| matches!(word, "env" | "id" | "src");
    name.contains(|c: char| c.is_ascii_uppercase())
        && words.all(|word| WORDS.contains(&word) || is_key(word))
}

/// Returns whether the query or fragment of a URL may contain a secret.
pub(super) fn is_telling(query: &str) -> bool {
    const KEYS: [&str; 10] =
        ["auth", "code", "cred", "jwt", "key", "pass", "pwd", "secret", "sig", "token"];
    let keys = query.split(['&', ';']).map(|pair| pair.split('=').next().unwrap_or_default());
    let is_telling = |key: &str| KEYS.iter().any(|part| key.to_ascii_lowercase().contains(part));
    query.contains('@') || keys.into_iter().any(is_telling)
}
