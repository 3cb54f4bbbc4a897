//! Release archives, fetched by hash and opened as trees that can be patched.

use std::collections::BTreeMap;
use std::path::Path;

use patcher::{Patch, PatchSet, TreePath, Unreadable, parse_patch};
use sources::{ArchiveLimits, ArchiveSource, ErrorKind, Mode, Settings, Sources};
use testkit::Release;

/// The tree of a release, read directly from its archive.
#[derive(Clone)]
pub(crate) struct Released(pub(crate) sources::Tree);

impl patcher::Tree for Released {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        match self.0.mode(path.as_str()) {
            None => Ok(None),
            Some(Mode::Symlink) => Err(Unreadable("it is a symbolic link".to_owned())),
            Some(Mode::File | Mode::Executable) => {
                let bytes = self.0.read_file(path.as_str());
                bytes.map(Some).map_err(|error| Unreadable(error.to_string()))
            }
        }
    }
}

/// Returns the tree of a release. Downloads its archive if it is not cached.
pub(crate) fn open(release: &Release) -> Released {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let archive = runtime.block_on(fetch(release));
    let tree = archive.tree(&ArchiveLimits::default(), release.subdirectory.as_deref());
    Released(tree.unwrap_or_else(|error| panic!("{}: {error}", release.file)))
}

async fn fetch(release: &Release) -> sources::Archive {
    let sources = Sources::new(Settings::new(testkit::releases_cache()));
    let mut source = ArchiveSource {
        project: release.project.clone(),
        version: release.version.clone(),
        sha256: release.sha256.parse().unwrap(),
        url: None,
    };
    match sources.fetch_archive(&source).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => return result.unwrap(),
    }
    let index = testkit::python_index().parse().unwrap();
    let files = sources.releases(&index, &release.project).await.unwrap();
    let file = files.into_iter().find(|file| file.name == release.file);
    source.url = Some(file.unwrap_or_else(|| panic!("the index has no {}", release.file)).url);
    sources.fetch_archive(&source).await.unwrap()
}

/// Returns the releases of a component, in the order of the list.
pub(crate) fn releases(component: &str) -> Vec<Release> {
    testkit::releases().into_iter().filter(|release| release.component == component).collect()
}

/// Returns the project's patches for a component.
pub(crate) fn patches(component: &str) -> PatchSet {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../patches").join(component);
    let mut patches: BTreeMap<String, Patch> = BTreeMap::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let patch = parse_patch(&path.display().to_string(), &text).unwrap();
        patches.insert(patch.id.clone(), patch);
    }
    PatchSet::new(patches.into_values().collect()).unwrap()
}
