//! Checks what a service takes from elsewhere: variables and folders of the host, and repositories
//! that are built.

use crate::facts::Problem;
use crate::yaml::Node;

/// Variables with lists of folders, which each image has its own values for.
const SEARCHED: [&str; 3] = ["LD_LIBRARY_PATH", "LIBRARY_PATH", "PATH"];

/// Adds the problems of one service.
pub(super) fn check(service: &Node, problems: &mut Vec<Problem>) {
    paths(service, problems);
    homes(service, problems);
    repository(service, problems);
    let values = values_of(service).into_iter();
    problems.extend(values.filter_map(|(value, line)| plain_default(value, line)));
}

/// Returns the values that a service sets with `environment`, with their lines.
fn values_of(service: &Node) -> Vec<(&str, usize)> {
    let Some(environment) = service.get("environment") else { return Vec::new() };
    let named = environment.entries().iter();
    let named = named.filter_map(|(name, value)| Some((value.text()?, name.line)));
    let listed = environment.items().iter();
    let listed = listed.filter_map(|item| Some((item.text()?.split_once('=')?.1, item.line)));
    named.chain(listed).collect()
}

/// Checks for a reference to a variable without the dollar sign: `{NAME:-default}`.
fn plain_default(value: &str, line: usize) -> Option<Problem> {
    let (name, _) = value.strip_prefix('{')?.strip_suffix('}')?.split_once(":-")?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let message = format!("the container gets the text `{value}`: the `$` is missing");
    (is_name && !name.is_empty()).then_some(Problem { rule: "value-not-replaced", line, message })
}

/// Checks for a search path that is appended to that of the host. The first one is enough.
fn paths(service: &Node, problems: &mut Vec<Problem>) {
    let Some(environment) = service.get("environment") else { return };
    let named = environment
        .entries()
        .iter()
        .filter_map(|(name, value)| Some((name.text()?, value.text()?, name.line)));
    let listed = environment.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some((name, value, item.line))
    });
    let is_from_host = |(name, value, _): &(&str, &str, usize)| {
        let is_only = [format!("${name}"), format!("${{{name}}}")].iter().any(|own| own == value);
        SEARCHED.contains(name) && !is_only && refers(value, name)
    };
    if let Some((name, _, line)) = named.chain(listed).find(is_from_host) {
        let message = format!("`${name}` is the value on the machine that runs Compose");
        problems.push(Problem { rule: "path-replaced", line, message });
    }
}

/// Returns the variables that a service sets with `environment`: names and values.
fn variables(service: &Node) -> Vec<(&str, &str)> {
    let Some(environment) = service.get("environment") else { return Vec::new() };
    let named = environment.entries().iter();
    let named = named.filter_map(|(name, value)| Some((name.text()?, value.text()?)));
    let listed = environment.items().iter().filter_map(|item| item.text()?.split_once('='));
    named.chain(listed).collect()
}

/// Returns whether a text refers to a variable, without a default: `$NAME`, `${NAME}`.
fn refers(text: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
    [format!("${name}"), format!("${{{name}}}")].iter().any(|reference| {
        text.match_indices(reference.as_str()).any(|(at, _)| {
            let rest = &text[at + reference.len()..];
            let is_whole = reference.ends_with('}') || !rest.starts_with(goes_on);
            is_whole && !text[..at].ends_with('$')
        })
    })
}

/// Returns the problem if a command or health check uses a variable of `environment`, which Compose
/// replaces before the container starts. `is_set` tells whether a file gives Compose a value.
pub(super) fn replaced(
    service: &Node,
    root: &Node,
    is_set: &dyn Fn(&str) -> bool,
) -> Option<Problem> {
    let test = service.get("healthcheck").and_then(|check| check.get("test"));
    let nodes = [service.get("command"), service.get("entrypoint"), test];
    let texts: Vec<(&str, usize)> = nodes
        .into_iter()
        .flatten()
        .flat_map(|node| {
            let items = node.items().iter().filter_map(|item| Some((item.text()?, item.line)));
            node.text().map(|text| (text, node.line)).into_iter().chain(items)
        })
        .collect();
    let services = root.get("services").map_or(&[][..], Node::entries);
    // Another service that gets the value from Compose shows that Compose has it.
    let is_given = |name: &str| {
        let mut all = services.iter().flat_map(|(_, one)| variables(one));
        all.any(|(_, value)| refers(value, name))
    };
    for (name, value) in variables(service) {
        let used = texts.iter().find(|(text, _)| refers(text, name));
        let is_fixed = !value.contains('$') && !value.is_empty();
        // `NAME: ${NAME:-default}`: only this reference has the default.
        let has_default =
            value.strip_prefix(&format!("${{{name}:-")).is_some_and(|rest| rest.len() > 1);
        let is_lost = is_fixed || has_default;
        if let Some((_, line)) = used.filter(|_| is_lost && !is_given(name) && !is_set(name)) {
            let message = if is_fixed {
                format!(
                    "Compose replaces `${name}` with a value of its own, not with that of `environment`"
                )
            } else {
                format!(
                    "here Compose replaces `${name}` without the default that `environment` has"
                )
            };
            return Some(Problem { rule: "compose-variable", line: *line, message });
        }
    }
    None
}

/// Returns whether an item of `ports` is open to other machines.
pub(super) fn is_published(item: &Node) -> bool {
    let address = item.get("host_ip").and_then(Node::text).or_else(|| item.text());
    !address
        .is_some_and(|text| ["127.", "localhost:", "[::1]"].iter().any(|one| text.starts_with(one)))
}

/// Ways to write the home folder of the host's user.
const HOMES: [&str; 6] = ["$HOME:", "${HOME}:", "${HOME}/:", "$HOME/:", "~:", "~/:"];

/// Parts of the names of images that need all files of the host for what they do.
const READERS: [&str; 17] = [
    "alloy",
    "backup",
    "beszel",
    "cadvisor",
    "code-server",
    "dash",
    "duplicati",
    "exporter",
    "filebrowser",
    "glances",
    "jupyter",
    "kopia",
    "netdata",
    "restic",
    "scrutiny",
    "syncthing",
    "telegraf",
];

/// Checks for a service with a published port that gets the whole home folder, or all files.
fn homes(service: &Node, problems: &mut Vec<Problem>) {
    let ports = service.get("ports").map_or(&[][..], Node::items);
    let image = service.get("image").and_then(Node::text).unwrap_or_default().to_ascii_lowercase();
    if !ports.iter().any(|port| is_published(port)) || READERS.iter().any(|one| image.contains(one))
    {
        return;
    }
    // A row of the data has these for containers with a GPU.
    let devices = service.get("devices").map_or(&[][..], Node::items).iter();
    let has_gpu = devices
        .filter_map(|one| one.text())
        .any(|one| ["/dev/kfd", "/dev/dri"].iter().any(|gpu| one.starts_with(gpu)));
    for item in service.get("volumes").map_or(&[][..], Node::items) {
        let Some(text) = item.text() else { continue };
        let is_root = ["/:", "/home:", "/root:"].iter().any(|one| text.starts_with(one));
        let is_home = HOMES.iter().any(|home| text.starts_with(home));
        let is_other = has_gpu && (is_root || text.starts_with('~'));
        if (is_root || is_home) && !is_other {
            let message =
                format!("`{text}` gives a service with an open port a whole folder of the host");
            problems.push(Problem { rule: "host-folder", line: item.line, message });
        }
    }
}

/// Checks for a build of a repository's newest commit.
fn repository(service: &Node, problems: &mut Vec<Problem>) {
    let Some(build) = service.get("build") else { return };
    let context = build.get("context").unwrap_or(build);
    let Some(text) = context.text() else { return };
    let (address, rest) = text.split_once('#').unwrap_or((text, ""));
    let is_git = address.starts_with("git@")
        || address.starts_with("git://")
        || address.starts_with("github.com/")
        || address.contains("://")
            && (address.ends_with(".git") || address.contains("://github.com/"));
    let is_archive = [".gz", ".tgz", ".zip", ".tar"].iter().any(|end| address.ends_with(end));
    let reference = rest.split(':').next().unwrap_or_default();
    let is_moving = matches!(reference, "" | "dev" | "develop" | "main" | "master");
    if is_git && !is_archive && is_moving && !text.contains('$') {
        let message = format!("`{text}` is built at its newest commit");
        problems.push(Problem { rule: "clone-unpinned", line: context.line, message });
    }
}
