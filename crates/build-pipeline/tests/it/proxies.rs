//! Downloads through a forward proxy, which alone knows the addresses of the servers.

use base64::Engine as _;
use testkit::{FaultProxy, ForwardProxy, GitFolder, GitHttp, shared_registry};

use crate::dsl::{Base, Project, Ran, ran};
use crate::patch::{head, list_edit};
use crate::patch_pinned::Index;

const CONFIG: &str = "home/.config/build-pipeline/config.toml";
const CANARY: &str = "canary-0815";

/// The certificate authority of the test servers.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/src/tls/authority.pem");

fn authorization() -> String {
    let encoded = base64::prelude::BASE64_STANDARD.encode(format!("me:{CANARY}"));
    format!("Basic {encoded}")
}

fn run(project: &Project, line: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("SSL_CERT_FILE", AUTHORITY).envs(variables.iter().copied());
    ran(command.output().unwrap())
}

/// Writes a configuration with a proxy for both schemes.
fn configure(project: &Project, url: &str, more: &str) {
    let text = format!("schema = 1\n[proxy]\nhttp = \"{url}\"\nhttps = \"{url}\"\n{more}");
    project.write(CONFIG, &text);
}

/// Undoes [`Base::pinned_at`].
fn unpin(project: &Project, base: &Base, host: &str) {
    let pinned = format!("repository = \"{host}/{}\"", base.path);
    project.edit("versions/versions.toml", &pinned, "repository = \"docker.io/rocm/vllm-dev\"");
}

/// Allows plain http for a registry.
fn allow_http(project: &Project, host: &str) {
    let text = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
    project.write("registries.conf", &text);
}

#[test]
fn registries_are_asked_through_the_proxy_and_its_password_is_not_told() {
    let (project, base) = (Project::new(), Base::push(180));
    let tls = FaultProxy::tls_to(shared_registry().host());
    let hosts = [
        ("plain.test:5000", shared_registry().host().to_owned()),
        ("registry.test:443", tls.host()),
    ];
    let proxy = ForwardProxy::start(hosts, Some(&authorization()));
    configure(&project, &format!("http://me:{CANARY}@{}", proxy.host()), "");
    allow_http(&project, "plain.test:5000");
    for (host, asked) in
        [("plain.test:5000", "GET plain.test:5000"), ("registry.test", "CONNECT registry.test:443")]
    {
        let pinned = base.pinned_at(&project, host);
        let line = format!("{pinned} --with-layers -vv -o oci:{}", &host[..5]);
        let built = run(&project, &line, &[("RUST_LOG", "debug")]).expect(0);
        assert!(proxy.asked().iter().any(|one| one == asked), "{:?}", proxy.asked());
        let records = project.run("records --format json").expect(0).stdout;
        for text in [built.stdout, built.stderr, records] {
            assert!(!text.contains(CANARY) && !text.contains(&authorization()[6..]), "{text}");
        }
        unpin(&project, &base, host);
    }
    // A push goes through the proxy too.
    let target = format!("plain.test:5000/{}:pushed", base.path);
    run(&project, &format!("push plain {target}"), &[]).expect(0);
    assert!(proxy.asked().iter().any(|one| one == "PUT plain.test:5000"), "{:?}", proxy.asked());
}

#[test]
fn a_proxy_that_refuses_or_does_not_answer_is_explained() {
    let (project, base) = (Project::new(), Base::push(181));
    let tls = FaultProxy::tls_to(shared_registry().host());
    let hosts = [
        ("plain.test:5000", shared_registry().host().to_owned()),
        ("registry.test:443", tls.host()),
    ];
    let proxy = ForwardProxy::start(hosts, Some(&authorization()));
    allow_http(&project, "plain.test:5000");
    for url in [
        format!("http://me:not-{CANARY}@{}", proxy.host()),
        format!("http://me:{CANARY}@127.0.0.1:1"),
    ] {
        configure(&project, &url, "");
        for host in ["plain.test:5000", "registry.test"] {
            let failed = run(&project, &base.pinned_at(&project, host), &[]);
            unpin(&project, &base, host);
            assert!(matches!(failed.code, 4 | 5), "{}: {}", failed.code, failed.stderr);
            assert!(!failed.stderr.contains(CANARY), "{}", failed.stderr);
            failed.says("proxy");
        }
    }
    assert_eq!(proxy.asked(), [""; 0]);
}

#[test]
fn the_environment_precedes_the_configuration() {
    let (project, base) = (Project::new(), Base::push(182));
    let hosts = || [("plain.test:5000", shared_registry().host().to_owned())];
    let [configured, named] = [(); 2].map(|()| ForwardProxy::start(hosts(), None));
    configure(&project, &format!("http://{}", configured.host()), "");
    allow_http(&project, "plain.test:5000");
    let pinned = base.pinned_at(&project, "plain.test:5000");
    let line = |name: &str| format!("{pinned} -o oci:{name}");
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        // The scheme may be absent, as with curl.
        drop(std::fs::remove_dir_all(project.path("home/.cache")));
        run(&project, &line(variable), &[(variable, &named.host())]).expect(0);
    }
    assert_eq!(configured.asked(), [""; 0]);
    let before = named.asked().len();
    assert!(before >= 3);
    // A host in `NO_PROXY` is contacted directly, so it cannot be reached.
    drop(std::fs::remove_dir_all(project.path("home/.cache")));
    let line = line("no");
    run(&project, &line, &[("NO_PROXY", "other.test,plain.test")]).expect(5);
    configure(&project, &format!("http://{}", configured.host()), "no-proxy = [\"test\"]\n");
    run(&project, &line, &[]).expect(5);
    assert_eq!((configured.asked().len(), named.asked().len()), (0, before));
    for (variable, value) in
        [("HTTPS_PROXY", "socks5://me:canary-0815@h:1080"), ("http_proxy", "://x")]
    {
        let refused = run(&project, &line, &[(variable, value)]).expect(2);
        assert!(!refused.stderr.contains(CANARY), "{}", refused.stderr);
        refused
            .says(&format!("cannot use the variable `{variable}`"))
            .says("`http://proxy.example.org:3128`");
    }
}

#[test]
fn git_servers_and_indexes_are_asked_through_the_proxy() {
    let (git, index) = (GitFolder::new(), Index::start());
    git.init("demo");
    git.write("demo", "a.txt", "list = \"gfx1100\"\n");
    let commit = git.commit("demo");
    let hash = index.publish("0.5", &[("a.txt", "list = \"gfx1100\"\n")]);
    let server = GitHttp::start(git.path());
    let [git_tls, index_tls] =
        [server.host(), format!("127.0.0.1:{}", index.port)].map(|host| FaultProxy::tls_to(&host));
    let hosts = [("inner.test:443", git_tls.host()), ("cdn.test:443", index_tls.host())];
    let proxy = ForwardProxy::start(hosts, None);
    let project = Project::new();
    let pins = format!(
        "schema = 1\nsource-date-epoch = 1795132800\n\n\
         [source.demo]\nurl = \"https://inner.test/demo\"\nversion = \"0.5\"\ncommit = \"{commit}\"\npatches = \"demo\"\n\n\
         [archive.demo-sdist]\nproject = \"demo\"\nversion = \"0.5\"\nsha256 = \"{hash}\"\npatches = \"demo\"\n"
    );
    project.write("versions/versions.toml", &pins);
    let patch =
        format!("{}[applies]\nversions = \"*\"\n\n{}", head("demo-list"), list_edit("a.txt"));
    project.write("patches/demo/demo-list.toml", &patch);
    configure(&project, &format!("http://{}", proxy.host()), "");
    let index = [("PIP_INDEX_URL", "https://cdn.test/simple")];
    for (pin, host) in [("demo", "inner.test"), ("demo-sdist", "cdn.test")] {
        let line = format!("patch check demo --pin {pin}");
        run(&project, &line, &index).expect(0).prints("applied(1)");
        let asked = format!("CONNECT {host}:443");
        assert!(proxy.asked().contains(&asked), "{:?}", proxy.asked());
    }
}

#[test]
fn apt_and_uv_get_the_proxy() {
    let project = Project::new();
    let proxy = ForwardProxy::start([], None);
    configure(&project, &format!("http://{}", proxy.host()), "");
    // The proxy knows no host, so both commands fail, but they must have contacted it.
    let failed = run(
        &project,
        "lock debian --dry-run --mirror https://deb.debian.org=https://deb.test",
        &[],
    );
    assert_ne!(failed.code, 0);
    assert!(!proxy.asked().is_empty(), "{}", failed.stderr);
    let before = proxy.asked().len();
    let index = [("PIP_INDEX_URL", "https://cdn.test/simple")];
    let failed = run(&project, "lock flash-attention --dry-run", &index);
    assert_ne!(failed.code, 0);
    let asked = &proxy.asked()[before..];
    assert!(asked.iter().any(|one| one == "CONNECT cdn.test:443"), "{asked:?} {}", failed.stderr);
}

#[test]
fn with_mirrors_only_a_stage_may_not_use_the_network() {
    let project = Project::new();
    project.write("dockerfiles/it.Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN true\n");
    let text = "schema = 1\ngpu = \"gfx1151\"\n[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"vllm-dev-locked\"\n\
         [[mine.stage]]\nname = \"it\"\ndockerfile = \"dockerfiles/it.Dockerfile\"\nnetwork = true\n";
    project.write("versions/tracks.toml", text);
    let line = "--track mine --mirror-only --mirror docker.io=127.0.0.1:1";
    let refused = project.run(line).expect(2);
    refused
        .says("step `build-it` of track `mine` uses the network, but only mirrors may be contacted")
        .says("`network = true` in versions/tracks.toml")
        .says("--mirror-only");
}
