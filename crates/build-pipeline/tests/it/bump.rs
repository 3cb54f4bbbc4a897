//! `bump` looks up values at real git servers, a real registry and an index, checks them, and
//! writes only the pin.

use std::process::{Command, Stdio};

use testkit::{
    Answer, FaultProxy, GitFolder, GitHttp, RandomImage, gate_cases, gate_passed, shared_registry,
};

use crate::dsl::{Project, Ran, is_killed, ran, same, until_hit};

const FILE: &str = "versions/versions.toml";
const VLLM: &str = "https://github.com/vllm-project/vllm";

/// A repository with vLLM's tags and a tree that the patches apply to.
struct Upstream {
    folder: GitFolder,
    server: GitHttp,
}

impl Upstream {
    fn new(tags: &[&str]) -> Self {
        let folder = GitFolder::new();
        folder.init("vllm");
        for tag in tags {
            folder.write("vllm", "README.md", tag);
            folder.commit("vllm");
            // Annotated like upstream's tags, so they must be peeled.
            folder.run("vllm", &["tag", "-a", "-m", tag, tag]);
        }
        let server = GitHttp::start(folder.path());
        Self { folder, server }
    }

    fn commit(&self, name: &str) -> String {
        self.folder.run("vllm", &["rev-parse", &format!("{name}^{{commit}}")])
    }

    fn mirror(&self) -> String {
        format!("--mirror {VLLM}={}", self.server.url("vllm"))
    }
}

/// Upstream's real tags, including those around v0.10.3, which does not exist.
const REAL: [&str; 12] = [
    "v0.9.2",
    "v0.10.0",
    "v0.10.1",
    "v0.10.1.1",
    "v0.10.2rc3",
    "v0.10.2",
    "v0.11.0rc1",
    "v0.11.0",
    "v0.11.1",
    "v0.27.1",
    "v0.33.0",
    "v0.34.0rc1",
];

/// Pins a tag of `upstream`, as an earlier bump would have done.
fn pinned(project: &Project, upstream: &Upstream, tag: &str) {
    let text = project.read(FILE);
    let (before, rest) = text.split_once("[source.vllm]\n").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let version = tag.trim_start_matches('v');
    let commit = upstream.commit(tag);
    project.write(FILE, &format!(
        "{before}[source.vllm]\nurl = \"{VLLM}\"\nref = \"{tag}\"\nversion = \"{version}\"\ncommit = \"{commit}\"\nchecked = 2026-11-20\nevidence = \"here\"\n\n{after}"
    ));
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_tag_that_does_not_exist_is_answered_with_its_neighbours() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    let before = project.files();
    for line in ["bump vllm v0.10.3", "bump vllm 0.10.3", "bump vllm-legacy v0.10.3 --format json"]
    {
        let ran = project.run(&format!("{line} {}", upstream.mirror())).expect(2);
        let ran =
            ran.says("has no tag or branch").says("`v0.10.2` below it and `v0.11.0` above it");
        assert!(ran.says("the newest is `v0.33.0`").stdout.is_empty());
    }
    same(&project.files(), &before, "a refused bump");
}

#[test]
fn the_tag_is_taken_where_a_mirror_has_it() {
    let upstream = Upstream::new(&["v0.10.2", "v0.27.1", "v0.10.3"]);
    let project = Project::new();
    // v0.10.3 is older than the pinned version of `vllm`, and newer than that of `vllm-legacy`.
    let before = project.files();
    project
        .run(&format!("bump vllm v0.10.3 {}", upstream.mirror()))
        .expect(2)
        .says("--allow-downgrade");
    same(&project.files(), &before, "a refused downgrade");
    let ran = project.run(&format!("bump vllm-legacy v0.10.3 {}", upstream.mirror())).expect(0);
    ran.prints("bumped vllm-legacy: v0.10.2 (01efc7ef7813) -> v0.10.3");
    let text = project.read(FILE);
    assert!(text.contains(&format!(
        "ref = \"v0.10.3\"\nversion = \"0.10.3\"\ncommit = \"{}\"\n",
        upstream.commit("v0.10.3")
    )));
    let comments = |text: &str| {
        text.lines().filter(|l| l.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        comments(&text),
        comments(&String::from_utf8(before[std::path::Path::new(FILE)].clone()).unwrap())
    );
    project.run("plan --track locked-spoof").expect(0);
}

#[test]
fn latest_is_the_newest_that_is_no_pre_release() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    pinned(&project, &upstream, "v0.27.1");
    let mirror = upstream.mirror();
    let before = project.files();
    let dry = project.run(&format!("bump vllm --dry-run {mirror}")).expect(0);
    dry.prints("would bump vllm: v0.27.1")
        .prints("+ref = \"v0.33.0\"")
        .prints("-ref = \"v0.27.1\"");
    let check = project.run(&format!("bump vllm latest --check {mirror}")).expect(0);
    assert!(check.stdout.is_empty() && check.stderr.is_empty(), "{check:?}");
    same(&project.files(), &before, "a dry run");
    let mut command = project.command(&["bump", "vllm", "--format", "json"]);
    let output =
        command.args(mirror.split(' ')).env("SOURCE_DATE_EPOCH", "1798934399").output().unwrap();
    let report = json(&ran(output).expect(0));
    crate::schemas::check(&project, "bump", std::slice::from_ref(&report));
    assert_eq!(report["to"]["value"], upstream.commit("v0.33.0"));
    assert_eq!((&report["changed"], &report["written"]), (&true.into(), &true.into()));
    let text = project.read(FILE);
    // The first second of that day, and its date.
    assert!(
        text.contains("source-date-epoch = 1798848000\n")
            && text.contains("checked = 2027-01-02\n")
    );
    let again = project.run(&format!("bump vllm {mirror}")).expect(0);
    again.prints("vllm is already at v0.33.0");
    let dry = project.run(&format!("bump vllm --dry-run {mirror}")).expect(0);
    assert!(!dry.stdout.contains("\n\n"), "{}", dry.stdout);
    assert!(project.read(FILE).contains("source-date-epoch = 1798848000\n"));
    project.run(&format!("bump vllm v0.34.0rc1 {mirror}")).expect(0);
}

#[test]
fn a_tag_that_moved_is_not_followed() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    pinned(&project, &upstream, "v0.11.0");
    let (old, new) = (upstream.commit("v0.11.0"), upstream.commit("v0.11.1"));
    upstream.folder.run("vllm", &["tag", "-f", "v0.11.0", &new]);
    let before = project.files();
    for value in ["v0.11.0", "0.11.0"] {
        let ran = project.run(&format!("bump vllm {value} {}", upstream.mirror())).expect(6);
        ran.says(&format!("it was `{old}` when it was pinned on 2026-11-20, and is now `{new}`"));
    }
    same(&project.files(), &before, "a moved tag");
    testkit::gate_passed(12, 2);
    let ran = project
        .run(&format!("bump vllm v0.11.0 --accept-moved --format json {}", upstream.mirror()));
    assert_eq!(json(&ran.expect(0))["moved_from"], old);
    assert!(project.read(FILE).contains(&new));
}

/// A commit may be part of a branch although no branch points to it.
#[test]
fn commits_and_branches_are_taken_as_they_are() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    let mirror = upstream.mirror();
    let tagged = upstream.commit("v0.33.0");
    project.run(&format!("bump vllm {tagged} {mirror}")).expect(0).prints("-> v0.33.0");
    // A commit between tags: it exists, but no tag or branch points to it.
    upstream.folder.commit("vllm");
    let between = upstream.folder.commit("vllm");
    upstream.folder.commit("vllm");
    upstream.server.configure("uploadpack.allowReachableSHA1InWant=true");
    let ran = project.run(&format!("bump vllm {between} {mirror}")).expect(0);
    ran.says("no tag or branch of")
        .says(" points at `")
        .says("a branch may still contain it")
        .prints(&between[..12]);
    let text = project.read(FILE);
    let table = text.split("[source.vllm]").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(
        table.contains(&between) && !table.contains("ref =") && !table.contains("version ="),
        "{table}"
    );
    // A commit that does not exist is refused.
    let before = project.files();
    let ran = project.run(&format!("bump vllm {} {mirror}", "1".repeat(40)));
    assert_ne!(ran.code, 0, "{ran:?}");
    same(&project.files(), &before, "a commit that does not exist");
    // A branch is followed, because branches are meant to move.
    project.run(&format!("bump vllm main {mirror}")).expect(0).prints("-> main");
    upstream.folder.commit("vllm");
    let tip = upstream.commit("main");
    project.run(&format!("bump vllm {mirror}")).expect(0).prints(&tip[..12]);
}

/// The files of vLLM 0.10.2 that its patches edit.
const CMAKE: &str = "cmake_minimum_required(VERSION 3.26)\nset(HIP_SUPPORTED_ARCHS \"gfx906;gfx908;gfx90a;gfx942;gfx950;gfx1030;gfx1100;gfx1101;gfx1200;gfx1201\")\n";

#[test]
fn patches_that_do_not_fit_stop_a_bump() {
    let upstream = Upstream::new(&["v0.10.2"]);
    upstream.folder.write(
        "vllm",
        "CMakeLists.txt",
        CMAKE.replace("HIP_SUPPORTED_ARCHS", "HIP_SUPPORTED_ARCHITECTURES"),
    );
    upstream.folder.commit("vllm");
    upstream.folder.run("vllm", &["tag", "v0.11.0"]);
    let project = Project::new();
    let before = project.files();
    let line = format!("bump vllm-legacy v0.11.0 {}", upstream.mirror());
    let ran = project.run(&line).expect(7).says("not apply to `vllm-legacy` at `v0.11.0`");
    ran.says("line 2 is the most similar").says("nothing was written");
    project.run(&format!("{line} --check")).expect(7);
    same(&project.files(), &before, "a bump whose patches do not apply");
    let ran = project.run(&format!("{line} --accept-broken-patches --format json")).expect(0);
    let report = json(&ran);
    assert!(report["patches"].as_array().unwrap().iter().any(|one| one["ok"] == false), "{report}");
}

#[test]
fn an_image_is_bound_to_the_digest_of_its_tag() {
    let project = Project::new();
    let host = shared_registry().host();
    let path = format!("bump-{}", std::process::id());
    let first = RandomImage::new(9001).push(host, &path, "rocm");
    let mirror = format!("--mirror docker.io/ollama/ollama={host}/{path}");
    project.run(&format!("bump ollama {mirror}")).expect(0).prints("-> rocm (sha256:");
    let text = project.read(FILE);
    assert!(text.contains(&format!("tag = \"rocm\"\ndigest = \"{}\"\nkind = \"", first.digest)));
    assert!(text.contains("rocm = \"7.2.1\"\ngpus"));
    // The tag moves; a bump reports that and follows, because image tags are meant to move.
    let second = RandomImage::new(9002).push(host, &path, "rocm");
    let ran = project.run(&format!("bump ollama {mirror}")).expect(0);
    ran.says("moved since it was pinned").says(&first.digest.to_string());
    assert!(project.read(FILE).contains(&second.digest.to_string()));
    // A different tag is a different image, about which nothing is known.
    RandomImage::new(9003).push(host, &path, "0.32.15");
    let ran = project.run(&format!("bump ollama 0.32.15 {mirror}")).expect(0);
    ran.says("removed `rocm`, `gpus`, which described the old image");
    RandomImage::new(9004).push(host, &path, "0.6.2");
    project.run(&format!("bump ollama 0.6.2 {mirror}")).expect(2).says("is older than `0.32.15`");
    // Only a digest.
    project
        .run(&format!("bump ollama {} {mirror}", first.digest))
        .expect(0)
        .says("loses its `tag`");
    let before = project.files();
    project.run(&format!("bump ollama nothing {mirror}")).expect(5).says("nothing was changed");
    project.run("bump vllm-dev-locked").expect(2).says("has no tag");
    same(&project.files(), &before, "a tag that does not exist");
}

/// Serves a page of the simple API.
fn index(files: &[String]) -> FaultProxy {
    let files = files.join(",");
    let body = format!(r#"{{"meta":{{"api-version":"1.0"}},"name":"vllm","files":[{files}]}}"#);
    let server = FaultProxy::alone();
    let answer = Answer::new(200).header("Content-Type", "application/vnd.pypi.simple.v1+json");
    server.on("GET", "/simple/vllm/").does(answer.body(body));
    server
}

fn release(version: &str, digit: char, more: &str) -> String {
    let hash = digit.to_string().repeat(64);
    format!(
        r#"{{"filename":"vllm-{version}.tar.gz","url":"https://files.example.org/vllm-{version}.tar.gz","hashes":{{"sha256":"{hash}"}}{more}}}"#
    )
}

#[test]
fn an_archive_is_bound_to_the_hash_that_the_index_gives() {
    let project = Project::new();
    // Without patches nothing is downloaded, so the hash comes from the index.
    let text = project.read(FILE);
    let known = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112";
    assert!(text.contains(known), "the hash of `vllm-sdist`");
    let text = text.replace("patches = \"vllm\"\n", "").replace(known, "unresolved");
    project.write(FILE, &text);
    let server = index(&[
        release("0.10.2", '1', ""),
        release("0.11.0", '2', ""),
        release("0.33.0", '3', ""),
        release("0.34.0rc1", '4', ""),
        release("0.35.0", '5', r#","yanked":"broken wheels""#),
    ]);
    let option = format!("--index {}/simple", server.url());
    project.run(&format!("bump vllm-sdist {option}")).expect(0).prints("-> 0.33.0 (333333333333)");
    let before = project.files();
    let ran = project.run(&format!("bump vllm-sdist 0.10.3 {option}")).expect(2);
    ran.says("`0.10.2` below it and `0.11.0` above it").says("the newest is `0.33.0`");
    project
        .run(&format!("bump vllm-sdist 0.35.0 {option}"))
        .expect(2)
        .says("was yanked: broken wheels");
    project
        .run(&format!("bump vllm-sdist 0.11.0 {option}"))
        .expect(2)
        .says("is older than `0.33.0`");
    // The index never changes a file; a changed file means that somebody replaced it.
    project
        .run(&format!("bump vllm-sdist-0-11-0 0.11.0 {option}"))
        .expect(6)
        .says("moved: it was `f435a64c");
    same(&project.files(), &before, "refused archives");
    // The index in pip's configuration is used.
    project.write(
        "home/.config/pip/pip.conf",
        &format!("[global]\nindex-url = {}/simple\n", server.url()),
    );
    project.run("bump vllm-sdist 0.34.0rc1").expect(0).prints("-> 0.34.0rc1");
    project.run("bump rocm-wheels").expect(2).says("set of packages");
}

#[test]
fn the_real_index_is_understood() {
    let project = Project::new();
    project.write(FILE, "schema = 1\nsource-date-epoch = 1795132800\n[archive.small]\nproject = \"iniconfig\"\nversion = \"1.1.0\"\nsha256 = \"unresolved\"\n");
    let index = real_index();
    project.run(&format!("bump small 2.0.0 --index {index}")).expect(0);
    let text = project.read(FILE);
    // The hash of a file that never changes.
    assert!(
        text.contains(
            "sha256 = \"2d91e135bf72d31a410b17c16da610a82cb55f6b0477d1a902134b24a455b8b3\""
        ),
        "{text}"
    );
    project
        .run(&format!("bump small 2.0.1.dev99 --index {index}"))
        .expect(2)
        .says("`2.0.0` below it");
}

/// Returns the index that pip uses on this machine.
fn real_index() -> String {
    let program = "from pip._internal.configuration import Configuration as C\n\
        from pip._internal.models.index import PyPI\n\
        c = C(isolated=False)\nc.load()\nd = dict(c.items())\n\
        print(next((d[k] for k in (':env:.index-url', 'global.index-url') if k in d), PyPI.simple_url))";
    let output = Command::new("python3").args(["-c", program]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("http"), "pip is missing: apt-get install python3-pip");
    text.trim().to_owned()
}

#[test]
fn pull_requests_have_a_title_and_a_body() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    let ran =
        project.run(&format!("bump vllm v0.33.0 --dry-run --format github {}", upstream.mirror()));
    let text = ran.expect(0).stdout;
    let mut lines = text.lines();
    assert_eq!((lines.next(), lines.next()), (Some("pins: Bump vllm to v0.33.0"), Some("")));
    assert!(
        text.contains("| name | `v0.27.1` | `v0.33.0` |")
            && text.contains("```diff\n--- a/versions/versions.toml\n"),
        "{text}"
    );
}

#[test]
fn wrong_names_are_answered() {
    let project = Project::new();
    project.run("bump vlm").expect(2).says("did you mean `vllm`?");
    project.run("bump vllm --mirror https://github.com=ftp://x").expect(2).says("cannot use");
    project.run("bump").expect(2);
    project.write(FILE, "schema = 2\n");
    project.run("bump vllm").expect(2).says("made for a newer build-pipeline");
}

#[test]
fn windows_files_stay_windows_files() {
    let (project, upstream) = (Project::new(), Upstream::new(&REAL));
    let text = format!("\u{feff}{}", project.read(FILE).replace('\n', "\r\n"));
    project.write(FILE, &text);
    project.run(&format!("bump vllm v0.33.0 {}", upstream.mirror())).expect(0);
    let text = project.read(FILE);
    assert!(text.starts_with('\u{feff}') && !text.replace("\r\n", "").contains('\n'));
}

/// Kills bumps at random moments: the file always contains the old or the new text, byte for byte.
#[test]
fn a_killed_bump_leaves_the_old_or_the_new_file() {
    let kills = gate_cases(200, 800);
    let upstream = Upstream::new(&["v0.27.1", "v0.33.0"]);
    let project = Project::new();
    pinned(&project, &upstream, "v0.27.1");
    let mirror = format!("{VLLM}=file://{}", upstream.folder.path().join("vllm").display());
    let bump = || {
        let mut command = project.command(&["bump", "vllm", "--mirror", &mirror]);
        command.env("SOURCE_DATE_EPOCH", "1798848000").stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let old = project.read(FILE);
    let begun = std::time::Instant::now();
    assert!(bump().status().unwrap().success());
    let whole = begun.elapsed();
    let new = project.read(FILE);
    assert_ne!(old, new);
    let (mut olds, mut news) = (0, 0);
    until_hit(kills, whole, |_, moment| {
        project.write(FILE, &old);
        let mut child = bump().spawn().unwrap();
        std::thread::sleep(moment);
        let was_hit = is_killed(&mut child);
        let text = project.read(FILE);
        assert!(text == old || text == new, "neither the old nor the new text: {text}");
        *(if text == old { &mut olds } else { &mut news }) += 1;
        was_hit
    });
    assert!(olds > 0 && news > 0, "{olds} old and {news} new: the moments are badly distributed");
    project.run("plan --track locked-spoof").expect(0);
    gate_passed(1, kills);
}

#[test]
fn bumps_at_once_all_count() {
    let upstream = Upstream::new(&["v0.10.2", "v0.27.1", "v0.33.0"]);
    let project = Project::new();
    pinned(&project, &upstream, "v0.27.1");
    let lines = ["bump vllm v0.33.0", "bump vllm-legacy v0.33.0"];
    let mirror = upstream.mirror();
    for _ in 0..5 {
        pinned(&project, &upstream, "v0.27.1");
        let children = lines.map(|line| project.begin(&format!("{line} {mirror}")));
        for child in children {
            ran(child.wait_with_output().unwrap()).expect(0);
        }
        let text = project.read(FILE);
        assert_eq!(text.matches("ref = \"v0.33.0\"").count(), 2, "{text}");
        project.edit(FILE, "ref = \"v0.33.0\"", "ref = \"v0.27.1\"");
        project.edit(FILE, "version = \"0.33.0\"\ncommit", "version = \"0.27.1\"\ncommit");
    }
}

#[test]
fn a_vllm_that_needs_another_torch_is_refused() {
    let upstream = Upstream::new(&["v0.27.1"]);
    let release = |tag: &str, file: &str, text: &str| {
        upstream.folder.write("vllm", file, text);
        upstream.folder.commit("vllm");
        upstream.folder.run("vllm", &["tag", tag]);
    };
    let build =
        |torch: &str| format!("[build-system]\nrequires = [\"ninja\", \"torch {torch}\"]\n");
    release("v0.28.0", "pyproject.toml", &build("== 2.11.0"));
    release("v0.29.0", "pyproject.toml", &build("== 2.14.0"));
    // The requirement for ROCm is used, and the one for CUDA is ignored.
    release("v0.30.0", "requirements/build/rocm.txt", "torch==2.11.0+rocm7.14.0\n");
    release("v0.31.0", "requirements/build/rocm.txt", "torch==2.12.0+rocm7.14.0\n");
    let project = Project::new();
    pinned(&project, &upstream, "v0.27.1");
    let before = project.files();
    for (tag, need, file) in [
        ("v0.29.0", "== 2.14.0", "pyproject.toml"),
        ("v0.31.0", "==2.12.0+rocm7.14.0", "requirements/build/rocm.txt"),
    ] {
        project
            .run(&format!("bump vllm {tag} {}", upstream.mirror()))
            .expect(2)
            .says(&format!("`{tag}` needs torch {need} ({file}), but pin `pytorch` is at 2.11.0"))
            .says("`build-pipeline bump pytorch v2.1");
    }
    same(&project.files(), &before, "a refused bump");
    for tag in ["v0.28.0", "v0.30.0"] {
        project.run(&format!("bump vllm {tag} {}", upstream.mirror())).expect(0);
    }
    // A pin of the other set is checked against that set's torch, 2.8.0.
    project
        .run(&format!("bump vllm-legacy v0.30.0 {}", upstream.mirror()))
        .expect(2)
        .says("pin `pytorch-legacy` is at 2.8.0");
    testkit::gate_passed(13, 3);
}
