//! Headers as bytes: ustar fields, and PAX records for values that do not fit.

use crate::{BLOCK, MAX_OCTAL, PAX_NAME};

/// The largest owner or group ID that fits in the seven octal digits of a header field.
pub const MAX_OWNER: u32 = 0o777_7777;

/// The fields of a ustar header. Numbers that do not fit their field are written as 0; the caller
/// must write a PAX record for them.
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
    /// Returns the header block. The owner and group names are empty.
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

/// Returns a PAX header with these records: its block, the records, and the padding.
pub fn pax_header(records: &[u8], mtime: u64) -> Vec<u8> {
    let size = records.len() as u64;
    let name = PAX_NAME.as_bytes();
    let header = Ustar { name, mode: 0o644, size, mtime, kind: b'x', ..Ustar::default() };
    [&header.block(), records, padding(size)].concat()
}

/// Returns the zeros between content of this size and the next block.
pub fn padding(size: u64) -> &'static [u8] {
    const ZEROS: [u8; BLOCK] = [0; BLOCK];
    let over = (size % BLOCK as u64) as usize;
    &ZEROS[..(BLOCK - over) % BLOCK]
}
