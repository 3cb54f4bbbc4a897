//! `versions/versions.toml`: the pins of all inputs of all images.
//!
//! Start at [`Pins`]; `read` in this folder fills it. The types hold the content of the file
//! without judging it: lints report stale or dangerous pins.

mod read;

use std::collections::{BTreeMap, BTreeSet};

pub use names::ManifestKind;
use names::{CommitId, Digest, GpuTarget, PinName, Repository, Sha256, Tag};

use crate::problem::nearest;

pub use read::{has_built_in, parse_versions};

/// The content of `versions.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    /// `SOURCE_DATE_EPOCH` of every image, in seconds since 1970-01-01 UTC: the time of the newest
    /// pin change, never the current time (reproducible-builds.org, "SOURCE_DATE_EPOCH
    /// specification").
    pub source_date_epoch: u64,
    /// Whether build-pipeline's own data files are the defaults of this project.
    pub has_built_in: bool,
    /// Git trees, by pin name.
    pub sources: BTreeMap<PinName, SourcePin>,
    /// Release archives, by pin name.
    pub archives: BTreeMap<PinName, ArchivePin>,
    /// Container images, by pin name.
    pub images: BTreeMap<PinName, ImagePin>,
    /// Sets of wheels or packages that belong together, by pin name.
    pub releases: BTreeMap<PinName, Release>,
}

/// A verified value, or none yet (`"unresolved"` in the file).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pinned<T> {
    /// The value.
    Resolved(T),
    /// No verified value is recorded yet.
    Unresolved,
}

/// A git tree at a full commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePin {
    /// The URL of the repository; `https` only.
    pub url: String,
    /// The tag or branch that the commit was resolved from, for people; it may have moved since.
    pub git_ref: Option<String>,
    /// The version, if it has one.
    pub version: Option<String>,
    /// The commit.
    pub commit: Pinned<CommitId>,
    /// The component under `patches/` whose patches apply to this tree, if there is one.
    pub patches: Option<String>,
    /// Build arguments that describe this tree, such as a build number that only git knows.
    pub args: BTreeMap<String, String>,
    /// Facts that every kind of pin has.
    pub facts: Facts,
}

/// A release archive with a known hash, from a Python package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivePin {
    /// The name of the project on the index, for example `vllm`.
    pub project: String,
    /// The version of the release.
    pub version: String,
    /// The hash of the archive.
    pub sha256: Pinned<Sha256>,
    /// The directory inside the archive to use, if not the whole archive.
    pub subdirectory: Option<String>,
    /// The component under `patches/` whose patches apply to this tree, if there is one.
    pub patches: Option<String>,
    /// Build arguments that describe this tree, such as a build number that only git knows.
    pub args: BTreeMap<String, String>,
    /// Facts that every kind of pin has.
    pub facts: Facts,
}

/// A container image at a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePin {
    /// The repository of the image.
    pub repository: Repository,
    /// The tag that the digest was resolved from, for people; it may have moved since.
    pub tag: Option<Tag>,
    /// The digest.
    pub digest: Pinned<Digest>,
    /// Whether the digest is that of an index or of a platform manifest, if known.
    pub kind: Option<ManifestKind>,
    /// Whether to follow the tag: its digest is looked up in each run and recorded.
    pub follow: bool,
    /// The ROCm release inside, if known, for example `7.2.1`.
    pub rocm: Option<String>,
    /// GPU targets for which the image is known to contain native code.
    pub gpus: Vec<GpuTarget>,
    /// Why the vendor no longer builds the image, and what replaces it.
    pub discontinued: Option<String>,
    /// Facts that every kind of pin has.
    pub facts: Facts,
}

/// A set of wheels or packages that belong together, and their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The index or repository that the set comes from. It is pinned too, because indexes move.
    pub index: String,
    /// Exact versions by package name.
    pub packages: BTreeMap<String, String>,
    /// Facts that every kind of pin has.
    pub facts: Facts,
}

/// Recorded facts about a pin of any kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The date on which the pin was last checked, as `YYYY-MM-DD`.
    pub checked: Option<String>,
    /// The date after which the pin is expected to be gone, as `YYYY-MM-DD`.
    pub expires: Option<String>,
    /// Where the value was read, for people.
    pub evidence: Option<String>,
    /// Why the pin must stay at its value, if it must.
    pub hold: Option<String>,
}

/// The kind of a pin, named after the tables of `versions.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinKind {
    /// `[source.NAME]`
    Source,
    /// `[archive.NAME]`
    Archive,
    /// `[image.NAME]`
    Image,
    /// `[release.NAME]`
    Release,
}

impl Pins {
    /// Returns these pins, plus the pins in `lower` that have other names.
    #[must_use]
    pub fn over(mut self, lower: &Self) -> Self {
        fn add<T: Clone>(
            to: &mut BTreeMap<PinName, T>,
            from: &BTreeMap<PinName, T>,
            own: &BTreeSet<PinName>,
        ) {
            let missing = from.iter().filter(|(name, _)| !own.contains(*name));
            to.extend(missing.map(|(name, pin)| (name.clone(), pin.clone())));
        }
        let own: BTreeSet<PinName> = self.names().into_keys().cloned().collect();
        add(&mut self.sources, &lower.sources, &own);
        add(&mut self.archives, &lower.archives, &own);
        add(&mut self.images, &lower.images, &own);
        add(&mut self.releases, &lower.releases, &own);
        self
    }

    /// Returns the names of all pins with their kinds, sorted by name.
    pub fn names(&self) -> BTreeMap<&PinName, PinKind> {
        let sources = self.sources.keys().map(|name| (name, PinKind::Source));
        let archives = self.archives.keys().map(|name| (name, PinKind::Archive));
        let images = self.images.keys().map(|name| (name, PinKind::Image));
        let releases = self.releases.keys().map(|name| (name, PinKind::Release));
        sources.chain(archives).chain(images).chain(releases).collect()
    }

    /// Returns the kind of a pin, if there is a pin with that name.
    pub fn kind(&self, name: &PinName) -> Option<PinKind> {
        let kinds = [
            (self.sources.contains_key(name), PinKind::Source),
            (self.archives.contains_key(name), PinKind::Archive),
            (self.images.contains_key(name), PinKind::Image),
            (self.releases.contains_key(name), PinKind::Release),
        ];
        kinds.into_iter().find(|(has, _)| *has).map(|(_, kind)| kind)
    }

    /// Returns the facts about a pin, if there is a pin with that name.
    pub fn facts(&self, name: &PinName) -> Option<&Facts> {
        let facts = [
            self.sources.get(name).map(|pin| &pin.facts),
            self.archives.get(name).map(|pin| &pin.facts),
            self.images.get(name).map(|pin| &pin.facts),
            self.releases.get(name).map(|pin| &pin.facts),
        ];
        facts.into_iter().flatten().next()
    }

    /// Returns why a pin must stay at its value, if it must.
    pub fn hold(&self, name: &PinName) -> Option<&str> {
        self.facts(name).and_then(|facts| facts.hold.as_deref())
    }

    /// Returns the pin name that `name` was most likely meant to be, if one is similar enough.
    pub fn nearest_name(&self, name: &str) -> Option<&PinName> {
        let names = self.names();
        let near = nearest(name, names.keys().map(|known| known.as_str()))?;
        names.into_keys().find(|known| known.as_str() == near)
    }
}

impl PinKind {
    /// All kinds, sorted by the names of their tables.
    pub const ALL: [Self; 4] = [Self::Archive, Self::Image, Self::Release, Self::Source];

    /// Returns the name of the table with the pins of this kind.
    pub fn table(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Archive => "archive",
            Self::Image => "image",
            Self::Release => "release",
        }
    }
}

impl<T> Pinned<T> {
    /// Returns the value, if it is known.
    pub fn resolved(&self) -> Option<&T> {
        match self {
            Self::Resolved(value) => Some(value),
            Self::Unresolved => None,
        }
    }
}
