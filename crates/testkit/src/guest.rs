//! Debian machines for tests: copies of this machine or of other releases, which a command may
//! change.
//!
//! A [`Guest`] is a root file system with an overlay in memory, in its own mount namespace. A
//! command in a guest sees the guest's files. Its changes are lost when it ends, except in folders
//! that the test shares. So a test can run programs that write to `/var/lib/apt` or `/etc`.
//!
//! `/var/lib/containers` and `/var/lib/docker` are empty in a guest. Other tests write to podman's
//! cache in the first one, and a copy of a database that is being written is damaged.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::newer::mirror;
use crate::releases::releases_cache;

/// The packages of a root with engines: podman, docker, and their dependencies.
const ENGINES: [&str; 13] = [
    "ca-certificates",
    "catatonit",
    "crun",
    "docker-cli",
    "docker.io",
    "fuse-overlayfs",
    "mount",
    "netavark",
    "passt",
    "podman",
    "runc",
    "skopeo",
    "uidmap",
];

/// The packages that a root of [`EXPERIMENTAL`] takes from experimental. It takes its other
/// packages from sid.
const FROM_EXPERIMENTAL: [&str; 1] = ["podman"];

/// The name for a root of sid with some packages from experimental.
const EXPERIMENTAL: &str = "experimental";

/// Enters a guest. `$1` is its root; the shared folders and programs follow, then `--` and the
/// command.
const ENTER: &str = r#"set -eu
lower=$1; shift
mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/work /mnt/root; root=/mnt/root
chmod 755 /mnt/changes
mount -t overlay overlay -o "lowerdir=$lower,upperdir=/mnt/changes,workdir=/mnt/work" "$root"
for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
for name in tmp run; do mount -t tmpfs tmpfs "$root/$name"; done
chmod 1777 "$root/tmp"
for engine in containers docker; do
  mkdir -p "$root/var/lib/$engine"; mount -t tmpfs -o mode=711 tmpfs "$root/var/lib/$engine"
done
for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
  if [ -e "$file" ]; then rm -f "$root$file"; cat "$file" > "$root$file"; fi
done
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then
    mkdir -p "$root$1"; mount --rbind "$1" "$root$1"
  else
    program=$root/usr/local/bin/${1##*/}
    touch "$program"; mount --bind "$1" "$program"
  fi
  shift
done
shift
cd "$root"; pivot_root . .; umount -l .; cd /
echo tester:x:4242:4242::/tmp:/bin/sh >> /etc/passwd
echo tester:1000000:65536 | tee /etc/subuid > /etc/subgid
exec "$@"
"#;

/// The arguments that make the command after them run as the guest's ordinary user. That user has
/// the user ID 4242, and ranges in `/etc/subuid` and `/etc/subgid`.
pub const AS_ORDINARY_USER: [&str; 5] =
    ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "--"];

/// The user ID and group ID of the ordinary user of every guest.
pub const ORDINARY_USER: u32 = 4242;

/// A machine whose files a command may change. The changes are lost when the command ends.
#[derive(Debug, Clone)]
pub struct Guest {
    root: PathBuf,
}

impl Guest {
    /// Returns a copy of this machine.
    ///
    /// # Panics
    /// Panics if the test does not run as root.
    pub fn this_machine() -> Self {
        Self::at(Path::new("/"))
    }

    /// Returns a guest with the Debian release `suite`, podman and docker. `experimental` is sid
    /// with podman from experimental. The root is created once per machine, from the mirror that
    /// apt uses on it.
    ///
    /// # Panics
    /// Panics if the test does not run as root, mmdebstrap is not installed, or the mirror does not
    /// respond.
    pub fn with_engines(suite: &str) -> Self {
        let mut packages = ENGINES.to_vec();
        if suite == "bookworm" {
            // In this release, the client is part of `docker.io`.
            packages.retain(|name| *name != "docker-cli");
        }
        Self::with(suite, &packages)
    }

    fn with(suite: &str, packages: &[&str]) -> Self {
        let folder = releases_cache().join("roots");
        // Each list of packages has its own root.
        let root = folder.join(format!("{suite}+{}", packages.join("+")));
        std::fs::create_dir_all(&folder).expect("the cache can be written");
        // Tests run in parallel, and some test runners start a process for each.
        let lock = std::fs::File::create(folder.join("lock")).expect("the cache can be written");
        lock.lock().expect("files can be locked");
        if !root.is_dir() {
            let fresh = tempfile::tempdir_in(&folder).expect("the cache can be written");
            make_root(suite, packages, fresh.path());
            let made = fresh.path().join("root");
            std::fs::rename(made, &root).expect("a folder can be renamed");
        }
        Self::at(&root)
    }

    fn at(root: &Path) -> Self {
        let user = std::fs::metadata("/proc/self").expect("/proc is mounted").uid();
        assert_eq!(user, 0, "only root can enter a guest: run this test as root");
        Self { root: root.to_owned() }
    }

    /// Returns a command that runs `program` in the guest as root; the caller can add arguments.
    /// Each folder in `shared` has the same path in the guest; each program in `shared` is in
    /// `/usr/local/bin`.
    pub fn command(&self, shared: &[&Path], program: impl AsRef<OsStr>) -> Command {
        self.enter(&[], shared, program)
    }

    /// Returns a command like [`Guest::command`], with additional `options` for `unshare`.
    pub(crate) fn enter(
        &self,
        options: &[&str],
        shared: &[&Path],
        program: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation=private"]).args(options);
        command.args(["--", "sh", "-c", ENTER, "sh"]);
        command.arg(&self.root).args(shared).arg("--").arg(program);
        command
    }
}

/// Creates the root of a release in `folder`.
fn make_root(release: &str, packages: &[&str], folder: &Path) {
    let is_experimental = release == EXPERIMENTAL;
    let suites = if is_experimental { &["sid", EXPERIMENTAL][..] } else { &[release] };
    let package = |name: &&str| {
        if is_experimental && FROM_EXPERIMENTAL.contains(name) {
            format!("{name}/{EXPERIMENTAL}")
        } else {
            (*name).to_owned()
        }
    };
    let packages: Vec<String> = packages.iter().map(package).collect();
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let mut command = Guest::this_machine().command(&[folder], "mmdebstrap");
    command.args(["--mode=root", "--variant=apt", "--quiet"]);
    command.arg(format!("--include={}", packages.join(",")));
    // The mirror may be a snapshot of an earlier date.
    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"").arg(suites[0]);
    command.arg(folder.join("root"));
    for suite in suites {
        command.arg(format!("deb [signed-by={keys}] {} {suite} main", mirror()));
    }
    let output = command.output().expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mmdebstrap makes a root of {release}: {said}");
}
