//! Packages that the release of the distribution does not have.

use pins::Known;

use super::images::{parts as parts_of, path_and_tag, released};
use super::programs::{is_conditional, packages};
use super::stages::{by_instruction, commands_of, fixed_base, parent, parts};
use crate::data::{Evidence, GoneRow, ReleaseRow, data, distribution, matches_any};
use crate::dockerfile::{Instruction, instructions};
use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// How the names of packages begin that only AMD and distributions have.
const ROCM: &str = "rocm-";

/// Checks for names of packages that no source of packages for ROCm has.
fn of_amd(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for command in facts.commands.iter().filter(|one| one.words[0].text.starts_with("apt")) {
        let texts = command.texts();
        let is_install = texts.contains(&"install") && command.keywords.is_empty();
        for package in packages(&texts).filter(|_| is_install).unwrap_or_default() {
            let plain = package.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let is_unknown = package.starts_with(ROCM)
                && is_name(package)
                && !matches_any(&data().rocm_packages, plain)
                && distribution::packages().lists_of(package).is_empty();
            let at = command.words.iter().find(|word| word.text.starts_with(package));
            let line = at.map_or(command.words[0].line, |word| word.line);
            if is_unknown && !found.places().contains(&(line, "package-gone")) {
                let message = format!("neither AMD nor the distribution has a package `{package}`");
                let help = "install `rocm-dev` to build for ROCm, `rocm-hip-runtime` to run programs; ROCm's documentation, \"Package manager integration\", lists the packages";
                found.hit(Hit::new("package-gone", line, message).help(help));
            }
        }
    }
}

/// Texts that show that a file adds package sources of its own.
const OTHER_SOURCES: [&str; 18] = [
    ".deb",
    ".sh",
    "| bash",
    "| sh",
    "PPA",
    "/etc/apt",
    "add-apt-repository",
    "apt-add-repository",
    "amdgpu-install",
    "deb [",
    "deb http",
    "extrepo",
    "ppa:",
    "setup_",
    "snapshot.debian",
    "snapshot.ubuntu",
    "sources.list",
    "debian.sources",
];

/// Checks the packages that a Dockerfile installs, and those of a script for its image.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => in_build(facts, found),
        Kind::Shell => in_script(facts, context, found),
        _ => return,
    }
    of_amd(facts, found);
}

/// Checks the packages that a Dockerfile installs.
fn in_build(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    // Whether each stage has other sources so far.
    let last = all.iter().map(|one| one.stage).max().unwrap_or_default();
    let mut has_sources = vec![false; last + 1];
    for own in all {
        let name = parts(own).0;
        if name == "FROM" {
            let earlier = parent(facts, all, own.stage);
            has_sources[own.stage] = earlier.is_some_and(|earlier| has_sources[earlier]);
        }
        if matches!(name.as_str(), "RUN" | "COPY" | "ADD") && adds_sources(own, &name) {
            has_sources[own.stage] = true;
        }
        if has_sources[own.stage] || is_conditional(&own.text) {
            continue;
        }
        let fixed = fixed_base(facts, all, own.stage);
        // The caller can choose another base than the default.
        let is_default = fixed.is_empty();
        let default = || facts.base(own.stage).map_or("", |stage| stage.base.as_str());
        let base = if is_default { default() } else { fixed };
        let Some(image) = Image::of(base) else { continue };
        for command in commands_of(&commands, own) {
            for hit in missing(command, image) {
                found.hit(if is_default { hit.at_most(Severity::Warning) } else { hit });
            }
        }
    }
}

/// Returns whether an instruction can add package sources.
fn adds_sources(own: &Instruction, name: &str) -> bool {
    let may_run = name == "RUN" && starts_script(&own.text);
    OTHER_SOURCES.iter().any(|text| own.text.contains(text) && (may_run || *text != ".sh"))
}

/// An image whose release of a distribution is known.
#[derive(Debug, Clone, Copy)]
struct Image {
    release: &'static ReleaseRow,
    /// Whether it can have package sources of its own.
    has_others: bool,
    /// Whether its sources are those of the distribution, and of the vendor of its GPU.
    is_plain: bool,
    /// The same, but the vendor's sources can also have another Python.
    has_known_sources: bool,
}

impl Image {
    fn of(reference: &str) -> Option<Self> {
        let release = released(reference)?;
        let has_others = parts_of(reference).path.contains('/');
        let is_plain = !has_others || matches_any(&data().without_lists, &path_and_tag(reference));
        let is_of_amd = parts_of(reference).path.starts_with("rocm/");
        let has_known_sources = is_plain || is_of_amd;
        Some(Self { release, has_others, is_plain, has_known_sources })
    }

    /// Returns whether a row applies to a package in this image.
    fn may_lack(self, row: &GoneRow, package: &str) -> bool {
        let is_of_vendor = VENDORS.iter().any(|start| package.starts_with(start));
        !row.is_elsewhere || !self.has_others || self.is_plain && !is_of_vendor
    }
}

/// How the packages of vendors of GPUs begin.
const VENDORS: [&str; 17] = [
    "amd",
    "comgr",
    "composablekernel",
    "cuda",
    "half",
    "hip",
    "hsa",
    "lib",
    "miopen",
    "migraphx",
    "mivisionx",
    "nccl",
    "nv",
    "openmp-extras",
    "rccl",
    "roc",
    "rpp",
];

/// Programs that do not start the scripts that they name.
const QUIET: [&str; 7] = ["chmod", "chown", "cp", "dos2unix", "ln", "mv", "rm"];

/// Returns whether a `RUN` may start a script: it names one, and not only to change its mode or place.
fn starts_script(run: &str) -> bool {
    let text = run.strip_prefix("RUN").unwrap_or(run);
    let parts = text.split(['&', ';', '|']).filter(|part| part.contains(".sh"));
    parts.into_iter().any(|part| {
        let first = part.split_whitespace().next().unwrap_or_default();
        !QUIET.contains(&first)
    })
}

/// Returns the violations of a command that installs packages.
fn missing(command: &ShellCommand, image: Image) -> Vec<Hit<'static>> {
    let texts = command.texts();
    let mut hits = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    for package in packages(&texts).unwrap_or_default() {
        // One finding is enough for `python3.12` and `python3.12-venv`.
        let is_part =
            |one: &&str| package.starts_with(one) && package[one.len()..].starts_with('-');
        if reported.iter().any(is_part) {
            continue;
        }
        let Some(lack) = lacks(image, package, &texts) else { continue };
        reported.push(package);
        let at = command.words.iter().find(|word| word.text.starts_with(package));
        let line = at.map_or(command.words[0].line, |word| word.line);
        let release = &image.release.name;
        let hit = |message| Hit::new("package-gone", line, message);
        let guess = || {
            let text =
                format!("no release of Debian has a package `{package}`, and so hardly {release}");
            let help = "correct the name, or add the package source that has it; packages.ubuntu.com lists Ubuntu's packages";
            hit(text).help(help).at_most(Severity::Warning)
        };
        let hit = hit(format!("{release} has no package `{package}`"));
        hits.push(match lack {
            Help::Guess => guess().evidence(Some(&evidence())),
            Help::Row(Some(text)) => hit.help(text),
            Help::Row(None) => hit,
            Help::List(text) => hit.help(text).evidence(Some(&evidence())),
        });
    }
    hits
}

/// What to do instead of the installation of a package, and who says so.
enum Help {
    Row(Option<String>),
    List(String),
    Guess,
}

/// Returns the source of what the list of Debian's packages says.
fn evidence() -> Evidence {
    Evidence {
        source: "the package lists of Debian's releases".to_owned(),
        known: Known::Vendor,
        checked: distribution::packages().date.clone(),
    }
}

/// Returns what to do if the release of an image lacks a package: a row says so, or Debian's list.
fn lacks(image: Image, package: &str, words: &[&str]) -> Option<Help> {
    let release = image.release.name.as_str();
    let is_about = |row: &&GoneRow| {
        row.releases.iter().any(|one| one == release)
            && matches_any(&row.packages, package)
            && image.may_lack(row, package)
    };
    if let Some(row) = data().gone.iter().find(is_about) {
        return Some(Help::Row(row.instead.clone()));
    }
    let from_other = words.iter().any(|word| {
        ["-t", "--target-release"].iter().any(|option| word.starts_with(option))
            || word.contains("Default-Release")
    });
    let is_install = words.contains(&"install") && words[0].starts_with("apt");
    if !is_install || from_other || !image.has_known_sources || !is_name(package) {
        return None;
    }
    if release.starts_with(UBUNTU) {
        return may_be_nowhere(package).then_some(Help::Guess);
    }
    let known = distribution::packages();
    let lists = known.lists_of(package);
    if !known.knows(release) || lists.contains(&release) {
        return None;
    }
    if lists.iter().any(|list| list.starts_with(release)) {
        let text = "add `contrib non-free non-free-firmware` to the components of the package source, which are only `main` in images";
        return Some(Help::List(text.to_owned()));
    }
    if let Some(near) = known.near(release, package) {
        return Some(Help::List(format!("install `{near}`")));
    }
    let others: Vec<&str> = lists.into_iter().filter(|list| !list.contains(',')).collect();
    Some(if others.is_empty() {
        let text = "correct the name, or add the package source that has it; packages.debian.org lists Debian's packages";
        Help::List(text.to_owned())
    } else {
        Help::List(format!("these have it: {}", others.join(", ")))
    })
}

/// The distribution that takes most of its packages from Debian.
const UBUNTU: &str = "Ubuntu";

/// Returns whether Ubuntu has a package hardly, because no release of Debian has it: it is no package
/// of a vendor, its name has no version, and no table shows that Ubuntu has it.
fn may_be_nowhere(package: &str) -> bool {
    let name = package.strip_prefix("python3-").unwrap_or(package);
    let is_versioned = name.bytes().any(|byte| byte.is_ascii_digit());
    let is_of_vendor = VENDORS.iter().any(|start| *start != "lib" && package.starts_with(start));
    let is_listed = data().brings.contains_key(package)
        || data().gone.iter().any(|row| matches_any(&row.packages, package))
        || matches_any(&data().ubuntu_packages, package);
    !is_versioned
        && !is_of_vendor
        && !is_listed
        && distribution::packages().lists_of(package).is_empty()
}

/// Returns whether a word is the name of a package, and neither a pattern nor a removal, and not for
/// another architecture. Patterns of Debian's list of internal packages are not in it.
fn is_name(word: &str) -> bool {
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.')
    };
    let is_internal = word.starts_with("librust-") || word.starts_with("libghc-");
    word.len() > 1
        && word.bytes().all(is_plain)
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !word.ends_with(['-', '.'])
        && !is_internal
        && (!word.ends_with('+') || word.ends_with("++"))
}

/// Checks the packages of a script that runs in the image of the Dockerfile beside it.
fn in_script(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let is_open = ["sudo", "os-release", "lsb_release", "codename"];
    let Some(files) = context.exists else { return };
    if is_open.iter().any(|text| lower.contains(text))
        || OTHER_SOURCES[2..].iter().any(|text| facts.code.contains(text))
    {
        return;
    }
    let Some(text) = files.text(facts.file, "Dockerfile") else { return };
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let names_it = |other: &String| {
        other.lines().any(|line| line.contains(name) && !line.trim_start().starts_with('#'))
    };
    if !names_it(&text) && !files.compose_files(facts.file).iter().any(names_it) {
        return;
    }
    let image = Facts::read("Dockerfile", &text);
    let all = instructions(&text);
    // A file with several bases does not say which one the script meets.
    let names = || (1..=image.stages.len()).map(|stage| fixed_base(&image, &all, stage));
    let images: Vec<Option<Image>> = names().map(Image::of).collect();
    let Some(Some(first)) = images.first().copied() else { return };
    if images.iter().any(|one| one.is_none_or(|one| one.release.name != first.release.name)) {
        return;
    }
    let any = |is_so: fn(Image) -> bool| images.iter().flatten().any(|one| is_so(*one));
    let together = Image {
        has_others: any(|one| one.has_others),
        is_plain: !any(|one| !one.is_plain),
        has_known_sources: !any(|one| !one.has_known_sources),
        ..first
    };
    // A condition or `||` can choose between packages.
    let lines: Vec<&str> = facts.text.lines().collect();
    let is_plain = |one: &&ShellCommand| {
        one.keywords.is_empty()
            && !lines.get(one.words[0].line - 1).is_some_and(|line| line.contains("||"))
    };
    for command in facts.commands.iter().filter(|one| !one.is_message()).filter(is_plain) {
        for hit in missing(command, together) {
            found.hit(hit.at_most(Severity::Warning));
        }
    }
}
