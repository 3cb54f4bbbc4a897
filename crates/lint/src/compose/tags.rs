//! Checks the tags of images that a compose file takes from its environment file.

use crate::Exists;
use crate::facts::{Facts, Problem};
use crate::yaml::Node;

/// Environment files that Compose reads, or that people copy for it.
pub(super) const FILES: [&str; 7] = [
    ".env",
    ".env.dist",
    ".env.example",
    ".env.sample",
    ".env.template",
    "env.example",
    "example.env",
];

/// Tags that their owner moves.
const MOVING: [&str; 6] = ["edge", "latest", "main", "master", "nightly", "rawhide"];

/// Returns the value of a variable in an environment file beside a compose file, and the file's name.
pub(super) fn value_of(
    name: &str,
    facts: &Facts<'_>,
    exists: &dyn Exists,
) -> Option<(String, &'static str)> {
    FILES.into_iter().find_map(|file| {
        let text = exists.text(facts.file, file)?;
        let line = text.lines().rev().find_map(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
        })?;
        let value = line.split(" #").next().unwrap_or_default().trim();
        Some((value.trim_matches(['"', '\'']).to_owned(), file))
    })
}

/// Adds the problem if the tag of a service's image is `latest` in an environment file.
pub(super) fn check(
    service: &Node,
    facts: &Facts<'_>,
    exists: &dyn Exists,
    problems: &mut Vec<Problem>,
) {
    let Some(node) = service.get("image").filter(|_| service.get("build").is_none()) else {
        return;
    };
    let text = node.text().unwrap_or_default();
    // `NAME:${TAG}`; other parts of the name can be variables too.
    let last = text.rsplit('/').next().unwrap_or(text);
    let Some((_, tag)) = last.rsplit_once(":$") else { return };
    let name = tag.trim_start_matches('{').trim_end_matches('}');
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return;
    }
    let Some((value, file)) = value_of(name, facts, exists) else { return };
    if MOVING.contains(&value.as_str()) {
        let message = format!(
            "`{name}` is `{value}` in `{file}`, so the image can be a different one every day"
        );
        problems.push(Problem { rule: "image-latest", line: node.line, message });
    }
}
