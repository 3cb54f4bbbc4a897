//! Resolves git refs, fetches a git tree at a commit or an archive by SHA-256, and streams it as a
//! canonical tar.
//!
//! Where to start:
//! - [`Sources::refs`] and [`Sources::resolve`] look up refs of a remote repository, and
//!   [`Sources::reaches`] checks whether a branch still contains a commit.
//! - [`Sources::fetch_git`] returns the [`Tree`] of a commit and its submodules, directly from git
//!   objects, without a checkout.
//! - [`Sources::releases`] lists the files of a project on a Python package index.
//! - [`Sources::fetch_archive`] returns an [`Archive`]. Its [`Archive::tree`] is a [`Tree`] too.
//! - [`Tree::write_tar`] writes the same bytes for the same content, whatever its origin.
//!
//! This crate reads no environment variables and no configuration, neither git's nor its own. It
//! runs no programs and prints nothing. Fetched content is verified before anything reads it, and
//! cached content is verified again if its file has changed. Fetching the same commit or archive a
//! second time needs no network.
//!
//! Futures may be dropped at any point. The cache then stays valid.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod address;
mod archive;
mod copies;
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

use std::path::Path;
use std::sync::Arc;

use names::{CommitId, Sha256};

pub use address::{Mirror, SourceUrl};
pub use archive::{Archive, ArchiveLimits, ArchiveSource};
pub use copies::Copies;
pub use error::{Asked, ErrorKind, Service, SourceError};
pub use event::Event;
pub use git::{
    FetchedGit, FetchedSubmodule, GitPack, GitSource, Reach, RemoteRef, RemoteRefs, Resolved,
    Submodules,
};
pub use git_ref::{GitRef, ParseSourceError, TreePath};
pub use http::Timeouts;
pub use index::ReleaseFile;
pub use net::{Hosts, ParseProxyError, Proxies, ProxyUrl};
pub use session::Settings;
pub use tree::{Mode, TarSummary, Tree, WriteTarError};

use crate::error::Failure;
use crate::session::Session;

/// Fetches sources into a cache, and reads them from it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sources {
    session: Session,
}

impl Sources {
    /// Creates a client with these settings. It does not connect to anything or touch any file yet.
    pub fn new(settings: Settings) -> Self {
        Self { session: Session::new(settings) }
    }

    /// Returns a copy that sends all events to `listener`.
    #[must_use]
    pub fn with_listener(&self, listener: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self { session: Session { listener: Arc::new(listener), ..self.session.clone() } }
    }

    /// Returns the branches and tags of a repository.
    ///
    /// # Errors
    /// Fails if the URL is not allowed, or if the repository cannot be read.
    pub async fn refs(&self, url: &SourceUrl) -> Result<RemoteRefs, SourceError> {
        let listed = git::list(&self.session, url).await;
        listed.map_err(|failure| failure.at("list the refs of", url))
    }

    /// Returns the current commit of a tag or branch.
    ///
    /// # Errors
    /// Like [`Self::refs`]. Also fails if the ref does not exist.
    pub async fn resolve(&self, url: &SourceUrl, name: &GitRef) -> Result<Resolved, SourceError> {
        let refs = self.refs(url).await?;
        refs.resolve(name).map_err(|failure| {
            self.session.asked(url, Service::Git, failure).at("resolve a ref of", url)
        })
    }

    /// Checks that a tag or branch still points at the pinned commit.
    ///
    /// # Errors
    /// Like [`Self::resolve`]. Also fails if the ref has [moved](ErrorKind::Moved).
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
        let detail = format!("it was pinned to `{pinned}`, but is now at `{}`", found.commit);
        let failure = Failure::fatal(ErrorKind::Moved, detail);
        Err(self
            .session
            .asked(url, Service::Git, failure)
            .at("trust the ref", format!("{name} of {url}")))
    }

    /// Returns whether `commit` is still in the history of `tip`, which must be the tip of a branch
    /// or tag. Nothing is fetched. Returns `None` if this cannot be determined, because the server
    /// does not support protocol 2 or the repository is a local path.
    ///
    /// # Errors
    /// Fails like [`Self::refs`].
    pub async fn reaches(
        &self,
        url: &SourceUrl,
        tip: &CommitId,
        commit: &CommitId,
    ) -> Result<Option<Reach>, SourceError> {
        let asked = git::reaches(&self.session, url, tip, commit).await;
        asked.map_err(|failure| failure.at("check a commit of", url))
    }

    /// Returns the tree of a commit and its submodules. Fetches repositories that are not cached.
    ///
    /// # Errors
    /// Fails if a repository or commit cannot be fetched, if a submodule is not allowed, or if a
    /// path or link in a tree points outside it.
    pub async fn fetch_git(&self, source: &GitSource) -> Result<FetchedGit, SourceError> {
        git::fetch_all(&self.session, source).await
    }

    /// Writes a pack for the commit of a source and one for each submodule into `folder`. Fetches
    /// repositories that are not cached. The packs have no history, and depend only on the commits.
    ///
    /// # Errors
    /// Fails like [`Self::fetch_git`], or if a pack cannot be written.
    pub async fn write_packs(
        &self,
        source: &GitSource,
        folder: &Path,
    ) -> Result<Vec<GitPack>, SourceError> {
        let fetched = self.fetch_git(source).await?;
        git::write_packs(&self.session, source, &fetched, folder).await
    }

    /// Returns the released files of a project, from the simple API of a Python package index (PEP
    /// 691, otherwise PEP 503). `index` is the URL that pip uses, for example
    /// `https://HOST/simple`.
    ///
    /// # Errors
    /// Fails if the index cannot be reached, does not have the project, or sends an invalid
    /// response.
    pub async fn releases(
        &self,
        index: &SourceUrl,
        project: &str,
    ) -> Result<Vec<ReleaseFile>, SourceError> {
        let listed = index::list(&self.session, index, project).await;
        listed.map_err(|failure| failure.at("list the releases of", text::clean(project)))
    }

    /// Returns an archive like [`Self::fetch_archive`]. If it is not cached, its location is looked
    /// up by its hash on a Python package index.
    ///
    /// # Errors
    /// Fails like [`Self::fetch_archive`], or if the index does not have a file with that hash.
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
            let detail = format!(
                "the index has no file of this release with the SHA-256 `{}`",
                source.sha256
            );
            let failure = Failure::fatal(ErrorKind::NotFound, detail);
            let failure = match index::page(index, &source.project) {
                Ok(page) => self.session.asked(&page, Service::Index, failure),
                Err(_) => failure,
            };
            return Err(failure.at("fetch the archive", source.name()));
        };
        self.fetch_archive(&ArchiveSource { url: Some(file.url), ..source }).await
    }

    /// Returns an archive. Downloads it if it is not cached.
    ///
    /// # Errors
    /// Fails if it cannot be downloaded, is too large, or does not match its hash.
    pub async fn fetch_archive(&self, source: &ArchiveSource) -> Result<Archive, SourceError> {
        archive::fetch(&self.session, source).await
    }
}

/// Converts a hash to the form used in data files.
fn sha256_of(hash: [u8; 32]) -> Result<Sha256, Failure> {
    text::hex(&hash).parse().map_err(|_| Failure::fatal(ErrorKind::Tool, "cannot format a hash"))
}
