//! The same files give the same plan and image, whatever git knows about them. This is a matrix of
//! checkouts, tracks, other tracks in the same command, and ways to build. `verify` agrees in every
//! cell.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{PodmanStore, RandomImage, busybox_root, shared_registry};

use crate::dsl::{Project, Ran, ran};

const TRACKS: [&str; 7] =
    ["official", "source", "nightly-spoof", "locked-spoof", "vulkan", "ollama", "trainer"];

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

/// The repository that all checkouts come from, and what builds need.
struct Matrix {
    origin: Project,
    podman: PodmanStore,
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
        let pins = origin.read("versions/versions.toml");
        let pin = format!(
            "{pins}\n[image.tiny]\nrepository = \"docker.io/built/tiny\"\ntag = \"1\"\ndigest = \"{}\"\n\
             checked = 2026-11-21\nevidence = \"a test\"\n",
            tiny.digest
        );
        origin.write("versions/versions.toml", &pin);
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
        Self { origin, podman: PodmanStore::new(), path }
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
        for file in ["versions/versions.toml", "versions/tracks.toml", "versions/gpus.toml"] {
            dirty.folder.write(file, &format!("{}\n# a comment\n", dirty.folder.read(file)));
        }

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
        let mut command = checkout.command(&line.split_whitespace().collect::<Vec<_>>());
        command
            .args(["--mirror", &mirror])
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
            let is_built = name.contains("source") || name.contains("vulkan");
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

/// Sets the digest of an image pin. Its kind is then unknown.
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

/// Gives both engine-built tracks a variant and a rehearsal that build in seconds.
fn small_variants(project: &Project) {
    for (track, variant) in [("vulkan", "debian"), ("source", "fedora")] {
        let mut stages = String::new();
        for name in ["small", "rehearsed"] {
            let stage = format!(
                "[{track}.variants.{name}]\nbase = \"tiny\"\n[[{track}.variants.{name}.stage]]\n\
                 name = \"{track}-{name}\"\ndockerfile = \"dockerfiles/{track}-{name}.Dockerfile\"\n\n"
            );
            stages.push_str(&stage);
            let text = format!(
                "ARG BASE\nFROM ${{BASE}}\nENV PATH=/bin\nRUN echo {track} {name} > /made\n"
            );
            project.write(&format!("dockerfiles/{track}-{name}.Dockerfile"), &text);
        }
        let at = format!("[{track}.variants.{variant}]\n");
        project.edit("versions/tracks.toml", &at, &format!("{stages}{at}"));
        project.set_variant(track, "small");
    }
    project.edit(
        "versions/tracks.toml",
        "rehearsal = \"rehearsal\"\n",
        "rehearsal = \"rehearsed\"\n",
    );
    project.edit("versions/tracks.toml", "[vulkan]\n", "[vulkan]\nrehearsal = \"rehearsed\"\n");
}

#[test]
fn the_same_files_give_the_same_image_whatever_git_knows_and_verify_agrees() {
    let matrix = Matrix::new(900);
    matrix.origin.write_podman(&matrix.podman);
    let checkouts = matrix.checkouts();
    let full = &checkouts[0].folder;
    // Every cell must give the same result as the track alone in a full clone.
    let mut wanted: BTreeMap<Mode, BTreeMap<String, Built>> = BTreeMap::new();
    for mode in [Mode::Rehearsed, Mode::Real, Mode::Pushed] {
        for track in TRACKS {
            let built = matrix.build(full, &[track], mode);
            assert_eq!(built.len(), 1);
            wanted.entry(mode).or_default().extend(built);
        }
    }
    assert_eq!(wanted[&Mode::Real], wanted[&Mode::Pushed], "the output does not change the image");
    std::thread::scope(|scope| {
        for checkout in &checkouts {
            let (matrix, wanted) = (&matrix, &wanted);
            scope.spawn(move || cells(matrix, checkout, wanted));
        }
    });
}

/// All tracks alone and in pairs, in every mode.
fn cells(matrix: &Matrix, checkout: &Checkout, wanted: &BTreeMap<Mode, BTreeMap<String, Built>>) {
    for (mode, wanted) in wanted {
        let mut commands: Vec<Vec<&str>> = TRACKS.iter().map(|track| vec![*track]).collect();
        for (number, one) in TRACKS.iter().enumerate() {
            commands.extend(TRACKS[number + 1..].iter().map(|other| vec![*one, *other]));
        }
        commands.push(TRACKS.to_vec());
        for tracks in commands {
            let built = matrix.build(&checkout.folder, &tracks, *mode);
            assert_eq!(built.len(), tracks.len());
            for (name, built) in &built {
                let place = format!("{} {tracks:?} {mode:?} {name}", checkout.name);
                assert_eq!(Some(built), wanted.get(name), "{place}");
            }
            matrix.verify(&checkout.folder, &built, *mode);
        }
    }
}
