//! Every file that the program writes, damaged in every way: the next run repairs it, or names the
//! file and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{GitFolder, GitHttp, gate_cases, gate_passed};

use crate::built::Bench;
use crate::dsl::{Project, Ran, Two, ran};
use crate::lock::Release;

/// The promise that damage is repaired or refused.
const GATE: u8 = 7;
/// The number of flipped bytes per file in a normal test run, and the promised number.
const FLIPS: [usize; 2] = [2, 20];

/// A kind of damage.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Removed,
    CutTo(usize),
    FlippedAt(usize),
    Unreadable,
}

impl Damage {
    /// Returns every way to damage a file of the given size, with flips all over it.
    fn all(length: usize, flips: usize) -> Vec<Self> {
        let mut all = vec![Self::Removed, Self::Unreadable];
        all.extend([0, 2, length / 2].into_iter().filter(|at| *at < length).map(Self::CutTo));
        all.extend((0..flips.min(length)).map(|number| Self::FlippedAt(number * length / flips)));
        all
    }

    fn is_done_to(self, path: &Path, whole: &[u8]) {
        match self {
            Self::Removed => fs::remove_file(path).unwrap(),
            Self::CutTo(length) => fs::write(path, &whole[..length]).unwrap(),
            Self::FlippedAt(at) => {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 1;
                fs::write(path, bytes).unwrap();
            }
            Self::Unreadable => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            }
        }
    }
}

/// Damages each file in every way, lets `try_it` run the commands that read it, and restores the
/// file. Returns the number of cases.
fn damage_each(files: &[PathBuf], flips: usize, try_it: &dyn Fn(&Path, Damage)) -> usize {
    assert!(!files.is_empty());
    let mut cases = 0;
    for path in files {
        let whole = fs::read(path).unwrap();
        let mode = fs::metadata(path).unwrap().permissions();
        for damage in Damage::all(whole.len(), flips) {
            damage.is_done_to(path, &whole);
            try_it(path, damage);
            // A run that repaired it has written a new file.
            drop(fs::remove_file(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &whole).unwrap();
            fs::set_permissions(path, mode.clone()).unwrap();
            cases += 1;
        }
    }
    cases
}

/// Returns every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(files_below(&path)),
            path => files.push(path),
        }
    }
    files.sort();
    files
}

/// Runs a command without root's permission to ignore file modes.
fn run(command: &Command) -> Ran {
    let is_root = fs::metadata("/proc/self")
        .is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    let mut other = Command::new(if is_root { "setpriv".as_ref() } else { command.get_program() });
    if is_root {
        let without = "-dac_override,-dac_read_search";
        other.args(["--bounding-set", without, "--inh-caps", without]).arg(command.get_program());
    }
    other.args(command.get_args()).env_clear().stdin(std::process::Stdio::null());
    other.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        other.env(name, value.unwrap_or_default());
    }
    ran(other.output().unwrap())
}

/// Fails the test if a run neither succeeded nor named the damaged file (or its folder) and what to
/// do. Returns whether the run succeeded.
#[track_caller]
fn healed_or_refused(ran: &Ran, places: &[&str], what: &str) -> bool {
    assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    if ran.code == 0 {
        return true;
    }
    let is_named = places.iter().any(|place| ran.stderr.contains(place));
    assert!(is_named, "{what}: the file is not named:\n{}", ran.stderr);
    let says_what_to_do = ran.stderr.contains("hint: ") || ran.stderr.contains("= help: ");
    assert!(says_what_to_do, "{what}: nothing says what to do:\n{}", ran.stderr);
    false
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Damages a build's output and everything in the project's home.
fn try_builds(seed: u64, output: &str, place: &str) {
    let two = Two::new(seed);
    let line = format!("{} {output}", two.build());
    two.run(&two.bump(1)).expect(0);
    let digest = two.run(&line).expect(0).digest();
    let output = two.project.path(place);
    let mut files = if output.is_dir() { files_below(&output) } else { vec![output] };
    files.extend(files_below(&two.project.path("home")));
    let try_it = |path: &Path, damage: Damage| {
        let what = format!("{} {damage:?}", path.display());
        // Commands that read the file, and commands that would write it.
        if path.extension().is_some_and(|end| end == "json") {
            for reader in ["records", "records --format json"] {
                healed_or_refused(&run(&two.command(reader)), &[name(path)], &what);
            }
        }
        let verified = run(&two.command(&format!("verify {place} {}", two.mirror)));
        let is_proved = healed_or_refused(&verified, &[name(path), place], &what);
        assert!(!is_proved || verified.stdout.contains(&digest[..19]), "{what}: {verified:?}");
        let ran = run(&two.command(&line));
        if healed_or_refused(&ran, &[name(path), place], &what) {
            assert_eq!(ran.digest(), digest, "{what}");
            assert_eq!(two.image_at(place), digest, "{what}");
        }
    };
    let cases = damage_each(&files, gate_cases(FLIPS[0], FLIPS[1]), &try_it);
    gate_passed(GATE, cases);
}

#[test]
fn a_damaged_layout_cache_or_state_heals_or_is_named() {
    try_builds(341, "", "dist/locked-spoof");
}

#[test]
fn a_damaged_archive_is_replaced_or_named() {
    try_builds(343, "--output oci-archive:image.tar", "image.tar");
}

#[test]
fn damaged_pins_and_locks_are_named() {
    let release = Release::new(&["1.0"]);
    release.ask_for("1.0");
    release.project.run(&release.lock()).expect(0);
    let flips = gate_cases(FLIPS[0], FLIPS[1]);
    let project = &release.project;
    let locks = ["pylock.demo.toml", "demo.requirements.lock"];
    let locks = locks.map(|file| project.path("versions/locks").join(file));
    let wholes = locks.each_ref().map(|file| fs::read(file).unwrap());
    let command = |line: &str| project.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut cases = damage_each(&locks, flips, &|path, damage| {
        let what = format!("{} {damage:?}", path.display());
        let places = [name(path), "lock `demo`"];
        healed_or_refused(&run(&command("lock demo --check")), &places, &what);
        // A new lookup writes the same two files. It takes seconds, so a normal test run does it
        // only for removed files.
        if !matches!(damage, Damage::Removed) && gate_cases(0, 1) == 0 {
            return;
        }
        if healed_or_refused(&run(&command(&release.lock())), &places, &what) {
            assert_eq!(locks.each_ref().map(|file| fs::read(file).unwrap()), wholes, "{what}");
        }
    });
    let other = Project::new();
    let read = |line: &'static str| {
        let other = &other;
        move |path: &Path, damage: Damage| {
            let command = other.command(&line.split_whitespace().collect::<Vec<_>>());
            let what = format!("{} {damage:?}", path.display());
            healed_or_refused(&run(&command), &[name(path)], &what);
        }
    };
    let pins = other.path("versions/versions.toml");
    cases += damage_each(&[pins], flips, &read("plan --track locked-spoof"));
    let debian = other.path("versions/locks/debian.toml");
    cases += damage_each(&[debian], flips, &read("plan --track vulkan"));
    gate_passed(GATE, cases);
}

#[test]
fn damaged_dates_of_pins_are_begun_anew() {
    let folder = GitFolder::new();
    folder.init("a");
    let commit = folder.commit("a");
    folder.run("a", &["tag", "v1.0", &commit]);
    let server = GitHttp::start(folder.path());
    let project = Project::new();
    let pin = format!("url = \"https://h.example/a\"\nref = \"v1.0\"\ncommit = \"{commit}\"");
    let head = "schema = 1\nsource-date-epoch = 1795132800\n";
    project.write("versions/versions.toml", &format!("{head}[source.a]\n{pin}\n"));
    let mirror = format!("https://h.example/a={}", server.url("a"));
    let command = project.command(&["outdated", "--mirror", &mirror]);
    run(&command).expect(0);
    let file = project.path("home/.local/state/build-pipeline/outdated.json");
    let flips = gate_cases(FLIPS[0], FLIPS[1]);
    let cases = damage_each(&[file], flips, &|path, damage| {
        let what = format!("{} {damage:?}", path.display());
        healed_or_refused(&run(&command), &[name(path)], &what);
    });
    gate_passed(GATE, cases);
}

#[test]
fn a_damaged_list_of_receipts_is_named() {
    let edit = crate::patch::list_edit("a.txt");
    let project = Project::new();
    let patch = format!("{}[applies]\nversions = \"*\"\n\n{edit}", crate::patch::head("demo-list"));
    project.write("patches/demo/demo-list.toml", &patch);
    project.write("tree/a.txt", "list = \"gfx1100\"\n");
    project.run("patch apply demo --root tree --no-probes").expect(0);
    let new = project.read("tree/a.txt");
    let file = project.path("tree/.build-pipeline/patches.json");
    let flips = gate_cases(FLIPS[0], FLIPS[1]);
    let cases = damage_each(&[file], flips, &|path, damage| {
        let what = format!("{} {damage:?}", path.display());
        for line in ["patch revert demo --root tree", "patch apply demo --root tree --no-probes"] {
            let command = project.command(&line.split_whitespace().collect::<Vec<_>>());
            healed_or_refused(&run(&command), &[name(path), "tree"], &what);
            let text = project.read("tree/a.txt");
            assert!(text == new || text == "list = \"gfx1100\"\n", "{what}: {text}");
        }
        project.write("tree/a.txt", &new);
    });
    gate_passed(GATE, cases);
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn a_damaged_store_is_made_again() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo hello > /greeting\n");
    let build = "--track vulkan --variant tiny --engine podman --output oci:dist/vulkan";
    let command = |output: &str| {
        bench.command_at(&format!("{build}{output}"), testkit::shared_registry().host())
    };
    let digest = ran(command("").output().unwrap()).expect(0).digest();
    let store = bench.project.path("home/.cache/build-pipeline/store");
    let mut files = files_below(&store);
    files.retain(|path| !path.starts_with(store.join("work")));
    let wanted = gate_cases(1, files.len());
    let files: Vec<PathBuf> = files.into_iter().rev().take(wanted).collect();
    let cases = damage_each(&files, gate_cases(1, 2), &|path, damage| {
        // podman cannot build without root's permissions.
        if matches!(damage, Damage::Unreadable) {
            return;
        }
        let what = format!("{} {damage:?}", path.display());
        let ran = ran(command("-again").output().unwrap());
        if healed_or_refused(&ran, &[name(path)], &what) {
            assert_eq!(ran.digest(), digest, "{what}");
            let image = oci::LayoutImage::read(&bench.project.path("dist/vulkan-again")).unwrap();
            assert_eq!(image.manifest_digest.to_string(), digest, "{what}");
        }
        drop(fs::remove_dir_all(bench.project.path("dist/vulkan-again")));
    });
    gate_passed(GATE, cases - files.len());
}
