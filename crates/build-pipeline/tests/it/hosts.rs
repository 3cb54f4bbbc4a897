//! A base of Debian packages on hosts other than Debian: the same image, and nothing from the host.

use std::path::Path;
use std::process::Command;

use testkit::{Guest, PodmanStore};

use crate::bundle::offline;
use crate::dsl::{Project, Ran, ran};

/// Removes everything that makes a machine a Debian system, then runs the given command, if any. A
/// Fedora machine has none of these files.
const NO_DEBIAN: &str = r#"set -eu
rm -rf /etc/apt /var/lib/apt /var/cache/apt /var/lib/dpkg /etc/debian_version
for program in apt apt-get apt-cache apt-mark dpkg dpkg-deb dpkg-query mmdebstrap debootstrap; do
  rm -f "/usr/bin/$program" "/usr/sbin/$program"
done
if command -v apt-get dpkg mmdebstrap; then exit 99; fi
if [ $# -gt 0 ]; then exec "$@"; fi
"#;

/// A project whose track `vulkan` has a variant on a base of Debian packages, which builds in
/// seconds.
pub(crate) fn project(podman: &PodmanStore) -> Project {
    let project = Project::new();
    project.write_podman(podman);
    let lock = "schema = 1\nsuite = \"trixie\"\narchitecture = \"amd64\"\nchecked = 2026-11-22\n\n\
                [set.base]\nwanted = [\"?essential\", \"apt\"]\npackages = []\n";
    project.write("versions/locks/small.toml", lock);
    let stage = "[vulkan.variants.small]\npackages = \"small\"\n[[vulkan.variants.small.stage]]\n\
                 name = \"small\"\ndockerfile = \"dockerfiles/small.Dockerfile\"\n\n\
                 [vulkan.variants.debian]\n";
    project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
    let dockerfile = "ARG BASE\nFROM ${BASE}\nRUN dpkg-query --show > /installed\n";
    project.write("dockerfiles/small.Dockerfile", dockerfile);
    project.run("lock small").expect(0);
    project
}

const BUILD: &str = "build --track vulkan --variant small --engine podman --output oci:out";

/// Runs a command line on a copy of this machine, through a script that gets it as arguments.
fn on_a_copy(
    project: &Project,
    podman: &PodmanStore,
    script: &str,
    user: &[&str],
    line: &str,
) -> Ran {
    let program = Path::new(env!("CARGO_BIN_EXE_build-pipeline"));
    let (folder, store) = (project.path(""), podman.root());
    let folders = [program.parent().unwrap(), &folder, store.parent().unwrap()];
    let mut command = Guest::this_machine().command(&folders, "sh");
    command.args(["-c", script, "sh"]).args(user).args(["env", "-C"]).arg(project.path(""));
    command.arg(program).args(line.split(' ')).env_clear();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", project.path("bin").display());
    command.env("HOME", project.path("home")).env("PATH", path);
    command.env("CONTAINERS_REGISTRIES_CONF", project.path("registries.conf"));
    ran(command.output().unwrap())
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn a_base_of_debian_packages_is_the_same_without_debian_and_from_a_bundle() {
    let podman = PodmanStore::new();
    let project = project(&podman);
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", project.path("bin").display());
    let mut command = project.command(&BUILD.split(' ').collect::<Vec<_>>());
    let here = ran(command.env("PATH", path).output().unwrap()).expect(0).digest();
    std::fs::remove_dir_all(project.path("out")).unwrap();
    // The packages stay in the cache, because only apt knows this machine's mirror.
    std::fs::remove_dir_all(project.path("home/.cache/build-pipeline/store")).unwrap();
    let there = on_a_copy(&project, &podman, NO_DEBIAN, &[], BUILD).expect(0).digest();
    assert_eq!(here, there);

    project.run("bundle vulkan --variant small -o small.tar").expect(0).prints(" packages");
    let without_network = |line: &str| {
        let line = format!("{line} vulkan --variant small --bundle small.tar");
        ran(offline(&project, "away", &line).output().unwrap()).expect(0)
    };
    assert_eq!(without_network("build --engine podman").digest(), here);
    without_network("plan --format json");
}

/// Runs the given command, and fails if it changed the machine's apt or dpkg.
const APT_UNCHANGED: &str = r#"set -eu
state() {
  set -- /etc/apt /var/lib/apt /var/cache/apt /var/lib/dpkg
  find "$@" -printf '%p %s %T@ %C@\n' | sort
  find "$@" -type f -exec sha256sum {} + | sort
}
state > /tmp/before
"$@"
state > /tmp/after
test -s /tmp/before
cmp /tmp/before /tmp/after
"#;

#[test]
#[ignore = "runs every night: it takes minutes"]
fn nothing_of_the_machines_apt_and_dpkg_changes() {
    let podman = PodmanStore::new();
    let project = project(&podman);
    let unchanged = |user: &[&str], line: &str| {
        // Everything is looked up and fetched again.
        drop(std::fs::remove_dir_all(project.path("home/.cache/build-pipeline")));
        on_a_copy(&project, &podman, APT_UNCHANGED, user, line).expect(0);
    };
    unchanged(&[], "lock small");
    unchanged(&[], BUILD);
    let owner = format!("{0}:{0}", testkit::ORDINARY_USER);
    let folder = project.path("");
    let given = Command::new("chown").args(["-R", &owner]).arg(folder).status();
    assert!(given.unwrap().success());
    unchanged(&testkit::AS_ORDINARY_USER, "lock small");
}

/// Builds track `vulkan` on several hosts: engines of each release, as root and rootless, and a
/// host without apt. Debian 12 and 13 also rehearse track `source`. Each must build the same
/// images.
#[cfg(feature = "engines")]
#[test]
fn the_tracks_that_are_compiled_are_the_same_on_every_host() {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use std::time::Instant;

    use crate::conformance::SUITES_VARIABLE;
    use crate::site::{Site, Way};

    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut command = Command::new("cp");
        assert!(
            command
                .args(["-a", "--no-target-directory"])
                .args([from, to])
                .status()
                .unwrap()
                .success()
        );
    };
    // All hosts share what the first one has fetched, because the others may not know a mirror. The
    // folder is kept for later runs.
    let sources = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sources-of-hosts");
    let mut digests: BTreeMap<&str, String> = BTreeMap::new();
    println!("\n| host | engine | `vulkan` | `source --rehearse` |\n|---|---|---|---|");
    // The names are the ones that `cargo xtask engines` takes.
    let wanted = std::env::var(SUITES_VARIABLE).ok();
    for (name, suite, way, host) in [
        ("host-bookworm", "bookworm", Way::Podman, "Debian 12"),
        ("host-trixie", "trixie", Way::Podman, "Debian 13"),
        ("host-sid", "sid", Way::BuildKit, "Debian sid"),
        ("host-experimental", "experimental", Way::RootlessPodman, "Debian experimental"),
        ("host-without-apt", "trixie", Way::Podman, "without apt, dpkg and mmdebstrap"),
    ] {
        if wanted.as_ref().is_some_and(|wanted| !wanted.split(',').any(|one| one == name)) {
            continue;
        }
        assert!(name == "host-bookworm" || sources.is_dir(), "test host-bookworm first");
        let site = Site::new(suite, way, "");
        if host.starts_with("without") {
            site.shell(NO_DEBIAN);
        }
        let cache = site.project.path("home/.cache/build-pipeline/sources");
        if sources.is_dir() {
            copy(&sources, &cache);
            site.give_away();
        }
        let mut line = format!("| {host} | {} {} |", site.version(), way.words());
        for (track, options) in [("vulkan", ""), ("source", "--rehearse")] {
            if track == "source" && !matches!(name, "host-bookworm" | "host-trixie") {
                line.push_str(" – |");
                continue;
            }
            let begin = Instant::now();
            let engine = site.engine_name();
            let build = format!("--track {track} {options} --engine {engine} --output oci:{track}");
            let digest = site.run(&build).expect(0).digest();
            eprintln!("{host}: {track} took {} s", begin.elapsed().as_secs());
            let first = digests.entry(track).or_insert_with(|| digest.clone());
            assert_eq!(digest, *first, "{host}: {track}");
            let digits = digest.trim_start_matches("sha256:").get(..12).unwrap();
            write!(line, " {digits} |").unwrap();
        }
        println!("{line}");
        if name == "host-bookworm" {
            copy(&cache, &sources);
        }
    }
}
