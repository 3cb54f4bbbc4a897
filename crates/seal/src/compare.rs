//! Compares listings, and determines the kind of every difference.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::iter::Peekable;

use crate::entry::{Entry, Kind};
use crate::listing::Listing;
use crate::path::EntryPath;

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The modification time.
    Time,
    /// Python bytecode: its content, or its presence.
    Bytecode,
    /// A log: its content, or its presence.
    Log,
    /// A cache: its content, or its presence.
    Cache,
    /// The order of entries in the tar.
    Order,
    /// Extended attributes.
    Xattr,
    /// Mode, owner or group.
    Owner,
    /// The path exists on one side only.
    Path,
    /// The content or the type. Listings do not show why they differ.
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
    /// The path.
    pub path: EntryPath,
    /// The kind.
    pub cause: Cause,
    /// The entry on the left, if the path exists there.
    pub left: Option<Entry>,
    /// The entry on the right, if the path exists there.
    pub right: Option<Entry>,
}

/// An entry of a layer, and its position in the tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The path.
    pub path: EntryPath,
    /// The entry.
    pub entry: Entry,
    /// Its position in the tar, counted from 0.
    pub place: u32,
}

impl Placed {
    /// Returns the sort key. An opaque marker comes directly after its directory.
    fn key(&self) -> (&EntryPath, bool) {
        (&self.path, self.entry.kind == Kind::Opaque)
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key()).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The entries of a layer, in the order of [`Placed`].
pub trait Sorted {
    /// The error if the entries cannot be read.
    type Error;

    /// Returns the entries from the start.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn entries(&self) -> Result<impl Iterator<Item = Result<Placed, Self::Error>>, Self::Error>;
}

impl Sorted for Listing {
    type Error = Infallible;

    fn entries(&self) -> Result<impl Iterator<Item = Result<Placed, Infallible>>, Infallible> {
        let mut entries: Vec<Placed> = (0..)
            .zip(&self.entries)
            .map(|(place, (path, entry))| Placed {
                path: path.clone(),
                entry: entry.clone(),
                place,
            })
            .collect();
        entries.sort();
        Ok(entries.into_iter().map(Ok))
    }
}

/// Compares two layers, and calls `note` for each difference. A path with several kinds of
/// difference is reported several times. If several entries have the same path, the last one is
/// used.
///
/// # Errors
/// Fails if a layer cannot be read, or if `note` fails.
pub fn compare<L: Sorted>(
    left: &L,
    right: &L,
    mut note: impl FnMut(Difference) -> Result<(), L::Error>,
) -> Result<(), L::Error> {
    // The positions of the paths that both layers contain.
    let mut places: Vec<(u32, u32)> = Vec::new();
    join(left, right, |left, right| {
        if let (Some(one), Some(other)) = (&left, &right) {
            places.push((one.place, other.place));
        }
        for cause in causes(left.as_ref(), right.as_ref()) {
            note(difference(cause, left.clone(), right.clone()))?;
        }
        Ok(())
    })?;
    // Only the first path at a different position is reported; the others are a consequence.
    places.sort_unstable();
    let mut in_order: Vec<u32> = places.iter().map(|(_, other)| *other).collect();
    in_order.sort_unstable();
    let first = places.iter().zip(&in_order).find(|((_, found), wanted)| found != *wanted);
    let Some(((first, _), _)) = first else { return Ok(()) };
    join(left, right, |left, right| {
        if left.as_ref().is_some_and(|one| one.place == *first) {
            note(difference(Cause::Order, left, right))
        } else {
            Ok(())
        }
    })
}

fn difference(cause: Cause, left: Option<Placed>, right: Option<Placed>) -> Difference {
    let path = left.as_ref().or(right.as_ref()).map(|one| one.path.clone());
    let (left, right) = (left.map(|one| one.entry), right.map(|other| other.entry));
    Difference { path: path.unwrap_or_else(EntryPath::root), cause, left, right }
}

/// Calls `each` for every path in at least one of the two layers, with its entry in each.
fn join<L: Sorted>(
    left: &L,
    right: &L,
    mut each: impl FnMut(Option<Placed>, Option<Placed>) -> Result<(), L::Error>,
) -> Result<(), L::Error> {
    let (mut left, mut right) = (Last::new(left.entries()?), Last::new(right.entries()?));
    let (mut one, mut other) = (left.next()?, right.next()?);
    loop {
        let order = match (&one, &other) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.key().cmp(&other.key()),
        };
        let mut take_left = || Ok(std::mem::replace(&mut one, left.next()?));
        let mut take_right = || Ok(std::mem::replace(&mut other, right.next()?));
        match order {
            Ordering::Less => each(take_left()?, None)?,
            Ordering::Greater => each(None, take_right()?)?,
            Ordering::Equal => each(take_left()?, take_right()?)?,
        }
    }
}

/// Skips all but the last of several entries with the same path.
struct Last<I: Iterator>(Peekable<I>);

impl<E, I: Iterator<Item = Result<Placed, E>>> Last<I> {
    fn new(entries: I) -> Self {
        Self(entries.peekable())
    }

    fn next(&mut self) -> Result<Option<Placed>, E> {
        let Some(mut last) = self.0.next().transpose()? else { return Ok(None) };
        while let Some(Ok(peeked)) = self.0.peek() {
            if peeked.key() != last.key() {
                break;
            }
            if let Some(later) = self.0.next().transpose()? {
                last = later;
            }
        }
        Ok(Some(last))
    }
}

/// Returns how two entries of a path differ.
fn causes(left: Option<&Placed>, right: Option<&Placed>) -> Vec<Cause> {
    match (left, right) {
        (Some(one), Some(other)) => changes(&one.path, &one.entry, &other.entry),
        (Some(one), None) | (None, Some(one)) => {
            vec![kind_of(&one.path).unwrap_or(Cause::Path)]
        }
        (None, None) => Vec::new(),
    }
}

/// Returns the kinds of difference between two entries of a path.
fn changes(path: &EntryPath, one: &Entry, other: &Entry) -> Vec<Cause> {
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

/// Returns the kind of difference at a path that is known to vary between builds.
fn kind_of(path: &EntryPath) -> Option<Cause> {
    let name = path.name();
    let is_in = |directory: &[u8]| path.as_bytes().starts_with(directory);
    let has = |component: &[u8]| path.as_bytes().split(|b| *b == b'/').any(|c| c == component);
    if name.ends_with(b".pyc") || name == b"__pycache__" {
        return Some(Cause::Bytecode);
    }
    if is_in(b"var/log/") || name.ends_with(b".log") {
        return Some(Cause::Log);
    }
    let is_cache = is_in(b"var/cache/") || is_in(b"var/lib/apt/lists/") || has(b".cache");
    is_cache.then_some(Cause::Cache)
}
