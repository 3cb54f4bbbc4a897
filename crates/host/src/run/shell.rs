//! A container as a script for a POSIX shell. The script finds the groups of the device nodes when
//! it runs, so it also works on other machines.

use super::{Container, Folder, Groups, Network, Port, at_home, head};
use crate::shell_word;

/// Returns the script.
pub(super) fn print(container: &Container) -> String {
    let mut lines = vec!["#!/bin/sh".to_owned()];
    lines.extend(head(container, "A script", "shell").lines().map(str::to_owned));
    lines.push("# The arguments of this script become the command in the container.".to_owned());
    lines.push("set -eu".to_owned());
    checks(container, &mut lines);
    for Folder { host, .. } in container.folders.iter().filter(|folder| folder.is_made) {
        lines.push(format!("mkdir -p {}", path(host)));
    }
    if !container.command.is_empty() {
        lines.push(format!("[ \"$#\" -gt 0 ] || set -- {}", words(&container.command)));
    }
    let engine = container.engine.as_str();
    let mut call = Vec::new();
    if container.is_detached {
        call.push(format!("exec {engine} run --detach"));
    } else {
        // `${terminal:+--tty}` expands to a word only on a terminal, where the variable is not
        // empty.
        lines.push("terminal=".to_owned());
        lines.push("if [ -t 0 ] && [ -t 1 ]; then terminal=yes; fi".to_owned());
        call.push(format!("exec {engine} run --rm"));
        call.push("${terminal:+--interactive} ${terminal:+--tty}".to_owned());
    }
    call.extend(options(container));
    call.push(shell_word(&container.image));
    call.push("\"$@\"".to_owned());
    lines.push(call.join(" \\\n    "));
    lines.join("\n") + "\n"
}

/// Checks that the nodes exist, and reads their groups.
fn checks(container: &Container, lines: &mut Vec<String>) {
    if container.devices.is_empty() {
        return;
    }
    let has_render = container.devices.contains(&"/dev/dri");
    if has_render {
        lines.push("for render in /dev/dri/renderD*; do break; done".to_owned());
    }
    lines.push("need() {".to_owned());
    lines.push(
        "    [ -c \"$1\" ] || { echo \"$1 is missing; build-pipeline doctor shows why\" >&2; exit 3; }"
            .to_owned(),
    );
    lines.push("}".to_owned());
    let nodes = container.devices.iter().filter(|device| **device != "/dev/dri");
    lines.extend(nodes.map(|device| format!("need {device}")));
    if has_render {
        lines.push("need \"$render\"".to_owned());
    }
}

/// Returns the options of `run`, one per line.
fn options(container: &Container) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(container.devices.iter().map(|device| format!("--device {device}")));
    match &container.groups {
        Groups::None => {}
        Groups::Keep => all.push("--group-add keep-groups".to_owned()),
        Groups::Numbers(_) => {
            if container.is_rocm() {
                all.push("--group-add \"$(stat -c %g /dev/kfd)\"".to_owned());
            }
            all.push("--group-add \"$(stat -c %g \"$render\")\"".to_owned());
        }
    }
    if container.user.is_some() {
        all.push("--user \"${LOCAL_UID:-$(id -u)}:${LOCAL_GID:-$(id -g)}\"".to_owned());
    }
    all.extend(container.security.iter().map(|option| format!("--security-opt {option}")));
    all.extend(container.shared_memory.map(|size| format!("--shm-size {size}g")));
    for folder in container.mounts() {
        let options = folder.options(container.relabels);
        let (host, at) = (path(&folder.host), shell_word(&folder.container));
        all.push(format!("--volume {host}:{at}{options}"));
    }
    match container.network {
        Network::Own => {}
        Network::Host => all.push("--network host".to_owned()),
        Network::None => all.push("--network none".to_owned()),
    }
    if let Some(Port { address, host, container }) = &container.port {
        all.push(format!("--publish {address}:{host}:{container}"));
    }
    let files = container.variable_files.iter();
    all.extend(files.map(|file| format!("--env-file {}", shell_word(&file.path))));
    for (name, value) in &container.environment {
        all.push(format!("--env {}", shell_word(&format!("{name}={value}"))));
    }
    all.extend(container.passed.iter().map(|name| format!("--env {name}")));
    all.extend(container.work.map(|work| format!("--workdir {work}")));
    all.extend(
        container.entrypoint.as_ref().map(|one| format!("--entrypoint {}", shell_word(one))),
    );
    all
}

fn path(path: &str) -> String {
    if path.starts_with("~/") {
        format!("\"{}\"", at_home(path, "${HOME}"))
    } else {
        shell_word(path)
    }
}

fn words(all: &[String]) -> String {
    all.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
