//! Prepares one source and prints how long each part took: `prepare CACHE OUT URL COMMIT`, or
//! `prepare CACHE OUT FILE.tar.gz SHA256`. For comparison with `git clone` and `tar c`.

#![expect(clippy::print_stdout, reason = "printing measurements is the purpose of this program")]

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use sources::{ArchiveSource, GitSource, Settings, Sources, Submodules};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cache, out, place, hash] = &arguments[..] else {
        return Err("usage: prepare CACHE OUT URL COMMIT | FILE SHA256".into());
    };
    let started = Instant::now();
    let settings = Settings { allow_local: true, ..Settings::new(cache) };
    let sources = Sources::new(settings);
    let (tree, received) = match hash.parse() {
        Ok(sha256) => {
            let (project, version) = ("archive".to_owned(), String::new());
            let url = Some(format!("file://{place}").parse()?);
            let source = ArchiveSource { project, version, sha256, url };
            let archive = sources.fetch_archive(&source).await?;
            (archive.tree(&Default::default(), None)?, archive.received)
        }
        Err(_) => {
            let (url, commit) = (place.parse()?, hash.parse()?);
            let source = GitSource { url, commit, submodules: Submodules::All };
            let fetched = sources.fetch_git(&source).await?;
            (fetched.tree, fetched.received)
        }
    };
    let fetched = started.elapsed();
    let summary = tree.write_tar(1_700_000_000, BufWriter::new(File::create(out)?))?;
    println!(
        "{} files, {received} bytes received in {:.3} s, tar of {} bytes in {:.3} s, sha256 {}",
        tree.len(),
        fetched.as_secs_f64(),
        summary.size,
        (started.elapsed() - fetched).as_secs_f64(),
        summary.sha256
    );
    Ok(())
}
