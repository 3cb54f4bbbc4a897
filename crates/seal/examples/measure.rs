//! Seals or only compresses a layer of a file, and says how long it took and how much memory:
//! `cargo run --release -p seal --example measure -- seal|compress|bare|index TAR [OUT]`.
//! `compress` is all but the reading of the tar; `bare` is the compressor on all cores, which
//! neither hashes nor writes.
//!
//! `cargo xtask bench seal` runs it beside other programs.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use libdeflater::{CompressionLvl, Compressor};

use seal::{Index, Listing, MEMBER, Rules, Sealer, gzip};

/// The time that is the latest in the sealed layer; any will do.
const EPOCH: u64 = 1_700_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, tar, out) = match &arguments[..] {
        [what, tar] => (what, tar, "/dev/null"),
        [what, tar, out] => (what, tar, &out[..]),
        _ => return Err("usage: measure seal|compress|bare|index TAR [OUT]".into()),
    };
    let threads = std::thread::available_parallelism()?;
    let start = Instant::now();
    let mut tar = File::open(tar)?;
    let out = BufWriter::new(File::create(out)?);
    let result = match &what[..] {
        "seal" => {
            let rules = Rules { epoch: EPOCH, scrub: Vec::new(), threads };
            let sealed = Sealer::new(rules, Index::new())?.layer(tar, out)?;
            sealed.layer.map(|layer| {
                format!("{} {} {} entries", layer.diff_id, layer.size, layer.listing.entries.len())
            })
        }
        "compress" => {
            let ((), done) = gzip(out, threads, |gzip| {
                let mut buffer = vec![0; 256 << 10];
                loop {
                    match tar.read(&mut buffer)? {
                        0 => break Ok::<_, io::Error>(()),
                        count => gzip.write_all(&buffer[..count])?,
                    }
                }
            })?;
            Some(format!("{} {}", done.diff_id, done.size))
        }
        "bare" => Some(bare(&tar, threads.get())?.to_string()),
        "index" => {
            let mut index = Index::new();
            index.apply(&Listing::of_layer(&mut tar)?);
            Some(format!("{} paths", index.len()))
        }
        other => return Err(format!("`{other}` is none of seal, compress, bare, index").into()),
    };
    let seconds = start.elapsed().as_secs_f64();
    let mut status = String::new();
    File::open("/proc/self/status")?.read_to_string(&mut status)?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let result = result.unwrap_or_else(|| "nothing".to_owned());
    writeln!(io::stdout(), "{what}: {seconds:.3} s, peak memory {}, {result}", memory.trim())?;
    Ok(())
}

/// Compresses every member of a file and drops it. Returns the size of all.
fn bare(tar: &File, threads: usize) -> io::Result<u64> {
    let (next, size) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> io::Result<()> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut content = vec![0; MEMBER];
        let mut bytes = vec![0; compressor.gzip_compress_bound(MEMBER)];
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed) * MEMBER as u64;
            let mut length = 0;
            while length < MEMBER {
                match tar.read_at(&mut content[length..], start + length as u64)? {
                    0 => break,
                    count => length += count,
                }
            }
            if length == 0 {
                return Ok(());
            }
            let done = compressor.gzip_compress(&content[..length], &mut bytes);
            size.fetch_add(done.map_err(io::Error::other)? as u64, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let gone = |_| io::Error::other("a thread is gone");
        workers.into_iter().try_for_each(|worker| worker.join().map_err(gone)?)
    })?;
    Ok(size.into_inner())
}
