//! `index options PROGRAM FILE`: adds new options of a program to the table that `lint` knows.
//!
//! FILE holds what `PROGRAM --help` prints. An option that the help does not list is only printed:
//! it may need another build of the program, and a person decides whether it is `gone`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;

use crate::run::root;
use crate::say;

/// The tables.
pub(crate) const TABLES: &str = "crates/lint/data/options.txt";

/// Adds the options that a help text lists to the table of a program.
pub(crate) fn run(program: &str, file: &str) -> Result<()> {
    let help = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let listed = listed(&help)?;
    ensure!(
        !listed.is_empty(),
        "{file} lists no option; it must hold what `{program} --help` prints"
    );
    let path = root()?.join(TABLES);
    let text = std::fs::read_to_string(&path).context(TABLES)?;
    let compared = compare(&text, program, &listed)?;
    for line in &compared.added {
        say(&format!("added: {line}"));
    }
    for name in &compared.missing {
        say(&format!("not in the help, remove it or mark it as `gone`: {name}"));
    }
    std::fs::write(&path, compared.text).context(TABLES)
}

/// Returns the programs of a project's tables, and when each table was checked.
pub(crate) fn dates(project: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(project.join(TABLES)).unwrap_or_default();
    let (mut program, mut dates) = ("", Vec::new());
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("program ") {
            program = words;
        } else if let Some(date) = line.strip_prefix("checked ") {
            dates.push((program.to_owned(), date.to_owned()));
        }
    }
    dates
}

/// A table after its comparison with a help text.
#[derive(Debug)]
struct Compared {
    /// All tables, with the added lines.
    text: String,
    added: Vec<String>,
    /// The names that the table has and the help has not.
    missing: Vec<String>,
}

/// Returns the tables with the listed options of one program; fails if it has no table.
fn compare(text: &str, program: &str, listed: &[Listed]) -> Result<Compared> {
    let head = format!("program {program}");
    let from = text.lines().position(|line| line == head);
    let from = from.with_context(|| format!("{TABLES} has no line `{head}`"))?;
    let lines: Vec<&str> = text.lines().collect();
    let rest = lines.iter().skip(from + 1);
    let length = rest.take_while(|line| !line.starts_with("program ")).count();
    let (before, table) = lines.split_at(from);
    let (table, after) = table.split_at(1 + length);

    let is_option = |line: &&&str| line.starts_with('-');
    let options: BTreeSet<&str> =
        table.iter().filter(is_option).flat_map(|line| names(line)).collect();
    let gone = table.iter().filter_map(|line| line.strip_prefix("gone ")).flat_map(names);
    let gone: BTreeSet<&str> = gone.collect();
    let in_help: BTreeSet<&str> =
        listed.iter().flat_map(|one| &one.names).map(String::as_str).collect();
    let missing = options.difference(&in_help).map(|&name| name.to_owned()).collect();

    let mut added = Vec::new();
    for one in listed {
        let is_new =
            |name: &&String| !options.contains(name.as_str()) && !gone.contains(name.as_str());
        let new: Vec<&str> = one.names.iter().filter(is_new).map(String::as_str).collect();
        if !new.is_empty() {
            added.push(format!("{}{}", new.join(" "), one.value));
        }
    }
    // The new lines follow the last option, before the lines of those that are gone.
    let at =
        table.iter().rposition(|line| line.starts_with('-')).map_or(table.len(), |last| last + 1);
    let (known, others) = table.split_at(at);
    let added_lines: Vec<&str> = added.iter().map(String::as_str).collect();
    let tables = [before, known, added_lines.as_slice(), others, after].concat().join("\n") + "\n";
    Ok(Compared { text: tables, added, missing })
}

/// Returns the names on a line of a table.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let (names, _) = line.split_once(" = ").unwrap_or((line, ""));
    names.split_whitespace().take_while(|&word| word.starts_with('-'))
}

/// An option that a help text lists.
#[derive(Debug)]
struct Listed {
    names: Vec<String>,
    /// ` = ` and its value, as a table writes it; empty if it has none.
    value: String,
}

/// Returns the options of a help text of llama.cpp's programs or of Python's argparse. Such an
/// option starts its line, after up to four spaces.
fn listed(help: &str) -> Result<Vec<Listed>> {
    let option = r"--?[0-9A-Za-z][0-9A-Za-z_.-]*(?:[ =]([^ ,-][^ ]*?))?";
    let line = Regex::new(&format!(r"(?m)^ {{0,4}}({option}(?:(?:, *| ){option})*)(?:,? |$)"))?;
    let option = Regex::new(&format!(r"{option}(?:,? |$)"))?;
    let listed = line.captures_iter(help).map(|line| {
        let mut listed = Listed { names: Vec::new(), value: String::new() };
        for one in option.captures_iter(&line[1]) {
            let name = one[0].split([' ', '=', ',']).next().unwrap_or_default();
            listed.names.push(name.trim().to_owned());
            if let Some(written) = one.get(1) {
                listed.value = table_value(written.as_str());
            }
        }
        listed
    });
    Ok(listed.collect())
}

/// Returns a value as a table writes it.
fn table_value(written: &str) -> String {
    let inner = |open: char, close: char| {
        let inner = written.strip_prefix(open)?.split_once(close)?.0;
        Some(inner.replace(',', "|"))
    };
    let choices = inner('<', '>').or_else(|| inner('{', '}')).or_else(|| inner('[', ']'));
    match choices {
        Some(choices) if choices.contains('|') && !choices.contains("...") => {
            format!(" = {choices}")
        }
        // argparse writes a value that may be absent in brackets.
        Some(_) if written.starts_with('[') => " = ANY".to_owned(),
        _ => " = TEXT".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_both_kinds_of_help_are_read() {
        let help = "\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of threads (default: -1)
                                        --threads 4 is written here
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
--rope-scaling {none,linear,yarn}       scaling method
--poll <0...100>                        polling level
  -ot --override-tensor <name>=<type>;...
  --delay <0...N> (seconds)             delay between tests
  --mmap, --no-mmap     One or the other. (default: True)
  --api-key API_KEY [API_KEY ...]
  --quantization {awq,gptq}, -q {awq,gptq}
  --config [CONFIG]     a file
";
        let read: Vec<String> = listed(help)
            .unwrap()
            .iter()
            .map(|one| format!("{}{}", one.names.join(" "), one.value))
            .collect();
        let expected = [
            "-h --help --usage",
            "-t --threads = TEXT",
            "-fa --flash-attn = on|off|auto",
            "--rope-scaling = none|linear|yarn",
            "--poll = TEXT",
            "-ot --override-tensor = TEXT",
            "--delay = TEXT",
            "--mmap --no-mmap",
            "--api-key = TEXT",
            "--quantization -q = awq|gptq",
            "--config = ANY",
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn new_options_are_added_and_others_are_named() {
        let tables =
            "program a\nname A\n-x --long\n--old = INT\ngone --gone = : -x\n\nprogram b\n-x\n";
        let help =
            listed("-x, --long  text\n--gone N  it has been removed\n--new N, --other N  text\n");
        let compared = compare(tables, "a", &help.unwrap()).unwrap();
        let added = "program a\nname A\n-x --long\n--old = INT\n--new --other = TEXT\n";
        assert!(compared.text.starts_with(added), "{}", compared.text);
        assert!(compared.text.ends_with("gone --gone = : -x\n\nprogram b\n-x\n"));
        assert_eq!(compared.missing, ["--old"]);
        let unknown = compare(tables, "c", &[]).unwrap_err().to_string();
        assert_eq!(unknown, "crates/lint/data/options.txt has no line `program c`");
    }
}
