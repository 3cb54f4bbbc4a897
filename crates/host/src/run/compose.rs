//! A container as a compose file.

use super::{Container, Folder, Groups, Network, Port, at_home, head};

/// Returns the file. Every string is written in JSON form, which YAML reads in the same way.
pub(super) fn print(container: &Container) -> String {
    let mut lines: Vec<String> =
        head(container, "A compose file", "compose").lines().map(str::to_owned).collect();
    let engine = container.engine.as_str();
    lines.push(format!("# {engine} compose --file THIS_FILE up --detach"));
    lines.push("# Before the first start, so that root does not create the folders:".to_owned());
    for Folder { host, .. } in container.folders.iter().filter(|folder| folder.is_made) {
        lines.push(format!("#   mkdir -p {host}"));
    }
    lines.push("services:".to_owned());
    lines.push(format!("  {}:", container.track));
    let mut line = |text: String| lines.push(format!("    {text}"));
    line(format!("image: {}", text(&container.image)));
    line(format!("container_name: {}", text(&container.name())));
    if !container.devices.is_empty() {
        line("devices:".to_owned());
        container.devices.iter().for_each(|device| line(format!("  - {}", text(device))));
    }
    match &container.groups {
        Groups::None => {}
        Groups::Keep => line("group_add: [\"keep-groups\"]".to_owned()),
        Groups::Numbers(numbers) if numbers.is_empty() => line(
            "# No device node was found: add group_add: with each number that `stat -c %g /dev/kfd /dev/dri/renderD*` prints."
                .to_owned(),
        ),
        Groups::Numbers(numbers) => {
            let all: Vec<String> = numbers.iter().map(|number| format!("\"{number}\"")).collect();
            line(format!("group_add: [{}]", all.join(", ")));
        }
    }
    if let Some((uid, gid)) = container.user {
        line(format!("user: \"${{LOCAL_UID:-{uid}}}:${{LOCAL_GID:-{gid}}}\""));
    }
    let security: Vec<String> =
        container.security.iter().map(|option| text(&format!("{option}:true"))).collect();
    line(format!("security_opt: [{}]", security.join(", ")));
    if let Some(size) = container.shared_memory {
        line(format!("shm_size: \"{size}g\""));
    }
    line("volumes:".to_owned());
    for Folder { host, container: at, is_read_only, .. } in container.mounts() {
        line("  - type: bind".to_owned());
        line(format!("    source: {}", path(host)));
        line(format!("    target: {}", text(at)));
        if *is_read_only {
            line("    read_only: true".to_owned());
        }
        line("    bind:".to_owned());
        line("      create_host_path: false".to_owned());
        if container.relabels {
            line("      selinux: z".to_owned());
        }
    }
    match container.network {
        Network::Own => {}
        Network::Host => line("network_mode: host".to_owned()),
        Network::None => line("network_mode: none".to_owned()),
    }
    if let Some(Port { address, host, container }) = &container.port {
        line(format!("ports: [{}]", text(&format!("{address}:{host}:{container}"))));
    }
    if !container.variable_files.is_empty() {
        let files = container.variable_files.iter().map(|file| text(&file.path));
        let files: Vec<String> = files.collect();
        line(format!("env_file: [{}]", files.join(", ")));
    }
    line("environment:".to_owned());
    for (name, value) in &container.environment {
        line(format!("  {name}: {}", text(value)));
    }
    container.passed.iter().for_each(|name| line(format!("  {name}:")));
    if let Some(work) = container.work {
        line(format!("working_dir: {}", text(work)));
    }
    if let Some(entrypoint) = &container.entrypoint {
        line(format!("entrypoint: [{}]", text(entrypoint)));
    }
    if !container.command.is_empty() {
        let words: Vec<String> = container.command.iter().map(|word| text(word)).collect();
        line(format!("command: [{}]", words.join(", ")));
    }
    // `docker compose run` and a training shell need a terminal.
    if container.work.is_some() {
        line("stdin_open: true".to_owned());
        line("tty: true".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Returns a text in quotes, with `$` escaped because it would start a variable.
fn text(text: &str) -> String {
    quoted(&text.replace('$', "$$"))
}

fn path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => quoted(&at_home(&format!("~/{}", rest.replace('$', "$$")), "${HOME}")),
        None => text(path),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}
