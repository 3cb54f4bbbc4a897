//! Servers that a file starts in development mode.

use super::stages::{last_stages, parts};
use crate::shell::{Scope, Setting};
use crate::{Facts, Findings, Kind};

/// The rule.
const RULE: &str = "development-mode";

/// Parts of the names of files that are made for development.
const FOR_DEVELOPERS: [&str; 5] = ["debug", "dev", "local", "override", "test"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let kinds = [Kind::Dockerfile, Kind::Compose, Kind::Manifest, Kind::Unit, Kind::Quadlet];
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let is_for_developers = FOR_DEVELOPERS.iter().any(|part| name.contains(part));
    if !kinds.contains(&facts.kind) || is_for_developers {
        return;
    }
    let first = first(facts);
    if let Some((line, message)) = first {
        found.add(RULE, line, message);
    }
}

/// Returns the first sign of development mode.
fn first(facts: &Facts<'_>) -> Option<(usize, String)> {
    let mut found: Vec<(usize, String)> = settings(facts);
    if facts.kind == Kind::Dockerfile {
        let all = facts.instructions();
        let stages = last_stages(facts, all);
        let starts = all.iter().filter(|one| stages.contains(&one.stage));
        let starts = starts.filter(|one| matches!(&*parts(one).0, "CMD" | "ENTRYPOINT"));
        found.extend(starts.filter_map(|own| {
            let text = own.text.replace(['[', ']', '"', ','], " ");
            Some((own.line, started(&text)?))
        }));
    } else {
        found.extend(facts.commands.iter().filter_map(|command| {
            Some((command.words[0].line, started(&command.texts().join(" "))?))
        }));
    }
    found.into_iter().min_by_key(|(line, _)| *line)
}

/// Variables that switch a framework to development mode, and their values in lower case.
const VARIABLES: [(&str, &[&str]); 5] = [
    ("DEBUG", &["true", "1"]),
    ("APP_DEBUG", &["true", "1"]),
    ("DJANGO_DEBUG", &["true", "1"]),
    ("FLASK_DEBUG", &["true", "1"]),
    ("NODE_ENV", &["development"]),
];

/// Frameworks that read `DEBUG`, and show code in error pages.
const FRAMEWORKS: [&str; 5] = ["django", "fastapi", "flask", "manage.py", "starlette"];

/// Returns the variables that are set for every start.
fn settings(facts: &Facts<'_>) -> Vec<(usize, String)> {
    let last = facts.stages.len();
    let is_on = |one: &Setting| {
        let is_value = |value: &&str| value.eq_ignore_ascii_case(&one.value);
        VARIABLES.iter().any(|(name, values)| *name == one.name && values.iter().any(is_value))
    };
    let is_kept = |one: &Setting| match one.scope {
        Scope::Run => true,
        Scope::Image => one.stage == last,
        _ => false,
    };
    // Other programs only log more.
    let lower = facts.code.to_ascii_lowercase();
    let has_framework = FRAMEWORKS.iter().any(|name| lower.contains(name));
    let is_log = |one: &Setting| one.name == "DEBUG" && !has_framework;
    let set = facts.settings.iter().filter(|one| is_kept(one) && is_on(one) && !is_log(one));
    set.map(|one| {
        let Setting { name, value, line, .. } = one;
        let effect = if name.contains("DEBUG") { ", and can show code in error pages" } else { "" };
        (*line, format!("`{name}={value}` is set for every start{effect}"))
    })
    .collect()
}

/// Servers, and their options for development.
const SERVERS: [(&str, &str); 10] = [
    ("uvicorn", "--reload"),
    ("hypercorn", "--reload"),
    ("gunicorn", "--reload"),
    ("flask", "--debug"),
    ("fastapi", "dev"),
    ("npm", "dev"),
    ("pnpm", "dev"),
    ("yarn", "dev"),
    ("manage.py", "runserver"),
    ("flask", "--reload"),
];

/// Returns the message for a command that starts a server in development mode.
fn started(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_server = |server: &&(&str, &str)| {
        let (program, option) = **server;
        let at = words.iter().position(|word| word.rsplit('/').next() == Some(program));
        at.is_some_and(|at| words[at + 1..].contains(&option))
    };
    let (program, option) = SERVERS.iter().find(is_server)?;
    Some(format!("`{program}` runs in development mode: `{option}`"))
}
