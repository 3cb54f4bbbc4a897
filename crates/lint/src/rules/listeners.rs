//! Rules for servers that a script or an environment file opens to other machines.

use crate::containers::{LOGIN, is_local, names_all};
use crate::shell::{Setting, ShellCommand};
use crate::{Context, Facts, Findings, Hit, Kind, Severity, containers};

/// Texts of scripts that run in a container or on a cluster, where a server must listen on all
/// addresses, and of scripts whose server has a key or something in front of it.
const ELSEWHERE: [&str; 22] = [
    "/app/",
    "/workspace",
    "api-key",
    "api_key",
    "caddy",
    "container",
    "distrobox",
    "docker",
    "exec \"$@\"",
    "firewall",
    "haproxy",
    "iptables",
    "kaggle",
    "nginx",
    "podman",
    "runpod",
    "sbatch",
    "slurm",
    "srun",
    "tailscale",
    "toolbox",
    "ufw ",
];

/// Parts of the paths of scripts of images, and of those that only measure or show something.
const PLACES: [&str; 4] = ["bench", "docker", "example", "test"];

/// Files that name the scripts of an image.
const IMAGES: [&str; 4] = ["Containerfile", "Dockerfile", "../Containerfile", "../Dockerfile"];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Shell => in_script(facts, context, found),
        Kind::Unit => in_unit(facts, context, found),
        Kind::Environment => {
            in_environment(facts, context, found);
            for_script(facts, context, found);
        }
        _ => {}
    }
}

/// Checks a script for a model server that it starts on a machine.
fn in_script(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let is_elsewhere = || {
        let lower = facts.code.to_ascii_lowercase();
        let path = facts.file.to_ascii_lowercase();
        name.contains("entrypoint")
            || PLACES.iter().any(|place| path.contains(place))
            || ELSEWHERE.iter().any(|text| lower.contains(text))
            || is_in_image(facts, context)
    };
    let mut open = facts.commands.iter().filter(|one| !one.is_message() && listens(one));
    if let Some(command) = open.next().filter(|_| !is_elsewhere()) {
        let message = "a server listens on all addresses of the machine, without a key";
        let hit = Hit::new("service-open", command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Texts of units and environment files that set a key, or that limit who reaches the server.
const KEYS: [&str; 4] = ["api-key", "api_key", "ipaddressallow", "ipaddressdeny"];

fn has_key(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    KEYS.iter().any(|key| lower.contains(key))
}

/// Programs that start a server in a container.
const ENGINES: [&str; 5] = ["distrobox", "docker", "nerdctl", "podman", "toolbox"];

/// The variable with the address on which llama.cpp's server listens.
const HOST: &str = "LLAMA_ARG_HOST";

/// Checks a unit for a model server that it starts on a machine.
fn in_unit(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let files = facts.lines().filter_map(|(_, line)| line.trim().strip_prefix("EnvironmentFile="));
    let texts: Vec<Option<String>> = files
        .map(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            context.exists.and_then(|folder| folder.text(facts.file, name))
        })
        .collect();
    // A file that cannot be read may have a key.
    let is_closed = texts.iter().any(|text| text.as_deref().is_none_or(has_key));
    let is_inside = ENGINES.iter().any(|engine| facts.code.contains(engine));
    if has_key(facts.text) || is_inside || is_closed {
        return;
    }
    let command = facts.commands.iter().find(|one| listens(one));
    let is_server = |one: &ShellCommand| one.words[0].text.ends_with("llama-server");
    let is_open = |one: &&Setting| one.name == HOST && names_all(&one.value);
    let setting = facts.settings.iter().find(is_open);
    let setting = setting.filter(|_| facts.commands.iter().any(is_server));
    // `--host ${HOST}`, with the address in the environment file.
    let plain = facts.code.replace('"', "");
    let mut pairs = texts.iter().flatten().flat_map(|text| text.lines());
    let is_from_file = pairs.any(|one| {
        one.split_once('=').is_some_and(|(name, value)| {
            let name = name.trim();
            name.ends_with("HOST") && names_all(value) && plain.contains(&format!("${{{name}}}"))
        })
    });
    let with_host =
        |one: &&ShellCommand| is_server(one) && one.words.iter().any(|word| word.text == "--host");
    let given = facts.commands.iter().find(with_host).filter(|_| is_from_file);
    let command = command.or(given);
    let line = command.map(|one| one.words[0].line).or_else(|| setting.map(|one| one.line));
    if let Some(line) = line {
        let message = "a server listens on all addresses of the machine, without a key";
        let hit = Hit::new("service-open", line, message).at_most(Severity::Information);
        found.hit(hit.help("add `--api-key-file FILE`, or listen only on the loopback address"));
    }
    if let Some(own) = facts.commands.iter().find(|one| shows_files(one)) {
        let message =
            "Python's `http.server` gives everyone in the network all files of its folder";
        let hit = Hit::new("service-open", own.words[0].line, message);
        found.hit(hit.at_most(Severity::Information).help("add `--bind localhost`"));
    }
}

/// Returns whether a command starts Python's file server on all addresses.
fn shows_files(command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_bound = |word: &&str| word.starts_with("--bind") || *word == "-b";
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let is_server = words.windows(2).any(|two| two == ["-m", "http.server"]);
    program.starts_with("python") && is_server && !words.iter().any(is_bound)
}

/// Checks an environment file for the address of a model server that a script beside it starts.
fn for_script(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_host = |name: &str| name == "HOST" || name.ends_with("_HOST");
    let is_all = |value: &str| names_all(value) || value.trim() == "::";
    let mut open = facts.settings.iter().filter(|one| is_host(&one.name) && is_all(&one.value));
    let Some(setting) = open.next().filter(|_| !has_key(facts.text)) else { return };
    let Some(files) = context.exists else { return };
    let starts = |text: &str| {
        let uses = [format!("--host ${}", setting.name), format!("--host ${{{}", setting.name)];
        let plain = text.replace('"', "");
        let lower = plain.to_ascii_lowercase().replace('_', "-");
        let is_server = ["llama-server", "vllm serve", "sglang"];
        is_server.iter().any(|name| lower.contains(name))
            && uses.iter().any(|one| plain.contains(one.as_str()))
            && !has_key(text)
            && !ENGINES.iter().any(|engine| plain.contains(engine))
    };
    let beside = files.beside(facts.file);
    // A server in a container must listen on all addresses.
    let is_script = |name: &str| {
        [".sh", ".service"].iter().any(|end| name.ends_with(end))
            || matches!(name, "Makefile" | "justfile")
    };
    let mut scripts = beside.iter().filter(|(name, _)| is_script(name));
    if let Some((name, _)) = scripts.find(|(_, text)| starts(text)) {
        let message = format!(
            "with `{}`, the server that `{name}` starts listens on all addresses, without a key",
            setting.name
        );
        let hit = Hit::new("service-open", setting.line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Returns whether a Dockerfile beside a script, or in the folder above, names the script.
pub(super) fn is_in_image(facts: &Facts<'_>, context: Context<'_>) -> bool {
    let path = facts.file.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
    path.contains("docker")
        || IMAGES.iter().any(|file| {
            let text = context.exists.and_then(|files| files.text(facts.file, file));
            text.is_some_and(|text| text.to_ascii_lowercase().contains(&name))
        })
}

/// Returns whether a command starts a model server that listens on all addresses.
fn listens(command: &ShellCommand) -> bool {
    let words = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let is_module = |two: &[&str]| {
        two[0] == "-m" && ["vllm.entrypoints", "sglang"].iter().any(|name| two[1].starts_with(name))
    };
    let is_server = matches!(program, "llama-server" | "sd-server")
        || matches!(program, "sglang" | "vllm") && words.get(1) == Some(&"serve")
        || program.starts_with("python") && words.windows(2).any(is_module);
    let is_all = |host: &str| names_all(host) || host == "::";
    let is_option = |word: &str| matches!(word, "--host" | "--listen-ip");
    let hosts = words.windows(2).filter(|two| is_option(two[0])).map(|two| two[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("--host="));
    is_server && hosts.chain(joined).any(is_all)
}

/// Options of servers for the address on which they listen.
const ADDRESSES: [&str; 5] = ["--address", "--bind", "--host", "--listen", "--server-name"];

/// The number of variables that are looked for in the compose files.
const MOST: usize = 20;

/// Checks the options of servers in an environment file whose compose file publishes their ports.
fn in_environment(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists else { return };
    let lower = facts.text.to_ascii_lowercase();
    if ["api-key", "api_key=", "password="].iter().any(|text| lower.contains(text)) {
        return;
    }
    let is_open = |value: &str| {
        names_all(value)
            && ADDRESSES.iter().any(|option| value.contains(option))
            && containers::markers(value, 1).iter().all(|one| one.text != LOGIN)
    };
    let open = facts.settings.iter().filter(|one| is_open(&one.value));
    let mut settings = open.take(MOST).peekable();
    if settings.peek().is_none() {
        return;
    }
    let files = exists.compose_files(facts.file);
    let is_bound =
        |word: &str| word.matches(':').count() == 2 && word.split(':').next().is_some_and(is_local);
    let publishes = |name: &str| {
        files.iter().any(|text| {
            let uses = text.contains(&format!("${{{name}")) || text.contains(&format!("${name}"));
            uses && text.contains("ports:") && !text.split([' ', '"', '\'', '\n']).any(is_bound)
        })
    };
    if let Some(setting) = settings.find(|one| publishes(&one.name)) {
        let message = format!(
            "with `{}`, a server listens on all addresses, and the compose file publishes its port",
            setting.name
        );
        let hit = Hit::new("service-open", setting.line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}
