//! Finished steps that several machines share: each test machine has its own home, engine and
//! cache, and they have nothing in common but a store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use names::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{DebianRegistry, Fault, FaultProxy, gate_cases, gate_passed, shared_registry};

use crate::built::{Bench, tiny_project};
use crate::dsl::{Project, Ran, is_killed, ran, same, until_hit};
use crate::slim_track;

const TEXT: &str = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /one\n";
/// The same image, but the build takes long enough for another one to begin.
const SLOW: &str = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN sleep 8 && echo 1 > /one\n";
/// An image that differs in every build.
const RANDOM: &str = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN head -c 16 /dev/urandom > /random && echo 1 > /same\n";
const BUILD: &str = "--track vulkan --variant tiny --engine podman";

fn run(bench: &Bench, line: &str) -> Ran {
    ran(bench.command_at(line, shared_registry().host()).output().unwrap())
}

fn begin(bench: &Bench, line: &str) -> Child {
    let mut command = bench.command_at(line, shared_registry().host());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the result of a step in the last record: its state, and the store.
fn step(bench: &Bench, name: &str) -> (String, Option<String>) {
    let record = bench.project.records().pop().unwrap();
    let step = record["steps"].as_array().unwrap().iter().find(|one| one["step"] == name).unwrap();
    let store = step.get("store").map(|store| store.as_str().unwrap().to_owned());
    (step["state"].as_str().unwrap().to_owned(), store)
}

fn rules(bench: &Bench) -> Vec<String> {
    let record = bench.project.records().pop().unwrap();
    let notes = record["notes"].as_array().unwrap().iter();
    notes.map(|note| note["rule"].as_str().unwrap().to_owned()).collect()
}

/// Returns two stores: one in a registry, and one in a folder.
fn stores(folder: &TempDir) -> [String; 2] {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let host = shared_registry().host();
    [
        format!("registry:{host}/steps/{}-{number}", std::process::id()),
        format!("dir:{}", folder.path().join("store").display()),
    ]
}

/// A store in a folder with the finished steps of `TEXT`, and the digest of the image.
fn filled() -> &'static (TempDir, String) {
    static FILLED: OnceLock<(TempDir, String)> = OnceLock::new();
    FILLED.get_or_init(|| {
        let (folder, bench) = (tempfile::tempdir().unwrap(), Bench::new(TEXT));
        let store = format!("dir:{}", folder.path().join("store").display());
        let digest = run(&bench, &format!("{BUILD} --store {store}")).expect(0).digest();
        (folder, digest)
    })
}

/// Returns a copy of the filled store.
fn copy_of_filled() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let from = filled().0.path().join("store");
    for folder in ["", "blobs/sha256"] {
        std::fs::create_dir_all(copy.path().join("store").join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap().flatten() {
            let to = copy.path().join("store").join(folder).join(entry.file_name());
            if entry.path().is_file() {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    copy
}

/// The parts of an artifact.
#[derive(Debug)]
struct Artifact {
    key: String,
    manifest: Value,
}

fn blob(store: &Path, digest: &Value) -> PathBuf {
    let digest: Digest = digest.as_str().unwrap().parse().unwrap();
    store.join("blobs/sha256").join(digest.hex())
}

fn json_at(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

impl Artifact {
    /// Reads the only finished step of a store.
    fn of(store: &Path) -> Self {
        let index = json_at(&store.join("index.json"));
        let is_step = |entry: &&Value| !tag_of(entry).contains('.');
        let entries = index["manifests"].as_array().unwrap();
        let found: Vec<_> = entries.iter().filter(is_step).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let entry = found[0];
        Self { key: tag_of(entry), manifest: json_at(&blob(store, &entry["digest"])) }
    }

    fn layer(&self) -> &Value {
        let layers = self.manifest["layers"].as_array().unwrap();
        layers
            .iter()
            .find(|one| one["mediaType"].as_str().unwrap().contains("image.layer"))
            .unwrap()
    }

    /// Writes the artifact again, with a changed record, under the given key.
    fn write(&mut self, store: &Path, key: &str, change: impl FnOnce(&mut Value)) {
        let mut record = json_at(&blob(store, &self.manifest["config"]["digest"]));
        change(&mut record);
        let record = record.to_string();
        self.manifest["config"]["digest"] = json!(Digest::of(record.as_bytes()));
        self.manifest["config"]["size"] = json!(record.len());
        std::fs::write(blob(store, &self.manifest["config"]["digest"]), record).unwrap();
        self.write_manifest(store, key);
    }

    fn write_manifest(&self, store: &Path, key: &str) {
        let manifest = self.manifest.to_string();
        let digest = json!(Digest::of(manifest.as_bytes()));
        std::fs::write(blob(store, &digest), &manifest).unwrap();
        let mut index = json_at(&store.join("index.json"));
        let entry = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": self.manifest["artifactType"],
            "digest": digest,
            "size": manifest.len(),
            "annotations": { "org.opencontainers.image.ref.name": key },
        });
        let entries = index["manifests"].as_array_mut().unwrap();
        entries.retain(|entry| tag_of(entry).contains('.'));
        entries.push(entry);
        std::fs::write(store.join("index.json"), index.to_string()).unwrap();
    }
}

fn tag_of(entry: &Value) -> String {
    let annotations = &entry["annotations"];
    annotations["org.opencontainers.image.ref.name"].as_str().unwrap().to_owned()
}

#[test]
fn a_step_is_built_once_for_all_machines_and_only_allowed_stores_count() {
    let folder = tempfile::tempdir().unwrap();
    let first = Bench::new(TEXT);
    let second = Bench::new(TEXT);
    let alone = run(&first, BUILD).expect(0).digest();
    for store in stores(&folder) {
        // Finished steps are pushed to a store that lacks them.
        let build = format!("{BUILD} --store {store}");
        assert_eq!(run(&first, &build).expect(0).digest(), alone, "{store}");
        assert_eq!(step(&first, "seal-tiny"), ("cached".to_owned(), None));

        // Another machine gets the same image without an engine.
        std::fs::remove_dir_all(second.project.path("home")).unwrap();
        let taken = run(&second, &build).expect(0).says(&format!("cached from {store}"));
        assert_eq!(taken.digest(), alone, "{store}");
        assert_eq!(step(&second, "seal-tiny"), ("cached".to_owned(), Some(store.clone())));
        assert_eq!(step(&second, "build-tiny"), ("cached".to_owned(), None));
        assert!(second.project.records().pop().unwrap().get("engine").is_none());
        run(&second, &format!("verify vulkan-tiny --store {store}"))
            .expect(0)
            .prints("as planned: ");
    }
    // The tool records where the step came from, and checks whether that store is allowed.
    let [_, store] = stores(&folder);
    run(&second, &format!("{BUILD} --store {store},ro")).expect(0);
    assert_eq!(step(&second, "seal-tiny"), ("cached".to_owned(), Some(store.clone())));
    run(&second, BUILD)
        .expect(0)
        .says("[store-not-allowed]")
        .says(&format!("came from `{store}`, which is not a store of this run"));
    assert_eq!(step(&second, "seal-tiny"), ("done".to_owned(), None));
    assert_eq!(run(&second, BUILD).expect(0).digest(), alone);
    assert_eq!(step(&second, "seal-tiny"), ("cached".to_owned(), None));
}

/// What is wrong with an entry, why it is refused, and how it gets into a store.
type Damage = (&'static str, &'static str, fn(&Path));

#[test]
#[ignore = "runs every night: it takes minutes"]
fn a_bad_entry_is_refused_by_name_and_never_used() {
    let (_, digest) = filled();
    let bench = Bench::new(TEXT);
    let damages: [Damage; 7] = [
        ("a flipped byte in the layer", "wrong", |store| flip(&layer(store))),
        ("a missing layer", "lacks blob", |store| std::fs::remove_file(layer(store)).unwrap()),
        ("a flipped byte in the record", "wrong", |store| {
            flip(&blob(store, &Artifact::of(store).manifest["config"]["digest"]));
        }),
        ("another key in the record", "it is the result of the key", |store| {
            let mut artifact = Artifact::of(store);
            let key = artifact.key.clone();
            artifact.write(store, &key, |record| record["key"] = json!(Digest::of(b"other")));
        }),
        ("the content of another step", "it is the result of the key", |store| {
            let mut artifact = Artifact::of(store);
            let key = artifact.key.clone();
            artifact.write(store, &key, |record| record["content"] = json!("another step"));
        }),
        ("another digest in the record", "its record specifies", |store| {
            let mut artifact = Artifact::of(store);
            let key = artifact.key.clone();
            artifact.write(store, &key, |record| record["result"] = json!(Digest::of(b"other")));
        }),
        ("another kind of artifact", "it is not a finished step", |store| {
            let mut artifact = Artifact::of(store);
            artifact.manifest["artifactType"] = json!("application/vnd.example");
            artifact.write_manifest(store, &artifact.key);
        }),
    ];
    for (what, why, damage) in damages {
        let copy = copy_of_filled();
        let store = copy.path().join("store");
        damage(&store);
        let home = bench.project.path("home/.cache/build-pipeline/store");
        drop(std::fs::remove_dir_all(home));
        let line = format!("{BUILD} --store dir:{}", store.display());
        let built = run(&bench, &line).expect(0).says("[store-refused]").says(why);
        assert_eq!(built.digest(), *digest, "{what}");
        assert_eq!(step(&bench, "seal-tiny"), ("done".to_owned(), None), "{what}");
        assert!(rules(&bench).contains(&"store-refused".to_owned()), "{what}");
        // The good result replaces the bad entry.
        drop(std::fs::remove_dir_all(bench.project.path("home/.cache/build-pipeline/store")));
        assert_eq!(run(&bench, &line).expect(0).digest(), *digest, "{what}");
        let from = Some(format!("dir:{}", store.display()));
        assert_eq!(step(&bench, "seal-tiny"), ("cached".to_owned(), from), "{what}");
    }
}

fn layer(store: &Path) -> PathBuf {
    blob(store, &Artifact::of(store).layer()["digest"])
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn two_results_for_one_key_stop_the_run_and_both_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (first, second) = (Bench::new(RANDOM), Bench::new(RANDOM));
    let line = format!("{BUILD} --store dir:{}", path.display());
    run(&first, &line).expect(0);
    let artifact = Artifact::of(&path);
    for more in ["--store-verify 100%", "--fresh"] {
        run(&second, &format!("{line} {more}"))
            .expect(13)
            .says("step `seal-tiny` has the result")
            .says(&artifact.key)
            .says("`/random` differs (content)");
    }
    let index = json_at(&path.join("index.json"));
    let tags = index["manifests"].as_array().unwrap().iter().map(tag_of);
    let others = tags.filter(|tag| tag.starts_with(&format!("{}.", artifact.key)));
    assert_eq!(others.filter(|tag| !tag.ends_with(".claim")).count(), 2, "one for each run");
    assert_eq!(Artifact::of(&path).manifest, artifact.manifest, "the first result is still there");

    // A read-only store is compared, but not changed.
    let before = std::fs::read(path.join("index.json")).unwrap();
    run(&second, &format!("{line},ro --fresh")).expect(13).says("`/random` differs (content)");
    assert_eq!(std::fs::read(path.join("index.json")).unwrap(), before);
}

#[test]
fn a_sample_is_built_again_and_compared() {
    let copy = copy_of_filled();
    let bench = Bench::new(TEXT);
    let line = format!("{BUILD} --store dir:{}", copy.path().join("store").display());
    run(&bench, &format!("{line} --store-verify 100%")).expect(0);
    assert_eq!(step(&bench, "build-tiny"), ("done".to_owned(), None));
    run(&bench, &format!("{line} --store-verify 0%")).expect(0);
    assert_eq!(step(&bench, "build-tiny").0, "cached");
    run(&bench, &format!("{line} --store-verify 101%")).expect(2).says("from `0%` to `100%`");
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn two_machines_that_race_build_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut digests = BTreeMap::new();
    for store in stores(&folder) {
        let machines = [Bench::new(SLOW), Bench::new(SLOW)];
        let line = format!("{BUILD} --store {store}");
        let racing = machines.each_ref().map(|machine| begin(machine, &line));
        for child in racing {
            let ended = ran(child.wait_with_output().unwrap()).expect(0);
            digests.insert(ended.digest(), ());
        }
        let states = built_once(&machines);
        assert_eq!(states[0].1.as_ref(), Some(&store));
        let waited =
            machines.iter().filter(|machine| rules(machine).contains(&"store-waiting".to_owned()));
        assert_eq!(waited.count(), 1, "{store}");
    }
    assert_eq!(digests.len(), 1);
}

/// Checks that one machine built the step, and that the other one took its result. Returns both
/// states; the state of the machine that took the result comes first.
fn built_once(machines: &[Bench; 2]) -> [(String, Option<String>); 2] {
    let mut states = machines.each_ref().map(|machine| step(machine, "build-tiny"));
    states.sort();
    let found = states.each_ref().map(|(state, from)| (state.as_str(), from.is_some()));
    let notes = machines.each_ref().map(rules);
    assert_eq!(found, [("cached", true), ("done", false)], "{notes:?}");
    states
}

#[test]
fn a_claim_that_is_written_late_does_not_replace_another() {
    let proxies = [(); 2].map(|()| FaultProxy::to(shared_registry().host()));
    let is_released = Arc::new(AtomicBool::new(false));
    proxies[0].on("PUT", ".claim").first(1).does(Fault::Held(Arc::clone(&is_released)));
    let machines = [Bench::new(SLOW), Bench::new(SLOW)];
    let begin = |number: usize| {
        let (host, id) = (proxies[number].host(), std::process::id());
        let store = format!("registry:{host}/steps/late-{id}");
        let mut child = begin(&machines[number], &format!("{BUILD} --store {store}"));
        while proxies[number].count("PUT", ".claim") == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it claimed the step");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    };
    // The second machine claims the step, and builds it, before the first claim is written.
    let building = [begin(0), begin(1)];
    std::thread::sleep(Duration::from_secs(2));
    is_released.store(true, Ordering::Relaxed);
    let digests = building.map(|child| ran(child.wait_with_output().unwrap()).expect(0).digest());
    assert_eq!(digests[0], digests[1]);
    built_once(&machines);
}

#[test]
fn a_store_that_does_not_return_claims_stops_nothing() {
    let bench = Bench::new(TEXT);
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", ".claim").does(Fault::status(404));
    let store = format!("registry:{}/steps/no-claims-{}", proxy.host(), std::process::id());
    run(&bench, &format!("{BUILD} --store {store}")).expect(0);
    assert_eq!(step(&bench, "build-tiny"), ("done".to_owned(), None));
    assert_eq!(proxy.count("PUT", ".claim"), 8, "it gives up after some tries");
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn a_job_that_is_killed_delays_others_only_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, other) = (Bench::new(SLOW), Bench::new(SLOW));
    let store = folder.path().join("store");
    let line = format!("{BUILD} --store dir:{}", store.display());
    let mut child = begin(&killed, &line);
    while !std::fs::read_to_string(store.join("index.json")).is_ok_and(|it| it.contains(".claim")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it claimed the step");
    }
    assert!(is_killed(&mut child));
    let waited = run(&other, &line).expect(0).says("[store-waiting]");
    assert_eq!(step(&other, "seal-tiny"), ("done".to_owned(), None));
    assert_eq!(run(&killed, &line).expect(0).digest(), waited.digest());
    assert_eq!(step(&killed, "seal-tiny").1, Some(format!("dir:{}", store.display())));
}

#[test]
fn a_store_that_does_not_answer_is_told_and_stops_nothing() {
    let bench = Bench::new(TEXT);
    let registry = DebianRegistry::start();
    let store = format!("registry:{}/steps", registry.host());
    drop(registry);
    run(&bench, &format!("{BUILD} --store {store}")).expect(0).says("[store-unreachable]");
    assert!(rules(&bench).contains(&"store-unreachable".to_owned()));
    let key = key_of(&bench, "seal-tiny");
    run(&bench, &format!("step run {key} --track vulkan --variant tiny --store {store}"))
        .expect(5)
        .says(&format!("the result of step `seal-tiny` was not stored in `{store}`"));
    // The result is in every writable store.
    let folder = tempfile::tempdir().unwrap();
    let other = format!("dir:{}", folder.path().join("store").display());
    let stores = format!("--store {store},ro --store {other}");
    run(&bench, &format!("step run {key} --track vulkan --variant tiny {stores}"))
        .expect(0)
        .says("[store-unreachable]");
}

fn key_of(bench: &Bench, step: &str) -> String {
    let listed = run(bench, "step list vulkan --variant tiny --format json").expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let steps = listed["steps"].as_array().unwrap();
    steps.iter().find(|one| one["step"] == step).unwrap()["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_step_runs_by_its_key_once_and_prints_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Bench::new(TEXT), Bench::new(TEXT));
    let subject = "--track vulkan --variant tiny";
    let store = format!("dir:{}", folder.path().join("store").display());
    let list = format!("step list {subject} --store {store}");
    let key = key_of(&first, "seal-tiny");
    run(&first, &list).expect(0).prints(&format!("{key}  seal-tiny    not run"));
    let line = format!("step run {key} {subject} --store {store} --engine podman");
    let result = run(&first, &line).expect(0).stdout;
    let digest: Digest = result.trim().parse().unwrap();
    run(&first, &list).expect(0).prints(&format!("{key}  seal-tiny    finished"));
    assert!(!first.project.path("dist").exists(), "no image is written");
    let claim = |bench: &Bench| run(bench, &list).expect(0);
    claim(&second).prints(&format!("{key}  seal-tiny    in {store}"));

    // The result exists, so nothing runs. A part of the key is enough.
    let short = line.replace(&key, &key[..12]);
    let again = run(&first, &short).expect(0);
    assert_eq!(again.stdout, result);
    assert!(!again.stderr.contains("build-tiny: "), "{}", again.stderr);
    assert_eq!(run(&second, &line).expect(0).says("cached from").stdout, result);

    // Another job of the workflow has passed on the result.
    let third = Bench::new(TEXT);
    let other = Digest::of(b"other");
    run(&third, &format!("{line} --result {key}={other}"))
        .expect(13)
        .says(&format!("its result is `{digest}`, but `{other}` is required"))
        .says(&format!("has the result `{digest}` here, but `{other}` is required"));
    let fourth = Bench::new(TEXT);
    run(&fourth, &format!("{line} --result {key}={digest}")).expect(0).says("cached from");

    for (wrong, why) in [
        (key_of(&first, "build-tiny"), "has an intermediate result"),
        (key_of(&first, "fetch-base"), "fetches an input"),
        ("0123456789".to_owned(), "no step of these tracks has a key"),
        ("seal-tiny".to_owned(), "is not the key of a step"),
    ] {
        run(&first, &format!("step run {wrong} {subject}")).expect(2).says(why);
    }
}

#[test]
fn a_store_only_contains_what_it_is_given_and_clean_removes_what_is_old() {
    let copy = copy_of_filled();
    let store = copy.path().join("store");
    let (project, _) = tiny_project(TEXT);
    let line = format!("step clean --store dir:{}", store.display());
    project.run(&format!("{line} --unused-for 7")).expect(0).prints("removed 0 entries");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 86_400);
    for entry in std::fs::read_dir(store.join("blobs/sha256")).unwrap().flatten() {
        let file = std::fs::File::options().write(true).open(entry.path()).unwrap();
        file.set_modified(old).unwrap();
    }
    let entries = json_at(&store.join("index.json"))["manifests"].as_array().unwrap().len();
    project
        .run(&format!("{line} --unused-for 7 --dry-run"))
        .expect(0)
        .prints(&format!("would remove {entries} entr"));
    assert!(layer(&store).exists());
    project
        .run(&format!("{line} --unused-for 7"))
        .expect(0)
        .prints(&format!("removed {entries} entr"));
    assert_eq!(std::fs::read_dir(store.join("blobs/sha256")).unwrap().count(), 0);
    let registry = "step clean --store registry:registry.example.org/steps --unused-for 7";
    project.run(registry).expect(2).says("is not a folder");
    // A folder that is missing, for example because a disk is not mounted, is not a clean store.
    for more in ["", " --dry-run"] {
        let line = format!("step clean --store dir:missing --unused-for 7{more}");
        let missing = project.run(&line).expect(2).says("missing` does not exist");
        assert!(missing.stdout.is_empty() && !project.path("missing").exists());
    }
}

/// A folder that contains an image or somebody's files: nothing is read, built or changed.
#[test]
fn a_folder_with_something_else_is_no_store() {
    let bench = Bench::new(TEXT);
    run(&bench, BUILD).expect(0);
    bench.project.write("letters/letter.txt", "of somebody");
    for folder in ["dist/vulkan-tiny", "letters"] {
        let before = bench.project.files();
        run(&bench, &format!("{BUILD} --store dir:{folder}"))
            .expect(2)
            .says("contains something other than")
            .says("specify a new or empty folder");
        run(&bench, &format!("step clean --store dir:{folder} --unused-for 0")).expect(2);
        same(&bench.project.files(), &before, folder);
    }
}

/// A descriptor may name other locations of its layer. The tool does not contact them, with or
/// without credentials.
#[test]
fn an_entry_cannot_send_the_tool_to_another_host() {
    let elsewhere = FaultProxy::to(shared_registry().host());
    let copy = copy_of_filled();
    let store = copy.path().join("store");
    let mut artifact = Artifact::of(&store);
    std::fs::remove_file(layer(&store)).unwrap();
    let digest = artifact.layer()["digest"].clone();
    let url = format!("http://{}/v2/steps/blobs/{}", elsewhere.host(), digest.as_str().unwrap());
    for part in artifact.manifest["layers"].as_array_mut().unwrap() {
        part["urls"] = json!([url]);
    }
    artifact.write_manifest(&store, &artifact.key);
    let bench = Bench::new(TEXT);
    let line = format!("{BUILD} --store dir:{}", store.display());
    let built = run(&bench, &line).expect(0).says("[store-refused]").says("lacks blob");
    assert_eq!(built.digest(), filled().1);
    assert_eq!(elsewhere.requests().len(), 0);
}

/// Returns a project whose track `official` is slimmed, and the command that builds it.
fn slimmed(name: &str) -> (Project, String) {
    let project = Project::new();
    let base = slim_track::base(&project, name);
    let line = format!("--track official --variant slim {}", base.options());
    (project, line)
}

#[test]
fn a_track_that_needs_no_engine_shares_its_slimmed_image() {
    let (project, line) = slimmed("stores-shared");
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{line} --store dir:{}", folder.path().join("store").display());
    let digest = project.run(&line).expect(0).digest();
    let record = project.records().pop().unwrap();
    std::fs::remove_dir_all(project.path("home")).unwrap();
    let again = project.run(&line).expect(0).says("slim-image (0.000 s, cached from dir:");
    assert_eq!(again.digest(), digest);
    // The record lists what was removed, although another machine removed it.
    assert_eq!(project.records().pop().unwrap()["image"]["slim"], record["image"]["slim"]);
}

#[test]
fn after_kills_at_random_moments_the_store_is_right_and_the_next_run_ends_right() {
    let (project, line) = slimmed("stores-killed");
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let began = Instant::now();
    let digest = project.run(&line).expect(0).digest();
    let whole = began.elapsed();
    let line = format!("{line} --store dir:{}", store.display());
    let mut round = 0;
    let kills = gate_cases(4, 200);
    until_hit(kills, whole, |number, moment| {
        drop(std::fs::remove_dir_all(project.path("home/.cache")));
        drop(std::fs::remove_dir_all(project.path("dist")));
        let mut child = project.begin(&line);
        round = number;
        std::thread::sleep(moment);
        is_killed(&mut child)
    });
    assert!(round >= 3);
    for _ in 0..2 {
        drop(std::fs::remove_dir_all(project.path("home/.cache")));
        let ended = project.run(&line).expect(0);
        assert_eq!(ended.digest(), digest);
        assert!(!ended.stderr.contains("store-refused"), "{}", ended.stderr);
    }
    let artifact = Artifact::of(&store);
    for part in artifact.manifest["layers"].as_array().unwrap() {
        let bytes = std::fs::read(blob(&store, &part["digest"])).unwrap();
        assert_eq!(json!(Digest::of(&bytes)), part["digest"]);
    }
    gate_passed(25, kills);
}

/// The tracks of `many`.
const TRACKS: [&str; 6] = ["many-1", "many-2", "many-3", "many-4", "many-5", "many-6"];

/// Returns a machine with a project of several tracks. The build of each sleeps for some seconds.
fn many(seconds: usize) -> Bench {
    let bench = Bench::new(TEXT);
    let track = |name: &str| {
        let text = TEXT.replace("echo 1", &format!("sleep {seconds} && echo {name}"));
        bench.project.write(&format!("dockerfiles/{name}.Dockerfile"), &text);
        format!(
            "\n[{name}]\ntitle = \"{name}\"\ndescription = \"One of many.\"\nbase = \"tiny\"\n\
             [[{name}.stage]]\nname = \"{name}\"\ndockerfile = \"dockerfiles/{name}.Dockerfile\"\n"
        )
    };
    let tracks = bench.project.read("versions/tracks.toml") + &TRACKS.map(track).concat();
    bench.project.write("versions/tracks.toml", &tracks);
    bench
}

/// Lets machines take one job after another, until all are done. A job makes the image of a
/// track, and may use everything that is in the store. Returns the images' digests, how many builds
/// ran, and the time.
fn work_through(machines: &[Bench], store: &str) -> (BTreeMap<String, String>, usize, Duration) {
    let jobs = Mutex::new(TRACKS.iter());
    let done = Mutex::new((BTreeMap::new(), 0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for machine in machines {
            let (jobs, done) = (&jobs, &done);
            scope.spawn(move || {
                loop {
                    let Some(track) = jobs.lock().unwrap().next() else { return };
                    let line = format!("build {track} --engine podman --store {store}");
                    let digest = run(machine, &line).expect(0).digest();
                    let is_built = step(machine, &format!("build-{track}")).0 == "done";
                    let mut done = done.lock().unwrap();
                    done.0.insert((*track).to_owned(), digest);
                    done.1 += usize::from(is_built);
                }
            });
        }
    });
    let (digests, builds) = done.into_inner().unwrap();
    (digests, builds, begin.elapsed())
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn three_machines_build_each_step_once_and_the_images_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let [registry, store] = stores(&folder);
    let seconds = gate_cases(1, 20);
    let (alone, builds, time_alone) = work_through(&[many(seconds)], &store);
    assert_eq!((alone.len(), builds), (TRACKS.len(), TRACKS.len()));
    let machines = [many(seconds), many(seconds), many(seconds)];
    let (together, builds, time_together) = work_through(&machines, &registry);
    assert_eq!(together, alone);
    assert_eq!(builds, TRACKS.len(), "no step is built twice");
    // Everything that the other machines built is in the store.
    let (again, builds, _) = work_through(&[many(seconds)], &registry);
    assert_eq!((again, builds), (alone, 0));
    let share = time_together.as_secs_f64() / time_alone.as_secs_f64();
    println!("three machines took {share:.2} of the time of one");
    // With a sleep of one second, the time proves nothing.
    assert!(seconds == 1 || share <= 0.45, "{share:.2}");
    gate_passed(26, TRACKS.len());
}
