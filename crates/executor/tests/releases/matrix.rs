//! The matrix: the verdict of every patch for every release, and the results of its probes.
//!
//! Start at [`check`]. For each release, it also checks that a second run changes nothing, that
//! reverting restores the old bytes, and that all patched Python files compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use executor::Tools;
use names::GpuTarget;
use names::Version;
use patcher::{
    NoProbes, Outcome, PatchSet, ProbeRun, Probes as _, Subject, Tree as _, Verdict, apply,
    judge_probe, probe_job, revert,
};
use testkit::Release;

use crate::archive::{Released, open, patches, releases};
use crate::behaviour;

/// The project's target. Probes run for it.
const GPU: &str = "gfx1151";

/// The targets that verdicts are recorded for.
const GPUS: [&str; 7] = [GPU, "gfx1150", "gfx1152", "gfx1100", "gfx1201", "gfx1031", "gfx1010"];

/// The results of a probe, grouped by the state of the patch.
#[derive(Default)]
struct Tally {
    /// Releases that the patch changed, and how many of them pass the probe unpatched.
    changed: usize,
    before: usize,
    /// Releases that needed no change.
    unchanged: usize,
}

/// Checks a component's part of `docs/patch-matrix.md`.
pub(crate) fn check(component: &str) {
    let set = patches(component);
    let mut verdicts: BTreeMap<&str, Vec<(String, Vec<String>)>> = BTreeMap::new();
    let mut probes = BTreeMap::new();
    let releases = releases(component);
    for release in &releases {
        let tree = open(release);
        let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for gpu in GPUS {
            let outcome = outcome(&set, release, gpu, &tree);
            check_outcome(&set, release, &tree, &outcome);
            if gpu == GPU {
                count_probes(&set, release, &tree, &outcome, &mut probes);
            }
            for (patch, one) in set.patches().iter().zip(&outcome.patches) {
                let mark = if one.ok { "" } else { " (stops)" };
                rows.entry(&patch.id).or_default().push(format!("{}{mark}", one.verdict));
            }
        }
        for (id, row) in rows {
            verdicts.entry(id).or_default().push((release.version.clone(), row));
        }
    }
    let mut text = String::new();
    for patch in set.patches() {
        text += &verdict_table(&patch.id, &verdicts[patch.id.as_str()]);
    }
    text += &probe_table(&probes);
    compare(component, &text);
    testkit::gate_passed(15, releases.len());
}

/// Returns the table of a patch. Consecutive releases with the same verdicts share a row.
fn verdict_table(patch: &str, rows: &[(String, Vec<String>)]) -> String {
    let mut text = format!("\n### `{patch}`\n\n");
    writeln!(text, "| releases | {} |\n|---|{}", GPUS.join(" | "), "---|".repeat(GPUS.len()))
        .unwrap();
    for same in rows.chunk_by(|one, next| one.1 == next.1) {
        let versions: Vec<&str> = same.iter().map(|(version, _)| version.as_str()).collect();
        writeln!(text, "| {} | {} |", versions.join(", "), same[0].1.join(" | ")).unwrap();
    }
    text
}

fn probe_table(probes: &BTreeMap<(String, String), Tally>) -> String {
    let mut text = format!("\n### Probes, for {GPU}\n\n");
    text += "| patch | probe | passes where the patch applied | passes there without the patch | passes where no change was needed |\n";
    text += "|---|---|---|---|---|\n";
    for ((patch, probe), Tally { changed, before, unchanged }) in probes {
        let counts =
            format!("{changed} of {changed} | {before} of {changed} | {unchanged} of {unchanged}");
        writeln!(text, "| {patch} | {probe} | {counts} |").unwrap();
    }
    text
}

/// Applies the patches to a release in memory, with probes if it is the project's target.
fn outcome(set: &PatchSet, release: &Release, gpu: &str, tree: &Released) -> Outcome {
    let version = version(release);
    let gpu: GpuTarget = gpu.parse().unwrap();
    let base = BTreeMap::new();
    let subject = Subject {
        gpu: &gpu,
        version: version.as_ref(),
        build_env: None,
        is_pristine: true,
        base: &base,
        receipts: &[],
    };
    match gpu.as_str() {
        GPU => apply(set, &subject, tree, &tools()),
        _ => apply(set, &subject, tree, &NoProbes),
    }
}

/// Returns the version of a release, or `None` for llama.cpp in another package: llama.cpp numbers
/// its builds, and the package has a different version.
fn version(release: &Release) -> Option<Version> {
    (release.subdirectory.is_none()).then(|| release.version.parse().unwrap())
}

fn tools() -> Tools {
    Tools::new(&std::env::var_os("PATH").unwrap())
        .launched_by(env!("CARGO_BIN_EXE_probe-helper").as_ref())
}

/// Checks what must hold for every release.
fn check_outcome(set: &PatchSet, release: &Release, tree: &Released, outcome: &Outcome) {
    let name = format!("{} for {}", release.file, outcome.gpu);
    assert_eq!(outcome.files.is_empty(), outcome.receipt().is_none(), "{name}");
    let Some(receipt) = outcome.receipt() else { return };
    let mut patched = tree.clone();
    for file in &outcome.files {
        patched.0.put_file(file.path.as_str(), file.new.clone()).unwrap();
    }
    let (version, gpu) = (version(release), outcome.gpu.parse().unwrap());
    let receipts = [receipt];
    let base = BTreeMap::new();
    let subject = Subject {
        gpu: &gpu,
        version: version.as_ref(),
        build_env: None,
        is_pristine: false,
        base: &base,
        receipts: &receipts,
    };
    let second = apply(set, &subject, &patched, &NoProbes);
    assert!(second.ok && second.files.is_empty(), "{name}: a second run: {:?}", second.patches);
    for (first, second) in outcome.patches.iter().zip(&second.patches) {
        if matches!(first.verdict, Verdict::Applied { .. }) {
            assert_eq!(second.verdict.name(), "already-present", "{name}: {}", first.id);
        }
    }
    let reverted = revert(&receipts[0], &patched).unwrap();
    for file in &outcome.files {
        assert_eq!(reverted.get(&file.path), Some(&file.old), "{name}: {}", file.path);
        assert_eq!(tree.read(&file.path).unwrap().as_ref(), Some(&file.old), "{name}");
    }
    if outcome.gpu == GPU {
        behaviour::compile_python(&name, outcome);
    }
}

/// Counts probe results. If a patch applied, the probe also runs on the unpatched tree: a probe
/// that passes there shows nothing about the patch.
fn count_probes(
    set: &PatchSet,
    release: &Release,
    tree: &Released,
    outcome: &Outcome,
    tallies: &mut BTreeMap<(String, String), Tally>,
) {
    let gpu = GPU.parse().unwrap();
    for (patch, one) in set.patches().iter().zip(&outcome.patches) {
        for (probe, ran) in patch.probes.iter().zip(&one.probes) {
            let tally = tallies.entry((patch.id.clone(), probe.name.clone())).or_default();
            if ran.result == "skipped" {
                let reason = ran.reason.clone().unwrap_or_default();
                assert_eq!(reason, "the tree contains none of its files", "{}", release.file);
                continue;
            }
            assert_eq!(ran.result, "passed", "{}: {}: {:?}", release.file, probe.name, ran.reason);
            if !matches!(one.verdict, Verdict::Applied { .. } | Verdict::PartialUpstream { .. }) {
                tally.unchanged += 1;
                continue;
            }
            tally.changed += 1;
            let read = |path: &_| tree.read(path).unwrap();
            let job = probe_job(&patch.id, probe, &gpu, &BTreeSet::new(), read).unwrap();
            let passes = match tools().run(&job) {
                ProbeRun::Ended { success, stdout, stderr } => {
                    judge_probe(probe, &gpu, success, &stdout, &stderr).is_ok()
                }
                run => panic!("{}: {}: {run:?}", release.file, probe.name),
            };
            tally.before += usize::from(passes);
        }
    }
}

/// Compares `text` with the section of a component, or writes it there.
fn compare(component: &str, text: &str) {
    // The tests of other components write to the same file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/patch-matrix.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let heading = format!("## {component}\n");
    let (before, rest) = document.split_once(&heading).unwrap();
    let end = rest.find("\n## ").unwrap_or(rest.len());
    if rest[..end].trim() == text.trim() {
        return;
    }
    if std::env::var_os("INSTA_UPDATE").is_some_and(|wish| wish == "always") {
        let rest = rest[end..].trim_start();
        let text = format!("{before}{heading}\n{}\n\n{rest}", text.trim());
        std::fs::write(&path, format!("{}\n", text.trim_end())).unwrap();
        return;
    }
    let difference = similar::TextDiff::from_lines(rest[..end].trim(), text.trim());
    panic!("docs/patch-matrix.md differs:\n{}", difference.unified_diff());
}
