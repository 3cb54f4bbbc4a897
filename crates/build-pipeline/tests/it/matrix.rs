//! The same files give the same plan and image, whatever git knows about them. This is a matrix of
//! checkouts, tracks, other tracks in the same command, and ways to build. `verify` agrees in every
//! cell.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{
    GitFolder, GitHttp, PodmanStore, RandomImage, busybox_root, gate_cases, gate_passed,
    shared_registry,
};

use crate::dsl::{Project, Ran, ran};

/// The promise that the same inputs give the same plan and image.
const GATE: u8 = 14;

/// The tracks of the project.
pub(crate) const TRACKS: [&str; 8] = [
    "official",
    "source",
    "nightly-spoof",
    "locked-spoof",
    "vulkan",
    "ollama",
    "trainer",
    "llama-rocm",
];

/// The tracks that an engine builds, each with one of its variants.
const BUILT: [(&str, &str); 3] =
    [("source", "fedora"), ("vulkan", "debian"), ("llama-rocm", "debian")];

/// The patch in the images that an engine builds.
const PATCH: &str = "patches/llama.cpp/llama.cpp-rdna3-macro.toml";

/// The server of their source.
const UPSTREAM: &str = "https://git.example.org";

/// The base pins of the metadata-only tracks, with a tag on the test registry.
const BASES: [(&str, &str, &str); 5] = [
    ("vllm-openai-rocm", "vllm/vllm-openai-rocm", "v0.19.0"),
    ("vllm-dev-nightly", "rocm/vllm-dev", "nightly"),
    ("vllm-dev-locked", "rocm/vllm-dev", "locked"),
    ("ollama", "ollama/ollama", "rocm"),
    ("rocm-pytorch", "rocm/pytorch", "pinned"),
];

/// How images are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Rehearsed,
    Real,
    Pushed,
}

const MODES: [Mode; 3] = [Mode::Rehearsed, Mode::Real, Mode::Pushed];

/// The repository that all checkouts come from, and everything that builds need.
struct Matrix {
    origin: Project,
    podman: PodmanStore,
    server: GitHttp,
    /// The repositories that the server has.
    _sources: GitFolder,
    /// The location of the bases on the test registry.
    path: String,
}

/// A checkout in one of the states.
struct Checkout {
    name: &'static str,
    folder: Project,
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .output();
    ran(output.unwrap()).expect(0).stdout.trim().to_owned()
}

impl Matrix {
    /// Creates a repository with history, in which every track builds within seconds.
    fn new(seed: u64) -> Self {
        let origin = Project::new();
        let path = format!("matrix-{seed}-{}", std::process::id());
        let registry = shared_registry().host();
        for (number, (pin, repository, tag)) in BASES.iter().enumerate() {
            let image = RandomImage::new(seed + number as u64);
            let image = image.push(registry, &format!("{path}/{repository}"), tag);
            pin_to(&origin, pin, &image.digest.to_string());
        }
        let tiny = RandomImage { below: vec![busybox_root()], ..RandomImage::new(seed + 9) };
        let tiny = tiny.push(registry, &format!("{path}/built/tiny"), "1");
        let sources = GitFolder::new();
        let commit = small_source(&sources);
        let pins = origin.read("versions/versions.toml");
        let pins = format!(
            "{pins}\n[image.tiny]\nrepository = \"docker.io/built/tiny\"\ntag = \"1\"\ndigest = \"{}\"\n\
             checked = 2026-11-21\nevidence = \"a test\"\n\n\
             [source.tiny-llama]\nurl = \"{UPSTREAM}/llama\"\ncommit = \"{commit}\"\n\
             patches = \"llama.cpp\"\nchecked = 2026-11-21\nevidence = \"a test\"\n",
            tiny.digest
        );
        origin.write("versions/versions.toml", &pins);
        small_variants(&origin);
        let root = origin.path("");
        git(&root, &["init", "-q"]);
        // Some history: the tracks' files come from several commits.
        for part in ["versions", "dockerfiles", "patches"] {
            git(&root, &["add", part]);
            git(&root, &["commit", "-qm", part]);
        }
        origin.write("README.md", "not part of any image\n");
        git(&root, &["add", "README.md"]);
        git(&root, &["commit", "-qm", "readme"]);
        let server = GitHttp::start(sources.path());
        Self { origin, podman: PodmanStore::new(), server, _sources: sources, path }
    }

    fn checkouts(&self) -> Vec<Checkout> {
        let origin = self.origin.path("");
        let url = format!("file://{}", origin.display());
        let clone = |name: &'static str, depth: Option<&str>| {
            let folder = Project::empty();
            let depth: Vec<&str> =
                depth.map(|depth| ["--depth", depth]).into_iter().flatten().collect();
            let target = folder.path("clone").display().to_string();
            git(&origin, &[&["clone", "-q"], depth.as_slice(), &[&url, &target]].concat());
            folder.adopt("clone");
            Checkout { name, folder }
        };
        let full = clone("full", None);
        let shallow = clone("shallow", Some("1"));
        let no_git = clone("no .git", None);
        std::fs::remove_dir_all(no_git.folder.path(".git")).unwrap();

        // Comments in every file that the plans use, except those that are read literally.
        let dirty = clone("dirty recipe", None);
        for file in ["versions.toml", "tracks.toml", "gpus.toml", "compat.toml"] {
            comment(&dirty.folder, &format!("versions/{file}"));
        }
        comment(&dirty.folder, PATCH);

        let unrelated = clone("dirty elsewhere", None);
        unrelated.folder.write("README.md", "changed\n");
        unrelated.folder.edit("patches/ollama/ollama-presets.toml", "id = ", "# changed\nid = ");
        unrelated.folder.edit(
            "dockerfiles/vulkan/fedora.Dockerfile",
            "ARG BASE",
            "# changed\nARG BASE",
        );

        let newer = clone("newer commit", None);
        newer.folder.write("docs/new.md", "new\n");
        newer.folder.write("patches/aiter/README.md", "new\n");
        let root = newer.folder.path("");
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-qm", "elsewhere"]);
        vec![full, shallow, no_git, dirty, unrelated, newer]
    }

    fn run(&self, checkout: &Project, line: &str) -> Ran {
        let path = std::env::var("PATH").unwrap();
        let mirror = format!("docker.io={}/{}", shared_registry().host(), self.path);
        let sources = format!("{UPSTREAM}=http://{}", self.server.host());
        let mut command = checkout.command(&line.split_whitespace().collect::<Vec<_>>());
        command
            .args(["--mirror", &mirror, "--mirror", &sources])
            // All builds share one store of finished steps.
            .env("HOME", self.origin.path("home"))
            .env("PATH", format!("{}:{path}", self.origin.path("bin").display()));
        ran(command.output().unwrap())
    }

    /// Builds tracks in one command. Returns the plan digest and manifest digest by image name.
    fn build(&self, checkout: &Project, tracks: &[&str], mode: Mode) -> BTreeMap<String, Built> {
        let how = match mode {
            Mode::Rehearsed => "--rehearse --engine podman".to_owned(),
            Mode::Real => "--engine podman".to_owned(),
            Mode::Pushed => format!("--engine podman --push {}", self.pushed_to()),
        };
        let line = format!("--track {} {how} --format json", tracks.join(","));
        let ran = self.run(checkout, &line).expect(0);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let builds = document["builds"].as_array().unwrap().iter();
        builds
            .map(|build| {
                let built = Built {
                    plan: text(&build["plan_digest"]),
                    manifest: text(&build["manifest_digest"]),
                };
                (text(&build["name"]), built)
            })
            .collect()
    }

    fn pushed_to(&self) -> String {
        format!("{}/{}/pushed", shared_registry().host(), self.path)
    }

    /// Verifies every image of a build.
    fn verify(&self, checkout: &Project, built: &BTreeMap<String, Built>, mode: Mode) {
        for (name, built) in built {
            let target = match mode {
                Mode::Pushed => format!("{}@{}", self.pushed_to(), built.manifest),
                Mode::Rehearsed | Mode::Real => name.clone(),
            };
            let ran = self.run(checkout, &format!("verify {target}")).expect(0);
            let is_built = BUILT.iter().any(|(track, _)| name.contains(track));
            ran.prints(if is_built { "as planned: " } else { "proven: " });
        }
    }
}

/// The result of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Built {
    plan: String,
    manifest: String,
}

/// Sets the digest of an image pin, unless its tag is followed. Removes the kind, which may differ.
fn pin_to(project: &Project, pin: &str, digest: &str) {
    let text = project.read("versions/versions.toml");
    let start = text.find(&format!("[image.{pin}]\n")).unwrap();
    let end = text[start + 1..].find("\n[").map_or(text.len(), |at| start + 1 + at);
    let lines = text[start..end].lines().filter(|line| !line.starts_with("kind ="));
    let is_followed = text[start..end].contains("follow = true");
    let table: String = lines
        .map(|line| {
            if line.starts_with("digest =") && !is_followed {
                format!("digest = \"{digest}\"\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let whole = format!("{}{}{}", &text[..start], table.trim_end(), &text[end..]);
    project.write("versions/versions.toml", &whole);
}

/// Puts a comment at the start and at the end of a file.
fn comment(project: &Project, file: &str) {
    project.write(file, &format!("# a comment\n{}# another\n", project.read(file)));
}

/// Creates a repository that the patch applies to, with code for two GPUs. Returns its commit.
fn small_source(sources: &GitFolder) -> String {
    sources.init("llama");
    let text = "#if defined(__gfx1100__)\n#define RDNA3\n#endif\n";
    sources.write("llama", "ggml-cuda.cu", text);
    for gpu in ["gfx1100", "gfx1151"] {
        let code = gpu_code::sample_object(&gpu.parse().unwrap()).unwrap();
        sources.write("llama", &format!("kernels/{gpu}.co"), code);
    }
    sources.commit("llama")
}

/// Gives each track that an engine builds a variant and a rehearsal that build in seconds, from a
/// patched source.
fn small_variants(project: &Project) {
    for (track, variant) in BUILT {
        // Like the track's other variants.
        let more =
            if track == "llama-rocm" { "gpu-code = true\nslim = [\"gfx1151\"]\n" } else { "" };
        let mut stages = String::new();
        for name in ["small", "rehearsed"] {
            let stage = format!(
                "[{track}.variants.{name}]\nbase = \"tiny\"\n{more}\
                 [[{track}.variants.{name}.stage]]\nname = \"{track}-{name}\"\n\
                 dockerfile = \"dockerfiles/{track}-{name}.Dockerfile\"\n\
                 sources = {{ \"llama.cpp\" = \"tiny-llama\" }}\n\n"
            );
            stages.push_str(&stage);
            let text = format!(
                "ARG BASE\nFROM ${{BASE}}\nENV PATH=/bin\nCOPY llama.cpp /llama.cpp\n\
                 RUN grep __gfx1151__ /llama.cpp/ggml-cuda.cu && echo {track} {name} > /made\n"
            );
            project.write(&format!("dockerfiles/{track}-{name}.Dockerfile"), &text);
        }
        let at = format!("[{track}.variants.{variant}]\n");
        project.edit("versions/tracks.toml", &at, &format!("{stages}{at}"));
        project.set_variant(track, "small");
    }
    let tracks = "versions/tracks.toml";
    project.edit(tracks, "rehearsal = \"rehearsal\"\n", "rehearsal = \"rehearsed\"\n");
    for track in ["vulkan", "llama-rocm"] {
        let table = format!("[{track}]\n");
        project.edit(tracks, &table, &format!("{table}rehearsal = \"rehearsed\"\n"));
    }
}

/// The tracks of each command: all tracks, each pair of tracks, and each track alone. An ordinary
/// test run covers only the first; `cargo xtask gates` covers all.
fn commands() -> Vec<Vec<&'static str>> {
    let mut all = vec![TRACKS.to_vec()];
    for (number, one) in TRACKS.iter().enumerate() {
        all.extend(TRACKS[number + 1..].iter().map(|other| vec![*one, *other]));
    }
    all.extend(TRACKS.map(|track| vec![track]));
    let wanted = gate_cases(1, all.len());
    all.truncate(wanted);
    all
}

#[test]
fn the_same_files_give_the_same_image_whatever_git_knows_and_verify_agrees() {
    let matrix = Matrix::new(900);
    matrix.origin.write_podman(&matrix.podman);
    let checkouts = matrix.checkouts();
    let full = &checkouts[0];
    // Every cell must give the same result as the track alone in a full clone.
    let mut wanted: BTreeMap<Mode, BTreeMap<String, Built>> = BTreeMap::new();
    for mode in MODES {
        for track in TRACKS {
            let built = matrix.build(&full.folder, &[track], mode);
            assert_eq!(built.len(), 1);
            matrix.verify(&full.folder, &built, mode);
            wanted.entry(mode).or_default().extend(built);
        }
    }
    assert_eq!(wanted[&Mode::Real], wanted[&Mode::Pushed], "the output does not change the image");
    let commands = commands();
    std::thread::scope(|scope| {
        let (matrix, wanted, commands) = (&matrix, &wanted, &commands);
        for checkout in &checkouts {
            scope.spawn(move || cells(matrix, checkout, commands, wanted));
        }
    });
    gate_passed(GATE, MODES.len() * checkouts.len() * commands.len());
}

/// Builds and verifies the tracks of each command in every mode, and compares the results with
/// `wanted`.
fn cells(
    matrix: &Matrix,
    checkout: &Checkout,
    commands: &[Vec<&str>],
    wanted: &BTreeMap<Mode, BTreeMap<String, Built>>,
) {
    for (mode, wanted) in wanted {
        for tracks in commands {
            let built = matrix.build(&checkout.folder, tracks, *mode);
            assert_eq!(built.len(), tracks.len());
            for (name, built) in &built {
                let place = format!("{} {tracks:?} {mode:?} {name}", checkout.name);
                assert_eq!(Some(built), wanted.get(name), "{place}");
            }
            // `verify` gets a pushed image by its digest, so the command is the same as after a
            // build of the track alone, and is not repeated.
            if *mode != Mode::Pushed || tracks.len() == 1 {
                matrix.verify(&checkout.folder, &built, *mode);
            }
        }
    }
}
