//! A private apt: its state, cache and configuration are in one temporary folder.
//!
//! It has no installed packages, so it lists every package that is needed. It checks the signatures
//! of indexes only with the given keyring, not with other keys on the machine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use pins::FromSuites;
use tempfile::TempDir;

use crate::mirror::Mirror;
use crate::program::{Call, ProgramError, Programs};

/// The subfolders that apt expects.
const FOLDERS: [&str; 9] = [
    "state/lists/partial",
    "cache/archives/partial",
    "log",
    "etc/apt.conf.d",
    "etc/preferences.d",
    "etc/sources.list.d",
    "etc/trusted.gpg.d",
    "etc/auth.conf.d",
    "empty",
];

/// One `deb` line: a suite of an archive.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    pub(crate) mirror: &'a Mirror,
    pub(crate) name: String,
}

/// The settings for apt.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) suites: Vec<Suite<'a>>,
    /// The packages that come from a suite other than the first.
    pub(crate) from: &'a FromSuites,
    pub(crate) architecture: &'a str,
    pub(crate) keyring: &'a Path,
    /// Whether an expired index is accepted.
    pub(crate) accepts_expired: bool,
}

/// An apt with its own folder, which is deleted when this is dropped.
#[derive(Debug)]
pub(crate) struct Apt<'a> {
    programs: &'a Programs,
    folder: TempDir,
}

/// Why apt could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up apt: `{}` cannot be read or written", path.display())]
pub(crate) struct SetupError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl<'a> Apt<'a> {
    /// Sets up apt in a new folder below `work`.
    pub(crate) fn new(
        programs: &'a Programs,
        work: &Path,
        setup: &Setup<'_>,
    ) -> Result<Self, SetupError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SetupError { path, source }
        };
        let folder =
            tempfile::Builder::new().prefix("apt-").tempdir_in(work).map_err(failed(work))?;
        for name in FOLDERS {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).map_err(failed(&path))?;
        }
        // Keys in this folder are trusted for all sources, and there are no other keys.
        let is_armored = setup.keyring.extension().is_some_and(|end| end == "asc");
        let keys = if is_armored { "keyring.asc" } else { "keyring.gpg" };
        let keys = folder.path().join("etc/trusted.gpg.d").join(keys);
        std::fs::copy(setup.keyring, keys).map_err(failed(setup.keyring))?;
        let files = [
            ("status", String::new()),
            ("etc/sources.list", sources_list(setup)),
            ("etc/preferences", preferences(setup.from)),
            ("apt.conf", configuration(folder.path(), setup)),
        ];
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map_err(failed(&path))?;
        }
        Ok(Self { programs, folder })
    }

    /// Returns the folder with the signed indexes that apt downloaded and checked.
    pub(crate) fn lists(&self) -> PathBuf {
        self.folder.path().join("state/lists")
    }

    /// Runs `apt-get` or `apt-cache`.
    pub(crate) async fn run(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<String, ProgramError> {
        let configuration = self.folder.path().join("apt.conf").into_os_string();
        let call = Call {
            program,
            package: "apt",
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: vec![("APT_CONFIG", configuration)],
            folder: self.folder.path(),
        };
        self.programs.run(call).await
    }
}

fn sources_list(setup: &Setup<'_>) -> String {
    let mut text = String::new();
    for Suite { mirror, name } in &setup.suites {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "deb [arch={}] {mirror} {name} main", setup.architecture);
    }
    text
}

/// Returns apt's preferences (apt_preferences(5)): the packages that `from` names for a suite are
/// preferred to the same packages in all other suites. Other packages of this suite are used only
/// if no other suite has them. A name may be the suite's `Suite` or `Codename`.
fn preferences(from: &FromSuites) -> String {
    let pin = |packages: &str, suite: &str, priority: u32| {
        let one = |key: char| {
            format!("Package: {packages}\nPin: release {key}={suite}\nPin-Priority: {priority}\n\n")
        };
        format!("{}{}", one('a'), one('n'))
    };
    let named = from.iter().map(|(suite, packages)| {
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        pin(&packages.join(" "), suite, 990)
    });
    // Apt uses the first stanza that matches a package.
    named.chain(from.keys().map(|suite| pin("*", suite, 1))).collect()
}

/// Returns apt's configuration. Apt reads the file in `APT_CONFIG` before all other files
/// (apt.conf(5)). Since this file sets their location, apt does not read the machine's
/// configuration, including its hooks and proxies.
fn configuration(folder: &Path, setup: &Setup<'_>) -> String {
    let folder = folder.display();
    let Setup { architecture, accepts_expired, .. } = setup;
    format!(
        "Dir \"{folder}\";
Dir::State \"state\";
Dir::State::status \"{folder}/status\";
Dir::Cache \"cache\";
Dir::Etc \"etc\";
Dir::Etc::sourcelist \"sources.list\";
Dir::Etc::sourceparts \"sources.list.d\";
Dir::Etc::preferences \"preferences\";
Dir::Etc::preferencesparts \"preferences.d\";
Dir::Etc::trusted \"trusted.gpg\";
Dir::Etc::trustedparts \"trusted.gpg.d\";
Dir::Log \"log\";
APT::Architecture \"{architecture}\";
APT::Architectures {{ \"{architecture}\"; }};
APT::Install-Recommends \"false\";
APT::Install-Suggests \"false\";
APT::Sandbox::User \"root\";
APT::Update::Error-Mode \"any\";
Acquire::AllowInsecureRepositories \"false\";
Acquire::AllowDowngradeToInsecureRepositories \"false\";
Acquire::AllowWeakRepositories \"false\";
Acquire::Check-Valid-Until \"{}\";
Acquire::Check-Date \"{}\";
Acquire::Languages \"none\";
Acquire::Retries \"3\";
",
        !accepts_expired, !accepts_expired,
    )
}
