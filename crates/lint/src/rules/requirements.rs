//! Rules for lists of requirements that a Dockerfile installs: packages without a version, what is
//! wrong in the list itself, and a torch other than that of the base image.

use super::frameworks::{OTHER, SETTINGS};
use super::images::{self, Parts};
use super::stages::instruction_of;
use crate::python::is_pip;
use crate::requirements::{self, List};
use crate::shell::ShellCommand;
use crate::specifier::{Requirement, requirement};
use crate::{Context, Facts, Finding, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) else { return };
    let all = facts.instructions();
    let mut known: Vec<String> = Vec::new();
    for command in &facts.commands {
        let words = command.texts();
        let own = instruction_of(all, command.words[0].line);
        // In another folder, the list can be another one.
        let is_moved = own.is_none_or(|own| own.text.contains("cd "));
        if !is_pip(&words) || !words.contains(&"install") {
            continue;
        }
        for list in requirements::installed(facts.file, facts.text, command, exists) {
            let is_here = !is_moved || list.path.starts_with('/');
            if !is_here || known.contains(&list.path) {
                continue;
            }
            known.push(list.path.clone());
            let is_changed = is_changed(facts, &list);
            if !is_changed {
                wrong_inside(&list, context, found);
                other_torch(facts, command, &list, found);
            }
            if !is_settled(&words) {
                open(&list, is_changed, found);
            }
        }
    }
}

/// Returns whether a command gives the versions in another way.
pub(super) fn is_settled(words: &[&str]) -> bool {
    words.iter().any(|word| {
        matches!(*word, "-c" | "--require-hashes" | "--no-index")
            || word.starts_with("--constraint")
    })
}

/// Returns whether a command before can change a list: `sed -i '/torch/d' requirements.txt`.
fn is_changed(facts: &Facts<'_>, list: &List) -> bool {
    let name = list.path.rsplit('/').next().unwrap_or(&list.path);
    facts.commands.iter().any(|one| {
        let program = one.words[0].text.rsplit('/').next().unwrap_or_default();
        matches!(program, "sed" | "grep" | "awk" | "perl" | "tee" | "mv" | "cp" | "uv" | "echo")
            && one.words[0].line <= list.line
            && !one.words.iter().any(|word| word.text == "install")
            && one.words.iter().any(|word| word.text.ends_with(name))
    })
}

/// Returns the requirements of a list.
pub(super) fn requirements_in(text: &str) -> Vec<Requirement<'_>> {
    text.lines().filter_map(requirement).collect()
}

/// Texts of lists that give versions in another way.
pub(super) const SETTLED: [&str; 4] = ["-c ", "--constraint", "--hash", "--require-hashes"];

/// The number of packages of a list from which on their versions matter.
pub(super) const FEWEST: usize = 3;

/// Checks for a list in which most packages have no version.
fn open(list: &List, is_changed: bool, found: &mut Findings<'_>) {
    let starts = |line: &str| SETTLED.iter().any(|one| line.trim_start().starts_with(one));
    if list.text.lines().any(|line| starts(line) || line.contains("--hash=")) {
        return;
    }
    let all = requirements_in(&list.text);
    let open = all.iter().filter(|one| one.is_open()).count();
    if all.len() < FEWEST
        || open * 2 <= all.len()
        || found.places().contains(&(list.line, "index-unpinned"))
    {
        return;
    }
    let path = list.path.rsplit('/').next().unwrap_or(&list.path);
    let has_bounds = all.iter().any(|one| !one.specifier.is_empty());
    let message = match (is_changed, has_bounds) {
        (false, false) => format!("`{path}` gives no version for any package"),
        (false, true) => {
            let all = all.len();
            format!(
                "`{path}` gives no version, or only the oldest one, for {open} of {all} packages"
            )
        }
        (true, _) => format!("`{path}` gives no version for most packages"),
    };
    found.add("index-unpinned", list.line, message);
}

/// Adds what is wrong in a list itself, on the line that installs it.
fn wrong_inside(list: &List, context: Context<'_>, found: &mut Findings<'_>) {
    let name = list.path.rsplit('/').next().unwrap_or(&list.path);
    let facts = Facts::read("requirements.txt", &list.text);
    let mut own = Findings::new("requirements.txt");
    super::run(&facts, context, &mut own);
    for one in own.all.iter().filter(|one| one.severity != Severity::Information) {
        let Finding { rule, severity, line, message, help, evidence, .. } = one;
        let message = format!("`{name}`, line {line}: {message}");
        let hit = Hit::new(&rule.id, list.line, message).help(help.as_str()).at_most(*severity);
        if !found.places().contains(&(list.line, rule.id.as_str())) {
            found.hit(hit.evidence(Some(evidence)));
        }
    }
}

/// Texts of Dockerfiles with which the torch of the base image does not matter.
const OTHER_TORCH: [&str; 2] = ["conda create", "venv"];

/// Returns the release of torch in the base image, if a command can replace it with the build of the
/// default index.
pub(super) fn torch_of_base<'f>(facts: &'f Facts<'_>, command: &ShellCommand) -> Option<&'f str> {
    let is_other = |text: &str| {
        OTHER.contains(&text.split('=').next().unwrap_or(text))
            || matches!(text, "-c" | "-f" | "-i" | "-t" | "--target")
    };
    let is_elsewhere = SETTINGS.iter().chain(&OTHER_TORCH).any(|text| facts.text.contains(text))
        || command.words.iter().any(|word| is_other(&word.text));
    let base = facts.base(command.stage).filter(|_| !is_elsewhere)?;
    let Parts { path, .. } = images::parts(&base.base);
    images::release_of(&base.base, "pytorch").filter(|_| path == "rocm/pytorch")
}

/// Returns what is wrong if a requirement, as `source` names it, does not allow the torch of the base
/// image.
pub(super) fn replaces(one: &Requirement<'_>, torch: &str, source: &str) -> Option<String> {
    let is_torch = one.name == "torch" && !one.is_special && !one.specifier.contains('+');
    (is_torch && one.allows(torch) == Some(false)).then(|| {
        format!(
            "`torch{}` in `{source}` does not allow the torch {torch} of the base image, so pip replaces it with the CUDA build",
            one.specifier
        )
    })
}

/// Checks for a list that requires another torch than the base image has.
fn other_torch(facts: &Facts<'_>, command: &ShellCommand, list: &List, found: &mut Findings<'_>) {
    let Some(torch) = torch_of_base(facts, command) else { return };
    let has_index = list.text.lines().any(|line| line.trim_start().starts_with("--"));
    let path = list.path.rsplit('/').next().unwrap_or(&list.path);
    let all = requirements_in(&list.text);
    let message = all.iter().find_map(|one| replaces(one, torch, path)).filter(|_| !has_index);
    if let Some(message) = message {
        let hit = Hit::new("torch-replaced", list.line, message).at_most(Severity::Warning);
        found.hit(
            hit.help("require the torch of the base image, or choose a base image that has it"),
        );
    }
}
