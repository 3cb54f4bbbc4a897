//! `corpus lint FOLDER` and `corpus diagnose FOLDER`: evaluate `lint` and `diagnose` on files of
//! other projects.
//!
//! The files are not part of this project. `xtask/corpus/lint.toml` and `diagnose.toml` record
//! where each file comes from, and the verdict of a person who read it. FOLDER contains the files
//! for `lint` as `REPOSITORY/PATH`, and the logs as `OWNER+NAME+NUMBER.log`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::run::{self, root};
use crate::say;

/// A file of the corpus, with the verdicts about it.
#[derive(Debug)]
struct File {
    half: String,
    name: String,
    /// The verdict by line and rule.
    verdicts: BTreeMap<(u64, String), String>,
}

/// The counts for one part of the corpus.
#[derive(Debug, Default)]
struct Count {
    files: usize,
    /// Findings by verdict.
    found: BTreeMap<String, usize>,
    /// Errors by verdict.
    errors: BTreeMap<String, usize>,
    missed: usize,
    /// Findings without a verdict.
    unjudged: Vec<String>,
}

/// Runs `lint` on the corpus in `folder`, and compares the findings with the verdicts.
pub(crate) fn lint(folder: &str) -> Result<()> {
    let files = read(&std::fs::read_to_string(root()?.join("xtask/corpus/lint.toml"))?)?;
    let mut halves: BTreeMap<&str, Count> = BTreeMap::new();
    for file in &files {
        let path = Path::new(folder).join(&file.name);
        if !path.is_file() {
            bail!(
                "`{}` is not a file; fetch the files of xtask/corpus/lint.toml first",
                path.display()
            );
        }
        let count = halves.entry(&file.half).or_default();
        count.files += 1;
        judge(file, &findings(folder, &file.name)?, count);
    }
    for (half, count) in &halves {
        say(&format!("half {half}: {}", summary(count)));
        count.unjudged.iter().for_each(|finding| say(&format!("  not judged: {finding}")));
    }
    if halves.values().any(|count| !count.unjudged.is_empty()) {
        bail!("some findings have no verdict in xtask/corpus/lint.toml");
    }
    Ok(())
}

/// Reads the list of files and verdicts.
fn read(text: &str) -> Result<Vec<File>> {
    let list: toml::Table = text.parse().context("xtask/corpus/lint.toml")?;
    let files = list.get("file").and_then(toml::Value::as_array).context("there is no [[file]]")?;
    files.iter().map(read_file).collect()
}

/// Returns the string value of a required key.
fn text_of(value: &toml::Value, key: &str) -> Result<String> {
    let text = value.get(key).and_then(toml::Value::as_str);
    text.with_context(|| format!("`{key}` is missing from {value}")).map(str::to_owned)
}

fn read_file(value: &toml::Value) -> Result<File> {
    let text = |key: &str| text_of(value, key);
    let mut verdicts = BTreeMap::new();
    let rows = value.get("verdicts").and_then(toml::Value::as_array);
    for row in rows.into_iter().flatten().filter_map(toml::Value::as_str) {
        let words: Vec<&str> = row.split(' ').collect();
        let [line, rule, verdict] = words.as_slice() else {
            bail!("`{row}` is not `LINE RULE VERDICT`")
        };
        if !matches!(*verdict, "true" | "arguable" | "false" | "missed") {
            bail!("`{verdict}` in `{row}` is not true, arguable, false or missed");
        }
        let line = line.parse().with_context(|| format!("`{line}` is not a line number"))?;
        verdicts.insert((line, (*rule).to_owned()), (*verdict).to_owned());
    }
    let name = format!("{}/{}", text("repository")?, text("path")?);
    text("commit")?;
    Ok(File { half: text("half")?, name, verdicts })
}

/// Returns the findings in a file.
fn findings(folder: &str, name: &str) -> Result<Vec<Value>> {
    let report = report(&["-C", folder, "lint", "--format", "json", name])?;
    let found = report["findings"].as_array().cloned().unwrap_or_default();
    // The verdicts are about lines, and a finding can name several.
    let of_line = |one: &Value, line: &Value| {
        let mut copy = one.clone();
        copy["line"] = line.clone();
        copy
    };
    let others = found.iter().flat_map(|one| {
        let lines = one["also"].as_array().into_iter().flatten();
        lines.map(move |line| of_line(one, line))
    });
    Ok(others.chain(found.iter().cloned()).collect())
}

/// Runs the tool, and returns the document that it prints.
fn report(arguments: &[&str]) -> Result<Value> {
    let tool = run::tool()?;
    let output = Command::new(&tool)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run `{}`; build it with `cargo build`", tool.display()))?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))
    })
}

/// A log of the corpus.
#[derive(Debug)]
struct Log {
    repository: String,
    number: i64,
    half: String,
    expected: String,
}

/// The results of `diagnose` for one part of the corpus.
#[derive(Debug, Default)]
struct Score {
    right: usize,
    missed: usize,
    wrong: usize,
    /// The number of logs with a failure.
    failures: usize,
    /// The number of these failures that were recognised.
    recognised: usize,
}

/// Runs `diagnose` on the logs in `folder`, which need not contain all logs of the list.
pub(crate) fn diagnose(folder: &str) -> Result<()> {
    let text = std::fs::read_to_string(root()?.join("xtask/corpus/diagnose.toml"))?;
    let logs = read_logs(&text)?;
    let mut parts: BTreeMap<&str, Score> = BTreeMap::new();
    let mut absent = 0;
    for log in &logs {
        let name = format!("{}+{}.log", log.repository.replace('/', "+"), log.number);
        let path = Path::new(folder).join(&name);
        if !path.exists() {
            absent += 1;
            continue;
        }
        let found = report(&["diagnose", "--format", "json", &path.display().to_string()])?;
        let named = named(&found, &log.expected);
        if !score(log, &named, parts.entry(&log.half).or_default()) {
            say(&format!("{name}: expected {}, found {named:?}", log.expected));
        }
    }
    for (part, Score { right, missed, wrong, failures, recognised }) in &parts {
        say(&format!(
            "part {part}: {} logs, {right} right, {missed} missed, {wrong} wrong; {recognised} of {failures} failures recognised ({})",
            right + missed + wrong,
            percent(*recognised, *failures),
        ));
    }
    if parts.is_empty() {
        bail!("{folder} contains none of the logs, such as `OWNER+NAME+NUMBER.log`");
    }
    if absent > 0 {
        say(&format!("{absent} logs of the list are not in {folder}"));
    }
    if parts.values().any(|score| score.wrong > 0) {
        bail!("`diagnose` named a wrong cause");
    }
    Ok(())
}

/// Reads the list of logs.
fn read_logs(text: &str) -> Result<Vec<Log>> {
    let list: toml::Table = text.parse().context("xtask/corpus/diagnose.toml")?;
    let logs = list.get("log").and_then(toml::Value::as_array).context("there is no [[log]]")?;
    logs.iter().map(read_log).collect()
}

fn read_log(value: &toml::Value) -> Result<Log> {
    let number = value.get("number").and_then(toml::Value::as_integer);
    Ok(Log {
        repository: text_of(value, "repository")?,
        number: number.with_context(|| format!("`number` is missing from {value}"))?,
        half: text_of(value, "half")?,
        expected: text_of(value, "expected")?,
    })
}

/// Returns the failures that a report names, without harmless ones that were not expected.
fn named(report: &Value, expected: &str) -> Vec<String> {
    let all = report["failures"].as_array().into_iter().flatten();
    let counted = all.filter(|one| one["harmless"] != true || one["name"] == expected);
    counted.filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
}

/// Adds the result for a log to `score`, and returns whether it was right.
fn score(log: &Log, named: &[String], score: &mut Score) -> bool {
    let is_failure = log.expected != "none";
    let is_right = if is_failure { named == [log.expected.as_str()] } else { named.is_empty() };
    score.failures += usize::from(is_failure);
    score.recognised += usize::from(is_failure && is_right);
    let counter = match (is_right, named) {
        (true, _) => &mut score.right,
        (false, []) => &mut score.missed,
        (false, _) => &mut score.wrong,
    };
    *counter += 1;
    is_right
}

/// Adds the findings in a file to the counts of its part.
fn judge(file: &File, findings: &[Value], count: &mut Count) {
    let mut missed = file.verdicts.clone();
    missed.retain(|_, verdict| verdict == "missed");
    for finding in findings {
        let line = finding["line"].as_u64().unwrap_or_default();
        let rule = finding["rule"].as_str().unwrap_or_default();
        let key = (line, rule.to_owned());
        missed.remove(&key);
        let Some(verdict) = file.verdicts.get(&key) else {
            count.unjudged.push(format!("{}: {line} {rule}", file.name));
            continue;
        };
        // A finding that was recorded as missed counts as true.
        let verdict = if verdict == "missed" { "true" } else { verdict };
        *count.found.entry(verdict.to_owned()).or_default() += 1;
        if finding["severity"] == "error" {
            *count.errors.entry(verdict.to_owned()).or_default() += 1;
        }
    }
    count.missed += missed.len();
}

fn summary(count: &Count) -> String {
    let Count { files, found, errors, missed, .. } = count;
    let of = |verdict: &str| found.get(verdict).copied().unwrap_or_default();
    let all: usize = found.values().sum();
    let all_errors: usize = errors.values().sum();
    let true_errors = errors.get("true").copied().unwrap_or_default();
    format!(
        "files: {files}; findings: {all}, of which {} true, {} arguable, {} false ({} true, {} true or arguable); errors: {true_errors} of {all_errors} true; recall {} of {} ({})",
        of("true"),
        of("arguable"),
        of("false"),
        percent(of("true"), all),
        percent(of("true") + of("arguable"), all),
        of("true"),
        of("true") + missed,
        percent(of("true"), of("true") + missed),
    )
}

fn percent(part: usize, all: usize) -> String {
    match (part * 1000).checked_div(all) {
        Some(share) => format!("{}.{} %", share / 10, share % 10),
        None => "nothing to measure".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIST: &str = "[[file]]\nrepository = 'a/b'\ncommit = '1'\npath = 'c.sh'\nhalf = 'a'\n\
        verdicts = ['1 x true', '2 x false', '3 y missed', '4 y missed', '5 z arguable']\n";

    #[test]
    fn findings_are_compared_with_the_verdicts() {
        let files = read(LIST).unwrap();
        let finding = |line: u64, rule: &str, severity: &str| json!({ "line": line, "rule": rule, "severity": severity });
        let found = [
            finding(1, "x", "error"),
            finding(2, "x", "error"),
            finding(3, "y", "warning"),
            finding(5, "z", "warning"),
            finding(9, "z", "warning"),
        ];
        let mut count = Count { files: 1, ..Count::default() };
        judge(&files[0], &found, &mut count);
        assert_eq!(
            summary(&count),
            "files: 1; findings: 4, of which 2 true, 1 arguable, 1 false (50.0 % true, 75.0 % true or arguable); errors: 1 of 2 true; recall 2 of 3 (66.6 %)"
        );
        assert_eq!(count.unjudged, ["a/b/c.sh: 9 z"]);
    }

    #[test]
    fn the_list_of_logs_names_each_thread_once() {
        let logs = read_logs(include_str!("../corpus/diagnose.toml")).unwrap();
        let threads = logs.iter().map(|log| (&log.repository, log.number));
        assert_eq!(threads.collect::<std::collections::BTreeSet<_>>().len(), logs.len());
        let error = read_logs("[[log]]\nrepository = 'a/b'\n").unwrap_err().to_string();
        assert!(error.starts_with("`number` is missing"), "{error}");
    }

    #[test]
    fn answers_about_logs_are_right_missing_or_wrong() {
        let report = json!({ "failures": [
            { "name": "a", "harmless": false },
            { "name": "note", "harmless": true },
        ] });
        assert_eq!(named(&report, "a"), ["a"]);
        assert_eq!(named(&report, "note"), ["a", "note"]);
        let mut all = Score::default();
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (expected, found, is_right) in [
            ("a", &["a"][..], true),
            ("a", &[], false),
            ("a", &["a", "b"], false),
            ("none", &[], true),
            ("none", &["a"], false),
        ] {
            let (repository, half) = ("a/b".to_owned(), "a".to_owned());
            let log = Log { repository, number: 1, half, expected: expected.to_owned() };
            assert_eq!(score(&log, &names(found), &mut all), is_right, "{expected} {found:?}");
        }
        let Score { right, missed, wrong, failures, recognised } = all;
        assert_eq!((right, missed, wrong, failures, recognised), (2, 1, 2, 3, 1));
    }

    #[test]
    fn a_wrong_list_is_refused() {
        for (from, to, expected) in [
            ("1 x true", "1 x maybe", "`maybe` in `1 x maybe`"),
            ("1 x true", "x true", "`x true` is not `LINE RULE VERDICT`"),
            ("half = 'a'\n", "", "`half` is missing"),
        ] {
            let error = read(&LIST.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
