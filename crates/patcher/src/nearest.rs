//! Finds the line that is most similar to an anchor that does not match.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::pattern::literals;

/// The line that is most similar to an anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NearestLine {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, cut to 160 characters, control characters escaped.
    pub text: String,
}

/// The maximum number of bytes of a line that are compared: lines of minified files are very long.
const MAX_LINE: usize = 400;

/// Returns the line of `text` that is most similar to the literal parts of the anchor, if the
/// similarity is at least 30 % (Sørensen–Dice coefficient of the pairs of adjacent bytes).
pub(crate) fn nearest_line(anchor: &str, text: &[u8]) -> Option<NearestLine> {
    let wanted: BTreeSet<[u8; 2]> =
        literals(anchor).iter().flat_map(|literal| pairs(literal.as_bytes())).collect();
    if wanted.is_empty() {
        return None;
    }
    let mut best: Option<(usize, usize, &[u8])> = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let found: BTreeSet<[u8; 2]> = pairs(&line[..line.len().min(MAX_LINE)]).collect();
        let shared = found.intersection(&wanted).count();
        let score = 200 * shared / (found.len() + wanted.len());
        if score >= 30 && best.is_none_or(|(most, ..)| score > most) {
            best = Some((score, index + 1, line));
        }
    }
    best.map(|(_, number, line)| NearestLine { line: number, text: shown(line) })
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    bytes.windows(2).map(|pair| [pair[0], pair[1]]).filter(|pair| !pair.contains(&b' '))
}

fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).trim().chars().take(160).collect();
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_variable_is_found() {
        let anchor =
            r#"^[ \t]*set\([ \t]*HIP_SUPPORTED_ARCHS[ \t]+"(?P<list>gfx[0-9a-f]+)"[ \t]*\)"#;
        let text =
            b"project(x)\nset(CUDA_SUPPORTED \"7.0\")\nset(HIP_ARCHS_SUPPORTED \x1b\"gfx906\")\n";
        let found = nearest_line(anchor, text).unwrap();
        assert_eq!(found.line, 3);
        assert_eq!(found.text, "set(HIP_ARCHS_SUPPORTED \\u{1b}\"gfx906\")");
        assert_eq!(nearest_line(anchor, b"nothing\nof the sort\n"), None);
        assert_eq!(nearest_line("[a-z]+", text), None);
    }

    #[test]
    fn the_first_of_equally_similar_lines_is_told() {
        let found = nearest_line("alpha", b"beta\nalphas\nalphas\n").unwrap();
        assert_eq!((found.line, found.text.as_str()), (2, "alphas"));
        let found = nearest_line("alpha", b"alphas\n alpha \nalphas\n").unwrap();
        assert_eq!((found.line, found.text.as_str()), (2, "alpha"));
    }

    /// Twice the shared pairs, divided by the pairs of both sides.
    #[test]
    fn a_similar_line_shares_at_least_30_percent_of_the_pairs() {
        // The anchor has 10 pairs, the line 10, and 3 of them are shared.
        let anchor = "abcdefghijk";
        assert_eq!(nearest_line(anchor, b"abcdLMNOPQR").unwrap().line, 1);
        // One shared pair less.
        assert_eq!(nearest_line(anchor, b"abcKLMNOPQR"), None);
        // One pair more in the line, so the share is less.
        assert_eq!(nearest_line(anchor, b"abcdLMNOPQRS"), None);
        // Pairs with a blank do not count.
        assert_eq!(nearest_line("a b", b"a b"), None);
    }

    #[test]
    fn only_the_beginning_of_a_long_line_is_compared_and_shown() {
        let line = |blanks: usize| format!("{}alpha", " ".repeat(blanks));
        assert!(nearest_line("alpha", line(MAX_LINE - 5).as_bytes()).is_some());
        assert_eq!(nearest_line("alpha", line(MAX_LINE).as_bytes()), None);
        let long = format!("alpha{}", "x".repeat(300));
        assert_eq!(nearest_line("alpha", long.as_bytes()).unwrap().text.len(), 160);
    }
}
