//! Rules for lists of GPU targets.

use crate::{Facts, Findings, Kind};

/// Options of CMake with the targets of a build.
const OPTIONS: [&str; 4] =
    ["AMDGPU_TARGETS", "CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "HIP_ARCHITECTURES"];

/// Variables with options for CMake.
const ARGUMENTS: [&str; 3] = ["CMAKE_ARGS", "CMAKE_FLAGS", "SKBUILD_CMAKE_ARGS"];

/// Checks for targets that CMake gets with commas between them.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        return;
    }
    let commands = facts.commands.iter().filter(|command| !command.is_message());
    let words =
        commands.flat_map(|command| &command.words).map(|one| (one.text.as_str(), one.line));
    let settings = facts.settings.iter().filter(|one| ARGUMENTS.contains(&one.name.as_str()));
    let settings =
        settings.flat_map(|one| one.value.split_whitespace().map(|text| (text, one.line)));
    let mut lists = words.chain(settings).filter_map(|(text, line)| Some((option(text)?, line)));
    if let Some(((name, value), line)) = lists.find(|((_, value), _)| has_commas(value)) {
        let message = format!("`{name}` is a list of CMake, and `{value}` is one element of it");
        found.add("target-separator", line, message);
    }
}

/// Returns the name and the value of an option with targets: `-DGPU_TARGETS:STRING=gfx90a`.
fn option(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix("-D")?.split_once('=')?;
    let name = name.split(':').next().unwrap_or(name);
    OPTIONS.contains(&name).then(|| (name, value.trim_matches(['"', '\''])))
}

fn has_commas(value: &str) -> bool {
    value.contains(',') && value.split(',').all(|target| target.trim().starts_with("gfx"))
}
