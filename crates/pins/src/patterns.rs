//! Regular expressions in data files: the texts that every match contains. A search for these
//! texts finds the few lines that the expression must be matched with.

use regex_syntax::hir::{Class, Hir, HirKind};

/// The largest number of texts that a part of a pattern is written out as.
const MOST_TEXTS: usize = 16;
/// The largest number of repetitions of a part that is written out.
const MOST_REPEATED: u32 = 16;

/// Parses a regular expression for bytes. Returns `None` if it is invalid, or uses classes of
/// Unicode characters.
pub fn syntax(pattern: &str) -> Option<Hir> {
    regex_syntax::ParserBuilder::new().utf8(false).unicode(false).build().parse(pattern).ok()
}

/// Returns all texts that an expression matches, or `None` if they are more than 16, or if it also
/// depends on what surrounds a text.
pub fn all_texts(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    let texts = match hir.kind() {
        HirKind::Empty => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Class(Class::Bytes(class)) => {
            let bytes = class.iter().flat_map(|range| range.start()..=range.end());
            bytes.take(MOST_TEXTS + 1).map(|byte| vec![byte]).collect()
        }
        // The parser makes `(a|b)` a class of characters.
        HirKind::Class(Class::Unicode(class)) => {
            let characters = class.iter().flat_map(|range| range.start()..=range.end());
            characters.take(MOST_TEXTS + 1).map(|one| one.to_string().into_bytes()).collect()
        }
        HirKind::Capture(capture) => return all_texts(&capture.sub),
        HirKind::Concat(parts) => parts
            .iter()
            .try_fold(vec![Vec::new()], |before, part| joined(&before, &all_texts(part)?))?,
        HirKind::Alternation(branches) => {
            branches.iter().map(all_texts).collect::<Option<Vec<_>>>()?.concat()
        }
        HirKind::Repetition(repeated) => {
            let (least, most) = (repeated.min, repeated.max.filter(|most| *most <= MOST_REPEATED)?);
            let one = all_texts(&repeated.sub)?;
            let times = |count| (0..count).try_fold(vec![Vec::new()], |all, _| joined(&all, &one));
            (least..=most).map(times).collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    };
    (texts.len() <= MOST_TEXTS).then_some(texts)
}

/// Appends each of `after` to each of `before`, unless these are too many texts.
fn joined(before: &[Vec<u8>], after: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let all = before.iter().flat_map(|one| after.iter().map(|two| [&one[..], two].concat()));
    (before.len() * after.len() <= MOST_TEXTS).then(|| all.collect())
}

/// Returns choices of texts: every match contains a text of each choice. For an alternation, the
/// choice has the longest texts of all branches.
pub fn required_texts(hir: &Hir) -> Vec<Vec<Vec<u8>>> {
    let mut choices = match hir.kind() {
        _ if all_texts(hir).is_some() => all_texts(hir).into_iter().collect(),
        HirKind::Capture(capture) => required_texts(&capture.sub),
        HirKind::Concat(parts) => required_in_order(parts),
        HirKind::Repetition(repeated) if repeated.min > 0 => required_texts(&repeated.sub),
        HirKind::Alternation(branches) => {
            let each = branches.iter().map(|branch| longest(required_texts(branch)));
            let all: Option<Vec<_>> = each.collect();
            all.map(|texts| texts.concat()).into_iter().collect()
        }
        _ => Vec::new(),
    };
    choices.retain(|texts| texts.iter().all(|text| !text.is_empty()));
    choices
}

/// Returns the choices of parts that follow each other. Parts with few texts are joined.
fn required_in_order(parts: &[Hir]) -> Vec<Vec<Vec<u8>>> {
    let mut choices = Vec::new();
    let mut run = vec![Vec::new()];
    for part in parts {
        let texts = all_texts(part);
        if let Some(longer) = texts.as_ref().and_then(|texts| joined(&run, texts)) {
            run = longer;
            continue;
        }
        choices.push(std::mem::replace(&mut run, vec![Vec::new()]));
        match texts {
            Some(texts) => run = texts,
            None => choices.extend(required_texts(part)),
        }
    }
    choices.push(run);
    choices
}

/// Returns the choice whose shortest text is longest.
pub fn longest(choices: Vec<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    choices.into_iter().max_by_key(|texts| texts.iter().map(Vec::len).min())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_match_has_a_text_of_each_choice() {
        let check = |pattern: &str, expected: &[&[&str]]| {
            let found =
                required_texts(&syntax(pattern).unwrap()).into_iter().map(BTreeSet::from_iter);
            let found: Vec<BTreeSet<Vec<u8>>> = found.collect();
            let bytes =
                |texts: &&[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            let expected: Vec<_> = expected.iter().map(bytes).collect();
            assert_eq!(found, expected, "{pattern}");
        };
        check("fault by GPU node-.+", &[&["fault by GPU node-"]]);
        check("(abcdef|ghijkl)x*", &[&["abcdef", "ghijkl"]]);
        check("ab.*cdefgh", &[&["ab"], &["cdefgh"]]);
        check("(ab.*cde|f+gh)i", &[&["cde", "gh"], &["i"]]);
        check("(abcdef)?", &[]);
        check("(abcdef|.)", &[]);
        check("[a-z]+", &[]);
        check("(?i)ab", &[&["AB", "Ab", "aB", "ab"]]);
        check("gfx115[01]", &[&["gfx1150", "gfx1151"]]);
        check("gfx115[0-9a-z]{2}", &[&["gfx115"]]);
        check("(ab|cd)e?f[^x]", &[&["abef", "abf", "cdef", "cdf"]]);
        check(
            "ab(c|d)[0-9]x",
            &[&["abc", "abd"], &["0x", "1x", "2x", "3x", "4x", "5x", "6x", "7x", "8x", "9x"]],
        );
        check("a(bc){0,2}d", &[&["ad", "abcd", "abcbcd"]]);
        check("a(bc){2}[a-z]{3}d", &[&["abcbc"], &["d"]]);
        check("^ab$", &[&["ab"]]);
        assert!(syntax("(a").is_none() && syntax(r"\p{Greek}").is_none());
    }

    #[test]
    fn the_longest_choice_is_judged_by_its_shortest_text() {
        let choices = required_texts(&syntax("(a|bcdefghij).*klm").unwrap());
        assert_eq!(longest(choices), Some(vec![b"klm".to_vec()]));
        assert_eq!(longest(Vec::new()), None);
    }
}
