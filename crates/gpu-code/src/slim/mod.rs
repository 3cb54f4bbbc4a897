//! Removes code for other GPUs from a file.

mod bundles;
mod library;

use std::io;
use std::path::Path;

use names::Hasher;

use crate::error::ScanError;
use crate::scan::{Form, examine};
use crate::spool::Spool;
use crate::target::CodeTarget;

/// The size of a memory page, in bytes. Code objects start at a page boundary.
pub(crate) const PAGE: u64 = 4096;

/// The buffer size, in bytes.
const CHUNK: usize = 256 << 10;

/// The result of slimming a file.
#[derive(Debug)]
pub enum Slimmed {
    /// It stays as it is: it has no code for other GPUs, or would not become smaller.
    Unchanged,
    /// It can be removed, because it is only for other GPUs.
    Removed,
    /// It gets this content.
    Rewritten(Spool),
}

/// Removes the code objects that `is_kept` rejects from a file. `path` matters for files whose
/// names contain their GPU target. `folder` is for temporary files.
///
/// The code objects that are kept do not change, and everything else keeps its address in a
/// program's memory. The new file is read again to check the code objects.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or cannot be rewritten. It should then stay as it
/// is.
pub fn slim(
    path: &str,
    file: &Spool,
    is_kept: &dyn Fn(&CodeTarget) -> bool,
    folder: Option<&Path>,
) -> Result<Slimmed, ScanError> {
    let (form, objects) = examine(path, file)?;
    let is_dropped = |target: Option<&CodeTarget>| target.is_some_and(|target| !is_kept(target));
    if !objects.iter().any(|object| is_dropped(object.target())) {
        return Ok(Slimmed::Unchanged);
    }
    let is_library = matches!(form, Form::Library(_));
    let is_used = objects.iter().any(|one| one.size > 0 && !is_dropped(one.target()));
    if !is_library && !is_used {
        return Ok(Slimmed::Removed);
    }
    let new = match &form {
        Form::Library(sections) => library::slim(file, sections, is_kept, folder)?,
        Form::Bundles(bundles) => bundles::slim(file, bundles, is_kept, folder)?,
        Form::Archive(_) => {
            let why = "it is a kpack archive with code for several GPUs, and such archives cannot be rewritten";
            return Err(ScanError::at(0, why));
        }
        Form::Object(_) | Form::Other => return Ok(Slimmed::Unchanged),
    };
    if new.size() >= file.size() && !is_library {
        return Ok(Slimmed::Unchanged);
    }
    let wanted = contents(file, &form, is_kept, folder)?;
    // Bundles that would have grown still have all their code objects.
    let found = contents(&new, &examine(path, &new)?.0, is_kept, folder)?;
    if wanted != found {
        let why = "it cannot be rewritten without changing code that is kept";
        return Err(ScanError::at(0, why));
    }
    Ok(Slimmed::Rewritten(new))
}

/// A code object: its target and the SHA-256 of its bytes.
type Content = (CodeTarget, [u8; 32]);

/// Returns the code objects in the bundles of a file that `is_kept` accepts.
fn contents(
    file: &Spool,
    form: &Form,
    is_kept: &dyn Fn(&CodeTarget) -> bool,
    folder: Option<&Path>,
) -> Result<Vec<Content>, ScanError> {
    let bundles: Vec<_> = match form {
        Form::Library(sections) => sections.iter().flat_map(|section| &section.bundles).collect(),
        Form::Bundles(bundles) => bundles.iter().collect(),
        Form::Archive(_) | Form::Object(_) | Form::Other => Vec::new(),
    };
    let mut contents = Vec::new();
    for bundle in bundles {
        let kept: Vec<_> = bundle
            .entries
            .iter()
            .filter_map(|entry| Some((entry.object.target()?, &entry.object)))
            .filter(|(target, _)| is_kept(target))
            .collect();
        if kept.is_empty() {
            continue;
        }
        bundles::opened(file, bundle, folder, |plain, start| {
            for (target, object) in kept {
                let from = start + object.offset;
                contents.push((target.clone(), hash(plain, (from, from + object.size))?));
            }
            Ok(())
        })?;
    }
    Ok(contents)
}

fn hash(file: &Spool, range: (u64, u64)) -> io::Result<[u8; 32]> {
    let mut hasher = Hasher::new();
    for_each_chunk(file, range, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Reads a part of a file in chunks.
pub(crate) fn for_each_chunk(
    file: &Spool,
    (mut from, to): (u64, u64),
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK.min(usize::try_from(to - from).unwrap_or(CHUNK))];
    while from < to {
        let length = usize::try_from(to - from).unwrap_or(CHUNK).min(CHUNK);
        file.read_at(from, &mut chunk[..length])?;
        take(&chunk[..length])?;
        from += length as u64;
    }
    Ok(())
}

/// A part of a new file.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The bytes of the old file between two positions.
    Old(u64, u64),
    /// New bytes.
    New(Vec<u8>),
    /// New bytes, which may be many.
    Spooled(Spool),
    /// This many zeros.
    Zeros(u64),
}

impl Piece {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Old(from, to) => to - from,
            Self::New(bytes) => bytes.len() as u64,
            Self::Spooled(spool) => spool.size(),
            Self::Zeros(count) => *count,
        }
    }

    pub(crate) fn write(&self, old: &Spool, out: &mut Spool) -> io::Result<()> {
        match self {
            Self::Old(from, to) => for_each_chunk(old, (*from, *to), |chunk| out.push(chunk)),
            Self::New(bytes) => out.push(bytes),
            Self::Spooled(spool) => {
                for_each_chunk(spool, (0, spool.size()), |chunk| out.push(chunk))
            }
            Self::Zeros(count) => {
                let zeros = vec![0; CHUNK.min(usize::try_from(*count).unwrap_or(CHUNK))];
                let mut left = *count;
                while left > 0 {
                    let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                    out.push(&zeros[..length])?;
                    left -= length as u64;
                }
                Ok(())
            }
        }
    }
}
