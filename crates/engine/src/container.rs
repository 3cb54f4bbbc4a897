//! Containers of finished images: to run them, and to look whether they run.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, Mount as ApiMount, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{
    CreateContainerOptions, LogsOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt as _;

use crate::build::{CONTAINER_LABEL, Network, RunId};
use crate::client::Client;
use crate::error::EngineError;
use crate::lines::{Line, LineAssembler};

/// A container to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The run it belongs to.
    pub run: RunId,
    /// The image, by ID or name.
    pub image: String,
    /// The entrypoint; that of the image where there is none.
    pub entrypoint: Option<Vec<String>>,
    /// The command; that of the image where it is empty.
    pub command: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Devices of the host, such as `/dev/kfd`; the container sees them under the same path.
    pub devices: Vec<PathBuf>,
    /// Groups the process is in besides, by name or number.
    pub groups: Vec<String>,
    /// Folders and files of the host the container sees.
    pub mounts: Vec<Mount>,
    /// The network.
    pub network: Network,
    /// The most open files (`nofile`), where the engine's own limit is not to be had.
    pub open_files: Option<i64>,
    /// The most processes (`nproc`), likewise.
    pub processes: Option<i64>,
    /// The size of `/dev/shm`, in bytes. PyTorch's data loaders and RCCL need more than 64 MiB.
    pub shared_memory: Option<i64>,
    /// Security options, such as `seccomp=unconfined`.
    pub security: Vec<String>,
}

/// A folder or file of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path on the host.
    pub source: PathBuf,
    /// The path in the container.
    pub target: PathBuf,
    /// Whether the container may only read it.
    pub is_read_only: bool,
}

impl ContainerRequest {
    /// Returns a request that takes everything from the image and allows nothing.
    pub fn new(run: RunId, image: &str) -> Self {
        Self {
            run,
            image: image.to_owned(),
            entrypoint: None,
            command: Vec::new(),
            env: BTreeMap::new(),
            devices: Vec::new(),
            groups: Vec::new(),
            mounts: Vec::new(),
            network: Network::None,
            open_files: None,
            processes: None,
            shared_memory: None,
            security: Vec::new(),
        }
    }

    fn body(&self) -> ContainerCreateBody {
        let path = |path: &PathBuf| Some(path.display().to_string());
        let device = |device: &PathBuf| DeviceMapping {
            path_on_host: path(device),
            path_in_container: path(device),
            cgroup_permissions: Some("rwm".to_owned()),
        };
        let mount = |mount: &Mount| ApiMount {
            source: path(&mount.source),
            target: path(&mount.target),
            typ: Some(MountType::BIND),
            read_only: Some(mount.is_read_only),
            ..ApiMount::default()
        };
        let limit = |name: &str, value: Option<i64>| {
            value.map(|value| ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(value),
                hard: Some(value),
            })
        };
        let limits = [limit("nofile", self.open_files), limit("nproc", self.processes)];
        let network = if self.network == Network::None { "none" } else { "host" };
        let host = HostConfig {
            devices: Some(self.devices.iter().map(device).collect()),
            group_add: Some(self.groups.clone()),
            mounts: Some(self.mounts.iter().map(mount).collect()),
            network_mode: Some(network.to_owned()),
            security_opt: Some(self.security.clone()),
            shm_size: self.shared_memory,
            ulimits: Some(limits.into_iter().flatten().collect()),
            ..HostConfig::default()
        };
        let label = (CONTAINER_LABEL.to_owned(), self.run.as_str().to_owned());
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: self.entrypoint.clone(),
            cmd: (!self.command.is_empty()).then(|| self.command.clone()),
            env: Some(self.env.iter().map(|(key, value)| format!("{key}={value}")).collect()),
            labels: Some(HashMap::from([label])),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
    }
}

/// Creates a container and returns its ID.
pub(crate) async fn create(
    client: &Client,
    request: &ContainerRequest,
) -> Result<String, EngineError> {
    let action = format!("create a container of `{}`", request.image);
    let none = None::<CreateContainerOptions>;
    let created = client.docker().create_container(none, request.body()).await;
    let created = created.map_err(|error| client.wire().judge_bollard(&action, error))?;
    Ok(created.id)
}

/// Starts a container.
pub(crate) async fn start(client: &Client, id: &str) -> Result<(), EngineError> {
    let action = format!("start the container `{id}`");
    let none = None::<StartContainerOptions>;
    let started = client.docker().start_container(id, none).await;
    started.map_err(|error| client.wire().judge_bollard(&action, error))
}

/// Waits until a container that was started has ended, and returns its exit status.
pub(crate) async fn wait(client: &Client, id: &str) -> Result<i64, EngineError> {
    use bollard::errors::Error;
    let action = format!("wait for the container `{id}`");
    let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
    // The answer's head may come with the end only, so the time is the caller's to limit.
    let docker = client.docker().clone().with_timeout(FOREVER);
    let mut waited = docker.wait_container(id, Some(options));
    match waited.next().await {
        Some(Ok(answer)) => Ok(answer.status_code),
        // bollard makes an error of any status but 0; only words make it one.
        Some(Err(Error::DockerContainerWaitError { error, code })) if error.is_empty() => Ok(code),
        Some(Err(error)) => Err(client.wire().judge_bollard(&action, error)),
        None => Err(EngineError::Lost { action, reason: "the answer is empty".to_owned() }),
    }
}

/// A year: no container of a `run` is waited for any longer.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// Hands on what a container says, until it ends.
pub(crate) async fn logs(
    client: &Client,
    id: &str,
    on_line: &mut (dyn FnMut(Line) + Send),
) -> Result<(), EngineError> {
    let action = format!("read the log of the container `{id}`");
    let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
    let docker = client.docker().clone().with_timeout(FOREVER);
    let mut log = docker.logs(id, Some(options));
    // Standard output and standard error end their lines apart from each other.
    let mut output = LineAssembler::default();
    let mut errors = LineAssembler::default();
    while let Some(piece) = log.next().await {
        let piece = piece.map_err(|error| client.wire().judge_bollard(&action, error))?;
        match piece {
            bollard::container::LogOutput::StdErr { message } => errors.push(&message, on_line),
            other => output.push(&other.into_bytes(), on_line),
        }
    }
    output.finish(on_line);
    errors.finish(on_line);
    Ok(())
}
