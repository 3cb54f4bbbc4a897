//! Lists the code objects of a file.

use crate::bundle;
use crate::elf::{self, Elf};
use crate::error::ScanError;
use crate::file_name::{Content, Named, named};
use crate::kpack;
use crate::spool::Spool;
use crate::target::CodeTarget;

/// How many bytes [`is_candidate`] looks at.
pub const HEAD: usize = elf::HEADER;

/// The most code objects of a file. The largest libraries have some ten thousand.
const MOST_OBJECTS: usize = 250_000;

/// The first bytes of a database of SQLite (its file format, "The Database Header").
const DATABASE: &[u8] = b"SQLite format 3\0";

/// A part of a file for one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeObject {
    /// The position of its bundle in the file, in bytes. `None` if it is not in a bundle.
    pub bundle: Option<u64>,
    /// Its position, in bytes: in its bundle after decompression, or in the file.
    pub offset: u64,
    /// Its size after decompression, in bytes.
    pub size: u64,
    /// Who uses it.
    pub owner: Owner,
    /// Whether it is compressed.
    pub is_compressed: bool,
}

/// Who uses a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A processor that is not a GPU. Bundles have such an entry, which is usually empty.
    Host,
    /// A GPU: it is code.
    Gpu(CodeTarget),
    /// A GPU: it describes code, for example the choice of a kernel.
    Data(CodeTarget),
    /// A GPU of another vendor. This is the ID of the entry.
    Other(String),
}

impl CodeObject {
    /// Returns the target of a part that belongs to an AMD GPU.
    pub fn target(&self) -> Option<&CodeTarget> {
        match &self.owner {
            Owner::Gpu(target) | Owner::Data(target) => Some(target),
            Owner::Host | Owner::Other(_) => None,
        }
    }

    /// Returns the target of a part that an AMD GPU executes.
    pub fn code_target(&self) -> Option<&CodeTarget> {
        match &self.owner {
            Owner::Gpu(target) if self.size > 0 => Some(target),
            _ => None,
        }
    }
}

/// Refuses a file with too many code objects: compressed bundles of a few bytes can claim thousands.
pub(crate) fn limit(found: &[CodeObject]) -> Result<(), ScanError> {
    if found.len() > MOST_OBJECTS {
        return Err(ScanError::at(0, format!("it has more than {MOST_OBJECTS} code objects")));
    }
    Ok(())
}

/// Returns whether a file may contain GPU code, by its path and its first [`HEAD`] bytes.
pub fn is_candidate(path: &str, head: &[u8]) -> bool {
    let starts = [bundle::PLAIN, bundle::COMPRESSED, kpack::MAGIC];
    starts.iter().any(|start| head.starts_with(start))
        || elf::identify(head).is_some()
        || named(path).is_some()
}

/// Returns whether a file is a program or a library for a processor that is not a GPU, by its first
/// [`HEAD`] bytes. The code objects of other files are used together with those in the same folder.
pub fn is_library(head: &[u8]) -> bool {
    matches!(elf::identify(head), Some(Elf::Host))
}

/// Lists the code objects of a file, in the order of the file. `path` decides about files that say
/// in their names which GPU they are for.
///
/// # Errors
/// The file cannot be read, contradicts its format, or contains code for another GPU than its name
/// says.
pub fn scan(path: &str, file: &Spool) -> Result<Vec<CodeObject>, ScanError> {
    let mut head = [0; HEAD];
    let length = usize::try_from(file.size()).unwrap_or(HEAD).min(HEAD);
    let head = &mut head[..length];
    file.read_at(0, head)?;
    let mut found = Vec::new();
    let whole = |owner| CodeObject {
        bundle: None,
        offset: 0,
        size: file.size(),
        owner,
        is_compressed: false,
    };
    if head.starts_with(bundle::PLAIN) || head.starts_with(bundle::COMPRESSED) {
        bundle::read_all(file, (0, file.size()), &mut found)?;
    } else if head.starts_with(kpack::MAGIC) {
        kpack::read(file, &mut found)?;
    } else {
        match elf::identify(head) {
            Some(Elf::CodeObject(target)) => {
                // A truncated file is an error.
                elf::fat_sections(file)?;
                found.push(whole(Owner::Gpu(target)));
            }
            Some(Elf::OtherCode(target)) => found.push(whole(Owner::Data(target))),
            Some(Elf::Host) => {
                for section in elf::fat_sections(file)? {
                    bundle::read_all(file, section, &mut found)?;
                }
                return Ok(found);
            }
            None => {}
        }
    }
    let Some(Named { target, content }) = named(path) else { return Ok(found) };
    let targets = || found.iter().filter_map(CodeObject::target);
    if targets().next().is_none() {
        return match content {
            Content::Database if head.starts_with(DATABASE) => Ok(vec![whole(Owner::Gpu(target))]),
            Content::Database => {
                let why = format!("its name says {target}, but it is no SQLite database");
                Err(ScanError::at(0, why))
            }
            Content::Packed => Ok(vec![whole(Owner::Gpu(target))]),
            Content::Data => Ok(vec![whole(Owner::Data(target))]),
            Content::Objects => {
                let why = format!("its name says {target}, but it is no code object");
                Err(ScanError::at(0, why))
            }
        };
    }
    if targets().all(|one| one.processor() != target.processor()) {
        let others: Vec<String> = targets().map(ToString::to_string).collect();
        let why = format!("its name says {target}, but its code is for {}", others.join(", "));
        return Err(ScanError::at(0, why));
    }
    Ok(found)
}
