//! Projects of users: `init` writes them, tracks can have any name, and the built-in data supplies
//! what a project lacks.

use testkit::{RandomImage, shared_registry};

use crate::dsl::{Project, Ran, ran, same, workspace};
use crate::unfold;

/// Returns a folder with a project that `init` wrote with `arguments`.
fn with(arguments: &str) -> Project {
    let project = Project::empty();
    project.write("registries.conf", "");
    project.run(&format!("init {arguments}")).expect(0).prints("wrote ").prints("next:");
    project
}

/// Returns the config of an image in a registry, as skopeo reads it.
fn config_of(reference: &str) -> serde_json::Value {
    let mut skopeo = std::process::Command::new("skopeo");
    skopeo.args(["inspect", "--config", "--tls-verify=false", &format!("docker://{reference}")]);
    serde_json::from_str(&ran(skopeo.output().unwrap()).expect(0).stdout).unwrap()
}

const TRACKS: &str = "versions/tracks.toml";

#[test]
fn a_new_project_is_proven_in_one_step() {
    let project = with("");
    project.run("--track official --rehearse").expect(0).prints("proven: ");
    project.run("verify rehearsal-official").expect(0).prints("proven: ");
    project.run("plan --track locked-spoof").expect(0).prints("vllm-dev-locked = ");
    project.run("explain official").expect(0);
    assert_eq!(project.read(".gitignore"), "/dist/\n");
}

#[test]
fn locks_of_the_program_are_checked_and_renewed_in_a_project() {
    let project = with("");
    let files = std::fs::read_dir(workspace().join("versions/locks")).unwrap().flatten();
    let is_lock =
        |file: &std::fs::DirEntry| file.path().extension().is_some_and(|end| end == "toml");
    let count = files.filter(is_lock).count();
    project.run("lock --check").expect(0).prints(&format!("{count} locks match"));
    project.run("lock rehearsal --check").expect(0).prints("1 lock matches");
    // The project gets its own lock if Debian has newer packages than the built-in lock.
    let ran = project.run("lock rehearsal --snapshot").expect(0).prints("rehearsal: ");
    let is_new = ran.stdout.contains("wrote versions/locks/rehearsal.toml");
    assert_eq!(project.path("versions/locks/rehearsal.toml").exists(), is_new, "{}", ran.stdout);
    project.run("lock --check").expect(0).prints(&format!("{count} locks match"));
    // A Python lock of the project has the same name as a built-in Debian lock.
    let set = "schema = 1\n[rocm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"idna==3.10\"]\n";
    project.write("versions/python.toml", set);
    std::fs::remove_dir_all(project.path("versions/locks")).unwrap_or_default();
    project.run("lock --check").expect(0).says("lock `rocm` does not exist yet");
    // A folder that cannot be read is not treated as a folder without locks.
    project.write("versions/locks", "");
    project.run("lock --check").expect(2).says("versions/locks` failed");
}

#[test]
fn a_track_with_a_name_of_its_own_is_pinned_built_and_pushed() {
    let host = shared_registry().host();
    let path = format!("own/base-{}", std::process::id());
    let image = RandomImage::new(7701).push(host, &path, "v1");
    let project = with(&format!("--track my-server --base {host}/{path}:v1"));
    project
        .run("plan --track my-server")
        .expect(2)
        .says("pin `my-server-base` is unresolved")
        .says("`build-pipeline bump my-server-base`");
    let pins = project.read("versions/versions.toml");
    // The built-in unresolved pins are at registries that this machine cannot reach, so only this
    // pin is bumped. An unresolved pin is resolved by its own tag, not by the newest one.
    RandomImage::new(7704).push(host, &path, "v2");
    project.run("bump my-server-base").expect(0).prints("bumped my-server-base");
    assert_ne!(project.read("versions/versions.toml"), pins);
    assert!(project.read("versions/versions.toml").contains(&image.digest.to_string()));

    let settings = "entrypoint = [\"/bin/serve\", \"--port\", \"8000\"]\ncmd = [\"--all\"]\nuser = \"1000:44\"\n\
                    workdir = \"/srv\"\n[my-server.labels]\n\"org.example.team\" = \"inference\"\n";
    project.write(TRACKS, &format!("{}{settings}", project.read(TRACKS)));
    project.run("--track my-server --gpu gfx1100").expect(0);
    project.run("verify my-server-gfx1100").expect(0).prints("proven: ");
    project.run("--track my-server").expect(0);
    project.run("verify my-server").expect(0).prints("proven: ");
    // `status` shows the findings of the last `outdated`, until the pin is changed.
    assert!(!project.run("status").expect(0).stdout.contains("newer since"));
    let outdated = project.run("outdated");
    assert!(outdated.stdout.contains("my-server-base"), "{}", outdated.stdout);
    let status = project.run("status").expect(0);
    let line = status.stdout.lines().find(|line| line.starts_with("my-server ")).unwrap();
    assert!(line.contains("pin my-server-base: newer since "), "{line}");
    let status = project.run("status --format json").expect(0).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let tracks = status["tracks"].as_array().unwrap();
    let own = tracks.iter().find(|one| one["track"] == "my-server").unwrap();
    let pin = own["built"]["pins"]["my-server-base"].as_str().unwrap();
    assert!(pin.ends_with(&image.digest.to_string()), "{pin}");
    assert_eq!(own["outdated"][0]["state"], "newer");
    let target = format!("{host}/own/pushed-{}:v1", std::process::id());
    let pushed = project.run(&format!("--track my-server --push {target}")).expect(0);
    project.run(&format!("verify {target}")).expect(0).prints("proven: ");
    let config = config_of(&target);
    let inner = &config["config"];
    assert_eq!(inner["Entrypoint"], serde_json::json!(["/bin/serve", "--port", "8000"]));
    assert_eq!(inner["Cmd"], serde_json::json!(["--all"]));
    assert_eq!((&inner["User"], &inner["WorkingDir"]), (&"1000:44".into(), &"/srv".into()));
    assert_eq!(inner["Labels"]["org.example.team"], "inference");
    assert_eq!(inner["Labels"]["io.github.build-pipeline.track"], "my-server");
    assert!(pushed.stdout.contains(&target), "{}", pushed.stdout);
    project.run("run my-server --print quadlet").expect(0).prints("my-server");
    project.run("completions bash").expect(0).prints("my-server");
}

#[test]
fn a_track_on_a_track_has_the_settings_of_both() {
    let project = with("--track fast --from official");
    let text = "schema = 1\n[fast]\ntitle = \"Fast\"\ndescription = \"d\"\ntrack = \"official\"\n\
                env.VLLM_ROCM_USE_AITER = \"1\"\nenv.MINE = \"yes\"\n\
                [faster]\ntitle = \"Faster\"\ndescription = \"d\"\ntrack = \"fast\"\nenv.MINE = \"no\"\n";
    project.write(TRACKS, text);
    project
        .run("plan --track fast")
        .expect(0)
        .prints("env MINE=yes")
        .prints("env VLLM_ROCM_USE_AITER=1")
        .prints("env HSA_NO_SCRATCH_RECLAIM=1");
    project.run("plan --track faster").expect(0).prints("env MINE=no").prints("title=Faster");
    project.run("--track faster --rehearse").expect(0).prints("proven: ");
    // A spoof is a setting like any other.
    let text = "schema = 1\n[mine]\ntitle = \"m\"\ndescription = \"d\"\ntrack = \"locked-spoof\"\n";
    project.write(TRACKS, text);
    project.run("plan --track mine").expect(0).prints("env HSA_OVERRIDE_GFX_VERSION=11.0.0");
    project.write(TRACKS, &format!("{text}spoof = false\n"));
    let plan = project.run("plan --track mine").expect(0);
    assert!(!plan.stdout.contains("HSA_OVERRIDE_GFX_VERSION"), "{}", plan.stdout);
    // On a track that an engine builds, the plan has all of its steps.
    project.write(
        TRACKS,
        "schema = 1\n[mine]\ntitle = \"Mine\"\ndescription = \"d\"\ntrack = \"vulkan\"\nenv.MINE = \"1\"\n",
    );
    let plan = project.run("plan --track mine").expect(0).prints("build-llama-cpp");
    assert!(plan.stdout.contains("env MINE=1"), "{}", plan.stdout);
}

#[test]
fn a_track_with_stages_needs_one_table_and_one_dockerfile() {
    let project = with("");
    project.write("dockerfiles/tool.Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN touch /tool\n");
    let text = "schema = 1\n[tool]\ntitle = \"Tool\"\ndescription = \"d\"\npackages = \"debian\"\n\
                [[tool.stage]]\nname = \"tool\"\ndockerfile = \"dockerfiles/tool.Dockerfile\"\n";
    project.write(TRACKS, text);
    project
        .run("plan --track tool")
        .expect(0)
        .prints("bootstrap-base")
        .prints("build-tool")
        .prints("variant=default");
}

#[test]
fn the_problems_of_all_data_files_are_reported_at_once() {
    let project = with("");
    project.write("dockerfiles/there.Dockerfile", "ARG BASE\nFROM ${BASE}\n");
    let head = "title = \"t\"\ndescription = \"d\"\n";
    let stage = |name: &str, file: &str, more: &str| {
        format!("[[tool.stage]]\nname = \"{name}\"\ndockerfile = \"{file}\"\n{more}")
    };
    let tracks = [
        format!("schema = 1\n[aa]\n{head}track = \"bb\"\n[bb]\n{head}track = \"aa\"\n"),
        format!("[mine]\n{head}track = \"vulkan\"\ncolour = \"red\"\n"),
        "files = [{ from = \"files/gone\", to = \"/opt/x\" }]\n".to_owned(),
        format!("[tool]\n{head}packages = \"debian\"\n"),
        stage("a", "dockerfiles/gone.Dockerfile", "files = [\"files/none\"]\n"),
        stage("b", "dockerfiles/there.Dockerfile", ""),
        stage("c", "dockerfiles/vulkan/debian.Dockerfile", ""),
    ];
    project.write(TRACKS, &tracks.concat());
    let own = [
        "versions/tracks.toml:2:2",
        "track `aa` is based on itself, through `bb`",
        "versions/tracks.toml:14:1",
        "`colour` is not a key of `[mine]`",
        "versions/tracks.toml:15:19",
        "the project has no file or folder `files/gone`",
        "versions/tracks.toml:22:14",
        "the project has no file or folder `dockerfiles/gone.Dockerfile`",
        "the project has no file or folder `files/none`",
    ];
    let all_say = |says: &[&str], count: usize| {
        for line in ["plan mine", "status", "--track tool", "plan aa"] {
            let ran = says.iter().fold(project.run(line).expect(2), |ran, says| ran.says(says));
            assert_eq!(ran.stderr.matches("error: ").count(), count, "{}", ran.stderr);
        }
    };
    // The last line is the number of problems.
    all_say(&own, 6);
    // Mistakes in one file do not hide those in another, and its entries still count as known.
    project.write("versions/gpus.toml", "schema = 1\n[gfx1151]\nname = 1\n");
    let versions = project.read("versions/versions.toml");
    let wrong = [
        ("[image.Wrong]\ndigest = 1\n", "`Wrong` is not a pin name"),
        ("[image\n", "versions/versions.toml:"),
    ];
    for (more, says) in wrong {
        project.write("versions/versions.toml", &format!("{versions}\n{more}"));
        let ran = project.run("plan mine").expect(2).says(says);
        let ran = own.iter().fold(ran, |ran, says| ran.says(says));
        let ran = ran.says("versions/gpus.toml:3:8").says("versions/gpus.toml:2:2");
        // `vulkan` and the other tracks are still there.
        assert!(!ran.stderr.contains("which is not a track"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("debian.Dockerfile"), "{}", ran.stderr);
    }
}

#[test]
fn tables_that_contradict_each_other_are_refused_with_their_places() {
    let project = with("");
    let track =
        |name: &str, rest: &str| format!("[{name}]\ntitle = \"t\"\ndescription = \"d\"\n{rest}\n");
    for (tables, says) in [
        (track("one", "track = \"two\""), "track `one` is based on `two`, which is not a track"),
        (
            track("one", "track = \"two\"") + &track("two", "track = \"one\""),
            "track `one` is based on itself, through `two`",
        ),
        (track("one", "track = \"offical\""), "did you mean `official`?"),
        (track("one", "base = \"nope\""), "`nope` is not an image in versions/versions.toml"),
        (track("one", ""), "`base` is missing from `[one]`"),
        (
            track("one", "base = \"ollama\"\ntrack = \"vulkan\""),
            "has more than one of `base`, `track`",
        ),
        (track("One", "track = \"vulkan\""), "`One` is not a track name"),
        (
            track("one", "track = \"vulkan\"\nspoof = true"),
            "has `spoof`, but an engine builds its base",
        ),
        (
            track("one", "track = \"vulkan\"\nletter = \"A\""),
            "`one` and `official` have the same letter",
        ),
        (track("vulkan-fedora", "track = \"ollama\""), "would write the image `vulkan-fedora`"),
        (track("one", "track = \"ollama\"\nuser = \"a b\""), "`a b` is not a user"),
        (track("one", "track = \"ollama\"\nworkdir = \"srv\""), "`srv` is not an absolute path"),
        (
            track("one", "track = \"ollama\"\nlabels.\"io.github.build-pipeline.gpu\" = \"x\""),
            "is set by build-pipeline",
        ),
        (track("one", "track = \"ollama\"\nentrypoint = \"serve\""), "should be an array"),
    ] {
        project.write(TRACKS, &format!("schema = 1\n{tables}"));
        let before = project.files();
        project.run("plan --track official").expect(2).says(says).says("versions/tracks.toml:");
        same(&project.files(), &before, says);
    }
}

#[test]
fn names_in_a_stage_that_do_not_exist_are_answered_with_the_nearest() {
    let project = with("");
    project.write("dockerfiles/tool.Dockerfile", "ARG BASE\nFROM ${BASE}\n");
    let tool = |packages: &str, stage: &str| {
        format!(
            "schema = 1\n[tool]\ntitle = \"t\"\ndescription = \"d\"\npackages = \"{packages}\"\n\
             [[tool.stage]]\nname = \"tool\"\n{stage}\n"
        )
    };
    let file = "dockerfile = \"dockerfiles/tool.Dockerfile\"";
    for (packages, stage, near) in [
        ("debain", file.to_owned(), "did you mean `debian`?"),
        ("rocmm", file.to_owned(), "did you mean `rocm`?"),
        (
            "debian",
            "dockerfile = \"dockerfiles/tol.Dockerfile\"".to_owned(),
            "did you mean `dockerfiles/tool.Dockerfile`?",
        ),
        ("debian", format!("{file}\npackages = [\"vulkan-bild\"]"), "did you mean `vulkan-build`?"),
        ("debian", format!("{file}\npython = \"vlm\""), "did you mean `vllm`?"),
    ] {
        project.write(TRACKS, &tool(packages, &stage));
        project.run("plan --track tool").expect(2).says(near);
    }
    // A name that is not similar to any other has no such hint.
    project.write(TRACKS, &tool("something-else", file));
    let ran = project.run("plan --track tool").expect(2).says("create `versions/locks/");
    assert!(!ran.stderr.contains("did you mean"), "{}", ran.stderr);
}

#[test]
fn a_dockerfile_that_takes_other_images_or_urls_is_refused_with_its_line() {
    let project = with("");
    let text = "schema = 1\n[tool]\ntitle = \"t\"\ndescription = \"d\"\npackages = \"debian\"\n\
                [[tool.stage]]\nname = \"tool\"\ndockerfile = \"dockerfiles/tool.Dockerfile\"\n";
    project.write(TRACKS, text);
    for (dockerfile, says, line) in [
        ("ARG BASE\nFROM debian:13\nRUN true\n", "the image is based on `debian:13`", 2),
        ("FROM ${BASE}\nRUN true\n", "`${BASE}` is empty", 1),
        ("ARG BASE\nFROM ${BASE} AS one\n\nFROM two\n", "the image is based on `two`", 4),
        ("RUN true\n", "has no FROM", 1),
        ("", "has no FROM", 1),
    ] {
        project.write("dockerfiles/tool.Dockerfile", dockerfile);
        project
            .run("plan --track tool")
            .expect(2)
            .says(says)
            .says(&format!("dockerfiles/tool.Dockerfile:{line}:1"))
            .says("`FROM ${BASE}`");
    }
    for (instruction, says) in [
        (
            "ADD https://h.example/a /a",
            "ADD fetches `https://h.example/a`, which is not in the plan",
        ),
        ("COPY --from=busybox /a /a", "`--from=busybox` takes files from an image"),
        ("RUN --mount=type=bind,from=busybox,target=/a true", "takes files from an image"),
        ("RUN --network=host true", "`--network=host` gives this RUN the host's network"),
    ] {
        let text = format!("ARG BASE\nFROM ${{BASE}}\n{instruction}\n");
        project.write("dockerfiles/tool.Dockerfile", &text);
        let ran = project.run("plan --track tool").expect(2).says(says);
        ran.says("dockerfiles/tool.Dockerfile:3:1");
    }
    let text = "ARG BASE\nFROM debian:13 AS one\nFROM ${BASE}\nCOPY --from=one /a /a\n";
    project.write("dockerfiles/tool.Dockerfile", text);
    let ran = project.run("plan --track tool").expect(2);
    ran.says("the stage starts from `debian:13`, which is not in the plan");
    project.write("dockerfiles/tool.Dockerfile", "ARG BASE\nFROM ${BASE} AS one\nFROM one\n");
    project.run("plan --track tool").expect(0);
}

#[test]
fn a_new_project_can_be_built_by_a_ci_system() {
    let project = Project::empty();
    let words = ["init", "--track", "mine", "--ci", "github,gitlab", "--install", "./get\nhash -r"];
    let ran = ran_of(&project, &words).expect(0);
    for (file, install) in [
        (".github/workflows/images.yml", "\n        run: |\n          ./get\n          hash -r\n"),
        (".gitlab-ci.yml", "\n    - |\n      ./get\n      hash -r\n"),
    ] {
        assert!(ran.stdout.contains(file), "{}", ran.stdout);
        let text = project.read(file);
        for wanted in [install, "build-pipeline --track mine\n", "build-pipeline verify mine\n"] {
            assert!(text.contains(wanted), "{wanted}:\n{text}");
        }
        assert!(!text.contains("TRACK") && !text.contains("CHECKOUT"), "{text}");
    }
    let before = project.files();
    project.run("init new --ci github").expect(2).says("--install");
    project.run("init new --install x").expect(2).says("--ci");
    let words = ["init", "new", "--ci", "gitlab", "--install", " "];
    ran_of(&project, &words).expect(2).says("is empty");
    project.write("other/.gitlab-ci.yml", "mine");
    let words = ["init", "other", "--ci", "gitlab", "--install", "x"];
    ran_of(&project, &words).expect(2).says(".gitlab-ci.yml` already exists");
    std::fs::remove_dir_all(project.path("other")).unwrap();
    same(&project.files(), &before, "refused inits");
}

#[test]
fn a_project_gets_a_file_for_ci_later() {
    let project = Project::empty();
    project.run("init --track mine").expect(0);
    let before = project.files();
    let words = ["init", ".", "--ci", "github", "--install", "./get"];
    ran_of(&project, &words).expect(0).prints("wrote ").prints("track mine");
    let file = ".github/workflows/images.yml";
    assert!(project.read(file).contains("build-pipeline --track mine\n"));
    // Nothing that exists is replaced.
    let both = ["init", ".", "--ci", "gitlab,github", "--install", "x"];
    ran_of(&project, &both).expect(2).says("already exists").says("export github mine");
    std::fs::remove_dir_all(project.path(".github")).unwrap();
    same(&project.files(), &before, "only the workflow was added");
    project.run("init --track other").expect(2).says("already a project").says("`--ci`");
}

fn ran_of(project: &Project, words: &[&str]) -> Ran {
    ran(project.command(words).output().unwrap())
}

/// The first line of each file that `init` writes names a schema that exists, is current and takes
/// the file.
#[test]
fn editors_find_the_schemas_of_a_new_project() {
    let project = Project::empty();
    project.write("registries.conf", "");
    let base = "--base docker.io/vllm/vllm-openai-rocm:v0.30.0";
    for (folder, arguments, names) in [
        ("plain", String::new(), vec!["versions"]),
        ("from", "--track mine --from vulkan".to_owned(), vec!["tracks", "versions"]),
        ("based", format!("--track mine {base}"), vec!["run", "tracks", "versions"]),
    ] {
        project.run(&format!("init {folder} {arguments}")).expect(0);
        let data = project.path(&format!("{folder}/versions")).read_dir().unwrap().flatten();
        let mut found: Vec<_> = data.map(|file| file.file_name().into_string().unwrap()).collect();
        found.sort();
        assert_eq!(found, names.iter().map(|name| format!("{name}.toml")).collect::<Vec<_>>());
        for name in names {
            let text = project.read(&format!("{folder}/versions/{name}.toml"));
            let path = text.lines().next().unwrap().strip_prefix("#:schema ").unwrap();
            let schema = project.read(&format!("{folder}/versions/{path}"));
            assert_eq!(schema, project.run(&format!("schema {name}")).expect(0).stdout);
            let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
            let value = crate::pins::as_json(toml::from_str(&text).unwrap());
            let errors = jsonschema::validator_for(&schema).unwrap();
            let errors: Vec<_> = errors.iter_errors(&value).map(|one| one.to_string()).collect();
            assert_eq!(errors, [""; 0], "{name}");
        }
    }
    // `bump` keeps the line.
    let digest = format!("sha256:{}", "1".repeat(64));
    project.run(&format!("-C based bump mine-base {digest}"));
    assert!(project.read("based/versions/versions.toml").starts_with("#:schema "));
}

#[test]
fn a_track_on_a_newer_image_of_a_built_in_track_gets_its_port_and_smoke_tests() {
    let project = Project::empty();
    project.write("registries.conf", "");
    for (folder, image, port) in [
        ("vllm", "docker.io/vllm/vllm-openai-rocm:v0.30.0", "8000"),
        ("ollama", "docker.io/ollama/ollama:0.99.0-rocm", "11434"),
    ] {
        let ran = project.run(&format!("init {folder} --track mine --base {image}")).expect(0);
        assert!(!ran.stderr.contains("no port"), "{}", ran.stderr);
        let line = format!("-C {folder} run mine --gpu gfx1151 --print shell");
        project.run(&line).expect(0).prints(&format!("127.0.0.1:{port}:{port}"));
        let row = project.read(&format!("{folder}/versions/run.toml"));
        assert!(row.contains("[mine]\n") && row.contains("\nsmoke.import = "), "{row}");
    }
    // A track inherits the row of a track that it is based on.
    project.run("init from --track mine --from official").expect(0);
    assert!(!project.path("from/versions/run.toml").exists());
    let line = "-C from run mine --gpu gfx1151 --print shell";
    project.run(line).expect(0).prints("127.0.0.1:8000:8000");
    // Nothing is known about any other image, and `init` says so.
    let ran = project.run("init other --track mine --base registry.example.org/a/b:1").expect(0);
    ran.says("hint: containers of `mine` get ROCm's devices, but no port and no smoke tests")
        .says("`versions/run.toml`")
        .says("`[mine]`");
    assert!(!project.path("other/versions/run.toml").exists());
    let line = "-C other run mine --gpu gfx1151 --print shell";
    assert!(!project.run(line).expect(0).stdout.contains("--publish"));
}

#[test]
fn init_suggests_bump_only_if_a_pin_is_unresolved() {
    let project = Project::empty();
    for (arguments, is_suggested) in [
        ("a", false),
        ("b --track mine --from official", false),
        ("c --track mine --from nightly-spoof", false),
        ("d --track mine --from ollama", true),
        ("e --track mine --base registry.example.org/a/b:1", true),
    ] {
        let ran = project.run(&format!("init {arguments}")).expect(0);
        let suggested = ran.stdout.contains("build-pipeline bump --unresolved");
        assert_eq!(suggested, is_suggested, "{arguments}\n{}", ran.stdout);
    }
}

#[test]
fn init_replaces_nothing() {
    let project = Project::empty();
    project.write("README.md", "mine");
    project.write(TRACKS, "mine");
    let before = project.files();
    project
        .run("init --track one")
        .expect(2)
        .says("versions/tracks.toml` already exists")
        .says("nothing was written");
    same(&project.files(), &before, "a refused init");
    project.run("init new --track Bad").expect(2).says("`Bad` is not a track name");
    project.run("init new --track one --base ollama").expect(2).says("not an image reference");
    project.run("init new --track one --from offical").expect(2).says("did you mean `official`?");
    project.run("init new --base a.example/b:c").expect(2).says("--track");
    project.run("init new --track official").expect(2).says("already a track").says("my-official");
    same(&project.files(), &before, "refused inits");
    project.run("init new").expect(0);
    project.run("init new").expect(2).says("is already a project");
    project.run("-C new init").expect(2).says("is already a project");
}

#[test]
fn what_init_and_the_home_screen_suggest_can_be_done() {
    let project = Project::empty();
    project.write("registries.conf", "");
    for (folder, from, can) in
        [("a", "official", true), ("b", "vulkan", false), ("c", "source", true)]
    {
        let ran = project.run(&format!("init {folder} --track mine --from {from}")).expect(0);
        assert_eq!(ran.stdout.contains("--rehearse"), can, "{}", ran.stdout);
        let readme = project.read(&format!("{folder}/README.md"));
        assert_eq!(readme.contains("--rehearse"), can, "{readme}");
        let home = project.run(&format!("-C {folder}")).expect(0).stdout;
        let tried = if from == "official" { "mine" } else { "official" };
        assert!(home.contains(&format!("--track {tried} --rehearse")), "{home}");
        let rehearsed = project.run(&format!("-C {folder} plan mine --rehearse"));
        rehearsed.expect(if can { 0 } else { 2 });
    }
}

#[test]
fn init_adds_to_an_existing_repository() {
    for (before, after) in [
        ("target", "target\n/dist/\n"),
        ("a\nb\n", "a\nb\n/dist/\n"),
        ("dist/\nx\n", "dist/\nx\n"),
        ("", "/dist/\n"),
    ] {
        let project = Project::empty();
        project.write(".gitignore", before);
        project.write("README.md", "mine");
        let ran = project.run("init .").expect(0);
        assert_eq!(project.read(".gitignore"), after);
        assert_eq!(project.read("README.md"), "mine");
        assert_eq!(ran.stdout.contains(".gitignore"), before != after, "{}", ran.stdout);
        assert!(!ran.stdout.contains("/./") && !ran.stdout.contains("cd "), "{}", ran.stdout);
        project.run("plan official").expect(0);
    }
}

#[test]
fn data_of_the_program_is_used_only_where_the_project_has_none() {
    let project = with("");
    // A pin of the project replaces the built-in pin.
    let digest = format!("sha256:{}", "1".repeat(64));
    let text = project.read("versions/versions.toml");
    let pin = format!(
        "{text}\n[image.ollama]\nrepository = \"registry.example.org/o\"\ndigest = \"{digest}\"\n"
    );
    project.write("versions/versions.toml", &pin);
    project.run("plan --track ollama").expect(0).prints("registry.example.org/o@sha256:1111");
    project.run("plan --track official").expect(0);
    // A complete project uses nothing that is built in.
    project.write(
        "versions/versions.toml",
        &text.replace("schema = 1", "schema = 1\nbuilt-in = false"),
    );
    project.run("plan --track official").expect(2).says("versions/gpus.toml");
}

/// Returns the shell script that `run` prints for a track on a machine with a GPU.
fn started(project: &Project, track: &str) -> String {
    project.run(&format!("run {track} --print shell --host-root machine")).expect(0).stdout
}

#[test]
fn a_container_gets_what_the_track_says_and_the_rest_from_the_track_below() {
    let project = with("--track mine --from official");
    unfold::machine(&project.path("machine"), "strix-halo");
    project.write(TRACKS, &format!("{}env.VLLM_ROCM_USE_AITER = \"1\"\n", project.read(TRACKS)));
    let (mine, official) = (started(&project, "mine"), started(&project, "official"));
    assert!(official.contains("VLLM_ROCM_USE_AITER=0") && !mine.contains("VLLM_ROCM_USE_AITER"));
    for text in ["8000", "HSA_NO_SCRATCH_RECLAIM=1", "--shm-size"] {
        assert!(mine.contains(text) && official.contains(text), "{text}: {mine}");
    }
    // A built-in row applies only to the built-in track.
    let own = "schema = 1\n[vulkan]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"rocm-pytorch\"\n";
    project.write(TRACKS, own);
    assert!(started(&project, "vulkan").contains("/dev/kfd"));
    project.run("lint").expect(0);
}

#[test]
fn another_project_is_never_used_instead() {
    let project = with("");
    std::fs::create_dir_all(project.path("inside/versions")).unwrap();
    let outside = Project::empty();
    outside.write("registries.conf", "");
    let name = outside.path("").file_name().unwrap().to_str().unwrap().to_owned();
    project.run(&format!("-C ../{name} plan --track official")).expect(2).says("no project found");
    // A file that cannot be read is an error; no other project is used instead.
    std::os::unix::fs::symlink("/nonexistent", project.path("inside/versions/versions.toml"))
        .unwrap();
    project.run("-C inside plan --track official").expect(2).says("inside/versions/versions.toml");
    std::os::unix::fs::symlink("/nonexistent", project.path(TRACKS)).unwrap();
    project.run("plan --track official").expect(2).says("versions/tracks.toml` failed");
}

#[test]
fn a_project_of_another_user_in_a_parent_folder_is_not_used() {
    let project = with("--track mine --base docker.io/library/debian:13");
    std::fs::create_dir_all(project.path("inside")).unwrap();
    for owned in ["", "versions", "versions/versions.toml"] {
        let own = |owner| std::os::unix::fs::chown(project.path(owned), Some(owner), None).unwrap();
        own(testkit::ORDINARY_USER);
        let refused = "-C inside plan mine";
        project.run(refused).expect(2).says("belongs to another user").says("use `-C /");
        for line in ["-C inside verify mine", "-C inside bump --all", "-C inside --track official"]
        {
            project.run(line).expect(2).says("belongs to another user");
        }
        // The folder itself was selected, so it is used.
        project.run("plan mine").expect(2).says("pin `mine-base` is unresolved");
        let with_sudo = ran(project
            .command(&["-C", "inside", "plan", "mine"])
            .env("SUDO_UID", testkit::ORDINARY_USER.to_string())
            .output()
            .unwrap());
        with_sudo.expect(2).says("pin `mine-base` is unresolved");
        own(0);
        project.run(refused).expect(2).says("pin `mine-base` is unresolved");
    }
}

#[test]
fn bump_pins_what_is_unresolved_and_says_why_where_it_cannot() {
    let host = shared_registry().host();
    let path = format!("own/many-{}", std::process::id());
    let image = RandomImage::new(7702).push(host, &path, "v1");
    let project = with(&format!("--track one --base {host}/{path}:v1"));
    let pin = |name: &str| {
        format!(
            "\n[image.{name}]\nrepository = \"{host}/{path}\"\ntag = \"v9\"\ndigest = \"unresolved\"\n"
        )
    };
    let text = project.read("versions/versions.toml") + &pin("absent");
    project.write("versions/versions.toml", &text);
    let before = project.files();
    let dry = project.run("bump --unresolved --dry-run").expect(5).says("not bumped: 1 of 2 pins");
    let value = &image.digest.to_string()[..19];
    dry.prints(value).prints("(not written)");
    crate::dsl::same(&project.files(), &before, "a dry run");
    let ran = project.run("bump --unresolved").expect(5).says("not bumped: 1 of 2 pins");
    let line =
        |name: &str| ran.stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("absent").contains("not bumped: "), "{}", ran.stdout);
    assert!(line("one-base").contains(&image.digest.to_string()[..19]), "{}", ran.stdout);
    assert!(project.read("versions/versions.toml").contains(&image.digest.to_string()));
    project.run("bump --all --unresolved").expect(2);
    project.run("bump --all ollama").expect(2);
    project.run("bump").expect(2).says("PIN");
}

#[test]
fn a_pin_of_the_program_that_is_bumped_becomes_one_of_the_project() {
    let host = shared_registry().host();
    let path = format!("own/ollama-{}", std::process::id());
    let image = RandomImage::new(7703).push(host, &path, "rocm");
    let project = with("");
    let mirror = format!("--mirror docker.io/ollama/ollama={host}/{path}");
    project.run(&format!("bump ollama rocm {mirror}")).expect(0).prints("bumped ollama");
    let text = project.read("versions/versions.toml");
    assert!(text.contains("[image.ollama]") && text.contains(&image.digest.to_string()), "{text}");
    project.run("plan --track ollama").expect(0).prints(&image.digest.to_string());
    project.run(&format!("--track ollama {mirror}")).expect(0);
    project.run(&format!("verify ollama {mirror}")).expect(0).prints("proven: ");
}
