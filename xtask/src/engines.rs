//! `cargo xtask engines`: tables of what each engine and host can do, which are also written into
//! README.md.
//!
//! The tables come from tests of `build-pipeline`. `conformance` tests every engine of the machines
//! that testkit makes; machines can be tested one by one, and then only their lines are replaced.
//! `hosts` builds the tracks that an engine builds on hosts of several releases, and on one without
//! apt.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{at_root, root};
use crate::say;

/// The lines of README.md before and after a table.
const ENGINES: &str = "<!-- The output of `cargo xtask engines`. -->";
const HOSTS: &str = "<!-- The output of `cargo xtask engines hosts`. -->";
const END: &str = "<!-- The end of that output. -->";

/// The machines, by the release of Debian.
const SUITES: [&str; 4] = ["bookworm", "trixie", "sid", "experimental"];

/// Tests the engines of the given machines and, for the name `hosts`, the hosts; without a name,
/// everything. Prints the tables and writes them into README.md.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    for name in names {
        ensure!(
            SUITES.contains(name) || *name == "hosts",
            "there is no machine `{name}`; the names are {} and hosts",
            SUITES.join(", ")
        );
    }
    let is_wanted = |name: &&str| names.is_empty() || names.contains(name);
    let suites: Vec<&str> = SUITES.into_iter().filter(is_wanted).collect();
    if !suites.is_empty() {
        let table = tested("conformance::every_engine_conforms", &suites)?;
        written(|text| with_engines(text, &table))?;
    }
    if is_wanted(&"hosts") {
        let table = tested("hosts::the_tracks_that_are_compiled_are_the_same_on_every_host", &[])?;
        ensure!(table.len() > 2, "no host was tested");
        written(|text| with_table(text, HOSTS, |_| Ok(table.join("\n"))))?;
    }
    Ok(())
}

/// Runs a test that prints a table, and returns the lines of the table.
fn tested(test: &str, suites: &[&str]) -> Result<Vec<String>> {
    let mut child = at_root("cargo")?
        .args(["test", "--locked", "--package", "build-pipeline", "--features", "engines"])
        .args(["--test", "it", "--", "--exact", test, "--nocapture"])
        .env("BUILD_PIPELINE_TEST_SUITES", suites.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo has no standard output")?;
    let mut table = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        say(&line);
        if line.starts_with('|') {
            table.push(line);
        }
    }
    ensure!(child.wait()?.success(), "`{test}` failed, so README.md keeps its table");
    Ok(table)
}

/// Changes README.md.
fn written(change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let path = root()?.join("README.md");
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, change(&text)?)?;
    Ok(())
}

/// Returns the text of README.md with another table, which `change` makes from the old one.
fn with_table(
    text: &str,
    begin: &str,
    change: impl FnOnce(&str) -> Result<String>,
) -> Result<String> {
    let (before, rest) = text.split_once(begin).context("README.md has no place for the table")?;
    let (old, after) = rest.split_once(END).context("the table in README.md has no end")?;
    Ok(format!("{before}{begin}\n{}\n{END}{after}", change(old)?))
}

/// Returns the text of README.md with the lines of a new table of engines. Lines of engines that the
/// new table lacks stay, unless their images have other digests.
fn with_engines(text: &str, table: &[String]) -> Result<String> {
    let [header, rule, new @ ..] = table else { bail!("no engine was tested") };
    let first = new.first().context("no engine was tested")?;
    with_table(text, ENGINES, |old| {
        let is_new = |line: &&str| new.iter().any(|row| engine(row) == engine(line));
        let is_row = |line: &&str| line.starts_with("| podman") || line.starts_with("| docker");
        let kept: Vec<&str> = old.lines().filter(is_row).filter(|line| !is_new(line)).collect();
        for line in &kept {
            ensure!(
                digests(line) == digests(first),
                "{} has built other images than the engines that were tested now; test all machines",
                engine(line)
            );
        }
        let mut rows: Vec<&str> = new.iter().map(String::as_str).chain(kept).collect();
        // podman before docker, and the oldest version first.
        rows.sort_by_key(|line| (line.starts_with("| docker"), version(line), *line));
        Ok([&[header.as_str(), rule], &rows[..]].concat().join("\n"))
    })
}

/// Returns the first cell of a line: the engine with its version and mode.
fn engine(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default().trim()
}

/// Returns the parts of the engine's version.
fn version(line: &str) -> Vec<u32> {
    let version = engine(line).split(' ').nth(1).unwrap_or_default();
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Returns the digests that every engine must have: those of `plain`, `nasty` and `realistic`.
fn digests(line: &str) -> Vec<&str> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    [2, 3, 5].into_iter().filter_map(|at| cells.get(at).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a README.md with lines of a table.
    fn readme(rows: &[&str]) -> String {
        format!("before\n{ENGINES}\n{}\n{END}\nafter\n", rows.join("\n"))
    }

    fn table(rows: &[&str]) -> Vec<String> {
        [&["| engine | plain |", "|---|---|"], rows]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    const OLD: &str = "| podman 4.3.1 rootless | aa | bb | 11 | cc | yes |";
    const NEW: &str = "| podman 5.4.2 as root | aa | bb | 22 | cc | yes |";
    const DOCKER: &str = "| docker 20.10.24 BuildKit | aa | bb | 33 | cc | yes |";

    #[test]
    fn the_readme_has_a_place_for_both_tables() {
        let text = std::fs::read_to_string(root().unwrap().join("README.md")).unwrap();
        for begin in [ENGINES, HOSTS] {
            let (before, rest) = text.split_once(begin).unwrap();
            let (_, after) = rest.split_once(END).unwrap();
            let written = with_table(&text, begin, |_| Ok(OLD.to_owned())).unwrap();
            assert_eq!(written, format!("{before}{begin}\n{OLD}\n{END}{after}"));
        }
    }

    #[test]
    fn lines_of_other_machines_stay_and_are_sorted() {
        let text = readme(&["| engine | plain |", "|---|---|", OLD, DOCKER]);
        let again = OLD.replace("yes", "no");
        let written = with_engines(&text, &table(&[NEW, &again])).unwrap();
        let [header, rule] = ["| engine | plain |", "|---|---|"];
        assert_eq!(written, readme(&[header, rule, &again, NEW, DOCKER]));
    }

    #[test]
    fn a_table_without_engines_or_with_other_images_is_refused() {
        let text = readme(&["| engine | plain |", "|---|---|", OLD]);
        assert!(with_engines(&text, &[]).is_err());
        assert!(with_engines(&text, &table(&[])).is_err());
        let error = with_engines(&text, &table(&[&NEW.replace("cc", "dd")])).unwrap_err();
        assert!(error.to_string().starts_with("podman 4.3.1 rootless has built other images"));
    }
}
