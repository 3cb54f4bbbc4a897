//! The kernel, its parameters, and firmware: judged by AMD's table and known bad releases.

use names::GpuTarget;
use pins::{Known, compat};

use super::system::System;
use super::{Context, Finding, Severity, Verdict};
use crate::kernel::{Firmware, FirmwarePackage, PAGE, Parameter};

/// This kernel supports the ROCm in the pinned images, according to AMD's table.
pub(super) fn rocm(context: &Context<'_>) -> Verdict {
    let Some((_, gpu)) = context.gpu() else {
        return Verdict::skipped("no GPU to look up in AMD's table");
    };
    let facts = &context.machine.kernel;
    let Some(release) = &facts.release else {
        return Verdict::skipped("the kernel's release cannot be read");
    };
    if !context.compat.rocm.values().any(|row| row.gpus.contains(gpu)) {
        return Verdict::skipped(format!("AMD's table of kernels does not cover {gpu}"));
    }
    let releases = context.releases();
    if releases.is_empty() {
        return Verdict::skipped("the pins do not name the ROCm release of the images");
    }
    let kernel = compat::Kernel {
        release,
        build: facts.build.as_deref(),
        distribution: facts.distribution.as_deref(),
    };
    if let Some((row, word)) = context.compat.refused_kernel(gpu, &kernel) {
        let since = row.since.as_deref().unwrap_or_default();
        let seen =
            format!("kernel {release} is {} for {gpu}, with every ROCm release", word.name());
        return Finding::new(severity(word), seen, format!("kernel {since} or newer"))
            .because(FAULTS, format!("{}; ROCm/TheRock#2991", row.evidence))
            .repair(newer_kernel(context))
            .into();
    }
    let is_fixed = context.compat.fixed_kernel(gpu, &kernel).is_some();
    let (mut findings, mut fine) = (Vec::new(), Vec::new());
    for (rocm, tracks) in releases {
        let tracks = tracks.join(", ");
        let Some((row, word)) = context.compat.kernel_support(gpu, rocm, is_fixed) else {
            let is_newer = context.compat.is_newer_than_table(gpu, rocm);
            let where_it_is = if is_newer { "newer than" } else { "not in" };
            fine.push(format!("ROCm {rocm} ({tracks}) is {where_it_is} AMD's table"));
            continue;
        };
        if word == compat::Support::Supported {
            fine.push(format!("ROCm {rocm} ({tracks}) is supported"));
            continue;
        }
        let is_kernels_fault = row.fixed_kernel == compat::Support::Supported;
        let right = if is_kernels_fault {
            "kernel 6.18.4 or newer, or an Ubuntu kernel with the fix"
        } else {
            "ROCm 7.2.1 to 7.2.4 or 7.11 to 7.14.1, on kernel 6.18.4 or newer"
        };
        let finding = Finding::new(
            severity(word),
            format!("kernel {release} with AMD's ROCm {rocm} (track {tracks}): {}", word.name()),
            right,
        )
        .because(FAULTS, format!("{}; ROCm/TheRock#2991", row.evidence));
        findings.push(if is_kernels_fault {
            finding.repair(newer_kernel(context))
        } else {
            finding.repair(other_release(context, gpu, is_fixed))
        });
    }
    if !findings.is_empty() {
        return Verdict::Found(findings);
    }
    let unknown = context.images.iter().filter(|image| image.rocm.is_none());
    let unknown: Vec<&str> = unknown.map(|image| image.track.as_str()).collect();
    if !unknown.is_empty() {
        fine.push(format!("the ROCm version of {} is unknown", unknown.join(", ")));
    }
    Verdict::fine(format!("kernel {release}: {}", fine.join(", ")))
}

/// The consequence of a kernel or a ROCm release without the fix.
const FAULTS: &str = "the driver and ROCm disagree about the GPU's registers, which causes memory faults, hangs, and segmentation faults in hipMalloc";

fn severity(word: compat::Support) -> Severity {
    match word {
        compat::Support::Supported => Severity::Note,
        compat::Support::Unstable => Severity::Warning,
        compat::Support::Unsupported => Severity::Error,
    }
}

/// Returns how to get an image with a ROCm release that works with the kernel.
fn other_release(context: &Context<'_>, gpu: &GpuTarget, is_fixed: bool) -> String {
    let works = |rocm: &str| {
        let found = context.compat.kernel_support(gpu, rocm, is_fixed);
        found.is_some_and(|(_, word)| word == compat::Support::Supported)
    };
    let image = context.images.iter().find_map(|image| {
        let rocm = image.rocm.as_deref().filter(|rocm| works(rocm))?;
        Some(format!("build-pipeline --track {}  # its image has ROCm {rocm}", image.track))
    });
    image.unwrap_or_else(|| {
        "build-pipeline status  # lists the tracks; choose an image with another ROCm".to_owned()
    })
}

/// Returns the command that installs a newer kernel.
fn newer_kernel(context: &Context<'_>) -> &'static str {
    match context.machine.kernel.distribution.as_deref().unwrap_or_default() {
        "ubuntu-24.04" => "sudo apt install linux-generic-hwe-24.04 && sudo reboot",
        _ => match context.system() {
            System::Fedora => "sudo dnf upgrade --refresh 'kernel*' && sudo reboot",
            System::RedHat => {
                "# RHEL's kernel numbers do not show which fixes its driver has: install AMD's driver (amdgpu-dkms), or kernel-ml 6.18.4 or newer from ELRepo"
            }
            System::Suse => {
                "sudo zypper refresh && sudo zypper update kernel-default && sudo reboot  # if that is 6.18.4 or newer, otherwise AMD's driver (amdgpu-dkms)"
            }
            System::Arch => "sudo pacman -Syu && sudo reboot",
            System::Debian => {
                "sudo apt install -t \"$(. /etc/os-release; echo $VERSION_CODENAME)-backports\" linux-image-amd64  # if that is 6.18.4 or newer"
            }
            System::Other => "# install kernel 6.18.4 or newer, then reboot",
        },
    }
}

/// `amdgpu.gttsize` is not set.
pub(super) fn gttsize(context: &Context<'_>) -> Verdict {
    let given = context.machine.kernel.given("amdgpu", "gttsize");
    let findings = given.map(|parameter| {
        Finding::new(
            Severity::Warning,
            format!("`amdgpu.gttsize={}` in {}", parameter.value, parameter.file),
            "only `ttm.pages_limit`",
        )
        .because(
            "the kernel calls it deprecated, and if the two differ, programs see more memory than there is",
            "drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c",
        )
        .repair(remove(context, parameter))
    });
    Verdict::of(findings.collect(), || "not set".to_owned())
}

/// Parameters have the name of the loaded module.
pub(super) fn amdttm(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    if kernel.has_module("amdttm") {
        return Verdict::skipped("the module amdttm of amdgpu-dkms is loaded");
    }
    let wrong = kernel.parameters.iter().filter(|parameter| parameter.module == "amdttm");
    let findings = wrong.map(|parameter| {
        let Parameter { name, value: given, file, .. } = parameter;
        let value = &kept(context, parameter);
        Finding::new(
            Severity::Warning,
            format!("`amdttm.{name}={given}` in {file}, but there is no module amdttm"),
            format!("`ttm.{name}={value}`"),
        )
        .because(
            "amdttm is the module of AMD's own driver package; the kernel's module is ttm, so this parameter does nothing",
            "ROCm/rocm-docs rdna3-5.rst names only ttm",
        )
        .repair(replace(context, parameter, &format!("ttm.{name}={value}")))
    });
    Verdict::of(findings.collect(), || "none set".to_owned())
}

/// Returns the value that a parameter of amdttm should have in ttm: the same, but never a limit that
/// gives the GPU less than it has.
fn kept(context: &Context<'_>, parameter: &Parameter) -> String {
    let now = context.machine.memory.gpu_limit.map(|limit| limit / PAGE);
    match (parameter.name.as_str(), parameter.value.parse::<u64>(), now) {
        ("pages_limit", Ok(pages), Some(now)) => pages.max(now).to_string(),
        ("pages_limit", Err(_), Some(now)) => now.to_string(),
        _ => parameter.value.clone(),
    }
}

/// `amdgpu.cwsr_enable=0` is not set on kernels with the driver fix.
pub(super) fn cwsr(context: &Context<'_>) -> Verdict {
    let given = context.machine.kernel.given("amdgpu", "cwsr_enable");
    let off = given.filter(|parameter| parameter.value == "0");
    let findings = off.map(|parameter| {
        Finding::new(
            Severity::Note,
            format!("`amdgpu.cwsr_enable=0` in {}", parameter.file),
            "not set, on kernel 6.18.4 or newer",
        )
        .because(
            "it is a workaround for a fault of older kernels, does not help with MES 0x83, and prevents the GPU from switching between programs",
            "ROCm/TheRock#2991; ROCm/legacy-rocm-build#5724",
        )
        .repair(remove(context, parameter))
    });
    Verdict::of(findings.collect(), || "not switched off".to_owned())
}

/// The IOMMU is on. Switching it off is faster, and a matter of choice.
pub(super) fn iommu(context: &Context<'_>) -> Verdict {
    if context.machine.kernel.words.iter().any(|word| word == "amd_iommu=off") {
        Finding::new(
            Severity::Note,
            "`amd_iommu=off` on the kernel's command line",
            "a choice: 5 to 12 % faster when off, but devices are not isolated",
        )
        .because(
            "the NPU, RDMA and virtual machines with devices need the IOMMU; `iommu=pt` keeps it on",
            "kyuz0/amd-strix-halo-toolboxes#66; ROCm/legacy-rocm-build#5824",
        )
        .repair("# keep it, or replace it with `iommu=pt` and reboot")
        .into()
    } else {
        Verdict::fine("not switched off")
    }
}

/// The firmware is not known to be bad.
pub(super) fn firmware(context: &Context<'_>) -> Verdict {
    let Some((_, gpu)) = context.gpu() else {
        return Verdict::skipped("no GPU to look up");
    };
    let facts = &context.machine.firmware;
    let rows = || context.compat.firmware.values().filter(|row| row.gpus.contains(gpu));
    if rows().next().is_none() {
        return Verdict::skipped(format!("no bad firmware for {gpu} is known"));
    }
    if let Some((row, seen)) = rows().find_map(|row| Some((row, bad_firmware(facts, row)?))) {
        let good: Vec<String> = row.good.iter().map(ToString::to_string).collect();
        let severity = match row.evidence.known {
            Some(Known::OneSource) => Severity::Warning,
            _ => Severity::Error,
        };
        return Finding::new(
            severity,
            seen,
            format!("linux-firmware {} (MES 0x80)", good.join(", or ")),
        )
        .because(row.why.as_str(), row.evidence.to_string())
        .repair(context.update(match context.system() {
            System::Fedora => "amd-gpu-firmware linux-firmware",
            System::Suse => "kernel-firmware-amdgpu",
            System::Debian if context.is_plain_debian() => "firmware-amd-graphics",
            _ => "linux-firmware",
        }))
        .repair(format!("{} && sudo reboot", context.rebuild_initramfs()))
        .into();
    }
    let is_good = |package: &&FirmwarePackage| rows().any(|row| lists(&row.good, package));
    match (facts.mes.first(), facts.packages.iter().find(is_good)) {
        (Some(version), _) => Verdict::fine(format!("MES {version:#04x}")),
        (None, Some(package)) => Verdict::fine(format!("{} {}", package.name, package.version)),
        (None, None) => Verdict::skipped(
            "only root can read it: sudo grep ^MES /sys/kernel/debug/dri/*/amdgpu_firmware_info",
        ),
    }
}

/// Returns the firmware that a row calls bad: the loaded one, or the installed one if it is not
/// known which one is loaded.
fn bad_firmware(facts: &Firmware, row: &compat::FirmwareRow) -> Option<String> {
    if let Some(version) = facts.mes.iter().find(|version| row.bad_mes.contains(version)) {
        return Some(format!("MES {version:#04x}"));
    }
    let package = facts.packages.iter().find(|package| lists(&row.bad, package));
    let package = package.filter(|_| facts.mes.is_empty())?;
    Some(format!("{} {}", package.name, package.version))
}

fn lists(releases: &[pins::Releases], package: &FirmwarePackage) -> bool {
    let date = package.date.as_ref();
    date.is_some_and(|date| releases.iter().any(|releases| releases.contains(date)))
}

/// Firmware from AMD's driver package does not hide the distribution's.
pub(super) fn dkms_firmware(context: &Context<'_>) -> Verdict {
    let name = "amdgpu-dkms-firmware";
    match context.machine.firmware.packages.iter().find(|package| package.name == name) {
        None => Verdict::fine("not installed"),
        Some(package) => Finding::new(
            Severity::Warning,
            format!("{name} {} is installed", package.version),
            "only the distribution's firmware",
        )
        .because(
            "its files take precedence over those of linux-firmware, so updates of linux-firmware have no effect",
            "ROCm/legacy-rocm-build#5991",
        )
        .repair(format!("sudo apt purge {name}"))
        .repair(format!("{} && sudo reboot", context.rebuild_initramfs()))
        .into(),
    }
}

/// Returns the command that removes a parameter.
fn remove(context: &Context<'_>, parameter: &Parameter) -> String {
    replace(context, parameter, "")
}

/// Returns the command that replaces a parameter with `new`, which has the form
/// `module.name=value`.
fn replace(context: &Context<'_>, parameter: &Parameter, new: &str) -> String {
    let Parameter { module, name, value, file } = parameter;
    if file != "/proc/cmdline" {
        let initramfs = context.rebuild_initramfs();
        return match new.strip_prefix("ttm.") {
            Some(option) => format!(
                "sudo sed -i 's/^options {module} {name}={value}/options ttm {option}/' {file} && {initramfs}"
            ),
            None => format!("sudo sed -i 's/ {name}={value}//' {file} && {initramfs}"),
        };
    }
    match context.system() {
        System::Fedora | System::RedHat => {
            let add = if new.is_empty() { String::new() } else { format!(" --args='{new}'") };
            format!(
                "sudo grubby --update-kernel=ALL --remove-args='{module}.{name}={value}'{add} && sudo reboot"
            )
        }
        System::Debian | System::Suse => {
            let grub = match context.system() {
                System::Suse => "grub2-mkconfig -o /boot/grub2/grub.cfg",
                _ => "update-grub",
            };
            format!(
                "sudo sed -i 's/{module}\\.{name}={value}/{new}/' /etc/default/grub && sudo {grub} && sudo reboot"
            )
        }
        _ if new.is_empty() => {
            format!(
                "# remove `{module}.{name}={value}` from the kernel's command line, then reboot"
            )
        }
        _ => format!(
            "# replace `{module}.{name}={value}` with `{new}` on the kernel's command line, then reboot"
        ),
    }
}
