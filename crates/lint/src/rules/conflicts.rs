//! Rules for requirements of one installation that no release meets together.

use crate::python::{is_pip, takes_value};
use crate::requirements;
use crate::shell::ShellCommand;
use crate::specifier::{allows, requirement};
use crate::{Context, Facts, Findings, Kind};

use std::collections::BTreeMap;

/// A requirement with its place.
#[derive(Debug, Clone)]
struct Wanted {
    specifier: String,
    /// The file, for messages; `None` for the one that is checked.
    file: Option<String>,
    line: usize,
}

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Requirements => {
            let mut all = Installation::default();
            all.list(facts.text, None, 0);
            for (line, text) in facts.lines() {
                let words: Vec<&str> = text.split_whitespace().collect();
                let [option, path] = words.as_slice() else { continue };
                let is_other = matches!(*option, "-r" | "-c" | "--requirement" | "--constraint");
                let read = context.exists.filter(|_| is_other);
                let other = read.and_then(|exists| exists.text(facts.file, path));
                if let Some(other) = other {
                    all.list(&other, Some(path), line);
                }
            }
            all.report(found);
        }
        _ => {
            for command in facts.commands.iter().filter(|one| installs(one)) {
                let mut all = Installation::default();
                all.command(command);
                if let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) {
                    let lists = requirements::installed(facts.file, facts.text, command, exists);
                    for list in lists {
                        all.list(&list.text, Some(&list.path), list.line);
                    }
                }
                all.report(found);
            }
        }
    }
}

/// Returns whether a command of pip installs several packages in one go.
fn installs(command: &ShellCommand) -> bool {
    let words = command.texts();
    is_pip(&words) && words.contains(&"install") && !words.contains(&"--no-deps")
}

/// The requirements of one run of pip, by the names of the packages.
#[derive(Debug, Default)]
struct Installation(BTreeMap<String, Vec<Wanted>>);

/// The number of requirements of one package that are compared.
const MOST: usize = 10;

impl Installation {
    fn add(&mut self, text: &str, file: Option<&str>, line: usize) {
        let Some(one) = requirement(text) else { return };
        if one.is_special || one.specifier.is_empty() {
            return;
        }
        let all = self.0.entry(one.name).or_default();
        if all.len() < MOST {
            let file = file.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
            all.push(Wanted { specifier: one.specifier, file, line });
        }
    }

    /// Adds the lines of a list. `line` is that of the option that names it; 0 for the list itself.
    fn list(&mut self, text: &str, file: Option<&str>, line: usize) {
        for (at, own) in text.lines().enumerate() {
            let own_line = if line == 0 { at + 1 } else { line };
            if !own.trim_start().starts_with(['#', '-']) {
                self.add(own, file, own_line);
            }
        }
    }

    /// Adds the words of a command.
    fn command(&mut self, command: &ShellCommand) {
        let mut rest = command.words.iter().skip_while(|word| word.text != "install").skip(1);
        while let Some(word) = rest.next() {
            if takes_value(&word.text) {
                rest.next();
            } else if !word.text.starts_with('-') {
                self.add(&word.text, None, word.line);
            }
        }
    }

    /// Reports the first contradiction of each package.
    fn report(&self, found: &mut Findings<'_>) {
        for (name, all) in &self.0 {
            let pairs = all
                .iter()
                .enumerate()
                .flat_map(|(at, later)| all[..at].iter().map(move |earlier| (earlier, later)));
            let is_wrong = |(one, other): &(&Wanted, &Wanted)| {
                excludes(&one.specifier, &other.specifier)
                    || excludes(&other.specifier, &one.specifier)
            };
            let Some((one, other)) = pairs.into_iter().find(is_wrong) else { continue };
            let place = |wanted: &Wanted| match &wanted.file {
                Some(file) => format!("`{file}`"),
                None => format!("line {}", wanted.line),
            };
            let message = format!(
                "{} requires `{name}{}`, and {} requires `{name}{}`",
                place(one),
                one.specifier,
                place(other),
                other.specifier
            );
            found.add("pins-contradict", one.line.max(other.line), message);
        }
    }
}

/// Returns the operators of a specifier with their versions.
fn clauses(specifier: &str) -> impl Iterator<Item = (&str, &str)> {
    specifier.split(',').filter_map(|clause| {
        let end = clause.find(|c: char| !"=<>!~".contains(c))?;
        Some(clause.split_at(end))
    })
}

/// Returns whether the releases that a specifier allows are all too new for another one, or the one
/// that it allows is not among the other's.
fn excludes(one: &str, other: &str) -> bool {
    clauses(one).any(|(operator, version)| match operator {
        "==" | "===" if !version.ends_with(".*") => allows(clauses(other), version) == Some(false),
        ">=" | ">" | "~=" => {
            let upper = clauses(other).filter(|(own, _)| matches!(*own, "<" | "<="));
            allows(upper, version) == Some(false)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_contradict_each_other_if_no_release_meets_both() {
        for (one, other, expected) in [
            ("==1.26.4", "==2.0.0", true),
            ("==1.26.4", "<2", false),
            ("==2.1", ">=1,<2", true),
            (">=2", "<2", true),
            (">=2", "<=2", false),
            (">=1.5", "<2", false),
            ("~=2.1", "<2", true),
            ("==2.1+rocm6.4", "==2.1", false),
            ("==2.1.*", "==2.1.3", false),
            ("==2.0", "==2", false),
            (">=1", ">=2", false),
        ] {
            let is_wrong = excludes(one, other) || excludes(other, one);
            assert_eq!(is_wrong, expected, "{one} {other}");
        }
    }
}
