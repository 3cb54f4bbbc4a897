//! Bundles and copies: everything that tracks need in one file, a folder or a registry, and builds
//! from it in a network namespace without a route.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use testkit::{
    DebianRegistry, GitFolder, GitHttp, PodmanStore, RandomImage, busybox_root, shared_registry,
};

use crate::dsl::{Base, Project, Ran, is_killed, ran, same, until_hit};

/// The tracks that only add metadata: each with the pin of its base.
const METADATA: [(&str, &str); 5] = [
    ("official", "vllm-openai-rocm"),
    ("nightly-spoof", ""),
    ("locked-spoof", "vllm-dev-locked"),
    ("ollama", "ollama"),
    ("trainer", "rocm-pytorch"),
];

/// Returns a command that runs on a machine that has never been online: in a network namespace with
/// only a loopback interface, with its own home.
pub(crate) fn offline(project: &Project, home: &str, line: &str) -> Command {
    std::fs::create_dir_all(project.path(home)).unwrap();
    let script = "ip link set lo up && test -z \"$(ip route)\" && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", script, env!("CARGO_BIN_EXE_build-pipeline")]);
    command.args(line.split_whitespace()).current_dir(project.path("")).env_clear();
    let path = std::env::var("PATH").unwrap();
    command
        .env("HOME", project.path(home))
        .env("PATH", format!("{}:{path}", project.path("bin").display()))
        .env("CONTAINERS_REGISTRIES_CONF", project.path("registries.conf"));
    command
}

/// A project, and images on a registry for all tracks that only add metadata.
fn project_with_bases(seed: u64) -> (Project, String) {
    let (project, host) = (Project::new(), shared_registry().host());
    let prefix = format!("bundle-{seed}-{}", std::process::id());
    let pins = project.read("versions/versions.toml");
    let pins = pins::parse_versions("versions/versions.toml", &pins).unwrap();
    let mut sets = Vec::new();
    for (at, (track, pin)) in METADATA.iter().enumerate() {
        let image =
            RandomImage { layers: vec![300_000, 40_000], ..RandomImage::new(seed + at as u64) };
        // The track without a pinned digest follows a tag.
        let Some((name, pin)) = pins.images.iter().find(|(name, _)| name.as_str() == *pin) else {
            assert_eq!(*track, "nightly-spoof");
            image.push(host, &format!("{prefix}/rocm/vllm-dev"), "nightly");
            continue;
        };
        let pushed = image.push(host, &format!("{prefix}/{}", pin.repository.path()), "pinned");
        sets.push(format!(" {track} --set {name}={}", pushed.digest));
    }
    (project, format!("--mirror docker.io={host}/{prefix}|{}", sets.concat()))
}

#[test]
fn every_track_of_metadata_and_its_rehearsal_builds_from_a_bundle() {
    let (project, all) = project_with_bases(9100);
    let (mirror, sets) = all.split_once('|').unwrap();
    let sets: BTreeMap<&str, String> = sets
        .split_whitespace()
        .collect::<Vec<_>>()
        .chunks(3)
        .map(|words| (words[0], words[1..].join(" ")))
        .collect();
    for (track, _) in METADATA {
        let set = sets.get(track).cloned().unwrap_or_default();
        let file = format!("{track}.tar");
        let bundle = format!("bundle {track} {set} {mirror} -o {file}");
        project.run(&bundle).expect(0).prints("  bundle    sha256:").prints(": 1 plan, ");
        for (more, output) in [("", "oci:dist/thin"), ("--with-layers", "oci:dist/full")] {
            let build = format!("build {track} {set} {more} --output {output}-{track}");
            let there = project.run(&format!("{build} {mirror}")).expect(0).digest();
            let line = format!("{build}-2 --bundle {file}");
            let here = ran(offline(&project, "away", &line).output().unwrap()).expect(0);
            assert_eq!(here.digest(), there, "{track} {more}");
        }
        let verify = format!("verify dist/full-{track}-2 --bundle {file}");
        ran(offline(&project, "away", &verify).output().unwrap()).expect(0);

        let file = format!("{track}-rehearsal.tar");
        project.run(&format!("bundle {track} --rehearse -o {file}")).expect(0);
        let there = project.run(&format!("build {track} --rehearse")).expect(0).digest();
        let build = format!("build {track} --rehearse --bundle {file} --output oci:dist/r-{track}");
        let here = ran(offline(&project, "away", &build).output().unwrap()).expect(0);
        assert_eq!(here.digest(), there, "{track}, rehearsed");
    }
}

/// A project with a track that needs an image, Debian packages, a wheel, a commit with a submodule,
/// and an archive.
struct Site {
    project: Project,
    upstream: DebianRegistry,
    git: GitFolder,
    server: GitHttp,
    _podman: PodmanStore,
}

const GIT: &str = "https://git.example.org";
const BUILD: &str = "build vulkan --variant tiny --engine podman --fresh";

impl Site {
    fn new() -> Self {
        let upstream = DebianRegistry::start();
        let base = RandomImage { below: vec![busybox_root()], ..RandomImage::new(9200) };
        let base = base.push(upstream.host(), "bundled/tiny", "1");
        let git = GitFolder::new();
        git.init("below");
        git.write("below", "b.txt", "below\n");
        git.commit("below");
        git.init("demo");
        git.write("demo", "a.txt", "one\n");
        let below = format!("{}", git.path().join("below").display());
        git.run("demo", &["submodule", "--quiet", "add", &below, "below"]);
        let modules = "[submodule \"below\"]\n\tpath = below\n\turl = ../below\n";
        git.write("demo", ".gitmodules", modules);
        let commit = git.commit("demo");
        let server = GitHttp::start(git.path());
        let (project, podman) = (Project::new(), PodmanStore::new());
        let versions = project.read("versions/versions.toml");
        let pins = format!(
            "\n[image.tiny]\nrepository = \"registry.example.org/bundled/tiny\"\ntag = \"1\"\ndigest = \"{}\"\n\n\
             [source.demo]\nurl = \"{GIT}/demo\"\nversion = \"1\"\ncommit = \"{commit}\"\n\n\
             [archive.six-sdist]\nproject = \"six\"\nversion = \"1.17.0\"\nsha256 = \"unresolved\"\n",
            base.digest
        );
        project.write("versions/versions.toml", &format!("{versions}{pins}"));
        let stage = "[vulkan.variants.tiny]\nbase = \"tiny\"\n[[vulkan.variants.tiny.stage]]\n\
                     name = \"tiny\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\
                     sources = { \"demo\" = \"demo\", \"six\" = \"six-sdist\" }\n\
                     python = \"demo\"\n\n[vulkan.variants.debian]\n";
        project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
        project.write(
            "versions/python.toml",
            "schema = 1\n[demo]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"six==1.17.0\"]\n",
        );
        let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nCOPY demo /demo\nCOPY six/six.py /six.py\n\
                    COPY python /python\nRUN cat /demo/a.txt /demo/below/b.txt && ls /python/wheels\n";
        project.write("dockerfiles/tiny.Dockerfile", text);
        project.write_podman(&podman);
        project.run("bump six-sdist 1.17.0").expect(0);
        project.run("lock demo").expect(0);
        Self { project, upstream, git, server, _podman: podman }
    }

    fn run(&self, line: &str) -> Ran {
        let path = std::env::var("PATH").unwrap();
        let registry = format!("registry.example.org={}", self.upstream.host());
        let git = format!("{GIT}=http://{}", self.server.host());
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        command
            .args(["--mirror", &registry, "--mirror", &git])
            .env("PATH", format!("{}:{path}", self.project.path("bin").display()));
        ran(command.output().unwrap())
    }

    fn offline(&self, home: &str, line: &str) -> Ran {
        ran(offline(&self.project, home, line).output().unwrap())
    }
}

#[test]
fn a_track_of_sources_and_wheels_builds_from_a_bundle_a_folder_and_a_registry() {
    let site = Site::new();
    let there = site.run(BUILD).expect(0).says("one").says("below").digest();
    let write = "vulkan --variant tiny";
    let wrote = site.run(&format!("bundle {write} -o one.tar")).expect(0);
    wrote.prints("1 lock, 1 manifest, 1 config, 3 layers, 2 packs, 1 archive, 1 wheel");
    // On another machine, no earlier output has the layers.
    std::fs::remove_dir_all(site.project.path("dist")).unwrap();
    let line = format!("{BUILD} --output oci:from-bundle --bundle one.tar");
    let here = site.offline("away", &line).expect(0);
    assert_eq!(here.digest(), there, "from a bundle");

    // Another machine that has the same inputs writes the same bytes.
    std::fs::create_dir_all(site.project.path("other")).unwrap();
    let again = format!("bundle {write} -o two.tar --bundle one.tar");
    site.offline("other", &again).expect(0);
    let bytes = |name: &str| std::fs::read(site.project.path(name)).unwrap();
    assert!(bytes("one.tar") == bytes("two.tar"), "the bundles differ");

    let copy = format!("registry:{}/copies/{}", shared_registry().host(), std::process::id());
    for place in ["dir:copy", &copy] {
        site.run(&format!("mirror {write} --to {place}")).expect(0).prints("1 wheel");
        site.run(&format!("mirror {write} --to {place}")).expect(0).prints("0 B transferred");
    }
    // A commit is pinned, copied, and deleted upstream.
    site.git.write("demo", "a.txt", "two\n");
    site.git.commit("demo");
    site.git.run("demo", &["tag", "v2"]);
    site.run("bump demo v2 --mirror-to dir:copy").expect(0);
    site.run(&format!("bump demo v2 --mirror-to {copy}")).expect(0);
    let newer = site.run(BUILD).expect(0).says("two").digest();
    std::fs::remove_dir_all(site.project.path("dist")).unwrap();
    assert_ne!(newer, there);
    let Site { project, upstream, git, server, _podman } = site;
    drop((upstream, git, server));
    let from = |home: &str, place: &str| {
        let line = format!("{BUILD} --output oci:from-{home} --mirror all={place} --mirror-only");
        (line, home.to_owned())
    };
    let (line, home) = from("folder", "dir:copy");
    let here = ran(offline(&project, &home, &line).output().unwrap()).expect(0).says("two");
    assert_eq!(here.digest(), newer, "from a folder");
    // A registry cannot be reached from the namespace; nothing else may be contacted.
    let (line, home) = from("registry", &copy);
    std::fs::create_dir_all(project.path(&home)).unwrap();
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("HOME", project.path(&home)).env("PATH", path);
    let here = ran(command.output().unwrap()).expect(0).says("two");
    assert_eq!(here.digest(), newer, "from a registry");
}

/// A project with a bundle of track `locked-spoof`.
struct Small {
    project: Project,
    line: String,
}

impl Small {
    fn new(seed: u64) -> Self {
        let (project, base) = (Project::new(), Base::push(seed));
        let line = base.locked_spoof(shared_registry().host());
        project.run(&format!("bundle {line} -o a.tar")).expect(0);
        Self { project, line }
    }
}

/// Returns the entries of an archive: name, position of the header, size.
fn entries(path: &Path) -> Vec<(String, u64, u64)> {
    let mut archive = tar::Archive::new(std::fs::File::open(path).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        (name, entry.raw_header_position(), entry.size())
    });
    entries.collect()
}

#[test]
fn a_flipped_byte_is_reported_with_its_blob_wherever_it_is() {
    let Small { project, .. } = Small::new(9300);
    project.run("bundle --check a.tar").expect(0).prints("a.tar: undamaged, sha256:");
    let other = "bundle --check versions/versions.toml";
    project.run(other).expect(6).says("versions.toml` is not a bundle, or is damaged");
    let whole = std::fs::read(project.path("a.tar")).unwrap();
    let entries = entries(&project.path("a.tar"));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    // Half of the positions are random; the others are in headers and padding.
    for case in 0..200_usize {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = match case % 2 {
            0 => random % whole.len() as u64,
            _ => {
                let (_, begin, size) = entries[random as usize / 7 % entries.len()];
                let inside = [random % 512, 512 + size + (512 - size % 512) % 512 / 2];
                begin + inside[case / 2 % 2].min((whole.len() as u64 - 1).saturating_sub(begin))
            }
        };
        let mut damaged = whole.clone();
        damaged[at as usize] ^= 1 << (random % 8);
        std::fs::write(project.path("b.tar"), damaged).unwrap();
        let told = project.run("bundle --check b.tar").expect(6);
        let (name, begin, size) = entries.iter().rev().find(|(_, begin, _)| *begin <= at).unwrap();
        let end = begin + 512 + size.div_ceil(512) * 512;
        let hex = name.trim_start_matches("blobs/sha256/");
        let words = if at >= end {
            "the end of the file".to_owned()
        } else if at < begin + 512 {
            format!("(at byte {begin})")
        } else {
            hex.to_owned()
        };
        let is_index = ["index.json", "oci-layout"].iter().any(|one| told.stderr.contains(one));
        assert!(told.stderr.contains(&words) || is_index, "{at} in {name}: {}", told.stderr);
    }
}

#[test]
fn a_build_from_a_damaged_bundle_stops_and_names_the_blob() {
    let Small { project, line } = Small::new(9310);
    let whole = std::fs::read(project.path("a.tar")).unwrap();
    for (name, begin, size) in entries(&project.path("a.tar")) {
        let mut damaged = whole.clone();
        damaged[usize::try_from(begin + 512 + size / 2).unwrap()] ^= 4;
        std::fs::write(project.path("b.tar"), damaged).unwrap();
        let build = format!("{line} --with-layers --bundle b.tar --output oci:out/{begin}");
        // A separate home, so that nothing is cached.
        let home = format!("home-{begin}");
        let built = ran(offline(&project, &home, &build).output().unwrap());
        let begins = usize::try_from(begin + 512).unwrap();
        let content = &whole[begins..begins + usize::try_from(size).unwrap()];
        let json = serde_json::from_slice::<serde_json::Value>(content).unwrap_or_default();
        let is_plan = json.get("steps").is_some();
        let is_index = json.get("manifests").is_some() && name != "index.json";
        // A build does not read the marker, the plan, the empty config or the index's own blob.
        if name == "oci-layout" || size == 2 || is_plan || is_index {
            built.expect(0);
            continue;
        }
        // No digest covers the index. A damaged one cannot be parsed, or names no inputs.
        if name == "index.json" {
            assert!([2, 6].contains(&built.code), "{}", built.stderr);
            built.says("b.tar").says("index");
        } else {
            built.expect(6).says("b.tar").says(name.trim_start_matches("blobs/sha256/"));
        }
        assert!(!project.path(&format!("out/{begin}/index.json")).exists());
    }
}

#[test]
fn a_bundle_has_only_its_blobs_and_a_newer_one_only_what_is_new() {
    let (project, host) = (Project::new(), shared_registry().host());
    let path = format!("bundled/sizes-{}", std::process::id());
    // The second image shares its first layer with the first one.
    let shared = busybox_root();
    let push = |seed, tag: &str| {
        let image = RandomImage { below: vec![shared.clone()], ..RandomImage::new(seed) };
        RandomImage { layers: vec![2_000_000], ..image }.push(host, &path, tag).digest
    };
    let (one, two) = (push(9401, "one"), push(9402, "two"));
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{path}");
    let of = |digest: &str| format!("locked-spoof --set vllm-dev-locked={digest} {mirror}");
    project.run(&format!("bundle {} -o one.tar", of(&one.to_string()))).expect(0);
    let size = |name: &str| std::fs::metadata(project.path(name)).unwrap().len();
    let blobs: u64 = entries(&project.path("one.tar")).iter().map(|(.., size)| size).sum();
    assert!(size("one.tar") <= blobs + blobs / 100, "{} for {blobs}", size("one.tar"));

    let bundle = format!("bundle {} -o two.tar --since one.tar", of(&two.to_string()));
    project.run(&bundle).expect(0).prints("  needs     sha256:").says("--bundle one.tar");
    let changed: u64 = entries(&project.path("two.tar")).iter().map(|(.., size)| size).sum();
    assert!(size("two.tar") <= changed + (1 << 20));
    assert!((2_000_000..2_100_000).contains(&changed), "{changed}");

    let build = format!("build {} --with-layers", of(&two.to_string()));
    let there = project.run(&build).expect(0).digest();
    let line = format!("{build} --output oci:out --bundle two.tar --bundle one.tar");
    let here = ran(offline(&project, "away", &line).output().unwrap()).expect(0);
    assert_eq!(here.digest(), there);
    project
        .run(&format!("{build} --bundle two.tar"))
        .expect(2)
        .says("`two.tar` has only the blobs added since bundle sha256:")
        .says("--bundle NEW --bundle OLD");
    project.run("bundle --check two.tar one.tar").expect(0).prints("two.tar: undamaged");
}

#[test]
fn what_is_not_the_right_bundle_is_said() {
    let Small { project, line } = Small::new(9500);
    project.write("text", "not a tar\n");
    project.write("folder/a", "");
    project.run(&format!("{line} --output oci-archive:image.tar")).expect(0);
    let whole = std::fs::read(project.path("a.tar")).unwrap();
    std::fs::write(project.path("short.tar"), &whole[..whole.len() - 6000]).unwrap();
    for (file, code, words) in [
        ("none.tar", 2, "reading `none.tar` failed"),
        ("text", 2, "`text` is not a bundle: it is not an OCI archive"),
        ("folder", 2, "`folder` is not a bundle: the folder has no `index.json`"),
        ("image.tar", 2, "`image.tar` is not a bundle: its index does not name a list of inputs"),
        ("short.tar", 6, "`short.tar` is incomplete: it lacks the layer"),
    ] {
        project.run(&format!("{line} --bundle {file}")).expect(code).says(words);
    }
    project
        .run(&format!("build ollama --set ollama=sha256:{} --bundle a.tar", "1".repeat(64)))
        .expect(2)
        .says("`docker.io/ollama/ollama")
        .says("which `ollama` needs, is not in `a.tar`")
        .says("contains the inputs of locked-spoof")
        .says("`build-pipeline bundle ollama -o FILE`");
    // A rule for a copy that does not exist yet is not an error.
    let rule = "--mirror all=dir:new --mirror all=registry:";
    let rule = format!("{rule}{}/new-{}", shared_registry().host(), std::process::id());
    project.run(&format!("mirror {line} {rule} --to dir:new")).expect(0);
    project.run("bundle -o b.tar").expect(2).says("no track given").says("bundle TRACK -o FILE");
    project
        .run("mirror --to dir:x")
        .expect(2)
        .says("no track given")
        .says("mirror TRACK --to PLACE");
    project.run(&format!("bundle {line} -o text")).expect(2).says("is not an OCI archive");
    project
        .run(&format!("mirror {line} --to dir:folder"))
        .expect(2)
        .says("contains something other than");
    project
        .run(&format!("mirror {line} --to x"))
        .expect(2)
        .says("use `dir:PATH` or `registry:HOST/NAME`");
}

#[test]
fn a_killed_bundle_or_copy_leaves_nothing_or_continues() {
    let Small { project, line } = Small::new(9600);
    let whole = std::fs::read(project.path("a.tar")).unwrap();
    let start = Instant::now();
    project.run(&format!("bundle {line} -o b.tar")).expect(0);
    let length = start.elapsed();
    std::fs::remove_file(project.path("b.tar")).unwrap();
    until_hit(20, length, |round, moment| {
        let (to, file) = match round % 2 {
            0 => ("bundle", "b.tar"),
            _ => ("mirror", "copy"),
        };
        let option = if round % 2 == 0 { "-o b.tar" } else { "--to dir:copy" };
        let mut child = project.begin(&format!("{to} {line} {option}"));
        std::thread::sleep(moment);
        let was_killed = is_killed(&mut child);
        if project.path(file).is_file() {
            assert!(std::fs::read(project.path(file)).unwrap() == whole, "half a bundle");
        } else if project.path("copy/index.json").is_file() {
            let build = format!("{line} --with-layers --mirror all=dir:copy --mirror-only");
            project.run(&format!("{build} --output oci:out/{round}")).expect(0);
        }
        if round % 10 > 7 {
            project.run(&format!("bundle {line} -o b.tar")).expect(0);
            assert!(std::fs::read(project.path("b.tar")).unwrap() == whole);
            std::fs::remove_file(project.path("b.tar")).unwrap();
        }
        was_killed
    });
}

/// Overwrites a byte of a file.
fn damage(project: &Project, file: &str, at: usize) {
    let mut bytes = std::fs::read(project.path(file)).unwrap();
    bytes[at] ^= 1;
    std::fs::write(project.path(file), bytes).unwrap();
}

#[test]
fn a_check_reports_every_wrong_file_and_not_only_the_first() {
    let project = Project::new();
    project.run("bundle ollama --rehearse -o whole.tar").expect(0);
    project.run("mirror ollama --rehearse --to dir:copy").expect(0);
    project.run("build ollama --rehearse --output oci:layout").expect(0);
    project.run("bundle --check whole.tar copy").expect(0).prints("copy: undamaged, sha256:");
    for (copy, at) in [("header.tar", 20), ("blob.tar", 2600), ("other.tar", 2600)] {
        std::fs::copy(project.path("whole.tar"), project.path(copy)).unwrap();
        damage(&project, copy, at);
    }
    let blobs = std::fs::read_dir(project.path("copy/blobs/sha256")).unwrap().flatten();
    let blob = blobs.map(|entry| entry.file_name().into_string().unwrap()).max().unwrap();
    damage(&project, &format!("copy/blobs/sha256/{blob}"), 3);
    project.write("text.tar", "no tar");
    let wrong = ["header.tar", "absent.tar", "blob.tar", "copy", "text.tar", "layout", "other.tar"];
    let line = format!("bundle --check whole.tar {}", wrong.join(" "));
    let ran = project.run(&line).expect(6);
    for name in wrong {
        assert!(ran.stderr.contains(&format!("`{name}`")), "{name}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("`whole.tar`"), "{}", ran.stderr);
    ran.says("`layout` is an OCI image layout, not a bundle").says("copy it again");
    // The same in another order.
    let line = format!("bundle --check absent.tar whole.tar {blob} copy", blob = "blob.tar");
    let ran = project.run(&line).expect(6);
    ran.says("reading `absent.tar` failed").says("`blob.tar` is damaged").says("`copy` is damaged");
}

/// A link in place of each file and folder of a copy: nothing is read through it, and nothing is
/// written through it.
#[test]
fn links_in_a_copy_are_refused() {
    let link = |project: &Project, name: &str| {
        let (at, away) = (project.path(&format!("copy/{name}")), project.path("away"));
        std::fs::rename(&at, &away).unwrap();
        std::os::unix::fs::symlink(&away, &at).unwrap();
    };
    for name in ["index.json", "oci-layout", "blobs", "blobs/sha256", "blobs/sha256/BLOB"] {
        let project = Project::new();
        project.run("mirror ollama --rehearse --to dir:copy").expect(0);
        let blobs = std::fs::read_dir(project.path("copy/blobs/sha256")).unwrap().flatten();
        // The plan is the blob that is larger than the empty config, and is not the list.
        let blob = blobs.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap();
        let blob = blob.file_name().into_string().unwrap();
        let name = name.replace("BLOB", &blob);
        link(&project, &name);
        let before = project.files();
        let shown = format!("`{name}`");
        for line in [
            "build ollama --rehearse --bundle copy",
            "build ollama --rehearse --mirror all=dir:copy --mirror-only",
            "bundle --check copy",
        ] {
            let ran = project.run(line).expect(6).says("is a link");
            assert!(name.ends_with(&blob) || ran.stderr.contains(&shown), "{line}: {}", ran.stderr);
        }
        if !name.ends_with(&blob) {
            let ran = project.run("mirror ollama --rehearse --to dir:copy").expect(2);
            ran.says(&format!("{shown} in `copy` is a link"));
        }
        same(&project.files(), &before, &name);
    }
}

/// A copy is not written to the place that it is read from.
#[test]
fn a_copy_is_not_written_over_its_source() {
    let project = Project::new();
    project.run("mirror ollama --rehearse --to dir:copy").expect(0);
    std::os::unix::fs::symlink("copy", project.path("link")).unwrap();
    for to in ["copy", "./copy", "link"] {
        let line = format!("mirror ollama --rehearse --to dir:{to} --mirror all=dir:copy");
        project.run(&line).expect(2).says("is the input `copy` itself").says("`--to`");
    }
}
