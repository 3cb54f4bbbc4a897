//! Tests machines with engines of several releases: their versions, and a container in each engine.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::process::Command;

use testkit::{Guest, Machine, User, busybox_root};

/// Runs the docker client on the daemon at a socket and returns its output.
fn docker(socket: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = Command::new("docker");
    command.arg("--host").arg(format!("unix://{}", socket.display())).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a container with podman and with docker, and checks their versions.
#[track_caller]
fn engines_run(guest: &Guest, podman: &str, docker_version: &str) {
    let files = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(files.path(), Some(testkit::ORDINARY_USER), None).unwrap();
    fs::write(files.path().join("base.tar"), busybox_root()).unwrap();
    let base = files.path().join("base.tar").display().to_string();
    let machine = Machine::start(guest, &[files.path()]);
    for user in [User::Root, User::Ordinary] {
        let said = |arguments: &[&str]| machine.said(user, "podman", arguments);
        assert_eq!(said(&["version", "--format", "{{.Client.Version}}"]), [podman], "{user:?}");
        said(&["import", "--change=ENV PATH=/bin", &base, "localhost/base:1"]);
        let run = ["run", "--rm", "--network=none", "localhost/base:1", "echo", "in a container"];
        assert_eq!(said(&run), ["in a container"], "{user:?}");
    }
    for has_containerd_store in [false, true] {
        // A daemon ends with its machine.
        let machine = Machine::start(guest, &[]);
        let socket = machine.start_docker(has_containerd_store);
        let version = docker(&socket, &["version", "--format", "{{.Server.Version}}"]);
        assert!(version.starts_with(docker_version), "{version}");
        docker(&socket, &["import", "--change=ENV PATH=/bin", &base, "base:1"]);
        let run = ["run", "--rm", "--network=none", "base:1", "echo", "in a container"];
        assert_eq!(docker(&socket, &run), "in a container");
    }
}

#[test]
fn debian_12_has_the_oldest_engines() {
    engines_run(&Guest::with_engines("bookworm"), "4.3.1", "20.10.");
}

#[test]
fn debian_13_has_its_engines() {
    engines_run(&Guest::with_engines("trixie"), "5.4.2", "26.1.5");
}

#[test]
fn sid_has_newer_engines() {
    engines_run(&Guest::with_engines("sid"), "5.8.6", "28.5.2");
}

#[test]
fn experimental_has_the_newest_podman() {
    engines_run(&Guest::with_engines("experimental"), "6.1.1", "28.5.2");
}
