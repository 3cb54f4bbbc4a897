//! What sealing did to a layer, so that nothing is dropped silently.

use std::collections::BTreeMap;

use crate::path::EntryPath;

/// What was dropped or changed on the way from an engine's layer to the sealed one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Paths that the scrub list dropped, by the pattern that matched first.
    pub scrubbed: BTreeMap<String, Vec<EntryPath>>,
    /// How many entries were dropped because the layers below show the same.
    pub unchanged: u64,
    /// How many whiteouts were dropped because they hide nothing.
    pub idle_whiteouts: u64,
    /// How often an extended attribute was dropped, by its name.
    pub xattrs: BTreeMap<String, u64>,
    /// Devices that stand in the sealed layer. Not every engine can make them.
    pub devices: Vec<EntryPath>,
    /// Files that a layer changed under some of their names only, where a layer below made hard links.
    /// Storage that copies whole file systems changes them under all names.
    pub broken_links: Vec<EntryPath>,
    /// What became of Python bytecode.
    pub bytecode: Bytecode,
}

/// What became of Python bytecode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytecode {
    /// How many files got the sealed time of their source into their header.
    pub patched: u64,
    /// How many are valid as they are: by a hash, or by a time that did not change.
    pub valid: u64,
    /// Files whose source is a link, missing, or of a Python before 3.7: left as they are.
    pub unchecked: Vec<EntryPath>,
    /// Files that were not valid for their source before sealing either, left as they are. Python
    /// compiles these sources again at every start, and their bytes are seldom reproducible.
    pub stale: Vec<EntryPath>,
}
