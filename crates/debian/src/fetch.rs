//! Downloads the package files of a lock into the cache of sources, each checked by its hash.

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
    /// What the lock says about it.
    pub package: LockedPackage,
    /// The file, in the cache.
    pub path: PathBuf,
    /// How many bytes came by the network; none where it was cached.
    pub received: u64,
}

/// Why a package file is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No mirror is known, and the cache does not have the file.
    #[error("`{file}` is not in the cache, and no mirror is known to fetch it from")]
    NoMirror {
        /// The path of the file.
        file: String,
        /// What the cache says.
        #[source]
        source: SourceError,
    },
    /// A mirror cannot be asked.
    #[error("`{url}` cannot be fetched from")]
    Url {
        /// The url.
        url: String,
        /// What is wrong with it.
        #[source]
        source: ParseSourceError,
    },
    /// No mirror has the file. Mirrors drop what was superseded: a newer lock or a mirror of
    /// snapshots is needed.
    #[error(
        "no mirror has `{file}` any more; look the packages up again, or name a mirror that keeps old files"
    )]
    Superseded {
        /// The path of the file.
        file: String,
        /// What the last mirror says.
        #[source]
        source: SourceError,
    },
    /// It cannot be downloaded, or is not what the lock says.
    #[error("cannot fetch the package file `{file}`")]
    Fetch {
        /// The path of the file.
        file: String,
        /// What went wrong.
        #[source]
        source: SourceError,
    },
    /// The lock says another size for that hash.
    #[error(
        "`{file}` has {size} bytes and the right hash, but the lock says {locked} bytes; look the packages up again"
    )]
    Size {
        /// The path of the file.
        file: String,
        /// The size it has.
        size: u64,
        /// The size that the lock says.
        locked: u64,
    },
}

/// Fetches `packages`, several at once. What is cached is hashed again and asked of nobody.
///
/// The mirrors of an archive are asked in their order: the next one where a file is not found, or
/// nobody answers. A wrong hash ends it at once. Copies of a day ([`Mirrors::with_snapshots`]) are
/// asked only where a mirror does not have the file.
///
/// # Errors
/// Some file cannot be had; the first that fails ends it.
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
    // Why no mirror but copies of a day can have it.
    let mut missing: Option<SourceError> = None;
    loop {
        // Without a url only the cache is asked: that is all where no mirror is known.
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
            // That no copy of a day answers says less than what the mirrors said.
            Err(source) => missing.take().filter(|_| is_snapshot).unwrap_or(source),
        };
        let is_missing = source.kind() == ErrorKind::NotFound;
        let may_help =
            is_missing || matches!(source.kind(), ErrorKind::Unreachable | ErrorKind::Timeout);
        let is_for_missing = urls.peek().is_some_and(|next| next.1);
        next = urls.next().filter(|_| may_help && (is_missing || !is_for_missing));
        match (next.is_some(), is_missing) {
            (true, _) => missing = is_for_missing.then_some(source),
            (false, true) => return Err(FetchError::Superseded { file, source }),
            (false, false) => return Err(FetchError::Fetch { file, source }),
        }
    }
}

/// Returns the urls of a package file, each with whether it is that of a copy of a day.
fn urls(list: &[Mirror], package: &LockedPackage) -> Result<Vec<(SourceUrl, bool)>, FetchError> {
    let url = |mirror: &Mirror| {
        let url = mirror.file(&package.file);
        let parsed = url.parse::<SourceUrl>();
        let parsed = parsed.map_err(|source| FetchError::Url { url, source })?;
        Ok((parsed, mirror.is_snapshot()))
    };
    list.iter().map(url).collect()
}
