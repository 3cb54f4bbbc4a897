//! The text form of a layer: one line per entry, for display, for comparison, and as a cache.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use names::Hasher;
use tar_stream::{Forward, TarError};

use crate::entry::{Entry, Kind, Xattrs};
use crate::layer::{LayerReader, Located, wrong_name};
use crate::path::{EntryPath, Role, escaped, unescaped};

/// The first line of every listing.
const HEAD: &str = "#layer-listing/1";

/// All entries of a layer, in the order of its tar.
///
/// As text (`Display`, parsed by `FromStr`), a line consists of: type, mode, owner and group, size
/// or device, time, SHA-256 of the content, path, then ` -> ` and the target of a link, then
/// extended attributes. Types are written as in mtree and find: `f d l c b p`, `h` for a further
/// name of a file, `w` for a whiteout, `o` for an opaque directory. Bytes that are not visible
/// ASCII are written as `\` and three octal digits. `{:#}` shortens hashes to 12 digits; this
/// form is for display and cannot be parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries. Whiteouts are listed under the path that they hide, opaque markers under their
    /// directory.
    pub entries: Vec<(EntryPath, Entry)>,
}

/// The error for a string that is not a listing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseListingError {
    /// The first line is wrong.
    #[error("the listing does not start with `{HEAD}`; create it again")]
    Head,
    /// A line cannot be parsed.
    #[error("cannot parse line {0} of the listing; create it again")]
    Line(usize),
}

impl Listing {
    /// Reads an uncompressed layer, and lists it unchanged. Content is hashed on the way.
    ///
    /// # Errors
    /// Fails if the tar is damaged, truncated, or not a valid layer.
    pub fn of_layer(tar: impl Read) -> Result<Self, TarError> {
        Ok(Self { entries: Entries::of_layer(tar).collect::<Result<_, _>>()? })
    }

    /// Returns the line for an entry.
    pub fn line(path: &EntryPath, entry: &Entry) -> String {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write_line(&mut line, path, entry, false);
        line
    }

    /// Parses a line without its line ending.
    pub fn parse_line(line: &str) -> Option<(EntryPath, Entry)> {
        line_of(line)
    }
}

/// The entries of a layer, one after another, in the order of its tar.
pub struct Entries<R> {
    layer: LayerReader<Forward<R>>,
    is_hashed: bool,
}

impl<R> fmt::Debug for Entries<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}

impl<R: Read> Entries<R> {
    /// Reads an uncompressed layer. Content is hashed on the way.
    pub fn of_layer(tar: R) -> Self {
        Self { layer: LayerReader::new(Forward(tar)), is_hashed: true }
    }

    /// Does not hash the content, if `is_hashed` is false. Entries then have no SHA-256.
    #[must_use]
    pub fn hashed(self, is_hashed: bool) -> Self {
        Self { is_hashed, ..self }
    }

    /// Returns the next entry. Passes the content of a file to `take` first, in chunks.
    ///
    /// # Errors
    /// Fails if the tar is damaged, truncated, or not a valid layer.
    pub fn next_with(
        &mut self,
        mut take: impl FnMut(&EntryPath, &[u8]),
    ) -> Result<Option<(EntryPath, Entry)>, TarError> {
        while let Some(mut located) = self.layer.next()? {
            if located.entry.kind == Kind::File {
                let mut hasher = self.is_hashed.then(Hasher::new);
                self.layer.read(&located, |part| {
                    if let Some(hasher) = &mut hasher {
                        hasher.update(part);
                    }
                    take(&located.path, part);
                })?;
                located.entry.sha256 = hasher.map(Hasher::finish);
            }
            if let Some(listed) = listed(located)? {
                return Ok(Some(listed));
            }
        }
        Ok(None)
    }
}

impl<R: Read> Iterator for Entries<R> {
    type Item = Result<(EntryPath, Entry), TarError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(|_, _| ()).transpose()
    }
}

/// Returns an entry under the path that it applies to, or `None` if it does not belong to the
/// image.
pub(crate) fn listed(located: Located) -> Result<Option<(EntryPath, Entry)>, TarError> {
    let Located { path, mut entry, offset, .. } = located;
    let mut mark = |kind, marked| {
        entry = Entry { mtime: entry.mtime, ..Entry::new(kind) };
        marked
    };
    let path = match path.role() {
        Role::Plain => path,
        Role::Whiteout(hidden) => mark(Kind::Whiteout, hidden),
        Role::Opaque(directory) => mark(Kind::Opaque, directory),
        Role::Bookkeeping => return Ok(None),
        Role::Impossible => return Err(wrong_name(&path, offset)),
    };
    Ok(Some((path, entry)))
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_short = f.alternate();
        writeln!(f, "{HEAD}")?;
        for (path, entry) in &self.entries {
            write_line(f, path, entry, is_short)?;
        }
        Ok(())
    }
}

/// The letters of the types.
const LETTERS: [(Kind, &str); 9] = [
    (Kind::File, "f"),
    (Kind::Directory, "d"),
    (Kind::Symlink, "l"),
    (Kind::Hardlink, "h"),
    (Kind::Character, "c"),
    (Kind::Block, "b"),
    (Kind::Fifo, "p"),
    (Kind::Whiteout, "w"),
    (Kind::Opaque, "o"),
];

fn write_line(
    f: &mut impl fmt::Write,
    path: &EntryPath,
    entry: &Entry,
    is_short: bool,
) -> fmt::Result {
    let letter = LETTERS.iter().find(|(kind, _)| *kind == entry.kind).map_or("?", |(_, l)| l);
    let path = if path.is_root() { ".".to_owned() } else { path.to_string() };
    write!(f, "{letter} {:04o} {}:{} ", entry.mode, entry.uid, entry.gid)?;
    match entry.kind {
        Kind::Character | Kind::Block => write!(f, "{},{}", entry.device.0, entry.device.1)?,
        _ => write!(f, "{}", entry.size)?,
    }
    let mut hash = entry.sha256.map_or("-".to_owned(), |sha256| hex(&sha256));
    if is_short {
        hash.truncate(12);
    }
    write!(f, " {} {hash} {path}", entry.mtime)?;
    if !entry.link.is_empty() {
        write!(f, " -> {}", escaped(&entry.link))?;
    }
    for (name, value) in &entry.xattrs {
        write!(f, " {}={}", escaped(name), hex(value))?;
    }
    writeln!(f)
}

impl FromStr for Listing {
    type Err = ParseListingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(HEAD) {
            return Err(ParseListingError::Head);
        }
        let entries = lines.map(|(at, line)| line_of(line).ok_or(ParseListingError::Line(at + 1)));
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }
}

fn line_of(line: &str) -> Option<(EntryPath, Entry)> {
    let mut words = line.split(' ').peekable();
    let letter = words.next()?;
    let kind = LETTERS.iter().find(|(_, known)| *known == letter)?.0;
    let mut entry = Entry::new(kind);
    entry.mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let (uid, gid) = words.next()?.split_once(':')?;
    (entry.uid, entry.gid) = (uid.parse().ok()?, gid.parse().ok()?);
    let size = words.next()?;
    match kind {
        Kind::Character | Kind::Block => {
            let (major, minor) = size.split_once(',')?;
            entry.device = (major.parse().ok()?, minor.parse().ok()?);
        }
        _ => entry.size = size.parse().ok()?,
    }
    entry.mtime = words.next()?.parse().ok()?;
    entry.sha256 = match words.next()? {
        "-" => None,
        hash => Some(unhex(hash)?.try_into().ok()?),
    };
    let path = EntryPath::parse(&unescaped(words.next()?)?).ok()?;
    if words.next_if_eq(&"->").is_some() {
        entry.link = unescaped(words.next()?)?.into();
    }
    let xattrs = words.map(|word| {
        let (name, value) = word.rsplit_once('=')?;
        Some((unescaped(name)?.into(), unhex(value)?.into()))
    });
    entry.xattrs = xattrs.collect::<Option<Xattrs>>()?;
    Some((path, entry))
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
