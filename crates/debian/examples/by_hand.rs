//! Looks packages up and prepares them, for building an image by hand.
//!
//! `by_hand lock FILE DAY [NAME:ON,ON:PACKAGE,PACKAGE …]` writes a lock of those sets; without any,
//! it looks the sets of FILE up again. `by_hand prepare FILE CACHE OUT EPOCH` makes `OUT/base.tar`
//! of the set `base`, and `OUT/context/packages` of all the others.

#![expect(clippy::print_stdout, reason = "it says what it made")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use debian::{Bootstrap, Mirrors, Mode, Programs, Resolve, WantedSet};
use names::PinName;
use pins::{PackageLock, parse_package_lock};
use sources::{Settings, Sources};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = Programs { path, variables: BTreeMap::new() };
    let result = match &arguments[..] {
        ["lock", file, day, sets @ ..] => lock(&programs, Path::new(file), day, sets).await,
        ["prepare", file, cache, out, epoch] => {
            let (cache, out) = (PathBuf::from(cache), std::path::absolute(out)?);
            prepare(&programs, Path::new(file), cache, &out, epoch.parse()?).await
        }
        _ => {
            Err("usage: lock FILE DAY [NAME:ON,ON:PACKAGE,…] | prepare FILE CACHE OUT EPOCH".into())
        }
    };
    if let Err(error) = &result {
        let mut cause = error.source();
        while let Some(error) = cause {
            println!("caused by: {error}");
            if let Some(program) = error.downcast_ref::<debian::ProgramError>() {
                println!("{}", program.last_lines().join("\n"));
            }
            cause = error.source();
        }
    }
    result
}

fn read(file: &Path) -> Result<PackageLock, Box<dyn Error>> {
    Ok(parse_package_lock(&file.display().to_string(), &std::fs::read_to_string(file)?)?)
}

fn set(text: &str) -> Result<(PinName, WantedSet), Box<dyn Error>> {
    let mut parts = text.split(':');
    let (Some(name), Some(on), Some(wanted)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("`{text}` is not NAME:ON,ON:PACKAGE,PACKAGE").into());
    };
    let on = on.split(',').filter(|on| !on.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let wanted = wanted.split(',').map(str::to_owned).collect();
    Ok((name.parse()?, WantedSet { on, wanted }))
}

async fn lock(
    programs: &Programs,
    file: &Path,
    day: &str,
    sets: &[&str],
) -> Result<(), Box<dyn Error>> {
    let sets: BTreeMap<PinName, WantedSet> = match sets {
        [] => {
            let sets = read(file)?.sets.into_iter();
            sets.map(|(name, set)| (name, WantedSet { on: set.on, wanted: set.wanted })).collect()
        }
        sets => sets.iter().map(|text| set(text)).collect::<Result<_, _>>()?,
    };
    let request = Resolve {
        suite: "trixie",
        architecture: "amd64",
        checked: day,
        sets: &sets,
        mirrors: &Mirrors::from_apt(Path::new("/etc/apt"))?,
        keyring: Path::new(KEYRING),
        with_updates: true,
        is_snapshot: false,
        work: &std::env::temp_dir(),
    };
    let lock = debian::resolve(programs, &request).await?;
    std::fs::write(file, lock.to_toml())?;
    for (name, set) in &lock.sets {
        let size: u64 = set.packages.iter().map(|package| package.size).sum();
        println!("{name}: {} packages, {size} bytes", set.packages.len());
    }
    Ok(())
}

async fn prepare(
    programs: &Programs,
    file: &Path,
    cache: PathBuf,
    out: &Path,
    epoch: u64,
) -> Result<(), Box<dyn Error>> {
    let lock = read(file)?;
    let base: PinName = "base".parse()?;
    let sources = Sources::new(Settings::new(cache));
    let mirrors = Mirrors::from_apt(Path::new("/etc/apt"))?;
    std::fs::create_dir_all(out.join("context"))?;

    let started = Instant::now();
    let all = lock.packages(lock.sets.keys());
    let fetched = debian::fetch(&sources, &all, &mirrors).await?;
    let received: u64 = fetched.iter().map(|package| package.received).sum();
    println!("{} packages, {received} bytes received, {:?}", all.len(), started.elapsed());

    let started = Instant::now();
    let packages = lock.closure("base").ok_or("the lock has no set `base`")?;
    let (bases, others): (Vec<_>, Vec<_>) =
        fetched.into_iter().partition(|fetched| packages.contains(&&fetched.package));
    let work = tempfile::tempdir_in(out)?;
    let folder = work.path().join("packages");
    let source = debian::write_local_source(programs, &bases, &lock.suite, epoch, &folder).await?;
    let request = Bootstrap {
        suite: &lock.suite,
        architecture: &lock.architecture,
        packages: &packages,
        source: &source,
        epoch,
        mode: Mode::Root,
        work: work.path(),
    };
    let root = debian::bootstrap(programs, &request, &out.join("base.tar")).await?;
    println!("{base}: {} bytes, sha256 {}, {:?}", root.size, root.sha256, started.elapsed());

    let started = Instant::now();
    let folder = out.join("context/packages");
    let source = debian::write_local_source(programs, &others, &lock.suite, epoch, &folder).await?;
    println!("packages: {}, {:?}", source.tree()?.digest()?, started.elapsed());
    Ok(())
}
