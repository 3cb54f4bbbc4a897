//! Rules for steps of a build that cannot work, have no effect, or are in the wrong order.

use std::collections::BTreeMap;

use super::commands::{cloned_folder, plain};
use super::folder::is_root;
use super::images::released;
use super::programs::is_conditional;
use super::stages::{ByInstruction, by_instruction, commands_of, fixed_base, parent, parts};
use crate::data::{ReleaseRow, data};
use crate::dockerfile::Instruction;
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        without_limit(facts, found);
    }
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    for (at, own) in all.iter().enumerate().filter(|(_, one)| parts(one).0 == "RUN") {
        of_host(facts, own, commands_of(&commands, own), found);
        changes_folder(all, at, found);
        only_exports(own, found);
        only_activates(facts, own, found);
        other_release(facts, all, own, commands_of(&commands, own), found);
    }
    without_root(facts, all, &commands, found);
    cloned_twice(all, &commands, found);
    only_lists(facts, all, &commands, found);
    copied_early(all, &commands, found);
}

/// Returns the name of the program of a command.
fn program(command: &ShellCommand) -> &str {
    let first = command.words[0].text.as_str();
    first.rsplit('/').next().unwrap_or(first)
}

/// Returns what a command would change on the host; `None` if it does not.
fn host_step(command: &ShellCommand) -> Option<&'static str> {
    let has = |names: &[&str]| command.words[1..].iter().any(|word| names.contains(&&*word.text));
    let is_query = has(&["--version", "-V", "--help", "-n", "--dry-run", "--root"]);
    match program(command) {
        "modprobe" | "insmod" | "rmmod" if !is_query => Some("the modules of the host's kernel"),
        "sysctl" if has(&["-w", "-p", "--write", "--load"]) => {
            Some("write access to the kernel's settings")
        }
        "systemctl" if has(&["start", "restart", "daemon-reload"]) && !is_query => {
            Some("a running systemd")
        }
        _ => None,
    }
}

/// Checks for commands that load modules, change settings of the kernel, or start services.
fn of_host(
    facts: &Facts<'_>,
    own: &Instruction,
    commands: &[&ShellCommand],
    found: &mut Findings<'_>,
) {
    let of_host: Vec<_> =
        commands.iter().filter_map(|command| Some((command, host_step(command)?))).collect();
    // A replacement of systemctl works without systemd.
    let others = ["systemctl.py", "systemctl3", "SYSTEMD_OFFLINE", "security=insecure"];
    if of_host.is_empty() || others.iter().any(|other| facts.code.contains(other)) {
        return;
    }
    for (command, what) in of_host {
        let message = format!("`{}` needs {what}, which a build does not have", program(command));
        let hit = Hit::new("host-in-build", command.words[0].line, message);
        let may_work = program(command) == "sysctl"
            || command.words.iter().any(|word| word.text == "daemon-reload");
        let may_fail = may_work || is_conditional(&own.text) || own.text.contains(';');
        found.hit(if may_fail { hit.at_most(Severity::Warning) } else { hit });
    }
}

/// Checks for a `RUN` that only sets variables of its own shell: `export A=1 && export B=2 && true`.
fn only_exports(own: &Instruction, found: &mut Findings<'_>) {
    let (name, rest) = parts(own);
    let pieces: Vec<&str> = rest.split("&&").map(str::trim).collect();
    let is_export = |piece: &&str| piece.starts_with("export ") && !piece.contains(['>', '|', ';']);
    let sets = pieces.iter().filter(|piece| is_export(piece)).count();
    let is_idle = |piece: &&str| is_export(piece) || matches!(*piece, "true" | ":");
    // A single `export` has its own row.
    if name == "RUN" && sets > 0 && pieces.len() > 1 && pieces.iter().all(is_idle) {
        found.add("shell-state-lost", own.line, "this `RUN` only sets variables of its own shell");
    }
}

/// Checks for a virtual environment that is activated at the end of a `RUN`.
fn only_activates(facts: &Facts<'_>, own: &Instruction, found: &mut Findings<'_>) {
    let last = parts(own).1.rsplit(['&', ';']).next().unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    let ["." | "source", file] = words.as_slice() else { return };
    let Some(folder) = file.strip_suffix("/activate").filter(|path| path.ends_with("/bin")) else {
        return;
    };
    // `ENV PATH=/venv/bin:$PATH` makes the environment the usual one.
    let is_path = |line: &str| line.trim_start().starts_with("ENV") && line.contains(folder);
    if !facts.code.lines().any(is_path) {
        let message = "a virtual environment is activated at the end of a `RUN`";
        found.add("shell-state-lost", own.last, message);
    }
}

/// Programs that work on the folder in which they run.
const LOCAL: [&str; 4] = ["cargo", "make", "ninja", "npm"];

/// Checks for `cd` at the end of a longer `RUN`, if the next one works on the current folder.
fn changes_folder(all: &[Instruction], at: usize, found: &mut Findings<'_>) {
    let own = &all[at];
    let (_, rest) = parts(own);
    if rest.contains(['"', '\'', '(']) || rest.contains("<<") {
        return;
    }
    let last = rest.rsplit("&&").next().unwrap_or_default();
    let last = last.rsplit(';').next().unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    let ["cd" | "pushd", folder] = words.as_slice() else { return };
    let is_inside = !folder.starts_with(['/', '~', '$', '-', '.']) && last.len() < rest.len();
    let next = all.get(at + 1).filter(|next| parts(next).0 == "RUN" && is_inside);
    let Some(next) = next.map(|next| parts(next).1) else { return };
    let first = next.split_whitespace().next().unwrap_or_default();
    let is_here = |word: &str| {
        matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../")
    };
    // `make -C FOLDER`, `pip install ./FOLDER`
    let name = folder.trim_end_matches('/').rsplit('/').next().unwrap_or(folder);
    let mut pieces = next.split(|c: char| c.is_whitespace() || matches!(c, '/' | '['));
    let names_it =
        pieces.any(|word| word == name) || next.contains("--prefix") || next.contains(" -C ");
    if !names_it && (LOCAL.contains(&first) || next.split_whitespace().any(is_here)) {
        let message = "the `cd` at the end of this `RUN` has no effect on the next one";
        found.add("shell-state-lost", own.last, message);
    }
}

/// Returns whether a word contains the name of a release in a form that file names have:
/// `ubuntu-22.04`, `ubuntu2204`, `jammy`.
fn names_release(lower: &str, row: &ReleaseRow) -> bool {
    let Some((name, number)) = row.name.split_once(' ') else { return false };
    let name = name.to_ascii_lowercase();
    let numbers = [number.to_owned(), number.replace('.', "")];
    let separators = ["", "-", "_", ".", "/"];
    let is_form = numbers.iter().any(|form| {
        separators.iter().any(|separator| lower.contains(&format!("{name}{separator}{form}")))
    });
    let mut parts = lower.split(|c: char| !c.is_ascii_alphanumeric());
    is_form || row.codename.as_deref().is_some_and(|codename| parts.any(|part| part == codename))
}

/// Checks for a Debian package whose file name says that it is for another release.
fn other_release(
    facts: &Facts<'_>,
    all: &[Instruction],
    own: &Instruction,
    commands: &[&ShellCommand],
    found: &mut Findings<'_>,
) {
    let Some(base) = released(fixed_base(facts, all, own.stage)) else { return };
    let distribution = base.name.split(' ').next().unwrap_or_default();
    for command in commands.iter().filter(|one| matches!(program(one), "wget" | "curl" | "aria2c"))
    {
        let lower = command.texts().join(" ").to_ascii_lowercase();
        let is_other = |row: &&ReleaseRow| {
            row.name.starts_with(distribution)
                && row.name != base.name
                && names_release(&lower, row)
        };
        let Some(other) = data().releases.iter().find(is_other) else { continue };
        let line = command.words[0].line;
        let is_said = found.places().contains(&(line, "other-distribution"));
        let is_file = command.words.iter().any(|word| word.text.ends_with(".deb"));
        if is_file && !is_said && !names_release(&lower, base) && !is_conditional(&own.text) {
            let message = format!("a package for {} is installed on {}", other.name, base.name);
            let help = format!("use the package for {}", base.name);
            // Some vendors have no newer package, and theirs also works there.
            let hit = Hit::new("other-distribution", line, message).help(help);
            found.hit(hit.at_most(Severity::Information));
        }
    }
}

/// Package managers that only root may use.
const MANAGERS: [&str; 8] = ["apt", "apt-get", "apk", "dnf", "microdnf", "pacman", "yum", "zypper"];

/// Returns whether a command changes the packages of the system.
pub(super) fn installs_for_all(command: &ShellCommand) -> bool {
    let changes = |word: &str| {
        let names = ["add", "install", "update", "upgrade", "dist-upgrade"];
        names.contains(&word) || word.starts_with("-S")
    };
    MANAGERS.contains(&program(command))
        && command.words[1..].iter().any(|word| changes(&word.text))
        && !command.words.iter().any(|word| word.text == "download")
}

/// Programs that give a command the rights of root.
const RAISES: [&str; 5] = ["sudo", "doas", "fakeroot", "su ", "gosu"];

/// Returns whether a text contains a program that gives the rights of root.
pub(crate) fn may_be_root(text: &str) -> bool {
    RAISES.iter().any(|program| text.contains(program))
}

/// Checks for package managers after `USER`.
fn without_root(
    facts: &Facts<'_>,
    all: &[Instruction],
    commands: &ByInstruction<'_>,
    found: &mut Findings<'_>,
) {
    let mut ends: Vec<Option<String>> = Vec::new();
    for stage in 1..=facts.stages.len() {
        let earlier = parent(facts, all, stage).and_then(|at| ends.get(at - 1).cloned());
        let mut user: Option<String> = earlier.flatten();
        for own in all.iter().filter(|one| one.stage == stage) {
            let (name, rest) = parts(own);
            match name.as_str() {
                "USER" => {
                    let given = rest.split_whitespace().next().unwrap_or_default();
                    let is_plain = !given.contains('$') && !is_root(given);
                    user = is_plain.then(|| given.to_owned());
                }
                "RUN" if !may_be_root(rest) && !is_conditional(rest) => {
                    let own = commands_of(commands, own);
                    let command = own.iter().find(|one| installs_for_all(one));
                    if let Some((command, who)) = command.zip(user.clone()) {
                        let message = format!("`{}` runs as `{who}` here", program(command));
                        let hit = Hit::new("root-missing", command.words[0].line, message);
                        // Only the last of several commands decides whether the build ends.
                        let may_go_on = rest.contains(';') || rest.contains("<<");
                        found.hit(if may_go_on { hit.at_most(Severity::Warning) } else { hit });
                        // The next commands have the same cause.
                        user = None;
                    }
                }
                _ => {}
            }
        }
        ends.push(user);
    }
}

/// Checks for two clones into the same folder of a stage.
fn cloned_twice(all: &[Instruction], commands: &ByInstruction<'_>, found: &mut Findings<'_>) {
    let mut folders: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for own in all.iter().filter(|one| parts(one).0 == "RUN") {
        // What is in a mount is not in the image.
        let is_sure = !is_conditional(&own.text)
            && !own.text.contains(';')
            && !own.text.contains("--mount")
            && !own.text.contains("<<");
        for command in commands_of(commands, own) {
            if matches!(program(command), "rm" | "mv" | "find") {
                folders.clear();
            }
            let Some(folder) = cloned_folder(command).filter(|_| is_sure) else { continue };
            let folder = plain(&folder);
            if folder.contains([UNKNOWN, '~', '*']) || folder.is_empty() {
                continue;
            }
            let line = command.words[0].line;
            let key = (own.stage, folder);
            match folders.get(&key) {
                Some(first) => {
                    let message = format!("`{}` contains the clone of line {first}", key.1);
                    found.add("folder-not-empty", line, message);
                }
                None => drop(folders.insert(key, line)),
            }
        }
    }
}

/// Texts of code that may install packages after `apt-get update`, or let users do so.
const MAY_INSTALL: [&str; 11] = [
    "apt",
    "ansible",
    "bash",
    ".sh",
    "/sh",
    "| sh",
    "dpkg",
    "make",
    "playwright",
    "rosdep",
    "sleep",
];

/// Checks for `apt-get update` in a file that installs no package after it.
fn only_lists(
    facts: &Facts<'_>,
    all: &[Instruction],
    commands: &ByInstruction<'_>,
    found: &mut Findings<'_>,
) {
    let has_start = all.iter().any(|one| matches!(&*parts(one).0, "CMD" | "ENTRYPOINT"));
    for own in all.iter().filter(|one| has_start && parts(one).0 == "RUN") {
        let updates = |one: &&&ShellCommand| {
            matches!(program(one), "apt" | "apt-get")
                && one.words.iter().any(|word| word.text == "update")
        };
        let Some(command) = commands_of(commands, own).iter().find(updates) else { continue };
        let later =
            facts.lines().filter(|(line, text)| *line > own.last && !facts.kind.is_comment(text));
        let mut later = later.map(|(_, text)| text);
        let may_install = |text: &str| MAY_INSTALL.iter().any(|word| text.contains(word));
        // The instruction itself contains `apt` once.
        let others = &MAY_INSTALL[1..];
        let is_alone = own.text.matches("apt").count() == 1
            && !others.iter().any(|word| own.text.contains(word));
        if is_alone && !later.any(may_install) {
            let message = "the package lists are fetched, but nothing is installed after that";
            let hit = Hit::new("package-lists-stale", command.words[0].line, message);
            found.hit(hit.help("remove the command: it only makes the image larger"));
        }
    }
}

/// Returns what a command installs without the source of the project; `None` if it is another
/// command.
fn independent(command: &ShellCommand) -> Option<&'static str> {
    let words = command.texts();
    let has = |names: &[&str]| words[1..].iter().any(|word| names.contains(word));
    let name = program(command);
    if MANAGERS.contains(&name) && has(&["install", "add"]) {
        let is_file = words.iter().any(|word| word.starts_with(['.', '/']));
        return (!is_file).then_some("of packages with the package manager");
    }
    // `pip install .` needs the source.
    let needs_source = words.iter().any(|word| {
        word.starts_with('.')
            || word.starts_with("-e")
            || word.contains(".whl")
            || *word == "--editable"
    });
    let installs = is_pip(&words) && has(&["install"]) && has(&["-r", "--requirement"]);
    (installs && !needs_source).then_some("with `pip install -r`")
}

/// Checks for a copy of all files before the installation of packages.
fn copied_early(all: &[Instruction], commands: &ByInstruction<'_>, found: &mut Findings<'_>) {
    for (at, own) in all.iter().enumerate() {
        let (name, rest) = parts(own);
        let first = rest.split_whitespace().find(|word| !word.starts_with("--"));
        let is_all = matches!(name.as_str(), "COPY" | "ADD") && !rest.contains("--from=");
        if !is_all || !first.is_some_and(|word| matches!(word, "." | "./")) {
            continue;
        }
        let later = all[at + 1..].iter().take_while(|one| one.stage == own.stage);
        let later =
            later.filter(|one| parts(one).0 == "RUN" && !one.text.contains("--mount=type="));
        let mut steps = later.flat_map(|one| commands_of(commands, one));
        if let Some((what, line)) =
            steps.find_map(|one| Some((independent(one)?, one.words[0].line)))
        {
            let message =
                format!("a change to any file repeats the installation {what} on line {line}");
            return found.add("copy-too-early", own.line, message);
        }
    }
}

/// Words of files that build large programs.
const LARGE: [&str; 8] =
    ["composable", "ctranslate", "ggml", "llama", "onnxruntime", "pytorch", "vllm", "whisper"];

/// Returns whether a command builds with any number of jobs.
fn is_unlimited(command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_number = |word: &str| {
        word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit() || c == UNKNOWN)
    };
    let has_limit = words.iter().any(|word| word.starts_with("-l") || word.starts_with("--load"));
    let is_open = |option: &str| {
        let at = words.iter().position(|word| *word == option);
        at.is_some_and(|at| !words.get(at + 1).is_some_and(|next| is_number(next)))
    };
    let is_build = words.get(1) == Some(&"--build") || words.contains(&"--build");
    match program(command) {
        "make" | "gmake" if !has_limit => is_open("-j") || is_open("--jobs"),
        "cmake" if is_build && !words.iter().any(|word| word.contains("preset")) => {
            is_open("-j") || is_open("--parallel")
        }
        _ => false,
    }
}

/// Checks for builds without a limit of the number of jobs. The first one is enough.
fn without_limit(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has_ninja = lower.contains("ninja");
    let is_meant =
        |one: &&ShellCommand| is_unlimited(one) && (program(one) != "cmake" || !has_ninja);
    let Some(command) = facts.commands.iter().find(is_meant) else { return };
    let is_large = LARGE.iter().any(|word| lower.contains(word));
    let option = if program(command) == "cmake" { "cmake --build -j" } else { "make -j" };
    let message = format!("`{option}` without a number does not limit the number of compilers");
    let hit = Hit::new("jobs-unlimited", command.words[0].line, message);
    found.hit(if is_large { hit } else { hit.at_most(Severity::Information) });
}
