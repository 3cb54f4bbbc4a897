//! Machines of the second survey: what an expert says to their owners, and commands that fit.

use host::rules::{Severity, names};

use crate::machine;
use crate::rules::{check, check_for, images, one, serious};

/// A recorded machine, its GPU, and the rules that must find an error or a warning there. No other
/// rule may. The machines' files name the sources.
const JUDGED: &[(&str, &str, &[&str])] = &[
    ("halo-fedora-kde", "gfx1151", &["kernel-rocm", "firmware-mes", "memory-gpu-limit"]),
    ("halo-nixos-cachyos", "gfx1151", &[]),
    ("halo-debian-13", "gfx1151", &["kernel-rocm", "memory-gpu-limit", "device-access"]),
    ("halo-ubuntu-26", "gfx1151", &["memory-gpu-limit"]),
    ("halo-proxmox", "gfx1151", &["kernel-rocm"]),
    ("halo-evo-x2-mainline", "gfx1151", &["kernel-rocm", "kernel-gttsize", "memory-gtt"]),
    ("halo-wsl2-memory", "gfx1151", &[]),
    ("krackan-carve-out", "gfx1152", &["override-spoof"]),
    ("strix-point-override", "gfx1150", &["override-spoof"]),
    ("phoenix-arch", "gfx1103", &["memory-gpu-limit", "override-spoof"]),
    ("rembrandt-debian", "gfx1035", &["memory-gpu-limit", "override-spoof"]),
    ("navi4-lxc", "gfx1201", &["gpu-several"]),
    ("r9700-dkms", "gfx1201", &[]),
    ("mi50-unraid", "gfx906", &[]),
    ("navi2-override", "gfx1032", &[]),
    ("mendocino-tumbleweed", "gfx1037", &[]),
    ("picasso-override", "gfx902", &[]),
    ("mi300x-docker", "gfx942", &[]),
    ("steam-machine", "gfx1102", &[]),
];

#[test]
fn every_machine_of_the_survey_is_judged_right() {
    for (name, gpu, right) in JUDGED {
        let checks = check_for(&machine::read(name, ""), &images(), gpu);
        assert_eq!(serious(&checks), *right, "{name}: {checks:#?}");
    }
}

/// Returns the repairs of a rule, as lines.
fn repairs(name: &str, changes: &str, rule: &str) -> String {
    assert!(names().any(|known| known == rule), "{rule}");
    let checks = check(&machine::read(name, changes), &images());
    one(&checks, rule)
        .findings
        .iter()
        .flat_map(|one| &one.repair)
        .fold(String::new(), |all, line| all + line + "\n")
}

/// An os-release file, and other changes of a machine.
fn system(id: &str, rest: &str) -> String {
    format!("== etc/os-release\n{id}\n{rest}")
}

/// A system with one package manager, boot loader or initramfs does not have those of its relatives.
#[test]
fn commands_are_those_of_the_system() {
    let (arch, gtt) = ("ID=endeavouros\nID_LIKE=arch", "\nro amdgpu.gttsize=1 root=/dev/sda\n");
    let limine = "== usr/bin/mkinitcpio\n== usr/bin/limine-mkinitcpio\n";
    let no_engine = "-- usr/bin/podman\n-- run/user/1000/podman/podman.sock\n";
    let micro = "ID=\"opensuse-microos\"\nID_LIKE=\"suse opensuse opensuse-tumbleweed\"";
    let cmdline = |rest: &str| format!("== proc/cmdline{gtt}{rest}");
    let half = "== sys/module/ttm/parameters/pages_limit\n16356352\n== proc/cmdline\nro\n";
    let proxmox = r"== proc/cmdline
initrd=\EFI\proxmox\6.17.4-2-pve\initrd.img-6.17.4-2-pve boot=zfs amdgpu.gttsize=1
";
    for (system, rule, has, has_not) in [
        (system(arch, half), "memory-gpu-limit", "mkinitcpio -P", "dracut"),
        (
            system(arch, &format!("{half}== usr/bin/dracut\n== usr/bin/dracut-rebuild\n")),
            "memory-gpu-limit",
            "sudo dracut-rebuild && sudo reboot",
            "mkinitcpio",
        ),
        (
            system("ID=garuda\nID_LIKE=arch", &format!("{half}== usr/bin/dracut\n")),
            "memory-gpu-limit",
            "sudo dracut --force",
            "mkinitcpio",
        ),
        (
            system("ID=cachyos\nID_LIKE=arch", &format!("{half}{limine}")),
            "memory-gpu-limit",
            "sudo limine-mkinitcpio && sudo reboot",
            "mkinitcpio -P",
        ),
        (
            system("ID=cachyos\nID_LIKE=arch", &cmdline(limine)),
            "kernel-gttsize",
            "/etc/default/limine && sudo limine-mkinitcpio",
            "grub",
        ),
        (system(arch, &cmdline("")), "kernel-gttsize", "# remove", "grub"),
        (
            system("ID=pop\nID_LIKE=\"ubuntu debian\"", &cmdline("")),
            "kernel-gttsize",
            "sudo kernelstub --delete-options 'amdgpu.gttsize=1' && sudo reboot",
            "grub",
        ),
        (
            system("ID=debian\nVERSION_ID=13", proxmox),
            "kernel-gttsize",
            "/etc/kernel/cmdline && sudo proxmox-boot-tool refresh",
            "grub",
        ),
        (system("ID=debian", &cmdline("")), "kernel-gttsize", "update-grub", "proxmox"),
        (
            system(micro, &cmdline("")),
            "kernel-gttsize",
            "sudo transactional-update grub.cfg",
            "grub2-mkconfig",
        ),
        (system(micro, half), "memory-gpu-limit", "sudo transactional-update initrd", "dracut"),
        (
            system(micro, no_engine),
            "engine-present",
            "sudo transactional-update pkg install podman crun",
            "zypper",
        ),
        (
            system("ID=\"opensuse-tumbleweed\"", no_engine),
            "engine-present",
            "sudo zypper install podman",
            "transactional",
        ),
        (
            system(
                "ID=\"sl-micro\"",
                "== sys/kernel/debug/dri/1/amdgpu_firmware_info\nMES feature version: 1, firmware version: 0x00000083\n",
            ),
            "firmware-mes",
            "sudo transactional-update up && sudo reboot",
            "zypper",
        ),
        (system("ID=steamos\nID_LIKE=arch", no_engine), "engine-present", "# install", "pacman"),
    ] {
        let lines = repairs("strix-halo", &system, rule);
        assert!(lines.contains(has) && !lines.contains(has_not), "{system} {rule}: {lines}");
    }
}

/// Proxmox and most containers have no `sudo`.
#[test]
fn root_needs_no_sudo() {
    for name in ["halo-proxmox", "navi4-lxc", "mi300x-docker", "mi50-unraid"] {
        for check in check(&machine::read(name, ""), &images()) {
            for line in check.findings.iter().flat_map(|one| &one.repair) {
                assert!(line.starts_with('#') || !line.contains("sudo"), "{name}: {line}");
            }
        }
    }
    let root = "== recorded\nuser 0 0\ndevice /dev/kfd 660 0 105\nenv HOME=/root\n";
    let lines = repairs("halo-default-limit", root, "memory-gpu-limit");
    assert!(lines.starts_with("echo 'options ttm pages_limit=31457280' | tee "), "{lines}");
}

/// In a container, the host decides the mode of the nodes.
#[test]
fn modes_are_set_where_they_come_from() {
    assert!(repairs("mi300x-docker", "", "device-open-to-all").starts_with("# on the host"));
    assert!(repairs("strix-point-override", "", "device-open-to-all").contains("udev"));
}

/// A parameter that is already set needs no edit; the other one causes the difference.
#[test]
fn no_parameter_is_replaced_with_itself() {
    for name in machine::names() {
        for check in check(&machine::read(&name, ""), &images()) {
            for line in check.findings.iter().flat_map(|one| &one.repair) {
                let Some((_, rest)) = line.split_once("sed -i 's/") else { continue };
                let parts: Vec<&str> = rest.split('/').collect();
                assert_ne!(parts[0].replace("\\.", "."), parts[1], "{name}: {line}");
            }
        }
    }
    let lines = repairs("halo-evo-x2-mainline", "", "memory-gtt");
    assert_eq!(lines.trim(), "# see kernel-gttsize: without that parameter, GTT equals the limit");
    // A limit that can still be raised is.
    let lines =
        repairs("halo-evo-x2-mainline", "== proc/meminfo\nMemTotal: 136314880 kB\n", "memory-gtt");
    assert!(lines.contains("ttm.pages_limit=32505856"), "{lines}");
}

/// Since Linux 7.0, the carve-out can be changed without the firmware setup; not every firmware
/// offers 512 MB.
#[test]
fn the_carve_out_is_changed_where_it_can_be() {
    let options = "sys/bus/pci/devices/0000:c5:00.0/uma/carveout_options";
    let sysfs = "echo 0 | sudo tee /sys/bus/pci/devices/0000:c5:00.0/uma/carveout";
    for (changes, has, right) in [
        (String::new(), sysfs, "0.5 GiB reserved"),
        (format!("== {options}\n0: Minimum (2 GB)\n1: (8 GB)\n"), sysfs, "2 GiB reserved"),
        (format!("-- {options}\n"), "or to the smallest size", "0.5 GiB reserved"),
        (format!("== {options}\n0: Minimum (8 GB)\n"), "in the firmware setup", "0.5 GiB"),
        (format!("== {options}\nrubbish\n"), "in the firmware setup", "0.5 GiB"),
    ] {
        let lines = repairs("krackan-carve-out", &changes, "memory-carve-out");
        assert!(lines.contains(has) && lines.contains("ttm pages_limit="), "{changes}: {lines}");
        let checks = check(&machine::read("krackan-carve-out", &changes), &images());
        let found = &one(&checks, "memory-carve-out").findings[0].right;
        assert!(found.starts_with(right), "{changes}: {found}");
    }
}

/// AMD recommends its driver package, with its firmware, for cards and Instinct. For APUs, and if
/// the kernel's own driver is in use, the package's firmware is wrong.
#[test]
fn firmware_belongs_to_the_driver_in_use() {
    let found = |name: &str, changes: &str| {
        let checks = check(&machine::read(name, changes), &images());
        one(&checks, "firmware-dkms").findings.len()
    };
    assert_eq!(found("r9700-dkms", ""), 0);
    let card = "== sys/class/kfd/kfd/topology/nodes/1/properties\ngfx_target_version 120001\n";
    assert_eq!(found("strix-halo-rootless-debian", card), 1);
    assert_eq!(found("halo-hwe-dkms", ""), 1);
}

/// The GPUs of processors are known as such, so that the memory they share is judged, and so that
/// a card beside them is chosen.
#[test]
fn every_integrated_gpu_is_known() {
    for (number, gpu) in [
        (90_002, "gfx902"),
        (90_012, "gfx90c"),
        (100_303, "gfx1033"),
        (100_305, "gfx1035"),
        (100_306, "gfx1036"),
        (100_307, "gfx1037"),
        (110_003, "gfx1103"),
        (110_500, "gfx1150"),
        (110_501, "gfx1151"),
        (110_502, "gfx1152"),
        (110_503, "gfx1153"),
    ] {
        let node = "sys/class/kfd/kfd/topology/nodes";
        let alone =
            format!("== {node}/1/properties\ngfx_target_version {number}\nlocation_id 50432\n");
        let checks = check_for(&machine::read("halo-default-limit", &alone), &images(), gpu);
        assert!(serious(&checks).contains(&"memory-gpu-limit"), "{gpu}");
        let both = format!("{alone}== {node}/2/properties\ngfx_target_version 120001\n");
        let checks = check(&machine::read("strix-halo", &both), &images());
        if gpu != "gfx1151" {
            let choice = format!("{:?}", one(&checks, "gpu-several"));
            assert!(choice.contains("only gfx1201 is visible to ROCm"), "{gpu}: {choice}");
        }
    }
}

/// Without an AMD GPU, the report names the GPU that there is, and a virtual machine's host.
#[test]
fn without_an_amd_gpu_the_other_one_is_named() {
    let vga = "-- sys/bus/pci/devices/0000:00:02.0/vendor\n== sys/bus/pci/devices/0000:01:00.0/class\n0x030000\n";
    let vendor = |id: &str| format!("{vga}== sys/bus/pci/devices/0000:01:00.0/vendor\n{id}\n");
    for (changes, seen) in [
        (vendor("0x1002").replace("0x030000", "0x020000"), "no AMD GPU"),
        (vendor("0x10de"), "no AMD GPU, but one by NVIDIA"),
        (vendor("0x8086"), "no AMD GPU, but one by Intel"),
        (vendor("0x9999"), "no AMD GPU"),
    ] {
        let checks = check(&machine::read("no-gpu", &changes), &images());
        let found = one(&checks, "gpu-present");
        assert_eq!((found.seen.as_str(), found.findings[0].severity), (seen, Severity::Note));
        assert!(!repairs("no-gpu", &changes, "gpu-present").contains("virtual machine"));
    }
    let guest = "== proc/cpuinfo\nflags\t\t: fpu hypervisor\n";
    let lines = repairs("no-gpu", &(vendor("0x1234") + guest), "gpu-present");
    assert!(lines.contains("pass it through to this machine"), "{lines}");
}

/// An override makes programs hang on some GPUs, so an image with native code comes first.
#[test]
fn native_code_is_better_than_an_override() {
    for (name, right) in [
        ("phoenix-arch", "an image with code for gfx1103, from ROCm 7.13 on, or else"),
        ("rembrandt-debian", "an image with code for gfx1035, from ROCm 7.13 on, or else"),
    ] {
        let checks = check(&machine::read(name, ""), &images());
        let found = &one(&checks, "override-spoof").findings[0].right;
        assert!(found.starts_with(right), "{name}: {found}");
    }
}

/// Before Linux 6.11, ROCm uses only the carve-out of a small integrated GPU: a smaller one would
/// take memory away.
#[test]
fn old_kernels_keep_their_carve_out() {
    let kernel =
        |release: &str| format!("== proc/version\nLinux version {release} (b@b) (gcc 15) #1 SMP\n");
    let small = "== sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total\n536870912\n";
    for (release, is_old) in [
        ("6.1.0-38-amd64", true),
        ("6.8.0-60-generic", true),
        ("6.10.11-amd64", true),
        ("6.11.0-29-generic", false),
        ("6.12.73+deb13-amd64", false),
        ("7.0.0-14-generic", false),
        ("rubbish", false),
    ] {
        let changes = kernel(release);
        let checks = check(&machine::read("krackan-carve-out", &changes), &images());
        let found = one(&checks, "memory-carve-out");
        assert_eq!(found.findings.is_empty(), is_old, "{release}: {found:?}");
        let lines = repairs("krackan-carve-out", &(changes + small), "memory-gpu-limit");
        assert_eq!(lines.starts_with("# ROCm uses only"), is_old, "{release}: {lines}");
    }
    let rhel = format!("{}== etc/os-release\nID=rhel\n", kernel("5.14.0-611.el9.x86_64"));
    assert!(!repairs("krackan-carve-out", &rhel, "memory-carve-out").is_empty());
}
