//! Rules for commands: what is cloned, patched, downloaded, built and pushed.

use super::variables::is_branch;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Context, Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    for (at, command) in facts.commands.iter().enumerate() {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        let line = command.words[0].line;
        match words[0].rsplit('/').next().unwrap_or_default() {
            "git" => git(facts, at, &words, line, found),
            "sed" | "perl" | "patch" => patches(&words, line, found),
            "apt-key" => found.add("apt-key", line, "`apt-key` is called"),
            "chmod" => chmod(&words, line, found),
            "docker" | "podman" | "buildah" => container(facts, &words, line, context, found),
            "curl" | "wget" => download(facts, at, &words, line, found),
            _ => {}
        }
    }
    if facts.kind == Kind::Dockerfile {
        added(facts, found);
    }
}

/// Returns the words after the options of git itself: `git -C x clone` is a clone.
fn subcommand<'w>(words: &[&'w str]) -> Option<(usize, &'w str)> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match *word {
            "-C" | "-c" => at += 2,
            word if word.starts_with('-') => at += 1,
            word => return Some((at, word)),
        }
    }
    None
}

fn git(facts: &Facts<'_>, at: usize, words: &[&str], line: usize, found: &mut Findings<'_>) {
    let Some((start, name)) = subcommand(words) else { return };
    let rest = &words[start + 1..];
    match name {
        "push" if commits_before(facts, at) => {
            found.add("git-push-in-script", line, "a script runs `git push` after `git commit`");
        }
        "clone" => clone(facts, at, rest, line, found),
        "checkout" | "switch" => {
            let target = rest.iter().find(|word| !word.starts_with('-'));
            if let Some(target) = target.filter(|target| is_branch(target) && !rest.contains(&"-b"))
            {
                let rule = if target.contains("main_perf") {
                    "flash-attention-branch"
                } else {
                    "branch-as-commit"
                };
                if clones_before(facts, at) {
                    found.add(rule, line, format!("the branch `{target}` is checked out"));
                }
            }
            if rest.contains(&"v0.10.3") {
                no_such_vllm(line, found);
            }
        }
        _ => {}
    }
}

fn no_such_vllm(line: usize, found: &mut Findings<'_>) {
    found.add_with(
        "no-such-version",
        line,
        "vLLM has no tag `v0.10.3`",
        "the nearest are v0.10.2 and v0.11.0",
    );
}

fn is_git(command: &ShellCommand, wanted: &[&str]) -> bool {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    words[0].ends_with("git") && subcommand(&words).is_some_and(|(_, name)| wanted.contains(&name))
}

fn commits_before(facts: &Facts<'_>, at: usize) -> bool {
    facts.commands[..at].iter().any(|command| is_git(command, &["commit"]))
}

fn clones_before(facts: &Facts<'_>, at: usize) -> bool {
    facts.commands[..at].iter().any(|command| is_git(command, &["clone"]))
}

fn clone(facts: &Facts<'_>, at: usize, rest: &[&str], line: usize, found: &mut Findings<'_>) {
    let branch = rest.iter().enumerate().find_map(|(index, word)| match *word {
        "-b" | "--branch" => rest.get(index + 1).copied(),
        word => word.strip_prefix("--branch="),
    });
    let url = rest
        .iter()
        .find(|word| word.contains("://") || word.contains('@'))
        .copied()
        .unwrap_or("the repository");
    // A later checkout or reset, before the next clone, can still pin it.
    let behind = facts.commands[at + 1..].iter().take_while(|command| !is_git(command, &["clone"]));
    let settled = behind.into_iter().any(|command| {
        is_git(command, &["checkout", "reset", "switch", "fetch"])
            && command.words.iter().any(|word| is_commit(&word.text) || word.text.contains(UNKNOWN))
    });
    match branch {
        Some(branch) if branch.contains(UNKNOWN) || settled => {}
        Some("v0.10.3") if url.contains("vllm") => no_such_vllm(line, found),
        Some(branch) if branch.contains("main_perf") => {
            found.add("flash-attention-branch", line, format!("`{branch}` of {url} is cloned"));
        }
        Some(branch)
            if !branch.trim_start_matches(['v', 'b']).starts_with(|c: char| c.is_ascii_digit())
                && !branch.contains(|c: char| c.is_ascii_digit()) =>
        {
            found.add(
                "branch-as-commit",
                line,
                format!("the branch `{branch}` of {url} is cloned"),
            );
        }
        Some(tag) => {
            found.add("tag-not-commit", line, format!("the tag `{tag}` of {url} is cloned"));
        }
        None if settled => {}
        None => {
            let checks_out = facts.commands[at + 1..]
                .iter()
                .any(|command| is_git(command, &["checkout", "switch"]));
            if !checks_out {
                found.add("clone-unpinned", line, format!("{url} is cloned at its current tip"));
            }
        }
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn patches(words: &[&str], line: usize, found: &mut Findings<'_>) {
    let all = words.join(" ");
    if all.contains("HIP_SUPPORTED_ARCHS") {
        found.add("vllm-allowlist-sed", line, "vLLM's list of GPUs is edited with sed");
    }
    if all.contains("rtld_global") || all.contains("RTLD_GLOBAL") && all.contains("rocm_sdk") {
        found.add("rtld-global-patch", line, "rocm_sdk is changed to load its libraries locally");
    }
}

fn chmod(words: &[&str], line: usize, found: &mut Findings<'_>) {
    let is_open = words
        .iter()
        .any(|word| matches!(*word, "666" | "0666" | "777" | "0777" | "a+rw" | "o+rw" | "ugo+rw"));
    if is_open
        && words.iter().any(|word| word.starts_with("/dev/kfd") || word.starts_with("/dev/dri"))
    {
        found.add("world-writable-gpu", line, format!("`{}`", words.join(" ")));
    }
}

fn container(
    facts: &Facts<'_>,
    words: &[&str],
    line: usize,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    if words.contains(&"run") && words.contains(&"--privileged") {
        found.add("privileged-container", line, "a container is started with `--privileged`");
    }
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Shell) else { return };
    if !words.iter().any(|word| matches!(*word, "build" | "bud")) {
        return;
    }
    let file = words.iter().enumerate().find_map(|(index, word)| match *word {
        "-f" | "--file" => words.get(index + 1).copied(),
        word => word.strip_prefix("--file="),
    });
    if let Some(file) = file
        .filter(|file| !file.contains(UNKNOWN) && *file != "-" && !exists.exists(facts.file, file))
    {
        found.add("missing-file", line, format!("`{file}` is built, but it does not exist"));
    }
}

fn download(facts: &Facts<'_>, at: usize, words: &[&str], line: usize, found: &mut Findings<'_>) {
    let next = facts.commands.get(at + 1);
    let is_piped = next.is_some_and(|next| {
        next.words[0].line == line
            && matches!(next.words[0].text.as_str(), "sh" | "bash" | "python3" | "python")
    });
    // `curl … | sh` ends with a shell without a script, which the reader omits from the commands.
    let source = facts.text.lines().nth(line - 1).unwrap_or_default();
    let runs_in_shell = source.split('|').skip(1).any(|next| {
        let next = next.trim_start();
        let next = next.strip_prefix("sudo ").unwrap_or(next).split_whitespace().next();
        matches!(next, Some("sh" | "bash"))
    });
    if (is_piped || runs_in_shell) && words.iter().any(|word| word.contains("://")) {
        found.add("download-unchecked", line, "a download is run by a shell immediately");
    }
}

/// Checks `ADD https://…` without a checksum.
fn added(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (line, text) in facts.lines() {
        let mut words = text.split_whitespace();
        let is_add = words.next().is_some_and(|word| word.eq_ignore_ascii_case("add"));
        let rest: Vec<&str> = words.collect();
        let is_remote =
            rest.iter().any(|word| word.starts_with("https://") || word.starts_with("http://"));
        let is_git = rest.iter().any(|word| word.contains(".git"));
        if is_add
            && is_remote
            && !is_git
            && !rest.iter().any(|word| word.starts_with("--checksum="))
        {
            found.add("download-unchecked", line, "`ADD` downloads without a checksum");
        }
    }
}
