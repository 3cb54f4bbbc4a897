//! Reads one word of a shell script: quotes, escapes, variables.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::nested::{self, Open};
use super::{Char, UNKNOWN, Word, is_name};

/// Reads words from a text.
pub(super) struct Scanner<'a> {
    pub(super) chars: &'a [Char],
    pub(super) at: usize,
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) missing: &'a RefCell<Vec<(String, usize)>>,
    pub(super) endless: &'a Cell<usize>,
    /// The nesting depth of defaults, as in `${A:-${B:-…}}`.
    pub(super) depth: usize,
}

/// The maximum nesting depth of defaults that are read.
const DEEPEST: usize = 4;

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
                    // A number before a redirection is its file descriptor.
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
                '$' | '`' => self.expansion(&mut text, false),
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
                '$' | '`' => self.expansion(text, true),
                c => {
                    self.at += 1;
                    text.push(c);
                }
            }
        }
    }

    /// Skips to the end of the open construct. Returns the text before it.
    fn inside(&mut self, open: Open) -> &[Char] {
        let start = self.at;
        self.at = nested::end(self.chars, start, open, self.endless);
        &self.chars[start..self.at.saturating_sub(1).max(start)]
    }

    /// Reads the text after `$`, or a command in backquotes. `is_quoted` says whether it is in
    /// double quotes.
    fn expansion(&mut self, text: &mut String, is_quoted: bool) {
        let is_quoted_command = self.next() == Some('`');
        if is_quoted_command {
            self.inside(Open::Backquote);
            text.push(UNKNOWN);
            return;
        }
        let rest = self.chars.get(self.at + 1..).unwrap_or_default();
        match self.peek() {
            Some('\'') if !is_quoted => {
                self.at += 1;
                self.escapes(text);
            }
            Some('(') => {
                self.at += 1;
                self.inside(Open::parentheses(rest));
                text.push(UNKNOWN);
            }
            Some('{') => {
                self.at += 1;
                let inside = self.inside(Open::braces(rest, is_quoted)).to_vec();
                self.braced(&inside, text, is_quoted);
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
    fn braced(&self, inside: &[Char], text: &mut String, is_quoted: bool) {
        let is_other = |(c, _): &Char| !(c.is_ascii_alphanumeric() || *c == '_');
        let (name, rest) =
            inside.split_at(inside.iter().position(is_other).unwrap_or(inside.len()));
        let name: String = name.iter().map(|(c, _)| *c).collect();
        let has_colon = rest.first().is_some_and(|(c, _)| *c == ':');
        let operator = &rest[usize::from(has_colon)..];
        let set = self.variables.get(&name).filter(|value| !(has_colon && value.is_empty()));
        match (operator.first().map(|(c, _)| *c), set) {
            (None, _) => self.value(&name, text),
            (Some('-' | '=' | '?'), Some(value)) => text.push_str(value),
            (Some('-' | '='), None) => self.default(&operator[1..], text, is_quoted),
            (Some(_), _) => text.push(UNKNOWN),
        }
    }

    /// Reads the default in `${NAME:-default}`.
    fn default(&self, chars: &[Char], text: &mut String, is_quoted: bool) {
        if self.depth == DEEPEST {
            return text.push(UNKNOWN);
        }
        // It is not a problem if variables in a default are unset.
        let missing = RefCell::default();
        let (variables, endless, depth) = (self.variables, self.endless, self.depth + 1);
        let mut scanner = Scanner { chars, at: 0, variables, missing: &missing, endless, depth };
        if is_quoted {
            while scanner.at < chars.len() {
                // `double_quoted` stops at each quote in the default.
                scanner.double_quoted(text);
            }
            return;
        }
        while let Some(c) = scanner.peek() {
            match scanner.word() {
                Some(word) => text.push_str(&word.text),
                None => {
                    scanner.at += 1;
                    text.push(c);
                }
            }
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
