//! The GPU in WSL2.

use pins::Releases;

use super::{Context, Finding, Severity, Verdict};

const SOURCE: &str = "ROCm/librocdxg; warpfront/hipfire#49";

/// ROCm reaches the GPU through `/dev/dxg` and librocdxg.
pub(super) fn gpu(context: &Context<'_>) -> Verdict {
    let Some(wsl) = &context.machine.wsl else { return Verdict::skipped("not WSL2") };
    if !wsl.has_device {
        return Finding::new(
            Severity::Error,
            "/dev/dxg is missing",
            "/dev/dxg, which the Windows driver provides",
        )
        .because("in WSL2 there is no /dev/kfd; the GPU is reached through Windows", SOURCE)
        .repair(
            "# in Windows: install AMD's current driver, then `wsl --update` and `wsl --shutdown`",
        )
        .into();
    }
    let mut findings = Vec::new();
    if wsl.library.is_none() {
        findings.push(Finding::new(
            Severity::Error,
            "/dev/dxg exists, but librocdxg is not installed",
            "librocdxg.so in /opt/rocm/lib",
        )
        .because("ROCm needs this library to use /dev/dxg, and finds no GPU without it", SOURCE)
        .repair("# install librocdxg as https://github.com/ROCm/librocdxg describes; do not install amdgpu-dkms"));
    }
    let old: Vec<String> = context
        .releases()
        .into_iter()
        .filter(|(rocm, _)| is_before_detection(rocm))
        .map(|(rocm, tracks)| format!("ROCm {rocm} ({})", tracks.join(", ")))
        .collect();
    let is_set = context.machine.variable("HSA_ENABLE_DXG_DETECTION") == Some("1");
    if !old.is_empty() && !is_set {
        findings.push(
            Finding::new(
                Severity::Warning,
                format!(
                    "HSA_ENABLE_DXG_DETECTION is not set, but is needed by {}",
                    old.join(" and ")
                ),
                "HSA_ENABLE_DXG_DETECTION=1",
            )
            .because(
                "ROCm before 7.13 does not look for /dev/dxg without this variable",
                "a maintainer in ROCm/librocdxg#34",
            )
            .repair("export HSA_ENABLE_DXG_DETECTION=1"),
        );
    }
    Verdict::of(findings, || {
        let library = wsl.library.as_deref().unwrap_or_default();
        format!("/dev/dxg and {library}; one GPU, and `memory=` in .wslconfig limits its memory")
    })
}

/// Returns whether a ROCm release looks for `/dev/dxg` only if a variable is set.
fn is_before_detection(rocm: &str) -> bool {
    "7.12 or older".parse::<Releases>().is_ok_and(|old| old.contains(rocm))
}
