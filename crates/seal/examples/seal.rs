//! Seals a layer: `cargo run --release -p seal --example seal TAR [LAYER]`. Writes the sealed layer
//! to the file `LAYER`, and prints its sizes and digests. `cargo xtask bench gpu` compares the time
//! with that of `slim`, and `cargo xtask rocm packages` makes images with it.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;

use seal::{Index, Rules, Sealer};

/// 2026-11-19, later than the files of most layers.
const EPOCH: u64 = 1_795_132_800;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: seal TAR [LAYER]")?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let rules = Rules { epoch: EPOCH, scrub: Vec::new(), threads };
    let out: Box<dyn Write> = match std::env::args().nth(2) {
        Some(layer) => Box::new(File::create(layer)?),
        None => Box::new(io::sink()),
    };
    let sealed = Sealer::new(rules, Index::new())?.layer(File::open(path)?, out)?;
    let layer = sealed.layer.ok_or("the layer has no entries")?;
    println!("{} bytes, {} compressed", layer.tar_size, layer.size);
    println!("{} {}", layer.diff_id, layer.digest);
    Ok(())
}
