//! A container as a manifest for `distrobox assemble`. distrobox shares the user's home and
//! environment with the container, and decides its rights; the manifest adds only the GPU, the size
//! of the shared memory, and the caller's volumes and variables.

use super::{Container, Folder, Groups, head};

/// Returns the manifest.
pub(super) fn print(container: &Container) -> String {
    let mut lines: Vec<String> =
        head(container, "A distrobox manifest", "distrobox").lines().map(str::to_owned).collect();
    let manager = container.engine.as_str();
    lines.push(format!(
        "# DBX_CONTAINER_MANAGER={manager} distrobox assemble create --file THIS_FILE"
    ));
    lines.push(
        "# distrobox itself starts its containers with --privileged and the user's home. To avoid both, use\n# another format."
            .to_owned(),
    );
    lines.push(format!("[{}]", container.name()));
    lines.push(format!("image={}", container.image));
    let mut flags: Vec<String> =
        container.devices.iter().map(|one| format!("--device {one}")).collect();
    match &container.groups {
        Groups::None => {}
        Groups::Keep => flags.push("--group-add keep-groups".to_owned()),
        Groups::Numbers(numbers) => {
            flags.extend(numbers.iter().map(|number| format!("--group-add {number}")));
        }
    }
    flags.extend(container.shared_memory.map(|size| format!("--shm-size {size}g")));
    // distrobox splits the flags at spaces.
    let is_plain =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:,+@%".contains(c));
    let mut add = |flag: &str, value: &str, what: &str| {
        if is_plain(value) {
            flags.push(format!("--{flag} {what}"));
        } else {
            lines.push(format!("# A manifest cannot contain --{flag} {what:?}"));
        }
    };
    for folder in &container.volumes {
        let Folder { host, container: at, .. } = folder;
        let whole = format!("{host}:{at}{}", folder.options(container.relabels));
        add("volume", &whole, &whole);
    }
    container.variable_files.iter().for_each(|file| add("env-file", &file.path, &file.path));
    // The home in the container is the user's own.
    let is_own = |name: &str| matches!(name, "HOME" | "USER");
    for (name, value) in container.environment.iter().filter(|(name, _)| !is_own(name)) {
        add("env", value, &format!("{name}={value}"));
    }
    container.passed.iter().for_each(|name| add("env", name, name));
    lines.push(format!("additional_flags=\"{}\"", flags.join(" ")));
    // Variables that are set in the host's shell are passed on too.
    if let Some(name) = container.unset() {
        lines.push(format!("init_hooks=\"echo unset {name} > /etc/profile.d/build-pipeline.sh\""));
    }
    lines.push("unshare_ipc=true".to_owned());
    lines.join("\n") + "\n"
}
