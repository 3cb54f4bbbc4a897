//! `cargo xtask engines`: a table of what each engine can do, which is also written into README.md.
//!
//! The table comes from the test `conformance` of `build-pipeline`: every engine of the machines
//! that testkit makes, with the digests of what it built.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::run::root;
use crate::say;

/// The lines of README.md before and after the table.
const BEGIN: &str = "<!-- The output of `cargo xtask engines`. -->";
const END: &str = "<!-- The end of that output. -->";

/// Tests all engines, prints the table and writes it into README.md.
pub(crate) fn run() -> Result<()> {
    let mut child = Command::new("cargo")
        .args(["test", "--locked", "--package", "build-pipeline", "--features", "engines"])
        .args(["--test", "it", "--", "--exact", "conformance::every_engine_conforms"])
        .arg("--nocapture")
        .current_dir(root()?)
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
    ensure!(child.wait()?.success(), "not every engine behaves as README.md says");
    let path = root()?.join("README.md");
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, with_table(&text, &table)?)?;
    Ok(())
}

/// Returns the text of README.md with another table.
fn with_table(text: &str, table: &[String]) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("README.md has no table of engines")?;
    let (_, after) = rest.split_once(END).context("the table in README.md has no end")?;
    ensure!(table.len() > 2, "no engine was tested");
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_a_place_for_the_table() {
        let text = std::fs::read_to_string(root().unwrap().join("README.md")).unwrap();
        let table = ["| engine |", "|---|", "| a new one |"].map(str::to_owned);
        let written = with_table(&text, &table).unwrap();
        assert!(written.contains("| a new one |\n"));
        assert!(with_table(&written, &[]).is_err());
        let (before, _) = text.split_once(BEGIN).unwrap();
        assert!(written.starts_with(before));
    }
}
