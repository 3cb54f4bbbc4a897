//! The GPU in WSL2.

use super::{Context, Finding, Severity, Verdict};
use crate::wsl::{DETECTION, DETECTION_FACT, needs_detection};

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
        .filter(|(rocm, _)| needs_detection(rocm))
        .map(|(rocm, tracks)| format!("ROCm {rocm} ({})", tracks.join(", ")))
        .collect();
    let is_set = context.machine.variable(DETECTION) == Some("1");
    if !old.is_empty() && !is_set {
        let seen = format!("{DETECTION} is not set, but is needed by {}", old.join(" and "));
        let (why, source) = DETECTION_FACT;
        findings.push(
            Finding::new(Severity::Warning, seen, format!("{DETECTION}=1"))
                .because(why, source)
                .repair(format!("export {DETECTION}=1")),
        );
    }
    Verdict::of(findings, || {
        let library = wsl.library.as_deref().unwrap_or_default();
        format!("/dev/dxg and {library}; one GPU, and `memory=` in .wslconfig limits its memory")
    })
}
