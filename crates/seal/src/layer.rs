//! Reads the entries of a layer, and refuses those that are valid in a tar but not in an image
//! layer.

use tar_stream::{Content, Fault, Reader, Skip, TarError};

use crate::entry::{Entry, Kind};
use crate::path::{EntryPath, MAX_PATH};

/// The memory limit for all entries of a layer, in bytes: enough for several million entries.
const MAX_HELD: u64 = 2 << 30;

/// An entry and its location.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) path: EntryPath,
    pub(crate) entry: Entry,
    pub(crate) content: Content,
    /// The position of its header.
    pub(crate) offset: u64,
}

/// Returns the error for a name that is not valid in a layer.
pub(crate) fn wrong_name(path: &EntryPath, offset: u64) -> TarError {
    let why = "its name is not valid in a layer: `.wh.` is the prefix of whiteouts".to_owned();
    TarError::of(Some(path.as_bytes()), offset, Fault::Refused(why))
}

/// Reads the entries of a layer one by one.
pub(crate) struct LayerReader<R> {
    tar: Reader<R>,
    /// The memory needed for the entries read so far, in bytes.
    held: u64,
}

impl<R: Skip> LayerReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { tar: Reader::new(input), held: 0 }
    }

    /// Returns the next entry. Skips the unread content of the previous one.
    pub(crate) fn next(&mut self) -> Result<Option<Located>, TarError> {
        let Some(found) = self.tar.next()? else { return Ok(None) };
        let located = located(found)?;
        self.hold(&located)?;
        Ok(Some(located))
    }

    /// Passes the content of the last entry to `take`, in chunks.
    pub(crate) fn read(
        &mut self,
        located: &Located,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let Located { path, content, offset, .. } = located;
        let take = |part: &[u8]| {
            take(part);
            Ok(())
        };
        let failed = |error| TarError::unreadable(Some(path.as_bytes()), *offset, error);
        self.tar.read(content, take, failed)
    }

    /// Adds the memory that an entry needs, and fails if the limit is exceeded.
    fn hold(&mut self, located: &Located) -> Result<(), TarError> {
        let Located { path, entry, content, offset } = located;
        let map = content.parts() * 16;
        let xattrs: usize =
            entry.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        self.held += (path.as_bytes().len() + entry.link.len() + xattrs + map + 256) as u64;
        if self.held > MAX_HELD {
            let why = format!(
                "names, links and attributes of the entries need more than {} MiB",
                MAX_HELD >> 20
            );
            let fault = Fault::Refused(why);
            return Err(TarError::of(Some(path.as_bytes()), *offset, fault));
        }
        Ok(())
    }
}

/// Checks that an entry is valid in a layer.
fn located(found: tar_stream::Entry) -> Result<Located, TarError> {
    let refused = |why: String| found.error(Fault::Refused(why));
    let kind = match found.kind {
        b'0' => Kind::File,
        b'1' => Kind::Hardlink,
        b'2' => Kind::Symlink,
        b'3' => Kind::Character,
        b'4' => Kind::Block,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        other => {
            let kind = tar_stream::escaped(&[other]);
            return Err(refused(format!("its type `{kind}` is not valid in an image layer")));
        }
    };
    let mut entry = Entry::new(kind);
    entry.mode = found.mode()?;
    entry.uid = found.uid()?;
    entry.gid = found.gid()?;
    entry.mtime = found.mtime()?;
    entry.size = found.content.size;
    entry.xattrs = found.xattrs();
    if matches!(kind, Kind::Character | Kind::Block) {
        entry.device = found.device()?;
    }
    if matches!(kind, Kind::Symlink | Kind::Hardlink) {
        entry.link = checked_link(kind, &found.link)
            .ok_or_else(|| refused("the target of its link is not a valid path".to_owned()))?;
    }
    let path = EntryPath::parse(&found.path).map_err(|error| refused(error.to_string()))?;
    Ok(Located { path, entry, content: found.content, offset: found.offset })
}

fn checked_link(kind: Kind, link: &[u8]) -> Option<Box<[u8]>> {
    if kind == Kind::Hardlink {
        let target = EntryPath::parse(link).ok()?;
        return (!target.is_root()).then(|| target.as_bytes().into());
    }
    let is_valid = !link.is_empty() && link.len() <= MAX_PATH && !link.contains(&0);
    is_valid.then(|| link.into())
}

#[cfg(test)]
mod tests {
    use tar_stream::{Forward, Ustar, pax_header, pax_record};

    use super::*;

    /// Returns an entry without data.
    fn bare(kind: u8, name: &str, link: &[u8]) -> Vec<u8> {
        Ustar { kind, link, name: name.as_bytes(), ..Ustar::default() }.block().to_vec()
    }

    fn records(records: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        records.iter().for_each(|(key, value)| pax_record(&mut data, key, value));
        data
    }

    #[test]
    fn the_memory_for_all_entries_is_limited() {
        let mut tar = bare(b'0', "file", b"");
        tar.extend(bare(b'2', "link", &[b'a'; 90]));
        let attribute = records(&[(b"SCHILY.xattr.user.name", &[b'v'; 1000])]);
        tar.extend(pax_header(&attribute, 0));
        tar.extend(bare(b'0', "attribute", b""));
        let map = records(&[(b"GNU.sparse.size", b"9"), (b"GNU.sparse.map", b"0,0,1,0,2,0")]);
        tar.extend(pax_header(&map, 0));
        tar.extend(bare(b'0', "sparse", b""));
        // Names, links, attributes, maps, and a constant for the rest all count.
        let sizes = [4, 4 + 90, 9 + 9 + 1000 + 64, 6 + 3 * 16].map(|size| size + 256);
        let mut reader = LayerReader::new(Forward(&tar[..]));
        for (number, size) in sizes.into_iter().enumerate() {
            let before = reader.held;
            assert!(reader.next().unwrap().is_some());
            assert_eq!(reader.held - before, size, "entry {number}");
        }
        let all: u64 = sizes.iter().sum();
        for (held, wanted) in [(MAX_HELD - all, 4), (MAX_HELD - all + 1, 3)] {
            let mut reader = LayerReader::new(Forward(&tar[..]));
            reader.held = held;
            let mut read = 0;
            let end = loop {
                match reader.next() {
                    Ok(Some(_)) => read += 1,
                    Ok(None) => break "end".to_owned(),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(read, wanted);
            let is_full = end.ends_with("of the entries need more than 2048 MiB");
            assert_eq!(is_full, wanted == 3, "{end}");
        }
    }
}
