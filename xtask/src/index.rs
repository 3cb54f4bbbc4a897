//! `index python LIST DATE`: writes the names of the Python index that `lint` knows.
//!
//! LIST has one package a line, with tabs between its columns. The first line names them: `name`,
//! and `rank…` for the place among the packages that are downloaded most often. Nothing is
//! downloaded. An index asks its users not to fetch its whole list for every run, so the person who
//! runs the chore brings the list.

use std::path::Path;

use anyhow::{Context as _, Result};
use lint::registry::{names, normal};

use crate::run::root;
use crate::say;

/// The set of all names.
pub(crate) const NAMES: &str = "crates/lint/src/registry/python/names.bin";

/// The names that are downloaded most often.
const POPULAR: &str = "crates/lint/src/registry/python/popular.txt";

/// Writes both files from a list, which was made on `date`, `YYYY-MM-DD`.
pub(crate) fn python(list: &str, date: &str) -> Result<()> {
    let text = std::fs::read_to_string(list).with_context(|| list.to_owned())?;
    let (all, popular) = columns(&text)?;
    let bytes = names::encode(all.iter().map(String::as_str), date)
        .with_context(|| format!("`{date}` is not a date like 2026-11-30"))?;
    let root = root()?;
    let write = |name: &str, content: &[u8]| {
        std::fs::write(root.join(name), content).context(name.to_owned())
    };
    write(NAMES, &bytes)?;
    write(POPULAR, format!("{}\n", popular.join("\n")).as_bytes())?;
    say(&format!("{} names in {} bytes, {} popular", all.len(), bytes.len(), popular.len()));
    Ok(())
}

/// Returns the date of the names in a project; `None` if it has no such file.
pub(crate) fn date(project: &Path) -> Option<String> {
    let bytes = std::fs::read(project.join(NAMES)).ok()?;
    Some(names::Names::read(&bytes)?.date.to_owned())
}

/// Returns all names of a list, and the popular ones in the order of their rank.
fn columns(text: &str) -> Result<(Vec<String>, Vec<String>)> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let column = |start: &str| {
        let at = head.iter().position(|one| one.starts_with(start));
        at.with_context(|| format!("the first line of the list has no column `{start}`"))
    };
    let (name, rank) = (column("name")?, column("rank")?);
    let (mut all, mut popular) = (Vec::new(), Vec::new());
    for line in lines.filter(|line| !line.is_empty()) {
        let values: Vec<&str> = line.split('\t').collect();
        let own = normal(values.get(name).copied().unwrap_or_default());
        if let Some(place) = values.get(rank).and_then(|rank| rank.parse::<u32>().ok()) {
            popular.push((place, own.clone()));
        }
        all.push(own);
    }
    popular.sort();
    Ok((all, popular.into_iter().map(|(_, own)| own).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_by_the_names_of_its_columns() {
        let text = "name\tversion\trank_of_all\nB_b\t1\t2\na\t2\t\nC\t1\t1\n";
        let (all, popular) = columns(text).unwrap();
        assert_eq!(all, ["b-b", "a", "c"]);
        assert_eq!(popular, ["c", "b-b"]);
        let error = columns("name\tversion\n").unwrap_err().to_string();
        assert_eq!(error, "the first line of the list has no column `rank`");
    }

    #[test]
    fn the_names_of_the_project_have_a_date() {
        assert_eq!(date(&root().unwrap()).map(|date| date.len()), Some(10));
        assert_eq!(date(Path::new("/nonexistent")), None);
    }
}
