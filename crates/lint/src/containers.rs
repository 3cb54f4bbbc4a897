//! Reads `podman run` and similar commands: images, devices, and variables for the container.

use crate::facts::{Container, Facts, Image, Kind};
use crate::shell::{self, EMPTY, Scope, Script, Setting, ShellCommand, Word};

/// Marks an interactive container.
pub(crate) const SESSION: &str = "--session";

/// Marks a container whose command sets a key or a password.
pub(crate) const LOGIN: &str = "--login";

/// Texts of commands that set a key or a password.
const LOGINS: [&str; 8] = [
    "--api-key",
    "--auth",
    "--credential",
    "--gradio-auth",
    "--password",
    "--requirepass",
    "basic-auth",
    "ttyd -c",
];

/// Marks a container whose command is a server without a login of its own.
pub(crate) const SERVES: &str = "--serves";

/// Marks such a container if its command makes the server listen on all addresses.
pub(crate) const SERVES_ALL: &str = "--serves-all";

/// Texts of commands that start such a server.
const SERVERS: [&str; 8] = [
    " -ngl ",
    "--gpu-memory-utilization",
    "--n-gpu-layers",
    "koboldcpp",
    "llama-server",
    "sglang.launch_server",
    "vllm serve",
    "vllm.entrypoints",
];

/// Marks a container whose command uses several GPUs.
const PARALLEL: &str = "--parallel";

/// Options of vLLM and SGLang for the number of GPUs that share a model.
const PARALLEL_OPTIONS: [&str; 5] =
    ["--tensor-parallel-size", "--tensor-parallel", "-tp", "--tp", "--tp-size"];

/// Returns whether a command shares a model between several GPUs.
fn is_parallel(command: &str) -> bool {
    let words: Vec<&str> = command.split([' ', '=', '\n']).collect();
    let is_many = |text: &str| text.parse::<u32>().is_ok_and(|count| count > 1);
    let is_server = ["vllm", "sglang", "--model", "serve"].iter().any(|one| command.contains(one));
    let has_many = |two: &[&str]| PARALLEL_OPTIONS.contains(&two[0]) && is_many(two[1]);
    is_server && words.windows(2).any(has_many)
}

/// Marks a container whose command may choose the port.
const OWN_PORT: &str = "--own-port";
/// Marks a container whose server listens only on 127.0.0.1.
const LOOPBACK: &str = "--loopback";

/// Options of servers for the address on which they listen.
const ADDRESSES: [&str; 9] = [
    "--address",
    "--bind",
    "--host",
    "--ip",
    "--listen",
    "--server-name",
    "--server_name",
    "--server.address",
    "-b",
];

/// Programs that pass what reaches another address on to 127.0.0.1.
const PROXIES: [&str; 5] = ["caddy", "haproxy", "nginx", "socat", "ssh"];

/// Returns whether a host is the machine or container itself.
pub(crate) fn is_local(host: &str) -> bool {
    matches!(host, "127.0.0.1" | "localhost")
}

/// Returns whether a command names all addresses.
pub(crate) fn names_all(command: &str) -> bool {
    command.contains("0.0.0.0")
}

/// Returns whether a command starts a server that listens only on 127.0.0.1.
pub(crate) fn is_loopback(command: &str) -> bool {
    let text = command.replace(['[', ']', '"', '\'', ',', '='], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let has_local = |word: &str| is_local(word.split_once(':').map_or(word, |(host, _)| host));
    // Another program of the same command can be the server that others reach.
    let is_one = !text.contains(['&', ';', '|']) && !names_all(&text);
    is_one
        && !PROXIES.iter().any(|proxy| text.contains(proxy))
        && words.windows(2).any(|two| ADDRESSES.contains(&two[0]) && has_local(two[1]))
}

/// Returns markers for what the command of a container says about access to its server, and about
/// its GPUs.
pub(crate) fn markers(command: &str, line: usize) -> Vec<Word> {
    let has = |texts: &[&str]| texts.iter().any(|text| command.contains(text));
    let is_server = has(&SERVERS) && !command.contains("127.0.0.1");
    let is_open = is_server && command.contains("0.0.0.0");
    let is_inside = is_loopback(command);
    // Such a container does nothing until someone uses its shell.
    let is_idle = matches!(command.trim(), "sleep infinity" | "tail -f /dev/null");
    let markers = [
        (has(&["port", " -p ", "-addr", "listen"]), OWN_PORT),
        (has(&LOGINS), LOGIN),
        (is_server, SERVES),
        (is_open, SERVES_ALL),
        (is_parallel(command), PARALLEL),
        (is_inside, LOOPBACK),
        (is_idle, SHELL),
    ];
    let set = markers.into_iter().filter(|(is_set, _)| *is_set);
    let model = model(command).map(|name| named(MODEL, Some(&name.to_ascii_lowercase()), line));
    set.map(|(_, marker)| named(marker, None, line)).chain(model).collect()
}

/// Marks a container whose command names a model, with the name in lower case.
const MODEL: &str = "--served-model";

/// Returns the model that the command of a server names, if it is one of a repository:
/// `--model OWNER/NAME`, `vllm serve OWNER/NAME`.
fn model(command: &str) -> Option<&str> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_option =
        |word: &str| matches!(word, "--model" | "--model-id" | "--model-path" | "serve");
    let after = words.windows(2).find(|two| is_option(two[0])).map(|two| two[1]);
    let joined =
        || words.iter().find_map(|word| word.split_once('=').filter(|one| is_option(one.0)));
    let name = after.or_else(|| joined().map(|(_, name)| name))?.trim_matches(['"', '\'']);
    // `${MODEL:-OWNER/NAME}`
    let default = name.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')?.split_once(":-"));
    let name = default.map_or(name, |(_, value)| value);
    let is_name = name.matches('/').count() == 1 && !name.starts_with(['/', '.', '~', '$', '-']);
    is_name.then_some(name)
}

/// Marks a container with a GPU, if its name or image names a server without a login of its own.
const NAMED: &str = "--named-server";

/// Names of such servers.
const NAMES: [&str; 5] = ["comfy", "kobold", "llama", "sglang", "vllm"];

/// Names of other servers without a login, whose image may have another name.
const OTHERS: [&str; 6] =
    ["chatterbox", "facefusion", "kokoro", "lmdeploy", "text-embeddings", "text-generation"];

/// Returns the marker for a container with a GPU, if its name or image contains the name of a
/// server without a login.
pub(crate) fn named_server(names: &str, options: &[Word]) -> Option<Word> {
    let lower = names.to_ascii_lowercase();
    // `ollama` contains `llama`, and other rules check it.
    let is_named =
        NAMES.iter().chain(&OTHERS).any(|name| lower.replace("ollama", "").contains(name));
    let line = options.first().map_or(1, |one| one.line);
    (is_named && has_gpu(options)).then(|| named(NAMED, None, line))
}

/// Returns whether a container gets a GPU.
pub(crate) fn has_gpu(options: &[Word]) -> bool {
    let is_device = |one: &Word| {
        ["--device=/dev/kfd", "--device=/dev/dri"].iter().any(|gpu| one.text.starts_with(gpu))
    };
    options.iter().any(is_device) || gpu(options, None).is_some()
}

/// Marks a container with a GPU that the project builds, and whose health check asks it as a model
/// server is asked.
pub(crate) const ANSWERS: &str = "--answers";

/// Words of the names of services and images that ask for a login, or are no servers for people.
const WITH_LOGIN: [&str; 44] = [
    "ai-dock",
    "airflow",
    "authelia",
    "authentik",
    "code-server",
    "dify",
    "dispatcharr",
    "emby",
    "frigate",
    "gitea",
    "gitlab",
    "grafana",
    "guacamole",
    "home-assistant",
    "homeassistant",
    "immich",
    "jellyfin",
    "jupyter",
    "jupyterlab",
    "kasm",
    "keycloak",
    "label-studio",
    "librechat",
    "librephotos",
    "mariadb",
    "minio",
    "mysql",
    "n8n",
    "nextcloud",
    "open-webui",
    "openwebui",
    "paperless",
    "photoprism",
    "photoview",
    "plex",
    "portainer",
    "postgres",
    "scriberr",
    "scrypted",
    "shinobi",
    "sunshine",
    "tabbyapi",
    "tvheadend",
    "webtop",
];

/// Returns the marker for a service whose name or image names a program with a login of its own.
pub(crate) fn with_login(names: &str, line: usize) -> Option<Word> {
    let lower = names.to_ascii_lowercase();
    WITH_LOGIN.iter().any(|one| lower.contains(one)).then(|| named(NAMED_LOGIN, None, line))
}

/// Marks a container whose name or image names a program with a login of its own.
pub(crate) const NAMED_LOGIN: &str = "--named-login";

/// Names of variables for the key of the service itself.
const OWN_KEYS: [&str; 5] =
    ["API_KEY", "API_TOKEN", "AUTH_TOKEN", "API_AUTH_TOKEN", "SERVER_API_KEY"];

/// Returns the marker for a service whose own key is empty: `API_KEY`, or a variable that starts with
/// the name of the service.
pub(crate) fn empty_key(names: &str, options: &[Word]) -> Option<Word> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let names = plain(names);
    // `API_KEY` of another program is often its key for a server.
    let is_server = NAMES.iter().any(|name| names.replace("ollama", "").contains(name));
    let is_own = |variable: &str| {
        let start = OWN_KEYS.iter().find_map(|end| variable.strip_suffix(end));
        start.is_some_and(|start| {
            start.is_empty() && is_server || start.len() > 3 && names.contains(&plain(start))
        })
    };
    let found = options.iter().find_map(|one| {
        let variable = one.text.strip_prefix("--env=")?.strip_suffix('=')?;
        is_own(variable).then_some((variable, one.line))
    });
    found.map(|(variable, line)| named("--empty-key", Some(variable), line))
}

/// Marks a container that can open all devices, and has variables for ROCm.
const GPU: &str = "--gpu";

/// Prefixes of variables that only ROCm's libraries read.
const ROCM: [&str; 3] = ["--env=HSA_", "--env=HIP_", "--env=ROCR_"];

/// Returns the marker for a container that uses the GPU although no option names its devices.
pub(crate) fn gpu(options: &[Word], image: Option<&Word>) -> Option<Word> {
    let is_rocm = |one: &Word| ROCM.iter().any(|start| one.text.starts_with(start));
    let is_named = image.is_some_and(|image| {
        let lower = image.text.to_ascii_lowercase();
        lower.contains("rocm") || names_amd(&lower)
    });
    let is_privileged = |one: &Word| matches!(&*one.text, "--privileged" | "--privileged=true");
    let privileged = options.iter().find(|one| is_privileged(one))?;
    (is_named || options.iter().any(is_rocm)).then(|| named(GPU, None, privileged.line))
}

/// Returns whether a text in lower case contains the word `amd` or the name of AMD's GPUs.
pub(crate) fn names_amd(lower: &str) -> bool {
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| matches!(word, "amd" | "radeon"))
}

/// Marks a service that is built, with the path of its Dockerfile if it is known.
pub(crate) const DOCKERFILE: &str = "--dockerfile";

/// Marks a container whose user is not root.
const ORDINARY: &str = "--ordinary-user";

/// Returns the marker for a container whose options name a user other than root. A variable is
/// usually such a user.
pub(crate) fn ordinary_user(options: &[Word]) -> Option<Word> {
    let user = options.iter().find_map(|one| one.text.strip_prefix("--user="))?;
    let user = user.split(':').next().unwrap_or_default();
    let is_ordinary = !matches!(user, "" | "0" | "root");
    is_ordinary.then(|| named(ORDINARY, None, 1))
}

/// Marks a service whose command is only a shell.
pub(crate) const SHELL: &str = "--shell";

/// Marks a service that is built, and whose name names PyTorch.
pub(crate) const PYTORCH: &str = "--named-pytorch";

/// Options of `run` without a value. All other options take the next word as their value, unless
/// they contain `=`.
const FLAGS: [&str; 28] = [
    "--all",
    "--detach",
    "--disable-content-trust",
    "--help",
    "--init",
    "--interactive",
    "--latest",
    "--no-healthcheck",
    "--no-hostname",
    "--no-hosts",
    "--nvidia",
    "--oom-kill-disable",
    "--passwd",
    "--privileged",
    "--publish-all",
    "--pull-always",
    "--quiet",
    "--read-only",
    "--read-only-tmpfs",
    "--remove",
    "--replace",
    "--rm",
    "--rmi",
    "--root",
    "--sig-proxy",
    "--tls-verify",
    "--tty",
    "--use-api-socket",
];

/// Letters of options without a value.
const LETTERS: &str = "ditPq";

/// Adds the facts about containers in a command.
pub(crate) fn read(command: &ShellCommand, facts: &mut Facts<'_>) {
    let words: Vec<&str> = command.texts();
    match words[0].rsplit('/').next().unwrap_or_default() {
        "docker" | "podman" | "nerdctl" => {
            if let Some(at) = run_at(&words) {
                run(command, at, facts);
            }
        }
        "distrobox" | "toolbox" | "distrobox-create" => manifest(command, facts),
        _ => table(command, facts),
    }
}

/// Returns the image names after `-t` or `--tag` in a command that builds, commits or tags.
pub(crate) fn built(command: &ShellCommand) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = command.texts();
    let builds = words.iter().any(|word| matches!(*word, "build" | "bud" | "commit" | "tag"));
    let next = words.windows(2).filter(|two| matches!(two[0], "-t" | "--tag")).map(|two| two[1]);
    let joined = words
        .iter()
        .filter_map(|word| word.strip_prefix("--tag=").or_else(|| word.strip_prefix("-t=")));
    let names: Vec<&str> = next.chain(joined).filter(|_| builds).collect();
    names.into_iter()
}

/// Returns the index of the first word after `run` or a similar subcommand.
fn run_at(words: &[&str]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        let takes_value = !word.contains('=')
            && matches!(
                *word,
                "-H" | "--host" | "-c" | "--context" | "--connection" | "--url" | "-l"
            );
        at += if takes_value { 2 } else { 1 };
    }
    match (*words.get(at)?, words.get(at + 1)) {
        ("run" | "create" | "pull", _) => Some(at + 1),
        ("container", Some(&"run" | &"create")) | ("image", Some(&"pull")) => Some(at + 2),
        _ => None,
    }
}

fn run(command: &ShellCommand, at: usize, facts: &mut Facts<'_>) {
    let mut rest = command.words[at..].iter();
    let mut is_interactive = false;
    let mut container = Container::new(None, rootless(command, facts));
    let mut settings: Vec<Setting> = Vec::new();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if !text.starts_with('-') || text == "-" {
            for setting in &mut settings {
                setting.program = Some(text.to_owned());
            }
            facts.images.push(Image::new(text, word.line));
            container.image = Some(word.clone());
            let words: Vec<Word> = rest.cloned().collect();
            let texts: Vec<&str> = words.iter().map(|one| one.text.as_str()).collect();
            container.options.extend(markers(&texts.join(" "), word.line));
            container.options.extend(named_server(text, &container.options));
            container.options.extend(with_login(text, word.line));
            if is_interactive && is_session(&words) {
                container.options.push(named(SESSION, None, word.line));
            }
            facts.containers.push(container);
            facts.settings.append(&mut settings);
            return;
        }
        let (option, value) = option(text);
        is_interactive |= is_terminal(text);
        if option == "--privileged" && value != Some("false") {
            facts
                .privileged
                .push((word.line, "a container is started with `--privileged`".to_owned()));
        }
        let value = match value {
            Some(value) => Some(value.to_owned()),
            None if takes_value(option) => rest.next().map(|next| next.text.clone()),
            None => None,
        };
        container.options.push(named(option, value.as_deref(), word.line));
        if option == "--env"
            && let Some((name, value)) = value.as_deref().and_then(|value| value.split_once('='))
        {
            let setting = Setting::new(name, value, word.line, Scope::Run);
            settings.push(Setting { stage: command.stage, ..setting });
        }
    }
    // An alias can lack the image, which then follows when the alias is used.
    facts.containers.extend((!container.options.is_empty()).then_some(container));
    facts.settings.append(&mut settings);
}

/// Returns whether an option connects a container to a terminal: `-it`, `--interactive`.
fn is_terminal(option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let letters = letters.filter(|rest| rest.chars().all(|letter| LETTERS.contains(letter)));
    matches!(option, "--interactive" | "--tty")
        || letters.is_some_and(|letters| letters.contains(['i', 't']))
}

/// Returns whether the command of a container is a shell, or the default command of the image.
fn is_session(words: &[Word]) -> bool {
    let is_shell =
        |word: &Word| matches!(word.text.rsplit('/').next(), Some("bash" | "sh" | "zsh"));
    let is_script = |word: &Word| word.text.starts_with('-') && word.text.ends_with('c');
    words.first().is_none_or(is_shell) && !words.iter().any(is_script)
}

/// Adds the facts of the command that a `run` starts in its container.
pub(crate) fn inside(command: &ShellCommand, facts: &mut Facts<'_>) {
    let words: Vec<&str> = command.texts();
    let is_engine = words[0].ends_with("docker") || words[0].ends_with("podman");
    let Some(mut at) = run_at(&words).filter(|_| is_engine) else { return };
    let mut started: Vec<Word> = Vec::new();
    while let Some(text) = words.get(at).filter(|text| text.starts_with('-') && **text != "-") {
        let (option, value) = option(text);
        let is_open = value.is_none() && takes_value(option);
        if option == "--entrypoint" {
            let value =
                value.map(|value| Word { text: value.to_owned(), ..command.words[at].clone() });
            started.extend(value.or_else(|| command.words.get(at + 1).cloned()));
        }
        at += if is_open { 2 } else { 1 };
    }
    let Some(image) = words.get(at) else { return };
    started.extend(command.words[at + 1..].iter().cloned());
    start(started, image, facts);
}

/// Adds the facts of the command that a container of an image starts.
pub(crate) fn start(mut words: Vec<Word>, image: &str, facts: &mut Facts<'_>) {
    let Some(first) = words.first() else { return };
    let is_shell = |word: &Word| word.text.starts_with('-') && word.text.ends_with('c');
    // `sh -c -- SCRIPT`
    let mut after = words.iter().skip_while(|word| !is_shell(word)).skip(1);
    if let Some(text) = after.find(|word| word.text != "--")
        && first.text.ends_with("sh")
    {
        return script(&text.text, text.line, facts);
    }
    // Images of llama.cpp start its server.
    if first.text.starts_with('-') && image.contains("llama") && !image.contains("ollama") {
        words.insert(0, Word { text: "llama-server".to_owned(), line: first.line });
    }
    let command = ShellCommand { words, ..EMPTY };
    facts.script(Script { commands: vec![command], ..Script::default() });
}

/// Adds the facts of a script that starts on a line.
pub(crate) fn script(text: &str, line: usize, facts: &mut Facts<'_>) {
    // The text of a block scalar starts on the line after its indicator.
    let start = text.lines().next().unwrap_or_default().trim();
    let is_block = facts.line(line + 1).trim() == start;
    let first = if is_block { line + 1 } else { line };
    let mut script = shell::script_at(text, first);
    // The engine itself sets some variables, and others come from files.
    script.missing.clear();
    for setting in script.settings.iter_mut().filter(|one| one.scope == Scope::Exported) {
        setting.scope = Scope::Run;
    }
    facts.script(script);
}

/// Words of scripts that run podman as root.
const ROOT: [&str; 3] = ["sudo", "EUID", "id -u"];

/// Returns a marker for a podman command in a script, if nothing shows that root runs it.
/// `toolbox` calls podman.
fn rootless(command: &ShellCommand, facts: &Facts<'_>) -> Vec<Word> {
    let first = &command.words[0];
    let is_rootless = facts.kind == Kind::Shell
        && matches!(&*first.text, "podman" | "toolbox")
        && !facts.names_root();
    is_rootless.then(|| named("--podman", None, first.line)).into_iter().collect()
}

/// Returns whether a script has a sign that root runs its podman commands.
pub(crate) fn names_root(code: &str) -> bool {
    ROOT.iter().any(|word| names(code, word))
}

/// Returns whether a text contains a word, not counting values of `--group-add`.
fn names(code: &str, word: &str) -> bool {
    let is_group = |at: usize| code[..at].trim_end_matches([' ', '=']).ends_with("--group-add");
    code.match_indices(word).any(|(at, _)| !is_group(at))
}

/// Returns an option as one word.
pub(crate) fn named(option: &str, value: Option<&str>, line: usize) -> Word {
    let text = value.map_or_else(|| option.to_owned(), |value| format!("{option}={value}"));
    Word { text, line }
}

/// Returns the options in words that contain no image, such as those of `PodmanArgs=` and
/// `--additional-flags`.
pub(crate) fn options(words: &[Word]) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut is_open = false;
    for word in words {
        for text in word.text.split_whitespace() {
            if text.starts_with('-') {
                let (option, value) = option(text);
                is_open = value.is_none();
                found.push(named(option, value, word.line));
            } else if is_open && let Some(last) = found.last_mut() {
                last.text = format!("{}={text}", last.text);
                is_open = false;
            }
        }
    }
    found
}

/// Returns an option and its value, if both are one word: `--env=A=1`, `-p8080:80`, `-it`.
fn option(text: &str) -> (&str, Option<&str>) {
    if text.starts_with("--") {
        return text.split_once('=').map_or((text, None), |(option, value)| (option, Some(value)));
    }
    // Letters without a value can precede the last one: `-ditp 8080:80`.
    let letters = text[1..].trim_start_matches(|c| LETTERS.contains(c));
    match letters.chars().next() {
        None => ("-", None),
        Some(letter) => {
            let option = match letter {
                'e' => "--env",
                'p' => "--publish",
                'u' => "--user",
                'v' => "--volume",
                _ => "-x",
            };
            let value = &letters[letter.len_utf8()..];
            (option, (!value.is_empty()).then(|| value.strip_prefix('=').unwrap_or(value)))
        }
    }
}

fn takes_value(option: &str) -> bool {
    option != "-" && !FLAGS.contains(&option)
}

/// Reads `distrobox create --image IMAGE` and `toolbox create --image IMAGE`.
fn manifest(command: &ShellCommand, facts: &mut Facts<'_>) {
    let mut given = options(&command.words[1..]);
    given.extend(rootless(command, facts));
    let mut container = Container::new(None, given);
    let mut words = command.words.iter();
    while let Some(word) = words.next() {
        // `--additional-flags "--privileged …"`
        if word.text.split([' ', '=']).any(|flag| flag == "--privileged") {
            let message = "a container is created with `--privileged`".to_owned();
            facts.privileged.push((word.line, message));
        }
        let image = match word.text.split_once('=') {
            Some(("--image", image)) => Some((image.to_owned(), word.line)),
            None if matches!(word.text.as_str(), "--image" | "-i") => {
                words.next().map(|next| (next.text.clone(), next.line))
            }
            _ => None,
        };
        if let Some((reference, line)) = image {
            facts.images.push(Image::new(&reference, line));
            container.image = Some(Word { text: reference, line });
        }
    }
    facts.containers.extend(container.image.is_some().then_some(container));
}

/// Reads `NAME[KEY]="IMAGE --device …"`, a line of a table of containers that a script creates.
fn table(command: &ShellCommand, facts: &mut Facts<'_>) {
    let [word] = command.words.as_slice() else { return };
    let line = word.text.split_once("]=").filter(|(name, _)| name.contains('['));
    let Some((image, options)) = line.and_then(|(_, value)| value.split_once(' ')) else { return };
    let is_created = |program: &&&str| facts.code.contains(&format!("{program} create"));
    let program = ["toolbox", "distrobox"].iter().find(is_created);
    let (Some(program), true) = (program, image.contains('/') && options.starts_with("--")) else {
        return;
    };
    let words = [program, "--image", image, options];
    let words = words.map(|text| Word { text: text.to_owned(), line: word.line });
    manifest(&ShellCommand { words: words.to_vec(), ..command.clone() }, facts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_found_after_any_options() {
        for (command, expected) in [
            ("docker run --restart always a/b:1 serve", Some("a/b:1")),
            ("docker run --gpus all --runtime nvidia a/b:1", Some("a/b:1")),
            ("docker run -d --add-host=h:1 --pid host --platform linux/amd64 a/b:1", Some("a/b:1")),
            (
                "podman run --pull newer --userns keep-id --cap-drop ALL --tmpfs /t a/b:1",
                Some("a/b:1"),
            ),
            (
                "docker run --health-cmd x --log-opt max-size=1m --cpus 4 --dns 1.1.1.1 a/b:1",
                Some("a/b:1"),
            ),
            ("docker run --privileged --init --rm -it a/b:1", Some("a/b:1")),
            ("docker run -itp 80:80 -v/x:/y -eA=1 a/b:1", Some("a/b:1")),
            ("docker --context c run a/b:1", Some("a/b:1")),
            ("docker container create --name x a/b:1", Some("a/b:1")),
            ("docker create a/b:1", Some("a/b:1")),
            ("docker image pull a/b:1", Some("a/b:1")),
            ("docker network create backend", None),
            ("docker volume create data", None),
            ("docker compose run web", None),
            ("docker compose pull", None),
            (
                "distrobox create --name x --image a/b:1 --additional-flags '--device /dev/kfd'",
                Some("a/b:1"),
            ),
            ("toolbox create x --image=a/b:1", Some("a/b:1")),
        ] {
            let facts = Facts::read("x.sh", command);
            let found: Vec<&str> =
                facts.images.iter().map(|image| image.reference.as_str()).collect();
            assert_eq!(found, Vec::from_iter(expected), "{command}");
        }
    }

    #[test]
    fn options_are_read_without_an_image() {
        for (text, expected) in [
            ("--device /dev/kfd --ipc=host", &["--device=/dev/kfd", "--ipc=host"][..]),
            ("--rm --device /dev/dri x", &["--rm", "--device=/dev/dri"]),
            ("-v /a:/b --init", &["--volume=/a:/b", "--init"]),
            ("create x", &[]),
            ("create --device \u{fffc} é -é \u{fffc}", &["--device=\u{fffc}", "-x=\u{fffc}"]),
        ] {
            let found = options(&[Word { text: text.to_owned(), line: 1 }]);
            let found: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn devices_and_variables_belong_to_the_image() {
        let text =
            "docker run --device=/dev/kfd --device /dev/dri -e A=1 --env=B=2 -e C a/ollama\n";
        let facts = Facts::read("x.sh", text);
        let options: Vec<&str> =
            facts.containers[0].options.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(options[..2], ["--device=/dev/kfd", "--device=/dev/dri"]);
        let settings: Vec<_> = facts
            .settings
            .iter()
            .map(|one| (one.name.as_str(), one.value.as_str(), one.program.as_deref()))
            .collect();
        assert_eq!(settings, [("A", "1", Some("a/ollama")), ("B", "2", Some("a/ollama"))]);
    }
}
