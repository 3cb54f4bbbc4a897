//! What happens while sources are fetched, for whoever shows it.

use std::path::Path;

use names::{CommitId, Sha256};

use crate::address::SourceUrl;

/// Something that happened. Words of servers in it are cleaned already.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process holds a part of the cache.
    Waiting {
        /// The file that is locked.
        path: &'a Path,
    },
    /// A commit was in the cache; nobody was asked.
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
        /// Where it is asked for: there, or at a mirror.
        place: &'a SourceUrl,
        /// The commit.
        commit: &'a CommitId,
    },
    /// What a git server says of its progress.
    ServerSays {
        /// The repository.
        url: &'a SourceUrl,
        /// Its words.
        said: &'a str,
    },
    /// Bytes came.
    Received {
        /// What is fetched.
        url: &'a SourceUrl,
        /// How many so far.
        bytes: u64,
    },
    /// Something failed and is tried again.
    Retry {
        /// What is fetched.
        url: &'a SourceUrl,
        /// What failed.
        reason: &'a str,
    },
    /// An archive was in the cache; nobody was asked.
    CachedArchive {
        /// The hash of the archive.
        sha256: &'a Sha256,
    },
    /// A download goes on where an earlier one broke.
    Resumed {
        /// What is fetched.
        url: &'a SourceUrl,
        /// From which byte.
        from: u64,
    },
}
