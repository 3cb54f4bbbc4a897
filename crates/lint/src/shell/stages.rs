//! The variables of a Dockerfile's stages: each stage sees its own, those of the stage that it is
//! based on, and the arguments before the first `FROM` that it declares again.

use std::collections::BTreeMap;

use super::folders::Folders;
use super::{Char, Missing, Reader, Scope, Setting, UNKNOWN, Word};

/// The number of stages whose base's variables are known. Real files have fewer.
const MOST_STAGES: usize = 100;

/// The variables of the stages that have been read.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// The arguments before the first `FROM`.
    global: BTreeMap<String, String>,
    /// The name of each stage in lower case, and its variables.
    stages: Vec<(String, BTreeMap<String, String>)>,
    /// The name of the current stage in lower case.
    name: String,
    /// The earlier values of the variables that the current `RUN` has changed.
    changed: Option<Vec<(String, Option<String>)>>,
}

impl Reader {
    /// Ends a stage. A `FROM`, which follows, sees only the arguments before the first one.
    pub(super) fn end_stage(&mut self) {
        let variables = std::mem::take(&mut self.variables);
        if self.stage == 0 {
            self.variables = variables;
        } else {
            self.scopes.stages.push((std::mem::take(&mut self.scopes.name), variables));
            self.variables = std::mem::take(&mut self.scopes.global);
        }
        self.stage += 1;
    }

    /// Starts a stage with the words after `FROM`.
    pub(super) fn start_stage(&mut self, words: &[Word]) {
        self.scopes.global = std::mem::take(&mut self.variables);
        let plain = words.iter().filter(|word| !word.text.starts_with("--"));
        let plain: Vec<String> = plain.map(|word| word.text.to_ascii_lowercase()).collect();
        let is_base = |stage: &&(String, _)| plain.first() == Some(&stage.0) && !stage.0.is_empty();
        let base = self.scopes.stages.iter().rev().take(MOST_STAGES).find(is_base);
        if let Some((_, variables)) = base.filter(|_| self.stage <= MOST_STAGES) {
            self.variables.clone_from(variables);
        }
        let name = plain.iter().position(|word| word == "as").and_then(|at| plain.get(at + 1));
        self.scopes.name = name.cloned().unwrap_or_default();
    }

    /// Starts a `RUN`, whose shell variables end with it.
    pub(super) fn start_run(&mut self) {
        self.scopes.changed = Some(Vec::new());
        self.folders = Folders::default();
    }

    /// Ends a `RUN`.
    pub(super) fn end_run(&mut self) {
        for (name, value) in self.scopes.changed.take().into_iter().flatten().rev() {
            match value {
                Some(value) => self.variables.insert(name, value),
                None => self.variables.remove(&name),
            };
        }
    }

    /// Keeps the variables that have been found missing since the last call.
    pub(super) fn keep_missing(&mut self, is_base: bool) {
        let stage = self.stage;
        let new = self.missing.get_mut().drain(..);
        self.all_missing.extend(new.map(|(name, line)| Missing { name, line, stage, is_base }));
    }

    /// Reads `NAME=value …` and the old form `NAME value`.
    pub(super) fn definitions(&mut self, rest: &[Char], scope: Scope) {
        let words = self.words(rest);
        let is_argument = scope == Scope::Argument;
        if is_argument || words.iter().any(|word| word.text.contains('=')) {
            for word in &words {
                match word.text.split_once('=') {
                    Some((name, value)) => self.set(name, value, word.line, scope),
                    None if is_argument => self.declared_again(&word.text),
                    None => {}
                }
            }
        } else if let [name, value, ..] = words.as_slice() {
            self.set(&name.text, &value.text, name.line, scope);
        } else if let [name] = words.as_slice() {
            self.declared.insert(name.text.clone());
        }
    }

    /// Reads `ARG NAME`, which takes the value from before the first `FROM`.
    fn declared_again(&mut self, name: &str) {
        let global = self.scopes.global.get(name).filter(|_| !self.variables.contains_key(name));
        if let Some(value) = global.cloned() {
            self.variables.insert(name.to_owned(), value);
        }
        self.declared.insert(name.to_owned());
    }

    pub(super) fn set(&mut self, name: &str, value: &str, line: usize, scope: Scope) {
        // `if [ -z "$A" ]; then A=7.2; fi` gives a release only if `A` has none yet.
        let is_known = |old: &String| !old.contains(UNKNOWN);
        let is_release = value.starts_with(|c: char| c.is_ascii_digit());
        if !(self.is_fallback && is_release) || self.variables.get(name).is_none_or(is_known) {
            let earlier = self.variables.insert(name.to_owned(), value.to_owned());
            if let Some(changed) = &mut self.scopes.changed {
                changed.push((name.to_owned(), earlier));
            }
        }
        let scope = if scope == Scope::Shell && self.exports_all { Scope::Exported } else { scope };
        let setting = Setting::new(name, value, line, scope);
        self.script.settings.push(Setting { stage: self.stage, ..setting });
    }
}

#[cfg(test)]
mod tests {
    use crate::shell::{UNKNOWN, script};

    #[test]
    fn a_stage_sees_its_own_variables_and_those_of_its_base() {
        let text = "ARG A=1\nARG B=2\nFROM x:$A AS One\nARG A\nENV C=3 D=$B\nRUN E=4 && a $A $B $C $E\nRUN b $E\n\
            FROM one\nRUN c $A $C\nFROM y:$B\nARG B F=5\nRUN d $A $B $C $F\n";
        let all = script("Dockerfile", text);
        let shown = |words: &[super::Word]| {
            let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            texts.join(" ").replace(UNKNOWN, "?")
        };
        let commands: Vec<String> = all.commands.iter().map(|one| shown(&one.words)).collect();
        assert_eq!(commands, ["a 1 ? 3 4", "b ?", "c 1 3", "d ? 2 ? 5"]);
        let bases: Vec<String> = all.instructions.iter().map(|one| shown(one)).collect();
        assert_eq!(bases, ["FROM x:1 AS One", "FROM one", "FROM y:2"]);
        let setting = all.settings.iter().find(|one| one.name == "D");
        assert_eq!(setting.map(|one| one.value.replace(UNKNOWN, "?")).as_deref(), Some("?"));
    }
}
