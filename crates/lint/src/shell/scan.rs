//! Reads one word of a shell script: quotes, escapes, variables.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{Char, UNKNOWN, Word, is_name};

/// [`UNKNOWN`] as a string.
const UNKNOWN_TEXT: &str = "\u{fffc}";

/// Reads words from a text.
pub(super) struct Scanner<'a> {
    pub(super) chars: &'a [Char],
    pub(super) at: usize,
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) missing: &'a RefCell<Vec<(String, usize)>>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).map(|(c, _)| *c)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    /// Skips blanks and escaped line ends.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match (self.peek(), self.chars.get(self.at + 1)) {
                (Some(' ' | '\t' | '\r'), _) => self.at += 1,
                (Some('\\'), Some(('\n', _))) => self.at += 2,
                _ => return,
            }
        }
    }

    /// Reads a word; returns `None` at an operator or at the end.
    pub(super) fn word(&mut self) -> Option<Word> {
        let line = self.chars.get(self.at)?.1;
        let start = self.at;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' => {
                    // A number before a redirection belongs to it.
                    if text.chars().all(|digit| digit.is_ascii_digit()) {
                        text.clear();
                    }
                    break;
                }
                '\'' => {
                    self.at += 1;
                    while let Some(quoted) = self.next().filter(|next| *next != '\'') {
                        text.push(quoted);
                    }
                }
                '"' => {
                    self.at += 1;
                    self.double_quoted(&mut text);
                }
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped) => text.push(escaped),
                    }
                }
                '$' | '`' => self.expansion(&mut text),
                c => {
                    self.at += 1;
                    text.push(c);
                }
            }
        }
        (self.at > start && !(text.is_empty() && matches!(self.peek(), Some('<' | '>'))))
            .then_some(Word { text, line })
    }

    fn double_quoted(&mut self, text: &mut String) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => text.push(escaped),
                        Some(other) => text.extend(['\\', other]),
                    }
                }
                '$' | '`' => self.expansion(text),
                c => {
                    self.at += 1;
                    text.push(c);
                }
            }
        }
    }

    /// Reads the text after `$`, or a command in backquotes.
    fn expansion(&mut self, text: &mut String) {
        let is_quoted_command = self.next() == Some('`');
        if is_quoted_command {
            while self.next().is_some_and(|c| c != '`') {}
            text.push(UNKNOWN);
            return;
        }
        match self.peek() {
            Some('\'') => {
                self.at += 1;
                self.escapes(text);
            }
            Some('(') => {
                let mut depth = 0;
                while let Some(c) = self.next() {
                    match c {
                        '(' => depth += 1,
                        ')' => depth -= 1,
                        '\'' => while self.next().is_some_and(|quoted| quoted != '\'') {},
                        '\\' => self.at += 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
                text.push(UNKNOWN);
            }
            Some('{') => {
                self.at += 1;
                let mut inside = String::new();
                while let Some(c) = self.next().filter(|c| *c != '}') {
                    inside.push(c);
                }
                self.braced(&inside, text);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                let is_part = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
                while let Some(part) = self.peek().filter(is_part) {
                    self.at += 1;
                    name.push(part);
                }
                self.value(&name, text);
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$' | '!') => {
                self.at += 1;
                text.push(UNKNOWN);
            }
            // A literal dollar sign, for example at the end of a pattern.
            _ => text.push('$'),
        }
    }

    /// Reads the text between `${` and `}`.
    fn braced(&self, inside: &str, text: &mut String) {
        let end =
            inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
        let (name, rest) = inside.split_at(end);
        let operator = rest.strip_prefix(':').unwrap_or(rest);
        let set =
            self.variables.get(name).filter(|value| !(rest.starts_with(':') && value.is_empty()));
        match operator.chars().next() {
            None => self.value(name, text),
            Some('-' | '=') => text.push_str(set.map_or(&operator[1..], String::as_str)),
            Some('?') => text.push_str(set.map_or(UNKNOWN_TEXT, String::as_str)),
            Some(_) => text.push(UNKNOWN),
        }
    }

    fn value(&self, name: &str, text: &mut String) {
        match self.variables.get(name) {
            Some(value) => text.push_str(value),
            None => {
                if is_name(name) {
                    let line = self.chars.get(self.at.min(self.chars.len() - 1)).map_or(0, |c| c.1);
                    self.missing.borrow_mut().push((name.to_owned(), line));
                }
                text.push(UNKNOWN);
            }
        }
    }

    /// Reads `$'…'`.
    fn escapes(&mut self, text: &mut String) {
        while let Some(c) = self.next().filter(|c| *c != '\'') {
            match c {
                '\\' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(escaped @ ('\'' | '"' | '\\')) => text.push(escaped),
                    Some(other) => text.extend(['\\', other]),
                    None => {}
                },
                c => text.push(c),
            }
        }
    }
}
