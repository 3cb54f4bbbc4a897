//! Checks for settings of services that exclude each other, and for values whose parts do not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::interpolated;
use crate::facts::Problem;
use crate::shell::UNKNOWN;
use crate::yaml::{Node, Value};

/// The rule for settings that exclude each other.
const CONFLICT: &str = "compose-conflict";

/// The rule for values that Compose or docker refuses.
const VALUE: &str = "compose-value";

/// Checks a service.
pub(super) fn check(service: &Node, problems: &mut Vec<Problem>) {
    networks(service, problems);
    names(service, problems);
    limits(service, problems);
    devices(service, problems);
    health(service, problems);
    ports(service, problems);
    hosts(service, problems);
}

/// Returns the line and the text of a key.
fn text<'n>(node: &'n Node, path: &[&str]) -> Option<(usize, &'n str)> {
    let one = path.iter().try_fold(node, |at, key| at.get(key))?;
    Some((one.line, one.text().filter(|text| !text.is_empty())?))
}

/// Returns the line of the key of a value.
fn line(node: &Node, key: &str) -> Option<usize> {
    node.entries().iter().find(|(name, _)| name.text() == Some(key)).map(|(name, _)| name.line)
}

fn networks(service: &Node, problems: &mut Vec<Problem>) {
    let mode = text(service, &["network_mode"]);
    let has_networks = service
        .get("networks")
        .is_some_and(|one| !one.items().is_empty() || !one.entries().is_empty());
    if let Some((line, mode)) = mode.filter(|_| has_networks) {
        let message = format!("`network_mode: {mode}` and `networks` exclude each other");
        problems.push(Problem { rule: CONFLICT, line, message });
    }
}

/// Checks for several containers that get the same name.
fn names(service: &Node, problems: &mut Vec<Problem>) {
    let Some((_, name)) = text(service, &["container_name"]) else { return };
    for path in [&["deploy", "replicas"][..], &["scale"]] {
        let number = text(service, path);
        let Some((line, number)) = number else { continue };
        if number.parse::<u32>().is_ok_and(|number| number > 1) {
            let message = format!("{number} containers cannot all have the name `{name}`");
            problems.push(Problem { rule: CONFLICT, line, message });
        }
    }
}

/// Keys of a service, and the keys of `deploy.resources` with the same meaning.
const LIMITS: [(&str, &str, &str); 4] = [
    ("cpus", "limits", "cpus"),
    ("mem_limit", "limits", "memory"),
    ("mem_reservation", "reservations", "memory"),
    ("pids_limit", "limits", "pids"),
];

fn limits(service: &Node, problems: &mut Vec<Problem>) {
    for (key, section, name) in LIMITS {
        let own = text(service, &[key]);
        let other = text(service, &["deploy", "resources", section, name]);
        let (Some((line, own)), Some((_, other))) = (own, other) else { continue };
        let plain = |text: &str| text.to_ascii_lowercase().replace([' ', 'i', 'b'], "");
        if plain(own) != plain(other) && !own.contains('$') && !other.contains('$') {
            let message = format!(
                "`{key}: {own}` and `deploy.resources.{section}.{name}: {other}` contradict each other"
            );
            problems.push(Problem { rule: CONFLICT, line, message });
        }
    }
}

fn devices(service: &Node, problems: &mut Vec<Problem>) {
    let path = ["deploy", "resources", "reservations", "devices"];
    let all = path.iter().try_fold(service, |node, key| node.get(key));
    for device in all.map_or(&[][..], Node::items) {
        if device.entries().is_empty() {
            continue;
        }
        if device.get("count").is_some() && device.get("device_ids").is_some() {
            let message = "`count` and `device_ids` exclude each other".to_owned();
            let line = line(device, "device_ids").unwrap_or(device.line);
            problems.push(Problem { rule: CONFLICT, line, message });
        }
        if device.get("capabilities").is_none() {
            let message = "the device lacks `capabilities: [gpu]`".to_owned();
            problems.push(Problem { rule: VALUE, line: device.line, message });
        }
    }
}

fn health(service: &Node, problems: &mut Vec<Problem>) {
    let Some(test) = service.get("healthcheck").and_then(|check| check.get("test")) else {
        return;
    };
    let Some(first) = test.items().first().and_then(|item| item.text()) else { return };
    if !matches!(first, "CMD" | "CMD-SHELL" | "NONE") && !first.contains('$') {
        let message = format!("the list begins with `{first}`, not with `CMD` or `CMD-SHELL`");
        problems.push(Problem { rule: VALUE, line: test.line, message });
    }
}

/// Returns whether a text is a port or a range of ports.
fn is_port(text: &str) -> bool {
    let mut parts = text.splitn(2, '-');
    parts.all(|part| part.parse::<u16>().is_ok())
}

/// What is wrong with `expose: ["80:80"]`.
const EXPOSE: &str = "`expose` takes only the port in the container, and opens nothing";

fn ports(service: &Node, problems: &mut Vec<Problem>) {
    for item in service.get("expose").map_or(&[][..], Node::items) {
        let text = item.text().map(interpolated).unwrap_or_default();
        let port = text.split('/').next().unwrap_or_default();
        if !is_port(port) && !text.contains(UNKNOWN) && !text.is_empty() {
            let message = if text.contains(':') {
                // Once is enough.
                if problems.iter().any(|one| one.message.contains(EXPOSE)) {
                    continue;
                }
                format!("`{text}`: {EXPOSE}")
            } else {
                format!("`{text}` is not a port")
            };
            problems.push(Problem { rule: VALUE, line: item.line, message });
        }
    }
    for item in service.get("ports").map_or(&[][..], Node::items) {
        let Some(text) = item.text().map(interpolated) else { continue };
        if text.contains(UNKNOWN) || text.contains('[') || text.is_empty() {
            continue;
        }
        let (numbers, protocol) = text.split_once('/').unwrap_or((&text, "tcp"));
        let parts: Vec<&str> = numbers.split(':').collect();
        let (host, inside) = match parts.as_slice() {
            [inside] => ("", *inside),
            [host, inside] | [_, host, inside] => (*host, *inside),
            _ => ("-", ""),
        };
        let is_named = parts.len() == 3 && parts[0].parse::<Ipv4Addr>().is_err();
        let is_right = is_port(inside) && (host.is_empty() || is_port(host));
        let is_protocol = matches!(&*protocol.to_ascii_lowercase(), "tcp" | "udp" | "sctp");
        if !is_right || !is_protocol || is_named && !parts[0].is_empty() {
            let message = if is_named {
                format!("`{text}`: docker accepts only a number as address, not `{}`", parts[0])
            } else {
                format!("`{text}` is not a port mapping, `HOST:CONTAINER`")
            };
            problems.push(Problem { rule: VALUE, line: item.line, message });
        }
    }
}

fn hosts(service: &Node, problems: &mut Vec<Problem>) {
    for item in service.get("extra_hosts").map_or(&[][..], Node::items) {
        let Some(text) = item.text().filter(|text| !text.contains(['$', ':', '='])) else {
            continue;
        };
        let message = format!("`{text}` has no address: write `{text}:host-gateway`");
        problems.push(Problem { rule: VALUE, line: item.line, message });
    }
}

/// The maximum number of services that are compared with each other.
const MOST: usize = 100;

/// Returns the services of a file that are compared with each other, with their names.
pub(super) fn compared(services: &Node) -> Vec<(&str, &Node)> {
    let entries = services.entries().iter().take(MOST);
    entries.filter_map(|(name, service)| Some((name.text()?, &**service))).collect()
}

/// Checks all services of a file together.
pub(super) fn together(services: &Node, problems: &mut Vec<Problem>) {
    let all = compared(services);
    cycle(&all, problems);
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, service) in &all {
        let Some((line, own)) = text(service, &["container_name"]) else { continue };
        if service.get("profiles").is_some() || own.contains('$') {
            continue;
        }
        if let Some(first) = known.insert(own, name) {
            let message =
                format!("the container of the service `{first}` has the name `{own}` too");
            problems.push(Problem { rule: CONFLICT, line, message });
        }
    }
}

/// Returns the names of the services that a service waits for, with their lines.
fn needed(service: &Node) -> Vec<(&str, usize)> {
    let Some(node) = service.get("depends_on") else { return Vec::new() };
    match &node.value {
        Value::Sequence(items) => {
            items.iter().filter_map(|item| Some((item.text()?, item.line))).collect()
        }
        Value::Mapping(entries) => {
            entries.iter().filter_map(|(key, _)| Some((key.text()?, key.line))).collect()
        }
        Value::Scalar(_) => Vec::new(),
    }
}

/// Checks for services that wait for each other. The first circle is enough.
fn cycle(all: &[(&str, &Node)], problems: &mut Vec<Problem>) {
    let by_name: BTreeMap<&str, &Node> = all.iter().copied().collect();
    // Services that are known to lead into no circle.
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for (name, _) in all {
        let mut path: Vec<(&str, Vec<(&str, usize)>)> = vec![(*name, own(&by_name, name))];
        while let Some((at, left)) = path.last_mut() {
            let Some((next, line)) = left.pop() else {
                done.insert(*at);
                path.pop();
                continue;
            };
            if path.iter().any(|(before, _)| *before == next) {
                let message = format!("the service `{next}` waits for itself through `depends_on`");
                problems.push(Problem { rule: CONFLICT, line, message });
                return;
            }
            if !done.contains(next) {
                path.push((next, own(&by_name, next)));
            }
        }
    }
}

fn own<'n>(by_name: &BTreeMap<&str, &'n Node>, name: &str) -> Vec<(&'n str, usize)> {
    by_name.get(name).map_or_else(Vec::new, |service| needed(service))
}
