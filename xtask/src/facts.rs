//! `facts [DAYS]`: lists the facts of the data files that have not been checked for a while.
//!
//! A fact is a table with the key `checked`. Lists of packages, of names and of a program's options
//! have one date. When you check its source again, set the key to the current date.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::run::root;
use crate::{debian_index, index, options, say};

/// The age in days from which a fact is listed.
pub(crate) const OLD: i64 = 90;

/// A fact: its age in days, its table and its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    age: i64,
    table: String,
    file: String,
}

/// Prints the facts that are at least `days` old.
pub(crate) fn run(days: &str) -> Result<()> {
    let days = days.parse().with_context(|| format!("`{days}` is not a number of days"))?;
    let facts = older(&root()?, days)?;
    say(&table(&facts, days));
    Ok(())
}

/// Returns the facts in the project's `versions` folder that are at least `days` old, the oldest
/// first.
pub(crate) fn older(project: &Path, days: i64) -> Result<Vec<Fact>> {
    let folder = project.join("versions");
    let mut facts = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let tables: toml::Table = text.parse().with_context(|| path.display().to_string())?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        collect(&tables, &file, "", today()?, &mut facts)?;
    }
    let lists = [
        ("packages", debian_index::FILE, debian_index::date(project)?),
        ("names", index::NAMES, index::date(project)),
    ];
    for (table, file, date) in lists {
        facts.extend(date.map(|date| dated(table, file, &date)).transpose()?);
    }
    for (program, date) in options::dates(project) {
        facts.push(dated(&program, options::TABLES, &date)?);
    }
    facts.retain(|fact| fact.age >= days);
    facts.sort_by(|a, b| {
        b.age.cmp(&a.age).then_with(|| (&a.file, &a.table).cmp(&(&b.file, &b.table)))
    });
    Ok(facts)
}

/// Returns the fact that a list in `file` was complete on a date.
fn dated(table: &str, file: &str, text: &str) -> Result<Fact> {
    let time: toml::value::Datetime = text.parse().with_context(|| file.to_owned())?;
    let date = time.date.with_context(|| file.to_owned())?;
    let checked = day(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    Ok(Fact { age: today()? - checked, table: table.to_owned(), file: file.to_owned() })
}

/// Returns the facts as a table.
pub(crate) fn table(facts: &[Fact], days: i64) -> String {
    if facts.is_empty() {
        return format!("All facts were checked in the last {days} days.");
    }
    let mut text = format!(
        "Facts that have not been checked for {days} days or more: {}.\n\n| days | fact | file |\n|---|---|---|",
        facts.len()
    );
    for Fact { age, table, file } in facts {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n| {age} | `{table}` | {file} |");
    }
    text
}

/// Adds the facts in a table and its subtables.
fn collect(
    tables: &toml::Table,
    file: &str,
    path: &str,
    today: i64,
    facts: &mut Vec<Fact>,
) -> Result<()> {
    if let Some(checked) = tables.get("checked") {
        let date = checked.as_datetime().and_then(|time| time.date);
        let date = date.with_context(|| format!("{file}: `checked` of `{path}` is not a date"))?;
        let day = day(i64::from(date.year), i64::from(date.month), i64::from(date.day));
        ensure!(day <= today, "{file}: `checked` of `{path}` is in the future: {date}");
        facts.push(Fact { age: today - day, table: path.to_owned(), file: file.to_owned() });
    }
    for (name, value) in tables {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let rows = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for row in rows.iter().filter_map(toml::Value::as_table) {
            collect(row, file, &path, today, facts)?;
        }
    }
    Ok(())
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
fn day(year: i64, month: i64, day: i64) -> i64 {
    // Here, a year begins with March, so that the leap day is its last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// Returns the current date, `YYYY-MM-DD`, of UTC.
pub(crate) fn date() -> Result<String> {
    let text = crate::run::output("date", &["--utc", "+%F"])?;
    Ok(text.trim().to_owned())
}

fn today() -> Result<i64> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(i64::try_from(seconds / 86_400)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str, today: i64) -> Result<Vec<Fact>> {
        let mut facts = Vec::new();
        collect(&text.parse().unwrap(), "a.toml", "", today, &mut facts)?;
        Ok(facts)
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(day(1970, 1, 1), 0);
        assert_eq!(day(2000, 2, 29), 11_016);
        assert_eq!(day(2000, 3, 1), 11_017);
        assert_eq!(day(2026, 11, 24), 20_781);
        assert_eq!(day(2027, 1, 1) - day(2026, 1, 1), 365);
    }

    #[test]
    fn every_table_with_a_date_is_a_fact() {
        let text = "schema = 1\n[kernel.any]\nchecked = 2026-08-01\n[rule.a]\nchecked = 2026-11-24\n\
            [[rule.a.row]]\nchecked = 2026-11-01\n[other]\nx = 1\n";
        let found = facts(text, day(2026, 11, 24)).unwrap();
        let found: Vec<(i64, &str)> =
            found.iter().map(|one| (one.age, one.table.as_str())).collect();
        assert_eq!(found, [(115, "kernel.any"), (0, "rule.a"), (23, "rule.a.row")]);
    }

    #[test]
    fn a_date_that_is_wrong_is_named() {
        for (text, expected) in [
            ("[a]\nchecked = 'soon'\n", "a.toml: `checked` of `a` is not a date"),
            (
                "[a]\nchecked = 2026-11-25\n",
                "a.toml: `checked` of `a` is in the future: 2026-11-25",
            ),
        ] {
            let error = facts(text, day(2026, 11, 24)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn old_facts_are_listed_with_their_age() {
        assert_eq!(table(&[], 90), "All facts were checked in the last 90 days.");
        let old = Fact { age: 115, table: "kernel.any".to_owned(), file: "compat.toml".to_owned() };
        let text = table(&[old], 90);
        assert!(
            text.starts_with("Facts that have not been checked for 90 days or more: 1."),
            "{text}"
        );
        assert!(text.ends_with("| 115 | `kernel.any` | compat.toml |"), "{text}");
    }

    /// Returns the tables that name a source but no date.
    fn undated(tables: &toml::Table, path: &str) -> Vec<String> {
        let has = |key: &str| tables.get(key).is_some_and(toml::Value::is_str);
        let is_fact = has("evidence") || has("source") && tables.contains_key("known");
        let own = is_fact && !tables.contains_key("checked");
        let below = tables.iter().flat_map(|(name, value)| {
            let rows = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let rows = rows.iter().filter_map(toml::Value::as_table);
            rows.flat_map(|row| undated(row, &format!("{path}.{name}"))).collect::<Vec<_>>()
        });
        own.then(|| path.to_owned()).into_iter().chain(below).collect()
    }

    #[test]
    fn every_fact_of_the_project_has_a_date() {
        let root = root().unwrap();
        let all = older(&root, 0).unwrap();
        assert!(all.len() > 250);
        assert!(all.iter().any(|one| one.file == debian_index::FILE), "the list has a date");
        for name in ["compat", "failures", "gpus", "lint", "versions"] {
            let text = std::fs::read_to_string(root.join(format!("versions/{name}.toml"))).unwrap();
            assert_eq!(undated(&text.parse().unwrap(), name), [""; 0]);
        }
        assert_eq!(undated(&"[a.b]\nevidence = 'x'".parse().unwrap(), "f"), ["f.a.b"]);
    }
}
