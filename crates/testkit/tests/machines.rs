//! Tests machines with the engines of another release: their versions, and a container in each
//! engine.

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

/// Runs a container with podman and with docker. Checks that the release has at least these major
/// versions of the two; sid gets newer ones at any time.
#[track_caller]
fn engines_run(guest: &Guest, podman: u32, docker_major: u32) {
    let files = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(files.path(), Some(testkit::ORDINARY_USER), None).unwrap();
    fs::write(files.path().join("base.tar"), busybox_root()).unwrap();
    let base = files.path().join("base.tar").display().to_string();
    let machine = Machine::start(guest, &[files.path()]);
    for user in [User::Root, User::Ordinary] {
        let said = |arguments: &[&str]| machine.said(user, "podman", arguments);
        let version = said(&["version", "--format", "{{.Client.Version}}"]).concat();
        assert!(major(&version) >= podman, "{user:?}: {version}");
        said(&["import", "--change=ENV PATH=/bin", &base, "localhost/base:1"]);
        let run = ["run", "--rm", "--network=none", "localhost/base:1", "echo", "in a container"];
        assert_eq!(said(&run), ["in a container"], "{user:?}");
    }
    for has_containerd_store in [false, true] {
        // A daemon ends with its machine.
        let machine = Machine::start(guest, &[]);
        let socket = machine.start_docker(has_containerd_store);
        let version = docker(&socket, &["version", "--format", "{{.Server.Version}}"]);
        assert!(major(&version) >= docker_major, "{version}");
        docker(&socket, &["import", "--change=ENV PATH=/bin", &base, "base:1"]);
        let run = ["run", "--rm", "--network=none", "base:1", "echo", "in a container"];
        assert_eq!(docker(&socket, &run), "in a container");
    }
}

/// Podman and docker on this machine may write to their folders while a test copies them.
#[test]
fn a_guest_sees_nothing_of_the_engines_of_its_root() {
    let script = "ls -A /var/lib/containers /var/lib/docker";
    let output = Guest::this_machine().command(&[], "sh").args(["-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "/var/lib/containers:\n\n/var/lib/docker:\n");
}

/// Returns the first number of a version.
fn major(version: &str) -> u32 {
    version.split('.').next().unwrap().parse().unwrap()
}

#[test]
fn debian_13_has_its_engines() {
    engines_run(&Guest::with_engines("trixie"), 5, 26);
}

#[test]
fn sid_has_newer_engines() {
    engines_run(&Guest::with_engines("sid"), 5, 28);
}
