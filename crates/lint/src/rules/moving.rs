//! Rules for what a build or a script gets from elsewhere in whatever version is there that day:
//! files of `ADD` and models.

use super::commands::{is_at_commit, saved, target_of};
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind == Kind::Dockerfile {
        added(facts, found);
    }
    if facts.kind.has_settings() {
        models(facts, found);
    } else if facts.file.ends_with(".yaml") || facts.file.ends_with(".yml") {
        addresses(facts, found);
    }
}

/// Checks a YAML file of another kind, for example a HelmRelease, for a model from a branch.
fn addresses(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_checked = ["sha256", "shasum", "checksum"].iter().any(|text| facts.code.contains(text));
    let mut lines = facts.lines().filter(|(_, text)| !text.trim_start().starts_with('#'));
    let first =
        lines.find(|(_, text)| text.contains("huggingface.co/") && text.contains(DEFAULT_BRANCH));
    if let Some((line, _)) = first.filter(|_| !is_checked) {
        found.add("model-unpinned", line, "a file comes from the branch `main` of a model");
    }
}

/// The number of lines with hashes that are searched.
const MOST_SUMS: usize = 50;

/// Checks `ADD https://…` without a checksum.
fn added(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let sums = facts.code.lines().filter(|line| line.contains("sum -c"));
    let sums: Vec<&str> = sums.take(MOST_SUMS).collect();
    for (line, text) in facts.lines() {
        let mut words = text.split_whitespace();
        let is_add = words.next().is_some_and(|word| word.eq_ignore_ascii_case("add"));
        let rest: Vec<&str> = words.collect();
        let is_remote =
            rest.iter().any(|word| word.starts_with("https://") || word.starts_with("http://"));
        let is_fixed = rest.iter().any(|word| word.contains(".git") || is_at_commit(word));
        if is_add
            && is_remote
            && !is_fixed
            && !rest.iter().any(|word| word.starts_with("--checksum="))
            && !rest.iter().any(|word| is_summed(&sums, word))
        {
            let branch = rest.iter().find_map(|word| branch_of(word));
            let message = "`ADD` downloads without a checksum";
            found.hit(unchecked(line, message, branch.as_deref()));
        }
    }
}

/// Returns whether one of the lines compares the hash of a downloaded file.
fn is_summed(sums: &[&str], word: &str) -> bool {
    let name = word.rsplit('/').next().filter(|name| !name.is_empty());
    name.is_some_and(|name| sums.iter().any(|line| line.contains(name)))
}

/// The number of commands after a download that are searched for `chmod`.
const MOST_AFTER: usize = 5;

/// Returns the name of the file that a download saves, if one of the next commands makes it
/// executable.
pub(super) fn made_executable(facts: &Facts<'_>, at: usize) -> Option<String> {
    let target = target_of(&facts.commands[at])?;
    let name = target.rsplit('/').next().filter(|name| !name.contains(UNKNOWN))?;
    let is_mode = |word: &str| {
        word.ends_with("+x")
            || word.len() >= 3 && word.starts_with(['0', '7']) && word.contains('5')
    };
    let makes = |one: &ShellCommand| {
        let words: Vec<&str> = one.texts();
        words[0] == "chmod" && words.contains(&target) && words.iter().any(|word| is_mode(word))
    };
    let mut after = facts.commands[at + 1..].iter().take(MOST_AFTER);
    after.any(makes).then(|| name.to_owned())
}

/// The part of a URL on the Hugging Face Hub that names the default branch.
const DEFAULT_BRANCH: &str = "/resolve/main/";

/// Checks for models from a branch of the Hugging Face Hub. The first one is enough.
fn models(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // A script that checks hashes notices a replaced file.
    if ["sha256sum", "shasum", "--checksum"].iter().any(|text| facts.code.contains(text)) {
        return;
    }
    for command in facts.commands.iter().filter(|one| !one.is_message()) {
        let words: Vec<&str> = command.texts();
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let line = command.words[0].line;
        let is_download = matches!(program, "wget" | "curl" | "aria2c" | "axel");
        if is_download && words.iter().any(|word| word.contains(DEFAULT_BRANCH)) {
            return found.add(
                "model-unpinned",
                line,
                "a file comes from the branch `main` of a model",
            );
        }
        let is_hub = matches!(program, "hf" | "huggingface-cli")
            && words.get(1) == Some(&"download")
            && words.get(2).is_some_and(|name| !name.starts_with('-'))
            && !words.iter().any(|word| word.starts_with("--revision"));
        if is_hub {
            let name = words[2];
            let named =
                if name.contains(UNKNOWN) { "a model".to_owned() } else { format!("`{name}`") };
            return found.add(
                "model-unpinned",
                line,
                format!("{named} is downloaded without a revision"),
            );
        }
    }
    let address = facts.settings.iter().find(|one| one.value.contains(DEFAULT_BRANCH));
    if let Some(setting) = address {
        let message = format!("`{}` names a file of the branch `main` of a model", setting.name);
        found.add("model-unpinned", setting.line, message);
    }
}

/// Returns whether a later command of the stage checks a hash or a signature, unless another download
/// of its own instruction explains that check.
pub(super) fn is_verified(facts: &Facts<'_>, command: &ShellCommand) -> bool {
    let checks = |other: &ShellCommand| {
        let words: Vec<&str> = other.texts();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        match words[0].rsplit('/').next().unwrap_or_default() {
            // Without an algorithm, it computes a CRC, which proves nothing.
            "cksum" => words.iter().any(|word| {
                word.contains("sha") || word.contains("blake2") || word.contains("sm3")
            }),
            "openssl" => has(&["dgst"]) || words.get(1).is_some_and(|one| one.starts_with("sha")),
            "gpg" | "gpg2" => has(&["--verify"]),
            "gpgv" | "cosign" | "minisign" => true,
            program => program.ends_with("sum"),
        }
    };
    let place = |one: &ShellCommand| {
        let line = one.words[0].line;
        facts.instructions().partition_point(|own| own.line <= line)
    };
    let is_image = facts.kind == Kind::Dockerfile;
    let own = if is_image { place(command) } else { 0 };
    let explained = |at: usize| facts.commands.iter().any(|one| place(one) == at && fetches(one));
    let is_about = |at: usize| at == own || !explained(at);
    let checkers = facts.commands.iter().filter(|one| one.stage == command.stage && checks(one));
    let mut places = checkers.map(|one| if is_image { place(one) } else { 0 });
    places.by_ref().filter(|at| *at >= own).take(MOST_CHECKS).any(is_about)
        || command.words.iter().any(|word| word.text.starts_with("--checksum"))
        || compares(facts, command.words[0].line)
}

/// Returns whether a command downloads a file that is unpacked, installed or run.
fn fetches(command: &ShellCommand) -> bool {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    matches!(program, "aria2c" | "curl" | "wget") && saved(command).is_some()
}

/// The number of checks after a download that are looked at.
const MOST_CHECKS: usize = 16;

/// The number of lines below a download that are searched for a comparison.
const BELOW: usize = 12;

/// Programs in `$(…)` that compute a hash.
const DIGESTS: [&str; 6] = [
    "$(cksum -a sha",
    "$(openssl dgst ",
    "$(openssl sha",
    "$(sha256sum ",
    "$(sha512sum ",
    "$(shasum ",
];

/// Returns whether the lines below a download compute a hash: `[ "$(sha256sum a)" = "$SUM" ]`.
fn compares(facts: &Facts<'_>, line: usize) -> bool {
    let lines = (line..=line + BELOW).map(|one| facts.line(one));
    let mut code = lines.filter(|one| !facts.kind.is_comment(one));
    code.any(|one| DIGESTS.iter().any(|start| one.contains(start)))
}

/// Returns whether a word is the URL of a pull request's patch.
pub(super) fn is_pull_request(word: &str) -> bool {
    let rest = word.split_once("github.com/").and_then(|(_, path)| path.split_once("/pull/"));
    rest.is_some_and(|(_, rest)| {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        number.len() < rest.len() && (number.starts_with(".diff") || number.starts_with(".patch"))
    })
}

/// Returns the branch whose archive a URL names: `archive/refs/heads/main.zip`, `tarball/master`.
pub(super) fn branch_of(url: &str) -> Option<String> {
    let heads = ["/archive/refs/heads/", "/zip/refs/heads/", "/tar.gz/refs/heads/"];
    let after = |start: &&str| url.split_once(*start).map(|(_, rest)| rest);
    let named = heads.iter().find_map(after);
    let name = |rest: &str| {
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let ends = [".tar.gz", ".tgz", ".zip"];
        ends.iter().find_map(|end| rest.strip_suffix(end)).unwrap_or(rest).to_owned()
    };
    let short = || {
        let rest = ["/archive/", "/zipball/", "/tarball/"].iter().find_map(after)?;
        Some(name(rest)).filter(|branch| DEFAULT.contains(&branch.as_str()))
    };
    named.map(name).or_else(short).filter(|branch| !branch.is_empty())
}

/// Names of default branches.
const DEFAULT: [&str; 4] = ["main", "master", "develop", "dev"];

/// Returns the finding for a download that nothing checks. A hash of a branch's archive would only be
/// right until the next commit.
pub(super) fn unchecked(line: usize, message: &str, branch: Option<&str>) -> Hit<'static> {
    let Some(branch) = branch else { return Hit::new("download-unchecked", line, message) };
    let shown = branch.replace(UNKNOWN, "…");
    let message = format!("{message}; the branch `{shown}` changes with every commit");
    let help = "write `archive/COMMIT.tar.gz` with the commit that you tested, and check its hash";
    Hit::new("download-unchecked", line, message).help(help)
}
