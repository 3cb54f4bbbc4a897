//! Checks whether the parts of a service fit together: its restart policy and its program, its
//! command and the entrypoint of its image, its mounts and the sockets in them, its proxy.

use super::conflicts::compared;
use super::interpolated;
use crate::facts::{Facts, Problem};
use crate::rules;
use crate::shell::UNKNOWN;
use crate::yaml::Node;

/// Checks what a service says itself.
pub(super) fn check(service: &Node, problems: &mut Vec<Problem>) {
    sockets(service, problems);
    entrypoint(service, problems);
    dashboard(service, problems);
    routed(service, problems);
    platform(service, problems);
    late(service, problems);
    secret(service, problems);
    let command = command(service);
    if !command.is_empty() {
        again(service, &command, problems);
    }
}

/// Checks a service together with the Dockerfile that it builds.
pub(super) fn with_image(service: &Node, image: &Facts<'_>, problems: &mut Vec<Problem>) {
    if ["command", "entrypoint"].iter().any(|key| service.get(key).is_some()) {
        return;
    }
    let starts = image.text.lines().map(str::trim_start);
    let is_start = |line: &&str| ["CMD", "ENTRYPOINT"].iter().any(|name| line.starts_with(name));
    let command: Vec<&str> = starts.filter(is_start).collect();
    if !command.is_empty() {
        let text = command.join(" ").replace(['[', ']', '"', ',', '\''], " ");
        again(service, &text, problems);
    } else if is_stub(image) {
        let line = service.get("build").map_or(service.line, |build| build.line);
        let message =
            "the Dockerfile installs nothing and starts no program, so the service ends at once";
        problems.push(Problem { rule: "restart-of-job", line, message: message.to_owned() });
    }
}

/// Returns whether the last stage of a Dockerfile only prints something on a plain distribution.
fn is_stub(image: &Facts<'_>) -> bool {
    let is_plain = image.stages.last().is_some_and(|stage| {
        let name = rules::image_path(&stage.base);
        ["alpine", "busybox", "debian", "scratch", "ubuntu"].contains(&name)
    });
    let prints = |text: &str| {
        let text = text.replace(['[', '"'], " ");
        matches!(text.split_whitespace().nth(1), Some("echo" | "true" | ":"))
    };
    let mut steps = image.instructions().iter().filter(|one| {
        let word = one.text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        !matches!(&*word, "FROM" | "LABEL" | "MAINTAINER")
    });
    is_plain && image.stages.len() == 1 && steps.all(|one| prints(&one.text))
}

/// Returns the words that a service starts.
pub(super) fn command(service: &Node) -> String {
    let nodes = ["entrypoint", "command"].into_iter().filter_map(|key| service.get(key));
    let texts = nodes.flat_map(|node| {
        node.text().into_iter().chain(node.items().iter().filter_map(|item| item.text()))
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Words of the names of programs and subcommands that do one job and end.
const JOBS: [&str; 16] = [
    "bench",
    "benchmark",
    "benchmarks",
    "convert",
    "download",
    "evaluate",
    "finetune",
    "ingest",
    "init",
    "migrate",
    "pytest",
    "seed",
    "setup",
    "test",
    "tests",
    "train",
];

/// Texts of commands that go on after such a job.
const ENDLESS: [&str; 18] = [
    "&",
    ";",
    "celery",
    "cron",
    "daemon",
    "exec ",
    "gunicorn",
    "infinity",
    "loop",
    "runserver",
    "schedule",
    "serve",
    "sleep",
    "start",
    "tail ",
    "uvicorn",
    "watch",
    "while",
];

/// Checks for a restart policy that repeats a job.
fn again(service: &Node, command: &str, problems: &mut Vec<Problem>) {
    let Some(restart) = service.get("restart") else { return };
    let policy = restart.text().unwrap_or_default();
    let lower = command.to_ascii_lowercase();
    let has_ports = service.get("ports").is_some_and(|ports| !ports.items().is_empty());
    if !matches!(policy, "always" | "unless-stopped")
        || has_ports
        || service.get("healthcheck").is_some()
        || ENDLESS.iter().any(|word| lower.contains(word))
    {
        return;
    }
    let shells = ["bash", "bundle", "poetry", "python", "python3", "run", "sh", "uv", "-c", "-m"];
    let mut words = lower.split_whitespace().filter(|word| !shells.contains(word));
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    let stem = program.split('.').next().unwrap_or(program);
    let is_job = |part: &str| JOBS.contains(&part);
    if stem.split(['-', '_']).any(is_job) {
        let message = format!("`restart: {policy}` repeats `{program}` whenever it ends");
        problems.push(Problem { rule: "restart-of-job", line: restart.line, message });
    }
}

/// Sockets of the system's own services, which exist before any container starts.
const OF_HOST: [&str; 16] = [
    ".X11-unix",
    "/var/lib/kubelet",
    "avahi",
    "bus",
    "containerd.sock",
    "crio.sock",
    "dbus",
    "docker.sock",
    "docker/",
    "journal",
    "mysqld.sock",
    "pipewire",
    "podman",
    "pulse",
    "tailscaled.sock",
    "wayland",
];

/// Checks for the mount of a single socket.
fn sockets(service: &Node, problems: &mut Vec<Problem>) {
    for item in service.get("volumes").map_or(&[][..], Node::items) {
        let text = item.text().or_else(|| item.get("source").and_then(Node::text));
        let text = text.map(interpolated).unwrap_or_default();
        let mut parts = text.split(':');
        let source = parts.next().unwrap_or_default();
        let is_path = source.starts_with(['/', '.', '~']);
        let is_socket = [".sock", ".socket"].iter().any(|end| source.ends_with(end));
        let is_of_host = OF_HOST.iter().any(|name| source.contains(name));
        if is_path && is_socket && !is_of_host && !source.contains(UNKNOWN) {
            let message = format!(
                "if `{source}` does not exist yet, docker creates a folder of this name, and a new socket does not reach the container"
            );
            problems.push(Problem { rule: "socket-mount", line: item.line, message });
        }
    }
}

/// Images whose entrypoint is a program: the start of the image's path and of its tag, and the words
/// that begin a command which repeats the program.
const ENTRYPOINTS: [(&str, &str, &[&str]); 6] = [
    ("vllm/vllm-openai", "", &["vllm serve", "vllm "]),
    ("ollama/ollama", "", &["ollama "]),
    ("ggml-org/llama.cpp", "server", &["llama-server", "/app/llama-server", "./llama-server"]),
    ("ggerganov/llama.cpp", "server", &["llama-server", "/app/llama-server", "./llama-server"]),
    ("ggml-org/llama.cpp", "full", &["llama-server", "/app/llama-server", "./llama-server"]),
    ("huggingface/text-generation-inference", "", &["text-generation-launcher"]),
];

/// Checks for a command that repeats the entrypoint of its image.
fn entrypoint(service: &Node, problems: &mut Vec<Problem>) {
    if ["build", "entrypoint", "extends"].iter().any(|key| service.get(key).is_some()) {
        return;
    }
    let (Some(image), Some(node)) = (service.get("image"), service.get("command")) else { return };
    let image = interpolated(image.text().unwrap_or_default());
    let words = node.items().iter().filter_map(|item| item.text());
    let text = node.text().map_or_else(|| words.collect::<Vec<_>>().join(" "), str::to_owned);
    if let Some(message) = repeated(&image, &text) {
        problems.push(Problem { rule: "image-contract", line: node.line, message });
    }
}

/// Returns the message if a command repeats the entrypoint of its image.
pub(crate) fn repeated(image: &str, command: &str) -> Option<String> {
    let path = rules::image_path(image);
    let tag = image.rsplit_once(path).map_or("", |(_, rest)| rest.trim_start_matches(':'));
    let command = command.trim();
    ENTRYPOINTS.iter().find_map(|(name, start, words)| {
        let is_image = path.starts_with(name) && tag.starts_with(start);
        let word = words.iter().find(|word| format!("{command} ").starts_with(**word))?;
        let message = format!(
            "the entrypoint of `{image}` is the program already, so `{}` is its first argument",
            word.trim()
        );
        is_image.then_some(message)
    })
}

/// Checks for a dashboard of Traefik without a login, and for services that it opens.
fn dashboard(service: &Node, problems: &mut Vec<Problem>) {
    let image = service.get("image").and_then(Node::text).map(interpolated).unwrap_or_default();
    if rules::image_path(&image) != "traefik" {
        return;
    }
    let node = service.get("command");
    let items = node.map_or(&[][..], Node::items).iter();
    let listed = items.filter_map(|item| Some((item.text()?, item.line)));
    let whole = node.and_then(|node| Some((node.text()?, node.line)));
    let is_open = |(text, _): &(&str, usize)| {
        let lower = text.to_ascii_lowercase();
        lower.contains("--api.insecure") && !lower.contains("insecure=false")
    };
    let Some((_, line)) = listed.chain(whole).find(is_open) else { return };
    let ports = service.get("ports").map_or(&[][..], Node::items).iter();
    let mut published = ports.filter(|port| super::host::is_published(port));
    let is_dashboard = |port: &std::rc::Rc<Node>| {
        port.text().is_some_and(|text| {
            interpolated(text).split('/').next().unwrap_or_default().ends_with("8080")
        })
    };
    if published.any(is_dashboard) {
        let message =
            "`--api.insecure` opens Traefik's dashboard and API to everyone, without a login";
        problems.push(Problem { rule: "service-open", line, message: message.to_owned() });
    }
}

/// Images of servers without a login.
const WITHOUT_LOGIN: [&str; 6] = [
    "comfyanonymous/comfyui",
    "ggerganov/llama.cpp",
    "ggml-org/llama.cpp",
    "ollama/ollama",
    "vllm/vllm-openai",
    "yanwk/comfyui-boot",
];

/// Texts of commands and variables that set a key.
const KEYS: [&str; 2] = ["api-key", "api_key"];

/// Checks for a server without a login that a reverse proxy publishes.
fn routed(service: &Node, problems: &mut Vec<Problem>) {
    let image = service.get("image").and_then(Node::text).map(interpolated).unwrap_or_default();
    let path = rules::image_path(&image);
    let Some(labels) = service.get("labels").filter(|_| WITHOUT_LOGIN.contains(&path)) else {
        return;
    };
    let listed = labels.items().iter().filter_map(|item| Some((item.text()?, item.line)));
    let named = labels.entries().iter().filter_map(|(key, _)| Some((key.text()?, key.line)));
    let all: Vec<(&str, usize)> = listed.chain(named).collect();
    let rule = all.iter().find(|(text, _)| {
        let name = text.split('=').next().unwrap_or_default();
        name.starts_with("traefik.http.routers.") && name.ends_with(".rule")
    });
    let is_guarded = all.iter().any(|(text, _)| text.contains(".middlewares"));
    let mut words = command(service);
    for node in service.get("environment").into_iter() {
        let names = node.entries().iter().filter_map(|(key, _)| key.text());
        let items = node.items().iter().filter_map(|item| item.text());
        words.extend(names.chain(items).flat_map(|one| [" ", one]));
    }
    let lower = words.to_ascii_lowercase();
    let has_key = KEYS.iter().any(|key| lower.contains(key));
    if let Some((_, line)) = rule.filter(|_| !is_guarded && !has_key) {
        let message =
            format!("Traefik publishes `{path}`, which has no login, without a middleware");
        problems.push(Problem { rule: "service-open", line: *line, message });
    }
}

/// Words of the names of variables with keys that others could use for ever.
const PRIVATE: [&str; 5] = ["MNEMONIC", "PRIVATE_KEY", "SEED_PHRASE", "SIGNING_KEY", "WALLET_KEY"];

/// Checks for a private key in a variable, which `docker inspect` and all programs of the container
/// show.
fn secret(service: &Node, problems: &mut Vec<Problem>) {
    let Some(environment) = service.get("environment") else { return };
    let listed = environment.items().iter().filter_map(|item| {
        let text = item.text()?;
        Some((text.split_once('=').unwrap_or((text, "$")), item.line))
    });
    let named = environment.entries().iter();
    let named = named.filter_map(|(key, value)| Some(((key.text()?, value.text()?), key.line)));
    for ((name, value), line) in listed.chain(named) {
        let is_private = PRIVATE.iter().any(|word| name.contains(word));
        let is_place = ["FILE", "PATH", "NAME", "ID"].iter().any(|end| name.ends_with(end));
        let is_key = value.contains('$') || value.len() > 20;
        if is_private && !is_place && is_key && !value.contains('/') {
            let message = format!(
                "`{name}` is a variable, which everyone sees who can inspect the container"
            );
            problems.push(Problem { rule: "secret-in-environment", line, message });
        }
    }
}

/// Checks for ROCm on a processor for which AMD has none.
fn platform(service: &Node, problems: &mut Vec<Problem>) {
    let Some(platform) = service.get("platform") else { return };
    let image = service.get("image").and_then(Node::text).map(interpolated).unwrap_or_default();
    let devices = service.get("devices").map_or(&[][..], Node::items);
    let has_kfd =
        devices.iter().any(|one| one.text().is_some_and(|text| text.contains("/dev/kfd")));
    let is_arm = platform.text().is_some_and(|text| text.starts_with("linux/arm"));
    if is_arm && (has_kfd || image.contains("rocm")) {
        let message = "AMD has no ROCm for this processor".to_owned();
        problems.push(Problem { rule: "rocm-arm64", line: platform.line, message });
    }
}

/// Parts of the names of variables with addresses for browsers, and of lists of allowed addresses.
const FOR_BROWSERS: [&str; 20] = [
    "ALLOW",
    "BACKEND_CORS",
    "BROWSER",
    "CALLBACK",
    "CLIENT",
    "CORS",
    "DOMAIN",
    "EXTERNAL",
    "FRONTEND",
    "NEXTAUTH",
    "NEXT_PUBLIC",
    "ORIGIN",
    "PUBLIC",
    "REACT_APP",
    "REDIRECT",
    "SITE",
    "UI_",
    "VITE",
    "WEBHOOK",
    "WEBUI_URL",
];

/// Checks for addresses of other services that lead to the container itself.
pub(super) fn together(services: &Node, problems: &mut Vec<Problem>) {
    let all = compared(services);
    let published: Vec<(&str, String, String)> = all
        .iter()
        .flat_map(|(name, service)| {
            ports(service).into_iter().map(|(host, own)| (*name, host, own))
        })
        .collect();
    for (name, service) in &all {
        if service.get("network_mode").is_some() || service.get("extends").is_some() {
            continue;
        }
        for (variable, value, line) in variables(service) {
            let Some(port) = local_port(&value) else { continue };
            let is_for_browsers = FOR_BROWSERS.iter().any(|part| variable.contains(part));
            let is_own = published
                .iter()
                .any(|(own, host, inside)| own == name && (*host == port || *inside == port));
            let other = published.iter().find(|(own, host, inside)| {
                own != name && (*host == port || *inside == port) && !is_proxy(&all, own)
            });
            let Some((other, _, inside)) = other.filter(|_| !is_own && !is_for_browsers) else {
                continue;
            };
            let message = format!(
                "`{variable}={value}` leads to the container itself; the service is at `{other}:{inside}`"
            );
            problems.push(Problem { rule: "service-address", line, message });
        }
    }
}

/// Returns whether a service only passes requests on, so that its port is another service's.
fn is_proxy(all: &[(&str, &Node)], name: &str) -> bool {
    let image = all.iter().find(|(own, _)| *own == name).and_then(|(_, own)| own.get("image"));
    let image = image.and_then(Node::text).unwrap_or_default();
    ["caddy", "envoy", "haproxy", "nginx", "traefik"].iter().any(|proxy| image.contains(proxy))
}

/// Returns the ports that a service publishes: that of the host, and that of the container.
fn ports(service: &Node) -> Vec<(String, String)> {
    let items = service.get("ports").map_or(&[][..], Node::items).iter();
    let read = |item: &std::rc::Rc<Node>| {
        let text = interpolated(item.text()?);
        let text = text.split('/').next().unwrap_or_default();
        let mut parts = text.rsplit(':');
        let inside = parts.next()?.to_owned();
        let host = parts.next().map_or_else(|| inside.clone(), str::to_owned);
        (!text.contains(UNKNOWN)).then_some((host, inside))
    };
    items.filter_map(read).collect()
}

/// Returns the variables of a service, with their lines.
fn variables(service: &Node) -> Vec<(String, String, usize)> {
    let Some(environment) = service.get("environment") else { return Vec::new() };
    let listed = environment.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some((name.to_owned(), interpolated(value), item.line))
    });
    let named = environment.entries().iter().filter_map(|(key, value)| {
        Some((key.text()?.to_owned(), interpolated(value.text()?), key.line))
    });
    listed.chain(named).collect()
}

/// Returns the port of an address of the container itself: `http://localhost:11434/v1`.
fn local_port(value: &str) -> Option<String> {
    let rest = value.trim().split_once("://")?.1;
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let (host, rest) = rest.split_once(':')?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (crate::containers::is_local(host) && !port.is_empty() && !value.contains(',')).then_some(port)
}

/// Files with the packages that are installed while an image is built.
const LISTS: [&str; 6] = [
    "Dockerfile",
    "environment.yml",
    "package-lock.json",
    "package.json",
    "pyproject.toml",
    "uv.lock",
];

/// Checks for the mount of a list of packages into an image that is already built.
fn late(service: &Node, problems: &mut Vec<Problem>) {
    let lower = command(service);
    let installs = ["install", "sync", "update"].iter().any(|word| lower.contains(word));
    if service.get("build").is_none() || installs {
        return;
    }
    for item in service.get("volumes").map_or(&[][..], Node::items) {
        let Some((source, _)) = item.text().and_then(|text| text.split_once(':')) else { continue };
        let name = source.rsplit('/').next().unwrap_or(source);
        let is_list =
            LISTS.contains(&name) || name.starts_with("requirements") && name.ends_with(".txt");
        if is_list && source.starts_with(['.', '/']) {
            let message = format!(
                "`{name}` matters only while the image is built; the mount installs nothing"
            );
            problems.push(Problem { rule: "mount-too-late", line: item.line, message });
        }
    }
}

/// Checks for variables that a mounted file replaces, which the command of the service reads.
pub(super) fn sourced(
    service: &Node,
    file: &str,
    exists: &dyn crate::Exists,
    problems: &mut Vec<Problem>,
) {
    let text = command(service);
    for item in service.get("volumes").map_or(&[][..], Node::items) {
        let Some(mount) = item.text() else { continue };
        let mut parts = mount.split(':');
        let (Some(source), Some(target)) = (parts.next(), parts.next()) else { continue };
        let is_read =
            [". ", "source "].iter().any(|word| text.contains(&format!("{word}{target}")));
        if !source.ends_with(".env") || !is_read {
            continue;
        }
        let Some(values) = exists.text(file, source) else { continue };
        let is_set = |name: &str| {
            let mut lines = values.lines().map(str::trim_start);
            lines.any(|line| {
                let line = line.strip_prefix("export ").unwrap_or(line);
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
            })
        };
        for (name, _, line) in variables(service).into_iter().filter(|(name, ..)| is_set(name)) {
            let message = format!("the command reads `{source}`, which replaces `{name}`");
            problems.push(Problem { rule: "variable-without-effect", line, message });
        }
    }
}
