//! Parses Dockerfiles and shell scripts into commands, settings and instructions.
//!
//! The parser supports quotes, continuation lines, here documents, `ARG`, `ENV`, `WORKDIR`, `cd`
//! and plain assignments. Values that are known only at run time (command substitution, unset
//! variables) are kept as [`UNKNOWN`], so that no rule judges them.

mod branches;
mod documents;
mod folders;
mod nested;
mod operator;
mod scan;
mod stages;
mod variables;
mod wrappers;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use self::documents::{Delimiter, end_of_document, here_documents};
use self::folders::join;
pub(crate) use self::operator::EMPTY;
pub use self::operator::Operator;
use self::scan::Scanner;
use self::stages::Scopes;

/// Stands for text in a word that is known only at run time.
pub const UNKNOWN: char = '\u{fffc}';

/// A command: its words, and its working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// Its words; there is at least one.
    pub words: Vec<Word>,
    /// The working directory that `WORKDIR` and `cd` set; empty if none did.
    pub folder: String,
    /// The stage of a Dockerfile, from 1; 0 elsewhere.
    pub stage: usize,
    /// Whether its output is piped into the next command.
    pub is_piped: bool,
    /// Whether its output goes into a file.
    pub is_saved: bool,
    /// That file; empty if there is none.
    pub output: String,
    /// Whether it runs only for the GPUs of another vendor, or for none.
    pub is_for_other: bool,
    /// What follows it.
    pub operator: Operator,
    /// The words of the shell before it: `if`, `then`, `until !`, `(`; empty if there are none.
    pub keywords: String,
}

impl ShellCommand {
    /// Returns the texts of its words.
    pub fn texts(&self) -> Vec<&str> {
        self.words.iter().map(|word| word.text.as_str()).collect()
    }

    /// Returns whether the command only prints a message for people.
    pub fn is_message(&self) -> bool {
        let program = self.words[0].text.as_str();
        matches!(program, "echo" | "printf") && !self.is_piped && !self.is_saved
    }
}

/// A word after quotes and variables are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its text.
    pub text: String,
    /// The line on which it starts, from 1.
    pub line: usize,
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `ENV`: everything that ever runs in the image.
    Image,
    /// `ARG`: the build.
    Argument,
    /// A shell assignment that is not exported.
    Shell,
    /// `export` in a shell.
    Exported,
    /// An assignment in front of a command.
    Command,
    /// A line of an environment file, for any program that reads the file.
    File,
    /// A container or service that is started: `run --env`, compose, a quadlet, a unit.
    Run,
}

/// A variable setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, with [`UNKNOWN`] for parts that are known only at run time.
    pub value: String,
    /// The line.
    pub line: usize,
    /// Its scope.
    pub scope: Scope,
    /// The stage of a Dockerfile, from 1; 0 elsewhere.
    pub stage: usize,
    /// The program that gets it, if known: an image, or the words of a command.
    pub program: Option<String>,
}

impl Setting {
    /// Creates a setting that any program may get.
    pub fn new(name: &str, value: &str, line: usize, scope: Scope) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        Self { name, value, line, scope, stage: 0, program: None }
    }

    /// Returns whether it contains an image reference.
    pub(crate) fn is_image(&self) -> bool {
        let value = self.value.as_str();
        self.name.contains("IMAGE")
            && value.contains(['/', ':'])
            && !value.contains("://")
            && value.starts_with(|c: char| c.is_ascii_alphabetic())
    }
}

/// A variable that is used without a default and was not set before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The line.
    pub line: usize,
    /// The stage of a Dockerfile, from 1; 0 before the first one, and elsewhere.
    pub stage: usize,
    /// Whether a `FROM` uses it.
    pub is_base: bool,
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
    /// Variables that are used without a default and were not set before.
    pub missing: Vec<Missing>,
    /// The here documents that are systemd units or compose files.
    pub documents: Vec<Document>,
}

/// A file in a here document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The command that writes it, with its path.
    pub place: String,
    /// Its content, after as many empty lines as precede it in the script.
    pub text: String,
}

/// A character and its line.
type Char = (char, usize);

/// The state while a file is read from top to bottom.
#[derive(Debug, Default)]
struct Reader {
    /// Functions of the script that run their arguments.
    runners: BTreeSet<String>,
    variables: BTreeMap<String, String>,
    folder: String,
    folders: folders::Folders,
    script: Script,
    missing: RefCell<Vec<(String, usize)>>,
    /// The number of unterminated here documents.
    endless: Cell<usize>,
    /// Names that get their values from elsewhere: `ARG NAME`, `read NAME`.
    declared: BTreeSet<String>,
    /// The nesting depth of scripts inside scripts.
    depth: usize,
    /// The stage of a Dockerfile.
    stage: usize,
    scopes: Scopes,
    /// Whether `set -a` exports every assignment.
    exports_all: bool,
    branches: branches::Branches,
    /// The file to which the current command's output is redirected.
    saved: Option<String>,
    all_missing: Vec<Missing>,
    /// Whether the commands run only if a variable whose value is unknown is empty.
    is_fallback: bool,
    /// The words of the arrays.
    arrays: BTreeMap<String, Vec<Word>>,
    /// The words of the shell before the current command.
    keywords: String,
}

/// The number of unterminated here documents after which no more here documents are looked for.
const MOST_ENDLESS: usize = 100;

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
        reader.runners = wrappers::runners(text);
        reader.shell(&numbered(text, 1));
    }
    reader.finish()
}

/// Parses a shell script whose first line is the line `first` of a file.
pub(crate) fn script_at(text: &str, first: usize) -> Script {
    let mut reader = Reader::default();
    reader.shell(&numbered(text, first));
    reader.finish()
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
    /// Returns what was read.
    fn finish(mut self) -> Script {
        self.keep_missing(false);
        let Self { mut script, all_missing, declared, .. } = self;
        script.missing = all_missing;
        script.missing.retain(|missing| !declared.contains(&missing.name));
        script
    }

    /// Reads instructions. Continuation lines are joined first, as the builder does: even inside
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
                // A backslash at the end of a comment does not continue it.
                if trimmed.starts_with('#') || is_between && trimmed.is_empty() {
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
            // The instruction runs in a later build. It cannot be another ONBUILD.
            "ONBUILD" if !text[end..].trim_start().to_ascii_uppercase().starts_with("ONBUILD") => {
                return self.instruction(&logical[skipped..], lines, index);
            }
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
                    let length = end_of_document(&lines[next..], &delimiter);
                    let Some(last) = length.map(|length| next + length) else { continue };
                    while next < last {
                        script.push(('\n', next));
                        script.extend(lines[next].chars().map(|c| (c, next + 1)));
                        next += 1;
                    }
                    script.push(('\n', next));
                    script.extend(delimiter.chars().map(|c| (c, next + 1)));
                    next += 1;
                }
                script.push(('\n', next));
                // Every RUN starts in the working directory of the image.
                let folder = self.folder.clone();
                self.branches.clear();
                self.start_run();
                self.shell(&script);
                self.end_run();
                self.folder = folder;
                return next;
            }
            "COPY" | "ADD" if !here_documents(&text).is_empty() => {
                return self.copied_documents(&text, lines, index);
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
                let is_base = name.text == "FROM";
                if is_base {
                    self.keep_missing(false);
                    self.end_stage();
                    self.folder.clear();
                }
                let mut words = vec![name];
                words.extend(self.words(&logical[skipped..]));
                if is_base {
                    self.keep_missing(true);
                    self.start_stage(&words[1..]);
                }
                self.script.instructions.push(words);
            }
        }
        index
    }

    fn scanner<'a>(&'a self, chars: &'a [Char], at: usize) -> Scanner<'a> {
        let (variables, missing, endless) = (&self.variables, &self.missing, &self.endless);
        Scanner { chars, at, variables, missing, endless, depth: 0 }
    }

    fn words(&self, chars: &[Char]) -> Vec<Word> {
        let mut scanner = self.scanner(chars, 0);
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
        let mut documents: Vec<Delimiter> = Vec::new();
        loop {
            let mut scanner = self.scanner(chars, at);
            scanner.skip_blanks();
            at = scanner.at;
            let Some((c, _)) = chars.get(at).copied() else { break };
            match c {
                '\n' => {
                    let place: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
                    let place = place.join(" ") + " " + self.saved.as_deref().unwrap_or_default();
                    self.end_command(std::mem::take(&mut words));
                    at += 1;
                    for delimiter in documents.drain(..) {
                        at = self.here_document(chars, at, &delimiter, &place);
                    }
                }
                '#' => at = end_of_line(chars, at),
                // `&>` redirects the output.
                '&' if chars.get(at + 1).is_some_and(|next| next.0 == '>') => at += 1,
                ';' | '&' | '|' | '(' | ')' => {
                    if let ([name], '(') = (words.as_slice(), c) {
                        self.array(&name.text, chars, at + 1);
                    }
                    let before = self.script.commands.len();
                    if let ([pattern], ')') = (words.as_slice(), c) {
                        self.branches.pattern(&pattern.text);
                    }
                    self.end_command(std::mem::take(&mut words));
                    self.group(c);
                    if let Some(last) = self.script.commands[before..].last_mut() {
                        last.operator = Operator::of(c, chars.get(at + 1).map(|next| next.0));
                        last.is_piped = last.operator == Operator::Pipe;
                        let written = last.words.clone();
                        if last.is_piped && written[0].text == "echo" {
                            self.written_lines(&written[1..]);
                        }
                    }
                    at += 1;
                }
                '<' | '>' => {
                    let is_document = c == '<'
                        && chars.get(at + 1).is_some_and(|next| next.0 == '<')
                        && chars.get(at + 2).is_none_or(|next| next.0 != '<');
                    while chars.get(at).is_some_and(|next| matches!(next.0, '<' | '>' | '&' | '-'))
                    {
                        at += 1;
                    }
                    scanner.at = at;
                    scanner.skip_blanks();
                    let quote = chars.get(scanner.at).map(|next| next.0);
                    let is_quoted = matches!(quote, Some('\'' | '"' | '\\'));
                    let target = scanner.word();
                    at = scanner.at;
                    // `>&2` and `2>/dev/null` do not write to a file.
                    let is_file = |word: &&Word| {
                        let is_output = c == '>' && !words.is_empty();
                        is_output && word.text != "2" && !word.text.starts_with("/dev/")
                    };
                    if let Some(file) = target.as_ref().filter(is_file) {
                        self.saved = Some(file.text.clone());
                    }
                    let document = target.filter(|_| is_document);
                    documents.extend(document.map(|word| Delimiter { text: word.text, is_quoted }));
                }
                _ => match scanner.word() {
                    Some(word) => {
                        let raw = &chars[at..scanner.at];
                        at = scanner.at;
                        self.add_word(word, raw, &mut words);
                    }
                    None => at += 1,
                },
            }
        }
        self.end_command(words);
    }

    fn deeper(&mut self, chars: &[Char]) {
        if self.depth < DEEPEST {
            self.depth += 1;
            self.shell(chars);
            self.depth -= 1;
        }
    }

    /// Reads a script that is one word of a command. `is_remote` says that another machine runs it.
    fn inner(&mut self, script: &Word, is_remote: bool) {
        let folder = self.folder.clone();
        let missing = self.missing.get_mut().len();
        self.deeper(&numbered(&script.text, script.line));
        self.folder = folder;
        if is_remote {
            self.missing.get_mut().truncate(missing);
        }
    }

    /// Ends a command: interprets definitions and the shell's own commands, and keeps all other
    /// commands.
    fn end_command(&mut self, mut words: Vec<Word>) {
        const BEFORE: [&str; 12] = [
            "then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "time", "command",
        ];
        let first_setting = self.script.settings.len();
        let saved = self.saved.take();
        loop {
            let Some(first) = words.first() else { return };
            let definition = first.text.split_once('=').filter(|(name, _)| is_name(name));
            if let Some((name, value)) = definition {
                let (name, value, line) = (name.to_owned(), value.to_owned(), first.line);
                self.set(&name, &value, line, Scope::Shell);
                words.remove(0);
            } else if BEFORE.contains(&first.text.as_str())
                || wrappers::is_option_of_run(&first.text)
            {
                self.branches.word(&first.text);
                operator::add(&first.text, &mut self.keywords);
                words.remove(0);
            } else if !wrappers::unwrap(&mut words, &self.runners) {
                break;
            }
        }
        let program: Vec<&str> = words.iter().take(2).map(|word| word.text.as_str()).collect();
        let program = program.join(" ");
        for setting in &mut self.script.settings[first_setting..] {
            setting.scope = Scope::Command;
            setting.program = Some(program.clone());
        }
        self.builtin(words, saved);
    }

    /// Interprets the shell's own commands, and keeps all others.
    fn builtin(&mut self, words: Vec<Word>, saved: Option<String>) {
        if let Some(script) = wrappers::script(&words) {
            return self.inner(&script, wrappers::is_remote(&words));
        }
        match words[0].text.as_str() {
            "export" | "declare" | "typeset" | "local" | "readonly" => self.declare(&words),
            "set" => {
                let has = |option: &str| words.iter().any(|word| word.text == option);
                let letters = |word: &Word| word.text.starts_with('-') && word.text.contains('a');
                self.exports_all |= has("allexport") || words.iter().any(letters);
                self.exports_all &= !has("+a");
            }
            "read" | "for" | "mapfile" | "readarray" | "getopts" => {
                self.declared.extend(words[1..].iter().map(|word| word.text.clone()));
            }
            "printf" => {
                let name = words.windows(2).find(|pair| pair[0].text == "-v");
                self.declared.extend(name.map(|pair| pair[1].text.clone()));
                self.keep(words, saved);
            }
            "cd" | "pushd" | "popd" => self.enter(&words),
            "alias" => {
                self.aliases(&words[1..]);
                self.keep(words, saved);
            }
            "echo" if saved.is_some() => {
                self.written_lines(&words[1..]);
                self.keep(words, saved);
            }
            _ => self.keep(words, saved),
        }
    }

    fn keep(&mut self, words: Vec<Word>, saved: Option<String>) {
        let is_empty = |pair: &[Word]| pair[0].text == "-z" && pair[1].text.contains(UNKNOWN);
        match words[0].text.as_str() {
            "[" | "[[" | "test" => self.is_fallback |= words.windows(2).any(is_empty),
            // `[ -z "$A" ] && exit 1`: nothing follows that runs only if the variable is empty.
            "fi" | "exit" | "return" => self.is_fallback = false,
            _ => {}
        }
        self.branches.command(&words);
        let is_for_other = self.branches.is_for_other();
        let (folder, stage) = (self.folder.clone(), self.stage);
        let keywords = std::mem::take(&mut self.keywords);
        let (is_saved, output) = (saved.is_some(), saved.unwrap_or_default());
        let command = ShellCommand {
            words,
            folder,
            stage,
            is_saved,
            output,
            is_for_other,
            keywords,
            ..EMPTY
        };
        self.script.commands.push(command);
    }
}

/// Returns the words of `["sed", "-i", …]`.
fn exec_form(rest: &[Char]) -> Option<Vec<Word>> {
    let text: String = rest.iter().map(|(c, _)| *c).collect();
    let words: Vec<String> = serde_json::from_str(text.trim()).ok()?;
    let line = rest.first()?.1;
    Some(words.into_iter().map(|word| Word { text: word, line }).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[(usize, &[&str])]) {
        let found = commands(name, text);
        let found: Vec<(usize, Vec<&str>)> =
            found.iter().map(|one| (one.words[0].line, one.texts())).collect();
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
        let text = "FROM x\nARG V=1\nENV A=b C=\"d e\"\nENV OLD way\nWORKDIR /src\n\
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
    fn instructions_of_later_builds_are_read() {
        check("Dockerfile", "FROM x\nONBUILD RUN a && b\n", &[(2, &["a"]), (2, &["b"])]);
    }

    #[test]
    fn comments_of_dockerfiles_end_with_their_line() {
        let text =
            "# docker build \\\n#   --build-arg A=1 \\\nARG A=x\nFROM $A\nRUN a \\\n# b \\\n  c\n";
        check("Dockerfile", text, &[(5, &["a", "c"])]);
        assert_eq!(script("Dockerfile", text).instructions[0][1].text, "x");
        assert!(script("Dockerfile", text).missing.is_empty());
    }

    #[test]
    fn hostile_texts_come_to_an_end() {
        for text in [
            "ONBUILD ONBUILD",
            "$(",
            "${",
            "`",
            "\"",
            "'",
            "<<",
            "<<<",
            "\\",
            "$'",
            "a<<EOF",
            "((((",
            "2>",
            ">",
        ] {
            for name in ["Dockerfile", "x.sh"] {
                commands(name, text);
                commands(name, &format!("RUN {text}\nRUN {text}"));
            }
        }
    }
}
