//! Resolves git refs, fetches a git tree at a commit or an archive by SHA-256, and streams it as a
//! canonical tar.
//!
//! Where to start:
//! - [`Sources::refs`] and [`Sources::resolve`] say what a remote repository has, and
//!   [`Sources::reaches`] whether a branch still has a commit.
//! - [`Sources::fetch_git`] returns the [`Tree`] of a commit and its submodules, straight from git
//!   objects: nothing is checked out.
//! - [`Sources::releases`] says what a Python package index has of a project.
//! - [`Sources::fetch_archive`] returns an [`Archive`], whose [`Archive::tree`] is a [`Tree`] too.
//! - [`Tree::write_tar`] writes the same bytes for the same content, wherever it came from.
//!
//! This crate reads no environment and no configuration, neither git's nor its own, runs no
//! program and prints nothing. What is fetched is checked before anything reads it; what is cached
//! is checked again each time. A second fetch of the same commit or archive asks nobody.
//!
//! Futures may be dropped at any point: the cache then holds what it held before.

mod address;
mod archive;
mod error;
mod event;
mod files;
#[cfg(test)]
mod fuzz;
mod git;
mod git_ref;
mod http;
mod index;
mod session;
mod text;
mod tree;

use std::sync::Arc;

use names::{CommitId, Sha256};

pub use address::{Mirror, SourceUrl};
pub use archive::{Archive, ArchiveLimits, ArchiveSource};
pub use error::{ErrorKind, SourceError};
pub use event::Event;
pub use git::{
    FetchedGit, FetchedSubmodule, GitSource, Reach, RemoteRef, RemoteRefs, Resolved, Submodules,
};
pub use git_ref::{GitRef, ParseSourceError, TreePath};
pub use http::Timeouts;
pub use index::ReleaseFile;
pub use session::Settings;
pub use tree::{Mode, TarSummary, Tree, WriteTarError};

use crate::error::Failure;
use crate::session::Session;

/// Fetches sources into a cache, and out of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sources {
    session: Session,
}

impl Sources {
    /// Makes a way to fetch sources. Nothing is connected to and no file is touched yet.
    pub fn new(settings: Settings) -> Self {
        Self { session: Session::new(settings) }
    }

    /// Returns the same with `listener` told of all that happens.
    #[must_use]
    pub fn with_listener(&self, listener: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self { session: Session { listener: Arc::new(listener), ..self.session.clone() } }
    }

    /// Returns the branches and tags of a repository.
    ///
    /// # Errors
    /// The url is not allowed, or the repository cannot be asked.
    pub async fn refs(&self, url: &SourceUrl) -> Result<RemoteRefs, SourceError> {
        let listed = git::list(&self.session, url).await;
        listed.map_err(|failure| failure.at("list the refs of", url))
    }

    /// Returns the commit that a tag or branch points at now.
    ///
    /// # Errors
    /// As [`Self::refs`], or there is no such ref.
    pub async fn resolve(&self, url: &SourceUrl, name: &GitRef) -> Result<Resolved, SourceError> {
        let refs = self.refs(url).await?;
        refs.resolve(name).map_err(|failure| failure.at("resolve a ref of", url))
    }

    /// Checks that a tag or branch still points at the commit it was pinned to.
    ///
    /// # Errors
    /// As [`Self::resolve`], or the ref has [moved](ErrorKind::Moved).
    pub async fn check_ref(
        &self,
        url: &SourceUrl,
        name: &GitRef,
        pinned: &CommitId,
    ) -> Result<Resolved, SourceError> {
        let found = self.resolve(url, name).await?;
        if found.commit == *pinned {
            return Ok(found);
        }
        let detail = format!("it was pinned to `{pinned}` and is at `{}` now", found.commit);
        Err(Failure::fatal(ErrorKind::Moved, detail)
            .at("trust the ref", format!("{name} of {url}")))
    }

    /// Returns whether the history of `tip`, which must be the tip of a branch or tag, still has
    /// `commit`. Nothing is fetched. Returns nothing where the server cannot tell: it speaks no
    /// protocol 2, or is a path of this machine.
    ///
    /// # Errors
    /// As [`Self::refs`].
    pub async fn reaches(
        &self,
        url: &SourceUrl,
        tip: &CommitId,
        commit: &CommitId,
    ) -> Result<Option<Reach>, SourceError> {
        let asked = git::reaches(&self.session, url, tip, commit).await;
        asked.map_err(|failure| failure.at("ask for a commit of", url))
    }

    /// Returns the tree of a commit and its submodules, fetching what is not in the cache.
    ///
    /// # Errors
    /// A repository or commit cannot be fetched, a submodule is not allowed, a path or link in a
    /// tree leads out of it.
    pub async fn fetch_git(&self, source: &GitSource) -> Result<FetchedGit, SourceError> {
        git::fetch_all(&self.session, source).await
    }

    /// Returns the files that a project has released, by the simple API of a Python package index
    /// (PEP 691, else PEP 503). `index` is the url that pip is given, for example `https://HOST/simple`.
    ///
    /// # Errors
    /// The index cannot be asked, has no such project, or answers something else.
    pub async fn releases(
        &self,
        index: &SourceUrl,
        project: &str,
    ) -> Result<Vec<ReleaseFile>, SourceError> {
        let listed = index::list(&self.session, index, project).await;
        listed.map_err(|failure| failure.at("list the releases of", text::clean(project)))
    }

    /// Returns an archive as [`Self::fetch_archive`] does. Where it lies is looked up by its hash on
    /// a Python package index, if it is not in the cache.
    ///
    /// # Errors
    /// As for [`Self::fetch_archive`], or the index does not have a file of that hash.
    pub async fn fetch_release(
        &self,
        index: Option<&SourceUrl>,
        source: ArchiveSource,
    ) -> Result<Archive, SourceError> {
        let source = ArchiveSource { url: None, ..source };
        let cached = self.fetch_archive(&source).await;
        let is_missing = cached.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let Some(index) = index.filter(|_| is_missing) else { return cached };
        let files = self.releases(index, &source.project).await?;
        let file = files.into_iter().find(|file| file.sha256.as_ref() == Some(&source.sha256));
        let Some(file) = file else {
            let detail =
                format!("the index has no file of it with the SHA-256 `{}`", source.sha256);
            return Err(
                Failure::fatal(ErrorKind::NotFound, detail).at("fetch the archive", source.name())
            );
        };
        self.fetch_archive(&ArchiveSource { url: Some(file.url), ..source }).await
    }

    /// Returns an archive, downloading it where it is not in the cache.
    ///
    /// # Errors
    /// It cannot be downloaded, is too large, or is not what its hash says.
    pub async fn fetch_archive(&self, source: &ArchiveSource) -> Result<Archive, SourceError> {
        archive::fetch(&self.session, source).await
    }
}

/// Returns a hash as the data files write it.
fn sha256_of(hash: [u8; 32]) -> Result<Sha256, Failure> {
    text::hex(&hash)
        .parse()
        .map_err(|_| Failure::fatal(ErrorKind::Tool, "a hash could not be written down"))
}
