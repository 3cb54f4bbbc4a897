//! A track that engines build, through the command line: into folders and engines, rebuilt,
//! compared.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use names::Digest;
use oci::LayoutImage;
use serde_json::Value;
use testkit::{
    Dockerd, FaultProxy, PodmanStore, PushedImage, RandomImage, busybox_root, shared_registry,
};

use crate::dsl::{Project, Ran, ran};
use crate::verify::forge_at;

/// A project whose track `vulkan` has a variant that builds in seconds, with its own engines.
pub(crate) struct Bench {
    pub(crate) project: Project,
    pub(crate) podman: PodmanStore,
    /// The digest of the variant's base.
    pub(crate) base: String,
}

pub(crate) fn dockerd() -> &'static Dockerd {
    static SHARED: OnceLock<Dockerd> = OnceLock::new();
    SHARED.get_or_init(Dockerd::start)
}

/// Creates a project whose track `vulkan` has a variant `tiny` that builds in seconds. Returns the
/// digest of its base, which is on the shared registry.
pub(crate) fn tiny_project(dockerfile: &str) -> (Project, String) {
    // A registry does not accept the same image from two clients at the same time.
    static BASE: OnceLock<PushedImage> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        let base = RandomImage { below: vec![busybox_root()], ..RandomImage::new(77) };
        base.push(shared_registry().host(), "built/tiny", "1")
    });
    let project = Project::new();
    let versions = project.read("versions/versions.toml");
    let pin = format!(
        "\n[image.tiny]\nrepository = \"registry.example.org/built/tiny\"\ntag = \"1\"\ndigest = \"{}\"\n\
         checked = 2026-11-21\nevidence = \"a test\"\n",
        base.digest
    );
    project.write("versions/versions.toml", &format!("{versions}{pin}"));
    let stage = "[vulkan.variants.tiny]\nbase = \"tiny\"\n[[vulkan.variants.tiny.stage]]\n\
                 name = \"tiny\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\n\
                 [vulkan.variants.debian]";
    project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", &format!("{stage}\n"));
    project.write("dockerfiles/tiny.Dockerfile", dockerfile);
    (project, base.digest.to_string())
}

impl Bench {
    pub(crate) fn new(dockerfile: &str) -> Self {
        let podman = PodmanStore::new();
        let (project, base) = tiny_project(dockerfile);
        project.write_podman(&podman);
        Self { project, podman, base }
    }

    fn run(&self, line: &str) -> Ran {
        ran(self.command(line).output().unwrap())
    }

    /// Runs a command with an additional variable.
    fn run_with(&self, line: &str, variable: (&str, &str)) -> Ran {
        ran(self.command(line).env(variable.0, variable.1).output().unwrap())
    }

    fn command(&self, line: &str) -> Command {
        self.command_at(line, shared_registry().host())
    }

    /// Returns a command that finds the base on a registry.
    pub(crate) fn command_at(&self, line: &str, registry: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let docker = format!("unix://{}", dockerd().socket().display());
        let mirror = format!("registry.example.org={registry}");
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        command
            .args(["--mirror", &mirror])
            .env("PATH", format!("{}:{path}", self.project.path("bin").display()))
            .env("DOCKER_HOST", docker);
        command
    }

    /// Runs a container of an image in an engine, and returns its output.
    pub(crate) fn container(&self, engine: &str, image: &str, words: &[&str]) -> String {
        let mut command = Command::new(engine);
        let options = ["run", "--rm", "--network=none"];
        match engine {
            "podman" => command
                .args(self.podman.arguments())
                .args(["--runtime", "runc"])
                .args(options)
                .args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]),
            _ => command
                .args(["--host", &format!("unix://{}", dockerd().socket().display())])
                .args(options),
        };
        ran(command.arg(image).args(words).output().unwrap()).expect(0).stdout
    }
}

#[test]
fn an_image_is_built_loaded_run_and_built_again_by_both_engines() {
    let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo hello > /greeting\nCMD [\"cat\", \"/greeting\"]\n";
    let bench = Bench::new(text);
    let build = "--track vulkan --variant tiny";
    let podman = bench.run(&format!("{build} --load --output oci:dist/vulkan --engine podman"));
    let podman =
        podman.expect(0).prints("engine:localhost/build-pipeline/vulkan-tiny:latest (written");
    let digest = podman.digest();
    let docker = bench.run(&format!("{build} --load --fresh --engine docker")).expect(0);
    let docker = docker.says("run vulkan --image localhost/build-pipeline/vulkan-tiny:latest`");
    assert_eq!(docker.digest(), digest, "docker builds the same image");
    docker.says("starts it").says("tests it");
    bench.run(&format!("{build} --load --engine docker")).expect(0).prints("up to date");

    let name = "localhost/build-pipeline/vulkan-tiny:latest";
    for engine in ["podman", "docker"] {
        assert_eq!(bench.container(engine, name, &[]), "hello\n");
    }

    let verified = bench.run("verify dist/vulkan").expect(0).prints("as planned: ");
    verified.prints("--rebuild").prints("compared with those that this machine made");
    bench
        .run("verify vulkan --rebuild --engine podman,docker")
        .expect(0)
        .prints("+ image rebuilt with podman")
        .prints("+ image rebuilt with docker")
        .prints("proven: a rebuild from scratch gave the same image");
    bench.run("diff vulkan dist/vulkan").expect(0).prints("the images are identical");
}

/// The output of the last build has the layers of the base, so no later run asks the registry for
/// them, unless they are damaged.
#[test]
fn the_layers_of_a_base_are_downloaded_once_for_all_builds() {
    let text = |number: usize| {
        format!("ARG BASE\nFROM ${{BASE}}\nENV PATH=/bin\nRUN echo {number} > /downloaded-once\n")
    };
    let bench = Bench::new(&text(0));
    let registry = FaultProxy::to(shared_registry().host());
    let run =
        |line: &str| ran(bench.command_at(line, &registry.host()).output().unwrap()).expect(0);
    let build = "--track vulkan --variant tiny --engine podman";
    run(build);
    let layout = bench.project.path("dist/vulkan-tiny");
    let image = LayoutImage::read(&layout).unwrap();
    let manifest: Value = serde_json::from_slice(&image.manifest).unwrap();
    let digest = |layer: &Value| layer["digest"].as_str().unwrap().parse::<Digest>().unwrap();
    let layers: Vec<_> = manifest["layers"].as_array().unwrap().iter().map(digest).collect();
    let below = &layers[..layers.len() - 1];
    let requests = || -> usize { below.iter().map(|one| registry.count("GET", one.hex())).sum() };
    let first = requests();
    assert!(first >= below.len(), "{first} requests for layers");
    bench.project.write("dockerfiles/tiny.Dockerfile", &text(1));
    for line in [
        build,
        &format!("{build} --fresh"),
        "verify vulkan-tiny --rebuild --engine podman,docker",
        // Its own output has no layers yet, but that of the first build does.
        &format!("{build} --fresh --output oci-archive:other.tar"),
    ] {
        run(line);
        assert_eq!(requests(), first, "{line}");
    }
    for (number, layer) in (1..).zip(below) {
        let blob = oci::layout::blob_path(&layout, layer);
        let whole = std::fs::read(&blob).unwrap();
        for (number, at) in [(10 * number, 0), (10 * number + 1, whole.len() - 9)] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&blob, damaged).unwrap();
            bench.project.write("dockerfiles/tiny.Dockerfile", &text(number));
            let before = requests();
            let ran = run(build).says("was damaged").says(layer.hex());
            assert_eq!(requests(), before + 1, "only that layer is fetched: {}", ran.stderr);
            assert!(std::fs::read(&blob).unwrap() == whole, "it is repaired");
        }
    }
}

#[test]
fn no_engine_pulls_a_parser_for_the_dockerfile() {
    let text = "# syntax=registry.invalid/parser:1\nARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo a > /a\n";
    let bench = Bench::new(text);
    let buildkit = ("DOCKER_BUILDKIT", "1");
    let built = bench.run_with("--track vulkan --variant tiny --engine docker", buildkit);
    let digest = built.expect(0).digest();
    let podman = bench.run("--track vulkan --variant tiny --engine podman --fresh").expect(0);
    assert_eq!(podman.digest(), digest);
}

/// A change of an image: its config and its manifest.
type Change = fn(&mut Value, &mut Value);

#[test]
fn an_image_that_was_changed_after_its_build_is_found() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV A=b\nRUN echo hello > /greeting\n");
    bench.run("--track vulkan --variant tiny --output oci:dist/vulkan --engine podman").expect(0);
    let original = bench.project.path("dist/vulkan");
    // What another machine finds, which has not built the image.
    let changes: [(&str, Change, &str); 5] = [
        (
            "layers of the base",
            |config, manifest| {
                config["rootfs"]["diff_ids"].as_array_mut().unwrap().swap(0, 1);
                manifest["layers"].as_array_mut().unwrap().swap(0, 1);
            },
            "✗ layers of the base",
        ),
        ("image architecture", |config, _| config["architecture"] = "arm64".into(), "✗ image arch"),
        (
            "variable LD_PRELOAD",
            |config, _| {
                config["config"]["Env"].as_array_mut().unwrap().push("LD_PRELOAD=/x.so".into());
            },
            "as planned: ",
        ),
        ("config User", |config, _| config["config"]["User"] = "app".into(), "as planned: "),
        (
            "manifest layers",
            |config, manifest| {
                for all in [&mut config["rootfs"]["diff_ids"], &mut manifest["layers"]] {
                    let all = all.as_array_mut().unwrap();
                    all.push(all.last().unwrap().clone());
                }
            },
            "as planned: ",
        ),
    ];
    for (field, change, elsewhere) in changes {
        let forged = bench.project.path("forged");
        let copy = Command::new("cp").arg("-r").arg(&original).arg(&forged).status();
        assert!(copy.unwrap().success());
        let image = oci::LayoutImage::read(&forged).unwrap();
        let mut config: Value = serde_json::from_slice(&image.config).unwrap();
        let mut manifest: Value = serde_json::from_slice(&image.manifest).unwrap();
        change(&mut config, &mut manifest);
        forge_at(&forged, |found| *found = config.clone(), |found| *found = manifest.clone());
        let ran = bench.run("verify oci:forged").expect(13).prints("differs: ");
        if elsewhere.starts_with("as planned") {
            ran.prints(&format!("✗ {field}"));
        }
        let code = if elsewhere.starts_with("as planned") { 0 } else { 13 };
        let cache = bench.project.path("other-cache");
        let other = ("XDG_CACHE_HOME", cache.to_str().unwrap());
        bench.run_with("verify oci:forged", other).expect(code).prints(elsewhere);
        std::fs::remove_dir_all(&forged).unwrap();
    }
}

/// The registry has the layers of the base already, so only the new layer is sent, and only once.
#[test]
fn a_push_sends_only_the_layers_that_were_built() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /1\n");
    let target = format!("{}/built/pushed-{}", shared_registry().host(), std::process::id());
    let moved = |tag: &str| {
        let output = format!("{target}:{tag}");
        let push = format!("--track vulkan --variant tiny --engine podman --push {output}");
        bench.run(&push).expect(0);
        let records = bench.project.records();
        let outputs = records.iter().flat_map(|record| record["outputs"].as_array().unwrap());
        let mut pushed = outputs.filter(|one| one["output"].as_str().unwrap().ends_with(&output));
        let pushed = pushed.next_back().unwrap();
        ["layers_copied", "layers_mounted"].map(|key| pushed[key].as_u64().unwrap())
    };
    let [copied, mounted] = moved("1");
    assert_eq!(copied, 1);
    assert!(mounted > 0);
    assert_eq!(moved("2")[0], 0);
}

/// If a later RUN changes a file, hard links to it from an earlier RUN do not change.
#[test]
fn hard_links_over_several_runs_are_the_same_in_a_build_from_nothing() {
    let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /a && ln /a /b && ln /a /c\n\
                RUN echo 2 >> /a\nRUN chmod 600 /b\nRUN ln /c /d && rm /c\n";
    let bench = Bench::new(text);
    let build = "--track vulkan --variant tiny";
    let digest = bench.run(&format!("{build} --engine podman")).expect(0).digest();
    for more in ["--engine podman --fresh", "--engine docker --fresh"] {
        assert_eq!(bench.run(&format!("{build} {more}")).expect(0).digest(), digest, "{more}");
    }
    let rebuilt = bench.run("verify dist/vulkan-tiny --rebuild --engine podman,docker").expect(0);
    rebuilt.prints("proven: a rebuild from scratch gave the same image");
}

/// An image's history is optional, and some tools write none; podman alone cannot build on such an
/// image.
#[test]
fn a_base_without_a_history_is_built_on() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /1\n");
    let base =
        RandomImage { below: vec![busybox_root()], has_history: false, ..RandomImage::new(78) };
    let base = base.push(shared_registry().host(), "built/tiny", "no-history").digest;
    let build = format!("--track vulkan --variant tiny --set tiny={base}");
    let digest = bench.run(&format!("{build} --engine podman --load")).expect(0).digest();
    let docker = bench.run(&format!("{build} --engine docker --fresh --output oci:out")).expect(0);
    assert_eq!(docker.digest(), digest);
    bench.run("verify out").expect(0);
}

#[test]
fn docker_builds_with_the_builder_that_its_own_variable_names() {
    let text = "ARG BASE\nFROM ${BASE} AS build\nENV PATH=/bin\nARG COMPILER_LAUNCHER=ccache\n\
                RUN --mount=type=cache,target=/kept echo \"by ${COMPILER_LAUNCHER}.\"; echo 1 > /1\n\
                FROM ${BASE}\nCOPY --from=build /1 /1\n";
    let build = "--track vulkan --variant tiny --engine docker";
    let digest = Bench::new(text).run(build).expect(0).says("by ccache.").digest();
    // The classic builder has no cache mounts, so it keeps nothing.
    let classic = Bench::new(text).run_with(build, ("DOCKER_BUILDKIT", "0")).expect(0).says("by .");
    assert_eq!(classic.digest(), digest);
}

#[test]
fn a_step_that_took_long_last_time_says_how_long() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /1\n");
    let build = "--track vulkan --variant tiny --engine podman --fresh";
    let first = bench.run(build).expect(0);
    assert!(!first.stderr.contains("last time"), "{}", first.stderr);
    let folder = bench.project.path("home/.local/state/build-pipeline/records");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for step in record["steps"].as_array_mut().unwrap() {
        if step["step"] == "build-tiny" {
            step["milliseconds"] = 20_000.into();
        }
    }
    std::fs::write(&path, record.to_string()).unwrap();
    let line = "· build-tiny: build dockerfiles/tiny.Dockerfile; took 20 s last time";
    bench.run(build).expect(0).says(line);
}

#[test]
fn a_step_that_two_tracks_need_fails_once() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo why && exit 9\n");
    let tracks = bench.project.read("versions/tracks.toml");
    let tiny = "[source.variants.tiny]\nbase = \"tiny\"\n[[source.variants.tiny.stage]]\n\
                name = \"tiny\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\n[source.env]";
    bench.project.write("versions/tracks.toml", &tracks.replace("[source.env]", tiny));
    let ran = bench.run("--track vulkan,source --variant tiny --engine podman").expect(1);
    assert_eq!(ran.stderr.matches("ended with status 9").count(), 1, "{}", ran.stderr);
    ran.says("error: source-tiny: a step that it shares with `vulkan-tiny` failed");
}

#[test]
fn a_track_that_has_ended_has_its_record_while_another_goes_on() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN sleep 3000\n");
    bench.project.set_variant("vulkan", "tiny");
    let mirror = format!("docker.io/ollama/ollama={}/built/tiny", shared_registry().host());
    let line = format!(
        "--track vulkan,ollama --engine podman --set ollama={} --mirror {mirror}",
        bench.base
    );
    let mut child = bench.command(&line).stderr(Stdio::null()).spawn().unwrap();
    let states = || {
        let records = bench.project.records();
        let state = |record: &Value| format!("{} {}", record["plan"]["track"], record["status"]);
        records.iter().map(state).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(600);
    while !states().contains(&"\"ollama\" \"succeeded\"".to_owned()) {
        assert!(Instant::now() < deadline, "no record: {:?}", states());
        assert_eq!(child.try_wait().unwrap(), None, "the other track continues");
    }
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let all = states();
    assert!(all.contains(&"\"vulkan\" \"interrupted\"".to_owned()) && all.len() == 2, "{all:?}");
}

#[test]
fn a_run_that_fails_leaves_an_image_to_look_around_in_where_that_is_asked_for() {
    let text = "ARG BASE\nFROM ${BASE} AS one\nENV PATH=/bin\nRUN echo before > /before\n\
                RUN cat /before && exit 9\nFROM ${BASE}\nCOPY --from=one /before /\n";
    let bench = Bench::new(text);
    let build = "--track vulkan --variant tiny --engine";
    for engine in ["podman", "docker"] {
        let name = "localhost/build-pipeline/failed:build-tiny";
        let ran = bench.run(&format!("{build} {engine}"));
        ran.expect(1).says("(line 5 of the Dockerfile)").says("--keep-failed");
        let ran = bench.run(&format!("{build} {engine} --keep-failed"));
        let command = format!("`{engine} run --rm -it --network none {name} sh`");
        let ran = ran.expect(1).says(&command);
        assert!(!ran.stderr.contains("--keep-failed"), "{}", ran.stderr);
        bench.run(&format!("{build} {engine} --keep-failed -q")).expect(1).says(&command);
        assert_eq!(bench.container(engine, name, &["cat", "/before"]), "before\n");
    }
}

/// Returns a Dockerfile whose image contains a code object: an ELF header with the number of a GPU.
fn with_code_for(number: u8) -> String {
    let head = r"\177ELF\002\001\001\100\003\0\0\0\0\0\0\0\003\0\340\0\001\0\0\0";
    let zeros = r"\0".repeat(24);
    let flags = format!(r"\{number:03o}\0\0\0");
    let rest = r"\0".repeat(12);
    format!(
        "ARG BASE\nFROM ${{BASE}}\nENV PATH=/bin\n\
         RUN mkdir /kernels && printf '{head}{zeros}{flags}{rest}' > /kernels/a.co\n"
    )
}

#[test]
fn an_image_that_must_have_gpu_code_is_written_only_if_it_has() {
    let (gfx1100, gfx1151) = (0x41, 0x4a);
    let bench = Bench::new(&with_code_for(gfx1100));
    let claim = "base = \"tiny\"\ngpu-code = true\n";
    bench.project.edit("versions/tracks.toml", "base = \"tiny\"\n", claim);
    let build = "--track vulkan --variant tiny --engine podman";
    bench
        .run(build)
        .expect(1)
        .says("the image contains no code for gfx1151, only for gfx1100")
        .says("GPU_TARGET");
    assert!(!bench.project.path("dist/vulkan-tiny").exists());

    bench.project.write("dockerfiles/tiny.Dockerfile", &with_code_for(gfx1151));
    bench.run(build).expect(0);
    let record = bench.project.records().pop().unwrap();
    let notes = record["notes"].to_string();
    assert!(notes.contains("1 of 1 parts with GPU code have code for gfx1151"), "{notes}");
    let digest = bench.run(build).expect(0).digest();
    let audited = bench.run("audit dist/vulkan-tiny").expect(0).prints("native");
    assert!(audited.stdout.contains("kernels/"), "{}", audited.stdout);
    bench
        .run("verify dist/vulkan-tiny --format json")
        .expect(0)
        .prints("io.github.build-pipeline.gpu-targets");
    bench.run("verify dist/vulkan-tiny --rebuild --engine podman,docker").expect(0);
    let fresh = bench.run(&format!("{build} --fresh")).expect(0);
    assert_eq!(fresh.digest(), digest);
    bench.run("plan --track vulkan --variant tiny").prints("must contain code for gfx1151");
}

#[test]
fn what_a_build_does_otherwise_each_time_is_found_by_file_and_kind() {
    let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\n\
                RUN cat /proc/sys/kernel/random/uuid > /stamp && mkdir -p /var/log \
                && cat /proc/sys/kernel/random/uuid > /var/log/install && touch /same\n";
    let bench = Bench::new(text);
    bench.run("--track vulkan --variant tiny --engine podman").expect(0);
    bench
        .run("verify dist/vulkan-tiny --rebuild --engine podman")
        .expect(13)
        .prints("content 1, log 1")
        .prints("content  stamp")
        .prints("log  var/log/install")
        .prints("differs: ")
        .says("the likely cause is a RUN whose result is not reproducible, in layer 4")
        .says("(`dockerfiles/tiny.Dockerfile`)")
        .says("`build-pipeline diff dist/vulkan-tiny again`");
    let json =
        bench.run("verify dist/vulkan-tiny --rebuild --engine podman --format json").expect(13);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let files = &json["rebuilds"][0]["layers"][0]["files"];
    assert_eq!(files.as_array().unwrap().len(), 2, "{files}");
    bench.run("--track vulkan --variant tiny --fresh --engine podman --output oci:other").expect(0);
    bench
        .run("diff dist/vulkan-tiny other")
        .expect(13)
        .prints("- f 0644 0:0 37")
        .prints("content  stamp");
    bench.run("diff other nothing-there").expect(2).says("is not a track, file");
}

#[test]
fn other_tools_read_what_the_readme_says_and_no_thin_layout() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\n");
    let tracks = bench.project.read("versions/tracks.toml");
    let mine = "\n[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"tiny\"\n";
    bench.project.write("versions/tracks.toml", &format!("{tracks}{mine}"));
    let docker = format!("--host unix://{}", dockerd().socket().display());
    let tool = |line: &str| {
        let path = format!("{}:/usr/bin:/bin", bench.project.path("bin").display());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(bench.project.path("")).env("PATH", path);
        ran(command.output().unwrap())
    };
    let thin = bench.run("--track mine --output oci:thin").expect(0);
    thin.prints("left in the base's registry");
    tool("podman pull oci:thin").expect(125);
    tool("skopeo copy oci:thin dir:copy").expect(1);
    let full =
        bench.run("--track mine --with-layers --output oci:full --output oci-archive:mine.tar");
    let digest = full.expect(0).digest();
    tool("podman pull oci:full").expect(0);
    tool("podman load -i mine.tar").expect(0);
    tool(&format!("docker {docker} load -i mine.tar"))
        .expect(0)
        .prints("build-pipeline/mine:latest");
    for source in ["oci:full", "oci-archive:mine.tar"] {
        tool(&format!("skopeo copy --preserve-digests {source} dir:copy")).expect(0);
        let shown = tool("skopeo inspect dir:copy").expect(0).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["Digest"], digest.as_str(), "{source}");
    }
}
