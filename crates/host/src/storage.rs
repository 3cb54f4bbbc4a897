//! Disk space, and leftovers of engines.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use names::EngineKind;

use crate::access::{Engine, User, at_home};
use crate::root::Root;

/// A place where images are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The directory.
    pub path: String,
    /// The number of bytes that an ordinary user can still write.
    pub free: u64,
}

/// An image without a manifest in podman's store. It makes every command that lists images fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenImage {
    /// The store's directory.
    pub store: String,
    /// The image's ID.
    pub id: String,
}

/// The storage of engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) disks: Vec<Disk>,
    pub(crate) leftovers: Vec<String>,
    pub(crate) broken: Vec<BrokenImage>,
}

/// The prefixes of the folders that killed builds leave in `/var/tmp`, each with a whole build
/// context in it.
pub(crate) const LEFTOVERS: [&str; 4] =
    ["libpod_builder", "buildah", "container_images_", "storage"];

/// Younger folders may belong to a build that is running.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the storage of engines: in the usual places, and in those of `engines`.
pub(crate) fn read(root: &Root, home: Option<&str>, uid: u32, engines: &[Engine]) -> Storage {
    let usual = EngineKind::ALL.into_iter().flat_map(|kind| kind.facts().stores);
    let mut stores: Vec<String> = usual.filter_map(|store| at_home(store, home)).collect();
    for store in engines.iter().filter_map(|engine| engine.store.as_deref()) {
        let store = store.trim_matches('/').to_owned();
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    let disks = if root.is_recorded() {
        root.recorded("disk").filter_map(recorded_disk).collect()
    } else {
        stores.iter().filter_map(|path| disk(&root.path(path), &format!("/{path}"))).collect()
    };
    let leftovers = root.names("var/tmp").into_iter().filter(|name| {
        let is_ours = || {
            let metadata = root.path(&format!("var/tmp/{name}")).symlink_metadata();
            root.is_recorded() || metadata.is_ok_and(|metadata| is_leftover(&metadata, uid))
        };
        LEFTOVERS.iter().any(|start| name.starts_with(start)) && is_ours()
    });
    Storage {
        disks,
        leftovers: leftovers.map(|name| format!("/var/tmp/{name}")).collect(),
        broken: stores.iter().flat_map(|store| broken(root, store)).collect(),
    }
}

/// Returns whether a file is a folder of the user that nothing was added to for a day. A build that is
/// running has newer ones.
fn is_leftover(metadata: &Metadata, uid: u32) -> bool {
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    metadata.is_dir() && metadata.uid() == uid && age.is_some_and(|age| age > DAY)
}

/// Returns the folder in which an engine keeps its images: the one that its files name, otherwise
/// the usual one.
pub(crate) fn store(
    root: &Root,
    kind: EngineKind,
    user: &User,
    is_rootless: bool,
    home: Option<&str>,
) -> Option<String> {
    let facts = kind.facts();
    let is_for = |file: &&&str| is_rootless || !file.starts_with('~');
    let configured = facts.store_files.iter().filter(is_for).find_map(|file| {
        let text = root.text(&at_home(file, home)?)?;
        if file.ends_with(".json") {
            let json: serde_json::Value = serde_json::from_str(&text).ok()?;
            return Some(json.get("data-root")?.as_str()?.to_owned());
        }
        // The files of the system name the folder of rootless engines under another key.
        let is_shared = is_rootless && !file.starts_with('~');
        storage_key(&text, if is_shared { "rootless_storage_path" } else { "graphroot" })
    });
    let configured = configured.map(|path| {
        let (uid, name) = (user.uid.to_string(), user.name.as_deref().unwrap_or_default());
        path.replace("$HOME", home.unwrap_or_default().trim_end_matches('/'))
            .replace("$UID", &uid)
            .replace("$USER", name)
    });
    configured.filter(|path| path.starts_with('/')).or_else(|| {
        let path = facts.stores.iter().find(|path| path.starts_with('~') == is_rootless)?;
        Some(format!("/{}", at_home(path, home)?))
    })
}

/// Returns the value of a key in the table `[storage]` of a `storage.conf`.
fn storage_key(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "[storage]").skip(1);
    let value = lines.take_while(|line| !line.starts_with('[')).find_map(|line| {
        line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')
    })?;
    let (value, _) = value.split_once('"')?;
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

impl Disk {
    /// Reads the free space of a directory of this machine.
    pub fn of(path: &str) -> Option<Self> {
        disk(Path::new(path), path)
    }
}

/// Reads the free space of the directory at `place`, which is called `path`.
fn disk(place: &Path, path: &str) -> Option<Disk> {
    let facts = rustix::fs::statvfs(place).ok()?;
    Some(Disk { path: path.to_owned(), free: facts.f_bavail.checked_mul(facts.f_frsize)? })
}

/// Reads `/var/lib/containers/storage 500000000000`.
fn recorded_disk(line: &str) -> Option<Disk> {
    let (path, free) = line.rsplit_once(' ')?;
    Some(Disk { path: path.to_owned(), free: free.parse().ok()? })
}

/// Returns the images that a podman store lists although they have no manifest. A `podman build`
/// that is killed during a commit leaves such images.
fn broken(root: &Root, store: &str) -> Vec<BrokenImage> {
    let folder = format!("{store}/overlay-images");
    let Some(list) = root.text(&format!("{folder}/images.json")) else { return Vec::new() };
    let is_broken = |id: &String| {
        id.len() == 64
            && list.contains(&format!("\"{id}\""))
            && !root.has(&format!("{folder}/{id}/manifest"))
    };
    let ids = root.names(&folder).into_iter().filter(is_broken);
    ids.map(|id| BrokenImage { store: format!("/{store}"), id }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> User {
        let name = Some("alex".to_owned());
        User { uid, name, gids: Vec::new(), listed: Vec::new(), has_subids: false }
    }

    /// Returns where an engine keeps its images if one file has this content.
    fn of(kind: EngineKind, is_rootless: bool, file: &str, text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        let user = user(if is_rootless { 1000 } else { 0 });
        store(&Root::new(folder.path()), kind, &user, is_rootless, Some("/home/alex")).unwrap()
    }

    #[test]
    fn the_configured_store_is_found_before_the_usual_one() {
        let (podman, docker) = (EngineKind::Podman, EngineKind::Docker);
        let (system, own) =
            ("etc/containers/storage.conf", "home/alex/.config/containers/storage.conf");
        let usual = "/home/alex/.local/share/containers/storage";
        let moved = "# graphroot = \"/no\"\n[storage]\ndriver = \"overlay\"\ngraphroot = \"/data/images\" # big\n";
        let shared = "[storage]\ngraphroot = \"/data\"\nrootless_storage_path = \"/data/$USER-$UID$HOME/x\"\n";
        for (kind, is_rootless, file, text, wanted) in [
            (podman, false, system, moved, "/data/images"),
            (podman, false, "usr/share/containers/storage.conf", moved, "/data/images"),
            (podman, true, own, moved, "/data/images"),
            // The system's `graphroot` is not for rootless engines, and the user's not for root.
            (podman, true, system, moved, usual),
            (podman, false, own, moved, "/var/lib/containers/storage"),
            (podman, true, system, shared, "/data/alex-1000/home/alex/x"),
            (
                podman,
                false,
                system,
                "[storage.options]\ngraphroot = \"/no\"\n",
                "/var/lib/containers/storage",
            ),
            (
                podman,
                false,
                system,
                "[storage]\n[storage.options]\ngraphroot = \"/no\"\n",
                "/var/lib/containers/storage",
            ),
            (podman, false, system, "[storage]\ngraphroot = \"\"\n", "/var/lib/containers/storage"),
            (
                docker,
                false,
                "etc/docker/daemon.json",
                "{\"data-root\":\"/data/docker\"}",
                "/data/docker",
            ),
            (docker, false, "etc/docker/daemon.json", "{", "/var/lib/docker"),
        ] {
            assert_eq!(of(kind, is_rootless, file, text), wanted, "{file}: {text}");
        }
    }

    #[test]
    fn the_disk_of_a_configured_store_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("data/images")).unwrap();
        let engine = Engine::new(EngineKind::Podman, None, false);
        let engine = Engine { store: Some("/data/images".to_owned()), ..engine };
        let storage = read(&Root::new(folder.path()), None, 0, &[engine]);
        let paths: Vec<&str> = storage.disks.iter().map(|disk| disk.path.as_str()).collect();
        assert_eq!(paths, ["/data/images"]);
    }
}
