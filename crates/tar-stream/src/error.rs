//! Why a tar cannot be read.

use std::io;

use crate::reader::MAX_EXTENSION;

/// Why a tar cannot be read: the fault, the entry, and the position in the tar.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the tar at byte {offset}{}: {fault}", in_entry(.entry))]
pub struct TarError {
    /// The entry, if its name is known.
    pub entry: Option<String>,
    /// The position of its header.
    pub offset: u64,
    /// The fault.
    pub fault: Fault,
    /// The I/O error, if the input cannot be read.
    #[source]
    pub source: Option<io::Error>,
}

fn in_entry(entry: &Option<String>) -> String {
    entry.as_ref().map(|entry| format!(", entry `{entry}`")).unwrap_or_default()
}

/// Returns a name for a message, truncated because a hostile name may have a million bytes.
fn named(name: &[u8]) -> String {
    match name.get(..200) {
        Some(start) if name.len() > 200 => format!("{}…", escaped(start)),
        _ => escaped(name),
    }
}

impl TarError {
    /// Returns the error for a fault of the entry called `name`, whose header is at `offset`.
    pub fn of(name: Option<&[u8]>, offset: u64, fault: Fault) -> Self {
        Self { entry: name.map(named), offset, fault, source: None }
    }

    /// Returns the error for an input that cannot be read.
    pub fn unreadable(name: Option<&[u8]>, offset: u64, error: io::Error) -> Self {
        let fault = Fault::of(&error);
        Self { source: Some(error), ..Self::of(name, offset, fault) }
    }
}

/// The faults of a tar.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The input ends too early.
    #[error("it ends in the middle of an entry; it was truncated")]
    Truncated,
    /// The input cannot be read.
    #[error("cannot read the input")]
    Unreadable,
    /// A checksum is wrong.
    #[error("the checksum of a header is wrong; this is not a tar, or it is damaged")]
    Checksum,
    /// A header follows a single block of zeros, but only two such blocks end a tar.
    #[error("there is a single block of zeros between entries")]
    LoneZeros,
    /// There is data after the end. Only for [`Reader::strict`](crate::Reader::strict).
    #[error("there is data after its end")]
    TrailingData,
    /// A field is not a number.
    #[error("its {0} is not a number, or is out of range")]
    Number(&'static str),
    /// The sizes of an entry contradict each other. Only for
    /// [`Reader::strict`](crate::Reader::strict).
    #[error("its header and its PAX header contain different sizes")]
    Sizes,
    /// A PAX record is malformed.
    #[error("a PAX header has a record whose length is wrong")]
    Pax,
    /// A PAX record has a malformed value.
    #[error("the PAX record `{0}` has an invalid value")]
    PaxValue(String),
    /// A global header has a record that is only valid for a single entry.
    #[error("a global PAX header sets `{0}`, which is only valid for a single entry")]
    Global(String),
    /// The names are not UTF-8. Only for [`Reader::strict`](crate::Reader::strict).
    #[error("a PAX header declares that its names are not UTF-8")]
    Charset,
    /// An extended header or long name is too large.
    #[error("an extended header has {0} bytes, more than the limit of {MAX_EXTENSION}")]
    LongExtension(u64),
    /// Nothing follows an extended header or long name.
    #[error("there is no entry after a header that describes the next one")]
    Dangling,
    /// The map of a sparse file is malformed.
    #[error("the sparse file {0}")]
    Sparse(&'static str),
    /// The caller of the reader refuses the entry.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Unreadable,
        }
    }
}

/// A fault, and the I/O error if that is the cause.
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    pub(crate) source: Option<io::Error>,
}

impl Failed {
    pub(crate) fn at(self, name: Option<&[u8]>, offset: u64) -> TarError {
        let Self { fault, source } = self;
        TarError { source, ..TarError::of(name, offset, fault) }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, source: None }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self { fault: Fault::of(&error), source: Some(error) }
    }
}

/// Returns bytes as visible ASCII. All other bytes, as well as `\`, are written as `\` and three
/// octal digits, as in mtree(5).
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'\\' => text.push(char::from(*byte)),
            byte => {
                text.push('\\');
                text.extend([byte >> 6, byte >> 3 & 7, byte & 7].map(|d| char::from(b'0' + d)));
            }
        }
    }
    text
}
