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
        found.add("yaml-invalid", line, format!("the file is not YAML: {problem}"));
    }
}
