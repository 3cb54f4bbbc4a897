//! Fetches pinned sources into the cache.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use failure::{Failure, Kind, no_mirror_hint};
use names::{CommitId, Secret, Sha256};
use pins::{ArchivePin, Pinned, Pins, SourcePin};
use sources::{
    ArchiveLimits, ArchiveSource, Event, GitSource, Mirror, ReleaseFile, Settings, SourceUrl,
    Sources, Submodules, Tree,
};

use crate::copies::InputCopies;
use crate::mirrors::Mirrors;
use crate::{environment, runtime};

/// A pin of a source tree.
#[derive(Debug, Clone, Copy)]
pub enum TreePin<'a> {
    /// A commit of a repository.
    Git(&'a SourcePin),
    /// A release archive.
    Archive(&'a ArchivePin),
}

impl<'a> TreePin<'a> {
    /// Returns the pin with the given name.
    ///
    /// # Errors
    /// No pin of a source tree has this name.
    pub fn find(pins: &'a Pins, name: &str) -> Result<Self, Failure> {
        if let Some(pin) = pins.sources.get(name) {
            return Ok(Self::Git(pin));
        }
        if let Some(pin) = pins.archives.get(name) {
            return Ok(Self::Archive(pin));
        }
        let told = Failure::new(Kind::Input, format!("`{name}` is not a source pin"));
        let known = pins.sources.keys().chain(pins.archives.keys()).map(names::PinName::as_str);
        let otherwise =
            "`[source.…]` and `[archive.…]` in `versions/versions.toml` list the source pins";
        Err(told.did_you_mean(name, known, otherwise))
    }

    /// Returns all pins of source trees to which a component's patches apply, by name.
    pub fn of_component(pins: &'a Pins, component: &str) -> BTreeMap<&'a str, Self> {
        let fits = |patches: &Option<String>| patches.as_deref() == Some(component);
        let git = pins.sources.iter().filter(|(_, pin)| fits(&pin.patches));
        let archives = pins.archives.iter().filter(|(_, pin)| fits(&pin.patches));
        let git = git.map(|(name, pin)| (name.as_str(), Self::Git(pin)));
        git.chain(archives.map(|(name, pin)| (name.as_str(), Self::Archive(pin)))).collect()
    }

    /// Returns the version in the pin.
    pub fn version(&self) -> Option<&'a str> {
        match self {
            Self::Git(pin) => pin.version.as_deref(),
            Self::Archive(pin) => Some(&pin.version),
        }
    }

    /// Returns whether the commit or hash is known.
    pub fn is_resolved(&self) -> bool {
        match self {
            Self::Git(pin) => matches!(pin.commit, Pinned::Resolved(_)),
            Self::Archive(pin) => matches!(pin.sha256, Pinned::Resolved(_)),
        }
    }

    /// Returns a description of the pin: `URL at COMMIT` or `PROJECT VERSION, sha256 HASH`.
    pub fn what(&self) -> String {
        match self {
            Self::Git(pin) => {
                let commit = pin.commit.resolved().map_or("unresolved", CommitId::as_str);
                format!("{} at {commit}", pin.url)
            }
            Self::Archive(pin) => {
                let hash = pin.sha256.resolved().map_or("unresolved", Sha256::as_str);
                format!("{} {}, sha256 {hash}", pin.project, pin.version)
            }
        }
    }
}

/// Fetches sources.
#[derive(Debug)]
pub struct Fetcher {
    sources: Sources,
    runtime: tokio::runtime::Runtime,
    /// The index given on the command line.
    index: Option<String>,
}

impl Fetcher {
    /// Creates a fetcher that uses `sources`. Makes no requests yet.
    ///
    /// # Errors
    /// The machine cannot start threads.
    pub fn new(sources: Sources) -> Result<Self, Failure> {
        Ok(Self { sources, runtime: runtime::start()?, index: None })
    }

    /// Returns the fetcher with the given Python package index, if there is one.
    pub fn at(self, index: Option<&str>) -> Self {
        Self { index: index.map(str::to_owned), ..self }
    }

    /// Returns the tree of a pin, from the cache if possible.
    ///
    /// # Errors
    /// The pin is unresolved, or its source cannot be fetched.
    pub fn tree(
        &self,
        name: &str,
        pin: TreePin<'_>,
        submodules: Submodules,
    ) -> Result<Tree, Failure> {
        match pin {
            TreePin::Git(pin) => {
                let Pinned::Resolved(commit) = &pin.commit else {
                    return Err(unresolved(name, "commit", &format!("at `{}`", pin.url)));
                };
                let url = url(&pin.url)?;
                let source = GitSource { url, commit: commit.clone(), submodules };
                let fetched = self.runtime.block_on(self.sources.fetch_git(&source))?;
                Ok(fetched.tree)
            }
            TreePin::Archive(pin) => {
                let Pinned::Resolved(sha256) = &pin.sha256 else {
                    return Err(unresolved(name, "sha256", "on the package index"));
                };
                let archive = self.archive(&pin.project, &pin.version, sha256)?;
                Ok(archive.tree(&ArchiveLimits::default(), pin.subdirectory.as_deref())?)
            }
        }
    }

    /// Returns an archive by its hash. Looks up its location only if it is not in the cache.
    fn archive(
        &self,
        project: &str,
        version: &str,
        sha256: &Sha256,
    ) -> Result<sources::Archive, Failure> {
        let source = ArchiveSource {
            project: project.to_owned(),
            version: version.to_owned(),
            sha256: sha256.clone(),
            url: None,
        };
        // Querying pip takes a while, so do it only if the archive is not cached.
        let cached = self.runtime.block_on(self.sources.fetch_archive(&source));
        if !cached.as_ref().is_err_and(|error| error.kind() == sources::ErrorKind::NotFound) {
            return Ok(cached?);
        }
        let index = index(self.index.as_deref())?;
        Ok(self.runtime.block_on(self.sources.fetch_release(Some(&index), source))?)
    }

    /// Returns the files that a project has released on the given index, or on pip's.
    ///
    /// # Errors
    /// The index cannot be queried.
    pub fn releases(&self, project: &str) -> Result<Vec<ReleaseFile>, Failure> {
        let index = index(self.index.as_deref())?;
        Ok(self.runtime.block_on(self.sources.releases(&index, project))?)
    }

    /// Returns the tree of a released source archive, whose hash comes from the index alone.
    /// Returns `None` if the index has no hash for the archive.
    ///
    /// # Errors
    /// The archive cannot be fetched or read.
    pub fn release(
        &self,
        project: &str,
        version: &str,
        file: &ReleaseFile,
        subdirectory: Option<&str>,
    ) -> Result<Option<Tree>, Failure> {
        let Some(sha256) = &file.sha256 else { return Ok(None) };
        let source = ArchiveSource {
            project: project.to_owned(),
            version: version.to_owned(),
            sha256: sha256.clone(),
            url: Some(file.url.clone()),
        };
        let archive = self.runtime.block_on(self.sources.fetch_archive(&source))?;
        Ok(Some(archive.tree(&ArchiveLimits::default(), subdirectory)?))
    }
}

/// Creates the client for sources. `listener` receives the events of fetches.
///
/// # Errors
/// There is no home directory for a cache, a bundle or copy cannot be opened, or a proxy variable
/// is wrong.
pub fn sources(
    mirrors: &Mirrors,
    listener: impl Fn(Event<'_>) + Send + Sync + 'static,
) -> Result<Sources, Failure> {
    let cache = environment::cache_folder().ok_or_else(|| {
        Failure::new(Kind::Machine, "no home directory to keep sources in")
            .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
    })?;
    // A user's mirror rule may point to a local path; a URL in a data file must not.
    let settings = Settings {
        allow_local: mirrors.allows_folders(),
        mirrors: mirrors.sources.clone(),
        hosts: mirrors.hosts(),
        copies: InputCopies::of(mirrors)?,
        proxies: environment::proxies(&mirrors.proxies)?,
        ..Settings::new(cache.join("sources"))
    };
    Ok(Sources::new(settings).with_listener(listener))
}

/// Returns the Python package index to use: the given one, or pip's.
///
/// # Errors
/// The URL is wrong.
pub fn index(named: Option<&str>) -> Result<SourceUrl, Failure> {
    match named {
        Some(text) => text.parse().map_err(|error: sources::ParseSourceError| {
            let what = format!("cannot use `--index {}`", Secret::from(text));
            Failure::caused(Kind::Input, what, &error)
                .hint("write a URL, for example `--index https://pypi.org/simple`")
        }),
        None => url(&python_index()),
    }
}

/// Returns the URL after applying mirrors.
///
/// # Errors
/// A mirror rule gives an invalid URL, or no rule applies and only mirrors may be contacted.
pub fn mirrored(mirrors: &Mirrors, url: &SourceUrl) -> Result<SourceUrl, Failure> {
    let place = Mirror::resolve(&mirrors.sources, url)
        .map_err(|error| Failure::from_chain(Kind::Input, &error))?;
    if mirrors.hosts().allows(place.url()) {
        return Ok(place);
    }
    let server = place.server();
    let what = format!("`{server}` must not be contacted, and no mirror rule covers it");
    Err(no_mirror_hint(Failure::new(Kind::Input, what), &server))
}

/// Parses the URL of a source.
///
/// # Errors
/// It is not the URL of a source.
pub fn url(text: &str) -> Result<SourceUrl, Failure> {
    text.parse()
        .map_err(|error: sources::ParseSourceError| Failure::from_chain(Kind::Input, &error))
}

/// Returns the error for a pin without a value. `place` says where its `key` is looked up.
fn unresolved(name: &str, key: &str, place: &str) -> Failure {
    Failure::new(Kind::Input, format!("pin `{name}` is unresolved"))
        .hint(format!(
            "`build-pipeline bump {name}` looks up its `{key}` {place} and writes it into `versions/versions.toml`"
        ))
        .hint("`--pin NAME` selects another pin, and `--root DIR` a local tree")
}

/// The public index of Python packages, which is pip's default.
const PUBLIC_INDEX: &str = "https://pypi.org/simple";

/// Returns the URL of the package index: the one that pip is configured to use, or the public one.
pub fn python_index() -> String {
    if let Some(index) = environment::python_index() {
        return index.expose().to_owned();
    }
    // pip's help shows the effective value, including the one from its configuration files.
    let help = Command::new("python3")
        .args(["-m", "pip", "download", "--help"])
        .env("COLUMNS", "1000")
        .stdin(Stdio::null())
        .output();
    let text = help.map(|help| String::from_utf8_lossy(&help.stdout).into_owned());
    let told = text.ok().and_then(|text| index_in_help(&text));
    told.unwrap_or_else(|| PUBLIC_INDEX.to_owned())
}

/// Returns the default of `--index-url` from pip's help.
fn index_in_help(text: &str) -> Option<String> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, behind) = words.split_once("--index-url <url>")?;
    let (_, default) = behind.split_once("(default ")?;
    let (url, _) = default.split_once(')')?;
    Some(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_read_out_of_pips_help() {
        let help = "  -i, --index-url <url>       Base URL of the Python Package Index (default\n                              https://index.example.org/simple). This should\n";
        assert_eq!(index_in_help(help).as_deref(), Some("https://index.example.org/simple"));
        assert_eq!(index_in_help("Usage: pip"), None);
    }
}
