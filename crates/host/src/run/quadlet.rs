//! A container as a quadlet, which podman's generator turns into a systemd service.

use super::{Container, Folder, Groups, Network, Port, at_home, head};

/// The first podman with quadlets.
const FIRST: [u32; 2] = [4, 4];
/// Keys that older generators refuse, the first podman that accepts them, and the option of
/// `podman run` that does the same (`supportedContainerKeys` in podman's
/// `pkg/systemd/quadlet/quadlet.go`).
const NEWER: [(&str, [u32; 2], &str); 4] = [
    ("WorkingDir", [4, 6], "--workdir"),
    ("ShmSize", [4, 7], "--shm-size"),
    ("Entrypoint", [5, 0], "--entrypoint"),
    ("GroupAdd", [5, 1], "--group-add"),
];

/// Returns whether the engine is older than a release. An unknown version counts as new.
fn is_older(container: &Container, release: [u32; 2]) -> bool {
    let own = container.engine_version.as_deref().and_then(|version| {
        let mut parts = version.split(['.', '+', '-', '~']).map(str::parse);
        Some([parts.next()?.ok()?, parts.next()?.ok()?])
    });
    own.is_some_and(|own: [u32; 2]| own < release)
}

/// Returns that the engine has no quadlets, if it is too old.
pub(super) fn too_old(container: &Container) -> Option<String> {
    let version = container.engine_version.as_ref()?;
    let [major, minor] = FIRST;
    is_older(container, FIRST).then(|| {
        format!(
            "{} {version} has no quadlets; this file needs version {major}.{minor} or newer",
            container.engine
        )
    })
}

/// Returns the line that sets a key, in a form that the engine's generator accepts. `value` is
/// escaped.
fn key(container: &Container, name: &str, value: &str) -> String {
    let is_newer = |row: &&(&str, [u32; 2], &str)| row.0 == name && is_older(container, row.1);
    match NEWER.iter().find(is_newer) {
        Some((_, _, option)) => format!("PodmanArgs={option}={value}"),
        None => format!("{name}={value}"),
    }
}

/// Returns the `.container` file.
pub(super) fn print(container: &Container) -> String {
    let unit = container.name();
    let mut lines: Vec<String> =
        head(container, "A quadlet", "quadlet").lines().map(str::to_owned).collect();
    lines.push(format!(
        "# For one user: save this file as ~/.config/containers/systemd/{unit}.container, then run"
    ));
    lines.push(format!("# systemctl --user daemon-reload && systemctl --user start {unit}"));
    lines.extend(too_old(container).map(|why| format!("# {why}.")));
    lines.push("[Unit]".to_owned());
    lines.push(format!("Description=build-pipeline track {}", container.track));
    lines.push("\n[Container]".to_owned());
    lines.push(format!("ContainerName={unit}"));
    lines.push(format!("Image={}", escaped(&container.image)));
    // A unit may refer to a device node that does not exist; starting the container then fails.
    lines.extend(container.devices.iter().map(|device| format!("AddDevice={device}")));
    match &container.groups {
        Groups::None => {}
        Groups::Keep => lines.push(key(container, "GroupAdd", "keep-groups")),
        Groups::Numbers(numbers) if numbers.is_empty() => lines.push(
            "# No device node was found: add one line PodmanArgs=--group-add=NUMBER for each number that this command prints:\n# stat -c %g /dev/kfd /dev/dri/renderD*".to_owned(),
        ),
        Groups::Numbers(numbers) => {
            let line = |number: &u32| key(container, "GroupAdd", &number.to_string());
            lines.extend(numbers.iter().map(line));
        }
    }
    if let Some((uid, gid)) = container.user {
        lines.push(format!("User={uid}\nGroup={gid}"));
    }
    lines.push("NoNewPrivileges=true".to_owned());
    lines
        .extend(container.shared_memory.map(|size| key(container, "ShmSize", &format!("{size}g"))));
    for folder in container.mounts() {
        let (host, options) = (path(&folder.host), folder.options(container.relabels));
        lines.push(format!("Volume={host}:{}{options}", escaped(&folder.container)));
    }
    match container.network {
        Network::Own => {}
        Network::Host => lines.push("Network=host".to_owned()),
        Network::None => lines.push("Network=none".to_owned()),
    }
    if let Some(Port { address, host, container }) = &container.port {
        lines.push(format!("PublishPort={address}:{host}:{container}"));
    }
    let files = container.variable_files.iter();
    lines.extend(files.map(|file| format!("EnvironmentFile={}", word(&file.path))));
    for (name, value) in &container.environment {
        lines.push(format!("Environment={}", word(&format!("{name}={value}"))));
    }
    // Old generators do not support variables without a value in `Environment`.
    lines.extend(container.passed.iter().map(|name| format!("PodmanArgs=--env {name}")));
    lines.extend(container.work.map(|work| key(container, "WorkingDir", work)));
    lines.extend(container.entrypoint.as_ref().map(|one| key(container, "Entrypoint", &word(one))));
    if !container.command.is_empty() {
        let words: Vec<String> = container.command.iter().map(|one| word(one)).collect();
        lines.push(format!("Exec={}", words.join(" ")));
    }
    lines.push("\n[Service]".to_owned());
    for name in &container.passed {
        lines.push(format!(
            "# The value comes from the service manager: systemctl --user import-environment {name}"
        ));
        lines.push(format!("PassEnvironment={name}"));
    }
    for Folder { host, .. } in container.folders.iter().filter(|folder| folder.is_made) {
        lines.push(format!("ExecStartPre=/bin/mkdir -p {}", word_of_path(host)));
    }
    lines.push("Restart=on-failure".to_owned());
    lines.push("# A large model takes time to load.\nTimeoutStartSec=900".to_owned());
    lines.push("\n[Install]\nWantedBy=default.target".to_owned());
    lines.join("\n") + "\n"
}

/// Returns a path of the host, with the home as systemd's `%h`.
fn path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => at_home(&format!("~/{}", escaped(rest)), "%h"),
        None => escaped(path),
    }
}

fn word_of_path(host: &str) -> String {
    let path = path(host);
    if path.contains(' ') { format!("\"{path}\"") } else { path }
}

/// Escapes systemd's `%`.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// Returns a text as one word of a systemd command. systemd expands variables in commands, even in
/// values that the generator inserts, so `$` is doubled.
fn word(text: &str) -> String {
    let text = escaped(text).replace('$', "$$");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        let inside = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("\"{inside}\"")
    }
}
