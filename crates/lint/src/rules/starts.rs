//! Rules for what an image starts: scripts that ignore their arguments or need root, servers that
//! cannot be reached, and programs that nothing installs.

use super::folder::is_root;
use super::layers::expanded;
use super::stages::{instruction_of, is_known_base, last_stages, parts};
use super::steps::{installs_for_all, may_be_root};
use super::traps::last_user;
use crate::containers::{is_local, is_loopback, names_all};
use crate::dockerfile::{Instruction, instructions};
use crate::python::is_pip;
use crate::shell::{Scope, Setting, ShellCommand};
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    skips_test(facts, found);
    match facts.kind {
        Kind::Dockerfile => {
            let all = facts.instructions();
            let stages = last_stages(facts, all);
            let own: Vec<&Instruction> =
                all.iter().filter(|one| stages.contains(&one.stage)).collect();
            let last = |name: &str| own.iter().rev().find(|one| parts(one).0 == name).copied();
            let start = Start { entry: last("ENTRYPOINT"), command: last("CMD") };
            if let Some(files) = context.exists {
                ignores(facts, &own, &start, files, found);
                needs_root(facts, &own, &start, files, found);
            }
            unreachable(facts, &own, &start, found);
            local_by_default(facts, &own, &start, context, found);
            wheel(facts, all, &stages, &start, found);
        }
        Kind::Shell => {
            if let Some(files) = context.exists {
                installs_as_user(facts, files, found);
            }
            waits(facts, found);
        }
        _ => {}
    }
}

/// What a container of the image starts.
struct Start<'i> {
    entry: Option<&'i Instruction>,
    command: Option<&'i Instruction>,
}

impl Start<'_> {
    /// Returns the words of the program and its arguments, if both are lists.
    fn words(&self) -> Option<(Vec<String>, Vec<String>)> {
        let list =
            |one: &Instruction| serde_json::from_str::<Vec<String>>(parts(one).1.trim()).ok();
        let command = self.command.map(list);
        match (self.entry, command) {
            (Some(entry), None) => Some((list(entry)?, Vec::new())),
            (Some(entry), Some(command)) => Some((list(entry)?, command?)),
            (None, Some(command)) => Some((command?, Vec::new())),
            (None, None) => None,
        }
    }
}

/// Programs that start the program after them.
const INITS: [&str; 4] = ["--", "-g", "dumb-init", "tini"];

/// Returns the index of the script that words start: `["bash", "/a.sh", …]`, `["/a.sh", …]`.
fn script_at(words: &[String]) -> Option<usize> {
    let is_before = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        INITS.contains(&name) || matches!(name, "bash" | "sh")
    };
    let at = words.iter().position(|word| !is_before(word))?;
    let script = &words[at];
    let is_script = script.ends_with(".sh") || script.ends_with("entrypoint");
    is_script.then_some(at)
}

/// Returns the text of a script of the image, if a copy says which file it is.
pub(super) fn script_text(
    facts: &Facts<'_>,
    own: &[&Instruction],
    script: &str,
    files: &dyn Exists,
) -> Option<String> {
    let name = script.rsplit('/').next().unwrap_or(script);
    let copies = own.iter().filter(|one| parts(one).0 == "COPY" && !one.text.contains("--from="));
    for copy in copies {
        let words = parts(copy).1.split_whitespace().filter(|word| !word.starts_with("--"));
        let words: Vec<&str> = words.collect();
        for source in words.split_last().map_or(&[][..], |(_, sources)| sources) {
            let folder = source.trim_end_matches('.').trim_end_matches('/');
            let path = match folder {
                _ if source.rsplit('/').next() == Some(name) => (*source).to_owned(),
                "" => script.trim_start_matches("./").to_owned(),
                folder => format!("{folder}/{name}"),
            };
            if let Some(text) = files.in_context(facts.file, path.trim_start_matches('/')) {
                return Some(text);
            }
        }
    }
    None
}

/// Returns the command of `CMD` or `ENTRYPOINT` as the text of a script.
pub(super) fn command_text(rest: &str) -> String {
    let Ok(list) = serde_json::from_str::<Vec<String>>(rest.trim()) else {
        return rest.trim().to_owned();
    };
    let is_script = |word: &String| word.starts_with('-') && word.ends_with('c');
    let at = list.iter().position(is_script).filter(|at| *at > 0 && list[at - 1].ends_with("sh"));
    at.and_then(|at| list.get(at + 1).cloned()).unwrap_or_else(|| list.join(" "))
}

/// Names of Dockerfiles that are searched for the scripts that they start.
pub(super) const DOCKERFILES: [&str; 2] = ["Containerfile", "Dockerfile"];

/// Returns whether the Dockerfile beside a script, or in the folder above it, starts it.
pub(super) fn is_started(facts: &Facts<'_>, files: Option<&dyn Exists>) -> bool {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let starts = |file: &str| {
        let text = files.and_then(|files| files.text(facts.file, file)).unwrap_or_default();
        instructions(&text).iter().any(|one| {
            let mut words = one.text.split(['/', '"', '\'', ' ', ',']);
            matches!(&*parts(one).0, "CMD" | "ENTRYPOINT") && words.any(|word| word == name)
        })
    };
    DOCKERFILES.iter().any(|one| starts(one) || starts(&format!("../{one}")))
}

/// Texts of scripts that use their arguments, or start something that can do so.
const ARGUMENTS: [&str; 12] =
    ["$@", "$*", "$#", "$1", "${1", "${@", "${*", "${#", "$0", "shift", "getopts", "BASH_ARGV"];

/// Checks for arguments of a script that does not read them.
fn ignores(
    facts: &Facts<'_>,
    own: &[&Instruction],
    start: &Start<'_>,
    files: &dyn Exists,
    found: &mut Findings<'_>,
) {
    let Some((program, arguments)) = start.words() else { return };
    let Some(at) = script_at(&program) else { return };
    let given = program[at + 1..].iter().chain(&arguments).next();
    let Some((given, line)) = given.zip(start.command.or(start.entry).map(|one| one.line)) else {
        return;
    };
    // Such a command is only a default without a meaning.
    if matches!(given.rsplit('/').next(), Some("" | "bash" | "sh")) {
        return;
    }
    let Some(text) = script_text(facts, own, &program[at], files) else { return };
    let loads = text
        .lines()
        .map(str::trim_start)
        .any(|one| ["source ", ". "].iter().any(|word| one.starts_with(word)));
    let is_shell = text.lines().next().is_some_and(|first| {
        first.ends_with("sh") || first.contains("sh ") || program[at].ends_with(".sh")
    });
    if is_shell && !loads && !ARGUMENTS.iter().any(|word| text.contains(word)) {
        let script = program[at].rsplit('/').next().unwrap_or_default();
        let message = format!("`{script}` does not read its arguments, so `{given}` has no effect");
        found.add("arguments-unused", line, message);
    }
}

/// Returns the program of the first command of a script that installs packages of the system.
fn installer(script: &Facts<'_>) -> Option<(String, usize)> {
    let lower = script.text.to_ascii_lowercase();
    let asks = ["id -u", "euid", "whoami"].iter().any(|text| lower.contains(text));
    let is_one = |one: &&ShellCommand| {
        let is_installer = installs_for_all(one) || one.words[0].text == "add-apt-repository";
        is_installer && one.keywords.is_empty()
    };
    let command = script.commands.iter().find(is_one).filter(|_| !asks && !may_be_root(&lower))?;
    Some((command.words[0].text.clone(), command.words[0].line))
}

/// Checks for a script that installs packages, but is started by an ordinary user.
fn needs_root(
    facts: &Facts<'_>,
    own: &[&Instruction],
    start: &Start<'_>,
    files: &dyn Exists,
    found: &mut Findings<'_>,
) {
    let Some((program, _)) = start.words() else { return };
    let Some(at) = script_at(&program) else { return };
    let Some((line, user)) = last_user(facts).filter(|(_, user)| !is_root(user)) else { return };
    let name = program[at].rsplit('/').next().unwrap_or_default();
    // A script beside the Dockerfile has its own finding.
    if files.text(facts.file, name).is_some() {
        return;
    }
    let Some(text) = script_text(facts, own, &program[at], files) else { return };
    let script = Facts::read("a.sh", &text);
    if let Some((installer, _)) = installer(&script).filter(|_| !sets_user(facts, files)) {
        let message =
            format!("`{name}`, which the container starts as `{user}`, calls `{installer}`");
        found.hit(Hit::new("root-missing", line, message).at_most(Severity::Warning));
    }
}

/// Returns whether a compose file beside a file sets the user.
fn sets_user(facts: &Facts<'_>, files: &dyn Exists) -> bool {
    files.compose_files(facts.file).iter().any(|text| text.contains("user:"))
}

/// Checks a script that the image of the Dockerfile beside it starts as an ordinary user.
fn installs_as_user(facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    let Some((installer, line)) = installer(facts) else { return };
    let Some(text) = files.text(facts.file, "Dockerfile") else { return };
    let image = Facts::read("Dockerfile", &text);
    let Some((_, user)) = last_user(&image).filter(|(_, user)| !is_root(user)) else { return };
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let starts = instructions(&text).iter().any(|one| {
        let mut words = one.text.split(['/', '"', '\'', ' ', ',']);
        matches!(&*parts(one).0, "CMD" | "ENTRYPOINT") && words.any(|word| word == name)
    });
    if starts && !sets_user(facts, files) {
        let message =
            format!("the image starts this script as `{user}`, who cannot use `{installer}`");
        found.hit(Hit::new("root-missing", line, message).at_most(Severity::Warning));
    }
}

/// Variables for the address on which a server listens, with its port.
const ADDRESSES: [(&str, &str); 2] = [("GRADIO_SERVER_NAME", "7860"), ("OLLAMA_HOST", "11434")];

/// Texts of files whose server is reached in another way.
const OTHER_WAYS: [&str; 9] = [
    "network host",
    "network=host",
    "network_mode",
    "nginx",
    "caddy",
    "socat",
    "haproxy",
    "supervisor",
    "tailscale",
];

/// Checks for a server that listens on 127.0.0.1 in an image with `EXPOSE`.
fn unreachable(
    facts: &Facts<'_>,
    own: &[&Instruction],
    start: &Start<'_>,
    found: &mut Findings<'_>,
) {
    let exposed: Vec<&str> =
        own.iter().filter(|one| parts(one).0 == "EXPOSE").map(|one| parts(one).1).collect();
    let is_exposed = |port: &str| exposed.iter().any(|ports| ports.contains(port));
    let lower = facts.text.to_ascii_lowercase();
    let Some(last) = start.entry.or(start.command).filter(|_| !exposed.is_empty()) else { return };
    if OTHER_WAYS.iter().any(|text| lower.contains(text)) {
        return;
    }
    let text = [start.entry, start.command];
    let text: Vec<String> =
        text.into_iter().flatten().map(|one| expanded(facts, one.stage, parts(one).1)).collect();
    let is_own = |one: &&Setting| {
        let host = one.value.trim_start_matches("http://").split(':').next().unwrap_or_default();
        one.scope == Scope::Image
            && ADDRESSES.iter().any(|(name, port)| one.name == *name && is_exposed(port))
            && is_local(host)
            && own.iter().any(|other| other.stage == one.stage)
    };
    let text = text.join(" ");
    let setting = facts.settings.iter().find(is_own);
    // An option of the command takes precedence over the variable.
    let line = if is_loopback(&text) {
        Some(last.line)
    } else {
        setting.filter(|_| !names_all(&text)).map(|one| one.line)
    };
    if let Some(line) = line {
        let message = "the server listens only on the container's loopback address, so a published port does not reach it";
        found.add("server-unreachable", line, message);
    }
}

/// Servers that listen only on the loopback address unless a text of the file says otherwise.
const LOCAL: [(&str, &[&str]); 9] = [
    ("flask", &["--host", "-h ", "\"-h\"", "FLASK_RUN_HOST"]),
    ("gunicorn", &["-b", "--bind", "-c", "--config", "GUNICORN_CMD_ARGS", "gunicorn.conf"]),
    ("hypercorn", &["-b", "--bind", "-c", "--config"]),
    ("invokeai-web", &["INVOKEAI_HOST", "host:"]),
    ("lemonade-server", &["--host", "LEMONADE_HOST"]),
    ("llama-server", &["--host", "LLAMA_ARG_HOST"]),
    ("sd-server", &["--listen-ip", "-l"]),
    ("uvicorn", &["--host", "UVICORN_HOST", "--uds", "--fd"]),
    ("whisper-server", &["--host"]),
];

/// Checks for a server that listens on 127.0.0.1 by default in an image with `EXPOSE`.
fn local_by_default(
    facts: &Facts<'_>,
    own: &[&Instruction],
    start: &Start<'_>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let Some(first) = start.entry.or(start.command) else { return };
    let lower = facts.text.to_ascii_lowercase();
    if !own.iter().any(|one| parts(one).0 == "EXPOSE")
        || OTHER_WAYS.iter().any(|way| lower.contains(way))
        || !is_known_base(facts, facts.stages.len())
    {
        return;
    }
    let all = [start.entry, start.command].into_iter().flatten();
    let text: Vec<String> = all.map(|one| expanded(facts, one.stage, parts(one).1)).collect();
    let text = text.join(" ").replace(['[', ']', '"', '\'', ','], " ");
    let is_program =
        |word: &str| !INITS.contains(&word) && !matches!(word, "exec" | "sh" | "bash" | "-c");
    let program = text.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = program.filter(|word| is_program(word)).find(|word| !word.is_empty());
    let server = LOCAL.iter().find(|(name, _)| program == Some(*name));
    let Some((name, others)) = server else { return };
    let chooses =
        |place: &str| others.iter().any(|other| place.contains(other)) || names_all(place);
    let mut files = context.exists.map_or_else(Vec::new, |files| files.compose_files(facts.file));
    // The compose file in the folder above may build this folder.
    let above = |folder: &dyn crate::Exists| {
        let texts = super::reached::ABOVE.iter().filter_map(|path| folder.text(facts.file, path));
        texts.collect::<Vec<_>>()
    };
    files.extend(context.exists.map_or_else(Vec::new, above));
    if text.contains("--help")
        || chooses(&text)
        || chooses(facts.text)
        || files.iter().any(|file| chooses(file))
    {
        return;
    }
    let message = format!(
        "`{name}` listens only on the container's loopback address unless it gets another one"
    );
    let hit = Hit::new("server-unreachable", first.line, message);
    found.hit(hit.at_most(Severity::Information));
}

/// Checks for an option of the web UI of Stable Diffusion that hides a missing GPU, in a file that is
/// not for the CPU.
fn skips_test(facts: &Facts<'_>, found: &mut Findings<'_>) {
    const OPTION: &str = "--skip-torch-cuda-test";
    let is_kept = |one: &&Setting| {
        let is_scope =
            matches!(one.scope, Scope::Image | Scope::Run | Scope::File | Scope::Exported);
        is_scope && one.value.contains(OPTION)
    };
    let setting = facts.settings.iter().find(is_kept);
    if let Some(setting) = setting.filter(|_| !facts.text.to_ascii_lowercase().contains("cpu")) {
        let message = format!("`{OPTION}` hides that torch finds no GPU");
        let hit = Hit::new("torch-check-useless", setting.line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Returns whether a command only builds a wheel.
fn builds_wheel(command: &ShellCommand) -> bool {
    let words = command.texts();
    let has = |name: &str| words.contains(&name);
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let is_python = program.starts_with("python");
    is_python && (has("bdist_wheel") || words.windows(2).any(|two| two == ["-m", "build"]))
        || is_pip(&words) && words.get(1) == Some(&"wheel")
        || program == "uv" && words.get(1) == Some(&"build")
}

/// Texts of code that uses a wheel.
const USES: [&str; 7] = [".whl", "dist/", "find-links", "publish", "twine", "wheels", "wheelhouse"];

/// Checks for a wheel of the last stage that nothing installs.
fn wheel(
    facts: &Facts<'_>,
    all: &[Instruction],
    stages: &[usize],
    start: &Start<'_>,
    found: &mut Findings<'_>,
) {
    let is_shell = |one: &Instruction| {
        ["bash", "sh\"", "sleep", "tail"].iter().any(|word| one.text.contains(word))
    };
    let starts = start.entry.or(start.command);
    if starts.is_none_or(is_shell) || USES.iter().any(|text| facts.code.contains(text)) {
        return;
    }
    let is_last = |one: &&ShellCommand| {
        builds_wheel(one)
            && stages.contains(&one.stage)
            && instruction_of(all, one.words[0].line).is_some()
    };
    let installs_all = |one: &ShellCommand| {
        let words = one.texts();
        let is_place = |word: &&str| word.contains("dist") || word.starts_with(['.', '/']);
        let is_setup = words.iter().any(|word| word.ends_with("setup.py"));
        words.contains(&"develop")
            || words.contains(&"install") && (is_setup || words.iter().any(is_place))
    };
    let Some(command) = facts.commands.iter().find(is_last) else { return };
    if !facts.commands.iter().any(installs_all) {
        let message = "the wheel is built here, but nothing installs it";
        found.add("wheel-unused", command.words[0].line, message);
    }
}

/// The number of lines in which a loop must end.
const LONGEST: usize = 10;

/// Texts of a loop that comes to an end.
const ENDS: [&str; 6] = ["exit", "break", "return", "((", "-g", "-l"];

/// Checks for a loop that waits until a container runs, which may have ended, and for a command in
/// a container whose server may not answer yet.
fn waits(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lines: Vec<(usize, &str)> = facts.lines().collect();
    for (at, (line, first)) in lines.iter().enumerate() {
        let own = first.trim();
        let is_loop = own.starts_with("while ") || own.starts_with("until ");
        let asks = own.contains("inspect") && own.contains("State.") && !own.contains("Health");
        if !is_loop || !asks {
            continue;
        }
        let rest = || lines[at + 1..].iter().take(LONGEST);
        let is_end = |(_, text): &(usize, &str)| text.trim().starts_with("done");
        let Some(end) = rest().position(is_end) else { continue };
        let may_end = |text: &str| ENDS.iter().any(|word| text.contains(word));
        let is_endless = !rest().take(end).any(|(_, text)| may_end(text)) && !own.contains("-lt");
        if own.contains("running") && is_endless {
            found.add("server-wait", *line, "the loop never ends if the container has stopped");
        }
        let exec = rest().skip(end).find(|(_, text)| text.contains(" exec "));
        let asks_server =
            |text: &str| ["ollama pull", "ollama run"].iter().any(|one| text.contains(one));
        if let Some((place, _)) = exec.filter(|(_, text)| asks_server(text)) {
            let message = "a container can be running before its server answers";
            found.add("server-wait", *place, message);
        }
    }
}
