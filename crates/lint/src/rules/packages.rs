//! Rules for Python packages: versions that do not exist, mixed indexes, and incompatible packages.

use std::collections::BTreeMap;

use super::is_old_rocm;
use crate::facts::{Package, is_pip};
use crate::{Context, Facts, Findings};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let versions: BTreeMap<String, String> = facts
        .packages
        .iter()
        .filter_map(|package| Some((package.name.clone(), package.version.clone()?)))
        .collect();
    for package in &facts.packages {
        one(package, &versions, context, found);
    }
    for command in &facts.commands {
        indexes(facts, command, found);
    }
    together(facts, context, &versions, found);
}

fn one(
    package: &Package,
    all: &BTreeMap<String, String>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let Package { name, extras, version, line } = package;
    let line = *line;
    if name == "huggingface-hub"
        && extras.iter().any(|extra| extra == "cli" || extra == "hf_transfer")
    {
        found.add_with(
            "no-such-version",
            line,
            format!("`{name}` has no extra `{}`", extras.join(",")),
            "install `huggingface-hub` without extras; the command `hf` is part of it",
        );
    }
    if name == "amdsmi" {
        found.add("amdsmi-from-index", line, "`amdsmi` is installed from a package index");
    }
    let Some(version) = version else { return };
    let never = [("torch", "2.5.0+rocm6.3"), ("lm-format-enforcer", "0.4.5"), ("vllm", "0.10.3")];
    let is_never = never.contains(&(name.as_str(), version.as_str()))
        || name == "aioprometheus" && version.starts_with("0.16");
    if is_never {
        found.add("no-such-version", line, format!("there is no `{name}` `{version}`"));
    } else if let Some(compat) = context.compat {
        for (row, bad) in compat.bad(name, version, all) {
            found.add_with(
                "known-bad-version",
                line,
                format!("`{name}` `{version}`: {} [{row}]", bad.why),
                format!("use {}", bad.instead),
            );
        }
    }
    if let Some(rocm) =
        version.split_once("+rocm").map(|(_, rocm)| rocm).filter(|rocm| is_old_rocm(rocm))
    {
        found.add("rocm-too-old", line, format!("`{name}` `{version}` is built for ROCm {rocm}"));
    }
}

fn indexes(facts: &Facts<'_>, command: &crate::shell::ShellCommand, found: &mut Findings<'_>) {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    if !is_pip(&words) || !words.contains(&"install") {
        return;
    }
    let line = command.words[0].line;
    let is_rocm = words.iter().any(|word| {
        let word = word.to_ascii_lowercase();
        word.contains("rocm") || word.contains("repo.radeon.com") || word.contains("amd.com")
    });
    let has_extra = words.iter().any(|word| word.starts_with("--extra-index-url"));
    let has_torch = facts
        .packages
        .iter()
        .any(|p| p.name == "torch" && words.iter().any(|w| w.starts_with("torch")));
    let unpinned =
        facts.packages.iter().find(|package| package.line >= line && package.version.is_none());
    let is_hashed = words.iter().any(|word| {
        *word == "--require-hashes"
            || *word == "-r"
            || word.starts_with("--requirement")
            || *word == "-c"
    });
    if let Some(package) = unpinned
        .filter(|package| !is_hashed && command.words.iter().any(|w| w.line == package.line))
    {
        found.add(
            "index-unpinned",
            package.line,
            format!("`{}` is installed without a version", package.name),
        );
    }
    if has_extra && (has_torch || is_rocm) {
        found.add("extra-index-url", line, "the ROCm index and the default index are merged");
    }
}

/// Checks torch together with torchvision and torchaudio.
fn together(
    facts: &Facts<'_>,
    context: Context<'_>,
    all: &BTreeMap<String, String>,
    found: &mut Findings<'_>,
) {
    let Some(torch) = all.get("torch") else { return };
    let line = |name: &str| {
        facts.packages.iter().find(|package| package.name == name).map_or(1, |p| p.line)
    };
    for (name, message) in mismatches(torch, all, context.compat) {
        found.add("packages-do-not-match", line(&name), message);
    }
}

/// Returns the packages that do not match a release of torch, with the reasons.
pub(super) fn mismatches(
    torch: &str,
    all: &BTreeMap<String, String>,
    compat: Option<&::pins::Compat>,
) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let stamp = |version: &str| version.split_once('+').map(|(_, stamp)| stamp.to_owned());
    let row = compat.and_then(|compat| compat.coupling("torch", torch));
    for name in ["torchvision", "torchaudio"] {
        let Some(version) = all.get(name) else { continue };
        if stamp(version) != stamp(torch) {
            wrong.push((
                name.to_owned(),
                format!("`{name}` `{version}` and `torch` `{torch}` have different ROCm stamps"),
            ));
        } else if let Some(wanted) =
            row.and_then(|row| row.with.get(name)).filter(|wanted| !wanted.contains(version))
        {
            wrong.push((
                name.to_owned(),
                format!(
                    "`{name}` `{version}` does not match `torch` `{torch}`, which needs {wanted}"
                ),
            ));
        }
    }
    wrong
}
