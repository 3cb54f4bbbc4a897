//! Checks every byte of a bundle.
//!
//! The blobs and their order determine every byte of an archive of this tool. Headers and padding
//! are compared with the bytes that this tool writes, and blobs with their digests, so no byte can
//! change unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use names::{Digest, Hasher};

use super::InputFiles;
use crate::archive::{blob_name, header_of};
use crate::files;
use crate::layout::MARKER;

/// The size of tar's blocks.
const BLOCK: usize = 512;

/// Damage to an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The position in the file, in bytes.
    pub at: u64,
    /// The damaged part, as a noun phrase.
    pub what: String,
}

/// Checks every byte of an archive. `inputs` are the bundles that could be opened; they provide the
/// names of blobs. Stops after damage that makes the rest unreadable.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn check_bundle(path: &Path, inputs: &InputFiles) -> io::Result<Vec<Damage>> {
    let lists = inputs.lists();
    let names = lists.iter().flat_map(|list| &list.blobs);
    let names = names.map(|blob| (blob_name(&blob.digest), blob.to_string())).collect();
    let file = io::BufReader::with_capacity(256 << 10, files::open(path)?);
    let mut check =
        Check { file, at: 0, names, found: Vec::new(), seen: BTreeSet::new(), next: None };
    check.entries()?;
    Ok(check.found)
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
        self.found.push(Damage { at, what });
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
