//! `outdated` distinguishes current pins from those that moved, were rewritten, vanished or
//! expired, using real git servers, a real registry and an index.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Answer, FaultProxy, GitDaemon, GitFolder, GitHttp, RandomImage, shared_registry};

use crate::dsl::{Project, ran};

const FILE: &str = "versions/versions.toml";
const HEAD: &str = "schema = 1\nsource-date-epoch = 1795132800\n";

/// Runs `outdated --format json`. Returns the exit code, and the class and detail of each pin.
fn outdated(project: &Project, options: &str) -> (i32, impl Fn(&str) -> (String, String) + use<>) {
    let ran = project.run(&format!("outdated --format json {options}"));
    let report: Value = serde_json::from_str(&ran.stdout).expect(&ran.stderr);
    let of = move |pin: &str| {
        let all = report["pins"].as_array().unwrap();
        let one = all.iter().find(|one| one["pin"] == pin).expect(pin);
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        (text("class"), text("detail"))
    };
    (ran.code, of)
}

fn source(name: &str, git_ref: &str, commit: &str) -> String {
    let git_ref = if git_ref.is_empty() { String::new() } else { format!("ref = \"{git_ref}\"\n") };
    format!("[source.{name}]\nurl = \"https://h.example/a\"\n{git_ref}commit = \"{commit}\"\n")
}

#[test]
fn sources_are_told_apart() {
    let folder = GitFolder::new();
    folder.init("a");
    let tag = |name: &str| {
        let commit = folder.commit("a");
        folder.run("a", &["tag", "-a", "-m", name, name]);
        commit
    };
    let (first, second, third) = (tag("v1.0"), tag("v1.1"), tag("v1.2"));
    tag("v2.0rc1");
    folder.run("a", &["branch", "steady"]);
    folder.run("a", &["branch", "rebased"]);
    let tip = folder.commit("a");
    // The branch is pinned here, and loses the commit later.
    folder.run("a", &["checkout", "-q", "rebased"]);
    let lost = folder.commit("a");
    folder.run("a", &["reset", "-q", "--hard", "HEAD~1"]);
    folder.write("a", "x", "x");
    folder.commit("a");
    folder.run("a", &["checkout", "-q", "main"]);
    let pins = [
        source("newest", "v1.2", &third),
        source("older", "v1.1", &second),
        source("moved", "v1.0", &first),
        source("gone", "v0.9", &first),
        source("open", "v1.2", "unresolved"),
        source("branch", "main", &tip),
        source("branch-behind", "main", &third),
        source("rebased", "rebased", &lost),
        source("rebased-long-ago", "rebased", &"1".repeat(40)),
        source("bare", "", &third),
        source("bare-between", "", &second),
        source("bare-gone", "", &"2".repeat(40)),
    ];
    folder.run("a", &["tag", "-f", "v1.0", &second]);
    let project = Project::new();
    project.write(FILE, &format!("{HEAD}{}", pins.concat()));
    let (http, daemon) = (GitHttp::start(folder.path()), GitDaemon::start(folder.path()));
    for url in [http.url("a"), daemon.url("a")] {
        let (code, of) = outdated(&project, &format!("--mirror https://h.example/a={url}"));
        assert_eq!(code, 26);
        for (pin, class, detail) in [
            ("newest", "current", ""),
            ("older", "newer", "`v1.2` was released"),
            ("moved", "moved", &format!("was `{first}` and is now `{second}`")),
            ("gone", "vanished", "tag or branch `v0.9` no longer exists"),
            ("open", "unresolved", &third),
            ("branch", "current", ""),
            ("branch-behind", "newer", "moved ahead to"),
            ("rebased", "rewritten", "no longer contains"),
            ("rebased-long-ago", "rewritten", "no longer has"),
            ("bare", "current", ""),
            ("bare-between", "current", ""),
            ("bare-gone", "vanished", "no longer has"),
        ] {
            let (found, said) = of(pin);
            assert_eq!(found, class, "{pin}: {said}");
            assert!(said.contains(detail), "{pin}: {said}");
        }
    }
    // If only one pin is checked, its state determines the exit code.
    for (pin, code) in
        [("newest", 0), ("older", 20), ("open", 21), ("moved", 23), ("rebased", 24), ("gone", 26)]
    {
        project
            .run(&format!("outdated {pin} --mirror https://h.example/a={}", http.url("a")))
            .expect(code);
    }
    project
        .run("outdated newest --mirror https://h.example/a=http://127.0.0.1:1/a")
        .expect(5)
        .prints("unreachable");
    let ran = project
        .run(&format!("outdated --format github --mirror https://h.example/a={}", http.url("a")))
        .expect(26);
    // The first line of a nightly report names the pin that vanished or moved.
    assert!(ran.stdout.starts_with("pin bare-gone vanished: "), "{}", ran.stdout);
    ran.prints("::error file=versions/versions.toml,line=")
        .prints("title=pin moved moved::tag `v1.0` was");
}

#[test]
fn images_are_told_apart() {
    let (project, host) = (Project::new(), shared_registry().host());
    let path = format!("outdated-{}", std::process::id());
    let old = RandomImage::new(9101).push(host, &path, "moves");
    let steady = RandomImage::new(9102).push(host, &path, "steady");
    RandomImage::new(9103).push(host, &path, "moves");
    let image = |name: &str, tag: &str, digest: &str, more: &str| {
        let tag = if tag.is_empty() { String::new() } else { format!("tag = \"{tag}\"\n") };
        format!(
            "[image.{name}]\nrepository = \"{host}/{path}\"\n{tag}digest = \"{digest}\"\n{more}"
        )
    };
    let nowhere = format!("sha256:{}", "3".repeat(64));
    let pins = [
        image("steady", "steady", steady.digest.as_str(), ""),
        image("moved", "moves", old.digest.as_str(), ""),
        image("moved-and-gone", "moves", &nowhere, ""),
        image("no-tag", "nothing", steady.digest.as_str(), ""),
        image("bare", "", old.digest.as_str(), ""),
        image("bare-gone", "", &nowhere, ""),
        image("open", "steady", "unresolved", ""),
        image("followed", "moves", "unresolved", "follow = true\n"),
        image(
            "expired",
            "steady",
            steady.digest.as_str(),
            "checked = 2026-01-01\nexpires = 2026-02-01\n",
        ),
    ];
    project.write(FILE, &format!("{HEAD}{}", pins.concat()));
    let (code, of) = outdated(&project, "");
    assert_eq!(code, 26);
    for (pin, class, detail) in [
        ("steady", "current", ""),
        ("moved", "moved", old.digest.as_str()),
        ("moved-and-gone", "vanished", "the registry no longer has"),
        ("no-tag", "vanished", "its digest still does, so mirror it now"),
        ("bare", "current", ""),
        ("bare-gone", "vanished", "no longer has the digest"),
        ("open", "unresolved", steady.digest.as_str()),
        ("followed", "current", "the tag is followed"),
        ("expired", "expired", "it expired on 2026-02-01"),
    ] {
        let (found, said) = of(pin);
        assert_eq!(found, class, "{pin}: {said}");
        assert!(said.contains(detail), "{pin}: {said}");
    }
    project.run("outdated expired").expect(22);
}

#[test]
fn newer_tags_of_an_image_are_those_of_the_same_form() {
    let (project, host) = (Project::new(), shared_registry().host());
    let path = format!("outdated-tags-{}", std::process::id());
    let old = RandomImage::new(9201).push(host, &path, "v1.9.0-rocm");
    for (seed, tag) in
        [(9202, "v1.10.0-rocm"), (9203, "v1.11.0"), (9204, "v1.12.0-rc1-rocm"), (9205, "latest")]
    {
        RandomImage::new(seed).push(host, &path, tag);
    }
    let newest = RandomImage::new(9202).push(host, &path, "v1.10.0-rocm");
    let image = |name: &str, tag: &str, digest: &str, more: &str| {
        format!(
            "[image.{name}]\nrepository = \"{host}/{path}\"\ntag = \"{tag}\"\ndigest = \"{digest}\"\n{more}"
        )
    };
    let pins = [
        image("old", "v1.9.0-rocm", old.digest.as_str(), ""),
        image("newest", "v1.10.0-rocm", newest.digest.as_str(), ""),
        image("followed", "v1.9.0-rocm", "unresolved", "follow = true\n"),
        image("open", "v1.9.0-rocm", "unresolved", ""),
    ];
    project.write(FILE, &format!("{HEAD}{}", pins.concat()));
    let (code, of) = outdated(&project, "");
    assert_eq!(code, 21);
    for (pin, class, detail) in [
        ("old", "newer", "tag `v1.10.0-rocm` was published"),
        ("newest", "current", ""),
        ("followed", "current", "the tag is followed"),
        ("open", "unresolved", old.digest.as_str()),
    ] {
        let (found, said) = of(pin);
        assert_eq!(found, class, "{pin}: {said}");
        assert!(said.contains(detail), "{pin}: {said}");
    }
    project.run("bump old").expect(0).prints("bumped old: v1.9.0-rocm");
    let text = project.read(FILE);
    assert!(
        text.contains(&format!(
            "[image.old]\nrepository = \"{host}/{path}\"\ntag = \"v1.10.0-rocm\"\ndigest = \"{}\"",
            newest.digest
        )),
        "{text}"
    );
    // A pin that has the newest tag keeps it, and so does a pin that follows its tag.
    project.run("bump newest latest").expect(0).prints("newest is already at v1.10.0-rocm");
    project
        .run("bump followed")
        .expect(0)
        .prints("followed: v1.9.0-rocm (unresolved) -> v1.9.0-rocm");
}

#[test]
fn archives_and_sets_are_told_apart() {
    let project = Project::new();
    let file = |name: &str, digit: char, more: &str| {
        format!(
            r#"{{"filename":"{name}","url":"https://h.example/{name}","hashes":{{"sha256":"{}"}}{more}}}"#,
            digit.to_string().repeat(64)
        )
    };
    let page = |files: &[String]| {
        let files = files.join(",");
        let body = format!(r#"{{"meta":{{"api-version":"1.0"}},"name":"x","files":[{files}]}}"#);
        Answer::new(200).header("Content-Type", "application/vnd.pypi.simple.v1+json").body(body)
    };
    let server = FaultProxy::alone();
    server.on("GET", "/simple/a/").does(page(&[
        file("a-1.0.tar.gz", '1', r#","yanked":"broken""#),
        file("a-1.1.tar.gz", '2', ""),
        file("a-1.2.tar.gz", '3', ""),
        file("a-1.3.tar.gz", '4', r#","yanked":true"#),
    ]));
    server.on("GET", "/simple/torch/").does(page(&[file(
        "torch-2.11.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
        '5',
        "",
    )]));
    let archive = |name: &str, version: &str, hash: &str| {
        format!("[archive.{name}]\nproject = \"a\"\nversion = \"{version}\"\nsha256 = \"{hash}\"\n")
    };
    let hash = |digit: &str| digit.repeat(64);
    let set = |name: &str, version: &str| {
        format!(
            "[release.{name}]\nindex = \"https://wheels.example/simple\"\npackages.torch = \"{version}\"\n"
        )
    };
    project.write(
        FILE,
        &[
            HEAD.to_owned(),
            archive("newest", "1.2", &hash("3")),
            archive("older", "1.1", &hash("2")),
            archive("changed", "1.2", &hash("9")),
            archive("yanked", "1.0", &hash("1")),
            archive("gone", "0.9", &hash("1")),
            archive("open", "1.2", "unresolved"),
            set("set", "2.11.0+rocm7.14.0"),
            set("set-gone", "2.12.0+rocm7.14.0"),
        ]
        .concat(),
    );
    let url = server.url();
    let (code, of) =
        outdated(&project, &format!("--index {url}/simple --mirror https://wheels.example={url}"));
    assert_eq!(code, 26);
    for (pin, class, detail) in [
        ("newest", "current", ""),
        ("older", "newer", "`1.2` was released"),
        ("changed", "moved", "its hash was"),
        ("yanked", "yanked", "broken"),
        ("gone", "vanished", "a source archive of `0.9`"),
        ("open", "unresolved", "its hash is"),
        ("set", "current", ""),
        ("set-gone", "vanished", "no longer has `torch` `2.12.0+rocm7.14.0`"),
    ] {
        let (found, said) = of(pin);
        assert_eq!(found, class, "{pin}: {said}");
        assert!(said.contains(detail), "{pin}: {said}");
    }
    // Six pins of one project need only one request.
    assert_eq!(server.count("GET", "/simple/a/"), 1);
    project.run(&format!("outdated yanked --index {url}/simple")).expect(25);
}

#[test]
fn the_day_since_which_a_tag_is_moved_is_remembered() {
    let folder = GitFolder::new();
    folder.init("a");
    let first = folder.commit("a");
    let second = folder.commit("a");
    let third = folder.commit("a");
    folder.run("a", &["tag", "v1.0", &second]);
    let server = GitHttp::start(folder.path());
    let project = Project::new();
    project.write(FILE, &format!("{HEAD}{}", source("a", "v1.0", &first)));
    let mirror = format!("https://h.example/a={}", server.url("a"));
    let on = |epoch: &str| {
        let mut command = project.command(&["outdated", "--mirror", &mirror]);
        ran(command.env("SOURCE_DATE_EPOCH", epoch).output().unwrap())
    };
    on("1798848000").expect(23).prints("(first seen 2027-01-02)").prints("1 pin: 1 moved");
    on("1799452800").expect(23).prints("(first seen 2027-01-02)");
    // If the tag moves again, that is a new state with its own first day.
    folder.run("a", &["tag", "-f", "v1.0", &third]);
    on("1799539200").expect(23).prints("(first seen 2027-01-10)");
    // A damaged history is replaced by a new one; a newer format is left unchanged.
    let history = "home/.local/state/build-pipeline/outdated.json";
    let whole = project.read(history);
    for end in [0, 2, whole.len() / 2] {
        project.write(history, &whole[..end]);
        on("1799625600").expect(23).says("a new file is started").prints("(first seen 2027-01-11)");
    }
    project.write(history, "{\"schema\": 2, \"seen\": {}}");
    on("1799625600").expect(2).says("has schema 2");
    assert!(project.read(history).contains("\"schema\": 2"));
}

#[test]
fn a_pin_on_hold_is_reported_with_its_reason_and_not_bumped_with_the_others() {
    let folder = GitFolder::new();
    folder.init("a");
    let first = folder.commit("a");
    folder.run("a", &["tag", "v1.0"]);
    let second = folder.commit("a");
    folder.run("a", &["tag", "v1.1"]);
    let server = GitHttp::start(folder.path());
    let project = Project::new();
    let hold = "hold = \"v1.1 breaks the build\"\n";
    let pins = [
        source("held", "v1.0", &first) + hold,
        source("gone", "v0.9", &first) + hold,
        source("current", "v1.1", &second),
    ];
    project.write(FILE, &format!("{HEAD}{}", pins.concat()));
    let mirror = format!("--mirror https://h.example/a={}", server.url("a"));
    let (code, of) = outdated(&project, &format!("held current {mirror}"));
    assert_eq!((code, of("held").0.as_str()), (0, "held"));
    assert_eq!(of("held").1, "v1.1 breaks the build; `v1.1` was released");
    let ran = project.run(&format!("outdated held {mirror}")).expect(0);
    ran.prints("held        held  v1.1 breaks the build").prints("1 pin: 1 held");
    let marks = project.run(&format!("outdated held --format github {mirror}")).expect(0);
    assert_eq!(marks.stdout, "");
    // A pin that can no longer be fetched is still a problem.
    project.run(&format!("outdated gone {mirror}")).expect(26).prints("vanished");

    project.run("lint --strict versions/versions.toml").expect(0);
    project.run("pins show held").expect(0).prints("hold          v1.1 breaks the build");
    project.edit(FILE, &(source("gone", "v0.9", &first) + hold), "");
    let ran = project.run(&format!("bump --all {mirror}")).expect(0);
    ran.prints("held     held: v1.1 breaks the build").prints("current  v1.1");
    assert!(project.read(FILE).contains(&first));
    project.run(&format!("bump held {mirror}")).expect(0).says("v1.1 breaks the build [bump]");
    assert!(!project.read(FILE).contains(&first) && project.read(FILE).contains(hold));
}

#[test]
fn a_host_that_cannot_be_reached_has_one_line() {
    let project = Project::new();
    let pins = ["a", "b", "c", "d"].map(|name| source(name, "v1", &"1".repeat(40)));
    project.write(FILE, &format!("{HEAD}{}", pins.concat()));
    let ran = project.run("outdated --mirror https://h.example=http://127.0.0.1:1").expect(5);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        ["unreachable h.example: 4 pins (a, b, c, …)", "4 pins: 4 unreachable"],
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn built_in_pins_that_the_projects_tracks_use_are_checked() {
    let project = Project::empty();
    project.write("registries.conf", "");
    project.run("init").expect(0);
    let unreachable = "outdated --mirror docker.io=127.0.0.1:1";
    let none = project.run(unreachable).expect(0);
    none.prints("0 pins").says("`build-pipeline outdated PIN` checks a built-in pin");
    project.run(&format!("{unreachable} vllm-openai-rocm")).expect(5).prints("1 unreachable");
    project.write(
        "versions/tracks.toml",
        "schema = 1\n[mine]\ntitle = \"t\"\ndescription = \"d\"\ntrack = \"official\"\n",
    );
    project.run(unreachable).expect(5).prints("docker.io: 1 pin (vllm-openai-rocm)");
}

/// Serves pages of an index, each after 40 ms, and counts concurrent requests.
struct SlowIndex {
    host: String,
    requests: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// The number of concurrent requests that `outdated` makes.
const AT_ONCE: usize = 16;

impl SlowIndex {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (requests, most, now) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
        );
        let this = Self { host, requests: Arc::clone(&requests), most: Arc::clone(&most) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (requests, most, now) =
                    (Arc::clone(&requests), Arc::clone(&most), Arc::clone(&now));
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone().unwrap();
                    let mut lines = BufReader::new(stream).lines();
                    loop {
                        let mut head = 0;
                        while lines
                            .next()
                            .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
                        {
                            head += 1;
                        }
                        if head == 0 {
                            return;
                        }
                        requests.fetch_add(1, Ordering::SeqCst);
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(40));
                        // Only a client with this many concurrent requests gets its first response
                        // soon.
                        let limit = Instant::now() + Duration::from_secs(120);
                        while most.load(Ordering::SeqCst) < AT_ONCE && Instant::now() < limit {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        now.fetch_sub(1, Ordering::SeqCst);
                        let body = r#"{"meta":{"api-version":"1.0"},"name":"x","files":[]}"#;
                        let length = body.len();
                        drop(write!(
                            writer,
                            "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.pypi.simple.v1+json\r\nContent-Length: {length}\r\n\r\n{body}"
                        ));
                    }
                });
            }
        });
        this
    }
}

#[test]
fn a_hundred_pins_are_a_hundred_questions_sixteen_at_once() {
    let index = SlowIndex::start();
    let project = Project::new();
    let pins: String = (0..100)
        .map(|n| {
            format!(
                "[archive.a{n}]\nproject = \"a{n}\"\nversion = \"1\"\nsha256 = \"unresolved\"\n"
            )
        })
        .collect::<Vec<_>>()
        .concat();
    project.write(FILE, &format!("{HEAD}{pins}"));
    let begun = Instant::now();
    project
        .run(&format!("outdated --index http://{}/simple", index.host))
        .expect(26)
        .prints("100 pins: 100 vanished");
    // This is printed (`--nocapture`) and not asserted, because a busy machine could fail it. Seven
    // rounds of 40 ms are the minimum.
    eprintln!("100 pins in {:?}", begun.elapsed());
    assert_eq!(index.requests.load(Ordering::SeqCst), 100);
    assert_eq!(index.most.load(Ordering::SeqCst), AT_ONCE);
}
