//! Rules for images: names, tags, and known problems.

use super::is_old_rocm;
use crate::facts::Image;
use crate::shell::UNKNOWN;
use crate::{Facts, Findings};

/// The parts of a reference that the rules need.
#[derive(Debug)]
struct Parts<'a> {
    /// With the registry, if there is one.
    name: &'a str,
    /// Without the registry and without `library/`.
    path: &'a str,
    has_registry: bool,
    tag: Option<&'a str>,
    has_digest: bool,
}

fn parts(reference: &str) -> Parts<'_> {
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

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for image in &facts.images {
        let reference = image.reference.trim();
        let is_local = reference.starts_with("localhost/")
            || reference.contains(UNKNOWN)
            || reference.contains('$');
        if reference.is_empty() || reference == "scratch" || is_local {
            continue;
        }
        general(facts, image, found);
        known(facts, image, found);
    }
}

fn general(facts: &Facts<'_>, image: &Image, found: &mut Findings<'_>) {
    let Parts { name, path, has_registry, tag, has_digest } = parts(&image.reference);
    let line = image.line;
    // An image that the script builds itself is not pulled.
    if !name.contains('/') && builds(facts, name) {
        return;
    }
    if !has_registry {
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
    match tag {
        None | Some("latest" | "nightly" | "rawhide" | "dev" | "main" | "edge") => {
            found.add(
                "image-latest",
                line,
                format!("`{}` can be a different image every day", image.reference),
            );
        }
        Some(tag) => {
            found.add(
                "image-unpinned",
                line,
                format!("`{name}` has the tag `{tag}`, but no digest"),
            );
        }
    }
}

/// Returns whether the file itself builds an image with that name.
fn builds(facts: &Facts<'_>, name: &str) -> bool {
    facts.commands.iter().any(|command| {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        words.contains(&"build")
            && words.windows(2).any(|two| {
                matches!(two[0], "-t" | "--tag") && two[1].split(':').next() == Some(name)
            })
    })
}

fn known(facts: &Facts<'_>, image: &Image, found: &mut Findings<'_>) {
    let Parts { path, tag, has_digest, .. } = parts(&image.reference);
    let (line, reference) = (image.line, &image.reference);
    let tag = tag.unwrap_or_default();
    if path == "rocm/vllm-dev" {
        found.add("vllm-dev-discontinued", line, format!("`{reference}` is no longer built"));
        let is_candidate = tag.rsplit(['_', '-']).next().is_some_and(|last| last.contains("rc"));
        if is_candidate {
            found.add("release-candidate-image", line, format!("`{tag}` is a release candidate"));
        }
    }
    let has_rocm = tag == "rocm" || tag.ends_with("-rocm") || has_digest && tag.is_empty();
    if path == "ollama/ollama" && facts.has_kfd && !has_rocm {
        found.add(
            "ollama-without-rocm",
            line,
            format!("`{reference}` is given /dev/kfd, but contains no ROCm"),
        );
    }
    if path.starts_with("rocm/") || path.contains("rocm") {
        match rocm_of(path, tag) {
            Some(release) if is_old_rocm(release) => {
                found.add("rocm-too-old", line, format!("`{reference}` contains ROCm {release}"));
            }
            Some("7.2" | "7.2.0") => {
                found.add("rocm-7-2-0", line, format!("`{reference}` contains ROCm 7.2.0"));
            }
            Some(_) | None => {}
        }
    }
    let is_fedora = matches!(path, "fedora" | "fedora/fedora" | "fedora-toolbox");
    if is_fedora
        && (tag == "43" || tag == "rawhide" || tag == "latest" || tag.is_empty())
        && !has_digest
    {
        found.add("fedora-release", line, format!("`{reference}`"));
    }
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
    (!release.is_empty()).then_some(release)
}
