//! What the built-in `gpus.toml` says about each GPU and ROCm release: the override, and what the
//! GPU cannot do. The answers are those of an independent expert, with sources.

#![expect(clippy::panic, reason = "a test's helpers fail the test")]

use std::collections::BTreeSet;

use names::{GfxVersion, GpuTarget};
use pins::{Gpus, parse_gpus};

/// GPU, ROCm release, override (`-` for none), and words of each warning.
const TABLE: &[(&str, &str, &str, &[&str])] = &[
    ("gfx900", "5.7", "-", &[]),
    ("gfx900", "6.0", "-", &["for ROCm 6.1 to 6.3"]),
    ("gfx900", "6.3", "-", &[]),
    ("gfx900", "6.4", "-", &["PyTorch's packages for ROCm 6.3"]),
    ("gfx900", "7.2", "-", &["uses Vulkan"]),
    ("gfx906", "6.2", "-", &[]),
    ("gfx906", "6.4", "-", &["PyTorch's packages for ROCm 6.3"]),
    ("gfx906", "7.1", "-", &["rocBLAS has no code for gfx906"]),
    ("gfx902", "6.3", "9.0.0", &[]),
    ("gfx902", "7.2", "9.0.0", &[]),
    ("gfx90c", "5.7", "-", &["uses Vulkan"]),
    ("gfx90c", "6.4", "-", &["uses Vulkan"]),
    ("gfx908", "6.4", "-", &["vLLM's documentation does not list gfx908"]),
    ("gfx90a", "6.0", "-", &[]),
    ("gfx90a", "7.1", "-", &[]),
    ("gfx942", "6.0", "-", &[]),
    ("gfx942", "7.9", "-", &[]),
    ("gfx950", "6.4", "-", &["ROCm 7.0 or newer"]),
    ("gfx950", "7.0", "-", &[]),
    ("gfx1010", "5.7", "-", &["code for gfx1030 crashes"]),
    ("gfx1010", "6.2", "-", &["a program built for gfx1010 with ROCm 6.1 to 6.3"]),
    ("gfx1010", "6.4", "-", &["rocBLAS of ROCm 6.4 to 7.13"]),
    ("gfx1010", "7.2", "-", &["uses Vulkan"]),
    ("gfx1010", "7.13", "-", &["ROCm 7.14 or newer"]),
    ("gfx1010", "7.14", "-", &["AMD's packages (`torch[device-gfx1010]`)"]),
    ("gfx1010", "10.0", "-", &["PyTorch's own packages have no code"]),
    ("gfx1012", "6.2", "-", &["AMD's packages for ROCm 7.14"]),
    ("gfx1012", "7.0", "-", &["uses Vulkan"]),
    ("gfx1030", "5.7", "-", &["vLLM"]),
    ("gfx1030", "7.2", "-", &["vLLM"]),
    ("gfx1030", "7.9", "-", &["ROCm 7.2", "vLLM"]),
    ("gfx1030", "7.14", "-", &["vLLM"]),
    ("gfx1031", "5.7", "10.3.0", &[]),
    ("gfx1031", "7.0", "10.3.0", &[]),
    ("gfx1031", "7.2", "10.3.0", &[]),
    ("gfx1031", "7.2.4", "10.3.0", &[]),
    ("gfx1031", "7.9", "-", &["AMD's previews 7.9 to 7.12"]),
    ("gfx1031", "7.12", "-", &["AMD's previews 7.9 to 7.12"]),
    ("gfx1031", "7.13", "-", &["add `--spoof`"]),
    ("gfx1031", "7.14", "-", &["PyTorch's own packages and Ollama"]),
    ("gfx1031", "10.1", "-", &["add `--spoof`"]),
    ("gfx1032", "6.4", "10.3.0", &[]),
    ("gfx1032", "10.0", "-", &["add `--spoof`"]),
    ("gfx1033", "6.4", "-", &["wrong results"]),
    ("gfx1033", "7.2", "-", &["wrong results"]),
    ("gfx1033", "10.0", "-", &["wrong results"]),
    ("gfx1034", "6.2", "10.3.0", &[]),
    ("gfx1034", "7.14", "-", &["add `--spoof`"]),
    ("gfx1035", "7.0", "10.3.0", &[]),
    ("gfx1035", "7.13", "-", &["add `--spoof`"]),
    ("gfx1036", "6.3", "10.3.0", &[]),
    ("gfx1036", "10.0", "-", &["add `--spoof`"]),
    ("gfx1100", "6.0", "-", &[]),
    ("gfx1100", "7.2", "-", &[]),
    ("gfx1101", "5.7", "-", &["PyTorch's packages for ROCm 6.3"]),
    ("gfx1101", "6.4", "-", &[]),
    ("gfx1102", "6.0", "-", &["PyTorch before 2.7"]),
    ("gfx1102", "6.3", "-", &[]),
    ("gfx1102", "7.2", "-", &[]),
    ("gfx1103", "6.0", "11.0.0", &[]),
    ("gfx1103", "7.0", "11.0.0", &[]),
    ("gfx1103", "7.2", "11.0.0", &[]),
    ("gfx1103", "7.12", "11.0.0", &[]),
    ("gfx1103", "7.13", "-", &[]),
    ("gfx1103", "7.14", "-", &[]),
    ("gfx1150", "6.4", "-", &["ROCm 7.2 or newer"]),
    ("gfx1150", "7.0", "-", &["vLLM requires ROCm 7.0.2"]),
    ("gfx1150", "7.0.2", "-", &[]),
    ("gfx1150", "7.2", "-", &[]),
    ("gfx1151", "6.2", "-", &["ROCm 7.2 or newer"]),
    ("gfx1151", "6.4.4", "-", &["ROCm 7.2 or newer"]),
    ("gfx1151", "7.0", "-", &["hipMalloc crashed"]),
    ("gfx1151", "7.1", "-", &["(one report); use ROCm 7.2"]),
    ("gfx1151", "7.2", "-", &[]),
    ("gfx1151", "7.9", "-", &[]),
    ("gfx1151", "10.1", "-", &[]),
    ("gfx1152", "6.4", "-", &["AMD's packages for ROCm 7.14"]),
    ("gfx1152", "7.1", "11.5.0", &[]),
    ("gfx1152", "7.2", "11.5.0", &[]),
    ("gfx1152", "7.14", "-", &["PyTorch's own packages"]),
    ("gfx1153", "7.2", "11.5.0", &[]),
    ("gfx1153", "7.14", "-", &["PyTorch's own packages"]),
    ("gfx1200", "6.2", "-", &["ROCm 6.4 or newer"]),
    ("gfx1200", "6.3", "-", &[]),
    ("gfx1201", "6.0", "-", &["another generation can crash"]),
    ("gfx1201", "7.2", "-", &[]),
];

fn gpus() -> Gpus {
    let text = include_str!("../../../versions/gpus.toml");
    parse_gpus("versions/gpus.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns what `env` says without `--for`: tracks contain no SGLang.
fn limits(gpus: &Gpus, target: &GpuTarget, rocm: Option<&str>) -> Vec<String> {
    let all = gpus.limits(target, rocm).into_iter();
    all.filter(|limit| limit.programs != ["sglang"]).map(|limit| limit.text).collect()
}

#[test]
fn each_gpu_and_release_has_the_override_and_the_warnings_that_are_right() {
    let gpus = gpus();
    for (gpu, rocm, wanted, words) in TABLE {
        let target = gpu.parse().unwrap();
        let found = gpus.wanted_override(&target, Some(rocm)).map(|version| version.to_string());
        assert_eq!(found.as_deref().unwrap_or("-"), *wanted, "{gpu} {rocm}");
        let limits = limits(&gpus, &target, Some(rocm));
        assert_eq!(limits.len(), words.len(), "{gpu} {rocm}: {limits:?}");
        for (limit, word) in limits.iter().zip(*words) {
            assert!(limit.contains(word), "{gpu} {rocm}: {limit}");
        }
    }
}

/// Every target, for releases of every kind.
#[test]
fn no_answer_is_silent_about_a_gpu_without_code_and_none_crosses_a_generation() {
    let gpus = gpus();
    for (target, known) in &gpus.gpus {
        for rocm in &gpus.rocm_releases {
            let spoof = gpus.wanted_override(target, Some(rocm));
            let limits = limits(&gpus, target, Some(rocm));
            assert!(
                limits.iter().all(|limit| !limit.contains("{gpu}") && limit.contains("; use "))
            );
            if let Some(spoof) = spoof {
                let own = GfxVersion::of_target(target).unwrap();
                assert_eq!(spoof.major(), own.major(), "{target} {rocm}");
            }
            // PyTorch's packages had code for RDNA 4 and gfx1150 before AMD supported these GPUs.
            let is_known = known.native_since.is_none() || gpus.is_native(target, rocm);
            let is_rdna4 = target.as_str().starts_with("gfx120") && !rocm.starts_with("5.");
            let is_strix = target.as_str() == "gfx1150";
            assert!(
                is_known || spoof.is_some() || !limits.is_empty() || is_rdna4 || is_strix,
                "nothing is said about {target} with ROCm {rocm}"
            );
        }
        assert!(
            TABLE.iter().any(|(gpu, ..)| gpu == &target.as_str()) || target.as_str() == "gfx1037"
        );
    }
}

#[test]
fn without_a_release_only_what_holds_for_all_is_said() {
    let gpus = gpus();
    let with_limits: BTreeSet<&str> = gpus
        .gpus
        .keys()
        .filter(|target| !limits(&gpus, target, None).is_empty())
        .map(|target| target.as_str())
        .collect();
    assert_eq!(with_limits, BTreeSet::from(["gfx1030", "gfx1033", "gfx908", "gfx90c"]));
    // Every limit names GPUs and releases that exist.
    for (name, limit) in &gpus.limits {
        assert!(limit.gpus.iter().all(|gpu| gpus.gpus.contains_key(gpu)), "{name}");
        let is_met = |rocm: &String| limit.rocm.iter().any(|range| range.contains(rocm));
        assert!(limit.rocm.is_empty() || gpus.rocm_releases.iter().any(is_met), "{name}");
    }
}

/// SGLang's kernels are built for two GPUs; AMD and SGLang have images for some others.
#[test]
fn sglang_has_a_row_for_every_gpu_without_kernels() {
    let gpus = gpus();
    let said = |gpu: &str, rocm: Option<&str>| {
        let all = gpus.limits(&gpu.parse().unwrap(), rocm).into_iter();
        all.filter(|limit| limit.programs == ["sglang"]).map(|limit| limit.text).collect::<Vec<_>>()
    };
    for (gpu, rocm, word) in [
        ("gfx1151", Some("7.2"), "whose tag contains gfx1151"),
        ("gfx1100", Some("7.1"), "since ROCm 7.14"),
        ("gfx1201", Some("7.2"), "since ROCm 7.14"),
        ("gfx1201", Some("7.14"), ""),
        ("gfx90a", Some("7.2"), "not built for gfx90a"),
    ] {
        let all = said(gpu, rocm);
        assert_eq!(all.len(), usize::from(!word.is_empty()), "{gpu}: {all:?}");
        assert!(all.iter().all(|one| one.contains(word)), "{gpu}: {all:?}");
    }
    for gpu in gpus.gpus.keys() {
        let has_kernels = matches!(gpu.as_str(), "gfx942" | "gfx950");
        assert_eq!(said(gpu.as_str(), Some("7.2")).is_empty(), has_kernels, "{gpu}");
    }
}
