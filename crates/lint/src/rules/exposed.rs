//! Rules for servers that an environment file opens to other machines.

use crate::containers::{LOGIN, is_local, names_all};
use crate::{Context, Facts, Findings, Hit, Kind, Severity, containers};

/// Options of servers for the address on which they listen.
const ADDRESSES: [&str; 5] = ["--address", "--bind", "--host", "--listen", "--server-name"];

/// The number of variables that are looked for in the compose files.
const MOST: usize = 20;

/// Checks the options of servers in an environment file whose compose file publishes their ports.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Environment) else { return };
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
