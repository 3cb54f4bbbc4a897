//! Checks the keys at the top of a compose file, and the keys inside a service.

use crate::data::data;
use crate::facts::Problem;
use crate::yaml::Node;

/// The rule for keys that Compose does not have.
const RULE: &str = "compose-key";

/// Keys at the top of a compose file.
const TOP: [&str; 9] = [
    "configs", "include", "models", "name", "networks", "secrets", "services", "version", "volumes",
];

/// Checks for keys at the top of a compose file that it cannot have.
pub(super) fn top(root: &Node, problems: &mut Vec<Problem>) {
    for (key, value) in root.entries() {
        let Some(text) = key.text() else { continue };
        let is_known = TOP.contains(&text) || text.starts_with("x-");
        if is_known || !is_word(text) {
            continue;
        }
        let is_service = ["build", "image"].iter().any(|one| value.get(one).is_some());
        let message = if is_service {
            format!("the service `{text}` is not indented, so it is not below `services`")
        } else {
            format!("`{text}` is not a key of a compose file")
        };
        problems.push(Problem { rule: RULE, line: key.line, message });
    }
}

/// The parts of a service whose keys are known: the path to each, and its section of the data.
const PARTS: [(&[&str], &str); 8] = [
    (&["build"], "services.build"),
    (&["healthcheck"], "services.healthcheck"),
    (&["logging"], "services.logging"),
    (&["deploy"], "services.deploy"),
    (&["deploy", "resources"], "services.resources"),
    (&["deploy", "resources", "limits"], "services.limits"),
    (&["deploy", "resources", "reservations"], "services.reservations"),
    (&["deploy", "restart_policy"], "services.restart-policy"),
];

/// Checks for keys inside a service that its parts cannot have.
pub(super) fn inside(service: &Node, problems: &mut Vec<Problem>) {
    for (path, section) in PARTS {
        if let Some(part) = path.iter().try_fold(service, |node, key| node.get(key)) {
            let name = path.join(".");
            check(part, section, &|key| format!("`{key}` is not a key of `{name}`"), problems);
        }
    }
    let reserved = ["deploy", "resources", "reservations", "devices"];
    let reserved = reserved.iter().try_fold(service, |node, key| node.get(key));
    for device in reserved.map_or(&[][..], Node::items) {
        let message = |key: &str| format!("`{key}` is not a key of a device");
        check(device, "services.device", &message, problems);
    }
    for device in service.get("gpus").map_or(&[][..], Node::items) {
        let message = |key: &str| format!("`{key}` is not a key of `gpus`; docker ignores it");
        check(device, "services.device", &message, problems);
    }
}

/// Checks the keys of one part.
fn check(
    part: &Node,
    section: &str,
    message: &dyn Fn(&str) -> String,
    problems: &mut Vec<Problem>,
) {
    let Some(known) = data().sections.iter().find(|row| row.section == section) else { return };
    for (key, _) in part.entries() {
        let Some(text) = key.text() else { continue };
        let is_known = known.keys.iter().any(|one| one == text)
            || text.starts_with("x-")
            || matches!(text, "<<" | "");
        if !is_known && is_word(text) {
            problems.push(Problem { rule: RULE, line: key.line, message: message(text) });
        }
    }
}

/// Returns whether a key is a plain word.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
