//! Who may use the GPU: device nodes, the user, the groups, and the installed container engines.
//! All of this is read from files; the caller adds the facts that the engines report.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use names::{Builder, EngineKind};

use crate::root::Root;
use crate::snapshot::Caller;
use crate::storage;

/// A device node of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Its path, for example `/dev/kfd`.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// The user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user ID.
    pub uid: u32,
    /// The name in `/etc/passwd`.
    pub name: Option<String>,
    /// The groups of the running process, as of the last login.
    pub gids: Vec<u32>,
    /// The names of the groups that list the user in `/etc/group`, including those added since the
    /// login.
    pub listed: Vec<String>,
    /// Whether `/etc/subuid` and `/etc/subgid` assign IDs to the user.
    pub has_subids: bool,
}

/// A container engine. Facts that files do not show are `None`; the caller may fill them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// The kind of engine.
    pub kind: EngineKind,
    /// Its socket, if there is one; podman also runs without one.
    pub socket: Option<String>,
    /// Whether the engine runs as the user; podman without a socket does, unless the user is root.
    pub is_rootless: bool,
    /// Whether the user may connect to the socket.
    pub may_connect: Option<bool>,
    /// The engine's version.
    pub version: Option<String>,
    /// The OCI runtime that starts its containers, for example `crun`.
    pub runtime: Option<String>,
    /// The builder for Dockerfiles, if the engine reported it.
    pub builder: Option<Builder>,
    /// The release of the kernel that its containers use. Docker reports it; podman is not queried,
    /// because it responds slowly.
    pub kernel: Option<String>,
    /// The folder of its images, if it is known.
    pub store: Option<String>,
    /// How many user IDs and group IDs its containers have, if it reported that.
    pub user_ids: Option<u64>,
    /// Why it does not work, if it was asked and does not answer.
    pub trouble: Option<String>,
}

/// Which of the programs that engines start are installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// Those of `HELPERS` that are installed.
    pub installed: BTreeSet<String>,
    /// The program for firewall rules that podman's configuration selects, if it selects one.
    pub firewall: Option<String>,
}

/// The programs that engines start, and that distributions only recommend with them.
const HELPERS: [&str; 8] =
    ["newuidmap", "newgidmap", "crun", "runc", "netavark", "nft", "pasta", "slirp4netns"];

impl Engine {
    /// Returns an engine of which nothing else is known.
    pub fn new(kind: EngineKind, socket: Option<String>, is_rootless: bool) -> Self {
        Self {
            kind,
            socket,
            is_rootless,
            may_connect: None,
            version: None,
            runtime: None,
            builder: None,
            kernel: None,
            store: None,
            user_ids: None,
            trouble: None,
        }
    }

    /// Returns whether a build may use it, as far as is known.
    pub fn is_usable(&self) -> bool {
        self.may_connect != Some(false) && self.trouble.is_none()
    }
}

/// The user, the groups, the device nodes and the engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) devices: Vec<DeviceNode>,
    pub(crate) user: User,
    pub(crate) groups: BTreeMap<u32, String>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) programs: Option<Programs>,
    pub(crate) compose: Option<String>,
}

impl DeviceNode {
    /// Returns whether the user may read and write the node.
    pub fn is_open_to(&self, user: &User) -> bool {
        let bits = match () {
            () if user.uid == 0 => return true,
            () if user.uid == self.uid => self.mode >> 6,
            () if user.gids.contains(&self.gid) => self.mode >> 3,
            () => self.mode,
        };
        bits & 0o6 == 0o6
    }

    /// Returns whether the members of the node's group may read and write it.
    pub fn is_open_to_group(&self) -> bool {
        self.mode & 0o060 == 0o060
    }

    /// Returns whether everyone may write to the node.
    pub fn is_open_to_all(&self) -> bool {
        self.mode & 0o2 != 0
    }
}

pub(crate) fn read(root: &Root, caller: &Caller, home: Option<&str>) -> Access {
    let groups = root.text("etc/group").unwrap_or_default();
    let recorded = root.recorded("user").next().map(|line| {
        line.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<u32>>()
    });
    let (uid, gids) = match recorded.as_deref() {
        Some([uid, gids @ ..]) => (*uid, gids.to_vec()),
        _ => (caller.uid, caller.gids.clone()),
    };
    let passwd = root.text("etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    let has = |file: &str| {
        let text = root.text(file).unwrap_or_default();
        let number = uid.to_string();
        text.lines()
            .filter_map(|line| line.split(':').next())
            .any(|owner| owner == number || name.as_deref() == Some(owner))
    };
    let user = User {
        uid,
        gids,
        listed: listed_groups(&groups, name.as_deref()),
        has_subids: has("etc/subuid") && has("etc/subgid"),
        name,
    };
    Access {
        devices: devices(root),
        engines: engines(root, &user, home),
        compose: compose(root, home),
        programs: programs(root, home),
        groups: group_names(&groups),
        user,
    }
}

fn group_names(text: &str) -> BTreeMap<u32, String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    text.lines().filter_map(name).collect()
}

fn listed_groups(text: &str, user: Option<&str>) -> Vec<String> {
    let Some(user) = user else { return Vec::new() };
    let lists = |line: &&str| {
        line.rsplit(':').next().is_some_and(|members| members.split(',').any(|one| one == user))
    };
    let name = |line: &str| line.split(':').next().map(str::to_owned);
    text.lines().filter(lists).filter_map(name).collect()
}

/// Returns a path relative to `/`, with `~` replaced by the home folder; `None` if the path needs a
/// home folder and there is none.
pub(crate) fn at_home(path: &str, home: Option<&str>) -> Option<String> {
    match path.strip_prefix("~/") {
        Some(rest) => home.map(|home| format!("{}/{rest}", home.trim_matches('/'))),
        None => Some(path.to_owned()),
    }
}

/// Reads `/dev/kfd` and the nodes in `/dev/dri`.
fn devices(root: &Root) -> Vec<DeviceNode> {
    if root.is_recorded() {
        return root.recorded("device").filter_map(recorded_device).collect();
    }
    let in_dri = root.names("dev/dri").into_iter().map(|name| format!("dev/dri/{name}"));
    let nodes = ["dev/kfd".to_owned()].into_iter().chain(in_dri);
    nodes
        .filter_map(|path| {
            let metadata = root.path(&path).symlink_metadata().ok()?;
            metadata.file_type().is_char_device().then(|| DeviceNode {
                path: format!("/{path}"),
                mode: metadata.mode() & 0o7777,
                uid: metadata.uid(),
                gid: metadata.gid(),
            })
        })
        .collect()
}

/// Reads `/dev/kfd 660 0 105`: path, mode, owner, group.
fn recorded_device(line: &str) -> Option<DeviceNode> {
    let mut fields = line.split_whitespace();
    Some(DeviceNode {
        path: fields.next()?.to_owned(),
        mode: u32::from_str_radix(fields.next()?, 8).ok()?,
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
    })
}

/// Returns the path of an installed program.
fn program(root: &Root, name: &str) -> Option<String> {
    // The last folder is for NixOS.
    ["usr/bin", "usr/local/bin", "bin", "run/current-system/sw/bin"]
        .iter()
        .map(|folder| format!("{folder}/{name}"))
        .find(|path| root.has(path))
}

/// Returns the path of the program that `docker compose` or `podman compose` starts: docker's
/// plugin in one of the folders that docker searches, otherwise `docker-compose` or
/// `podman-compose`.
fn compose(root: &Root, home: Option<&str>) -> Option<String> {
    let own = home.map(|home| format!("{}/.docker", home.trim_matches('/')));
    let shared = ["usr/local/lib", "usr/local/libexec", "usr/lib", "usr/libexec"];
    let shared = shared.map(|folder| format!("{folder}/docker"));
    let plugin = own
        .into_iter()
        .chain(shared)
        .map(|folder| format!("{folder}/cli-plugins/docker-compose"))
        .find(|path| root.has(path));
    let found = plugin
        .or_else(|| program(root, "docker-compose"))
        .or_else(|| program(root, "podman-compose"))?;
    Some(format!("/{found}"))
}

/// Finds engines by their sockets and executables, without calling any.
fn engines(root: &Root, user: &User, home: Option<&str>) -> Vec<Engine> {
    let engine = |kind: EngineKind, socket: Option<&String>, is_rootless| {
        let is_rootless = is_rootless && user.uid != 0;
        let socket_path = socket.map(|path| format!("/{path}"));
        Engine {
            may_connect: socket.and_then(|path| may_connect(root, path, user)),
            runtime: runtime(root, kind.facts().runtime_files, home),
            store: storage::store(root, kind, user, is_rootless, home),
            ..Engine::new(kind, socket_path, is_rootless)
        }
    };
    let mut all = Vec::new();
    for kind in EngineKind::ALL {
        for paths in kind.facts().sockets {
            let own = |path: &&str| path.replace("{uid}", &user.uid.to_string());
            let is_rootless = paths.iter().any(|path| path.contains("{uid}"));
            let socket = paths.iter().map(own).find(|path| root.has(path));
            all.extend(socket.map(|path| engine(kind, Some(&path), is_rootless)));
        }
    }
    for kind in EngineKind::ALL {
        let facts = kind.facts();
        // An engine of the system is not the user's own.
        let is_known =
            all.iter().any(|one: &Engine| one.kind == kind && (one.is_rootless || user.uid == 0));
        if facts.is_daemonless && !is_known && program(root, facts.name).is_some() {
            all.push(engine(kind, None, true));
        }
    }
    all
}

/// Returns whether the user may write to a socket; `None` for a recorded machine or a symbolic
/// link.
fn may_connect(root: &Root, path: &str, user: &User) -> Option<bool> {
    let metadata = root.path(path).symlink_metadata().ok()?;
    if root.is_recorded() || metadata.file_type().is_symlink() {
        return None;
    }
    let node = DeviceNode {
        path: String::new(),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
    };
    Some(node.is_open_to(user))
}

/// Returns which programs of engines are installed. It is unknown for a recorded machine, unless it
/// says which are missing, and for a podman that is not a package of the distribution: it may have
/// its own programs elsewhere.
fn programs(root: &Root, home: Option<&str>) -> Option<Programs> {
    const FOLDERS: [&str; 10] = [
        "usr/bin",
        "usr/sbin",
        "usr/local/bin",
        "usr/local/sbin",
        "bin",
        "sbin",
        "usr/lib/podman",
        "usr/libexec/podman",
        "usr/local/lib/podman",
        "usr/local/libexec/podman",
    ];
    let missing: Vec<&str> =
        root.recorded("missing").flat_map(|line| line.split_whitespace()).collect();
    if root.is_recorded() && missing.is_empty() || !root.has("usr/bin/podman") {
        return None;
    }
    let is_installed = |name: &str| {
        if root.is_recorded() {
            return !missing.contains(&name);
        }
        FOLDERS.iter().any(|folder| root.has(&format!("{folder}/{name}")))
    };
    let files = EngineKind::Podman.facts().runtime_files;
    Some(Programs {
        installed: HELPERS
            .into_iter()
            .filter(|name| is_installed(name))
            .map(str::to_owned)
            .collect(),
        firewall: configured(root, files, "firewall_driver", home),
    })
}

/// Returns the value of a key in the first of an engine's configuration files that contains it.
fn configured(root: &Root, files: &[&str], key: &str, home: Option<&str>) -> Option<String> {
    files.iter().find_map(|file| {
        root.text(&at_home(file, home)?)?.lines().find_map(|line| {
            let value = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?;
            Some(value.trim().trim_matches('"').to_owned())
        })
    })
}

/// Returns the OCI runtime of an engine: the one in its configuration files, otherwise the first
/// installed one in podman's search order (containers.conf(5)). NixOS's package of podman contains
/// crun. `None` if the engine has no such files.
fn runtime(root: &Root, files: &[&str], home: Option<&str>) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    configured(root, files, "runtime", home).or_else(|| {
        let there = |name: &&str| {
            ["usr/bin", "usr/sbin", "usr/local/bin"]
                .iter()
                .any(|folder| root.has(&format!("{folder}/{name}")))
        };
        let of_nix = root.has("run/current-system/sw/bin/podman").then_some("crun");
        ["crun", "runc"].into_iter().find(there).or(of_nix).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gids: &[u32]) -> User {
        User { uid, name: None, gids: gids.to_vec(), listed: Vec::new(), has_subids: false }
    }

    #[test]
    fn the_first_of_owner_group_and_others_that_fits_decides() {
        for (mode, uid, gids, is_open) in [
            (0o660, 1000, &[105][..], true),
            (0o660, 1000, &[27], false),
            (0o666, 1000, &[27], true),
            (0o640, 1000, &[105], false),
            (0o606, 1000, &[105], false),
            (0o000, 0, &[], true),
        ] {
            let node = DeviceNode { path: "/dev/kfd".to_owned(), mode, uid: 0, gid: 105 };
            assert_eq!(node.is_open_to(&user(uid, gids)), is_open, "{mode:o} {uid} {gids:?}");
        }
    }

    #[test]
    fn groups_are_read_with_their_members() {
        let text = "root:x:0:\nvideo:x:44:alex,kim\nrender:x:105:kim\nbroken\nplus:x:y:kim\n";
        assert_eq!(
            group_names(text),
            BTreeMap::from([(0, "root".to_owned()), (44, "video".into()), (105, "render".into())])
        );
        assert_eq!(listed_groups(text, Some("kim")), ["video", "render", "plus"]);
        assert_eq!(listed_groups(text, Some("alex")), ["video"]);
        assert_eq!(listed_groups(text, None), [""; 0]);
    }
}
