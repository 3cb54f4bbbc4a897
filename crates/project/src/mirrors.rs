//! Mirrors of registries and repositories, from `--mirror` and the user's configuration.
//!
//! Both use the same list of rules `FROM=TO`. If FROM is a URL (`https://…`), the rule is for git
//! repositories, archives, Debian packages and package indexes; otherwise it is for registries.
//! Rules on the command line take precedence over the file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use debian::OldPackages;
use executor::Settings;
use failure::{Failure, Kind, MIRROR_ONLY};
use names::{Repository, Secret};
use oci::{ArtifactPlace, ParsePlaceError};
use pins::reader::{Report, Reported, Table, quote, wrong};
use plan::Plan;
use sources::{Hosts, Proxies};

use crate::config::Config;

/// An example of each kind of rule.
const EXAMPLES: [&str; 3] = [
    "docker.io=127.0.0.1:5000",
    "https://github.com/vllm-project=https://git.example.org/vllm-project",
    "all=registry:registry.example.org/ai/inputs",
];

/// The left side of a rule for everything that `mirror` copied. It cannot be a registry, because
/// the name of a registry contains a dot or a port, or is `localhost`.
const ALL: &str = "all";

/// The rules of a run.
#[derive(Debug, Clone, Default)]
pub struct Mirrors {
    /// For container registries.
    pub registries: Vec<oci::client::Mirror>,
    /// For git repositories, archives, Debian packages and package indexes.
    pub sources: Vec<sources::Mirror>,
    /// Bundles. With a bundle, a run contacts only the hosts that [`Mirrors::use_bundles`] allows.
    pub(crate) bundles: Vec<PathBuf>,
    /// Folders that `mirror` wrote.
    folders: Vec<PathBuf>,
    /// Repositories that `mirror` wrote.
    pub(crate) repositories: Vec<Repository>,
    /// Whether only the targets of these rules and the hosts in `old-packages` may be contacted.
    pub only: bool,
    /// The proxies in the user's configuration. Proxies in the environment replace them.
    pub proxies: Proxies,
    /// The places of the user's configuration that keep old Debian packages.
    old_packages: Option<Vec<OldPackages>>,
}

/// One rule.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Registry(oci::client::Mirror),
    Source(sources::Mirror),
    Folder(PathBuf),
    Repository(Repository),
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
        if from == ALL {
            Self::of_copy(to)
        } else if from.contains("://") {
            sources::Mirror::new(from, to).map(Self::Source).map_err(|e| e.to_string())
        } else {
            oci::client::Mirror::new(from, to).map(Self::Registry).map_err(|e| e.to_string())
        }
    }

    /// Parses the place of a copy.
    fn of_copy(to: &str) -> Result<Self, String> {
        match to.parse().map_err(|error: ParsePlaceError| error.to_string())? {
            ArtifactPlace::Folder(folder) => Ok(Self::Folder(folder.path().to_owned())),
            ArtifactPlace::Registry(repository) => Ok(Self::Repository(repository)),
        }
    }
}

impl Extend<Rule> for Mirrors {
    fn extend<T: IntoIterator<Item = Rule>>(&mut self, rules: T) {
        for rule in rules {
            match rule {
                Rule::Registry(mirror) => self.registries.push(mirror),
                Rule::Source(mirror) => self.sources.push(mirror),
                Rule::Folder(path) => self.folders.push(path),
                Rule::Repository(repository) => {
                    self.registries.push(oci::client::Mirror::copy(&repository));
                    self.repositories.push(repository);
                }
            }
        }
    }
}

impl Mirrors {
    /// Adds the rules of the user's configuration, after those of the command line.
    pub fn add(&mut self, config: &Config) {
        self.only |= config.mirror_only;
        self.extend(config.rules.iter().cloned());
        self.proxies = config.proxies.clone();
        self.old_packages.clone_from(&config.old_packages);
    }

    /// Makes bundles the only source, except for the targets of rules and the locations in
    /// `old-packages`.
    pub fn use_bundles(&mut self, bundles: &[PathBuf]) {
        self.bundles = bundles.to_vec();
        self.only |= !bundles.is_empty();
    }

    /// Returns whether there is a copy in which inputs can be looked up by digest.
    pub(crate) fn has_copies(&self) -> bool {
        !(self.bundles.is_empty() && self.folders.is_empty() && self.repositories.is_empty())
    }

    /// Returns the bundles and folders on this machine that contain inputs. Leaves out a folder
    /// that `mirror` has not finished yet.
    pub fn local_copies(&self) -> Vec<PathBuf> {
        let folders = self.folders.iter().filter(|folder| folder.join("index.json").exists());
        self.bundles.iter().chain(folders).cloned().collect()
    }

    /// Returns the places that keep Debian packages after the mirrors have deleted them: those in
    /// the user's configuration, or Debian's snapshot archive.
    pub fn old_packages(&self) -> Vec<OldPackages> {
        self.old_packages.clone().unwrap_or_else(|| vec![OldPackages::snapshots()])
    }

    /// Returns whether fetches may read local folders: if there is a rule for sources, or if a
    /// place in `old-packages` is a folder.
    pub(crate) fn allows_folders(&self) -> bool {
        let mut places = self.old_packages.iter().flatten();
        !self.sources.is_empty() || places.any(OldPackages::is_folder)
    }

    /// Returns the hosts that may be contacted.
    pub fn hosts(&self) -> Hosts {
        if !self.only {
            return Hosts::All;
        }
        let registries = self.registries.iter().map(oci::client::Mirror::host);
        let sources = self.sources.iter().filter_map(sources::Mirror::host);
        let old = self.old_packages.iter().flatten().filter_map(OldPackages::host);
        Hosts::Only(registries.chain(sources).chain(old).collect::<BTreeSet<_>>())
    }
}

impl Mirrors {
    /// Refuses a run with a step that uses the network, if only mirrors may be contacted: an engine
    /// does not apply the rules.
    ///
    /// # Errors
    /// There is such a step.
    pub fn check_network(&self, plan: &Plan, settings: &Settings) -> Result<(), Failure> {
        let step = executor::step_with_network(plan, settings).filter(|_| self.only);
        let Some(step) = step else { return Ok(()) };
        let what = format!(
            "step `{}` of track `{}` uses the network, but only mirrors may be contacted",
            step.id, plan.track
        );
        Err(Failure::new(Kind::Input, what)
            .hint("its stage has `network = true` in versions/tracks.toml: use a base image that already contains the packages, or locked packages (`packages = \"LOCK\"`)")
            .hint("a build without `--mirror-only` finishes the step, and later runs use the cached result")
            .hint(MIRROR_ONLY))
    }
}

/// Returns the rules of the command line, `FROM=TO`. `only` means that the command line forbids all
/// other hosts.
///
/// # Errors
/// A rule is wrong or contains a password.
pub fn read(given: &[Secret], only: bool) -> Result<Mirrors, Failure> {
    let mut mirrors = Mirrors { only, ..Mirrors::default() };
    for text in given {
        let parts = text
            .expose()
            .split_once('=')
            .ok_or_else(|| "it does not have the form FROM=TO".to_owned());
        let rule = parts.and_then(|(from, to)| Rule::new(from, to)).map_err(|because| {
            let message = format!("cannot use `--mirror {text}`");
            let told = Failure::new(Kind::Input, message);
            EXAMPLES.iter().fold(Failure { causes: vec![because], ..told }, |told, example| {
                told.hint(format!("use `--mirror {example}`"))
            })
        })?;
        mirrors.extend([rule]);
    }
    Ok(mirrors)
}

/// Reads the table `[mirrors]` of a configuration file, which maps FROM to TO.
pub(crate) fn rules(report: &mut Report<'_>, root: &Table<'_>) -> Result<Vec<Rule>, Reported> {
    let Some(mirrors) = root.get("mirrors") else { return Ok(Vec::new()) };
    let table = mirrors.table(report, "`[mirrors]`")?;
    let mut rules = Vec::new();
    for entry in table.entries() {
        rules.push(entry.checked_text(report, |to| {
            let rule = Rule::new(entry.key, to).and_then(|rule| match rule {
                Rule::Folder(path) if path.is_relative() => {
                    Err("the path of a folder must be absolute".to_owned())
                }
                rule => Ok(rule),
            });
            rule.map_err(|because| {
                let message = format!("cannot use the mirror of {}: {because}", quote(entry.key));
                let examples = EXAMPLES.map(|example| example.replacen('=', "\" = \"", 1));
                let [first, second, third] = examples;
                wrong(message, format!("write `\"{first}\"`, `\"{second}\"` or `\"{third}\"`"))
            })
        }));
    }
    // All problems are collected before the first one is returned.
    rules.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_a_folder_or_a_repository() {
        let rules =
            ["all=dir:/srv/copy", "all=registry:127.0.0.1:5000/ai/inputs"].map(Secret::from);
        let mut mirrors = read(&rules, true).unwrap();
        assert_eq!(mirrors.folders, [PathBuf::from("/srv/copy")]);
        assert_eq!(mirrors.hosts(), Hosts::Only(["127.0.0.1:5000".to_owned()].into()));
        mirrors.use_bundles(&["a.tar".into()]);
        assert_eq!(mirrors.local_copies(), [PathBuf::from("a.tar")], "the folder does not exist");
        for (text, why) in [
            ("all=/srv/copy", "nor `dir:PATH`"),
            ("all=dir:", "nor `dir:PATH`"),
            ("all=registry:x", "not a repository"),
            ("all=registry:127.0.0.1:5000/a:b", "has a tag"),
        ] {
            let failure = read(&[Secret::from(text)], false).unwrap_err();
            assert!(failure.causes[0].contains(why), "{text}: {failure:?}");
        }
    }

    #[test]
    fn only_the_targets_of_rules_may_be_asked() {
        let rules: Vec<Secret> =
            ["docker.io=127.0.0.1:5000/hub", "https://github.com=https://git.example.org/x"]
                .map(Secret::from)
                .into();
        let mirrors = read(&rules, false).unwrap();
        assert_eq!(mirrors.hosts(), Hosts::All);
        let mirrors = read(&rules, true).unwrap();
        let hosts = ["127.0.0.1:5000", "git.example.org"].map(str::to_owned);
        assert_eq!(mirrors.hosts(), Hosts::Only(hosts.into()));
    }
}
