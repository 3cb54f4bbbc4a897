//! Decides which sockets to try, and in which order, following the conventions of podman and
//! docker.
//!
//! This module is pure: the caller provides variables and file contents, and tries the candidates.
//!
//! The order is: the command line; `BUILD_PIPELINE_HOST`; `CONTAINER_HOST`; podman's connection
//! (`CONTAINER_CONNECTION`, else the default); `DOCKER_HOST`; docker's context; the podman program;
//! the well-known sockets, podman's first. The program comes before podman's own socket because
//! this tool can stop a `RUN` in a service that it started, but not in a service that others use.
//!
//! If an engine was requested, candidates for the other one are skipped. The first remaining
//! candidate that was *named* wins even if nothing answers there: it is better to fail than to
//! build on an engine that was not requested. (podman-system-connection(1), docker's "Docker
//! contexts", podman-system-service(1).) A candidate that was not named is skipped if nothing is
//! there, or if its engine reports that it cannot work. If it is unclear whether an engine works,
//! the search fails, because the next engine has other images and would be chosen only by chance.

use std::path::PathBuf;

use names::EngineKind;
use serde_json::Value;

/// The input of discovery. Empty values count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The engine that the command line requests.
    pub wanted: Option<EngineKind>,
    /// `BUILD_PIPELINE_HOST`.
    pub own_host: Option<String>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// `CONTAINER_CONNECTION`.
    pub container_connection: Option<String>,
    /// The content of `podman-connections.json`.
    pub podman_connections: Option<String>,
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<String>,
    /// The content of docker's `config.json`.
    pub docker_config: Option<String>,
    /// The contents of the `meta.json` files in docker's `contexts/meta`.
    pub docker_contexts: Vec<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The podman program, if it is installed. It works without a socket.
    pub podman_program: Option<PathBuf>,
}

impl Surroundings {
    /// Returns the surroundings of a search for one engine, or for any.
    pub fn wanting(self, wanted: Option<EngineKind>) -> Self {
        if wanted != Some(EngineKind::Podman) {
            return Self { wanted, ..self };
        }
        // Docker's settings may point to podman, but only podman's own settings do so reliably.
        Self { wanted, docker_host: None, docker_context: None, docker_config: None, ..self }
    }
}

/// How to reach an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Socket(PathBuf),
    /// A podman service that this tool starts.
    PodmanProgram(PathBuf),
}

/// A possible location of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its origin, such as `CONTAINER_HOST`, for `doctor` and for errors.
    pub origin: String,
    /// The engine that is expected there. [`crate::Client::kind_at`] determines which one really
    /// answers.
    pub kind: Option<EngineKind>,
    /// How to reach it, or why it cannot be used.
    pub address: Result<Address, String>,
    /// Whether the user named it. If such a candidate is tried, nothing after it is.
    pub is_named: bool,
}

impl Candidate {
    /// Returns the command that makes the search use other candidates, if the user named this one.
    pub fn release(&self) -> Option<String> {
        match self.origin.as_str() {
            _ if !self.is_named => None,
            origin if origin.starts_with('`') => {
                Some(format!("unset {}", origin.split('`').nth(1)?))
            }
            origin if origin.starts_with("docker") => Some("docker context use default".to_owned()),
            _ => Some("podman system connection default NAME".to_owned()),
        }
    }
}

/// A candidate that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The candidate.
    pub candidate: Candidate,
    /// The reason.
    pub reason: String,
    /// Whether there is an engine that does not work. The user should know about it.
    pub is_broken: bool,
}

/// The candidate to use, and the result of trying it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T> {
    /// The candidate.
    pub candidate: Candidate,
    /// The result of trying it.
    pub found: T,
}

/// The chosen engine, and the candidates that were skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery<T> {
    /// The candidate to use.
    pub chosen: Option<Chosen<T>>,
    /// The candidates before it, in order. If none was chosen: all candidates up to the named one
    /// that was tried, or simply all.
    pub passed_over: Vec<PassedOver>,
}

/// Why a candidate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble<E> {
    /// There is nothing there.
    Absent(String),
    /// An engine reports that it cannot do what is needed.
    Broken(String),
    /// An engine is there, but it is unclear whether it works. This ends the search, because using
    /// another engine would be a guess.
    Failed(E),
}

/// Returns all candidates in order.
pub fn candidates(around: &Surroundings) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut name = |origin: &str, kind, host: Option<&str>| {
        if let Some(host) = host.filter(|host| !host.trim().is_empty()) {
            let origin = origin.to_owned();
            found.push(Candidate { origin, kind, address: socket_of(host), is_named: true });
        }
    };
    name("`BUILD_PIPELINE_HOST`", around.wanted, around.own_host.as_deref());
    let podman = Some(EngineKind::Podman);
    let docker = Some(EngineKind::Docker);
    name("`CONTAINER_HOST`", podman, around.container_host.as_deref());
    found.extend(podman_connection(around));
    // `DOCKER_HOST` often points at podman's socket, so it does not identify the engine.
    let host = around.docker_host.as_deref().filter(|host| !host.trim().is_empty());
    if let Some(host) = host {
        let origin = "`DOCKER_HOST`".to_owned();
        found.push(Candidate { origin, kind: None, address: socket_of(host), is_named: true });
    }
    found.extend(docker_context(around));
    let known = |origin: &str, kind, address| Candidate {
        origin: origin.to_owned(),
        kind,
        address: Ok(address),
        is_named: false,
    };
    if let Some(program) = &around.podman_program {
        let program = Address::PodmanProgram(program.clone());
        found.push(known("the podman program", podman, program));
    }
    if let Some(folder) = &around.runtime_dir {
        let socket = Address::Socket(folder.join("podman/podman.sock"));
        found.push(known("the user's podman socket", podman, socket));
    }
    let socket_at = |path: &str| Address::Socket(PathBuf::from(path));
    found.push(known("the system's podman socket", podman, socket_at("/run/podman/podman.sock")));
    if let Some(folder) = &around.runtime_dir {
        let socket = Address::Socket(folder.join("docker.sock"));
        found.push(known("the user's docker socket", docker, socket));
    }
    found.push(known("the system's docker socket", docker, socket_at("/var/run/docker.sock")));
    found
}

/// Chooses the first usable candidate. Calls `attempt` for each candidate in order, until one is
/// chosen or one that the user named cannot be used.
///
/// # Errors
/// Returns the first [`Trouble::Failed`] of `attempt`.
pub async fn discover<T, E>(
    around: &Surroundings,
    mut attempt: impl AsyncFnMut(&Candidate, &Address) -> Result<T, Trouble<E>>,
) -> Result<Discovery<T>, E> {
    let mut passed_over = Vec::new();
    for candidate in candidates(around) {
        let other =
            around.wanted.filter(|wanted| candidate.kind.is_some_and(|kind| kind != *wanted));
        if let Some(wanted) = other {
            let reason = format!("{wanted} was requested");
            passed_over.push(PassedOver { candidate, reason, is_broken: false });
            continue;
        }
        let attempted = match &candidate.address {
            Ok(address) => attempt(&candidate, address).await,
            Err(reason) => Err(Trouble::Absent(reason.clone())),
        };
        let (reason, is_broken) = match attempted {
            Ok(found) => {
                let chosen = Some(Chosen { candidate, found });
                return Ok(Discovery { chosen, passed_over });
            }
            Err(Trouble::Absent(reason)) => (reason, false),
            Err(Trouble::Broken(reason)) => (reason, true),
            Err(Trouble::Failed(error)) => return Err(error),
        };
        let is_last = candidate.is_named;
        passed_over.push(PassedOver { candidate, reason, is_broken });
        if is_last {
            break;
        }
    }
    Ok(Discovery { chosen: None, passed_over })
}

/// Parses an address. Only sockets on this machine are supported.
fn socket_of(host: &str) -> Result<Address, String> {
    let host = host.trim();
    let path = match host.split_once("://") {
        Some(("unix", path)) => path,
        Some((scheme, _)) => {
            return Err(format!(
                "`{scheme}://` refers to another machine, but only local Unix sockets are \
                 supported; forward the remote socket: `ssh -L /path/local.sock:/path/remote.sock \
                 host`"
            ));
        }
        None => host.strip_prefix("unix:").unwrap_or(host),
    };
    if !path.starts_with('/') {
        return Err(format!("`{host}` is not the full path of a socket; write `unix:///…`"));
    }
    Ok(Address::Socket(PathBuf::from(path)))
}

/// Returns podman's connection: the one that `CONTAINER_CONNECTION` names, or the default in
/// podman's configuration.
fn podman_connection(around: &Surroundings) -> Option<Candidate> {
    let asked = around.container_connection.as_deref().filter(|name| !name.is_empty());
    let file: Option<Value> =
        around.podman_connections.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let connection = file.as_ref().and_then(|file| file.get("Connection"));
    let default =
        connection.and_then(|part| part.get("Default")).and_then(Value::as_str).unwrap_or_default();
    let name = asked.unwrap_or(default);
    if name.is_empty() {
        return None;
    }
    let uri = connection
        .and_then(|part| part.get("Connections")?.get(name)?.get("URI"))
        .and_then(Value::as_str);
    let origin = match asked {
        Some(_) => format!("`CONTAINER_CONNECTION` (`{name}`)"),
        None => format!("podman's default connection (`{name}`)"),
    };
    let address = match uri {
        Some(uri) => socket_of(uri),
        None => {
            Err(format!("podman has no connection `{name}`; see `podman system connection ls`"))
        }
    };
    Some(Candidate { origin, kind: Some(EngineKind::Podman), address, is_named: true })
}

/// Returns docker's context: the one that `DOCKER_CONTEXT` names, or the current one in docker's
/// configuration.
fn docker_context(around: &Surroundings) -> Option<Candidate> {
    let asked = around.docker_context.as_deref().filter(|name| !name.is_empty());
    let config: Option<Value> =
        around.docker_config.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let current = config.as_ref().and_then(|config| config.get("currentContext")?.as_str());
    let name = asked.or(current).filter(|name| !name.is_empty() && *name != "default")?;
    let host = around.docker_contexts.iter().find_map(|text| {
        let meta: Value = serde_json::from_str(text).ok()?;
        let is_it = meta.get("Name")?.as_str()? == name;
        let host = meta.pointer("/Endpoints/docker/Host")?.as_str()?;
        is_it.then(|| host.to_owned())
    });
    let origin = match asked {
        Some(_) => format!("`DOCKER_CONTEXT` (`{name}`)"),
        None => format!("docker's current context (`{name}`)"),
    };
    let address = match host {
        Some(host) => socket_of(&host),
        None => Err(format!("docker has no context `{name}`; see `docker context ls`")),
    };
    Some(Candidate { origin, kind: None, address, is_named: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTIONS: &str = r#"{"Connection":{"Default":"lab","Connections":{
        "lab":{"URI":"unix:///run/lab.sock"},"far":{"URI":"ssh://me@far:22/run/p.sock"}}}}"#;
    const CONTEXT: &str =
        r#"{"Name":"desk","Endpoints":{"docker":{"Host":"unix:///run/desk.sock"}}}"#;

    /// Returns surroundings in which everything is named.
    fn all() -> Surroundings {
        let text = |text: &str| Some(text.to_owned());
        Surroundings {
            wanted: None,
            own_host: text("/run/own.sock"),
            container_host: text("unix:///run/container.sock"),
            container_connection: None,
            podman_connections: text(CONNECTIONS),
            docker_host: text("unix:///run/docker-host.sock"),
            docker_context: None,
            docker_config: text(r#"{"currentContext":"desk"}"#),
            docker_contexts: vec![CONTEXT.to_owned()],
            runtime_dir: Some("/run/user/1000".into()),
            podman_program: Some("/usr/bin/podman".into()),
        }
    }

    fn shown(candidate: &Candidate) -> String {
        let address = match &candidate.address {
            Ok(Address::Socket(path)) => path.display().to_string(),
            Ok(Address::PodmanProgram(path)) => format!("start {}", path.display()),
            Err(reason) => format!("! {reason}"),
        };
        let kind = candidate.kind.map_or_else(|| "any".to_owned(), |kind| kind.to_string());
        let named = if candidate.is_named { "named" } else { "known" };
        format!("{named} {kind} {}: {address}", candidate.origin)
    }

    #[test]
    fn the_order_is_that_of_the_conventions() {
        let order: Vec<String> = candidates(&all()).iter().map(shown).collect();
        insta::assert_snapshot!(order.join("\n"));
    }

    /// Runs discovery with an attempt that returns the number of its call, or fails as `trouble`
    /// specifies.
    async fn found(
        around: &Surroundings,
        trouble: impl Fn(&Address) -> Option<Trouble<&'static str>>,
    ) -> Result<Discovery<usize>, &'static str> {
        let mut calls = 0;
        discover(around, async |_, address| {
            calls += 1;
            trouble(address).map_or(Ok(calls), Err)
        })
        .await
    }

    fn origins<T>(found: &Discovery<T>) -> Vec<&str> {
        found.passed_over.iter().map(|one| one.candidate.origin.as_str()).collect()
    }

    #[tokio::test]
    async fn what_the_user_named_is_taken_or_nothing() {
        let around = Surroundings {
            container_host: Some("unix:///run/container.sock".to_owned()),
            ..Surroundings::default()
        };
        for (trouble, is_broken) in [
            (Trouble::Absent("nothing answers".to_owned()), false),
            (Trouble::Broken("no containers".to_owned()), true),
        ] {
            let found = found(&around, |_| Some(trouble.clone())).await.unwrap();
            assert_eq!(found.chosen, None);
            assert_eq!(origins(&found), ["`CONTAINER_HOST`"], "nothing else is tried");
            assert_eq!(found.passed_over[0].is_broken, is_broken);
        }
    }

    #[tokio::test]
    async fn the_wanted_engine_skips_the_other() {
        let around = Surroundings { wanted: Some(EngineKind::Docker), ..all() };
        let around = Surroundings { own_host: None, ..around };
        let found = found(&around, |_| None).await.unwrap();
        assert_eq!(found.chosen.as_ref().unwrap().candidate.origin, "`DOCKER_HOST`");
        assert_eq!(found.chosen.as_ref().unwrap().found, 1, "podman is not tried");
        assert!(found.passed_over.iter().all(|one| one.reason == "docker was requested"));
    }

    #[tokio::test]
    async fn without_any_name_podman_comes_first() {
        let around = Surroundings {
            podman_program: Some("/usr/bin/podman".into()),
            ..Surroundings::default()
        };
        let first = found(&around, |_| None).await.unwrap();
        assert_eq!(first.chosen.unwrap().candidate.origin, "the podman program");
        let absent = |_: &Address| Some(Trouble::Absent("there is none".to_owned()));
        let nothing = found(&Surroundings::default(), absent).await.unwrap();
        assert_eq!((nothing.chosen, nothing.passed_over.len()), (None, 2));
    }

    /// A broken engine that was not requested is skipped, and its reason is kept. If it is unclear
    /// whether an engine works, the search ends.
    #[tokio::test]
    async fn a_broken_engine_is_passed_over_and_an_unknown_one_ends_the_search() {
        let around = Surroundings {
            podman_program: Some("/usr/bin/podman".into()),
            ..Surroundings::default()
        };
        let broken = |address: &Address| match address {
            Address::PodmanProgram(_) => Some(Trouble::Broken("no runtime works".to_owned())),
            Address::Socket(_) => None,
        };
        let next = found(&around, broken).await.unwrap();
        assert_eq!(next.chosen.as_ref().unwrap().candidate.origin, "the system's podman socket");
        assert_eq!(origins(&next), ["the podman program"]);
        assert!(next.passed_over[0].is_broken);
        assert_eq!(next.passed_over[0].reason, "no runtime works");
        let lost = |_: &Address| Some(Trouble::Failed("the connection was reset"));
        assert_eq!(found(&around, lost).await, Err("the connection was reset"));
    }

    #[test]
    fn names_that_lead_nowhere_say_so() {
        let reason = |around: &Surroundings| candidates(around)[0].address.clone().unwrap_err();
        let text = |text: &str| Some(text.to_owned());
        let empty = Surroundings::default();
        let far = Surroundings {
            container_connection: text("far"),
            podman_connections: text(CONNECTIONS),
            ..empty.clone()
        };
        assert!(reason(&far).contains("ssh -L"));
        let unknown = Surroundings { container_connection: text("x"), ..empty.clone() };
        assert!(reason(&unknown).contains("podman system connection ls"));
        let unknown = Surroundings { docker_context: text("x"), ..empty.clone() };
        assert!(reason(&unknown).contains("docker context ls"));
        let relative = Surroundings { own_host: text("podman.sock"), ..empty.clone() };
        assert!(reason(&relative).contains("unix:///"));
        let default = Surroundings { docker_context: text("default"), ..empty.clone() };
        assert_eq!(candidates(&default), candidates(&empty));
    }
}
