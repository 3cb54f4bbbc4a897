//! Rules for words anywhere in a file, including comments.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::FIRST_ROCM;
use crate::{Context, Facts, Findings, Kind};

/// A rule, the pattern of a line that violates it, and the message.
type Row = (&'static str, &'static str, &'static str);

/// The patterns are in lower case; lines are converted to lower case first.
const ROWS: [Row; 20] = [
    (
        "gttsize-deprecated",
        r"amdgpu\.gttsize\s*=|options\s+amdgpu\s.*gttsize=",
        "`amdgpu.gttsize` is set",
    ),
    (
        "amdttm-module",
        r"\bamdttm(\.|\s+)(pages_limit|page_pool_size)",
        "a parameter of `amdttm` is set",
    ),
    (
        "amdgpu-noretry",
        r"amdgpu\.noretry\s*=\s*0|options\s+amdgpu\s.*noretry=0",
        "`amdgpu.noretry=0` is set",
    ),
    (
        "large-carve-out",
        r"(uma frame buffer|uma buffer|vram carve-?out|carve-?out|dedicated (gpu )?memory).{0,40}(maximum|\bmax\b|(32|48|64|96)\s*gi?b)",
        "a large carve-out is recommended",
    ),
    (
        "world-writable-gpu",
        r#"(kfd|renderd|/dri).*mode\s*[:=]?=\s*"?0?666|mode\s*[:=]?=\s*"?0?666.*(kfd|renderd|/dri)"#,
        "a rule gives everyone access to the GPU",
    ),
    ("vulkan-sdk-apt", r"packages\.lunarg\.com", "LunarG's repository for Ubuntu is used"),
    (
        "silicon-mixup",
        r"gfx1151.{0,12}strix[ -]point|strix[ -]point(/halo)?.{0,12}gfx1151|hx[ -]?37[05].{0,20}gfx1151|gfx1151.{0,20}hx[ -]?37[05]|gfx1150.{0,12}strix[ -]halo",
        "the target does not belong to this GPU",
    ),
    (
        "performance-claim",
        r"884\s*tok|\d(\.\d+)?x (faster|slower).{0,40}(hip|rocm|vulkan)|(hip|rocm|vulkan).{0,60}\d+(\.\d+)?\s*(tok(ens)?/s|tokens per second|t/s)",
        "a speed is claimed",
    ),
    (
        "bitsandbytes-stale",
        r"bitsandbytes.{0,30}(not|n't|no|lack|without).{0,20}(support|rocm|amd)",
        "bitsandbytes is claimed not to support AMD",
    ),
    (
        "rocm-lts",
        r"rocm[ -]?5\.\d.{0,8}lts|lts.{0,8}rocm[ -]?5",
        "a ROCm release is called long-term support",
    ),
    (
        "missing-code-objects",
        r"rocm (can'?t|cannot|does ?n[o']t).{0,20}(auto-?)?detect",
        "ROCm is claimed not to find the GPU",
    ),
    (
        "rocm-too-old",
        r"rocm[ -]?(6\.[0-4](\.\d)?|7\.[01](\.\d)?).{0,40}(stable|added gfx1151|supports? gfx1151|recommended)",
        "an old ROCm is recommended for gfx1151",
    ),
    (
        "flash-attention-branch",
        r"flash[-_]attention.{0,60}main_perf|main_perf.{0,60}flash[-_]attention",
        "`main_perf` is recommended for a build",
    ),
    (
        "hsa-override-form",
        r"hsa_override_gfx_version\s*[:=]\s*.?gfx\d",
        "the override is a target name",
    ),
    ("variable-does-not-exist", r"\bollama_gpu_memory\b", "`OLLAMA_GPU_MEMORY` is mentioned"),
    (
        "variable-build-only",
        r"(pytorch_rocm_arch|vllm_target_device).{0,60}(fix|cure|solve|avoid).{0,30}invalid device function|invalid device function.{0,60}(pytorch_rocm_arch|vllm_target_device)",
        "a build variable is recommended as a fix",
    ),
    (
        "no-such-version",
        r"\bvllm\b.{0,30}\bv?0\.10\.3\b|bump vllm v0\.10\.3",
        "vLLM 0.10.3 is mentioned",
    ),
    ("retired-target", r"\bgfx94[01]\b", "gfx940 or gfx941 is mentioned"),
    ("fedora-release", r"fedora[ :]43.{0,12}rawhide", "Fedora 43 is called Rawhide"),
    (
        "rtld-global-patch",
        r"rtld_global\s*[:=].{0,12}false|rtld_global=false",
        "rocm_sdk is changed to load its libraries locally",
    ),
];

static SET: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    // Advice is ASCII; Unicode tables would only slow down the start.
    RegexSetBuilder::new(ROWS.map(|(_, pattern, _)| pattern)).unicode(false).build().ok()
});

/// Longer lines do not contain advice.
const LONGEST: usize = 2_000;

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(set) = SET.as_ref() else { return };
    for (line, text) in facts.lines() {
        if text.len() > LONGEST {
            continue;
        }
        let lower = text.to_ascii_lowercase();
        for hit in &set.matches(lower.as_bytes()) {
            let (rule, _, message) = ROWS[hit];
            // If the facts of a file are extracted, other rules know more about its variables.
            let has_own = rule == "variable-does-not-exist" || rule == "hsa-override-form";
            if has_own
                && !lower.contains('#')
                && !matches!(facts.kind, Kind::Text | Kind::Requirements)
            {
                continue;
            }
            if rule == "flash-attention-branch" && facts.kind == Kind::Environment {
                continue;
            }
            if rule == "rocm-too-old" {
                let help = format!("use ROCm {FIRST_ROCM} or newer");
                found.add_with(rule, line, message, help);
            } else {
                found.add(rule, line, message);
            }
        }
        moved_index(text, line, context, found);
    }
}

/// Checks for urls of wheel indexes that moved.
fn moved_index(text: &str, line: usize, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(compat) = context.compat else { return };
    for (at, _) in text.match_indices("https://") {
        if let Some(row) = compat.moved_index(&text[at..]) {
            let help = format!("use {}", row.instead);
            found.add_with("index-moved", line, format!("the index `{}` has moved", row.url), help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_are_valid() {
        assert!(SET.is_some());
        for (rule, pattern, _) in ROWS {
            assert!(crate::rule(rule).is_some(), "{rule}");
            assert!(!pattern.chars().any(char::is_uppercase), "{pattern}");
        }
    }
}
