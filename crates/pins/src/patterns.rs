//! Regular expressions in data files: the texts that every match contains. A search for these
//! texts finds the few lines that the expression must be matched with.

use regex_syntax::hir::{Hir, HirKind};

/// Parses a regular expression for bytes. Returns `None` if it is invalid, or uses classes of
/// Unicode characters.
pub fn syntax(pattern: &str) -> Option<Hir> {
    regex_syntax::ParserBuilder::new().utf8(false).unicode(false).build().parse(pattern).ok()
}

/// Returns choices of texts: every match contains a text of each choice. For an alternation, the
/// choice has the longest texts of all branches.
pub fn required_texts(hir: &Hir) -> Vec<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(literal) => vec![vec![literal.0.to_vec()]],
        HirKind::Capture(capture) => required_texts(&capture.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(required_texts).collect(),
        HirKind::Alternation(branches) => {
            let each = branches.iter().map(|branch| longest(required_texts(branch)));
            let all: Option<Vec<_>> = each.collect();
            all.map(|texts| texts.concat()).into_iter().collect()
        }
        HirKind::Repetition(repeated) if repeated.min > 0 => required_texts(&repeated.sub),
        _ => Vec::new(),
    }
}

/// Returns the choice whose shortest text is longest.
pub fn longest(choices: Vec<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    choices.into_iter().max_by_key(|texts| texts.iter().map(Vec::len).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_match_has_a_text_of_each_choice() {
        let check = |pattern: &str, expected: &[&[&str]]| {
            let found = required_texts(&syntax(pattern).unwrap());
            let bytes = |texts: &&[&str]| {
                texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>()
            };
            let expected: Vec<_> = expected.iter().map(bytes).collect();
            assert_eq!(found, expected, "{pattern}");
        };
        check("fault by GPU node-[0-9]+", &[&["fault by GPU node-"]]);
        check("(abcdef|ghijkl)x?", &[&["abcdef", "ghijkl"]]);
        check("ab.*cdefgh", &[&["ab"], &["cdefgh"]]);
        check("(ab.*cde|f+gh)i", &[&["cde", "gh"], &["i"]]);
        check("(abcdef)?", &[]);
        check("(abcdef|.)", &[]);
        check("[a-z]+", &[]);
        check("(?i)ab", &[]);
        assert!(syntax("(a").is_none() && syntax(r"\p{Greek}").is_none());
    }

    #[test]
    fn the_longest_choice_is_judged_by_its_shortest_text() {
        let choices = required_texts(&syntax("(a|bcdefghij).*klm").unwrap());
        assert_eq!(longest(choices), Some(vec![b"klm".to_vec()]));
        assert_eq!(longest(Vec::new()), None);
    }
}
