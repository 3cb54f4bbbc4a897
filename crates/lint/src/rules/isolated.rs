//! Python packages whose build needs the torch of the image, which pip's isolated build does not see.

use super::commands::{cloned_folder, join, plain};
use crate::facts::Package;
use crate::python::is_pip;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Hit, Kind};

/// Repositories whose build needs an installed torch, in lower case, and whether each pip builds them
/// in isolation. Older releases of pip do so only for projects with `pyproject.toml`.
const REPOSITORIES: [(&str, bool); 14] = [
    ("dao-ailab/causal-conv1d", true),
    ("dao-ailab/flash-attention", false),
    ("facebookresearch/detectron2", false),
    ("facebookresearch/pytorch3d", false),
    ("nvlabs/nvdiffrast", false),
    ("rocm/causal-conv1d", true),
    ("rocm/flash-attention", false),
    ("rocm/vllm", true),
    ("state-spaces/mamba", true),
    ("thu-ml/sageattention", false),
    ("turboderp-org/exllamav2", false),
    ("turboderp/exllamav2", false),
    ("vllm-project/flash-attention", true),
    ("vllm-project/vllm", true),
];

/// Packages that the default index has only as source, and whose build needs an installed torch.
const PACKAGES: [(&str, bool); 6] = [
    ("causal-conv1d", true),
    ("flash-attn", false),
    ("mamba-ssm", true),
    ("torch-cluster", false),
    ("torch-scatter", false),
    ("torch-sparse", false),
];

/// Texts, in lower case, of files that use a current pip.
const CURRENT: [&str; 6] =
    ["--upgrade pip", "-u pip", "-u --no-cache-dir pip", "install pip", ":latest", "uv pip"];

/// Texts, in lower case, of files that switch the isolation off, or install built packages.
const OTHER: [&str; 6] =
    ["build-isolation", "build_isolation", "no-use-pep517", "--no-index", ".whl", "find-links"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let is_file = matches!(facts.kind, Kind::Dockerfile | Kind::Shell);
    if !is_file || !lower.contains("rocm") || OTHER.iter().any(|text| lower.contains(text)) {
        return;
    }
    let is_current = CURRENT.iter().any(|text| lower.contains(text));
    let mut clones: Vec<(usize, String, Source)> = Vec::new();
    for (at, command) in facts.commands.iter().enumerate() {
        let words = command.texts();
        if let Some(folder) = cloned_folder(command) {
            let cloned = words.iter().find_map(|word| repository(word));
            clones.extend(cloned.map(|source| (command.stage, plain(&folder), source)));
            continue;
        }
        if !is_pip(&words) || !words.contains(&"install") || words.contains(&"-f") {
            continue;
        }
        let from_git =
            || words.iter().filter(|word| word.contains("git+")).find_map(|word| repository(word));
        let Some((name, _)) = from_git()
            .or_else(|| local(command, &clones))
            .or_else(|| named(facts, at))
            .filter(|(_, is_always)| *is_always || is_current)
        else {
            continue;
        };
        let short = name.rsplit('/').next().unwrap_or(name);
        let message = format!("the build of `{short}` does not see the torch that is installed");
        found.hit(Hit::new("build-isolated", command.words[0].line, message));
    }
}

/// A repository or package, and whether each pip builds it in isolation.
type Source = (&'static str, bool);

/// Returns the repository that a URL names.
fn repository(word: &str) -> Option<Source> {
    let lower = word.to_ascii_lowercase();
    let (_, path) = lower.split_once("github.com")?;
    let path = path.trim_start_matches(['/', ':']);
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '@', '/', '#', '"', '\'']);
    let is_its = |(one, _): &&Source| path.strip_prefix(one).is_some_and(ends);
    REPOSITORIES.iter().find(is_its).copied()
}

/// Returns the repository whose clone a command installs.
fn local(command: &ShellCommand, clones: &[(usize, String, Source)]) -> Option<Source> {
    let is_path = |word: &&str| word.starts_with(['.', '/']);
    let words = command.texts();
    let path = words.iter().skip(1).copied().find(is_path)?;
    let path = path.split('[').next().unwrap_or(path);
    let folder = plain(&join(&command.folder, path));
    let is_its = |(stage, clone, _): &&(usize, String, Source)| {
        *stage == command.stage
            && (folder == *clone
                || folder.ends_with(&format!("/{clone}"))
                || !folder.is_empty() && clone.ends_with(&format!("/{folder}")))
    };
    clones.iter().find(is_its).map(|(.., source)| *source)
}

/// Returns the package that a command installs from source.
fn named(facts: &Facts<'_>, at: usize) -> Option<Source> {
    let is_own = |one: &&Package| one.command == at + 1 && !one.is_special;
    let is_source = |one: &Package| PACKAGES.iter().find(|(name, _)| *name == one.name).copied();
    facts.packages.iter().filter(is_own).find_map(is_source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_its_whole_name() {
        for (word, expected) in [
            ("git+https://github.com/facebookresearch/detectron2.git", true),
            ("git+https://github.com/facebookresearch/detectron2@main", true),
            ("git@github.com:vllm-project/vllm.git", true),
            ("https://github.com/vllm-project/vllm-omni.git", false),
            ("https://gitlab.com/vllm-project/vllm", false),
        ] {
            assert_eq!(repository(word).is_some(), expected, "{word}");
        }
    }
}
