//! `cargo xtask nightly`: checks whether pinned inputs changed upstream. It runs every night in a
//! workflow, and works on any machine.
//!
//! `outdated` → propose bumps → `lint` → `lock --check` → build the tracks whose plan changed →
//! `verify` → `smoke`, if there is a GPU → summary, with old facts. With a GPU, images are also
//! loaded into an engine, for `smoke`. A track with a rehearsal is rehearsed.
//!
//! Nothing is committed or pushed: proposed bumps are files in `target/nightly`. In a GitHub
//! workflow, the summary and the outputs go to the files that GitHub's variables name, and the
//! output of builds is quoted, so that GitHub does not interpret it as workflow commands. The
//! arguments after `nightly` are passed to every call of the tool, for example `--mirror FROM=TO`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::run::{build_tool, root};
use crate::{facts, say};

/// GitHub drops a summary of more than 1 MiB.
const LONGEST_SUMMARY: usize = 1_000_000;

/// The device of AMD GPUs.
const GPU: &str = "/dev/kfd";

/// The classes of `outdated` that make a nightly run fail.
const BAD: [&str; 5] = ["vanished", "yanked", "rewritten", "moved", "expired"];

/// The findings of a nightly run.
#[derive(Debug, Default)]
struct Nightly {
    /// The reasons for a failure, in the order of the steps; pins are sorted, the worst first.
    failures: Vec<String>,
    summary: String,
    outputs: Vec<(&'static str, String)>,
}

/// How to call the tool.
#[derive(Debug)]
struct Tool<'a> {
    program: PathBuf,
    /// The folder of the project.
    project: PathBuf,
    options: &'a [&'a str],
    /// Variables in addition to the environment of this program.
    variables: &'a [(&'a str, String)],
}

impl Tool<'_> {
    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(self.options).current_dir(&self.project);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
            .output()
            .with_context(|| format!("cannot run `build-pipeline {}`", arguments.join(" ")))
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.run(arguments)?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).with_context(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!(
                "`build-pipeline {}` did not print a JSON document: {}",
                arguments.join(" "),
                said.trim()
            )
        })
    }
}

/// Runs all steps. If they find problems, the first line of the error is the worst pin or, if all
/// pins are good, the first problem.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    let program = build_tool()?;
    steps(&Tool { program, project: root()?.to_owned(), options, variables: &[] })
}

/// Runs the steps on a project; they write into its `target/nightly`.
fn steps(tool: &Tool<'_>) -> Result<()> {
    let folder = tool.project.join("target/nightly");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder)?;
    let mut nightly = Nightly::default();
    outdated(tool, &folder, &mut nightly)?;
    lint(tool, &mut nightly)?;
    locks(tool, &mut nightly)?;
    tracks(tool, &mut nightly)?;
    old_facts(tool, &mut nightly)?;
    finish(nightly, &folder)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Checks all pins, and writes a proposal for each one that is unresolved or has a newer value.
fn outdated(tool: &Tool<'_>, folder: &std::path::Path, nightly: &mut Nightly) -> Result<()> {
    let report = tool.json(&["outdated", "--format", "json"])?;
    let pins = report["pins"].as_array().context("`outdated` lists no pins")?;
    writeln!(nightly.summary, "## Pins\n\n| pin | class | since | |\n|---|---|---|---|")?;
    let mut proposed = Vec::new();
    for pin in pins.iter().filter(|pin| text(pin, "class") != "current") {
        let (name, class, detail) = (text(pin, "pin"), text(pin, "class"), text(pin, "detail"));
        let cell = detail.replace('|', "\\|");
        writeln!(nightly.summary, "| `{name}` | {class} | {} | {cell} |", text(pin, "since"))?;
        if BAD.contains(&class) {
            nightly.failures.push(format!("pin {name} {class}: {detail}"));
        }
        if class == "newer" || class == "unresolved" {
            let output = tool.run(&["bump", name, "--dry-run", "--format", "github"])?;
            if output.status.success() {
                fs::write(folder.join(format!("bump-{name}.md")), &output.stdout)?;
                proposed.push(name.to_owned());
            } else {
                let said = String::from_utf8_lossy(&output.stderr);
                let first = said.lines().next().unwrap_or_default().replace('|', "\\|");
                writeln!(nightly.summary, "| `{name}` | no bump | | {first} |")?;
            }
        }
    }
    writeln!(nightly.summary, "\n{} pins were checked.", pins.len())?;
    if !proposed.is_empty() {
        writeln!(nightly.summary, "\nProposed, see `target/nightly`: {}", proposed.join(", "))?;
    }
    nightly.outputs.push(("worst", text(&report, "worst").to_owned()));
    nightly.outputs.push(("bumps", proposed.join(" ")));
    if is_github() {
        say(&String::from_utf8_lossy(&tool.run(&["outdated", "--format", "github"])?.stdout));
    }
    Ok(())
}

fn lint(tool: &Tool<'_>, nightly: &mut Nightly) -> Result<()> {
    let report = tool.json(&["lint", "--format", "json"])?;
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    writeln!(
        nightly.summary,
        "\n## Lint\n\n{} errors, {} warnings, {} informational",
        count("errors"),
        count("warnings"),
        count("information")
    )?;
    for finding in report["findings"].as_array().into_iter().flatten() {
        if text(finding, "severity") == "error" {
            let line = finding["line"].as_u64().unwrap_or(1);
            let what = format!("{}:{line}: {}", text(finding, "file"), text(finding, "message"));
            writeln!(nightly.summary, "\n- {what}")?;
            nightly.failures.push(what);
        }
    }
    if is_github() {
        say(&String::from_utf8_lossy(&tool.run(&["lint", "--format", "github"])?.stdout));
    }
    Ok(())
}

/// Checks whether locks match the current requirements.
fn locks(tool: &Tool<'_>, nightly: &mut Nightly) -> Result<()> {
    let output = tool.run(&["lock", "--check"])?;
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    let said = String::from_utf8_lossy(said);
    let first = said.lines().next().unwrap_or_default();
    writeln!(nightly.summary, "\n## Locks\n\n{first}")?;
    if !output.status.success() {
        nightly.failures.push(first.trim_start_matches("error: ").to_owned());
    }
    Ok(())
}

/// Returns all tracks, and whether each is rehearsed: a track with a rehearsal would take hours to
/// build, and needs pins that not everybody can resolve.
fn all_tracks(project: &std::path::Path) -> Result<Vec<(String, bool)>> {
    let path = project.join("versions/tracks.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let tables: toml::Table = text.parse().with_context(|| path.display().to_string())?;
    let tracks = tables.into_iter().filter_map(|(name, table)| {
        table.as_table().map(|table| (name, table.contains_key("rehearsal")))
    });
    Ok(tracks.collect())
}

/// Builds and verifies each track whose current plan has no finished build on this machine. The
/// summary has one line for each track.
fn tracks(tool: &Tool<'_>, nightly: &mut Nightly) -> Result<()> {
    writeln!(nightly.summary, "\n## Tracks\n\n| track | | |\n|---|---|---|")?;
    let records = tool.json(&["records", "--format", "json"]).unwrap_or(Value::Array(Vec::new()));
    let has_gpu = std::path::Path::new(GPU).exists();
    let mut built = Vec::new();
    for (track, is_rehearsed) in all_tracks(&tool.project)? {
        let track = track.as_str();
        let layout = format!("oci:dist/{track}");
        let (planning, building) = arguments(track, &layout, is_rehearsed, has_gpu);
        let plan = match tool.json(&planning) {
            Ok(plan) => plan,
            Err(why) => {
                let first = format!("{why:#}").replace(['\n', '|'], " ");
                // An unresolved pin is not a failure: its value has not been verified yet.
                if !first.contains("is unresolved") {
                    nightly.failures.push(format!("track {track} cannot be planned"));
                }
                writeln!(nightly.summary, "| {track} | not planned | {first} |")?;
                continue;
            }
        };
        let is_known = records
            .as_array()
            .into_iter()
            .flatten()
            .any(|record| record["plan"] == plan && text(record, "status") == "succeeded");
        let manner = if is_rehearsed { "rehearsal" } else { "" };
        if is_known {
            writeln!(nightly.summary, "| {track} | unchanged | {manner} |")?;
            continue;
        }
        // A rehearsal builds its image from stand-ins, and checks it itself.
        let is_good =
            quoted(tool, &building)? && (is_rehearsed || quoted(tool, &["verify", track])?);
        if is_good {
            built.push(track.to_owned());
        } else {
            nightly.failures.push(format!("track {track} could not be built and verified"));
        }
        let word = match (is_good, is_rehearsed) {
            (true, true) => "built",
            (true, false) => "built and verified",
            (false, _) => "**failed**",
        };
        let tried = if !is_good || is_rehearsed {
            manner
        } else if has_gpu {
            smoke(tool, track, nightly)?
        } else {
            "not tested: no GPU"
        };
        writeln!(nightly.summary, "| {track} | {word} | {tried} |")?;
    }
    nightly.outputs.push(("tracks", built.join(" ")));
    nightly.outputs.push(("changed", (!built.is_empty()).to_string()));
    Ok(())
}

/// Returns the commands that print the plan of a track, and that build it. With a GPU, the image is
/// also loaded into an engine, because `smoke` starts the loaded image.
fn arguments<'a>(
    track: &'a str,
    layout: &'a str,
    is_rehearsed: bool,
    has_gpu: bool,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let rehearse = is_rehearsed.then_some("--rehearse");
    let plan = ["plan", "--track", track, "--format", "json"];
    let output = ["--output", layout, "--load"];
    let output = if has_gpu && !is_rehearsed { &output[..] } else { &[] };
    (
        [&plan[..], rehearse.as_slice()].concat(),
        [&["--track", track][..], rehearse.as_slice(), output].concat(),
    )
}

/// Tests the loaded image of a track on this machine's GPU, and returns the text for the summary.
fn smoke(tool: &Tool<'_>, track: &str, nightly: &mut Nightly) -> Result<&'static str> {
    if quoted(tool, &["smoke", track])? {
        return Ok("smoke test passed");
    }
    nightly.failures.push(format!("track {track} failed its smoke test"));
    Ok("**smoke test failed**")
}

/// Lists the facts of the data files that have not been checked for a while.
fn old_facts(tool: &Tool<'_>, nightly: &mut Nightly) -> Result<()> {
    let facts = facts::older(&tool.project, facts::OLD)?;
    writeln!(nightly.summary, "\n## Facts\n\n{}", facts::table(&facts, facts::OLD))?;
    Ok(())
}

/// Runs a command whose output may contain text from outside, and prints the output so that GitHub
/// does not interpret it as workflow commands. Returns whether the command succeeded.
fn quoted(tool: &Tool<'_>, arguments: &[&str]) -> Result<bool> {
    let output = tool.run(arguments)?;
    let words = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if is_github() {
        let token = unguessable()?;
        say(&format!("::group::build-pipeline {}", arguments.join(" ")));
        say(&format!("::stop-commands::{token}\n{}\n::{token}::\n::endgroup::", words.trim_end()));
    } else {
        say(&format!("+ build-pipeline {}\n{}", arguments.join(" "), words.trim_end()));
    }
    Ok(output.status.success())
}

fn is_github() -> bool {
    std::env::var("GITHUB_ACTIONS").is_ok_and(|value| value == "true")
}

/// Returns a random word, which nobody can put into a log in advance.
fn unguessable() -> Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("end-{}", digits.concat()))
}

/// Writes the summary and the outputs, and fails if there is a problem.
fn finish(nightly: Nightly, folder: &std::path::Path) -> Result<()> {
    let Nightly { failures, summary, outputs } = nightly;
    let head = match failures.first() {
        Some(first) => format!("# Nightly: {first}\n\n"),
        None => "# Nightly: no problems\n\n".to_owned(),
    };
    let mut summary = head + &summary;
    if summary.len() > LONGEST_SUMMARY {
        let end =
            (0..=LONGEST_SUMMARY).rev().find(|end| summary.is_char_boundary(*end)).unwrap_or(0);
        summary.truncate(end);
        summary.push_str("\n\n(cut)\n");
    }
    fs::write(folder.join("summary.md"), &summary)?;
    append("GITHUB_STEP_SUMMARY", &summary)?;
    let mut text = String::new();
    for (name, value) in outputs {
        let token = unguessable()?;
        writeln!(text, "{name}<<{token}\n{value}\n{token}")?;
    }
    append("GITHUB_OUTPUT", &text)?;
    say(&summary);
    match failures.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let more = rest.iter().map(|one| format!("\n  {one}")).collect::<String>();
            bail!("{first}{more}")
        }
    }
}

/// Appends to the file that a variable names, if the variable is set.
fn append(variable: &str, text: &str) -> Result<()> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let mut file = fs::File::options().append(true).create(true).open(&path)?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write the file that {variable} names"))
}

#[cfg(test)]
mod tests {
    use crate::run::tool;

    use super::*;

    const HEAD: &str = "schema = 1\nbuilt-in = false\nsource-date-epoch = 1795132800\n";

    /// A project with one pin: the git repository in its folder `upstream`, with tags v1.0 and
    /// v1.1.
    struct Small {
        folder: tempfile::TempDir,
        commits: Vec<String>,
    }

    impl Small {
        fn new() -> Self {
            let this = Self { folder: tempfile::tempdir().unwrap(), commits: Vec::new() };
            this.git(&["init", "-q", "upstream"]);
            let tag = |tag: &str| {
                let who = ["-c", "user.name=me", "-c", "user.email=me@example.org"];
                let commit = ["-C", "upstream", "commit", "-q", "--allow-empty", "-m", tag];
                this.git(&[who.as_slice(), &commit].concat());
                this.git(&["-C", "upstream", "tag", tag]);
                this.git(&["-C", "upstream", "rev-parse", "HEAD"])
            };
            let commits = vec![tag("v1.0"), tag("v1.1")];
            let this = Self { commits, ..this };
            for name in ["gpus.toml", "tracks.toml"] {
                let text = fs::read_to_string(root().unwrap().join("versions").join(name)).unwrap();
                this.write(&format!("versions/{name}"), &text);
            }
            this
        }

        fn git(&self, arguments: &[&str]) -> String {
            let output =
                Command::new("git").args(arguments).current_dir(self.folder.path()).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
        }

        /// Pins a tag to a commit, and runs the nightly steps.
        fn nightly(&self, tag: &str, commit: &str) -> Result<()> {
            self.write("versions/versions.toml", &format!(
                "{HEAD}[source.demo]\nurl = \"https://h.example/demo\"\nref = \"{tag}\"\ncommit = \"{commit}\"\n"
            ));
            // `cargo test --workspace` has built it, with other features than `build_tool`.
            let program = tool().unwrap();
            let program = if program.is_file() { program } else { build_tool().unwrap() };
            let place = self.folder.path().display().to_string();
            let mirror = format!("https://h.example/demo=file://{place}/upstream");
            let variables = [("HOME", place.clone()), ("XDG_STATE_HOME", format!("{place}/state"))];
            steps(&Tool {
                program,
                project: self.folder.path().to_owned(),
                options: &["--mirror", &mirror],
                variables: &variables,
            })
        }
    }

    #[test]
    fn all_tracks_are_built_and_those_with_a_rehearsal_are_rehearsed() {
        let tracks = all_tracks(&root().unwrap()).unwrap();
        let rehearsed = tracks.iter().filter(|(_, is_rehearsed)| *is_rehearsed);
        assert_eq!(rehearsed.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["source"]);
        let names: Vec<&str> = tracks.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["official", "vulkan", "trainer", "llama-rocm", "ollama"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn an_image_that_is_tested_on_the_gpu_is_loaded_first() {
        let build = |is_rehearsed, has_gpu| {
            arguments("ollama", "oci:dist/ollama", is_rehearsed, has_gpu).1.join(" ")
        };
        let loaded = "--track ollama --output oci:dist/ollama --load";
        assert_eq!(build(false, true), loaded);
        assert_eq!(build(false, false), "--track ollama");
        assert_eq!(build(true, true), "--track ollama --rehearse");
        let (plan, _) = arguments("source", "oci:dist/source", true, true);
        assert_eq!(plan.join(" "), "plan --track source --format json --rehearse");
    }

    #[test]
    fn a_nightly_proposes_what_is_newer_and_fails_for_what_moved() {
        let small = Small::new();
        // The tracks are based on pins that this project does not have.
        let failed = small.nightly("v1.0", &small.commits[0]).unwrap_err().to_string();
        assert!(failed.contains("cannot be planned"), "{failed}");
        let summary = small.read("target/nightly/summary.md");
        assert!(summary.contains("| `demo` | newer | "), "{summary}");
        assert!(summary.contains("Proposed, see `target/nightly`: demo"), "{summary}");
        let bump = small.read("target/nightly/bump-demo.md");
        assert!(bump.starts_with("pins: Bump demo to v1.1\n"), "{bump}");
        assert!(
            small.read("versions/versions.toml").contains("ref = \"v1.0\""),
            "it proposes only"
        );
        for part in ["## Pins", "## Lint", "## Locks", "## Tracks", "## Facts"] {
            assert!(summary.contains(part), "{part}: {summary}");
        }
        // Every track has a line, including the tracks that an engine builds.
        for track in ["official", "ollama", "trainer", "source", "vulkan", "llama-rocm"] {
            assert!(summary.contains(&format!("| {track} | not planned |")), "{track}: {summary}");
        }

        let moved = small.nightly("v1.1", &small.commits[0]).unwrap_err().to_string();
        let first = format!("pin demo moved: tag `v1.1` was `{}`", small.commits[0]);
        assert!(moved.starts_with(&first), "{moved}");
        let summary = small.read("target/nightly/summary.md");
        assert!(summary.starts_with(&format!("# Nightly: {first}")), "{summary}");

        let gone = small.nightly("v0.9", &small.commits[0]).unwrap_err().to_string();
        assert!(gone.starts_with("pin demo vanished: "), "{gone}");
    }
}
