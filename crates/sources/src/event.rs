//! Events of fetching sources, for progress reports.

use std::path::Path;

use names::{CommitId, Sha256};

use crate::address::SourceUrl;

/// An event. Text from servers is already sanitised.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process has locked a part of the cache.
    Waiting {
        /// The locked file.
        path: &'a Path,
    },
    /// A commit was cached. No server was contacted.
    Cached {
        /// The repository.
        url: &'a SourceUrl,
        /// The commit.
        commit: &'a CommitId,
    },
    /// A commit is being fetched.
    Fetching {
        /// The repository.
        url: &'a SourceUrl,
        /// The URL that is requested: the repository itself, or a mirror.
        place: &'a SourceUrl,
        /// The commit.
        commit: &'a CommitId,
    },
    /// A git server reported its progress.
    ServerSays {
        /// The repository.
        url: &'a SourceUrl,
        /// Its message.
        said: &'a str,
    },
    /// Bytes were received.
    Received {
        /// The URL.
        url: &'a SourceUrl,
        /// The number of bytes so far.
        bytes: u64,
    },
    /// An attempt failed and is retried. If several requests to a server fail for the same reason,
    /// there is at most one such event every 10 s.
    Retry {
        /// The URL that was requested: the source's own, or a mirror's.
        url: &'a SourceUrl,
        /// The reason.
        reason: &'a str,
    },
    /// An archive was cached. No server was contacted.
    CachedArchive {
        /// The hash of the archive.
        sha256: &'a Sha256,
    },
    /// An interrupted download continues.
    Resumed {
        /// The URL.
        url: &'a SourceUrl,
        /// The byte at which it continues.
        from: u64,
    },
}
