//! Mutates bytes for tests, the same way each time.

/// A small generator of numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % end.max(1)
    }
}

/// Bytes that mean something in paths, headers, refs and packets.
const WORDS: [&[u8]; 24] = [
    b"..",
    b"/",
    b"./",
    b"../",
    b"\0",
    b"\n",
    b" ",
    b"-",
    b"@{",
    b".lock",
    b".git",
    b"~",
    b"^{}",
    b"0000",
    b"0001",
    b"0002",
    b"path=",
    b"size=",
    b"\xff",
    b"\x80",
    b"\xc3\xbc",
    b"99999999999",
    b"ERR ",
    b"\x01",
];

/// Changes `bytes` in one to four places.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let word = WORDS[random.below(WORDS.len())];
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.splice(at..at, word.iter().copied())),
            3 => {
                let end = (at + word.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            4 => {
                let end = (at + random.below(16)).min(bytes.len());
                drop(bytes.drain(at..end));
            }
            5 => bytes.truncate(at),
            _ => {
                let (from, length) = (random.below(bytes.len() + 1), random.below(64));
                let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
}
