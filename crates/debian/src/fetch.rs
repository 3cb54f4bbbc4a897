//! Downloads the package files of a lock into the cache of sources, and checks the hash of each
//! file.

use std::path::PathBuf;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use pins::LockedPackage;
use sources::{ArchiveSource, ErrorKind, ParseSourceError, SourceError, SourceUrl, Sources};

use crate::mirror::Mirrors;
use crate::old::OldPackages;

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
    /// No mirror has the file any more, and no place that keeps old files has it. The user needs a
    /// newer lock, or has to name another such place.
    #[error("no mirror has `{file}` any more, and {old}")]
    Superseded {
        /// The path of the file.
        file: String,
        /// The result of the search in the cache and in the places that keep old files.
        old: String,
        /// The error of the first mirror that does not have it.
        #[source]
        source: SourceError,
    },
    /// The file cannot be downloaded, or does not match the lock.
    #[error("cannot fetch the package file `{file}`")]
    Fetch {
        /// The path of the file.
        file: String,
        /// The reason.
        #[source]
        source: SourceError,
    },
    /// The file has the right hash, but not the size in the lock.
    #[error(
        "`{file}` has {size} bytes and the right hash, but the lock records {locked} bytes; look up the packages again"
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

/// Fetches `packages`, several at once. Cached files need no network, and are hashed again if they
/// have changed.
///
/// A file is taken from the cache, else from a folder with old files, else from a mirror. The
/// mirrors of an archive are tried in order: the next one is tried if a mirror does not have the
/// file, does not respond, reports a server error or a rate limit, or must not be contacted. If at
/// least one mirror responded that it does not have the file, the servers that keep old files are
/// tried. `days` are the dates in the lock ([`pins::PackageLock::days`]). Any other failure, for
/// example a wrong hash, is an immediate error.
///
/// # Errors
/// Returns the first failure.
pub async fn fetch(
    sources: &Sources,
    packages: &[&LockedPackage],
    mirrors: &Mirrors,
    days: &[&str],
) -> Result<Vec<FetchedPackage>, FetchError> {
    let fetches: Vec<_> =
        packages.iter().map(|package| fetch_one(sources, package, mirrors, days)).collect();
    let fetched = stream::iter(fetches).buffer_unordered(AT_ONCE);
    let mut fetched: Vec<_> = fetched.try_collect().await?;
    fetched.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(fetched)
}

/// The kind of place that a file may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A folder with old files.
    Folder,
    /// A mirror.
    Mirror,
    /// A server that keeps old files.
    Archive,
}

async fn fetch_one(
    sources: &Sources,
    package: &LockedPackage,
    mirrors: &Mirrors,
    days: &[&str],
) -> Result<FetchedPackage, FetchError> {
    let file = package.file.clone();
    // The first mirror that does not have the file, and the failures in order.
    let (mut missing, mut failed) = (None, Vec::new());
    for (url, place) in urls(mirrors, package, days)? {
        // A mirror that does not respond may have the file, and archives must not be used instead
        // of a mirror.
        if place == Place::Archive && missing.is_none() {
            break;
        }
        let error = match fetch_at(sources, package, Some(url)).await? {
            Ok(fetched) => return Ok(fetched),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NotFound if place == Place::Mirror => missing = missing.or(Some(error)),
            ErrorKind::NotFound => {}
            ErrorKind::Unreachable
            | ErrorKind::Timeout
            | ErrorKind::RateLimited
            | ErrorKind::Server
            | ErrorKind::NoMirror => failed.push((place, error)),
            _ => return Err(FetchError::Fetch { file, source: error }),
        }
    }
    if let Some(source) = missing {
        let failed = failed.iter().find(|(place, _)| *place == Place::Archive);
        let old = searched(&mirrors.old, failed.map(|(_, error)| error));
        return Err(FetchError::Superseded { file, old, source });
    }
    // The failure of a contacted server says more than the refusal to contact another one.
    let was_asked = |(_, error): &(Place, SourceError)| error.kind() != ErrorKind::NoMirror;
    let first = failed.iter().position(was_asked).unwrap_or_default();
    if let Some((_, source)) = failed.into_iter().nth(first) {
        return Err(FetchError::Fetch { file, source });
    }
    // Without a URL, only the cache is searched.
    let cached = fetch_at(sources, package, None).await?;
    cached.map_err(|source| FetchError::NoMirror { file, source })
}

/// Returns the result of the search for an old file, for a message. `failed` is the failure of the
/// first place that could not be searched.
fn searched(old: &[OldPackages], failed: Option<&SourceError>) -> String {
    let places: Vec<String> = old.iter().map(|old| format!("`{old}`")).collect();
    match failed {
        _ if places.is_empty() => "the cache does not have it".to_owned(),
        None => format!("neither the cache nor {} has it", places.join(" or ")),
        Some(failed) if failed.kind() == ErrorKind::NoMirror => format!(
            "the cache does not have it; {} must not be contacted, and no mirror rule covers it",
            places.join(" or ")
        ),
        Some(failed) => {
            format!(
                "the cache does not have it; {} could not be searched: {failed}",
                places.join(" or ")
            )
        }
    }
}

/// Fetches a file from `url`, or only from the cache if there is no URL. The inner error comes from
/// the cache or the server.
async fn fetch_at(
    sources: &Sources,
    package: &LockedPackage,
    url: Option<SourceUrl>,
) -> Result<Result<FetchedPackage, SourceError>, FetchError> {
    let source = ArchiveSource {
        project: package.name.clone(),
        version: package.version.clone(),
        sha256: package.sha256.clone(),
        url,
    };
    let archive = match sources.fetch_archive(&source).await {
        Ok(archive) => archive,
        Err(error) => return Ok(Err(error)),
    };
    if archive.size != package.size {
        let (file, size) = (package.file.clone(), archive.size);
        return Err(FetchError::Size { file, size, locked: package.size });
    }
    let (path, received) = (archive.path().to_owned(), archive.received);
    Ok(Ok(FetchedPackage { package: package.clone(), path, received }))
}

/// Returns the URLs of a package file, in the order in which they are tried.
fn urls(
    mirrors: &Mirrors,
    package: &LockedPackage,
    days: &[&str],
) -> Result<Vec<(SourceUrl, Place)>, FetchError> {
    let list = if package.is_security_update() { &mirrors.security } else { &mirrors.archive };
    let (folders, archives): (Vec<_>, Vec<_>) = mirrors.old.iter().partition(|old| old.is_folder());
    let folders = folders.iter().flat_map(|old| old.urls(package, days));
    let archives = archives.iter().flat_map(|old| old.urls(package, days));
    let all = folders
        .map(|url| (url, Place::Folder))
        .chain(list.iter().map(|mirror| (mirror.file(&package.file), Place::Mirror)))
        .chain(archives.map(|url| (url, Place::Archive)));
    let parse = |(url, place): (String, Place)| match url.parse() {
        Ok(parsed) => Ok((parsed, place)),
        Err(source) => Err(FetchError::Url { url, source }),
    };
    all.map(parse).collect()
}
