//! Unfolds a recorded machine (`tests/machines`) into a directory.

use std::fs;
use std::path::{Path, PathBuf};

use host::{Caller, Snapshot};
use tempfile::TempDir;

/// The names of all recorded machines, in order.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".machine")?.to_owned()))
        .collect();
    names.sort();
    names
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

/// Reads a recorded machine with `changes` made to it.
pub(crate) fn read(name: &str, changes: &str) -> Snapshot {
    let root = tempfile::tempdir().unwrap();
    unfold(&root, &fs::read_to_string(folder().join(format!("{name}.machine"))).unwrap());
    unfold(&root, changes);
    // Nobody, with nothing: whatever shows up is the recorded machine's.
    let nobody = Caller { uid: 65_534, gids: Vec::new(), environment: Default::default() };
    Snapshot::read(root.path(), &nobody)
}

fn unfold(root: &TempDir, text: &str) {
    let mut file: Option<(PathBuf, String)> = None;
    let finish = |file: Option<(PathBuf, String)>| {
        if let Some((path, text)) = file {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    };
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("== ") {
            finish(file.replace((root.path().join(path), String::new())));
        } else if let Some(link) = line.strip_prefix("-> ") {
            finish(file.take());
            let (path, target) = link.split_once(' ').unwrap();
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(fs::remove_file(&path));
            std::os::unix::fs::symlink(target, path).unwrap();
        } else if let Some(path) = line.strip_prefix("-- ") {
            finish(file.take());
            fs::remove_file(root.path().join(path)).unwrap();
        } else if let Some(name) = line.strip_prefix("base ") {
            unfold(root, &fs::read_to_string(folder().join(format!("{name}.machine"))).unwrap());
        } else if let Some((_, text)) = &mut file {
            text.push_str(line);
            text.push('\n');
        } else {
            assert_eq!(line, "", "a line that belongs to no file");
        }
    }
    finish(file);
}
