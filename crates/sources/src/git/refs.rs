//! The refs of a remote repository, and which of them a short name means.

use names::CommitId;

use crate::error::{ErrorKind, Failure};
use crate::git_ref::GitRef;

/// One ref as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRef {
    /// The whole name, `refs/tags/v0.11.0`.
    pub name: String,
    /// What it points at: a commit, or the object of an annotated tag.
    pub id: String,
    /// What an annotated tag names in the end.
    pub peeled: Option<String>,
}

/// All branches and tags of a remote repository.
#[derive(Debug, Clone, Default)]
pub struct RemoteRefs {
    pub(crate) refs: Vec<RemoteRef>,
}

/// A ref that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The whole name that the ref turned out to mean.
    pub name: String,
    /// The commit it leads to.
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

    /// Returns the ref that `name` means: a whole name, else the tag, else the branch.
    pub fn find(&self, name: &GitRef) -> Option<&RemoteRef> {
        let candidates = name.candidates();
        candidates.iter().find_map(|whole| self.refs.iter().find(|one| one.name == *whole))
    }

    /// Returns the names of the tags and branches that lead to `commit`.
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
            let detail = format!("`{}` points at something that is no commit", found.name);
            Failure::fatal(ErrorKind::Tool, detail)
        })?;
        Ok(Resolved { name: found.name.clone(), commit })
    }
}

impl RemoteRef {
    /// Returns the commit it leads to, through an annotated tag where it is one.
    pub fn target(&self) -> &str {
        self.peeled.as_deref().unwrap_or(&self.id)
    }
}
