//! Decides which rights a container of a track gets, and writes files that start it.
//!
//! Start at [`container`], a pure function from a [`Wish`] (the track's row of `versions/run.toml`,
//! the engine, the machine) to a [`Container`]. [`Container::print`] writes it as a shell script, a
//! quadlet, a compose file or a distrobox manifest; the caller starts it with an engine. [`trial`]
//! judges the result of a smoke test.
//!
//! A container gets the device nodes of the GPU, the groups that may open them, and the folders of
//! the track and the caller; nothing else from the host, except the network if the caller asks for
//! it. It is never privileged, and never shares the host's IPC namespace. The engine's own seccomp
//! filter stays on; ROCm and Vulkan work with it (hellcatjack/strix-halo-rocm-pytorch).

mod compose;
mod distrobox;
mod page;
mod quadlet;
mod row;
mod shell;
pub mod trial;

use std::collections::{BTreeMap, BTreeSet};

use names::EngineKind;
use names::TrackName;
use pins::OVERRIDE;
use text::sanitise::is_printable;

use crate::access::{DeviceNode, Engine};
use crate::snapshot::Snapshot;
use crate::wsl::Wsl;

pub use row::{GpuWay, Level, Needs, Row, Rows, Trial, parse_rows};

/// The home in the container, for any user.
pub const HOME: &str = "/home/run";
/// The working directory, if the container has one.
const WORK: &str = "/work";

/// The GPU of Windows in WSL2.
const DXG: &str = "/dev/dxg";

/// The container that was requested.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// The track.
    pub track: TrackName,
    /// Its row of `run.toml`.
    pub row: &'a Row,
    /// The machine.
    pub machine: &'a Snapshot,
    /// The engine, with its runtime if known.
    pub engine: &'a Engine,
    /// The image.
    pub image: String,
    /// The folder of the host that becomes the home in the container; `~` is the caller's home.
    pub home: String,
    /// An executable that replaces the image's entrypoint.
    pub entrypoint: Option<String>,
    /// The command; if empty, the image's own.
    pub command: Vec<String>,
    /// Environment variables for the GPU.
    pub environment: BTreeMap<String, String>,
    /// The folder with models, if it differs from the row's.
    pub models: Option<String>,
    /// The folder on the host that is mounted as the working directory.
    pub work: Option<String>,
    /// The user and group ID that should own files: `LOCAL_UID` and `LOCAL_GID`, or the caller's.
    pub owner: (u32, u32),
    /// The address and port of the host on which the track's port is published.
    pub publish: (String, Option<u16>),
    /// The network.
    pub network: Network,
    /// Whether it gets the GPU.
    pub has_gpu: bool,
    /// The caller's own variables, which take precedence over all others.
    pub variables: Variables,
    /// Additional folders and files of the host.
    pub volumes: Vec<Folder>,
    /// Whether it runs in the background.
    pub is_detached: bool,
}

/// The variables that a caller gives to a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// Variables whose values may be written into files.
    pub values: BTreeMap<String, String>,
    /// Variables that are written into files only by name, because their values are secret or come
    /// from the environment.
    pub passed: BTreeSet<String>,
    /// Files with variables, in order, with the names in them.
    pub files: Vec<VariableFile>,
}

/// A file with variables, one `NAME=VALUE` per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableFile {
    /// The path on the host.
    pub path: String,
    /// The variables that it sets.
    pub names: BTreeSet<String>,
}

/// The network of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The engine's default: a network of its own, with the track's port published.
    Own,
    /// The host's network.
    Host,
    /// No network.
    None,
}

/// A container to start, with every detail decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The track.
    pub track: TrackName,
    /// The engine.
    pub engine: EngineKind,
    /// The engine's version, if it is known.
    pub engine_version: Option<String>,
    /// The image.
    pub image: String,
    /// An executable that replaces the image's entrypoint.
    pub entrypoint: Option<String>,
    /// The command; if empty, the image's own.
    pub command: Vec<String>,
    /// Device nodes, and folders of device nodes.
    pub devices: Vec<&'static str>,
    /// The groups that may open them.
    pub groups: Groups,
    /// The user and group of the process; if `None`, the image's own.
    pub user: Option<(u32, u32)>,
    /// The size of `/dev/shm` in GiB.
    pub shared_memory: Option<u16>,
    /// Security options.
    pub security: Vec<&'static str>,
    /// Folders of the host that every container of the track gets.
    pub folders: Vec<Folder>,
    /// The caller's own folders and files, and the libraries of WSL2.
    pub volumes: Vec<Folder>,
    /// Whether the SELinux labels of these folders must be changed, so that the container can read
    /// them.
    pub relabels: bool,
    /// The published port.
    pub port: Option<Port>,
    /// The network.
    pub network: Network,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// Variables that are written into files only by name.
    pub passed: BTreeSet<String>,
    /// Files with additional environment variables.
    pub variable_files: Vec<VariableFile>,
    /// The working directory, if it is not the image's own.
    pub work: Option<&'static str>,
    /// Whether it runs in the background.
    pub is_detached: bool,
}

/// The additional groups of a container's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    /// No group is needed.
    None,
    /// The user's groups, which podman and crun keep.
    Keep,
    /// The groups of the device nodes, by ID; a name would be looked up in the image.
    Numbers(Vec<u32>),
}

/// A folder or file of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The path on the host; it may start with `~/`.
    pub host: String,
    /// The path in the container.
    pub container: String,
    /// Whether to create it if it does not exist.
    pub is_made: bool,
    /// Whether the container cannot change it.
    pub is_read_only: bool,
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The address of the host.
    pub address: String,
    /// The port of the host.
    pub host: u16,
    /// The port of the container.
    pub container: u16,
}

/// A file format for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A script for a POSIX shell.
    Shell,
    /// A unit for podman's systemd generator.
    Quadlet,
    /// A compose file.
    Compose,
    /// A manifest for `distrobox assemble`.
    Distrobox,
}

/// The reason why a container cannot be started, or cannot be written in a file format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A device node is missing.
    #[error("the device node `{node}` is missing, but {way} needs it")]
    NoDevice {
        /// The node.
        node: &'static str,
        /// `ROCm` or `Vulkan`.
        way: &'static str,
    },
    /// The library through which ROCm reaches the GPU in WSL2 is missing.
    #[error("librocdxg is not installed, but ROCm in WSL2 needs it")]
    NoLibrary,
    /// A path contains a character that engines use as a separator.
    #[error("the path `{path}` contains a colon, comma, quote, backslash or line feed")]
    Path {
        /// The path.
        path: String,
    },
    /// A text contains a character that cannot be printed.
    #[error("{what} contains a control character, which cannot be printed")]
    Unprintable {
        /// The variable or argument.
        what: String,
    },
    /// The engine does not support quadlets.
    #[error("quadlets work only with podman, but the engine is {engine}")]
    Quadlet {
        /// The engine.
        engine: EngineKind,
    },
}

/// Decides every detail of the requested container.
///
/// # Errors
/// Fails if the path of a folder contains a character that engines use as a separator.
pub fn container(wish: &Wish<'_>) -> Result<Container, RunError> {
    let row = wish.row;
    let is_remapped = wish.engine.is_rootless;
    let mut folders = vec![Folder {
        host: wish.home.clone(),
        container: HOME.to_owned(),
        is_made: true,
        is_read_only: false,
    }];
    folders.push(Folder {
        host: wish.models.clone().unwrap_or_else(|| row.models.clone()),
        container: match row.models_at.strip_prefix('~') {
            Some(rest) => format!("{HOME}{rest}"),
            None => row.models_at.clone(),
        },
        is_made: wish.models.is_none(),
        is_read_only: false,
    });
    folders.extend(wish.work.clone().map(|host| Folder {
        host,
        container: WORK.to_owned(),
        is_made: false,
        is_read_only: false,
    }));
    let is_taken_apart = |path: &str| path.contains([':', ',', '"', '\'', '\\', '\n']);
    let mut mounted = folders.iter().chain(&wish.volumes);
    if let Some(folder) = mounted.find(|folder| is_taken_apart(&folder.host)) {
        return Err(RunError::Path { path: folder.host.clone() });
    }
    let mut environment = wish.environment.clone();
    environment.insert("HOME".to_owned(), HOME.to_owned());
    // With a rootless engine, root in the container is the user who started it; otherwise, it is
    // the host's root.
    let user = (!is_remapped && wish.owner != (0, 0)).then_some(wish.owner);
    if user.is_some() {
        // PyTorch looks up the name of the user, and the image has none for this ID.
        environment.insert("USER".to_owned(), "run".to_owned());
    }
    environment.retain(|name, _| !wish.variables.has(name));
    environment.extend(wish.variables.values.clone());
    let port = row.port.filter(|_| wish.network == Network::Own).map(|container| Port {
        address: wish.publish.0.clone(),
        host: wish.publish.1.unwrap_or(container),
        container,
    });
    // In WSL2, ROCm uses the device of Windows. Every user may open it.
    let wsl = wish.machine.wsl.as_ref().filter(|_| wish.has_gpu && row.gpu == GpuWay::Rocm);
    let mut volumes: Vec<Folder> = wsl.map(libraries).into_iter().flatten().collect();
    volumes.extend(wish.volumes.iter().cloned());
    Ok(Container {
        track: wish.track.clone(),
        engine: wish.engine.kind,
        engine_version: wish.engine.version.clone(),
        image: wish.image.clone(),
        entrypoint: wish.entrypoint.clone(),
        command: wish.command.clone(),
        devices: match (&wish.machine.wsl, wsl) {
            (_, Some(_)) => vec![DXG],
            // WSL2 has no /dev/dri, so Vulkan runs on a software device.
            (Some(_), None) if !wish.machine.devices.iter().any(|node| is_render(&node.path)) => {
                Vec::new()
            }
            _ => devices(row.gpu, wish.has_gpu),
        },
        groups: if wish.has_gpu && wish.machine.wsl.is_none() {
            groups(wish)
        } else {
            Groups::None
        },
        user,
        shared_memory: row.shared_memory,
        security: vec!["no-new-privileges"],
        folders,
        volumes,
        relabels: wish.machine.selinux_enforces == Some(true),
        port,
        network: wish.network,
        environment,
        passed: wish.variables.passed.clone(),
        variable_files: wish.variables.files.clone(),
        work: wish.work.is_some().then_some(WORK),
        is_detached: wish.is_detached,
    })
}

/// Returns the files of a machine that ROCm needs in a container in WSL2, at the paths that AMD
/// documents (README of ROCm/librocdxg, "Container Launch"). AMD's example also adds SYS_PTRACE and
/// removes the seccomp filter, but AMD's table of flags for WSL2 lists neither.
fn libraries(wsl: &Wsl) -> Vec<Folder> {
    let file = |host: &str, container: &str| Folder {
        host: host.to_owned(),
        container: container.to_owned(),
        is_made: false,
        is_read_only: true,
    };
    let dxg = wsl.library.as_deref().unwrap_or("/opt/rocm/lib/librocdxg.so");
    let mut all = vec![
        file("/usr/lib/wsl/lib/libdxcore.so", "/usr/lib/libdxcore.so"),
        file(dxg, "/usr/lib/librocdxg.so"),
    ];
    all.extend(wsl.ids.as_deref().map(|ids| file(ids, "/usr/share/rocdxg/dids.conf")));
    all
}

/// Checks that the machine has the device nodes that a container opens, and in WSL2 the library.
///
/// # Errors
/// Fails if one is missing.
pub fn check_devices(way: GpuWay, machine: &Snapshot) -> Result<(), RunError> {
    if let Some(wsl) = machine.wsl.as_ref().filter(|_| way == GpuWay::Rocm) {
        return match (wsl.has_device, &wsl.library) {
            (false, _) => Err(RunError::NoDevice { node: DXG, way: "ROCm in WSL2" }),
            (true, None) => Err(RunError::NoLibrary),
            (true, Some(_)) => Ok(()),
        };
    }
    let has = |is_it: fn(&str) -> bool| machine.devices.iter().any(|node| is_it(&node.path));
    let name = match way {
        GpuWay::Rocm => "ROCm",
        GpuWay::Vulkan => "Vulkan",
    };
    if way == GpuWay::Rocm && !has(|path| path == "/dev/kfd") {
        return Err(RunError::NoDevice { node: "/dev/kfd", way: name });
    }
    if has(is_render) {
        Ok(())
    } else {
        Err(RunError::NoDevice { node: "/dev/dri/renderD128", way: name })
    }
}

fn is_render(path: &str) -> bool {
    path.starts_with("/dev/dri/renderD")
}

fn devices(way: GpuWay, has_gpu: bool) -> Vec<&'static str> {
    match (has_gpu, way) {
        (false, _) => Vec::new(),
        (true, GpuWay::Rocm) => vec!["/dev/kfd", "/dev/dri"],
        (true, GpuWay::Vulkan) => vec!["/dev/dri"],
    }
}

/// Returns the additional groups. With rootless podman and crun, these are the user's own, because
/// the host's IDs have no meaning in the container; otherwise, they are the IDs of the nodes'
/// groups.
fn groups(wish: &Wish<'_>) -> Groups {
    let Engine { kind, is_rootless, runtime, .. } = wish.engine;
    let keeper = kind.facts().keeps_groups_with;
    if *is_rootless && keeper.is_some() && keeper == runtime.as_deref() {
        return Groups::Keep;
    }
    let is_opened = |node: &&DeviceNode| {
        is_render(&node.path) || (wish.row.gpu == GpuWay::Rocm && node.path == "/dev/kfd")
    };
    let mut numbers: Vec<u32> =
        wish.machine.devices.iter().filter(is_opened).map(|node| node.gid).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Groups::Numbers(numbers)
}

/// Returns whether the container cannot use the GPU, because a rootless engine cannot give it the
/// groups of nodes that are not open to everyone.
pub fn loses_groups(container: &Container, wish: &Wish<'_>) -> bool {
    let opened = wish.machine.devices.iter();
    wish.engine.is_rootless
        && matches!(container.groups, Groups::Numbers(_))
        && !opened.clone().filter(|node| is_render(&node.path)).all(DeviceNode::is_open_to_all)
}

impl Variables {
    /// Returns whether the caller gives a value to a variable.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
            || self.passed.contains(name)
            || self.files.iter().any(|file| file.names.contains(name))
    }
}

impl Folder {
    /// Returns the options of the mount, each with a colon or comma in front.
    fn options(&self, relabels: bool) -> &'static str {
        match (self.is_read_only, relabels) {
            (false, false) => "",
            (false, true) => ":z",
            (true, false) => ":ro",
            (true, true) => ":ro,z",
        }
    }
}

impl Container {
    /// Returns why the engine on this machine cannot use a file of this form, if it cannot. A newer
    /// version can.
    pub fn too_old_for(&self, form: Form) -> Option<String> {
        (form == Form::Quadlet).then(|| quadlet::too_old(self)).flatten()
    }

    /// Writes the container in a file format. The same container always gives the same bytes.
    ///
    /// # Errors
    /// Fails if the engine does not support the format, or if a variable or an argument contains a
    /// character that would be lost.
    pub fn print(&self, form: Form) -> Result<String, RunError> {
        if let Some(what) = self.unprintable() {
            return Err(RunError::Unprintable { what });
        }
        match form {
            Form::Shell => Ok(shell::print(self)),
            Form::Quadlet if !self.engine.facts().has_quadlets => {
                Err(RunError::Quadlet { engine: self.engine })
            }
            Form::Quadlet => Ok(quadlet::print(self)),
            Form::Compose => Ok(compose::print(self)),
            Form::Distrobox => Ok(distrobox::print(self)),
        }
    }

    /// Returns a description of a text that output would change, if there is one.
    fn unprintable(&self) -> Option<String> {
        let mut variables = self.environment.iter().filter(|(_, value)| !is_printable(value));
        let variable = variables.next().map(|(name, _)| format!("the value of `{name}`"));
        let is_changed = |word: &&String| !is_printable(word);
        let word = || {
            let at = self.command.iter().position(|word| !is_printable(word))?;
            Some(format!("argument {} of the command", at + 1))
        };
        let others = || {
            let paths = self.mounts().flat_map(|folder| [&folder.host, &folder.container]);
            let files = self.variable_files.iter().map(|file| &file.path);
            let mut all = paths.chain(files).chain(&self.entrypoint);
            all.find(is_changed).map(|_| "a path".to_owned())
        };
        variable.or_else(word).or_else(others)
    }

    /// Returns all folders and files of the host.
    pub fn mounts(&self) -> impl Iterator<Item = &Folder> {
        self.folders.iter().chain(&self.volumes)
    }

    /// Returns the name for use in files.
    pub fn name(&self) -> String {
        format!("build-pipeline-{}", self.track)
    }

    /// Returns whether the container uses the compute driver of a GPU.
    fn is_rocm(&self) -> bool {
        self.devices.contains(&"/dev/kfd")
    }

    /// Returns the variable that must not reach the container from the surrounding environment, if
    /// there is one.
    fn unset(&self) -> Option<&'static str> {
        let is_set = self.environment.contains_key(OVERRIDE)
            || self.passed.contains(OVERRIDE)
            || self.variable_files.iter().any(|file| file.names.contains(OVERRIDE));
        (!is_set).then_some(OVERRIDE)
    }
}

/// Returns the first lines of a file, each after `#`.
fn head(container: &Container, what: &str, form: &str) -> String {
    let track = &container.track;
    format!("# {what} for track {track}, written by `build-pipeline run {track} --print {form}`.\n")
}

/// Returns the path of a folder with `~` replaced by `home`.
fn at_home(path: &str, home: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None => path.to_owned(),
    }
}
