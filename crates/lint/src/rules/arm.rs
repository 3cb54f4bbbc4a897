//! Rules for ROCm on processors for which AMD has none.

use super::images::path_and_tag;
use crate::{Facts, Findings, Kind};

/// The rule.
const RULE: &str = "rocm-arm64";

/// Texts of files for a Raspberry Pi.
const PI: [&str; 3] = ["/home/pi/", "user=pi\n", "raspberrypi"];

/// Texts of ROCm.
const ROCM: [&str; 3] = ["/opt/rocm", "hsa_override_gfx_version", "rocminfo"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Unit | Kind::Environment | Kind::Shell => on_pi(facts, found),
        Kind::Dockerfile => base(facts, found),
        _ => {}
    }
}

/// Checks a file for a Raspberry Pi.
fn on_pi(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let code = format!("{}\n", facts.code.to_ascii_lowercase());
    if !PI.iter().any(|text| code.contains(text)) {
        return;
    }
    let names = |text: &str| {
        let lower = text.to_ascii_lowercase();
        !facts.kind.is_comment(text) && ROCM.iter().any(|name| lower.contains(name))
    };
    if let Some((line, _)) = facts.lines().find(|(_, text)| names(text)) {
        found.add(RULE, line, "a Raspberry Pi has no ROCm");
    }
}

/// Checks for an image of AMD for the other processor.
fn base(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for one in facts.instructions() {
        let mut words = one.text.split_whitespace();
        let is_from = words.next().is_some_and(|word| word.eq_ignore_ascii_case("from"));
        let is_arm = words.next().is_some_and(|word| word.starts_with("--platform=linux/arm64"));
        let image = words.next().unwrap_or_default();
        if is_from && is_arm && path_and_tag(image).starts_with("rocm/") {
            found.add(RULE, one.line, format!("`{image}` does not exist for arm64"));
        }
    }
}
