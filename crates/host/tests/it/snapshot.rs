//! Tests which facts are read from a machine.

use names::EngineKind;

use crate::machine;

#[test]
fn all_facts_of_a_strix_halo_are_read() {
    let machine = machine::read("strix-halo", "");
    let [gpu] = machine.gpus.as_slice() else { panic!("{:?}", machine.gpus) };
    assert_eq!(gpu.target.as_ref().unwrap().as_str(), "gfx1151");
    assert_eq!(gpu.address.as_deref(), Some("0000:c5:00.0"));
    assert_eq!((gpu.device, gpu.driver.as_deref()), (Some(0x1586), Some("amdgpu")));
    assert_eq!((gpu.vram, gpu.gtt), (Some(512 << 20), Some(120 << 30)));
    assert_eq!(machine.kernel.release.as_deref(), Some("6.18.8-200.fc43.x86_64"));
    assert_eq!(machine.kernel.build.as_deref(), Some("1"));
    assert_eq!(machine.kernel.distribution.as_deref(), Some("fedora-43"));
    assert_eq!(machine.memory.gpu_limit, Some(120 << 30));
    assert_eq!(machine.memory.total, Some(130_850_816 * 1024));
    assert_eq!(machine.firmware.mes, [0x80]);
    assert_eq!(machine.user.name.as_deref(), Some("kim"));
    assert_eq!(machine.user.listed, ["video", "render"]);
    assert!(machine.user.has_subids);
    assert_eq!(machine.groups[&105], "render");
    assert_eq!((machine.selinux_enforces, machine.selinux_devices), (Some(true), Some(true)));
    let [podman] = machine.engines.as_slice() else { panic!("{:?}", machine.engines) };
    assert_eq!((podman.kind, podman.is_rootless), (EngineKind::Podman, true));
    assert_eq!(podman.runtime.as_deref(), Some("crun"));
    assert_eq!(machine.disks[0].free, 400_000_000_000);
    assert_eq!(machine.devices.len(), 3);
}

#[test]
fn the_kernel_of_ubuntu_and_its_parameters_are_read() {
    let kernel = machine::read("strix-halo-old-kernel", "").kernel;
    assert_eq!(kernel.release.as_deref(), Some("6.14.0-37-generic"));
    assert_eq!(kernel.build.as_deref(), Some("37~24.04.1"));
    assert_eq!(kernel.distribution.as_deref(), Some("ubuntu-24.04"));
    let given = |module, name| kernel.given(module, name).map(|one| one.value.clone()).next();
    assert_eq!(given("amdgpu", "gttsize").as_deref(), Some("126976"));
    assert_eq!(given("amdttm", "pages_limit").as_deref(), Some("32505856"));
    assert_eq!(given("ttm", "pages_limit"), None);
    assert!(kernel.words.iter().any(|word| word == "amd_iommu=off"));
    let kernel = machine::read("strix-halo-fixed-hwe", "").kernel;
    let limit = kernel.given("ttm", "pages_limit").next().unwrap();
    assert_eq!(
        (limit.value.as_str(), limit.file.as_str()),
        ("31457280", "/etc/modprobe.d/ttm.conf")
    );
}

/// docker searches for its plugin in the user's folder first (docker/cli, cli-plugins/manager);
/// podman uses the plugin too (containers.conf(5), `compose_providers`).
#[test]
fn what_starts_compose_files_is_found() {
    let mut changes = String::new();
    for path in [
        None,
        Some("usr/bin/podman-compose"),
        Some("usr/local/bin/docker-compose"),
        Some("usr/libexec/docker/cli-plugins/docker-compose"),
        Some("usr/local/lib/docker/cli-plugins/docker-compose"),
        Some("home/kim/.docker/cli-plugins/docker-compose"),
    ] {
        changes.extend(path.iter().flat_map(|path| ["== ", *path, "\n"]));
        let found = machine::read("strix-halo", &changes).compose;
        assert_eq!(found, path.map(|path| format!("/{path}")));
    }
}

#[test]
fn gpus_are_in_the_order_of_the_compute_driver() {
    let machine = machine::read("desktop-two-gpus", "");
    let all: Vec<_> = machine
        .gpus
        .iter()
        .map(|gpu| (gpu.target.as_ref().unwrap().as_str(), gpu.address.as_deref().unwrap()))
        .collect();
    assert_eq!(all, [("gfx1031", "0000:03:00.0"), ("gfx1036", "0000:10:00.0")]);
    // Node 10 comes after node 2.
    let machine = machine::read(
        "desktop-two-gpus",
        "== sys/class/kfd/kfd/topology/nodes/10/properties\ngfx_target_version 110000\n",
    );
    assert_eq!(machine.gpus[2].target.as_ref().unwrap().as_str(), "gfx1100");
}

#[test]
fn a_machine_of_rubbish_is_read_without_a_fault() {
    for rubbish in ["", "\0\0\0", "0x", "-1", "99999999999999999999999999", "é\u{202e}\u{1b}[2J ="]
    {
        let files = [
            "sys/class/kfd/kfd/topology/nodes/1/properties",
            "sys/bus/pci/devices/0000:c5:00.0/class",
            "sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total",
            "sys/module/ttm/parameters/pages_limit",
            "sys/kernel/debug/dri/1/amdgpu_firmware_info",
            "proc/version",
            "proc/cmdline",
            "proc/meminfo",
            "etc/os-release",
            "etc/passwd",
            "etc/group",
            "etc/subuid",
            "var/lib/dpkg/status",
            "sys/fs/selinux/enforce",
        ];
        let changes: Vec<String> = files
            .iter()
            .map(|file| {
                format!("== {file}\ngfx_target_version {rubbish}\nMemTotal: {rubbish}\n{rubbish}\n")
            })
            .collect();
        let machine = machine::read("strix-halo", &changes.concat());
        assert_eq!(machine.memory.gpu_limit, None);
        crate::rules::check(&machine, &[]);
    }
}
