//! Reads a repository on this machine, if the caller allows it.
//!
//! No program is run. libgit2 packs the objects of one commit, and the pack is processed like a
//! pack from a server, so that all checks are the same.

use std::path::Path;

use git2::{Repository, RepositoryOpenFlags};
use names::CommitId;

use super::objects::oid;
use super::refs::RemoteRef;
use super::repository::PackWriter;
use crate::address::SourceUrl;
use crate::error::{ErrorKind, Failure};
use crate::text;

fn open(path: &Path) -> Result<Repository, Failure> {
    let nowhere: [&Path; 0] = [];
    // Opens the folder itself or the `.git` in it, but never a parent folder.
    Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, nowhere).map_err(|error| {
        let (kind, detail) = match error.code() {
            git2::ErrorCode::NotFound => {
                (ErrorKind::NotFound, "there is no git repository at this path")
            }
            git2::ErrorCode::Owner => {
                (ErrorKind::Refused, "the repository belongs to another user of this machine")
            }
            _ => (ErrorKind::Disk, "cannot open the repository"),
        };
        Failure::fatal(kind, detail).because(&error)
    })
}

fn unreadable(error: &git2::Error) -> Failure {
    Failure::fatal(ErrorKind::Disk, "cannot read the repository").because(error)
}

/// Returns `HEAD`, the branches and the tags of a repository.
pub(super) fn refs(url: &SourceUrl) -> Result<Vec<RemoteRef>, Failure> {
    let repository = open(Path::new(url.url().path()))?;
    let mut found = Vec::new();
    let head = repository.head().and_then(|head| head.peel_to_commit());
    if let Ok(head) = head {
        let id = head.id().to_string();
        found.push(RemoteRef { name: "HEAD".to_owned(), id, peeled: None });
    }
    for reference in repository.references().map_err(|error| unreadable(&error))? {
        let reference = reference.map_err(|error| unreadable(&error))?;
        let name = String::from_utf8_lossy(reference.name_bytes()).into_owned();
        let is_wanted = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
        let target = reference.resolve().ok().and_then(|reference| reference.target());
        let Some(id) = target.filter(|_| is_wanted) else { continue };
        let peeled = reference.peel(git2::ObjectType::Any).ok().map(|object| object.id());
        let peeled = peeled.filter(|peeled| *peeled != id).map(|peeled| peeled.to_string());
        found.push(RemoteRef { name, id: id.to_string(), peeled });
    }
    Ok(found)
}

/// Packs a commit of a repository, like [`pack_of`].
pub(super) fn pack(url: &SourceUrl, commit: &CommitId, folder: &Path) -> Result<String, Failure> {
    pack_of(Path::new(url.url().path()), commit, folder)
}

/// Packs a commit without its history, and returns the hash of the pack. The same commit always
/// gives the same bytes.
pub(super) fn pack_of(path: &Path, commit: &CommitId, folder: &Path) -> Result<String, Failure> {
    let repository = open(path)?;
    let id = oid(commit)?;
    let object = repository.find_object(id, None).map_err(|error| match error.code() {
        git2::ErrorCode::NotFound => {
            Failure::fatal(ErrorKind::NotFound, "the repository does not have this commit")
        }
        _ => unreadable(&error),
    })?;
    let mut builder = repository.packbuilder().map_err(|error| unreadable(&error))?;
    let mut insert = || {
        builder.insert_object(id, None)?;
        if let Some(commit_object) = object.as_commit() {
            builder.insert_tree(commit_object.tree_id())?;
        }
        Ok(())
    };
    insert().map_err(|error: git2::Error| {
        let path = text::quoted(&path.display().to_string());
        let detail = format!("the repository {path} lacks a part of this commit");
        Failure::fatal(ErrorKind::Integrity, detail).because(&error)
    })?;
    let mut writer = PackWriter::new(folder)?;
    let mut failed = None;
    let packed = builder.foreach(|bytes| match writer.write(bytes) {
        Ok(()) => true,
        Err(failure) => {
            failed = Some(failure);
            false
        }
    });
    match (failed, packed) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(unreadable(&error)),
        (None, Ok(())) => writer.finish(),
    }
}
