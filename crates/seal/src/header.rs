//! Writes the headers of a canonical layer.

use std::io::{self, Write};

use tar_stream::{MAX_OCTAL, MAX_OWNER, PAX_NAME, Ustar, pax_header, pax_record};

use crate::entry::{Entry, Kind};

/// Writes the canonical header of an entry, preceded by a PAX header if necessary: for a name or
/// link longer than 100 bytes or not in ASCII, for a large owner, group or size, and for
/// extended attributes. The ustar prefix is not used, because a path can have two valid splits.
///
/// The time and the device numbers must fit their fields; [`crate::Sealer`] ensures this.
pub(crate) fn write_header(out: &mut impl Write, path: &[u8], entry: &Entry) -> io::Result<()> {
    let name = match entry.kind {
        Kind::Directory => [path, b"/"].concat(),
        _ => path.to_vec(),
    };
    let records = records(&name, entry);
    if !records.is_empty() {
        out.write_all(&pax_header(&records, 0))?;
    }
    let kind = match entry.kind {
        Kind::File | Kind::Whiteout | Kind::Opaque => b'0',
        Kind::Hardlink => b'1',
        Kind::Symlink => b'2',
        Kind::Character => b'3',
        Kind::Block => b'4',
        Kind::Directory => b'5',
        Kind::Fifo => b'6',
    };
    // A value in the PAX header is not repeated here: a truncated name is worse than none.
    let short = |text| if fits(text) { text } else { PAX_NAME.as_bytes() };
    let header = Ustar {
        prefix: b"",
        name: short(&name),
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        size: if entry.kind == Kind::File { entry.size } else { 0 },
        mtime: u64::try_from(entry.mtime).unwrap_or_default(),
        kind,
        link: if matches!(entry.kind, Kind::Symlink | Kind::Hardlink) {
            short(&entry.link)
        } else {
            b""
        },
        device: entry.device,
    };
    out.write_all(&header.block())
}

/// Returns the PAX records of an entry, in the order of their keys.
fn records(name: &[u8], entry: &Entry) -> Vec<u8> {
    let mut records = Vec::new();
    for (attribute, value) in &entry.xattrs {
        pax_record(&mut records, &[b"SCHILY.xattr.", &**attribute].concat(), value);
    }
    let number = |out: &mut Vec<u8>, key: &[u8], value: u64, most: u64| {
        if value > most {
            pax_record(out, key, value.to_string().as_bytes());
        }
    };
    number(&mut records, b"gid", entry.gid.into(), MAX_OWNER.into());
    if matches!(entry.kind, Kind::Symlink | Kind::Hardlink) && !fits(&entry.link) {
        pax_record(&mut records, b"linkpath", &entry.link);
    }
    if !fits(name) {
        pax_record(&mut records, b"path", name);
    }
    if entry.kind == Kind::File {
        number(&mut records, b"size", entry.size, MAX_OCTAL);
    }
    number(&mut records, b"uid", entry.uid.into(), MAX_OWNER.into());
    records
}

/// Returns whether a text fits into a header unchanged.
fn fits(text: &[u8]) -> bool {
    text.len() <= 100 && text.is_ascii()
}
