//! The data files that are part of the program: this repository's files at compile time.
//!
//! They are the defaults of every project that does not set `built-in = false` in
//! `versions/versions.toml`: the project's own files replace or extend them.

use std::collections::BTreeSet;

/// All files, sorted by path from the root of the repository, with their texts.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// Returns the text of a file, given its path from the root of a project.
pub fn text(name: &str) -> Option<&'static str> {
    let found = FILES.binary_search_by_key(&name, |(known, _)| known).ok()?;
    FILES.get(found).map(|(_, text)| *text)
}

/// Returns the names of the files and folders directly below a folder.
pub(crate) fn names_in(folder: &str) -> BTreeSet<&'static str> {
    let below = |name: &&'static str| name.strip_prefix(folder)?.strip_prefix('/');
    let first = |rest: &'static str| rest.split('/').next();
    FILES.iter().filter_map(|(name, _)| below(name).and_then(first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_found_by_its_name() {
        assert!(FILES.is_sorted_by_key(|(name, _)| *name));
        for (name, content) in FILES {
            assert_eq!(text(name), Some(*content), "{name}");
        }
        assert_eq!(text("versions/none.toml"), None);
    }

    #[test]
    fn folders_list_what_is_in_them() {
        assert!(names_in("patches").contains("vllm"));
        assert!(names_in("patches/vllm").contains("vllm-arch-list.toml"));
        assert!(names_in("patch").is_empty());
    }
}
