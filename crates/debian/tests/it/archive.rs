//! An archive with Debian's layout in a folder, signed with a test key, so that a test chooses its
//! content and its age.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use names::Digest;
use tempfile::TempDir;

use crate::support::architecture;

/// A suite: the fields of its index, and its packages as paragraphs.
pub(crate) struct Suite<'a> {
    /// The name in `dists`, and the code name.
    pub(crate) name: &'a str,
    /// The field `Date`.
    pub(crate) date: &'a str,
    /// The field `Valid-Until`.
    pub(crate) valid_until: Option<&'a str>,
    /// Name, version, and further fields of each package.
    pub(crate) packages: &'a [(&'a str, &'a str, &'a str)],
}

/// The archive. It is deleted when this is dropped.
pub(crate) struct Archive {
    folder: TempDir,
}

impl Archive {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("archive-").tempdir().unwrap();
        let keys = folder.path().join("keys");
        DirBuilder::new().mode(0o700).create(keys).unwrap();
        let made = Self { folder };
        made.gpg(&["--quick-generate-key", "--passphrase", "", "archive@example.org", "default"]);
        made.gpg(&["--output", &made.keyring().display().to_string(), "--export"]);
        made
    }

    /// The URL of the archive.
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }

    /// The file with the public key.
    pub(crate) fn keyring(&self) -> PathBuf {
        self.folder.path().join("keyring.gpg")
    }

    /// Writes the signed index of a suite.
    pub(crate) fn write(&self, suite: &Suite<'_>) {
        let Suite { name, date, valid_until, packages } = suite;
        let mut index = String::new();
        for (package, version, fields) in *packages {
            let file = format!("pool/main/{package}_{version}_all.deb");
            let hash = Digest::of(file.as_bytes()).hex().to_owned();
            let _ = write!(
                index,
                "Package: {package}\nVersion: {version}\nArchitecture: all\n{fields}Filename: {file}\nSize: 10\nSHA256: {hash}\n\n"
            );
        }
        let dist = self.folder.path().join("dists").join(name);
        let binary = format!("main/binary-{}/Packages", architecture());
        std::fs::create_dir_all(dist.join(&binary).parent().unwrap()).unwrap();
        std::fs::write(dist.join(&binary), &index).unwrap();
        let hash = Digest::of(index.as_bytes()).hex().to_owned();
        let mut release = format!("Suite: {name}\nCodename: {name}\nDate: {date}\n");
        if let Some(end) = valid_until {
            let _ = writeln!(release, "Valid-Until: {end}");
        }
        let _ = write!(
            release,
            "Architectures: {}\nComponents: main\nSHA256:\n {hash} {} {binary}\n",
            architecture(),
            index.len()
        );
        let plain = dist.join("Release");
        std::fs::write(&plain, release).unwrap();
        let signed = dist.join("InRelease").display().to_string();
        self.gpg(&["--yes", "--output", &signed, "--clearsign", &plain.display().to_string()]);
        std::fs::remove_file(plain).unwrap();
    }

    fn gpg(&self, arguments: &[&str]) {
        let options = ["--batch", "--quiet", "--pinentry-mode", "loopback", "--homedir"];
        let mut gpg = Command::new("gpg");
        gpg.args(options).arg(self.keys()).args(arguments).stdin(Stdio::null());
        let ran = gpg.output().expect("`gpg` is missing; `cargo xtask setup` installs it");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("keys")
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // gpg starts an agent that would outlive the test.
        let mut end = Command::new("gpgconf");
        drop(end.arg("--homedir").arg(self.keys()).args(["--kill", "gpg-agent"]).status());
    }
}
