//! `bump` never moves to an older, different or missing value silently or without permission.

use testkit::{Answer, FaultProxy, GitFolder, GitHttp, RandomImage, gate_passed, shared_registry};

use crate::dsl::{Project, ran, same};

const FILE: &str = "versions/versions.toml";
const URL: &str = "https://h.example/a";

/// A git repository with some tags, each on a different commit.
struct Upstream {
    folder: GitFolder,
    server: GitHttp,
}

impl Upstream {
    fn new(tags: &[&str]) -> Self {
        let folder = GitFolder::new();
        folder.init("a");
        folder.commit("a");
        for tag in tags {
            folder.commit("a");
            folder.run("a", &["tag", "-a", "-m", tag, tag]);
        }
        let server = GitHttp::start(folder.path());
        Self { folder, server }
    }

    fn commit(&self, name: &str) -> String {
        self.folder.run("a", &["rev-parse", &format!("{name}^{{commit}}")])
    }

    /// A project with one pin, at a tag of this repository or at a commit that it never had.
    fn pinned(&self, tag: &str, commit: &str) -> Project {
        let project = Project::new();
        let version = tag.trim_start_matches('v');
        project.write(FILE, &format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n[source.a]\nurl = \"{URL}\"\nref = \"{tag}\"\nversion = \"{version}\"\ncommit = \"{commit}\"\nchecked = 2026-11-20\n"
        ));
        project
    }

    fn mirror(&self) -> String {
        format!("--mirror {URL}={}", self.server.url("a"))
    }
}

/// Runs a bump. Fails the test if a file changed or there was no message.
#[track_caller]
fn refused(project: &Project, line: &str, code: i32, says: &str) {
    let before = project.files();
    let ran = project.run(line).expect(code).says(says);
    assert!(ran.stdout.is_empty(), "{line}: {}", ran.stdout);
    same(&project.files(), &before, line);
}

#[test]
fn a_source_is_not_rolled_back_mixed_up_or_frozen() {
    let mut tried = 0;
    let mut refused = |project: &Project, line: &str, code, says: &str| {
        refused(project, line, code, says);
        tried += 1;
    };
    let upstream = Upstream::new(&["v1.0", "v1.1", "v2.0rc1"]);
    let mirror = upstream.mirror();
    // An older tag, by name, as a version and as a commit.
    let project = upstream.pinned("v1.1", &upstream.commit("v1.1"));
    refused(&project, &format!("bump a v1.0 {mirror}"), 2, "--allow-downgrade");
    refused(&project, &format!("bump a 1.0 {mirror}"), 2, "--allow-downgrade");
    let old = upstream.commit("v1.0");
    refused(&project, &format!("bump a {old} {mirror}"), 2, "--allow-downgrade");
    // The newest tags are gone: the remaining ones are older than the pinned one.
    let fewer = Upstream::new(&["v0.8", "v0.9"]);
    let lost = fewer.pinned("v1.1", &upstream.commit("v1.1"));
    refused(&lost, &format!("bump a {}", fewer.mirror()), 2, "older");
    // A tag that now points to a different commit.
    let moved = upstream.pinned("v1.1", &"1".repeat(40));
    refused(&moved, &format!("bump a v1.1 {mirror}"), 6, "it was `1111");
    refused(&moved, &format!("bump a {mirror}"), 6, "it was `1111");
    // No tags at all, a tag that never existed, a repository that is gone.
    let bare = Upstream::new(&[]);
    let project = bare.pinned("v1.1", &upstream.commit("v1.1"));
    refused(&project, &format!("bump a {}", bare.mirror()), 2, "no tag");
    refused(&project, &format!("bump a v9.9 {mirror}"), 2, "has no tag or branch");
    let gone = format!("--mirror {URL}={}", upstream.server.url("no-such-repository"));
    refused(&project, &format!("bump a {gone}"), 5, "error");
    gate_passed(13, tried);
}

#[test]
fn a_pre_release_as_newest_and_a_slow_clock_change_nothing() {
    let upstream = Upstream::new(&["v1.0", "v1.1", "v2.0rc1"]);
    let project = upstream.pinned("v1.1", &upstream.commit("v1.1"));
    let before = project.files();
    let line = format!("bump a {}", upstream.mirror());
    project.run(&format!("{line} --check")).expect(0);
    same(&project.files(), &before, "a pre-release");
    project.run(&line).expect(0).prints("a is already at v1.1");
    // Only the date of the check changes.
    let text = project.read(FILE);
    assert!(text.contains(&format!("commit = \"{}\"", upstream.commit("v1.1"))), "{text}");
    // On a machine whose clock is years behind, the file's time does not go back.
    let project = upstream.pinned("v1.0", &upstream.commit("v1.0"));
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = project.command(&words);
    ran(command.env("SOURCE_DATE_EPOCH", "1577836800").output().unwrap()).expect(0);
    let text = project.read(FILE);
    assert!(text.contains("source-date-epoch = 1795132800\n"), "{text}");
    assert!(text.contains("ref = \"v1.1\""), "{text}");
    gate_passed(13, 2);
}

/// A page of the simple API with these files.
fn index(files: &[(&str, char, &str)]) -> FaultProxy {
    let file = |(name, digit, more): &(&str, char, &str)| {
        let hash = digit.to_string().repeat(64);
        format!(
            r#"{{"filename":"{name}","url":"https://h.example/{name}","hashes":{{"sha256":"{hash}"}}{more}}}"#
        )
    };
    let files: Vec<String> = files.iter().map(file).collect();
    let body =
        format!(r#"{{"meta":{{"api-version":"1.0"}},"name":"a","files":[{}]}}"#, files.join(","));
    let server = FaultProxy::alone();
    let answer = Answer::new(200).header("Content-Type", "application/vnd.pypi.simple.v1+json");
    server.on("GET", "/simple/a/").does(answer.body(body));
    server
}

#[test]
fn an_archive_is_not_rolled_back_replaced_or_taken_where_it_was_withdrawn() {
    let mut tried = 0;
    let pinned = |digit: char| {
        let (project, hash) = (Project::new(), digit.to_string().repeat(64));
        project.write(FILE, &format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n[archive.a]\nproject = \"a\"\nversion = \"1.1\"\nsha256 = \"{hash}\"\n"
        ));
        project
    };
    let all = [
        ("a-1.0.tar.gz", '1', ""),
        ("a-1.1.tar.gz", '2', ""),
        ("a-1.2.tar.gz", '3', r#","yanked":"broken""#),
        ("a-1.3-py3-none-any.whl", '4', ""),
    ];
    let server = index(&all);
    let option = format!("--index {}/simple", server.url());
    let project = pinned('2');
    for (line, code, says) in [
        ("bump a 1.0", 2, "is older than `1.1`"),
        ("bump a 1.2", 2, "was yanked: broken"),
        // This version has only a wheel, and no source archive.
        ("bump a 1.3", 2, "1.3"),
        ("bump a 9.9", 2, "the newest is `1.1`"),
    ] {
        refused(&project, &format!("{line} {option}"), code, says);
        tried += 1;
    }
    let project = pinned('9');
    refused(&project, &format!("bump a 1.1 {option}"), 6, "moved: it was `99999999");
    // First everything newer was removed, then everything.
    let server = index(&all[..1]);
    let project = pinned('2');
    refused(&project, &format!("bump a --index {}/simple", server.url()), 2, "older");
    let server = index(&[]);
    refused(&project, &format!("bump a --index {}/simple", server.url()), 2, "a");
    let server = FaultProxy::alone();
    server.on("GET", "").does(Answer::new(404));
    refused(&project, &format!("bump a --index {}/simple", server.url()), 5, "error");
    gate_passed(13, tried + 4);
}

#[test]
fn an_image_is_not_rolled_back_and_a_registry_that_never_ends_is_left() {
    let mut tried = 0;
    let host = shared_registry().host();
    let path = format!("rollback-{}", std::process::id());
    RandomImage::new(1401).push(host, &path, "7.2.4");
    RandomImage::new(1402).push(host, &path, "7.2.3");
    let project = Project::new();
    project.write(FILE, "schema = 1\nsource-date-epoch = 1795132800\n\n[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"7.2.4\"\ndigest = \"unresolved\"\n");
    let mirror = |host: &str| format!("--mirror docker.io/a/a={host}/{path}");
    project.run(&format!("bump a {}", mirror(host))).expect(0);
    let proxy = FaultProxy::to(host);
    proxy.on("*", "/manifests/none").does(Answer::new(404));
    proxy
        .on("*", "/manifests/page")
        .does(Answer::new(200).header("Content-Type", "text/html").body("<html>log in"));
    for (line, host, code, says) in [
        ("bump a 7.2.3", host.to_owned(), 2, "is older than `7.2.4`"),
        ("bump a none", proxy.host(), 5, "nothing was changed"),
        ("bump a page", proxy.host(), 5, "nothing was changed"),
    ] {
        refused(&project, &format!("{line} {}", mirror(&host)), code, says);
        tried += 1;
    }
    // A list of tags that always names itself as its next page.
    let proxy = FaultProxy::to(host);
    let page = Answer::new(200).header("Content-Type", "application/json");
    let page = page.header("Link", &format!("</v2/{path}/tags/list?n=1&last=7.2.4>; rel=\"next\""));
    proxy.on("GET", "/tags/list").does(page.body(r#"{"name":"a","tags":["7.2.4"]}"#));
    let before = project.files();
    let ran = project.run(&format!("outdated a {}", mirror(&proxy.host())));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    same(&project.files(), &before, "tags without end");
    let pages = proxy.count("GET", "/tags/list");
    assert!((1..2_000).contains(&pages), "{pages} pages were requested");
    gate_passed(13, tried + 1);
}
