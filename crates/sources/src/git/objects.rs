//! Reads commits, trees and files from the objects of a local git repository.
//!
//! The object database is opened directly, without a repository, so that libgit2 reads no
//! configuration of the system, of the user or from anywhere else. Objects are in packs. libgit2
//! checks each object when it arrives, and the SHA-256 of a pack is checked before the pack is read
//! again, so objects are not hashed each time they are read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{ObjectType, Odb, OdbObject, Oid};
use names::CommitId;

use crate::error::{ErrorKind, Failure};
use crate::git_ref::TreePath;
use crate::text;
use crate::tree::{Content, Mode, Tree, refusal};

/// The maximum depth of directories.
const MAX_DEPTH: usize = 200;

/// The objects of one repository.
pub(crate) struct ObjectStore {
    odb: Odb<'static>,
    path: PathBuf,
}

/// A submodule as recorded in a tree: its path and its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gitlink {
    pub(crate) path: TreePath,
    pub(crate) commit: CommitId,
}

/// A tree, and its submodules.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: Tree,
    pub(crate) gitlinks: Vec<Gitlink>,
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Opens the `objects` folder of a repository, and nothing else.
pub(super) fn open(objects: &Path) -> Result<Odb<'static>, Failure> {
    git2::opts::strict_hash_verification(false);
    let open = || {
        let odb = Odb::new()?;
        let text = objects.to_str().ok_or_else(|| git2::Error::from_str("not UTF-8"))?;
        odb.add_disk_alternate(text)?;
        Ok(odb)
    };
    open().map_err(|error: git2::Error| {
        let path = text::quoted(&objects.display().to_string());
        let detail = format!("cannot open the git objects in {path}");
        Failure::fatal(ErrorKind::Disk, detail).because(&error)
    })
}

impl ObjectStore {
    /// Opens the `objects` folder of a repository.
    pub(crate) fn open(objects: &Path) -> Result<Self, Failure> {
        Ok(Self { odb: open(objects)?, path: objects.to_owned() })
    }

    /// Returns a file's object.
    pub(crate) fn blob(&self, id: Oid) -> Result<OdbObject<'_>, Failure> {
        self.object(id, ObjectType::Blob)
    }

    /// Returns the size of a file's object in bytes, without reading it.
    pub(crate) fn size(&self, id: Oid) -> Result<u64, Failure> {
        let (size, _) = self.odb.read_header(id).map_err(|error| self.damaged(id, &error))?;
        Ok(size as u64)
    }

    /// Returns the bytes of an object of a known kind.
    fn object(&self, id: Oid, kind: ObjectType) -> Result<OdbObject<'_>, Failure> {
        let object = self.odb.read(id).map_err(|error| self.damaged(id, &error))?;
        if object.kind() == kind {
            Ok(object)
        } else {
            Err(Failure::fatal(
                ErrorKind::Integrity,
                format!("the git object `{id}` is a {}, not a {kind}", object.kind()),
            ))
        }
    }

    fn damaged(&self, id: Oid, error: &git2::Error) -> Failure {
        let path = text::quoted(&self.path.display().to_string());
        let what = match error.code() {
            git2::ErrorCode::NotFound => "is missing",
            _ => "is damaged",
        };
        let detail = format!("the git object `{id}` in {path} {what}");
        Failure::fatal(ErrorKind::Integrity, detail).because(error)
    }

    /// Returns the tree id of a commit. The object must exist and be a commit.
    pub(crate) fn tree_of(&self, commit: &CommitId) -> Result<Oid, Failure> {
        let commit_id = oid(commit)?;
        let object = self.odb.read(commit_id).map_err(|error| self.damaged(commit_id, &error))?;
        match object.kind() {
            ObjectType::Commit => {}
            ObjectType::Tag => {
                let target = header(object.data(), b"object ");
                let target =
                    target.map_or_else(String::new, |id| format!(" (it points to `{id}`)"));
                return Err(Failure::refused(format!(
                    "this is the hash of an annotated tag, not of a commit{target}"
                )));
            }
            kind => {
                let detail = format!("this is the hash of a {kind}, not of a commit");
                return Err(Failure::refused(detail));
            }
        }
        header(object.data(), b"tree ").and_then(|id| Oid::from_str(&id).ok()).ok_or_else(|| {
            Failure::fatal(
                ErrorKind::Integrity,
                format!("the commit `{commit}` does not point to a tree"),
            )
        })
    }

    /// Returns the tree and the submodules of a commit. Every object must exist.
    pub(crate) fn snapshot(self: &Arc<Self>, commit: &CommitId) -> Result<Snapshot, Failure> {
        let mut tree = Tree::new();
        let mut gitlinks = Vec::new();
        let mut open = vec![(None::<TreePath>, self.tree_of(commit)?)];
        while let Some((base, id)) = open.pop() {
            if base.as_ref().is_some_and(|base| base.parents().count() >= MAX_DEPTH) {
                let detail = format!("directories are nested more than {MAX_DEPTH} levels deep");
                return Err(Failure::refused(detail));
            }
            let object = self.object(id, ObjectType::Tree)?;
            let mut rest = object.data();
            while !rest.is_empty() {
                let entry = tree_entry(&mut rest).ok_or_else(|| {
                    let detail = format!("the git tree `{id}` is damaged");
                    Failure::fatal(ErrorKind::Integrity, detail)
                })?;
                let name = TreePath::from_bytes(entry.name).map_err(refusal)?;
                let path = match &base {
                    None => name,
                    Some(base) => base.join(&name).map_err(refusal)?,
                };
                let mode = match entry.mode {
                    b"40000" | b"040000" => {
                        open.push((Some(path), entry.id));
                        continue;
                    }
                    b"160000" => {
                        let linked = entry.id.to_string().parse().map_err(|_| strange(&entry))?;
                        gitlinks.push(Gitlink { path, commit: linked });
                        continue;
                    }
                    b"120000" => Mode::Symlink,
                    b"100755" => Mode::Executable,
                    // Old versions of git also wrote 100664.
                    b"100644" | b"100664" => Mode::File,
                    _ => return Err(strange(&entry)),
                };
                if !self.odb.exists(entry.id) {
                    let missing = git2::Error::new(
                        git2::ErrorCode::NotFound,
                        git2::ErrorClass::Odb,
                        "not found",
                    );
                    return Err(self.damaged(entry.id, &missing));
                }
                let content = Content::Object { store: Arc::clone(self), id: entry.id };
                tree.add(path, mode, content)?;
            }
        }
        gitlinks.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Snapshot { tree, gitlinks })
    }
}

/// Returns a commit as a libgit2 object id.
pub(crate) fn oid(commit: &CommitId) -> Result<Oid, Failure> {
    match commit.as_str().len() {
        40 => Oid::from_str(commit.as_str())
            .map_err(|error| Failure::refused("it is not a commit").because(&error)),
        _ => Err(Failure::refused(
            "it is a SHA-256 commit, but only SHA-1 repositories are supported",
        )),
    }
}

/// One entry of a tree object.
struct TreeEntry<'a> {
    mode: &'a [u8],
    name: &'a [u8],
    id: Oid,
}

/// Parses the next entry of a tree object: mode, space, name, NUL, twenty bytes.
fn tree_entry<'a>(rest: &mut &'a [u8]) -> Option<TreeEntry<'a>> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let end = rest.iter().position(|byte| *byte == 0).filter(|end| *end > space)?;
    let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
    let entry = TreeEntry { mode: &rest[..space], name: &rest[space + 1..end], id };
    *rest = &rest[end + 21..];
    Some(entry)
}

fn strange(entry: &TreeEntry<'_>) -> Failure {
    let (name, mode) = (text::quoted_bytes(entry.name), text::quoted_bytes(entry.mode));
    Failure::refused(format!("{name} has the mode {mode}, which is not valid in a tree"))
}

/// Returns the hash after `key` at the start of a commit or tag.
fn header(data: &[u8], key: &[u8]) -> Option<String> {
    let hash = data.strip_prefix(key)?.split(|byte| *byte == b'\n').next()?;
    String::from_utf8(hash.to_vec()).ok().filter(|hash| hash.parse::<CommitId>().is_ok())
}
