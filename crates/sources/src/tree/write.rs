//! Writes a tree as a canonical tar: the same bytes for the same content, on any machine.
//!
//! Entries are sorted by path in byte order, and directories precede their content. All times are
//! the same whole number of seconds, owner and group are 0 without names, and modes are 0644, 0755,
//! or 0777 for links. Headers are ustar; if a path or a size does not fit, a PAX header with a
//! fixed name precedes it. These bytes are part of the keys in plans, so any change to them is a
//! new format.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::mpsc;

use names::Sha256;
use tar_stream::{BLOCK, MAX_OCTAL, PAX_NAME, Ustar, padding, pax_header, pax_record};

use super::content::{Content, PassError};
use super::{Entry, Mode, Tree};
use crate::error::{ErrorKind, SourceError};
use crate::git_ref::TreePath;
use names::Hasher;

/// The buffer size for reading large files, in bytes.
const PIECE: usize = 128 << 10;
/// The maximum size of a file that is read ahead, in bytes.
const SMALL: u64 = 512 << 10;
/// How many files are read ahead.
const AHEAD: usize = 32;

/// Information about the tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarSummary {
    /// The SHA-256 of the tar.
    pub sha256: Sha256,
    /// The size of the tar, in bytes.
    pub size: u64,
    /// The number of its entries, including directories.
    pub entries: u64,
}

/// Why a tree could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteTarError {
    /// The tree cannot be read, or must not be written.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The writer failed.
    #[error("cannot write the tar")]
    Writer(#[source] io::Error),
}

/// Passes data on to a writer, and hashes it.
struct Hashing<W> {
    inner: W,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> Hashing<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self) -> io::Result<()> {
        self.put(padding(self.size))
    }
}

/// The fields of a header.
struct Header<'a> {
    path: &'a str,
    kind: u8,
    mode: u32,
    size: u64,
    link: &'a [u8],
    epoch: u64,
}

impl Tree {
    /// Writes the tree as a canonical tar in which every time is `epoch`.
    ///
    /// A second thread reads small files ahead. Larger files are held in memory only in part,
    /// except for files from git, which are held completely.
    ///
    /// # Errors
    /// Fails if a link points outside the tree, if content is damaged, or if the writer fails.
    pub fn write_tar(&self, epoch: u64, writer: impl Write) -> Result<TarSummary, WriteTarError> {
        self.check_links().map_err(|failure| failure.at("write the tree as", "tar"))?;
        let hasher = Hasher::new();
        let mut out = Hashing { inner: writer, hasher, size: 0 };
        let mut directories = BTreeSet::new();
        let mut entries = 0;
        self.with_contents(|path, mode, content| {
            for parent in path.parents() {
                if directories.insert(parent.to_owned()) {
                    let name = format!("{parent}/");
                    let header =
                        Header { path: &name, kind: b'5', mode: 0o755, size: 0, link: b"", epoch };
                    write_header(&mut out, &header).map_err(WriteTarError::Writer)?;
                    entries += 1;
                }
            }
            entries += 1;
            write_entry(&mut out, path, mode, content, epoch)
        })?;
        out.put(&[0; 2 * BLOCK]).and_then(|()| out.inner.flush()).map_err(WriteTarError::Writer)?;
        let sha256 =
            crate::sha256_of(out.hasher.finish()).map_err(|failure| failure.at("hash", "a tar"))?;
        Ok(TarSummary { sha256, size: out.size, entries })
    }

    /// Passes every entry to `take`, in order. Reading takes as long as hashing and writing, so a
    /// second thread reads small files in parallel. If it cannot read a file, the file is read
    /// again on this thread, which returns the error. If the second thread cannot be started, this
    /// thread reads everything.
    fn with_contents<E>(
        &self,
        mut take: impl FnMut(&TreePath, Mode, &Content) -> Result<(), E>,
    ) -> Result<(), E> {
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            let ahead = move || {
                for (_, Entry { content, .. }) in self.entries() {
                    let is_small = content.size().is_ok_and(|size| size <= SMALL);
                    let read = is_small.then(|| content.read().ok()).flatten();
                    // If writing failed, the receiver is gone.
                    if sender.send(read).is_err() {
                        break;
                    }
                }
            };
            drop(std::thread::Builder::new().spawn_scoped(scope, ahead));
            for (path, entry) in self.entries() {
                match receiver.recv().ok().flatten() {
                    Some(bytes) => take(path, entry.mode, &Content::Bytes(bytes.into()))?,
                    None => take(path, entry.mode, &entry.content)?,
                }
            }
            Ok(())
        })
    }
}

fn write_entry(
    out: &mut Hashing<impl Write>,
    path: &TreePath,
    mode: Mode,
    content: &Content,
    epoch: u64,
) -> Result<(), WriteTarError> {
    let (kind, bits) = match mode {
        Mode::File => (b'0', 0o644),
        Mode::Executable => (b'0', 0o755),
        Mode::Symlink => (b'2', 0o777),
    };
    let header = Header { path: path.as_str(), kind, mode: bits, size: 0, link: b"", epoch };
    if mode == Mode::Symlink {
        let link = content.read().map_err(|failure| failure.at("read", path))?;
        return write_header(out, &Header { link: &link, ..header }).map_err(WriteTarError::Writer);
    }
    let mut unreadable = None;
    let passed = content.pass(&mut |size, reader| {
        write_header(out, &Header { size, ..header })?;
        let mut buffer = vec![0; usize::try_from(size).unwrap_or(PIECE).clamp(1, PIECE)];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break out.pad(),
                Ok(count) => out.put(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    unreadable = Some(error);
                    break Ok(());
                }
            }
        }
    });
    let failed = |failure: crate::error::Failure| failure.at("read", path).into();
    match (passed, unreadable) {
        (_, Some(error)) => Err(failed(
            crate::error::Failure::fatal(
                ErrorKind::Integrity,
                "it cannot be read completely; it may have changed in the meantime",
            )
            .because(&error),
        )),
        (Err(PassError::Content(failure)), None) => Err(failed(failure)),
        (Err(PassError::Consumer(error)), None) => Err(WriteTarError::Writer(error)),
        (Ok(()), None) => Ok(()),
    }
}

fn write_header(out: &mut Hashing<impl Write>, header: &Header<'_>) -> io::Result<()> {
    if header.epoch > MAX_OCTAL {
        return Err(io::Error::other("the time is after the year 2242"));
    }
    let mut pax = Vec::new();
    let split = split_path(header.path);
    if split.is_none() {
        pax_record(&mut pax, b"path", header.path.as_bytes());
    }
    if header.link.len() > 100 {
        pax_record(&mut pax, b"linkpath", header.link);
    }
    if header.size > MAX_OCTAL {
        pax_record(&mut pax, b"size", header.size.to_string().as_bytes());
    }
    if !pax.is_empty() {
        out.put(&pax_header(&pax, header.epoch))?;
    }
    // If a PAX header precedes this one, only readers from before 2001 use the name here.
    let cut = |text: &'static str| ("", text);
    out.put(&block(header, split.unwrap_or_else(|| cut(PAX_NAME))))
}

/// Splits a path into prefix and name for ustar, if it fits. The longest prefix is used.
fn split_path(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let inner = path.trim_end_matches('/');
    inner
        .match_indices('/')
        .map(|(at, _)| (&path[..at], &path[at + 1..]))
        .rfind(|(prefix, name)| prefix.len() <= 155 && name.len() <= 100)
}

/// Returns a header as a block.
fn block(header: &Header<'_>, (prefix, name): (&str, &str)) -> [u8; BLOCK] {
    let ustar = Ustar {
        prefix: prefix.as_bytes(),
        name: name.as_bytes(),
        mode: header.mode,
        size: header.size,
        mtime: header.epoch,
        kind: header.kind,
        link: header.link,
        ..Ustar::default()
    };
    ustar.block()
}
