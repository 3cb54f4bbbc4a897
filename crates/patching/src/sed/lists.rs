//! Finds lists in a text, to detect items that a script duplicates or removes.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// A list of items, and the line where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List {
    pub line: usize,
    pub items: Vec<String>,
}

/// The effect of a change on the lists of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Items that occur more than once and more often than before, with the line of their list.
    pub doubled: Vec<(usize, String)>,
    /// Items that were removed from a list that still exists.
    pub dropped: Vec<(usize, String)>,
}

/// A syntax of lists.
struct Form {
    list: Regex,
    item: Regex,
    /// Whether arguments of calls and tuples of values also have this syntax; repeated items are
    /// normal there: `("0", "0")`.
    is_tuple: bool,
}

/// Returns the list syntaxes: `"a;b"`, `["a", "b"]`, `("a", "b")`, `defined(A) || defined(B)`, and
/// lines with names of GPU targets.
fn forms() -> Vec<Form> {
    let form = |list: &str, item: &str| {
        let is_tuple = list.starts_with(r"\(");
        Some(Form { list: Regex::new(list).ok()?, item: Regex::new(item).ok()?, is_tuple })
    };
    [
        form(r#""([^"\n]*;[^"\n]*)""#, r"([^;]+)"),
        // Not a list of objects, as in JSON: the names and values in them are no items.
        form(r#"\[([^\[\]{}]*["'][^\[\]{}]*)\]"#, r#"["']([^"'\n]+)["']"#),
        form(r#"\(([^()]*["'][^()]*,[^()]*)\)"#, r#"["']([^"'\n]+)["']"#),
        form(r"(?m)^[ \t]*#[ \t]*(?:el)?if((?:[^\n]*\\\n)*[^\n]*)$", r"defined\(([A-Za-z0-9_]+)\)"),
        form(r"(?m)^([^\n]*gfx[0-9a-f]{3}[^\n]*)$", r"(?-u:\b)(gfx[0-9a-f]{3,5})(?-u:\b)"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Compares the lists of a text before and after a change.
pub(super) fn compare(before: &str, after: &str) -> Difference {
    let mut difference = Difference::default();
    for form in forms() {
        let old_lists = find(before, &form);
        let new_lists = find(after, &form);
        // If lists were added or removed, only new lists are checked, each on its own.
        let pairs: Vec<(Option<&List>, &List)> = if old_lists.len() == new_lists.len() {
            old_lists.iter().map(Some).zip(&new_lists).collect()
        } else {
            let is_new = |list: &&List| !old_lists.iter().any(|one| one.items == list.items);
            new_lists.iter().filter(is_new).map(|list| (None, list)).collect()
        };
        for (old, new) in pairs {
            let (had, has) = (old.map(counts).unwrap_or_default(), counts(new));
            // In a tuple, an item counts as a duplicate only if the tuple became longer and
            // contains only names.
            let may_double = !form.is_tuple
                || old.is_some_and(|old| new.items.len() > old.items.len())
                    && new.items.iter().all(|item| item.contains(char::is_alphabetic));
            for (item, count) in has.iter().filter(|_| may_double) {
                if *count > 1 && *count > had.get(item).copied().unwrap_or(0) {
                    difference.doubled.push((new.line, (*item).to_owned()));
                }
            }
            let words: BTreeSet<&str> = has.keys().flat_map(|item| words_of(item)).collect();
            for item in had.keys().filter(|item| !has.contains_key(*item)) {
                let gone = words_of(item).into_iter().filter(|word| !words.contains(word));
                difference.dropped.extend(gone.map(|word| (new.line, word.to_owned())));
            }
        }
    }
    for all in [&mut difference.doubled, &mut difference.dropped] {
        all.sort();
        all.dedup();
    }
    difference
}

/// Returns the words of an item that lists GPU targets, such as `"gfx1100;gfx1151"`: these are
/// compared as a set. Another item is one word.
fn words_of(item: &str) -> Vec<&str> {
    if item.contains("gfx") {
        let words = item.split([';', ',', ' ', '=', ':']);
        words.filter(|word| !word.is_empty()).collect()
    } else {
        vec![item]
    }
}

fn counts(list: &List) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for item in &list.items {
        *counts.entry(item.as_str()).or_insert(0) += 1;
    }
    counts
}

fn find(text: &str, form: &Form) -> Vec<List> {
    form.list
        .captures_iter(text)
        .filter_map(|captures| captures.get(1))
        .map(|body| List {
            line: text[..body.start()].matches('\n').count() + 1,
            items: form
                .item
                .captures_iter(body.as_str())
                .map(|captures| captures[1].trim().to_owned())
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, doubled: &[&str], dropped: &[&str]) {
        let found = compare(before, after);
        let names =
            |all: &[(usize, String)]| all.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found.doubled), doubled, "{after}");
        assert_eq!(names(&found.dropped), dropped, "{after}");
    }

    #[test]
    fn items_that_are_doubled_or_dropped_are_seen() {
        check("x \"a;b\"\n", "x \"a;b;c\"\n", &[], &[]);
        check("x \"a;b\"\n", "x \"a;b;b\"\n", &["b"], &[]);
        check("x \"a;b;c\"\n", "x \"c;d\"\n", &[], &["a", "b"]);
        check("[\n 'a',\n 'b',\n]", "[\n 'a',\n 'b',\n 'a']", &["a"], &[]);
        check("(\"gfx1100\", \"gfx1101\")", "(\"gfx1100\",)", &[], &["gfx1101"]);
        check(
            "#if defined(A) || \\\n defined(B)\n",
            "#if defined(A) || \\\n defined(B) || defined(A)\n",
            &["A"],
            &[],
        );
        check("arch: gfx1100 gfx1151\n", "arch: gfx1151 gfx1100 gfx1151\n", &["gfx1151"], &[]);
        check(
            "(\"gfx1100\", \"gfx1101\")",
            "(\"gfx1100\", \"gfx1101\", \"gfx1100\")",
            &["gfx1100"],
            &[],
        );
        // Values and arguments are not lists of names.
        check("v = (\"1\", \"0\")", "v = (\"0\", \"0\")", &[], &["1"]);
        check("x\n", "x\nv = (\"0\", \"0\")\n", &[], &[]);
        check("f(\"cpu\", \"hip\")", "f(\"hip\", \"hip\")", &[], &["cpu"]);
        check("f(\"0\", \"1\")", "f(\"0\", \"1\", \"0\")", &[], &[]);
        // A duplicate that was there before the change is not reported.
        check("x \"a;a\"\ny", "x \"a;a\"\nz", &[], &[]);
    }

    #[test]
    fn targets_are_compared_as_a_set_in_each_syntax() {
        let syntaxes = [
            "{ \"presets\": [ { \"vars\": { \"AMDGPU_TARGETS\": \"LIST\" } } ] }\n",
            "{ \"a\": { \"AMDGPU_TARGETS\": \"LIST\" } }\n",
            "{ \"targets\": [ \"LIST\" ] }\n",
            "set(AMDGPU_TARGETS \"LIST\" CACHE STRING \"targets\")\n",
            "export PYTORCH_ROCM_ARCH=\"LIST\"\n",
            "cmake_args = [\"-DAMDGPU_TARGETS=LIST\", \"-DGGML_HIP=ON\"]\n",
            "f(\"-DAMDGPU_TARGETS=LIST\", \"-DGGML_HIP=ON\")\n",
        ];
        let lists = [
            ("gfx1100;gfx1101", "gfx1151;gfx1100;gfx1101", None),
            ("gfx1100;gfx1101", "gfx1100;gfx1151;gfx1101", None),
            ("gfx1100;gfx1101", "gfx1100;gfx1101;gfx1151", None),
            ("gfx1100;gfx1101", "gfx1101;gfx1100", None),
            ("gfx1100;gfx1101", "gfx1100,gfx1101", None),
            ("gfx1100;gfx1101", "gfx1100 gfx1101 gfx1151", None),
            ("gfx1100,gfx1101", "gfx1100;gfx1101", None),
            ("gfx1100", "gfx1100;gfx1151", None),
            ("gfx1100;gfx1101", "gfx1100", Some("gfx1101")),
            ("gfx1100;gfx1101", "gfx1151;gfx1101", Some("gfx1100")),
            ("gfx1100;gfx1101", "gfx1101,gfx1151", Some("gfx1100")),
            ("gfx1100", "gfx1151", Some("gfx1100")),
        ];
        for syntax in syntaxes {
            for (old, new, dropped) in lists {
                let text = |list: &str| syntax.replace("LIST", list);
                check(&text(old), &text(new), &[], dropped.as_slice());
            }
        }
    }

    #[test]
    fn lines_are_told() {
        let found = compare("\n\nset(X \"a;b\")", "\n\nset(X \"a;b;a\")");
        assert_eq!(found.doubled, [(3, "a".to_owned())]);
    }
}
