//! Keys and passwords whose value is a placeholder that everyone knows.

use super::stages::{last_stages, parts};
use crate::facts::Container;
use crate::shell::{Scope, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// The rule.
const RULE: &str = "password-in-file";

/// Ends of the names of variables for keys and passwords that a service itself checks or uses.
const OWN: [&str; 14] = [
    "_ADMIN_TOKEN",
    "_API_KEY",
    "_AUTH_TOKEN",
    "_MASTER_KEY",
    "_PASS",
    "_PASSWORD",
    "_SALT",
    "_SECRET",
    "AUTH_SECRET",
    "ENCRYPTION_KEY",
    "JWT_SECRET",
    "PASSWORD",
    "SECRET_KEY",
    "SECRET_KEY_BASE",
];

/// Ends of the names of variables with which a service signs or encrypts. It also works with a
/// placeholder.
const SIGNS: [&str; 6] =
    ["_MASTER_KEY", "_SALT", "AUTH_SECRET", "ENCRYPTION_KEY", "JWT_SECRET", "SESSION_SECRET"];

/// Other such names.
const SIGNS_EXACTLY: [&str; 7] = [
    "APP_SECRET_KEY",
    "DJANGO_SECRET_KEY",
    "FLASK_SECRET_KEY",
    "JWT_SECRET_KEY",
    "SECRET_KEY",
    "SECRET_KEY_BASE",
    "WEBUI_SECRET_KEY",
];

/// Parts of the names of variables with keys for services on the Internet, and for mail.
const FOREIGN: [&str; 30] = [
    "ANTHROPIC",
    "AWS",
    "AZURE",
    "CIVITAI",
    "CLERK",
    "CLIENT",
    "COHERE",
    "DEEPSEEK",
    "DISCORD",
    "EMAIL",
    "GEMINI",
    "GITHUB",
    "GOOGLE",
    "GROQ",
    "HF_",
    "HUGGING",
    "LANGFUSE_S",
    "MAIL",
    "MISTRAL",
    "OLLAMA",
    "OPENAI",
    "OPENROUTER",
    "S3",
    "SMTP",
    "STRIPE",
    "TAVILY",
    "TELEGRAM",
    "TEST",
    "TWILIO",
    "WANDB",
];

/// Parts of the names of variables with passwords of databases, which their clients also get.
const DATABASES: [&str; 13] = [
    "CLICKHOUSE",
    "DATABASE",
    "DB_",
    "ELASTIC",
    "MARIADB",
    "MINIO",
    "MONGO",
    "MYSQL",
    "NEO4J",
    "PG",
    "POSTGRES",
    "RABBITMQ",
    "REDIS",
];

/// Parts of the names of images of databases.
const DATABASE_IMAGES: [&str; 11] = [
    "clickhouse",
    "elastic",
    "maria",
    "minio",
    "mongo",
    "mysql",
    "neo4j",
    "pgvector",
    "postgres",
    "rabbitmq",
    "redis",
];

/// Values that everyone tries first.
const KNOWN: [&str; 16] = [
    "123456",
    "12345678",
    "admin",
    "admin123",
    "adminpassword",
    "changeit",
    "default",
    "minioadmin",
    "mysecret",
    "mysecretpassword",
    "password",
    "password123",
    "secret",
    "secretkey",
    "sk-1234",
    "supersecret",
];

/// Parts of placeholders.
const PARTS: [&str; 12] = [
    "change-in-",
    "change-me",
    "change-this",
    "change_in_",
    "change_me",
    "change_this",
    "changeme",
    "changethis",
    "please-change",
    "please_change",
    "replace-me",
    "replace_me",
];

/// Parts of the names of files that people copy and change.
const EXAMPLES: [&str; 7] = ["ci", "default", "dist", "example", "sample", "template", "test"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Compose | Kind::Quadlet => {
            // A proxy makes the services behind it reachable.
            let is_proxy = |one: &Container| {
                let image = one.image.as_ref().map_or("", |image| &image.text);
                is_reachable(one) && PROXIES.iter().any(|name| image.contains(name))
            };
            let has_proxy = facts.containers.iter().any(is_proxy);
            for container in &facts.containers {
                let has_port = is_reachable(container);
                if has_port || has_proxy {
                    of_container(facts, container, has_port, found);
                }
            }
        }
        Kind::Environment => {
            let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
            if EXAMPLES.iter().any(|part| name.contains(part)) {
                return;
            }
            for one in &facts.settings {
                if is_placeholder(&one.name, &one.value) && !is_of_database(&one.name) {
                    let message =
                        format!("`{}` is `{}`, which anyone can guess", one.name, one.value);
                    report(message, one.line, found);
                }
            }
        }
        Kind::Shell => token(facts, found),
        Kind::Dockerfile => baked(facts, found),
        _ => {}
    }
}

/// Parts of the names of images of proxies.
const PROXIES: [&str; 4] = ["caddy", "haproxy", "nginx", "traefik"];

/// Checks the variables of a container that has an open port, or is behind a proxy that has one. The
/// first one is enough.
fn of_container(
    facts: &Facts<'_>,
    container: &Container,
    has_port: bool,
    found: &mut Findings<'_>,
) {
    let image = container.image.as_ref().map_or("", |image| &image.text);
    let image = image.rsplit('/').next().unwrap_or(image);
    let is_database = DATABASE_IMAGES.iter().any(|part| image.contains(part));
    let own = container.options.iter().find_map(|option| {
        let (name, value) = option.text.strip_prefix("--env=")?.split_once('=')?;
        // No proxy passes on what is meant for a database.
        let is_own = if is_database { has_port } else { !is_of_database(name) };
        let is_default = facts.line(option.line).contains("${");
        // Everyone can read the default of a public file.
        let is_known = is_database
            && is_default
            && name.ends_with("PASSWORD")
            && value.bytes().any(|byte| byte.is_ascii_alphanumeric())
            && !value.contains(UNKNOWN);
        let is_plain = is_placeholder(name, value);
        (is_own && (is_plain || is_known)).then_some((name, value, option.line, is_plain))
    });
    let Some((name, value, line, is_plain)) = own else { return };
    let when = if facts.line(line).contains("${") { " unless it is set" } else { "" };
    let place = if has_port { "has an open port" } else { "is behind a proxy with an open port" };
    let who = if is_plain { "anyone can guess" } else { "the file shows" };
    let message = format!("the service {place}, and {who} `{value}`, the value of `{name}`{when}");
    report(message, line, found);
}

/// Reports a placeholder, unless another rule or row has reported the line.
fn report(message: String, line: usize, found: &mut Findings<'_>) {
    if !found.places().contains(&(line, RULE)) {
        let hit = Hit::new(RULE, line, message).at_most(Severity::Information);
        found.hit(
            hit.help(
                "set a value of your own; with `${NAME:?}`, Compose does not start without one",
            ),
        );
    }
}

/// Returns whether a variable is for a database, and perhaps for its client.
fn is_of_database(name: &str) -> bool {
    DATABASES.iter().any(|part| name.contains(part))
}

/// Returns whether other machines can reach a container.
fn is_reachable(container: &Container) -> bool {
    let local = ["--publish=127.", "--publish=localhost:", "--publish=[::1]"];
    container.options.iter().any(|one| {
        let is_local = local.iter().any(|start| one.text.starts_with(start));
        one.text.starts_with("--publish") && !is_local || one.text == "--network=host"
    })
}

/// Returns whether a variable has a value that everyone knows.
fn is_placeholder(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let value = value.trim_matches(['"', '\'']).to_ascii_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let is_foreign = FOREIGN.iter().any(|part| name.contains(part));
    let is_plain = KNOWN.contains(&&*value) || PARTS.iter().any(|part| value.contains(part));
    let is_yours = value.starts_with("your-") || value.starts_with("your_");
    let signs = ends(&SIGNS) || SIGNS_EXACTLY.contains(&&*name);
    !is_foreign && (ends(&OWN) && is_plain || signs && (is_yours || is_plain))
}

/// Ends of the names of build arguments that are secret.
const ARGUMENTS: [&str; 6] = ["API_KEY", "ACCESS_KEY", "PASSWORD", "SECRET", "SECRET_KEY", "TOKEN"];

/// Checks for a secret build argument that the image keeps: in a variable, or in its history.
fn baked(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let mut secret: Vec<&str> = Vec::new();
    for own in all.iter().filter(|own| stages.contains(&own.stage)) {
        let (name, rest) = parts(own);
        let uses = |one: &&&str| {
            let after = |start: String| {
                let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
                rest.split(start.as_str()).skip(1).any(|end| !end.starts_with(goes_on))
            };
            after(format!("${one}")) || after(format!("${{{one}"))
        };
        match &*name {
            "ARG" => {
                let words = rest.split_whitespace();
                let names = words.filter_map(|word| word.split('=').next());
                secret.extend(names.filter(|one| ARGUMENTS.iter().any(|end| one.ends_with(end))));
            }
            "ENV" => {
                if let Some(one) = secret.iter().find(uses) {
                    let message = format!(
                        "`ENV` writes the build argument `{one}` into the image, where everyone can read it"
                    );
                    let hit = Hit::new(RULE, own.line, message);
                    return found.hit(hit.help(format!(
                        "pass `{one}` when the container starts, and to a build with `RUN --mount=type=secret`"
                    )));
                }
            }
            "RUN" if !rest.contains("--mount=type=secret") => {
                if let Some(one) = secret.iter().find(uses) {
                    let message = format!(
                        "the history of the image contains the build argument `{one}`, which this `RUN` uses"
                    );
                    let hit = Hit::new(RULE, own.line, message).at_most(Severity::Information);
                    return found.hit(hit.help("use `RUN --mount=type=secret`"));
                }
            }
            _ => {}
        }
    }
}

/// Variables with the token of a user of Hugging Face.
const TOKENS: [&str; 3] = ["HF_TOKEN", "HUGGINGFACE_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Checks for a script that gives a token a value of its own.
fn token(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for one in facts.settings.iter().filter(|one| TOKENS.contains(&one.name.as_str())) {
        let value = one.value.trim();
        let is_plain = value.starts_with("hf_") || value.to_ascii_lowercase().contains("your");
        let is_assigned = matches!(one.scope, Scope::Shell | Scope::Exported);
        let places = found.places();
        let is_said = [RULE, "token-placeholder", "secret-in-file"]
            .iter()
            .any(|rule| places.contains(&(one.line, *rule)));
        if is_plain && is_assigned && !value.contains(UNKNOWN) && !is_said {
            let message = format!("`{}` of the environment is replaced by `{value}`", one.name);
            let hit = Hit::new("token-placeholder", one.line, message);
            return found.hit(hit.at_most(Severity::Information));
        }
    }
}
