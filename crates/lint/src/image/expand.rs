//! The variables of a build, and their values in instructions.

use std::collections::BTreeMap;

use crate::dockerfile::Instruction;
use crate::facts::Facts;
use crate::rules::stages::parts;
use crate::shell::{Scope, Setting, UNKNOWN};

/// The variables of a stage: `ARG` and `ENV`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    values: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    text: String,
    line: usize,
    /// Whether the programs of the image see it.
    is_kept: bool,
}

/// The maximum number of variables that are known.
const MOST: usize = 200;

impl Variables {
    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str())
    }

    /// Returns the value of a variable of the image, and the line that sets it.
    pub(crate) fn of_image(&self, name: &str) -> Option<(&str, usize)> {
        let value = self.values.get(name).filter(|value| value.is_kept)?;
        Some((value.text.as_str(), value.line))
    }

    fn set(&mut self, name: &str, text: &str, line: usize, is_kept: bool) {
        if self.values.len() < MOST || self.values.contains_key(name) {
            self.values.insert(name.to_owned(), Value { text: text.to_owned(), line, is_kept });
        }
    }

    /// Returns a text with the values of its variables, and [`UNKNOWN`] for the others.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, next) = match after.strip_prefix('{') {
                Some(inside) => inside.split_once('}').unwrap_or((inside, "")),
                None => {
                    let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            let (name, default) = name.split_once(":-").unwrap_or((name, ""));
            match self.get(name) {
                Some(value) => expanded.push_str(value),
                None if !default.is_empty() && !default.contains('$') => expanded.push_str(default),
                None => expanded.push(UNKNOWN),
            }
            rest = next;
        }
        expanded + rest
    }
}

/// The settings of a file, which are read in order.
pub(super) struct Settings<'f> {
    all: Vec<&'f Setting>,
    next: usize,
}

impl<'f> Settings<'f> {
    pub(super) fn new(facts: &'f Facts<'_>) -> Self {
        let is_one = |one: &&Setting| matches!(one.scope, Scope::Image | Scope::Argument);
        let mut all: Vec<&Setting> = facts.settings.iter().filter(is_one).collect();
        all.sort_by_key(|one| one.line);
        Self { all, next: 0 }
    }

    /// Reads the settings of an instruction. `global` has the arguments before the first `FROM`.
    pub(super) fn read(
        &mut self,
        own: &Instruction,
        variables: &mut Variables,
        global: Option<&Variables>,
    ) {
        while let Some(setting) = self.all.get(self.next).filter(|one| one.line <= own.last) {
            self.next += 1;
            if setting.line >= own.line {
                let is_kept = setting.scope == Scope::Image;
                variables.set(&setting.name, &setting.value, setting.line, is_kept);
            }
        }
        let (name, rest) = parts(own);
        if name == "ARG"
            && let Some(global) = global
        {
            for word in rest.split_whitespace().filter(|word| !word.contains('=')) {
                let value = global.get(word).map_or_else(|| UNKNOWN.to_string(), str::to_owned);
                variables.set(word, &value, own.line, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_in_texts() {
        let mut variables = Variables::default();
        variables.set("A", "/a", 1, true);
        for (text, expected) in [
            ("$A/b", "/a/b"),
            ("${A}b", "/ab"),
            ("${B:-/c}/$A", "/c//a"),
            ("$B/c", "\u{fffc}/c"),
            ("${A", "/a"),
            ("$", "\u{fffc}"),
            ("a", "a"),
        ] {
            assert_eq!(variables.expand(text), expected, "{text}");
        }
        assert_eq!(variables.of_image("A"), Some(("/a", 1)));
    }
}
