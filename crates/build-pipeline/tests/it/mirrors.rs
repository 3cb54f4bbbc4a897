//! Mirrors: what their failures mean, and runs that must not contact anything else.

use std::net::TcpListener;

use names::Digest;
use testkit::{Answer, Fault, FaultProxy, ForwardProxy, GitFolder, GitHttp, shared_registry};

use crate::dsl::{Base, Project, Ran, workspace};
use crate::patch::{head, list_edit};
use crate::patch_pinned::Index;

fn proxy() -> FaultProxy {
    FaultProxy::to(shared_registry().host())
}

/// A project whose base is on a registry, and a mirror of that registry.
struct Mirrored {
    project: Project,
    base: Base,
    registry: FaultProxy,
    mirror: FaultProxy,
}

impl Mirrored {
    fn new(seed: u64) -> Self {
        let (project, base) = (Project::new(), Base::push(seed));
        let [registry, mirror] = [(); 2].map(|()| proxy());
        let repository = format!("repository = \"{}/{}\"", registry.host(), base.path);
        let pinned = "repository = \"docker.io/rocm/vllm-dev\"";
        project.edit("versions/versions.toml", pinned, &repository);
        Self { project, base, registry, mirror }
    }

    fn run(&self, options: &str) -> Ran {
        let set = format!("--set vllm-dev-locked={}", self.base.digest());
        self.project.run(&format!("--track locked-spoof {set} {options}"))
    }

    fn rule(&self) -> String {
        format!("--mirror {}={}", self.registry.host(), self.mirror.host())
    }
}

/// Responses of a mirror without the image, each with the exit code and a part of the hint. HOST is
/// the mirror, and ORIGIN/END the image that it should have.
fn failures() -> [(Answer, i32, &'static str); 7] {
    let page = Answer::new(200).header("Content-Type", "text/html").body("<html>log in</html>");
    [
        (Answer::new(401), 4, "podman login HOST`"),
        (Answer::new(403), 4, "podman login HOST`"),
        (Answer::new(404), 5, "skopeo copy --all docker://ORIGIN/END docker://HOST/END"),
        (
            Answer::new(429).header("Retry-After", "86400"),
            5,
            "mirror `HOST` limits the request rate",
        ),
        (Answer::new(500), 5, "mirror `HOST` is at fault"),
        (Answer::new(501), 5, "mirror `HOST` is at fault"),
        (page, 5, "`HOST` is the address of a registry"),
    ]
}

#[test]
fn the_mirror_explains_a_failure_if_the_registry_cannot_be_reached() {
    let mut mirrored = Mirrored::new(161);
    mirrored.registry.on("*", "").does(Fault::Reset);
    let end = format!("{}@{}", mirrored.base.path, mirrored.base.digest());
    let origin = mirrored.registry.host();
    for (answer, code, hint) in failures() {
        mirrored.mirror = proxy();
        mirrored.mirror.on("*", "").does(answer);
        let host = mirrored.mirror.host();
        let hint = hint.replace("HOST", &host).replace("ORIGIN", &origin).replace("END", &end);
        let ran = mirrored.run(&mirrored.rule()).expect(code);
        ran.says(&format!("at `{host}` ")).says(&hint);
    }
}

#[test]
fn with_mirrors_only_a_failing_mirror_is_explained_and_no_packet_goes_elsewhere() {
    let (project, base) = (Project::new(), Base::push(165));
    // Only the proxy knows the address of the registry, and it records all requests.
    let origin = "origin.test:5000";
    let known = [(origin, shared_registry().host().to_owned())];
    let forward = ForwardProxy::start(known, None);
    let insecure = format!("[[registry]]\nlocation = \"{origin}\"\ninsecure = true\n");
    project.write("registries.conf", &insecure);
    let pinned = base.pinned_at(&project, origin);
    let end = format!("{}@{}", base.path, base.digest());
    let run = |mirror: &str, more: &str| {
        let line = format!("{pinned} --mirror {origin}={mirror} {more}");
        let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
        for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(name, format!("http://{}", forward.host()));
        }
        crate::dsl::ran(command.output().unwrap())
    };
    for (answer, code, hint) in failures() {
        let mirror = proxy();
        mirror.on("*", "").does(answer);
        let host = mirror.host();
        let hint = hint.replace("HOST", &host).replace("ORIGIN", origin).replace("END", &end);
        run(&host, "--mirror-only").expect(code).says(&format!("at `{host}` ")).says(&hint);
        assert!(!mirror.requests().is_empty() && forward.asked().is_empty());
    }
    // Without `--mirror-only`, the registry is used.
    let mirror = proxy();
    mirror.on("*", "").does(Answer::new(404));
    run(&mirror.host(), "").expect(0);
    assert!(!forward.asked().is_empty());
}

/// A project that reads one source from a mirror, which fails.
struct Site {
    project: Project,
    /// The command that reads the source.
    line: &'static str,
    /// The mirror rules, in which HOST is the failing mirror.
    rules: Vec<String>,
    /// The URL at the mirror that the command requests.
    url: &'static str,
    /// The exit code for a web page, and the hint.
    page: (i32, String),
    /// Records every request that does not go to this machine.
    forward: ForwardProxy,
    /// The index that works, if the command needs one.
    _index: Option<Index>,
}

const PAGE_IS_NO_FILE: &str = "check what mirror `HOST` serves at `http://HOST/";

impl Site {
    fn new(line: &'static str, rules: &[&str], url: &'static str, page: (i32, &str)) -> Self {
        let project = Project::new();
        let text = format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n\
             [source.demo]\nurl = \"https://git.test/demo\"\nversion = \"0.5\"\ncommit = \"{}\"\npatches = \"demo\"\n\n\
             [archive.demo-sdist]\nproject = \"demo\"\nversion = \"0.5\"\nsha256 = \"{}\"\npatches = \"demo\"\n",
            "7".repeat(40),
            "7".repeat(64),
        );
        project.write("versions/versions.toml", &text);
        let patch =
            format!("{}[applies]\nversions = \"*\"\n\n{}", head("demo-list"), list_edit("a.txt"));
        project.write("patches/demo/demo-list.toml", &patch);
        Self {
            project,
            line,
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            url,
            page: (page.0, page.1.to_owned()),
            forward: ForwardProxy::start([], None),
            _index: None,
        }
    }

    fn git() -> Self {
        let page = "check that `http://HOST/demo` is the address of a git repository";
        let rules = ["https://git.test=http://HOST"];
        Self::new("patch check demo --pin demo", &rules, "http://HOST/demo", (5, page))
    }

    fn index() -> Self {
        let page = "check that `http://HOST/simple/demo/` is the address of a project on a package";
        let rules = ["https://index.test=http://HOST"];
        let url = "http://HOST/simple/demo/";
        Self::new("patch check demo --pin demo-sdist", &rules, url, (5, page))
    }

    /// The index works. Its files are on another host.
    fn archive() -> Self {
        let index = Index::start();
        let hash = index.publish("0.5", &[("a.txt", "list = \"gfx1100\"\n")]);
        let page = index.folder.path().join("simple/demo/index.html");
        let text = std::fs::read_to_string(&page).unwrap();
        std::fs::write(&page, text.replace("../../", "https://files.test/")).unwrap();
        let working = format!("https://index.test=http://127.0.0.1:{}", index.port);
        let rules = ["https://files.test=http://HOST", &working];
        let url = "http://HOST/demo-0.5.tar.gz";
        let line = "patch check demo --pin demo-sdist";
        let site = Self::new(line, &rules, url, (6, PAGE_IS_NO_FILE));
        site.project.edit("versions/versions.toml", &"7".repeat(64), &hash);
        Self { _index: Some(index), ..site }
    }

    /// The rules for all mirrors of Debian that this machine's apt uses.
    fn debian_rules() -> Vec<String> {
        let found = debian::Mirrors::of_machine(std::path::Path::new("/etc/apt"));
        let all = found.archive.iter().chain(&found.security);
        let server = |file: String| file.split('/').take(3).collect::<Vec<_>>().join("/");
        all.map(|mirror| format!("{}=http://HOST", server(mirror.file("")))).collect()
    }

    fn with_debian(self) -> Self {
        let rules = Self::debian_rules();
        let text = std::fs::read_to_string(workspace().join("versions/versions.toml")).unwrap();
        self.project.write("versions/versions.toml", &text);
        let file = |name: &str| {
            format!(
                "  {{ name = \"{name}\", version = \"1\", architecture = \"amd64\", file = \"pool/main/{name}_1_amd64.deb\", size = 9, sha256 = \"{}\" }},\n",
                Digest::of(name.as_bytes()).hex()
            )
        };
        let lock = format!(
            "schema = 1\nsuite = \"trixie\"\narchitecture = \"amd64\"\nchecked = 2026-11-22\n\n\
             [set.base]\nwanted = [\"one\", \"two\"]\npackages = [\n{}{}]\n",
            file("one"),
            file("two")
        );
        self.project.write("versions/locks/small.toml", &lock);
        let stage = "[vulkan.variants.small]\npackages = \"small\"\n[[vulkan.variants.small.stage]]\n\
                     name = \"small\"\ndockerfile = \"dockerfiles/small.Dockerfile\"\n\n\
                     [vulkan.variants.debian]\n";
        self.project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
        self.project.write("dockerfiles/small.Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN true\n");
        Self { rules, ..self }
    }

    /// If `has_uv` is false, uv must first be installed from the failing mirror.
    fn python(has_uv: bool) -> Self {
        let page = "is the address of a project on a package index";
        let url = if has_uv { "http://HOST/simple" } else { "http://HOST/simple/uv/" };
        let rules = ["https://index.test=http://HOST"];
        let site = Self::new("lock demo --dry-run", &rules, url, (5, page));
        let set = |name: &str| {
            format!(
                "schema = 1\n[demo]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"{name}\"]\n"
            )
        };
        if has_uv {
            site.project.write("versions/python.toml", &set("packaging"));
            site.project.run(site.line).expect(0);
        }
        site.project.write("versions/python.toml", &set("demo"));
        site
    }

    fn debian_files() -> Self {
        let line = "bundle vulkan --variant small -o inputs.tar";
        Self::new(line, &[], "http://HOST/", (6, PAGE_IS_NO_FILE)).with_debian()
    }

    fn debian_index() -> Self {
        let page = "check that `http://HOST/";
        let line = "lock small --dry-run";
        Self::new(line, &[], "http://HOST/", (5, page)).with_debian()
    }

    fn run(&self, host: &str, more: &str) -> Ran {
        let mut command = self.project.command(&self.line.split_whitespace().collect::<Vec<_>>());
        for rule in &self.rules {
            command.args(["--mirror", &rule.replace("HOST", host)]);
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(name, format!("http://{}", self.forward.host()));
        }
        command.args(more.split_whitespace()).env("PIP_INDEX_URL", "https://index.test/simple");
        crate::dsl::ran(command.output().unwrap())
    }

    /// Runs the command with mirrors that each send one of these responses. Checks the exit code
    /// and the hint, and that the mirror is named and no other host is contacted.
    fn explains_every_failure(&self) {
        let page = Answer::new(200).header("Content-Type", "text/html").body("<html>log in</html>");
        let later = Answer::new(429).header("Retry-After", "86400");
        let (page_code, page_hint) = &self.page;
        for (answer, code, hint) in [
            (Answer::new(401), 4, "mirror `HOST` requires credentials or denies access"),
            (Answer::new(403), 4, "mirror `HOST` requires credentials or denies access"),
            (Answer::new(404), 5, "mirror `HOST` does not have it: "),
            (later, 5, "mirror `HOST` limits the request rate: wait"),
            (Answer::new(500), 5, "mirror `HOST` is at fault; try again later"),
            (page, *page_code, page_hint.as_str()),
        ] {
            let mirror = FaultProxy::alone();
            mirror.on("*", "").does(answer.clone());
            let host = mirror.host();
            let ran = self.run(&host, "--mirror-only");
            assert_eq!(ran.code, code, "{answer:?}: {}", ran.stderr);
            let hints: Vec<&str> =
                ran.stderr.lines().filter(|line| line.trim_start().starts_with("hint: ")).collect();
            let hints = hints.join("\n");
            assert!(hints.contains(&hint.replace("HOST", &host)), "{answer:?}: {}", ran.stderr);
            let ran = ran.says(&self.url.replace("HOST", &host));
            for wrong in ["upstream may have", "check the network", "github.com"] {
                assert!(!ran.stderr.contains(wrong), "{answer:?}: {}", ran.stderr);
            }
            let again = ran.stderr.lines().filter(|line| line.contains(" again: ")).count();
            assert!(again <= 1, "{answer:?}: {}", ran.stderr);
            assert!(!mirror.requests().is_empty(), "{answer:?}");
            assert_eq!(self.forward.asked(), [""; 0], "{answer:?}");
        }
    }
}

#[test]
fn a_failing_mirror_of_a_git_server_is_explained_and_no_packet_goes_elsewhere() {
    Site::git().explains_every_failure();
}

#[test]
fn a_failing_mirror_of_archives_is_explained_and_no_packet_goes_elsewhere() {
    Site::archive().explains_every_failure();
}

#[test]
fn a_failing_mirror_of_an_index_is_explained_and_no_packet_goes_elsewhere() {
    Site::index().explains_every_failure();
}

#[test]
fn a_failing_mirror_of_debian_packages_is_explained_and_no_packet_goes_elsewhere() {
    let site = Site::debian_files();
    site.explains_every_failure();
    // If a mirror does not have the packages, the archive of old packages is contacted, unless that
    // is forbidden.
    let mirror = FaultProxy::alone();
    mirror.on("*", "").does(Answer::new(404));
    let forbidden = site.run(&mirror.host(), "--mirror-only").expect(5);
    forbidden.says("` must not be contacted, and no mirror rule covers it");
    site.run(&mirror.host(), "").expect(5).says("could not be searched");
    let asked = site.forward.asked();
    assert!(asked.iter().all(|one| one == "CONNECT snapshot.debian.org:443"), "{asked:?}");
    assert!(!asked.is_empty());
}

#[test]
fn a_failing_mirror_of_debian_indexes_is_explained_and_no_packet_goes_elsewhere() {
    Site::debian_index().explains_every_failure();
}

#[test]
fn a_failing_mirror_of_the_index_is_explained_while_packages_are_looked_up() {
    Site::python(true).explains_every_failure();
}

#[test]
fn a_failing_mirror_of_the_index_is_explained_while_uv_is_installed() {
    Site::python(false).explains_every_failure();
}

/// A mirror that redirects to another host is not the cause of that host's failure.
#[test]
fn the_host_that_a_mirror_redirects_to_is_named_without_its_signature() {
    let (site, mirror, other) = (Site::archive(), FaultProxy::alone(), FaultProxy::alone());
    other.on("*", "").does(Answer::new(403));
    let to = format!("{}/blob?signature=canary-0815", other.url());
    mirror.on("*", "").does(Fault::Redirect(to));
    let ran = site.run(&mirror.host(), "").expect(4);
    let ran = ran
        .says(&format!("mirror `http://{}/demo-0.5.tar.gz`", mirror.host()))
        .says(&format!("(after a redirect to `{}/blob`)", other.url()));
    assert!(!ran.stderr.contains("canary-0815"), "{}", ran.stderr);
    // The other host must not be contacted.
    let refused = site.run(&mirror.host(), "--mirror-only").expect(2);
    refused.says("the mirror redirected the request to that host");
    assert_eq!(other.requests().len(), 1);
}

#[test]
fn a_mirror_that_fails_is_told_although_the_registry_answers() {
    let mut mirrored = Mirrored::new(162);
    mirrored.mirror.on("*", "").does(Answer::new(403));
    let ran = mirrored.run(&format!("{} -o oci:a", mirrored.rule())).expect(0);
    assert_eq!(ran.stderr.matches("[mirror-failed]").count(), 1, "{}", ran.stderr);
    ran.says(&format!("mirror `{}` was skipped because it failed", mirrored.mirror.host()));
    // A mirror need not have everything.
    mirrored.mirror = proxy();
    mirrored.mirror.on("*", "").does(Answer::new(404));
    let ran = mirrored.run(&format!("{} -o oci:b", mirrored.rule())).expect(0);
    assert!(!ran.stderr.contains("[mirror"), "{}", ran.stderr);
}

#[test]
fn with_mirrors_only_no_request_reaches_a_registry() {
    let mut mirrored = Mirrored::new(163);
    mirrored.run(&format!("{} --mirror-only", mirrored.rule())).expect(0);
    // Cached content needs no network.
    mirrored.run("--mirror-only -o oci:cached").expect(0);
    std::fs::remove_dir_all(mirrored.project.path("home/.cache")).unwrap();
    let registry = mirrored.registry.host();
    let option = format!("--mirror {registry}=HOST");
    for line in ["--mirror-only -o oci:a", "--mirror-only --mirror quay.io=h.example -o oci:a"] {
        mirrored.run(line).expect(2).says(&format!("at `{registry}` ")).says(&option);
    }
    // If the mirror does not have the image, the registry is not used instead.
    mirrored.mirror.on("*", "").does(Answer::new(404));
    let ran = mirrored.run(&format!("{} --mirror-only -o oci:a", mirrored.rule()));
    ran.expect(5).says("skopeo copy --all");
    // The configuration has the same effect.
    let config = "schema = 1\nmirror-only = true\n";
    mirrored.project.write("home/.config/build-pipeline/config.toml", config);
    mirrored.run("-o oci:a").expect(2).says(&option);
    // A push does not contact the registry either.
    mirrored.mirror = proxy();
    let push = format!("--push {registry}/test/mirrors:x");
    mirrored.run(&format!("{} {push}", mirrored.rule())).expect(2).says(&option);
    assert_eq!(mirrored.registry.requests().len(), 0);
    // A rehearsal uses the tool's own registry.
    mirrored.project.run("--track locked-spoof --rehearse").expect(0);
}

#[test]
fn with_mirrors_only_no_request_reaches_a_git_server_or_an_index() {
    let git = GitFolder::new();
    git.init("demo");
    git.write("demo", "a.txt", "list = \"gfx1100\"\n");
    let commit = git.commit("demo");
    let mirror = GitHttp::start(git.path());
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let project = Project::new();
    let url = format!("https://{}", origin.local_addr().unwrap());
    project.write(
        "versions/versions.toml",
        &format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n\
             [source.demo]\nurl = \"{url}/demo\"\nversion = \"0.5\"\ncommit = \"{commit}\"\npatches = \"demo\"\n\n\
             [archive.demo-sdist]\nproject = \"demo\"\nversion = \"0.5\"\nsha256 = \"{}\"\npatches = \"demo\"\n",
            Digest::of(b"x").hex(),
        ),
    );
    let patch =
        format!("{}[applies]\nversions = \"*\"\n\n{}", head("demo-list"), list_edit("a.txt"));
    project.write("patches/demo/demo-list.toml", &patch);
    let check = "patch check demo --pin demo --mirror-only";
    let ran = project.run(check).expect(2);
    ran.says(&format!("`{url}` must not be contacted")).says(&format!("where FROM is `{url}`"));
    let rule =
        format!("schema = 1\n[mirrors]\n\"{url}/demo\" = \"http://{}/demo\"\n", mirror.host());
    project.write("home/.config/build-pipeline/config.toml", &rule);
    project.run(check).expect(0);
    std::fs::remove_file(project.path("home/.config/build-pipeline/config.toml")).unwrap();
    let index = "patch check demo --pin demo-sdist --mirror-only";
    let mut command = project.command(&index.split_whitespace().collect::<Vec<_>>());
    let ran =
        crate::dsl::ran(command.env("PIP_INDEX_URL", format!("{url}/simple")).output().unwrap());
    ran.expect(2).says(&format!("where FROM is `{url}`"));
    origin.set_nonblocking(true).unwrap();
    assert!(origin.accept().is_err(), "nobody connected");
}

#[test]
fn with_mirrors_only_debian_packages_come_from_mirrors() {
    let project = Project::new();
    let ran = project.run("lock debian --mirror-only --dry-run");
    ran.expect(2)
        .says("must not be contacted, and no mirror rule covers it")
        .says("`--mirror FROM=URL`");
}

#[test]
fn every_command_refuses_a_mirror_that_is_none() {
    let project = Project::new();
    for command in [
        "pins show",
        "lint",
        "plan --track ollama",
        "--track ollama",
        "--track ollama --rehearse",
        "records",
    ] {
        project
            .run(&format!("{command} --mirror docker.io"))
            .expect(2)
            .says("cannot use `--mirror docker.io`")
            .says("it does not have the form FROM=TO");
    }
}
