//! The project's chores: `cargo xtask ci|setup|test|tidy|workflows|nightly|engines|gates|vulkan|
//! rocm|dependencies|documentation|release|schema|corpus|facts|index|bench`.
//!
//! `ci` decides whether a change can be merged. It runs cargo's checks and other chores, and needs
//! root on Debian 12.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod bench;
mod container;
mod corpus;
mod debian_index;
mod engines;
mod facts;
mod gates;
mod index;
mod layout;
mod nightly;
mod options;
mod reference;
mod release;
mod rocm;
mod rocm_packages;
mod run;
mod setup;
mod supply;
mod tidy;
mod vulkan;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{cargo, root};

const USAGE: &str = "usage: cargo xtask CHORE
  ci            run the checks of a change: format, tidy, lints, workflows, schemas, tests
  setup         install what the tests need (docker-registry, skopeo and other Debian packages, and act)
  test [ARGS]   run setup, then all tests; ARGS go to `cargo test`
  tidy          check the project rules that no linter checks
  workflows     check .github/workflows, and the workflows that the tool writes, with zizmor and
                the schemas
  nightly [OPT] check the pins: outdated, lint, proposed bumps, builds; OPT is passed to the tool
  engines [NAMES] test podman and docker on the test machines (bookworm, trixie, sid, experimental),
                and compile tracks on the hosts (host-bookworm, host-trixie, host-sid,
                host-experimental, host-without-apt, or `hosts` for all of them); default: all
                machines and hosts; updates their rows in README.md; takes hours
  gates [NUMBERS] run the tests of all reliability promises with the promised numbers of cases, and
                print a table; takes two hours
  vulkan [ENGINES] build track vulkan with a real engine, run it, and rebuild it with each engine
  rocm [ENGINES] build track llama-rocm with a real engine, audit and run it, and rebuild it with
                each engine; takes half an hour or more
  rocm packages compare `audit` with LLVM on Debian's ROCm packages, slim them, open the slimmed
                libraries, and run `bench gpu` on them; downloads 1.5 GB, needs root and 25 GB
  dependencies  check the licences and sources of all dependencies, and the RustSec database
  documentation check that rustdoc has no warnings
  release [twice] build static binaries for x86-64 and arm64, .deb, .rpm, an SBOM and SHA-256 checksums
                into target/release-files; with `twice`, build everything again and compare
  schema        regenerate schemas/*.json and docs/reference/*.md
  corpus lint FOLDER  run `lint` on the files of xtask/corpus/lint.toml, laid out in FOLDER as
                REPOSITORY/PATH, and compare the findings with the recorded verdicts
  corpus diagnose FOLDER  run `diagnose` on the logs of xtask/corpus/diagnose.toml, which are in FOLDER
                as OWNER+NAME+NUMBER.log, and compare the results with the expected ones
  facts [DAYS]  list the facts in versions/*.toml that have not been checked for DAYS days [default: 90]
  index debian  download the lists of Debian's packages, and write crates/lint/data/debian.gz
  index python LIST DATE  write the names of the Python index that `lint` knows, from a list of its
                packages that was made on DATE
  index options PROGRAM FILE  add new options of a program to the table that `lint` knows; FILE holds
                what `PROGRAM --help` prints
  bench [GIB]   measure building a metadata-only image, preparing sources, and runs with nothing to
                do, and compare with other tools
  bench sources only measure the preparation and patching of sources
  bench noop    only measure runs with nothing to do
  bench gpu FOLDER  only measure `audit` and `slim`, on a folder with GPU code";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ci"] => ci(),
        ["setup"] => setup::install(),
        ["test", rest @ ..] => setup::install().and_then(|()| test(rest)),
        ["tidy"] => tidy::check(),
        ["workflows"] => run::build_tool().and_then(|tool| workflows(&tool)),
        ["engines", names @ ..] => setup::install().and_then(|()| engines::run(names)),
        ["gates", numbers @ ..] => setup::install().and_then(|()| gates::run(numbers)),
        ["vulkan"] => vulkan::run(None),
        ["vulkan", engines] => vulkan::run(Some(engines)),
        ["rocm"] => rocm::run(None),
        ["rocm", "packages"] => rocm_packages::run(),
        ["rocm", engines] => rocm::run(Some(engines)),
        ["nightly", rest @ ..] => nightly::run(rest),
        ["dependencies"] => supply::dependencies(),
        ["documentation"] => documentation(),
        ["release"] => release::run(false),
        ["release", "twice"] => release::run(true),
        ["schema"] => run::build_tool().and_then(|tool| {
            schemas(&tool, |path, text| std::fs::write(path, text).context("cannot write a schema"))
        }),
        ["corpus", "lint", folder] => corpus::lint(folder),
        ["corpus", "diagnose", folder] => corpus::diagnose(folder),
        ["facts"] => facts::run(&facts::OLD.to_string()),
        ["facts", days] => facts::run(days),
        ["index", "debian"] => debian_index::run(),
        ["index", "python", list, date] => index::python(list, date),
        ["index", "options", program, file] => options::run(program, file),
        ["bench", rest @ ..] => bench::run(rest),
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Prints the message without a backtrace, because a failed chore is not a bug in xtask.
            say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a message to the person who runs a chore.
#[expect(clippy::print_stderr, reason = "the one place where chores print")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Runs the checks of a change. The tests come last, because they take most of the time.
fn ci() -> Result<()> {
    setup::install()?;
    cargo(&["fmt", "--all", "--check"])?;
    tidy::check()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    // This builds the tool too. Building only the tool selects other features of its dependencies,
    // so cargo would compile most of them twice.
    cargo(&[&TEST[..], &["--no-run"]].concat())?;
    let tool = run::tool()?;
    workflows(&tool)?;
    schemas(&tool, |path, text| {
        if std::fs::read_to_string(path).unwrap_or_default() != text {
            bail!(
                "`{}` is out of date; run `cargo xtask schema` to write it again",
                path.display()
            );
        }
        Ok(())
    })?;
    test(&[])?;
    say("ci: all checks passed");
    Ok(())
}

/// Checks the documentation of all crates, private items included.
fn documentation() -> Result<()> {
    run::cargo_with(
        &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )
}

/// The command that builds and runs all tests.
const TEST: [&str; 3] = ["test", "--workspace", "--locked"];

/// Checks our workflows, and the workflows that the tool writes for other projects.
fn workflows(tool: &Path) -> Result<()> {
    let ours = ["ci", "nightly", "release"].map(|name| format!(".github/workflows/{name}.yml"));
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    github_workflows(&ours)?;
    let folder = root()?.join("target/written-workflows");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let folder = folder.display().to_string();
    let tool = tool.display().to_string();
    let tool = |words: &[&str]| run::command(&tool, words, &[]);
    tool(&["init", &folder, "--track", "mine", "--ci", "github,gitlab", "--install", "./install"])?;
    for system in ["github", "gitlab"] {
        let file = format!("{folder}/{system}.yml");
        let store = ["--store", "registry:ghcr.io/me/steps", "--install", "./install"];
        let words = ["-C", &folder, "export", system, "source", "official", "--rehearse"];
        tool(&[&words[..], &store, &["--output", &file]].concat())?;
    }
    let path = |name: &str| format!("{folder}/{name}");
    github_workflows(&[&path(".github/workflows/images.yml"), &path("github.yml")])?;
    schema("vendor.gitlab-ci", &[&path(".gitlab-ci.yml"), &path("gitlab.yml")])
}

/// Checks GitHub workflows for security problems with zizmor, and validates them against the
/// schema.
fn github_workflows(files: &[&str]) -> Result<()> {
    let tools = setup::workflow_tools()?;
    // This needs no network: the commit of every action was checked when it was pinned.
    let arguments = [&["--offline", "--no-progress", "--quiet"], files].concat();
    let environment = [("PYTHONPATH", tools.as_str())];
    run::command(&format!("{tools}/bin/zizmor"), &arguments, &environment)?;
    schema("vendor.github-workflows", files)
}

/// Validates files against a schema that is built into check-jsonschema.
fn schema(name: &str, files: &[&str]) -> Result<()> {
    let tools = setup::workflow_tools()?;
    let arguments = [&["--builtin-schema", name], files].concat();
    let environment = [("PYTHONPATH", tools.as_str())];
    run::command(&format!("{tools}/bin/check-jsonschema"), &arguments, &environment)
}

fn test(arguments: &[&str]) -> Result<()> {
    let all = [&TEST[..], arguments].concat();
    // Many tests wait for an engine or a registry, so at least four threads are used, even on two
    // cores.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| threads.max(4).to_string());
    // A new or changed snapshot must fail its test, and must never be written.
    run::cargo_with(&all, &[("INSTA_UPDATE", "no"), ("RUST_TEST_THREADS", &threads)])
}

/// Passes the path and the expected text of every schema and reference page to `with`.
fn schemas(tool: &Path, with: impl Fn(&Path, &str) -> Result<()>) -> Result<()> {
    let folder = root()?.join("schemas");
    let pages = root()?.join("docs/reference");
    std::fs::create_dir_all(&folder)?;
    std::fs::create_dir_all(&pages)?;
    let tool = tool.display().to_string();
    let help = run::output(&tool, &["schema", "--help"])?;
    let about = help.split("Options:").next().unwrap_or_default();
    let documents =
        about.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
    let documents: Vec<&str> = documents.collect();
    ensure!(documents.contains(&"plan"), "`build-pipeline schema --help` does not list `plan`");
    for document in documents {
        let text = run::output(&tool, &["schema", document])?;
        with(&folder.join(format!("{document}.schema.json")), &text)?;
        if let Some((name, title)) = reference::PAGES.iter().find(|(name, _)| *name == document) {
            let page = reference::page(name, title, &serde_json::from_str(&text)?);
            with(&pages.join(format!("{name}.md")), &page)?;
        }
    }
    Ok(())
}
