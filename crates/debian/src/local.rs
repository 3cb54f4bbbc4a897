//! A package source in a folder: package files, and the index that apt needs.
//!
//! Apt trusts it without a signature (`[trusted=yes]`): every file was checked against the lock
//! when it was fetched, and again when it was copied. The source is flat: all files are directly in
//! the folder. The same packages and the same time give the same bytes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use pins::LockedPackage;
use sha2::{Digest as _, Sha256};
use sources::{SourceError, Tree};

use crate::deb::{Deb, DebError};
use crate::fetch::FetchedPackage;

/// The path of the source during builds, for its `sources.list`.
const MOUNTED_AT: &str = "/packages";

/// A folder that apt can install from.
#[derive(Debug, Clone)]
pub struct LocalSource {
    folder: PathBuf,
}

/// Why a local package source could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LocalSourceError {
    /// The folder is not empty.
    #[error("`{}` is not empty; a package source needs an empty folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// Two packages have the same file name.
    #[error("`{file}` occurs twice; a package source contains each file once")]
    Twice {
        /// The name of the file.
        file: String,
    },
    /// A file cannot be read or written.
    #[error("cannot write the package source: cannot read or write `{}`", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file has changed since it was fetched.
    #[error("`{file}` does not match the lock: it has changed since it was fetched")]
    Changed {
        /// The name of the file.
        file: String,
    },
    /// A package file cannot be opened.
    #[error("cannot read the control data of `{file}`")]
    Open {
        /// The name of the file.
        file: String,
        /// The reason.
        #[source]
        source: DebError,
    },
    /// A package is not the one in the lock.
    #[error("`{file}` is `{found}`, but the lock records `{locked}`; look up the packages again")]
    Other {
        /// The name of the file.
        file: String,
        /// Its actual name, version and architecture.
        found: String,
        /// The name, version and architecture in the lock.
        locked: String,
    },
}

impl LocalSource {
    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder as a tree, for a build context's `packages` folder.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn tree(&self) -> Result<Tree, SourceError> {
        Tree::from_folder(&self.folder)
    }
}

/// Writes a package source for the release `suite` into `folder`, which is created if it is
/// missing. `epoch` is the date of the index, in seconds since 1970.
///
/// # Errors
/// Fails if the folder is not empty, if a file has changed or is not the package in the lock, or if
/// the disk is full. After an error, the folder must be removed.
pub fn write_local_source(
    packages: &[FetchedPackage],
    suite: &str,
    epoch: u64,
    folder: &Path,
) -> Result<LocalSource, LocalSourceError> {
    std::fs::create_dir_all(folder).map_err(disk(folder))?;
    if std::fs::read_dir(folder).map_err(disk(folder))?.next().is_some() {
        return Err(LocalSourceError::NotEmpty { folder: folder.to_owned() });
    }
    let mut sorted: Vec<&FetchedPackage> = packages.iter().collect();
    sorted.sort_by(|a, b| a.package.cmp(&b.package));
    let mut index = String::new();
    for FetchedPackage { package, path, .. } in sorted {
        copy(path, &folder.join(package.file_name()), package)?;
        index.push_str(&paragraph(package, folder)?);
    }
    let files = [
        ("Release", release(&index, suite, epoch)),
        ("Packages", index),
        ("sources.list", format!("deb [trusted=yes] file:{MOUNTED_AT} ./\n")),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(disk(&path))?;
    }
    Ok(LocalSource { folder: folder.to_owned() })
}

fn disk(path: &Path) -> impl Fn(io::Error) -> LocalSourceError {
    let path = path.to_owned();
    move |source| LocalSourceError::Disk { path: path.clone(), source }
}

/// Copies a package file, and checks the copy.
fn copy(from: &Path, to: &Path, package: &LockedPackage) -> Result<(), LocalSourceError> {
    let mut source = File::open(from).map_err(disk(from))?;
    let mut target = match File::create_new(to) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(LocalSourceError::Twice { file: package.file_name().to_owned() });
        }
        Err(error) => return Err(disk(to)(error)),
    };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = source.read(&mut buffer).map_err(disk(from))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        target.write_all(&buffer[..count]).map_err(disk(to))?;
    }
    if hex(&hasher.finalize()) == package.sha256.as_str() {
        Ok(())
    } else {
        Err(LocalSourceError::Changed { file: package.file_name().to_owned() })
    }
}

/// Returns the index entry of a package: its own control data, and the file's name, size and hash.
fn paragraph(package: &LockedPackage, folder: &Path) -> Result<String, LocalSourceError> {
    let file = package.file_name().to_owned();
    let control = Deb::open(&folder.join(&file)).and_then(|deb| deb.control());
    let control = match control {
        Ok(control) => control,
        Err(source) => return Err(LocalSourceError::Open { file, source }),
    };
    let field = |name: &str| {
        let mut values = control.lines().filter_map(|line| line.split_once(':'));
        values.find(|(field, _)| *field == name).map(|(_, value)| value.trim()).unwrap_or_default()
    };
    let found = ["Package", "Version", "Architecture"].map(field).join(" ");
    let LockedPackage { name, version, architecture, size, sha256, .. } = package;
    let locked = format!("{name} {version} {architecture}");
    if found != locked {
        return Err(LocalSourceError::Other { file, found, locked });
    }
    let control = control.trim_end();
    Ok(format!("{control}\nFilename: ./{file}\nSize: {size}\nSHA256: {sha256}\n\n"))
}

/// Returns the `Release` file. Apt can select packages by its suite and code name.
fn release(index: &str, suite: &str, epoch: u64) -> String {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(epoch));
    // httpdate's format is that of RFC 2822, except for the time zone.
    let date = date.replace("GMT", "+0000");
    let hash = hex(&Sha256::digest(index.as_bytes()));
    let mut text = String::from("Origin: build-pipeline\nLabel: locked packages\n");
    // Writing to a string cannot fail.
    let _ = write!(text, "Suite: {suite}\nCodename: {suite}\n");
    let _ = write!(text, "Date: {date}\nSHA256:\n {hash} {} Packages\n", index.len());
    text
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_suite_the_given_time_and_the_hash_of_its_index() {
        insta::assert_snapshot!(release("Package: a\n\n", "trixie", 1_795_132_800), @r"
        Origin: build-pipeline
        Label: locked packages
        Suite: trixie
        Codename: trixie
        Date: Fri, 20 Nov 2026 00:00:00 +0000
        SHA256:
         43cb8abbcbb1088e0cacda8ed9c368e7a9d477f1d7c62cbadbf2e78fb4cb780d 12 Packages
        ");
    }
}
