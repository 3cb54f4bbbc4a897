//! The project's chores: `cargo xtask ci|setup|test|tidy|workflows|nightly|engines|gates|vulkan|
//! advisories|release|schema|bench`.
//!
//! `ci` is what decides whether work lands; it is made of the other chores and can be run anywhere.

mod bench;
mod engines;
mod gates;
mod nightly;
mod run;
mod setup;
mod supply;
mod tidy;
mod vulkan;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, root};

const USAGE: &str = "usage: cargo xtask CHORE
  ci            format, lints, tests, documentation, tidy, schemas, dependencies: all that must hold
  setup         install what the tests need (Debian packages docker-registry, skopeo and the like)
  test [ARGS]   setup, then all tests; ARGS go to `cargo test`
  tidy          the rules that no linter knows
  workflows     check .github/workflows with zizmor and their schema
  nightly [OPT] what became of the pins: outdated, lint, proposed bumps, builds; OPT go to the tool
  engines       try every podman and docker that there is a machine for, and write the table of
                README.md again; an hour or more
  gates [NUMBERS] run the tests of all promises of reliability with the promised numbers, and print a
                table; two hours
  vulkan [ENGINES] build track vulkan for real, run it, and build it again with each engine
  advisories    ask the RustSec database about all dependencies
  release       the program with its dependencies inside, an SBOM and SHA-256: target/release-files
  schema        write schemas/*.json anew
  bench [GIB]   measure the build of a metadata-only image, sources, and runs with nothing to do,
                against their peers
  bench sources only the preparing and patching of sources
  bench noop    only runs with nothing to do";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ci"] => ci(),
        ["setup"] => setup::install(),
        ["test", rest @ ..] => setup::install().and_then(|()| test(rest)),
        ["tidy"] => tidy::check(),
        ["workflows"] => workflows(),
        ["engines"] => setup::install().and_then(|()| engines::run()),
        ["gates", numbers @ ..] => setup::install().and_then(|()| gates::run(numbers)),
        ["vulkan"] => vulkan::run(None),
        ["vulkan", engines] => vulkan::run(Some(engines)),
        ["nightly", rest @ ..] => nightly::run(rest),
        ["advisories"] => supply::advisories(),
        ["release"] => supply::release(),
        ["schema"] => {
            schemas(|path, text| std::fs::write(path, text).context("cannot write a schema"))
        }
        ["bench", rest @ ..] => bench::run(rest),
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The text, not a backtrace: these are chores, not a program to debug.
            say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says something to the person who runs a chore.
#[expect(clippy::print_stderr, reason = "the one place where chores talk")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn ci() -> Result<()> {
    setup::install()?;
    cargo(&["fmt", "--all", "--check"])?;
    tidy::check()?;
    workflows()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    test(&[])?;
    run::cargo_with(
        &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    schemas(|path, text| {
        if std::fs::read_to_string(path).unwrap_or_default() != text {
            bail!(
                "`{}` is not what the code gives; `cargo xtask schema` writes it anew",
                path.display()
            );
        }
        Ok(())
    })?;
    dependencies()?;
    say("ci: all chores passed");
    Ok(())
}

/// Checks which crates the program depends on, under which licences and from where.
fn dependencies() -> Result<()> {
    let deny = setup::cargo_deny()?;
    // The advisory database is not reachable from everywhere, so it has no vote here.
    run::command(&deny, &["check", "--hide-inclusion-graph", "bans", "licenses", "sources"], &[])
}

/// Checks the workflows: what can go wrong by zizmor, their form by the schema.
fn workflows() -> Result<()> {
    let tools = setup::workflow_tools()?;
    let environment = [("PYTHONPATH", tools.as_str())];
    // Nothing is asked of the network: every commit was looked up when it was pinned.
    run::command(
        &format!("{tools}/bin/zizmor"),
        &["--offline", "--no-progress", "--quiet", ".github/workflows"],
        &environment,
    )?;
    let files = ["ci", "nightly", "release"].map(|name| format!(".github/workflows/{name}.yml"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let arguments = [&["--builtin-schema", "vendor.github-workflows"], &files[..]].concat();
    run::command(&format!("{tools}/bin/check-jsonschema"), &arguments, &environment)
}

fn test(arguments: &[&str]) -> Result<()> {
    let all = [&["test", "--workspace", "--locked"], arguments].concat();
    // A snapshot that is new or different must fail here, never be written.
    run::cargo_with(&all, &[("INSTA_UPDATE", "no")])
}

/// Hands the schema of every document to `with`, as the tool prints it.
fn schemas(with: impl Fn(&std::path::Path, &str) -> Result<()>) -> Result<()> {
    let folder = root()?.join("schemas");
    std::fs::create_dir_all(&folder)?;
    for document in [
        "plan",
        "record",
        "event",
        "verify",
        "diff",
        "bump",
        "outdated",
        "lint",
        "lock",
        "versions",
        "patch",
        "patch-audit",
        "patch-lint-sed",
        "patch-revert",
        "doctor",
        "env",
        "explain",
        "diagnose",
        "smoke",
        "clean",
    ] {
        let text = run::output(
            "cargo",
            &[
                "run",
                "--quiet",
                "--locked",
                "--package",
                "build-pipeline",
                "--",
                "schema",
                document,
            ],
        )?;
        with(&folder.join(format!("{document}.schema.json")), &text)?;
    }
    Ok(())
}
