//! Lists the code objects of a file.

use crate::bundle::{self, Bundle};
use crate::elf::{self, Elf};
use crate::error::ScanError;
use crate::file_name::{Content, Named, named};
use crate::kpack;
use crate::spool::Spool;
use crate::target::CodeTarget;

/// The number of bytes that [`is_candidate`] examines.
pub const HEAD: usize = elf::HEADER;

/// The maximum number of code objects in a file. The largest libraries have about ten thousand.
const MOST_OBJECTS: usize = 250_000;

/// The first bytes of an SQLite database (SQLite's file format, "The Database Header").
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
    /// The processor or GPU that uses it.
    pub owner: Owner,
    /// Whether it is compressed.
    pub is_compressed: bool,
}

/// The processor or GPU that uses a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A processor that is not a GPU. Bundles have an entry for it, which is usually empty.
    Host,
    /// A GPU. The part is code.
    Gpu(CodeTarget),
    /// A GPU. The part is data about code, for example which kernel to choose, or code that the
    /// runtime does not load.
    Data(CodeTarget),
    /// A GPU of another vendor. This is the ID of the entry.
    Other(String),
}

impl CodeObject {
    /// Creates the code object for a file that as a whole is for one machine.
    fn whole(size: u64, owner: Owner) -> Self {
        Self { bundle: None, offset: 0, size, owner, is_compressed: false }
    }

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

/// Refuses a file with too many code objects: compressed bundles of a few bytes can claim
/// thousands.
pub(crate) fn limit(count: usize) -> Result<(), ScanError> {
    if count > MOST_OBJECTS {
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

/// The format of a file, with the code in it.
#[derive(Debug)]
pub(crate) enum Form {
    /// A program or a library, with the bundles of each section `.hip_fatbin`.
    Library(Vec<FatSection>),
    /// Bundles.
    Bundles(Vec<Bundle>),
    /// A kpack archive.
    Archive(Vec<CodeObject>),
    /// A code object.
    Object(Owner),
    /// None of these. The file's name may still contain a GPU target.
    Other,
}

/// A section with bundles.
#[derive(Debug)]
pub(crate) struct FatSection {
    /// Its position in the file, in bytes.
    pub(crate) start: u64,
    /// Its end, in bytes.
    pub(crate) end: u64,
    pub(crate) bundles: Vec<Bundle>,
}

impl Form {
    fn of(file: &Spool, head: &[u8]) -> Result<Self, ScanError> {
        let mut count = 0;
        if head.starts_with(bundle::PLAIN) || head.starts_with(bundle::COMPRESSED) {
            let bundles = bundle::read_all(file, (0, file.size()), &mut count)?;
            return Ok(Self::Bundles(bundles));
        }
        if head.starts_with(kpack::MAGIC) {
            let mut found = Vec::new();
            kpack::read(file, &mut found)?;
            return Ok(Self::Archive(found));
        }
        Ok(match elf::identify(head) {
            Some(Elf::CodeObject(target)) => {
                // A truncated file is an error.
                elf::fat_sections(file)?;
                Self::Object(Owner::Gpu(target))
            }
            Some(Elf::OtherCode(target)) => Self::Object(Owner::Data(target)),
            Some(Elf::Host) => {
                let mut sections = Vec::new();
                for (start, end) in elf::fat_sections(file)? {
                    let bundles = bundle::read_all(file, (start, end), &mut count)?;
                    sections.push(FatSection { start, end, bundles });
                }
                Self::Library(sections)
            }
            None => Self::Other,
        })
    }

    fn objects(&self, size: u64) -> Vec<CodeObject> {
        let of = |bundles: &[Bundle]| -> Vec<CodeObject> {
            let entries = bundles.iter().flat_map(|bundle| &bundle.entries);
            entries.map(|entry| entry.object.clone()).collect()
        };
        match self {
            Self::Library(sections) => {
                sections.iter().flat_map(|section| of(&section.bundles)).collect()
            }
            Self::Bundles(bundles) => of(bundles),
            Self::Archive(objects) => objects.clone(),
            Self::Object(owner) => vec![CodeObject::whole(size, owner.clone())],
            Self::Other => Vec::new(),
        }
    }
}

/// Lists the code objects of a file, in the order of the file. `path` matters for files whose names
/// contain their GPU target.
///
/// # Errors
/// Fails if the file cannot be read, violates its format, or contains code for a GPU other than the
/// one in its name.
pub fn scan(path: &str, file: &Spool) -> Result<Vec<CodeObject>, ScanError> {
    Ok(examine(path, file)?.1)
}

/// Returns the format of a file, and its code objects like [`scan()`].
pub(crate) fn examine(path: &str, file: &Spool) -> Result<(Form, Vec<CodeObject>), ScanError> {
    let mut head = [0; HEAD];
    let length = usize::try_from(file.size()).unwrap_or(HEAD).min(HEAD);
    let head = &mut head[..length];
    file.read_at(0, head)?;
    let form = Form::of(file, head)?;
    let found = form.objects(file.size());
    if matches!(form, Form::Library(_)) {
        return Ok((form, found));
    }
    let Some(Named { target, content }) = named(path) else { return Ok((form, found)) };
    let targets = || found.iter().filter_map(CodeObject::target);
    if targets().next().is_none() {
        let owner = match content {
            Content::Database if head.starts_with(DATABASE) => Owner::Gpu(target),
            Content::Database => {
                let why = format!("its name contains {target}, but it is not an SQLite database");
                return Err(ScanError::at(0, why));
            }
            Content::Packed => Owner::Gpu(target),
            Content::Data => Owner::Data(target),
            Content::Objects => {
                let why = format!("its name contains {target}, but it is not a code object");
                return Err(ScanError::at(0, why));
            }
        };
        return Ok((form, vec![CodeObject::whole(file.size(), owner)]));
    }
    if targets().all(|one| one.processor() != target.processor()) {
        let others: Vec<String> = targets().map(ToString::to_string).collect();
        let why = format!("its name contains {target}, but its code is for {}", others.join(", "));
        return Err(ScanError::at(0, why));
    }
    Ok((form, found))
}
