//! Finds the secret parts of a text.
//!
//! In case of doubt, a rule hides too much rather than too little. The rules:
//!
//! - User information of a URL (RFC 3986, section 3.2.1), with or without a scheme. The last `@`
//!   ends it, because people do not escape `/`, `?`, `#` and `@` in passwords. `git@host:path` and
//!   `ssh://git@host` name a public account, and `@sha256:…` is a digest.
//! - The query of a URL, and a fragment that is not an anchor.
//! - The credentials of an `Authorization` header (RFC 9110, section 11.6.2), and a bearer token
//!   (RFC 6750) on its own.
//! - A token whose form is known, such as `hf_…`; see the module `forms`.
//! - The value of a variable, argument, key or header whose name indicates a secret: `HF_TOKEN=…`,
//!   `--api-key …`, `"password": "…"`.
//!
//! Instructions name what the reader fills in: `http://HOST:PORT`, `--api-key KEY`; see
//! `forms::is_example`.

use std::ops::Range;

use super::forms::{is_example, is_placeholder, is_telling, known_tokens};

/// What ends a secret part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The text is one value; a part can extend to the end of the text.
    Value,
    /// The text is prose, a log or a file; white space, quotes and brackets end a part.
    Text,
}

/// Returns the secret parts of a text in order. They do not overlap and are not empty.
pub(super) fn spans(text: &str, extent: Extent) -> Vec<Range<usize>> {
    let mut all = known_tokens(text);
    // Every other rule needs one of these characters. Most texts of a data file have none.
    if !text.bytes().any(|byte| b"@:=% ".contains(&byte)) {
        return merged(all);
    }
    let lower = text.to_ascii_lowercase();
    all.extend(bearer(text, &lower));
    // All other rules need one of these.
    if text.contains(['@', ':', '=', '%']) || text.contains("--") {
        tokens(text, extent).into_iter().for_each(|token| addresses(text, token, &mut all));
        all.extend(authorizations(text, &lower));
        // Every name that `says_secret` accepts contains one of these words.
        let words =
            ["token", "pass", "secret", "cred", "key", "auth", "jwt", "cookie", "_pat", "_pwd"];
        if words.iter().any(|word| lower.contains(word)) {
            all.extend(named_values(text, extent));
        }
    }
    let is_hidden = |span: &Range<usize>| text[span.clone()].bytes().all(|byte| byte == b'*');
    all.retain(|span| !is_hidden(span) && !is_example(&text[span.clone()]));
    merged(all)
}

/// Returns whether a text contains a secret that must not get into an image, a plan or a record.
/// Unlike [`spans`], it accepts placeholders, and queries of URLs without a telling key.
pub(super) fn has_secret(text: &str) -> bool {
    // In prose, a colon and a later `@` have nothing to do with each other.
    let is_prose = text.contains(char::is_whitespace);
    let extent = if is_prose { Extent::Text } else { Extent::Value };
    spans(text, extent).into_iter().any(|span| {
        let secret = &text[span.clone()];
        let is_ending = text[..span.start].ends_with(['?', '#']);
        !is_placeholder(secret) && (!is_ending || is_telling(secret))
    })
}

/// Like [`has_secret`], for the value of a variable or key, whose name can indicate a secret.
pub(super) fn is_secret_value(name: &str, value: &str) -> bool {
    let last = name.rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
    has_secret(value) || says_secret(last) && has_secret(&format!("{last}={value}"))
}

/// Returns whether a name of a variable or key can contain a character.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut all: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match all.last_mut().filter(|last| last.end >= span.start) {
            Some(last) => last.end = last.end.max(span.end),
            None => all.push(span),
        }
    }
    all
}

/// Returns whether `character` ends a URL in prose.
fn is_end(character: char) -> bool {
    character.is_whitespace() || character.is_control() || "\"`<>…".contains(character)
}

fn tokens(text: &str, extent: Extent) -> Vec<Range<usize>> {
    if extent == Extent::Value {
        return std::iter::once(0..text.len()).collect();
    }
    let mut all = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices().filter(|(_, character)| is_end(*character)) {
        all.push(start..at);
        start = at + character.len_utf8();
    }
    all.push(start..text.len());
    all.retain(|token| !token.is_empty());
    all
}

/// Adds the secret parts of the URLs and addresses in a token to `all`.
fn addresses(text: &str, token: Range<usize>, all: &mut Vec<Range<usize>>) {
    let word = &text[token.clone()];
    if !word.bytes().any(|byte| b"@:%".contains(&byte)) {
        return;
    }
    let last = last_at(word);
    let mut found = Vec::from_iter(escaped_user(word, last));
    // An `@` without a host after it, as in `a:pw@h/token=x@-y`, does not end user information.
    let host = ats(word).find(|at| starts_host(&word[at + 1..]));
    found.extend(host.and_then(|at| bare_user(word, at)));
    let end = word.trim_end_matches([')', ']', '}', ',', ';', '.', '\'']).len();
    let mut from = 0;
    while let Some(separator) = word[from..].find("://").map(|at| from + at) {
        let scheme = scheme_of(&word[from..separator]);
        from = separator + 3;
        if let Some(user) = user_information(scheme, word, from, last.filter(|at| *at >= from)) {
            from = user.end;
            found.push(user);
        }
        let next = word[from..].find("://").map_or(end, |at| from + at);
        if let Some(mark) = word[from..next.max(from)].find(['?', '#']).map(|at| from + at) {
            found.extend(ending(word, mark..end));
            break;
        }
    }
    found.retain(|span| !span.is_empty());
    all.extend(found.iter().map(|span| token.start + span.start..token.start + span.end));
}

/// Returns the scheme at the end of the text before `://`.
fn scheme_of(before: &str) -> &str {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    before.rsplit(|c| !is_scheme(c)).next().unwrap_or(before)
}

/// Returns the user information that starts at `from`, directly after `scheme://`; `at` is the last
/// `@`.
fn user_information(
    scheme: &str,
    word: &str,
    from: usize,
    at: Option<usize>,
) -> Option<Range<usize>> {
    let rest = &word[from..];
    let Some(at) = at else { return cut_off(rest).map(|end| from..from + end) };
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    if !authority.contains('@') && is_host(scheme, authority) {
        return None;
    }
    let is_public = scheme.to_ascii_lowercase().ends_with("ssh") && !word[from..at].contains(':');
    (!is_public).then_some(from..at)
}

/// Returns the end of possible user information whose `@` was cut off. If a number follows the
/// colon, it is a port.
fn cut_off(rest: &str) -> Option<usize> {
    let rest = &rest[..rest.find("://").unwrap_or(rest.len())];
    let authority =
        &rest[..rest.find(['/', '?', '#', '\\', ',', ';', ')', '\'', ' ']).unwrap_or(rest.len())];
    if authority.starts_with('[') {
        return None;
    }
    let (_, port) = authority.split_once(':')?;
    let is_port = port.trim_end_matches([':', '.']).bytes().all(|byte| byte.is_ascii_digit());
    (!is_port).then_some(rest.len())
}

/// Returns the position of the last `@` that does not start a digest.
fn last_at(text: &str) -> Option<usize> {
    ats(text).next()
}

/// Returns the positions of all `@` that do not start a digest, the last one first.
fn ats(text: &str) -> impl Iterator<Item = usize> {
    let is_digest =
        |rest: &str| ["sha256:", "sha512:", "sha384:"].iter().any(|start| rest.starts_with(start));
    text.rmatch_indices('@').map(|(at, _)| at).filter(move |at| !is_digest(&text[at + 1..]))
}

fn starts_host(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '[')
}

/// Returns whether an authority, followed by a path that contains `@`, is certainly a host: a name
/// with a dot or an address, with an optional port.
fn is_host(scheme: &str, authority: &str) -> bool {
    if authority.is_empty() {
        return !scheme.to_ascii_lowercase().starts_with("http");
    }
    let (host, port) = match authority.rfind(':').filter(|_| !authority.ends_with(']')) {
        Some(colon) => (&authority[..colon], &authority[colon + 1..]),
        None => (authority, ""),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_named = (host.contains('.') || host == "localhost") && host.chars().all(is_name);
    (is_address || is_named) && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the query or fragment of a URL, without `?` or `#`, if it may be secret.
fn ending(word: &str, span: Range<usize>) -> Option<Range<usize>> {
    let part = span.start + 1..span.end;
    let is_query = word[span.start..].starts_with('?');
    (is_query || is_secret_fragment(&word[part.clone()])).then_some(part)
}

/// Returns whether a fragment is something other than the anchor of a page or a key that pip reads.
fn is_secret_fragment(text: &str) -> bool {
    const READ_BY_PIP: [&str; 6] = ["sha256", "sha384", "sha512", "egg", "subdirectory", "md5"];
    let keys = text.split('&').filter_map(|part| part.split_once('='));
    let has_value = keys.into_iter().any(|(key, _)| !READ_BY_PIP.contains(&key));
    let has_user = text.contains('@');
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    let is_random = text.len() >= 20
        && !text.contains('=')
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase);
    has_value || has_user || is_random
}

/// Returns the user information of an address without a scheme: `user:password@host/path`. It ends
/// at `at`, the last `@` with a host after it.
fn bare_user(word: &str, at: usize) -> Option<Range<usize>> {
    let mut from = 0;
    for (colon, _) in word[..at].match_indices(':') {
        if word[colon..].starts_with("://") {
            return None;
        }
        let start = word[from..colon].rfind(['/', '=', ',', '(', '[', '{', '\'']);
        let start = start.map_or(from, |separator| from + separator + 1);
        let name = &word[start..colon];
        // These prefixes are kinds of outputs; `pkg:` starts a package URL.
        let is_kind = ["", "registry", "engine", "oci", "oci-archive", "pkg"].contains(&name);
        if !is_kind && !is_port(name, &word[colon + 1..at]) {
            return Some(start..at);
        }
        from = colon + 1;
    }
    None
}

/// Returns whether the text before a colon is a host and the text after it a port and a path.
fn is_port(host: &str, rest: &str) -> bool {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let is_ended = rest[end..].starts_with(['/', '=']);
    (1..=5).contains(&end)
        && is_ended
        && (host.contains('.') || host == "localhost" || host.ends_with(']'))
}

/// Returns the user information of a URL if the whole URL, or its colon, is percent-encoded.
fn escaped_user(word: &str, last: Option<usize>) -> Option<Range<usize>> {
    let lower = word.to_ascii_lowercase();
    let colon = lower.find("%3a")?;
    let start = match lower.find("%3a%2f%2f") {
        Some(separator) => separator + "%3a%2f%2f".len(),
        None => lower[..colon].rfind(['/', '=', ',']).map_or(0, |at| at + 1),
    };
    let end = last.max(lower.rfind("%40")).filter(|end| *end > start)?;
    Some(start..end)
}

/// Returns the credentials of `Authorization` headers.
fn authorizations(text: &str, lower: &str) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (at, name) in lower.match_indices("authorization") {
        if all.last().is_none_or(|last| last.end <= at) {
            all.extend(credentials(text, at + name.len()));
        }
    }
    all
}

/// Returns the credentials after a header name that ends at `at`.
fn credentials(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].trim_start_matches(['"', '\'', '\\', '`', ' ', '\t']);
    let rest = rest.strip_prefix([':', '='])?;
    let rest = rest.trim_start_matches(['"', '\'', '\\', ' ', '\t']);
    let word = rest.split([' ', '\t']).next().unwrap_or_default();
    let is_scheme = ["bearer", "basic", "token", "digest", "negotiate", "apikey"]
        .contains(&word.to_ascii_lowercase().as_str());
    let value = if is_scheme { rest[word.len()..].trim_start_matches([' ', '\t']) } else { rest };
    let is_whole_line = word.eq_ignore_ascii_case("digest");
    let ends =
        |c: char| c.is_control() || "\"'`<>".contains(c) || (!is_whole_line && c.is_whitespace());
    let end = value.find(ends).unwrap_or(value.len());
    let start = text.len() - value.len();
    (end > 0).then_some(start..start + end)
}

/// Returns the tokens after the word `Bearer`.
fn bearer(text: &str, lower: &str) -> Vec<Range<usize>> {
    const SHORTEST: usize = 16;
    let starts = lower.match_indices("bearer ").map(|(at, word)| at + word.len());
    let token = |start: usize| {
        let rest = &text[start..];
        let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let end = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        (end >= SHORTEST).then_some(start..start + end)
    };
    starts.filter_map(token).collect()
}

/// Returns the values whose names indicate a secret.
fn named_values(text: &str, extent: Extent) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(is_name).map(|at| from + at) {
        let end = text[start..].find(|c| !is_name(c)).map_or(text.len(), |at| start + at);
        from = end;
        if says_secret(&text[start..end])
            && let Some(span) = value_after(text, start..end, extent)
        {
            from = from.max(span.end);
            all.push(span);
        }
    }
    all
}

/// Returns whether the name of a variable, argument, key or header indicates a secret value.
fn says_secret(name: &str) -> bool {
    const PARTS: [&str; 10] = [
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "SECRET",
        "CREDENTIAL",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
        "AUTH_KEY",
    ];
    // The last words of variables, such as `DB_PASS` and `GITHUB_PAT`.
    const LAST: [&str; 6] = ["AUTH", "JWT", "CRED", "CREDS", "COOKIE", "TOKEN"];
    // The last words of variables with a key that is not public. The last word of `GPG_KEY` or
    // `SORT_KEY` says nothing.
    const KEYS: [&str; 12] = [
        "ADMIN_KEY",
        "APP_KEY",
        "DECRYPTION_KEY",
        "DEPLOY_KEY",
        "ENCRYPTION_KEY",
        "LICENCE_KEY",
        "LICENSE_KEY",
        "MASTER_KEY",
        "SERVICE_KEY",
        "SHARED_KEY",
        "SIGNING_KEY",
        "SSH_KEY",
    ];
    const WORDS_IN_PASS: [&str; 4] = ["BYPASS", "COMPASS", "SURPASS", "TRESPASS"];
    // The last words of names of messages, such as `api-key-refused`.
    const STATES: [&str; 4] = ["MISSING", "REFUSED", "INVALID", "EXPIRED"];
    let is_variable = !name.contains(|c: char| c.is_ascii_lowercase());
    let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
    let last = name.rsplit('_').next().unwrap_or_default();
    // Docker's programs that keep passwords.
    if STATES.contains(&last) || name.starts_with("DOCKER_CREDENTIAL_") {
        return false;
    }
    // `PWD` is a folder.
    let is_pass = last.ends_with("PASS") && !WORDS_IN_PASS.iter().any(|word| last.ends_with(word));
    let is_key = KEYS.iter().any(|key| {
        let whole = name == *key || name.ends_with(&format!("_{key}"));
        whole || last == key.replace('_', "")
    });
    let is_last = LAST.contains(&last)
        || is_pass
        || is_key
        || name.ends_with("_PAT")
        || name.ends_with("_PWD");
    name.trim_end_matches('_').ends_with("TOKEN")
        || (is_variable && (is_last || name.split('_').any(|word| word == "TOKEN")))
        || PARTS.iter().any(|part| name.contains(part))
}

/// Returns the value that belongs to a name: after `=`; after `:` if the name is quoted or has
/// several words; after a space if the name is an option.
fn value_after(text: &str, name: Range<usize>, extent: Extent) -> Option<Range<usize>> {
    let rest = &text[name.end..];
    let unquoted = rest.trim_start_matches(['"', '\'', '\\']);
    let is_quoted = unquoted.len() < rest.len();
    let sign = unquoted.trim_start_matches([' ', '\t']);
    let is_long = text[name.clone()].contains(['_', '-']);
    let is_option = rest.starts_with(' ') && text[name.clone()].starts_with("--");
    if text[..name.start].ends_with("${") && rest.starts_with(':') {
        return default_of(text, name.end + 1);
    }
    let value = match sign.chars().next()? {
        _ if is_option && !sign.starts_with("= ") => &rest[1..],
        '=' => sign[1..].trim_start_matches([' ', '\t']),
        ':' if is_quoted || is_long => sign[1..].trim_start_matches([' ', '\t']),
        _ => return None,
    };
    // `$NAME` only names a variable, and ` == ` and ` => ` are operators.
    let is_operator =
        !is_option && sign.len() < unquoted.len() && value.starts_with(['=', '>', '~']);
    if is_operator {
        return None;
    }
    if value.strip_prefix('$').is_some_and(|variable| variable.starts_with(is_name_start)) {
        return None;
    }
    let value = value.trim_start_matches('\\');
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = &value[quote.map_or(0, char::len_utf8)..];
    let is_over = |c: char| match quote {
        Some(quote) => c == quote || c == '\n',
        None => extent == Extent::Text && is_end(c),
    };
    let end = value.find(is_over).unwrap_or(value.len());
    let start = text.len() - value.len();
    (end > 0).then_some(start..start + end)
}

/// Returns the default in `${NAME:-default}`, whose operator is at `at`. `${NAME:?message}` contains
/// a message.
fn default_of(text: &str, at: usize) -> Option<Range<usize>> {
    let value = text[at..].strip_prefix(['-', '=', '+'])?;
    let end = value.find(['}', '\n']).unwrap_or(value.len());
    let variable =
        value[..end].strip_prefix('$').map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    let is_variable = variable.is_some_and(|name| name.chars().all(is_name));
    (end > 0 && !is_variable).then_some(at + 1..at + 1 + end)
}

fn is_name_start(character: char) -> bool {
    character.is_ascii_alphabetic() || "_{(".contains(character)
}

#[cfg(test)]
mod tests {
    use super::{is_host, is_secret_value};

    #[test]
    fn the_name_or_the_value_tells_a_secret() {
        let secret = "Zk3v9Qw7Lx2m";
        for (name, value, expected) in [
            ("API_TOKEN", secret, true),
            ("tracks.a.env.API_TOKEN", secret, true),
            ("PORT", secret, false),
            ("PORT", "https://user:Zk3v9Qw7Lx2m@h.example/", true),
            ("API_TOKEN", "${TOKEN}", false),
            ("API_TOKEN", "", false),
            ("a token of mine", "8080", false),
        ] {
            assert_eq!(is_secret_value(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn hosts_are_told_from_users() {
        for host in
            ["a.example", "a.example:443", "localhost:5000", "[::1]", "[::1]:80", "10.0.0.1"]
        {
            assert!(is_host("https", host), "{host}");
        }
        for other in [
            "",
            "user",
            "user:pass",
            "a.example:pass",
            "a.example:123456",
            "[::1",
            "::1]",
            "a%2e.b",
        ] {
            assert!(!is_host("https", other), "{other}");
        }
        assert!(is_host("file", ""));
    }
}
