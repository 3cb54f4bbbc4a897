//! Finds the end of `${…}`, `$(…)` and backquotes, whatever is nested in them.

use std::cell::Cell;

use super::{Char, MOST_ENDLESS};

/// An open construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// `${`. In double quotes, a single quote in the word after `:-` and similar operators has no
    /// special meaning.
    Braces { has_single_quotes: bool },
    /// `$(` or `(`.
    Parentheses,
    /// `$((`, which has neither comments nor here documents.
    Arithmetic,
    /// `case` in a command; its patterns end with `)`.
    Case,
    /// A double quote.
    Quote,
    /// A backquote.
    Backquote,
}

impl Open {
    /// Returns the construct that `${` opens. `rest` is the text after it.
    pub(super) fn braces(rest: &[Char], is_quoted: bool) -> Self {
        let is_name = |one: &&Char| one.0.is_ascii_alphanumeric() || one.0 == '_';
        let mut after = rest.iter().skip_while(is_name).map(|(c, _)| *c).peekable();
        after.next_if_eq(&':');
        let is_word = matches!(after.next(), Some('-' | '=' | '?' | '+'));
        Self::Braces { has_single_quotes: !(is_quoted && is_word) }
    }

    /// Returns the construct that `$(` opens. `rest` is the text after it.
    pub(super) fn parentheses(rest: &[Char]) -> Self {
        match rest.first() {
            Some(('(', _)) => Self::Arithmetic,
            _ => Self::Parentheses,
        }
    }
}

/// Words after which a command starts.
const BEFORE: [&str; 9] = ["then", "do", "else", "elif", "if", "while", "until", "!", "{"];

/// Looks for the end of an open construct.
struct Nested<'a> {
    chars: &'a [Char],
    at: usize,
    stack: Vec<Open>,
    /// The word that is being read, and whether it is the first one of a command.
    word: String,
    is_first: bool,
    /// The delimiters of the here documents that start on the next line.
    documents: Vec<String>,
    /// The number of unterminated here documents.
    endless: &'a Cell<usize>,
}

/// Returns the index after the end of the construct that is open at `at`, or the length of the
/// text.
pub(super) fn end(chars: &[Char], at: usize, outer: Open, endless: &Cell<usize>) -> usize {
    let (word, documents) = (String::new(), Vec::new());
    let mut nested =
        Nested { chars, at, stack: vec![outer], word, is_first: true, documents, endless };
    while let Some(open) = nested.stack.last().copied() {
        let Some((c, _)) = chars.get(nested.at).copied() else { break };
        nested.at += 1;
        nested.step(open, c);
    }
    nested.at.min(chars.len())
}

impl Nested<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).map(|(c, _)| *c)
    }

    fn open(&mut self, open: Open) {
        self.stack.push(open);
        self.word.clear();
        self.is_first = true;
    }

    fn step(&mut self, open: Open, c: char) {
        match (open, c) {
            (_, '\\') => self.at += 1,
            (Open::Backquote, '`') | (Open::Quote, '"') | (Open::Braces { .. }, '}') => {
                self.close();
            }
            // Only a backslash escapes a backquote.
            (Open::Backquote, _) => {}
            (_, '`') => self.open(Open::Backquote),
            (_, '$') => self.expansion(open),
            (Open::Quote, _) | (Open::Braces { has_single_quotes: false }, '\'') => {}
            (_, '"') => self.open(Open::Quote),
            (_, '\'') => self.skip_to('\''),
            (Open::Braces { .. }, _) => {}
            (Open::Arithmetic, '(') => self.open(Open::Arithmetic),
            (_, '(') => self.open(Open::Parentheses),
            (Open::Parentheses | Open::Arithmetic, ')') => self.close(),
            (Open::Arithmetic, _) => {}
            (_, c) => self.command(open, c),
        }
    }

    fn close(&mut self) {
        self.stack.pop();
        self.word.clear();
        self.is_first = false;
    }

    fn skip_to(&mut self, end: char) {
        let length = self.chars[self.at..].iter().position(|(c, _)| *c == end);
        self.at = length.map_or(self.chars.len(), |length| self.at + length + 1);
    }

    /// Reads what follows a dollar sign.
    fn expansion(&mut self, open: Open) {
        let rest = self.chars.get(self.at + 1..).unwrap_or_default();
        match self.peek() {
            Some('{') => {
                let is_quoted =
                    open == Open::Quote || open == Open::Braces { has_single_quotes: false };
                self.at += 1;
                self.open(Open::braces(rest, is_quoted));
            }
            Some('(') => {
                self.at += 1;
                self.open(Open::parentheses(rest));
            }
            Some('\'') if open != Open::Quote => {
                self.at += 1;
                while let Some(c) = self.peek().filter(|c| *c != '\'') {
                    self.at += if c == '\\' { 2 } else { 1 };
                }
                self.at += 1;
            }
            // `$$` and `$#` are variables.
            Some('$' | '#') => self.at += 1,
            _ => {}
        }
    }

    /// Reads a character of a command outside of quotes.
    fn command(&mut self, open: Open, c: char) {
        match c {
            '#' if self.word.is_empty() && self.is_after_blank() => {
                while self.peek().is_some_and(|next| next != '\n') {
                    self.at += 1;
                }
            }
            '<' if self.peek() == Some('<') => self.here_document(),
            c if c.is_alphanumeric() || matches!(c, '_' | '-' | '!' | '{') => self.word.push(c),
            _ => {
                self.end_of_word(open, c);
                if c == '\n' {
                    self.skip_documents();
                }
            }
        }
    }

    fn is_after_blank(&self) -> bool {
        let before = self.at.checked_sub(2).and_then(|before| self.chars.get(before));
        before.is_none_or(|(c, _)| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '('))
    }

    fn end_of_word(&mut self, open: Open, c: char) {
        let word = std::mem::take(&mut self.word);
        let is_keyword = self.is_first && (c.is_whitespace() || c == ';' || c == ')');
        match word.as_str() {
            "case" if is_keyword => self.stack.push(Open::Case),
            "esac" if is_keyword && open == Open::Case => {
                self.stack.pop();
                // `esac)` also ends the construct around the command.
                self.at -= usize::from(c == ')');
            }
            _ => {}
        }
        let is_end = matches!(c, '\n' | ';' | '&' | '|' | ')');
        self.is_first =
            is_end || self.is_first && (word.is_empty() || BEFORE.contains(&word.as_str()));
    }

    /// Reads the delimiter of a here document after its first `<`.
    fn here_document(&mut self) {
        self.at += 1;
        // `<<<` is followed by the text itself.
        if self.peek() == Some('<') {
            self.at += 1;
            return;
        }
        while self.peek().is_some_and(|c| matches!(c, '-' | ' ' | '\t')) {
            self.at += 1;
        }
        let mut delimiter = String::new();
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && !";&|<>()".contains(*c)) {
            self.at += 1;
            if !matches!(c, '\'' | '"' | '\\') {
                delimiter.push(c);
            }
        }
        self.documents.push(delimiter);
    }

    /// Skips the here documents that start on this line.
    fn skip_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.documents) {
            if self.endless.get() == MOST_ENDLESS {
                return;
            }
            self.endless.set(self.endless.get() + 1);
            let mut start = self.at;
            for line in self.chars[self.at..].split(|(c, _)| *c == '\n') {
                start += line.len() + 1;
                let text: String = line.iter().map(|(c, _)| *c).collect();
                if text.trim() == delimiter {
                    self.at = start.min(self.chars.len());
                    self.endless.set(self.endless.get() - 1);
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{UNKNOWN, commands};

    /// Returns the words of the last command of a script.
    fn words(text: &str) -> Vec<String> {
        let last = commands("x.sh", text).pop().into_iter();
        let words = last.flat_map(|command| command.words);
        words.map(|word| word.text.replace(UNKNOWN, "?")).collect()
    }

    #[test]
    fn quotes_nest_in_expansions() {
        for text in [
            r#"A="${B#"${C}/"}""#,
            r#"A="${B%%"}"*}""#,
            r#"A="${B//'"'/}""#,
            r#"A=${B#'"'}"#,
            r#"A="${B:-it's}""#,
            r#"A="${B:-${C:-"$(d "e's")"}}""#,
            r#"A="${B#\"}""#,
            r#"A="$(b "c)" "it's" 'd"')""#,
            "A=$(b # it's\n)",
            "A=$(cat <<'E'\nit's )\nE\n)",
            "A=$(case $1 in a) b;; (c) d;; esac)",
            "A=$(b case)",
            "A=$(( 1 << 2 ))$((${#B} + 16#ff))",
            r#"A="`b \`c\` "d"`""#,
            r#"A="$(b "$(c "${D#"("}")" $'\'')""#,
            "A=${#B}$#",
            "A=$(for b in c; do case b in x|y) ;; esac; done)",
            "A=`b 'c'`",
            "((A = 1 << 2))",
        ] {
            let found = commands("x.sh", &format!("{text}\nlast one\n"));
            let last = found.last().map(|one| one.words.len());
            assert_eq!(last, Some(2), "{text}: {found:?}");
        }
        let text = "a \"${B:-\"c d\"}\" ${B:-'e f'}${C-${D:-g}} \"${B:-it's}\" \"${B:?no}\"\n";
        assert_eq!(words(text), ["a", "c d", "e fg", "it's", "?"]);
        let set = "B=\nC=1\na ${B:-2}${B-3}${C:-4}${C:+5}${B:-$C}\n";
        assert_eq!(words(set), ["a", "21?1"]);
    }
}
