//! Maps of sparse files: old GNU, and GNU's three PAX forms. Holes are read as zeros.

use crate::BLOCK;
use crate::block::{Block, number};
use crate::error::Fault;
use crate::pax::decimal;

/// The maximum number of data segments in a sparse file. GNU tar writes one per hole.
pub(crate) const MAX_SEGMENTS: usize = 1 << 16;
/// The maximum expanded size of a sparse file, in bytes. Without it, a 512-byte header in a hostile
/// tar could claim exabytes.
const MAX_EXPANDED: u64 = 64 << 30;

/// A part of a sparse file that has data; offset and length are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Parses the map in an old GNU header and in the blocks that follow it, which `next` reads.
/// Returns the map and the full size.
pub(crate) fn old_gnu(
    block: &Block,
    mut next: impl FnMut() -> Result<Block, Fault>,
) -> Result<(Vec<Segment>, u64), Fault> {
    let size = unsigned(&block.0[483..495])?;
    let mut map = Vec::new();
    segments(&block.0[386..482], &mut map)?;
    let mut is_extended = block.0[482] != 0;
    while is_extended {
        let more = next()?;
        segments(&more.0[..504], &mut map)?;
        is_extended = more.0[504] != 0;
    }
    Ok((map, size))
}

fn segments(fields: &[u8], map: &mut Vec<Segment>) -> Result<(), Fault> {
    for field in fields.chunks(24) {
        if field[0] == 0 || field[12] == 0 {
            break;
        }
        map.push(Segment { offset: unsigned(&field[..12])?, length: unsigned(&field[12..])? });
    }
    if map.len() > MAX_SEGMENTS { Err(Fault::Sparse("has too many parts")) } else { Ok(()) }
}

fn unsigned(field: &[u8]) -> Result<u64, Fault> {
    let value = number(field).and_then(|value| u64::try_from(value).ok());
    value.ok_or(Fault::Sparse("has a part whose position is not a number"))
}

/// Parses the map that format 1.0 puts in front of the data: decimal lines, padded to a block.
/// `next` reads a block. Returns the map and its size in bytes.
pub(crate) fn in_data(
    mut next: impl FnMut() -> Result<Block, Fault>,
) -> Result<(Vec<Segment>, u64), Fault> {
    let (mut taken, mut line) = (0_u64, Vec::new());
    let mut numbers: Vec<u64> = Vec::new();
    let mut wanted = 1;
    while numbers.len() < wanted {
        let block = next()?;
        taken += BLOCK as u64;
        for byte in block.0 {
            if numbers.len() == wanted {
                break;
            }
            if byte != b'\n' {
                line.push(byte);
                if line.len() > 20 {
                    return Err(Fault::Sparse("has a line that is not a number"));
                }
                continue;
            }
            let value = decimal(&line).ok_or(Fault::Sparse("has a line that is not a number"))?;
            line.clear();
            if numbers.is_empty() {
                let count = usize::try_from(value).unwrap_or(usize::MAX);
                if count > MAX_SEGMENTS {
                    return Err(Fault::Sparse("has too many parts"));
                }
                wanted = 1 + 2 * count;
            }
            numbers.push(value);
        }
    }
    let parts = numbers[1..].chunks(2).map(|pair| Segment { offset: pair[0], length: pair[1] });
    Ok((parts.collect(), taken))
}

/// Checks a map against the stored data and the full size.
pub(crate) fn check(map: &[Segment], stored: u64, size: u64) -> Result<(), Fault> {
    if size > MAX_EXPANDED {
        return Err(Fault::Sparse("expands to more than 64 GiB"));
    }
    if map.len() > MAX_SEGMENTS {
        return Err(Fault::Sparse("has too many parts"));
    }
    let (mut end, mut sum) = (0_u64, 0_u64);
    for segment in map {
        let next = segment.offset.checked_add(segment.length);
        let is_ordered = segment.offset >= end;
        match next.filter(|next| is_ordered && *next <= size) {
            Some(next) => end = next,
            None => return Err(Fault::Sparse("has parts that overlap or are after its end")),
        }
        sum += segment.length;
    }
    if sum == stored { Ok(()) } else { Err(Fault::Sparse("has parts that do not match its data")) }
}
