//! What other files in the folder say: the user of an image that a compose file builds, and the
//! scripts that are copied into an image.

use std::collections::BTreeSet;

use super::built::chosen;
use super::images::path_and_tag;
use super::stages::{last_stages, parts};
use super::traps::last_user;
use crate::containers::DOCKERFILE;
use crate::data::{data, matches_any};
use crate::dockerfile::{Instruction, instructions};
use crate::facts::Container;
use crate::shell::{Setting, Word};
use crate::{Context, Facts, Findings, Hit, Kind, Severity, compose};

/// Options with which the groups of the host or of the image do not matter.
const OTHER: [&str; 6] =
    ["--extends", "--group-add", "--privileged", "--user", "--userns", "--podman"];

/// Checks for services whose image has a user who is in no group for the GPU.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    for container in facts.containers.iter().filter(|_| facts.kind == Kind::Compose) {
        if let Some((line, base)) = unknown_group(facts, container, context) {
            let message = format!("the image has no group `render`: `{base}` has none");
            found.add("group-unknown", line, message);
            continue;
        }
        let option = |start: &str| container.options.iter().find(|one| one.text.starts_with(start));
        let device = option("--device=/dev/kfd").or_else(|| option("--device=/dev/dri"));
        let Some(device) = device else { continue };
        let is_video = only_video(container);
        let has_other =
            OTHER.iter().any(|start| option(start).is_some() && !(is_video && *start == GROUP));
        let named = named_group(container);
        if has_other && named.is_none() {
            continue;
        }
        let Some(text) = dockerfile(facts, container, context) else { continue };
        if let Some(line) = named {
            let user = last_user(&Facts::read("Dockerfile", &text)).map(|(_, user)| user);
            // The image can give its group the number of the host's.
            let has_number = text.lines().any(|one| {
                one.contains("render")
                    && ["-g", "-G"].iter().any(|flag| one.contains(flag))
                    && ["addgroup", "groupadd", "groupmod"].iter().any(|name| one.contains(name))
            });
            if let Some(user) = user.filter(|user| !is_root(user) && !has_number) {
                let message = format!(
                    "`render` means the image's group, but the user `{user}` needs the GID of the host's"
                );
                found.add("group-by-name", line, message);
            }
            continue;
        }
        let is_known = knows_group(&text);
        let image = Facts::read("Dockerfile", &text);
        let user = last_user(&image).map(|(_, user)| user);
        if let Some(user) = user.filter(|user| !is_known && !is_root(user)) {
            let message = if is_video {
                format!("`{user}`, the user of the image, gets only the group `video`")
            } else {
                format!("`{user}`, the user of the image, is in no group that can open the GPU")
            };
            let hit = Hit::new("render-group-missing", device.line, message);
            found.hit(hit.at_most(Severity::Information));
        }
    }
}

/// Texts of Dockerfiles that make the group of the GPU, or install packages that do so.
const MAKES_GROUP: [&str; 12] = [
    "addgroup",
    "amdgpu",
    "desktop",
    "group render",
    "groupadd",
    "groupmod",
    "render",
    "systemd",
    "udev",
    "xorg",
    "xserver",
    ".sh",
];

/// Returns the line that adds the group `render`, and the base image of the service, if the image
/// certainly has no such group.
fn unknown_group(
    facts: &Facts<'_>,
    container: &Container,
    context: Context<'_>,
) -> Option<(usize, String)> {
    let group = container.options.iter().find(|one| one.text == "--group-add=render")?;
    let files = context.exists?;
    let builds = compose::builds(facts, files);
    let name = container.service.as_ref().map(|own| own.text.as_str());
    let own = builds.iter().find(|build| name == Some(build.service.as_str()));
    // An argument can choose another base.
    let text = own.map(chosen).or_else(|| dockerfile(facts, container, context))?;
    let image = Facts::read("Dockerfile", &text);
    let run = |one: &&Instruction| parts(one).0 == "RUN";
    let mut runs = image.instructions().iter().filter(run);
    if runs.any(|one| MAKES_GROUP.iter().any(|word| one.text.contains(word))) {
        return None;
    }
    let last = last_stages(&image, image.instructions()).last().copied()?;
    let base = image.base(last)?.base.clone();
    matches_any(&data().without_render, &path_and_tag(&base)).then_some((group.line, base))
}

/// Returns whether the text of a Dockerfile names the group of the GPU. On Fedora, every user can
/// open the GPU.
pub(super) fn knows_group(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    // `libxrender1` is not a group.
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| matches!(word, "render" | "renderd128" | "dnf"))
}

/// Returns whether a container has a device of the GPU, and no group or user of its own.
pub(super) fn cannot_open(container: &Container) -> bool {
    let has = |start: &str| container.options.iter().any(|one| one.text.starts_with(start));
    let has_device = has("--device=/dev/kfd") || has("--device=/dev/dri");
    has_device && !OTHER.iter().any(|start| has(start))
}

/// The option that adds a group.
const GROUP: &str = "--group-add";

/// Returns whether `video` is the only group that a container gets.
fn only_video(container: &Container) -> bool {
    let groups = container.options.iter().filter_map(|one| one.text.strip_prefix(GROUP));
    let mut groups = groups.map(|one| one.trim_start_matches('=')).peekable();
    groups.peek().is_some() && groups.all(|group| matches!(group, "video" | "44"))
}

/// Returns the line on which a container gets the group `render` by its name, if nothing else gives
/// it the group of the host.
fn named_group(container: &Container) -> Option<usize> {
    let has = |start: &str| container.options.iter().any(|one| one.text.starts_with(start));
    let others = OTHER.iter().filter(|start| **start != "--group-add");
    let group = |one: &&Word| one.text == "--group-add=render";
    let is_by_number = container.options.iter().any(|one| {
        let name = one.text.strip_prefix("--group-add=");
        name.is_some_and(|name| !matches!(name, "render" | "video"))
    });
    let line = container.options.iter().find(group).map(|one| one.line);
    line.filter(|_| !is_by_number && !others.into_iter().any(|start| has(start)))
}

/// Returns whether a user, as `USER` names it, is root.
pub(crate) fn is_root(user: &str) -> bool {
    matches!(user.trim_matches('"').split(':').next(), Some("root" | "0" | ""))
}

/// Returns the path of the Dockerfile of a service.
fn path(container: &Container) -> Option<&str> {
    let marker = container.options.iter().find_map(|one| one.text.strip_prefix(DOCKERFILE))?;
    marker.strip_prefix('=')
}

/// Returns the text of the Dockerfile of a service.
pub(super) fn dockerfile(
    facts: &Facts<'_>,
    container: &Container,
    context: Context<'_>,
) -> Option<String> {
    context.exists?.text(facts.file, path(container)?)
}

/// Returns the service that gets a variable.
fn service<'f>(facts: &'f Facts<'_>, setting: &Setting) -> Option<&'f Container> {
    let start = format!("--env={}=", setting.name);
    facts.containers.iter().find(|container| {
        container.options.iter().any(|one| one.line == setting.line && one.text.starts_with(&start))
    })
}

/// Lowers the severity of a violation in a service whose image is built, because a script of the
/// image may read the variable.
pub(super) fn judged<'r>(facts: &Facts<'_>, setting: &Setting, hit: Hit<'r>) -> Hit<'r> {
    let is_built = |container: &Container| {
        container.options.iter().any(|one| one.text.starts_with(DOCKERFILE))
    };
    let may_read = facts.kind == Kind::Compose && service(facts, setting).is_some_and(is_built);
    if may_read { hit.at_most(Severity::Warning) } else { hit }
}

/// Returns the lists of requirements that the Dockerfile names: the file itself, or that of the
/// service that gets a variable.
pub(super) fn lists(facts: &Facts<'_>, setting: &Setting, context: Context<'_>) -> Vec<String> {
    let Some(files) = context.exists else { return Vec::new() };
    let (text, folder) = match facts.kind {
        Kind::Dockerfile => (facts.text.to_owned(), String::new()),
        Kind::Compose => {
            let Some(container) = service(facts, setting) else { return Vec::new() };
            let Some(text) = dockerfile(facts, container, context) else { return Vec::new() };
            let folder = path(container).and_then(|path| path.rsplit_once('/'));
            (text, folder.map_or(String::new(), |(folder, _)| format!("{folder}/")))
        }
        _ => return Vec::new(),
    };
    let ends = |c: char| c.is_whitespace() || "\"',[]".contains(c);
    let is_list = |word: &&str| word.ends_with(".txt") && word.contains("requirements");
    let names: BTreeSet<&str> =
        text.split(ends).filter(is_list).map(|word| word.trim_start_matches("./")).collect();
    let read = |name: &&str| files.in_context(facts.file, &format!("{folder}{name}"));
    names.iter().filter_map(read).take(MOST).collect()
}

/// Returns whether a script in the folder, which is copied into the image, contains the name of a
/// variable.
pub(super) fn reads(facts: &Facts<'_>, setting: &Setting, context: Context<'_>) -> bool {
    let Some(files) = context.exists else { return false };
    let has_name = |text: &str| text.contains(&setting.name);
    let in_scripts = |dockerfile: &str, folder: &str| {
        copied(dockerfile).iter().any(|script| {
            files.text(facts.file, &format!("{folder}{script}")).is_some_and(|text| has_name(&text))
        })
    };
    match facts.kind {
        Kind::Dockerfile => in_scripts(facts.text, ""),
        Kind::Compose => service(facts, setting).is_some_and(|container| {
            let Some(text) = dockerfile(facts, container, context) else { return false };
            let folder = path(container).and_then(|path| path.rsplit_once('/'));
            in_scripts(&text, &folder.map_or(String::new(), |(folder, _)| format!("{folder}/")))
        }),
        _ => false,
    }
}

/// The maximum number of scripts that are read.
const MOST: usize = 10;

/// Returns the scripts that a Dockerfile copies into the image.
fn copied(dockerfile: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    for one in instructions(dockerfile) {
        let words: Vec<&str> = one.text.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else { continue };
        let is_copy = ["COPY", "ADD"].iter().any(|name| first.eq_ignore_ascii_case(name));
        let is_other = rest.iter().any(|word| word.starts_with("--from="));
        let sources = rest.split_last().map_or(&[][..], |(_, sources)| sources);
        let is_script = |word: &&&str| {
            word.ends_with(".sh")
                || word.rsplit('/').next().is_some_and(|name| name.contains("entrypoint"))
        };
        let own = sources.iter().filter(is_script).filter(|_| is_copy && !is_other);
        scripts.extend(own.map(|word| (*word).to_owned()));
    }
    scripts.truncate(MOST);
    scripts
}
