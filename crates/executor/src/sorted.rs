//! The entries of a layer sorted by path, on disk if there are many.
//!
//! Even a layer of a few megabytes can have millions of entries, so memory use is limited.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use names::Digest;
use seal::{Entry, EntryPath, Listing, Placed, Sorted};

use crate::layers::{LayerError, visit_layer};

/// The memory limit for entries that are held while sorting, in bytes.
const HELD: usize = 24 << 20;
/// The memory that an entry needs in addition to its path, link and attributes, in bytes.
const OVERHEAD: usize = 256;
/// The buffer size of each file during a merge, in bytes.
const BUFFER: usize = 32 << 10;

/// The entries of a layer, sorted by path.
#[derive(Debug, Default)]
pub struct SortedLayer {
    /// Files with sorted entries, one per line.
    runs: Vec<File>,
    /// The last entries, sorted.
    rest: Vec<Placed>,
}

/// Sorts entries as they arrive.
struct Sorter {
    layer: SortedLayer,
    folder: Option<PathBuf>,
    held: usize,
    next: u32,
}

impl SortedLayer {
    /// Reads a layer. `folder` is for the temporary files of large layers.
    ///
    /// # Errors
    /// Fails if the layer cannot be read completely, is not a tar, or does not match `diff_id`.
    pub fn read(
        reader: impl Read,
        diff_id: Option<&Digest>,
        folder: Option<&Path>,
    ) -> Result<Self, LayerError> {
        let mut sorter =
            Sorter { layer: Self::default(), folder: folder.map(Path::to_owned), held: 0, next: 0 };
        visit_layer(reader, diff_id, &mut |path, entry| sorter.add(path, entry))?;
        sorter.layer.rest.sort();
        Ok(sorter.layer)
    }
}

impl Sorter {
    fn add(&mut self, path: EntryPath, entry: Entry) -> io::Result<()> {
        let xattrs = entry.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64);
        self.held += path.as_bytes().len() + entry.link.len() + xattrs.sum::<usize>() + OVERHEAD;
        self.layer.rest.push(Placed { path, entry, place: self.next });
        self.next = self.next.checked_add(1).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.held > HELD {
            self.held = 0;
            self.spill()?;
        }
        Ok(())
    }

    /// Writes the entries in memory to an unnamed file.
    fn spill(&mut self) -> io::Result<()> {
        let file = match &self.folder {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                tempfile::tempfile_in(folder)?
            }
            None => tempfile::tempfile()?,
        };
        let mut entries = std::mem::take(&mut self.layer.rest);
        entries.sort();
        let mut writer = BufWriter::with_capacity(BUFFER, file);
        for Placed { path, entry, place } in &entries {
            write!(writer, "{place} {}", Listing::line(path, entry))?;
        }
        self.layer.runs.push(writer.into_inner().map_err(io::IntoInnerError::into_error)?);
        Ok(())
    }
}

impl Sorted for SortedLayer {
    type Error = io::Error;

    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<Placed>>> {
        let mut sources: Vec<Source<'_>> = vec![Source::Memory(self.rest.iter())];
        for run in &self.runs {
            let file = FromStart { file: run, position: 0 };
            sources.push(Source::File(BufReader::with_capacity(BUFFER, file)));
        }
        let mut merge = Merge { sources, heads: BinaryHeap::new(), failure: None };
        (0..merge.sources.len()).for_each(|at| merge.advance(at));
        Ok(merge)
    }
}

/// A source of sorted entries.
enum Source<'a> {
    Memory(std::slice::Iter<'a, Placed>),
    File(BufReader<FromStart<'a>>),
}

/// Reads a file from its start, independently of other readers of the same file.
struct FromStart<'a> {
    file: &'a File,
    position: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Source<'_> {
    fn next(&mut self) -> io::Result<Option<Placed>> {
        let reader = match self {
            Source::Memory(entries) => return Ok(entries.next().cloned()),
            Source::File(reader) => reader,
        };
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let parse = || {
            let (place, line) = line.trim_end_matches('\n').split_once(' ')?;
            let (path, entry) = Listing::parse_line(line)?;
            Some(Placed { path, entry, place: place.parse().ok()? })
        };
        parse().map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Merges sorted entries from several sources.
struct Merge<'a> {
    sources: Vec<Source<'a>>,
    /// The next entry of each source, with the index of the source.
    heads: BinaryHeap<Reverse<(Placed, usize)>>,
    failure: Option<io::Error>,
}

impl Merge<'_> {
    fn advance(&mut self, at: usize) {
        let Some(source) = self.sources.get_mut(at) else { return };
        match source.next() {
            Ok(entry) => self.heads.extend(entry.map(|entry| Reverse((entry, at)))),
            Err(error) => self.failure = Some(error),
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = io::Result<Placed>;

    fn next(&mut self) -> Option<io::Result<Placed>> {
        if let Some(error) = self.failure.take() {
            self.heads.clear();
            return Some(Err(error));
        }
        let Reverse((entry, at)) = self.heads.pop()?;
        self.advance(at);
        Some(Ok(entry))
    }
}

#[cfg(test)]
mod tests {
    use seal::Kind;

    use super::*;

    /// Returns a sorter with unsorted entries that have long paths. Some entries occur twice.
    fn sorter(count: u32) -> Sorter {
        let mut sorter = Sorter { layer: SortedLayer::default(), folder: None, held: 0, next: 0 };
        for number in 0..count {
            let scattered = u64::from(number) * 7919 % u64::from(count / 2);
            let path = format!("{}/{scattered}", "long".repeat(60));
            let mut entry = Entry::new(Kind::File);
            entry.size = number.into();
            sorter.add(EntryPath::parse(path.as_bytes()).unwrap(), entry).unwrap();
        }
        sorter.layer.rest.sort();
        sorter
    }

    #[test]
    fn entries_on_disk_come_in_the_order_of_those_in_memory() {
        let layer = sorter(110_000).layer;
        assert!(layer.runs.len() > 1, "nothing was written to disk");
        let found: Vec<Placed> = layer.entries().unwrap().collect::<io::Result<_>>().unwrap();
        assert_eq!(found.len(), 110_000);
        assert!(found.is_sorted());
        // Two simultaneous readers do not interfere.
        let mut count = 0;
        seal::compare(&layer, &layer, |_| {
            count += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(count, 0);
    }
}
