//! Rules for servers that an environment file opens to other machines.

use crate::containers::LOGIN;
use crate::{Context, Facts, Findings, Hit, Kind, Severity, containers};

/// Options with which a server listens on all addresses.
const ALL: [&str; 5] =
    ["--host 0.0.0.0", "--host=0.0.0.0", "--listen 0.0.0.0", "--listen", "--server-name 0.0.0.0"];

/// Checks the options of servers in an environment file whose compose file publishes their ports.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Environment) else { return };
    let lower = facts.text.to_ascii_lowercase();
    if ["api-key", "api_key=", "password="].iter().any(|text| lower.contains(text)) {
        return;
    }
    let is_open = |value: &str| {
        let padded = format!("{value} ");
        ALL.iter().any(|option| padded.contains(&format!("{option} ")))
            && containers::markers(value, 1).iter().all(|one| one.text != LOGIN)
    };
    let mut settings = facts.settings.iter().filter(|one| is_open(&one.value)).peekable();
    if settings.peek().is_none() {
        return;
    }
    let files = exists.compose_files(facts.file);
    let publishes = |name: &str| {
        files.iter().any(|text| {
            let uses = text.contains(&format!("${{{name}")) || text.contains(&format!("${name}"));
            uses && text.contains("ports:") && !text.contains("127.0.0.1:")
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
