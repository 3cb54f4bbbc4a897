//! Prints what every patch says about every version of real upstream trees.
//!
//! `PATCHER_TREES=DIR cargo run --release -p patcher --example matrix [-- --gpu gfx1151] [--probe] [--before] [--diff]`,
//! where DIR holds `component/version/` with the trees, or those files of them that patches name.
//! With `--probe` the probes are run with the tools of this machine; with `--before` also on the
//! trees as they were, where a probe that passes proves nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "an example is no part of the pure crate: it reads trees and runs tools"
)]
#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use patcher::{
    NoProbes, Outcome, Patch, PatchSet, ProbeJob, ProbeRun, Probes, Subject, Tool, Tree, TreePath,
    Unreadable, Version, apply, judge_probe, parse_patch, probe_job, revert,
};

/// A tree in a directory. Links are not followed.
struct Directory(PathBuf);

impl Tree for Directory {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        let mut full = self.0.clone();
        for part in path.as_str().split('/') {
            full.push(part);
            match std::fs::symlink_metadata(&full) {
                Ok(found) if found.is_symlink() => {
                    return Err(Unreadable("it is a symbolic link".to_owned()));
                }
                Ok(_) => {}
                Err(_) => return Ok(None),
            }
        }
        std::fs::read(&full).map(Some).map_err(|error| Unreadable(error.to_string()))
    }
}

/// Runs probes in empty directories.
struct Tools(PathBuf);

impl Probes for Tools {
    fn run(&self, job: &ProbeJob) -> ProbeRun {
        run(&self.0, job).unwrap_or_else(|error| ProbeRun::NotRun { reason: error.to_string() })
    }
}

fn run(scratch: &Path, job: &ProbeJob) -> Result<ProbeRun, Box<dyn Error>> {
    let directory = scratch.join("probe");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    for (name, bytes) in &job.files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        std::fs::write(path, bytes)?;
    }
    let program = match job.tool {
        Tool::Cmake => "cmake",
        Tool::Cpp => "g++",
        Tool::Python => "python3",
    };
    let mut child = Command::new(program)
        .args(&job.arguments)
        .current_dir(&directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    let input = job.stdin.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output()?;
    drop(writer.join());
    Ok(ProbeRun::Ended {
        success: output.status.success(),
        stdout: output.stdout,
        stderr: output.stderr,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let value = |flag: &str| arguments.iter().skip_while(|argument| *argument != flag).nth(1);
    let gpu = value("--gpu").map_or("gfx1151", String::as_str).parse()?;
    let trees = PathBuf::from(std::env::var("PATCHER_TREES")?);
    let scratch = std::env::temp_dir().join(format!("patcher-matrix-{}", std::process::id()));
    let patches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../patches");
    for (component, patches) in read_patches(&patches)? {
        let Ok(found) = std::fs::read_dir(trees.join(&component)) else { continue };
        let mut versions: Vec<(Option<Version>, String)> = found
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .map(|name| (name.parse().ok(), name))
            .collect();
        // llama.cpp's trees lie under the version of the Python package that vendors them.
        let is_versioned = component != "llama.cpp";
        versions.sort();
        let set = PatchSet::new(patches)?;
        let ids: Vec<&str> = set.patches().iter().map(|patch| patch.id.as_str()).collect();
        println!("\n## {component} for {gpu}\n\n| version | {} | ms |", ids.join(" | "));
        println!("|---|{}---:|", "---|".repeat(ids.len()));
        for (version, name) in versions {
            let tree = Directory(trees.join(&component).join(&name));
            let base = BTreeMap::new();
            let version = version.as_ref().filter(|_| is_versioned);
            let subject = Subject {
                gpu: &gpu,
                version,
                build_env: None,
                is_pristine: true,
                base: &base,
                receipts: &[],
            };
            let start = Instant::now();
            let outcome = apply(&set, &subject, &tree, &NoProbes);
            let took = start.elapsed();
            let with_probes =
                has("--probe").then(|| apply(&set, &subject, &tree, &Tools(scratch.clone())));
            print_row(&name, with_probes.as_ref().unwrap_or(&outcome), took);
            check_second_run(&set, &subject, &outcome)?;
            if has("--before") {
                print_before(&set, &subject, &tree, &outcome, &Tools(scratch.clone()));
            }
            if has("--diff") {
                println!("{}", String::from_utf8_lossy(&outcome.diff()));
            }
        }
    }
    if scratch.exists() {
        std::fs::remove_dir_all(scratch)?;
    }
    Ok(())
}

fn read_patches(directory: &Path) -> Result<BTreeMap<String, Vec<Patch>>, Box<dyn Error>> {
    let mut patches: BTreeMap<String, Vec<Patch>> = BTreeMap::new();
    for component in std::fs::read_dir(directory)? {
        for file in std::fs::read_dir(component?.path())? {
            let path = file?.path();
            let patch = parse_patch(&path.display().to_string(), &std::fs::read_to_string(&path)?)?;
            patches.entry(patch.component.clone()).or_default().push(patch);
        }
    }
    Ok(patches)
}

fn print_row(name: &str, outcome: &Outcome, took: Duration) {
    let cells: Vec<String> = outcome
        .patches
        .iter()
        .map(|patch| {
            let probes: Vec<String> = patch
                .probes
                .iter()
                .map(|probe| match (probe.result, &probe.reason) {
                    ("passed", _) => "✓".to_owned(),
                    (result, reason) => format!("{result}: {}", reason.clone().unwrap_or_default()),
                })
                .collect();
            let note =
                if patch.ok { String::new() } else { format!(" **FAILED** {}", patch.explanation) };
            format!("{} {}{note}", patch.verdict, probes.join(" ")).replace('|', "\\|")
        })
        .collect();
    println!("| {name} | {} | {:.1} |", cells.join(" | "), took.as_secs_f64() * 1000.0);
}

/// Prints what the probes of applied patches say about the tree as it was.
fn print_before(
    set: &PatchSet,
    subject: &Subject<'_>,
    tree: &dyn Tree,
    outcome: &Outcome,
    tools: &Tools,
) {
    let was_applied = |patch: &&Patch| {
        outcome.patches.iter().any(|one| one.id == patch.id && one.verdict.name() == "applied")
    };
    for patch in set.patches().iter().filter(was_applied) {
        for probe in &patch.probes {
            let read = |path: &TreePath| tree.read(path).ok().flatten();
            let Some(job) = probe_job(&patch.id, probe, subject.gpu, &BTreeSet::new(), read) else {
                continue;
            };
            let said = match tools.run(&job) {
                ProbeRun::Ended { success, stdout, stderr } => {
                    judge_probe(probe, subject.gpu, success, &stdout, &stderr).err()
                }
                ProbeRun::NotRun { reason } | ProbeRun::Stopped { reason } => Some(reason),
            };
            println!(
                "before: {} / {}: {}",
                patch.id,
                probe.name,
                said.unwrap_or_else(|| "passes".to_owned())
            );
        }
    }
}

/// A second run finds everything present; reverting gives the old bytes back.
fn check_second_run(
    set: &PatchSet,
    subject: &Subject<'_>,
    outcome: &Outcome,
) -> Result<(), Box<dyn Error>> {
    let Some(receipt) = outcome.receipt() else { return Ok(()) };
    let mut patched: BTreeMap<TreePath, Vec<u8>> =
        outcome.files.iter().map(|file| (file.path.clone(), file.new.clone())).collect();
    let named: BTreeSet<&TreePath> =
        set.patches().iter().flat_map(|p| &p.edits).flat_map(|edit| &edit.files).collect();
    let receipts = [receipt];
    let again = Subject { receipts: &receipts, version: None, ..*subject };
    for patch in set.patches().iter().filter(|patch| {
        outcome.patches.iter().any(|one| one.id == patch.id && one.verdict.name() == "applied")
    }) {
        let mut patch = patch.clone();
        patch.relations.requires.clear();
        let second = apply(&PatchSet::new(vec![patch])?, &again, &patched, &NoProbes);
        if second.patches[0].verdict.to_string() != "already-present" || !second.files.is_empty() {
            return Err(format!("second run: {} {}", second.patches[0].verdict, named.len()).into());
        }
    }
    let reverted = revert(&receipts[0], &patched)?;
    patched.clear();
    match outcome.files.iter().all(|file| reverted.get(&file.path) == Some(&file.old)) {
        true => Ok(()),
        false => Err("reverting does not give the old bytes back".into()),
    }
}
