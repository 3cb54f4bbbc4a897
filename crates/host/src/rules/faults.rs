//! Kernels with known faults, whatever the GPU, and settings of the driver that are only for
//! debugging.

use std::collections::BTreeMap;

use super::system::System;
use super::{Context, Finding, Severity, Verdict, kernel};

/// The kernel has no known fault, and is a release.
pub(super) fn release(context: &Context<'_>) -> Verdict {
    let Some((_, release)) = context.gpu().zip(context.machine.kernel.release.as_deref()) else {
        return Verdict::skipped("no GPU or kernel to look up");
    };
    let alone = BTreeMap::new();
    let mut findings = Vec::new();
    if let Some((package, version)) = looked_up(release) {
        let rows = context.compat.bad(package, &version, &alone);
        findings.extend(rows.map(|(_, row)| {
            let right = format!("kernel {}", row.instead);
            Finding::new(Severity::Warning, format!("kernel {release} has a known fault"), right)
                .because(row.why.as_str(), row.evidence.to_string())
                .repair(update(context))
        }));
    }
    if is_test_version(release) {
        let right = "a kernel that was released";
        findings.push(
            Finding::new(Severity::Note, format!("kernel {release} is a test version"), right)
                .because(
                    "it lacks fixes that the release has; for example, the driver of 7.0-rc1 and 7.0-rc2 did not start on Strix Halo",
                    "https://www.wyns.dev/debugging-a-boot-crash-on-linux-7-0-rc1-and-rc2-strix-halo",
                )
                .repair("# choose a released kernel in the boot menu, or install one"),
        );
    }
    Verdict::of(findings, || format!("no fault of {release} is known"))
}

/// The flavours of Ubuntu's kernels.
const UBUNTU: [&str; 3] = ["generic", "lowlatency", "oem"];

/// Returns the package and the version that the table of known faults has for a kernel. Proxmox
/// takes fixes from both kernel.org and Ubuntu, so its kernels are not in the table.
fn looked_up(release: &str) -> Option<(&'static str, String)> {
    let mut parts = release.split('-');
    let (version, build) = (parts.next()?, parts.next().unwrap_or_default());
    let flavour = parts.next_back().unwrap_or_default();
    let is_number = !build.is_empty() && build.bytes().all(|byte| byte.is_ascii_digit());
    match flavour {
        // The builds of Ubuntu's mainline kernels start with 0.
        _ if UBUNTU.contains(&flavour) && is_number && !build.starts_with('0') => {
            Some(("linux-ubuntu", format!("{version}.{build}")))
        }
        _ if build == "pve" || flavour == "pve" => None,
        _ => Some(("linux", version.to_owned())),
    }
}

/// Returns whether a kernel is a release candidate, or a snapshot of the next release.
fn is_test_version(release: &str) -> bool {
    let is_candidate = |part: &str| {
        part.strip_prefix("rc")
            .is_some_and(|number| number.bytes().next().is_some_and(|byte| byte.is_ascii_digit()))
    };
    release.split(['-', '.', '_', '~']).any(|part| part == "next" || is_candidate(part))
}

/// Returns the command that brings the distribution's newest kernel.
fn update(context: &Context<'_>) -> &'static str {
    match context.kernel_system() {
        System::Debian => "sudo apt update && sudo apt full-upgrade && sudo reboot",
        System::RedHat => "sudo dnf upgrade --refresh 'kernel*' && sudo reboot",
        System::Suse => "sudo zypper refresh && sudo zypper update kernel-default && sudo reboot",
        System::Other => "# install a newer kernel, then reboot",
        System::Fedora | System::Atomic | System::Transactional | System::Arch | System::Nix => {
            kernel::newer_kernel(context)
        }
    }
}

/// Parameters of amdgpu that are only for debugging: the name, the value that is harmless, and what
/// any other value does. `sched_policy=1` is harmless, too.
const DEBUGGING: [(&str, &[&str], &str); 5] = [
    ("sched_policy", &["0", "1"], "programs then use the GPU without the hardware's scheduler"),
    ("uni_mes", &["1"], "the driver then uses an older form of the hardware's scheduler"),
    ("debug_mask", &["0", "0x0"], "it switches debugging features of the driver on"),
    ("vm_fault_stop", &["0"], "the GPU then stops at a memory fault"),
    ("halt_if_hws_hang", &["0"], "the GPU then stops at a hang, and is not reset"),
];

/// No parameters that are only for debugging are set.
pub(super) fn debugging(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    let findings = DEBUGGING.iter().flat_map(|(name, harmless, effect)| {
        let given = kernel.given("amdgpu", name);
        given.filter(|one| !harmless.contains(&one.value.as_str())).map(move |one| {
            let seen = format!("`amdgpu.{name}={}` in {}", one.value, one.file);
            Finding::new(Severity::Note, seen, "not set, unless a developer asked for it")
                .because(*effect, "drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c")
                .repairs(kernel::remove(context, one))
        })
    });
    Verdict::of(findings.collect(), || "none set".to_owned())
}
