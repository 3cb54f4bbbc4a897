//! A snapshot of a machine.

use std::collections::BTreeMap;
use std::path::Path;

use names::EngineKind;

use crate::access::{self, DeviceNode, Engine, Programs, User};
use crate::gpu::{self, Gpu};
use crate::kernel::{self, Firmware, Kernel, Memory};
use crate::root::Root;
use crate::storage::{self, BrokenImage, Disk};
use crate::wsl::Wsl;

/// The user who runs the tool, and the user's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user ID.
    pub uid: u32,
    /// The groups of the process.
    pub gids: Vec<u32>,
    /// The environment variables that matter to ROCm, Vulkan and Ollama, and `HOME`.
    pub environment: BTreeMap<String, String>,
}

impl Caller {
    /// Returns the user of this process, with the given variables.
    pub fn this_process(environment: BTreeMap<String, String>) -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let mut gids: Vec<u32> = groups.into_iter().map(|gid| gid.as_raw()).collect();
        gids.push(rustix::process::getegid().as_raw());
        gids.sort_unstable();
        gids.dedup();
        Self { uid: rustix::process::geteuid().as_raw(), gids, environment }
    }
}

/// Why no engine works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The engines that were tried, and why each does not work.
    pub why: String,
    /// The command that lets builds and `run` look for other engines, if the user selected one.
    pub release: Option<String>,
}

/// The known facts about a machine. A fact that could not be read is absent; nothing is guessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The AMD GPUs; those with a target come first.
    pub gpus: Vec<Gpu>,
    /// The makers of other GPUs, also of emulated ones.
    pub other_makers: Vec<&'static str>,
    /// The kernel and its parameters.
    pub kernel: Kernel,
    /// The container that the tool runs in, for example `lxc`, `podman` or `docker`.
    pub container: Option<String>,
    /// Whether the machine is a virtual machine, or a container in one.
    pub is_virtual: bool,
    /// The facts about WSL2, if this is WSL2.
    pub wsl: Option<Wsl>,
    /// The GPU's firmware.
    pub firmware: Firmware,
    /// The ROCm release that AMD's packages installed on this machine, outside images.
    pub rocm: Option<String>,
    /// The host's memory.
    pub memory: Memory,
    /// Device nodes of GPUs.
    pub devices: Vec<DeviceNode>,
    /// The user.
    pub user: User,
    /// The names of groups, by ID.
    pub groups: BTreeMap<u32, String>,
    /// Whether SELinux is enforcing; absent if there is no SELinux.
    pub selinux_enforces: Option<bool>,
    /// Whether SELinux allows containers to use devices.
    pub selinux_devices: Option<bool>,
    /// Container engines; the caller may add what they report.
    pub engines: Vec<Engine>,
    /// The position in `engines` of the engine that builds and `run` use without `--engine`.
    pub selected: Option<usize>,
    /// Why builds and `run` find no engine that works, if the caller asked the engines.
    pub unusable: Option<Unusable>,
    /// Which programs of engines are installed, if that is known.
    pub programs: Option<Programs>,
    /// The program that starts compose files.
    pub compose: Option<String>,
    /// The environment variables that matter.
    pub environment: BTreeMap<String, String>,
    /// The places where images are stored.
    pub disks: Vec<Disk>,
    /// Leftovers of killed builds in `/var/tmp`.
    pub leftovers: Vec<String>,
    /// Images that break podman's store.
    pub broken_images: Vec<BrokenImage>,
}

impl Snapshot {
    /// Reads the machine whose root directory is `root`. For a recorded machine, whose root
    /// contains a file `recorded`, no fact of the running machine is used.
    pub fn read(root: &Path, caller: &Caller) -> Self {
        let root = Root::new(root);
        let environment = if root.is_recorded() {
            let pairs = root.recorded("env").filter_map(|line| line.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        } else {
            caller.environment.clone()
        };
        let home = environment.get("HOME").map(String::as_str);
        let access = access::read(&root, caller, home);
        let storage = storage::read(&root, home, access.user.uid, &access.engines);
        let first = EngineKind::ALL.into_iter().find(|kind| {
            access.engines.iter().any(|engine| engine.kind == *kind && engine.is_usable())
        });
        let is_first = |engine: &Engine| Some(engine.kind) == first && engine.is_usable();
        let is_on = |path: &str| Some(root.line(path)?.starts_with('1'));
        let kernel = Kernel::read(&root);
        Self {
            gpus: gpu::read(&root),
            other_makers: gpu::other_makers(&root),
            container: container(&root),
            is_virtual: is_virtual(&root),
            wsl: Wsl::read(&root, kernel.release.as_deref()),
            kernel,
            firmware: Firmware::read(&root),
            rocm: kernel::rocm(&root),
            memory: Memory::read(&root),
            devices: access.devices,
            user: access.user,
            groups: access.groups,
            selinux_enforces: is_on("sys/fs/selinux/enforce"),
            selinux_devices: is_on("sys/fs/selinux/booleans/container_use_devices"),
            selected: access.engines.iter().position(is_first),
            unusable: None,
            programs: access.programs,
            engines: access.engines,
            compose: access.compose,
            environment,
            disks: storage.disks,
            leftovers: storage.leftovers,
            broken_images: storage.broken,
        }
    }

    /// Returns the engine that builds and `run` use without `--engine`.
    pub fn selected_engine(&self) -> Option<&Engine> {
        self.engines.get(self.selected?)
    }

    /// Returns the value of an environment variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }
}

/// Returns the container manager, as systemd, podman or docker record it.
fn container(root: &Root) -> Option<String> {
    let marked = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
    root.line("run/systemd/container").or_else(|| {
        let (_, name) = marked.into_iter().find(|(file, _)| root.has(file))?;
        Some(name.to_owned())
    })
}

/// Returns whether the CPU reports a hypervisor.
fn is_virtual(root: &Root) -> bool {
    let text = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}
