//! Rules for variables that do not exist, have no effect, or are harmful.

use super::is_old_rocm;
use crate::shell::{Scope, Setting, UNKNOWN};
use crate::{Context, Facts, Findings, Kind};

/// Variables that only builds read.
const BUILD_ONLY: [&str; 5] =
    ["PYTORCH_ROCM_ARCH", "AMDGPU_TARGETS", "GPU_ARCHS", "HIP_ARCHITECTURES", "VLLM_TARGET_DEVICE"];

/// Variables for debugging a crash.
const DEBUG: [&str; 6] = [
    "AMD_SERIALIZE_KERNEL",
    "AMD_SERIALIZE_COPY",
    "HIP_LAUNCH_BLOCKING",
    "CUDA_LAUNCH_BLOCKING",
    "AMD_LOG_LEVEL",
    "TORCH_USE_HIP_DSA",
];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    each(facts, found);
    duplicates(facts, found);
    undefined(facts, context, found);
}

/// Checks each variable on its own.
pub(super) fn each(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for setting in &facts.settings {
        one(facts, setting, found);
    }
}

fn one(facts: &Facts<'_>, setting: &Setting, found: &mut Findings<'_>) {
    let Setting { name, value, line, scope } = setting;
    let (line, value) = (*line, value.trim());
    let is_known = !value.contains(UNKNOWN);
    // Variables that are set permanently: in an image, in a service, or in an environment file for
    // one.
    let is_kept = matches!(scope, Scope::Image | Scope::Run);
    let is_on = !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "off" | "no" | "");
    match name.as_str() {
        "HSA_OVERRIDE_GFX_VERSION" if is_known => spoof(facts, value, line, found),
        _ if BUILD_ONLY.contains(&name.as_str()) && *scope == Scope::Run => {
            found.add("variable-build-only", line, format!("`{name}` is set for a running container"));
        }
        "HIP_SUPPORTED_ARCHS" => found.add("hip-supported-archs", line, format!("`{name}` is set in the environment")),
        _ if DEBUG.contains(&name.as_str()) && is_kept && is_on => {
            found.add("debug-variable-baked", line, format!("`{name}={value}` is set for every run"));
        }
        "VLLM_LOGGING_LEVEL" if is_kept && value.eq_ignore_ascii_case("debug") => {
            found.add("debug-variable-baked", line, format!("`{name}={value}` makes decoding 20 to 100 times slower"));
        }
        "VLLM_USE_V1" if value == "0" => found.add("variable-without-effect", line, "`VLLM_USE_V1=0` is ignored since vLLM 0.14"),
        "VLLM_ATTENTION_BACKEND" => {
            found.add("variable-without-effect", line, "current vLLM does not read `VLLM_ATTENTION_BACKEND`; use `--attention-backend`");
        }
        "GGML_HIP_UMA" => found.add("variable-without-effect", line, "`GGML_HIP_UMA` became `GGML_CUDA_ENABLE_UNIFIED_MEMORY`"),
        "ROC_ENABLE_PRE_VEGA" => found.add("pre-vega", line, format!("`{name}` is set")),
        "GGML_CUDA_ENABLE_UNIFIED_MEMORY" if value == "0" => found.add("unified-memory-zero", line, format!("`{name}=0` switches unified memory on")),
        "VLLM_ROCM_USE_AITER" | "SGLANG_USE_AITER" | "SGLANG_USE_AITER_AR" if is_on && is_known && facts.is_gfx1151 => {
            found.add("aiter-on-rdna", line, format!("`{name}={value}` on gfx1151"));
        }
        "PYTORCH_TUNABLEOP_ENABLED" if is_on && is_known && is_kept => found.add("tunableop-on", line, format!("`{name}={value}`")),
        "DEVICE_LIB_PATH" | "HIP_DEVICE_LIB_PATH" if value.contains("amdgcn/bitcode") => {
            found.add("device-lib-path", line, format!("`{name}` is set to a fixed path"));
        }
        "ROCM_VERSION" if is_old_rocm(value) => found.add("rocm-too-old", line, format!("ROCm `{value}`")),
        "OLLAMA_GPU_MEMORY" => found.add_with(
            "variable-does-not-exist",
            line,
            "`OLLAMA_GPU_MEMORY` has never existed in any Ollama release",
            "remove it; `ttm.pages_limit` on the host sets the GPU's memory limit, and `OLLAMA_GPU_OVERHEAD` only reserves bytes",
        ),
        _ => {
            // `OLLAMA_VERSION` and similar names are pins in Ollama builds.
            let near = ::pins::unknown_ollama_variable(name).filter(|_| !is_pin_name(name));
            if let Some(near) = near {
                let help = match near {
                    Some(near) => format!("did you mean `{near}`? Otherwise remove it"),
                    None => "remove it; `ollama serve --help` lists the variables that exist".to_owned(),
                };
                found.add_with("variable-does-not-exist", line, format!("`{name}` is not a variable of Ollama"), help);
            }
        }
    }
    if is_commit_name(name) && is_known && is_branch(value) {
        let rule = if value.ends_with("main_perf") {
            "flash-attention-branch"
        } else {
            "branch-as-commit"
        };
        found.add(rule, line, format!("`{name}` is the branch `{value}`"));
    }
    if matches!(name.as_str(), "VLLM_VERSION" | "VLLM_TAG" | "VLLM_REF" | "VLLM_COMMIT")
        && value.trim_start_matches('v') == "0.10.3"
    {
        found.add_with(
            "no-such-version",
            line,
            format!("vLLM has no release `{value}`"),
            "the nearest are v0.10.2 and v0.11.0",
        );
    }
    let is_list = name.ends_with("_ARCH") || name.ends_with("_ARCHS") || name.ends_with("_TARGETS");
    if is_list && (value.contains("gfx940") || value.contains("gfx941")) {
        found.add("retired-target", line, format!("`{name}` contains gfx940 or gfx941"));
    }
}

fn spoof(facts: &Facts<'_>, value: &str, line: usize, found: &mut Findings<'_>) {
    let is_version = value.parse::<::names::GfxVersion>().is_ok();
    match value {
        "" => found.add("hsa-override-empty", line, "`HSA_OVERRIDE_GFX_VERSION` is set, but empty"),
        _ if !is_version => found.add(
            "hsa-override-form",
            line,
            format!("`HSA_OVERRIDE_GFX_VERSION={value}` is not three numbers"),
        ),
        "11.5.1" if facts.is_gfx1151 => {
            found.add("hsa-override-identity", line, "`11.5.1` is gfx1151 itself");
        }
        "10.3.1" => found.add("hsa-override-identity", line, "`10.3.1` is gfx1031 itself"),
        "11.0.0" | "11.0.1" | "11.0.2" if facts.is_gfx1151 => {
            found.add(
                "hsa-override-gfx1151",
                line,
                format!("`HSA_OVERRIDE_GFX_VERSION={value}` in a file about gfx1151"),
            );
        }
        _ => {}
    }
}

/// Returns whether a variable's name suggests that it contains a commit.
fn is_commit_name(name: &str) -> bool {
    ["_COMMIT", "_SHA", "_REVISION", "_BRANCH"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a value is the name of a branch.
pub(super) fn is_branch(value: &str) -> bool {
    let last = value.rsplit('/').next().unwrap_or(value);
    let is_numbered = last.trim_start_matches(['v', 'b']).starts_with(|c: char| c.is_ascii_digit());
    let is_commit = value.len() >= 7 && value.bytes().all(|b| b.is_ascii_hexdigit());
    const NAMES: [&str; 11] = [
        "main",
        "master",
        "develop",
        "dev",
        "nightly",
        "trunk",
        "HEAD",
        "head",
        "main_perf",
        "latest",
        "release",
    ];
    !is_numbered && !is_commit && (NAMES.contains(&last) || value.contains("main_perf"))
}

/// Checks for two values of one name, in files that only set variables.
fn duplicates(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let only_sets =
        facts.kind == Kind::Environment || facts.kind == Kind::Shell && facts.commands.is_empty();
    if !only_sets {
        return;
    }
    for (at, setting) in facts.settings.iter().enumerate() {
        let earlier = facts.settings[..at].iter().rev().find(|other| other.name == setting.name);
        if let Some(earlier) = earlier.filter(|earlier| earlier.value != setting.value) {
            let Setting { name, value, line, .. } = setting;
            found.add(
                "duplicate-pin",
                *line,
                format!(
                    "`{name}` is `{value}` here, but `{}` on line {}",
                    earlier.value, earlier.line
                ),
            );
        }
    }
}

/// Returns whether a name looks like that of a pin.
const PIN_ENDS: [&str; 11] = [
    "VERSION", "COMMIT", "REF", "TAG", "DIGEST", "SHA", "SHA256", "BRANCH", "IMAGE", "REVISION",
    "URL",
];

fn is_pin_name(name: &str) -> bool {
    PIN_ENDS.iter().any(|end| {
        name.strip_suffix(end).is_some_and(|before| before.ends_with('_') && before.len() > 1)
    })
}

/// Returns whether the system sets a variable.
const SYSTEM: [&str; 8] =
    ["GITHUB_", "CI_", "GITLAB_", "RUNNER_", "BASH_", "OS_", "BUILDKITE_", "JENKINS_"];

/// Checks for pins that are used, but not set by any file of the run.
fn undefined(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_source = |words: &[crate::shell::Word]| matches!(words[0].text.as_str(), "source" | ".");
    let sourced: Vec<&str> = facts
        .commands
        .iter()
        .filter(|command| is_source(&command.words))
        .filter_map(|command| Some(command.words.get(1)?.text.as_str()))
        .collect();
    let others = context.defined;
    if !sourced.is_empty() && others.is_none_or(std::collections::BTreeSet::is_empty) {
        return;
    }
    for (name, line) in &facts.missing {
        let is_pin = is_pin_name(name);
        let is_set = facts.settings.iter().any(|setting| setting.name == *name)
            || others.is_some_and(|names| names.contains(name));
        let is_system = SYSTEM.iter().any(|start| name.starts_with(start)) || name == "TARGET_SHA";
        if is_pin && !is_set && !is_system {
            found.add("undefined-pin", *line, format!("`{name}` is used, but not defined"));
        }
    }
}
