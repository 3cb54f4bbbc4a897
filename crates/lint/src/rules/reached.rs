//! Rules for Dockerfiles together with the scripts and compose files that belong to them: servers
//! that a published port does not reach, and users who cannot open the GPU.

use super::folder::{cannot_open, knows_group};
use super::stages::{last_stages, parts};
use super::traps::last_user;
use crate::containers::{is_loopback, names_all};
use crate::facts::Container;
use crate::shell::ShellCommand;
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity, containers};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(files) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) else { return };
    in_script(facts, files, found);
    user(facts, files, found);
}

/// Programs that pass what reaches another address on to the server.
const PROXIES: [&str; 6] = ["caddy", "haproxy", "nginx", "socat", "supervisor", "tailscale"];

/// Checks for a start script whose server listens only on the loopback address, in an image with
/// `EXPOSE`.
fn in_script(facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let own: Vec<_> = all.iter().filter(|one| stages.contains(&one.stage)).collect();
    let Some(exposed) = own.iter().find(|one| parts(one).0 == "EXPOSE") else { return };
    let starts = own.iter().filter(|one| matches!(&*parts(one).0, "CMD" | "ENTRYPOINT"));
    let started: Vec<String> =
        starts.map(|one| one.text.replace(['[', ']', '"', ','], " ")).collect();
    let started = started.join(" ");
    let Some(place) = started.split_whitespace().find(|word| word.ends_with(".sh")) else { return };
    let name = place.rsplit('/').next().unwrap_or(place);
    let is_script = |word: &&str| word.rsplit('/').next() == Some(name);
    let copies = own.iter().filter(|one| matches!(&*parts(one).0, "COPY" | "ADD"));
    let mut sources = copies.filter(|one| !one.text.contains("--from")).flat_map(|one| {
        let words: Vec<&str> = one.text.split_whitespace().skip(1).collect();
        let last = words.len().saturating_sub(1);
        words.into_iter().take(last).filter(is_script).collect::<Vec<_>>()
    });
    let Some(source) = sources.next() else { return };
    let path = source.trim_start_matches("./");
    let Some(text) = files.in_context(facts.file, path) else { return };
    let lower = text.to_ascii_lowercase();
    if names_all(&text) || PROXIES.iter().any(|proxy| lower.contains(proxy)) {
        return;
    }
    let script = Facts::read("x.sh", &text);
    let ports = parts(exposed).1;
    let listens = |one: &&ShellCommand| {
        let words = one.texts();
        let mut given = words.windows(2).filter(|two| two[0] == "--port").map(|two| two[1]);
        let is_other = given.any(|port| port.parse::<u16>().is_ok() && !ports.contains(port));
        !one.is_message() && !is_other && is_loopback(&words.join(" "))
    };
    let servers: Vec<&ShellCommand> = script.commands.iter().filter(listens).collect();
    if let [server] = servers.as_slice() {
        let message = format!(
            "line {} of `{path}` makes the server listen only on the loopback address, so a published port does not reach it",
            server.words[0].line
        );
        found.add("server-unreachable", exposed.line, message);
    }
}

/// Names of compose files in the folder above.
pub(super) const ABOVE: [&str; 6] = [
    "../compose.yaml",
    "../compose.yml",
    "../docker-compose.amd.yml",
    "../docker-compose.rocm.yml",
    "../docker-compose.yaml",
    "../docker-compose.yml",
];

/// Checks for a user whom a compose file gives the GPU, but no group that can open it.
fn user(facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    let Some((line, user)) = last_user(facts).filter(|(_, user)| !super::folder::is_root(user))
    else {
        return;
    };
    if knows_group(facts.text) {
        return;
    }
    let mut places = facts.file.rsplit('/');
    let name = places.next().unwrap_or(facts.file);
    let folder = places.next().unwrap_or_default();
    let beside = files.compose_files(facts.file).into_iter().map(|text| (text, name.to_owned()));
    let above = ABOVE.iter().filter_map(|path| files.text(facts.file, path));
    let above = above.map(|text| (text, format!("{folder}/{name}")));
    for (text, path) in beside.chain(above) {
        let compose = Facts::read("compose.yml", &text);
        let is_own = |one: &&Container| {
            let own = one
                .options
                .iter()
                .find_map(|one| one.text.strip_prefix(containers::DOCKERFILE)?.strip_prefix('='));
            own.is_some_and(|own| own.trim_start_matches("./").replace("/./", "/") == path)
        };
        let service = compose
            .containers
            .iter()
            .filter(is_own)
            .find_map(|one| cannot_open(one).then_some(one.service.as_ref()?.text.clone()));
        if let Some(service) = service {
            let message = format!(
                "the service `{service}` gets the GPU, but `{user}` is in no group that can open it"
            );
            let hit = Hit::new("render-group-missing", line, message);
            return found.hit(hit.at_most(Severity::Information));
        }
    }
}
