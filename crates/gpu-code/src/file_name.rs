//! Kernel files, whose names contain their GPU target.

use crate::target::CodeTarget;

/// What a kernel file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Code objects or bundles.
    Objects,
    /// Code in a database, which is not read.
    Database,
    /// Code in a format that is not read.
    Packed,
    /// Data about code, such as which kernel to choose.
    Data,
}

/// The endings of the names of kernel files.
const ENDS: [(&str, Content); 8] = [
    // Tensile and hipBLASLt.
    (".hsaco", Content::Objects),
    (".co", Content::Objects),
    (".dat", Content::Data),
    (".dat.gz", Content::Data),
    // MIOpen: compiled kernels, and the results of its kernel searches.
    (".kdb", Content::Database),
    (".fdb.txt", Content::Data),
    (".db", Content::Data),
    // AOTriton.
    (AOTRITON, Content::Packed),
];
const AOTRITON: &str = ".aks2";

/// The information in the path of a kernel file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) target: CodeTarget,
    pub(crate) content: Content,
}

/// Returns the target and the kind of content that the path of a file specifies. Returns `None` if
/// it is not a kernel file, or if the path contains no known target.
pub(crate) fn named(path: &str) -> Option<Named> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (end, content) = *ENDS.iter().find(|(end, _)| name.ends_with(end))?;
    if end == AOTRITON {
        // The name of a folder contains a family of processors: `amd-gfx11xx`.
        let family = folder.split('/').find_map(|part| part.strip_prefix("amd-"))?;
        let target = CodeTarget::of_family(family).or_else(|| family.parse().ok())?;
        return Some(Named { target, content });
    }
    let stem = name.strip_suffix(end)?;
    // The last target counts, because the name of a fallback may first contain the target that it
    // replaces.
    let target = stem.rmatch_indices("gfx").find_map(|(at, _)| target_at(&stem[at..]))?;
    Some(Named { target, content })
}

/// Returns the target at the start of a text. MIOpen adds the number of compute units: `gfx90a68`,
/// `gfx942130`, `gfx1100_48`.
fn target_at(text: &str) -> Option<CodeTarget> {
    let (target, rest) = CodeTarget::prefix_of(text)?;
    let units = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    let is_end = units.is_empty() || units.starts_with(['_', '-', '.']);
    if rest.len() - units.len() > 3 || !is_end {
        return None;
    }
    let feature = rest.trim_start_matches(['_', '-']);
    for sign in ["+", "-"] {
        if feature.starts_with(&format!("xnack{sign}")) {
            return format!("{}:xnack{sign}", target.processor()).parse().ok();
        }
    }
    Some(target)
}
