//! Reads a tar once from start to end: names go into a tree, contents into a single file.
//!
//! No file is created under a name from the archive, so names cannot do any harm here. Names are
//! still checked, to protect programs that unpack the trees that this crate writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::Arc;

use tar_stream::{Entry, Fault, Forward, Reader, TarError};

use super::ArchiveLimits;
use crate::error::{ErrorKind, Failure};
use crate::git_ref::TreePath;
use crate::text;
use crate::tree::{Content, Mode, Tree, refusal};

/// Counts the bytes that are read, and stops at the limit.
struct Metered<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            // The limit is reached, so the input must end here.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::ErrorKind::FileTooLarge.into()),
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

impl From<TarError> for Failure {
    fn from(error: TarError) -> Self {
        let damaged =
            |why: &str| Self::fatal(ErrorKind::Integrity, format!("the tar is damaged: {why}"));
        match (error.fault, error.source) {
            (Fault::Unreadable, Some(error)) => match error.kind() {
                io::ErrorKind::FileTooLarge => too_large(),
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    Self::fatal(ErrorKind::Integrity, "its compressed data is damaged")
                        .because(&error)
                }
                _ => Self::fatal(ErrorKind::Disk, "it cannot be read").because(&error),
            },
            (Fault::Unreadable, None) => Self::fatal(ErrorKind::Disk, "it cannot be read"),
            (Fault::Truncated, _) => damaged("it ends too early"),
            (Fault::Checksum | Fault::LoneZeros, _) => {
                damaged("a header does not match its checksum")
            }
            (Fault::Number(what), _) => damaged(&format!("a {what} is not a number")),
            (Fault::Pax | Fault::PaxValue(_), _) => damaged("a PAX header is malformed"),
            (Fault::Dangling, _) => damaged("there is an extension header at its end"),
            (Fault::TrailingData, _) => Self::refused("there is data after the end of the tar"),
            (Fault::Sizes, _) => {
                Self::refused("a header and its PAX header contain different sizes")
            }
            (Fault::Global(_), _) => {
                Self::refused("a global PAX header renames or resizes entries")
            }
            (Fault::Charset, _) => Self::refused("a PAX header declares that names are not UTF-8"),
            (Fault::LongExtension(_), _) => {
                Self::refused("a name or PAX header is larger than 1 MiB")
            }
            (Fault::Sparse(_), _) => Self::refused("it contains a sparse file"),
            (Fault::Refused(why), _) => Self::refused(why),
        }
    }
}

pub(super) fn too_large() -> Failure {
    Failure::refused("its content exceeds the size limit, so it may be a decompression bomb")
}

pub(super) fn too_many(most: u64) -> Failure {
    Failure::refused(format!("it has more than {most} entries"))
}

/// The state of the reader.
struct Reading {
    tree: Tree,
    /// The files that hard links may refer to.
    files: BTreeMap<TreePath, (Mode, Content)>,
    directories: std::collections::BTreeSet<TreePath>,
    spool: Arc<File>,
    offset: u64,
}

/// Reads a tar into a tree whose contents are stored in `spool`.
pub(super) fn read(
    source: impl Read,
    spool: File,
    limits: &ArchiveLimits,
) -> Result<Tree, Failure> {
    let mut tar = Reader::strict(Forward(Metered { inner: source, left: limits.bytes }));
    let mut reading = Reading {
        tree: Tree::new(),
        files: BTreeMap::new(),
        directories: std::collections::BTreeSet::new(),
        spool: Arc::new(spool),
        offset: 0,
    };
    let mut entries = 0;
    while let Some(entry) = tar.next()? {
        entries += 1;
        if entries > limits.entries {
            return Err(too_many(limits.entries));
        }
        if reading.entry(&entry)? {
            reading.content(&mut tar, &entry)?;
        }
    }
    Ok(reading.tree)
}

impl Reading {
    /// Adds an entry to the tree. Returns whether its content is wanted.
    fn entry(&mut self, entry: &Entry) -> Result<bool, Failure> {
        check_kind(entry)?;
        let is_directory = entry.kind == b'5';
        let path = match inner_path(&entry.path)? {
            Inner::Path(path) => path,
            Inner::Root if is_directory => return Ok(false),
            Inner::Root => {
                return Err(Failure::refused("the root of the archive is not a directory"));
            }
            Inner::Repository => return Ok(false),
        };
        if self.directories.contains(&path) && !is_directory {
            let path = text::quoted(path.as_str());
            return Err(Failure::refused(format!("{path} is both a directory and something else")));
        }
        match entry.kind {
            b'5' => {
                // A directory may occur twice, but not in place of something else.
                let blocker = path.parents().chain([path.as_str()]);
                if let Some(file) = blocker.into_iter().find(|p| self.tree.mode(p).is_some()) {
                    let file = text::quoted(file);
                    let detail = format!("{file} is both a directory and something else");
                    return Err(Failure::refused(detail));
                }
                self.directories.insert(path);
                Ok(false)
            }
            b'2' => {
                let target = Content::Bytes(entry.link.as_slice().into());
                self.tree.add(path, Mode::Symlink, target).map(|()| false)
            }
            b'1' => {
                let file = match inner_path(&entry.link)? {
                    Inner::Path(target) => self.files.get(&target).cloned(),
                    Inner::Root | Inner::Repository => None,
                };
                let Some((mode, content)) = file else {
                    let path = text::quoted(path.as_str());
                    let target = text::quoted_bytes(&entry.link);
                    return Err(Failure::refused(format!(
                        "the hard link {path} refers to {target}, which is not an earlier file"
                    )));
                };
                self.files.insert(path.clone(), (mode, content.clone()));
                self.tree.add(path, mode, content).map(|()| false)
            }
            _ => {
                let is_executable = entry.mode()? & 0o100 != 0;
                let mode = if is_executable { Mode::Executable } else { Mode::File };
                let (file, offset) = (Arc::clone(&self.spool), self.offset);
                let content = Content::Span { file, offset, size: entry.size };
                // The name is added first, so that no content is read for refused entries.
                self.tree.add(path.clone(), mode, content.clone())?;
                self.files.insert(path, (mode, content));
                Ok(true)
            }
        }
    }

    /// Stores the content of a file.
    fn content(
        &mut self,
        tar: &mut Reader<Forward<impl Read>>,
        entry: &Entry,
    ) -> Result<(), Failure> {
        let store = |part: &[u8]| {
            (&*self.spool).write_all(part).map_err(|error| {
                Failure::disk("written", std::path::Path::new("the unpacked archive"), &error)
            })
        };
        tar.read(&entry.content, store, |error| TarError::unreadable(None, 0, error).into())?;
        self.offset += entry.size;
        Ok(())
    }
}

/// Refuses types that source archives do not contain, and content where there should be none.
fn check_kind(entry: &Entry) -> Result<(), Failure> {
    let what = match entry.kind {
        b'0' => return Ok(()),
        // Readers disagree on whether content follows.
        b'1' | b'2' | b'5' if entry.size != 0 => "not a file but has content",
        b'1' | b'2' | b'5' => return Ok(()),
        b'3' | b'4' => "a device",
        b'6' => "a pipe",
        b'S' => "a sparse file",
        _ => "of a kind that source archives do not contain",
    };
    Err(Failure::refused(format!("{} is {what}", text::quoted_bytes(&entry.path))))
}

/// The location of an entry in an archive.
enum Inner {
    Path(TreePath),
    /// The root of the archive.
    Root,
    /// Inside a `.git`. Some releases contain one; it is left out, as in folders.
    Repository,
}

/// Returns the path of an entry without a leading `./` and a trailing slash.
fn inner_path(bytes: &[u8]) -> Result<Inner, Failure> {
    let mut rest = bytes;
    while let Some(inner) = rest.strip_prefix(b"./") {
        rest = inner;
    }
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    let is_repository = |part: &[u8]| part.eq_ignore_ascii_case(b".git");
    match rest {
        b"." | b"" if !bytes.starts_with(b"/") && !bytes.is_empty() => Ok(Inner::Root),
        rest if rest.split(|byte| *byte == b'/').any(is_repository) => {
            // Even a path that is left out must be valid.
            let renamed = rest
                .split(|byte| *byte == b'/')
                .map(|part| if is_repository(part) { b"git" } else { part });
            let renamed = renamed.collect::<Vec<_>>().join(&b'/');
            TreePath::from_bytes(&renamed).map(|_| Inner::Repository).map_err(refusal)
        }
        rest => TreePath::from_bytes(rest).map(Inner::Path).map_err(refusal),
    }
}
