//! The refs of a remote repository, and lookup by short names.

use names::CommitId;

use crate::error::{ErrorKind, Failure};
use crate::git_ref::GitRef;

/// One ref in a server's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRef {
    /// The full name, such as `refs/tags/v0.11.0`.
    pub name: String,
    /// Its target: a commit, or the object of an annotated tag.
    pub id: String,
    /// The final target of an annotated tag.
    pub peeled: Option<String>,
}

/// `HEAD` and all branches and tags of a remote repository.
#[derive(Debug, Clone, Default)]
pub struct RemoteRefs {
    pub(crate) refs: Vec<RemoteRef>,
}

/// A ref that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The full name of the ref that was found.
    pub name: String,
    /// The commit that it points to, after peeling.
    pub commit: CommitId,
}

impl RemoteRefs {
    /// Returns all refs, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &RemoteRef> {
        self.refs.iter()
    }

    /// Returns the short names of all tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.refs.iter().filter_map(|one| one.name.strip_prefix("refs/tags/"))
    }

    /// Returns the ref that `name` refers to: the ref with this full name, or else the tag, or else
    /// the branch.
    pub fn find(&self, name: &GitRef) -> Option<&RemoteRef> {
        let candidates = name.candidates();
        candidates.iter().find_map(|whole| self.refs.iter().find(|one| one.name == *whole))
    }

    /// Returns the full names of the refs that point to `commit`.
    pub fn leading_to<'a>(&'a self, commit: &'a CommitId) -> impl Iterator<Item = &'a str> {
        let fits = move |one: &&RemoteRef| one.target() == commit.as_str();
        self.refs.iter().filter(fits).map(|one| one.name.as_str())
    }

    pub(crate) fn resolve(&self, name: &GitRef) -> Result<Resolved, Failure> {
        let Some(found) = self.find(name) else {
            let detail = format!("there is no tag or branch `{name}`");
            return Err(Failure::fatal(ErrorKind::NotFound, detail));
        };
        let commit = found.target().parse().map_err(|_| {
            let detail = format!("`{}` points at something that is not a commit", found.name);
            Failure::fatal(ErrorKind::Tool, detail)
        })?;
        Ok(Resolved { name: found.name.clone(), commit })
    }
}

impl RemoteRef {
    /// Returns the commit that this ref points to, after peeling an annotated tag.
    pub fn target(&self) -> &str {
        self.peeled.as_deref().unwrap_or(&self.id)
    }
}
