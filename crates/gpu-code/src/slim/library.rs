//! Rewrites programs and libraries with fat binaries.
//!
//! Bundles stay where they are, because the program points to them. The bytes after a shortened
//! bundle become zeros. Then whole pages of zeros are removed from the file: the segment
//! (`PT_LOAD`) is split, and each part except the last is larger in memory (`p_memsz`) than in the
//! file (`p_filesz`), so the loader fills the rest with zeros (System V ABI, "Program Header"). No
//! address changes, so symbols and relocations stay valid. The table of segments becomes larger,
//! and moves to its own segment after the others. Only dynamic linkers accept such a table, so
//! programs keep their zeros, and so do files for processors other than x86-64.

use std::path::Path;

use object::LittleEndian as LE;
use object::elf::{
    EM_X86_64, FileHeader64, PF_R, PT_INTERP, PT_LOAD, PT_PHDR, ProgramHeader64, SectionHeader64,
};
use object::pod;

use super::bundles::rewritten;
use super::{PAGE, Piece};
use crate::error::ScanError;
use crate::scan::FatSection;
use crate::spool::Spool;
use crate::target::CodeTarget;

type Header = FileHeader64<LE>;
type Segment = ProgramHeader64<LE>;
type Section = SectionHeader64<LE>;

/// The maximum number of segments in a file. Dynamic linkers hold the table on a thread's stack.
const MOST_SEGMENTS: usize = 1000;

/// The smallest number of sections that does not fit in the header (`SHN_LORESERVE`).
const MOST_SECTIONS: usize = 0xff00;

/// A part of a file, from one position to another.
type Range = (u64, u64);

/// Rewrites a library. `sections` are its sections with bundles.
pub(crate) fn slim(
    file: &Spool,
    sections: &[FatSection],
    is_kept: &dyn Fn(&CodeTarget) -> bool,
    folder: Option<&Path>,
) -> Result<Spool, ScanError> {
    let mut pieces = Pieces::default();
    let mut gaps = Vec::new();
    for section in sections {
        for (number, bundle) in section.bundles.iter().enumerate() {
            pieces.copy_until(bundle.start);
            for piece in rewritten(file, bundle, is_kept, folder)? {
                pieces.push(piece);
            }
            // There are only zeros between two bundles.
            let next = section.bundles.get(number + 1).map_or(section.end, |next| next.start);
            gaps.push((pieces.end, next));
            pieces.push(Piece::Zeros(next - pieces.end));
        }
    }
    pieces.copy_until(file.size());
    let mut plain = Spool::new(folder);
    for piece in &pieces.all {
        piece.write(file, &mut plain)?;
    }
    let Some(elf) = Tables::read(&plain)? else { return Ok(plain) };
    let remaining = elf.without(&gaps, sections).unwrap_or_default();
    let size: u64 = remaining.iter().map(Piece::size).sum();
    // The larger table may take more space than was saved.
    if remaining.is_empty() || size >= plain.size() {
        return Ok(plain);
    }
    let mut short = Spool::new(folder);
    for piece in remaining {
        piece.write(&plain, &mut short)?;
    }
    Ok(short)
}

/// The parts of a new file of the same size as the old one.
#[derive(Default)]
struct Pieces {
    all: Vec<Piece>,
    end: u64,
}

impl Pieces {
    fn copy_until(&mut self, position: u64) {
        self.push(Piece::Old(self.end, position));
    }

    fn push(&mut self, piece: Piece) {
        self.end += piece.size();
        self.all.push(piece);
    }
}

/// The header of a library and its tables of segments and sections.
struct Tables {
    header: Header,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    size: u64,
}

impl Tables {
    /// Returns `None` if the segments of the file cannot be split.
    fn read(file: &Spool) -> Result<Option<Self>, ScanError> {
        let header = *one::<Header>(&bytes(file, 0, size_of::<Header>())?)?;
        let counts = (header.e_phnum.get(LE), header.e_shnum.get(LE));
        let sizes = (header.e_phentsize.get(LE), header.e_shentsize.get(LE));
        let is_usual = usize::from(sizes.0) == size_of::<Segment>()
            && usize::from(sizes.1) == size_of::<Section>()
            && header.e_machine.get(LE) == EM_X86_64
            && usize::from(counts.0) < MOST_SEGMENTS
            // The number of sections does not fit in the header.
            && counts.1 != 0;
        if !is_usual {
            return Ok(None);
        }
        let segments = table::<Segment>(file, header.e_phoff.get(LE), counts.0)?;
        let sections = table::<Section>(file, header.e_shoff.get(LE), counts.1)?;
        let is_splittable = |segment: &Segment| {
            let offset = segment.p_offset.get(LE);
            let distance = segment.p_vaddr.get(LE).wrapping_sub(offset);
            segment.p_type.get(LE) != PT_INTERP
                && (!is_loaded(segment) || distance.is_multiple_of(PAGE))
                && end_of(segment).is_some_and(|end| end <= file.size())
        };
        let is_splittable = segments.iter().all(is_splittable);
        let size = file.size();
        Ok(is_splittable.then_some(Self { header, segments, sections, size }))
    }

    /// Returns the file without whole pages of gaps, or `None` if there are none or if the segments
    /// do not allow it. `fat` are the sections that contain the gaps.
    fn without(&self, gaps: &[Range], fat: &[FatSection]) -> Option<Vec<Piece>> {
        let whole = |(start, end): &Range| {
            let pages = (start.next_multiple_of(PAGE), end - end % PAGE);
            (pages.0 < pages.1 && self.is_free(pages)).then_some(pages)
        };
        let mut dropped: Vec<Range> = gaps.iter().filter_map(whole).collect();
        if dropped.is_empty() {
            return None;
        }
        // If there are too many gaps, the smallest ones are kept.
        dropped.sort_by_key(|(start, end)| std::cmp::Reverse((end - start, *start)));
        dropped.truncate(MOST_SEGMENTS - self.segments.len());
        dropped.sort_unstable();
        let moved = |position: u64| {
            let before = dropped.iter().filter(|(start, _)| *start < position);
            position - before.map(|(start, end)| end.min(&position) - start).sum::<u64>()
        };
        let segments = self.split(&dropped, &moved)?;
        let is_dropped = |gap: &&Range| dropped.iter().any(|one| gap.0 <= one.0 && one.1 <= gap.1);
        let gaps: Vec<Range> = gaps.iter().filter(is_dropped).copied().collect();
        let sections = self.moved_sections(&gaps, fat, &moved);
        if sections.len() >= MOST_SECTIONS {
            return None;
        }
        Some(self.assemble(&dropped, segments, &sections, moved(self.end())))
    }

    /// Returns whether a range is in a segment that is loaded, and in no other segment.
    fn is_free(&self, (from, to): Range) -> bool {
        let touches = |segment: &&Segment| {
            let start = segment.p_offset.get(LE);
            end_of(segment).is_some_and(|end| start < to && from < end)
        };
        let mut touched = self.segments.iter().filter(touches);
        let is_inside = touched.next().is_some_and(|segment| {
            let start = segment.p_offset.get(LE);
            is_loaded(segment) && start < from && end_of(segment).is_some_and(|end| to <= end)
        });
        is_inside && touched.next().is_none()
    }

    /// Returns the new table of segments. The last loaded segment is the one that contains the
    /// table itself; its position in the file is not set yet.
    fn split(&self, dropped: &[Range], moved: &dyn Fn(u64) -> u64) -> Option<Vec<Segment>> {
        let mut all = Vec::new();
        let mut address = 0;
        for segment in &self.segments {
            let (start, end) = (segment.p_offset.get(LE), end_of(segment)?);
            let mut rest = *segment;
            if !is_loaded(segment) {
                if start < end {
                    rest.p_offset.set(LE, moved(start));
                }
                all.push(rest);
                continue;
            }
            let mut position = start;
            for (from, to) in dropped.iter().filter(|(from, _)| start < *from && *from < end) {
                let in_memory = to - position;
                let mut part = rest;
                part.p_offset.set(LE, moved(position));
                part.p_filesz.set(LE, from - position);
                part.p_memsz.set(LE, in_memory);
                part.p_align.set(LE, PAGE);
                all.push(part);
                rest.p_vaddr.set(LE, rest.p_vaddr.get(LE).checked_add(in_memory)?);
                rest.p_paddr.set(LE, rest.p_paddr.get(LE).wrapping_add(in_memory));
                rest.p_filesz.set(LE, rest.p_filesz.get(LE) - in_memory);
                rest.p_memsz.set(LE, rest.p_memsz.get(LE).checked_sub(in_memory)?);
                position = *to;
            }
            rest.p_offset.set(LE, moved(position));
            if moved(position) != start {
                rest.p_align.set(LE, PAGE);
            }
            if rest.p_memsz.get(LE) > 0 {
                all.push(rest);
            }
            let in_memory = segment.p_vaddr.get(LE).checked_add(segment.p_memsz.get(LE))?;
            address = address.max(in_memory.checked_next_multiple_of(PAGE)?);
        }
        let size = ((all.len() + 1) * size_of::<Segment>()) as u64;
        let mut table = *self.segments.iter().find(|segment| is_loaded(segment))?;
        table.p_flags.set(LE, PF_R);
        table.p_align.set(LE, PAGE);
        let place = |segment: &mut Segment| {
            segment.p_vaddr.set(LE, address);
            segment.p_paddr.set(LE, address);
            segment.p_filesz.set(LE, size);
            segment.p_memsz.set(LE, size);
        };
        place(&mut table);
        all.iter_mut().filter(|segment| segment.p_type.get(LE) == PT_PHDR).for_each(place);
        // The table of segments is in the order of addresses.
        let last = all.iter().rposition(is_loaded)?;
        all.insert(last + 1, table);
        Some(all)
    }

    /// Returns the new table of sections. A section with gaps becomes several with the same name;
    /// the new ones are at the end, so that the indexes of the others stay valid.
    fn moved_sections(
        &self,
        gaps: &[Range],
        fat: &[FatSection],
        moved: &dyn Fn(u64) -> u64,
    ) -> Vec<Section> {
        let mut all = self.sections.clone();
        let mut more = Vec::new();
        for section in &mut all {
            let start = section.sh_offset.get(LE);
            let end = start + section.sh_size.get(LE);
            let is_fat = fat.iter().any(|one| (one.start, one.end) == (start, end));
            if !is_fat || start == end {
                section.sh_offset.set(LE, moved(start));
                continue;
            }
            let old = *section;
            let mut parts = Vec::new();
            let mut position = start;
            for gap in gaps.iter().filter(|gap| start <= gap.0 && gap.1 <= end) {
                if position < gap.0 {
                    parts.push((position, gap.0));
                }
                position = gap.1;
            }
            if position < end {
                parts.push((position, end));
            }
            for (number, (from, to)) in parts.into_iter().enumerate() {
                let mut part = old;
                part.sh_offset.set(LE, moved(from));
                part.sh_addr.set(LE, old.sh_addr.get(LE) + (from - start));
                part.sh_size.set(LE, to - from);
                match number {
                    0 => *section = part,
                    _ => more.push(part),
                }
            }
        }
        all.extend(more);
        all
    }

    /// Returns where the content of the file ends, not counting a table of sections at its end.
    fn end(&self) -> u64 {
        let start = self.header.e_shoff.get(LE);
        let size = (self.sections.len() * size_of::<Section>()) as u64;
        if start + size == self.size { start } else { self.size }
    }

    /// Returns the parts of the new file. `end` is where its content ends.
    fn assemble(
        &self,
        dropped: &[Range],
        mut segments: Vec<Segment>,
        sections: &[Section],
        end: u64,
    ) -> Vec<Piece> {
        let segments_at = end.next_multiple_of(PAGE);
        let sections_at = segments_at + (segments.len() * size_of::<Segment>()) as u64;
        let table = segments.iter().rposition(is_loaded);
        for (number, segment) in segments.iter_mut().enumerate() {
            if Some(number) == table || segment.p_type.get(LE) == PT_PHDR {
                segment.p_offset.set(LE, segments_at);
            }
        }
        let mut header = self.header;
        header.e_phoff.set(LE, segments_at);
        header.e_phnum.set(LE, u16::try_from(segments.len()).unwrap_or_default());
        header.e_shoff.set(LE, sections_at);
        header.e_shnum.set(LE, u16::try_from(sections.len()).unwrap_or_default());
        let header = pod::bytes_of(&header).to_vec();
        let mut position = header.len() as u64;
        let mut pieces = vec![Piece::New(header)];
        for (from, to) in dropped {
            pieces.push(Piece::Old(position, *from));
            position = *to;
        }
        pieces.push(Piece::Old(position, self.end()));
        pieces.push(Piece::Zeros(segments_at - end));
        pieces.push(Piece::New(pod::bytes_of_slice(&segments).to_vec()));
        pieces.push(Piece::New(pod::bytes_of_slice(sections).to_vec()));
        pieces
    }
}

fn is_loaded(segment: &Segment) -> bool {
    segment.p_type.get(LE) == PT_LOAD
}

/// Returns the end of a segment in the file.
fn end_of(segment: &Segment) -> Option<u64> {
    segment.p_offset.get(LE).checked_add(segment.p_filesz.get(LE))
}

fn bytes(file: &Spool, from: u64, count: usize) -> Result<Vec<u8>, ScanError> {
    let mut bytes = vec![0; count];
    file.read_at(from, &mut bytes)?;
    Ok(bytes)
}

fn one<T: pod::Pod>(bytes: &[u8]) -> Result<&T, ScanError> {
    let found = pod::from_bytes(bytes);
    let (found, _) = found.map_err(|()| ScanError::at(0, "the header cannot be read"))?;
    Ok(found)
}

fn table<T: pod::Pod + Copy>(file: &Spool, at: u64, count: u16) -> Result<Vec<T>, ScanError> {
    let bytes = bytes(file, at, usize::from(count) * size_of::<T>())?;
    let found = pod::slice_from_bytes::<T>(&bytes, count.into());
    let (found, _) = found.map_err(|()| ScanError::at(at, "the table cannot be read"))?;
    Ok(found.to_vec())
}
