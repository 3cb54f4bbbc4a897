//! A deterministic fuzzer: it runs code on real inputs with random changes.
//!
//! Tests call [`fuzz`]. It needs no special compiler and no service, so it can be part of every
//! test run. However, it is not guided by coverage. It checks that no input makes the code panic,
//! takes longer than [`LONGEST`], or needs more memory than [`MOST_MEMORY`].

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::gate::{gate_cases, gate_passed};

/// Returns the number of inputs per test: 20,000, or 200,000 in `cargo xtask gates`.
pub fn runs() -> usize {
    gate_cases(20_000, 200_000)
}

/// The limit for one input, in CPU time, so that no test fails because the machine is busy.
pub const LONGEST: Duration = Duration::from_secs(1);

/// The limit for the growth of the peak memory of the test's process.
pub const MOST_MEMORY: u64 = 256 << 20;

/// The starting point of a fuzz test.
#[derive(Debug)]
pub struct Corpus<'a> {
    /// Real inputs.
    pub inputs: Vec<Vec<u8>>,
    /// Byte sequences with a meaning in these inputs, such as keywords.
    pub words: &'a [&'a [u8]],
    /// The seed of the random numbers; not 0.
    pub seed: u64,
}

/// Calls `one` with as many inputs as [`runs`] returns. Each is a randomly changed input from the
/// corpus.
///
/// # Panics
/// Panics if `one` panics (the input is printed), takes too long, or needs too much memory.
pub fn fuzz(corpus: &Corpus<'_>, one: impl FnMut(Vec<u8>, &mut Random)) {
    fuzz_part(corpus, runs(), one);
}

/// Like [`fuzz`], but with 2,000 inputs, or 50,000 in `cargo xtask gates`. For slow tests and large
/// groups of tests.
///
/// # Panics
/// Like [`fuzz`].
pub fn fuzz_some(corpus: &Corpus<'_>, one: impl FnMut(Vec<u8>, &mut Random)) {
    fuzz_part(corpus, gate_cases(2_000, 50_000), one);
}

/// Like [`fuzz`], but with the given number of inputs. For tests that run in parallel and share the
/// number that [`runs`] returns.
///
/// # Panics
/// Like [`fuzz`].
pub fn fuzz_part(corpus: &Corpus<'_>, runs: usize, mut one: impl FnMut(Vec<u8>, &mut Random)) {
    let mut random = Random(corpus.seed);
    let before = reset_peak_memory();
    for run in 0..runs {
        let mut bytes = corpus.inputs[run % corpus.inputs.len()].clone();
        mutate(&mut bytes, corpus.words, &mut random);
        let told = || format!("run {run}, input: {}", bytes.escape_ascii());
        let begun = processor_time();
        let ended = catch_unwind(AssertUnwindSafe(|| one(bytes.clone(), &mut random)));
        let took = processor_time() - begun;
        if let Err(panic) = ended {
            tell(&told());
            resume_unwind(panic);
        }
        assert!(took < LONGEST, "took {} s: {}", took.as_secs_f64(), told());
    }
    // The kernel counts memory per thread and adds it up later, so the peak may seem to shrink a
    // little.
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < MOST_MEMORY, "the peak memory grew by {grown} bytes");
    gate_passed(9, runs);
}

#[expect(clippy::print_stderr, reason = "the test harness shows it next to the panic's message")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// Returns the CPU time of this thread, which other processes on the machine do not change.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time since the thread started")
}

/// Resets the recorded peak memory of this process, and returns its current memory, in bytes.
pub fn reset_peak_memory() -> u64 {
    // proc_pid_clear_refs(5): 5 resets the peak to the current size.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux 4.0 or later");
    peak_memory()
}

/// Returns the peak memory of this process, in bytes.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux provides it");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM is present");
    let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB");
    kib << 10
}

/// A small random number generator (xorshift64*).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 up to, but not including, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % end.max(1)
    }
}

/// Changes `bytes` in one to four places.
fn mutate(bytes: &mut Vec<u8>, words: &[&[u8]], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let word = words[random.below(words.len())];
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).expect("a byte"),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 | 3 => drop(bytes.splice(at..at, word.iter().copied())),
            4 => {
                let end = (at + word.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            5 => {
                let end = (at + random.below(16)).min(bytes.len());
                drop(bytes.drain(at..end));
            }
            // Truncation is rare, because it leaves little of a short input.
            6 if random.below(4) == 0 => bytes.truncate(at),
            _ => {
                let (from, length) = (random.below(bytes.len() + 1), random.below(64));
                let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
}
