//! kpack archives (rocm-kpack, `kpack.py`): a header, kernels, and a table in MessagePack.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::error::ScanError;
use crate::scan::{CodeObject, Owner, limit};
use crate::spool::Spool;

/// The first bytes of an archive.
pub(crate) const MAGIC: &[u8] = b"KPAK";
/// The only supported version.
const VERSION: u32 = 1;
/// The size of the header, in bytes.
const HEAD: usize = 16;
/// The largest table, in bytes. The entry of a kernel takes about 120 bytes.
const LARGEST_TABLE: u64 = 4 << 20;

/// The maximum nesting depth of a table. Its kernels are on the fourth level; the library's default
/// depth could overflow a thread's stack.
const MOST_LEVELS: usize = 32;

#[derive(Deserialize)]
struct Table {
    compression_scheme: String,
    /// The kernels, by binary and by target.
    toc: Pairs<Pairs<Kernel>>,
    /// The positions of the kernels, if they are not compressed.
    #[serde(default)]
    blobs: Vec<Blob>,
}

#[derive(Deserialize)]
struct Kernel {
    ordinal: usize,
    original_size: Option<u64>,
}

/// A map, in the order of the file. Unlike a map of the standard library, it needs little memory if
/// it has only one entry, as many maps in a table do.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
    type Value = Pairs<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<T>, M::Error> {
        let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or_default().min(16));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

#[derive(Deserialize, Clone, Copy)]
struct Blob {
    offset: u64,
    size: u64,
}

/// Adds the kernels of an archive.
pub(crate) fn read(file: &Spool, found: &mut Vec<CodeObject>) -> Result<(), ScanError> {
    let mut head = [0; HEAD];
    file.read_at(0, &mut head).map_err(|_| ScanError::at(0, "the archive is truncated"))?;
    let [_, _, _, _, v0, v1, v2, v3, start @ ..] = head;
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if version != VERSION {
        return Err(ScanError::at(4, format!("the archive has the unknown version {version}")));
    }
    let start = u64::from_le_bytes(start);
    let length = file.size().checked_sub(start).filter(|length| *length <= LARGEST_TABLE);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| {
        ScanError::at(8, "the table of the archive is outside the file, or larger than 4 MiB")
    })?;
    let mut bytes = vec![0; length];
    file.read_at(start, &mut bytes)?;
    let damaged = |why: String| ScanError::at(start, format!("the table of the archive: {why}"));
    let mut decoder = rmp_serde::Deserializer::from_read_ref(&bytes);
    decoder.set_max_depth(MOST_LEVELS);
    let table = Table::deserialize(&mut decoder).map_err(|error| damaged(error.to_string()))?;
    let is_compressed = match table.compression_scheme.as_str() {
        "none" => false,
        "zstd-per-kernel" => true,
        other => {
            let other = other.escape_debug();
            return Err(damaged(format!("the compression `{other}` is unknown")));
        }
    };
    for (binary, Pairs(kernels)) in table.toc.0 {
        for (target, Kernel { ordinal, original_size }) in kernels {
            let owner = Owner::Gpu(target.parse().map_err(damaged)?);
            let blob = if is_compressed {
                original_size.map(|size| Blob { offset: 0, size })
            } else {
                table.blobs.get(ordinal).copied()
            };
            let blob = blob.ok_or_else(|| {
                let binary = binary.escape_debug();
                damaged(format!("kernel {ordinal} of `{binary}` is missing, or has no size"))
            })?;
            let Blob { offset, size } = blob;
            if !is_compressed && offset.checked_add(size).is_none_or(|end| end > file.size()) {
                return Err(damaged(format!("kernel {ordinal} is outside the file")));
            }
            found.push(CodeObject { bundle: None, offset, size, owner, is_compressed });
            limit(found.len())?;
        }
    }
    Ok(())
}
