//! The shared cache of git objects: one bare repository per URL.
//!
//! `git` can read these repositories, but nothing in them is trusted. For each pinned commit
//! (`refs/pins/<commit>`), a receipt (`receipts/<commit>`) lists the packs of its tree with their
//! SHA-256; it is written last. A commit counts as cached if its receipt exists and all its packs
//! match. A pack that has not been touched since it was hashed is not hashed again. Anything that
//! no receipt lists is removed, so that incomplete packs are never used.
//!
//! Only one process at a time changes a repository; it holds `<repository>.lock` while it does so.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use names::{CommitId, Sha256};

use super::objects::{ObjectStore, Snapshot};
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure};
use crate::files::{self, Lock};
use crate::text;

/// The maximum number of packs for the tree of a commit. A commit with this many packs is not
/// reported to a server as known.
const MAX_CHAIN: usize = 4;
/// The content of the file that identifies the format of receipts. If it differs, the repository is
/// created again.
const FORMAT: &str = "build-pipeline sources/1\n";

/// One cached repository.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    path: PathBuf,
}

/// A file in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Packed {
    sha256: Sha256,
    size: u64,
    name: String,
}

impl Repository {
    /// Returns the repository of a URL in the `git` folder of the cache.
    pub(crate) fn of(folder: &Path, url: &SourceUrl) -> Self {
        let hash = names::Digest::of(url.identity().as_bytes()).hex()[..24].to_owned();
        let last = url.identity().rsplit('/').next().unwrap_or_default();
        let name: String =
            last.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let name = &name[..name.len().min(40)];
        Self { path: folder.join(format!("{name}-{hash}.git")) }
    }

    /// Returns its folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the lock file that guards changes to the repository.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// Returns the folder of the packs.
    pub(crate) fn packs(&self) -> PathBuf {
        self.path.join("objects/pack")
    }

    fn receipt_path(&self, commit: &CommitId) -> PathBuf {
        self.path.join("receipts").join(commit.as_str())
    }

    /// Returns the tree of a commit, if it is complete and undamaged.
    pub(crate) fn find(&self, commit: &CommitId) -> Option<Snapshot> {
        let receipt = self.receipt(commit)?;
        if receipt.iter().all(|packed| self.is_whole(packed)) {
            self.open()?.snapshot(commit).ok()
        } else {
            None
        }
    }

    fn is_whole(&self, packed: &Packed) -> bool {
        let Packed { sha256, size, name } = packed;
        let seen = self.path.join("seen").join(name);
        files::find_by_hash(&self.packs().join(name), sha256, &seen) == Some(*size)
    }

    fn open(&self) -> Option<Arc<ObjectStore>> {
        ObjectStore::open(&self.path.join("objects")).ok().map(Arc::new)
    }

    /// Reads the receipt of a commit.
    fn receipt(&self, commit: &CommitId) -> Option<Vec<Packed>> {
        let text = fs::read_to_string(self.receipt_path(commit)).ok()?;
        let line = |line: &str| {
            let mut words = line.split(' ');
            let (sha256, size, name) = (words.next()?, words.next()?, words.next()?);
            let is_name = name.starts_with("pack-") && !name.contains('/');
            (is_name && words.next().is_none()).then_some(())?;
            Some(Packed {
                sha256: sha256.parse().ok()?,
                size: size.parse().ok()?,
                name: name.to_owned(),
            })
        };
        let lines: Option<Vec<Packed>> = text.lines().map(line).collect();
        lines.filter(|lines| !lines.is_empty())
    }

    fn receipts(&self) -> Vec<(CommitId, Vec<Packed>)> {
        let entries = fs::read_dir(self.path.join("receipts")).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let commits = names.filter_map(|name| name.parse::<CommitId>().ok());
        commits.filter_map(|commit| Some((commit.clone(), self.receipt(&commit)?))).collect()
    }

    /// Prepares the repository for a new pack. The lock proves that no other process is changing
    /// it.
    ///
    /// Removes damaged packs, and the receipts that list them.
    pub(crate) fn prepare(&self, _: &Lock) -> Result<(), Failure> {
        let at = |name: &str| self.path.join(name);
        if fs::read_to_string(at("format")).ok().as_deref() != Some(FORMAT) {
            files::remove_folder(&self.path)?;
        }
        for folder in
            ["objects/pack", "objects/info", "refs/heads", "refs/pins", "receipts", "seen"]
        {
            files::create_folder(&at(folder))?;
        }
        for (name, content) in [
            ("HEAD", "ref: refs/heads/none\n"),
            ("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
            ("format", FORMAT),
        ] {
            if fs::read_to_string(at(name)).ok().as_deref() != Some(content) {
                files::write_unsynced(&at(name), content.as_bytes())?;
            }
        }
        let mut whole = BTreeSet::new();
        let mut damaged = BTreeSet::new();
        let mut kept = BTreeSet::new();
        for (commit, receipt) in self.receipts() {
            for packed in &receipt {
                if whole.contains(packed) || damaged.contains(packed) {
                    continue;
                }
                if self.is_whole(packed) {
                    whole.insert(packed.clone())
                } else {
                    damaged.insert(packed.clone())
                };
            }
            if receipt.iter().all(|packed| whole.contains(packed)) {
                kept.insert(commit.as_str().to_owned());
            }
        }
        let packs: BTreeSet<String> = whole.into_iter().map(|packed| packed.name).collect();
        files::keep_only(&self.packs(), |name| packs.contains(name))?;
        files::keep_only(&at("seen"), |name| packs.contains(name))?;
        files::keep_only(&at("receipts"), |name| kept.contains(name))?;
        files::keep_only(&at("refs/pins"), |name| kept.contains(name))
    }

    /// Returns a commit with a complete tree, which can be reported to a server, and its packs.
    fn base(&self) -> Option<(CommitId, Vec<Packed>)> {
        let fitting = self.receipts().into_iter().filter(|(_, receipt)| {
            receipt.iter().filter(|packed| packed.name.ends_with(".pack")).count() < MAX_CHAIN
        });
        let time =
            |commit: &CommitId| fs::metadata(self.receipt_path(commit)).ok()?.modified().ok();
        fitting.max_by_key(|(commit, _)| time(commit))
    }

    /// Returns the commits to report to a server, so that it sends only the difference.
    pub(crate) fn known(&self) -> Vec<CommitId> {
        self.base().map(|(commit, _)| commit).into_iter().collect()
    }

    /// Accepts a pack that is already in the folder of packs, and returns the tree of `commit`, for
    /// which it was fetched. All objects of the tree must exist.
    pub(crate) fn accept(
        &self,
        _: &Lock,
        commit: &CommitId,
        pack: &str,
        known: &[CommitId],
    ) -> Result<Snapshot, Failure> {
        let store = Arc::new(ObjectStore::open(&self.path.join("objects"))?);
        let snapshot = store.snapshot(commit).map_err(|failure| match failure.kind {
            ErrorKind::Integrity => Failure {
                detail: format!("the server did not send everything: {}", failure.detail),
                ..failure
            },
            _ => failure,
        })?;
        let mut receipt = Vec::new();
        for end in ["pack", "idx"] {
            let name = format!("pack-{pack}.{end}");
            let path = self.packs().join(&name);
            files::sync(&path)?;
            let stamp = files::stamp(&path).unwrap_or_default();
            let (sha256, size) = files::hash_file(&path)?;
            files::remember(&path, &sha256, &self.path.join("seen").join(&name), &stamp);
            receipt.push(Packed { sha256, size, name });
        }
        if let Some((_, packs)) = self.base().filter(|(base, _)| known.contains(base)) {
            receipt.extend(packs);
        }
        files::sync_folder(&self.packs())?;
        let mut lines = Vec::new();
        for Packed { sha256, size, name } in &receipt {
            lines.extend_from_slice(format!("{sha256} {size} {name}\n").as_bytes());
        }
        self.mark_shallow(commit)?;
        let reference = self.path.join("refs/pins").join(commit.as_str());
        files::write_unsynced(&reference, format!("{commit}\n").as_bytes())?;
        files::write_file(&self.receipt_path(commit), &lines)?;
        Ok(snapshot)
    }

    /// Tells `git` that the history of pinned commits is not available.
    fn mark_shallow(&self, commit: &CommitId) -> Result<(), Failure> {
        let commits = self.receipts().into_iter().map(|(pinned, _)| pinned);
        let all: BTreeSet<CommitId> = commits.chain([commit.clone()]).collect();
        let text: String = all.iter().map(|pinned| format!("{pinned}\n")).collect();
        files::write_unsynced(&self.path.join("shallow"), text.as_bytes())
    }
}

/// Indexes a pack as it arrives.
///
/// The indexer may hold a pointer to `_objects`, so that field is declared last and dropped last.
pub(crate) struct PackWriter {
    indexer: git2::Indexer<'static>,
    folder: PathBuf,
    _objects: Option<git2::Odb<'static>>,
}

impl PackWriter {
    /// Starts a pack in `folder`, under a temporary name until [`Self::finish`].
    pub(crate) fn new(folder: &Path) -> Result<Self, Failure> {
        Self::with(folder, None)
    }

    /// Like [`Self::new`], for a pack that builds on other packs in `folder`.
    pub(crate) fn beside(folder: &Path) -> Result<Self, Failure> {
        let objects = folder.parent().unwrap_or(folder);
        Self::with(folder, Some(super::objects::open(objects)?))
    }

    fn with(folder: &Path, objects: Option<git2::Odb<'static>>) -> Result<Self, Failure> {
        let indexer = git2::Indexer::new(objects.as_ref(), folder, 0o644, false);
        let indexer = indexer.map_err(|error| {
            let folder = text::quoted(&folder.display().to_string());
            Failure::fatal(ErrorKind::Disk, format!("cannot create a pack in {folder}"))
                .because(&error)
        })?;
        Ok(Self { indexer, folder: folder.to_owned(), _objects: objects })
    }

    /// Adds the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.indexer.write_all(bytes).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<git2::Error>());
            match inner {
                Some(git_error) => self.judge(git_error),
                None => Failure::disk("written", &self.folder, &error),
            }
        })
    }

    /// Moves the pack and its index into place, and returns the hash of the pack.
    pub(crate) fn finish(self) -> Result<String, Failure> {
        let folder = self.folder.clone();
        self.indexer.commit().map_err(|error| judge(&folder, &error))
    }

    fn judge(&self, error: &git2::Error) -> Failure {
        judge(&self.folder, error)
    }
}

/// Turns an error from the indexer into a failure: the disk cannot be written, or the pack is
/// damaged.
fn judge(folder: &Path, error: &git2::Error) -> Failure {
    let words = error.message().to_ascii_lowercase();
    let is_disk = error.class() == git2::ErrorClass::Os
        || ["no space", "quota", "failed to write", "permission"].iter().any(|w| words.contains(w));
    if is_disk {
        let error = io::Error::other(error.message().to_owned());
        return Failure::disk("written", folder, &error);
    }
    Failure::passing(ErrorKind::Integrity, "the pack that the server sent is damaged")
        .because(error)
}
