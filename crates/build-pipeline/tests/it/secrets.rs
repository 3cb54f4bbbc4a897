//! No secret that enters the program leaves it, through a stream or a file.
//!
//! Every place that accepts a secret gets a different one. All streams and files are searched for
//! all of them; only files that the test wrote itself may contain them.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use testkit::{Answer, Auth, Bearer, Fault, FaultProxy, shared_registry};

use crate::dsl::{Base, Project, Ran, ran};

/// The number of secrets: `canary00x`, `canary01x`, …
const CANARIES: usize = 30;

/// Returns a secret, surrounded by characters that have a meaning in a URL.
fn canary(number: usize) -> String {
    format!("p@{}:/?#", core(number))
}

/// Returns the part of a secret to search for.
fn core(number: usize) -> String {
    assert!(number < CANARIES);
    format!("canary{number:02}x")
}

/// Fails the test if a text contains a secret.
#[track_caller]
fn clean(what: &str, bytes: &[u8]) {
    for number in 0..CANARIES {
        let plain = core(number);
        let encoded = base64::prelude::BASE64_STANDARD.encode(format!("me:{plain}"));
        for secret in [plain, encoded] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{what} has {secret}:\n{}", String::from_utf8_lossy(bytes));
        }
    }
}

/// A project whose environment is full of secrets, and the files in it that the test wrote.
struct Scene {
    project: Project,
    own: BTreeSet<PathBuf>,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self { project: Project::new(), own: BTreeSet::new() };
        let auth = base64::prelude::BASE64_STANDARD.encode(format!("me:{}", core(0)));
        let auth = format!(r#"{{"auths": {{"h.example": {{"auth": "{auth}"}}}}}}"#);
        scene.write("home/.docker/config.json", &auth);
        let origin = format!("https://me:{}@h.example/a/b", canary(1));
        scene.write(".git/config", &format!("[core]\nrepositoryformatversion = 0\nbare = false\n[remote \"origin\"]\nurl = \"{origin}\"\n"));
        scene.write(".git/HEAD", "ref: refs/heads/main\n");
        scene.project.write(".git/refs/heads/.keep", "");
        scene.project.write(".git/objects/.keep", "");
        let netrc = format!("machine h.example login me password {}\n", core(26));
        scene.write("home/.netrc", &netrc);
        let link = scene.project.path(&format!("me:{}@h", core(2)));
        symlink(scene.project.path(""), link).unwrap();
        scene
    }

    /// Writes an input file, which may contain secrets.
    fn write(&mut self, name: &str, text: &str) {
        self.project.write(name, text);
        self.own.insert(self.project.path(name));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        let paths = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{paths}", self.project.path("bin").display()));
        let proxy = format!("http://me:{}@127.0.0.1:1", core(3));
        command
            .env("HTTPS_PROXY", &proxy)
            .env("HTTP_PROXY", &proxy)
            .env("ALL_PROXY", format!("http://me:{}@127.0.0.1:1", core(4)))
            .env("NO_PROXY", "127.0.0.1,localhost")
            .env("PIP_INDEX_URL", format!("https://me:{}@127.0.0.1:1/simple", canary(5)))
            .env("DOCKER_HOST", format!("tcp://me:{}@127.0.0.1:1", core(6)))
            .env("CONTAINER_HOST", format!("ssh://me:{}@h.example/run/x.sock", core(7)))
            .env("VLLM_API_KEY", core(8))
            .env("GITHUB_TOKEN", core(27))
            .env("HF_TOKEN", core(27));
        command
    }

    /// Runs a command line, plainly and with all options that make it print more, and searches the
    /// output.
    fn runs(&self, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        let more = [words.as_slice(), &["-vv", "--progress", "json"]].concat();
        let loud = checked(line, self.command(&more).env("RUST_LOG", "trace"));
        assert!(!loud.stderr.contains("panicked"), "{}", loud.stderr);
        checked(line, &mut self.command(&words))
    }

    /// Runs a command line with text and with JSON output.
    fn runs_both(&self, line: &str) {
        self.runs(line);
        self.runs(&format!("{line} --format json"));
    }

    /// Searches the name and content of every file below the project, including its home.
    fn search(&self) {
        let mut folders = vec![self.project.path("")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_symlink() || self.own.contains(&path) {
                    continue;
                }
                clean("a file's name", path.as_os_str().as_encoded_bytes());
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    clean(&path.display().to_string(), &std::fs::read(&path).unwrap());
                }
            }
        }
    }

    fn directory(&self) -> String {
        self.project.path(&format!("me:{}@h", core(2))).display().to_string()
    }
}

#[track_caller]
fn checked(line: &str, command: &mut Command) -> Ran {
    let ran = ran(command.output().unwrap());
    clean(&format!("standard output of `{line}`"), ran.stdout.as_bytes());
    clean(&format!("standard error of `{line}`"), ran.stderr.as_bytes());
    ran
}

#[test]
fn builds_and_what_looks_at_them_tell_no_secret() {
    let (scene, base) = (Scene::new(), Base::push(901));
    let mirror = base.locked_spoof(shared_registry().host());
    let options = mirror.trim_start_matches("--track locked-spoof ").to_owned();
    let here = format!("-C {}", scene.directory());
    scene.runs(&format!("{here} {mirror} --with-layers --fresh")).expect(0).prints("digest");
    scene.runs(&format!("{here} {mirror} --format json")).expect(0);
    scene.runs(&format!("{here} --track ollama --rehearse")).expect(0);
    let archives = "--output oci-archive:image.tar --output oci:other";
    scene.runs(&format!("{here} {mirror} {archives} --with-layers")).expect(0);
    let mirror_only = options.split(" --set").next().unwrap();
    scene.runs_both(&format!("verify locked-spoof {mirror_only}"));
    scene.runs_both(&format!("diff locked-spoof rehearsal-ollama {mirror_only}"));
    scene.runs(&format!("plan {mirror}")).expect(0);
    scene.runs(&format!("plan {mirror} --format json")).expect(0);
    // A failing build: the registry requires a secret and repeats it.
    let (proxy, base) = (FaultProxy::to(shared_registry().host()), Base::push(902));
    let said = format!(
        "{{\"errors\":[{{\"code\":\"DENIED\",\"message\":\"https://me:{}@h\"}}]}}",
        core(9)
    );
    proxy.on("GET", "/manifests/").does(Answer::new(403).body(said.as_str()));
    let ran = scene.runs(&format!("{here} {}", base.locked_spoof(&proxy.host())));
    assert_ne!(ran.code, 0);
    // Interrupted builds, in the middle and while holding the lock.
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Bearer(Bearer { user: None, ..Bearer::default() }));
    proxy.on("GET", base.image.layers[1].digest.as_str()).does(Fault::Stall);
    let line = format!("{here} {} --with-layers -vv", base.locked_spoof(&proxy.host()));
    let words: Vec<&str> = line.split_whitespace().collect();
    let child =
        scene.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while proxy.count("GET", base.image.layers[1].digest.as_str()) == 0 {
        assert!(begun.elapsed().as_secs() < 300, "the layer was not requested");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    scene.search();
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let stopped = crate::dsl::ran(child.wait_with_output().unwrap()).expect(130);
    clean("an interrupted build", stopped.stderr.as_bytes());

    scene.runs_both("records");
    let records = scene.project.records();
    let words = records[0]["command"].as_array().unwrap();
    assert_eq!(words[0], "build-pipeline");
    assert!(!words.iter().any(|word| word == "--directory"), "{words:?}");
    scene.runs_both(&format!("records {}", records[0]["id"].as_str().unwrap()));
    for line in [
        "outdated",
        "bump vllm --dry-run",
        "lint",
        "lock --check",
        "patch check vllm",
        "doctor",
        "explain locked-spoof",
        "clean --dry-run",
        "pins show vllm",
        "patch diff vllm --root .",
        "patch audit vllm --root .",
        "env",
        "diagnose registries.conf",
        "run ollama --dry-run",
        "run ollama --print compose",
        "smoke ollama --dry-run",
        "schema record",
        "help environment",
    ] {
        scene.runs_both(line);
    }
    scene.runs("doctor --engine docker");
    scene.search();
    // Ten secrets in the files, the folder's name and the variables, and two in additional
    // variables.
    testkit::gate_passed(18, 12);
}

#[test]
fn what_helpers_and_signed_redirects_know_is_told_to_nobody() {
    let mut scene = Scene::new();
    let base = Base::push(903);
    // A registry behind a credential helper, which serves blobs by a signed URL and repeats all
    // secrets.
    let (proxy, cdn) =
        (FaultProxy::to(shared_registry().host()), FaultProxy::to(shared_registry().host()));
    proxy.require(Auth::Basic("me".to_owned(), core(28)));
    let script = format!("#!/bin/sh\necho '{{\"Username\":\"me\",\"Secret\":\"{}\"}}'\n", core(28));
    scene.write("bin/docker-credential-kept", &script);
    let program = scene.project.path("bin/docker-credential-kept");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program, mode).unwrap();
    let helpers = format!(r#"{{"credHelpers": {{"{}": "kept"}}}}"#, proxy.host());
    scene.write("home/.docker/config.json", &helpers);
    let signature = format!("{}{}", core(29), "0".repeat(55));
    let signed = format!("{}{{target}}?X-Amz-Signature={signature}&x=1", cdn.url());
    proxy.on("GET", "/blobs/").does(Fault::Redirect(signed));
    let said = format!("<Error><SignatureProvided>{signature}</SignatureProvided></Error>");
    cdn.on("GET", "").does(Answer::new(403).body(said));
    let line = base.pinned_at(&scene.project, &proxy.host());
    let ran = scene.runs(&format!("{line} --with-layers"));
    assert_ne!(ran.code, 0);
    // Both secrets were used.
    assert!(proxy.requests().iter().any(|one| one.header("authorization").is_some()));
    assert!(cdn.requests().iter().any(|one| one.target.contains(&core(29))));
    scene.runs_both("records");
    scene.search();
    testkit::gate_passed(18, 2);
}

#[test]
fn what_is_typed_with_a_secret_is_refused_and_not_repeated() {
    let mut scene = Scene::new();
    let host = "h.example";
    for (line, code, says) in [
        (
            format!(
                "--track ollama --rehearse --mirror docker.io=https://me:{}@{host}",
                canary(10)
            ),
            2,
            "podman login",
        ),
        (
            format!(
                "--track ollama --rehearse --mirror https://{host}/a=https://me:{}@{host}/b",
                canary(11)
            ),
            2,
            "without credentials",
        ),
        (format!("--track ollama --mirror docker.io=me:1,{}@{host}", core(10)), 2, "podman login"),
        (format!("--track ollama --rehearse --push me:{}@{host}/x", canary(12)), 2, "podman login"),
        (
            format!("--track ollama --rehearse --output registry:me:{}@{host}/x", canary(13)),
            2,
            "docker login",
        ),
        (format!("--track ollama --rehearse --set base=me:{}@{host}", canary(14)), 2, "hint"),
        (format!("verify me:{}@{host}/x:1", canary(15)), 2, "podman login"),
        (format!("diff locked-spoof me:{}@{host}/x:1", canary(16)), 2, "podman login"),
        (format!("-C https://me:{}@{host} doctor", canary(17)), 2, "is not a folder"),
        (
            format!("outdated --index https://me:{}@{host}/simple", canary(18)),
            2,
            "without credentials",
        ),
        (format!("--mirorr=https://me:{}@{host}", canary(19)), 2, "unexpected argument"),
        (format!("bump vllm https://me:{}@{host}", canary(20)), 5, "error"),
        (format!("explain me:{}@{host}", canary(20)), 2, "error"),
        (format!("records me:{}@{host}", canary(20)), 2, "there is no record"),
    ] {
        scene.runs(&line).expect(code).says(says);
    }
    let mirror = format!("docker.io=https://me:{}@h.example", canary(21));
    let mut command = scene.command(&["--track", "ollama", "--rehearse"]);
    checked("BUILD_PIPELINE_MIRROR", command.env("BUILD_PIPELINE_MIRROR", &mirror)).expect(2);
    let mut command = scene.command(&["--help"]);
    checked("--help", command.env("BUILD_PIPELINE_MIRROR", &mirror)).expect(0);
    let mut command = scene.command(&["--track", "ollama", "--rehearse"]);
    checked("SOURCE_DATE_EPOCH", command.env("SOURCE_DATE_EPOCH", &mirror)).expect(2);
    let config = format!(
        "schema = 1\n[mirrors]\n\"docker.io\" = \"me:{}@h.example\"\n\"https://h.example\" = \"https://me:{}@h.example/x\" # é\n",
        canary(21),
        canary(21)
    );
    scene.write("home/.config/build-pipeline/config.toml", &config);
    scene.runs("outdated").says("config.toml:3");
    scene.search();
    testkit::gate_passed(18, 12);
}

#[test]
fn a_broken_data_file_is_shown_without_its_secrets() {
    let lines = "--track locked-spoof --rehearse|plan --track locked-spoof|lint|lock --check|patch check vllm --root .|doctor|explain locked-spoof|verify locked-spoof|pins show|records|clean --dry-run";
    let url = |number| format!("https://me:{}@h.example/a/b", canary(number));
    let files = [
        ("versions/versions.toml", format!("\n[source.zz]\nurl = \"{}\" # {}\n", url(22), url(22))),
        (
            "versions/python.toml",
            format!("\n[broken]\nurl = \"{}\"\nHF_TOKEN = \"{}\"\n", url(23), core(23)),
        ),
        (
            "versions/tracks.toml",
            format!("\n[broken]\nenv = \"API_KEY={} {}\"\n", core(24), url(24)),
        ),
        (
            "versions/gpus.toml",
            format!("\n[gfx1151x]\nurl = [\"{}\", \"ä {}\"]\n", url(25), url(25)),
        ),
        ("registries.conf", format!("[[registry]]\nlocation = \"me:{}@h.example\"\n", canary(25))),
    ];
    for (name, text) in files {
        let mut scene = Scene::new();
        let whole = format!("{}{text}", scene.project.read(name));
        scene.write(name, &whole);
        for line in lines.split('|') {
            scene.runs(line);
        }
        // These commands would use the network if this invalid file did not stop them.
        if name == "versions/versions.toml" {
            scene.runs("outdated").expect(2);
            scene.runs("bump vllm --dry-run").expect(2);
        }
        scene.search();
    }
    testkit::gate_passed(18, 4);
}

#[test]
fn a_pinned_url_with_a_password_is_refused() {
    let project = Project::new();
    let url = format!("https://me:{}@github.com/vllm-project/vllm", canary(22));
    let text = project.read("versions/versions.toml");
    let line = text
        .lines()
        .find(|line| line.starts_with("url = \"https://github.com/vllm-project/vllm"))
        .unwrap();
    project.edit("versions/versions.toml", line, &format!("url = \"{url}\""));
    let ran = project.run("plan --track locked-spoof").expect(2);
    clean("the error", ran.stderr.as_bytes());
    ran.says("has a user name or password").says("write `https://github.com/vllm-project/vllm`");
    assert!(Path::new(&project.path("versions")).is_dir());
}

#[test]
fn an_image_carries_no_secret_in_its_environment_and_no_odd_mirror_is_kept() {
    let project = Project::new();
    for line in ["OLLAMA_HOST = \"http://u:canary-77@x\"", "HF_TOKEN = \"canary-77\""] {
        let text = project.read("versions/tracks.toml");
        project.edit("versions/tracks.toml", "[ollama.env]\n", &format!("[ollama.env]\n{line}\n"));
        let ran =
            project.run("--track ollama --rehearse").expect(2).says("contains a password or token");
        assert!(!ran.stderr.contains("canary-77"), "{}", ran.stderr);
        project.write("versions/tracks.toml", &text);
    }
    for mirror in ["docker.io=user:canary-77", "docker.io=https://x#canary-77", "docker.io"] {
        for command in ["plan --track ollama --rehearse", "--track ollama --rehearse"] {
            project.run(&format!("{command} --mirror {mirror}")).expect(2);
        }
    }
    assert!(project.records().is_empty());
}

/// podman and docker accept relative paths in these variables.
#[test]
fn relative_paths_of_credential_files_start_in_the_current_folder() {
    let project = Project::new();
    project.write("auth.json", "[");
    project.write("docker/config.json", "[");
    project.write("registries.relative", "[");
    let proxy = FaultProxy::alone();
    proxy.require(Auth::Basic("me".to_owned(), "secret".to_owned()));
    let image = format!("{}/relative:1", proxy.host());
    for (variable, value, file) in [
        ("REGISTRY_AUTH_FILE", "auth.json", "auth.json"),
        ("DOCKER_CONFIG", "docker", "docker/config.json"),
        ("CONTAINERS_REGISTRIES_CONF", "registries.relative", "registries.relative"),
    ] {
        let mut command = project.command(&["audit", &image]);
        let ran = crate::dsl::ran(command.env(variable, value).output().unwrap());
        ran.says(&format!("`{}`", project.path(file).display()));
    }
}

/// Texts that get into images, plans or records: a token in any of them is refused, and not
/// repeated.
#[test]
fn a_token_in_a_file_of_the_project_is_refused_with_its_line() {
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let line = "plan vulkan --variant debian";
    for (file, at, text, shown) in [
        (
            "dockerfiles/vulkan/debian.Dockerfile",
            "\nRUN ",
            "\n# https://TOKEN@h.example\nRUN ",
            line,
        ),
        ("dockerfiles/vulkan/debian.Dockerfile", "\nRUN ", "\nRUN echo TOKEN; ", line),
        (
            "versions/gpus.toml",
            "\nevidence = \"",
            "\nevidence = \"https://u:TOKEN@h.example ",
            line,
        ),
        ("versions/gpus.toml", "\nname = \"", "\nname = \"TOKEN ", line),
        (
            "patches/vllm/vllm-arch-list.toml",
            "\nid = ",
            "\n# TOKEN\nid = ",
            "patch check vllm --root . --version 0.10.2",
        ),
    ] {
        let project = Project::new();
        let old = project.read(file);
        assert!(old.contains(at), "{file}: {at}");
        let fine = project.run(shown);
        assert!(!fine.stderr.contains("a password or token"), "{file}: {}", fine.stderr);
        project.write(file, &old.replacen(at, &text.replace("TOKEN", token), 1));
        let ran = project.run(shown).expect(2).says("a password or token").says(file);
        assert!(!ran.stderr.contains(token), "{file}: {}", ran.stderr);
    }
}
