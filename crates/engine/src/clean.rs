//! Lists and removes what this tool's runs left behind in an engine. It touches nothing else.
//!
//! Containers and images of this tool have a label. Images that are in use are kept, and so are
//! images that someone has named. Images built on this tool's bases carry the label of the base,
//! and may serve several runs. podman's build containers have no label while they run; they belong
//! to this tool if buildah's record of them contains this tool's build argument. If that record
//! cannot be read because the engine is on another machine, they are kept.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bollard::models::{ContainerSummary, ImageSummary};
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use bytes::Bytes;
use hyper::Method;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::build::{
    ADOPTED_LABEL, BASE_LABEL, CONTAINER_LABEL, NAMESPACE, RUN_ARGUMENT, RUN_LABEL, RunId,
};
use crate::client::{Client, EngineInfo, get, label_filter};
use crate::error::EngineError;
use crate::image::ImageId;
use crate::podman::LIBPOD;
use crate::unfinished;
use crate::wire::{Call, LONG, SHORT};

/// Something that a run left in an engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Its kind.
    pub kind: LeftoverKind,
    /// Its ID.
    pub id: String,
    /// The run that it belongs to. `None` for a base and for the steps built on it, which may serve
    /// several runs.
    pub run: Option<RunId>,
    /// The ports of the loopback registries in its names. Each port belongs to a run, and is open
    /// as long as that run is alive.
    pub ports: Vec<u16>,
    /// Its size in bytes, if the engine reports it. For images, this includes shared layers.
    pub bytes: Option<u64>,
}

/// The kind of a leftover, in the order of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// A container.
    Container,
    /// A container that podman or docker's classic builder uses or used for a step.
    BuildContainer,
    /// An image.
    Image,
}

/// Lists what one run or all runs have left, including runs that are still active. First removes
/// images that a killed podman did not finish, because while they exist, podman may not be able to
/// list anything.
pub(crate) async fn leftovers(
    client: &Client,
    run: Option<&RunId>,
) -> Result<Vec<Leftover>, EngineError> {
    remove_unfinished(client).await?;
    let listed = containers_with(client, label_filter(CONTAINER_LABEL, run)).await?;
    let mut found: Vec<Leftover> = listed
        .into_iter()
        .filter_map(|container| {
            let owner = RunId::parse(container.labels?.get(CONTAINER_LABEL)?)?;
            let bytes = container.size_rw.and_then(|bytes| bytes.try_into().ok());
            let (kind, id) = (LeftoverKind::Container, container.id?);
            Some(Leftover { kind, id, run: Some(owner), ports: Vec::new(), bytes })
        })
        .collect();
    if client.dialect().uses_buildah() {
        found.extend(build_containers(client, run).await?);
    }
    found.extend(client.images_with(&label_filter(RUN_LABEL, run)).await?.iter().filter_map(image));
    if run.is_none() {
        found.extend(bases(client).await?);
    }
    found.sort();
    found.dedup_by(|one, other| one.id == other.id);
    Ok(found)
}

/// Lists the containers with a label, including stopped ones, with their sizes if the engine can
/// report them.
async fn containers_with(
    client: &Client,
    label: String,
) -> Result<Vec<ContainerSummary>, EngineError> {
    let action = "list this tool's containers";
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let options = |with_sizes| {
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters);
        Some(options.size(with_sizes).build())
    };
    // docker 26 with the containerd image store refuses to list sizes while a container lacks its
    // layer.
    let listed = match client.docker().list_containers(options(true)).await {
        Err(bollard::errors::Error::DockerResponseServerError { .. }) => {
            client.docker().list_containers(options(false)).await
        }
        listed => listed,
    };
    listed.map_err(|error| client.judge(action, error))
}

/// Lists this tool's bases, and the images and build containers based on them, except those that
/// belong to a known run. Leaves out images that [`is_adopted_lately`] protects.
async fn bases(client: &Client) -> Result<Vec<Leftover>, EngineError> {
    let listed = client.images_with(BASE_LABEL).await?;
    let listed = listed.iter().filter(|image| !is_adopted_lately(image));
    let mut found: Vec<Leftover> =
        listed.filter_map(image).filter(|image| image.run.is_none()).collect();
    if client.dialect().uses_buildah() {
        let containers = build_containers(client, None).await?.into_iter();
        found.extend(containers.filter(|container| container.run.is_none()));
    } else {
        found.extend(step_containers(client, &found).await?);
    }
    found.sort();
    Ok(found)
}

/// Lists the containers of steps that a killed docker left behind. Each has the label of a base,
/// uses an image from `images`, none of which has a user's tag, and has the log driver that
/// docker's classic builder gives to its containers (`hostConfigFromOptions` in moby's
/// `builder/dockerfile/internals.go`).
async fn step_containers(
    client: &Client,
    images: &[Leftover],
) -> Result<Vec<Leftover>, EngineError> {
    let mut found = Vec::new();
    for container in containers_with(client, BASE_LABEL.to_owned()).await? {
        let (Some(id), Some(image)) = (container.id, container.image_id) else { continue };
        if !images.iter().any(|one| one.id == image) || !has_no_log(client, &id).await? {
            continue;
        }
        let bytes = container.size_rw.and_then(|bytes| bytes.try_into().ok());
        let kind = LeftoverKind::BuildContainer;
        found.push(Leftover { kind, id, run: None, ports: Vec::new(), bytes });
    }
    Ok(found)
}

/// Returns whether docker keeps no log of a container. `false` if there is no such container.
async fn has_no_log(client: &Client, id: &str) -> Result<bool, EngineError> {
    let action = format!("inspect the container `{id}`");
    match client.docker().inspect_container(id, None).await {
        Ok(container) => {
            let config = container.host_config.and_then(|config| config.log_config);
            Ok(config.and_then(|config| config.typ).as_deref() == Some("none"))
        }
        Err(error) => match client.judge(&action, error) {
            EngineError::NotFound { .. } => Ok(false),
            error => Err(error),
        },
    }
}

/// Returns an image of this tool as a leftover, or `None` if someone has named it.
fn image(image: &ImageSummary) -> Option<Leftover> {
    let is_nameless = |tag: &String| tag.starts_with("<none>");
    let mut tags = image.repo_tags.iter().filter(|tag| !is_nameless(tag));
    let is_ours = |tag: &String| {
        loopback_port(tag).is_some() || tag.starts_with(LOCAL) || is_name_of_buildah(tag)
    };
    if !tags.all(is_ours) {
        return None;
    }
    let run = image.labels.get(RUN_LABEL).and_then(|run| RunId::parse(run));
    let names = image.repo_tags.iter().chain(&image.repo_digests);
    Some(Leftover {
        kind: LeftoverKind::Image,
        id: ImageId::parse(&image.id)?.as_str().to_owned(),
        run,
        ports: names.filter_map(|name| loopback_port(name)).collect(),
        bytes: image.size.try_into().ok(),
    })
}

/// The name prefix of images that were kept for debugging.
const LOCAL: &str = "localhost/build-pipeline/failed:";

/// Returns the port of the loopback registry in a name, if it is one of this tool's registries.
fn loopback_port(name: &str) -> Option<u16> {
    let (port, path) = name.strip_prefix("127.0.0.1:")?.split_once('/')?;
    path.strip_prefix(NAMESPACE)?.strip_prefix('/')?;
    port.parse().ok()
}

/// Returns whether buildah assigned this name to the image of an unfinished step (`nameToRemove` in
/// buildah's `commit.go`). The name remains if podman is killed before it removes the name.
fn is_name_of_buildah(name: &str) -> bool {
    let name = name.strip_prefix("docker.io/library/").unwrap_or_default();
    let digits = name.strip_suffix("-tmp:latest").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Removes everything that belongs to a run, and returns what was removed.
pub(crate) async fn clean(client: &Client, run: &RunId) -> Result<Vec<Leftover>, EngineError> {
    adopt_stray_layers(client).await?;
    remove_all(client, async || leftovers(client, Some(run)).await).await
}

/// Removes everything that [`bases`] lists, and returns what was removed.
pub(crate) async fn clean_bases(client: &Client) -> Result<Vec<Leftover>, EngineError> {
    adopt_stray_layers(client).await?;
    let list = async || {
        remove_unfinished(client).await?;
        bases(client).await
    };
    remove_all(client, list).await
}

/// Removes everything in a list, and returns what was removed. Lists again while the engine refuses
/// to remove something, because a container that uses it may have appeared since.
async fn remove_all(
    client: &Client,
    list: impl AsyncFn() -> Result<Vec<Leftover>, EngineError>,
) -> Result<Vec<Leftover>, EngineError> {
    let begin = Instant::now();
    let mut removed = Vec::new();
    loop {
        let (gone, refusal) = remove_what_goes(client, list().await?).await?;
        removed.extend(gone);
        match refusal {
            None => {
                removed.sort();
                removed.dedup();
                return Ok(removed);
            }
            Some(refusal) if begin.elapsed() > client.dialect().settling() => return Err(refusal),
            Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Removes as much as the engine allows. Returns what was removed, and the first refusal if
/// something is left.
async fn remove_what_goes(
    client: &Client,
    mut left: Vec<Leftover>,
) -> Result<(Vec<Leftover>, Option<EngineError>), EngineError> {
    let mut gone = Vec::new();
    // An image can be removed only after all images that were built on it, and only the engine
    // knows which these are.
    loop {
        let before = left.len();
        let mut refused = Vec::new();
        let mut refusal = None;
        for leftover in left {
            match remove(client, &leftover).await {
                Ok(true) => gone.push(leftover),
                Ok(false) => {}
                Err(error @ EngineError::Refused { .. }) => {
                    refused.push(leftover);
                    refusal.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if refusal.is_none() || refused.len() == before {
            return Ok((gone, refusal));
        }
        left = refused;
    }
}

/// Removes a leftover. Returns `false` if it is not one any longer, and stays.
async fn remove(client: &Client, leftover: &Leftover) -> Result<bool, EngineError> {
    let id = leftover.id.as_str();
    match leftover.kind {
        LeftoverKind::Image => return remove_image(client, leftover).await,
        LeftoverKind::BuildContainer if client.dialect().uses_buildah() => {
            remove_build_container(client, id).await?;
        }
        LeftoverKind::BuildContainer | LeftoverKind::Container => {
            remove_container(client, id).await?;
        }
    }
    Ok(true)
}

/// Removes an image, after its names on this tool's loopback registries. Returns `false` if the image
/// stays, because another run has pulled it since it was listed.
async fn remove_image(client: &Client, leftover: &Leftover) -> Result<bool, EngineError> {
    let id = leftover.id.as_str();
    let image = match client.inspect(id).await {
        Ok(image) => image,
        Err(EngineError::NotFound { .. }) => return Ok(true),
        Err(error) => return Err(error),
    };
    // If an image has names on several registries, an engine removes it by ID only with force. With
    // force, podman would also remove its containers, including those of other people.
    let names = image.tags.iter().chain(&image.digests);
    let (listed, new) = names_on(names.map(String::as_str), &leftover.ports);
    for name in listed {
        client.remove_image(name, false).await?;
    }
    if !new.is_empty() {
        return Ok(false);
    }
    client.remove_image(id, false).await?;
    Ok(true)
}

/// Returns the names on this tool's loopback registries: those on one of `ports`, and the others.
fn names_on<'a>(
    names: impl Iterator<Item = &'a str>,
    ports: &[u16],
) -> (Vec<&'a str>, Vec<&'a str>) {
    let ours = names.filter(|name| loopback_port(name).is_some());
    ours.partition(|name| loopback_port(name).is_some_and(|port| ports.contains(&port)))
}

/// Removes a container, even if it is running. Succeeds if there is no such container.
pub(crate) async fn remove_container(client: &Client, id: &str) -> Result<(), EngineError> {
    let action = format!("remove the container `{id}`");
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let docker = client.docker().clone().with_timeout(LONG);
    match docker.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) => match client.wire().judge_bollard(&action, &docker, error) {
            EngineError::NotFound { .. } => Ok(()),
            error => Err(error),
        },
    }
}

/// Lists the containers of podman's builds for this tool. They belong to buildah, so podman calls
/// them external and the docker-compatible API does not list them.
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
    let records = build_records(&info);
    let images = own_images(client).await?;
    let is_broken = |container: &Value| {
        let is_without_record = |id| matches!(run_of(&records, id), Record::Missing);
        let id = container["Id"].as_str().filter(|id| is_without_record(id));
        id.is_some_and(|id| is_empty_without_base(&info, container, id))
    };
    let broken: Vec<&Value> =
        external.iter().copied().filter(|container| is_broken(container)).collect();
    if !broken.is_empty() {
        tokio::time::sleep(FINISHING).await;
    }
    let found = external.into_iter().filter_map(|container| {
        let id = container["Id"].as_str()?;
        let of = match run_of(&records, id) {
            Record::Of(owner) => Some(owner),
            Record::Foreign => return None,
            Record::Missing if broken.contains(&container) => {
                // If the container is no longer broken, podman was about to write its record.
                if !is_broken(container) {
                    return None;
                }
                None
            }
            // podman was killed while it created the container.
            Record::Missing => images.get(container["ImageID"].as_str()?)?.clone(),
        };
        let is_wanted = run.is_none() || of.as_ref() == run;
        let (kind, id) = (LeftoverKind::BuildContainer, id.to_owned());
        let bytes = container["Size"]["rwSize"].as_u64();
        is_wanted.then_some(Leftover { kind, id, run: of, ports: Vec::new(), bytes })
    });
    Ok(found.collect())
}

/// Returns whether a container could be that of a probe whose podman was killed while creating it:
/// it has the name that buildah gives to such containers, but no image and no content. Without a
/// record, buildah cannot use it.
fn is_empty_without_base(info: &EngineInfo, container: &Value, id: &str) -> bool {
    let names = container["Names"].as_array().cloned().unwrap_or_default();
    let is_named = names.iter().filter_map(Value::as_str).any(|name| {
        name.strip_prefix("working-container")
            .is_some_and(|rest| rest.bytes().all(|b| b == b'-' || b.is_ascii_digit()))
    });
    let has_image = container["ImageID"].as_str().is_some_and(|image| !image.is_empty());
    // A removal that was killed may have removed only the layer.
    let is_empty = |layer: String| match std::fs::read_dir(
        info.storage_root.join("overlay").join(layer).join("diff"),
    ) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let is_overlay = info.storage_driver == "overlay";
    is_overlay && is_named && !has_image && layer_of(info, id).is_some_and(is_empty)
}

/// Returns this tool's images by the hexadecimal digits of their IDs, with the run that each
/// belongs to.
async fn own_images(client: &Client) -> Result<BTreeMap<String, Option<RunId>>, EngineError> {
    let mut images = BTreeMap::new();
    for label in [BASE_LABEL, RUN_LABEL] {
        for image in client.images_with(label).await? {
            let run = image.labels.get(RUN_LABEL).and_then(|run| RunId::parse(run));
            images.insert(image.id.trim_start_matches("sha256:").to_owned(), run);
        }
    }
    Ok(images)
}

/// The owner of a build container, according to buildah's record.
enum Record {
    /// It belongs to this run.
    Of(RunId),
    /// It belongs to someone else.
    Foreign,
    /// There is no record.
    Missing,
}

/// Returns which run a build container belongs to, according to buildah's record.
fn run_of(records: &Path, id: &str) -> Record {
    // An ID is hexadecimal. Nothing else may become part of a path.
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) || !records.is_dir() {
        return Record::Foreign;
    }
    let text = match std::fs::read(records.join(id).join("userdata/buildah.json")) {
        Ok(text) if text.is_empty() => return Record::Missing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Record::Missing,
        Ok(text) => text,
        Err(_) => return Record::Foreign,
    };
    let record: Option<Value> = serde_json::from_slice(&text).ok();
    let run = record.and_then(|record| RunId::parse(record["Args"][RUN_ARGUMENT].as_str()?));
    run.map_or(Record::Foreign, Record::Of)
}

/// How long podman may take to finish an image that has only a record, to create the image of a
/// layer, or to record a container.
const FINISHING: Duration = Duration::from_secs(5);

/// How long an image of stray layers is kept. Somebody else may be loading or pulling an image with
/// such a layer, which takes minutes and would fail if the layer disappeared in the meantime.
const ADOPTED: Duration = Duration::from_secs(3600);

/// Creates images for the layers of this tool for which a killed podman did not create one. When
/// such an image is removed later, its layers are removed too, unless somebody else uses them.
async fn adopt_stray_layers(client: &Client) -> Result<(), EngineError> {
    if !client.dialect().uses_buildah() {
        return Ok(());
    }
    let info = client.info().await?;
    let found = unfinished::stray_layers(&info);
    if found.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(FINISHING).await;
    for layer in unfinished::stray_layers(&info).intersection(&found) {
        let source = |source| EngineError::Input { action: "keep a layer".to_owned(), source };
        let archive = Bytes::from(layer.archive().map_err(source)?);
        let archive = Box::pin(futures_util::stream::iter([Ok(archive)]));
        // A failure is only logged, because another run may have adopted or used the layer.
        if let Err(error) = client.load(archive, SHORT).await {
            tracing::warn!(%error, "podman keeps a layer of a build that was killed");
        }
    }
    Ok(())
}

/// Returns whether an image exists only to keep layers, and is younger than [`ADOPTED`].
fn is_adopted_lately(image: &ImageSummary) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let created = Duration::from_secs(image.created.try_into().unwrap_or_default());
    image.labels.contains_key(ADOPTED_LABEL) && now.saturating_sub(created) < ADOPTED
}

/// Removes this tool's images that a killed podman did not finish.
async fn remove_unfinished(client: &Client) -> Result<(), EngineError> {
    if !client.dialect().uses_buildah() {
        return Ok(());
    }
    let info = client.info().await?;
    let found = unfinished::images(&info);
    if found.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(FINISHING).await;
    for id in unfinished::images(&info).intersection(&found) {
        let refused = match client.remove_image(id, false).await {
            Err(refused @ EngineError::Refused { .. }) => refused,
            ended => {
                ended?;
                continue;
            }
        };
        // podman does not list the containers of an image that it cannot read.
        let detail = refused.to_string();
        match user_of(&detail) {
            Some(container) if is_of_a_build(client, &info, container).await? => {
                remove_build_container(client, container).await?;
            }
            _ => return Err(refused),
        }
        client.remove_image(id, false).await?;
    }
    Ok(())
}

/// Returns the container that prevents the removal of an image, according to podman's error
/// message.
fn user_of(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("image used by ")?;
    let id = rest.get(..64)?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(id)
}

/// Returns whether podman no longer knows a container, and buildah's record assigns it to this tool
/// or is missing.
async fn is_of_a_build(client: &Client, info: &EngineInfo, id: &str) -> Result<bool, EngineError> {
    if matches!(run_of(&build_records(info), id), Record::Foreign) {
        return Ok(false);
    }
    let call = get("look up a container", format!("{LIBPOD}/containers/{id}/json"));
    match client.wire().ask(&call, SHORT).await {
        Ok(_) => Ok(false),
        Err(EngineError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the folder of buildah's records.
fn build_records(info: &EngineInfo) -> PathBuf {
    info.storage_root.join(format!("{}-containers", info.storage_driver))
}

/// Ends the `RUN` in a build container whose service was killed, then removes the container.
async fn remove_build_container(client: &Client, id: &str) -> Result<(), EngineError> {
    let info = client.info().await?;
    let driver = &info.storage_driver;
    if let Some(layer) = layer_of(&info, id) {
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

/// Returns the layer that a container writes to, according to the records of containers/storage.
fn layer_of(info: &EngineInfo, id: &str) -> Option<String> {
    let containers = unfinished::containers(info);
    let container = containers.iter().find(|container| container["id"] == id)?;
    container.get("layer")?.as_str().map(str::to_owned)
}

/// Kills the processes whose root file system stores its changes in the folder `upper`. Each such
/// folder belongs to one container, so these are the container's processes.
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
            // The process has already ended.
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(%error, number, "cannot kill a process of a build container");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_appeared_since_the_list_stay() {
        let names = [
            "127.0.0.1:4001/build-pipeline/a@sha256:1",
            "127.0.0.1:4002/build-pipeline/a@sha256:1",
            "127.0.0.1:4001/other/a:1",
            "registry.example.org/a:1",
        ];
        let split = |ports: &[u16]| names_on(names.into_iter(), ports);
        assert_eq!(split(&[4001]), (vec![names[0]], vec![names[1]]));
        assert_eq!(split(&[4001, 4002]), (names[..2].to_vec(), vec![]));
        assert_eq!(split(&[]), (vec![], names[..2].to_vec()));
    }
}
