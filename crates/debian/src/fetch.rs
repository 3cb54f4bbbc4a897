//! Downloads the package files of a lock into the cache of sources, and checks each by its hash.

use std::path::PathBuf;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use pins::LockedPackage;
use sources::{ArchiveSource, ErrorKind, ParseSourceError, SourceError, SourceUrl, Sources};

use crate::mirror::{Mirror, Mirrors};

/// How many files are downloaded at once.
const AT_ONCE: usize = 8;

/// A package file that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPackage {
    /// The package according to the lock.
    pub package: LockedPackage,
    /// The file, in the cache.
    pub path: PathBuf,
    /// The number of bytes received over the network; 0 if it was cached.
    pub received: u64,
}

/// Why a package file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No mirror is known, and the file is not cached.
    #[error("`{file}` is not in the cache, and no mirror is known")]
    NoMirror {
        /// The path of the file.
        file: String,
        /// The error of the cache.
        #[source]
        source: SourceError,
    },
    /// The URL of a mirror is not valid.
    #[error("cannot fetch from `{url}`")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        #[source]
        source: ParseSourceError,
    },
    /// No mirror has the file. Mirrors delete superseded files: a newer lock or a snapshot mirror
    /// is needed.
    #[error(
        "no mirror has `{file}` any more; look up the packages again, or name a mirror that keeps old files"
    )]
    Superseded {
        /// The path of the file.
        file: String,
        /// The error of the last mirror.
        #[source]
        source: SourceError,
    },
    /// It cannot be downloaded, or does not match the lock.
    #[error("cannot fetch the package file `{file}`")]
    Fetch {
        /// The path of the file.
        file: String,
        /// The reason.
        #[source]
        source: SourceError,
    },
    /// The lock contains another size for that hash.
    #[error(
        "`{file}` has {size} bytes and the right hash, but the lock says {locked} bytes; look up the packages again"
    )]
    Size {
        /// The path of the file.
        file: String,
        /// The actual size.
        size: u64,
        /// The size in the lock.
        locked: u64,
    },
}

/// Fetches `packages`, several at once. Cached files are hashed again, and need no network.
///
/// The mirrors of an archive are tried in order. The next one is tried if a file is not found or a
/// mirror does not answer or may not be asked. A wrong hash is an immediate error. Snapshots
/// ([`Mirrors::with_snapshots`]) are used only if a mirror does not have the file.
///
/// # Errors
/// Returns the first failure.
pub async fn fetch(
    sources: &Sources,
    packages: &[&LockedPackage],
    mirrors: &Mirrors,
) -> Result<Vec<FetchedPackage>, FetchError> {
    let fetches: Vec<_> =
        packages.iter().map(|package| fetch_one(sources, package, mirrors)).collect();
    let fetched = stream::iter(fetches).buffer_unordered(AT_ONCE);
    let mut fetched: Vec<_> = fetched.try_collect().await?;
    fetched.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(fetched)
}

async fn fetch_one(
    sources: &Sources,
    package: &LockedPackage,
    mirrors: &Mirrors,
) -> Result<FetchedPackage, FetchError> {
    let file = package.file.clone();
    let source = |url: Option<SourceUrl>| ArchiveSource {
        project: package.name.clone(),
        version: package.version.clone(),
        sha256: package.sha256.clone(),
        url,
    };
    let list = if package.is_security_update() { &mirrors.security } else { &mirrors.archive };
    let mut urls = urls(list, package)?.into_iter().peekable();
    let mut next = urls.next();
    // Why only a snapshot can have it.
    let mut missing: Option<SourceError> = None;
    loop {
        // Without a URL only the cache is searched. This is the only attempt if no mirror is known.
        let (has_url, is_snapshot) = (next.is_some(), next.as_ref().is_some_and(|next| next.1));
        let source = match sources.fetch_archive(&source(next.map(|next| next.0))).await {
            Ok(archive) if archive.size != package.size => {
                return Err(FetchError::Size { file, size: archive.size, locked: package.size });
            }
            Ok(archive) => {
                let path = archive.path().to_owned();
                let (package, received) = (package.clone(), archive.received);
                return Ok(FetchedPackage { package, path, received });
            }
            Err(source) if !has_url => return Err(FetchError::NoMirror { file, source }),
            // If no snapshot answers, the error of the mirrors is more helpful.
            Err(source) => missing.take().filter(|_| is_snapshot).unwrap_or(source),
        };
        let is_missing = source.kind() == ErrorKind::NotFound;
        let may_help = is_missing
            || matches!(
                source.kind(),
                ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::NoMirror
            );
        let is_for_missing = urls.peek().is_some_and(|next| next.1);
        next = urls.next().filter(|_| may_help && (is_missing || !is_for_missing));
        match (next.is_some(), is_missing) {
            (true, _) => missing = is_for_missing.then_some(source),
            (false, true) => return Err(FetchError::Superseded { file, source }),
            (false, false) => return Err(FetchError::Fetch { file, source }),
        }
    }
}

/// Returns the URLs of a package file, each with whether it is a snapshot.
fn urls(list: &[Mirror], package: &LockedPackage) -> Result<Vec<(SourceUrl, bool)>, FetchError> {
    let url = |mirror: &Mirror| {
        let url = mirror.file(&package.file);
        let parsed = url.parse::<SourceUrl>();
        let parsed = parsed.map_err(|source| FetchError::Url { url, source })?;
        Ok((parsed, mirror.is_snapshot()))
    };
    list.iter().map(url).collect()
}
