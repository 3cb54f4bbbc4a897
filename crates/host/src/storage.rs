//! Disk space, and leftovers of engines.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use names::EngineKind;

use crate::access::at_home;
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
const LEFTOVERS: [&str; 4] = ["libpod_builder", "buildah", "container_images_", "storage"];

pub(crate) fn read(root: &Root, home: Option<&str>, uid: u32) -> Storage {
    let stores = EngineKind::ALL.into_iter().flat_map(|kind| kind.facts().stores);
    let stores: Vec<String> = stores.filter_map(|store| at_home(store, home)).collect();
    let disks = if root.is_recorded() {
        root.recorded("disk").filter_map(recorded_disk).collect()
    } else {
        stores.iter().filter_map(|path| disk(&root.path(path), &format!("/{path}"))).collect()
    };
    let leftovers = root.names("var/tmp").into_iter().filter(|name| {
        let is_ours = || {
            let metadata = root.path(&format!("var/tmp/{name}")).symlink_metadata();
            root.is_recorded() || metadata.is_ok_and(|metadata| metadata.uid() == uid)
        };
        LEFTOVERS.iter().any(|start| name.starts_with(start)) && is_ours()
    });
    Storage {
        disks,
        leftovers: leftovers.map(|name| format!("/var/tmp/{name}")).collect(),
        broken: stores.iter().flat_map(|store| broken(root, store)).collect(),
    }
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
