//! Paths of layer entries: relative, with plain components, sorted by component.

use std::cmp::Ordering;
use std::fmt;

pub(crate) use tar_stream::escaped;

/// The maximum length of a path or link target, in bytes: `PATH_MAX` of Linux. Engines cannot
/// unpack entries with longer paths.
pub const MAX_PATH: usize = 4096;

/// The name prefix of a whiteout (OCI image-spec, layer.md, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
/// The name prefix of aufs's internal files. Only the opaque marker has a meaning.
const BOOKKEEPING: &[u8] = b".wh..wh.";
/// The opaque marker (OCI image-spec, layer.md, "Opaque Whiteout").
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A path in an image: bytes without a leading or trailing `/`, without `.`, `..` and NUL.
/// The root is the empty path.
///
/// Paths are sorted by component, so that the content of a directory directly follows it: a `/`
/// sorts before every other byte.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryPath(Box<[u8]>);

/// Why bytes are not a valid path of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path contains `..`.
    #[error("its path has the component `..`, which may point outside the image")]
    Upwards,
    /// Some readers end the path at a NUL, and others do not.
    #[error("its path has a NUL byte")]
    Nul,
    /// The path is too long.
    #[error("its path has {0} bytes, more than the {MAX_PATH} that Linux supports")]
    TooLong(usize),
}

/// The meaning of an entry according to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// A file, a directory or similar.
    Plain,
    /// Hides this path in the layers below.
    Whiteout(EntryPath),
    /// Hides the content of this directory in the layers below.
    Opaque(EntryPath),
    /// An internal file of aufs (`.wh..wh.plnk` and similar), not part of the image.
    Bookkeeping,
    /// A name that is not valid in a layer: it is inside a whiteout, or hides nothing.
    Impossible,
}

impl EntryPath {
    /// Parses a path from a tar. Components `.`, a leading `/`, and doubled or trailing `/` are
    /// dropped.
    ///
    /// # Errors
    /// Fails if the path contains a component `..` or a NUL byte, or has more than [`MAX_PATH`]
    /// bytes.
    pub fn parse(raw: &[u8]) -> Result<Self, PathError> {
        if raw.len() > MAX_PATH {
            return Err(PathError::TooLong(raw.len()));
        }
        if raw.contains(&0) {
            return Err(PathError::Nul);
        }
        let mut path = Vec::with_capacity(raw.len());
        for component in raw.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return Err(PathError::Upwards),
                component => {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(component);
                }
            }
        }
        Ok(Self(path.into_boxed_slice()))
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether this is the root of the image.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last component.
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Returns the parent directory. Returns `None` if the parent is the root, and for the root
    /// itself.
    pub fn parent(&self) -> Option<Self> {
        let end = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(Self(self.0[..end].into()))
    }

    /// Returns the parent directories of the path, the nearest first, without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Returns whether the path is inside `directory`, at any depth.
    pub fn is_below(&self, directory: &Self) -> bool {
        match self.0.strip_prefix(&*directory.0) {
            Some(rest) => directory.is_root() && !rest.is_empty() || rest.first() == Some(&b'/'),
            None => false,
        }
    }

    /// Returns the path of `name` in the same directory.
    pub(crate) fn sibling(&self, name: &[u8]) -> Self {
        let start = self.0.len() - self.name().len();
        Self([&self.0[..start], name].concat().into_boxed_slice())
    }

    /// Returns the path of the whiteout that hides this one.
    pub(crate) fn whiteout(&self) -> Self {
        self.sibling(&[WHITEOUT, self.name()].concat())
    }

    /// Returns the meaning of an entry with this path.
    pub(crate) fn role(&self) -> Role {
        let mut above = self.0.split(|byte| *byte == b'/').rev();
        let name = above.next().unwrap_or_default();
        if let Some(hider) = above.find(|component| component.starts_with(WHITEOUT)) {
            return if hider.starts_with(BOOKKEEPING) && hider != OPAQUE {
                Role::Bookkeeping
            } else {
                Role::Impossible
            };
        }
        if name == OPAQUE {
            return Role::Opaque(self.parent().unwrap_or_else(Self::root));
        }
        if name.starts_with(BOOKKEEPING) {
            return Role::Bookkeeping;
        }
        match name.strip_prefix(WHITEOUT) {
            None => Role::Plain,
            Some(b"" | b"." | b"..") => Role::Impossible,
            Some(hidden) => Role::Whiteout(self.sibling(hidden)),
        }
    }

    /// Returns the root.
    pub(crate) fn root() -> Self {
        Self(Box::default())
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
        match self.0.iter().zip(&other.0).find(|(a, b)| a != b) {
            Some((a, b)) => rank(*a).cmp(&rank(*b)),
            None => self.0.len().cmp(&other.0.len()),
        }
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.0))
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Reverses [`escaped`]. Returns `None` if an escape sequence is invalid.
pub(crate) fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..3)?;
        rest = rest.get(3..)?;
        let value = digits.iter().try_fold(0_u32, |value, digit| {
            digit.is_ascii_digit().then(|| value * 8 + u32::from(digit - b'0'))
        })?;
        bytes.push(u8::try_from(value).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn spellings_of_a_path_are_one_path() {
        for spelling in ["a/b", "./a/b", "/a/b", "a//b", "a/./b/", "././/a/b//"] {
            assert_eq!(path(spelling), path("a/b"), "{spelling}");
        }
        assert!(path("./").is_root());
        assert_eq!(EntryPath::parse(b"a/../b"), Err(PathError::Upwards));
        assert_eq!(EntryPath::parse(b"a\0b"), Err(PathError::Nul));
        assert_eq!(EntryPath::parse(&[b'a'; 4097]), Err(PathError::TooLong(4097)));
    }

    #[test]
    fn the_content_of_a_directory_follows_it_directly() {
        let mut paths = ["a.b", "a/b", "a", "a/b/c", "a-b", "b", "a/b.c"].map(path);
        paths.sort();
        assert_eq!(
            paths.map(|path| path.to_string()),
            ["a", "a/b", "a/b/c", "a/b.c", "a-b", "a.b", "b"]
        );
    }

    #[test]
    fn names_tell_whiteouts() {
        assert_eq!(path("a/.wh.b").role(), Role::Whiteout(path("a/b")));
        assert_eq!(path(".wh..wh..opq").role(), Role::Opaque(EntryPath::root()));
        assert_eq!(path("a/.wh..wh..opq").role(), Role::Opaque(path("a")));
        assert_eq!(path(".wh..wh.plnk/12.34").role(), Role::Bookkeeping);
        assert_eq!(path(".wh..wh.aufs").role(), Role::Bookkeeping);
        assert_eq!(path(".wh.a/b").role(), Role::Impossible);
        assert_eq!(path("a/.wh.").role(), Role::Impossible);
        assert_eq!(path("a/.wh...").role(), Role::Impossible);
        assert_eq!(path("a.wh.b").role(), Role::Plain);
        assert_eq!(path("a/b").whiteout(), path("a/.wh.b"));
    }

    #[test]
    fn text_can_be_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert!(escaped(&all).bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(unescaped(&escaped(&all)), Some(all));
        assert_eq!(unescaped(r"\40"), None);
        assert_eq!(unescaped(r"\777"), None);
        assert_eq!(unescaped(r"\0a0"), None);
    }
}
