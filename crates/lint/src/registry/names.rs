//! A set of names in a byte for each: a Golomb-coded set, as in BIP 158.
//!
//! The hash of a name selects a bucket, and a value in it. A bucket contains the differences of its
//! sorted values, each as a unary quotient and `LOW` bits. A name that is not in the set has the
//! value of another one in less than one case of a hundred; a name in the set is always found.

use std::fmt;

/// The first bytes of the data.
const MAGIC: &[u8] = b"names 1 ";

/// The length of the date behind them, `YYYY-MM-DD`, with its newline.
const DATE: usize = 11;

/// The number of bits of a hash that select the bucket.
const BUCKET_BITS: u32 = 12;

/// The number of low bits of a difference; `2^LOW` is also the number of values for each name.
const LOW: u32 = 7;

/// A set of names.
#[derive(Clone, Copy)]
pub struct Names<'b> {
    /// The date on which the names were listed, `YYYY-MM-DD`.
    pub date: &'b str,
    /// The number of names.
    pub count: u32,
    /// The places of the first bits of the buckets, and that of the end, in four bytes each.
    places: &'b [u8],
    bits: &'b [u8],
}

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("date", &self.date).field("count", &self.count).finish()
    }
}

impl<'b> Names<'b> {
    /// Reads a set that [`encode`] wrote; `None` if it is damaged at its start.
    pub fn read(bytes: &'b [u8]) -> Option<Self> {
        let (date, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(DATE)?;
        let date = std::str::from_utf8(date).ok()?.strip_suffix('\n')?;
        let (count, rest) = rest.split_at_checked(4)?;
        let count = number(count, 0)?;
        let (places, bits) = rest.split_at_checked(4 * ((1 << BUCKET_BITS) + 1))?;
        Some(Self { date, count, places, bits })
    }

    /// Returns whether a name is in the set.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<()> {
        let (bucket, wanted) = place(name, self.count);
        let mut at = number(self.places, bucket)?;
        let end = number(self.places, bucket + 1)?;
        let bit = |place: u32| {
            let byte = self.bits.get(usize::try_from(place / 8).ok()?)?;
            Some(u64::from((byte >> (place % 8)) & 1))
        };
        let mut value = 0;
        while at < end && value <= wanted {
            while bit(at)? == 1 {
                value += 1 << LOW;
                at += 1;
            }
            at += 1;
            for low in 0..LOW {
                value += bit(at)? << low;
                at += 1;
            }
            if value == wanted {
                return Some(());
            }
        }
        None
    }
}

/// Writes a set of names, which were listed on `date`, `YYYY-MM-DD`. Returns `None` if there are too
/// many names, or the date has another form.
pub fn encode<'n>(names: impl IntoIterator<Item = &'n str>, date: &str) -> Option<Vec<u8>> {
    let names: std::collections::BTreeSet<&str> = names.into_iter().collect();
    let count = u32::try_from(names.len()).ok()?;
    let mut values: Vec<(usize, u64)> = names.iter().map(|name| place(name, count)).collect();
    values.sort_unstable();
    values.dedup();
    let mut places: Vec<u32> = Vec::new();
    let (mut bits, mut length) = (Vec::new(), 0_u32);
    let mut push = |bit: bool| {
        if length.is_multiple_of(8) {
            bits.push(0_u8);
        }
        if let Some(last) = bits.last_mut() {
            *last |= u8::from(bit) << (length % 8);
        }
        length += 1;
        length
    };
    let mut end = 0;
    let mut rest = values.iter().peekable();
    for bucket in 0..1 << BUCKET_BITS {
        places.push(end);
        let mut last = 0;
        while let Some((_, value)) = rest.next_if(|(own, _)| *own == bucket) {
            let difference = value - last;
            last = *value;
            for _ in 0..difference >> LOW {
                push(true);
            }
            end = push(false);
            for low in 0..LOW {
                end = push((difference >> low) & 1 == 1);
            }
        }
    }
    places.push(end);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(date.bytes().chain([b'\n']));
    bytes.extend(count.to_le_bytes());
    bytes.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    bytes.extend(bits);
    (date.len() + 1 == DATE).then_some(bytes)
}

/// Returns the bucket of a name, and its value there.
fn place(name: &str, count: u32) -> (usize, u64) {
    let hash = hash(name);
    let rest_bits = u64::BITS - BUCKET_BITS;
    let values = (u64::from(count) >> BUCKET_BITS).max(1) << LOW;
    let rest = u128::from(hash & ((1 << rest_bits) - 1));
    let value = (rest * u128::from(values)) >> rest_bits;
    // Both are smaller than their types: twelve bits, and less than `values`.
    (usize::try_from(hash >> rest_bits).unwrap_or(0), u64::try_from(value).unwrap_or(0))
}

/// FNV-1a, whose bits are then mixed as in MurmurHash3, because the first ones select the bucket.
fn hash(name: &str) -> u64 {
    let mut hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

/// Returns the number at a place of a list of numbers of four bytes.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let (numbers, _) = bytes.as_chunks();
    Some(u32::from_le_bytes(*numbers.get(at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_set_are_found_and_few_others() {
        let names: Vec<String> = (0..50_000).map(|n| format!("package-{n}")).collect();
        let bytes = encode(names.iter().map(String::as_str), "2026-11-30").unwrap();
        let set = Names::read(&bytes).unwrap();
        assert_eq!((set.date, set.count), ("2026-11-30", 50_000));
        assert!(names.iter().all(|name| set.contains(name)));
        let others = (0..50_000).filter(|n| set.contains(&format!("other-{n}"))).count();
        assert!(others < 500, "{others}");
        assert!(bytes.len() < 50_000 * 9 / 8 + 20_000, "{}", bytes.len());
    }

    #[test]
    fn damaged_data_has_no_names() {
        let bytes = encode(["a", "b"], "2026-11-30").unwrap();
        assert!(Names::read(&bytes).unwrap().contains("b"));
        assert!(Names::read(&bytes[..20]).is_none());
        let cut = Names::read(&bytes[..bytes.len() - 2]).unwrap();
        assert!(!cut.contains("a") || !cut.contains("b"));
        assert!(encode(["a"], "today").is_none());
        assert!(!Names::read(&encode([], "2026-11-30").unwrap()).unwrap().contains("a"));
    }
}
