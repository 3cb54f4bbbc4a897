//! Unpacks a recorded machine (`tests/machines`) into a directory; tests of other crates use this
//! too.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the recorded machines, relative to the folder of any crate.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/machines")
}

/// Unpacks the recorded machine `name` into `root`.
pub(crate) fn machine(root: &Path, name: &str) {
    text(root, &fs::read_to_string(folder().join(format!("{name}.machine"))).unwrap());
}

/// Unpacks a text in the format that `tests/machines/README.md` describes into `root`.
pub(crate) fn text(root: &Path, text: &str) {
    let mut file: Option<(PathBuf, String)> = None;
    let finish = |file: Option<(PathBuf, String)>| {
        if let Some((path, text)) = file {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    };
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("== ") {
            finish(file.replace((root.join(path), String::new())));
        } else if let Some(link) = line.strip_prefix("-> ") {
            finish(file.take());
            let (path, target) = link.split_once(' ').unwrap();
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(fs::remove_file(&path));
            std::os::unix::fs::symlink(target, path).unwrap();
        } else if let Some(path) = line.strip_prefix("-- ") {
            finish(file.take());
            fs::remove_file(root.join(path)).unwrap();
        } else if let Some(name) = line.strip_prefix("base ") {
            machine(root, name);
        } else if let Some((_, text)) = &mut file {
            text.push_str(line);
            text.push('\n');
        } else {
            let is_comment = line.is_empty() || line.starts_with('#');
            assert!(is_comment, "a line that does not belong to a file: {line}");
        }
    }
    finish(file);
}
