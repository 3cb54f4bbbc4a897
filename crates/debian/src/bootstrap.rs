//! Makes a root file system of a local package source: `mmdebstrap`, and a check of its work.
//!
//! Equal packages and an equal time give equal bytes, on any day and any machine with the same
//! `mmdebstrap`. What it would leave of the machine or the moment is removed ([`CLEAN_UP`]), and
//! what is installed afterwards is exactly what was asked for, or it is an error.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use names::Sha256;
use pins::LockedPackage;
use sha2::Digest as _;

use crate::local::{LocalSource, hex};
use crate::program::{Call, ProgramError, Programs};

/// Runs in the finished system, which `$1` is. What is removed, and why:
/// - `resolv.conf`, `hostname`: those of this machine. Engines mount their own.
/// - `sources.list`: the path of a folder that is gone. `99mmdebstrap`: our speed-up of dpkg.
/// - `/run` and temporary files, except for the configuration of mmdebstrap's apt: without it, apt
///   reads the configuration of this machine and changes this machine. mmdebstrap removes it.
/// - `extended_states` if it is empty: only newer versions of mmdebstrap make it.
/// - logs, caches, `*-old`, `*-`: times, inode numbers, and what was there one step before.
const CLEAN_UP: &str = r#"set -eu
cd "$1"
: > etc/apt/sources.list
rm -f etc/resolv.conf etc/hostname etc/dpkg/dpkg.cfg.d/99mmdebstrap etc/apt/apt.conf.d/99mmdebstrap
rm -f etc/passwd- etc/group- etc/shadow- etc/gshadow- etc/subuid- etc/subgid- etc/.pwd.lock
rm -rf var/lib/apt/lists var/cache/apt var/cache/ldconfig
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
rm -f var/cache/debconf/*-old var/lib/dpkg/*-old var/lib/dpkg/lock var/lib/dpkg/lock-frontend
find var/log -type f -delete
find var/lib/apt -name extended_states -empty -delete
find run tmp var/tmp -mindepth 1 ! -path 'tmp/mmdebstrap.apt.conf.*' -delete
"#;

/// Where the list of what is installed lies.
const STATUS: &str = "var/lib/dpkg/status";

/// How `mmdebstrap` gets the rights that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It runs as root.
    Root,
    /// It makes a user namespace; `/etc/subuid` and `/etc/subgid` must have ranges for the user.
    Unshare,
}

/// What is made.
#[derive(Debug)]
pub struct Bootstrap<'a> {
    /// The release by its code name.
    pub suite: &'a str,
    /// The architecture as dpkg names it.
    pub architecture: &'a str,
    /// The packages that it shall have, and no others.
    pub packages: &'a [&'a LockedPackage],
    /// Where they are installed from. It may hold others too.
    pub source: &'a LocalSource,
    /// The time of every file, in seconds since 1970.
    pub epoch: u64,
    /// How rights are got.
    pub mode: Mode,
    /// A folder for temporary files, on a file system with device nodes and room for the result
    /// twice.
    pub work: &'a Path,
}

/// A root file system, as an uncompressed tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFilesystem {
    /// The tar.
    pub path: PathBuf,
    /// Its hash. For an image of one layer it is the layer's diff ID.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}

/// Why there is no root file system.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// `mmdebstrap` is missing or failed.
    #[error("cannot bootstrap Debian `{suite}`")]
    Program {
        /// The release.
        suite: String,
        /// What went wrong.
        #[source]
        source: ProgramError,
    },
    /// A file cannot be read or written.
    #[error("cannot bootstrap Debian: `{}` failed", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Other packages are installed than were asked for.
    #[error(
        "the bootstrapped system is not the locked one: missing {missing:?}, besides {besides:?}"
    )]
    NotExact {
        /// What is missing, as `name version architecture`.
        missing: Vec<String>,
        /// What is there besides.
        besides: Vec<String>,
    },
}

impl BootstrapError {
    /// Returns the last lines that `mmdebstrap` printed, if it failed. They are not cleaned for a
    /// terminal.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Program { source, .. } => source.last_lines(),
            Self::Disk { .. } | Self::NotExact { .. } => &[],
        }
    }
}

/// Makes the root file system and puts it at `output`, whole or not at all.
///
/// # Errors
/// `mmdebstrap` is missing or fails, the disk is full, or other packages were installed.
pub async fn bootstrap(
    programs: &Programs,
    request: &Bootstrap<'_>,
    output: &Path,
) -> Result<RootFilesystem, BootstrapError> {
    let disk = |path: &Path| {
        let path = path.to_owned();
        move |source| BootstrapError::Disk { path, source }
    };
    let folder = tempfile::Builder::new().prefix("bootstrap-").tempdir_in(request.work);
    let folder = folder.map_err(disk(request.work))?;
    // In a user namespace others than we write below it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).map_err(disk(folder.path()))?;
    let made = folder.path().join("root.tar");
    let failed = |source| BootstrapError::Program { suite: request.suite.to_owned(), source };
    let call = Call {
        program: "mmdebstrap",
        package: "mmdebstrap",
        starter: match request.mode {
            Mode::Root => &NAMESPACES,
            Mode::Unshare => &[],
        },
        arguments: arguments(request, &made),
        variables: vec![
            ("SOURCE_DATE_EPOCH", request.epoch.to_string().into()),
            ("TMPDIR", folder.path().into()),
        ],
        folder: folder.path(),
    };
    programs.run(call).await.map_err(failed)?;

    let wanted = request.packages.iter().map(|package| described(package)).collect();
    let result = {
        let (made, output) = (made.clone(), output.to_owned());
        tokio::task::spawn_blocking(move || {
            check(&made, &wanted)?;
            let (sha256, size) = hash(&made).map_err(disk_at(&made))?;
            put(&made, &output).map_err(disk_at(&output))?;
            Ok(RootFilesystem { path: output, sha256, size })
        })
    };
    result.await.unwrap_or_else(|error| Err(disk_at(&made)(io::Error::other(error))))
}

fn disk_at(path: &Path) -> impl FnOnce(io::Error) -> BootstrapError {
    let path = path.to_owned();
    move |source| BootstrapError::Disk { path, source }
}

/// As root, `mmdebstrap` mounts `/proc`, `/sys` and devices where all processes see them, and they
/// stay where it is killed: whoever then removes its folder removes what was mounted. In namespaces
/// of its own all of that goes with it.
const NAMESPACES: [&str; 6] =
    ["unshare", "--mount", "--propagation=private", "--pid", "--mount-proc", "--kill-child"];

fn arguments(request: &Bootstrap<'_>, made: &Path) -> Vec<OsString> {
    let mode = match request.mode {
        Mode::Root => "root",
        Mode::Unshare => "unshare",
    };
    let names: Vec<&str> = request.packages.iter().map(|package| package.name.as_str()).collect();
    let options = [
        format!("--mode={mode}"),
        "--variant=apt".to_owned(),
        "--format=tar".to_owned(),
        format!("--architectures={}", request.architecture),
        format!("--include={}", names.join(",")),
        // A half-written system is thrown away, so nothing need be synced on the way.
        "--dpkgopt=force-unsafe-io".to_owned(),
        format!("--customize-hook={CLEAN_UP}"),
        // The hook removes lists and caches. mmdebstrap would run apt for that, which writes new
        // files, and writes to this machine if it does not find its configuration.
        "--skip=cleanup/apt".to_owned(),
        request.suite.to_owned(),
    ];
    let mut arguments: Vec<OsString> = options.map(OsString::from).into();
    arguments.push(made.into());
    arguments.push(request.source.apt_line().into());
    arguments
}

fn described(package: &LockedPackage) -> String {
    format!("{} {} {}", package.name, package.version, package.architecture)
}

/// Compares what is installed in the tar with what is `wanted`.
fn check(tar: &Path, wanted: &BTreeSet<String>) -> Result<(), BootstrapError> {
    let status = status(tar).map_err(disk_at(tar))?;
    let installed: BTreeSet<String> = status.split("\n\n").filter_map(installed).collect();
    if installed == *wanted {
        return Ok(());
    }
    Err(BootstrapError::NotExact {
        missing: wanted.difference(&installed).cloned().collect(),
        besides: installed.difference(wanted).cloned().collect(),
    })
}

/// Returns the list of what is installed.
fn status(tar: &Path) -> io::Result<String> {
    let mut archive = tar::Archive::new(io::BufReader::new(File::open(tar)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?;
        if path.strip_prefix(".").unwrap_or(&path) == Path::new(STATUS) {
            drop(path);
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            return Ok(text);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no `{STATUS}` in it")))
}

fn installed(paragraph: &str) -> Option<String> {
    let field = |name: &str| {
        let mut values = paragraph.lines().filter_map(|line| line.split_once(": "));
        values.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
    };
    let name = field("Package")?;
    // What is only half installed is shown as it is, so that it is not what was wanted.
    let status = match field("Status")? {
        "install ok installed" => String::new(),
        other => format!(" ({other})"),
    };
    Some(format!("{name} {} {}{status}", field("Version")?, field("Architecture")?))
}

fn hash(path: &Path) -> io::Result<(Sha256, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
    let sha256 = hex(&hasher.finalize()).parse().map_err(io::Error::other)?;
    Ok((sha256, size))
}

/// Moves the file to where it shall be; over the border of a file system by way of a copy beside.
fn put(made: &Path, output: &Path) -> io::Result<()> {
    File::open(made)?.sync_all()?;
    match std::fs::rename(made, output) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
            let beside = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
            io::copy(&mut File::open(made)?, &mut beside.as_file())?;
            beside.as_file().sync_all()?;
            beside.persist(output).map_err(|error| error.error)?;
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_half_installed_is_not_what_was_wanted() {
        let paragraph = |status: &str| {
            format!(
                "Package: apt\nStatus: {status}\nArchitecture: amd64\nVersion: 3.0.3\nDescription: a\n b"
            )
        };
        let text = |status| installed(&paragraph(status)).unwrap();
        assert_eq!(text("install ok installed"), "apt 3.0.3 amd64");
        assert_eq!(
            text("install ok half-configured"),
            "apt 3.0.3 amd64 (install ok half-configured)"
        );
        assert_eq!(installed(""), None);
    }

    #[test]
    fn other_packages_than_the_locked_ones_are_told_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = "Package: apt\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.0.4\n\nPackage: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5\n";
        let mut tar = tar::Builder::new(file.as_file());
        let mut header = tar::Header::new_ustar();
        header.set_size(status.len() as u64);
        tar.append_data(&mut header, format!("./{STATUS}"), status.as_bytes()).unwrap();
        tar.finish().unwrap();
        let wanted = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
        check(file.path(), &wanted(&["apt 3.0.4 amd64", "bash 5 amd64"])).unwrap();
        let error = check(file.path(), &wanted(&["apt 3.0.3 amd64", "bash 5 amd64"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"the bootstrapped system is not the locked one: missing ["apt 3.0.3 amd64"], besides ["apt 3.0.4 amd64"]"#
        );
    }

    #[test]
    fn a_tar_without_a_list_of_packages_is_no_system() {
        let file = tempfile::NamedTempFile::new().unwrap();
        tar::Builder::new(file.as_file()).finish().unwrap();
        let error = check(file.path(), &BTreeSet::new()).unwrap_err();
        assert!(matches!(error, BootstrapError::Disk { .. }), "{error}");
    }
}
