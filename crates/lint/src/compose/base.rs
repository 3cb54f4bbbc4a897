//! Completes an override, such as `docker-compose.rocm.yml`, with the services of the base file that
//! Compose merges it with.

use std::collections::BTreeSet;

use super::structure::is_override;
use crate::Exists;
use crate::facts::{Container, Facts, Problem};
use crate::shell::Word;
use crate::yaml::{self, Node};

/// The names of base files, in the order in which Compose looks for them.
pub(super) const NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];

/// Adds what the base file in the same folder says about the services of an override.
pub(crate) fn complete(facts: &mut Facts<'_>, exists: &dyn Exists) {
    let own = facts.file.rsplit('/').next().unwrap_or(facts.file);
    // Such a value replaces the base's instead of being merged with it.
    let is_replaced = ["!reset", "!override"].iter().any(|tag| facts.text.contains(tag));
    if NAMES.contains(&own) || is_replaced {
        return;
    }
    let Some(root) = yaml::documents(facts.text).into_iter().next() else { return };
    let Some(services) = root.get("services") else { return };
    if !services.entries().iter().any(|(_, service)| is_partial(service)) && !is_override(facts) {
        return;
    }
    let named = named_bases(facts.text, own);
    let is_named = !named.is_empty();
    let names = if is_named { named } else { NAMES.map(str::to_owned).to_vec() };
    let most = if is_named { MOST_BASES } else { 1 };
    let texts = names.iter().filter_map(|name| exists.text(facts.file, name)).take(most);
    let texts: Vec<String> = texts.collect();
    let all = chain(&texts);
    for container in &mut facts.containers {
        let base = same(&all, container).cloned().map(Box::new);
        container.base = base.or_else(|| container.base.take());
    }
    let [text] = texts.as_slice() else { return };
    let base = Facts::read("compose.yml", text);
    if is_named || has_profile_name(own) {
        let others = exists.compose_files(facts.file);
        facts.problems.extend(undefined(services, &base, &others));
    }
    facts.problems.extend(nvidia(&root, services, text, &base));
}

/// Returns whether the file that Compose reads first has a service of this name too, so that the
/// service of another file is probably only a part.
pub(crate) fn is_in_base(file: &str, service: &str, exists: &dyn Exists) -> bool {
    let own = file.rsplit('/').next().unwrap_or(file);
    let has_service = |text: &str| {
        let line = format!("{service}:");
        text.lines().any(|one| one.starts_with([' ', '\t']) && one.trim() == line)
    };
    !NAMES.contains(&own)
        && NAMES.iter().any(|name| exists.text(file, name).is_some_and(|text| has_service(&text)))
}

/// Adds what other services say that the services of a file extend.
pub(crate) fn extend(facts: &mut Facts<'_>, exists: &dyn Exists) {
    if !facts.code.contains("extends:") {
        return;
    }
    let Some(root) = yaml::documents(facts.text).into_iter().next() else { return };
    let own = facts.containers.clone();
    for container in &mut facts.containers {
        let name = container.service.as_ref().map(|name| name.text.clone()).unwrap_or_default();
        let service = root.get("services").and_then(|all| all.get(&name));
        let Some(extends) = service.and_then(|service| service.get("extends")) else { continue };
        let other = extends.text().or_else(|| extends.get("service")?.text());
        let file = extends.get("file").and_then(Node::text);
        let text = file.map(|file| exists.text(facts.file, file).unwrap_or_default());
        let all = text.as_deref().map(|text| Facts::read("compose.yml", text).containers);
        let is_other = |one: &&Container| {
            let is_named = one.service.as_ref().map(|called| called.text.as_str()) == other;
            is_named && !one.options.iter().any(|option| option.text.starts_with(EXTENDS))
        };
        if let Some(base) = all.as_ref().unwrap_or(&own).iter().find(is_other) {
            container.options.retain(|option| !option.text.starts_with(EXTENDS));
            container.base = Some(Box::new(base.clone()));
        }
    }
}

/// The option of services that extend another one.
const EXTENDS: &str = "--extends";

/// The maximum number of base files of one override.
const MOST_BASES: usize = 8;

/// Returns the services of base files that are merged one after the other.
fn chain(texts: &[String]) -> Vec<Container> {
    let mut all: Vec<Container> = Vec::new();
    for text in texts {
        for mut container in Facts::read("compose.yml", text).containers {
            container.base = same(&all, &container).cloned().map(Box::new);
            let merged = container.merged().unwrap_or(container);
            all.retain(|one| !is_same(one, &merged));
            all.push(merged);
        }
    }
    all
}

fn same<'c>(all: &'c [Container], container: &Container) -> Option<&'c Container> {
    all.iter().find(|one| is_same(one, container))
}

/// Returns whether two containers are the same service.
fn is_same(one: &Container, other: &Container) -> bool {
    let both = one.service.as_ref().zip(other.service.as_ref());
    both.is_some_and(|(own, its)| own.text == its.text)
}

/// Returns whether a service is only a part: Compose needs an image, or a build with a context.
fn is_partial(service: &Node) -> bool {
    let is_build = |build: &Node| {
        build.text().is_some() || build.get("context").or(build.get("dockerfile_inline")).is_some()
    };
    let has_build = service.get("build").is_some_and(is_build);
    !has_build && ["extends", "image", "provider"].iter().all(|key| service.get(key).is_none())
}

/// Returns whether the name of an override follows from that of the base file:
/// `docker-compose.rocm.yml`, and not `docker-compose.dev.rocm.yml`.
fn has_profile_name(own: &str) -> bool {
    own.matches('.').count() == 2
}

/// Returns the base files that a comment names: `# docker compose -f base.yml -f this.yml up`.
fn named_bases(text: &str, own: &str) -> Vec<String> {
    let comments = text.lines().filter(|line| line.trim_start().starts_with('#'));
    let mut commands =
        comments.filter(|line| line.contains(own) && line.matches("-f ").count() > 1);
    let words: Vec<&str> =
        commands.next().map_or_else(Vec::new, |line| line.split_whitespace().collect());
    let named = words.windows(2).filter(|two| two[0] == "-f").map(|two| two[1]);
    let names = named.map(|path| path.rsplit('/').next().unwrap_or(path));
    names.filter(|name| *name != own).map(str::to_owned).collect()
}

/// Returns the services that have neither an image nor a build in either of the two files, nor in
/// one of the others of the folder, with which the file can also be used.
fn undefined(services: &Node, base: &Facts<'_>, others: &[String]) -> Vec<Problem> {
    let mut known: BTreeSet<String> =
        base.containers.iter().filter_map(|one| Some(one.service.as_ref()?.text.clone())).collect();
    for root in others.iter().flat_map(|text| yaml::documents(text).into_iter().next()) {
        let whole = root.get("services").map_or(&[][..], Node::entries).iter();
        let whole = whole.filter(|(_, service)| !is_partial(service));
        known.extend(whole.filter_map(|(name, _)| Some(name.text()?.to_owned())));
    }
    let has_more = base.text.lines().any(|line| line.starts_with("include:"));
    let parts = services.entries().iter().filter(|(_, service)| is_partial(service) && !has_more);
    let missing = parts.filter_map(|(name, _)| Some((name.text()?, name.line)));
    let missing = missing.filter(|(name, _)| !known.contains(*name) && *name != "<<");
    missing
        .map(|(name, line)| {
            let message = format!(
                "`{name}` has no image and no context for a build, and the base file has no such service"
            );
            Problem { rule: "compose-reference", line, message }
        })
        .collect()
}

/// Returns the services of the base file that still ask for an NVIDIA GPU, although the override is
/// for AMD GPUs and does not mention them.
fn nvidia(root: &Node, own: &Node, text: &str, base: &Facts<'_>) -> Option<Problem> {
    let documents = yaml::documents(text);
    let services = documents.first()?.get("services")?;
    let is_left = |container: &&Container| {
        let Some(name) = container.service.as_ref() else { return false };
        let asks = container.options.iter().any(is_nvidia);
        let service = services.get(&name.text);
        // A service with a profile starts only if it is asked for.
        let starts = service.is_some_and(|service| service.get("profiles").is_none());
        asks && starts && own.get(&name.text).is_none()
    };
    let container = base.containers.iter().find(is_left)?;
    let has_amd = own.entries().iter().any(|(_, service)| {
        let devices = service.get("devices").map_or(&[][..], Node::items);
        devices.iter().any(|device| device.text().is_some_and(|path| path.contains("/dev/kfd")))
    });
    let name = &container.service.as_ref()?.text;
    let line = root.entries().iter().find(|(key, _)| key.text() == Some("services"))?.0.line;
    let message = format!("the service `{name}` of the base file still asks for an NVIDIA GPU");
    has_amd.then_some(Problem { rule: "nvidia-leftover", line, message })
}

/// Returns whether an option asks for an NVIDIA GPU.
fn is_nvidia(option: &Word) -> bool {
    matches!(option.text.as_str(), "--device-driver=nvidia" | "--runtime=nvidia" | "--gpus=all")
}

/// Options that Compose appends to those of the base file, and does not replace.
const APPENDED: [&str; 9] = [
    "--cap-add",
    "--device",
    "--device-cgroup-rule",
    "--device-driver",
    "--gpus",
    "--group-add",
    "--publish",
    "--security-opt",
    "--volume",
];

impl Container {
    /// Returns the service as Compose runs it, with the options of the base file on the line of
    /// the service's name.
    pub(crate) fn merged(&self) -> Option<Self> {
        let (base, service) = (self.base.as_ref()?, self.service.as_ref()?);
        let at_name = |word: &Word| Word { text: word.text.clone(), line: service.line };
        let is_kept = |option: &&Word| {
            let key = key(&option.text);
            let is_same = |own: &Word| {
                own.text == option.text || !APPENDED.contains(&key) && self::key(&own.text) == key
            };
            !self.options.iter().any(is_same)
        };
        let added = base.options.iter().filter(is_kept).map(at_name);
        let options = self.options.iter().cloned().chain(added).collect();
        let image = self.image.clone().or_else(|| base.image.as_ref().map(at_name));
        Some(Self { image, options, service: self.service.clone(), base: None })
    }
}

/// Returns the part of an option that is the same in an option that replaces it: `--env=NAME` or
/// `--ipc`.
fn key(option: &str) -> &str {
    let start = if option.starts_with("--env=") { "--env=".len() } else { 0 };
    option[start..].find('=').map_or(option, |at| &option[..start + at])
}
