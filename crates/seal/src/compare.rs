//! Compares listings, and says of every difference what kind it is.

use std::collections::BTreeMap;
use std::fmt;

use crate::entry::{Entry, Kind};
use crate::listing::Listing;
use crate::path::EntryPath;

/// What kind a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The time of the last change.
    Time,
    /// Python bytecode: its content, or that it is there.
    Bytecode,
    /// A log: its content, or that it is there.
    Log,
    /// A cache: its content, or that it is there.
    Cache,
    /// The order of entries in the tar.
    Order,
    /// Extended attributes.
    Xattr,
    /// Mode, owner or group.
    Owner,
    /// The path is in one of both only.
    Path,
    /// The content, or what the path is. Why, the listings cannot say.
    Content,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::Bytecode => "pyc",
            Self::Log => "log",
            Self::Cache => "cache",
            Self::Order => "order",
            Self::Xattr => "xattr",
            Self::Owner => "mode/owner",
            Self::Path => "path",
            Self::Content => "content",
        })
    }
}

/// A difference between two layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which layer, counted from 0.
    pub layer: usize,
    /// Where.
    pub path: EntryPath,
    /// Of what kind.
    pub cause: Cause,
    /// What there is on the left; nothing, if the path is not there.
    pub left: Option<Entry>,
    /// What there is on the right.
    pub right: Option<Entry>,
}

/// Compares the layers of two images, each with the one that has the same place. A path with
/// several kinds of difference comes several times.
pub fn compare(left: &[Listing], right: &[Listing]) -> Vec<Difference> {
    let none = Listing::default();
    let count = left.len().max(right.len());
    let at =
        |layers: &[Listing], number| -> Listing { layers.get(number).unwrap_or(&none).clone() };
    (0..count).flat_map(|layer| compare_layer(layer, &at(left, layer), &at(right, layer))).collect()
}

fn compare_layer(layer: usize, left: &Listing, right: &Listing) -> Vec<Difference> {
    let by_path = |listing: &Listing| -> BTreeMap<(EntryPath, bool), Entry> {
        let entries = listing.entries.iter();
        entries.map(|(path, entry)| (key(path, entry), entry.clone())).collect()
    };
    let (a, b) = (by_path(left), by_path(right));
    let mut differences = Vec::new();
    let mut note = |path: &EntryPath, cause, left: Option<&Entry>, right: Option<&Entry>| {
        let (left, right) = (left.cloned(), right.cloned());
        differences.push(Difference { layer, path: path.clone(), cause, left, right });
    };
    for (key, one) in &a {
        match b.get(key) {
            None => note(&key.0, kind_of(&key.0).unwrap_or(Cause::Path), Some(one), None),
            Some(other) => {
                for cause in causes(&key.0, one, other) {
                    note(&key.0, cause, Some(one), Some(other));
                }
            }
        }
    }
    for (key, other) in b.iter().filter(|(key, _)| !a.contains_key(key)) {
        note(&key.0, kind_of(&key.0).unwrap_or(Cause::Path), None, Some(other));
    }
    // The first path that stands elsewhere tells the order; the others follow from it.
    let common = |listing: &Listing, other: &BTreeMap<_, Entry>| -> Vec<_> {
        let keys = listing.entries.iter().map(|(path, entry)| key(path, entry));
        keys.filter(|key| other.contains_key(key)).collect()
    };
    let (one, other) = (common(left, &b), common(right, &a));
    if let Some((key, _)) = one.iter().zip(&other).find(|(one, other)| one != other) {
        note(&key.0, Cause::Order, a.get(key), b.get(key));
    }
    differences
}

/// An opaque mark stands beside its directory.
fn key(path: &EntryPath, entry: &Entry) -> (EntryPath, bool) {
    (path.clone(), entry.kind == Kind::Opaque)
}

/// Returns in what two entries of a path differ.
fn causes(path: &EntryPath, one: &Entry, other: &Entry) -> Vec<Cause> {
    let mut causes = Vec::new();
    let is_same_content = one.kind == other.kind
        && (one.size, one.device, one.sha256) == (other.size, other.device, other.sha256)
        && one.link == other.link;
    if !is_same_content {
        causes.push(kind_of(path).unwrap_or(Cause::Content));
    }
    if (one.mode, one.uid, one.gid) != (other.mode, other.uid, other.gid) {
        causes.push(Cause::Owner);
    }
    if one.xattrs != other.xattrs {
        causes.push(Cause::Xattr);
    }
    if one.mtime != other.mtime {
        causes.push(Cause::Time);
    }
    causes
}

/// Returns the kind of files that are known to differ from build to build, by the path.
fn kind_of(path: &EntryPath) -> Option<Cause> {
    let name = path.name();
    let lies_in = |directory: &[u8]| path.as_bytes().starts_with(directory);
    let has = |component: &[u8]| path.as_bytes().split(|b| *b == b'/').any(|c| c == component);
    if name.ends_with(b".pyc") || name == b"__pycache__" {
        return Some(Cause::Bytecode);
    }
    if lies_in(b"var/log/") || name.ends_with(b".log") {
        return Some(Cause::Log);
    }
    let is_cache = lies_in(b"var/cache/") || lies_in(b"var/lib/apt/lists/") || has(b".cache");
    is_cache.then_some(Cause::Cache)
}
