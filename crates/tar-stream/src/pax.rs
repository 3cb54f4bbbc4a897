//! PAX extended headers: records are split by their length, so a value can contain any byte.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::sparse::Segment;

/// The prefix of keys under which tar, star and Go store extended attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Extended attributes, by name.
pub type Xattrs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The information in extended headers about the next entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<i64>,
    pub(crate) xattrs: Xattrs,
    pub(crate) sparse: PaxSparse,
}

/// GNU tar's information about a sparse file in PAX records.
#[derive(Debug, Clone, Default)]
pub(crate) struct PaxSparse {
    pub(crate) major: Option<u64>,
    pub(crate) minor: Option<u64>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) map: Vec<Segment>,
    offset: Option<u64>,
}

impl PaxSparse {
    /// Returns whether the entry is a sparse file.
    pub(crate) fn is_some(&self) -> bool {
        self.major.is_some() || self.size.is_some() || !self.map.is_empty()
    }
}

/// A key and its value.
pub(crate) type Record<'a> = (&'a [u8], &'a [u8]);

/// Splits the records of an extended header.
pub(crate) fn records(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, Fault> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().take(10).position(|byte| *byte == b' ').ok_or(Fault::Pax)?;
        let length = decimal(&bytes[..space]).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or(Fault::Pax)?;
        let record = bytes.get(space + 1..length).ok_or(Fault::Pax)?;
        let (b'\n', record) = record.split_last().ok_or(Fault::Pax)? else {
            return Err(Fault::Pax);
        };
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(Fault::Pax)?;
        if equals == 0 {
            return Err(Fault::Pax);
        }
        records.push((&record[..equals], &record[equals + 1..]));
        bytes = &bytes[length..];
    }
    Ok(records)
}

/// Returns the records that matter in a source archive: name, link and size. Refuses records that
/// readers would interpret differently.
pub(crate) fn strict_records(bytes: &[u8]) -> Result<Vec<Record<'_>>, Fault> {
    let mut records = records(bytes)?;
    for (key, value) in &records {
        match *key {
            // Some readers use the empty value, and others the one in the header.
            b"path" | b"linkpath" | b"size" if value.is_empty() => return Err(Fault::Pax),
            b"hdrcharset" if *value != b"ISO-IR 10646 2000 UTF-8" => return Err(Fault::Charset),
            key if key.starts_with(b"GNU.sparse.") => return Err(Fault::Sparse("is not expected")),
            _ => {}
        }
    }
    records.retain(|(key, _)| matches!(*key, b"path" | b"linkpath" | b"size"));
    Ok(records)
}

/// Adds the records of a global header to the earlier ones. Records that identify a single entry
/// cannot be global.
pub(crate) fn keep_globals(
    globals: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    records: &[Record<'_>],
) -> Result<(), Fault> {
    for (key, value) in records.iter().copied() {
        if matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(b"GNU.sparse.") {
            return Err(Fault::Global(String::from_utf8_lossy(key).into_owned()));
        }
        if !matches!(key, b"uid" | b"gid" | b"mtime") && !key.starts_with(XATTR) {
            continue;
        }
        match value {
            b"" => drop(globals.remove(key)),
            value => drop(globals.insert(key.to_vec(), value.to_vec())),
        }
    }
    let size: usize = globals.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > crate::reader::MAX_EXTENSION {
        Err(Fault::LongExtension(size as u64))
    } else {
        Ok(())
    }
}

impl Overrides {
    /// Applies one record. An empty value removes the earlier value (POSIX).
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let wrong = || Fault::PaxValue(String::from_utf8_lossy(key).into_owned());
        let is_kept = !value.is_empty();
        let count = || if is_kept { decimal(value).map(Some).ok_or_else(wrong) } else { Ok(None) };
        let text = || is_kept.then(|| value.to_vec());
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size = count()?,
            b"uid" => self.uid = count()?,
            b"gid" => self.gid = count()?,
            b"mtime" if !is_kept => self.mtime = None,
            b"mtime" => self.mtime = Some(seconds(value).ok_or_else(wrong)?),
            b"GNU.sparse.major" => self.sparse.major = count()?,
            b"GNU.sparse.minor" => self.sparse.minor = count()?,
            b"GNU.sparse.name" => self.sparse.name = text(),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = count()?,
            b"GNU.sparse.map" => self.sparse.map = map(value).ok_or_else(wrong)?,
            b"GNU.sparse.offset" => self.sparse.offset = count()?,
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse.offset.take().ok_or_else(wrong)?;
                let length = count()?.ok_or_else(wrong)?;
                self.sparse.map.push(Segment { offset, length });
            }
            key => match key.strip_prefix(XATTR) {
                None | Some(b"") => {}
                Some(name) if is_kept => drop(self.xattrs.insert(name.into(), value.into())),
                Some(name) => drop(self.xattrs.remove(name)),
            },
        }
        Ok(())
    }
}

/// Parses the map of GNU's sparse format 0.1: alternating offsets and lengths.
fn map(value: &[u8]) -> Option<Vec<Segment>> {
    let numbers: Vec<u64> =
        value.split(|byte| *byte == b',').map(decimal).collect::<Option<_>>()?;
    let pairs = numbers.chunks(2).map(|pair| match pair {
        [offset, length] => Some(Segment { offset: *offset, length: *length }),
        _ => None,
    });
    pairs.collect()
}

/// Parses a decimal number that consists only of digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses a time with or without a fraction, rounded down to whole seconds.
fn seconds(text: &[u8]) -> Option<i64> {
    let (is_negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    match (is_negative, fraction.iter().any(|digit| *digit != b'0')) {
        (false, _) => Some(whole),
        (true, false) => Some(-whole),
        (true, true) => Some(-whole - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_line_feeds_and_equals_signs() {
        let bytes = b"16 a=b=c\nd\n\0e=f\n5 g=\n";
        let read = records(bytes).unwrap();
        assert_eq!(read, [(&b"a"[..], &b"b=c\nd\n\0e=f"[..]), (b"g", b"")]);
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        for bytes in [
            &b"7 a=b\n"[..],
            b"5 a=b\n",
            b"6 a=bc",
            b"6  ab\n\n",
            b"4 =\n",
            b"99999999999999999999 a=b\n",
            b"x a=b\n",
            b"1 ",
            b"2 ",
            b"0 a=b\n",
        ] {
            assert!(records(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn times_are_cut_to_the_second_before() {
        assert_eq!(seconds(b"12"), Some(12));
        assert_eq!(seconds(b"12.999999999"), Some(12));
        assert_eq!(seconds(b"-12.000"), Some(-12));
        assert_eq!(seconds(b"-12.5"), Some(-13));
        assert_eq!(seconds(b"1e3"), None);
        assert_eq!(seconds(b"1.2.3"), None);
    }
}
