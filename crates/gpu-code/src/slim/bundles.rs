//! Writes bundles with fewer entries (clang, ClangOffloadBundler).

use std::io::{self, Write};
use std::path::Path;

use md5::{Digest as _, Md5};

use super::{PAGE, Piece, for_each_chunk};
use crate::bundle::{Bundle, COMPRESSED, Method, PLAIN, Packing, unpack};
use crate::error::ScanError;
use crate::spool::Spool;
use crate::target::CodeTarget;

/// The compression levels. A different level gives different bytes, and so needs a new contract.
const ZSTD_LEVEL: i32 = 10;
const ZLIB_LEVEL: u32 = 6;

/// Rewrites a file that consists of bundles.
pub(crate) fn slim(
    file: &Spool,
    bundles: &[Bundle],
    is_kept: &dyn Fn(&CodeTarget) -> bool,
    folder: Option<&Path>,
) -> Result<Spool, ScanError> {
    let mut out = Spool::new(folder);
    let mut end = 0;
    for bundle in bundles {
        // Bundles keep their alignment, but not their position.
        let gap = (bundle.start - end) % PAGE;
        let position = out.size() + gap;
        let more = (bundle.start % PAGE + PAGE - position % PAGE) % PAGE;
        Piece::Zeros(gap + more).write(file, &mut out)?;
        for piece in rewritten(file, bundle, is_kept, folder)? {
            piece.write(file, &mut out)?;
        }
        end = bundle.end;
    }
    Ok(out)
}

/// Returns the replacement for a bundle, which is never larger.
pub(crate) fn rewritten(
    file: &Spool,
    bundle: &Bundle,
    is_kept: &dyn Fn(&CodeTarget) -> bool,
    folder: Option<&Path>,
) -> Result<Vec<Piece>, ScanError> {
    let is_dropped = |target: Option<&CodeTarget>| target.is_some_and(|target| !is_kept(target));
    let unchanged = || vec![Piece::Old(bundle.start, bundle.end)];
    if !bundle.entries.iter().any(|entry| is_dropped(entry.object.target())) {
        return Ok(unchanged());
    }
    let Some(packing) = bundle.packing else {
        return Ok(shortened(bundle, bundle.start, is_kept));
    };
    let plain = unpack(file, bundle, packing, Spool::new(folder))?;
    let mut short = Spool::new(folder);
    for piece in shortened(bundle, 0, is_kept) {
        piece.write(&plain, &mut short)?;
    }
    let packed = pack(&short, packing, Spool::new(folder))?;
    let is_smaller = packed.size() < bundle.end - bundle.start;
    Ok(if is_smaller { vec![Piece::Spooled(packed)] } else { unchanged() })
}

/// Passes the plain form of a bundle to `take`: a file, and the position of the bundle in it.
pub(crate) fn opened(
    file: &Spool,
    bundle: &Bundle,
    folder: Option<&Path>,
    take: impl FnOnce(&Spool, u64) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    match bundle.packing {
        None => take(file, bundle.start),
        Some(packing) => take(&unpack(file, bundle, packing, Spool::new(folder))?, 0),
    }
}

/// Returns a plain bundle without the entries that are not kept. `start` is its position in the
/// plain file.
fn shortened(bundle: &Bundle, start: u64, is_kept: &dyn Fn(&CodeTarget) -> bool) -> Vec<Piece> {
    let is_dropped = |target: Option<&CodeTarget>| target.is_some_and(|one| !is_kept(one));
    let entries = bundle.entries.iter().filter(|entry| !is_dropped(entry.object.target()));
    let entries: Vec<_> = entries.collect();
    let heads: usize = entries.iter().map(|entry| 24 + entry.id.len()).sum();
    let mut end = (PLAIN.len() + 8 + heads) as u64;
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|number| entries[*number].object.offset);
    let mut offsets = vec![0; entries.len()];
    let mut pieces = Vec::new();
    for number in order {
        let object = &entries[number].object;
        if object.size == 0 {
            offsets[number] = end;
            continue;
        }
        // The next position that is as far from the start of a page as the old one.
        let offset = end + (object.offset % PAGE + PAGE - end % PAGE) % PAGE;
        offsets[number] = offset;
        let from = start + object.offset;
        pieces.push(Piece::Zeros(offset - end));
        pieces.push(Piece::Old(from, from + object.size));
        end = offset + object.size;
    }
    let mut head = PLAIN.to_vec();
    head.extend((entries.len() as u64).to_le_bytes());
    for (entry, offset) in entries.iter().zip(offsets) {
        for number in [offset, entry.object.size, entry.id.len() as u64] {
            head.extend(number.to_le_bytes());
        }
        head.extend(&entry.id);
    }
    pieces.insert(0, Piece::New(head));
    pieces
}

/// Compresses a bundle with the version and the method of the old one.
fn pack(plain: &Spool, packing: Packing, data: Spool) -> Result<Spool, ScanError> {
    let mut md5 = Md5::new();
    let mut data = Writer(data);
    match packing.method {
        Method::Zstd => {
            let mut encoder = zstd::Encoder::new(&mut data, ZSTD_LEVEL)?;
            encoder.set_pledged_src_size(Some(plain.size()))?;
            encoder.include_contentsize(true)?;
            feed(plain, &mut md5, &mut encoder)?;
            encoder.finish()?;
        }
        Method::Zlib => {
            let level = flate2::Compression::new(ZLIB_LEVEL);
            let mut encoder = flate2::write::ZlibEncoder::new(&mut data, level);
            feed(plain, &mut md5, &mut encoder)?;
            encoder.finish()?;
        }
    }
    let Writer(data) = data;
    let hash = md5.finalize();
    let mut out = COMPRESSED.to_vec();
    out.extend(packing.version.to_le_bytes());
    out.extend(match packing.method {
        Method::Zlib => 0_u16.to_le_bytes(),
        Method::Zstd => 1_u16.to_le_bytes(),
    });
    // The size fields of the old header fit the new one, because the bundle only shrinks.
    let width = if packing.version == 3 { 8 } else { 4 };
    let fields = if packing.version == 1 { 1 } else { 2 };
    let total = (out.len() + fields * width + 8) as u64 + data.size();
    let sizes = if packing.version == 1 { vec![plain.size()] } else { vec![total, plain.size()] };
    for size in sizes {
        out.extend(&size.to_le_bytes()[..width]);
    }
    // The first half of the MD5 of the content, as clang writes it.
    out.extend(&hash[..8]);
    let mut whole = Writer(Spool::from(out));
    Piece::Spooled(data).write(plain, &mut whole.0)?;
    Ok(whole.0)
}

fn feed(plain: &Spool, md5: &mut Md5, out: &mut impl Write) -> io::Result<()> {
    for_each_chunk(plain, (0, plain.size()), |chunk| {
        md5.update(chunk);
        out.write_all(chunk)
    })
}

/// Writes to the end of a spool.
struct Writer(Spool);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
