//! The machines on which each rule reports something and on which it does not, and the findings on
//! all recorded machines.

use host::rules::Severity;

/// A rule, a machine with changes that violates it, the severity and a part of the message, and a
/// machine with changes that passes.
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    pub(crate) trips: (&'static str, &'static str),
    pub(crate) severity: Severity,
    pub(crate) says: &'static str,
    pub(crate) holds: (&'static str, &'static str),
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

pub(crate) const TODAY: &str = "2026-11-30";
pub(crate) const GOOD: (&str, &str) = ("strix-halo", "");
const WSL: (&str, &str) = ("strix-halo-wsl2", "");
const OLD: (&str, &str) = ("strix-halo-old-kernel", "");
pub(crate) const DEBIAN: (&str, &str) = ("strix-halo-rootless-debian", "");

const GOOD_DEBIAN: (&str, &str) = (
    "halo-debian-13",
    "== etc/os-release\nID=debian\nVERSION_ID=\"13\"\n== usr/share/distro-info/debian.csv\nversion,codename,series,created,release,eol,eol-lts,eol-elts\n13,Trixie,trixie,2023-06-10,2025-08-09,2028-08-09,2030-06-30,2035-06-30\n",
);
const LISTED: &str = "== usr/share/distro-info/ubuntu.csv\nversion,codename,series,created,release,eol,eol-server,eol-esm,eol-legacy\n24.04 LTS,Noble Numbat,noble,2023-10-26,2024-04-25,2029-05-31,2029-05-31,2034-04-25,2036-04-25\n25.04,Plucky Puffin,plucky,2024-10-10,2025-04-17,2026-01-15\n";
const ENDED: &str = "== etc/os-release\nID=ubuntu\nVERSION_ID=\"25.04\"\n== usr/share/distro-info/ubuntu.csv\nversion,codename,series,created,release,eol,eol-server,eol-esm,eol-legacy\n24.04 LTS,Noble Numbat,noble,2023-10-26,2024-04-25,2029-05-31,2029-05-31,2034-04-25,2036-04-25\n25.04,Plucky Puffin,plucky,2024-10-10,2025-04-17,2026-01-15\n";

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
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
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.5.0\n"), Severity::Warning, "do not need the override", ("strix-halo", "== recorded\nuser 1000 1000\n")),
    case("override-spoof", ("rdna1", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.0.0\n"), Severity::Warning, "on a gfx1010", ("rdna1", "== recorded\nuser 1000 1000\n")),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_1=11.0.0\n"), Severity::Error, "HSA_OVERRIDE_GFX_VERSION_1=11.0.0 on a gfx1151", ("strix-halo-with-navi4", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_2=12.0.0\n")),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION=11.0.0\nenv HSA_OVERRIDE_GFX_VERSION_1=11.5.1\n"), Severity::Note, "is already the version", GOOD),
    case("override-spoof", ("strix-halo", "== recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION_0=11.0.0\n"), Severity::Warning, "no GPU has the node number 0", GOOD),
    case("environment", DEBIAN, Severity::Warning, "OLLAMA_GPU_MEMORY", ("strix-halo", "== recorded\nuser 1000 1000\nenv OLLAMA_IGPU_ENABLE=1\nenv PATH=/usr/bin\n")),
    case("disk-space", DEBIAN, Severity::Warning, "8.4 GiB free", GOOD),
    case("podman-store", DEBIAN, Severity::Error, "podman rmi --force 0f0e0d0c", ("strix-halo", "== home/kim/.local/share/containers/storage/overlay-images/images.json\n[]\n")),
    case("podman-leftovers", DEBIAN, Severity::Note, "-name 'libpod_builder*' -o -name 'buildah*'", GOOD),
];

/// A recorded machine, the GPU that it is judged for, and the rules that must find an error or a
/// warning there. No other rule may.
pub(crate) const JUDGED: &[(&str, &str, &[&str])] = &[
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
    ("krackan-arch", "gfx1152", &["memory-gpu-limit", "override-spoof"]),
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
    ("krackan-mint", "gfx1152", &["memory-gpu-limit", "override-spoof"]),
    // A maintainer says that the kernel's own driver is enough. ROCm/legacy-rocm-build#5905
    ("halo-ubuntu-mainline", "gfx1151", &[]),
    // ROCm has no code for the GPU; no group is needed. ublue-os/bluefin#2197
    ("navi1-bluefin", "gfx1010", &[]),
    // The CPU has a GPU, too. vllm-project/vllm#31035
    ("cachyos-with-igpu", "gfx1101", &["gpu-several"]),
    // The override of an older card was still set. ROCm/legacy-rocm-build#5238
    ("mi210-override", "gfx90a", &["override-spoof"]),
    // ROCm sees 15.5 of 96 GB; a newer kernel solved it. ROCm/legacy-rocm-build#5444
    ("halo-kernel-6.14", "gfx1151", &["kernel-rocm", "memory-carve-out"]),
];
