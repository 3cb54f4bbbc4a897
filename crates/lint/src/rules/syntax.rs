//! The rule for files that are not YAML.

use crate::{Facts, Findings, Kind, yaml};

/// Texts of templates, from which another program makes the file.
const TEMPLATES: [&str; 5] = ["{{", "{%", "<%", "$((", "@@"];

/// Checks for a compose file, manifest or workflow that is not YAML.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_yaml = matches!(facts.kind, Kind::Compose | Kind::Manifest | Kind::Workflow);
    let is_template = TEMPLATES.iter().any(|mark| facts.text.contains(mark));
    // An expression of a workflow is plain text.
    if !is_yaml || is_template && facts.kind != Kind::Workflow {
        return;
    }
    if let Some((line, problem)) = yaml::error(facts.text) {
        return found.add("yaml-invalid", line, format!("the file is not YAML: {problem}"));
    }
    // Compose and GitHub refuse such a file. Other programs use the last value.
    let is_strict = match facts.kind {
        Kind::Compose => !facts.file.contains("podman"),
        Kind::Workflow => facts.code.contains("runs-on:"),
        _ => false,
    };
    if let Some(yaml::Duplicate { key, line, first }) = yaml::duplicate(facts.text)
        && is_strict
    {
        let message = format!("this mapping already has the key `{key}`, on line {first}");
        let help = "write the values of both under one key";
        found.add_with("yaml-invalid", line, message, help);
    }
}
