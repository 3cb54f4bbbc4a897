//! Checks for services that start before the database or model server that they need answers.

use super::interpolated;
use crate::Exists;
use crate::facts::{Facts, Problem};
use crate::rules;
use crate::yaml::Node;

/// The rule.
pub(super) const RULE: &str = "compose-start-order";

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
        let is_model = MODELS.iter().any(|part| path.starts_with(part));
        let is_client = path == "ollama/ollama" && CLIENTS.iter().any(|one| command.contains(one));
        if !(is_client || (is_database || is_model) && !is_patient) {
            continue;
        }
        let what = if is_database { "accepts connections" } else { "answers" };
        let message = format!("the service starts before `{other}` {what}");
        return problems.push(Problem { rule: RULE, line, message });
    }
}
