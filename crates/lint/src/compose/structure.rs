//! Checks the structure of a compose file: the keys of services, the paths of their mounts, and the
//! names that services refer to.

use super::{builds, conflicts, host, keys, relations};
use crate::data::data;
use crate::facts::{Facts, Problem};
use crate::yaml::Node;

/// Adds the problems in the structure of a compose file.
pub(super) fn check(root: &Node, facts: &mut Facts<'_>) {
    let Some(services) = root.get("services") else { return };
    // A template is not a compose file yet.
    if facts.text.contains("{{") {
        return;
    }
    let mut problems = Vec::new();
    let lines: Vec<&str> =
        if is_override(facts) { facts.text.lines().collect() } else { Vec::new() };
    for (name, service) in services.entries() {
        let name = name.text().unwrap_or_default();
        keys::of_service(name, service, facts, &mut problems);
        conflicts::check(service, &mut problems);
        relations::check(service, &mut problems);
        host::check(service, &mut problems);
        mounts(service, &mut problems);
        windows(service, facts, &mut problems);
        replaced(service, &mut problems);
        added(service, &lines, &mut problems);
        if is_whole(root, facts.file) {
            unhealthy(services, service, &mut problems);
        }
        // Other files can define the rest of an override or of a service that is extended.
        if is_whole(root, facts.file) && service.get("extends").is_none() {
            references(root, service, &mut problems);
        }
    }
    let file = facts.file.rsplit('/').next().unwrap_or(facts.file);
    if ["compose", "docker-compose"].iter().any(|start| file.starts_with(start)) {
        keys::top(root, &mut problems);
    }
    keys::others(root, facts, &mut problems);
    conflicts::together(services, &mut problems);
    relations::together(services, &mut problems);
    builds::check(services, &mut problems);
    facts.problems.extend(problems);
}

/// Returns whether a compose file is complete on its own: it has a default name and no `include`.
fn is_whole(root: &Node, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml"));
    matches!(stem, Some("docker-compose" | "compose")) && root.get("include").is_none()
}

/// Returns whether a scalar is empty.
pub(super) fn is_nothing(node: &Node, text: &str) -> bool {
    text.is_empty() || node.is_plain && matches!(text, "null" | "~" | "Null" | "NULL")
}

/// Checks for mounts whose path in the container is not absolute.
fn mounts(service: &Node, problems: &mut Vec<Problem>) {
    let items = service.get("volumes").map_or(&[][..], Node::items);
    for item in items {
        let Some(text) = item.text() else { continue };
        let mut parts = text.split(':');
        let (Some(source), Some(target)) = (parts.next(), parts.next()) else { continue };
        let is_relative = target.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
        let is_option = matches!(target, "ro" | "rw" | "z" | "Z");
        if is_relative && !is_option && source.len() > 1 && !text.contains('$') {
            let message = format!("`{target}` is not an absolute path");
            problems.push(Problem { rule: "mount-path", line: item.line, message });
        }
    }
}

/// Checks for a mount of a folder of Windows in a file for AMD GPUs on Linux.
fn windows(service: &Node, facts: &Facts<'_>, problems: &mut Vec<Problem>) {
    let lower = format!("{}\n{}", facts.file, facts.text).to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if !has(&["/dev/kfd", "/dev/dri", "rocm"]) || has(&["windows", "wsl", "/dev/dxg"]) {
        return;
    }
    for item in service.get("volumes").map_or(&[][..], Node::items) {
        let source = item.text().or_else(|| item.get("source").and_then(Node::text));
        let mut letters = source.unwrap_or_default().chars();
        let is_drive = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.next() == Some(':')
            && matches!(letters.next(), Some('/' | '\\'));
        if let Some(source) = source.filter(|_| is_drive) {
            let message = format!("`{source}` is a path of Windows, which Linux does not have");
            problems.push(Problem { rule: "mount-path", line: item.line, message });
        }
    }
}

/// Keys whose values in a fragment are usually meant to be kept.
const EXTENDED: [&str; 4] = ["devices", "environment", "group_add", "security_opt"];

/// Returns whether a file is used together with a base file.
pub(super) fn is_override(facts: &Facts<'_>) -> bool {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let calls = |line: &str| line.trim_start().starts_with('#') && line.matches(" -f ").count() > 1;
    name.contains("override") || facts.text.lines().any(calls)
}

/// Keys with lists that Compose appends to those of the base file.
const APPENDED: [&str; 8] = [
    "cap_add",
    "device_cgroup_rules",
    "devices",
    "group_add",
    "ports",
    "security_opt",
    "tmpfs",
    "volumes",
];

/// Words of comments that say that a list replaces another one.
const SAID: [&str; 4] = ["replaces ", "replace the ", ": remove ", "overrides the "];

/// Checks for lists of an override that, by their comments, replace those of the base file.
fn added(service: &Node, lines: &[&str], problems: &mut Vec<Problem>) {
    for (key, value) in service.entries() {
        let name = key.text().unwrap_or_default();
        let is_list = APPENDED.contains(&name) && !value.items().is_empty();
        let before = lines.get(..key.line.saturating_sub(1)).unwrap_or_default();
        let own = lines.get(key.line.saturating_sub(1)).copied().unwrap_or_default();
        let above = before.iter().rev().take_while(|line| line.trim_start().starts_with('#'));
        let says = |line: &&str| {
            let lower = line.to_ascii_lowercase();
            SAID.iter().any(|word| lower.contains(word))
        };
        let is_said = above.take(3).any(says) && !own.contains("!override");
        if is_list && is_said && !own.contains("!reset") {
            let message = format!("`{name}` is added to the list of the base file");
            problems.push(Problem { rule: "compose-override-adds", line: key.line, message });
        }
    }
}

/// Checks for keys of a merged fragment that the service replaces.
fn replaced(service: &Node, problems: &mut Vec<Problem>) {
    let own = |wanted: &str| service.entries().iter().find(|(name, _)| name.text() == Some(wanted));
    let Some((_, merged)) = own("<<") else { return };
    for key in EXTENDED {
        let (Some((at, value)), Some(lost)) = (own(key), merged.get(key)) else { continue };
        let shown = |node: &Node| -> Vec<String> {
            let items = node.items().iter().filter_map(|item| item.text());
            let names = node.entries().iter().filter_map(|(name, _)| name.text());
            let name = |text: &str| text.split('=').next().unwrap_or(text).to_owned();
            items.chain(names).map(name).collect()
        };
        let kept = shown(value);
        // The mapping can merge the fragment's values itself.
        let is_merged = kept.iter().any(|one| one == "<<");
        let missing: Vec<String> =
            shown(lost).into_iter().filter(|one| !kept.contains(one) && one != "<<").collect();
        if let Some(first) = missing.first().filter(|_| !is_merged) {
            let message = format!("`{key}` replaces the fragment's, so `{first}` is lost");
            problems.push(Problem { rule: "compose-merge", line: at.line, message });
        }
    }
}

/// Checks for dependencies on the health of services that have no health check.
fn unhealthy(services: &Node, service: &Node, problems: &mut Vec<Problem>) {
    let needed = service.get("depends_on").map_or(&[][..], Node::entries);
    for (name, wanted) in needed {
        let condition = wanted.get("condition").and_then(Node::text);
        let other = name.text().and_then(|text| services.get(text));
        let Some(other) = other.filter(|_| condition == Some("service_healthy")) else { continue };
        let has_more =
            ["healthcheck", "build", "extends"].iter().any(|key| other.get(key).is_some());
        let image = other.get("image").and_then(Node::text).unwrap_or_default();
        let path = crate::rules::image_path(image);
        // Docker Official Images have no health checks.
        let has_none = data().official.contains(path) || path == "ollama/ollama";
        if !has_more && has_none {
            let shown = name.text().unwrap_or_default();
            let message = format!("`{shown}` has no health check");
            problems.push(Problem { rule: "compose-health", line: name.line, message });
        }
    }
}

/// Checks for names of volumes, networks and services that the file does not define.
fn references(root: &Node, service: &Node, problems: &mut Vec<Problem>) {
    let mut missing = |kind: &str, section: &str, used: Vec<Used>| {
        let defined = root.get(section);
        let is_defined = |one: &Used| defined.is_some_and(|all| all.get(&one.name).is_some());
        let used = used.into_iter().filter(|one| !is_defined(one));
        problems.extend(used.map(|Used { name, line }| {
            let message = format!("the {kind} `{name}` is not defined");
            Problem { rule: "compose-reference", line, message }
        }));
    };
    let items = service.get("volumes").map_or(&[][..], Node::items).iter();
    let volumes = items.filter_map(|item| volume(item)).collect();
    missing("volume", "volumes", volumes);
    let networks = listed(service.get("networks"));
    let networks = networks.into_iter().filter(|one| one.name != "default").collect();
    missing("network", "networks", networks);
    let secrets = listed_sources(service.get("secrets"));
    missing("secret", "secrets", secrets);
    let configs = listed_sources(service.get("configs"));
    missing("config", "configs", configs);
    let needed = service.get("depends_on");
    let is_optional = |one: &Used| {
        let own = needed.and_then(|all| all.get(&one.name));
        own.and_then(|own| own.get("required")).and_then(Node::text) == Some("false")
    };
    let services = listed(needed).into_iter().filter(|one| !is_optional(one)).collect();
    missing("service", "services", services);
}

/// A name that a service refers to.
struct Used {
    name: String,
    line: usize,
}

/// Returns the named volume that an item of `volumes` mounts.
fn volume(item: &Node) -> Option<Used> {
    let name = match item.text() {
        Some(text) => text.split_once(':')?.0,
        None => {
            item.get("type").and_then(Node::text).filter(|kind| *kind == "volume")?;
            item.get("source")?.text()?
        }
    };
    let is_name = name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    is_name.then(|| Used { name: name.to_owned(), line: item.line })
}

/// Returns the secrets or configs in a list, in their short and long form.
fn listed_sources(node: Option<&Node>) -> Vec<Used> {
    let items = node.map_or(&[][..], Node::items).iter();
    let source = |item: &std::rc::Rc<Node>| {
        let name = item.text().or_else(|| item.get("source")?.text())?;
        (!name.contains('$')).then(|| Used { name: name.to_owned(), line: item.line })
    };
    items.filter_map(source).collect()
}

/// Returns the names in a list or in the keys of a mapping.
fn listed(node: Option<&Node>) -> Vec<Used> {
    let Some(node) = node else { return Vec::new() };
    let items = node.items().iter().map(|item| &**item);
    let nodes = items.chain(node.entries().iter().map(|(key, _)| key));
    nodes
        .filter_map(|one| Some(Used { name: one.text()?.to_owned(), line: one.line }))
        .filter(|one| !one.name.contains('$') && one.name != "<<")
        .collect()
}
