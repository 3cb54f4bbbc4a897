//! Kills at every step of writing and at random moments: files have the old or the new content, and
//! the next run completes the task of the killed one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use testkit::{gate_cases, gate_passed, shared_registry};

use crate::dsl::{Project, Ran, Two, is_killed, ran, until_hit};
use crate::lock::Release;

const FILE: &str = "versions/versions.toml";
/// The promise that a kill corrupts nothing.
const GATE: u8 = 1;

/// System calls that change the disk. Each thread counts its own calls, so calls that only write
/// are tested separately from those that create files and move them into place.
const STEPS: [&str; 2] = [
    "mkdir,mkdirat,fchmod,fchown,flock,fsync,fdatasync,ftruncate,linkat,rename,renameat,renameat2,unlink,unlinkat",
    "write,writev,pwrite64,copy_file_range,sendfile",
];

/// Something that the program writes, with one of two contents.
struct Target<'a> {
    /// Returns the command that writes one of them.
    command: &'a dyn Fn(usize) -> Command,
    /// Returns which content each of its files has; fails the test on anything else.
    found: &'a dyn Fn() -> Vec<usize>,
}

impl Target<'_> {
    /// Kills the command before every `apart`-th call of its threads, and returns the number of
    /// kills.
    fn kill_at_steps(&self, project: &Project, apart: usize) -> usize {
        let mut kills = 0;
        for calls in STEPS {
            for number in (1..).step_by(apart) {
                let next = 1 - self.written(0);
                let ended = ran(self.traced(project, calls, number, next).output().unwrap());
                self.check(next, &format!("killed before call {number}"));
                if ended.code != 137 {
                    ended.expect(0);
                    break;
                }
                kills += 1;
            }
        }
        kills
    }

    /// Returns the command under strace, to be killed before the call with that number.
    fn traced(&self, project: &Project, calls: &str, number: usize, next: usize) -> Command {
        let inject = format!("inject={calls}:signal=KILL:when={number}");
        let trace = format!("trace={calls}");
        // Child processes such as uv make many calls of their own. strace does not trace them.
        let options = ["-qq", "-b", "execve", "-e", &trace, "-e", &inject];
        strace(project, &options, &(self.command)(next))
    }

    /// Kills the command the given number of times, at moments distributed over the time that it
    /// takes on this machine.
    fn kill_at_random(&self, kills: usize) -> usize {
        if kills == 0 {
            return 0;
        }
        let begun = Instant::now();
        self.written(0);
        let length = begun.elapsed();
        until_hit(kills, length, |round, moment| {
            let mut command = (self.command)((round + 1) % 2);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            std::thread::sleep(moment);
            let was_hit = is_killed(&mut child);
            (self.found)();
            was_hit
        });
        self.written(0);
        self.written(1);
        kills
    }

    /// Fails the test if the content is incomplete, or if a run cannot continue from it.
    fn check(&self, next: usize, when: &str) {
        let found = (self.found)();
        assert!(found.iter().all(|one| *one < 2), "{when}");
        self.written(next);
    }

    /// Writes one of the contents, and returns its number.
    fn written(&self, next: usize) -> usize {
        ran((self.command)(next).output().unwrap()).expect(0);
        assert!((self.found)().iter().all(|one| *one == next), "{:?}", (self.found)());
        next
    }
}

/// Returns a command under strace that writes below the project's home.
fn strace(project: &Project, options: &[&str], command: &Command) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-f", "-o"]).arg(project.path("home/trace")).args(options).arg("--");
    traced.arg(command.get_program()).args(command.get_args());
    traced.current_dir(project.path("")).env_clear().stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        traced.env(name, value.unwrap());
    }
    traced
}

/// Returns which of two texts a file contains.
fn which(project: &Project, name: &str, texts: &[String; 2]) -> usize {
    let text = project.read(name);
    let known = texts.iter().position(|one| *one == text);
    assert!(known.is_some(), "`{name}` is incomplete: {text}");
    known.unwrap()
}

/// Fails the test if a record cannot be read.
fn records_are_whole(project: &Project) {
    let said = project.run("records").expect(0);
    assert!(!said.stderr.contains("unreadable-record"), "{}", said.stderr);
}

/// Fails the test if killed runs left temporary files in the project. The last run must have
/// removed them.
fn nothing_is_left(project: &Project) {
    // A new `dist` folder is ignored by git.
    let hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap();
        name.as_encoded_bytes().starts_with(b".") && name != ".gitignore"
    };
    let left: Vec<_> = project.files().into_keys().filter(hidden).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Tests what builds write: a layout, an archive, an image in a registry, and the records.
fn try_images(
    two: &Two,
    output: &str,
    found: &dyn Fn(&Two) -> String,
    apart: [usize; 2],
    kills: [usize; 2],
) {
    let line = |image| format!("{} {output}", two.build_of(image));
    let digests = [0, 1].map(|image| two.run(&line(image)).expect(0).digest());
    let found = || {
        let digest = found(two);
        let known = digests.iter().position(|one| *one == digest);
        assert!(known.is_some(), "{digest} is not one of {digests:?}");
        vec![known.unwrap()]
    };
    let target = Target { command: &|image| two.command(&line(image)), found: &found };
    let mut cases = target.kill_at_steps(&two.project, gate_cases(apart[0], apart[1]));
    cases += target.kill_at_random(gate_cases(kills[0], kills[1]));
    records_are_whole(&two.project);
    nothing_is_left(&two.project);
    gate_passed(GATE, cases);
}

#[test]
fn a_killed_build_leaves_a_whole_layout() {
    try_images(&Two::new(321), "", &|two| two.image_at("dist/locked-spoof"), [40, 1], [0, 100]);
}

#[test]
fn a_killed_build_leaves_a_whole_archive() {
    let output = "--output oci-archive:image.tar";
    // Many calls write a layer, and the next run continues after each of them.
    let two = Two::with_layers(323, vec![900_000, 700_000, 500_000]);
    try_images(&two, output, &|two| two.image_at("image.tar"), [40, 1], [5, 300]);
}

#[test]
fn a_killed_push_leaves_a_whole_image_under_the_tag() {
    let target = format!("{}/killed-{}/x:v1", shared_registry().host(), std::process::id());
    let copied = |two: &Two| {
        let folder = two.project.path("copied");
        drop(std::fs::remove_dir_all(&folder));
        let mut command = Command::new("skopeo");
        command.args(["copy", "--src-tls-verify=false", "--preserve-digests"]);
        command.arg(format!("docker://{target}")).arg(format!("oci:{}:x", folder.display()));
        ran(command.output().unwrap()).expect(0);
        two.image_at("copied")
    };
    try_images(&Two::new(325), &format!("--push {target}"), &copied, [40, 3], [2, 150]);
}

#[test]
fn a_killed_bump_leaves_whole_pins() {
    let two = Two::new(327);
    let texts = [0, 1].map(|image| {
        two.run(&two.bump(image)).expect(0);
        two.project.read(FILE)
    });
    let target = Target {
        command: &|image| two.command(&two.bump(image)),
        found: &|| vec![which(&two.project, FILE, &texts)],
    };
    let cases = target.kill_at_steps(&two.project, gate_cases(20, 1));
    assert!(cases > 0);
    // A kill between two of the calls leaves the new text in a temporary file. The next run removes
    // it.
    nothing_is_left(&two.project);
    gate_passed(GATE, cases);
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn a_killed_lock_leaves_whole_files() {
    let release = Release::new(&["1.0", "2.0"]);
    let project = &release.project;
    let files = ["versions/locks/demo.requirements.lock", "versions/locks/pylock.demo.toml"];
    let command = |next: usize| {
        release.ask_for(["1.0", "2.0"][next]);
        project.command(&release.lock().split_whitespace().collect::<Vec<_>>())
    };
    let texts = [0, 1].map(|next| {
        ran(command(next).output().unwrap()).expect(0);
        files.map(|file| project.read(file))
    });
    let found = || {
        let found = files.iter().enumerate().map(|(at, file)| {
            which(project, file, &texts.each_ref().map(|texts| texts[at].clone()))
        });
        found.collect()
    };
    let target = Target { command: &command, found: &found };
    let mut cases = target.kill_at_steps(project, gate_cases(100, 2));
    cases += target.kill_at_random(gate_cases(0, 300));
    nothing_is_left(project);
    gate_passed(GATE, cases);
}

/// A call in strace's output.
struct Call {
    thread: String,
    name: String,
    /// The number of its first descriptor.
    number: String,
    /// The paths of its descriptors.
    open: Vec<String>,
    /// The strings among its arguments.
    texts: Vec<String>,
}

/// Parses the output of `strace -f -y`: the completed calls, in the order in which they ended.
fn calls(trace: &str) -> Vec<Call> {
    let between = |text: &str, begin: char, end: char| -> Vec<String> {
        let parts = text.split(begin).skip(1).filter_map(|part| part.split_once(end));
        parts.map(|(inner, _)| inner.to_owned()).collect()
    };
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let (thread, line) = line.split_once(' ').unwrap();
        let line = line.trim();
        if let Some((line, _)) = line.split_once("<unfinished ...>") {
            begun.insert(thread, line);
            continue;
        }
        let line = match line.split_once("resumed>") {
            Some((_, rest)) => format!("{}{rest}", begun.remove(thread).unwrap_or_default()),
            None => line.to_owned(),
        };
        let Some((name, arguments)) = line.split_once('(').filter(|_| line.ends_with("= 0")) else {
            continue;
        };
        let quoted: Vec<&str> = arguments.split('"').collect();
        calls.push(Call {
            thread: thread.to_owned(),
            name: name.to_owned(),
            number: arguments.split('<').next().unwrap_or_default().to_owned(),
            open: between(arguments, '<', '>'),
            texts: quoted.iter().skip(1).step_by(2).map(|text| (*text).to_owned()).collect(),
        });
    }
    calls
}

/// Fails the test if a file is moved into place before its bytes are on disk, or if its folder is
/// not synced before the thread continues. Returns the files that were moved into place.
fn renamed_in_order(project: &Project, trace: &str) -> BTreeSet<String> {
    let root = project.path("");
    let calls = calls(trace);
    let mut renamed = BTreeSet::new();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.name.starts_with("rename")) {
        let path = |number: usize| {
            let (text, folder) = (&call.texts[number], call.open.get(number));
            // `rename` has no descriptors, and a relative path starts in the current folder.
            let folder = folder.map_or(root.as_path(), Path::new);
            folder.join(text).to_str().unwrap().to_owned()
        };
        let (from, to) = (path(0), path(1));
        // Files that other programs write are not tested.
        if !Path::new(&to).starts_with(&root) {
            continue;
        }
        // Losing these is harmless, because they can be created again.
        if to.contains("/.cache/") || to.contains("/build-pipeline/verified/") {
            continue;
        }
        let folder = to.rsplit_once('/').unwrap().0.to_owned();
        let before = || calls[..at].iter().rev().filter(|before| before.thread == call.thread);
        // An unnamed file gets its name through its descriptor.
        let is_link = |link: &&Call| link.name == "linkat" && link.texts[1] == call.texts[0];
        let number = before().find(is_link).map(|link| link.texts[0].replace("/proc/self/fd/", ""));
        let is_of_it = |sync: &Call| match &number {
            Some(number) => sync.number == *number,
            None => sync.open == [from.clone()],
        };
        let is_sync = |sync: &&Call| sync.name == "fsync" || sync.name == "fdatasync";
        let is_synced = before().take_while(|before| !before.name.starts_with("rename"));
        assert!(is_synced.filter(is_sync).any(is_of_it), "`{to}` was not synced before");
        let mut after = calls[at + 1..].iter().filter(|next| next.thread == call.thread);
        let next = after.next().map(|next| (next.name.as_str(), next.open.clone()));
        assert_eq!(next, Some(("fsync", vec![folder])), "the folder of `{to}` was not synced");
        renamed.insert(to);
    }
    renamed
}

#[test]
fn what_is_written_is_synced_and_renamed_and_its_folder_synced() {
    let two = Two::new(331);
    let release = Release::new(&["1.0"]);
    release.ask_for("1.0");
    let traced = |project: &Project, command: &Command| -> (Ran, BTreeSet<String>) {
        let options =
            ["-y", "-s", "4096", "-e", "trace=fsync,fdatasync,linkat,rename,renameat,renameat2"];
        let ended = ran(strace(project, &options, command).output().unwrap()).expect(0);
        (ended, renamed_in_order(project, &project.read("home/trace")))
    };
    let has = |renamed: &BTreeSet<String>, path: PathBuf| {
        assert!(renamed.contains(path.to_str().unwrap()), "`{}`: {renamed:?}", path.display());
    };
    let (project, mut cases) = (&two.project, 0);

    let (_, renamed) = traced(project, &two.command(&two.bump(1)));
    has(&renamed, project.path(FILE));
    cases += renamed.len();

    let outputs = "--output oci:image --output oci-archive:image.tar";
    let (_, renamed) = traced(project, &two.command(&format!("{} {outputs}", two.build())));
    for name in ["image/oci-layout", "image/index.json", "image.tar"] {
        has(&renamed, project.path(name));
    }
    let blobs = project.path("image/blobs/sha256");
    let names = blobs.read_dir().unwrap().flatten().map(|entry| entry.path());
    names.for_each(|blob| has(&renamed, blob));
    let records = project.path("home/.local/state/build-pipeline/records");
    records.read_dir().unwrap().flatten().for_each(|entry| has(&renamed, entry.path()));
    cases += renamed.len();

    let project = &release.project;
    let words = release.lock();
    let command = project.command(&words.split_whitespace().collect::<Vec<_>>());
    let (_, renamed) = traced(project, &command);
    for name in ["pylock.demo.toml", "demo.requirements.lock"] {
        has(&renamed, project.path("versions/locks").join(name));
    }
    cases += renamed.len();
    gate_passed(GATE, cases);
}
