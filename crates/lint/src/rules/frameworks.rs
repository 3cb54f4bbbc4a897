//! Rules for what surrounds a framework in an image: packages that replace or bring torch, and SDKs.

use std::collections::BTreeSet;

use super::images::{self, Parts};
use super::packages::names_rocm;
use super::requirements::torch_of_base;
use super::stages::{COMPILES, command_of, instruction_of, is_rocm_torch};
use crate::data::{CouplingRow, data};
use crate::facts::Package;
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN, Word};
use crate::specifier::requirement;
use crate::{Facts, Findings, Hit, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        replaced(facts, found);
    }
    if facts.kind != Kind::Dockerfile {
        return;
    }
    outgrown(facts, found);
    whole(facts, found);
    for_ollama(facts, found);
}

/// Packages that require one release of torch.
const EXACT: [&str; 3] = ["chatterbox-tts", "sglang", "whisperx"];

/// Options with which pip takes packages from elsewhere, or keeps what is installed.
pub(super) const OTHER: [&str; 9] = [
    "--constraint",
    "--default-index",
    "--extra-index-url",
    "--find-links",
    "--index",
    "--index-url",
    "--no-deps",
    "--no-index",
    "--torch-backend",
];

/// Settings and files that can change what pip installs.
pub(super) const SETTINGS: [&str; 8] = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CONFIG",
    "PIP_CONSTRAINT",
    "PIP_FIND_LINKS",
    "UV_",
    "pip.conf",
    "pip config",
];

/// Returns whether a command installs from the default index, without constraints.
pub(super) fn is_plain(command: &ShellCommand) -> bool {
    let is_other = |text: &str| {
        OTHER.contains(&text.split('=').next().unwrap_or(text))
            || matches!(text, "-c" | "-f" | "-i" | "-t" | "--target")
            || text.contains("://")
    };
    !command.words.iter().any(|word| is_other(&word.text)) && !names_rocm(command)
}

/// Checks for packages that require one release of torch, and come after a ROCm build of it.
fn replaced(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if SETTINGS.iter().any(|one| facts.text.contains(one)) || has_environments(facts) {
        return;
    }
    let is_before = |package: &Package, other: &Package| {
        other.stage == package.stage
            && other.command < package.command
            && other.version.is_none()
            && is_rocm_torch(facts, other)
    };
    let has_torch = |package: &Package| {
        let base = facts.base(package.stage).map(|one| images::parts(&one.base).path);
        base == Some("rocm/pytorch") || facts.packages.iter().any(|one| is_before(package, one))
    };
    let is_wanted = |one: &&Package| {
        EXACT.contains(&one.name.as_str()) && one.version.is_none() && !one.is_special
    };
    // A script can install the right release again.
    let is_repaired = |package: &Package| {
        let is_after =
            |other: &&Package| other.stage == package.stage && other.command > package.command;
        facts.packages.iter().filter(is_after).any(|other| is_rocm_torch(facts, other))
    };
    for package in facts.packages.iter().filter(is_wanted) {
        let is_own = |one: &ShellCommand| is_plain(one) && !one.is_for_other;
        let is_open = command_of(facts, package).is_some_and(is_own);
        if is_open && has_torch(package) && !is_repaired(package) {
            let message = format!(
                "`{}` requires one release of torch, and pip takes that one from the default index",
                package.name
            );
            let hit = Hit::new("torch-replaced", package.line, message);
            // Its wheels have CUDA kernels, so a constraint does not help.
            let help = "use SGLang's image for ROCm, or build SGLang from source for ROCm; the package requires CUDA kernels";
            return found.hit(if package.name == "sglang" { hit.help(help) } else { hit });
        }
    }
}

/// Checks for a requirement that the torch of a rocm/pytorch image does not meet.
fn outgrown(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.code.contains("/whl/") {
        return;
    }
    for (at, stage) in facts.stages.iter().enumerate() {
        let base = stage.base.as_str();
        let is_rocm = images::parts(base).path == "rocm/pytorch" && !base.contains(UNKNOWN);
        let Some(own) = images::release_of(base, "pytorch").filter(|_| is_rocm) else { continue };
        let is_open = |one: &&ShellCommand| {
            one.stage == at + 1
                && is_pip(&one.texts())
                && is_plain(one)
                && !one.is_for_other
                && torch_of_base(facts, one).is_some()
        };
        let open = || facts.commands.iter().filter(is_open);
        if let Some(word) = open().find_map(upgraded) {
            let message = format!("`--upgrade` can replace the torch {own} of `{base}`");
            return found.add("torch-replaced", word.line, message);
        }
        let words = open().flat_map(|one| &one.words);
        let mut wanted = words.filter_map(|word| Some((word.line, unmet(&word.text, own)?)));
        if let Some((line, limit)) = wanted.next() {
            let message =
                format!("pip replaces the torch {own} of `{base}`, because {limit} is required");
            return found.add("torch-replaced", line, message);
        }
    }
}

/// Returns the torch in a command that upgrades it.
fn upgraded(command: &ShellCommand) -> Option<&Word> {
    let options = ["--force-reinstall", "--upgrade", "-U"];
    let is_upgrade = command.words.iter().any(|word| options.contains(&word.text.as_str()));
    command.words.iter().find(|word| word.text == "torch").filter(|_| is_upgrade)
}

/// Returns a requirement that a release of torch does not meet: `torch>=2.4`.
fn unmet(text: &str, own: &str) -> Option<String> {
    for name in ["torchaudio", "torchvision"] {
        let version = text.strip_prefix(name).and_then(|rest| rest.strip_prefix("=="));
        let Some(version) = version.filter(|version| !version.contains('+')) else { continue };
        let is_its =
            |row: &&CouplingRow| row.with.get(name).is_some_and(|one| one.contains(version));
        let mut rows = data().couplings.iter().filter(is_its).peekable();
        let is_known = rows.peek().is_some();
        let meets = rows.any(|row| row.releases.iter().any(|one| one.contains(own)));
        return (is_known && !meets).then(|| format!("another torch for {name} {version}"));
    }
    let torch = requirement(text).filter(|one| one.name == "torch" && !one.is_special)?;
    let is_unmet = !torch.specifier.contains('+') && torch.allows(own) == Some(false);
    is_unmet.then(|| format!("torch{}", torch.specifier))
}

/// Returns whether a script creates several Python environments, so that packages may be in
/// different ones.
fn has_environments(facts: &Facts<'_>) -> bool {
    let creates = |one: &&ShellCommand| {
        let has = |text: &str| one.words.iter().any(|word| word.text == text);
        has("venv") || has("virtualenv") || one.words[0].text == "conda" && has("create")
    };
    let created = facts.commands.iter().filter(creates);
    let folders: BTreeSet<&str> =
        created.filter_map(|one| one.words.last()).map(|word| word.text.as_str()).collect();
    facts.kind == Kind::Shell && folders.len() > 1
}

/// Packages with the whole of ROCm's libraries or compilers.
const ROCM_PACKAGES: [&str; 8] = [
    "rocm",
    "rocm-dev",
    "rocm-developer-tools",
    "rocm-hip-libraries",
    "rocm-hip-sdk",
    "rocm-libs",
    "rocm-ml-sdk",
    "rocm-opencl-sdk",
];

/// Checks for ROCm that is installed for Ollama, which brings its own.
fn for_ollama(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let is_ollama = has(&["ollama.com/install.sh", "ollama-linux-amd64", "from=ollama/ollama"]);
    // Another program may use it.
    let has_other = has(&[
        "torch",
        "llama.cpp",
        "vllm",
        "hipcc",
        "cmake",
        "go build",
        "comfyui",
        "tensorflow",
        "onnxruntime",
    ]);
    if !is_ollama || has_other {
        return;
    }
    let whole = facts.commands.iter().find_map(|one| {
        let is_manager = matches!(one.words[0].text.as_str(), "apt" | "apt-get" | "dnf" | "yum");
        one.words
            .iter()
            .filter(|_| is_manager)
            .find(|word| ROCM_PACKAGES.contains(&word.text.as_str()))
    });
    if let Some(word) = whole {
        let message = format!("Ollama brings its own ROCm and does not use `{}`", word.text);
        found.add("rocm-twice", word.line, message);
    }
}

/// Checks for a last stage that starts from the whole SDK, and compiles nothing.
fn whole(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let last = facts.stages.len();
    let Some(image) = facts.images.iter().find(|one| one.stage == last).filter(|_| last > 1) else {
        return;
    };
    let Parts { path, tag, .. } = images::parts(&image.reference);
    let is_sdk = path.starts_with("rocm/dev-") && tag.is_some_and(images::has_all_libraries);
    let all = facts.instructions();
    let own: Vec<_> = all.iter().filter(|one| one.stage == last).collect();
    let is_copied = own.iter().any(|one| one.text.contains("--from="));
    let lower: Vec<String> = own.iter().map(|one| one.text.to_ascii_lowercase()).collect();
    let builds = ["pip install", "pip3 install", "uv ", ".sh", "git clone", "setup.py", "hipcc"];
    let is_run = |text: &&String| text.starts_with("run");
    let compiles = lower.iter().filter(is_run).any(|text| {
        let is_compiler = |word: &str| COMPILES.contains(&word);
        builds.iter().any(|one| text.contains(one)) || text.split_whitespace().any(is_compiler)
    });
    let is_shell = lower.iter().any(|text| text.starts_with("cmd") && text.contains("bash"));
    if is_sdk && is_copied && !compiles && !is_shell {
        let line = instruction_of(all, image.line).map_or(image.line, |one| one.line);
        let shown = image.reference.replace(UNKNOWN, "…");
        found.add("sdk-in-image", line, format!("the last stage starts from `{shown}`"));
    }
}
