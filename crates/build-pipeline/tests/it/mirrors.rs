//! Mirrors: what their failures mean, and runs that must not contact anything else.

use std::net::TcpListener;

use names::Digest;
use testkit::{Answer, Fault, FaultProxy, ForwardProxy, GitFolder, GitHttp, shared_registry};

use crate::dsl::{Base, Project, Ran};
use crate::patch::{head, list_edit};

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
