//! Rules for commands whose failure nothing notices: `;` and `|| true` in a `RUN`, scripts that go on,
//! loops that wait for a server which has ended.

use super::listeners::is_in_image;
use super::stages::{by_instruction, commands_of, parts};
use super::traps::is_for_source;
use crate::dockerfile::Instruction;
use crate::python::is_pip;
use crate::shell::{Operator, ShellCommand};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    pulls(facts, found);
    match facts.kind {
        Kind::Dockerfile => {
            let all = facts.instructions();
            let commands = by_instruction(facts, all);
            for own in all.iter().filter(|own| parts(own).0 == "RUN") {
                in_build(facts, own, commands_of(&commands, own), found);
            }
            documents(facts, all, found);
            endless(facts, found);
            endless_in_documents(facts, found);
            asleep(facts, found);
        }
        Kind::Shell => {
            let all: Vec<&ShellCommand> = facts.commands.iter().collect();
            if let Some((line, program)) = hidden_chain(&all, &["true", ":"]) {
                hides(line, &program, found);
            }
            silent(facts, &all, found);
            piped(facts, &all, found);
            goes_on(facts, found);
            endless(facts, found);
            endless_in_documents(facts, found);
            asleep(facts, found);
            // The build of an image starts without the file.
            if !is_in_image(facts, context) {
                overwrites(facts, found);
            }
        }
        Kind::Compose | Kind::Manifest => {
            endless(facts, found);
            asleep(facts, found);
        }
        _ => {}
    }
}

/// Returns the name of a program that installs, fetches or builds something, if a command runs it.
pub(super) fn step(command: &ShellCommand) -> Option<String> {
    let words: Vec<&str> = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let has = |names: &[&str]| words[1..].iter().any(|word| names.contains(word));
    let is_step = match program {
        "apt" | "apt-get" | "dnf" | "microdnf" | "yum" | "zypper" => has(&["install"]),
        "apk" => has(&["add"]),
        "pacman" | "yay" | "paru" => words[1..].iter().any(|word| word.starts_with("-S")),
        "conda" | "mamba" | "micromamba" => has(&["install", "create", "update"]),
        "git" => has(&["clone"]) || has(&["am", "apply"]) && !has(&["--check", "-R", "--stat"]),
        "patch" => !has(&["--dry-run", "-R", "--reverse"]),
        "dpkg" => has(&["-i", "--install"]),
        "amdgpu-install" | "curl" | "wget" => !has(&["--version"]),
        "make" | "ninja" => !has(&["check", "clean", "distclean", "test", "uninstall"]),
        "cmake" => !has(&["--version", "--install-prefix"]),
        "cargo" | "go" => has(&["build", "install"]),
        "npm" | "pnpm" | "yarn" => has(&["ci", "install", "build"]),
        "uv" => has(&["sync"]) || has(&["install"]),
        _ => is_pip(&words) && has(&["install"]),
    };
    let shown = if is_pip(&words) { "pip" } else { program };
    let sub = ["install", "clone", "add", "apply", "sync"].iter().find(|one| has(&[*one]));
    is_step.then(|| sub.map_or_else(|| shown.to_owned(), |sub| format!("{shown} {sub}")))
}

/// Returns whether a text makes the shell stop at the first error.
pub(super) fn is_strict(text: &str) -> bool {
    let mut options = text.split("set -").skip(1).flat_map(|rest| {
        let end = rest.find([';', '&', '|', '\n']).unwrap_or(rest.len());
        let mut words = rest[..end].split_whitespace();
        let first = words.next().unwrap_or_default();
        std::iter::once(first).chain(words.filter_map(|word| word.strip_prefix('-')))
    });
    text.contains("errexit") || options.any(|flags| !flags.starts_with('-') && flags.contains('e'))
}

/// The rule.
const LOST: &str = "build-status-lost";

/// Checks the commands of a `RUN`.
fn in_build(
    facts: &Facts<'_>,
    own: &Instruction,
    commands: &[&ShellCommand],
    found: &mut Findings<'_>,
) {
    // The `||` can be part of the text that another shell runs.
    let has_script = [" -c '", " -c \""].iter().any(|start| own.text.contains(start));
    let chain = hidden_chain(commands, &["true", ":", "echo"]).filter(|_| !has_script);
    let single = hidden(commands).filter(|_| chain.is_none());
    // The rows about words report some of them.
    if let Some((line, program)) = chain {
        hides(line, &program, found);
    }
    let places = found.places();
    let is_said = places.range((own.line, "")..(own.last + 1, "")).any(|(_, rule)| *rule == LOST);
    if let Some((line, program)) = single.filter(|_| !is_said) {
        let message = format!("the build continues if `{program}` fails");
        let hit = Hit::new(LOST, line, message);
        let is_patch = program == "patch" || program == "git apply";
        let hit = hit.help("remove the `||` and what follows it, if the image needs the result");
        found.hit(if is_patch { hit } else { hit.at_most(Severity::Information) });
    }
    if let Some(command) = thrown_away(facts, commands).filter(|_| !is_strict(&own.text)) {
        let program = &command.words[0].text;
        let message =
            format!("`2>/dev/null;` hides that `{program}` has failed, and the build continues");
        let hit = Hit::new("build-status-lost", command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
    let has_case = own.text.contains("case ") || own.text.contains("sh -c ");
    let is_safe = || is_strict(&own.text) || has_case || is_strict_shell(facts);
    if let Some((line, program)) = ignored(commands).filter(|_| !is_safe()) {
        let message = format!("after `;`, the build continues even if `{program}` has failed");
        let hit = Hit::new("build-status-lost", line, message);
        found.hit(hit.at_most(Severity::Information).help("write `&&`, or `set -e` at the start"));
    }
}

/// Returns whether an instruction `SHELL` sets a shell that stops at the first error.
fn is_strict_shell(facts: &Facts<'_>) -> bool {
    let shells = facts.code.lines().filter(|line| line.starts_with("SHELL"));
    shells.into_iter().any(|line| {
        let mut words = line.split(['"', '\'', ',', ' ', '[', ']']);
        line.contains("errexit")
            || words.any(|word| {
                let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                letters.is_some_and(|letters| letters.contains('e'))
            })
    })
}

/// Reports the `|| true` after a chain.
fn hides(line: usize, program: &str, found: &mut Findings<'_>) {
    let message = format!(
        "this `||` applies to the whole chain of `&&`, so it also hides a failure of `{program}`"
    );
    let help = "write parentheses around the command that may fail: `a && (b || true) && c`";
    found.hit(Hit::new("build-status-lost", line, message).help(help));
}

/// Returns whether a command is the first one of a group, a branch or a loop.
fn is_start(command: &ShellCommand) -> bool {
    !command.keywords.is_empty()
}

/// Returns whether a command hides the failure of the one before it: `|| true`.
fn forgives(commands: &[&ShellCommand], at: usize, names: &[&str]) -> bool {
    let Some(next) = commands.get(at + 1) else { return false };
    let stops = commands[at + 1..]
        .iter()
        .take(3)
        .any(|one| matches!(one.words[0].text.as_str(), "exit" | "return" | "false" | "die"));
    commands[at].operator == Operator::Or
        && !is_start(next)
        && names.contains(&next.words[0].text.as_str())
        && !stops
}

/// Returns whether a message says that the step before it is optional.
fn is_meant(message: &ShellCommand) -> bool {
    let said = message.texts().join(" ").to_ascii_lowercase();
    ["already", "optional", "skip"].iter().any(|word| said.contains(word))
}

/// Returns the line of a `|| true` after a chain of `&&`, and the name of an earlier step of the
/// chain.
fn hidden_chain(commands: &[&ShellCommand], names: &[&str]) -> Option<(usize, String)> {
    (0..commands.len()).filter(|at| forgives(commands, *at, names)).find_map(|at| {
        let mut first = at;
        while first > 0
            && commands[first - 1].operator == Operator::And
            && !is_start(commands[first])
        {
            first -= 1;
        }
        let place = (first..at).find(|place| step(commands[*place]).is_some())?;
        let program = step(commands[place])?;
        let is_message =
            |one: &&ShellCommand| matches!(one.words[0].text.as_str(), "echo" | "printf");
        let only_reports = commands[place + 1..=at].iter().all(is_message);
        let is_open = !is_condition(commands[first]) && !is_meant(commands[at + 1]);
        (is_open && !only_reports).then(|| (commands[at + 1].words[0].line, program))
    })
}

/// Returns whether a command is the condition of `if` or of a loop.
pub(super) fn is_condition(command: &ShellCommand) -> bool {
    let last = command.keywords.split(' ').rfind(|word| *word != "!");
    last.is_some_and(|word| matches!(word, "if" | "elif" | "while" | "until"))
}

/// Checks a script for an installation whose messages and failure are both hidden.
fn silent(facts: &Facts<'_>, all: &[&ShellCommand], found: &mut Findings<'_>) {
    for at in (0..all.len()).filter(|at| forgives(all, *at, &["true", ":", "echo"])) {
        let (first, last) = (all[at].words[0].line, all[at + 1].words[0].line);
        let mut lines =
            facts.lines().skip(first.saturating_sub(1)).take((last + 1).saturating_sub(first));
        let is_silent = lines
            .any(|(_, text)| text.split("||").next().is_some_and(|own| own.contains("/dev/null")));
        let program = step(all[at]).filter(|program| program.contains("install"));
        // A row about words reports those in one line.
        if let Some(program) = program.filter(|_| is_silent && last > first)
            && !found.places().contains(&(last, LOST))
        {
            let message = format!("the script hides that `{program}` has failed, and why");
            let hit = Hit::new("build-status-lost", last, message);
            found.hit(hit.at_most(Severity::Information));
        }
    }
}

/// Checks a script for a test of `curl … | bash`, whose status is that of `bash`.
fn piped(facts: &Facts<'_>, all: &[&ShellCommand], found: &mut Findings<'_>) {
    if facts.code.contains("pipefail") {
        return;
    }
    for two in all.windows(2) {
        let [download, shell] = [two[0], two[1]];
        let name = |one: &ShellCommand| {
            let first = one.words[0].text.as_str();
            first.rsplit('/').next().unwrap_or(first).to_owned()
        };
        let is_pipe = matches!(name(download).as_str(), "curl" | "wget") && download.is_piped;
        let is_shell = matches!(name(shell).as_str(), "bash" | "sh");
        let is_tested = is_condition(download) || shell.operator == Operator::Or;
        if is_pipe && is_shell && is_tested {
            let message =
                "this tests the status of the shell, which is 0 even if the download fails";
            let line = shell.words[0].line;
            found.hit(Hit::new("build-status-lost", line, message).at_most(Severity::Information));
        }
    }
}

/// Returns the first command that copies files, and whose messages and status are both thrown away.
fn thrown_away<'c>(facts: &Facts<'_>, commands: &[&'c ShellCommand]) -> Option<&'c ShellCommand> {
    let copies = |one: &ShellCommand| {
        matches!(one.words[0].text.as_str(), "cp" | "mv" | "tar" | "unzip")
            && one.operator == Operator::End
    };
    let is_thrown = |two: &&[&ShellCommand]| {
        let (first, last) = (two[0].words[0].line, two[1].words[0].line);
        let mut lines =
            facts.lines().skip(first.saturating_sub(1)).take((last + 1).saturating_sub(first));
        let is_end = !["fi", "done", "esac", "}"].contains(&two[1].words[0].text.as_str());
        let is_silent = lines.any(|(_, text)| {
            text.replace("2> ", "2>").contains("2>/dev/null;") || text.contains("2>/dev/null ;")
        });
        copies(two[0]) && !is_condition(two[0]) && is_end && is_silent
    };
    commands.windows(2).find(is_thrown).map(|two| two[0])
}

/// Returns the line and the name of a step that may fail.
fn hidden(commands: &[&ShellCommand]) -> Option<(usize, String)> {
    (0..commands.len()).filter(|at| forgives(commands, *at, &["true", ":", "echo"])).find_map(
        |at| {
            let (command, next) = (commands[at], commands[at + 1]);
            let program = step(command).or_else(|| fetches_model(command))?;
            // In a branch or in parentheses, this is meant.
            let is_patch = program == "patch" || program == "git apply";
            let is_plain = !is_start(command) || is_patch && command.keywords == "do";
            (is_plain && !is_meant(next)).then(|| (next.words[0].line, program))
        },
    )
}

/// Returns the name of a program that fetches a model for the image.
fn fetches_model(command: &ShellCommand) -> Option<String> {
    let text = command.texts().join(" ");
    let is_download =
        ["from_pretrained", "snapshot_download", "hf download", "load_model", "Separator("]
            .iter()
            .any(|one| text.contains(one));
    is_download.then(|| command.words[0].text.clone())
}

/// Returns the first step, and its name, whose failure `;` separates from a later command. A step of
/// a chain of `&&` ends the chain.
fn ignored(commands: &[&ShellCommand]) -> Option<(usize, String)> {
    let ends = ["fi", "done", "esac", "}", ")"];
    let goes_on = |at: usize| {
        let first_word = |place: usize| commands.get(place).map(|one| one.words[0].text.as_str());
        // After `fi;`, the command that follows decides.
        let is_end = first_word(at + 1) == Some("fi") && commands[at + 1].operator == Operator::End;
        let next = commands.get(if is_end { at + 2 } else { at + 1 });
        next.is_some_and(|next| {
            let is_branch =
                ["do", "el", "then", "}"].iter().any(|word| next.keywords.starts_with(word));
            !is_branch && !ends.contains(&next.words[0].text.as_str())
        })
    };
    let lost = |at: &usize| commands[*at].operator == Operator::End && goes_on(*at);
    let first = |name: fn(&ShellCommand) -> Option<String>| {
        (0..commands.len()).filter(lost).find_map(|at| {
            let own = chain(commands, at).iter();
            own.into_iter().find_map(|one| Some((one.words[0].line, name(one)?)))
        })
    };
    first(step).or_else(|| first(update))
}

/// Returns the commands of the chain of `&&` that ends at a command; none if the chain is a branch.
fn chain<'a, 'c>(commands: &'a [&'c ShellCommand], last: usize) -> &'a [&'c ShellCommand] {
    let mut first = last;
    while first > 0 && commands[first - 1].operator == Operator::And && !is_start(commands[first]) {
        first -= 1;
    }
    // A chain that begins with a test is a branch.
    let begin = commands[first].words[0].text.as_str();
    let is_test = matches!(begin, "[" | "[[" | "test" | "command");
    if is_condition(commands[first]) || is_test { &[] } else { &commands[first..=last] }
}

/// Returns the name of an update of the package lists.
fn update(command: &ShellCommand) -> Option<String> {
    let words = command.texts();
    let is_update = matches!(words.as_slice(), ["apt" | "apt-get", .., "update"]);
    is_update.then(|| format!("{} update", words[0]))
}

/// Checks the here documents of `RUN <<EOF` for commands that may fail.
fn documents(facts: &Facts<'_>, all: &[Instruction], found: &mut Findings<'_>) {
    for (at, own) in all.iter().enumerate().filter(|(_, own)| parts(own).0 == "RUN") {
        let rest = parts(own).1.split_whitespace().find(|word| !word.starts_with("--"));
        if !rest.is_some_and(|word| word.starts_with("<<")) || is_strict_shell(facts) {
            continue;
        }
        let end = all.get(at + 1).map_or(usize::MAX, |next| next.line);
        let lines = facts.lines().filter(|(line, _)| (own.last + 1..end).contains(line));
        let body: Vec<&str> = lines.map(|(_, text)| text).collect();
        let first = body.first().copied().unwrap_or_default();
        let is_own = |one: &&ShellCommand| (own.last + 1..end).contains(&one.words[0].line);
        let commands: Vec<&ShellCommand> = facts.commands.iter().filter(is_own).collect();
        if is_strict(&body.join("\n")) || first.starts_with("#!") && !first.contains("sh") {
            continue;
        }
        if let Some((line, program)) = ignored(&commands) {
            let message = format!(
                "the here document goes on after `{program}` has failed: it has no `set -e`"
            );
            found.add("build-status-lost", line, message);
        }
    }
}

/// The number of steps from which a script should stop at an error.
const MANY: usize = 3;

/// Texts of scripts that look at the status of their commands.
const CHECKS: [&str; 8] =
    ["errexit", "$?", "|| exit", "|| return", "|| die", "|| {", "trap ", "|| error"];

/// Returns whether nothing in a script looks at the status of its commands.
pub(super) fn is_lax(facts: &Facts<'_>) -> bool {
    let first = facts.text.lines().next().unwrap_or_default();
    let is_option = |line: &str| line.trim().starts_with("set -") && is_strict(line.trim());
    let is_strict = facts.text.lines().any(is_option)
        || first.starts_with("#!") && first.split_whitespace().any(|word| word == "-e");
    // Another file can set the option.
    let loads = facts.commands.iter().any(|one| {
        let file = one.words.get(1).map_or("", |word| word.text.as_str());
        let is_library = file.ends_with(".sh") && !file.ends_with("conda.sh");
        matches!(&*one.words[0].text, "source" | ".") && is_library
    });
    let checks = CHECKS.iter().any(|text| facts.code.contains(text));
    !(is_strict || loads || checks || is_for_source(facts))
}

/// Returns what a script does that installs something and ignores errors; empty if it has only a
/// few steps.
pub(super) fn unnoticed(facts: &Facts<'_>) -> Option<&'static str> {
    // A chain of `&&` stops at an error, and `||` handles it.
    let is_unchecked = |one: &&ShellCommand| {
        matches!(one.operator, Operator::End | Operator::Pipe) && !is_condition(one)
    };
    let steps: Vec<String> = facts.commands.iter().filter(is_unchecked).filter_map(step).collect();
    let installs = steps.iter().filter(|step| step.contains("install")).count();
    let message = match (steps.len(), installs) {
        (..MANY, _) => "",
        (_, MANY..) => "goes on after a failed installation",
        _ => "goes on after a failed download, build or installation",
    };
    (installs >= 1).then_some(message)
}

/// Checks for a script that installs software and goes on after an error.
fn goes_on(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !is_lax(facts) {
        return;
    }
    let Some(message) = unnoticed(facts) else { return };
    if !message.is_empty() {
        found.add("errors-ignored", 1, format!("the script {message}"));
    }
    restarts(facts, found);
}

/// Checks a script that goes on after an error for a restart of the machine.
fn restarts(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_restart = |one: &&ShellCommand| {
        let texts = one.texts();
        let words = texts.as_slice();
        matches!(words, ["reboot", ..] | ["systemctl", "reboot", ..] | ["shutdown", "-r", ..])
            && !is_start(one)
    };
    let waits = facts.commands.iter().any(|one| one.words[0].text == "sleep");
    let asks = facts.code.contains("read ");
    let restart = facts.commands.iter().find(is_restart).filter(|_| !waits && !asks);
    if let Some(command) = restart {
        let message =
            "the script restarts the machine without asking, also after a failed installation";
        found.add("errors-ignored", command.words[0].line, message);
    }
}

/// Programs that ask whether a server answers.
const ASKS: [&str; 6] = ["curl", "nc", "ollama", "pg_isready", "redis-cli", "wget"];

/// Texts of loops that come to an end.
const ENDS: [&str; 19] = [
    "break", "exit", "return", "kill", "((", "-ge ", "-gt ", "-lt ", "-le ", "timeout", "SECONDS",
    "max", "MAX", "retr", "RETR", "attempt", "count", "tries", "expr",
];

/// What a loop without an end is reported with.
const ENDLESS: &str = "the loop never ends if the server that the script started has ended";

fn may_end(text: &str) -> bool {
    ENDS.iter().any(|word| text.contains(word))
}

/// Checks for loops that wait for a server of the same script, which may have ended.
fn endless(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut is_started = false;
    for (at, command) in facts.commands.iter().enumerate() {
        let first = command.words[0].text.as_str();
        let words: Vec<&str> = command.keywords.split(' ').collect();
        let is_loop = words.contains(&"until") || words.ends_with(&["while", "!"]);
        let asks = ASKS.contains(&first.rsplit('/').next().unwrap_or(first));
        let mut later = facts.commands[at..].iter();
        if is_started
            && is_loop
            && asks
            && let Some(end) = later.find(|one| one.words[0].text == "done")
        {
            let (start, last) = (command.words[0].line, end.words[0].line);
            let mut lines =
                facts.lines().skip(start.saturating_sub(1)).take((last + 1).saturating_sub(start));
            if !lines.any(|(_, text)| may_end(text)) {
                found.add("server-wait", start, ENDLESS);
            }
        }
        is_started |= command.operator == Operator::Background;
    }
}

/// The number of lines in which a loop must end.
const LONGEST: usize = 20;

/// Checks for such loops also in here documents, whose commands are not read.
fn endless_in_documents(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lines: Vec<(usize, &str)> = facts.lines().collect();
    let mut is_started = false;
    for (at, (line, first)) in lines.iter().enumerate() {
        let own = first.trim();
        if own.starts_with('#') {
            continue;
        }
        is_started |= own.ends_with('&') && !own.ends_with("&&");
        let is_loop = own.starts_with("until ") || own.starts_with("while ! ");
        let mut words = own.split(' ').skip(1).filter(|word| *word != "!");
        let asks = words.next().is_some_and(|program| ASKS.contains(&program));
        if !is_started || !is_loop || !asks {
            continue;
        }
        let rest = || lines[at..].iter().take(LONGEST).map(|(_, text)| *text);
        let is_done =
            |text: &str| text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| word == "done");
        let Some(end) = rest().position(is_done) else { continue };
        if !rest().take(end + 1).any(may_end) {
            found.add("server-wait", *line, ENDLESS);
        }
    }
}

/// Checks for a fixed time after which a script takes for granted that its server answers.
fn asleep(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_server = |one: &ShellCommand| {
        one.operator == Operator::Background
            && one.words.iter().any(|word| {
                let name = word.text.rsplit('/').next().unwrap_or_default();
                matches!(name, "serve" | "dockerd" | "llama-server" | "main.py" | "api_server")
            })
    };
    let own: Vec<&ShellCommand> = facts.commands.iter().filter(|one| !one.is_message()).collect();
    for three in own.windows(3) {
        let [server, sleep, next] = [three[0], three[1], three[2]];
        let texts = next.texts();
        let asks = match texts[0].rsplit('/').next() {
            Some("ollama") => {
                matches!(texts.get(1), Some(&"pull" | &"run" | &"create" | &"cp" | &"push"))
            }
            Some("curl" | "wget") => {
                texts.iter().any(|word| word.contains("localhost") || word.contains("//127."))
            }
            _ => false,
        };
        let is_plain = !is_start(next) && next.operator != Operator::Or;
        if is_server(server) && sleep.words[0].text == "sleep" && asks && is_plain {
            let message = "the server can need longer than this, and the next command then fails";
            found.add("server-wait", sleep.words[0].line, message);
        }
    }
}

/// Checks for a pull of a model that succeeds even if Ollama answers with an error.
fn pulls(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for command in facts.commands.iter().filter(|one| one.words[0].text == "curl") {
        let has = |is: &dyn Fn(&str) -> bool| command.words.iter().any(|word| is(&word.text));
        let is_pull = has(&|word| word.contains("/api/pull") || word.contains("/api/create"));
        let has_option = |long: &str, short: char| {
            has(&|word| {
                let letters = word.strip_prefix('-').unwrap_or_default();
                let is_short =
                    !letters.starts_with('-') && letters.bytes().all(|b| b.is_ascii_alphabetic());
                word.starts_with(long) || is_short && letters.contains(short)
            })
        };
        // With a stream, the status is sent before the pull ends. The request can be in a file.
        let is_stream = has(&|word| word.contains('{')) && !has(&|word| word.contains("stream"));
        let notices = has_option("--write-out", 'w') || has_option("--fail", 'f') && !is_stream;
        if is_pull && !notices && !command.is_piped {
            let message =
                "without `--fail` and `\"stream\": false`, curl succeeds even if the pull fails";
            let hit = Hit::new("errors-ignored", command.words[0].line, message);
            found.hit(hit.help("write `curl --fail`, and `\"stream\": false` in the request"));
        }
    }
}

/// Checks for `gpg --dearmor -o`, which asks before it overwrites a file.
fn overwrites(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (at, command) in facts.commands.iter().enumerate() {
        let words: Vec<&str> = command.texts();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        let target = words
            .windows(2)
            .find(|two| matches!(two[0], "-o" | "--output"))
            .map(|two| two[1])
            .filter(|_| has(&["--dearmor", "--dearmour"]) && words[0].ends_with("gpg"));
        let Some(target) = target.filter(|_| !has(&["--yes", "--batch"])) else { continue };
        let is_handled = |one: &ShellCommand| {
            let first = one.words[0].text.as_str();
            matches!(first, "rm" | "[" | "[[" | "test")
                && one.words.iter().any(|word| word.text == target)
        };
        // A person starts a script with `sudo`, and can answer.
        let has_person = facts.kind == Kind::Shell && facts.code.contains("sudo ");
        let is_known = has_person || facts.commands[..at].iter().any(is_handled);
        if !is_known && !target.starts_with("/tmp") {
            let message =
                format!("`gpg` asks before it overwrites `{target}`, and fails without a terminal");
            let hit = Hit::new("build-waits", command.words[0].line, message);
            let hit = hit.at_most(Severity::Information);
            found.hit(hit.help("write `--yes`, or `| tee FILE > /dev/null` instead of `-o`"));
        }
    }
}
