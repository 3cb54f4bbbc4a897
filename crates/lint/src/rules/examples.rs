//! Rules for compose files together with the example of their environment file.

use std::collections::BTreeSet;

use super::environment::reference;
use crate::yaml::{Node, Value};
use crate::{Exists, Facts, Findings, Hit};

/// Names of examples, in the order in which they are looked for.
const EXAMPLES: [&str; 7] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    "env.example",
    "example.env",
    ".env-example",
];

/// Keys of services in which an empty value fails or means something else.
const WANTED: [&str; 7] =
    ["build", "container_name", "devices", "group_add", "image", "ports", "volumes"];

/// Variables that the shell, Compose or docker sets.
const SET: [&str; 14] = [
    "DISPLAY",
    "GID",
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "SSH_AUTH_SOCK",
    "UID",
    "USER",
    "USERPROFILE",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// The smallest number of variables that an example and a compose file have in common.
const COMMON: usize = 3;

/// Checks for variables without a default that the example lacks.
pub(super) fn check(root: &Node, facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    let Some((example, text)) =
        EXAMPLES.iter().find_map(|name| Some((name, files.text(facts.file, name)?)))
    else {
        return;
    };
    let other = files.text(facts.file, ".env").unwrap_or_default();
    let is_known = |name: &str| {
        let has = |file: &str| {
            file.match_indices(name).any(|(at, _)| {
                let before = file[..at].chars().next_back();
                let is_start = before.is_none_or(|c| !(c.is_ascii_alphanumeric() || c == '_'));
                is_start && file[at + name.len()..].trim_start().starts_with('=')
            })
        };
        has(&text) || has(&other)
    };
    let mut used = Vec::new();
    for (_, service) in root.get("services").map_or(&[][..], Node::entries) {
        for (key, value) in service.entries() {
            let is_wanted = key.text().is_some_and(|key| WANTED.contains(&key));
            collect(value, is_wanted, &mut used);
        }
    }
    let common: BTreeSet<&str> =
        used.iter().filter(|one| is_known(&one.name)).map(|one| &*one.name).collect();
    if common.len() < COMMON {
        return;
    }
    let mut said = BTreeSet::new();
    for one in &used {
        let is_set = SET.contains(&&*one.name)
            || ["COMPOSE_", "DOCKER_"].iter().any(|start| one.name.starts_with(start));
        if one.is_needed && !is_set && !is_known(&one.name) && said.insert(&one.name) {
            let message = format!("`{example}` does not have `{}`, which is empty then", one.name);
            found.hit(Hit::new("example-incomplete", one.line, message));
        }
    }
}

/// A variable to which a compose file refers.
struct Used {
    name: String,
    line: usize,
    /// Whether an empty value fails or means something else.
    is_needed: bool,
}

/// The maximum number of references that are read.
const MOST: usize = 500;

/// Collects the variables to which a node refers.
fn collect(node: &Node, is_wanted: bool, used: &mut Vec<Used>) {
    if used.len() > MOST {
        return;
    }
    match &node.value {
        Value::Scalar(text) => {
            let mut rest = text.as_str();
            while let Some((at, one)) = reference(rest) {
                let own = rest.get(at..one.end).unwrap_or_default();
                // `$$` is a dollar sign, and `${A:?text}` and `${A:+text}` say what happens.
                let is_plain = !own.starts_with("$$") && !own.contains(['?', '+']);
                if !one.name.is_empty() {
                    let is_needed =
                        is_wanted && is_plain && one.default.is_none() && !own.contains('-');
                    used.push(Used { name: one.name.to_owned(), line: node.line, is_needed });
                }
                rest = rest.get(one.end..).unwrap_or_default();
            }
        }
        Value::Mapping(entries) => {
            for (_, value) in entries {
                collect(value, is_wanted, used);
            }
        }
        Value::Sequence(items) => {
            for item in items {
                collect(item, is_wanted, used);
            }
        }
    }
}
