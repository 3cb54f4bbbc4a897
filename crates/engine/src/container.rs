//! Containers of finished images: create, start, signal, resize and wait.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, Mount as ApiMount, MountType, PortBinding,
    ResourcesUlimits,
};
use bollard::query_parameters::{
    CreateContainerOptions, StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt as _;
use hyper::Method;

use crate::build::{CONTAINER_LABEL, Network, RunId};
use crate::client::{Client, part, query};
use crate::error::EngineError;
use crate::wire::{Call, SHORT};

/// A container to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The run that it belongs to.
    pub run: RunId,
    /// Its name. If `None`, the engine generates one.
    pub name: Option<String>,
    /// The image, by ID or name.
    pub image: String,
    /// The entrypoint. If `None`, the image's entrypoint.
    pub entrypoint: Option<Vec<String>>,
    /// The command. If empty, the image's command.
    pub command: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Devices of the host, such as `/dev/kfd`.
    pub devices: Vec<Device>,
    /// The user and group of the process, such as `1000:1000`. If `None`, the image's user.
    pub user: Option<String>,
    /// Additional groups of the process, by name or number. podman also accepts `keep-groups`.
    pub groups: Vec<String>,
    /// The working directory. If `None`, the image's working directory.
    pub working_folder: Option<String>,
    /// Whether its process has a terminal.
    pub has_terminal: bool,
    /// Whether its standard input is open.
    pub has_input: bool,
    /// Its published ports.
    pub ports: Vec<PublishedPort>,
    /// Folders and files of the host that are visible in the container.
    pub mounts: Vec<Mount>,
    /// The network. If `None`, the engine creates a separate one.
    pub network: Option<Network>,
    /// The maximum number of open files (`nofile`), if it is to differ from the engine's limit.
    pub open_files: Option<i64>,
    /// The maximum number of processes (`nproc`), if it is to differ from the engine's limit.
    pub processes: Option<i64>,
    /// The size of `/dev/shm`, in bytes. If `None`, the engine's default of 64 MiB, which is too
    /// small for PyTorch's data loaders and RCCL.
    pub shared_memory: Option<i64>,
    /// Security options, such as `seccomp=unconfined`.
    pub security: Vec<String>,
    /// Whether it outlives its run. It then belongs to the user: it has no label of this tool, and
    /// this tool never removes it.
    pub is_detached: bool,
}

/// A device of the host, or a folder of devices, in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The path on the host.
    pub source: PathBuf,
    /// The path in the container.
    pub target: PathBuf,
}

/// A port of a container that is published on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPort {
    /// The address on the host, for example `127.0.0.1`.
    pub address: String,
    /// The port on the host.
    pub host: u16,
    /// The port in the container, over TCP.
    pub container: u16,
}

/// A folder or file of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path on the host.
    pub source: PathBuf,
    /// The path in the container.
    pub target: PathBuf,
    /// Whether the mount is read-only.
    pub is_read_only: bool,
    /// Whether it gets an SELinux label that containers share.
    pub is_relabelled: bool,
}

impl ContainerRequest {
    /// Returns a request that uses the image's settings, without a network and without additional
    /// privileges.
    pub fn new(run: RunId, image: &str) -> Self {
        Self {
            run,
            name: None,
            image: image.to_owned(),
            entrypoint: None,
            command: Vec::new(),
            env: BTreeMap::new(),
            devices: Vec::new(),
            user: None,
            groups: Vec::new(),
            working_folder: None,
            has_terminal: false,
            has_input: false,
            ports: Vec::new(),
            mounts: Vec::new(),
            network: Some(Network::None),
            open_files: None,
            processes: None,
            shared_memory: None,
            security: Vec::new(),
            is_detached: false,
        }
    }

    fn body(&self) -> ContainerCreateBody {
        let path = |path: &PathBuf| Some(path.display().to_string());
        let device = |device: &Device| DeviceMapping {
            path_on_host: path(&device.source),
            path_in_container: path(&device.target),
            cgroup_permissions: Some("rwm".to_owned()),
        };
        let (relabelled, mounts): (Vec<&Mount>, Vec<&Mount>) =
            self.mounts.iter().partition(|mount| mount.is_relabelled);
        // Only this older syntax supports SELinux labels.
        let bind = |mount: &Mount| {
            let options = if mount.is_read_only { "ro,z" } else { "z" };
            format!("{}:{}:{options}", mount.source.display(), mount.target.display())
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
        let network = match self.network {
            Some(Network::None) => Some("none"),
            Some(Network::Host) => Some("host"),
            None => None,
        };
        let name = |port: &PublishedPort| format!("{}/tcp", port.container);
        let bindings = self.ports.iter().map(|port| {
            let binding = PortBinding {
                host_ip: Some(port.address.clone()),
                host_port: Some(port.host.to_string()),
            };
            (name(port), Some(vec![binding]))
        });
        let host = HostConfig {
            devices: Some(self.devices.iter().map(device).collect()),
            group_add: Some(self.groups.clone()),
            binds: Some(relabelled.into_iter().map(bind).collect()),
            mounts: Some(mounts.into_iter().map(mount).collect()),
            network_mode: network.map(str::to_owned),
            port_bindings: Some(bindings.collect()),
            security_opt: Some(self.security.clone()),
            shm_size: self.shared_memory,
            ulimits: Some(limits.into_iter().flatten().collect()),
            ..HostConfig::default()
        };
        let label = || (CONTAINER_LABEL.to_owned(), self.run.as_str().to_owned());
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: self.entrypoint.clone(),
            cmd: (!self.command.is_empty()).then(|| self.command.clone()),
            env: Some(self.env.iter().map(|(key, value)| format!("{key}={value}")).collect()),
            labels: (!self.is_detached).then(|| HashMap::from([label()])),
            user: self.user.clone(),
            working_dir: self.working_folder.clone(),
            tty: Some(self.has_terminal),
            open_stdin: Some(self.has_input),
            stdin_once: Some(self.has_input),
            attach_stdin: Some(self.has_input),
            attach_stdout: Some(!self.is_detached),
            attach_stderr: Some(!self.is_detached),
            exposed_ports: Some(self.ports.iter().map(name).collect()),
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
    if let Some((path, body)) = client.dialect().own_container(request)? {
        let call = Call { action: &action, method: Method::POST, path };
        let created = client.wire().send(&call, &body, SHORT).await?;
        let id = created.get("Id").and_then(serde_json::Value::as_str);
        let nonsense = || EngineError::Nonsense { action, detail: "it lacks an ID".to_owned() };
        return id.map(str::to_owned).ok_or_else(nonsense);
    }
    let named = request.name.as_ref().map(|name| CreateContainerOptions {
        name: Some(name.clone()),
        ..CreateContainerOptions::default()
    });
    let created = client.docker().create_container(named, request.body()).await;
    let created = created.map_err(|error| client.judge(&action, error))?;
    Ok(created.id)
}

/// Starts a container.
pub(crate) async fn start(client: &Client, id: &str) -> Result<(), EngineError> {
    let action = format!("start the container `{id}`");
    let none = None::<StartContainerOptions>;
    let started = client.docker().start_container(id, none).await;
    started.map_err(|error| client.judge(&action, error))
}

/// Sends a signal to a running container.
pub(crate) async fn signal(client: &Client, id: &str, name: &str) -> Result<(), EngineError> {
    let action = format!("send {name} to the container `{id}`");
    let path = format!("/containers/{}/kill?{}", part(id), query(&[("signal", name)]));
    let call = Call { action: &action, method: Method::POST, path };
    client.wire().ask(&call, SHORT).await.map(drop)
}

/// Sets the size of a container's terminal.
pub(crate) async fn resize(
    client: &Client,
    id: &str,
    (rows, columns): (u16, u16),
) -> Result<(), EngineError> {
    let size = query(&[("h", &rows.to_string()), ("w", &columns.to_string())]);
    let action = format!("resize the terminal of the container `{id}`");
    let path = format!("/containers/{}/resize?{size}", part(id));
    let call = Call { action: &action, method: Method::POST, path };
    client.wire().ask(&call, SHORT).await.map(drop)
}

/// Waits until a started container has ended, and returns its exit status.
pub(crate) async fn wait(client: &Client, id: &str) -> Result<i64, EngineError> {
    use bollard::errors::Error;
    let action = format!("wait for the container `{id}`");
    let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
    // The response headers may arrive only when the container ends, so the timeout for headers must
    // cover its whole run.
    let docker = client.docker().clone().with_timeout(FOREVER);
    let mut waited = docker.wait_container(id, Some(options));
    match waited.next().await {
        Some(Ok(answer)) => Ok(answer.status_code),
        // bollard returns an error for every status except 0. It is a real error only if there is a
        // message.
        Some(Err(Error::DockerContainerWaitError { error, code })) if error.is_empty() => Ok(code),
        Some(Err(error)) => Err(client.wire().judge_bollard(&action, &docker, error)),
        None => Err(EngineError::Lost { action, reason: "the response is empty".to_owned() }),
    }
}

/// One year. No `run` waits longer for its container.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);
