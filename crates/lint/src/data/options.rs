//! The options of programs: `data/options.txt`, whose first lines describe its form.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Evidence, Known};

/// The tables.
const TEXT: &str = include_str!("../../data/options.txt");

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| read(TEXT));

/// Returns the programs whose options are known.
pub(crate) fn programs() -> &'static [Program] {
    &PROGRAMS
}

/// A program and its options.
#[derive(Debug)]
pub(crate) struct Program {
    /// The words that start it.
    pub(crate) starts: Vec<Vec<String>>,
    /// Its name, for messages.
    pub(crate) name: String,
    /// The project that has it, in lower case.
    pub(crate) project: String,
    /// The project's repositories and images, in lower case.
    origins: Vec<String>,
    /// Texts of files that use a changed copy of it, in lower case.
    pub(crate) copies: Vec<String>,
    /// The newest release whose options are known, for messages.
    pub(crate) until: String,
    /// Whether it accepts an option only as it is written here, with its value as the next word.
    pub(crate) is_exact: bool,
    options: BTreeMap<String, Value>,
    gone: BTreeMap<String, Gone>,
    pub(crate) evidence: Evidence,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// It has none.
    None,
    /// It may have some, which are not checked.
    Any,
    Number,
    Text,
    Texts,
    Choices(Vec<String>),
}

/// An option that was removed.
#[derive(Debug)]
pub(crate) struct Gone {
    /// What replaces it; empty if nothing does.
    pub(crate) instead: String,
    /// Whether it had a value.
    pub(crate) has_value: bool,
}

/// What a program says to the name of an option.
pub(crate) enum Answer<'p> {
    Has(&'p Value),
    Gone(&'p Gone),
    Unknown,
}

impl Program {
    /// Returns what the program says to an option, which is written without its value.
    pub(crate) fn answer(&self, written: &str) -> Answer<'_> {
        let long = written.strip_prefix("--").map(|rest| format!("--{}", rest.replace('_', "-")));
        let name = long.as_deref().unwrap_or(written);
        if let Some(value) = self.options.get(name) {
            return Answer::Has(value);
        }
        if let Some(gone) = self.gone.get(name) {
            return Answer::Gone(gone);
        }
        if self.is_exact {
            return Answer::Unknown;
        }
        // `--lora.name`, `-tp2` and `--no-…` have no lines of their own.
        let name = name.split('.').next().unwrap_or(name);
        let positive = name.strip_prefix("--no-").map(|rest| format!("--{rest}"));
        let starts = |start: &str| {
            let mut after = self.options.range(start.to_owned()..);
            after.next().is_some_and(|(known, _)| known.starts_with(start))
        };
        let is_short = !name.starts_with("--");
        if is_short || starts(name) || positive.is_some_and(|plain| starts(&plain)) {
            Answer::Has(&Value::Any)
        } else {
            Answer::Unknown
        }
    }

    /// Returns the project's repositories and images, in lower case.
    pub(crate) fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Returns the only option that a wrong name can stand for.
    pub(crate) fn near(&self, name: &str) -> Option<&str> {
        pins::reader::nearest(name, self.options.keys().map(String::as_str))
    }

    /// Returns the option, its value and what replaces it, if a word is an option that was removed.
    pub(crate) fn removed(&self, word: &str) -> Option<&Gone> {
        match self.answer(word) {
            Answer::Gone(gone) => Some(gone),
            _ => None,
        }
    }
}

/// Reads the tables.
fn read(text: &str) -> Vec<Program> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut all: Vec<Program> = Vec::new();
    for line in lines {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        if key == "program" {
            all.push(Program::new(rest));
        } else if let Some(program) = all.last_mut() {
            program.line(line, key, rest);
        }
    }
    all
}

/// Returns the words of a line.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Program {
    fn new(start: &str) -> Self {
        let (source, checked) = (String::new(), String::new());
        Self {
            starts: vec![words(start)],
            name: String::new(),
            project: String::new(),
            origins: Vec::new(),
            copies: Vec::new(),
            until: String::new(),
            is_exact: false,
            options: BTreeMap::new(),
            gone: BTreeMap::new(),
            evidence: Evidence { source, known: Known::Vendor, checked },
        }
    }

    /// Adds a line of its table.
    fn line(&mut self, line: &str, key: &str, rest: &str) {
        match key {
            "or" => self.starts.push(words(rest)),
            "name" => rest.clone_into(&mut self.name),
            "origins" => self.origins = words(rest),
            "copies" => self.copies = words(rest),
            "project" => rest.clone_into(&mut self.project),
            "until" => rest.clone_into(&mut self.until),
            "source" => rest.clone_into(&mut self.evidence.source),
            "checked" => rest.clone_into(&mut self.evidence.checked),
            "exact" => self.is_exact = true,
            "gone" => {
                let (names, instead) = rest.split_once(" : ").unwrap_or((rest, ""));
                let has_value = names.ends_with('=');
                let instead = instead.to_owned();
                let name = names.trim_end_matches([' ', '=']).to_owned();
                self.gone.insert(name, Gone { instead, has_value });
            }
            _ => {
                let (names, value) = line.split_once(" = ").unwrap_or((line, ""));
                let value = match value {
                    "" => Value::None,
                    "ANY" => Value::Any,
                    "INT" => Value::Number,
                    "TEXT" => Value::Text,
                    "TEXT TEXT" => Value::Texts,
                    choices => Value::Choices(choices.split('|').map(str::to_owned).collect()),
                };
                for name in names.split_whitespace() {
                    self.options.insert(name.to_owned(), value.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete() {
        assert!(programs().len() > 5);
        for program in programs() {
            let texts = [&program.name, &program.project, &program.until];
            assert!(texts.iter().all(|text| !text.is_empty()), "{program:?}");
            let Evidence { source, checked, .. } = &program.evidence;
            assert!(!source.is_empty() && !checked.is_empty(), "{}", program.name);
            assert!(program.options.len() > 30, "{}", program.name);
            let names = program.options.keys().chain(program.gone.keys());
            assert!(names.clone().all(|name| name.starts_with('-')), "{}", program.name);
            assert!(program.gone.keys().all(|name| !program.options.contains_key(name)));
        }
    }

    #[test]
    fn names_are_found_as_the_program_finds_them() {
        let find = |name: &str| programs().iter().find(|one| one.name.contains(name)).unwrap();
        let says = |program: &str, name: &str| match find(program).answer(name) {
            Answer::Has(_) => "has",
            Answer::Gone(_) => "gone",
            Answer::Unknown => "unknown",
        };
        for (program, name, expected) in [
            ("llama-server", "--ctx-size", "has"),
            ("llama-server", "--ctx_size", "has"),
            ("llama-server", "--ctx", "unknown"),
            ("llama-server", "--no-mmap", "gone"),
            ("vLLM", "--max_model_len", "has"),
            ("vLLM", "--tensor-parallel", "has"),
            ("vLLM", "--no-enable-prefix-caching", "has"),
            ("vLLM", "--swap-space", "gone"),
            ("vLLM", "--ctx-size", "unknown"),
        ] {
            assert_eq!(says(program, name), expected, "{program} {name}");
        }
    }
}
