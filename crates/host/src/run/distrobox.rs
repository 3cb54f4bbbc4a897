//! A container as a manifest for `distrobox assemble`. distrobox shares the user's home and
//! environment with the container and starts it with its own choice of rights; the manifest adds
//! what the GPU needs.

use super::{Container, Groups, head};

/// Returns the manifest.
pub(super) fn print(container: &Container) -> String {
    let mut lines: Vec<String> =
        head(container, "A distrobox manifest", "distrobox").lines().map(str::to_owned).collect();
    let manager = container.engine.as_str();
    lines.push(format!(
        "# DBX_CONTAINER_MANAGER={manager} distrobox assemble create --file THIS_FILE"
    ));
    lines.push(
        "# distrobox itself gives its containers --privileged and the user's home. To avoid both, use\n# another form."
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
    for (name, value) in &container.environment {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@%".contains(c);
        // distrobox splits the flags at spaces. The home in the container is the user's own.
        if value.chars().all(is_plain) && !matches!(name.as_str(), "HOME" | "USER") {
            flags.push(format!("--env {name}={value}"));
        }
    }
    lines.push(format!("additional_flags=\"{}\"", flags.join(" ")));
    // Variables that are set in the host's shell are passed on too.
    if let Some(name) = container.unset() {
        lines.push(format!("init_hooks=\"echo unset {name} > /etc/profile.d/build-pipeline.sh\""));
    }
    lines.push("unshare_ipc=true".to_owned());
    lines.join("\n") + "\n"
}
