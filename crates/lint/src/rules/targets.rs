//! Rules for build variables that an image sets for every run.

use crate::shell::{Scope, Setting};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// Variables that only a build reads.
const BUILD_ONLY: [&str; 5] = [
    "AMDGPU_TARGETS",
    "CMAKE_HIP_ARCHITECTURES",
    "GPU_ARCHS",
    "HIP_ARCHITECTURES",
    "PYTORCH_ROCM_ARCH",
];

/// Texts that show that a Dockerfile compiles something, or is for people who do.
const BUILDS: [&str; 24] = [
    "/bash\"]",
    "\"bash\"",
    "-e .",
    "bitsandbytes",
    "build.sh",
    "cargo",
    "cmake",
    "cmd bash",
    "compile",
    "deepspeed",
    "flash-attn",
    "flash_attn",
    "git+",
    "hipcc",
    "install -e",
    "install .",
    "install ./",
    "make ",
    "meson",
    "ninja",
    "no-binary",
    "no-build-isolation",
    "setup.py",
    "tensorflow",
];

/// Checks for a build variable in an image that compiles nothing.
pub(super) fn built(facts: &Facts<'_>, setting: &Setting, found: &mut Findings<'_>) {
    let Setting { name, line, scope, .. } = setting;
    let is_wanted = BUILD_ONLY.contains(&name.as_str()) && *scope == Scope::Image;
    if facts.kind != Kind::Dockerfile || !is_wanted {
        return;
    }
    let lower = facts.code.to_ascii_lowercase();
    let starts = ["cmd", "entrypoint"];
    let has_start = lower
        .lines()
        .any(|code| code.split_whitespace().next().is_some_and(|word| starts.contains(&word)));
    // The file may pass the variable to a build that `BUILDS` does not list.
    let uses = || facts.code.matches(&format!("${{{name}")).count() > 0;
    let uses_plain = || facts.code.contains(&format!("${name}"));
    if has_start && !BUILDS.iter().any(|text| lower.contains(text)) && !uses() && !uses_plain() {
        let message = format!("`{name}` is set in an image that compiles nothing");
        let hit = Hit::new("variable-build-only", *line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}
