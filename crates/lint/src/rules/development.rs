//! Servers that a file starts in development mode.

use super::stages::{last_stages, parts};
use super::traps::instructions;
use crate::shell::Scope;
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
    settings(facts, found);
    if facts.kind == Kind::Dockerfile {
        let all = instructions(facts.text);
        let stages = last_stages(facts, &all);
        let starts = all.iter().filter(|one| stages.contains(&one.stage));
        for own in starts.filter(|one| matches!(&*parts(one).0, "CMD" | "ENTRYPOINT")) {
            started(own.line, &own.text.replace(['[', ']', '"', ','], " "), found);
        }
        return;
    }
    for command in &facts.commands {
        started(command.words[0].line, &command.texts().join(" "), found);
    }
}

/// Variables that switch a framework to development mode, and their values in lower case.
const VARIABLES: [(&str, &[&str]); 6] = [
    ("DEBUG", &["true", "1"]),
    ("APP_DEBUG", &["true", "1"]),
    ("DJANGO_DEBUG", &["true", "1"]),
    ("FLASK_DEBUG", &["true", "1"]),
    ("FLASK_ENV", &["development"]),
    ("NODE_ENV", &["development"]),
];

fn settings(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let last = facts.stages.len();
    for setting in &facts.settings {
        let is_kept = match setting.scope {
            Scope::Run => true,
            Scope::Image => setting.stage == last,
            _ => false,
        };
        let value = setting.value.to_ascii_lowercase();
        let is_on = |(name, values): &(&str, &[&str])| {
            *name == setting.name && values.contains(&value.as_str())
        };
        if is_kept && VARIABLES.iter().any(is_on) {
            let message = format!("`{}={}` is set for every start", setting.name, setting.value);
            found.add(RULE, setting.line, message);
        }
    }
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

fn started(line: usize, command: &str, found: &mut Findings<'_>) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_server = |server: &&(&str, &str)| {
        let (program, option) = **server;
        let at = words.iter().position(|word| word.rsplit('/').next() == Some(program));
        at.is_some_and(|at| words[at + 1..].contains(&option))
    };
    if let Some((program, option)) = SERVERS.iter().find(is_server) {
        let message = format!("`{program}` runs in development mode: `{option}`");
        found.add(RULE, line, message);
    }
}
