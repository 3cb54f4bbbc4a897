//! Rules for ROCm releases, wherever a file names one: tags, variables, packages, URLs.

use std::collections::BTreeSet;

use super::contradictions::releases_after;
use super::mentions::series;
use super::packages::rocm_of;
use super::variables::is_in;
use super::{for_gpu, images, packages, unread};
use crate::data::{Place, RocmRow, data};
use crate::shell::{Scope, Setting, ShellCommand, UNKNOWN, Word};
use crate::target::Match;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// A ROCm release that a file names.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) release: &'a str,
    pub(super) line: usize,
    /// Whether it stands for the newest release of its series.
    pub(super) is_series: bool,
    /// Whether only a word names it, so that its use is not certain.
    pub(super) is_word: bool,
    /// The start of the message, for example "`X` contains ROCm 6.4".
    pub(super) message: String,
}

/// Compares a release with the rows about the file's GPU.
pub(super) fn judge(
    named: Named<'_>,
    facts: &Facts<'_>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let judged = if named.is_series { newest(named.release) } else { named.release.to_owned() };
    let rows = data()
        .rocm
        .iter()
        .filter(|row| row.releases.iter().any(|releases| releases.contains(&judged)));
    // The packages of the release need not be AMD's.
    let is_vague = |row: &RocmRow| named.is_word && row.row.rule == "gpu-without-rocblas";
    let match_of = |row: &RocmRow| {
        let sure = facts.target().matches(&row.row.gpus, context);
        // Advice for one GPU needs a file for that GPU.
        let is_other = sure == Match::Unknown
            || row.is_certain && sure != Match::Certain
            || has_any(facts, &row.unless);
        if row.without_gpu {
            if facts.target().is_known(context) { Match::No } else { Match::Unknown }
        } else if is_other {
            Match::No
        } else {
            sure
        }
    };
    let mut rows = rows.filter(|row| !is_vague(row)).map(|row| (row, match_of(row)));
    let Some((row, sure)) = rows.find(|(_, one)| *one != Match::No) else { return };
    if row.without_gpu && is_kept_old(facts, named.release, context) {
        return;
    }
    // One finding for each release is enough.
    let release = if row.without_gpu { "" } else { named.release.trim_end_matches(".0") };
    if !found.is_first(release) {
        return;
    }
    let for_them = facts.target().named_of(&row.row.gpus);
    let says = !for_them.is_empty() && row.row.rule == "gpu-without-rocblas";
    let end = if says { format!(", and the file is for {for_them}") } else { String::new() };
    let mut hit = Hit::new(&row.row.rule, named.line, format!("{}{end}", named.message));
    hit = hit.of(&row.row).about(series(named.release));
    // A pre-release is not the release that the source describes.
    if named.is_word || named.release.contains(|c: char| c.is_ascii_alphabetic()) {
        hit = hit.at_most(Severity::Warning);
    }
    if let Some(hit) = for_gpu(hit, sure) {
        found.hit(hit);
    }
}

/// Returns whether the folders of a file say that it is for an old release.
fn is_kept_old(facts: &Facts<'_>, release: &str, context: Context<'_>) -> bool {
    let place = context.exists.and_then(|exists| exists.place(facts.file));
    let path = place.unwrap_or_else(|| facts.file.to_owned()).to_ascii_lowercase();
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let own = series(release);
    let names = ["rocm", "rocm-", "rocm_"].map(|start| format!("{start}{own}"));
    folders.contains("legacy") || names.iter().any(|name| folders.contains(name.as_str()))
}

/// Names of programs that compute on several servers.
const CLUSTERS: [&str; 6] = ["kokkos", "mpi4py", "mpich", "openmpi", "open-mpi", "slurm"];

/// Returns whether a file names AMD's GPUs for servers, or programs for clusters: Instinct, MI300.
pub(super) fn named_server(facts: &Facts<'_>) -> bool {
    let lower = facts.text.to_ascii_lowercase();
    let is_cluster = CLUSTERS.iter().any(|word| lower.contains(word));
    let is_model = |(at, _): (usize, &str)| {
        let starts = !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let digits = lower[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
        starts && digits == 3 && lower[at + 2..].starts_with(['1', '2', '3'])
    };
    is_cluster || lower.contains("instinct") || lower.match_indices("mi").any(is_model)
}

/// Returns whether the code of a file contains one of these texts, which are in lower case.
fn has_any(facts: &Facts<'_>, texts: &[String]) -> bool {
    if texts.is_empty() {
        return false;
    }
    let code = facts.code.to_ascii_lowercase();
    texts.iter().any(|text| code.contains(text))
}

/// Checks for packages of another ROCm release than that of the image.
fn mixed(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut seen = BTreeSet::new();
    let clones = facts.commands.iter().filter_map(cloned);
    let mut judged = BTreeSet::new();
    for (repository, release, line, stage) in clones {
        if !judged.insert((stage, series(&release))) {
            continue;
        }
        let base =
            facts.base(stage).map(|one| one.base.as_str()).filter(|one| !one.contains(UNKNOWN));
        let own = base.and_then(images::rocm_in).map(str::to_owned);
        let own = own.or_else(|| amd_releases(facts, stage).next());
        let is_newest =
            || urls(facts).into_iter().any(|(url, _, of)| of == stage && is_moving(url));
        let contains = match own {
            Some(own) if series(&own) != series(&release) => format!("ROCm {own}"),
            None if is_newest() => "the newest release".to_owned(),
            _ => continue,
        };
        if seen.insert(stage) {
            let message = format!(
                "`{repository}` is built from ROCm {release}, but the stage has {contains}"
            );
            found.add("rocm-mixed", line, message);
        }
    }
    let stamps = facts
        .packages
        .iter()
        .filter(|one| one.name == "torch")
        .filter_map(|one| Some((rocm_of(one)?.to_owned(), one.line, one.stage, true)));
    let sources = urls(facts).into_iter().filter_map(|(url, line, stage)| {
        let is_wheel = url.contains(PYTORCH) || url.contains("/manylinux/");
        let is_package = url.contains("repo.radeon.com/rocm/") && !url.contains("gpg");
        Some((release_in(url)?, line, stage, is_wheel)).filter(|_| is_wheel || is_package)
    });
    for (release, line, stage, is_wheel) in stamps.chain(sources) {
        let base = facts.base(stage).map(|stage| stage.base.as_str());
        let Some((base, own)) = base.and_then(|base| Some((base, images::rocm_in(base)?))) else {
            continue;
        };
        if series(own) == series(&release) || base.contains(UNKNOWN) || !seen.insert(stage) {
            continue;
        }
        let what = if is_wheel { "torch is" } else { "packages are" };
        let message = format!("{what} for ROCm {release}, but `{base}` contains ROCm {own}");
        found.add("rocm-mixed", line, message);
    }
}

/// Owners of ROCm's repositories, in lower case.
const OWNERS: [&str; 3] =
    ["github.com/rocm/", "github.com/radeonopencompute/", "github.com/rocmsoftwareplatform/"];

/// Returns the repository and the release of a clone of one of ROCm's repositories, with its line
/// and stage.
fn cloned(command: &ShellCommand) -> Option<(String, String, usize, usize)> {
    let words: Vec<&str> = command.texts();
    let is_clone = words[0] == "git" && words.contains(&"clone");
    let branch = words.windows(2).find(|two| matches!(two[0], "-b" | "--branch"))?[1];
    let named = branch.strip_prefix("rocm-").and_then(release).filter(|_| is_clone)?;
    let is_rocm = |word: &&&str| {
        let lower = word.to_ascii_lowercase();
        OWNERS.iter().any(|owner| lower.contains(owner))
    };
    let url = words.iter().find(is_rocm)?;
    let repository = url.trim_end_matches('/').rsplit('/').next()?.trim_end_matches(".git");
    let line = command.words[0].line;
    Some((repository.to_owned(), named.to_owned(), line, command.stage))
}

/// Returns whether a package source of AMD always has the newest release.
fn is_moving(url: &str) -> bool {
    ["rocm/apt/debian", "rocm/apt/latest", "rocm/rhel8/latest", "rocm/rhel9/latest"]
        .iter()
        .any(|path| url.contains(path))
}

/// Checks the URLs of AMD's and PyTorch's package indexes.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    distributions(facts, found);
    paths(facts, found);
    mixed(facts, found);
    repeated(facts, found);
    repeated_base(facts, found);
    installers(facts, found);
    let mut seen = BTreeSet::new();
    for (url, line, stage) in urls(facts) {
        let Some(release) = &release_in(url) else { continue };
        // Stamped packages are judged by their own stamp, wherever they come from.
        let is_stamped =
            facts.packages.iter().any(|one| one.stage == stage && rocm_of(one).is_some());
        let takes_nothing = || {
            let has = |one: &&ShellCommand| one.words.iter().any(|word| word.line == line);
            let mut own = facts.commands.iter().filter(has);
            own.any(|one| packages::leaves_index(facts, one))
        };
        // One finding for each release of a stage is enough.
        if !is_stamped && !takes_nothing() && seen.insert((stage, release.clone())) {
            let message = format!("a package source provides ROCm {release}");
            // A PyTorch index is for the newest release of its series.
            let is_series = url.contains(PYTORCH);
            let named = Named { release, line, is_series, is_word: false, message };
            judge(named, facts, context, found);
        }
    }
}

/// Checks for an installer of another release than that of its folder.
fn installers(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (url, line, _) in urls(facts) {
        let Some((_, rest)) = url.split_once("repo.radeon.com/amdgpu-install/") else { continue };
        let folder = rest.split('/').next().and_then(release);
        let file = rest.rsplit(INSTALLER).next().filter(|_| rest.contains(INSTALLER));
        if let Some(version) = file.and_then(without_number) {
            let message = format!(
                "AMD names no installer `{version}`: the name also has the release as a number"
            );
            let hit = Hit::new("rocm-package-gone", line, message);
            found.hit(hit.help("copy the name from the list of files in the folder"));
            continue;
        }
        let (Some(folder), Some(file)) = (folder, file.and_then(installed)) else { continue };
        // Older folders have the release of the driver: `22.40`.
        let is_rocm = folder.split('.').next().is_some_and(|major| major.len() == 1);
        if is_rocm && file.trim_end_matches(".0") != folder.trim_end_matches(".0") {
            let message = format!("the installer of ROCm {file} is not in the folder `{folder}`");
            found.add("rocm-package-gone", line, message);
        }
    }
}

/// Names of variables with a ROCm release.
const RELEASES: [&str; 3] = ["ROCM_VERSION", "ROCM_VER", "ROCM_RELEASE"];

/// Checks for a package source with the release that an argument also contains.
fn repeated(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_used =
        |name: &str| ["${", "$"].iter().any(|start| facts.code.contains(&format!("{start}{name}")));
    let is_argument = |one: &&Setting| {
        one.scope == Scope::Argument && RELEASES.contains(&one.name.as_str()) && is_used(&one.name)
    };
    let argument =
        facts.settings.iter().find(is_argument).filter(|_| facts.kind == Kind::Dockerfile);
    let Some(Setting { name, value, .. }) = argument.filter(|one| release(&one.value).is_some())
    else {
        return;
    };
    let forms = ["rocm-rel-", "/rocm/apt/", "/whl/rocm", "/amdgpu-install/"];
    let forms = forms.map(|form| format!("{form}{value}"));
    let is_same = |text: &str| {
        let ends = |form: &String| {
            let rest = text.split_once(form.as_str()).map(|(_, rest)| rest);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        };
        !facts.kind.is_comment(text) && forms.iter().any(ends)
    };
    if let Some((line, _)) = facts.lines().find(|(_, text)| is_same(text)) {
        let message = format!("ROCm {value} is written here, and in `{name}`");
        found.add("release-repeated", line, message);
    }
}

/// Checks for a variable with the release that the base image also has in its tag.
fn repeated_base(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_own = |one: &&Setting| {
        matches!(one.scope, Scope::Argument | Scope::Image) && RELEASES.contains(&one.name.as_str())
    };
    let written: Vec<(&str, usize)> = facts
        .images
        .iter()
        .filter(|one| one.stage > 0)
        .map(|one| (one.reference.as_str(), one.line))
        .chain(
            facts.settings.iter().filter(|one| one.is_image()).map(|one| (&*one.value, one.line)),
        )
        .collect();
    let is_read = |one: &&Setting| is_own(one) && !unread::is_unread(facts, one);
    let setting = facts.settings.iter().filter(is_read).find_map(|setting| {
        let own = release(&setting.value).filter(|own| *own == setting.value)?;
        let is_same = |(image, line): &&(&str, usize)| {
            images::rocm_in(image) == Some(own)
                && facts.line(*line).contains(own)
                && *line != setting.line
        };
        written.iter().find(is_same).map(|_| setting)
    });
    if let Some(Setting { name, value, line, .. }) =
        setting.filter(|_| facts.kind == Kind::Dockerfile)
    {
        let message = format!("ROCm {value} is written in `{name}`, and in the name of the image");
        found.add("release-repeated", *line, message);
    }
}

/// Checks for paths of a ROCm release that the image of the stage does not contain.
fn paths(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for setting in facts.settings.iter().filter(|one| one.scope == Scope::Image) {
        let Setting { value, line, stage, .. } = setting;
        let Some(base) = facts.base(*stage).map(|stage| stage.base.as_str()) else { continue };
        let named = value.split("/opt/rocm-").nth(1).and_then(release);
        let is_known = base.contains("rocm/") && !base.contains(UNKNOWN);
        let Some(named) = named.filter(|_| is_known) else { continue };
        if amd_releases(facts, *stage).next().is_some() {
            continue;
        }
        let is_same = |own: &str| {
            own.trim_end_matches(".0") == named.trim_end_matches(".0")
                || named.starts_with(&format!("{own}."))
        };
        let contains = match images::rocm_in(base) {
            Some(own) if is_same(own) => continue,
            Some(own) => format!("ROCm {own}"),
            None if images::is_floating(base) => "the newest release".to_owned(),
            None => continue,
        };
        let message = format!("the path is for ROCm {named}, but `{base}` contains {contains}");
        found.add("rocm-path-other", *line, message);
    }
}

/// Checks whether AMD's packages are for the distribution of the stage that installs them.
fn distributions(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for command in facts.commands.iter().filter(|command| !command.is_message()) {
        let base = facts.base(command.stage).and_then(|stage| images::release(&stage.base));
        let Some((base, own)) = base.and_then(|base| Some((base, base.codename.as_deref()?)))
        else {
            continue;
        };
        let names = |word: &Word, codename: &str| {
            word.text.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == codename)
        };
        let word_of = |codename: &str| command.words.iter().find(|word| names(word, codename));
        let is_amd = command.words.iter().any(|word| word.text.contains(AMD));
        // A command that contains both codenames chooses one of them.
        if !is_amd || word_of(own).is_some() {
            continue;
        }
        let other = data().releases.iter().find_map(|row| {
            let word = row.codename.as_deref().and_then(word_of)?;
            Some((row, word.line))
        });
        if let Some((other, line)) = other {
            let message = format!("packages for {} are installed on {}", other.name, base.name);
            found.add("other-distribution", line, message);
        }
    }
}

/// Returns the ROCm releases of AMD's packages that a stage installs.
pub(super) fn amd_releases<'a>(
    facts: &'a Facts<'_>,
    stage: usize,
) -> impl Iterator<Item = String> + 'a {
    urls(facts)
        .into_iter()
        .filter(move |(url, _, of)| *of == stage && url.contains(AMD))
        .filter_map(|(url, ..)| release_in(url))
}

/// Returns the ROCm releases that a file names as a version, in an image or in a URL.
pub(super) fn named_releases(facts: &Facts<'_>) -> impl Iterator<Item = String> {
    let is_version = |one: &&Setting| one.name == "ROCM_VERSION";
    let versions = facts.settings.iter().filter(is_version).map(|one| one.value.clone());
    let images = facts.images.iter().filter_map(|one| images::rocm_in(&one.reference));
    let named = versions.chain(images.map(str::to_owned));
    let mut all: Vec<String> =
        named.chain(urls(facts).into_iter().filter_map(|(url, ..)| release_in(url))).collect();
    // The comments of a file without a release can name the one that it is for.
    if all.is_empty() && facts.text.len() <= LONGEST {
        all.extend(releases_after(&facts.text.to_ascii_lowercase(), "rocm"));
    }
    all.into_iter()
}

/// The length of the longest file whose comments are searched for releases.
const LONGEST: usize = 50_000;

const AMD: &str = "repo.radeon.com/";
const INSTALLER: &str = "amdgpu-install";
const BASE_URL: &str = "baseurl";
const THEROCK: &str = "therock-dist-linux-";
const PYTORCH: &str = "download.pytorch.org/whl/";

/// Returns the texts that contain URLs, in commands, variables, requirements and repository files:
/// text, line, stage.
fn urls<'a>(facts: &'a Facts<'_>) -> Vec<(&'a str, usize, usize)> {
    let commands = facts.commands.iter().filter(|command| !command.is_message());
    let words = commands.flat_map(|command| {
        command.words.iter().map(move |word| (word.text.as_str(), word.line, command.stage))
    });
    // `baseurl` is a key in dnf's repository files, which scripts often write with a here document.
    let settings = facts
        .settings
        .iter()
        .filter(|one| one.name == BASE_URL || is_in(one.scope, Place::Kept) && is_index(&one.value))
        .map(|setting| (setting.value.as_str(), setting.line, setting.stage));
    let is_line = |line: &str| match facts.kind {
        Kind::Requirements => !line.starts_with('#'),
        // Repositories of dnf and apt.
        Kind::Text => {
            line.strip_prefix(BASE_URL).is_some_and(|rest| rest.trim().starts_with('='))
                || line.starts_with("deb ")
                || line.starts_with("URIs:")
        }
        _ => false,
    };
    let lines = facts
        .lines()
        .filter(|(_, line)| is_line(line.trim_start()))
        .map(|(number, line)| (line, number, 0));
    let is_url = |text: &str| text.contains("://") || text.contains(INSTALLER);
    words.chain(settings).chain(lines).filter(|(text, ..)| is_url(text)).collect()
}

/// Returns the newest release of the series that a PyTorch wheel or index is for. In AMD's own
/// names, `7.2` is 7.2.0.
fn newest(release: &str) -> String {
    match release.matches('.').count() {
        1 => format!("{release}.{}", u8::MAX),
        _ => release.to_owned(),
    }
}

/// Returns whether a value contains the URL of a package source.
fn is_index(value: &str) -> bool {
    value.contains(AMD) || value.contains(PYTORCH)
}

/// Returns the ROCm release in a URL of AMD's repositories or PyTorch's index, or in the file name
/// of AMD's installer or a TheRock archive.
fn release_in(text: &str) -> Option<String> {
    if let Some(release) = text.rsplit(INSTALLER).next().and_then(installed) {
        return Some(release);
    }
    if let Some(at) = text.find(AMD) {
        let mut parts = text[at + AMD.len()..].split('/');
        let product = parts.next()?;
        if !matches!(product, "rocm" | "amdgpu-install" | "graphics") {
            return None;
        }
        let plain = parts.map(|part| part.trim_start_matches("rocm-rel-"));
        return plain
            .filter_map(|part| release(part.trim_start_matches(".apt_")))
            .map(str::to_owned)
            .next();
    }
    if let Some((_, rest)) = text.split_once(THEROCK) {
        // The name contains the target and the release.
        return rest.split('-').find_map(pre_release).map(str::to_owned);
    }
    let (_, path) = text.split_once(PYTORCH)?;
    let (_, rest) =
        path.split_once("rocm").filter(|(before, _)| before.is_empty() || before.ends_with('/'))?;
    release(rest.split(['/', ' ', '"', '\'']).next()?).map(str::to_owned)
}

/// Returns the release in the rest of the name of AMD's installer: `_6.4.60401-1_all.deb` is 6.4.1.
fn installed(rest: &str) -> Option<String> {
    let version = rest.strip_prefix(['_', '-'])?.split('-').next()?;
    let number = version.rsplit('.').next().filter(|last| last.len() == INSTALLED)?;
    let number: u32 = number.parse().ok()?;
    Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// Returns the version in the rest of the name of an installer, if it lacks the number: the `7.1` of
/// `_7.1-1_all.deb`.
fn without_number(rest: &str) -> Option<&str> {
    let version = rest.strip_prefix(['_', '-'])?.split('-').next()?;
    let is_version = version.contains('.')
        && version.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_')
        && version.split('.').all(|part| part.len() < INSTALLED);
    let is_package = [".deb", ".rpm"].iter().any(|end| rest.contains(end));
    (is_version && is_package).then_some(version)
}

/// The number of digits of a release in the name of an installer: `60401`.
const INSTALLED: usize = 5;

/// Returns the release in a part of a file name: `7.0.0rc20250710.tar.gz` is 7.0.0rc20250710.
fn pre_release(part: &str) -> Option<&str> {
    release(part)?;
    let end = part.find(".tar").unwrap_or(part.len());
    Some(&part[..end])
}

/// Returns the release at the start of a text, without what follows its numbers.
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
            (
                "https://h.example/therock-dist-linux-gfx1151-7.0.0rc20250710.tar.gz",
                Some("7.0.0rc20250710"),
            ),
            ("https://h.example/therock-dist-linux-gfx110X-all-7.13.0.tar.gz", Some("7.13.0")),
            ("https://h.example/therock-dist-linux-\u{fffc}.tar.gz", None),
            ("amdgpu-install_7.2.70200-1_all.deb", Some("7.2.0")),
            (
                "https://repo.radeon.com/amdgpu-install/22.40.3/ubuntu/jammy/amdgpu-install_5.4.50403-1_all.deb",
                Some("5.4.3"),
            ),
            ("./amdgpu-install_7.2.4.70204-1_all.deb", Some("7.2.4")),
            ("amdgpu-install-6.4.60402-2187269.el8.noarch.rpm", Some("6.4.2")),
            ("./amdgpu-install_latest_all.deb", None),
            ("http://repo.radeon.com/rocm/apt/.apt_5.5/", Some("5.5")),
        ] {
            assert_eq!(release_in(url).as_deref(), expected, "{url}");
        }
    }
}
