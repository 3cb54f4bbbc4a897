//! Runs sed calls twice on copies of their files, and examines the results.
//!
//! Sed runs with `--sandbox`, so a script cannot run commands or reach other files. Calls on the
//! same file run in sequence: each call sees the changes of the calls before it.

use std::collections::{BTreeMap, BTreeSet};

use executor::{Edited, Tools};
use lint::shell::UNKNOWN;
use patcher::{ProbeJob, ProbeRun, Probes as _, Tool, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rooted::Rooted;
use crate::sed::call::SedCall;
use crate::sed::lists;
use crate::sed::script::{pieces, waits_for_line_ends};

/// A problem with a `sed -i` call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum Rule {
    /// Sed refuses the script.
    #[serde(rename = "sed-error")]
    Error,
    /// It changes nothing.
    #[serde(rename = "sed-no-op")]
    NoOp,
    /// Its pattern contains a newline, but sed reads line by line.
    #[serde(rename = "sed-line-end")]
    LineEnd,
    /// It adds an item to a list that already contains it.
    #[serde(rename = "sed-doubles")]
    Doubles,
    /// It removes items from a list.
    #[serde(rename = "sed-drops")]
    Drops,
    /// The file is no longer valid Python.
    #[serde(rename = "sed-breaks-syntax")]
    BreaksSyntax,
    /// A second run changes the file again.
    #[serde(rename = "sed-not-idempotent")]
    NotIdempotent,
    /// A second run makes the file invalid Python.
    #[serde(rename = "sed-breaks-on-rerun")]
    BreaksOnRerun,
    /// The text after `-i` is the suffix of a backup file, but looks like options.
    #[serde(rename = "sed-suffix")]
    Suffix,
    /// The tree has no such file, so sed fails.
    #[serde(rename = "sed-no-file")]
    NoFile,
    /// It could not be checked.
    #[serde(rename = "sed-not-checked")]
    NotChecked,
}

/// All rules.
const RULES: [Rule; 11] = [
    Rule::Error,
    Rule::NoOp,
    Rule::LineEnd,
    Rule::Doubles,
    Rule::Drops,
    Rule::BreaksSyntax,
    Rule::NotIdempotent,
    Rule::BreaksOnRerun,
    Rule::Suffix,
    Rule::NoFile,
    Rule::NotChecked,
];

/// Explains the rule of `patch lint-sed` with this name.
pub fn explanation(name: &str) -> Option<String> {
    let rule = RULES.into_iter().find(|rule| rule.name() == name)?;
    Some(format!("{name}: a finding of `patch lint-sed`\n\n{}\n", rule.meaning()))
}

impl Rule {
    /// Returns the rule's name, as reports print it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "sed-error",
            Self::NoOp => "sed-no-op",
            Self::LineEnd => "sed-line-end",
            Self::Doubles => "sed-doubles",
            Self::Drops => "sed-drops",
            Self::BreaksSyntax => "sed-breaks-syntax",
            Self::NotIdempotent => "sed-not-idempotent",
            Self::BreaksOnRerun => "sed-breaks-on-rerun",
            Self::Suffix => "sed-suffix",
            Self::NoFile => "sed-no-file",
            Self::NotChecked => "sed-not-checked",
        }
    }

    /// Returns what the rule reports, for `explain`.
    fn meaning(self) -> &'static str {
        match self {
            Self::Error => "sed refuses the script",
            Self::NoOp => "the command, or a part of it, changes nothing",
            Self::LineEnd => {
                "the pattern contains `\\n`, which sed never sees, because it reads line by line"
            }
            Self::Doubles => "the command adds an item to a list that already contains it",
            Self::Drops => {
                "the command removes items from a list; it may have been meant to add some"
            }
            Self::BreaksSyntax => "the file is no longer valid Python",
            Self::NotIdempotent => "a second run of the command changes the file again",
            Self::BreaksOnRerun => "a second run of the command makes the file invalid Python",
            Self::Suffix => {
                "the text after `-i` is the suffix of a backup file, but looks like options"
            }
            Self::NoFile => "the tree has no such file, so sed fails",
            Self::NotChecked => "a note: the command was not run, and the message says why",
        }
    }

    /// Returns whether the problem is a fault and not only a note.
    pub(crate) fn is_fault(self) -> bool {
        !matches!(self, Self::NotChecked)
    }
}

/// A finding about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The kind of problem.
    pub(crate) rule: Rule,
    /// The finding in words.
    pub(crate) message: String,
    /// The affected file of the tree.
    pub(crate) target: Option<TreePath>,
}

/// An in-memory copy of a tree on which calls are tried.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    tree: Option<&'a dyn Rooted>,
    tools: &'a Tools,
    contents: BTreeMap<TreePath, Vec<u8>>,
}

/// System folders. Their files are not part of a tree. `~` is a home directory.
const SYSTEM: [&str; 13] = [
    "/bin/", "/boot/", "/dev/", "/etc/", "/lib", "/proc/", "/root/", "/run/", "/sbin/", "/sys/",
    "/usr/", "/var/", "~",
];

/// A Python script that compiles the file in its argument.
const COMPILE: &str = "import sys\nname = sys.argv[1]\n\
    compile(open(name, 'rb').read(), name, 'exec', dont_inherit=True)\n";

impl<'a> Bench<'a> {
    /// Starts with the given tree, or without one.
    pub(crate) fn new(tree: Option<&'a dyn Rooted>, tools: &'a Tools) -> Self {
        Self { tree, tools, contents: BTreeMap::new() }
    }

    /// Checks a call by its text and by its effect on the tree.
    pub(crate) fn judge(&mut self, call: &SedCall) -> Vec<Judgement> {
        let mut all = Vec::new();
        let mut say = |rule, message: String| all.push(Judgement { rule, message, target: None });
        if !call.suffix.is_empty() && call.suffix.chars().all(|c| "Eenrsz".contains(c)) {
            say(
                Rule::Suffix,
                format!(
                    "`-i{0}` does not mean `-{0}`: it creates a backup file whose name ends in `{0}`",
                    call.suffix
                ),
            );
        }
        for script in call.scripts.iter().filter(|one| waits_for_line_ends(one, &call.options)) {
            let shown = SedCall { scripts: vec![script.clone()], ..call.clone() }.shown();
            say(
                Rule::LineEnd,
                format!(
                    "`{shown}` matches `\\n`, which sed never sees, because it reads line by line"
                ),
            );
        }
        let Some(tree) = self.tree else { return all };
        if let Some(obstacle) = call.obstacle() {
            say(Rule::NotChecked, format!("not run: {obstacle}"));
            return all;
        }
        for file in &call.files {
            match self.locate(tree, &call.folder, file) {
                Ok(path) => add(&mut all, self.try_on(call, &path)),
                Err((rule, message)) => all.push(Judgement { rule, message, target: None }),
            }
        }
        all
    }

    /// Finds the tree's file that a call refers to: the longest suffix of its path that exists in
    /// the tree.
    fn locate(
        &self,
        tree: &dyn Rooted,
        folder: &str,
        file: &str,
    ) -> Result<TreePath, (Rule, String)> {
        let shown = file.replace(UNKNOWN, "…");
        let not_checked = |why: &str| Err((Rule::NotChecked, format!("not run: `{shown}` {why}")));
        if file.contains(['*', '?', '[', '{']) {
            return not_checked("is a glob pattern");
        }
        let whole = if file.starts_with(['/', '~', UNKNOWN]) || folder.is_empty() {
            file.to_owned()
        } else {
            format!("{folder}/{file}")
        };
        let known = match whole.rsplit_once(UNKNOWN) {
            None => whole.as_str(),
            Some((_, rest)) if rest.starts_with('/') => rest,
            Some(_) => return not_checked("depends on an unknown variable"),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in known.split('/') {
            match part {
                "" | "." | "~" => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let ends = (0..parts.len()).filter_map(|from| parts[from..].join("/").parse().ok());
        if let Some(path) = ends.into_iter().find(|path| matches!(tree.read(path), Ok(Some(_)))) {
            return Ok(path);
        }
        let is_of_system = SYSTEM.iter().any(|root| whole.starts_with(root));
        if is_of_system || whole.contains(UNKNOWN) {
            return not_checked("is not in the tree");
        }
        Err((Rule::NoFile, format!("the tree has no `{shown}`, so sed fails")))
    }

    fn content(&self, path: &TreePath) -> Vec<u8> {
        let from_tree = || self.tree?.read(path).ok().flatten();
        self.contents.get(path).cloned().or_else(from_tree).unwrap_or_default()
    }

    /// Runs a call on a file twice.
    fn try_on(&mut self, call: &SedCall, path: &TreePath) -> Vec<Judgement> {
        let mut all = Vec::new();
        let mut say = |rule, message| {
            all.push(Judgement { rule, message, target: Some(path.clone()) });
        };
        let before = self.content(path);
        let once = match self.sed(call, &call.scripts, path, &before) {
            Ok(content) => content,
            Err((rule, message)) => {
                say(rule, message);
                return all;
            }
        };
        if once == before {
            say(Rule::NoOp, format!("changes nothing in `{path}`"));
            return all;
        }
        for piece in self.idle_pieces(call, path, &before, &once) {
            say(Rule::NoOp, format!("its part `{piece}` changes nothing in `{path}`"));
        }
        let twice = self.sed(call, &call.scripts, path, &once).unwrap_or_else(|_| once.clone());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let first = lists::compare(&text(&before), &text(&once));
        if !first.doubled.is_empty() {
            say(Rule::Doubles, format!("adds {} to `{path}` a second time", items(&first.doubled)));
        }
        if !first.dropped.is_empty() {
            say(Rule::Drops, format!("removes {} from `{path}`", items(&first.dropped)));
        }
        let is_python = path.as_str().ends_with(".py");
        let broken = |bytes: &[u8]| is_python.then(|| self.syntax_error(path, bytes)).flatten();
        let is_broken_before = broken(&before).is_some();
        let broken_once = broken(&once).filter(|_| !is_broken_before);
        if let Some(error) = &broken_once {
            say(Rule::BreaksSyntax, format!("makes `{path}` invalid Python: {error}"));
        }
        if twice != once {
            let second = lists::compare(&text(&once), &text(&twice));
            let broken = broken(&twice).filter(|_| !is_broken_before && broken_once.is_none());
            let (rule, what) = match broken {
                Some(error) => (Rule::BreaksOnRerun, format!("makes it invalid Python: {error}")),
                None if second.doubled.is_empty() => {
                    (Rule::NotIdempotent, "changes it again".to_owned())
                }
                None => (Rule::NotIdempotent, format!("adds {} once more", items(&second.doubled))),
            };
            say(rule, format!("a second run over `{path}` {what}"));
        }
        self.contents.insert(path.clone(), once);
        all
    }

    /// Returns the commands of a call that change nothing, although other commands do.
    fn idle_pieces(
        &self,
        call: &SedCall,
        path: &TreePath,
        before: &[u8],
        whole: &[u8],
    ) -> Vec<String> {
        let all: Vec<String> = call.scripts.iter().flat_map(|script| pieces(script)).collect();
        if all.len() < 2 {
            return Vec::new();
        }
        let mut content = before.to_vec();
        let mut idle = Vec::new();
        for piece in all {
            let Ok(next) = self.sed(call, std::slice::from_ref(&piece), path, &content) else {
                return Vec::new();
            };
            if next == content {
                idle.push(piece);
            }
            content = next;
        }
        // If the parts together do not give the whole result, they depend on each other, so their
        // individual effects mean nothing.
        if content == whole { idle } else { Vec::new() }
    }

    fn sed(
        &self,
        call: &SedCall,
        scripts: &[String],
        path: &TreePath,
        content: &[u8],
    ) -> Result<Vec<u8>, (Rule, String)> {
        let mut arguments = vec!["--sandbox".to_owned(), "-i".to_owned()];
        arguments.extend(call.options.iter().cloned());
        for script in scripts {
            arguments.extend(["-e".to_owned(), script.clone()]);
        }
        let name = path.as_str().rsplit('/').next().unwrap_or_default();
        arguments.extend(["--".to_owned(), name.to_owned()]);
        match self.tools.edit("sed", &arguments, name, content) {
            Edited::Content(content) => Ok(content),
            Edited::Failed(told) if told.contains("sandbox") => {
                Err((Rule::NotChecked, format!("not run: {told}")))
            }
            Edited::Failed(told) => Err((Rule::Error, format!("sed refuses it: {told}"))),
            Edited::NotRun(reason) => Err((Rule::NotChecked, format!("not run: {reason}"))),
        }
    }

    /// Returns the error if a file is not valid Python. Returns `None` if it is valid, or if it
    /// cannot be checked.
    fn syntax_error(&self, path: &TreePath, content: &[u8]) -> Option<String> {
        let name = path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        let job = ProbeJob {
            patch: String::new(),
            probe: String::new(),
            tool: Tool::Python,
            arguments: ["-I", "-B", "-", &name].map(str::to_owned).to_vec(),
            stdin: COMPILE.as_bytes().to_vec(),
            files: BTreeMap::from([(name, content.to_vec())]),
        };
        match self.tools.run(&job) {
            ProbeRun::Ended { success: false, stderr, .. } => {
                let told = String::from_utf8_lossy(&stderr).into_owned();
                let last = told.lines().rev().find(|line| !line.trim().is_empty());
                Some(last.unwrap_or("it does not compile").trim().to_owned())
            }
            ProbeRun::Ended { .. } | ProbeRun::NotRun { .. } | ProbeRun::Stopped { .. } => None,
        }
    }
}

/// Adds the findings of a run. If there already is a finding that a pattern contains a newline, a
/// finding that the call changes nothing only adds its file to that finding.
fn add(all: &mut Vec<Judgement>, shown: Vec<Judgement>) {
    for one in shown {
        let known = all.iter_mut().find(|known| known.rule == Rule::LineEnd);
        match known.filter(|_| one.rule == Rule::NoOp) {
            Some(known) => known.target = one.target,
            None => all.push(one),
        }
    }
}

/// Returns items for a message: the first few, with the line of the first.
fn items(all: &[(usize, String)]) -> String {
    const MOST: usize = 6;
    let mut seen = BTreeSet::new();
    let names = all.iter().map(|(_, name)| name.as_str()).filter(|name| seen.insert(*name));
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > MOST {
        format!(" and {} more", names.len() - MOST)
    } else {
        String::new()
    };
    let line = all.first().map(|(line, _)| format!(" (line {line})")).unwrap_or_default();
    format!("{}{more}{line}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_in_several_lists_is_named_once() {
        let all = [(3, "a"), (3, "b"), (9, "a")].map(|(line, name)| (line, name.to_owned()));
        assert_eq!(items(&all), "`a`, `b` (line 3)");
    }

    #[test]
    fn every_rule_is_explained() {
        let schema = serde_json::to_value(schemars::schema_for!(Rule)).unwrap();
        let variants = schema["oneOf"].as_array().unwrap();
        assert_eq!(variants.len(), RULES.len());
        for variant in variants {
            let name = variant["const"].as_str().unwrap();
            assert!(explanation(name).unwrap().starts_with(name), "{name}");
        }
        assert_eq!(explanation("sed-other"), None);
    }
}
