//! What runs of ours left behind in an engine, and its removal. Nothing else is touched.
//!
//! Containers and images of ours carry a label each. An image that somebody uses stays. podman's build containers have none while they
//! run; they are ours if their own record names our build argument. Where that record cannot be
//! read, because the engine is on another machine, they are left alone.

use std::collections::HashMap;
use std::path::Path;

use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use hyper::Method;
use names::EngineKind;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::build::{CONTAINER_LABEL, RUN_ARGUMENT, RunId};
use crate::client::{Client, LIBPOD, get, label_filter};
use crate::error::EngineError;
use crate::image::ImageId;
use crate::wire::{Call, LONG, SHORT};

/// Something of a run in an engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// What it is.
    pub kind: LeftoverKind,
    /// Its ID.
    pub id: String,
    /// The run it is of.
    pub run: RunId,
    /// How many bytes it takes, where the engine says so. Images count what they share.
    pub bytes: Option<u64>,
}

/// What a leftover is, in the order of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// A container.
    Container,
    /// A container in which podman builds or built.
    BuildContainer,
    /// An image.
    Image,
}

/// Lists what is left of a run, or of all runs, those that are under way included.
pub(crate) async fn leftovers(
    client: &Client,
    run: Option<&RunId>,
) -> Result<Vec<Leftover>, EngineError> {
    let action = "list the containers of ours";
    let filters = HashMap::from([("label".to_owned(), vec![label_filter(CONTAINER_LABEL, run)])]);
    let options =
        ListContainersOptionsBuilder::new().all(true).size(true).filters(&filters).build();
    let listed = client.docker().list_containers(Some(options)).await;
    let listed = listed.map_err(|error| client.wire().judge_bollard(action, error))?;
    let mut found: Vec<Leftover> = listed
        .into_iter()
        .filter_map(|container| {
            let run = RunId::parse(container.labels?.get(CONTAINER_LABEL)?)?;
            let bytes = container.size_rw.and_then(|bytes| bytes.try_into().ok());
            Some(Leftover { kind: LeftoverKind::Container, id: container.id?, run, bytes })
        })
        .collect();
    if client.kind() == EngineKind::Podman {
        found.extend(build_containers(client, run).await?);
    }
    let images = client.images_of(run).await?;
    let image = |(id, run, bytes): (ImageId, RunId, Option<u64>)| Leftover {
        kind: LeftoverKind::Image,
        id: id.as_str().to_owned(),
        run,
        bytes,
    };
    found.extend(images.into_iter().map(image));
    found.sort();
    Ok(found)
}

/// Removes everything of a run, and returns what it was.
pub(crate) async fn clean(client: &Client, run: &RunId) -> Result<Vec<Leftover>, EngineError> {
    let found = leftovers(client, Some(run)).await?;
    let mut left: Vec<&Leftover> = found.iter().collect();
    // An image goes after those that stand on it, and the engine knows which these are.
    loop {
        let mut refused = Vec::new();
        let mut why = None;
        for leftover in &left {
            match remove(client, leftover).await {
                Ok(()) => {}
                Err(error @ EngineError::Refused { .. }) => {
                    refused.push(*leftover);
                    why.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match why {
            None => return Ok(found),
            Some(error) if refused.len() == left.len() => return Err(error),
            Some(_) => left = refused,
        }
    }
}

async fn remove(client: &Client, leftover: &Leftover) -> Result<(), EngineError> {
    let id = leftover.id.as_str();
    match leftover.kind {
        LeftoverKind::Container => remove_container(client, id).await,
        LeftoverKind::BuildContainer => remove_build_container(client, id).await,
        // By force, podman would remove containers of it too, whoever's they are.
        LeftoverKind::Image => client.remove_image(id, false).await,
    }
}

/// Removes a container, a running one too. One that is not there is no error.
pub(crate) async fn remove_container(client: &Client, id: &str) -> Result<(), EngineError> {
    let action = format!("remove the container `{id}`");
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let docker = client.docker().clone().with_timeout(LONG);
    match docker.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) => match client.wire().judge_bollard(&action, error) {
            EngineError::NotFound { .. } => Ok(()),
            error => Err(error),
        },
    }
}

/// Lists the containers in which podman builds for us. They are of buildah, so podman calls them
/// external; the compatible API does not show them.
async fn build_containers(
    client: &Client,
    run: Option<&RunId>,
) -> Result<Vec<Leftover>, EngineError> {
    let path = format!("{LIBPOD}/containers/json?all=true&external=true&size=true");
    let listed = client.wire().ask(&get("list the build containers", path), SHORT).await?;
    let is_external = |container: &&Value| container["State"] == "storage";
    let external: Vec<&Value> =
        listed.as_array().into_iter().flatten().filter(is_external).collect();
    if external.is_empty() {
        return Ok(Vec::new());
    }
    let info = client.info().await?;
    let records = info.storage_root.join(format!("{}-containers", info.storage_driver));
    let found = external.into_iter().filter_map(|container| {
        let id = container["Id"].as_str()?;
        let found = run_of(&records, id)?;
        let is_wanted = run.is_none_or(|run| *run == found);
        let kind = LeftoverKind::BuildContainer;
        let bytes = container["Size"]["rwSize"].as_u64();
        is_wanted.then(|| Leftover { kind, id: id.to_owned(), run: found, bytes })
    });
    Ok(found.collect())
}

/// Returns the run a build container is of, by buildah's record of it.
fn run_of(records: &Path, id: &str) -> Option<RunId> {
    // An ID is hexadecimal; anything else must not become a path.
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let text = std::fs::read(records.join(id).join("userdata/buildah.json")).ok()?;
    let record: Value = serde_json::from_slice(&text).ok()?;
    RunId::parse(record.get("Args")?.get(RUN_ARGUMENT)?.as_str()?)
}

/// Ends the `RUN` that goes on in a build container whose service was killed, then removes it.
async fn remove_build_container(client: &Client, id: &str) -> Result<(), EngineError> {
    let info = client.info().await?;
    let driver = &info.storage_driver;
    let containers = info.storage_root.join(format!("{driver}-containers/containers.json"));
    if let Some(layer) = layer_of(&containers, id) {
        end_processes_on(&info.storage_root.join(driver).join(layer).join("diff"));
    }
    let action = format!("remove the build container `{id}`");
    let path = format!("{LIBPOD}/containers/{id}?force=true");
    let call = Call { action: &action, method: Method::DELETE, path };
    match client.wire().ask(&call, LONG).await {
        Ok(_) | Err(EngineError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the layer a container writes to, by the record of containers/storage.
fn layer_of(containers: &Path, id: &str) -> Option<String> {
    let text = std::fs::read(containers).ok()?;
    let list: Value = serde_json::from_slice(&text).ok()?;
    let container = list.as_array()?.iter().find(|container| container["id"] == id)?;
    container.get("layer")?.as_str().map(str::to_owned)
}

/// Kills the processes whose root writes to a folder. No other container has that folder, so
/// they are of this one.
fn end_processes_on(upper: &Path) {
    let upper = format!("upperdir={}", upper.display());
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    for entry in entries.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let mounts = std::fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        let is_root = |line: &str| {
            line.contains(" / / ") && line.split([' ', ',']).any(|option| option == upper)
        };
        if mounts.lines().any(is_root)
            && let Some(pid) = Pid::from_raw(number)
            && let Err(error) = rustix::process::kill_process(pid, Signal::KILL)
        {
            tracing::debug!(%error, number, "a process of a build container is gone already");
        }
    }
}
