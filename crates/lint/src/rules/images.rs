//! Rules for images: names, tags, and known problems.

use std::collections::BTreeSet;

use super::stages::last_stages;
use super::{for_gpu, rocm};
use crate::data::{ImageRow, ReleaseRow, data, matches, matches_any};
use crate::facts::{Container, Image};
use crate::shell::{Scope, Setting, UNKNOWN, Word};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// The parts of a reference that the rules need.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// With the registry, if there is one.
    name: &'a str,
    /// Without the registry and without `library/`.
    pub(super) path: &'a str,
    has_registry: bool,
    pub(super) tag: Option<&'a str>,
    has_digest: bool,
}

pub(super) fn parts(reference: &str) -> Parts<'_> {
    let reference = reference.strip_prefix("docker://").unwrap_or(reference);
    let (rest, digest) = reference.split_once('@').map_or((reference, None), |(r, d)| (r, Some(d)));
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last..].split_once(':') {
        Some((before, tag)) => (&rest[..last + before.len()], Some(tag)),
        None => (rest, None),
    };
    let first = name.split_once('/').map(|(first, _)| first);
    let registry = first.filter(|first| first.contains(['.', ':']) || *first == "localhost");
    let path = registry.map_or(name, |registry| &name[registry.len() + 1..]);
    let path = path.strip_prefix("library/").unwrap_or(path);
    Parts { name, path, has_registry: registry.is_some(), tag, has_digest: digest.is_some() }
}

/// How names begin that no registry resolves: images of this machine, the local transports of
/// containers-transports(5), and models in an Ollama Modelfile.
const NOT_PULLED: [&str; 10] = [
    "containers-storage:",
    "dir:",
    "docker-archive:",
    "docker-daemon:",
    "hf.co/",
    "huggingface.co/",
    "local/",
    "localhost/",
    "oci-archive:",
    "oci:",
];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let mut seen = BTreeSet::new();
    for image in &facts.images {
        let reference = image.reference.trim();
        let is_local = NOT_PULLED.iter().any(|start| reference.starts_with(start))
            || reference.ends_with(":local")
            || reference.contains(UNKNOWN)
            || reference.contains('$');
        if reference.is_empty() || reference == "scratch" || is_local {
            continue;
        }
        let has_ended = ended(image, context, found);
        // One digest, of a stage or of an argument, settles all stages on an image.
        let is_again = facts.kind == Kind::Dockerfile && !seen.insert(reference);
        general(facts, image, context, has_ended || is_again, found);
        known(facts, image, context, found);
    }
}

/// Checks the name and the tag. With `has_advice`, another finding about this image already says what
/// to write instead of it. The tag of one release needs no advice.
fn general(
    facts: &Facts<'_>,
    image: &Image,
    context: Context<'_>,
    has_advice: bool,
    found: &mut Findings<'_>,
) {
    let Parts { name, path, has_registry, tag, has_digest } = parts(&image.reference);
    let line = image.line;
    if let Some(part) = invalid(path) {
        let message = format!("`{part}` in `{}` has capital letters", image.reference);
        found.add("image-name-invalid", line, message);
    }
    // Neither an image that one of the files builds nor a placeholder is pulled. Docker Hub's
    // images have an owner and a name, or only a name if they are official; others were built on
    // this machine.
    let is_tag_placeholder = tag.is_some_and(|tag| tag.bytes().all(|b| b.is_ascii_uppercase()));
    let is_placeholder =
        is_tag_placeholder || !has_registry && path.contains(|c: char| c.is_ascii_uppercase());
    let is_on_hub = match path.matches('/').count() {
        0 => data().official.contains(path),
        slashes => slashes == 1,
    };
    let moves = |one: &&str| {
        matches!(*one, "rawhide" | "dev" | "main" | "edge")
            || ["latest", "nightly"].iter().any(|word| one.contains(word)) && !is_dated(one)
    };
    // Every node pulls the image of a pod.
    let is_pulled =
        facts.kind == Kind::Manifest && !has_digest && tag.is_none_or(|tag| moves(&tag));
    let is_own = !has_registry && !is_on_hub && !is_pulled;
    if builds(facts, name, context) || is_placeholder || is_own {
        return;
    }
    let has_advice =
        has_advice || tag.is_some_and(|tag| is_release(tag, path) && is_kept(name, path));
    // Outside a project, the tag of a distribution's or language's release is usual.
    let is_usual = context.project_gpu.is_none()
        && tag.is_some_and(|tag| is_official_release(&image.reference, path, tag));
    // Nobody moves the tag of one day: `1.18-noble-20250127`.
    let is_of_day = tag.is_some_and(|tag| is_dated(tag) && !tag.contains("nightly"));
    let has_advice = has_advice || is_usual || is_of_day;
    // A digest fixes the content, wherever it comes from.
    // Kubernetes takes such an image from Docker Hub. Helm values are text files.
    let is_for_kubernetes = matches!(facts.kind, Kind::Manifest | Kind::Text);
    if !has_registry && !has_digest && !is_for_kubernetes && !has_advice {
        let full = if path.contains('/') { path.to_owned() } else { format!("library/{path}") };
        found.add_with(
            "image-short-name",
            line,
            format!("`{}` has no registry", image.reference),
            format!("write `docker.io/{full}` if you mean Docker Hub"),
        );
    }
    if has_digest {
        return;
    }
    match tag.filter(|one| !moves(one)) {
        // The finding about automatic updates says it.
        None if facts.text.to_ascii_lowercase().contains("autoupdate=registry") => {}
        None => {
            let message = format!("`{}` can be a different image every day", image.reference);
            found.add("image-latest", line, message);
        }
        Some(_) if has_advice || is_trial(facts, image) => {}
        Some(tag) => {
            found.add(
                "image-unpinned",
                line,
                format!("`{name}` has the tag `{tag}`, but no digest"),
            );
        }
    }
}

/// Returns whether a script starts a release of a distribution for one command: `docker run --rm
/// ubuntu:22.04 …`.
fn is_trial(facts: &Facts<'_>, image: &Image) -> bool {
    let is_its = |word: &Word| word.text == image.reference && word.line == image.line;
    let is_removed = facts.containers.iter().any(|container| {
        container.image.as_ref().is_some_and(is_its)
            && container.options.iter().any(|option| option.text == "--rm")
    });
    facts.kind == Kind::Shell && is_removed && release(&image.reference).is_some()
}

/// Returns whether a tag names one release, build, day or commit: `7.0.2-complete`, `v0.23.0`,
/// `server-rocm-b4719`. AMD's tags name a ROCm release with two or three numbers,
/// NVIDIA's the month: `22.12-py3`.
fn is_release(tag: &str, path: &str) -> bool {
    let numbers = |text: &str| {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        text[..end].split('.').filter(|part| !part.is_empty()).count()
    };
    let wanted = if ["rocm/", "nvidia/"].iter().any(|one| path.starts_with(one)) { 2 } else { 3 };
    let starts = tag.char_indices().filter(|(at, c)| {
        c.is_ascii_digit() && !tag[..*at].ends_with(|before: char| before.is_ascii_digit())
    });
    let is_build = |part: &str| {
        part.strip_prefix('b').is_some_and(|rest| rest.len() >= 4 && numbers(rest) == 1)
    };
    starts.map(|(at, _)| numbers(&tag[at..])).any(|count| count >= wanted)
        || tag.split(['-', '_']).any(is_build)
        // The second in which it was built, as in the tags of Red Hat's images.
        || tag.split(['-', '.']).any(|part| part.len() == 10 && numbers(part) == 1)
        || is_dated(tag)
}

/// Returns whether a tag names a release of a distribution, or of another Docker Official Image with
/// two numbers: `ubuntu:24.04`, `python:3.12-slim`.
fn is_official_release(reference: &str, path: &str, tag: &str) -> bool {
    let has_two = tag.split(['-', '_']).any(|part| {
        let numbers = part.split('.').filter(|number| number.parse::<u32>().is_ok());
        numbers.count() > 1
    });
    // Fedora's releases have one number, and its images are also on other registries.
    let is_fedora = path.rsplit('/').next().is_some_and(|name| name.starts_with("fedora"))
        && tag.parse::<u32>().is_ok();
    is_fedora || data().official.contains(path) && (has_two || release(reference).is_some())
}

/// Returns whether a publisher keeps the tags of releases. A private person on Docker Hub may push
/// such a tag again.
fn is_kept(name: &str, path: &str) -> bool {
    let registry = name.strip_suffix(path).unwrap_or_default().trim_end_matches('/');
    let is_on_hub = matches!(registry, "" | "docker.io" | "index.docker.io" | "docker.io/library");
    let owner = path.split_once('/').map(|(owner, _)| owner);
    !is_on_hub || owner.is_none_or(|owner| data().publishers.contains(owner))
}

/// Returns the part of a path that has capital letters, unless it is a placeholder: `USER`, `YourName`.
fn invalid(path: &str) -> Option<&str> {
    let is_mixed = |part: &&str| {
        part.contains(|c: char| c.is_ascii_uppercase())
            && part.contains(|c: char| c.is_ascii_lowercase())
            && !part.to_ascii_lowercase().contains("your")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    path.split('/').find(is_mixed).filter(|_| path.contains('/'))
}

/// Returns whether a tag names one day or one commit: `nightly_20250605`, `nightly-2025-06-05`.
fn is_dated(tag: &str) -> bool {
    let parts: Vec<&str> = tag.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_number = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_day =
        |three: &[&str]| is_number(three[0], 4) && is_number(three[1], 2) && is_number(three[2], 2);
    let is_commit =
        |part: &str| part.len() == 40 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.windows(3).any(is_day)
        || parts.iter().any(|part| part.starts_with("20") && is_number(part, 8) || is_commit(part))
}

/// Returns whether a reference has neither a digest nor a tag other than `latest`.
pub(super) fn is_floating(reference: &str) -> bool {
    let Parts { tag, has_digest, .. } = parts(reference);
    !has_digest && tag.is_none_or(|tag| tag == "latest")
}

/// Returns a reference as `PATH:TAG`, for the patterns of the data.
pub(super) fn path_and_tag(reference: &str) -> String {
    let Parts { path, tag, .. } = parts(reference);
    format!("{path}:{}", tag.unwrap_or_default())
}

/// Returns the release of a distribution that an image contains.
pub(super) fn release(reference: &str) -> Option<&'static ReleaseRow> {
    let image = path_and_tag(reference);
    data().releases.iter().find(|row| matches_any(&row.images, &image))
}

/// Returns the release of a distribution that an image contains or is based on.
pub(super) fn released(reference: &str) -> Option<&'static ReleaseRow> {
    let image = path_and_tag(reference);
    let mut rows = data().releases.iter();
    rows.find(|row| matches_any(&row.images, &image) || matches_any(&row.based, &image))
}

/// Checks for distributions that no longer get updates.
fn ended(image: &Image, context: Context<'_>, found: &mut Findings<'_>) -> bool {
    let Some(release) = release(&image.reference) else { return false };
    let end = release.end.as_deref().zip(context.today).filter(|(end, today)| end < today);
    if end.is_some() {
        let message = format!("`{}` no longer gets updates", image.reference);
        found.add("base-end-of-life", image.line, message);
    }
    end.is_some()
}

/// Returns whether this file, or another file in the same run, builds an image with that name.
fn builds(facts: &Facts<'_>, name: &str, context: Context<'_>) -> bool {
    let others = context.built.into_iter().flatten();
    facts.built.iter().chain(others).any(|built| parts(built).name == name)
}

fn known(facts: &Facts<'_>, image: &Image, context: Context<'_>, found: &mut Findings<'_>) {
    let Parts { path, tag, has_digest, .. } = parts(&image.reference);
    let (line, reference) = (image.line, &image.reference);
    let names = names(reference);
    let is_only_digest = has_digest && tag.is_none();
    let tag = tag.unwrap_or_default();
    let is_its = |word: &Word| word.text == *reference && word.line == line;
    let container = facts.containers.iter().find(|one| one.image.as_ref().is_some_and(is_its));
    let merged = container.and_then(Container::merged);
    let options = merged.as_ref().or(container).map_or(&[][..], |one| &one.options);
    for row in data().images.iter().filter(|row| is_about(row, &names, tag)) {
        // A digest alone does not show what the image contains.
        let is_known = row.option.is_none() || !is_only_digest;
        let is_certain = is_with_options(row, options);
        let is_given =
            is_certain || is_without_rocm(row) && container.is_some() && is_for_amd(facts);
        let has_option = is_known && is_given && !has_other_option(row, options);
        let is_variable = |one: &Setting| {
            one.scope == Scope::Image
                && one.stage == image.stage
                && matches_any(&row.variables, &one.name)
        };
        let has_variable =
            row.variables.is_empty() || image.stage > 0 && facts.settings.iter().any(is_variable);
        let has_rocm = row.old_rocm.is_empty()
            || rocm::amd_releases(facts, image.stage)
                .any(|release| row.old_rocm.iter().any(|old| old.contains(&release)));
        let is_its_build = row.commands.iter().all(|pattern| runs(facts, image.stage, pattern))
            && !row.except_commands.iter().any(|pattern| runs(facts, image.stage, pattern));
        // A stage that only compiles needs no driver.
        let is_for_use = row.row.rule != "mesa-too-old"
            || last_stages(facts, facts.instructions()).contains(&image.stage);
        let is_wanted = has_option && has_variable && has_rocm && is_its_build && is_for_use;
        // A private registry can have other tags.
        let is_private = row.row.rule == "image-tag-missing" && !is_public(&image.reference);
        if !is_wanted || is_private {
            continue;
        }
        let message = row.row.message.replace("{image}", reference);
        let sure = facts.target().matches(&row.row.gpus, context);
        let hit = Hit::new(&row.row.rule, line, message).of(&row.row);
        let hit = if is_certain { hit } else { hit.at_most(Severity::Warning) };
        if let Some(hit) = for_gpu(hit, sure) {
            found.hit(hit);
        }
    }
    if path.contains("rocm")
        && let Some(release) = rocm_of(path, tag)
    {
        let message = format!("`{reference}` contains ROCm {release}");
        let named = rocm::Named { release, line, is_series: false, is_word: false, message };
        rocm::judge(named, facts, context, found);
    }
}

/// Returns whether a reference names a public registry, or none.
fn is_public(reference: &str) -> bool {
    let Parts { name, path, has_registry, .. } = parts(reference);
    let registry = name.strip_suffix(path).unwrap_or_default();
    !has_registry || ["docker.io/", "ghcr.io/"].iter().any(|one| registry.starts_with(one))
}

/// Returns whether a container with these options has what a row needs, and not what it excludes.
fn is_with_options(row: &ImageRow, options: &[Word]) -> bool {
    let has = |pattern: &String| options.iter().any(|one| matches(pattern, &one.text));
    row.option.as_ref().is_none_or(has) && !row.except_option.as_ref().is_some_and(has)
}

/// Returns whether the container has an option with which a row does not apply.
fn has_other_option(row: &ImageRow, options: &[Word]) -> bool {
    let has = |pattern: &String| options.iter().any(|one| matches(pattern, &one.text));
    row.except_option.as_ref().is_some_and(has)
}

/// Returns whether a row is about images that cannot use /dev/kfd.
fn is_without_rocm(row: &ImageRow) -> bool {
    matches!(row.row.rule.as_str(), "image-without-rocm" | "ollama-without-rocm")
        && row.option.is_some()
}

/// Returns whether an image is built for other GPUs than AMD's.
pub(super) fn is_for_others(reference: &str) -> bool {
    let tag = parts(reference).tag.unwrap_or_default();
    let names = names(reference);
    let mut rows = data().images.iter().filter(|row| is_without_rocm(row));
    rows.any(|row| row.row.rule == "image-without-rocm" && is_about(row, &names, tag))
}

/// Returns whether the name of a compose file says that it is for AMD GPUs, although the file passes
/// none to its containers.
fn is_for_amd(facts: &Facts<'_>) -> bool {
    let name = facts.file.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let is_named = words.any(|word| matches!(word, "amd" | "amdgpu" | "rocm"));
    if facts.kind != Kind::Compose || !is_named {
        return false;
    }
    let passes = ["/dev/kfd", "/dev/dri", "privileged", "devices:", "extends:"]
        .iter()
        .any(|text| facts.code.contains(text));
    !passes
}

/// Checks a service whose image is named only in the base file, and whose options are not.
pub(super) fn in_base(
    facts: &Facts<'_>,
    merged: &Container,
    own: &Container,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let (Some(base), None, Some(image)) = (&own.base, &own.image, &merged.image) else { return };
    let Parts { tag, has_digest, .. } = parts(&image.text);
    let names = names(&image.text);
    let is_only_digest = has_digest && tag.is_none();
    let rows = data().images.iter().filter(|row| row.option.is_some() && !is_only_digest);
    for row in rows.filter(|row| is_about(row, &names, tag.unwrap_or_default())) {
        if is_with_options(row, &merged.options) && !is_with_options(row, &base.options) {
            let message = row.row.message.replace("{image}", &image.text);
            let sure = facts.target().matches(&row.row.gpus, context);
            let hit = Hit::new(&row.row.rule, image.line, message).of(&row.row);
            if let Some(hit) = for_gpu(hit, sure) {
                found.hit(hit);
            }
        }
    }
}

/// Returns the names that rows use for an image: its path, and `docker.io/PATH` if it is on Docker
/// Hub.
fn names(reference: &str) -> Vec<String> {
    let Parts { name, path, has_registry, .. } = parts(reference);
    let is_on_hub = !has_registry || name.starts_with("docker.io/");
    let hub = is_on_hub.then(|| format!("docker.io/{path}"));
    std::iter::once(path.to_owned()).chain(hub).collect()
}

/// Returns whether a row applies to an image with one of these names, and this tag.
fn is_about(row: &ImageRow, names: &[String], tag: &str) -> bool {
    let is_named = names.iter().any(|name| matches_any(&row.repositories, name));
    let has_repository = row.repositories.is_empty() || is_named;
    let has_tag = row.tags.is_empty() || matches_any(&row.tags, tag);
    has_repository && has_tag && !matches_any(&row.except, tag)
}

/// Returns whether a stage runs a command that matches a pattern.
fn runs(facts: &Facts<'_>, stage: usize, pattern: &str) -> bool {
    facts.commands.iter().filter(|command| command.stage == stage).any(|command| {
        let words: Vec<&str> = command.texts();
        matches(pattern, &words.join(" "))
    })
}

/// Returns the release of a package in the tag of an image: `vllm_0.11.2` anywhere, or `v0.11.2` if
/// the image has the package's name.
pub(super) fn release_of<'a>(reference: &'a str, package: &str) -> Option<&'a str> {
    let Parts { path, tag, .. } = parts(reference.split(' ').next().unwrap_or_default());
    let tag = tag?;
    let rest = match tag.find(package) {
        Some(at) => &tag[at + package.len()..],
        None if path.contains(package) => tag,
        None => return None,
    };
    let rest = rest.strip_prefix("_release").unwrap_or(rest).trim_start_matches(['-', '_', 'v']);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let release = rest[..end].trim_end_matches('.');
    release.contains('.').then_some(release)
}

/// Returns the ROCm release of an image.
pub(super) fn rocm_in(reference: &str) -> Option<&str> {
    let Parts { path, tag, .. } = parts(reference);
    rocm_of(path, tag.unwrap_or_default()).filter(|_| path.contains("rocm"))
}

/// Returns whether a tag of AMD's `rocm/dev-*` images has all libraries of ROCm: it ends in
/// `-complete`, since ROCm 7.14 in `-full`.
pub(super) fn has_all_libraries(tag: &str) -> bool {
    tag.contains("complete") || tag.ends_with("-full")
}

/// Returns the ROCm release in a tag: `rocm7.1.1_…`, `6.4.1-complete`.
fn rocm_of<'a>(path: &str, tag: &'a str) -> Option<&'a str> {
    let at = match tag.find("rocm") {
        Some(at) => at + "rocm".len(),
        None if path.starts_with("rocm/dev-") || path.starts_with("rocm/rocm-terminal") => 0,
        None => return None,
    };
    let rest = tag[at..].trim_start_matches(['-', '_']);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let release = rest[..end].trim_end_matches('.');
    release.contains('.').then_some(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_repositories_or_tags_is_about_all() {
        let rule = "[rule.a]\nseverity = \"error\"\ntitle = \"t\"\nfact = \"F.\"\nadvice = \"a\"\nsource = \"s\"\nknown = \"vendor\"\nchecked = 2026-11-20\n";
        let cases = [
            ("", [true, true, true]),
            ("repositories = [\"a/b\"]\n", [true, true, false]),
            ("tags = [\"1*\"]\n", [true, false, true]),
            ("except = [\"1*\"]\n", [false, true, false]),
        ];
        for (keys, expected) in cases {
            let text =
                format!("schema = 1\n{rule}[image.x]\n{keys}rule = \"a\"\nmessage = \"m\"\n");
            let data = crate::data::parse("lint.toml", &text).unwrap();
            let found = [("a/b", "1.2"), ("a/b", ""), ("c", "1.2")];
            let found = found.map(|(path, tag)| is_about(&data.images[0], &names(path), tag));
            assert_eq!(found, expected, "{keys}");
        }
    }
}
