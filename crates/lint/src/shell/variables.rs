//! The variables that `declare` and similar commands set, arrays, and variables that contain the
//! name of a program.

use super::{Char, Reader, Scope, UNKNOWN, Word, end_of_line, is_name};

impl Reader {
    /// Reads `export NAME=value NAME` and similar commands.
    pub(super) fn declare(&mut self, words: &[Word]) {
        let has_export_option =
            words[1..].iter().any(|word| word.text.starts_with('-') && word.text.contains('x'));
        let exports = words[0].text == "export" || has_export_option;
        let scope = if exports { Scope::Exported } else { Scope::Shell };
        for word in words[1..].iter().filter(|word| !word.text.starts_with('-')) {
            if let Some((name, value)) = word.text.split_once('=') {
                self.set(name, value, word.line, scope);
                continue;
            }
            self.declared.insert(word.text.clone());
            let earlier = self.script.settings.iter_mut().filter(|one| one.name == word.text);
            if exports {
                for setting in earlier.filter(|one| one.scope == Scope::Shell) {
                    setting.scope = Scope::Exported;
                }
            }
        }
    }

    /// Reads the words of `NAME=(…)` and `NAME+=(…)`, which start at a position.
    pub(super) fn array(&mut self, start: &str, chars: &[Char], first: usize) {
        let Some(name) = start.strip_suffix('=') else { return };
        let (name, is_added) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        if !is_name(name) {
            return;
        }
        let mut scanner = self.scanner(chars, first);
        let mut words: Vec<Word> = Vec::new();
        loop {
            scanner.skip_blanks();
            match chars.get(scanner.at) {
                Some(('\n', _)) => scanner.at += 1,
                Some(('#', _)) => scanner.at = end_of_line(chars, scanner.at),
                _ => match scanner.word() {
                    Some(word) => words.push(word),
                    None => break,
                },
            }
        }
        let array = self.arrays.entry(name.to_owned()).or_default();
        if !is_added {
            array.clear();
        }
        array.extend(words);
        array.truncate(MOST_WORDS);
    }

    /// Adds a word to a command. `raw` is its text before variables are resolved.
    ///
    /// An array among the options of `docker run` is replaced with its words, and `$PIP` with `pip`.
    /// A shell splits the value of a variable without quotes at blanks.
    pub(super) fn add_word(&self, word: Word, raw: &[Char], words: &mut Vec<Word>) {
        let is_quoted = raw.iter().any(|(c, _)| *c == '"');
        let raw: String = raw.iter().map(|(c, _)| *c).filter(|c| *c != '"').collect();
        let name = raw.strip_prefix('$').map(|rest| rest.trim_matches(['{', '}']));
        let Some(name) = name else { return words.push(word) };
        let array = name.strip_suffix("[@]").and_then(|name| self.arrays.get(name));
        match array.filter(|_| starts_container(words)) {
            Some(array) => words.extend(array.iter().cloned()),
            None if words.is_empty() && is_pip(name) => words.extend(pip(&word)),
            None if !is_quoted && is_name(name) => words.extend(split(&word)),
            None => words.push(word),
        }
    }
}

/// The maximum number of words of an array. The options of a container are fewer.
const MOST_WORDS: usize = 200;

/// Returns whether words are the start of a command that creates a container.
fn starts_container(words: &[Word]) -> bool {
    let is_engine = |word: &Word| matches!(&*word.text, "docker" | "podman" | "nerdctl");
    let at = words.iter().take(MOST_BEFORE).position(is_engine);
    let next = at.and_then(|at| words.get(at + 1));
    next.is_some_and(|next| matches!(&*next.text, "run" | "create"))
}

/// The maximum number of words before the name of a container engine: `if ! sudo -E docker`.
const MOST_BEFORE: usize = 5;

/// Returns whether a variable contains the name of pip: `PIP`, `VENV_PIP`.
fn is_pip(name: &str) -> bool {
    is_name(name)
        && name.strip_suffix("PIP").is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}

/// Returns the words of a variable that contains the name of pip: `python3 -m pip`, or a path that
/// is not known.
fn pip(word: &Word) -> Vec<Word> {
    let is_unknown = word.text.chars().eq(std::iter::once(UNKNOWN));
    let text = if is_unknown { "pip" } else { &word.text };
    split(&Word { text: text.to_owned(), line: word.line })
}

/// Returns the parts of a word between blanks.
fn split(word: &Word) -> Vec<Word> {
    let parts = word.text.split_whitespace();
    parts.map(|part| Word { text: part.to_owned(), line: word.line }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::commands;

    #[test]
    fn arrays_and_names_of_programs_are_expanded() {
        let shown = |text: &str| {
            let last = commands("x.sh", text).pop().into_iter();
            let words = last.flat_map(|command| command.words);
            let words: Vec<String> =
                words.map(|word| format!("{}:{}", word.line, word.text)).collect();
            words.join(" ")
        };
        let array = "A=(\n  --rm # one\n  -v \"/x y:/z\"\n)\nA+=(--init)\n";
        let run = format!("{array}sudo docker run \"${{A[@]}}\" a/b:1\n");
        assert_eq!(shown(&run), "6:docker 6:run 2:--rm 3:-v 3:/x y:/z 5:--init 6:a/b:1");
        assert_eq!(shown(&format!("{array}x \"${{A[@]}}\" y\n")), "6:x 6:\u{fffc} 6:y");
        assert_eq!(shown("\"$MY_PIP\" install a\n"), "1:pip 1:install 1:a");
        assert_eq!(
            shown("PIP=\"python3 -m pip\"\n$PIP install a\n"),
            "2:python3 2:-m 2:pip 2:install 2:a"
        );
        assert_eq!(shown("$MYPIP install a\n"), "1:\u{fffc} 1:install 1:a");
        assert_eq!(shown("D='A=1 B=2'\nenv $D x\n"), "2:x");
        assert_eq!(shown("D='--a b'\nx ${D} y\n"), "2:x 2:--a 2:b 2:y");
        assert_eq!(shown("D='--a b'\nx \"$D\" y\n"), "2:x 2:--a b 2:y");
        for text in ["A=(", "A=(\\", "A=(B=(C=(", "docker run ${[@]}", "docker run $"] {
            commands("x.sh", text);
        }
    }
}
