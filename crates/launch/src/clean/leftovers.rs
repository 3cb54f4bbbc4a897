//! Leftovers in engines. Checks every available engine, not only the one that builds use, unless
//! `BUILD_PIPELINE_HOST` specifies one.

use std::collections::BTreeSet;

use engine::{Address, Client, Engine, EngineError, Leftover, LeftoverKind, RunId, candidates};
use names::EngineKind;
use project::{environment, state};

use super::report::{CleanReport, Found, Kind, State, Unanswered};
use super::task::Task;
use crate::machine::chain;

/// Cleans all engines, one after another.
pub(crate) async fn clean(task: &Task, report: &mut CleanReport) {
    let mut seen = BTreeSet::new();
    let around = environment::engines().wanting(task.wanted);
    let is_told = around.own_host.is_some();
    // The engine whose program was started and has answered.
    let mut started = None;
    // Why the usual sockets do not lead to the engine that was requested.
    let mut silent = Vec::new();
    for candidate in candidates(&around).into_iter().take(if is_told { 1 } else { usize::MAX }) {
        let is_other = matches!((task.wanted, candidate.kind), (Some(a), Some(b)) if a != b);
        // A podman socket leads to the same store as the podman program.
        let is_again = !candidate.is_named && started.is_some() && candidate.kind == started;
        if is_other || is_again {
            continue;
        }
        let address = match candidate.address {
            Ok(address) => address,
            Err(reason) => {
                report.unanswered.push(Unanswered { engine: candidate.origin, reason });
                continue;
            }
        };
        if let Address::Socket(socket) = &address
            && let Err(error) = std::os::unix::net::UnixStream::connect(socket)
        {
            let reason = format!("`{}`: {error}", socket.display());
            // A default socket may not exist.
            if candidate.is_named {
                report.unanswered.push(Unanswered { engine: candidate.origin, reason });
            } else {
                // A socket without an engine: nobody requested this engine, but what an earlier
                // run left in it is still there.
                if error.kind() != std::io::ErrorKind::NotFound && task.wanted.is_none() {
                    let engine = candidate.origin.clone();
                    report.passed_over.push(Unanswered { engine, reason: reason.clone() });
                }
                silent.push(format!("{}: {reason}", candidate.origin));
            }
            continue;
        }
        match one(task, &address, &mut seen, report).await {
            Ok(false) => silent.push(format!("{}: another engine answers", candidate.origin)),
            Ok(true) => {
                if matches!(address, Address::PodmanProgram(_)) {
                    started = candidate.kind;
                }
                let origin = candidate.origin;
                report.engines.push(origin.strip_prefix("the ").unwrap_or(&origin).to_owned());
            }
            Err(error) => {
                let reason = chain(&error);
                report.unanswered.push(Unanswered { engine: candidate.origin, reason });
            }
        }
    }
    // The user named this engine, so it is not enough to clean the disk.
    if let Some(wanted) = task.wanted
        && report.engines.is_empty()
        && report.unanswered.is_empty()
    {
        let reason = match silent.as_slice() {
            [] => "it is not installed".to_owned(),
            silent => silent.join("; "),
        };
        report.unanswered.push(Unanswered { engine: wanted.to_string(), reason });
    }
}

/// Cleans the engine at an address. Returns `false`, and does nothing, if it is not the engine that
/// the caller wants.
async fn one(
    task: &Task,
    address: &Address,
    seen: &mut BTreeSet<String>,
    report: &mut CleanReport,
) -> Result<bool, EngineError> {
    let engine = match address {
        Address::PodmanProgram(program) => {
            let Some(settings) = task.service(program) else { return Ok(true) };
            Engine::podman(settings)
        }
        Address::Socket(socket) => {
            let kind = Client::kind_at(socket).await?;
            if task.wanted.is_some_and(|wanted| wanted != kind) {
                return Ok(false);
            }
            Engine::at(kind, socket.clone(), None)
        }
    };
    let done = each(task, &engine, seen, report).await;
    engine.stop().await;
    done.map(|()| true)
}

/// Removes the leftovers of an engine, run by run. `seen` contains the IDs that another connection
/// to the same engine has found.
async fn each(
    task: &Task,
    engine: &Engine,
    seen: &mut BTreeSet<String>,
    report: &mut CleanReport,
) -> Result<(), EngineError> {
    let mut left = engine.leftovers(None).await?;
    left.retain(|one| seen.insert(one.id.clone()));
    let ports: BTreeSet<u16> = left.iter().flat_map(|one| one.ports.clone()).collect();
    let runs: BTreeSet<Option<RunId>> = left.iter().map(|one| one.run.clone()).collect();
    // Leftovers without a run go last: a run's images may be based on them.
    for run in runs.into_iter().rev() {
        let left = left.iter().filter(|one| one.run == run);
        let (mut state, mut reason) = (State::Found, None);
        let mut remaining = Vec::new();
        let is_used = match &run {
            Some(run) => is_under_way(run),
            None => task.is_busy || ports.iter().any(|port| is_open(*port)),
        };
        if is_used {
            state = State::UnderWay;
        } else if !task.is_dry {
            state = State::Removed;
            let cleaned = match &run {
                Some(run) => engine.clean(run).await,
                None => engine.clean_bases().await,
            };
            if let Err(error) = cleaned {
                reason = Some(chain(&error));
                remaining = engine.leftovers(None).await?;
            }
        }
        for one in left {
            let is_kept = remaining.iter().any(|kept| kept.id == one.id);
            let state = if is_kept { State::Kept } else { state };
            let reason = reason.clone().filter(|_| is_kept);
            report.found.push(found(engine.kind(), one, state, reason));
        }
    }
    // Two sockets may lead to the same engine.
    report.build_cache = report.build_cache.max(engine.build_cache().await?);
    Ok(())
}

fn found(engine: EngineKind, one: &Leftover, state: State, reason: Option<String>) -> Found {
    let kind = match one.kind {
        LeftoverKind::Container => Kind::Container,
        LeftoverKind::BuildContainer => Kind::BuildContainer,
        LeftoverKind::Image => Kind::Image,
    };
    let hex = one.id.strip_prefix("sha256:").unwrap_or(&one.id);
    Found {
        kind,
        engine: Some(engine.to_string()),
        name: hex.get(..12).unwrap_or(hex).to_owned(),
        run: one.run.as_ref().map(|run| run.as_str().to_owned()),
        bytes: one.bytes,
        state,
        reason,
    }
}

/// Returns whether the process whose ID is part of the run's name is still running. If another
/// program now has that process ID, the leftovers remain until it ends.
fn is_under_way(run: &RunId) -> bool {
    let name = ["run-", "probe-"].iter().find_map(|kind| run.as_str().strip_prefix(kind));
    let name = name.unwrap_or_default();
    let number = name.split('-').next().and_then(|number| number.parse().ok());
    number.is_some_and(state::is_process)
}

/// Returns whether a port of this machine is open. A run's port belongs to the registry that serves
/// its bases. This check works even if another user has the run's records.
fn is_open(port: u16) -> bool {
    std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_living_process_builds_or_probes_is_under_way() {
        let own = std::process::id();
        // Larger than any process ID.
        let gone = i32::MAX;
        for (name, expected) in [
            (format!("run-{own}-0a"), true),
            (format!("probe-{own}-0-0a1b2c"), true),
            (format!("run-{gone}-0a"), false),
            (format!("probe-{gone}-0-0a1b2c"), false),
            (format!("other-{own}"), false),
        ] {
            assert_eq!(is_under_way(&RunId::parse(&name).unwrap()), expected, "{name}");
        }
    }
}
