//! Writes headers: ustar fields, and PAX records if a value does not fit.

use std::io::{self, Write};

use super::{BLOCK, MAX_OCTAL, PAX_NAME};
use crate::entry::{CAPABILITY, Entry, Kind};

/// The largest owner or group in the seven octal digits of a header.
const MAX_OWNER: u32 = 0o777_7777;

/// The fields of a ustar header. Numbers that do not fit their field are written as 0; the caller
/// puts a PAX record in front.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ustar<'a> {
    /// The directory in front of the name, without the separating `/`; at most 155 bytes.
    pub prefix: &'a [u8],
    /// The name, truncated to 100 bytes.
    pub name: &'a [u8],
    /// The permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size of the content, in bytes.
    pub size: u64,
    /// The time of the last change, in seconds since 1970.
    pub mtime: u64,
    /// The type: `b'0'` for a file, and so on.
    pub kind: u8,
    /// The target of a link, truncated to 100 bytes.
    pub link: &'a [u8],
    /// The major and minor number of a device.
    pub device: (u32, u32),
}

impl Ustar<'_> {
    /// Returns the header block. Owner and group have no names.
    pub fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8], room: usize| {
            let length = bytes.len().min(room);
            block[at..at + length].copy_from_slice(&bytes[..length]);
        };
        let seven = |value: u32| format!("{:07o}", if value > MAX_OWNER { 0 } else { value });
        let eleven = |value: u64| format!("{:011o}", if value > MAX_OCTAL { 0 } else { value });
        put(0, self.name, 100);
        put(100, seven(self.mode).as_bytes(), 7);
        put(108, seven(self.uid).as_bytes(), 7);
        put(116, seven(self.gid).as_bytes(), 7);
        put(124, eleven(self.size).as_bytes(), 11);
        put(136, eleven(self.mtime).as_bytes(), 11);
        put(148, b"        ", 8);
        put(156, &[self.kind], 1);
        put(157, self.link, 100);
        put(257, b"ustar\x0000", 8);
        put(329, seven(self.device.0).as_bytes(), 7);
        put(337, seven(self.device.1).as_bytes(), 7);
        put(345, self.prefix, 155);
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

/// Adds a PAX record: its own length, a space, key and value, a line feed.
pub fn pax_record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} ").as_bytes());
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Writes the canonical header of an entry, preceded by a PAX header if necessary: for a name or
/// link longer than 100 bytes or not in ASCII, for a large owner, group or size, and for a
/// capability. The ustar prefix is not used, because a path can have two valid splits.
///
/// The time must fit its field, and a device its numbers; [`crate::Sealer`] ensures both.
pub(crate) fn write_header(out: &mut impl Write, path: &[u8], entry: &Entry) -> io::Result<()> {
    let name = match entry.kind {
        Kind::Directory => [path, b"/"].concat(),
        _ => path.to_vec(),
    };
    let records = records(&name, entry);
    if !records.is_empty() {
        let header = Ustar {
            name: PAX_NAME.as_bytes(),
            mode: 0o644,
            size: records.len() as u64,
            kind: b'x',
            ..Ustar::default()
        };
        out.write_all(&header.block())?;
        out.write_all(&records)?;
        out.write_all(&[0; BLOCK][..records.len().wrapping_neg() % BLOCK])?;
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
    // A value in PAX is not repeated here: half a name is worse than none.
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
    if let Some(capability) = entry.xattrs.get(CAPABILITY) {
        pax_record(&mut records, b"SCHILY.xattr.security.capability", capability);
    }
    let mut number = |key: &[u8], value: u64, most: u64| {
        if value > most {
            pax_record(&mut records, key, value.to_string().as_bytes());
        }
    };
    number(b"gid", entry.gid.into(), MAX_OWNER.into());
    if matches!(entry.kind, Kind::Symlink | Kind::Hardlink) && !fits(&entry.link) {
        pax_record(&mut records, b"linkpath", &entry.link);
    }
    if !fits(name) {
        pax_record(&mut records, b"path", name);
    }
    let mut number = |key: &[u8], value: u64, most: u64| {
        if value > most {
            pax_record(&mut records, key, value.to_string().as_bytes());
        }
    };
    if entry.kind == Kind::File {
        number(b"size", entry.size, MAX_OCTAL);
    }
    number(b"uid", entry.uid.into(), MAX_OWNER.into());
    records
}

/// Returns whether a text fits into a header unchanged.
fn fits(text: &[u8]) -> bool {
    text.len() <= 100 && text.is_ascii()
}
