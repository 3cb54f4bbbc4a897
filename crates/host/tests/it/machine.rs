//! Reads recorded machines.

use host::{Caller, Snapshot};

use crate::unfold;

/// The names of all recorded machines, in order.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(unfold::folder()).unwrap().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".machine")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Reads a recorded machine with `changes` applied.
pub(crate) fn read(name: &str, changes: &str) -> Snapshot {
    let root = tempfile::tempdir().unwrap();
    unfold::machine(root.path(), name);
    unfold::text(root.path(), changes);
    // No user ID, groups or variables of this machine, so everything comes from the recorded
    // machine.
    let nobody = Caller { uid: 65_534, gids: Vec::new(), environment: Default::default() };
    Snapshot::read(root.path(), &nobody)
}
