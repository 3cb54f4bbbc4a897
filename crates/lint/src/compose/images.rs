//! Checks the services of a compose file against the Dockerfiles that they build.

use super::base::NAMES;
use super::interpolated;
use crate::Exists;
use crate::facts::{Facts, Problem};
use crate::shell::UNKNOWN;
use crate::yaml::{self, Node};

/// Arguments that every Dockerfile knows, and that the builder itself reads.
const PREDEFINED: [&str; 14] = [
    "ALL_PROXY",
    "BUILDARCH",
    "BUILDOS",
    "BUILDPLATFORM",
    "BUILDVARIANT",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SOURCE_DATE_EPOCH",
    "TARGETARCH",
    "TARGETOS",
    "TARGETPLATFORM",
    "TARGETVARIANT",
];

/// Adds the stages and build arguments that a compose file names, and that the Dockerfile does not
/// have.
pub(crate) fn check(facts: &mut Facts<'_>, exists: &dyn Exists) {
    if facts.text.contains("{{") || !facts.code.contains("build:") {
        return;
    }
    let Some(root) = yaml::documents(facts.text).into_iter().next() else { return };
    let Some(services) = root.get("services") else { return };
    let own = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let base = NAMES.iter().find_map(|name| exists.text(facts.file, name));
    let base = base.filter(|_| !NAMES.contains(&own));
    let base = base.and_then(|text| yaml::documents(&text).into_iter().next());
    let mut problems = Vec::new();
    for (name, service) in services.entries() {
        let Some(build) = service.get("build").filter(|_| service.get("extends").is_none()) else {
            continue;
        };
        let before = base.as_ref().and_then(|other| other.get("services"));
        let before = before.and_then(|all| all.get(name.text()?)?.get("build"));
        let Some(path) = path(build, before) else { continue };
        let Some(text) = exists.text(facts.file, &path) else { continue };
        stage(build, &path, &text, &mut problems);
        arguments(build, &path, &text, &mut problems);
    }
    facts.problems.extend(problems);
}

/// The build of a service.
#[derive(Debug)]
pub(crate) struct Build {
    /// The name of the service.
    pub(crate) service: String,
    /// The path of the Dockerfile, from the folder of the compose file on.
    pub(crate) path: String,
    /// The text of the Dockerfile.
    pub(crate) text: String,
    /// The last stage that is built.
    pub(crate) target: Option<String>,
    /// The arguments of which the value is known: name, value, line.
    pub(crate) arguments: Vec<(String, String, usize)>,
}

/// Returns the builds of a compose file whose Dockerfiles can be read.
pub(crate) fn builds(facts: &Facts<'_>, exists: &dyn Exists) -> Vec<Build> {
    if facts.text.contains("{{") || !facts.code.contains("build:") {
        return Vec::new();
    }
    let Some(root) = yaml::documents(facts.text).into_iter().next() else { return Vec::new() };
    let own = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let base = NAMES.iter().find_map(|name| exists.text(facts.file, name));
    let base = base.filter(|_| !NAMES.contains(&own));
    let base = base.and_then(|text| yaml::documents(&text).into_iter().next());
    let services = root.get("services").map_or(&[][..], Node::entries).iter().take(MOST_SERVICES);
    let read = |(name, service): &(Node, std::rc::Rc<Node>)| {
        let build = service.get("build").filter(|_| service.get("extends").is_none())?;
        let name = name.text()?;
        let before = base.as_ref().and_then(|other| other.get("services")?.get(name)?.get("build"));
        let path = path(build, before)?;
        let text = exists.text(facts.file, &path)?;
        let target = build.get("target").or_else(|| before?.get("target")).and_then(Node::text);
        let target = target.map(interpolated);
        Some(Build { service: name.to_owned(), path, text, target, arguments: values(build) })
    };
    services.filter_map(read).collect()
}

/// The maximum number of services of which the Dockerfiles are read.
const MOST_SERVICES: usize = 40;

/// Returns the arguments of a build of which the value is known: name, value, line.
fn values(build: &Node) -> Vec<(String, String, usize)> {
    let Some(args) = build.get("args").filter(|args| args.line >= build.line) else {
        return Vec::new();
    };
    let named = args.entries().iter().filter_map(|(name, value)| {
        Some((name.text()?.to_owned(), interpolated(value.text()?), name.line))
    });
    let listed = args.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some((name.to_owned(), interpolated(value), item.line))
    });
    let is_known = |one: &(String, String, usize)| !one.1.is_empty() && !one.1.contains(UNKNOWN);
    named.chain(listed).filter(is_known).collect()
}

/// Returns the path of the Dockerfile that a build reads. The base file can give a part of it.
pub(super) fn path(build: &Node, base: Option<&Node>) -> Option<String> {
    let of = |node: &Node, key: &str| node.get(key).and_then(Node::text).map(interpolated);
    let value = |key: &str| of(build, key).or_else(|| of(base?, key));
    let in_base = || base.and_then(Node::text).map(interpolated);
    let context = build.text().map(interpolated).or_else(|| value("context")).or_else(in_base);
    let is_part = build.text().is_none() && of(build, "context").is_none() && base.is_none();
    let context = context.filter(|_| !is_part)?;
    let file = value("dockerfile").unwrap_or_else(|| "Dockerfile".to_owned());
    let is_inline =
        [Some(build), base].iter().flatten().any(|one| one.get("dockerfile_inline").is_some());
    let is_remote = context.contains("://") || context.starts_with("git@");
    let context = context.trim_end_matches('/').trim_start_matches("./");
    let path = if matches!(context, "." | "") { file } else { format!("{context}/{file}") };
    let is_known = !is_inline && !is_remote && !path.contains(UNKNOWN);
    is_known.then(|| path.trim_start_matches("./").replace("/./", "/"))
}

/// Checks for a target that is no stage.
fn stage(build: &Node, path: &str, text: &str, problems: &mut Vec<Problem>) {
    let Some(node) = build.get("target") else { return };
    let target = node.text().map(interpolated).unwrap_or_default();
    let image = Facts::read("Dockerfile", text);
    let names: Vec<&str> = image.stages.iter().filter_map(|one| one.name.as_deref()).collect();
    let is_number = target.parse::<usize>().is_ok();
    let is_known = names.iter().any(|name| name.eq_ignore_ascii_case(&target));
    let is_open = target.is_empty() || target.contains(UNKNOWN) || image.stages.is_empty();
    // A name with a variable can be any name.
    let is_open = is_open || names.iter().any(|name| name.contains([UNKNOWN, '$']));
    if !is_known && !is_number && !is_open {
        let message = format!("`{path}` has no stage `{target}`");
        problems.push(Problem { rule: "compose-reference", line: node.line, message });
    }
}

/// Checks for a build argument that the Dockerfile does not declare. The first one is enough.
fn arguments(build: &Node, path: &str, text: &str, problems: &mut Vec<Problem>) {
    // Several services with different Dockerfiles can share the arguments of an anchor.
    let Some(args) = build.get("args").filter(|args| args.line >= build.line) else { return };
    let mut declared: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        // Such an argument is for the images that are based on this one.
        let line = line.strip_prefix("ONBUILD ").unwrap_or(line).trim_start();
        let Some((name, rest)) = line.split_once(char::is_whitespace) else { continue };
        if name.eq_ignore_ascii_case("ARG") {
            // One instruction can declare several.
            declared.extend(rest.split_whitespace().filter_map(|word| word.split('=').next()));
        }
    }
    // Such an instruction continues on other lines, which are not read here.
    let is_open = text.lines().any(|line| {
        let line = line.trim();
        line.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("arg "))
            && line.ends_with('\\')
    });
    let named = args.entries().iter().filter_map(|(name, _)| Some((name.text()?, name.line)));
    let listed = args.items().iter().filter_map(|item| {
        let word = item.text()?;
        Some((word.split('=').next().unwrap_or(word), item.line))
    });
    let is_unknown = |name: &str| {
        !declared.contains(&name)
            && !PREDEFINED.iter().any(|one| one.eq_ignore_ascii_case(name))
            && !name.starts_with("BUILDKIT_")
            && !matches!(name, "<<" | "")
            && !name.contains('$')
    };
    let first = named.chain(listed).find(|(name, _)| is_unknown(name)).filter(|_| !is_open);
    if let Some((name, line)) = first {
        let message = format!("`{path}` has no `ARG {name}`");
        problems.push(Problem { rule: "variable-without-effect", line, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_gives_the_rest_of_a_build() {
        let node = |text: &str| yaml::documents(text).into_iter().next().unwrap();
        for (own, base, expected) in [
            (".", None, Some("Dockerfile")),
            ("{context: ./a/, dockerfile: b}", None, Some("a/b")),
            ("{dockerfile: b}", Some("{context: a}"), Some("a/b")),
            ("{dockerfile: b}", Some("a"), Some("a/b")),
            ("{args: [A=1]}", Some("{context: a, dockerfile: c}"), Some("a/c")),
            ("{dockerfile: b}", None, None),
            ("{context: $A}", None, None),
            ("https://h.example/a.git", None, None),
        ] {
            let base = base.map(node);
            assert_eq!(path(&node(own), base.as_ref()).as_deref(), expected, "{own}");
        }
    }
}
