//! Reads commits, digests and file hashes, or `"unresolved"`.
//!
//! People make only a few kinds of mistakes here, and each needs its own advice: a tag instead of a
//! commit, a hash that a terminal truncated, upper-case digits, a missing `sha256:`. Nothing is
//! ever completed or guessed: an incomplete hash is refused.

use names::Digest;

use crate::Pinned;
use crate::checks;
use crate::problem::{Wrong, named, quote, wrong};
use names::{CommitId, Sha256};

/// The text in place of a value that has not been verified yet.
const UNRESOLVED: &str = "unresolved";

/// The place to look up the value of a pin, for help texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a> {
    /// The name of the pin.
    pub(crate) pin: &'a str,
    /// The URL, image or project that it comes from.
    pub(crate) from: &'a str,
    /// The tag, branch or version that it was resolved from, if known.
    pub(crate) under: Option<&'a str>,
}

/// Returns the number of missing digits, as a phrase.
fn missing(digits: usize, of: usize) -> String {
    match of.saturating_sub(digits) {
        1 => format!("1 of {of} digits is missing"),
        missing => format!("{missing} of {of} digits are missing"),
    }
}

/// Reads a commit.
pub(crate) fn commit(text: &str, lookup: Lookup<'_>) -> Result<Pinned<CommitId>, Wrong> {
    if let Ok(commit) = text.parse::<CommitId>() {
        return Ok(Pinned::Resolved(commit));
    }
    let Lookup { pin, from, under } = lookup;
    let is_name =
        checks::git_ref(text).is_ok() && !is_hex(text) && unresolved::<()>(text, "").is_none();
    let under = under.unwrap_or(if is_name { text } else { "TAG" });
    let found = format!(
        "`git ls-remote {from} {under} '{under}^{{}}'` prints it (use the last line); with `\"unresolved\"` in its place, `build-pipeline bump {pin} {under}` looks it up and writes it"
    );
    if let Some(result) = unresolved(text, &found) {
        return result;
    }
    let shape = hex_shape(text, &[40, 64]);
    let message = |why: &str| format!("{} {why}", quote(text));
    Err(match shape {
        HexShape::UpperCase(lower) => {
            wrong(message("has upper-case digits"), format!("write `{lower}`"))
        }
        HexShape::Cut { digits } if digits >= 7 => {
            let whole = text.split(['.', '…']).next().unwrap_or(text);
            let why = format!("is a short commit; {}", missing(digits, 40));
            wrong(
                message(&why),
                format!(
                    "`git rev-parse {whole}` in a clone of {from} prints the full commit; with `\"unresolved\"` in its place, `build-pipeline bump {pin} {under}` looks it up and writes it"
                ),
            )
        }
        HexShape::Long { digits } => wrong(
            message(&format!("has {digits} digits; a commit has 40 (or 64)")),
            "copy it again, without any characters before or after it",
        ),
        HexShape::Cut { .. } | HexShape::Other => {
            let described = text
                .strip_prefix('g')
                .filter(|rest| rest.len() >= 7 && rest.bytes().all(|b| b.is_ascii_hexdigit()));
            match described {
                Some(short) => wrong(
                    message("is the output of `git describe`: a short commit after a `g`"),
                    format!("`git rev-parse {short}` in a clone of {from} prints the full commit"),
                ),
                None => wrong(
                    message("is not a commit, but a tag, branch or other name, which can move"),
                    format!("write it in `ref`, and write its commit here: 40 digits; {found}"),
                ),
            }
        }
    })
}

/// Reads the digest of an image.
pub(crate) fn digest(text: &str, lookup: Lookup<'_>) -> Result<Pinned<Digest>, Wrong> {
    if let Ok(digest) = text.parse::<Digest>() {
        return Ok(Pinned::Resolved(digest));
    }
    let Lookup { pin, from, under } = lookup;
    let under = under.unwrap_or("TAG");
    let found = format!(
        "`skopeo inspect docker://{from}:{under}` prints it; with `\"unresolved\"` in its place, `build-pipeline bump {pin} {under}` looks it up and writes it"
    );
    if let Some(result) = unresolved(text, &found) {
        return result;
    }
    let message = |why: &str| format!("{} {why}", quote(text));
    if let Some((_, digest)) = text.split_once('@') {
        let help = format!("write the part after the `@`: `{digest}`");
        return Err(wrong(message("is a full reference, not a digest"), help));
    }
    let Some((algorithm, hex)) = text.split_once(':') else {
        return Err(match hex_shape(text, &[64]) {
            HexShape::Other if text.len() == 64 && is_hex(text) => {
                wrong(message("has no algorithm prefix"), format!("write `sha256:{text}`"))
            }
            HexShape::Other => wrong(
                message("is not a digest, but a tag or other name, which can move"),
                format!(
                    "write it in `tag`, and write its digest here: `sha256:` and 64 digits; {found}"
                ),
            ),
            _ => wrong(
                message("is not a digest"),
                format!("a digest is `sha256:` and 64 digits, not an image ID; {found}"),
            ),
        });
    };
    if algorithm != "sha256" {
        let help = format!("registries support only sha256 in practice; {found}");
        return Err(wrong(message("uses an algorithm other than sha256"), help));
    }
    Err(sha256_digits(text, hex, "sha256:", &found))
}

/// Reads the SHA-256 of an archive.
pub(crate) fn sha256(text: &str, lookup: Lookup<'_>) -> Result<Pinned<Sha256>, Wrong> {
    let Lookup { pin, from, under } = lookup;
    let under = under.unwrap_or("VERSION");
    let found = format!(
        "the index shows it next to the archive of {from} {under}; with `\"unresolved\"` in its place, `build-pipeline bump {pin} {under}` looks it up and writes it"
    );
    if let Some(result) = unresolved(text, &found) {
        return result;
    }
    if let Ok(hash) = text.parse::<Sha256>() {
        return Ok(Pinned::Resolved(hash));
    }
    match text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256=")) {
        Some(hex) => Err(wrong(
            format!("{} has an algorithm prefix", quote(text)),
            format!("the key already names the algorithm; write only the digits: `{hex}`"),
        )),
        None => Err(sha256_digits(text, text, "", &found)),
    }
}

/// Returns the problem with the digits of an invalid SHA-256.
fn sha256_digits(text: &str, hex: &str, prefix: &str, found: &str) -> Wrong {
    let message = |why: &str| format!("{} {why}", quote(text));
    match hex_shape(hex, &[64]) {
        HexShape::UpperCase(lower) => {
            wrong(message("has upper-case digits"), format!("write `{prefix}{lower}`"))
        }
        HexShape::Cut { digits } => wrong(
            message(&format!("is truncated; {}", missing(digits, 64))),
            format!("write the full value; {found}"),
        ),
        HexShape::Long { digits } => wrong(
            message(&format!("has {digits} digits; a SHA-256 has 64")),
            "copy it again, without any characters before or after it",
        ),
        HexShape::Other => {
            let other = hex.chars().find(|c| !c.is_ascii_hexdigit()).unwrap_or(' ');
            wrong(
                message(&format!("contains {} instead of a hexadecimal digit", named(other))),
                format!("a SHA-256 has 64 digits from 0-9 and a-f; {found}"),
            )
        }
    }
}

/// Returns the result for `unresolved`, and for other words that people write instead of it.
fn unresolved<T>(text: &str, found: &str) -> Option<Result<Pinned<T>, Wrong>> {
    const WORDS: [&str; 9] =
        [UNRESOLVED, "unknown", "todo", "tbd", "none", "null", "latest", "fixme", "?"];
    let lower = text.to_ascii_lowercase();
    if text == UNRESOLVED {
        return Some(Ok(Pinned::Unresolved));
    }
    let is_near = text.len() <= 12 && strsim::damerau_levenshtein(&lower, UNRESOLVED) <= 2;
    (is_near || WORDS.contains(&lower.as_str())).then(|| {
        Err(wrong(
            format!("{} is not a value that can be pinned", quote(text)),
            format!("write `\"{UNRESOLVED}\"` until the value is known; {found}"),
        ))
    })
}

/// How a text differs from a hexadecimal string of the right length.
#[derive(Debug)]
enum HexShape {
    /// The right length, but with upper-case digits; the value is the text in lower case.
    UpperCase(String),
    /// Too few digits, or an ellipsis between them.
    Cut { digits: usize },
    /// Too many digits.
    Long { digits: usize },
    /// Anything else, including a correct text.
    Other,
}

fn hex_shape(text: &str, lengths: &[usize]) -> HexShape {
    let digits = text.replace(['.', '…'], "");
    let shortest = lengths.iter().min().copied().unwrap_or_default();
    let longest = lengths.iter().max().copied().unwrap_or_default();
    match digits.len() {
        _ if digits.is_empty() || !is_hex(&digits) => HexShape::Other,
        length if length < shortest || digits != text => HexShape::Cut { digits: length },
        length if lengths.contains(&length) && digits.bytes().any(|b| b.is_ascii_uppercase()) => {
            HexShape::UpperCase(digits.to_ascii_lowercase())
        }
        length if lengths.contains(&length) => HexShape::Other,
        length if length > longest || length > shortest => HexShape::Long { digits: length },
        _ => HexShape::Other,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}
