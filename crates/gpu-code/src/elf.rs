//! ELF files: which machine they are for, and where their fat binaries are. Only 64-bit
//! little-endian files are read; no other kind is used with ROCm.

use object::LittleEndian;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_AMDGPU, ET_DYN, FileHeader64, SHT_NOBITS, SectionHeader64,
};
use object::pod;

use crate::bundle;
use crate::error::ScanError;
use crate::spool::Spool;
use crate::target::CodeTarget;

/// The size of the header, in bytes.
pub(crate) const HEADER: usize = 64;
/// `e_ident[EI_OSABI]` of code for the HSA runtime: `ELFOSABI_AMDGPU_HSA` (LLVM, AMDGPUUsage).
const HSA: u8 = 64;
/// The section number that stands for a larger one (gABI, "Special Section Indexes").
const SHN_XINDEX: u64 = 0xffff;
/// The maximum number of sections. The largest object files have a few hundred thousand.
const MOST_SECTIONS: u64 = 1 << 20;
/// The name of the section with bundles, including the terminating NUL.
const FATBIN: &[u8] = b".hip_fatbin\0";

type Header = FileHeader64<LittleEndian>;
type Section = SectionHeader64<LittleEndian>;

/// The kind of a file with an ELF header.
#[derive(Debug)]
pub(crate) enum Elf {
    /// A code object that the HSA runtime loads.
    CodeObject(CodeTarget),
    /// GPU code that the HSA runtime does not load: it is for another runtime, or not linked yet.
    OtherCode(CodeTarget),
    /// A file for a processor that is not a GPU.
    Host,
}

/// Reads the header at the start of `bytes`. Returns `None` if it is not a header of the kind that
/// ROCm uses.
pub(crate) fn identify(bytes: &[u8]) -> Option<Elf> {
    let header = header(bytes)?;
    if header.e_machine.get(LittleEndian) != EM_AMDGPU {
        return Some(Elf::Host);
    }
    let flags = header.e_flags.get(LittleEndian).0;
    let target = CodeTarget::of_flags(flags, header.e_ident.abi_version)
        .unwrap_or_else(|| CodeTarget::of_new_number(flags));
    let is_loaded = header.e_ident.os_abi.0 == HSA && header.e_type.get(LittleEndian) == ET_DYN;
    Some(if is_loaded { Elf::CodeObject(target) } else { Elf::OtherCode(target) })
}

fn header(bytes: &[u8]) -> Option<&Header> {
    let (header, _) = pod::from_bytes::<Header>(bytes).ok()?;
    let ident = &header.e_ident;
    let is_known = ident.magic == ELFMAG && ident.class == ELFCLASS64 && ident.data == ELFDATA2LSB;
    is_known.then_some(header)
}

/// Returns the parts of a file that contain bundles, as start and end in bytes.
pub(crate) fn fat_sections(file: &Spool) -> Result<Vec<(u64, u64)>, ScanError> {
    let mut head = [0; HEADER];
    file.read_at(0, &mut head)?;
    let Some(header) = header(&head) else { return Ok(Vec::new()) };
    let table = header.e_shoff.get(LittleEndian);
    if table == 0 {
        return match bundle::find(file)? {
            None => Ok(Vec::new()),
            Some(at) => {
                Err(ScanError::at(at, "there is a bundle, but there are no section headers"))
            }
        };
    }
    let entry = size_of::<Section>();
    if usize::from(header.e_shentsize.get(LittleEndian)) != entry {
        return Err(ScanError::at(58, "the size of a section header is wrong"));
    }
    let outside =
        || ScanError::at(40, "the section headers are outside the file, which is truncated");
    let damaged = || ScanError::at(table, "the section headers cannot be read");
    let read = |count: u64| -> Result<Vec<u8>, ScanError> {
        let size = count.saturating_mul(entry as u64);
        if table.checked_add(size).is_none_or(|end| end > file.size()) {
            return Err(outside());
        }
        if count > MOST_SECTIONS {
            return Err(ScanError::at(40, format!("it has more than {MOST_SECTIONS} sections")));
        }
        let mut headers = vec![0; usize::try_from(size).map_err(|_| outside())?];
        file.read_at(table, &mut headers)?;
        Ok(headers)
    };
    let mut count = u64::from(header.e_shnum.get(LittleEndian));
    let mut index = u64::from(header.e_shstrndx.get(LittleEndian).0);
    // Numbers that do not fit the header are in the first section header (gABI, "ELF Header").
    if count == 0 || index == SHN_XINDEX {
        let one = read(1)?;
        let (first, _) = pod::from_bytes::<Section>(&one).map_err(|()| damaged())?;
        if count == 0 {
            count = first.sh_size.get(LittleEndian);
        }
        if index == SHN_XINDEX {
            index = first.sh_link.get(LittleEndian).into();
        }
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let bytes = read(count)?;
    let (sections, _) =
        pod::slice_from_bytes::<Section>(&bytes, bytes.len() / entry).map_err(|()| damaged())?;
    let names = usize::try_from(index).ok().and_then(|index| sections.get(index));
    let names = names.ok_or_else(damaged)?.sh_offset.get(LittleEndian);
    let mut found = Vec::new();
    for section in sections {
        let start = section.sh_offset.get(LittleEndian);
        let name = names.checked_add(section.sh_name.get(LittleEndian).into());
        let mut text = [0; FATBIN.len()];
        // A shorter name may be at the very end of the file.
        let is_read = name.is_some_and(|name| file.read_at(name, &mut text).is_ok());
        if !is_read || text != FATBIN || section.sh_type.get(LittleEndian) == SHT_NOBITS {
            continue;
        }
        let end = start.checked_add(section.sh_size.get(LittleEndian));
        match end.filter(|end| *end <= file.size()) {
            Some(end) => found.push((start, end)),
            None => {
                let why = "the section `.hip_fatbin` is outside the file, which is truncated";
                return Err(ScanError::at(start, why));
            }
        }
    }
    // Reading thousands of sections with the same content would take too long.
    found.sort_unstable();
    match found.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(ScanError::at(pair[1].0, "two sections `.hip_fatbin` overlap")),
        None => Ok(found),
    }
}
