//! Unpacked archives: a file with the contents, followed by an index of the paths.
//!
//! The file is written once. It is trusted as long as its [stamp](files::stamp) has not changed;
//! otherwise the archive is unpacked again.
//!
//! ```text
//! CONTENT…            of all files and links, one after another
//! f 0 1234 README.md  for each path: kind, offset and size in bytes
//! 00000000000001234   where these lines begin
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atomic_write_file::AtomicWriteFile;

use super::reader::too_large;
use super::{ArchiveLimits, read_tree};
use crate::error::Failure;
use crate::files;
use crate::tree::{Content, Mode, Tree};

/// The length of the offset at the end: its digits and a line feed.
const END: usize = 18;

/// Returns the content of an archive, and unpacks it first if necessary.
pub(super) fn open(archive: &Path, limits: &ArchiveLimits) -> Result<Tree, Failure> {
    let unpacked = beside(archive, "tree");
    let seen = beside(archive, "tree.seen");
    let is_known = files::stamp(&unpacked)
        .is_some_and(|stamp| fs::read_to_string(&seen).is_ok_and(|text| text == stamp));
    if let Some(tree) = is_known.then(|| load(&unpacked, limits)).flatten() {
        return tree;
    }
    unpack(archive, &unpacked, limits)?;
    if let Some(stamp) = files::stamp(&unpacked) {
        files::write_unsynced(&seen, stamp.as_bytes())?;
    }
    load(&unpacked, limits).unwrap_or_else(|| {
        let detail = "another process changed it while it was being unpacked";
        Err(Failure::fatal(crate::ErrorKind::Disk, detail))
    })
}

fn beside(archive: &Path, ending: &str) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Unpacks an archive.
fn unpack(archive: &Path, unpacked: &Path, limits: &ArchiveLimits) -> Result<(), Failure> {
    let file = File::open(archive).map_err(|error| Failure::disk("opened", archive, &error))?;
    let fail = |error: io::Error| Failure::disk("written", unpacked, &error);
    let mut target = AtomicWriteFile::open(unpacked).map_err(fail)?;
    let tree = read_tree(file, target.as_file().try_clone().map_err(fail)?, limits)?;
    // The reader wrote through a handle that shares its position with this one.
    let links_begin = io::Seek::stream_position(&mut target.as_file()).map_err(fail)?;
    let mut lines = Vec::new();
    let mut links = Vec::new();
    for (path, entry) in tree.entries() {
        let (kind, start, size) = match (&entry.content, entry.mode) {
            (Content::Span { offset, size, .. }, Mode::File) => ('f', *offset, *size),
            (Content::Span { offset, size, .. }, _) => ('x', *offset, *size),
            (content, _) => {
                let link = content.read()?;
                let start = links_begin + links.len() as u64;
                links.extend_from_slice(&link);
                ('l', start, link.len() as u64)
            }
        };
        lines.extend_from_slice(format!("{kind} {start} {size} {path}\n").as_bytes());
    }
    let lines_begin = links_begin + links.len() as u64;
    let end = format!("{lines_begin:017}\n");
    for part in [&links, &lines, end.as_bytes()] {
        target.write_all(part).map_err(fail)?;
    }
    target.commit().map_err(fail)
}

/// Reads a file that [`unpack`] wrote. Returns `None` for any other file.
fn load(unpacked: &Path, limits: &ArchiveLimits) -> Option<Result<Tree, Failure>> {
    let file = File::open(unpacked).ok()?;
    let lines_end = file.metadata().ok()?.len().checked_sub(END as u64)?;
    let mut end = [0; END];
    file.read_exact_at(&mut end, lines_end).ok()?;
    let start: u64 = std::str::from_utf8(&end).ok()?.trim_end().parse().ok()?;
    if start > limits.bytes {
        return Some(Err(too_large()));
    }
    let mut lines = vec![0; usize::try_from(lines_end.checked_sub(start)?).ok()?];
    file.read_exact_at(&mut lines, start).ok()?;
    let lines = String::from_utf8(lines).ok()?;
    let file = Arc::new(file);
    let mut tree = Tree::new();
    for line in lines.lines() {
        if tree.len() as u64 >= limits.entries {
            return Some(Err(super::reader::too_many(limits.entries)));
        }
        let mut words = line.splitn(4, ' ');
        let mode = match words.next()? {
            "f" => Mode::File,
            "x" => Mode::Executable,
            "l" => Mode::Symlink,
            _ => return None,
        };
        let (offset, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let content = Content::Span { file: Arc::clone(&file), offset, size };
        tree.add(words.next()?.parse().ok()?, mode, content).ok()?;
    }
    Some(Ok(tree))
}
