//! Rules for health checks that do not ask the container itself.

use crate::Findings;
use crate::containers::is_local;
use crate::facts::Container;
use crate::shell::UNKNOWN;

/// The rule.
const OTHER: &str = "healthcheck-address";

/// Ways to write the address of the host, in lower case.
const HOST: [&str; 6] = [
    "${host_ip}",
    "$host_ip:",
    "${host_ip:",
    "${external_host_ip",
    "${server_ip",
    "host.docker.internal",
];

/// Checks the health check of a container, which runs inside it.
pub(super) fn of_container(container: &Container, found: &mut Findings<'_>) {
    let value = |start: &str| {
        container.options.iter().find_map(|one| Some((one.line, one.text.strip_prefix(start)?)))
    };
    let is_of_host = value("--network=").is_some_and(|(_, name)| name == "host");
    let Some((line, command)) = value("--health-cmd=").filter(|_| !is_of_host) else { return };
    let lower = command.to_ascii_lowercase();
    let is_host = HOST.iter().any(|name| lower.contains(&format!("://{name}")));
    if is_host {
        let message = "the health check runs in the container, but asks the address of the host";
        return found.add(OTHER, line, message);
    }
    let ports: Vec<(&str, &str)> = container
        .options
        .iter()
        .filter_map(|one| {
            let text = one.text.strip_prefix("--publish=")?;
            let (before, inside) = text.rsplit_once(':')?;
            let outside = before.rsplit(':').next().unwrap_or(before);
            Some((outside, inside.split('/').next().unwrap_or(inside)))
        })
        .collect();
    let asked = command.split([' ', '"', '\'', '/']).find_map(|word| {
        let (host, rest) = word.split_once(':').filter(|(host, _)| is_local(host))?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|port| !port.is_empty() && !host.is_empty())
    });
    let Some(port) = asked else { return };
    let is_inside = ports
        .iter()
        .any(|(_, inside)| *inside == port || inside.contains(['-', UNKNOWN]) || inside.is_empty());
    let inside = ports.iter().find(|(outside, _)| *outside == port).map(|(_, inside)| inside);
    // The command can name the port on which the server listens.
    let is_own = container.options.iter().any(|one| {
        one.text.starts_with("--env=") && one.text.ends_with(&format!("={port}"))
            || one.text == "--own-port"
    });
    if let Some(inside) = inside.filter(|_| !is_inside && !is_own) {
        let message = format!(
            "the health check runs in the container, where the server's port is {inside}, not {port}"
        );
        found.add(OTHER, line, message);
    }
}
