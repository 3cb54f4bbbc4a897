//! Python packages whose build needs the torch of the image, which pip's isolated build does not see.

use super::commands::{cloned_folder, join, plain};
use crate::facts::Package;
use crate::python::is_pip;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Hit, Kind};

/// Repositories whose build needs an installed torch, in lower case.
const REPOSITORIES: [&str; 15] = [
    "dao-ailab/causal-conv1d",
    "dao-ailab/flash-attention",
    "facebookresearch/detectron2",
    "facebookresearch/pytorch3d",
    "modelcloud/gptqmodel",
    "nvlabs/nvdiffrast",
    "rocm/causal-conv1d",
    "rocm/flash-attention",
    "rocm/vllm",
    "state-spaces/mamba",
    "thu-ml/sageattention",
    "turboderp-org/exllamav2",
    "turboderp/exllamav2",
    "vllm-project/flash-attention",
    "vllm-project/vllm",
];

/// Packages that the default index has only as source, and whose build needs an installed torch.
const PACKAGES: [&str; 6] =
    ["causal-conv1d", "flash-attn", "mamba-ssm", "torch-cluster", "torch-scatter", "torch-sparse"];

/// Texts, in lower case, of files that switch the isolation off, or install built packages.
const OTHER: [&str; 6] =
    ["build-isolation", "build_isolation", "no-use-pep517", "--no-index", ".whl", "find-links"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let is_file = matches!(facts.kind, Kind::Dockerfile | Kind::Shell);
    if !is_file || !lower.contains("rocm") || OTHER.iter().any(|text| lower.contains(text)) {
        return;
    }
    let mut clones: Vec<(usize, String, &'static str)> = Vec::new();
    for (at, command) in facts.commands.iter().enumerate() {
        let words = command.texts();
        if let Some(folder) = cloned_folder(command) {
            let cloned = words.iter().find_map(|word| repository(word));
            clones.extend(cloned.map(|name| (command.stage, plain(&folder), name)));
            continue;
        }
        if !is_pip(&words) || !words.contains(&"install") || words.contains(&"-f") {
            continue;
        }
        let from_git =
            || words.iter().filter(|word| word.contains("git+")).find_map(|word| repository(word));
        let Some(name) =
            from_git().or_else(|| local(command, &clones)).or_else(|| named(facts, at))
        else {
            continue;
        };
        let short = name.rsplit('/').next().unwrap_or(name);
        let message = format!("the build of `{short}` does not see the torch that is installed");
        found.hit(Hit::new("build-isolated", command.words[0].line, message));
    }
}

/// Returns the repository that a URL names.
fn repository(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    let (_, path) = lower.split_once("github.com")?;
    let path = path.trim_start_matches(['/', ':']);
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '@', '/', '#', '"', '\'']);
    let is_its = |one: &&&str| path.strip_prefix(**one).is_some_and(ends);
    REPOSITORIES.iter().find(is_its).copied()
}

/// Returns the repository whose clone a command installs.
fn local(command: &ShellCommand, clones: &[(usize, String, &'static str)]) -> Option<&'static str> {
    let is_path = |word: &&str| word.starts_with(['.', '/']);
    let words = command.texts();
    let path = words.iter().skip(1).copied().find(is_path)?;
    let path = path.split('[').next().unwrap_or(path);
    let folder = plain(&join(&command.folder, path));
    let is_its = |(stage, clone, _): &&(usize, String, &str)| {
        *stage == command.stage
            && (folder == *clone
                || folder.ends_with(&format!("/{clone}"))
                || !folder.is_empty() && clone.ends_with(&format!("/{folder}")))
    };
    clones.iter().find(is_its).map(|(.., name)| *name)
}

/// Returns the package that a command installs from source.
fn named(facts: &Facts<'_>, at: usize) -> Option<&'static str> {
    let is_own = |one: &&Package| one.command == at + 1 && !one.is_special;
    let is_source = |one: &Package| PACKAGES.iter().find(|name| **name == one.name).copied();
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
