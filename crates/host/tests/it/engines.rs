//! Tests the rules about container engines.

use host::rules::{self, Context, Image, Outcome, Severity};
use names::EngineKind;

use crate::cases::TODAY;
use crate::machine;
use crate::rules::{check, data, image, images, one};

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
