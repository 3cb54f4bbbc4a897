//! `cargo xtask engines`: tests engines and hosts, and writes tables of the results into README.md.
//!
//! The tables come from tests of `build-pipeline`. `conformance` tests every engine of the machines
//! that testkit creates. If only some machines are tested, only their rows are replaced. `hosts`
//! builds track `vulkan` on hosts of several releases and on one without apt, and rehearses
//! `source` on two of them.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{at_root, root};
use crate::say;

/// A table of README.md.
struct Table {
    /// The line before the table.
    begin: &'static str,
    /// The indexes of the cells whose digests must be the same in all rows.
    digests: &'static [usize],
}

const ENGINES: Table = Table {
    begin: "<!-- The output of `cargo xtask engines`. -->",
    // The cells of `plain`, `nasty`, `realistic` and `venv`.
    digests: &[2, 3, 5, 6],
};
const HOSTS: Table =
    Table { begin: "<!-- The output of `cargo xtask engines hosts`. -->", digests: &[3, 4] };
/// The content of the cell for an image that a host does not build.
const NOT_BUILT: &str = "–";
/// The line after each table.
const END: &str = "<!-- The end of that output. -->";

/// The test machines, named after their Debian releases.
const SUITES: [&str; 4] = ["bookworm", "trixie", "sid", "experimental"];
/// The hosts, under the names that the test uses.
const HOST_NAMES: [&str; 5] =
    ["host-bookworm", "host-trixie", "host-sid", "host-experimental", "host-without-apt"];

/// Tests the engines of the given machines, and the given hosts; `hosts` means all hosts. Without
/// names, tests everything. Prints the tables and writes them into README.md.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    for name in names {
        ensure!(
            SUITES.contains(name) || HOST_NAMES.contains(name) || *name == "hosts",
            "there is no machine `{name}`; the names are {}, hosts, {}",
            SUITES.join(", "),
            HOST_NAMES.join(", ")
        );
    }
    let is_wanted = |name: &&str| names.is_empty() || names.contains(name);
    let suites: Vec<&str> = SUITES.into_iter().filter(is_wanted).collect();
    if !suites.is_empty() {
        let table = tested("conformance::every_engine_conforms", &suites)?;
        written(|text| with_rows(text, &ENGINES, &table))?;
    }
    let is_wanted = |name: &&str| is_wanted(name) || names.contains(&"hosts");
    let hosts: Vec<&str> = HOST_NAMES.into_iter().filter(is_wanted).collect();
    if !hosts.is_empty() {
        let test = "hosts::the_tracks_that_are_compiled_are_the_same_on_every_host";
        let table = tested(test, &hosts)?;
        written(|text| with_rows(text, &HOSTS, &table))?;
    }
    Ok(())
}

/// Runs a test that prints a table, and returns the table's lines.
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

/// Returns the text of README.md with the new rows of a table. Rows with a different first cell are
/// kept; if their digests differ from the new ones, the function fails.
fn with_rows(text: &str, table: &Table, lines: &[String]) -> Result<String> {
    let [header, rule, new @ ..] = lines else { bail!("nothing was tested") };
    let first = new.first().context("nothing was tested")?;
    let (before, rest) =
        text.split_once(table.begin).context("README.md has no place for the table")?;
    let (old, after) = rest.split_once(END).context("the table in README.md has no end")?;
    let is_new = |line: &&str| new.iter().any(|row| name(row) == name(line));
    let old_rows = old.lines().filter(|line| line.starts_with('|')).skip(2);
    let kept: Vec<&str> = old_rows.filter(|line| !is_new(line)).collect();
    for line in &kept {
        let mut pairs = table.digests(line).into_iter().zip(table.digests(first));
        ensure!(
            pairs.all(|(one, other)| one == other || [one, other].contains(&NOT_BUILT)),
            "{} built images that differ from those of this run; test everything again",
            name(line)
        );
    }
    let mut rows: Vec<&str> = new.iter().map(String::as_str).chain(kept).collect();
    // podman before docker, and the oldest version first.
    rows.sort_by_key(|line| (line.starts_with("| docker"), version(line), *line));
    let rows = [&[header.as_str(), rule], &rows[..]].concat().join("\n");
    Ok(format!("{before}{}\n{rows}\n{END}{after}", table.begin))
}

/// Returns the first cell of a line: the engine with its version and mode, or the host.
fn name(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default().trim()
}

/// Returns the parts of the version in the first cell. A row without a version number sorts last.
fn version(line: &str) -> Vec<u32> {
    let version = name(line).split(' ').nth(1).unwrap_or_default();
    version.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

impl Table {
    /// Returns the digests of a row that must be the same in all rows.
    fn digests<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        self.digests.iter().filter_map(|at| cells.get(*at).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a README.md with lines of a table.
    fn readme(rows: &[&str]) -> String {
        format!("before\n{}\n{}\n{END}\nafter\n", ENGINES.begin, rows.join("\n"))
    }

    fn table(rows: &[&str]) -> Vec<String> {
        [&["| engine | plain |", "|---|---|"], rows]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    const OLD: &str = "| podman 4.3.1 rootless | aa | bb | 11 | cc | dd | yes |";
    const NEW: &str = "| podman 5.4.2 as root | aa | bb | 22 | cc | dd | yes |";
    const DOCKER: &str = "| docker 20.10.24 BuildKit | aa | bb | 33 | cc | dd | yes |";

    #[test]
    fn the_readme_has_a_place_for_both_tables() {
        let text = std::fs::read_to_string(root().unwrap().join("README.md")).unwrap();
        for Table { begin, .. } in [ENGINES, HOSTS] {
            let (_, rest) = text.split_once(begin).unwrap();
            assert!(rest.contains(END));
        }
        let empty = readme(&[]);
        let written = with_rows(&empty, &ENGINES, &table(&[OLD])).unwrap();
        assert_eq!(written, readme(&["| engine | plain |", "|---|---|", OLD]));
    }

    #[test]
    fn lines_of_other_machines_stay_and_are_sorted() {
        let text = readme(&["| engine | plain |", "|---|---|", OLD, DOCKER]);
        let again = OLD.replace("yes", "no");
        let written = with_rows(&text, &ENGINES, &table(&[NEW, &again])).unwrap();
        let [header, rule] = ["| engine | plain |", "|---|---|"];
        assert_eq!(written, readme(&[header, rule, &again, NEW, DOCKER]));
    }

    #[test]
    fn hosts_have_rows_of_their_own() {
        let lines = ["| host | engine | `vulkan` | `source` |", "|---|---|---|---|"];
        let row = |host: &str| format!("| {host} | podman 5 | aa | bb |");
        let text = format!("{}\n{END}\n", HOSTS.begin);
        let rows = |hosts: &[&str]| {
            let rows = hosts.iter().map(|host| row(host));
            lines.map(str::to_owned).into_iter().chain(rows).collect::<Vec<_>>()
        };
        let text = with_rows(&text, &HOSTS, &rows(&["Debian sid", "Debian 13"])).unwrap();
        let text = with_rows(&text, &HOSTS, &rows(&["without apt", "Debian 12"])).unwrap();
        let order = ["Debian 12", "Debian 13", "Debian sid", "without apt"];
        assert_eq!(text, format!("{}\n{}\n{END}\n", HOSTS.begin, rows(&order).join("\n")));
        let partial =
            [&lines.map(str::to_owned)[..], &[row("Debian sid").replace("bb", NOT_BUILT)]];
        let text = with_rows(&text, &HOSTS, &partial.concat()).unwrap();
        assert!(text.contains(&row("Debian sid").replace("bb", NOT_BUILT)), "{text}");
        let other =
            rows(&["Debian 13"]).iter().map(|line| line.replace("bb", "cc")).collect::<Vec<_>>();
        assert!(with_rows(&text, &HOSTS, &other).is_err());
    }

    #[test]
    fn a_table_without_engines_or_with_other_images_is_refused() {
        let text = readme(&["| engine | plain |", "|---|---|", OLD]);
        assert!(with_rows(&text, &ENGINES, &[]).is_err());
        assert!(with_rows(&text, &ENGINES, &table(&[])).is_err());
        let error = with_rows(&text, &ENGINES, &table(&[&NEW.replace("cc", "ee")])).unwrap_err();
        assert!(error.to_string().starts_with("podman 4.3.1 rootless built images that differ"));
    }
}
