//! Finds out which commands of a script run only for another vendor's GPU: the branches of `if` and
//! `case` on the name of a backend.

use super::Word;

/// The open `if` and `case` constructs.
#[derive(Debug, Default)]
pub(super) struct Branches {
    open: Vec<Branch>,
}

/// An open construct.
#[derive(Debug)]
struct Branch {
    part: Part,
    /// Whether the commands run only for another vendor.
    is_other: bool,
    /// Whether a condition of the construct names AMD, so that the rest is for others.
    names_amd: bool,
}

/// What is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The condition of an `if`.
    Condition,
    /// The commands after it.
    Body,
    /// The arms of a `case`.
    Case,
}

/// Starts of the names of other backends.
const OTHERS: [&str; 9] =
    ["cuda", "nvidia", "cpu", "openvino", "intel", "xpu", "metal", "mps", "cu1"];

/// Starts of the names of AMD's backend.
const AMD: [&str; 4] = ["rocm", "amd", "hip", "gfx"];

/// Returns whether the value of a comparison names another backend; `None` if it names none.
fn is_other(value: &str) -> Option<bool> {
    let lower = value.to_ascii_lowercase();
    let plain = lower.trim_matches(|c: char| matches!(c, '"' | '\'' | '*' | '^' | '(' | ' '));
    let starts = |names: &[&str]| names.iter().any(|name| plain.starts_with(name));
    if starts(&AMD) {
        return Some(false);
    }
    starts(&OTHERS).then_some(true)
}

impl Branches {
    /// Forgets all open constructs.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Returns whether the next command runs only for another vendor.
    pub(super) fn is_for_other(&self) -> bool {
        self.open.iter().any(|one| one.is_other && one.part != Part::Condition)
    }

    /// Notes a word before a command: `if`, `then`, `else`, `elif`.
    pub(super) fn word(&mut self, word: &str) {
        if word == "if" {
            let new = Branch { part: Part::Condition, is_other: false, names_amd: false };
            return self.open.push(new);
        }
        let Some(last) = self.open.last_mut().filter(|one| one.part != Part::Case) else { return };
        match word {
            "then" => last.part = Part::Body,
            "elif" => (last.part, last.is_other) = (Part::Condition, false),
            "else" => (last.part, last.is_other) = (Part::Body, last.names_amd),
            _ => {}
        }
    }

    /// Notes a command: a condition, `case`, or the end of a construct.
    pub(super) fn command(&mut self, words: &[Word]) {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match texts[0] {
            "fi" | "esac" => {
                self.open.pop();
            }
            "case" => {
                let new = Branch { part: Part::Case, is_other: false, names_amd: false };
                self.open.push(new);
                if let Some(pattern) = texts.get(3) {
                    self.pattern(pattern);
                }
            }
            _ => self.condition(&texts),
        }
    }

    /// Notes the pattern of an arm of `case`.
    pub(super) fn pattern(&mut self, pattern: &str) {
        let Some(last) = self.open.last_mut().filter(|one| one.part == Part::Case) else { return };
        let judged = is_other(pattern);
        last.is_other = judged == Some(true) || pattern == "*" && last.names_amd;
        last.names_amd |= judged == Some(false);
    }

    /// Notes a command of a condition.
    fn condition(&mut self, texts: &[&str]) {
        let Some(last) = self.open.last_mut().filter(|one| one.part == Part::Condition) else {
            return;
        };
        let value = |two: &[&str]| match two[0] {
            "=" | "==" | "=~" => is_other(two[1]),
            "!=" => is_other(two[1]).map(|judged| !judged),
            _ => None,
        };
        let judged = texts.windows(2).find_map(value).or_else(|| {
            let asks = texts.iter().any(|text| text.contains("nvidia-smi") || *text == "nvcc");
            (asks && !texts.contains(&"!")).then_some(true)
        });
        if let Some(judged) = judged {
            last.is_other = judged && !last.names_amd;
            last.names_amd |= !judged;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands;

    #[test]
    fn branches_belong_to_a_vendor() {
        for (text, expected) in [
            (
                "if [ \"$B\" = \"cuda\" ]; then\nx\nelif [ \"$B\" = rocm ]; then y; else z; fi\nend",
                "xz",
            ),
            ("case \"$B\" in\n  cuda)\n    x ;;\n  rocm) y ;;\n  *) z ;;\nesac\nend", "xz"),
            ("case $B in nvidia|cuda) x;; amd) y;; esac", "x"),
            ("if [ \"$B\" != rocm ]; then x; fi; y", "x"),
            ("if command -v nvidia-smi; then x; else y; fi", "x"),
            ("if [ -n \"$B\" ]; then y; else z; fi", ""),
            ("if [ $B = rocm ]; then if a; then y; fi; else x; fi", "x"),
            ("if [ $B = cuda ] || [ $B = rocm ]; then y; fi", ""),
        ] {
            let found = commands("x.sh", text);
            let names = ["x", "y", "z", "end"];
            let others = found.iter().filter(|one| one.is_for_other);
            let others = others.filter(|one| names.contains(&&*one.words[0].text));
            let shown: String = others.map(|one| one.words[0].text.as_str()).collect();
            assert_eq!(shown, expected, "{text}");
        }
    }
}
