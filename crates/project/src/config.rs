//! The user's configuration: defaults for options, and mirrors.
//!
//! The command line and the environment take precedence over it.

use std::path::{Path, PathBuf};

use debian::OldPackages;
use failure::{Failure, Kind};
use names::{EngineKind, Secret};
use pins::ParseError;
use pins::reader::{Report, Reported, Table, Wrong, document, quote, wrong};

use crate::environment;
use crate::folder::read_text;
use crate::mirrors::{Rule, rules};

/// The keys of the file, except `schema`.
const KEYS: [&str; 7] =
    ["schema", "output", "engine", "cache", "mirror-only", "old-packages", "mirrors"];

/// The content of the file. Absent keys mean the program's own defaults.
#[derive(Debug, Default)]
pub struct Config {
    /// The output of builds for which the command line names none.
    pub output: Option<Secret>,
    /// The value of `--engine`.
    pub engine: Option<&'static str>,
    /// The folder of the cache.
    pub cache: Option<PathBuf>,
    /// Whether only mirrors may be asked.
    pub mirror_only: bool,
    /// Places that keep Debian packages which the mirrors have deleted.
    pub(crate) old_packages: Option<Vec<OldPackages>>,
    /// The mirrors.
    pub(crate) rules: Vec<Rule>,
}

/// Returns the user's configuration; an empty one if there is no file.
///
/// # Errors
/// The file cannot be read, or something in it is wrong.
pub fn read() -> Result<Config, Failure> {
    let Some(file) = environment::config_file().filter(|file| file.is_file()) else {
        return Ok(Config::default());
    };
    let name = file.display().to_string();
    let text = read_text(&file).map_err(|error| {
        Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
    })?;
    parse(&name, &text).map_err(|error| Failure::places(error, text))
}

fn parse(name: &str, text: &str) -> Result<Config, ParseError> {
    let mut report = Report::new(name, text);
    let config = document(&mut report).and_then(|document| {
        let root = Table::root(&mut report, &document)?;
        root.check_keys(&mut report, &KEYS);
        config(&mut report, &root)
    });
    report.finish(config)
}

fn config(report: &mut Report<'_>, root: &Table<'_>) -> Result<Config, Reported> {
    // All problems are collected before the first one ends this.
    let output = root.optional(report, "output", output);
    let engine = root.optional(report, "engine", engine);
    let cache = root.optional(report, "cache", cache);
    let mirror_only = root.flag(report, "mirror-only");
    let old_packages = root.get("old-packages").map(|_| {
        let example = "file:///srv/packages/{sha256}";
        root.texts(report, "old-packages", example, old_packages)
    });
    let rules = rules(report, root);
    Ok(Config {
        output: output?,
        engine: engine?,
        cache: cache?,
        mirror_only: mirror_only?,
        old_packages: old_packages.transpose()?,
        rules: rules?,
    })
}

fn output(text: &str) -> Result<Secret, Wrong> {
    let output = Secret::from(text);
    if output.is_secret() {
        let message = format!("`output` contains a user name, a password or a token: `{output}`");
        return Err(wrong(message, "write it without them, and log in with `podman login HOST`"));
    }
    if text.contains("{track}") {
        return Ok(output);
    }
    let message = format!("`output` is the same for all tracks: {}", quote(text));
    Err(wrong(message, "write a name with `{track}`, such as `output = \"oci:dist/{track}\"`"))
}

fn engine(text: &str) -> Result<&'static str, Wrong> {
    let known = || std::iter::once("auto").chain(EngineKind::ALL.iter().map(|one| one.as_str()));
    known().find(|one| *one == text).ok_or_else(|| {
        let all = pins::reader::list(known());
        wrong(format!("{} is not an engine", quote(text)), format!("the engines are {all}"))
    })
}

fn old_packages(text: &str) -> Result<OldPackages, Wrong> {
    let place = Secret::from(text);
    if place.is_secret() {
        let message = format!("`{place}` contains a user name, a password or a token");
        return Err(wrong(message, "write the URL without them"));
    }
    text.parse().map_err(|error: debian::OldPackagesError| {
        wrong(error.to_string(), "write, for example, `\"file:///srv/packages/{sha256}\"`")
    })
}

fn cache(text: &str) -> Result<PathBuf, Wrong> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let message = format!("`cache` is not an absolute path: {}", quote(text));
    Err(wrong(message, "write a path from `/`, such as `cache = \"/srv/build-pipeline\"`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_every_key() {
        let text = "schema = 1\noutput = \"oci:out/{track}\"\nengine = \"docker\"\n\
                    cache = \"/srv/cache\"\nmirror-only = true\n\
                    old-packages = [\"https://old.example.org/{file}\"]\n\
                    [mirrors]\n\"docker.io\" = \"127.0.0.1:5000\"\n\
                    \"https://github.com\" = \"http://127.0.0.1:8080/git\"\n";
        let config = parse("config.toml", text).unwrap();
        assert_eq!(config.output.as_ref().unwrap().expose(), "oci:out/{track}");
        assert_eq!(config.engine, Some("docker"));
        assert_eq!(config.cache.as_deref(), Some(Path::new("/srv/cache")));
        let mut mirrors = crate::mirrors::Mirrors::default();
        mirrors.add(&config);
        assert!(mirrors.only);
        assert_eq!((mirrors.registries.len(), mirrors.sources.len()), (1, 1));
        assert_eq!(mirrors.old_packages(), ["https://old.example.org/{file}".parse().unwrap()]);
        let sources::Hosts::Only(hosts) = mirrors.hosts() else { panic!() };
        assert!(hosts.contains("old.example.org"), "{hosts:?}");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_with_its_line() {
        for (text, wanted) in [
            ("schema = 1\n[mirror]\n", "did you mean `mirrors`?"),
            ("schema = 1\n[mirrors]\n\"https://github.com\" = \"ssh://x/y\"\n", "config.toml:3:24"),
            ("schema = 1\n[mirrors]\n\"docker.io\" = 5000\n", "text in quotes"),
            ("schema = 2\n", "newer build-pipeline"),
            ("schema = 1\nengin = \"docker\"\n", "did you mean `engine`?"),
            ("schema = 1\nengine = \"dokcer\"\n", "the engines are"),
            ("schema = 1\noutput = \"oci:dist\"\n", "write a name with `{track}`"),
            ("schema = 1\noutput = \"registry:u:p@h.example/{track}\"\n", "a password or a token"),
            ("schema = 1\ncache = \"cache\"\n", "config.toml:2:9"),
            ("schema = 1\nmirror-only = \"yes\"\n", "`true` or `false`"),
            ("schema = 1\nold-packages = [\"https://a.test/{name}\"]\n", "unknown placeholder"),
            ("schema = 1\nold-packages = [\"https://u:p@a.test/{file}\"]\n", "without them"),
        ] {
            let error = parse("config.toml", text).err().unwrap().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
