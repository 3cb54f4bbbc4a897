//! `patch` on pinned sources: fetched by commit or hash, patched in the cache, written as a tar.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{GitFolder, GitHttp};

use crate::dsl::{Project, same};
use crate::patch::{head, json, list_edit};

const OLD: &str = "list = \"gfx1100\"\n";
const UPSTREAM: &str = "https://git.example.org";

/// A project whose component `demo` has one patch and three pins with the same content: a commit,
/// another with a submodule, and an archive on an index.
struct Pinned {
    project: Project,
    git: GitFolder,
    server: GitHttp,
    index: Index,
}

/// Python's own web server, which serves a folder.
pub(crate) struct Index {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    child: Child,
}

impl Index {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
        let command = command.current_dir(folder.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(300);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "python's http.server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { folder, port, child }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }

    /// Publishes a source archive with these files, and returns its hash.
    pub(crate) fn publish(&self, version: &str, files: &[(&str, &str)]) -> String {
        let top = format!("demo-{version}");
        let made = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = made.path().join(&top).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let archive = self.folder.path().join(format!("{top}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(made.path()).arg(&top);
        assert!(tar.status().unwrap().success());
        let sum = Command::new("sha256sum").arg(&archive).output().unwrap();
        let hash = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
        let page = self.folder.path().join("simple/demo/index.html");
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&page).unwrap_or_default();
        let before = before.split_once("[").and_then(|(_, rest)| rest.rsplit_once(']'));
        let before = before.map(|(files, _)| format!("{files},")).unwrap_or_default();
        let file = format!(
            "{{\"filename\":\"{top}.tar.gz\",\"url\":\"../../{top}.tar.gz\",\"hashes\":{{\"sha256\":\"{hash}\"}}}}"
        );
        let text = format!("{{\"meta\":{{\"api-version\":\"1.0\"}},\"files\":[{before}{file}]}}");
        fs::write(page, text).unwrap();
        hash
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Pinned {
    fn new() -> Self {
        let (git, index) = (GitFolder::new(), Index::start());
        let files = [("a.txt", OLD), ("dir/b.txt", "b\n")];
        git.init("demo");
        files.iter().for_each(|(path, text)| git.write("demo", path, text));
        let commit = git.commit("demo");
        let server = GitHttp::start(git.path());
        let hash = index.publish("0.5", &files);
        let project = Project::new();
        project.write(
            "versions/versions.toml",
            &format!(
                "schema = 1\nsource-date-epoch = 1795132800\n\n\
                 [source.demo]\nurl = \"{UPSTREAM}/demo\"\nversion = \"0.5\"\ncommit = \"{commit}\"\npatches = \"demo\"\n\n\
                 [archive.demo-sdist]\nproject = \"demo\"\nversion = \"0.5\"\nsha256 = \"{hash}\"\npatches = \"demo\"\n\n\
                 [source.demo-next]\nurl = \"{UPSTREAM}/demo\"\ncommit = \"unresolved\"\npatches = \"demo\"\n"
            ),
        );
        let applies = "[applies]\nversions = \"<0.7\"\nabove = { then = \"skip\", because = \"upstream has it\" }\n\n";
        project.write(
            "patches/demo/demo-list.toml",
            &format!("{}{applies}{}", head("demo-list"), list_edit("a.txt")),
        );
        Self { project, git, server, index }
    }

    fn run(&self, line: &str) -> crate::dsl::Ran {
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        crate::dsl::ran(command.env("PIP_INDEX_URL", self.index.url()).output().unwrap())
    }

    /// Runs a command with the git server instead of upstream.
    fn mirrored(&self, line: &str) -> crate::dsl::Ran {
        self.run(&format!("{line} --mirror {UPSTREAM}=http://{}", self.server.host()))
    }
}

/// A machine without pip and without a setting uses the public index.
#[test]
fn without_pip_archives_are_looked_up_on_the_public_index() {
    let pinned = Pinned::new();
    let empty = tempfile::tempdir().unwrap();
    let rule = format!("https://pypi.org/simple={}", pinned.index.url());
    let line = ["patch", "check", "demo", "--pin", "demo-sdist", "--mirror", &rule];
    let mut command = pinned.project.command(&line);
    command.env_remove("PIP_INDEX_URL").env("PATH", empty.path());
    crate::dsl::ran(command.output().unwrap()).expect(0).prints("applied(1)");
}

#[test]
fn a_pinned_commit_is_checked_without_a_checkout_and_the_second_time_without_network() {
    let pinned = Pinned::new();
    let before = pinned.project.files();
    pinned
        .mirrored("patch check demo")
        .expect(0)
        .prints("demo 0.5 (pin demo) for gfx1151 in pin demo (https://git.example.org/demo at ")
        .prints("applied(1)")
        .says("fetching https://git.example.org/demo at ");
    let requests = pinned.server.requests();
    pinned.mirrored("patch diff demo").expect(0).prints("+list = \"gfx1100;gfx1151\"\n");
    pinned.mirrored("patch check demo --gpu gfx1150").expect(0).prints("gfx1150");
    assert_eq!(pinned.server.requests(), requests, "the second time, no requests are made");
    // Not even the mirror is needed.
    pinned.run("patch check demo").expect(0);
    same(&pinned.project.files(), &before, "nothing is written outside the cache");
}

#[test]
fn commit_and_archive_of_the_same_content_give_the_same_patched_tar() {
    let pinned = Pinned::new();
    pinned.mirrored("patch apply demo -o git.tar").expect(0).prints("git.tar: 3 entries, ");
    let archive = pinned.run("patch apply demo --pin demo-sdist -o archive.tar --format json");
    let report = json(&archive.expect(0));
    let exported = &report["trees"][0]["exported"];
    assert_eq!(exported["entries"], 3);
    crate::schemas::check(&pinned.project, "patch", std::slice::from_ref(&report));
    let [git, other] =
        ["git.tar", "archive.tar"].map(|n| fs::read(pinned.project.path(n)).unwrap());
    assert_eq!(git, other);
    let listed = Command::new("tar")
        .args(["--numeric-owner", "--full-time", "--utc", "-tvf"])
        .arg(pinned.project.path("git.tar"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [
            ["-rw-r--r--", "0/0", "25", "2026-11-20", "00:00:00", "a.txt"],
            ["drwxr-xr-x", "0/0", "0", "2026-11-20", "00:00:00", "dir/"],
            ["-rw-r--r--", "0/0", "2", "2026-11-20", "00:00:00", "dir/b.txt"],
        ]
    );
    // To standard output, which contains only the tar.
    let mut command = pinned.project.command(&["patch", "apply", "demo", "-o", "-"]);
    let piped = command.output().unwrap();
    assert_eq!((piped.status.code(), piped.stdout == git), (Some(0), true));
    assert!(String::from_utf8_lossy(&piped.stderr).contains("applied(1)"));
}

#[test]
fn a_failing_patch_leaves_the_output_as_it_was() {
    let pinned = Pinned::new();
    pinned.mirrored("patch apply demo -o old.tar").expect(0);
    let old = std::fs::read(pinned.project.path("old.tar")).unwrap();
    pinned.project.edit("patches/demo/demo-list.toml", "'''^list = ", "'''^lists = ");
    pinned.mirrored("patch apply demo -o old.tar").expect(7).prints("anchor-missing");
    assert_eq!(std::fs::read(pinned.project.path("old.tar")).unwrap(), old);
    pinned.project.edit("patches/demo/demo-list.toml", "'''^lists = ", "'''^list = ");
    pinned.mirrored("patch apply demo -o old.tar --dry-run").expect(0).prints("dry run");
    assert_eq!(std::fs::read(pinned.project.path("old.tar")).unwrap(), old);
    // Files that are not tar archives are not replaced, and neither are links and folders.
    let pins = pinned.project.read("versions/versions.toml");
    let refused = pinned.mirrored("patch apply demo -o versions/versions.toml").expect(2);
    refused.says("is not a tar archive");
    assert_eq!(pinned.project.read("versions/versions.toml"), pins);
    std::os::unix::fs::symlink("old.tar", pinned.project.path("link.tar")).unwrap();
    for place in ["link.tar", "patches"] {
        pinned
            .mirrored(&format!("patch apply demo -o {place}"))
            .expect(2)
            .says("not a regular file");
    }
    pinned
        .mirrored("patch apply demo -o no/such/folder.tar")
        .expect(3)
        .says("cannot write `no/such/folder.tar`");
}

#[test]
fn mirrors_can_be_in_the_users_configuration_too() {
    let pinned = Pinned::new();
    let host = pinned.server.host();
    let config = "home/.config/build-pipeline/config.toml";
    pinned
        .project
        .write(config, &format!("schema = 1\n[mirrors]\n\"{UPSTREAM}\" = \"http://{host}\"\n"));
    pinned.run("patch check demo").expect(0).says(&format!("from http://{host}/demo"));
    pinned.project.write(config, "schema = 1\n[mirrors]\n\"https://x\" = \"ssh://y/z\"\n");
    pinned
        .run("patch check demo")
        .expect(2)
        .says("config.toml:3:15")
        .says("cannot use the mirror of `https://x`");
    pinned
        .run("patch check demo --mirror https://x")
        .expect(2)
        .says("cannot use `--mirror https://x`");
}

#[test]
fn a_pin_that_cannot_be_used_is_told_with_what_to_do() {
    let pinned = Pinned::new();
    pinned
        .run("patch check demo --pin demo-next")
        .expect(2)
        .says("pin `demo-next` is unresolved")
        .says("--root DIR");
    pinned.run("patch check demo --pin demo-sdits").expect(2).says("did you mean `demo-sdist`?");
    pinned.run("patch check demo --pin demo --root .").expect(2).says("cannot be used with");
    pinned.run("patch apply demo").expect(2).says("--output FILE.tar");
    // A commit that the server does not have.
    let commit = pinned.git.run("demo", &["rev-parse", "HEAD"]);
    pinned.project.edit("versions/versions.toml", &commit, &"7".repeat(40));
    pinned
        .mirrored("patch check demo")
        .expect(5)
        .says("cannot fetch `https://git.example.org/demo at 7777777")
        .says(&format!("mirror `{}` does not have it", pinned.server.host()));
    // An archive with the same name as the pinned one, but different content.
    let pins = pinned.project.read("versions/versions.toml");
    let pinned_hash = pins.split("sha256 = \"").nth(1).unwrap()[..64].to_owned();
    let hash = pinned.index.publish("0.5", &[("a.txt", "list = \"other\"\n")]);
    pinned
        .run("patch check demo --pin demo-sdist")
        .expect(6)
        .says(&format!("its SHA-256 is `{hash}`"))
        .says(&format!("but the pin is `{pinned_hash}`"));
    pinned.project.edit("versions/versions.toml", &pinned_hash, &"1".repeat(64));
    pinned
        .run("patch check demo --pin demo-sdist")
        .expect(5)
        .says("the index has no file of this release with the SHA-256");
}

#[test]
fn an_unresolved_pin_is_looked_up_where_its_source_is() {
    let project = Project::new();
    let pin = "d0f9f0b08a986cdeadbffcf5ec8b3a8f514366c68ad1853d3ab061bc83cc340b";
    project.edit("versions/versions.toml", pin, "unresolved");
    project
        .run("patch check flash-attention --pin flash-attention-sdist")
        .expect(2)
        .says("looks up its `sha256` on the package index and writes it");
    project.run("patch check aiter").expect(2).says("looks up its `commit` at `https://");
}

#[test]
fn an_audit_takes_all_pins_or_the_releases_of_the_index() {
    let pinned = Pinned::new();
    pinned
        .mirrored("patch audit demo")
        .expect(0)
        .says("skipped: pin `demo-next` is unresolved")
        .prints("demo-list is still needed by the newest version");
    pinned.index.publish("0.4", &[("a.txt", OLD)]);
    pinned.index.publish("0.6", &[("a.txt", "list = \"gfx1100;gfx1151\"\n")]);
    pinned.index.publish("0.7", &[("a.txt", "lists = []\n")]);
    let audit = pinned.run("patch audit demo --releases * --format json").expect(0);
    let report = json(&audit);
    let versions = report["versions"].as_array().unwrap();
    let verdicts: Vec<(&str, &str)> = versions
        .iter()
        .map(|row| {
            let patch = &row["report"]["patches"][0];
            (row["root"].as_str().unwrap(), patch["verdict"]["kind"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            ("demo-0.4.tar.gz", "applied"),
            ("demo-0.5.tar.gz", "applied"),
            ("demo-0.6.tar.gz", "already-present"),
            ("demo-0.7.tar.gz", "not-applicable"),
        ]
    );
    crate::schemas::check(&pinned.project, "patch-audit", std::slice::from_ref(&report));
    let audit = pinned.run("patch audit demo --releases <0.5").expect(0).prints("0.4");
    assert!(!audit.stdout.contains("0.5"), "{}", audit.stdout);
    pinned.run("patch audit demo --releases >9").expect(2).says("no source archive");
    pinned.run("patch audit demo --releases 0.5").expect(2).says("has no operator");
}

#[test]
fn sed_lines_are_judged_on_the_source_of_a_pin() {
    let pinned = Pinned::new();
    pinned.project.write("Dockerfile", "FROM scratch\nRUN sed -i 's/gfx1100/&;gfx1151/' a.txt\n");
    pinned
        .run("patch lint-sed Dockerfile --pin demo-sdist")
        .expect(1)
        .prints("sed-not-idempotent")
        .prints(
            "build-pipeline patch apply demo --pin demo-sdist --output demo.tar --only demo-list",
        );
}
