//! Checks every byte of a bundle, or of a folder that `mirror` wrote.
//!
//! The blobs and their order determine every byte of an archive of this tool. Headers and padding
//! are compared with the bytes that this tool writes, and blobs with their digests, so no byte can
//! change unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use names::{Digest, Hasher};

use super::InputFiles;
use crate::agreement::link_in;
use crate::archive::{blob_name, header_of};
use crate::files;
use crate::layout::{MARKER, blobs_folder};

/// The size of tar's blocks.
const BLOCK: usize = 512;

/// Damage to an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The position in the file, in bytes. Absent for a folder.
    pub at: Option<u64>,
    /// The damaged part, as a noun phrase.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        self.at.map_or(Ok(()), |at| write!(f, " (at byte {at})"))
    }
}

/// Checks every byte of an archive, or every blob of a folder. `inputs` are the bundles that could
/// be opened; they provide the names of blobs. Stops after damage that makes the rest of an archive
/// unreadable.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn check_bundle(path: &Path, inputs: &InputFiles) -> io::Result<Vec<Damage>> {
    let lists = inputs.lists();
    let names = lists.iter().flat_map(|list| &list.blobs);
    let names = names.map(|blob| (blob_name(&blob.digest), blob.to_string())).collect();
    if path.is_dir() {
        return check_folder(path, &names);
    }
    let file = io::BufReader::with_capacity(256 << 10, files::open(path)?);
    let mut check =
        Check { file, at: 0, names, found: Vec::new(), seen: BTreeSet::new(), next: None };
    check.entries()?;
    Ok(check.found)
}

/// Checks every blob of a folder that `mirror` wrote.
fn check_folder(path: &Path, names: &BTreeMap<String, String>) -> io::Result<Vec<Damage>> {
    let mut found = Vec::new();
    let mut damaged = |what| found.push(Damage { at: None, what });
    let links = ["index.json", "oci-layout", "blobs/sha256"];
    for link in links.iter().filter_map(|name| link_in(path, name)) {
        damaged(format!("`{link}`, which is a link"));
    }
    let folder = blobs_folder(path);
    let entries = std::fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
    let files = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // A name with a dot is that of an unfinished transfer, which the next run continues.
    let files: BTreeSet<String> = files.filter(|name| !name.starts_with('.')).collect();
    for file in files {
        let name = format!("blobs/sha256/{file}");
        let named = names.get(&name).cloned().unwrap_or_else(|| format!("`{name}`"));
        let at = folder.join(&file);
        if at.is_symlink() {
            damaged(format!("{named}, which is a link"));
        } else if files::open(&at).and_then(files::hash)?.hex() != file {
            damaged(named);
        }
    }
    Ok(found)
}

struct Check<R> {
    file: R,
    at: u64,
    /// The names of blobs, by the names of their entries.
    names: BTreeMap<String, String>,
    found: Vec<Damage>,
    /// The entries so far.
    seen: BTreeSet<String>,
    /// The entry that must come next: the copy of the index.
    next: Option<String>,
}

/// The content of an entry.
struct Content {
    digest: Digest,
    /// The whole content, if it is short.
    bytes: Vec<u8>,
    is_whole: bool,
}

impl<R: Read> Check<R> {
    fn entries(&mut self) -> io::Result<()> {
        let mut last = "the start".to_owned();
        loop {
            let at = self.at;
            let block = self.block()?;
            if block == [0; BLOCK] {
                return self.end(&last);
            }
            let Some((name, size)) = header(&block) else {
                let is_end = self.take(2 * BLOCK)?.len() <= BLOCK;
                let what = if is_end { "the end of the file" } else { "the header of the entry" };
                self.damaged(at, format!("{what}, after {last}"));
                return Ok(());
            };
            let named = self.name(&name);
            if !self.seen.insert(name.clone()) {
                self.damaged(at, format!("the header of {named}, which occurs twice"));
            }
            let begin = self.at;
            let content = self.content(size)?;
            self.judge(begin, &name, &content);
            if !content.is_whole {
                return Ok(());
            }
            let padding_begin = self.at;
            let rest = self.take((BLOCK - size as usize % BLOCK) % BLOCK)?;
            if rest.iter().any(|byte| *byte != 0) {
                self.damaged(padding_begin, format!("the padding after {named}"));
            }
            last = named;
        }
    }

    fn judge(&mut self, begin: u64, name: &str, content: &Content) {
        let named = self.name(name);
        if !content.is_whole {
            return self.damaged(begin, format!("{named}, which is truncated"));
        }
        let is_right = match name {
            "oci-layout" => content.bytes == MARKER.as_bytes(),
            // The next entry is its copy, named by its digest.
            "index.json" => {
                let copy = blob_name(&content.digest);
                self.names.insert(copy.clone(), "the copy of `index.json`".to_owned());
                self.next = Some(copy);
                return;
            }
            blob => blob == blob_name(&content.digest),
        };
        if !is_right {
            self.damaged(begin, named);
        }
        if self.next.take().is_some_and(|next| next != name) {
            self.damaged(begin, "`index.json`, which differs from its copy".to_owned());
        }
    }

    /// Checks that only two blocks of zeros follow the last entry.
    fn end(&mut self, last: &str) -> io::Result<()> {
        let at = self.at;
        let mut rest = Vec::new();
        self.file.by_ref().take(2 * BLOCK as u64).read_to_end(&mut rest)?;
        if rest != [0; BLOCK] {
            self.damaged(at, format!("the end of the file, after {last}"));
        }
        Ok(())
    }

    fn name(&self, entry: &str) -> String {
        self.names.get(entry).cloned().unwrap_or_else(|| format!("`{entry}`"))
    }

    fn damaged(&mut self, at: u64, what: String) {
        self.found.push(Damage { at: Some(at), what });
    }

    fn block(&mut self) -> io::Result<[u8; BLOCK]> {
        let mut block = [1; BLOCK];
        let bytes = self.take(BLOCK)?;
        block[..bytes.len()].copy_from_slice(&bytes);
        Ok(block)
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.by_ref().take(count as u64).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }

    fn content(&mut self, size: u64) -> io::Result<Content> {
        let (mut hasher, mut left, mut bytes) = (Hasher::new(), size, Vec::new());
        let mut piece = vec![0; 256 << 10];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            let count = self.file.read(&mut piece[..most])?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            if bytes.len() < BLOCK {
                bytes.extend_from_slice(&piece[..count]);
            }
            left -= count as u64;
        }
        self.at += size - left;
        Ok(Content { digest: Digest::from_sha256(hasher.finish()), bytes, is_whole: left == 0 })
    }
}

/// Returns the name and size in a header, if it is exactly as this tool writes it.
fn header(block: &[u8; BLOCK]) -> Option<(String, u64)> {
    let found = tar::Header::from_byte_slice(block);
    let name = String::from_utf8(found.path_bytes().into_owned()).ok()?;
    let size = found.entry_size().ok()?;
    let wanted = header_of(&name, size).ok()?;
    (wanted.as_bytes() == block).then_some((name, size))
}
