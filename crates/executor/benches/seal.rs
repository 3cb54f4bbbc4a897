//! Compares sealing with the bare compressor, gzip and pigz. They take turns on the same tar.
//!
//! `cargo bench -p executor --bench seal` packs the first gigabyte of a folder (`-- /usr/lib`).
//! With `-- --made` it generates 4 GB in 100,000 files instead, to measure memory: the compressor
//! and sealing run once each, without gzip and pigz. Needs `pigz` in addition to Debian's base.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::{Duration, Instant};

use seal::{Index, Rules, Sealer, gzip};

/// How often each is run.
const ROUNDS: usize = 5;
/// The compressors to compare with.
const PEERS: [&str; 2] = ["gzip -6", "pigz -6 -p2"];
/// The amount of data packed from a folder, in bytes.
const ENOUGH: u64 = 1 << 30;
/// The number of files in the generated layer, and their size in bytes.
const MADE: (u32, usize) = (100_000, 40_000);

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let (tar, rounds, peers) = match arguments.first().map(String::as_str) {
        Some("--made") => (made(), 1, &[][..]),
        folder => (packed(folder.unwrap_or("/usr/lib")), ROUNDS, &PEERS[..]),
    };
    let size = tar.metadata().expect("a file has a size").len();
    println!("{size} bytes of tar, {threads} threads, median of {rounds} alternating runs");
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut peak = 0;
    for _ in 0..rounds {
        times[0].push(timed(|| {
            let (mut tar, out) = (rewound(&tar), BufWriter::new(scratch()));
            gzip(out, threads, |gzip| io::copy(&mut tar, gzip)).expect("the tar can be compressed");
        }));
        forget_peak();
        times[1].push(timed(|| {
            let rules = Rules { epoch: 1_767_225_600, scrub: Vec::new(), threads };
            let mut sealer = Sealer::new(rules, Index::new()).expect("the epoch fits");
            let (tar, out) =
                (BufReader::with_capacity(256 << 10, rewound(&tar)), BufWriter::new(scratch()));
            let sealed = sealer.layer(tar, out).expect("the layer can be sealed");
            assert!(sealed.report.bytecode.stale.is_empty(), "bytecode is stale");
        }));
        peak = peak.max(resident_peak());
        for (peer, of_peer) in peers.iter().zip(&mut times[2..]) {
            of_peer.push(timed(|| run(peer, &tar)));
        }
    }
    let names = ["the compressor", "sealing"].into_iter().chain(peers.iter().copied());
    let medians: Vec<f64> =
        times.into_iter().filter(|times| !times.is_empty()).map(median).collect();
    for (name, time) in names.zip(&medians) {
        println!("{name:14} {time:6.2} s  sealing takes {:.2} times as long", medians[1] / time);
    }
    println!("at most {} MB of memory while sealing", peak / 1000);
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// Opens a file that is deleted when the process ends.
fn scratch() -> File {
    tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder can be written")
}

fn rewound(tar: &File) -> File {
    let mut tar = tar.try_clone().expect("a file can be opened twice");
    tar.rewind().expect("a file can be read again");
    tar
}

/// Packs the first part of a folder, up to the file that reaches the limit.
fn packed(folder: &str) -> File {
    let mut builder = tar::Builder::new(BufWriter::new(scratch()));
    builder.follow_symlinks(false);
    let (mut open, mut size) = (vec![std::path::PathBuf::from(folder)], 0);
    while let Some(path) = open.pop().filter(|_| size < ENOUGH) {
        let Ok(found) = path.symlink_metadata() else { continue };
        let name = path.strip_prefix("/").expect("the path is absolute");
        builder.append_path_with_name(&path, name).expect("the files in the folder can be read");
        if found.is_dir() {
            let mut entries: Vec<_> = std::fs::read_dir(&path)
                .expect("a folder can be listed")
                .flatten()
                .map(|entry| entry.path())
                .collect();
            entries.sort_unstable_by(|one, other| other.cmp(one));
            open.extend(entries);
        }
        size += found.len();
    }
    whole(builder)
}

/// Generates files of random words, which compress about as well as programs.
fn made() -> File {
    let mut builder = tar::Builder::new(BufWriter::new(scratch()));
    let mut state = 1_u64;
    for number in 0..MADE.0 {
        let content: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Sixteen equally frequent letters: four bits of information per byte.
            b"etaoinshrdlu .,\n"[(state >> 60) as usize]
        })
        .take(MADE.1)
        .collect();
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("usr/lib/{}/{number}", number % 100);
        builder.append_data(&mut header, path, &*content).expect("memory can be read");
    }
    whole(builder)
}

fn whole(builder: tar::Builder<BufWriter<File>>) -> File {
    let mut out = builder.into_inner().expect("the tar can be written");
    out.flush().expect("the tar can be written");
    out.into_inner().expect("it was flushed")
}

fn run(line: &str, tar: &File) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().expect("a line has words"))
        .args(words)
        .stdin(rewound(tar))
        .stdout(scratch())
        .status();
    assert!(status.expect("the program is installed").success(), "{line}");
}

/// Resets the peak memory usage (proc(5), `clear_refs`).
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux has /proc");
}

/// Returns the peak memory usage, in kilobytes.
fn resident_peak() -> u64 {
    let mut status = String::new();
    File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status))
        .expect("Linux has /proc");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the status has a peak");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}
