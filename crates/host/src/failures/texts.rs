//! Finds thousands of fixed texts in a log.
//!
//! An automaton follows one state per byte, and each state depends on the one before. Here, four
//! bytes are looked up at each place of the log, which do not depend on other places. For each text,
//! these are the four of its bytes that are likely to be rare.

use std::collections::HashMap;
use std::ops::Range;

/// The number of bytes that are looked up at a place. No text is shorter.
pub(super) const LOOKED_UP: usize = 4;
/// The number of places that are looked up before the texts there are compared.
const BLOCK: usize = 64;
/// The number of bits of a hash.
const HASH_BITS: u32 = 17;
/// Bytes that are common in logs, the most common ones first.
const COMMON: &[u8] = b" eatoirnslcdpumhg/.-_0123456789fbvwky:";
/// How much more common bytes count as for each text that contains them, and for how many texts.
const COST_OF_TEXT: usize = 10;
const MOST_TEXTS: usize = 40;

/// Fixed texts, and what finds them.
#[derive(Debug)]
pub(super) struct Texts {
    texts: Vec<Vec<u8>>,
    /// The length of the longest text.
    longest: usize,
    /// One bit for each hash: whether a text has it. This is small enough for a processor's first
    /// cache.
    has: Box<[u64; 1 << HASH_BITS >> 6]>,
    /// For each hash, the end of its texts in `sorted`.
    ends: Vec<usize>,
    /// The texts, sorted by hash.
    sorted: Vec<Candidate>,
}

/// A text that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextHit {
    /// Where it starts.
    pub(super) start: usize,
    /// Its index.
    pub(super) text: usize,
}

/// A text that may be at a place.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Its index.
    text: usize,
    /// Its length.
    length: usize,
    /// The position of the bytes that are looked up.
    at: usize,
    /// Its last bytes. They are compared first.
    last: [u8; LOOKED_UP],
}

impl Texts {
    /// Takes texts of at least [`LOOKED_UP`] bytes.
    pub(super) fn new(texts: Vec<Vec<u8>>) -> Self {
        let mut counts: HashMap<_, usize> = HashMap::new();
        for four in texts.iter().flat_map(|text| fours(text)) {
            *counts.entry(four).or_default() += 1;
        }
        // Bytes that many texts have need many comparisons.
        let cost = |(_, four): &(usize, [u8; LOOKED_UP])| {
            commonness(*four) + COST_OF_TEXT * counts[four].min(MOST_TEXTS)
        };
        let mut by_hash = vec![Vec::new(); 1 << HASH_BITS];
        for (index, text) in texts.iter().enumerate() {
            let rarest = fours(text).enumerate().min_by_key(cost);
            if let Some(((at, four), last)) = rarest.zip(fours(text).last()) {
                by_hash[hash(four)].push(Candidate { text: index, length: text.len(), at, last });
            }
        }
        let mut has = Box::new([0; 1 << HASH_BITS >> 6]);
        for (hash, _) in by_hash.iter().enumerate().filter(|(_, found)| !found.is_empty()) {
            has[hash / 64] |= 1 << (hash % 64);
        }
        let ends = by_hash.iter().scan(0, |end, found| {
            *end += found.len();
            Some(*end)
        });
        let longest = texts.iter().map(Vec::len).max().unwrap_or_default();
        Self { texts, longest, has, ends: ends.collect(), sorted: by_hash.concat() }
    }

    /// Calls `take` for each text that starts in `range` of `log`.
    pub(super) fn find(&self, log: &[u8], range: &Range<usize>, mut take: impl FnMut(TextHit)) {
        let end = log.len().min(range.end.saturating_add(self.longest));
        for base in (range.start..end).step_by(BLOCK) {
            let block = &log[base..end.min(base + BLOCK + LOOKED_UP - 1)];
            // One bit per place: a branch per place would often be predicted wrongly.
            let hashes = fours(block).map(hash).enumerate();
            let mut places = hashes.fold(0, |all, (at, hash)| all | self.has(hash) << at);
            while places != 0 {
                let place = base + places.trailing_zeros() as usize;
                places &= places - 1;
                self.at(log, place).filter(|hit| range.contains(&hit.start)).for_each(&mut take);
            }
        }
    }

    /// Returns the texts whose rarest bytes are at `place`.
    fn at(&self, log: &[u8], place: usize) -> impl Iterator<Item = TextHit> {
        let candidates = fours(&log[place..]).next().map_or(&[][..], |four| self.with(hash(four)));
        candidates.iter().filter_map(move |one| self.check(*one, log, place))
    }

    /// Returns the candidate if it is in the log, with its rarest bytes at `place`.
    fn check(&self, candidate: Candidate, log: &[u8], place: usize) -> Option<TextHit> {
        let Candidate { text, length, at, last } = candidate;
        let start = place.checked_sub(at)?;
        let here = log.get(start..start + length)?;
        let is_found = here.last_chunk() == Some(&last) && here == self.texts[text];
        is_found.then_some(TextHit { start, text })
    }

    /// Returns 1 if any text has this hash, else 0.
    fn has(&self, hash: usize) -> u64 {
        (self.has[hash / 64] >> (hash % 64)) & 1
    }

    /// Returns the texts with a hash.
    fn with(&self, hash: usize) -> &[Candidate] {
        let start = hash.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sorted[start..self.ends[hash]]
    }
}

/// Returns the four bytes at each place.
fn fours(bytes: &[u8]) -> impl Iterator<Item = [u8; LOOKED_UP]> {
    bytes.windows(LOOKED_UP).filter_map(|window| window.first_chunk().copied())
}

/// Returns a number of [`HASH_BITS`] bits.
fn hash(four: [u8; LOOKED_UP]) -> usize {
    // Fibonacci hashing: multiplies by 2^32 divided by the golden ratio.
    (u32::from_le_bytes(four).wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

/// Returns a number that is larger for bytes that are more common in logs.
fn commonness(bytes: [u8; LOOKED_UP]) -> usize {
    let common = |byte| COMMON.iter().rev().position(|one| *one == byte).map_or(0, |at| at + 1);
    bytes.into_iter().map(common).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched<'t>(texts: &'t [&'t str]) -> (Texts, &'t [&'t str]) {
        (Texts::new(texts.iter().map(|text| text.as_bytes().to_vec()).collect()), texts)
    }

    /// Compares the texts that are found with those that a simple search finds.
    fn check((all, texts): &(Texts, &[&str]), log: &str, range: Range<usize>) {
        let mut found = Vec::new();
        all.find(log.as_bytes(), &range, |hit| found.push((hit.text, hit.start)));
        found.sort_unstable();
        let places = |text: &str| {
            let starts = range.clone().filter(|start| log[*start..].starts_with(text));
            starts.collect::<Vec<_>>()
        };
        let expected: Vec<_> = (0..)
            .zip(*texts)
            .flat_map(|(index, text)| places(text).into_iter().map(move |start| (index, start)))
            .collect();
        assert_eq!(found, expected, "{texts:?} in {log:?}, {range:?}");
    }

    #[test]
    fn each_text_is_found_where_it_starts() {
        let log = "hipError and hipErrorNoDevice, hipErro, and aaaaaaa: error: the end";
        let texts = searched(&[
            "hipError",
            "hipErrorNoDevice",
            "rror",
            "aaaa",
            "aaaab",
            "error: the end",
            "nope",
        ]);
        for start in 0..log.len() {
            for end in start..=log.len() {
                check(&texts, log, start..end);
            }
        }
        check(&searched(&[]), log, 0..log.len());
        check(&texts, "hip", 0..3);
        check(&texts, "", 0..0);
    }

    #[test]
    fn every_text_of_a_random_log_is_found() {
        let mut seed = 1_u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 16
        };
        for _ in 0..200 {
            let log: String = (0..200).map(|_| if random() % 3 == 0 { 'a' } else { 'B' }).collect();
            let texts: Vec<&str> = (0..20)
                .map(|_| {
                    let start = random() as usize % 180;
                    &log[start..start + 4 + random() as usize % 12]
                })
                .collect();
            let start = random() as usize % 100;
            check(&searched(&texts), &log, start..start + random() as usize % 100);
        }
    }
}
