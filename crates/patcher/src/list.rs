//! Adds an item to a list in the style of that list.
//!
//! The text between two neighbours (separator, blanks, newline, indentation, `\`) is copied, so a
//! list on one line stays on one line, and a list with one item per line keeps that form.

/// A text to insert into a list, and where to insert it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Insertion {
    /// The offset inside the list.
    pub(crate) at: usize,
    /// The text to insert.
    pub(crate) text: String,
}

/// One element of a list, without the surrounding blanks.
#[derive(Debug, Clone, Copy)]
struct Element {
    start: usize,
    end: usize,
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\\'
}

fn elements(list: &str, separator: &str) -> Vec<Element> {
    let separator = separator.trim();
    let mut found = Vec::new();
    let mut from = 0;
    for part in list.split(separator) {
        let start = from + (part.len() - part.trim_start_matches(is_blank).len());
        let end = from + part.trim_end_matches(is_blank).len();
        found.push(Element { start, end: end.max(start) });
        from += part.len() + separator.len();
    }
    found
}

/// Returns whether `item` is one of the elements.
pub(crate) fn contains(list: &str, separator: &str, item: &str) -> bool {
    elements(list, separator).iter().any(|element| &list[element.start..element.end] == item.trim())
}

/// Adds `item` after the last element.
pub(crate) fn append(list: &str, separator: &str, item: &str) -> Result<Insertion, &'static str> {
    let mut elements = elements(list, separator);
    let is_empty = |element: &Element| element.start == element.end;
    let trails = elements.len() > 1 && elements.last().is_some_and(is_empty);
    if trails {
        elements.pop();
    }
    let Some(last) = elements.last().copied().filter(|last| !is_empty(last)) else {
        return Ok(Insertion { at: 0, text: item.to_owned() });
    };
    let tail = if trails { &list[last.start..] } else { &list[last.start..last.end] };
    if has_comment(tail) {
        return Err(
            "the list ends in a comment or a preprocessor line, so nothing can be appended safely; use `list-prepend`",
        );
    }
    let glue = match elements.as_slice() {
        [.., before, _] => &list[before.end..last.start],
        _ => separator,
    };
    if !trails {
        return Ok(Insertion { at: last.end, text: format!("{glue}{item}") });
    }
    // A separator after the last element stays last.
    let bare = separator.trim();
    let trailing = list[last.end..].find(bare).map_or(last.end, |at| last.end + at + bare.len());
    let (before, behind) = match glue.split_once(bare) {
        Some((before, behind)) if elements.len() > 1 => (before, behind),
        // For a list of one element, the text in front of it shows how elements are separated.
        _ => ("", &list[..last.start]),
    };
    Ok(Insertion { at: trailing, text: format!("{behind}{item}{before}{bare}") })
}

/// Adds `item` before the first element.
pub(crate) fn prepend(list: &str, separator: &str, item: &str) -> Result<Insertion, &'static str> {
    let elements = elements(list, separator);
    let Some(first) = elements.first().copied().filter(|first| first.start < first.end) else {
        return Ok(Insertion { at: 0, text: item.to_owned() });
    };
    if has_comment(&list[first.start..first.end]) {
        return Err("the list begins with a comment or a preprocessor line");
    }
    let glue = match elements.as_slice() {
        [_, second, ..] if second.start < second.end => &list[first.end..second.start],
        _ => separator,
    };
    Ok(Insertion { at: first.start, text: format!("{item}{glue}") })
}

/// Returns a list with spaces over its comments (`# …`, `// …`) and preprocessor lines.
pub(crate) fn without_comments(list: &str) -> String {
    let blanked = |line: &str| {
        let comment = [line.find('#'), line.find("//")].into_iter().flatten().min();
        let (code, rest) = line.split_at(comment.unwrap_or(line.len()));
        let end = if rest.ends_with('\n') { "\n" } else { "" };
        format!("{code}{}{end}", " ".repeat(rest.len() - end.len()))
    };
    list.split_inclusive('\n').map(blanked).collect()
}

fn has_comment(element: &str) -> bool {
    element.contains('#') || element.contains("//") || element.contains("/*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        edit: fn(&str, &str, &str) -> Result<Insertion, &'static str>,
        list: &str,
        separator: &str,
        item: &str,
        expected: &str,
    ) {
        let Insertion { at, text } = edit(list, separator, item).unwrap();
        assert_eq!(format!("{}{text}{}", &list[..at], &list[at..]), expected);
        assert!(contains(expected, separator, item), "{expected}");
    }

    #[test]
    fn appending_keeps_the_style() {
        check(append, "gfx90a;gfx942", ";", "gfx1151", "gfx90a;gfx942;gfx1151");
        check(append, "gfx90a", ";", "gfx1151", "gfx90a;gfx1151");
        check(append, "", ";", "gfx1151", "gfx1151");
        check(append, r#""a", "b""#, ", ", r#""c""#, r#""a", "b", "c""#);
        check(append, r#""a","b""#, ", ", r#""c""#, r#""a","b","c""#);
        check(
            append,
            "\n    \"a\",\n    \"b\",\n",
            ", ",
            "\"c\"",
            "\n    \"a\",\n    \"b\",\n    \"c\",\n",
        );
        check(
            append,
            "\n    \"a\",\n    \"b\"\n",
            ", ",
            "\"c\"",
            "\n    \"a\",\n    \"b\",\n    \"c\"\n",
        );
        check(append, "\n    \"a\",\n", ", ", "\"c\"", "\n    \"a\",\n    \"c\",\n");
        check(append, "\"a\", ", ", ", "\"b\"", "\"a\",\"b\", ");
        check(
            append,
            "\"a\", \"b\",\n     \"c\", \"d\"",
            ", ",
            "\"e\"",
            "\"a\", \"b\",\n     \"c\", \"d\", \"e\"",
        );
        check(
            append,
            "defined(A) || defined(B)",
            " || ",
            "defined(C)",
            "defined(A) || defined(B) || defined(C)",
        );
        check(
            append,
            "defined(A) || \\\n  defined(B)",
            " || ",
            "defined(C)",
            "defined(A) || \\\n  defined(B) || \\\n  defined(C)",
        );
        check(append, "900|94[012]", "|", "1151", "900|94[012]|1151");
    }

    #[test]
    fn prepending_keeps_the_style() {
        check(prepend, "gfx90a;gfx942", ";", "gfx1151", "gfx1151;gfx90a;gfx942");
        check(
            prepend,
            "\n  \"a\", \"b\",\n#if X\n  \"c\"\n#endif\n",
            ", ",
            "\"d\"",
            "\n  \"d\", \"a\", \"b\",\n#if X\n  \"c\"\n#endif\n",
        );
        check(prepend, "\n  \"a\",\n  \"b\"\n", ", ", "\"d\"", "\n  \"d\",\n  \"a\",\n  \"b\"\n");
        check(prepend, "a", "|", "b", "b|a");
        check(prepend, "", ";", "a", "a");
    }

    #[test]
    fn nothing_is_appended_after_a_comment() {
        for list in [
            "\"a\", \"b\" # the last",
            "\"a\",\n#if X\n\"b\"\n#endif\n",
            "\"a\", // more to come\n",
            "\"a\",  # one\n",
            "\"a\" /* b */",
        ] {
            assert!(append(list, ", ", "\"c\"").is_err(), "{list:?}");
        }
        assert!(prepend("\n#if X\n\"b\",\n#endif\n", ", ", "\"c\"").is_err());
    }

    #[test]
    fn elements_are_compared_whole() {
        assert!(contains("gfx1151;gfx90a", ";", "gfx1151"));
        assert!(!contains("gfx11510;gfx115", ";", "gfx1151"));
        assert!(contains("defined(A) || \\\n defined(B)", " || ", "defined(B)"));
    }

    #[test]
    fn one_element_shows_how_the_next_is_separated() {
        check(append, "\n  \"a\"\n", ", ", "\"b\"", "\n  \"a\", \"b\"\n");
        check(append, " a,", ", ", "b", " a, b,");
        check(append, "a, b ,", ", ", "c", "a, b , c,");
        check(append, "a ,b ,", ", ", "c", "a ,b ,c ,");
        check(prepend, "a , b", ", ", "c", "c , a , b");
        check(prepend, "a,", ", ", "c", "c, a,");
        check(prepend, "  a", ", ", "c", "  c, a");
    }

    #[test]
    fn an_empty_list_gets_the_bare_item_at_its_begin() {
        for list in ["", "  ", "\n", "\\\n"] {
            for edit in [append, prepend] {
                let expected = Insertion { at: 0, text: "x".to_owned() };
                assert_eq!(edit(list, ",", "x").unwrap(), expected, "{list:?}");
            }
        }
    }

    #[test]
    fn elements_are_compared_without_blanks_and_continuations() {
        assert!(contains(" a ,\\\n b\t", ",", " b "));
        assert!(!contains("a b", ",", "b"));
        assert!(!contains("", ",", "a"));
        assert!(contains("", ",", ""), "an empty list has one empty element");
        assert!(contains("a | b", " | ", "b") && contains("a|b", " | ", "b"));
    }

    #[test]
    fn what_is_in_a_comment_is_not_in_the_list() {
        for (list, expected) in [
            ("\"a\",\n# \"b\",\n\"c\"", "\"a\",\n      \n\"c\""),
            ("a, // b, c\n d", "a,        \n d"),
            ("a, b", "a, b"),
            ("a # é", "a     "),
            ("", ""),
        ] {
            assert_eq!(without_comments(list), expected, "{list:?}");
            assert_eq!(without_comments(list).len(), list.len(), "{list:?}");
        }
    }

    #[test]
    fn comments_inside_a_list_do_not_matter_at_the_other_end() {
        check(append, "a, # one\n b, c", ", ", "d", "a, # one\n b, c, d");
        check(prepend, "a, b // last", ", ", "c", "c, a, b // last");
        for list in ["# one\n a", "// one\n a", "/* one */ a"] {
            assert_eq!(
                prepend(list, ",", "b"),
                Err("the list begins with a comment or a preprocessor line"),
                "{list:?}"
            );
        }
    }
}
