//! The user's configuration sets defaults; the environment and the command line take precedence
//! over it.

use crate::dsl::{Project, ran};

const FILE: &str = "home/.config/build-pipeline/config.toml";

#[test]
fn the_configuration_says_where_a_build_goes() {
    let project = Project::new();
    let text = "schema = 1\noutput = \"oci:out/{track}\"\ncache = \"CACHE\"\n";
    let cache = project.path("cache");
    project.write(FILE, &text.replace("CACHE", cache.to_str().unwrap()));
    let base = crate::dsl::Base::push(171);
    let build = base.locked_spoof(testkit::shared_registry().host());
    project.run(&build).expect(0).prints("out/locked-spoof");
    assert!(cache.join("blobs").is_dir(), "the cache");
    assert!(!project.path("dist").exists());
    project.run(&format!("{build} -o oci:other")).expect(0);
    assert!(project.path("other/index.json").is_file());
    // A rehearsal still goes to its usual folder.
    project.run("--track ollama --rehearse").expect(0);
    assert!(project.path("dist/rehearsal-ollama").is_dir());
    // The environment takes precedence over the configuration.
    let line: Vec<_> = build.split_whitespace().chain(["-o", "oci:third"]).collect();
    let elsewhere = project.path("elsewhere");
    ran(project.command(&line).env("XDG_CACHE_HOME", &elsewhere).output().unwrap()).expect(0);
    assert!(elsewhere.join("build-pipeline/blobs").is_dir());
}

#[test]
fn the_configuration_names_the_registry_that_images_are_pushed_to() {
    let (project, base) = (Project::new(), crate::dsl::Base::push(172));
    let host = testkit::shared_registry().host();
    let place = format!("{host}/configured-{}", std::process::id());
    let text = format!("schema = 1\noutput = \"registry:{place}/{{track}}:{{gpu}}\"\n");
    project.write(FILE, &text);
    let built = project.run(&base.locked_spoof(host)).expect(0);
    built.prints(&format!("pull      {place}/locked-spoof@sha256:"));
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
    project.run(&format!("verify {place}/locked-spoof:gfx1151 {mirror}")).expect(0);
    assert!(!project.path("dist").exists());
}

#[test]
fn the_configuration_names_the_engine() {
    let project = Project::new();
    project.write(FILE, "schema = 1\nengine = \"docker\"\n");
    project.run("help build").expect(0);
    project.run("build --help").expect(0).prints("[default: docker]");
    project.run("run --help").expect(0).prints("[default: docker]");
    project.run("step run --help").expect(0).prints("[default: docker]");
    // `clean` checks all engines, whichever one builds.
    let help = project
        .run("clean --help")
        .expect(0)
        .prints("[default: all available engines and the disk]");
    assert!(!help.stdout.contains("[default: docker]"), "{}", help.stdout);
    project.write(FILE, "schema = 1\nengine = \"auto\"\n");
    let host = format!("unix://{}", project.path("no-engine.sock").display());
    let mut clean = project.command(&["clean", "--dry-run"]);
    ran(clean.env("BUILD_PIPELINE_HOST", host).output().unwrap()).expect(1).prints("cannot query");
}

#[test]
fn the_homes_of_containers_are_in_the_configured_cache() {
    let project = Project::new();
    let printed = |line: &[&str], cache: Option<&str>| {
        let mut command = project.command(&[&["run", "official", "--print"], line].concat());
        command.envs(cache.map(|cache| ("XDG_CACHE_HOME", cache)));
        ran(command.output().unwrap()).expect(0).stdout
    };
    let usual = printed(&["quadlet", "--engine", "podman"], None);
    assert!(usual.contains("%h/.cache/build-pipeline/home/official:"), "{usual}");
    project.write(FILE, "schema = 1\ncache = \"/srv/cache\"\n");
    let configured = printed(&["shell"], None);
    assert!(configured.contains("/srv/cache/home/official:"), "{configured}");
    let named = printed(&["shell"], Some("/srv/other"));
    assert!(named.contains("/srv/other/build-pipeline/home/official:"), "{named}");
}

#[test]
fn a_wrong_configuration_is_an_error_with_its_place() {
    let project = Project::new();
    project.write(FILE, "schema = 1\nengin = \"docker\"\n\n[mirors]\n");
    for command in ["pins show", "lint", "--track ollama --rehearse", "doctor"] {
        let ran = project.run(command).expect(2);
        ran.says("config.toml:2:1").says("did you mean `engine`?").says("did you mean `mirrors`?");
    }
    // A dangling link must not switch off `mirror-only`.
    std::fs::remove_file(project.path(FILE)).unwrap();
    std::os::unix::fs::symlink("nowhere", project.path(FILE)).unwrap();
    project.run("pins show").expect(2).says("config.toml").says("correct or remove it");
    // Help must work, so that the user can repair the file.
    project.run("help environment").expect(0).prints("config.toml");
    project.run("completions bash").expect(0);
    project.run("--help").expect(0);
}
