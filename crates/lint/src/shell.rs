//! Parses Dockerfiles and shell scripts into commands, settings and instructions.
//!
//! It understands quotes, continuation lines, here documents, `ARG`, `ENV`, `WORKDIR`, `cd` and
//! plain assignments. Values that only a running shell knows (command substitution, unset
//! variables) are kept as [`UNKNOWN`], so that no rule judges them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Replaces text in a word that only a running shell knows.
pub const UNKNOWN: char = '\u{fffc}';

/// A command: its words, and its working folder if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// Its words; there is at least one.
    pub words: Vec<Word>,
    /// The working folder, if known.
    pub folder: String,
}

/// A word after quotes and variables are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its text.
    pub text: String,
    /// The line of its start, from 1.
    pub line: usize,
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `ENV`: everything that ever runs in the image.
    Image,
    /// `ARG`: the build.
    Argument,
    /// An assignment or `export` in a shell.
    Shell,
    /// A container that is started: `run --env`, compose, an environment file.
    Run,
}

/// A variable setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, with [`UNKNOWN`] for parts that only a running shell knows.
    pub value: String,
    /// The line.
    pub line: usize,
    /// Its scope.
    pub scope: Scope,
}

/// All known facts about a Dockerfile or shell script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The commands, in order.
    pub commands: Vec<ShellCommand>,
    /// The variables that are set, in order.
    pub settings: Vec<Setting>,
    /// Other instructions of a Dockerfile; the first word is the name in capitals.
    pub instructions: Vec<Vec<Word>>,
    /// Variables that are used without a default and were not set before: name and line.
    pub missing: Vec<(String, usize)>,
}

/// A character and its line.
type Char = (char, usize);

/// The state while a file is read from top to bottom.
#[derive(Debug, Default)]
struct Reader {
    variables: BTreeMap<String, String>,
    folder: String,
    script: Script,
    missing: RefCell<Vec<(String, usize)>>,
    /// Names with a value from elsewhere: `ARG NAME`, `read NAME`.
    declared: BTreeSet<String>,
    /// The nesting depth of scripts inside scripts.
    depth: usize,
}

/// The maximum nesting depth of scripts inside scripts.
const DEEPEST: usize = 4;

/// Returns the commands of a Dockerfile or shell script.
pub fn commands(name: &str, text: &str) -> Vec<ShellCommand> {
    script(name, text).commands
}

/// Parses a Dockerfile or shell script.
pub fn script(name: &str, text: &str) -> Script {
    let mut reader = Reader::default();
    if is_dockerfile(name, text) {
        reader.dockerfile(text);
    } else {
        reader.shell(&numbered(text, 1));
    }
    let Reader { mut script, missing, declared, .. } = reader;
    script.missing = missing.into_inner();
    script.missing.retain(|(name, _)| !declared.contains(name));
    script
}

/// Returns whether a file is a Dockerfile, by its name or its first line.
pub fn is_dockerfile(name: &str, text: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let is_named = ["dockerfile", "containerfile"].iter().any(|word| {
        file.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
            || file.ends_with(&format!(".{word}"))
    });
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    is_named || first.is_some_and(|line| line.starts_with("FROM ") || line.starts_with("ARG "))
}

fn numbered(text: &str, first: usize) -> Vec<Char> {
    let lines = text.split_inclusive('\n').enumerate();
    lines.flat_map(|(index, line)| line.chars().map(move |c| (c, first + index))).collect()
}

impl Reader {
    /// Reads instructions. Continuation lines are joined first, as the builder does it: also inside
    /// quotes, and without the comments and empty lines between them.
    fn dockerfile(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let mut index = 0;
        while index < lines.len() {
            let mut logical: Vec<Char> = Vec::new();
            loop {
                let line = lines[index];
                index += 1;
                let is_between = !logical.is_empty();
                let trimmed = line.trim();
                if is_between && (trimmed.is_empty() || trimmed.starts_with('#')) {
                    if index == lines.len() {
                        break;
                    }
                    continue;
                }
                let body = line.trim_end().strip_suffix('\\');
                logical.extend(body.unwrap_or(line).chars().map(|c| (c, index)));
                if body.is_none() || index == lines.len() {
                    break;
                }
            }
            index = self.instruction(&logical, &lines, index);
        }
    }

    /// Reads one instruction. Returns the next line to read, which comes after any here documents.
    fn instruction(&mut self, logical: &[Char], lines: &[&str], index: usize) -> usize {
        let text: String = logical.iter().map(|(c, _)| *c).collect();
        let start = text.len() - text.trim_start().len();
        let end = text[start..].find(char::is_whitespace).map_or(text.len(), |at| start + at);
        let skipped = text[..end].chars().count();
        match text[start..end].to_ascii_uppercase().as_str() {
            "RUN" => {
                let rest = &logical[skipped..];
                if let Some(words) = exec_form(rest) {
                    self.end_command(words);
                    return index;
                }
                let mut script = rest.to_vec();
                let mut next = index;
                // The bodies of here documents follow the instruction.
                for delimiter in here_documents(&text) {
                    while next < lines.len() && lines[next].trim() != delimiter {
                        script.push(('\n', next));
                        script.extend(lines[next].chars().map(|c| (c, next + 1)));
                        next += 1;
                    }
                    script.push(('\n', next));
                    script.extend(delimiter.chars().map(|c| (c, next + 1)));
                    next = (next + 1).min(lines.len());
                }
                script.push(('\n', next));
                // Every RUN starts in the folder of the image.
                let folder = self.folder.clone();
                self.shell(&script);
                self.folder = folder;
                return next;
            }
            "ARG" => self.definitions(&logical[skipped..], Scope::Argument),
            "ENV" => self.definitions(&logical[skipped..], Scope::Image),
            "WORKDIR" => {
                let words = self.words(&logical[skipped..]);
                if let Some(word) = words.first() {
                    self.folder = join(&self.folder, &word.text);
                }
            }
            name => {
                let line = logical.first().map_or(index, |(_, line)| *line);
                let name = Word { text: name.to_owned(), line };
                let mut words = vec![name];
                words.extend(self.words(&logical[skipped..]));
                self.script.instructions.push(words);
            }
        }
        index
    }

    /// Reads `NAME=value …` and the old form `NAME value`.
    fn definitions(&mut self, rest: &[Char], scope: Scope) {
        let words = self.words(rest);
        if words.iter().any(|word| word.text.contains('=')) {
            for (word, (name, value)) in
                words.iter().filter_map(|w| Some((w, w.text.split_once('=')?)))
            {
                self.set(name, value, word.line, scope);
            }
        } else if let [name, value, ..] = words.as_slice() {
            self.set(&name.text, &value.text, name.line, scope);
        } else if let [name] = words.as_slice() {
            self.declared.insert(name.text.clone());
        }
    }

    fn set(&mut self, name: &str, value: &str, line: usize, scope: Scope) {
        self.variables.insert(name.to_owned(), value.to_owned());
        let (name, value) = (name.to_owned(), value.to_owned());
        self.script.settings.push(Setting { name, value, line, scope });
    }

    fn words(&self, chars: &[Char]) -> Vec<Word> {
        let mut scanner =
            Scanner { chars, at: 0, variables: &self.variables, missing: &self.missing };
        let mut words = Vec::new();
        loop {
            scanner.skip_blanks();
            match scanner.word() {
                Some(word) => words.push(word),
                None if scanner.at >= chars.len() => return words,
                None => scanner.at += 1,
            }
        }
    }

    /// Reads shell commands.
    fn shell(&mut self, chars: &[Char]) {
        let mut at = 0;
        let mut words: Vec<Word> = Vec::new();
        let mut documents: Vec<String> = Vec::new();
        loop {
            let mut scanner =
                Scanner { chars, at, variables: &self.variables, missing: &self.missing };
            scanner.skip_blanks();
            at = scanner.at;
            let Some((c, _)) = chars.get(at).copied() else { break };
            match c {
                '\n' => {
                    self.end_command(std::mem::take(&mut words));
                    at += 1;
                    for delimiter in documents.drain(..) {
                        at = self.here_document(chars, at, &delimiter);
                    }
                }
                '#' => at = end_of_line(chars, at),
                ';' | '&' | '|' | '(' | ')' => {
                    self.end_command(std::mem::take(&mut words));
                    at += 1;
                }
                '<' | '>' => {
                    let is_document = c == '<'
                        && chars.get(at + 1).is_some_and(|next| next.0 == '<')
                        && chars.get(at + 2).is_none_or(|next| next.0 != '<');
                    while chars.get(at).is_some_and(|(c, _)| matches!(c, '<' | '>' | '&' | '-')) {
                        at += 1;
                    }
                    let mut scanner =
                        Scanner { chars, at, variables: &self.variables, missing: &self.missing };
                    scanner.skip_blanks();
                    let target = scanner.word();
                    at = scanner.at;
                    documents.extend(target.filter(|_| is_document).map(|word| word.text));
                }
                _ => match scanner.word() {
                    Some(word) => {
                        at = scanner.at;
                        words.push(word);
                    }
                    None => at += 1,
                },
            }
        }
        self.end_command(words);
    }

    /// Reads the body of a here document as a script of its own.
    fn here_document(&mut self, chars: &[Char], start: usize, delimiter: &str) -> usize {
        let mut at = start;
        while at < chars.len() {
            let end = end_of_line(chars, at);
            let line: String = chars[at..end].iter().map(|(c, _)| *c).collect();
            if line.trim() == delimiter {
                break;
            }
            at = end + 1;
        }
        let body = &chars[start..at.min(chars.len())];
        self.deeper(body);
        end_of_line(chars, at)
    }

    fn deeper(&mut self, chars: &[Char]) {
        if self.depth < DEEPEST {
            self.depth += 1;
            self.shell(chars);
            self.depth -= 1;
        }
    }

    /// Ends a command: stores definitions and `cd`, and keeps all other commands.
    fn end_command(&mut self, mut words: Vec<Word>) {
        const BEFORE: [&str; 14] = [
            "then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "sudo", "time",
            "command", "env",
        ];
        loop {
            let Some(first) = words.first() else { return };
            let definition = first.text.split_once('=').filter(|(name, _)| is_name(name));
            if let Some((name, value)) = definition {
                let (name, value, line) = (name.to_owned(), value.to_owned(), first.line);
                self.set(&name, &value, line, Scope::Shell);
            } else if !BEFORE.contains(&first.text.as_str()) && !first.text.starts_with("--mount=")
            {
                break;
            }
            words.remove(0);
        }
        match words[0].text.as_str() {
            "export" | "local" | "readonly" | "declare" => {
                for word in &words[1..] {
                    match word.text.split_once('=') {
                        Some((name, value)) => self.set(name, value, word.line, Scope::Shell),
                        None => drop(self.declared.insert(word.text.clone())),
                    }
                }
            }
            "read" | "for" | "mapfile" | "readarray" => {
                self.declared.extend(words[1..].iter().map(|word| word.text.clone()));
            }
            "cd" | "pushd" => {
                if let Some(word) = words.get(1) {
                    self.folder = join(&self.folder, &word.text);
                }
            }
            "sh" | "bash" | "/bin/sh" | "/bin/bash" => {
                let is_script =
                    |pair: &&[Word]| pair[0].text.starts_with('-') && pair[0].text.ends_with('c');
                if let Some(script) = words.windows(2).find(is_script).map(|pair| &pair[1]) {
                    let chars: Vec<Char> = script.text.chars().map(|c| (c, script.line)).collect();
                    self.deeper(&chars);
                }
            }
            _ => self.script.commands.push(ShellCommand { words, folder: self.folder.clone() }),
        }
    }
}

/// Returns the words of `["sed", "-i", …]`.
fn exec_form(rest: &[Char]) -> Option<Vec<Word>> {
    let text: String = rest.iter().map(|(c, _)| *c).collect();
    let words: Vec<String> = serde_json::from_str(text.trim()).ok()?;
    let line = rest.first()?.1;
    Some(words.into_iter().map(|text| Word { text, line }).collect())
}

/// Returns the delimiters of the here documents that an instruction opens.
fn here_documents(text: &str) -> Vec<String> {
    let opened = text
        .match_indices("<<")
        .filter(|(at, _)| !text[..*at].ends_with('<') && !text[at + 2..].starts_with('<'));
    opened
        .filter_map(|(at, _)| {
            let rest = text[at + 2..].trim_start_matches(['-', '"', '\'']);
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (end > 0).then(|| rest[..end].to_owned())
        })
        .collect()
}

fn end_of_line(chars: &[Char], at: usize) -> usize {
    chars[at.min(chars.len())..]
        .iter()
        .position(|(c, _)| *c == '\n')
        .map_or(chars.len(), |found| at + found)
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn join(folder: &str, next: &str) -> String {
    if next.starts_with(['/', '~', UNKNOWN]) || folder.is_empty() {
        next.to_owned()
    } else {
        format!("{}/{next}", folder.trim_end_matches('/'))
    }
}

/// Reads words from a text.
struct Scanner<'a> {
    chars: &'a [Char],
    at: usize,
    variables: &'a BTreeMap<String, String>,
    missing: &'a RefCell<Vec<(String, usize)>>,
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
    fn skip_blanks(&mut self) {
        loop {
            match (self.peek(), self.chars.get(self.at + 1)) {
                (Some(' ' | '\t' | '\r'), _) => self.at += 1,
                (Some('\\'), Some(('\n', _))) => self.at += 2,
                _ => return,
            }
        }
    }

    /// Reads a word; returns `None` at an operator or at the end.
    fn word(&mut self) -> Option<Word> {
        let line = self.chars.get(self.at)?.1;
        let start = self.at;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' => {
                    // A number before a redirection belongs to it.
                    if text.chars().all(|c| c.is_ascii_digit()) {
                        text.clear();
                    }
                    break;
                }
                '\'' => {
                    self.at += 1;
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        text.push(c);
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
                        Some(c) => text.push(c),
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
                        Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                        Some(c) => text.extend(['\\', c]),
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
                        '\'' => while self.next().is_some_and(|c| c != '\'') {},
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
                let (name, default) =
                    inside.split_once(":-").map_or((inside.as_str(), None), |(a, b)| (a, Some(b)));
                self.value(name, default, text);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    self.at += 1;
                    name.push(c);
                }
                self.value(&name, None, text);
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$' | '!') => {
                self.at += 1;
                text.push(UNKNOWN);
            }
            // A literal dollar sign, for example at the end of a pattern.
            _ => text.push('$'),
        }
    }

    fn value(&self, name: &str, default: Option<&str>, text: &mut String) {
        match self.variables.get(name).map(String::as_str).or(default) {
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
                    Some(c @ ('\'' | '"' | '\\')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => {}
                },
                c => text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[(usize, &[&str])]) {
        let found = commands(name, text);
        let found: Vec<(usize, Vec<&str>)> = found
            .iter()
            .map(|one| (one.words[0].line, one.words.iter().map(|w| w.text.as_str()).collect()))
            .collect();
        let expected: Vec<(usize, Vec<&str>)> =
            expected.iter().map(|(line, words)| (*line, words.to_vec())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn scripts_are_taken_apart_as_a_shell_does_it() {
        check(
            "x.sh",
            "a b && c 'd  e' \"f\\\"g\" h\\ i # j\nk",
            &[(1, &["a", "b"]), (1, &["c", "d  e", "f\"g", "h i"]), (2, &["k"])],
        );
        check("x.sh", "a \\\n  b \\\n  c\nd", &[(1, &["a", "b", "c"]), (4, &["d"])]);
        check(
            "x.sh",
            "X=1\nexport Y='2 3'\na $X \"${Y}\" ${Z:-4} $Q 's/x$/y/'\n",
            &[(3, &["a", "1", "2 3", "4", "\u{fffc}", "s/x$/y/"])],
        );
        check(
            "x.sh",
            "if a; then b; fi; (c) | d > e 2>&1 < f\n",
            &[(1, &["a"]), (1, &["b"]), (1, &["fi"]), (1, &["c"]), (1, &["d"])],
        );
        check(
            "x.sh",
            "cat <<'EOF' > x\ndon't\nEOF\nsed 1\n",
            &[(1, &["cat"]), (2, &["dont\n"]), (4, &["sed", "1"])],
        );
        check(
            "x.sh",
            "bash -ec 'a && b c'\na \"$(b 'c)' | d)\" e\n",
            &[(1, &["a"]), (1, &["b", "c"]), (2, &["a", "\u{fffc}", "e"])],
        );
        check("x.sh", "a $'b\\'c\\n' `d e`f\n", &[(1, &["a", "b'c\n", "\u{fffc}f"])]);
        check("x.sh", "a 'never closed\nb", &[(1, &["a", "never closed\nb"])]);
    }

    #[test]
    fn dockerfiles_are_joined_as_the_builder_does_it() {
        let text = "ARG V=1\nFROM x\nENV A=b C=\"d e\"\nENV OLD way\nWORKDIR /src\n\
            RUN --mount=type=cache,target=/c a '$V' && \\\n    # a comment\n\n    b ${V} $A \\\n      \"$C\" $OLD; cd sub && c\n\
            LABEL x=\"don't\"\nRUN [\"d\", \"e f\"]\nRUN <<EOF\nf g\nEOF\nCOPY . .\nRUN h\n";
        check(
            "Dockerfile.ubuntu",
            text,
            &[
                (6, &["a", "$V"]),
                (9, &["b", "1", "b", "d e", "way"]),
                (10, &["c"]),
                (12, &["d", "e f"]),
                (14, &["f", "g"]),
                (17, &["h"]),
            ],
        );
        let folders: Vec<String> =
            commands("Dockerfile", text).into_iter().map(|command| command.folder).collect();
        assert_eq!(folders, ["/src", "/src", "/src/sub", "/src", "/src", "/src"]);
    }

    #[test]
    fn hostile_texts_come_to_an_end() {
        for text in
            ["$(", "${", "`", "\"", "'", "<<", "<<<", "\\", "$'", "a<<EOF", "((((", "2>", ">"]
        {
            for name in ["Dockerfile", "x.sh"] {
                commands(name, text);
                commands(name, &format!("RUN {text}\nRUN {text}"));
            }
        }
    }
}
