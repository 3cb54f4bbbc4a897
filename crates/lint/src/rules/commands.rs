//! Rules for commands: what is cloned, patched, downloaded, built and pushed.

use super::moving::{branch_of, is_pull_request, is_verified, made_executable, unchecked};
use super::operators::runs_input;
use super::packages;
use super::variables::is_branch;
use crate::containers::names_amd;
use crate::facts::Container;
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (at, command) in facts.commands.iter().enumerate() {
        let words: Vec<&str> = command.texts();
        let line = command.words[0].line;
        match words[0].rsplit('/').next().unwrap_or_default() {
            "git" => git(facts, at, &words, line, found),
            "sed" | "perl" | "patch" => {
                patches(facts, &words, line, found);
                printed(facts, at, &words, found);
            }
            "apt-key" if words.iter().any(|word| word.contains("list")) => {}
            "apt-key" => found.add("apt-key", line, "`apt-key` is called"),
            "chmod" | "mknod" => open_to_all(&words, line, found),
            "curl" | "wget" | "aria2c" => download(facts, at, found),
            "llama-server" | "llama-cli" => flash_attention(command, found),
            _ if is_pip(&words) => {
                from_git(command, found);
                from_url(command, &words, found);
                uninstalled(facts, at, &words, found);
            }
            _ => {}
        }
    }
    privileged(facts, found);
}

/// Returns the subcommand and its index. It follows git's own options: `git -C x clone` is a clone.
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
        // A job that commits is there for that.
        "push" if facts.kind != Kind::Workflow && runs_before(facts, at, "commit") => {
            found.add("git-push-in-script", line, "a script runs `git push` after `git commit`");
        }
        "clone" => clone(facts, at, rest, found),
        // `git checkout REF -- FILE` restores a file.
        "checkout" | "switch" if !rest.contains(&"--") => checkout(facts, at, rest, found),
        _ => {}
    }
}

/// Checks `git checkout` and `git switch`.
fn checkout(facts: &Facts<'_>, at: usize, rest: &[&str], found: &mut Findings<'_>) {
    let line = facts.commands[at].words[0].line;
    let targets: Vec<&str> = rest.iter().copied().filter(|word| !word.starts_with('-')).collect();
    // A variable that is empty by default is usually tested before it is used.
    let Some(target) = targets.first().filter(|target| !target.is_empty()) else { return };
    let is_new = rest.iter().any(|word| matches!(*word, "-b" | "-B" | "-c" | "--orphan"));
    let is_short_commit = is_hexadecimal(target)
        || target.len() >= 4 && target.bytes().all(|b| b.is_ascii_hexdigit());
    // A target with a dot is probably a path.
    let is_plain = !target.contains("HEAD") && !target.contains(['.', UNKNOWN]);
    let is_named = is_plain && !is_tag(target) && !is_short_commit;
    if let Some(hit) = cloned_before(facts, at).and_then(|from| never(from, target, line)) {
        return found.hit(hit);
    }
    if !runs_before(facts, at, "clone") {
        return;
    }
    if is_cut_off(facts, at, target) && !is_new {
        let message = format!("`{target}` is not in a clone with `--depth`");
        return found.add("shallow-clone", line, message);
    }
    if is_new {
        let name = target.trim_start_matches("releases/").trim_start_matches("release/");
        let next = facts.commands.get(at + 1);
        let is_moved = next.is_some_and(|next| is_git(next, &["merge", "pull", "reset"]));
        if targets.len() == 1 && is_tag(name) && clones_tip(facts, at) && !is_moved {
            let message = format!("`{target}` becomes a new branch at the current commit");
            found.add("branch-instead-of-tag", line, message);
        }
    } else if is_branch(target) || is_named {
        found.add(branch_rule(target), line, format!("the branch `{target}` is checked out"));
    } else if is_tag(target)
        && !is_hexadecimal(target)
        && may_move(cloned_before(facts, at), target)
    {
        let message = format!("the {} `{target}` is checked out", kind_of(target));
        found.add("tag-not-commit", line, message);
    }
}

fn branch_rule(branch: &str) -> &'static str {
    if branch.contains("main_perf") { "flash-attention-branch" } else { "branch-as-commit" }
}

/// Returns the violation if a repository has no such tag.
fn never(repository: &str, tag: &str, line: usize) -> Option<Hit<'static>> {
    let version =
        tag.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    packages::never(repository, version?, line)
}

fn is_git(command: &ShellCommand, wanted: &[&str]) -> bool {
    let words: Vec<&str> = command.texts();
    words[0].ends_with("git") && subcommand(&words).is_some_and(|(_, name)| wanted.contains(&name))
}

/// Returns whether an earlier command is this command of git.
fn runs_before(facts: &Facts<'_>, at: usize, name: &str) -> bool {
    facts.commands[..at].iter().any(|command| is_git(command, &[name]))
}

/// Returns whether the last clone is at the tip of the default branch.
fn clones_tip(facts: &Facts<'_>, at: usize) -> bool {
    let clone = facts.commands[..at].iter().rev().find(|command| is_git(command, &["clone"]));
    clone.is_some_and(|clone| {
        let words: Vec<&str> = clone.texts();
        let read = Clone::read(&words[subcommand(&words).map_or(0, |(start, _)| start + 1)..]);
        read.branch.is_none() && !read.has_revision
    })
}

/// Returns whether the last clone is shallow, so that it lacks a commit or tag, and nothing fetched it.
fn is_cut_off(facts: &Facts<'_>, at: usize, target: &str) -> bool {
    let last = facts.commands[..at].iter().rposition(|command| is_git(command, &["clone"]));
    let Some(index) = last else { return false };
    let (clone, own) = (&facts.commands[index], &facts.commands[at]);
    let words: Vec<&str> = clone.texts();
    let rest = &words[subcommand(&words).map_or(0, |(start, _)| start + 1)..];
    let is_shallow = rest.iter().any(|word| word.starts_with("--depth"));
    let read = Clone::read(rest);
    let fetches = |command: &&ShellCommand| is_git(command, &["fetch", "pull", "remote", "init"]);
    let is_fetched = facts.commands[index..at].iter().any(|command| fetches(&command));
    let is_fixed = is_tag(target) || is_commit(target);
    is_shallow
        && is_fixed
        && !is_fetched
        && read.branch.is_none_or(|branch| branch != target && !branch.contains(UNKNOWN))
        && clone.stage == own.stage
        && may_be_in(own, &folder_of(clone, &read))
}

/// Returns the name of the repository that was cloned last.
fn cloned_before<'a>(facts: &'a Facts<'_>, at: usize) -> Option<&'a str> {
    let clones = facts.commands[..at].iter().rev().find(|command| is_git(command, &["clone"]))?;
    clones.words.iter().find(|word| is_url(&word.text)).map(|word| repository_name(&word.text))
}

fn is_url(word: &str) -> bool {
    word.contains("://") || word.contains('@') && word.contains(':')
}

/// Returns the last part of a URL, without `.git`.
fn repository_name(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    let name = url.rsplit(['/', ':']).next().unwrap_or(url);
    name.strip_suffix(".git").unwrap_or(name)
}

/// Options of `git clone` whose value is the next word.
const CLONE_TAKES_VALUE: [&str; 12] = [
    "-b",
    "--branch",
    "--depth",
    "-o",
    "--origin",
    "-j",
    "--jobs",
    "-c",
    "--config",
    "--filter",
    "--reference",
    "--revision",
];

/// A `git clone`.
#[derive(Debug, Default)]
struct Clone<'w> {
    url: Option<&'w str>,
    branch: Option<&'w str>,
    folder: Option<&'w str>,
    has_revision: bool,
}

impl<'w> Clone<'w> {
    fn read(rest: &[&'w str]) -> Self {
        let mut clone = Self::default();
        let mut words = rest.iter().copied();
        while let Some(word) = words.next() {
            let (option, value) =
                word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
            if !word.starts_with('-') {
                let place = if clone.url.is_none() { &mut clone.url } else { &mut clone.folder };
                *place = Some(word);
                continue;
            }
            let takes_value = CLONE_TAKES_VALUE.contains(&option) && value.is_none();
            let value = if takes_value { words.next() } else { value };
            match option {
                "-b" | "--branch" => clone.branch = value,
                "--revision" => clone.has_revision = true,
                _ => {}
            }
        }
        clone
    }
}

fn clone(facts: &Facts<'_>, at: usize, rest: &[&str], found: &mut Findings<'_>) {
    let command = &facts.commands[at];
    let line = command.words[0].line;
    let read = Clone::read(rest);
    let url = read.url.unwrap_or("the repository");
    // `git clone` without a URL only prints its help, and a local folder is not upstream.
    if read.url.is_none() || read.has_revision || url.starts_with(['/', '.']) {
        return;
    }
    let folder = folder_of(command, &read);
    let nested = nested(facts, command, &folder);
    let later: Vec<&ShellCommand> = facts.commands[at + 1..]
        .iter()
        .take_while(|later| later.stage == command.stage)
        .filter(|later| is_git(later, &["checkout", "reset", "switch", "fetch"]))
        .filter(|later| {
            may_be_in(later, &folder) && !nested.iter().any(|one| may_be_in(later, one))
        })
        .collect();
    let is_settled = later.iter().any(|next| {
        next.words.iter().any(|word| is_commit(&word.text) || word.text.contains(UNKNOWN))
    });
    let shown = match url.trim_matches(UNKNOWN) {
        "" => "a repository".to_owned(),
        _ => url.replace(UNKNOWN, "…"),
    };
    match read.branch {
        // A variable that is empty by default is usually tested before it is used.
        Some(branch) if branch.is_empty() || branch.contains(UNKNOWN) || is_settled => {}
        Some(branch) => {
            if let Some(hit) = never(repository_name(url), branch, line) {
                found.hit(hit);
            } else if is_tag(branch) && !is_tensorflow_series(url, branch) {
                if !may_move(Some(url), branch) {
                    return;
                }
                let kind = kind_of(branch);
                let message = format!("{shown} is cloned at {kind} `{branch}`, not at a commit");
                found.add("tag-not-commit", line, message);
            } else {
                let message = format!("{shown} is cloned from branch `{branch}`");
                found.add(branch_rule(branch), line, message);
            }
        }
        None => {
            let checks_out = |next: &&ShellCommand| {
                is_git(next, &["checkout", "switch"])
                    && !next.words.iter().any(|word| word.text == "--")
            };
            if !is_settled && !later.iter().any(checks_out) {
                found.add("clone-unpinned", line, format!("{shown} is cloned at its current tip"));
            }
        }
    }
}

/// Returns whether a name looks like a tag: `v1.2`, `b9010`, `rocm-7.2.1`.
fn is_tag(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let number = last.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-' || c == '_');
    let is_short = last.len() - number.len() <= 1;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    digits > 0
        && !name.contains('/')
        && !is_branch(name)
        && (is_short || number[digits..].starts_with('.'))
}

/// Returns the term for a name that looks like a tag. Branches can also have such names:
/// `rocm-5.2.0-fixes`.
fn kind_of(name: &str) -> &'static str {
    let number = name.find(|c: char| c.is_ascii_digit()).map_or(name, |at| &name[at..]);
    if number.contains('-') { "tag or branch" } else { "tag" }
}

/// Returns whether a tag may be moved. Few projects have done that, and some names can be those of
/// branches.
fn may_move(repository: Option<&str>, tag: &str) -> bool {
    repository.is_some_and(|url| repository_name(url) == "vllm") || kind_of(tag) != "tag"
}

/// Returns whether a name is one of TensorFlow's release branches: `r2.14`.
fn is_tensorflow_series(url: &str, name: &str) -> bool {
    let number = name.strip_prefix('r').is_some_and(|rest| rest.starts_with(char::is_numeric));
    number && url.contains("tensorflow")
}

/// Returns the folder that a clone creates.
fn folder_of(command: &ShellCommand, clone: &Clone<'_>) -> String {
    let name = clone.folder.or_else(|| clone.url.map(repository_name)).unwrap_or_default();
    join(&command.folder, name)
}

/// Returns the folder that a command clones a repository to.
pub(crate) fn cloned_folder(command: &ShellCommand) -> Option<String> {
    let words: Vec<&str> = command.texts();
    let (start, _) = subcommand(&words).filter(|_| is_git(command, &["clone"]))?;
    Some(folder_of(command, &Clone::read(&words[start + 1..])))
}

/// Returns the folders inside a clone into which the same stage clones other repositories.
fn nested(facts: &Facts<'_>, command: &ShellCommand, clone: &str) -> Vec<String> {
    let outer = format!("{}/", plain(clone));
    let clones = facts.commands.iter().filter(|one| one.stage == command.stage);
    let folders = clones.filter(|one| is_git(one, &["clone"])).map(|one| {
        let words: Vec<&str> = one.texts();
        let start = subcommand(&words).map_or(0, |(start, _)| start + 1);
        folder_of(one, &Clone::read(&words[start..]))
    });
    folders.filter(|folder| plain(folder).starts_with(&outer)).collect()
}

/// Returns whether a git command may run in the folder of a clone.
fn may_be_in(command: &ShellCommand, clone: &str) -> bool {
    let words: Vec<&str> = command.texts();
    let given = words.windows(2).find(|two| two[0] == "-C").map(|two| two[1]);
    let folder = given.map_or_else(|| command.folder.clone(), |given| join(&command.folder, given));
    let (folder, clone) = (plain(&folder), plain(clone));
    // A part that is known only at run time may be equal.
    if folder.contains(UNKNOWN) || clone.contains(UNKNOWN) {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let (one, other) = (last(&folder), last(&clone));
        return one.contains(UNKNOWN) || other.contains(UNKNOWN) || one == other;
    }
    folder == clone
        // A folder that `-C` specifies is the top of a repository.
        || given.is_none() && folder.starts_with(&format!("{clone}/"))
        // `cd` to an absolute path, while the clone's own folder is relative, and the other way
        // round.
        || folder.ends_with(&format!("/{clone}"))
        || !folder.is_empty() && clone.ends_with(&format!("/{folder}"))
}

pub(super) fn join(folder: &str, next: &str) -> String {
    if next.starts_with(['/', '~', UNKNOWN]) || folder.is_empty() {
        next.to_owned()
    } else {
        format!("{}/{next}", folder.trim_end_matches('/'))
    }
}

/// Returns a path without `.` and `..`.
pub(crate) fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns whether a word is a URL that contains a commit: its content never changes. AMD's wheels
/// have a short one, as in `.git76481f7c`.
pub(super) fn is_at_commit(word: &str) -> bool {
    let parts = || word.split(|c: char| !c.is_ascii_alphanumeric());
    let is_short = |part: &str| {
        part.strip_prefix("git").is_some_and(|rest| rest.len() >= 8 && is_hexadecimal(rest))
    };
    word.contains("https://") && parts().any(|part| is_commit(part) || is_short(part))
}

fn patches(facts: &Facts<'_>, words: &[&str], line: usize, found: &mut Findings<'_>) {
    let all = words.join(" ");
    // Scripts often edit the list in vLLM's CMakeLists.txt by matching its targets, not its name.
    let edits_list = ["gfx", "CMakeLists.txt"].iter().all(|text| all.contains(text))
        && !all.contains("AOTRITON");
    // `grep -q gfx1151 CMakeLists.txt || sed …` edits only releases without it.
    let is_guarded = || {
        facts.commands.iter().any(|other| {
            let has = |text: &str| other.words.iter().any(|word| word.text.contains(text));
            let is_before = other.words[0].line <= line;
            is_before && has("grep") && has("gfx") && has("CMakeLists.txt")
        })
    };
    let is_list = all.contains("HIP_SUPPORTED_ARCHS") || edits_list && facts.code.contains("vllm");
    if is_list && !is_guarded() {
        found.add("vllm-allowlist-sed", line, "vLLM's list of GPUs is edited with sed");
    }
    if all.contains("rtld_global") || all.contains("RTLD_GLOBAL") && all.contains("rocm_sdk") {
        found.add(
            "rtld-global-patch",
            line,
            "rocm_sdk is patched to load its libraries with RTLD_LOCAL",
        );
    }
}

/// Checks `sed '/x/d' FILE` in a build, which only prints the changed file.
fn printed(facts: &Facts<'_>, at: usize, words: &[&str], found: &mut Findings<'_>) {
    let command = &facts.commands[at];
    let is_input = at.checked_sub(1).is_some_and(|last| facts.commands[last].is_piped);
    let has_option = words[1..].iter().any(|word| word.starts_with('-'));
    let is_edit = |script: &str| {
        let is_deletion = script.starts_with('/') && script.ends_with("/d");
        is_deletion || script.starts_with("s/") && !script.ends_with('p')
    };
    let [_, script, file, ..] = words else { return };
    let is_unused = facts.kind == Kind::Dockerfile && !command.is_piped && !command.is_saved;
    if words[0] == "sed" && is_unused && !is_input && !has_option && is_edit(script) {
        let message = format!("`sed` prints the changed text, and leaves `{file}` as it is");
        found.add("sed-not-in-place", command.words[0].line, message);
    }
}

/// Checks `pip uninstall` in a build: without `-y`, and with a version.
fn uninstalled(facts: &Facts<'_>, at: usize, words: &[&str], found: &mut Findings<'_>) {
    let line = facts.commands[at].words[0].line;
    let is_build = facts.kind == Kind::Dockerfile && words[0] != "uv";
    let Some(start) = words.iter().position(|word| *word == "uninstall").filter(|_| is_build)
    else {
        return;
    };
    let rest = &words[start + 1..];
    let is_yes = |word: &&str| matches!(*word, "-y" | "--yes" | "-qy" | "-yq");
    // `yes | pip uninstall` answers the question.
    let is_answered = at.checked_sub(1).is_some_and(|last| facts.commands[last].is_piped);
    if !is_answered && !rest.iter().any(is_yes) {
        let message = "`pip uninstall` asks before it removes anything";
        found.add("pip-uninstall", line, message);
    }
    let has_version = |word: &&&str| !word.starts_with('-') && word.contains(['<', '>', '=']);
    if let Some(word) = rest.iter().find(has_version) {
        let message = format!("`pip uninstall` ignores the version in `{word}`");
        found.add("pip-uninstall", line, message);
    }
}

/// Checks `--flash-attn` without a value.
fn flash_attention(command: &ShellCommand, found: &mut Findings<'_>) {
    for (at, word) in command.words.iter().enumerate() {
        let next = command.words.get(at + 1).map(|next| next.text.as_str());
        let is_value = next.is_some_and(|next| !next.starts_with('-'));
        if matches!(word.text.as_str(), "-fa" | "--flash-attn") && !is_value {
            found.add("flash-attn-value", word.line, format!("`{}` has no value", word.text));
        }
    }
}

/// Checks `chmod 666 /dev/kfd` and `mknod -m 666 /dev/kfd …`.
fn open_to_all(words: &[&str], line: usize, found: &mut Findings<'_>) {
    let is_open = words
        .iter()
        .any(|word| matches!(*word, "666" | "0666" | "777" | "0777" | "a+rw" | "o+rw" | "ugo+rw"));
    if is_open
        && words.iter().any(|word| word.starts_with("/dev/kfd") || word.starts_with("/dev/dri"))
    {
        found.add("world-writable-gpu", line, format!("`{}`", words.join(" ")));
    }
}

/// Words that show that a file uses a GPU.
const GPU_WORDS: [&str; 7] = ["kfd", "/dev/dri", "rocm", "amdgpu", "gfx", "hsa_", "vulkan"];

fn privileged(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // A comment that names the GPU shows what the file is for.
    let lower = facts.text.to_ascii_lowercase();
    let names_gpu = GPU_WORDS.iter().any(|word| lower.contains(word)) || names_amd(&lower);
    if facts.privileged.is_empty() || !names_gpu {
        return;
    }
    for (line, message) in &facts.privileged {
        let is_own = |one: &&Container| {
            one.options.iter().any(|own| own.line == *line && own.text == "--privileged")
        };
        let mut owners = facts.containers.iter().filter(is_own);
        let has_devices =
            |one: &Container| one.options.iter().any(|own| own.text.starts_with("--device=/dev/"));
        let hit = Hit::new("privileged-container", *line, message.as_str());
        found.hit(if owners.next().is_some_and(has_devices) {
            hit.help("remove it: the container gets its devices already")
        } else {
            hit
        });
    }
}

/// Checks `pip install git+https://…`.
fn from_git(command: &ShellCommand, found: &mut Findings<'_>) {
    for word in &command.words {
        let Some(at) = word.text.find("git+") else { continue };
        let url = word.text[at + 4..].split('#').next().unwrap_or_default();
        let path = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (_, path) = path.split_once('/').unwrap_or(("", path));
        let name = path.split_once('@').map(|(_, name)| name);
        let repository = name.and_then(|name| url.strip_suffix(name)?.strip_suffix('@'));
        let shown = repository.unwrap_or(url).replace(UNKNOWN, "…");
        match name {
            None => {
                let message = format!("{shown} is installed from its current tip");
                let help = "append `@` and the full commit to the URL";
                found.add_with("clone-unpinned", word.line, message, help);
            }
            Some(name) if name.contains(UNKNOWN) || is_hexadecimal(name) => {}
            Some(name) if is_tag(name) && !may_move(repository, name) => {}
            Some(name) if is_tag(name) => {
                let message = format!("the {} `{name}` of {shown} is installed", kind_of(name));
                found.add("tag-not-commit", word.line, message);
            }
            Some(name) => {
                let message = format!("the branch `{name}` of {shown} is installed");
                found.add(branch_rule(name), word.line, message);
            }
        }
    }
}

/// Checks `pip install https://…/x.whl`.
fn from_url(command: &ShellCommand, words: &[&str], found: &mut Findings<'_>) {
    if !words.contains(&"install") || words.contains(&"--require-hashes") {
        return;
    }
    for word in &command.words {
        let url = word.text.split_once(" @ ").map_or(&*word.text, |(_, url)| url.trim());
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        let is_remote = url.starts_with("https://") || url.starts_with("http://");
        let file = url.rsplit('/').next().unwrap_or_default();
        let is_package = USED.iter().any(|end| file.ends_with(end));
        if is_remote && is_package && !fragment.contains("sha256=") && !is_at_commit(url) {
            // The first one of a command is enough.
            let shown = file.replace(UNKNOWN, "…");
            let message = format!("`{shown}` is installed from a URL without a hash");
            let hit = unchecked(word.line, &message, branch_of(url).as_deref());
            let is_branch = branch_of(url).is_some();
            return found.hit(if is_branch {
                hit
            } else {
                hit.help("append `#sha256=…` to the URL")
            });
        }
    }
}

/// Returns whether a name is a commit, or ends with one, as what `git describe` prints does.
fn is_hexadecimal(text: &str) -> bool {
    let commit = text.rsplit_once("-g").map_or(text, |(_, commit)| commit);
    commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Finds downloads whose content is used without a check.
fn download(facts: &Facts<'_>, at: usize, found: &mut Findings<'_>) {
    let command = &facts.commands[at];
    let line = command.words[0].line;
    let is_local = command.words.iter().any(|word| {
        ["://localhost", "://127.", "://0.", "://[::1]", "://host."]
            .iter()
            .any(|host| word.text.contains(host))
            || word.text.starts_with("localhost")
    });
    let asks_only = command.words.iter().any(|word| {
        let text = word.text.as_str();
        let has_i = text.starts_with('-') && !text.starts_with("--") && text.contains('I');
        matches!(text, "--head" | "--spider") || has_i && command.words[0].text.ends_with("curl")
    });
    // `curl … | grep -q TEXT` only searches the response.
    let next = facts.commands.get(at + 1).filter(|_| command.is_piped);
    let is_probe = next.is_some_and(|next| next.words[0].text.ends_with("grep"));
    if is_local || asks_only || is_probe {
        return;
    }
    let pull = command.words.iter().find(|word| is_pull_request(&word.text));
    if let Some(word) = pull.filter(|_| !is_verified(facts, command)) {
        let message = format!("`{}` is used as a patch", word.text.replace(UNKNOWN, "…"));
        return found.add("pull-request-patch", word.line, message);
    }
    let is_fixed = command.words.iter().any(|word| is_at_commit(&word.text));
    let branch = command.words.iter().find_map(|word| branch_of(&word.text));
    if let Some(message) = piped(facts, at).filter(|_| !is_fixed) {
        return found.hit(unchecked(line, message, branch.as_deref()));
    }
    let is_insecure = command.words.iter().any(|word| {
        let text = word.text.as_str();
        let has_k = text.starts_with('-') && !text.starts_with("--") && text.contains('k');
        matches!(text, "--insecure" | "--no-check-certificate")
            || has_k && command.words[0].text.ends_with("curl")
    });
    if is_insecure {
        found.add("download-unchecked", line, "a download does not check the server's certificate");
    } else if let Some(file) = saved(command)
        .or_else(|| made_executable(facts, at))
        .filter(|_| !is_fixed && !is_verified(facts, command))
    {
        let is_plain = command.words.iter().any(|word| word.text.starts_with("http://"));
        let how = if is_plain { "downloaded without encryption" } else { "downloaded" };
        let message = format!("`{file}` is {how}, and nothing checks it");
        let hit = unchecked(line, &message, branch.as_deref());
        // The server never changes such a file: its path contains the file's hash.
        let is_kept = command.words.iter().any(|word| word.text.contains(KEPT));
        found.hit(if is_kept { hit.at_most(Severity::Information) } else { hit });
    }
}

/// Returns the problem if the content of a download is piped into a program.
fn piped(facts: &Facts<'_>, at: usize) -> Option<&'static str> {
    let next = facts.commands.get(at + 1).filter(|_| facts.commands[at].is_piped)?;
    let words: Vec<&str> = next.texts();
    match words[0].rsplit('/').next().unwrap_or_default() {
        "sh" | "bash" | "zsh" | "dash" => Some("a download is piped straight into a shell"),
        // `python3 -m json.tool` and `python3 -c '…'` only read it.
        program if program.starts_with("python") && !words[1..].iter().any(|w| is_code(w)) => {
            Some("a download is piped straight into Python")
        }
        program @ ("perl" | "ruby" | "node" | "php") if runs_input(program, &words[1..]) => {
            Some("a download is piped straight into an interpreter")
        }
        "tar" | "bsdtar" => Some("a download is unpacked without a check"),
        _ => None,
    }
}

/// The host and folder of files on PyPI.
const KEPT: &str = "files.pythonhosted.org/packages/";

/// The name endings of files that are unpacked, installed or run.
const USED: [&str; 14] = [
    ".tar.gz",
    ".tgz",
    ".tar.xz",
    ".tar.bz2",
    ".tar.zst",
    ".zip",
    ".deb",
    ".rpm",
    ".whl",
    ".run",
    ".sh",
    ".py",
    ".appimage",
    ".apk",
];

/// Folders of programs.
const BINARIES: [&str; 4] = ["/usr/local/bin/", "/usr/bin/", "/.local/bin/", "/usr/local/sbin/"];

/// Returns the path after the option of a download for its file.
pub(super) fn target_of(command: &ShellCommand) -> Option<&str> {
    // `curl -O` has no value.
    let takes_name = |option: &str| {
        matches!(option, "-o" | "--output" | "--output-document")
            || option == "-O" && command.words[0].text.ends_with("wget")
    };
    let two = command.words[1..].windows(2).find(|two| takes_name(&two[0].text))?;
    Some(&two[1].text)
}

/// Returns the file that a download saves, if such files are unpacked, installed or run.
pub(super) fn saved(command: &ShellCommand) -> Option<String> {
    let words: Vec<&str> = command.words.iter().skip(1).map(|word| word.text.as_str()).collect();
    let named = target_of(command);
    // Every file in such a folder is a program.
    let program = named.filter(|path| BINARIES.iter().any(|folder| path.contains(folder)));
    if let Some(path) = program {
        return path.rsplit('/').next().map(|name| name.replace(UNKNOWN, "…"));
    }
    // A file name in an option takes precedence over the last part of the URL.
    named
        .into_iter()
        .chain(words.iter().copied())
        .filter_map(|word| word.split(['?', '#']).next()?.rsplit('=').next())
        .filter(|word| !word.starts_with('-'))
        .map(|word| word.rsplit('/').next().unwrap_or(word).replace(UNKNOWN, "…"))
        .find(|name| USED.iter().any(|end| name.to_ascii_lowercase().ends_with(end)))
}

fn is_code(word: &str) -> bool {
    word.starts_with("-c") || word.starts_with("-m") || word.ends_with(".py")
}
