//! Bundles of code objects, plain and compressed (clang, ClangOffloadBundler).

use std::cell::Cell;
use std::io::{self, BufReader, Read};

use memchr::memmem;
use zstd::zstd_safe::DCtx;

use crate::elf::{self, Elf};
use crate::error::ScanError;
use crate::scan::{CodeObject, Owner, limit};
use crate::spool::Spool;

/// The first bytes of a plain bundle.
pub(crate) const PLAIN: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
/// The first bytes of a compressed bundle.
pub(crate) const COMPRESSED: &[u8] = b"CCOB";
/// The maximum number of entries in a bundle. There are fewer than 70 processors, each with few
/// features.
const MOST_ENTRIES: u64 = 1024;
/// The longest ID of an entry, in bytes.
const LONGEST_ID: u64 = 256;
/// The largest size of a bundle before compression, in bytes.
const LARGEST: u64 = 8 << 30;
/// The maximum ratio between the sizes after and before decompression. In real bundles, it is below
/// 100.
const MOST_GROWTH: u64 = 2000;
/// The buffer size, in bytes.
const PIECE: usize = 64 << 10;

/// A bundle in a file.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Its position in the file, in bytes.
    pub(crate) start: u64,
    /// The end of its header, of its last entry that is not empty, or of its compressed data.
    pub(crate) end: u64,
    /// How it is compressed.
    pub(crate) packing: Option<Packing>,
    /// Its entries, in order.
    pub(crate) entries: Vec<Entry>,
}

/// How a bundle is compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    /// The version of the header.
    pub(crate) version: u16,
    pub(crate) method: Method,
    /// The position of the compressed data in the file.
    pub(crate) data: u64,
}

/// A method of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Zlib,
    Zstd,
}

/// An entry of a bundle.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Vec<u8>,
    pub(crate) object: CodeObject,
}

/// Reads all bundles between two positions. `count` is the number of code objects so far.
pub(crate) fn read_all(
    file: &Spool,
    (start, end): (u64, u64),
    count: &mut usize,
) -> Result<Vec<Bundle>, ScanError> {
    let mut bundles = Vec::new();
    let mut position = start;
    while let Some(next) = next_data(file, position, end)? {
        let mut magic = [0; PLAIN.len()];
        let length = usize::try_from(end - next).unwrap_or(usize::MAX).min(magic.len());
        file.read_at(next, &mut magic[..length])?;
        let bundle = if magic == PLAIN {
            plain(file, next, end)?
        } else if magic.starts_with(COMPRESSED) {
            compressed(file, next, end)?
        } else {
            return Err(ScanError::at(
                next,
                "a bundle is expected here, but these bytes are not a bundle",
            ));
        };
        position = bundle.end;
        *count += bundle.entries.len();
        limit(*count)?;
        bundles.push(bundle);
    }
    Ok(bundles)
}

/// Returns the position of the first bundle anywhere in a file.
pub(crate) fn find(file: &Spool) -> io::Result<Option<u64>> {
    // The magic of a compressed bundle is short, so its version and method are compared as well.
    let is_compressed = |bytes: &[u8]| matches!(bytes, [1..=3, 0, 0..=1, 0, ..]);
    let mut piece = vec![0; PIECE + PLAIN.len()];
    let mut from = 0;
    while from < file.size() {
        let length = usize::try_from(file.size() - from).unwrap_or(usize::MAX).min(piece.len());
        let part = &mut piece[..length];
        file.read_at(from, part)?;
        let plain = memmem::find(part, PLAIN);
        let compressed = memmem::find_iter(part, COMPRESSED)
            .find(|at| is_compressed(&part[at + COMPRESSED.len()..]));
        if let Some(at) = plain.into_iter().chain(compressed).min() {
            return Ok(Some(from + at as u64));
        }
        from += PIECE as u64;
    }
    Ok(None)
}

/// Returns the position of the first byte that is not zero.
fn next_data(file: &Spool, mut from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut piece = vec![0; PIECE];
    // Bundles are aligned to a page, so little is read if there is no large gap.
    let mut length = 4096;
    while from < end {
        let part = &mut piece[..usize::try_from(end - from).unwrap_or(PIECE).min(length)];
        file.read_at(from, part)?;
        if let Some(at) = part.iter().position(|byte| *byte != 0) {
            return Ok(Some(from + at as u64));
        }
        from += part.len() as u64;
        length = PIECE;
    }
    Ok(None)
}

/// Reads the plain bundle at `start`.
fn plain(file: &Spool, start: u64, end: u64) -> Result<Bundle, ScanError> {
    let mut input = Part { file, position: start, end };
    let (entries, size) = read_bundle(&mut input, end - start, start, false)?;
    Ok(Bundle { start, end: start + size, packing: None, entries })
}

/// Reads the compressed bundle at `start`.
fn compressed(file: &Spool, start: u64, end: u64) -> Result<Bundle, ScanError> {
    let damaged = |why: String| ScanError::at(start, why);
    let mut head = Part { file, position: start + COMPRESSED.len() as u64, end };
    let cut = |_| damaged("the header of the compressed bundle is truncated".to_owned());
    let version = head.number::<2>().map_err(cut)?;
    let number = head.number::<2>().map_err(cut)?;
    let (total, size) = match version {
        1 => (None, head.number::<4>().map_err(cut)?),
        2 => (Some(head.number::<4>().map_err(cut)?), head.number::<4>().map_err(cut)?),
        3 => (Some(head.number::<8>().map_err(cut)?), head.number::<8>().map_err(cut)?),
        _ => {
            return Err(damaged(format!(
                "the compressed bundle has the unknown version {version}"
            )));
        }
    };
    head.number::<8>().map_err(cut)?;
    let data = head.position;
    // Version 1 has no total size; the compressed data marks its own end.
    let stop = match total {
        None => end,
        Some(total) => start
            .checked_add(total)
            .filter(|stop| (data..=end).contains(stop))
            .ok_or_else(|| damaged(format!("the compressed bundle has the wrong size {total}")))?,
    };
    if size > LARGEST || size / MOST_GROWTH > stop - data {
        return Err(damaged(format!(
            "the compressed bundle claims to have {size} bytes when decompressed, which is too much for its {} bytes",
            stop - data
        )));
    }
    let method = match number {
        0 => Method::Zlib,
        1 => Method::Zstd,
        _ => return Err(damaged(format!("the compression method {number} is unknown"))),
    };
    let version = u16::try_from(version).unwrap_or_default();
    let packing = Packing { version, method, data };
    let (entries, read) = unpacked(file, stop, packing, |input| decompressed(input, size, start))?;
    if total.is_some() && read != stop {
        return Err(damaged(format!("{} bytes follow the compressed data", stop - read)));
    }
    Ok(Bundle { start, end: read, packing: Some(packing), entries })
}

thread_local! {
    /// The state of the decompressor for the next bundle. A new one for each bundle would need new
    /// memory for its window, and a library can have a thousand bundles.
    static CONTEXT: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Passes the decompressed content of a bundle to `take`, and also returns where the compressed
/// data ends in the file. It ends at `stop` at the latest.
fn unpacked<T>(
    file: &Spool,
    stop: u64,
    packing: Packing,
    take: impl FnOnce(Forward<&mut dyn Read>) -> Result<T, ScanError>,
) -> Result<(T, u64), ScanError> {
    let part = Part { file, position: packing.data, end: stop };
    let mut packed = BufReader::with_capacity(PIECE, part);
    let value = match packing.method {
        Method::Zlib => {
            let mut input = flate2::bufread::ZlibDecoder::new(&mut packed);
            take(Forward { input: &mut input, position: 0 })?
        }
        Method::Zstd => {
            let mut context = CONTEXT.take().unwrap_or_else(DCtx::create);
            let mut input = zstd::Decoder::with_context(&mut packed, &mut context).single_frame();
            let value = take(Forward { input: &mut input, position: 0 })?;
            drop(input);
            CONTEXT.set(Some(context));
            value
        }
    };
    let left = packed.buffer().len() as u64;
    Ok((value, packed.into_inner().position - left))
}

/// Decompresses a bundle.
pub(crate) fn unpack(
    file: &Spool,
    bundle: &Bundle,
    packing: Packing,
    mut out: Spool,
) -> Result<Spool, ScanError> {
    let take = |input: Forward<&mut dyn Read>| {
        let mut piece = vec![0; PIECE];
        loop {
            match input.input.read(&mut piece)? {
                0 => return Ok(out),
                count => out.push(&piece[..count])?,
            }
        }
    };
    Ok(unpacked(file, bundle.end, packing, take)?.0)
}

/// Reads a decompressed bundle, which must have exactly `size` bytes.
fn decompressed(
    mut input: Forward<&mut dyn Read>,
    size: u64,
    at: u64,
) -> Result<Vec<Entry>, ScanError> {
    let failed = |error: io::Error| ScanError::at(at, format!("cannot decompress it: {error}"));
    let (entries, _) = read_bundle(&mut input, size, at, true)?;
    input.skip(size - input.position).map_err(failed)?;
    let mut more = [0];
    match input.input.read(&mut more).map_err(failed)? {
        0 => Ok(entries),
        _ => Err(ScanError::at(at, format!("it has more than {size} bytes when decompressed"))),
    }
}

/// Bytes that are read from start to end.
trait Input {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()>;
    fn skip(&mut self, count: u64) -> io::Result<()>;

    fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes[..N])?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A part of a file.
struct Part<'a> {
    file: &'a Spool,
    position: u64,
    end: u64,
}

impl Input for Part<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let next = self.position.saturating_add(buffer.len() as u64);
        if next > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_at(self.position, buffer)?;
        self.position = next;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.position = self.position.saturating_add(count);
        if self.position > self.end { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        self.fill(&mut buffer[..count])?;
        Ok(count)
    }
}

/// A decompressor.
struct Forward<R> {
    input: R,
    position: u64,
}

impl<R: Read> Input for Forward<R> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(buffer)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.input).take(count), &mut io::sink())?;
        self.position += skipped;
        if skipped < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Reads a plain bundle of at most `limit` bytes. `at` is its position in the file, or that of the
/// compressed bundle that `input` decompresses.
/// Also returns the end of the header or of the last entry that is not empty.
fn read_bundle(
    input: &mut impl Input,
    limit: u64,
    at: u64,
    is_compressed: bool,
) -> Result<(Vec<Entry>, u64), ScanError> {
    let cut = |error: io::Error| {
        if is_compressed {
            ScanError::at(at, format!("cannot decompress the bundle: {error}"))
        } else {
            ScanError::at(at, "the bundle is truncated")
        }
    };
    let damaged = |why: String| ScanError::at(at, why);
    let mut magic = [0; PLAIN.len()];
    input.fill(&mut magic).map_err(cut)?;
    if magic != PLAIN {
        return Err(damaged("the decompressed content is not a bundle".to_owned()));
    }
    let count = input.number::<8>().map_err(cut)?;
    if count > MOST_ENTRIES {
        return Err(damaged(format!("the bundle claims to have {count} entries")));
    }
    let mut position = PLAIN.len() as u64 + 8;
    let mut entries = Vec::new();
    for number in 1..=count {
        let offset = input.number::<8>().map_err(cut)?;
        let size = input.number::<8>().map_err(cut)?;
        let length = input.number::<8>().map_err(cut)?;
        if length > LONGEST_ID {
            return Err(damaged(format!("the ID of entry {number} has {length} bytes")));
        }
        let mut id = vec![0; usize::try_from(length).unwrap_or_default()];
        input.fill(&mut id).map_err(cut)?;
        position += 24 + length;
        let owner = owner(&id).map_err(|why| damaged(format!("entry {number}: {why}")))?;
        if offset.checked_add(size).is_none_or(|end| end > limit) {
            return Err(damaged(format!(
                "entry {number} (at {offset}, {size} bytes) is outside the bundle or the file"
            )));
        }
        let bundle = Some(at);
        let object = CodeObject { bundle, offset, size, owner, is_compressed: false };
        entries.push(Entry { id, object });
    }
    if position > limit {
        return Err(damaged(format!("the header of the bundle is larger than its {limit} bytes")));
    }
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|number| entries[*number].object.offset);
    for number in order {
        let object = &mut entries[number].object;
        object.is_compressed = is_compressed;
        if object.size == 0 {
            continue;
        }
        let ahead = object.offset.checked_sub(position).ok_or_else(|| {
            damaged(format!("entry {} overlaps with another or with the header", number + 1))
        })?;
        input.skip(ahead).map_err(cut)?;
        let mut head = [0; elf::HEADER];
        let length = usize::try_from(object.size).unwrap_or(usize::MAX).min(head.len());
        input.fill(&mut head[..length]).map_err(cut)?;
        object.owner = checked(&head[..length], object.owner.clone())
            .map_err(|why| damaged(format!("entry {}: {why}", number + 1)))?;
        let rest = object.size - length as u64;
        input.skip(rest).map_err(cut)?;
        position = object.offset + object.size;
    }
    Ok((entries, position))
}

/// Returns the owner of an entry, according to its ID: `kind-triple-target`.
fn owner(id: &[u8]) -> Result<Owner, String> {
    let id = str::from_utf8(id).ok().filter(|id| id.bytes().all(|b| b.is_ascii_graphic()));
    let id = id.ok_or("its ID is not text")?;
    if id.starts_with("host") {
        return Ok(Owner::Host);
    }
    match id.split_once("-amdhsa-") {
        // Older compilers write one dash, newer ones two.
        Some((_, target)) => {
            let target = target.trim_start_matches('-');
            target.parse().map(Owner::Gpu)
        }
        None => Ok(Owner::Other(id.to_owned())),
    }
}

/// Checks that the first bytes of an entry are code for its target. Returns the owner of the entry.
fn checked(head: &[u8], owner: Owner) -> Result<Owner, String> {
    let Owner::Gpu(target) = owner else { return Ok(owner) };
    if target.is_portable() && head.starts_with(&SPIRV) {
        return Ok(Owner::Gpu(target));
    }
    // The runtime does not load code that is not fully compiled and linked.
    if head.starts_with(&BITCODE) || head.starts_with(&SPIRV) {
        return Ok(Owner::Data(target));
    }
    let (found, is_loaded) = match elf::identify(head) {
        Some(Elf::CodeObject(found)) => (found, true),
        Some(Elf::OtherCode(found)) => (found, false),
        Some(Elf::Host) => {
            return Err(format!("its ID specifies {target}, but it is not code for an AMD GPU"));
        }
        None => return Err(format!("its ID specifies {target}, but it is not a code object")),
    };
    if found.is_known() && target.is_known() && found.processor() != target.processor() {
        return Err(format!("its ID specifies {target}, but its code is for {found}"));
    }
    Ok(if is_loaded { Owner::Gpu(target) } else { Owner::Data(target) })
}

/// The first bytes of LLVM's intermediate code, and of SPIR-V.
const BITCODE: [u8; 4] = *b"BC\xc0\xde";
const SPIRV: [u8; 4] = [0x03, 0x02, 0x23, 0x07];
