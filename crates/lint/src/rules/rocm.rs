//! Rules for ROCm releases, wherever a file names one: tags, variables, packages, urls.

use std::collections::BTreeSet;

use super::for_gpu;
use crate::data::data;
use crate::shell::UNKNOWN;
use crate::target::Match;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// A ROCm release that a file names.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) release: &'a str,
    pub(super) line: usize,
    /// The rest of the message: "`X` contains ROCm 6.4".
    pub(super) message: String,
}

/// Compares a release with the rows about the file's GPU.
pub(super) fn judge(
    named: Named<'_>,
    facts: &Facts<'_>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let row = data()
        .rocm
        .iter()
        .find(|row| row.releases.iter().any(|releases| releases.contains(named.release)));
    let Some(row) = row else { return };
    let sure = facts.target.matches(&row.row.gpus, context);
    let message = match sure {
        Match::Unknown => {
            let gpus: Vec<&str> = row.row.gpus.iter().map(names::GpuTarget::as_str).collect();
            format!("{}; if the GPU is {}, it needs a newer one", named.message, gpus.join(" or "))
        }
        Match::No | Match::Possible | Match::Certain => named.message,
    };
    let mut hit = Hit::new(&row.row.rule, named.line, message).of(&row.row);
    // A pre-release is not the release that the source is about.
    if named.release.contains(|c: char| c.is_ascii_alphabetic()) {
        hit = hit.at_most(Severity::Warning);
    }
    if let Some(hit) = for_gpu(hit, sure) {
        found.hit(hit);
    }
}

/// Checks the urls of AMD's and PyTorch's package indexes.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let mut seen = BTreeSet::new();
    for (url, line, stage) in urls(facts) {
        let Some(release) = release_in(url) else { continue };
        // One finding for each release of a stage is enough.
        if seen.insert((stage, release)) {
            let message = format!("packages of ROCm {release} are installed");
            judge(Named { release, line, message }, facts, context, found);
        }
    }
}

/// Returns the ROCm releases of AMD's packages that a stage installs.
pub(super) fn amd_releases<'a>(
    facts: &'a Facts<'_>,
    stage: usize,
) -> impl Iterator<Item = &'a str> {
    urls(facts)
        .into_iter()
        .filter(move |(url, _, of)| *of == stage && url.contains(AMD))
        .filter_map(|(url, ..)| release_in(url))
}

const AMD: &str = "repo.radeon.com/";

/// Returns the words of commands and the requirements that contain urls: text, line, stage.
fn urls<'a>(facts: &'a Facts<'_>) -> Vec<(&'a str, usize, usize)> {
    let words = facts.commands.iter().flat_map(|command| {
        command.words.iter().map(move |word| (word.text.as_str(), word.line, command.stage))
    });
    let has_lines = facts.kind == Kind::Requirements;
    let lines = facts
        .lines()
        .filter(|(_, line)| has_lines && !line.trim_start().starts_with('#'))
        .map(|(number, line)| (line, number, 0));
    words.chain(lines).filter(|(text, ..)| text.contains("://")).collect()
}

/// Returns the ROCm release in a url of AMD's repositories or of PyTorch's index.
fn release_in(text: &str) -> Option<&str> {
    if let Some(at) = text.find(AMD) {
        let mut parts = text[at + AMD.len()..].split('/');
        let product = parts.next()?;
        if !matches!(product, "rocm" | "amdgpu-install" | "graphics") {
            return None;
        }
        return parts.find_map(|part| release(part.trim_start_matches("rocm-rel-")));
    }
    let at = text.find("download.pytorch.org/whl/")?;
    let rest = &text[at..];
    let at = rest.find("/rocm")?;
    release(rest[at + "/rocm".len()..].split(['/', ' ', '"', '\'']).next()?)
}

/// Returns a text if it starts with a release, cut after its numbers.
fn release(text: &str) -> Option<&str> {
    if text.contains(UNKNOWN) {
        return None;
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let release = text[..end].trim_end_matches('.');
    (release.contains('.') && release.starts_with(|c: char| c.is_ascii_digit())).then_some(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_found_in_urls() {
        for (url, expected) in [
            ("https://repo.radeon.com/rocm/apt/6.4.1", Some("6.4.1")),
            ("deb [arch=amd64] https://repo.radeon.com/rocm/apt/7.1 noble main", Some("7.1")),
            ("https://repo.radeon.com/amdgpu-install/6.3.4/ubuntu/x.deb", Some("6.3.4")),
            ("https://repo.radeon.com/rocm/manylinux/rocm-rel-7.2.1/a.whl", Some("7.2.1")),
            ("https://repo.radeon.com/rocm/el9/6.4/main", Some("6.4")),
            ("https://repo.radeon.com/amdgpu/30.20/ubuntu", None),
            ("https://repo.radeon.com/rocm/rocm.gpg.key", None),
            ("https://repo.radeon.com/rocm/apt/latest", None),
            ("https://repo.radeon.com/rocm/apt/\u{fffc}", None),
            ("https://download.pytorch.org/whl/rocm6.2", Some("6.2")),
            ("https://download.pytorch.org/whl/nightly/rocm7.0/", Some("7.0")),
            ("https://download.pytorch.org/whl/cu128", None),
            ("https://h.example/6.4", None),
        ] {
            assert_eq!(release_in(url), expected, "{url}");
        }
    }
}
