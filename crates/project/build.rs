//! Lists this repository's data files, so that the program contains them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let root = here("CARGO_MANIFEST_DIR")?.join("../..").canonicalize()?;
    let mut files = Vec::new();
    for folder in ["dockerfiles", "patches", "versions"] {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for path in &files {
        let name = path.strip_prefix(&root).map_err(io::Error::other)?;
        // Writing to a string does not fail.
        let _ = writeln!(code, "    ({name:?}, include_str!({path:?})),");
    }
    code.push_str("]\n");
    fs::write(here("OUT_DIR")?.join("built_in.rs"), code)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
