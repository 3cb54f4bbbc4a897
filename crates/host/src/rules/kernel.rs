//! The kernel, its parameters and the firmware, judged by AMD's table and known bad releases.

use std::cmp::Ordering;

use names::GpuTarget;
use pins::{Known, compat};

use super::system::System;
use super::{Context, Finding, Severity, Verdict, memory};
use crate::kernel::{Firmware, FirmwarePackage, Kernel, PAGE, Parameter};

/// This kernel supports the ROCm releases in the pinned images, according to AMD's table.
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
        return Verdict::skipped("the pins do not specify the ROCm release of the images");
    }
    let kernel = looked_up(facts, release);
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
    // The releases with the same advice share a finding.
    let mut wrong: Vec<(&compat::RocmRow, compat::Support, Vec<String>)> = Vec::new();
    let mut fine = Vec::new();
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
        let one = format!("{rocm} (track {tracks})");
        match wrong.iter_mut().find(|(known, same, _)| *known == row && *same == word) {
            Some((.., all)) => all.push(one),
            None => wrong.push((row, word, vec![one])),
        }
    }
    if !wrong.is_empty() {
        let findings = wrong.into_iter().map(|(row, word, all)| {
            let (with, word_of_table) = (all.join(" and "), word.name());
            let seen = format!("kernel {release} with AMD's ROCm {with}: {word_of_table}");
            misfit(severity(word), seen, (row, is_fixed)).repair(if is_kernels_fault(row) {
                newer_kernel(context).to_owned()
            } else {
                other_release(context, gpu, is_fixed)
            })
        });
        return Verdict::Found(findings.collect());
    }
    let unknown = context.images.iter().filter(|image| image.rocm.is_none());
    let unknown: Vec<&str> = unknown.map(|image| image.track.as_str()).collect();
    if !unknown.is_empty() {
        fine.push(format!("the ROCm version is unknown for {}", unknown.join(", ")));
    }
    Verdict::fine(format!("kernel {release}: {}", fine.join(", ")))
}

/// AMD's ROCm packages on this machine fit its kernel. Images contain their own ROCm.
pub(super) fn host_rocm(context: &Context<'_>) -> Verdict {
    let Some(rocm) = &context.machine.rocm else {
        return Verdict::skipped("no ROCm from AMD's packages; images contain their own");
    };
    let facts = &context.machine.kernel;
    let Some(((_, gpu), release)) = context.gpu().zip(facts.release.as_deref()) else {
        return Verdict::skipped("no GPU or kernel to look up");
    };
    let kernel = looked_up(facts, release);
    if context.compat.refused_kernel(gpu, &kernel).is_some() {
        return Verdict::skipped("first install another kernel (kernel-rocm)");
    }
    let is_fixed = context.compat.fixed_kernel(gpu, &kernel).is_some();
    match context.compat.kernel_support(gpu, rocm, is_fixed) {
        Some((row, word)) if word != compat::Support::Supported => {
            let seen = format!(
                "ROCm {rocm} is installed outside images: {} with kernel {release}",
                word.name()
            );
            let advice = if is_kernels_fault(row) {
                newer_kernel(context)
            } else {
                "# install a newer ROCm from https://repo.radeon.com, or use only ROCm in images"
            };
            misfit(Severity::Warning, seen, (row, is_fixed)).repair(advice).into()
        }
        _ => Verdict::fine(format!("ROCm {rocm} fits the kernel")),
    }
}

/// Returns the kernel in the form that the compatibility table looks up.
fn looked_up<'a>(facts: &'a Kernel, release: &'a str) -> compat::Kernel<'a> {
    compat::Kernel {
        release,
        build: facts.build.as_deref(),
        distribution: facts.distribution.as_deref(),
    }
}

/// Returns whether the kernel lacks a driver fix for the GPU.
fn lacks_fix(context: &Context<'_>) -> bool {
    let facts = &context.machine.kernel;
    let Some(((_, gpu), release)) = context.gpu().zip(facts.release.as_deref()) else {
        return false;
    };
    context.compat.kernels.values().any(|row| row.gpus.contains(gpu))
        && context.compat.fixed_kernel(gpu, &looked_up(facts, release)).is_none()
}

/// The consequence of a kernel or a ROCm release without the fix.
const FAULTS: &str = "the driver and ROCm disagree about the GPU's registers, which causes memory faults, hangs, and segmentation faults in hipMalloc";

/// Returns whether a ROCm release needs only another kernel.
fn is_kernels_fault(row: &compat::RocmRow) -> bool {
    row.fixed_kernel == compat::Support::Supported
}

/// Reports ROCm releases that do not fit the kernel, which may have the fix.
fn misfit(severity: Severity, seen: String, (row, is_fixed): (&compat::RocmRow, bool)) -> Finding {
    let right = match (is_kernels_fault(row), is_fixed) {
        (true, _) => "kernel 6.18.4 or newer, or an Ubuntu kernel with the fix",
        (false, true) => "ROCm 7.2.1 to 7.2.4 or 7.11 to 7.14.1",
        (false, false) => "ROCm 7.2.1 to 7.2.4 or 7.11 to 7.14.1, on kernel 6.18.4 or newer",
    };
    let source = format!("{}; ROCm/TheRock#2991", row.evidence);
    Finding::new(severity, seen, right).because(FAULTS, source)
}

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
        "build-pipeline status  # lists the tracks; choose one whose image has a different ROCm release".to_owned()
    })
}

/// Returns the command that installs a newer kernel.
pub(super) fn newer_kernel(context: &Context<'_>) -> &'static str {
    let kernel = &context.machine.kernel;
    if kernel.release.as_deref().is_some_and(|release| release.ends_with("-pve")) {
        return "sudo apt update && sudo apt full-upgrade && sudo reboot  # Proxmox has its own kernels: apt search proxmox-kernel";
    }
    let distribution = kernel.distribution.as_deref().unwrap_or_default();
    let is_oem = kernel.release.as_deref().is_some_and(|release| release.ends_with("-oem"));
    match context.kernel_system() {
        System::Fedora => "sudo dnf upgrade --refresh 'kernel*' && sudo reboot",
        System::Atomic => "sudo rpm-ostree upgrade && systemctl reboot",
        System::Transactional => context.update_of_system(),
        System::RedHat => {
            "# RHEL's kernel version does not show which fixes its driver has: install kernel-ml 6.18.4 or newer from ELRepo"
        }
        System::Suse => {
            "sudo zypper refresh && sudo zypper update kernel-default && sudo reboot  # if that brings 6.18.4 or newer, otherwise install it from the repository Kernel:stable"
        }
        System::Arch => "sudo pacman -Syu && sudo reboot",
        System::Nix => {
            "# in configuration.nix: boot.kernelPackages = pkgs.linuxPackages_latest; then: sudo nixos-rebuild boot && sudo reboot"
        }
        System::Debian if is_oem => {
            "sudo apt update && sudo apt install linux-oem-24.04c && sudo reboot"
        }
        // Linux Mint 22 has the kernels of Ubuntu 24.04.
        System::Debian
            if distribution == "ubuntu-24.04" || distribution.starts_with("linuxmint-22") =>
        {
            "sudo apt install linux-generic-hwe-24.04 && sudo reboot"
        }
        System::Debian if context.is_plain_debian() => {
            "sudo apt install -t \"$(. /etc/os-release; echo $VERSION_CODENAME)-backports\" linux-image-amd64  # if that installs 6.18.4 or newer"
        }
        System::Debian => {
            "sudo apt update && sudo apt full-upgrade && sudo reboot  # if that brings 6.18.4 or newer, otherwise upgrade to Ubuntu 26.04"
        }
        System::Other => "# install kernel 6.18.4 or newer, then reboot",
    }
}

/// `amdgpu.gttsize` is not set.
pub(super) fn gttsize(context: &Context<'_>) -> Verdict {
    let given = context.machine.kernel.given("amdgpu", "gttsize");
    let limit = context.machine.memory.gpu_limit;
    let findings = given.map(|parameter| {
        // In MiB. A size at the limit, or a little below, changes nothing.
        let size = parameter.value.parse::<u64>().ok().and_then(|size| size.checked_mul(1 << 20));
        let agrees = size.zip(limit).is_some_and(|(size, limit)| {
            limit.checked_sub(size).is_some_and(|missing| missing < 1 << 30)
        });
        let effect = match size.zip(limit).map(|(size, limit)| size.cmp(&limit)) {
            _ if agrees => "the kernel reports it as deprecated, and ttm.pages_limit is enough",
            Some(Ordering::Less) => {
                "the GPU gets only this size, although ttm.pages_limit allows more, and the kernel reports it as deprecated"
            }
            _ => {
                "the kernel reports it as deprecated, and if it is larger than ttm.pages_limit, programs see more memory than they can get"
            }
        };
        Finding::new(
            if agrees { Severity::Note } else { Severity::Warning },
            format!("`amdgpu.gttsize={}` in {}", parameter.value, parameter.file),
            "only `ttm.pages_limit`",
        )
        .because(effect, "drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c; noamsto/nix-amd-ai#42")
        .repairs(remove(context, parameter))
    });
    Verdict::of(findings.collect(), || "not set".to_owned())
}

/// The driver's guard of the host's memory is on.
pub(super) fn memory_guard(context: &Context<'_>) -> Verdict {
    let given = context.machine.kernel.given("amdgpu", "no_system_mem_limit");
    let off = given.filter(|parameter| matches!(parameter.value.as_str(), "1" | "y" | "Y"));
    let findings = off.map(|parameter| {
        Finding::new(
            Severity::Note,
            format!("`amdgpu.no_system_mem_limit={}` in {}", parameter.value, parameter.file),
            "not set: `ttm.pages_limit` alone sets how much the GPU may use",
        )
        .because(
            "the driver then no longer keeps memory free for the host while it serves ROCm programs",
            "drivers/gpu/drm/amd/amdgpu/amdgpu_amdkfd_gpuvm.c; noamsto/nix-amd-ai#42",
        )
        .repairs(remove(context, parameter))
    });
    Verdict::of(findings.collect(), || "the guard is on".to_owned())
}

/// Every parameter exists in its loaded module, and the kernel's own driver is used where AMD
/// recommends it.
pub(super) fn parameters(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    let mut findings: Vec<Finding> =
        kernel.unknown.iter().map(|parameter| unknown(context, parameter)).collect();
    if uses_dkms_on_apu(context) {
        findings.push(own_driver(context));
    } else if !kernel.has_module("amdttm") {
        let wrong = kernel.parameters.iter().filter(|parameter| parameter.module == "amdttm");
        findings.extend(wrong.map(|parameter| of_amdttm(context, parameter)));
    }
    Verdict::of(findings, || "no parameters without effect".to_owned())
}

/// Reports a parameter that its module does not have.
fn unknown(context: &Context<'_>, parameter: &Parameter) -> Finding {
    let Parameter { module, name, value, file } = parameter;
    Finding::new(
        Severity::Warning,
        format!("`{module}.{name}={value}` in {file}, but {module} has no parameter {name}"),
        format!("one of the parameters in /sys/module/{module}/parameters"),
    )
    .because(
        "the kernel ignores it, and reports that only in its log",
        "ROCm/legacy-rocm-build#5595",
    )
    .repairs(remove(context, parameter))
}

/// Reports a parameter of amdttm when that module is not loaded.
fn of_amdttm(context: &Context<'_>, parameter: &Parameter) -> Finding {
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
    .repairs(replace(context, parameter, &format!("ttm.{name}={value}")))
}

/// The family of the APUs for which AMD recommends the kernel's own driver.
const OWN_DRIVER: &str = "RDNA 3.5";

/// Returns whether amdgpu-dkms drives an APU whose fixes are in the kernel's own driver. MI300A, by
/// contrast, needs the package.
pub(super) fn uses_dkms_on_apu(context: &Context<'_>) -> bool {
    let is_of_family =
        |gpu| context.gpus.gpus.get(gpu).is_some_and(|known| known.family == OWN_DRIVER);
    context.machine.kernel.has_module("amdttm")
        && context.gpu().is_some_and(|(_, gpu)| is_of_family(gpu))
}

/// Reports amdgpu-dkms, and how to get the kernel's own driver without losing memory.
fn own_driver(context: &Context<'_>) -> Finding {
    let memory = &context.machine.memory;
    let limit = memory.total.map_or(0, memory::advised).max(memory.gpu_limit.unwrap_or_default());
    let finding = Finding::new(
        Severity::Warning,
        "AMD's driver package amdgpu-dkms drives the GPU (module amdttm)",
        "the kernel's own driver, and `ttm.pages_limit`",
    )
    .because(
        "AMD advises against the package for these GPUs: the kernel driver gets the fixes, and with the package, parameters of ttm have no effect",
        "ROCm/legacy-rocm-build#6146 (solved by removing the package and booting an OEM kernel); maintainers in #6143, #6182 and #5562",
    );
    if memory::has_large_carve_out(context) {
        return finding.repair(format!("# {}", memory::CARVE_OUT_FIRST));
    }
    let set = context.set_parameter("ttm", "pages_limit", &(limit / PAGE).to_string());
    let remove = match context.kernel_system() {
        System::Debian => "sudo apt purge amdgpu-dkms",
        System::Fedora | System::RedHat => "sudo dnf remove amdgpu-dkms",
        System::Suse => "sudo zypper remove amdgpu-dkms",
        _ => "# remove amdgpu-dkms",
    };
    let finding = finding.repair(set.into_iter().next().unwrap_or_default());
    finding.repairs(context.reboot_after(Some(remove)))
}

/// Returns the value that a parameter of amdttm should have in ttm: the same, but never a limit
/// that gives the GPU less memory than it has.
fn kept(context: &Context<'_>, parameter: &Parameter) -> String {
    let now = context.machine.memory.gpu_limit.map(|limit| limit / PAGE);
    match (parameter.name.as_str(), parameter.value.parse::<u64>(), now) {
        ("pages_limit", Ok(pages), Some(now)) => pages.max(now).to_string(),
        ("pages_limit", Err(_), Some(now)) => now.to_string(),
        _ => parameter.value.clone(),
    }
}

/// `amdgpu.cwsr_enable=0` is not set. On a kernel without the driver fix, the advice is to keep it.
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
            "it is a workaround for a fault in older kernels, does not help with MES 0x83, and prevents the GPU from switching between programs",
            "ROCm/TheRock#2991; ROCm/legacy-rocm-build#5724 and #5991",
        )
        .repairs(if lacks_fix(context) {
            vec!["# keep it until the kernel has the fix (kernel-rocm)".to_owned()]
        } else {
            remove(context, parameter)
        })
    });
    Verdict::of(findings.collect(), || "not switched off".to_owned())
}

/// The values of `amd_iommu` that the kernel knows, besides `off`.
const IOMMU_VALUES: [&str; 8] = [
    "fullflush",
    "force_enable",
    "force_isolation",
    "pgtbl_v1",
    "pgtbl_v2",
    "irtcachedis",
    "nohugepages",
    "v2_pgsizes_only",
];

/// The IOMMU is on, and its parameters exist. Switching it off improves performance, and is a
/// matter of choice.
pub(super) fn iommu(context: &Context<'_>) -> Verdict {
    let words = context.machine.kernel.words.iter();
    let findings = words.filter_map(|word| match word.strip_prefix("amd_iommu=")? {
        "off" => Some(without_iommu()),
        value if value.split(',').all(|one| IOMMU_VALUES.contains(&one)) => None,
        value => Some(unknown_iommu(context, word, value)),
    });
    Verdict::of(findings.collect(), || "not switched off".to_owned())
}

fn without_iommu() -> Finding {
    Finding::new(
        Severity::Note,
        "`amd_iommu=off` on the kernel's command line",
        "a choice: 5 to 12 % faster when off, but devices are not isolated",
    )
    .because(
        "the NPU, RDMA and virtual machines with passed-through devices need the IOMMU; `iommu=pt` keeps it on",
        "kyuz0/amd-strix-halo-toolboxes#66; ROCm/legacy-rocm-build#5824",
    )
    .repair("# keep it, or replace it with `iommu=pt` and reboot")
}

fn unknown_iommu(context: &Context<'_>, word: &str, value: &str) -> Finding {
    let (right, new) = match value {
        "pt" => ("`iommu=pt`", "iommu=pt"),
        _ => ("not set: the IOMMU is on by default", ""),
    };
    Finding::new(Severity::Note, format!("`{word}`, but amd_iommu has no value {value}"), right)
        .because(
            "the kernel ignores it, and reports that only in its log",
            "drivers/iommu/amd/init.c; kyuz0/amd-strix-halo-toolboxes#66",
        )
        .repair(on_command_line(context, word, new))
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
        let finding =
            Finding::new(severity, seen, format!("linux-firmware {}", good.join(", or ")))
                .because(row.why.as_str(), row.evidence.to_string());
        if !is_fixed_by_update(row) {
            return finding
                .repair("# only if you see this fault: install one of these releases; an update may bring the same firmware again")
                .into();
        }
        let finding = finding.repair(context.update(match context.system() {
            System::Fedora => "amd-gpu-firmware linux-firmware",
            System::Suse => "kernel-firmware-amdgpu",
            System::Debian if context.is_plain_debian() => "firmware-amd-graphics",
            _ => "linux-firmware",
        }));
        return match context.kernel_system() {
            System::Atomic | System::Transactional | System::Nix => finding,
            _ => finding.repairs(context.reboot_after(None)),
        }
        .into();
    }
    let is_good = |package: &&FirmwarePackage| rows().any(|row| lists(&row.good, package));
    match (facts.mes.first(), facts.packages.iter().find(is_good)) {
        (Some(version), _) => Verdict::fine(format!("MES {version:#04x}")),
        (None, Some(package)) => Verdict::fine(format!("{} {}", package.name, package.version)),
        (None, None) => Verdict::skipped(
            "only root can read the version: sudo grep ^MES /sys/kernel/debug/dri/*/amdgpu_firmware_info",
        ),
    }
}

/// Returns the firmware that a row lists as bad: the loaded one, or the installed one if it is not
/// known which one is loaded.
fn bad_firmware(facts: &Firmware, row: &compat::FirmwareRow) -> Option<String> {
    if let Some(version) = facts.mes.iter().find(|version| row.bad_mes.contains(version)) {
        return Some(format!("MES {version:#04x}"));
    }
    let package = facts.packages.iter().find(|package| lists(&row.bad, package));
    let package = package.filter(|_| facts.mes.is_empty())?;
    Some(format!("{} {}", package.name, package.version))
}

/// Returns whether a good release is newer than all bad ones, so that an update brings it.
fn is_fixed_by_update(row: &compat::FirmwareRow) -> bool {
    let newest = |all: &[pins::Releases]| all.iter().map(ToString::to_string).max();
    newest(&row.bad).is_some_and(|bad| newest(&row.good).is_some_and(|good| good > bad))
}

fn lists(releases: &[pins::Releases], package: &FirmwarePackage) -> bool {
    let date = package.date.as_ref();
    date.is_some_and(|date| releases.iter().any(|releases| releases.contains(date)))
}

/// Returns whether AMD's driver package drives a GPU for which AMD recommends it, so that its
/// firmware is right, too.
fn belongs_to_driver(context: &Context<'_>) -> bool {
    context.machine.kernel.has_module("amdttm") && !uses_dkms_on_apu(context)
}

/// Firmware from AMD's driver package does not hide the distribution's.
pub(super) fn dkms_firmware(context: &Context<'_>) -> Verdict {
    let name = "amdgpu-dkms-firmware";
    match context.machine.firmware.packages.iter().find(|package| package.name == name) {
        None => Verdict::fine("not installed"),
        Some(package) if belongs_to_driver(context) => {
            Verdict::fine(format!("{name} {} belongs to the driver amdgpu-dkms", package.version))
        }
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
        .repairs(context.reboot_after(None))
        .into(),
    }
}

/// The folder whose files the kernel loads before those of packages.
const UPDATES: &str = "/lib/firmware/updates/amdgpu";

/// No files outside packages hide the distribution's firmware. AMD's driver package also puts its
/// files into that folder.
pub(super) fn overriding_firmware(context: &Context<'_>) -> Verdict {
    let facts = &context.machine.firmware;
    if facts.overriding.is_empty() {
        return Verdict::fine("none");
    }
    if facts.packages.iter().any(|package| package.name == "amdgpu-dkms-firmware") {
        return Verdict::skipped("amdgpu-dkms-firmware is installed; see firmware-dkms");
    }
    let files = facts.overriding.join(", ");
    // RDNA 3.5: gfx1151 loads gc_11_5_1_*.bin.
    let prefix = context.gpu().and_then(|(_, gpu)| {
        let last = gpu.as_str().strip_prefix("gfx115")?;
        Some(format!("gc_11_5_{last}_"))
    });
    let is_foreign = |own: &String| {
        let graphics = || facts.overriding.iter().filter(|file| file.starts_with("gc_"));
        graphics().next().is_some() && !graphics().any(|file| file.starts_with(own.as_str()))
    };
    let (seen, why) = match prefix.filter(is_foreign) {
        Some(own) => (
            format!("{UPDATES} contains {files}, but this GPU loads {own}*"),
            "the files are for another GPU and have no effect",
        ),
        None => (
            format!("{UPDATES} contains {files}"),
            "the kernel loads these files before those of packages, so updates of linux-firmware have no effect",
        ),
    };
    Finding::new(Severity::Note, seen, "only the distribution's firmware, once that is good")
        .because(why, "ROCm/legacy-rocm-build#5616 and #5724")
        .repair(format!("sudo rm -r {UPDATES}"))
        .repairs(context.reboot_after(None))
        .into()
}

/// Returns the commands that remove a parameter.
pub(super) fn remove(context: &Context<'_>, parameter: &Parameter) -> Vec<String> {
    replace(context, parameter, "")
}

/// Returns the commands that replace a parameter with `new`, which has the form
/// `module.name=value`.
pub(super) fn replace(context: &Context<'_>, parameter: &Parameter, new: &str) -> Vec<String> {
    let Parameter { module, name, value, file } = parameter;
    if file != "/proc/cmdline" {
        let edit = match new.split_once('.') {
            Some((now, option)) => {
                format!("s/^options {module} {name}={value}/options {now} {option}/")
            }
            None => format!("s/ {name}={value}//"),
        };
        return context.initramfs_after(&format!("sudo sed -i '{edit}' {file}"));
    }
    vec![on_command_line(context, &format!("{module}.{name}={value}"), new)]
}

/// Returns the command that replaces a word on the kernel's command line.
fn on_command_line(context: &Context<'_>, old: &str, new: &str) -> String {
    if context.has_kernelstub() {
        let add = if new.is_empty() { String::new() } else { format!(" --add-options '{new}'") };
        return format!("sudo kernelstub --delete-options '{old}'{add} && sudo reboot");
    }
    if let Some((file, apply)) = context.command_line_file() {
        let pattern = old.replace('.', "\\.");
        return format!("sudo sed -i 's/{pattern}/{new}/' {file} && {apply} && sudo reboot");
    }
    match context.kernel_system() {
        System::Atomic => {
            let add = if new.is_empty() { String::new() } else { format!(" --append={new}") };
            format!("sudo rpm-ostree kargs --delete={old}{add} && systemctl reboot")
        }
        System::Fedora | System::RedHat => {
            let add = if new.is_empty() { String::new() } else { format!(" --args='{new}'") };
            format!("sudo grubby --update-kernel=ALL --remove-args='{old}'{add} && sudo reboot")
        }
        _ if new.is_empty() => {
            format!("# remove `{old}` from the kernel's command line, then reboot")
        }
        _ => format!("# replace `{old}` with `{new}` on the kernel's command line, then reboot"),
    }
}
