//! Builds a root file system from locked packages: the contract `bootstrap/1`.
//!
//! Apart from a container engine, the build uses no programs of this machine, so the result does
//! not depend on the machine. The build needs neither root nor Debian:
//!
//! 1. [`write_root`] writes a tar: the unpacked files of all packages, the package files themselves
//!    in `/packages`, and a script.
//! 2. A container engine builds [`DOCKERFILE`]. The build unpacks the tar and runs the script, in
//!    which the packages' own dpkg installs them properly. This needs a container, because
//!    maintainer scripts must run inside the new system.
//! 3. The caller makes one canonical layer from the engine's result.
//!
//! debootstrap(8) and mmdebstrap(1) work the same way.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::deb::{Deb, DebError};
use crate::fetch::FetchedPackage;

/// The Dockerfile. Its context contains the tar of [`write_root`] as `root.tar`.
pub const DOCKERFILE: &str = "FROM scratch
ADD root.tar /
RUN [\"/usr/bin/sh\", \"/packages/install\"]
";

/// The script that installs the packages, without its first lines: [`write_root`] adds them,
/// because they set the time.
///
/// All files are already there, so `--force-depends` does no harm: it lets dpkg unpack a package
/// before its pre-dependencies are configured, but each package is still configured after its
/// dependencies. `expected` lists exactly the packages that must be installed at the end.
///
/// The script then removes files that depend on the time of the build: logs, caches, and backups.
const INSTALL: &str = r#"
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C.UTF-8
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
dpkg --force-unsafe-io --force-depends --install /packages/*.deb
dpkg-query --show --showformat '${db:Status-Status} ${Package} ${Version} ${Architecture}\n' |
  sort > /packages/installed
if ! diff /packages/expected /packages/installed; then
  echo 'the packages above are not installed as the lock says (<: the lock, >: installed)' >&2
  exit 1
fi
rm -f etc/passwd- etc/group- etc/shadow- etc/gshadow- etc/subuid- etc/subgid- etc/.pwd.lock
rm -rf var/lib/apt/lists var/cache/apt var/cache/ldconfig
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
rm -f var/cache/debconf/*-old var/lib/dpkg/*-old var/lib/dpkg/lock var/lib/dpkg/lock-frontend
find var/log -type f -delete
rm -rf /packages
"#;

/// The directories that are links to the directories of the same name in `/usr`, in every Debian
/// release since 12.
const LINKED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Empty files that dpkg expects.
const DPKG_FILES: [&str; 2] = ["var/lib/dpkg/available", "var/lib/dpkg/status"];

/// The directories that dpkg expects.
const DPKG_FOLDERS: [&str; 5] =
    ["var", "var/lib", "var/lib/dpkg", "var/lib/dpkg/info", "var/lib/dpkg/updates"];

/// Why the root file system could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteRootError {
    /// A package cannot be read.
    #[error("cannot unpack the package file `{file}`")]
    Package {
        /// The name of the file.
        file: String,
        /// The reason.
        #[source]
        source: DebError,
    },
    /// The tar cannot be written.
    #[error("cannot write the root file system")]
    Write(#[from] std::io::Error),
}

/// Writes the tar from which the build makes the root file system, with the files of `packages`.
/// `epoch` is the time for the packages' scripts, in seconds since 1970. The same packages and the
/// same time give the same bytes.
///
/// The packages must include Debian's essential packages, with all their dependencies.
///
/// # Errors
/// Fails if a package cannot be read or the disk is full.
pub fn write_root(
    packages: &[&FetchedPackage],
    epoch: u64,
    out: impl Write,
) -> Result<(), WriteRootError> {
    let mut sorted = packages.to_vec();
    sorted.sort_by(|a, b| a.package.cmp(&b.package));
    let mut root = Root::new(out)?;
    for fetched in &sorted {
        let file = fetched.package.file_name();
        root.unpack(&fetched.path)
            .map_err(|source| WriteRootError::Package { file: file.to_owned(), source })?;
    }
    root.folder("packages")?;
    for fetched in &sorted {
        let name = format!("packages/{}", fetched.package.file_name());
        let mut file = std::fs::File::open(&fetched.path)?;
        root.file(&name, file.metadata()?.len(), &mut file)?;
    }
    let script = format!("set -eu\ncd /\nexport SOURCE_DATE_EPOCH={epoch}{INSTALL}");
    for (name, text) in [("packages/expected", expected(&sorted)), ("packages/install", script)] {
        root.file(name, text.len() as u64, &mut text.as_bytes())?;
    }
    root.tar.into_inner()?.flush()?;
    Ok(())
}

/// Returns the expected output of the script's `dpkg-query`, in the order of `sort` in the C
/// locale.
fn expected(packages: &[&FetchedPackage]) -> String {
    let lines: BTreeSet<String> = packages
        .iter()
        .map(|fetched| {
            let package = &fetched.package;
            format!("installed {} {} {}\n", package.name, package.version, package.architecture)
        })
        .collect();
    lines.into_iter().collect()
}

/// A root file system that is being written as a tar.
struct Root<W: Write> {
    tar: Builder<W>,
    /// The paths that have been written.
    paths: BTreeSet<String>,
}

impl<W: Write> Root<W> {
    /// Starts a tar with the directories that packages rely on.
    fn new(out: W) -> Result<Self, WriteRootError> {
        let mut root = Self { tar: Builder::new(out), paths: BTreeSet::new() };
        root.folder("usr")?;
        for name in LINKED {
            root.folder(&format!("usr/{name}"))?;
            let mut header = header(EntryType::Symlink, 0o777, 0);
            root.tar.append_link(&mut header, name, format!("usr/{name}"))?;
            root.paths.insert(name.to_owned());
        }
        for name in DPKG_FOLDERS {
            root.folder(name)?;
        }
        for name in DPKG_FILES {
            root.file(name, 0, &mut std::io::empty())?;
        }
        Ok(root)
    }

    fn folder(&mut self, name: &str) -> Result<(), WriteRootError> {
        if self.paths.insert(name.to_owned()) {
            let mut header = header(EntryType::Directory, 0o755, 0);
            self.tar.append_data(&mut header, name, std::io::empty())?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        name: &str,
        size: u64,
        content: &mut impl Read,
    ) -> Result<(), WriteRootError> {
        let mut header = header(EntryType::Regular, 0o644, size);
        self.tar.append_data(&mut header, name, content)?;
        self.paths.insert(name.to_owned());
        Ok(())
    }

    /// Adds the files of a package. If several packages contain the same path, the first file is
    /// written; dpkg later decides which one is installed.
    fn unpack(&mut self, package: &Path) -> Result<(), DebError> {
        let mut archive = tar::Archive::new(Deb::open(package)?.data()?);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let Some(path) = inside(&entry.path_bytes())? else { continue };
            if !self.paths.insert(path.clone()) {
                continue;
            }
            let mut header = entry.header().clone();
            match entry.link_name_bytes().map(|link| link.into_owned()) {
                Some(link) if header.entry_type().is_hard_link() => {
                    let Some(link) = inside(&link)? else { return Err(not_inside(&link)) };
                    self.tar.append_link(&mut header, &path, link)?;
                }
                Some(link) => {
                    let link = text(&link)?;
                    self.tar.append_link(&mut header, &path, link)?;
                }
                None => self.tar.append_data(&mut header, &path, &mut entry)?,
            }
        }
        // Reads to the end of the compressed data, where its checksum is.
        std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
        Ok(())
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Returns the path of an entry relative to the root, with linked directories resolved. Returns
/// `None` for the root itself.
fn inside(path: &[u8]) -> Result<Option<String>, DebError> {
    let parts: Vec<&str> =
        text(path)?.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if path.starts_with(b"/") || parts.contains(&"..") {
        return Err(not_inside(path));
    }
    let is_linked = parts.len() > 1 && parts.first().is_some_and(|part| LINKED.contains(part));
    let mut inside = String::new();
    for part in is_linked.then_some("usr").into_iter().chain(parts) {
        let separator = if inside.is_empty() { "" } else { "/" };
        // Writing to a string cannot fail.
        let _ = write!(inside, "{separator}{part}");
    }
    Ok((!inside.is_empty()).then_some(inside))
}

fn text(path: &[u8]) -> Result<&str, DebError> {
    std::str::from_utf8(path).map_err(|_| not_inside(path))
}

fn not_inside(path: &[u8]) -> DebError {
    DebError::Path(String::from_utf8_lossy(path).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_root_and_links_are_followed() {
        let found = |path: &str| inside(path.as_bytes()).unwrap();
        assert_eq!(found("./"), None);
        assert_eq!(found("./bin/sh").unwrap(), "usr/bin/sh");
        assert_eq!(found("./lib64/ld.so").unwrap(), "usr/lib64/ld.so");
        assert_eq!(found("./usr/bin/sh").unwrap(), "usr/bin/sh");
        assert_eq!(found("./lib").unwrap(), "lib");
        assert_eq!(found("etc/").unwrap(), "etc");
    }

    #[test]
    fn paths_outside_the_root_are_refused() {
        for path in ["../etc/passwd", "./usr/../../x", "/etc/passwd"] {
            let error = inside(path.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
        }
        assert!(inside(b"./\xff").is_err());
    }
}
