//! Checks for services that start before the database or model server that they need answers.

use std::collections::BTreeSet;

use super::interpolated;
use super::relations::command;
use crate::Exists;
use crate::facts::{Facts, Problem};
use crate::rules;
use crate::yaml::Node;

/// Images of databases that refuse connections while they start.
const DATABASES: [&str; 14] = [
    "apache/cassandra",
    "cassandra",
    "clickhouse/clickhouse-server",
    "elasticsearch",
    "elasticsearch/elasticsearch",
    "mariadb",
    "mongo",
    "mysql",
    "neo4j",
    "opensearchproject/opensearch",
    "pgvector/pgvector",
    "postgres",
    "postgis/postgis",
    "milvusdb/milvus",
];

/// Parts of the names of images of servers that load a model before they answer.
const MODELS: [&str; 7] = [
    "vllm/vllm-openai",
    "rocm/vllm",
    "huggingface/text-generation-inference",
    "huggingface/text-embeddings-inference",
    "lmsysorg/sglang",
    "ggml-org/llama.cpp",
    "nvidia/tritonserver",
];

/// Parts of the names of services and images that try again until the other service answers.
const PATIENT: [&str; 25] = [
    "adminer",
    "caddy",
    "chat-ui",
    "dashboard",
    "exporter",
    "frontend",
    "grafana",
    "haproxy",
    "keycloak",
    "langfuse",
    "librechat",
    "litellm",
    "lobe",
    "mongo-express",
    "n8n",
    "nginx",
    "open-webui",
    "openwebui",
    "pgadmin",
    "phpmyadmin",
    "prometheus",
    "proxy",
    "traefik",
    "ui",
    "zookeeper",
];

/// Texts of commands that wait for another service.
const WAITS: [&str; 11] = [
    "dockerize",
    "nc ",
    "pg_isready",
    "retry",
    "sleep",
    "until ",
    "wait",
    "while ",
    "healthcheck",
    "mysqladmin",
    "/dev/tcp",
];

/// Texts of commands that fail at once if the server does not answer.
const CLIENTS: [&str; 3] = ["ollama pull", "ollama run", "ollama create"];

/// Returns whether a Dockerfile, or a script that it starts, waits for another service.
pub(super) fn waits(dockerfile: &str, facts: &Facts<'_>, exists: &dyn Exists) -> bool {
    let has = |text: &str| WAITING.iter().any(|word| text.contains(word));
    let starts = dockerfile.lines().filter(|line| {
        ["CMD", "ENTRYPOINT", "COPY"].iter().any(|name| line.trim_start().starts_with(name))
    });
    let words = starts.flat_map(|line| line.split(['"', '\'', ' ', ',', '[', ']']));
    let mut scripts = words.filter(|word| word.ends_with(".sh"));
    has(dockerfile)
        || scripts.any(|path| {
            let path = path.trim_start_matches(['.', '/']);
            exists.in_context(facts.file, path).is_some_and(|text| has(&text))
        })
}

/// Texts of scripts that wait for a database.
const WAITING: [&str; 9] = [
    "dockerize",
    "nc -z",
    "pg_isready",
    "retry",
    "until ",
    "wait-for",
    "wait_for",
    "waiting for",
    "/dev/tcp",
];

/// Adds the problem of one service.
pub(super) fn check(services: &Node, name: &Node, service: &Node, problems: &mut Vec<Problem>) {
    let Some(needed) = service.get("depends_on") else { return };
    let started = ["command", "entrypoint"].iter().filter_map(|key| service.get(key));
    let texts = started.flat_map(|node| {
        node.text().into_iter().chain(node.items().iter().filter_map(|item| item.text()))
    });
    let command = texts.collect::<Vec<_>>().join(" ");
    if WAITS.iter().any(|word| command.contains(word)) {
        return;
    }
    let image = service.get("image").and_then(Node::text).map(interpolated).unwrap_or_default();
    let own = format!("{} {image}", name.text().unwrap_or_default()).to_ascii_lowercase();
    let is_word = |part: &str| {
        PATIENT.iter().any(|one| part == *one || one.len() > 3 && part.starts_with(one))
    };
    let is_patient = own
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .any(|word| is_word(word) || word.split('-').any(is_word));
    let listed = needed.items().iter().filter_map(|item| Some((item.text()?, item.line)));
    let mapped = needed.entries().iter().filter_map(|(key, value)| {
        let condition = value.get("condition").and_then(Node::text);
        let is_short = matches!(condition, None | Some("service_started"));
        is_short.then(|| Some((key.text()?, key.line)))?
    });
    for (other, line) in listed.chain(mapped) {
        let Some(node) = services.get(other) else { continue };
        let needed_image = node.get("image").and_then(Node::text).map(interpolated);
        let needed_image = needed_image.unwrap_or_default();
        let path = rules::image_path(&needed_image);
        let is_database = DATABASES.contains(&path);
        // Most programs ask a model server only when they have a request.
        let is_client = path == "ollama/ollama" && CLIENTS.iter().any(|one| command.contains(one));
        if !(is_client || is_database && !is_patient) {
            continue;
        }
        let what = if is_database { "accepts connections" } else { "answers" };
        let message = format!("the service starts before `{other}` {what}");
        return problems.push(Problem { rule: "compose-start-order", line, message });
    }
}

/// The number of seconds that a model server needs at least to load its model.
const SHORTEST: u64 = 120;

/// Returns the names of the services whose health others wait for.
pub(super) fn awaited(services: &Node) -> BTreeSet<&str> {
    let needed = services.entries().iter().filter_map(|(_, one)| one.get("depends_on"));
    let entries = needed
        .flat_map(Node::entries)
        .filter(|(_, one)| one.get("condition").and_then(Node::text) == Some("service_healthy"));
    entries.filter_map(|(name, _)| name.text()).collect()
}

/// Adds the problem of a model server that others wait for, if its health check gives up before a
/// model is loaded.
pub(super) fn impatient(
    awaited: &BTreeSet<&str>,
    name: &Node,
    service: &Node,
    problems: &mut Vec<Problem>,
) {
    let (Some(check), Some(own)) = (service.get("healthcheck"), name.text()) else { return };
    let image = service.get("image").and_then(Node::text).map(interpolated).unwrap_or_default();
    let is_model = MODELS.iter().any(|part| rules::image_path(&image).starts_with(part));
    if !is_model || !awaited.contains(own) || check.get("test").is_none() || is_router(service) {
        return;
    }
    let of = |key: &str, default: u64| match check.get(key).and_then(Node::text) {
        Some(text) => seconds(&interpolated(text)),
        None => Some(default),
    };
    let retries = check.get("retries").and_then(Node::text);
    let retries = retries.map_or(Some(3), |text| interpolated(text).parse::<u64>().ok());
    let times = (of("start_period", 0), of("interval", 30), retries);
    let (Some(start), Some(interval), Some(count)) = times else { return };
    let total = start.saturating_add(interval.saturating_mul(count));
    if total < SHORTEST {
        let message = format!(
            "`{own}` counts as unhealthy after {total} seconds, and what waits for it then does not start"
        );
        let line = service.entries().iter().find(|(key, _)| key.text() == Some("healthcheck"));
        let line = line.map_or(check.line, |(key, _)| key.line);
        problems.push(Problem { rule: "healthcheck-early", line, message });
    }
}

/// Options and variables with which llama.cpp's server loads a model only at its first request.
const ROUTERS: [&str; 4] =
    ["--models-dir", "--models-preset", "LLAMA_ARG_MODELS_DIR", "LLAMA_ARG_MODELS_PRESET"];

/// Options and variables that name the model which llama.cpp's server loads when it starts.
const LOADED: [&str; 6] =
    ["-m", "--model", "-hf", "--hf-repo", "LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO"];

/// Returns whether a service is llama.cpp's server without a model of its own, which answers at once.
fn is_router(service: &Node) -> bool {
    let mut words = command(service);
    for node in service.get("environment").into_iter() {
        let names = node.entries().iter().filter_map(|(name, _)| name.text());
        let items = node.items().iter().filter_map(|item| item.text());
        words.extend(names.chain(items).flat_map(|one| [" ", one]));
    }
    let has = |names: &[&str]| {
        let mut all = words.split([' ', '=', '"', '\'', ',', '[', ']']);
        all.any(|word| names.contains(&word))
    };
    has(&ROUTERS) && !has(&LOADED)
}

/// Returns the seconds of a duration: `90s`, `1m30s`, `2h`.
fn seconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut number = String::new();
    for c in text.trim().chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return None,
        };
        let count: u64 = number.parse().ok()?;
        total = total.saturating_add(count.saturating_mul(unit));
        number.clear();
    }
    number.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("1m30s", Some(90)),
            ("2h", Some(7200)),
            ("10", None),
            ("500ms", None),
            ("x", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
