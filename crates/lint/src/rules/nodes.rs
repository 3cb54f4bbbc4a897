//! A rule for the custom nodes of ComfyUI that a Dockerfile clones.

use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

/// The folder of the nodes.
const FOLDER: &str = "custom_nodes";

/// Nodes that do not load without the packages of their list.
const NODES: [&str; 8] = [
    "comfyui-easy-use",
    "comfyui-florence2",
    "comfyui-gguf",
    "comfyui-impact-pack",
    "comfyui-kjnodes",
    "comfyui-videohelpersuite",
    "comfyui_controlnet_aux",
    "comfyui_essentials",
];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile || facts.commands.iter().any(installs) {
        return;
    }
    for command in &facts.commands {
        if let Some(node) = cloned(command) {
            let message = format!("the packages that `{node}` needs are not installed");
            return found.add("node-requirements", command.words[0].line, message);
        }
    }
}

/// Returns the node that a command clones and that needs packages.
fn cloned(command: &ShellCommand) -> Option<&str> {
    let words = command.texts();
    let is_clone = words[0] == "git" && words.contains(&"clone");
    let is_inside = command.folder.contains(FOLDER) || words.iter().any(|one| one.contains(FOLDER));
    let address = words.into_iter().find(|one| one.contains("://"))?;
    let name = address.rsplit('/').next()?.trim_end_matches(".git");
    let is_listed = NODES.contains(&name.to_ascii_lowercase().as_str());
    (is_clone && is_inside && is_listed).then_some(name)
}

/// Returns whether a command may install the packages of nodes: a list in their folder or in one that
/// is not known, single packages that they need, or a program of theirs.
fn installs(command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_list =
        |one: &&str| one.contains("requirements") && one.contains(['*', '$', '/', '\u{fffc}']);
    let is_node = |one: &&str| matches!(*one, "gguf" | "numba" | "imageio-ffmpeg" | "rembg");
    let is_inside = command.folder.contains(FOLDER) && words.contains(&"install");
    let is_program = |one: &&str| one.contains("cm-cli") || one.ends_with("install.py");
    let is_named =
        |one: &&str| one.split(['=', '<', '>', '~']).next().is_some_and(|name| is_node(&name));
    is_inside || words.iter().any(|one| is_list(one) || is_named(one) || is_program(one))
}
