//! Mirrors of registries and repositories, from `--mirror` and the user's configuration.
//!
//! Both use the same list of rules. If FROM is a URL (`https://…`), the rule is for git
//! repositories and package indexes; otherwise it is for registries. Rules on the command line take
//! precedence over the file.

use failure::{Failure, Kind};
use names::Secret;
use pins::ParseError;
use pins::reader::{Report, Reported, Table, document, quote, wrong};

use crate::environment;
use crate::folder::read_text;

/// An example of each kind of rule.
const EXAMPLES: [&str; 2] = [
    "docker.io=127.0.0.1:5000",
    "https://github.com/vllm-project=https://git.example.org/vllm-project",
];

/// The rules of a run.
#[derive(Debug, Clone, Default)]
pub struct Mirrors {
    /// For container registries.
    pub registries: Vec<oci::client::Mirror>,
    /// For git repositories, archives and package indexes.
    pub sources: Vec<sources::Mirror>,
}

/// One rule.
enum Rule {
    Registry(oci::client::Mirror),
    Source(sources::Mirror),
}

impl Rule {
    /// Parses `FROM` and `TO`, or returns why they are invalid.
    fn new(from: &str, to: &str) -> Result<Self, String> {
        // Check this before splitting them. The message names the side, with the secret hidden.
        for side in [Secret::from(from), Secret::from(to)] {
            if side.is_secret() {
                return Err(format!("`{side}` contains a user name, a password or a token"));
            }
        }
        if from.contains("://") {
            sources::Mirror::new(from, to).map(Self::Source).map_err(|e| e.to_string())
        } else {
            oci::client::Mirror::new(from, to).map(Self::Registry).map_err(|e| e.to_string())
        }
    }
}

impl Extend<Rule> for Mirrors {
    fn extend<T: IntoIterator<Item = Rule>>(&mut self, rules: T) {
        for rule in rules {
            match rule {
                Rule::Registry(mirror) => self.registries.push(mirror),
                Rule::Source(mirror) => self.sources.push(mirror),
            }
        }
    }
}

/// Returns the rules of the command line, `FROM=TO`, then those in the user's configuration.
///
/// # Errors
/// A rule is wrong or contains a password, or the configuration cannot be read.
pub fn read(given: &[Secret]) -> Result<Mirrors, Failure> {
    let mut mirrors = Mirrors::default();
    for text in given {
        let parts = text
            .expose()
            .split_once('=')
            .ok_or_else(|| "it does not have the form FROM=TO".to_owned());
        let rule = parts.and_then(|(from, to)| Rule::new(from, to)).map_err(|because| {
            let message = format!("cannot use `--mirror {text}`");
            let told = Failure::new(Kind::Input, message);
            EXAMPLES.iter().fold(Failure { causes: vec![because], ..told }, |told, example| {
                told.hint(format!("write `--mirror {example}`"))
            })
        })?;
        mirrors.extend([rule]);
    }
    let Some(file) = environment::config_file().filter(|file| file.is_file()) else {
        return Ok(mirrors);
    };
    let name = file.display().to_string();
    let text = read_text(&file).map_err(|error| {
        Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
    })?;
    mirrors.extend(parse(&name, &text).map_err(|error| Failure::places(error, text))?);
    Ok(mirrors)
}

/// Parses a configuration file: a table `[mirrors]` that maps FROM to TO.
fn parse(name: &str, text: &str) -> Result<Vec<Rule>, ParseError> {
    let mut report = Report::new(name, text);
    let rules = document(&mut report).and_then(|document| {
        let root = Table::root(&mut report, &document)?;
        root.check_keys(&mut report, &["schema", "mirrors"]);
        rules(&mut report, &root)
    });
    report.finish(rules)
}

fn rules(report: &mut Report<'_>, root: &Table<'_>) -> Result<Vec<Rule>, Reported> {
    let Some(entry) = root.get("mirrors") else { return Ok(Vec::new()) };
    let table = entry.table(report, "`[mirrors]`")?;
    let mut rules = Vec::new();
    for entry in table.entries() {
        rules.push(entry.checked_text(report, |to| {
            Rule::new(entry.key, to).map_err(|because| {
                let message = format!("cannot use the mirror of {}: {because}", quote(entry.key));
                let examples = EXAMPLES.map(|example| example.replacen('=', "\" = \"", 1));
                wrong(message, format!("write `\"{}\"` or `\"{}\"`", examples[0], examples[1]))
            })
        }));
    }
    // All problems are collected before the first one ends this.
    rules.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_rules_of_both_kinds() {
        let text = "schema = 1\n[mirrors]\n\"docker.io\" = \"127.0.0.1:5000\"\n\
                    \"https://github.com\" = \"http://127.0.0.1:8080/git\"\n";
        let mut mirrors = Mirrors::default();
        mirrors.extend(parse("config.toml", text).unwrap());
        assert_eq!((mirrors.registries.len(), mirrors.sources.len()), (1, 1));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_with_its_line() {
        for (text, wanted) in [
            ("schema = 1\n[mirror]\n", "did you mean `mirrors`?"),
            ("schema = 1\n[mirrors]\n\"https://github.com\" = \"ssh://x/y\"\n", "config.toml:3:24"),
            ("schema = 1\n[mirrors]\n\"docker.io\" = 5000\n", "text in quotes"),
            ("schema = 2\n", "newer build-pipeline"),
        ] {
            let error = parse("config.toml", text).err().unwrap().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
