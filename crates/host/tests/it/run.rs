//! Tests the rights of containers by engine, track and machine, and the verdicts on smoke tests.

use std::collections::{BTreeMap, BTreeSet};

use host::run::trial::{Ending, is_software, judge, kernel_lines, said_meanwhile};
use host::run::{
    Container, Form, GpuWay, Groups, Level, Needs, Network, Rows, RunError, VariableFile,
    Variables, Wish, check_devices, container, loses_groups, parse_rows,
};
use host::{Engine, Snapshot};
use names::EngineKind;
use pins::When;

use crate::machine;

const ROWS: &str = include_str!("../../../../versions/run.toml");
const GPUS: &str = include_str!("../../../../versions/gpus.toml");

pub(crate) fn rows() -> Rows {
    parse_rows("run.toml", ROWS, &tracks()).unwrap()
}

/// The engines that files are written for.
pub(crate) fn engines() -> [(&'static str, Engine); 3] {
    let engine = |kind, is_rootless, runtime: &str| Engine {
        runtime: Some(runtime.to_owned()),
        ..Engine::new(kind, None, is_rootless)
    };
    [
        ("podman-rootless-crun", engine(EngineKind::Podman, true, "crun")),
        ("podman-runc", engine(EngineKind::Podman, false, "runc")),
        ("docker", engine(EngineKind::Docker, false, "runc")),
    ]
}

/// Returns the request of a user on a good machine.
pub(crate) fn wish<'a>(
    track: &str,
    rows: &'a Rows,
    machine: &'a Snapshot,
    engine: &'a Engine,
) -> Wish<'a> {
    let gpus = pins::parse_gpus("gpus.toml", GPUS).unwrap();
    let row = &rows[track];
    let settings = match row.gpu {
        GpuWay::Rocm => {
            gpus.environment(&"gfx1151".parse().unwrap(), Some("7.2.1"), &[When::Run], None)
        }
        GpuWay::Vulkan => Vec::new(),
    };
    Wish {
        track: track.parse().unwrap(),
        row,
        machine,
        engine,
        image: format!("localhost/build-pipeline/{track}:latest"),
        home: format!("~/.cache/build-pipeline/home/{track}"),
        entrypoint: None,
        command: Vec::new(),
        environment: settings.into_iter().map(|one| (one.name, one.value)).collect(),
        models: None,
        work: row.has_work.then(|| "~/project".to_owned()),
        owner: (1000, 1000),
        publish: ("127.0.0.1".to_owned(), None),
        network: Network::Own,
        has_gpu: true,
        variables: Variables::default(),
        volumes: Vec::new(),
        is_detached: false,
    }
}

fn tracks() -> pins::Tracks {
    let text = include_str!("../../../../versions/tracks.toml");
    pins::parse_tracks("tracks.toml", text).unwrap()
}

fn with(track: &str, change: impl FnOnce(&mut Wish<'_>)) -> Container {
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    let [(_, engine), ..] = engines();
    let mut wish = wish(track, &rows, &machine, &engine);
    change(&mut wish);
    container(&wish).unwrap()
}

#[test]
fn every_track_has_a_row_and_levels_whose_scripts_are_there() {
    let rows = rows();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../versions/smoke");
    let mut used = Vec::new();
    for (track, row) in &rows {
        assert!(row.smoke.contains_key(&Level::Import), "{track}");
        assert_eq!(row.smoke[&Level::Import].needs, Needs::Nothing, "{track}");
        used.extend(row.smoke.values().map(|trial| trial.script.clone()));
    }
    used.sort();
    used.dedup();
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut there: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, used);
    assert_eq!(rows["ollama"].port, Some(11_434));
    assert_eq!(rows["official"].port, Some(8000));
    assert_eq!(rows["vulkan"].port, Some(8080));
}

#[test]
fn a_wrong_file_is_answered_with_places() {
    let text = "schema = 1\n[vulcan]\n[vulkan]\ngpu = \"cuda\"\nport = 0\nmodels = \"models\"\n\
        models-at = \"/a:b\"\nsmoke.run = { script = \"x\" }\n\
        smoke.device = { script = \"../x.sh\", needs = \"luck\", expect = '(', speed = 1 }\n";
    insta::assert_snapshot!(
        "wrong_rows",
        parse_rows("versions/run.toml", text, &tracks()).unwrap_err()
    );
}

#[test]
fn devices_are_those_of_the_gpu_and_no_others() {
    let rows = rows();
    for (track, row) in &rows {
        let track = track.as_str();
        let devices = with(track, |_| {}).devices;
        match row.gpu {
            GpuWay::Rocm => assert_eq!(devices, ["/dev/kfd", "/dev/dri"]),
            GpuWay::Vulkan => assert_eq!(devices, ["/dev/dri"]),
        }
        let without = with(track, |wish| wish.has_gpu = false);
        assert_eq!((without.devices.len(), without.groups), (0, Groups::None));
    }
}

#[test]
fn groups_are_kept_or_numbers_as_the_engine_allows() {
    let (rows, good) = (rows(), machine::read("strix-halo", ""));
    let other = "== recorded\ndevice /dev/kfd 660 0 992\ndevice /dev/dri/card0 660 0 44\n\
        device /dev/dri/renderD128 660 0 993\n";
    let other = machine::read("strix-halo", other);
    let [(_, crun), (_, runc), (_, docker)] = engines();
    let unknown = Engine { runtime: None, ..crun.clone() };
    let rootless_runc = Engine { is_rootless: true, ..runc.clone() };
    let rootless_docker = Engine { is_rootless: true, ..docker.clone() };
    let numbers = |all: &[u32]| Groups::Numbers(all.to_vec());
    for (engine, machine, track, groups, loses) in [
        (&crun, &good, "official", Groups::Keep, false),
        (&crun, &good, "vulkan", Groups::Keep, false),
        (&runc, &good, "official", numbers(&[105]), false),
        (&docker, &other, "official", numbers(&[992, 993]), false),
        (&docker, &other, "vulkan", numbers(&[993]), false),
        (&unknown, &good, "official", numbers(&[105]), true),
        (&rootless_runc, &good, "official", numbers(&[105]), true),
        (&rootless_docker, &good, "official", numbers(&[105]), true),
    ] {
        let wish = wish(track, &rows, machine, engine);
        let container = container(&wish).unwrap();
        assert_eq!(container.groups, groups, "{engine:?}");
        assert_eq!(loses_groups(&container, &wish), loses, "{engine:?}");
    }
}

#[test]
fn the_user_is_the_callers_where_the_containers_root_would_be_the_machines() {
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    let [(_, crun), (_, runc), (_, docker)] = engines();
    for (engine, owner, user) in [
        (&crun, (1000, 1000), None),
        (&runc, (1000, 1001), Some((1000, 1001))),
        (&docker, (1000, 1000), Some((1000, 1000))),
        (&docker, (0, 0), None),
    ] {
        let mut wish = wish("trainer", &rows, &machine, engine);
        wish.owner = owner;
        let container = container(&wish).unwrap();
        assert_eq!(container.user, user);
        assert_eq!(container.environment.contains_key("USER"), user.is_some());
        assert_eq!(container.environment["HOME"], "/home/run");
    }
}

#[test]
fn what_is_asked_for_is_given() {
    let asked = with("vulkan", |wish| {
        wish.models = Some("/srv/models".to_owned());
        wish.publish = ("0.0.0.0".to_owned(), Some(9000));
        wish.work = Some("/srv/work".to_owned());
        wish.entrypoint = Some("sh".to_owned());
    });
    let folders: Vec<_> = asked
        .folders
        .iter()
        .map(|folder| (folder.host.as_str(), folder.container.as_str(), folder.is_made))
        .collect();
    assert_eq!(
        folders,
        [
            ("~/.cache/build-pipeline/home/vulkan", "/home/run", true),
            ("/srv/models", "/models", false),
            ("/srv/work", "/work", false),
        ]
    );
    let port = asked.port.unwrap();
    assert_eq!((port.address.as_str(), port.host, port.container), ("0.0.0.0", 9000, 8080));
    assert_eq!((asked.work, asked.relabels), (Some("/work"), true));
    for network in [Network::Host, Network::None] {
        assert_eq!(with("vulkan", |wish| wish.network = network).port, None);
    }
    let (rows, machine) = (rows(), machine::read("no-gpu", ""));
    let [(_, engine), ..] = engines();
    let mut wish = wish("vulkan", &rows, &machine, &engine);
    wish.models = Some("/srv/a:b".to_owned());
    assert_eq!(container(&wish), Err(RunError::Path { path: "/srv/a:b".to_owned() }));
}

#[test]
fn a_missing_node_is_named() {
    let good = machine::read("strix-halo", "");
    assert_eq!(check_devices(GpuWay::Rocm, &good), Ok(()));
    let missing = |changes: &str, way| {
        let machine = machine::read("no-gpu", changes);
        check_devices(way, &machine).unwrap_err().to_string()
    };
    let render = "== recorded\nuser 1000 1000\ndevice /dev/dri/renderD128 660 0 105\n";
    let kfd =
        "== recorded\nuser 1000 1000\ndevice /dev/kfd 660 0 105\ndevice /dev/dri/card0 660 0 44\n";
    assert_eq!(
        missing(render, GpuWay::Rocm),
        "the device node `/dev/kfd` is missing, but ROCm needs it"
    );
    assert_eq!(
        missing(kfd, GpuWay::Vulkan),
        "the device node `/dev/dri/renderD128` is missing, but Vulkan needs it"
    );
    assert_eq!(check_devices(GpuWay::Vulkan, &machine::read("no-gpu", render)), Ok(()));
}

/// AMD documents these flags in the README of ROCm/librocdxg.
#[test]
fn in_wsl2_rocm_gets_the_device_and_the_libraries_of_windows() {
    let (rows, machine) = (rows(), machine::read("strix-halo-wsl2", ""));
    for (name, engine) in engines() {
        let rocm = container(&wish("ollama", &rows, &machine, &engine)).unwrap();
        assert_eq!((&*rocm.devices, &rocm.groups), (&["/dev/dxg"][..], &Groups::None), "{name}");
        let script = rocm.print(Form::Shell).unwrap();
        for (form, option) in [
            (Form::Shell, "--volume /usr/lib/wsl/lib/libdxcore.so:/usr/lib/libdxcore.so:ro"),
            (Form::Shell, "--volume /opt/rocm/lib/librocdxg.so.1.2.2:/usr/lib/librocdxg.so:ro"),
            (Form::Shell, "\nneed /dev/dxg\n"),
            (Form::Compose, "/opt/rocm/lib/librocdxg.so.1.2.2"),
            (Form::Distrobox, "--volume /opt/rocm/lib/librocdxg.so.1.2.2:/usr/lib/librocdxg.so:ro"),
        ] {
            let text = rocm.print(form).unwrap();
            assert!(text.contains(option), "{name}: {option}: {text}");
        }
        for absent in ["/dev/kfd", "render", "group-add"] {
            assert!(!script.contains(absent), "{name}: {absent}: {script}");
        }
        let mut without = wish("ollama", &rows, &machine, &engine);
        without.has_gpu = false;
        let without = container(&without).unwrap();
        assert_eq!((without.devices.len(), without.volumes.len()), (0, 0), "{name}");
        let vulkan = container(&wish("vulkan", &rows, &machine, &engine)).unwrap();
        assert_eq!((vulkan.devices.len(), vulkan.volumes.len()), (0, 0), "{name}: no /dev/dri");
        assert_eq!(vulkan.groups, Groups::None, "{name}");
        let listed = machine::read("strix-halo-wsl2", "== opt/rocm/share/rocdxg/dids.conf\n");
        let listed = container(&wish("ollama", &rows, &listed, &engine)).unwrap();
        let ids = "/opt/rocm/share/rocdxg/dids.conf:/usr/share/rocdxg/dids.conf:ro";
        assert!(listed.print(Form::Shell).unwrap().contains(ids), "{name}");
        assert!(!script.contains("dids.conf"), "{name}: the file does not exist");
    }
    let checked = |changes: &str| {
        check_devices(GpuWay::Rocm, &machine::read("strix-halo-wsl2", changes))
            .map_err(|error| error.to_string())
    };
    assert_eq!(checked(""), Ok(()));
    let device = "the device node `/dev/dxg` is missing, but ROCm in WSL2 needs it";
    assert_eq!(checked("-- dev/dxg\n"), Err(device.to_owned()));
    let library = "librocdxg is not installed, but ROCm in WSL2 needs it";
    assert_eq!(checked("-- opt/rocm/lib/librocdxg.so.1.2.2\n"), Err(library.to_owned()));
}

#[test]
fn an_end_is_judged_by_status_and_output() {
    let rows = rows();
    let trial = &rows["vulkan"].smoke[&Level::Device];
    let found = b"Available devices:\n  Vulkan0: AMD Radeon Graphics (RADV GFX1151) (1 MiB)\n";
    assert_eq!(judge(trial, 0, found), Ending::Good);
    assert!(!is_software(trial, found));
    assert!(is_software(trial, b"  Vulkan0: llvmpipe (LLVM 19.1.7, 256 bits)\n"));
    // The trap: there is no device, but the program reports success.
    let none = judge(trial, 0, b"ggml_vulkan: No devices found.\nAvailable devices:\n");
    assert_eq!(none, Ending::Silent);
    assert!(judge(trial, 134, found).words().contains("status 134 (SIGABRT"));
    assert!(judge(trial, 139, b"").words().contains("SIGSEGV: a segmentation fault"));
    assert!(judge(trial, 137, b"").words().contains("SIGKILL"));
    assert_eq!(judge(trial, 1, found), Ending::Status(1));
    assert_eq!(judge(trial, 128, found), Ending::Status(128));
    assert_eq!(judge(trial, 250, found), Ending::Status(250));
    let compute = &rows["vulkan"].smoke[&Level::Compute];
    // The output of llama-bench on the CPU, and on a device.
    let wrong = b"ggml_vulkan: No devices found.\n| llama | Vulkan | 999 | tg1 | 196514 |\n";
    assert_eq!(judge(compute, 0, wrong), Ending::Silent);
    let right = b"ggml_vulkan: Found 1 Vulkan devices:\nggml_vulkan: 0 = llvmpipe (LLVM 19)\n";
    assert_eq!((judge(compute, 0, right), is_software(compute, right)), (Ending::Good, true));
}

#[test]
fn what_the_gpus_driver_said_meanwhile_is_found() {
    let before =
        kernel_lines("6,10,5,-;amdgpu: loaded\n SUBSYSTEM=pci\n6,11,6,-;usb: new\nnoise\n");
    assert_eq!(before.len(), 2);
    let text =
        "6,11,6,-;usb: new\n3,12,7,-;amdgpu 0000:c5:00.0: ring gfx timeout\n4,13,8,c;usb: gone\n";
    let after = kernel_lines(text);
    assert_eq!(said_meanwhile(&before, &after), ["amdgpu 0000:c5:00.0: ring gfx timeout"]);
    assert_eq!(said_meanwhile(&[], &before), ["amdgpu: loaded"]);
    assert_eq!(said_meanwhile(&after, &before), [""; 0]);
}

#[test]
fn distrobox_keeps_an_override_that_the_user_gives() {
    let printed = |variables: Variables| {
        with("official", |wish| wish.variables = variables).print(Form::Distrobox).unwrap()
    };
    let named = || BTreeSet::from(["HSA_OVERRIDE_GFX_VERSION".to_owned()]);
    let file = VariableFile { path: "/srv/gpu.env".to_owned(), names: named() };
    let hook = "unset HSA_OVERRIDE_GFX_VERSION";
    assert!(printed(Variables::default()).contains(hook));
    assert!(!printed(Variables { passed: named(), ..Variables::default() }).contains(hook));
    let manifest = printed(Variables { files: vec![file], ..Variables::default() });
    assert!(manifest.contains("--env-file /srv/gpu.env") && !manifest.contains(hook));
}

#[test]
fn nothing_runs_privileged() {
    for track in rows().keys().map(names::TrackName::as_str) {
        let container = with(track, |_| {});
        assert_eq!(container.security, ["no-new-privileges"]);
        let environment: &BTreeMap<String, String> = &container.environment;
        assert!(!environment.contains_key("HSA_OVERRIDE_GFX_VERSION"));
    }
}
