//! The conditions of the C preprocessor around a place.

use crate::TreePath;

/// The endings of files that the C preprocessor reads.
const ENDINGS: [&str; 9] = ["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hip", "hpp"];

/// Returns whether the C preprocessor reads a file.
pub(crate) fn is_preprocessed(path: &TreePath) -> bool {
    path.as_str().rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Returns the conditions that begin in `text` and are open at the offset `at`, as one text.
pub(crate) fn around(text: &str, at: usize) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for line in text[..at].lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else { continue };
        let directive = directive.trim();
        let word = directive.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        match word {
            "if" | "ifdef" | "ifndef" => open.push(format!("#{directive}")),
            "elif" | "else" => {
                if let Some(top) = open.last_mut() {
                    *top = format!("#{directive} of {}", top.rsplit(" of ").next().unwrap_or(top));
                }
            }
            "endif" => drop(open.pop()),
            _ => {}
        }
    }
    if open.is_empty() { None } else { Some(open.join(" and ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_conditions_are_found() {
        let text = "a\n#if ROCM >= 7\nb\n# ifdef X\nc\n#endif\nd\n#elif Y\ne\n#else\nf\n#endif\ng";
        let around = |item: &str| around(text, text.find(item).unwrap());
        assert_eq!(around("a"), None);
        assert_eq!(around("b").as_deref(), Some("#if ROCM >= 7"));
        assert_eq!(around("c\n").as_deref(), Some("#if ROCM >= 7 and #ifdef X"));
        assert_eq!(around("d\n#").as_deref(), Some("#if ROCM >= 7"));
        assert_eq!(around("e\n#else").as_deref(), Some("#elif Y of #if ROCM >= 7"));
        assert_eq!(around("f\n#endif\ng").as_deref(), Some("#else of #if ROCM >= 7"));
        assert_eq!(super::around(text, text.len()), None);
    }

    #[test]
    fn only_files_of_the_preprocessor_have_conditions() {
        let is = |name: &str| is_preprocessed(&name.parse().unwrap());
        for ending in ENDINGS {
            assert!(is(&format!("a/b.x.{ending}")), "{ending}");
        }
        for name in ["a.py", "cu", "a.cu.in", "h/a", "a.H", "a.c/b.txt"] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn directives_are_words_and_ends_without_a_begin_are_ignored() {
        let end = |text: &str| around(text, text.len());
        assert_eq!(end("#endif\n#else\n#if A\n").as_deref(), Some("#if A"));
        assert_eq!(end("#ifndef A\n").as_deref(), Some("#ifndef A"));
        assert_eq!(end("#if(A)\n").as_deref(), Some("#if(A)"));
        assert_eq!(end("#iffy A\n#define if\n# pragma x\nif A\n"), None);
        // The condition of `#else` is the first one, not the `#elif` before it.
        assert_eq!(end("#if A\n#elif B\n#elif C\n").as_deref(), Some("#elif C of #if A"));
        // A directive after the place does not count.
        assert_eq!(around("#if A\nx\n#if B\n", 7).as_deref(), Some("#if A"));
    }
}
