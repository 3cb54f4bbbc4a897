//! Machines of the third and fourth survey: what an expert says to their owners.

use host::rules::{Check, Outcome, Severity};

use crate::machine;
use crate::rules::{check, check_for, images, one, serious};

/// A recorded machine, its GPU, and the rules that must find an error or a warning there. No other
/// rule may. The machines' files name the sources.
const JUDGED: &[(&str, &str, &[&str])] = &[
    ("halo-framework-124", "gfx1151", &["kernel-rocm"]),
    ("halo-evo-x2-96", "gfx1151", &[]),
    ("halo-lxc-foreign-group", "gfx1151", &["device-access"]),
    ("halo-host-rocm", "gfx1151", &["host-rocm"]),
    ("halo-ubuntu-96g", "gfx1151", &["kernel-rocm", "memory-carve-out"]),
    (
        "halo-hp-z2",
        "gfx1151",
        &["kernel-rocm", "kernel-amdttm", "firmware-dkms", "memory-gpu-limit"],
    ),
    ("halo-nixos-7.2", "gfx1151", &[]),
    ("halo-cachyos", "gfx1151", &["memory-gpu-limit"]),
    ("halo-ms-s1", "gfx1151", &[]),
    ("phoenix-ubuntu-26", "gfx1103", &["override-spoof"]),
    ("strix-point-debian", "gfx1150", &["kernel-gttsize"]),
    ("strix-point-arch", "gfx1150", &["firmware-mes", "memory-gpu-limit"]),
    ("strix-point-updates", "gfx1150", &["firmware-mes", "memory-gpu-limit"]),
    ("krackan-nixos", "gfx1152", &["override-spoof"]),
    ("navi3-with-raphael", "gfx1100", &["gpu-several"]),
    ("navi2-cezanne-silverblue", "gfx1032", &["gpu-several"]),
    ("mi300a-rhel", "gfx942", &[]),
    ("wsl2-navi3", "gfx1101", &["wsl-gpu"]),
];

/// The same for the fourth survey.
const FOURTH: &[(&str, &str, &[&str])] = &[
    ("halo-iommu-pt", "gfx1151", &[]),
    ("halo-gtr9-96g", "gfx1151", &["memory-carve-out"]),
    ("halo-old-workarounds", "gfx1151", &[]),
    ("halo-debugging", "gfx1151", &["memory-gpu-limit"]),
    ("halo-gtt-only", "gfx1151", &["kernel-gttsize", "memory-gpu-limit", "memory-gtt"]),
    ("halo-ubuntu-25.10", "gfx1151", &["kernel-rocm", "memory-gpu-limit"]),
    ("halo-debian-backports", "gfx1151", &["memory-gpu-limit"]),
    ("halo-zbook-rc", "gfx1151", &["memory-gpu-limit"]),
    ("halo-slow-copies", "gfx1151", &["kernel-faults"]),
    ("halo-64g-limit-124", "gfx1151", &["memory-carve-out"]),
    ("halo-64g-laptop", "gfx1151", &[]),
    ("halo-arch-mes83", "gfx1151", &["kernel-rocm", "firmware-mes", "memory-gpu-limit"]),
    ("phoenix-sdboot", "gfx1103", &["override-spoof"]),
    ("phoenix-8g", "gfx1103", &["override-spoof"]),
    ("krackan-override", "gfx1152", &["memory-gpu-limit", "override-spoof"]),
    ("strix-point-oem-6.11", "gfx1150", &["memory-gpu-limit"]),
    ("navi4-slow-copies", "gfx1200", &["kernel-faults"]),
    ("navi4-arch-cwsr", "gfx1201", &[]),
    ("navi2-fedora-44", "gfx1030", &[]),
    ("navi2-docker", "gfx1031", &["override-spoof"]),
    ("mi250x-docker", "gfx90a", &[]),
    ("navi4-with-raphael", "gfx1201", &["gpu-several"]),
    ("wsl2-ubuntu-22", "gfx1102", &["wsl-gpu"]),
    ("navi3-vm-slow-copies", "gfx1100", &["kernel-faults"]),
];

#[test]
fn every_machine_of_the_surveys_is_judged_right() {
    for (name, gpu, right) in JUDGED.iter().chain(FOURTH) {
        let checks = check_for(&machine::read(name, ""), &images(), gpu);
        assert_eq!(serious(&checks), *right, "{name}: {checks:#?}");
    }
}

/// Checks a machine with changes.
fn judge(name: &str, changes: &str) -> Vec<Check> {
    check(&machine::read(name, changes), &images())
}

/// Returns a rule's findings and what was seen, as text.
fn told(name: &str, changes: &str, rule: &str) -> String {
    format!("{:?}", one(&judge(name, changes), rule))
}

/// A limit reserves nothing, but a model that fills it leaves the driver and the host without
/// memory. A limit above the total can only be a mistake.
#[test]
fn a_limit_leaves_memory_for_the_host() {
    let changes = |total_mib: u64, limit_mib: u64| {
        format!(
            "== proc/meminfo\nMemTotal: {} kB\n== sys/module/ttm/parameters/pages_limit\n{}\n",
            total_mib << 10,
            limit_mib << 8
        )
    };
    for (total, limit, severity) in [
        (127_000, 124 << 10, Some(Severity::Note)),
        (127_000, 120 << 10, None),
        (93_000, 88 << 10, Some(Severity::Note)),
        (93_000, 84 << 10, None),
        (65_000, 96 << 10, Some(Severity::Warning)),
        (31_000, 24 << 10, None),
        // The kernel's default is about half.
        (15_000, 7_500, None),
        (7_500, 3_750, None),
        (3_500, 1_750, None),
    ] {
        let checks = judge("strix-halo", &changes(total, limit));
        let found = one(&checks, "memory-for-host");
        let worst = found.findings.first().map(|one| one.severity);
        assert_eq!(worst, severity, "{total} {limit}: {found:?}");
    }
    // No limit that another rule recommends is too high.
    for total in [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256].map(|gib| (gib << 10) - gib * 16)
    {
        let half = judge("strix-halo", &changes(total, total / 2));
        for finding in &one(&half, "memory-gpu-limit").findings {
            let (_, pages) = finding.right.split_once("ttm.pages_limit=").unwrap();
            let pages: u64 = pages.split(')').next().unwrap().parse().unwrap();
            let checks = judge("strix-halo", &changes(total, pages >> 8));
            assert_eq!(one(&checks, "memory-for-host").result, Outcome::Ok, "{total}");
        }
    }
}

/// A pool that keeps more than the limit would undo it.
#[test]
fn a_pool_above_the_limit_is_named() {
    let pool = "also lower page_pool_size=32505856 in /proc/cmdline to 31457280";
    assert!(told("halo-framework-124", "", "memory-for-host").contains(pool));
    let smaller = "== proc/cmdline\nro ttm.pages_limit=32505856 ttm.page_pool_size=1000\n";
    assert!(!told("halo-framework-124", smaller, "memory-for-host").contains("pool"));
}

/// Images whose ROCm needs the same repair are named together.
#[test]
fn one_kernel_is_one_finding() {
    let mut two = images();
    two[1].rocm = Some("7.2.4".to_owned());
    let machine = machine::read("halo-framework-124", "");
    let found = one(&check(&machine, &two), "kernel-rocm").findings.clone();
    let seen: Vec<&str> = found.iter().map(|one| one.seen.as_str()).collect();
    assert_eq!(
        seen,
        [
            "kernel 6.17.11-300.fc43.x86_64 with AMD's ROCm 7.2.1 (track official) and 7.2.4 (track ollama): unstable"
        ]
    );
    // 7.1.1 needs another repair.
    two[1].rocm = Some("7.1.1".to_owned());
    assert_eq!(one(&check(&machine, &two), "kernel-rocm").findings.len(), 2);
}

/// In an LXC container, the total is the memory that the container was given.
#[test]
fn no_rule_computes_with_the_memory_of_a_container() {
    let rules = ["memory-gpu-limit", "memory-for-host", "memory-gtt", "memory-carve-out"];
    let large = "== sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total\n103079215104\n";
    let small = "== proc/meminfo\nMemTotal: 16777216 kB\n";
    for changes in [String::new(), small.to_owned(), format!("{small}{large}")] {
        let checks = judge("halo-lxc-foreign-group", &changes);
        for rule in rules {
            let found = one(&checks, rule);
            assert_eq!(found.result, Outcome::Skipped, "{changes}: {found:?}");
            assert!(!found.seen.contains("GiB"), "{changes}: {found:?}");
        }
    }
    // podman and docker show the host's total.
    let docker = "-- run/systemd/container\n== .dockerenv\n";
    let found = told("halo-lxc-foreign-group", docker, "memory-for-host");
    assert!(found.contains("120 GiB of 96 GiB"), "{found}");
}

/// In a container, a group of the host has no name; joining it is not possible there.
#[test]
fn the_right_group_is_one_that_the_container_has() {
    let found = told("halo-lxc-foreign-group", "", "device-access");
    assert!(found.contains("a group of this container") && found.contains("gid=991"), "{found}");
    assert!(!found.contains("the user is in that group"), "{found}");
    let own = told("strix-halo-old-kernel", "", "device-access");
    assert!(own.contains("the user is in that group"), "{own}");
}

/// A size below the limit takes memory from the GPU; one above it promises too much.
#[test]
fn the_effect_of_gttsize_depends_on_the_limit() {
    for (mib, severity, says) in [
        (40_960, Severity::Warning, "the GPU gets only this size"),
        (122_880, Severity::Note, "ttm.pages_limit is enough"),
        (126_976, Severity::Warning, "more memory than they can get"),
    ] {
        let changes = format!("== proc/cmdline\nro amdgpu.gttsize={mib}\n");
        let checks = judge("strix-halo", &changes);
        let found = &one(&checks, "kernel-gttsize").findings[0];
        assert_eq!(found.severity, severity, "{mib}: {found:?}");
        assert!(found.why.contains(says), "{mib}: {found:?}");
    }
}

/// An update brings good firmware only if a good release is newer than the bad one.
#[test]
fn an_update_is_advised_only_if_it_helps() {
    let mes = |version: &str| {
        format!(
            "== sys/kernel/debug/dri/1/amdgpu_firmware_info\nMES feature version: 1, firmware version: 0x000000{version}\n"
        )
    };
    for (version, helps) in [("83", true), ("86", false), ("88", false)] {
        let found = told("strix-halo", &mes(version), "firmware-mes");
        assert_eq!(found.contains("dnf upgrade"), helps, "{version}: {found}");
        assert_eq!(found.contains("the same firmware again"), !helps, "{version}: {found}");
    }
}

/// Files in `/lib/firmware/updates` hide the distribution's firmware, or are for another GPU.
#[test]
fn firmware_outside_packages_is_named() {
    let file = |name: &str| format!("== lib/firmware/updates/amdgpu/{name}\n");
    for (name, changes, says) in [
        ("strix-halo", file("gc_11_5_1_mes_2.bin"), "no effect\""),
        ("strix-halo", file("gc_11_5_0_mes_2.bin.zst"), "this GPU loads gc_11_5_1_*"),
        ("strix-halo", file("dcn_3_5_1_dmcub.bin"), "updates of linux-firmware"),
        ("navi4-bazzite", file("gc_12_0_1_mes.bin"), "updates of linux-firmware"),
    ] {
        let found = told(name, &changes, "firmware-updates");
        assert!(found.contains(says) && found.contains("sudo rm -r"), "{changes}: {found}");
    }
    // AMD's driver package installs its files there, too.
    let found = told("halo-hp-z2", &file("gc_11_5_1_mes_2.bin"), "firmware-updates");
    assert!(found.contains("see firmware-dkms"), "{found}");
}

/// A distribution's own ROCm may contain the fixes, so only AMD's packages are looked up.
#[test]
fn rocm_on_the_host_is_looked_up_in_amds_table() {
    let package = |version: &str| {
        format!(
            "== var/lib/dpkg/status\nPackage: rocm-core\nStatus: install ok installed\nVersion: {version}\n"
        )
    };
    let old =
        "== proc/version\nLinux version 6.14.0-37-generic (b@b) (gcc 13) #37~24.04.1-Ubuntu SMP\n";
    for (name, changes, result, says) in [
        ("halo-host-rocm", package("7.1.1.70101-38~24.04"), Outcome::Found, "unsupported"),
        ("halo-host-rocm", package("7.2.4.70204-93~24.04"), Outcome::Ok, "fits"),
        ("halo-host-rocm", package("7.1.1-0ubuntu1"), Outcome::Skipped, "no ROCm"),
        ("halo-host-rocm", old.to_owned(), Outcome::Skipped, "kernel-rocm"),
        ("navi4-bazzite", package("7.1.1.70101-38~24.04"), Outcome::Ok, "fits"),
        ("strix-halo-rootless-debian", package("7.2.4.70204-93~24.04"), Outcome::Found, "unstable"),
    ] {
        let checks = judge(name, &changes);
        let found = one(&checks, "host-rocm");
        assert_eq!(found.result, result, "{name} {changes}: {found:?}");
        assert!(found.seen.contains(says), "{name} {changes}: {found:?}");
    }
}

/// NixOS's podman brings its own crun, which is in no folder of programs.
#[test]
fn podman_of_nixos_has_crun() {
    let found = told("krackan-nixos", "-- run/current-system/sw/bin/crun\n", "engine-groups");
    assert!(found.contains("keep-groups") && found.contains("crun"), "{found}");
    let runc = "== etc/containers/containers.conf\n[engine]\nruntime = \"runc\"\n";
    let found = told("krackan-nixos", runc, "engine-groups");
    assert!(found.contains("with the runtime runc"), "{found}");
}

/// Both are needed, so the report names both at once.
#[test]
fn everything_that_wsl_lacks_is_named() {
    let found = told("wsl2-navi3", "", "wsl-gpu");
    for text in ["librocdxg is not installed", "export HSA_ENABLE_DXG_DETECTION=1"] {
        assert!(found.contains(text), "{found}");
    }
}

/// The releases of kernel.org, Ubuntu's own, Ubuntu's builds of unchanged kernels, and Proxmox's.
#[test]
fn a_kernel_is_looked_up_among_those_of_its_source() {
    for (release, has_fault) in [
        ("7.0.11-200.fc44.x86_64", false),
        ("7.0.12-200.fc44.x86_64", true),
        ("7.0.13-1-cachyos", false),
        ("7.0.120-1-cachyos", false),
        ("7.1.0-arch1-1", true),
        ("7.1.0", true),
        ("7.1.1-arch1-1", false),
        ("7.0.12-070012-generic", true),
        ("7.0.0-14-generic", false),
        ("7.0.0-28-generic", true),
        ("7.0.0-28-lowlatency", true),
        ("7.0.0-30-generic", false),
        ("7.0.0-1012-oem", false),
        ("7.1.0-12-generic", false),
        ("7.0.12-2-pve", false),
        ("rubbish", false),
    ] {
        let version = format!("== proc/version\nLinux version {release} (b@b) (gcc 15) #1 SMP\n");
        let found = told("strix-halo", &version, "kernel-faults");
        assert_eq!(found.contains("has a known fault"), has_fault, "{release}: {found}");
    }
    for (release, is_test) in [
        ("7.2.0-rc3-1-mainline", true),
        ("7.2.0-0.rc3.20260810git1.fc45.x86_64", true),
        ("7.2.0-next-20260821", true),
        ("7.2.2-1-cachyos-rc", false),
        ("7.2.2-arch1-1", false),
    ] {
        let version = format!("== proc/version\nLinux version {release} (b@b) (gcc 15) #1 SMP\n");
        let found = told("strix-halo", &version, "kernel-faults");
        assert_eq!(found.contains("is a test version"), is_test, "{release}: {found}");
    }
}
