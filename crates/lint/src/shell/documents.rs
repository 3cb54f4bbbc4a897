//! Reads content that a script or `COPY` writes for later use: here documents, lines of `echo`,
//! aliases.

use crate::facts::is_environment;

use super::{
    Char, Document, MOST_ENDLESS, Reader, Scope, UNKNOWN, Word, end_of_line, is_name, numbered,
};

/// Lines that only systemd units and compose files have.
const DOCUMENTS: [&str; 3] = ["[Service]", "[Container]", "services:"];

/// The name endings of the files whose content is read.
const READ: [&str; 10] = [
    ".sh",
    ".repo",
    ".list",
    ".service",
    ".container",
    ".conf",
    ".yml",
    ".yaml",
    "/environment",
    "/.bashrc",
];

/// The word that ends a here document.
pub(super) struct Delimiter {
    pub(super) text: String,
    /// Whether it was quoted, so that the shell does not expand variables in the document.
    pub(super) is_quoted: bool,
}

impl Reader {
    /// Reads the files that `COPY <<EOF …` writes. Returns the next line to read.
    pub(super) fn copied_documents(&mut self, text: &str, lines: &[&str], index: usize) -> usize {
        let mut next = index;
        for delimiter in here_documents(text) {
            let begin = next;
            let Some(length) = end_of_document(&lines[begin..], &delimiter) else { continue };
            next += length;
            let body = lines[begin..next].join("\n");
            let path = text.trim_end().trim_end_matches(['"', '\'', ']', ' ']);
            let is_known = READ.iter().any(|end| path.ends_with(end)) || is_environment(path);
            let first = body.lines().next().unwrap_or_default();
            if is_known || first.starts_with("#!") && first.contains("sh") {
                let folder = self.folder.clone();
                self.document(&numbered(&body, begin + 1), text, false);
                self.folder = folder;
            }
            next += 1;
        }
        next
    }

    /// Reads the body of a here document as a separate script.
    /// `place` is the command with the path that it writes.
    pub(super) fn here_document(
        &mut self,
        chars: &[Char],
        start: usize,
        delimiter: &Delimiter,
        place: &str,
    ) -> usize {
        if self.endless.get() == MOST_ENDLESS {
            return start;
        }
        let mut at = start;
        loop {
            // Without a line with the delimiter, this is not a here document: `((A << 2))`.
            if at >= chars.len() {
                self.endless.set(self.endless.get() + 1);
                return start;
            }
            let end = end_of_line(chars, at);
            let line: String = chars[at..end].iter().map(|(c, _)| *c).collect();
            if line.trim() == delimiter.text {
                break;
            }
            at = end + 1;
        }
        let body = &chars[start..at.min(chars.len())];
        self.document(body, place, !delimiter.is_quoted);
        end_of_line(chars, at)
    }

    /// Reads the content of a file in a here document. A unit or compose file is kept as a
    /// document, with its variables expanded if `is_expanded`. Any other file is read as a script,
    /// which expands variables anyway.
    fn document(&mut self, body: &[Char], place: &str, is_expanded: bool) {
        let mut text: String = body.iter().map(|(c, _)| *c).collect();
        if is_expanded {
            text = self.expanded(&text);
        }
        if !is_shell(place) && text.lines().any(|line| DOCUMENTS.contains(&line.trim())) {
            let before = body.first().map_or(0, |(_, line)| line - 1);
            let text = "\n".repeat(before) + &text;
            self.script.documents.push(Document { place: place.to_owned(), text });
        } else if is_expanded {
            self.deeper(&unescaped(body));
        } else {
            self.deeper(body);
        }
    }

    /// Reads lines that `echo` writes into a file: `export NAME=value`, `alias NAME='…'`.
    pub(super) fn written_lines(&mut self, words: &[Word]) {
        let is_setting = |line: &str| {
            let starts = ["export ", "alias "];
            let rest = starts.iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
            rest.split_once('=').is_some_and(|(name, _)| is_name(name))
        };
        for word in words {
            let lines = word.text.lines().map(str::trim);
            let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            if lines.next().is_some_and(is_setting) && lines.all(is_setting) {
                let chars: Vec<Char> = word.text.chars().map(|c| (c, word.line)).collect();
                let first = self.script.settings.len();
                self.deeper(&chars);
                for setting in &mut self.script.settings[first..] {
                    setting.scope = Scope::File;
                }
            }
        }
    }

    /// Reads the bodies of aliases: commands that somebody runs later.
    pub(super) fn aliases(&mut self, words: &[Word]) {
        for word in words {
            if let Some((_, body)) = word.text.split_once('=') {
                let chars: Vec<Char> = body.chars().map(|c| (c, word.line)).collect();
                self.deeper(&chars);
            }
        }
    }

    /// Replaces `$NAME` and `${NAME}` with their values, if these are known.
    fn expanded(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let inside = part.strip_prefix('{').unwrap_or(part);
            let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, rest) = inside.split_at(end.unwrap_or(inside.len()));
            let rest = if inside == part { Some(rest) } else { rest.strip_prefix('}') };
            let value = self.variables.get(name).filter(|value| !value.contains([UNKNOWN, '\n']));
            let value = value.filter(|_| !result.ends_with('\\'));
            match (value, rest) {
                (Some(value), Some(rest)) => result.extend([value, rest]),
                _ => result.extend(["$", part]),
            }
        }
        result
    }
}

/// Returns whether a here document is the input of a shell: that of a `RUN` without a command, or of
/// `bash`. Its own here documents can be files.
fn is_shell(place: &str) -> bool {
    let program = place.split_whitespace().find(|word| !word.starts_with("--"));
    let name = program.and_then(|program| program.rsplit('/').next());
    name.is_none_or(|name| matches!(name, "sh" | "bash" | "dash" | "zsh"))
}

/// Returns a document as the shell writes it: `\$(pwd)` is `$(pwd)`.
fn unescaped(body: &[Char]) -> Vec<Char> {
    let is_escape = |at: usize| {
        let next = body.get(at + 1).map(|(c, _)| *c);
        body[at].0 == '\\' && matches!(next, Some('$' | '`'))
    };
    body.iter().enumerate().filter(|(at, _)| !is_escape(*at)).map(|(_, one)| *one).collect()
}

/// Returns the index of the line that ends a here document, if there is one. Without such a line,
/// the builder rejects the file.
pub(super) fn end_of_document(lines: &[&str], delimiter: &str) -> Option<usize> {
    lines.iter().position(|line| line.trim() == delimiter)
}

/// Returns the delimiters of the here documents that an instruction opens: unquoted words such as
/// `<<EOF`, `<<-'END OF FILE'` and `3<<EOF` (BuildKit's parser of Dockerfiles, `ParseHeredoc`).
pub(super) fn here_documents(text: &str) -> Vec<String> {
    quoted_words(text).iter().filter_map(|word| delimiter(word)).collect()
}

/// Splits a text at blanks outside of quotes, and keeps the quotes.
fn quoted_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => {
                words.push(String::new());
                continue;
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
            // A character after a backslash is neither a separator nor a quote.
            if c == '\\' && quote != Some('\'') {
                word.extend(chars.next());
            }
        }
    }
    words
}

/// Returns the delimiter of the here document that a word opens.
fn delimiter(word: &str) -> Option<String> {
    let (descriptor, rest) = word.split_once("<<")?;
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let is_document = descriptor.chars().all(|c| c.is_ascii_digit()) && !rest.contains('<');
    // A shell ends the delimiter at an operator.
    let end =
        if rest.starts_with(['"', '\'']) { None } else { rest.find(['>', '|', ';', '&', ')']) };
    let name = rest[..end.unwrap_or(rest.len())].replace(['"', '\''], "");
    (is_document && !name.is_empty()).then_some(name)
}
