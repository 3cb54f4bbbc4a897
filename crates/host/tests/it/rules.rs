//! Tests every rule on a machine that violates it and on one that does not, and all rules on all
//! machines.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::OnceLock;

use host::Snapshot;
use host::model::{Cache, Model};
use host::rules::{self, Check, Context, Image, ModelUse, Outcome, Severity};
use names::EngineKind;
use pins::{Compat, Gpus};

use crate::machine;

const COMPAT: &str = include_str!("../../../../versions/compat.toml");
const GPUS: &str = include_str!("../../../../versions/gpus.toml");
const TRACKS: &str = include_str!("../../../../versions/tracks.toml");

/// Returns the project's data files.
fn data() -> &'static (Compat, Gpus) {
    static DATA: OnceLock<(Compat, Gpus)> = OnceLock::new();
    DATA.get_or_init(|| {
        let compat = pins::parse_compat("compat.toml", COMPAT).unwrap();
        (compat, pins::parse_gpus("gpus.toml", GPUS).unwrap())
    })
}

/// Returns the images that the project pins.
pub(crate) fn images() -> Vec<Image> {
    ["official", "ollama"].map(|track| image(track, "7.2.1")).to_vec()
}

/// Returns the image of a track with its settings in the project.
fn image(track: &str, rocm: &str) -> Image {
    let tracks = pins::parse_tracks("tracks.toml", TRACKS).unwrap();
    let name = tracks.find(track).unwrap();
    Image {
        track: name.clone(),
        needs_engine: tracks.needs_engine(name),
        disk: tracks.tracks[name].disk.clone(),
        pin: Some("pin".to_owned()),
        rocm: Some(rocm.to_owned()),
        code: None,
    }
}

pub(crate) fn check(machine: &Snapshot, images: &[Image]) -> Vec<Check> {
    check_for(machine, images, "gfx1151")
}

pub(crate) fn check_for(machine: &Snapshot, images: &[Image], wanted: &str) -> Vec<Check> {
    check_with(machine, images, wanted, None)
}

fn check_with(
    machine: &Snapshot,
    images: &[Image],
    wanted: &str,
    model: Option<ModelUse<'_>>,
) -> Vec<Check> {
    let (compat, gpus) = data();
    let wanted = wanted.parse().unwrap();
    rules::check(&Context {
        machine,
        compat,
        gpus,
        wanted: &wanted,
        images,
        model,
        today: TODAY,
        is_asked: false,
    })
}

/// A rule, a machine with changes that violates it, the severity and a part of the message, and a
/// machine with changes that passes.
struct Case {
    rule: &'static str,
    trips: (&'static str, &'static str),
    severity: Severity,
    says: &'static str,
    holds: (&'static str, &'static str),
}

const fn case(
    rule: &'static str,
    trips: (&'static str, &'static str),
    severity: Severity,
    says: &'static str,
    holds: (&'static str, &'static str),
) -> Case {
    Case { rule, trips, severity, says, holds }
}

const TODAY: &str = "2026-11-30";
const GOOD: (&str, &str) = ("strix-halo", "");
const WSL: (&str, &str) = ("strix-halo-wsl2", "");
const OLD: (&str, &str) = ("strix-halo-old-kernel", "");
const DEBIAN: (&str, &str) = ("strix-halo-rootless-debian", "");

const GOOD_DEBIAN: (&str, &str) = (
    "halo-debian-13",
    "== etc/os-release\nID=debian\nVERSION_ID=\"13\"\n== usr/share/distro-info/debian.csv\nversion,codename,series,created,release,eol,eol-lts,eol-elts\n13,Trixie,trixie,2023-06-10,2025-08-09,2028-08-09,2030-06-30,2035-06-30\n",
);
const LISTED: &str = "== usr/share/distro-info/ubuntu.csv\nversion,codename,series,created,release,eol,eol-server,eol-esm,eol-legacy\n24.04 LTS,Noble Numbat,noble,2023-10-26,2024-04-25,2029-05-31,2029-05-31,2034-04-25,2036-04-25\n25.04,Plucky Puffin,plucky,2024-10-10,2025-04-17,2026-01-15\n";
const ENDED: &str = "== etc/os-release\nID=ubuntu\nVERSION_ID=\"25.04\"\n== usr/share/distro-info/ubuntu.csv\nversion,codename,series,created,release,eol,eol-server,eol-esm,eol-legacy\n24.04 LTS,Noble Numbat,noble,2023-10-26,2024-04-25,2029-05-31,2029-05-31,2034-04-25,2036-04-25\n25.04,Plucky Puffin,plucky,2024-10-10,2025-04-17,2026-01-15\n";

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("gpu-present", ("no-gpu", ""), Severity::Note, "no AMD GPU", GOOD),
    case("gpu-present", ("gpu-without-driver", ""), Severity::Error, "nomodeset", GOOD),
    case("gpu-present", ("gpu-without-driver", "-> sys/bus/pci/devices/0000:c5:00.0/driver ../vfio-pci\n"), Severity::Warning, "vfio-pci", GOOD),
    case("gpu-present", ("gpu-without-driver", "-> sys/bus/pci/devices/0000:c5:00.0/driver ../amdgpu\n"), Severity::Error, "no entry in /sys/class/kfd", GOOD),
    case("gpu-wanted", ("rdna3", ""), Severity::Warning, "this machine has gfx1100", GOOD),
    case("gpu-several", ("desktop-two-gpus", ""), Severity::Warning, "export ROCR_VISIBLE_DEVICES=0", ("desktop-two-gpus", "== recorded\nuser 1000 1000\nenv ROCR_VISIBLE_DEVICES=0\n")),
    case("gpu-several", ("strix-halo-with-navi4", ""), Severity::Warning, "export ROCR_VISIBLE_DEVICES=0", ("desktop-two-gpus", "== recorded\nuser 1000 1000\nenv ROCR_VISIBLE_DEVICES=0\n")),
    case("gpu-several", ("strix-halo-with-navi4", "== recorded\nuser 1000 1000\nenv ROCR_VISIBLE_DEVICES=0\n"), Severity::Note, "gfx1151 and gfx1201 in one machine", ("desktop-two-gpus", "== recorded\nuser 1000 1000\nenv ROCR_VISIBLE_DEVICES=0\n")),
    case("wsl-gpu", ("strix-halo-wsl2", "-- dev/dxg\n"), Severity::Error, "/dev/dxg is missing", WSL),
    case("wsl-gpu", ("strix-halo-wsl2", "-- opt/rocm/lib/librocdxg.so.1.2.2\n"), Severity::Error, "librocdxg is not installed", WSL),
    case("wsl-gpu", ("strix-halo-wsl2", "== recorded\nuser 1000 1000\n"), Severity::Warning, "export HSA_ENABLE_DXG_DETECTION=1", WSL),
    case("system-support", ("strix-halo", "== etc/os-release\nID=fedora\nVERSION_ID=41\nPRETTY_NAME=\"Fedora Linux 41\"\nSUPPORT_END=2025-12-15\n"), Severity::Warning, "Fedora Linux 41 has had no updates since 2025-12-15", ("strix-halo", "== etc/os-release\nID=fedora\nVERSION_ID=43\nSUPPORT_END=2026-12-02\n")),
    case("system-support", ("halo-ubuntu-hwe-14", ENDED), Severity::Warning, "do-release-upgrade", ("halo-ubuntu-hwe-14", LISTED)),
    case("system-support", ("halo-debian-13", "== etc/os-release\nID=debian\nVERSION_ID=\"10\"\n== usr/share/distro-info/debian.csv\nversion,codename,series,created,release,eol,eol-lts,eol-elts\n10,Buster,buster,2017-06-17,2019-07-06,2022-09-10,2024-06-30,2029-06-30\n"), Severity::Warning, "since 2024-06-30", GOOD_DEBIAN),
    case("kernel-rocm", OLD, Severity::Error, "with every ROCm release", GOOD),
    case("kernel-rocm", ("strix-halo-fixed-hwe", "== proc/version\nLinux version 6.17.0-14-generic (b@b) (gcc 13) #14~24.04.1-Ubuntu SMP\n"), Severity::Error, "unsupported for gfx1151", ("strix-halo-fixed-hwe", "")),
    case("kernel-rocm", ("strix-halo-fixed-hwe", "== proc/version\nLinux version 6.14.0-1017-oem (b@b) (gcc 13) #17-Ubuntu SMP\n"), Severity::Error, "kernel 6.14.0-1018 or newer", ("strix-halo-fixed-hwe", "== proc/version\nLinux version 6.14.0-1018-oem (b@b) (gcc 13) #18-Ubuntu SMP\n")),
    case("kernel-rocm", ("strix-halo-rhel", ""), Severity::Warning, "ELRepo", GOOD),
    case("kernel-rocm", ("strix-halo-sles", ""), Severity::Warning, "zypper update kernel-default", GOOD),
    case("kernel-gttsize", ("strix-halo-rhel", ""), Severity::Warning, "grubby", GOOD),
    case("kernel-rocm", ("strix-halo-rootless-debian", ""), Severity::Warning, "backports", ("strix-halo-fixed-hwe", "")),
    case("kernel-gttsize", OLD, Severity::Warning, "amdgpu.gttsize=126976", GOOD),
    case("kernel-gttsize", ("strix-halo", "== etc/modprobe.d/gpu.conf\noptions amdgpu gttsize=1 noretry=0\n"), Severity::Warning, "/etc/modprobe.d/gpu.conf", GOOD),
    case("host-rocm", ("halo-host-rocm", ""), Severity::Warning, "ROCm 7.1.1 is installed outside images", ("halo-host-rocm", "== var/lib/dpkg/status\nPackage: rocm-core\nStatus: install ok installed\nVersion: 7.2.4.70204-93~24.04\n")),
    case("kernel-memory-guard", ("halo-evo-x2-96", ""), Severity::Note, "no_system_mem_limit=1", GOOD),
    case("kernel-amdttm", OLD, Severity::Warning, "ttm.pages_limit=32505856", GOOD),
    case("kernel-cwsr", OLD, Severity::Note, "cwsr_enable=0", GOOD),
    case("kernel-cwsr", ("strix-halo-sles", ""), Severity::Note, "keep it", GOOD),
    case("kernel-cwsr", ("strix-halo-sles", "== proc/version\nLinux version 6.18.8-default (b@b) (gcc 15) #1 SMP\n"), Severity::Note, "grub2-mkconfig", GOOD),
    case("kernel-cwsr", ("halo-silverblue", "== proc/version\nLinux version 6.18.9-200.fc43.x86_64 (b@b) (gcc 15) #1 SMP\n"), Severity::Note, "rpm-ostree kargs --delete=amdgpu.cwsr_enable=0", GOOD),
    case("kernel-faults", ("navi4-slow-copies", ""), Severity::Warning, "dnf upgrade", ("navi4-slow-copies", "== proc/version\nLinux version 7.0.13-200.fc44.x86_64 (b@b) (gcc 15) #1 SMP\n")),
    case("kernel-faults", ("halo-slow-copies", ""), Severity::Warning, "7.0.0-30 or newer", ("halo-slow-copies", "== proc/version\nLinux version 7.0.0-30-generic (b@b) (gcc 13) #30~24.04.1-Ubuntu SMP\n")),
    case("kernel-faults", ("halo-zbook-rc", ""), Severity::Note, "is a test version", ("halo-zbook-rc", "== proc/version\nLinux version 7.0.2-1-cachyos (b@b) (gcc 15) #1 SMP\n")),
    case("kernel-debugging", ("halo-debugging", ""), Severity::Note, "s/amdgpu\\\\.sched_policy=2//", GOOD),
    case("kernel-iommu", OLD, Severity::Note, "amd_iommu=off", GOOD),
    case("kernel-iommu", ("halo-iommu-pt", ""), Severity::Note, "--remove-args='amd_iommu=pt' --args='iommu=pt'", ("halo-iommu-pt", "== proc/cmdline\nro iommu=pt amd_iommu=pgtbl_v2,force_isolation\n")),
    case("firmware-mes", ("strix-halo-bad-firmware", ""), Severity::Error, "MES 0x83", GOOD),
    case("firmware-mes", ("strix-halo-sles", ""), Severity::Warning, "MES 0x86", GOOD),
    case("firmware-mes", ("strix-halo", "== sys/kernel/debug/dri/1/amdgpu_firmware_info\nMES feature version: 1, firmware version: 0x00000088\n"), Severity::Warning, "(one source)", GOOD),
    case("firmware-mes", DEBIAN, Severity::Error, "firmware-amd-graphics 20251125-1", ("strix-halo-rootless-debian", "== var/lib/dpkg/status\nPackage: firmware-amd-graphics\nStatus: install ok installed\nVersion: 20260110-1\n")),
    case("firmware-mes", ("strix-halo-rootless-debian", "== var/lib/dpkg/status\nPackage: firmware-amd-graphics\nStatus: install ok installed\nVersion: 20260810-1\n"), Severity::Warning, "firmware-amd-graphics 20260810-1", ("strix-halo-rootless-debian", "== var/lib/dpkg/status\nPackage: firmware-amd-graphics\nStatus: install ok installed\nVersion: 20260110-1\n")),
    case("firmware-dkms", DEBIAN, Severity::Warning, "amdgpu-dkms-firmware", GOOD),
    case("firmware-updates", ("strix-point-updates", ""), Severity::Note, "gc_11_5_0_mes_2.bin", GOOD),
    case("memory-for-host", ("halo-framework-124", ""), Severity::Note, "ttm.pages_limit=31457280", GOOD),
    case("memory-for-host", ("strix-halo", "== proc/meminfo\nMemTotal: 100663296 kB\n"), Severity::Warning, "120 GiB of 96 GiB", GOOD),
    case("memory-gpu-limit", OLD, Severity::Warning, "see kernel-amdttm", GOOD),
    case("memory-gpu-limit", ("strix-halo-old-kernel", "== proc/cmdline\nro\n"), Severity::Warning, "options ttm pages_limit=31457280", GOOD),
    case("memory-gpu-limit", ("strix-halo-rhel", ""), Severity::Warning, "dracut", GOOD),
    case("kernel-amdttm", ("strix-halo", "== etc/modprobe.d/a.conf\noptions amdttm pages_limit=1000\n"), Severity::Warning, "`ttm.pages_limit=31457280`", GOOD),
    case("memory-fragmentation", ("strix-halo", "== proc/buddyinfo\nNode 0, zone Normal 4000000 1000000 0 0 0 0 0 0 0 10 10\n"), Severity::Note, "compact_memory", GOOD),
    case("memory-limit-unused", ("strix-halo", "== etc/modprobe.d/ttm.conf\noptions ttm pages_limit=1000\n== proc/cmdline\nro\n"), Severity::Warning, "to keep what it has", GOOD),
    case("memory-limit-unused", ("strix-halo", "== sys/module/ttm/parameters/pages_limit\n16356352\n"), Severity::Warning, "but 16356352 is in effect", GOOD),
    case("memory-gtt", OLD, Severity::Warning, "GTT is 124 GiB", GOOD),
    case("memory-gtt", ("strix-halo-old-kernel", "== proc/cmdline\nro\n"), Severity::Warning, "options ttm pages_limit=31457280", GOOD),
    case("memory-carve-out", ("strix-halo-carve-out", ""), Severity::Warning, "options ttm pages_limit=31457280", GOOD),
    case("memory-carve-out", ("strix-halo", "== sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total\n34359738368\n"), Severity::Note, "32 GiB reserved", GOOD),
    case("memory-gpu-limit", ("strix-halo-rhel", "== sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total\n4294967296\n"), Severity::Warning, "options ttm pages_limit=31457280", GOOD),
    case("device-kfd", ("strix-halo", "== recorded\nuser 1000 1000\ndevice /dev/dri/renderD128 660 0 105\n"), Severity::Error, "/dev/kfd is missing", GOOD),
    case("device-render", ("strix-halo", "== recorded\nuser 1000 1000\ndevice /dev/kfd 660 0 105\n"), Severity::Error, "renderD128 is missing", GOOD),
    case("device-access", OLD, Severity::Error, "usermod --append --groups render kim", GOOD),
    case("device-access", ("strix-halo", "== recorded\nuser 1000 1000\ndevice /dev/kfd 660 0 105\n"), Severity::Error, "log out and in again", GOOD),
    case("device-access", ("strix-halo", "== recorded\nuser 1000 1000\ndevice /dev/kfd 600 0 0\n"), Severity::Error, "70-amdgpu.rules", GOOD),
    case("device-access", ("strix-halo", "== recorded\nuser 1000 1000 105\ndevice /dev/kfd 640 0 105\n"), Severity::Error, "because the mode is 0640", GOOD),
    case("device-access", ("strix-halo", "== recorded\nuser 1000 1000 105\ndevice /dev/kfd 600 0 105\n"), Severity::Error, "70-amdgpu.rules", GOOD),
    case("device-access", ("strix-halo", "== recorded\nuser 1000 1000 105\ndevice /dev/kfd 460 1000 105\n"), Severity::Error, "because the mode is 0460", GOOD),
    case("device-open-to-all", ("rdna2-wrong-override", ""), Severity::Note, "(mode 0666)", GOOD),
    case("device-open-to-all", ("strix-halo", "== recorded\nuser 1000 1000 105\ndevice /dev/kfd 777 0 105\ndevice /dev/dri/renderD128 662 0 105\n"), Severity::Note, "(mode 0662 and 0777)", GOOD),
    case("engine-present", ("no-gpu", ""), Severity::Note, "apt install podman", GOOD),
    case("engine-present", ("strix-halo-rhel", ""), Severity::Note, "sudo dnf install podman", GOOD),
    case("engine-groups", ("strix-halo-sles", ""), Severity::Warning, "sudo zypper install crun", GOOD),
    case("engine-groups", DEBIAN, Severity::Warning, "sudo apt install crun", GOOD),
    case("engine-subids", DEBIAN, Severity::Error, "--add-subuids", GOOD),
    case("selinux-devices", ("strix-halo", "== sys/fs/selinux/booleans/container_use_devices\n0 0\n"), Severity::Warning, "setsebool -P container_use_devices=1", GOOD),
    case("override-form", ("rdna2-wrong-override", ""), Severity::Error, "gfx1031", GOOD),
    case("override-form", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=\n"), Severity::Error, "set, but empty", ("desktop-two-gpus", "")),
    case("override-spoof", DEBIAN, Severity::Error, "HSA_OVERRIDE_GFX_VERSION=11.0.0 on a gfx1151", ("desktop-two-gpus", "")),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.5.1\n"), Severity::Note, "is already the version", GOOD),
    case("override-spoof", ("krackan-override", ""), Severity::Warning, "do not need the override", ("krackan-override", "== recorded\nuser 1000 1000\n")),
    case("override-spoof", ("rdna1", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.0.0\n"), Severity::Warning, "on a gfx1010", ("rdna1", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=10.3.0\n")),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_1=11.0.0\n"), Severity::Error, "HSA_OVERRIDE_GFX_VERSION_1=11.0.0 on a gfx1151", ("strix-halo-with-navi4", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_2=12.0.0\n")),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.0.0\nenv HSA_OVERRIDE_GFX_VERSION_1=11.5.1\n"), Severity::Note, "is already the version", GOOD),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_0=11.0.0\n"), Severity::Warning, "no GPU has the node number 0", GOOD),
    case("environment", DEBIAN, Severity::Warning, "OLLAMA_GPU_MEMORY", ("strix-halo", "== recorded\nuser 1000 1000\nenv OLLAMA_IGPU_ENABLE=1\nenv PATH=/usr/bin\n")),
    case("disk-space", DEBIAN, Severity::Warning, "8.4 GiB free", GOOD),
    case("podman-store", DEBIAN, Severity::Error, "podman rmi --force 0f0e0d0c", ("strix-halo", "== home/kim/.local/share/containers/storage/overlay-images/images.json\n[]\n")),
    case("podman-leftovers", DEBIAN, Severity::Note, "|| rm -rf -- /var/tmp/buildah765 /var/tmp/libpod_builder1234567", GOOD),
];

/// A recorded machine, the GPU that it is judged for, and the rules that must find an error or a
/// warning there. No other rule may.
const JUDGED: &[(&str, &str, &[&str])] = &[
    // The limit of 96 GiB was measured; all is well. noamsto/nix-amd-ai#42
    ("halo-nixos", "gfx1151", &["kernel-faults"]),
    // The log: `unknown parameter 'gtt_size' ignored`. ROCm/legacy-rocm-build#5595
    ("halo-oem-gtt-size", "gfx1151", &["kernel-rocm", "kernel-amdttm", "memory-gpu-limit"]),
    // Solved with the kernel's own driver, without amdgpu-dkms. ROCm/legacy-rocm-build#6146
    ("halo-hwe-dkms", "gfx1151", &["kernel-amdttm", "firmware-dkms", "memory-gpu-limit"]),
    // A maintainer gets the same hang with amdgpu-dkms. ROCm/legacy-rocm-build#6182
    ("halo-oem-dkms", "gfx1151", &["kernel-amdttm", "memory-gpu-limit"]),
    // No limit is set, so the GPU gets half of the memory. antirez/ds4#475
    ("halo-default-limit", "gfx1151", &["memory-gpu-limit"]),
    // MES 0x83. A maintainer says that `cwsr_enable` is unrelated. ROCm/legacy-rocm-build#5724
    ("halo-silverblue", "gfx1151", &["kernel-rocm", "firmware-mes", "memory-gpu-limit"]),
    // MES 0x83 came with an update; the older deployment works. ublue-os/bazzite#3818
    ("halo-bazzite", "gfx1151", &["kernel-rocm", "firmware-mes"]),
    // Advised: native ROCm, no override, an IOMMU. ROCm/legacy-rocm-build#5824
    ("halo-nobara", "gfx1151", &["kernel-rocm", "memory-carve-out", "override-spoof"]),
    // The override 12.0.1 crashes the kernel. ROCm/rocm-systems#3531
    ("halo-debian-override", "gfx1151", &["override-spoof"]),
    // ROCm with native code works. ROCm/legacy-rocm-build#5853
    ("halo-evo-x2-fedora", "gfx1151", &[]),
    // ROCm 7 does not initialise the GPU with kernel 6.8. ollama/ollama#14921
    ("halo-ubuntu-6.8", "gfx1151", &["kernel-rocm", "memory-gpu-limit"]),
    // ROCm 7.2.0 faults with this kernel. ollama/ollama#13589
    ("halo-ubuntu-hwe-14", "gfx1151", &["kernel-rocm"]),
    // /dev/kfd is root:root in the container. Hal0ai/hal0 PR 1954
    ("halo-lxc-root-kfd", "gfx1151", &["device-access"]),
    // /dev/kfd was not passed through. community-scripts/ProxmoxVE#12567
    ("phoenix-lxc-no-kfd", "gfx1103", &["device-kfd", "override-spoof"]),
    // The GPU is reserved on purpose. isc30/ryzen-gpu-passthrough-proxmox#139
    ("halo-vfio-host", "gfx1151", &["gpu-present"]),
    // Half of the guest's memory is the limit. isc30/ryzen-gpu-passthrough-proxmox#115
    ("phoenix-vm", "gfx1103", &["memory-gpu-limit", "override-spoof"]),
    // The other GPU's override was in .bashrc. ROCm/legacy-rocm-build#5696
    ("halo-egpu-override", "gfx1151", &["gpu-several", "kernel-rocm", "override-spoof"]),
    // Stable with this firmware. ROCm/legacy-rocm-build#5844
    ("krackan-arch", "gfx1152", &["memory-gpu-limit"]),
    // Right for ROCm 7.2.1; see below for 7.1.1. ROCm/amdgpu#213
    ("strix-point-ubuntu", "gfx1150", &[]),
    // ROCm without code for the GPU needs the override. ollama/ollama#7650
    ("phoenix-pop", "gfx1103", &["memory-gpu-limit"]),
    // Kernel 6.8 does not support the GPU. ROCm/legacy-rocm-build#5102
    ("navi4-old-kernel", "gfx1201", &["gpu-present"]),
    // The setup is right; the load was too large. ublue-os/bazzite#5638
    ("navi4-bazzite", "gfx1201", &[]),
    // Only the distribution's compiler crashes. ROCm/legacy-rocm-build#6619
    ("navi2-fedora", "gfx1030", &[]),
    // Programs see the small GPU, too. ROCm/legacy-rocm-build#4380
    ("navi3-with-igpu", "gfx1102", &["gpu-several"]),
    // Other ROCm containers work. ollama/ollama#11450
    ("leap-cezanne", "gfx90c", &["memory-gpu-limit"]),
    // Only codecs were missing. ublue-os/bazzite#1803
    ("cezanne-with-nvidia", "gfx90c", &[]),
    // vLLM chose a wrong kernel. vllm-project/vllm#51964
    ("rocky-mi308x", "gfx942", &[]),
    // A maintainer advises against amdgpu-dkms. ROCm/legacy-rocm-build#6143
    ("halo-debian-dkms", "gfx1151", &["kernel-rocm", "kernel-amdttm", "memory-gpu-limit"]),
    // The group was not passed on. kyuz0/amd-strix-halo-image-video-toolboxes#1
    ("halo-toolbox", "gfx1151", &["kernel-rocm", "device-access"]),
    // The same; joining nogroup does not help. 89luca89/distrobox#1230
    ("navi2-distrobox", "gfx1032", &["device-access", "override-spoof"]),
    // Works, and has more memory with a smaller carve-out. peonist-ai/halogen-flash-server#12
    ("halo-ubuntu-8g", "gfx1151", &[]),
    ("halo-ubuntu-1g", "gfx1151", &[]),
    // Works with the variable. ROCm/legacy-rocm-build#6528
    ("halo-wsl2-old-rocm", "gfx1151", &["wsl-gpu"]),
    // Works, with room left. antirez/ds4#16
    ("halo-gentoo", "gfx1151", &[]),
    // Works, and both parameters agree. antirez/ds4#16
    ("halo-arch-zfs", "gfx1151", &[]),
    // The reason is not known; the kernel has the fix. ROCm/TheRock#7952
    ("krackan-mint", "gfx1152", &["memory-gpu-limit"]),
    // A maintainer says that the kernel's own driver is enough. ROCm/legacy-rocm-build#5905
    ("halo-ubuntu-mainline", "gfx1151", &[]),
    // ROCm has no code for the GPU; no group is needed. ublue-os/bluefin#2197
    ("navi1-bluefin", "gfx1010", &["override-spoof"]),
    // The CPU has a GPU, too. vllm-project/vllm#31035
    ("cachyos-with-igpu", "gfx1101", &["gpu-several"]),
    // The override of an older card was still set. ROCm/legacy-rocm-build#5238
    ("mi210-override", "gfx90a", &["override-spoof"]),
    // ROCm sees 15.5 of 96 GB; a newer kernel solved it. ROCm/legacy-rocm-build#5444
    ("halo-kernel-6.14", "gfx1151", &["kernel-rocm", "memory-carve-out"]),
];

/// The rules that find an error or a warning.
pub(crate) fn serious(checks: &[Check]) -> Vec<&str> {
    let is_serious =
        |check: &&Check| check.findings.iter().any(|one| one.severity >= Severity::Warning);
    checks.iter().filter(is_serious).map(|check| check.rule).collect()
}

#[test]
fn every_recorded_machine_is_judged_right() {
    for (name, gpu, right) in JUDGED {
        let checks = check_for(&machine::read(name, ""), &images(), gpu);
        assert_eq!(serious(&checks), *right, "{name}: {checks:#?}");
    }
    // ROCm/amdgpu#213
    let machine = machine::read("strix-point-ubuntu", "");
    let checks = check_for(&machine, &[image("official", "7.1.1")], "gfx1150");
    assert_eq!(serious(&checks), ["kernel-rocm"]);
    assert!(machine::names().len() >= 40);
}

/// A repair for one system would do harm, or nothing, on another.
#[test]
fn repairs_fit_the_system() {
    for (name, rule, has, has_not) in [
        ("halo-default-limit", "memory-gpu-limit", "mkinitcpio", "dracut"),
        ("halo-silverblue", "memory-gpu-limit", "rpm-ostree kargs --append", "dracut"),
        ("halo-silverblue", "kernel-cwsr", "keep it", "rpm-ostree"),
        ("halo-bazzite", "firmware-mes", "rpm-ostree upgrade", "dnf"),
        ("halo-nobara", "kernel-rocm", "dnf upgrade", "ELRepo"),
        ("halo-lxc-root-kfd", "device-access", "dev0: /dev/kfd,gid=992", "udev"),
        ("phoenix-lxc-no-kfd", "device-kfd", "dev0: /dev/kfd", "modprobe"),
        ("halo-toolbox", "device-access", "keep-groups", "usermod"),
        ("navi2-distrobox", "device-access", "keep-groups", "usermod"),
        ("halo-toolbox", "kernel-rocm", "# on the host", "apt"),
        ("halo-oem-dkms", "kernel-amdttm", "options ttm pages_limit=31457280", "options amdttm"),
        ("halo-oem-dkms", "memory-gpu-limit", "see kernel-amdttm", "tee"),
        ("halo-oem-gtt-size", "kernel-amdttm", r"s/amdgpu\.gtt_size=122880//", "ttm.gtt_size"),
        ("halo-oem-gtt-size", "kernel-rocm", "linux-oem-24.04c", "hwe"),
        // KFD lists the eGPU first.
        ("halo-egpu-override", "gpu-several", "ROCR_VISIBLE_DEVICES=1", "DEVICES=0"),
        ("navi4-old-kernel", "gpu-present", "linux-generic-hwe-24.04", "backports"),
        // A limit above the total is not carried over.
        ("halo-ubuntu-hwe-14", "memory-carve-out", "/ttm.pages_limit=31664128/", "tee"),
        ("halo-64g-limit-124", "memory-carve-out", "ttm.pages_limit=31850496", "32899072"),
        ("phoenix-sdboot", "kernel-gttsize", "sudo sdboot-manage gen", "update-grub"),
        ("halo-zbook-rc", "memory-gpu-limit", "limine-mkinitcpio", "mkinitcpio -P"),
        ("navi4-arch-cwsr", "kernel-cwsr", "grub-mkconfig -o /boot/grub/grub.cfg", "update-grub"),
        // The command line overrides modprobe.d.
        ("halo-ubuntu-8g", "memory-carve-out", "27648000/ttm.pages_limit=30408704/", "tee"),
    ] {
        let checks = check(&machine::read(name, ""), &images());
        let found = one(&checks, rule);
        let text = found
            .findings
            .iter()
            .flat_map(|one| &one.repair)
            .fold(String::new(), |all, line| all + line + "\n");
        assert!(text.contains(has) && !text.contains(has_not), "{name} {rule}: {found:#?}");
    }
}

/// A line of a repair that is no command starts with `#`.
#[test]
fn a_shell_understands_each_repair_alone() {
    let unknown = "== etc/os-release\nID=unknown\n== etc/modprobe.d/a.conf\n\
        options amdttm pages_limit=1000\noptions amdgpu gttsize=1000 cwsr_enable=0\n";
    let mut parsed = BTreeSet::new();
    for (name, changes) in machine::names().iter().flat_map(|name| [(name, ""), (name, unknown)]) {
        let checks = check(&machine::read(name, changes), &images());
        let findings = checks.into_iter().flat_map(|check| check.findings);
        for line in findings.flat_map(|finding| finding.repair) {
            if !line.starts_with('#') && parsed.insert(line.clone()) {
                let shell = Command::new("sh").args(["-n", "-c", &line]).output().unwrap();
                let is_command = shell.status.success() && !line.contains("&& #");
                assert!(is_command, "{name}: {line}");
            }
        }
    }
    assert!(parsed.len() > 30, "{parsed:#?}");
}

/// A virtual machine's firmware cannot change the carve-out, but its limit is still checked.
#[test]
fn no_carve_out_is_advised_in_a_virtual_machine() {
    let virtual_machine = "== proc/cpuinfo\nflags\t\t: fpu hypervisor\n";
    let checks = check(&machine::read("strix-halo-carve-out", virtual_machine), &images());
    assert_eq!(one(&checks, "memory-carve-out").result, Outcome::Skipped);
    assert_eq!(serious(&checks), ["memory-gpu-limit"]);
}

/// Facts that recorded machines cannot contain: the permissions of a socket, the responses of an
/// engine, facts about built images, and a model.
const ELSEWHERE: [&str; 6] = [
    "engine-kernel",
    "engine-programs",
    "engine-socket",
    "engine-version",
    "image-code",
    "memory-model",
];

pub(crate) fn one<'a>(checks: &'a [Check], rule: &str) -> &'a Check {
    checks.iter().find(|check| check.rule == rule).unwrap()
}

/// `kernel-rocm` is an error for the kernels that AMD calls unsupported.
#[test]
fn every_rule_is_tripped_by_one_machine_and_holds_on_another() {
    for Case { rule, trips, severity, says, holds } in CASES {
        let checks = check(&machine::read(trips.0, trips.1), &images());
        let found = one(&checks, rule);
        assert_eq!(found.result, Outcome::Found, "{rule} on {trips:?}: {found:?}");
        let worst = found.findings.iter().map(|finding| finding.severity).max();
        assert_eq!(worst, Some(*severity), "{rule} on {trips:?}: {found:?}");
        for finding in &found.findings {
            let all = [&finding.seen, &finding.right, &finding.why, &finding.source];
            assert!(all.iter().all(|text| !text.is_empty()), "{rule}: {finding:?}");
            assert!(!finding.repair.is_empty(), "{rule}: {finding:?}");
        }
        let text = format!("{:?}", found.findings);
        assert!(text.contains(says), "{rule} on {trips:?} does not report `{says}`: {text}");
        let checks = check(&machine::read(holds.0, holds.1), &images());
        assert_eq!(one(&checks, rule).result, Outcome::Ok, "{rule}: {:?}", one(&checks, rule));
    }
    let covered: BTreeSet<&str> = CASES.iter().map(|case| case.rule).chain(ELSEWHERE).collect();
    assert_eq!(covered, rules::names().collect(), "each rule has a case");
}

#[test]
fn a_socket_that_is_closed_is_found_and_an_open_one_is_not() {
    let mut machine = machine::read("strix-halo-fixed-hwe", "");
    for (may_connect, result) in
        [(Some(false), Outcome::Found), (Some(true), Outcome::Ok), (None, Outcome::Skipped)]
    {
        machine.engines[0].may_connect = may_connect;
        machine.selected = None;
        assert_eq!(one(&check(&machine, &images()), "engine-socket").result, result);
    }
}

/// The socket file of a killed engine remains. The engine is an error if nothing else works.
#[test]
fn an_engine_that_does_not_answer_is_found() {
    let mut machine = machine::read("strix-halo", "");
    machine.engines[0].may_connect = Some(true);
    let podman = machine.engines[0].clone();
    let refused = "`/run/docker.sock`: Connection refused (os error 111)";
    let dead = host::Engine {
        may_connect: Some(true),
        trouble: Some(refused.to_owned()),
        ..host::Engine::new(EngineKind::Docker, Some("/run/docker.sock".to_owned()), false)
    };
    for (engines, unusable, severity, repair) in [
        (vec![dead.clone()], Some(refused), Severity::Error, "sudo systemctl restart docker."),
        (
            vec![podman.clone(), dead.clone()],
            None,
            Severity::Note,
            "sudo systemctl restart docker.",
        ),
        // A variable names something that is not a socket.
        (vec![podman], Some("tcp://far"), Severity::Error, "# `build-pipeline help environment`"),
    ] {
        machine.selected = unusable.is_none().then_some(0);
        let unusable_of = |why: &str| host::Unusable { why: why.to_owned(), release: None };
        machine.unusable = unusable.map(unusable_of);
        machine.engines = engines;
        let checks = check(&machine, &images());
        let found = one(&checks, "engine-present");
        assert_eq!(found.findings[0].severity, severity, "{found:?}");
        assert!(found.seen.contains(unusable.unwrap_or(refused)), "{found:?}");
        assert!(found.findings[0].repair[0].starts_with(repair), "{found:?}");
        assert_eq!(found.findings[0].seen.contains("use rootless podman"), unusable.is_none());
    }
    machine.engines = vec![dead];
    assert_eq!(one(&check(&machine, &images()), "engine-socket").result, Outcome::Skipped);
}

/// Returns Debian 13 with rootless podman, without some programs that podman starts.
fn debian_without(programs: &str) -> host::Snapshot {
    let release = "ID=debian\nVERSION_ID=\"13\"\n";
    let recorded = "device /dev/kfd 660 0 105\ndevice /dev/dri/renderD128 660 0 105\nuser 1000 1000 105\nenv HOME=/home/kim\n";
    machine::read(
        "strix-halo",
        &format!(
            "== etc/os-release\n{release}== usr/bin/podman\n== recorded\n{recorded}missing {programs}\n"
        ),
    )
}

/// Debian only recommends the packages of these programs.
#[test]
fn a_program_that_podman_starts_is_named_with_its_package() {
    let podman = |version: &str, is_rootless| host::Engine {
        version: Some(version.to_owned()),
        runtime: Some("crun".to_owned()),
        ..host::Engine::new(EngineKind::Podman, None, is_rootless)
    };
    let with = |runtime: Option<&str>| host::Engine {
        runtime: runtime.map(str::to_owned),
        ..podman("5.4.2", true)
    };
    for (missing, engine, repair) in [
        ("newuidmap newgidmap", podman("5.4.2", true), Some("sudo apt install uidmap")),
        ("newgidmap", podman("5.4.2", true), Some("sudo apt install uidmap")),
        ("newuidmap newgidmap", podman("5.4.2", false), None),
        ("crun runc", with(None), Some("sudo apt install crun")),
        ("runc", with(Some("runc")), Some("sudo apt install runc")),
        ("runc", with(Some("crun")), None),
        ("crun runc", with(Some("/opt/youki")), None),
        ("pasta slirp4netns", podman("5.4.2", true), Some("sudo apt install passt")),
        ("pasta", podman("4.3.1", true), None),
        ("nft", podman("5.4.2", false), Some("sudo apt install nftables")),
        ("nft", podman("4.3.1", false), None),
        ("nft", podman("5.4.2", true), None),
        ("none", podman("5.4.2", true), None),
    ] {
        let mut machine = debian_without(missing);
        machine.engines = vec![engine];
        let checks = check(&machine, &images());
        let found = one(&checks, "engine-programs");
        let all: Vec<&str> =
            found.findings.iter().flat_map(|one| &one.repair).map(String::as_str).collect();
        assert_eq!(all, repair.into_iter().collect::<Vec<_>>(), "{missing}: {found:?}");
        let is_fine = one(&checks, "engine-subids").result == Outcome::Ok;
        let lacks_ids = machine.engines[0].is_rootless && missing.contains("idmap");
        assert!(!(lacks_ids && is_fine), "{missing}: {checks:?}");
    }
    assert_eq!(
        one(&check(&machine::read("strix-halo", ""), &images()), "engine-programs").result,
        Outcome::Skipped
    );
}

/// What podman prints if something is missing leads to the command that repairs it. A service that
/// this tool starts itself is no unit of systemd.
#[test]
fn the_message_of_an_engine_decides_how_it_is_repaired() {
    let started = "cannot start `/usr/bin/podman system service`: it ended with exit status: 125: ";
    for (trouble, is_at_socket, repair) in [
        (
            "Error: command required for rootless mode with multiple IDs: exec: \"newuidmap\": executable file not found in $PATH",
            false,
            "sudo apt install uidmap",
        ),
        (
            "Error: default OCI runtime \"crun\" not found: invalid argument",
            false,
            "sudo apt install crun",
        ),
        (
            "Error: could not find \"netavark\" in one of [/usr/lib/podman]",
            false,
            "sudo apt install netavark",
        ),
        (
            "Error: could not find a working conmon binary (configured options: [/usr/bin/conmon]): invalid argument",
            true,
            "sudo apt install conmon",
        ),
        (
            "Error: opening database /home/kim/.local/share/containers/storage/libpod/bolt_state.db: read-only file system",
            false,
            "# podman and build-pipeline write below the home folder",
        ),
        (
            "cannot create `/home/kim/.cache/x`: Read-only file system (os error 30)",
            false,
            "# podman",
        ),
        ("Error: database is locked", false, "podman info  #"),
        (
            "connect: Connection refused (os error 111)",
            true,
            "systemctl --user restart podman.socket",
        ),
    ] {
        let mut machine = debian_without("none");
        let socket = is_at_socket.then(|| "/run/user/1000/podman/podman.sock".to_owned());
        let podman = host::Engine::new(EngineKind::Podman, socket, true);
        let trouble = Some(format!("{started}{trouble}"));
        machine.engines = vec![host::Engine { trouble, ..podman }];
        machine.selected = None;
        let why = "/run/user/1000/podman/podman.sock: x".to_owned();
        machine.unusable = Some(host::Unusable { why, release: None });
        let checks = check(&machine, &images());
        let found = &one(&checks, "engine-present").findings[0];
        assert!(found.repair[0].starts_with(repair), "{found:?}");
    }
}

/// A variable that names a dead socket keeps this tool from trying other engines.
#[test]
fn an_engine_that_the_user_selected_can_be_unselected() {
    let mut machine = machine::read("strix-halo", "");
    machine.selected = None;
    let why = "`CONTAINER_HOST`: `/no.sock`: Connection refused".to_owned();
    machine.unusable =
        Some(host::Unusable { why, release: Some("unset CONTAINER_HOST".to_owned()) });
    // This podman was not tried.
    machine.engines[0].socket = None;
    machine.engines[0].trouble = Some("podman cannot be started".to_owned());
    let checks = check(&machine, &images());
    let found = &one(&checks, "engine-present").findings[0];
    assert_eq!(found.repair[0], "# to use another engine: unset CONTAINER_HOST");
}

/// Podman keeps the user IDs that it had when it was first started.
#[test]
fn user_ids_that_podman_has_not_read_yet_are_found() {
    for (ids, has_subids, result, text) in [
        (Some(1), true, Outcome::Found, "podman system migrate"),
        (Some(1), false, Outcome::Found, "--add-subuids"),
        (Some(65_537), true, Outcome::Ok, "65537 user IDs"),
        // A directory service may assign them.
        (Some(65_537), false, Outcome::Ok, "65537 user IDs"),
        (None, true, Outcome::Ok, "/etc/subuid"),
        (None, false, Outcome::Found, "--add-subuids"),
    ] {
        let mut machine = machine::read("strix-halo", "");
        machine.user.has_subids = has_subids;
        machine.engines[0].user_ids = ids;
        let checks = check(&machine, &images());
        let found = one(&checks, "engine-subids");
        assert_eq!(found.result, result, "{ids:?} {has_subids}: {found:?}");
        assert!(format!("{found:?}").contains(text), "{ids:?} {has_subids}: {found:?}");
    }
}

/// Builds and `run` use rootless podman, so it does not matter who may open docker's socket.
#[test]
fn a_closed_socket_matters_only_if_no_other_engine_works() {
    let mut machine = machine::read("strix-halo", "");
    let docker = host::Engine {
        may_connect: Some(false),
        ..host::Engine::new(EngineKind::Docker, Some("/run/docker.sock".to_owned()), false)
    };
    machine.engines.insert(0, docker.clone());
    machine.selected = Some(1);
    let checks = check(&machine, &images());
    let found = one(&checks, "engine-socket");
    assert_eq!(found.result, Outcome::Ok);
    assert!(found.seen.contains("not needed"), "{found:?}");
    let seen = &one(&checks, "engine-present").seen;
    assert!(seen.contains("docker at /run/docker.sock, which kim may not open"), "{seen}");
    machine.engines = vec![docker];
    machine.selected = None;
    let checks = check(&machine, &images());
    let found = one(&checks, "engine-socket");
    assert_eq!(found.result, Outcome::Found);
    let repair = &found.findings[0].repair;
    assert_eq!(repair[0], "sudo dnf install podman crun");
    assert!(repair[1].contains("usermod --append --groups docker kim"), "{repair:?}");
}

/// Space on the disk of an engine that builds do not use does not help.
#[test]
fn only_the_disk_of_the_selected_engine_counts() {
    let mut machine = machine::read("strix-halo", "");
    let (own, other) = ("/home/kim/.local/share/containers/storage", "/var/lib/docker");
    let docker = host::Engine {
        store: Some(other.to_owned()),
        ..host::Engine::new(EngineKind::Docker, Some("/run/docker.sock".to_owned()), false)
    };
    machine.engines.push(docker);
    let disk = |path: &str, free| host::Disk { path: path.to_owned(), free };
    for (selected, own_free, other_free, result, place) in [
        (Some(0), 1_000_000_000, 900_000_000_000, Outcome::Found, own),
        (Some(0), 900_000_000_000, 1_000_000_000, Outcome::Ok, own),
        (Some(1), 900_000_000_000, 1_000_000_000, Outcome::Found, other),
        (Some(1), 1_000_000_000, 900_000_000_000, Outcome::Ok, other),
        (None, 1, 1, Outcome::Skipped, "no engine"),
    ] {
        machine.selected = selected;
        machine.disks = vec![disk(own, own_free), disk(other, other_free)];
        let checks = check(&machine, &images());
        let found = one(&checks, "disk-space");
        assert_eq!(found.result, result, "{found:?}");
        assert!(found.seen.ends_with(place), "{found:?}");
        for finding in &found.findings {
            let name = machine.selected_engine().unwrap().kind.as_str();
            assert!(finding.repair[0].starts_with(&format!("{name} system df")), "{finding:?}");
        }
    }
    machine.selected = Some(0);
    machine.disks = vec![disk(other, 900_000_000_000)];
    assert_eq!(one(&check(&machine, &images()), "disk-space").result, Outcome::Skipped);
}

/// Docker Desktop runs containers in a virtual machine, with a kernel of its own.
#[test]
fn an_engine_in_a_virtual_machine_is_named() {
    let mut machine = machine::read("strix-halo-fixed-hwe", "");
    let own = machine.kernel.release.clone().unwrap();
    let mut desktop = machine.engines[0].clone();
    desktop.kind = EngineKind::Docker;
    let podman = machine.engines[0].clone();
    for (others, kernel, is_alone, expected) in [
        (None, None, true, (Outcome::Skipped, None)),
        (None, Some(own.as_str()), true, (Outcome::Ok, None)),
        (None, Some("6.12.54-linuxkit"), true, (Outcome::Found, Some(Severity::Error))),
        (None, Some("6.12.54-linuxkit"), false, (Outcome::Found, Some(Severity::Warning))),
        (
            Some(EngineKind::Docker),
            Some("6.12.54-linuxkit"),
            false,
            (Outcome::Found, Some(Severity::Warning)),
        ),
    ] {
        desktop.kernel = kernel.map(str::to_owned);
        machine.engines = vec![desktop.clone()];
        if !is_alone {
            let kind = others.unwrap_or(EngineKind::Podman);
            machine.engines.push(host::Engine { kind, ..podman.clone() });
        }
        let checks = check(&machine, &images());
        let found = one(&checks, "engine-kernel");
        let severity = found.findings.first().map(|finding| finding.severity);
        assert_eq!((found.result, severity), expected, "{kernel:?}: {found:?}");
        for finding in &found.findings {
            assert!(
                finding.seen.contains("linuxkit") && finding.seen.contains(&own),
                "{finding:?}"
            );
            let repair = match (is_alone, others) {
                (true, _) => "install podman",
                (false, Some(_)) => "docker context use default",
                (false, None) => "--engine podman",
            };
            assert!(finding.repair[0].contains(repair), "{finding:?}");
        }
    }
    machine.gpus.clear();
    assert_eq!(one(&check(&machine, &images()), "engine-kernel").result, Outcome::Skipped);
}

/// Releases with the fix are not reported.
#[test]
fn an_engine_that_lacks_a_fix_is_noted() {
    let mut machine = machine::read("strix-halo", "");
    for (kind, version, result) in [
        (EngineKind::Podman, None, Outcome::Skipped),
        (EngineKind::Podman, Some("4.3.1+ds1-8"), Outcome::Found),
        (EngineKind::Podman, Some("5.7.0"), Outcome::Found),
        (EngineKind::Podman, Some("5.7.1"), Outcome::Found),
        (EngineKind::Podman, Some("5.8.4"), Outcome::Ok),
        (EngineKind::Podman, Some("6.1.1"), Outcome::Found),
        (EngineKind::Docker, Some("20.10.24+dfsg1"), Outcome::Found),
        (EngineKind::Docker, Some("24.0.8"), Outcome::Found),
        (EngineKind::Docker, Some("24.0.9"), Outcome::Found),
        (EngineKind::Docker, Some("25.0.1"), Outcome::Found),
        (EngineKind::Docker, Some("29.7.0"), Outcome::Found),
        (EngineKind::Docker, Some("29.7.1"), Outcome::Ok),
    ] {
        machine.engines[0].kind = kind;
        machine.engines[0].version = version.map(str::to_owned);
        let checks = check(&machine, &images());
        let found = one(&checks, "engine-version");
        assert_eq!(found.result, result, "{version:?}: {found:?}");
        // The summary names the engine once, however many fixes it lacks.
        assert_eq!(found.seen.matches(version.unwrap_or("reported")).count(), 1, "{found:?}");
        for finding in &found.findings {
            assert_eq!(finding.severity, Severity::Note);
            assert!(finding.why.contains("CVE-2") && finding.repair[0].contains("dnf upgrade"));
        }
    }
}

#[test]
fn an_engine_is_an_error_only_where_a_track_was_asked_for_that_needs_one() {
    let machine = machine::read("no-gpu", "");
    let (compat, gpus) = data();
    let wanted = "gfx1151".parse().unwrap();
    for (track, is_asked, severity) in [
        ("source", true, Severity::Error),
        ("source", false, Severity::Note),
        ("official", true, Severity::Note),
    ] {
        let images = [Image { pin: None, rocm: None, ..image(track, "") }];
        let context = Context {
            machine: &machine,
            compat,
            gpus,
            wanted: &wanted,
            images: &images,
            model: None,
            today: TODAY,
            is_asked,
        };
        let checks = rules::check(&context);
        assert_eq!(one(&checks, "engine-present").findings[0].severity, severity, "{track:?}");
    }
}

#[test]
fn a_built_image_without_code_for_this_gpu_is_an_error() {
    let machine = machine::read("strix-halo", "");
    for (code, result) in [
        (None, Outcome::Skipped),
        (Some(&["gfx1100"][..]), Outcome::Found),
        (Some(&["gfx1100", "gfx1151"]), Outcome::Ok),
    ] {
        let code = code.map(|code| code.iter().map(|one| (*one).to_owned()).collect());
        let images = [Image { code, ..image("source", "") }];
        let checks = check(&machine, &images);
        let found = one(&checks, "image-code");
        assert_eq!(found.result, result, "{found:?}");
        for finding in &found.findings {
            assert_eq!(finding.severity, Severity::Error);
            assert_eq!(finding.repair, ["build-pipeline --track source --gpu gfx1151"]);
        }
    }
}

/// `doctor --gpu` also selects the GPU on machines with several GPUs.
#[test]
fn the_gpu_that_was_asked_for_is_judged() {
    let machine = machine::read("strix-halo-with-navi4", "");
    for (wanted, visible) in [("gfx1151", 0), ("gfx1201", 1)] {
        let checks = check_for(&machine, &images(), wanted);
        let repairs: Vec<&String> =
            one(&checks, "gpu-several").findings.iter().flat_map(|one| &one.repair).collect();
        let shown = format!("{repairs:?}");
        assert!(shown.contains(&format!("ROCR_VISIBLE_DEVICES={visible}")), "{shown}");
        assert!(shown.contains(&format!("env --gpu {wanted}")), "{shown}");
        assert!(one(&checks, "gpu-wanted").seen.contains(wanted));
    }
}

#[test]
fn amds_table_is_asked_for_each_image() {
    let machine = machine::read("strix-halo", "");
    for (rocm, severity) in [
        ("7.2.1", None),
        ("7.2.0", None),
        ("7.1.1", Some(Severity::Error)),
        ("6.4.4", Some(Severity::Error)),
        ("10.0.0", None),
    ] {
        let images = [Image { pin: None, ..image("official", rocm) }];
        let checks = check(&machine, &images);
        let found = one(&checks, "kernel-rocm");
        assert_eq!(found.findings.first().map(|one| one.severity), severity, "{rocm}");
        assert!(found.seen.contains(rocm), "{}", found.seen);
        assert_eq!(found.seen.contains("newer than AMD's table"), rocm == "10.0.0");
    }
}

#[test]
fn a_model_has_to_fit_into_the_memory_that_programs_can_use() {
    const GIB: u64 = 1 << 30;
    let exact = |per_token| Some(Cache { per_token, exact_until: u64::MAX });
    let window = |tokens| Some(Cache { per_token: GIB / 1024, exact_until: tokens });
    let (warning, note) = (Some(Severity::Warning), Some(Severity::Note));
    // Strix Halo: the larger of carve-out and GTT, 120 GiB. A discrete GPU: its own memory.
    for (machine, wanted, gib, cache, severity, says) in [
        (
            "strix-halo",
            "gfx1151",
            60,
            exact(GIB / 1024),
            None,
            "60 GiB of weights and 32 GiB of KV cache for 32768 tokens",
        ),
        ("strix-halo", "gfx1151", 80, exact(GIB / 1024), note, "90 % of the GPU's memory"),
        (
            "strix-halo",
            "gfx1151",
            100,
            exact(GIB / 1024),
            warning,
            "# use a shorter context: 8192 tokens fit",
        ),
        ("strix-halo", "gfx1151", 107, exact(GIB / 256), warning, "# use a smaller model"),
        ("strix-halo", "gfx1151", 100, window(0), note, "at most 32 GiB of KV cache"),
        (
            "strix-halo",
            "gfx1151",
            100,
            window(4096),
            note,
            "# a context of 8192 tokens certainly fits",
        ),
        ("strix-halo", "gfx1151", 100, window(32768), warning, "# use a shorter context"),
        ("strix-halo", "gfx1151", 300, window(0), warning, "# use a smaller model"),
        ("strix-halo", "gfx1151", 300, None, warning, "a KV cache of unknown size"),
        ("strix-halo", "gfx1151", 60, None, note, "leave room for it"),
        ("strix-halo-with-navi4", "gfx1201", 60, exact(1), warning, "# use a smaller model"),
        ("strix-halo-with-navi4", "gfx1151", 60, exact(1), None, "the GPU has 120 GiB"),
        ("strix-halo-carve-out", "gfx1151", 60, exact(1), None, ""),
        // Another check recommends giving the GPU 120 GiB.
        (
            "halo-default-limit",
            "gfx1151",
            75,
            exact(1),
            warning,
            "# first give the GPU more memory",
        ),
        ("halo-default-limit", "gfx1151", 150, exact(1), warning, "# use a smaller model"),
        // The driver shows more than the limit allows, or the limit is larger than the memory.
        ("halo-gtt-only", "gfx1151", 75, exact(1), warning, "the GPU has 62.4 GiB"),
        ("halo-64g-limit-124", "gfx1151", 75, exact(1), warning, "the model fits into 121.5 GiB"),
    ] {
        let name = "a.gguf".to_owned();
        let model = Model { name, weights: gib * GIB, cache, context: Some(32768) };
        let asked = ModelUse { model: &model, context: None };
        let checks = check_with(&machine::read(machine, ""), &images(), wanted, Some(asked));
        let found = one(&checks, "memory-model");
        let what = format!("{machine} {wanted} {gib}: {found:?}");
        assert_eq!(found.findings.first().map(|one| one.severity), severity, "{what}");
        assert!(what.contains(says), "{what}");
    }
    let model = Model { name: "a".to_owned(), weights: 1, cache: exact(GIB), context: None };
    for (context, says) in
        [(None, "--context TOKENS"), (Some(8), "8 GiB of KV cache"), (Some(500), "use a smaller")]
    {
        let asked = Some(ModelUse { model: &model, context });
        let checks = check_with(&machine::read("strix-halo", ""), &images(), "gfx1151", asked);
        let found = format!("{:?}", one(&checks, "memory-model"));
        assert!(found.contains(says), "{context:?}: {found}");
    }
    // A limit that was copied from a machine with more memory.
    let model =
        Model { name: "a".to_owned(), weights: 75 * GIB, cache: exact(1), context: Some(1) };
    let asked = Some(ModelUse { model: &model, context: None });
    let machine = machine::read("strix-halo", "== proc/meminfo\nMemTotal: 65000000 kB\n");
    let checks = check_with(&machine, &images(), "gfx1151", asked);
    assert!(one(&checks, "memory-model").seen.ends_with("the GPU has 62 GiB"));
}

#[test]
fn all_rules_on_all_machines() {
    let mut text = String::new();
    for name in machine::names() {
        let checks = check(&machine::read(&name, ""), &images());
        writeln!(text, "━━ {name}: {:?}", rules::worst(&checks)).unwrap();
        for Check { rule, result, seen, findings, .. } in &checks {
            match result {
                Outcome::Ok => writeln!(text, "ok       {rule}: {seen}").unwrap(),
                Outcome::Skipped => writeln!(text, "skipped  {rule}: {seen}").unwrap(),
                Outcome::Found => findings.iter().for_each(|one| {
                    let severity = format!("{:?}", one.severity).to_lowercase();
                    writeln!(text, "{severity:8} {rule}: {}\n    right: {}", one.seen, one.right)
                        .unwrap();
                    one.repair.iter().for_each(|line| writeln!(text, "    $ {line}").unwrap());
                }),
            }
        }
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}
