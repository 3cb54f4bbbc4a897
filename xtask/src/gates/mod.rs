//! `cargo xtask gates`: the reliability promises, each with its number of tested cases.
//!
//! A gate is a set of tests, or a chore. The tests run with every `cargo test`, some with fewer
//! cases; here they run with the promised numbers. `testkit::gate_passed` records how many cases a
//! test has run.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use self::table::GATES;
use crate::run::{cargo_with, root};
use crate::say;

/// A promise, and the tests that check it.
struct Gate {
    number: u8,
    promise: &'static str,
    /// The promised number of cases.
    promised: usize,
    holds: Holds,
}

/// Package, target (`lib`, `main`, or the name of an integration test such as `it`) and name of a
/// test.
type Test = (&'static str, &'static str, &'static str);

/// The tests or the chore that check a promise.
enum Holds {
    Tests(&'static [Test]),
    /// A chore, which returns the number of cases that it ran.
    Chore(fn() -> Result<usize>),
}

/// Runs the tests of the given gates, or of all gates, and prints a table.
pub(crate) fn run(numbers: &[&str]) -> Result<()> {
    for number in numbers {
        let is_known = GATES.iter().any(|gate| gate.number.to_string() == *number);
        let known: Vec<String> = GATES.iter().map(|gate| gate.number.to_string()).collect();
        ensure!(is_known, "there is no gate `{number}`; the gates are {}", known.join(", "));
    }
    let is_wanted =
        |gate: &&Gate| numbers.is_empty() || numbers.contains(&gate.number.to_string().as_str());
    let mut table = vec!["| gate | promise | promised | run | result | seconds |".to_owned()];
    table.push("|---|---|---|---|---|---|".to_owned());
    let mut failed = Vec::new();
    let mut runs = Runs::begin()?;
    for gate in GATES.iter().filter(is_wanted) {
        let begin = Instant::now();
        let tried = match gate.holds {
            Holds::Tests(tests) => runs.tried(gate.number, tests),
            Holds::Chore(chore) => chore(),
        };
        let seconds = begin.elapsed().as_secs();
        let cases = tried.as_ref().map_or(0, |cases| *cases);
        let is_held = cases >= gate.promised;
        if let Err(error) = &tried {
            say(&format!("gate {}: {error:#}", gate.number));
        }
        if !is_held {
            failed.push(gate.number.to_string());
        }
        let Gate { number, promise, promised, .. } = gate;
        let result = if is_held { "held" } else { "**broken**" };
        let row = format!("| {number} | {promise} | {promised} | {cases} | {result} | {seconds} |");
        // Some gates take hours, so each row is printed immediately, in case this chore is
        // interrupted.
        say(&row);
        table.push(row);
    }
    say(&table.join("\n"));
    ensure!(failed.is_empty(), "broken promises: gate {}", failed.join(", "));
    Ok(())
}

/// The tests that have run. A test that belongs to several gates runs once.
struct Runs {
    /// The file in which the tests record their cases.
    notes: PathBuf,
    done: BTreeSet<Test>,
}

impl Runs {
    fn begin() -> Result<Self> {
        let notes = root()?.join("target/gates");
        fs::write(&notes, "").with_context(|| format!("cannot write `{}`", notes.display()))?;
        Ok(Self { notes, done: BTreeSet::new() })
    }

    /// Runs those tests of a gate that have not run yet, and returns the number of cases that all
    /// tests of the gate ran.
    fn tried(&mut self, number: u8, tests: &[Test]) -> Result<usize> {
        let notes = self.notes.to_str().context("the path of the project is not UTF-8")?;
        let mut targets: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for test in tests.iter().filter(|test| self.done.insert(**test)) {
            targets.entry((test.0, test.1)).or_default().push(test.2);
        }
        for ((package, target), names) in targets {
            let target: &[&str] = match target {
                "lib" => &["--lib"],
                "main" => &["--bins"],
                target => &["--test", target],
            };
            let start = [
                &["test", "--locked", "--package", package],
                target,
                &["--", "--exact", "--include-ignored"],
            ];
            let arguments = [&start.concat()[..], &names[..]].concat();
            cargo_with(&arguments, &[("BUILD_PIPELINE_GATES", notes), ("INSTA_UPDATE", "no")])?;
        }
        counted(number, tests, &fs::read_to_string(&self.notes)?)
    }
}

/// Adds up the cases that a gate's tests recorded in `notes`, with one `GATE CASES TEST` per line.
fn counted(gate: u8, tests: &[Test], notes: &str) -> Result<usize> {
    let mut sum = 0;
    let mut missing: Vec<&str> = tests.iter().map(|(_, _, test)| *test).collect();
    for line in notes.lines() {
        let mut words = line.split(' ');
        let (number, cases) =
            (words.next(), words.next().and_then(|text| text.parse::<usize>().ok()));
        let (Some(number), Some(cases), Some(test)) = (number, cases, words.next()) else {
            bail!("a test recorded the invalid line `{line}`");
        };
        if number != gate.to_string() {
            continue;
        }
        ensure!(
            tests.iter().any(|(_, _, name)| *name == test),
            "`{test}` is not a test of gate {gate}"
        );
        missing.retain(|name| *name != test);
        sum += cases;
    }
    ensure!(missing.is_empty(), "these tests did not run: {}", missing.join(", "));
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_counts_what_all_of_its_tests_have_tried() {
        let tests = &[("engine", "it", "a::b"), ("engine", "it", "c")];
        assert_eq!(counted(2, tests, "2 3 a::b\n9 100 a::b\n2 2 c\n").unwrap(), 5);
        for notes in ["2 3 a::b\n", "2 3 a::b\n2 2 c\n2 1 d\n", "2 x a::b\n2 1 c\n"] {
            assert!(counted(2, tests, notes).is_err(), "{notes}");
        }
    }

    /// Returns the names, without modules, of the tests in a file that record cases themselves.
    fn counting_tests(text: &str) -> Vec<&str> {
        let (mut counting, mut is_test, mut name) = (Vec::new(), false, None);
        for line in text.lines().map(str::trim_start) {
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if line.starts_with("#[") {
                is_test |= line.contains("test]") || line.contains("::test(");
            } else if let Some(function) = function {
                name = function.split(['(', '<']).next().filter(|_| is_test);
                is_test = false;
            } else if line.contains("gate_passed(") {
                counting.extend(name.take());
            }
        }
        counting
    }

    #[test]
    fn every_test_that_records_cases_belongs_to_a_gate() {
        let is_listed = |name: &str| {
            GATES.iter().any(|gate| match gate.holds {
                Holds::Tests(tests) => {
                    tests.iter().any(|one| one.2.rsplit("::").next() == Some(name))
                }
                Holds::Chore(_) => false,
            })
        };
        let (mut folders, mut counting) = (vec![root().unwrap().join("crates")], 0);
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    for name in counting_tests(&fs::read_to_string(&path).unwrap()) {
                        assert!(is_listed(name), "no gate runs `{name}` of {}", path.display());
                        counting += 1;
                    }
                }
            }
        }
        assert!(counting > 50, "{counting}");
    }

    #[test]
    fn gates_have_their_numbers_in_order_and_tests() {
        assert!(GATES.is_sorted_by(|one, next| one.number < next.number));
        for gate in GATES {
            let has_tests = !matches!(gate.holds, Holds::Tests([]));
            assert!(has_tests && gate.promised > 0, "{}", gate.number);
        }
    }
}
