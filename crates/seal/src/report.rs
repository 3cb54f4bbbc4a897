//! The report on sealing a layer. It records what was dropped, so that nothing is dropped silently.

use std::collections::BTreeMap;

use crate::path::EntryPath;

/// The differences between an engine's layer and the sealed layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Paths that the scrub list dropped, by the first matching pattern.
    pub scrubbed: BTreeMap<String, Vec<EntryPath>>,
    /// How many entries are the same in the layers below. They were dropped, except for parent
    /// directories of changed entries.
    pub unchanged: u64,
    /// How many whiteouts were dropped because they hide nothing.
    pub idle_whiteouts: u64,
    /// How often an extended attribute was dropped, by its name.
    pub xattrs: BTreeMap<String, u64>,
    /// Devices in the sealed layer. Not every engine can create them.
    pub devices: Vec<EntryPath>,
    /// Hard-linked files that an upper layer changed under only some of their names. Storage
    /// drivers that copy whole file systems change such files under all names.
    pub broken_links: Vec<EntryPath>,
    /// How Python bytecode was handled.
    pub bytecode: Bytecode,
}

/// How Python bytecode was handled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytecode {
    /// The number of files whose headers got the sealed time of their source.
    pub patched: u64,
    /// The number of files that are valid without a change: by a hash, or by a time that did not
    /// change.
    pub valid: u64,
    /// Files whose source is a link or missing, or that come from a Python before 3.7. They are
    /// left unchanged.
    pub unchecked: Vec<EntryPath>,
    /// Files that were already invalid for their source before sealing. They are left unchanged.
    /// Python recompiles their sources at every start, and the bytes of such files are seldom
    /// reproducible.
    pub stale: Vec<EntryPath>,
}
