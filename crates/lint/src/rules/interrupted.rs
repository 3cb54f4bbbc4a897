//! Rules for downloads straight to the final name: a test finds the file of an interrupted download,
//! and takes it for complete.

use crate::shell::{Operator, ShellCommand};
use crate::{Facts, Findings, Kind};

/// Ends of the names of files that take long to download.
const LARGE: [&str; 22] = [
    ".bin",
    ".ckpt",
    ".deb",
    ".engine",
    ".gguf",
    ".ggml",
    ".h5",
    ".img",
    ".iso",
    ".npz",
    ".onnx",
    ".pt",
    ".pth",
    ".qcow2",
    ".run",
    ".safetensors",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.xz",
    ".whl",
    ".zip",
];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Shell | Kind::Compose | Kind::Manifest) {
        return;
    }
    // Such a script removes what is incomplete.
    if facts.code.contains("trap ") && facts.code.contains("rm -") {
        return;
    }
    let mut last: Option<(usize, Vec<&str>)> = None;
    for (at, command) in facts.commands.iter().enumerate() {
        if let Some(files) = tested(facts, command) {
            last = Some((at, files));
            continue;
        }
        let ends = matches!(command.words[0].text.as_str(), "fi" | "done" | "}");
        if ends || command.keywords.starts_with("el") {
            last = None;
        }
        let Some((from, files)) = &last else { continue };
        if !is_guarded(facts, *from, at) || !is_large(command) {
            continue;
        }
        let Some(target) = target(facts, command).filter(|target| files.contains(target)) else {
            continue;
        };
        if is_checked(facts, at, target) {
            continue;
        }
        let shown = target.trim_matches(['"', '\'']);
        let message = format!(
            "if this download is interrupted, the next run finds `{shown}` and takes it for complete"
        );
        return found.add("download-partial", command.words[0].line, message);
    }
}

/// Returns the files whose existence a command tests, as they are written: `[ ! -f "$A" ]`.
fn tested<'f>(facts: &'f Facts<'_>, command: &ShellCommand) -> Option<Vec<&'f str>> {
    if !matches!(command.words[0].text.as_str(), "[" | "[[" | "test") {
        return None;
    }
    let text = facts.line(command.words[0].line);
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|two| matches!(two[0], "-f" | "-e" | "-s"));
    let files = pairs.map(|two| bare(two[1])).filter(|file| !file.is_empty());
    let files: Vec<&str> = files.collect();
    (!files.is_empty()).then_some(files)
}

/// Returns a word of a script without quotes, and without the marks after it.
fn bare(word: &str) -> &str {
    word.trim_end_matches([';', ']', ')']).trim_matches(['"', '\''])
}

/// Returns whether a command runs only if the test before it fails: `if [ ! -f A ]; then`,
/// `[ -f A ] ||`, `[ ! -f A ] &&`.
fn is_guarded(facts: &Facts<'_>, from: usize, at: usize) -> bool {
    let test = &facts.commands[from];
    let is_negated = facts.line(test.words[0].line).contains("! -")
        || facts.line(test.words[0].line).contains("if ! ");
    let is_branch = test.keywords.split(' ').any(|word| matches!(word, "if" | "elif"));
    match test.operator {
        _ if is_branch => is_negated,
        Operator::Or => !is_negated && at == from + 1,
        Operator::And => is_negated && at == from + 1,
        _ => false,
    }
}

/// Returns whether a command downloads a large file.
fn is_large(command: &ShellCommand) -> bool {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    let is_download = matches!(program, "wget" | "curl");
    // Such a download can be continued, or leaves nothing behind.
    let is_safe = command.words.iter().any(|word| {
        matches!(
            word.text.as_str(),
            "-C" | "-C-" | "-c" | "--continue" | "--continue-at" | "--remove-on-error"
        )
    });
    let is_large = command.words.iter().any(|word| {
        let name = word.text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        LARGE.iter().any(|end| name.ends_with(end))
    });
    is_download && is_large && !is_safe
}

/// Returns the file to which a download goes, as it is written.
fn target<'f>(facts: &'f Facts<'_>, command: &ShellCommand) -> Option<&'f str> {
    let (first, last) = (command.words.first()?.line, command.words.last()?.line);
    let mut words = (first..=last).flat_map(|line| facts.line(line).split_whitespace());
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let is_output = matches!(word, "-O" | "--output" | "--output-document" | ">")
            || letters.is_some_and(|letters| {
                letters.ends_with('o') && command.words[0].text.ends_with("curl")
            });
        if is_output {
            return words.next().map(bare);
        }
        let joined =
            word.strip_prefix("--output-document=").or_else(|| word.strip_prefix("--output="));
        if let Some(file) = joined {
            return Some(bare(file));
        }
    }
    None
}

/// Returns whether the commands after a download check it, or remove it if it fails.
fn is_checked(facts: &Facts<'_>, at: usize, target: &str) -> bool {
    let own = facts.commands[at].operator == Operator::Or;
    let later = facts.commands[at + 1..].iter().take(NEAR);
    let names = |command: &ShellCommand| {
        let line = facts.line(command.words[0].line);
        line.contains(target)
    };
    let mut removes = later.clone().take(if own { NEAR } else { 0 });
    removes.any(|one| one.words[0].text == "rm")
        || later.clone().any(|one| {
            matches!(
                one.words[0].text.as_str(),
                "sha256sum" | "md5sum" | "sha1sum" | "sha512sum" | "shasum" | "b2sum" | "gpg"
            ) || one.words[0].text == "rm" && names(one)
        })
}

/// The number of commands after a download that can belong to it.
const NEAR: usize = 6;
