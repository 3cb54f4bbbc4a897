//! Finds the files below a folder that `lint` can check.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use git2::Repository;
use lint::{Facts, Kind};
use walkdir::{DirEntry, WalkDir};

/// How much of a file is read to find its kind, in bytes.
const BEGINNING: u64 = 64 << 10;

/// Returns the files below `folder`, which is relative to `here`, that have a kind that `lint`
/// knows, in the order of their names. `.git`, links, and what git ignores are skipped. A folder
/// that cannot be read does not stop the others; it is returned with its error.
pub(crate) fn files_in(here: &Path, folder: &Path) -> (Vec<PathBuf>, Option<(PathBuf, io::Error)>) {
    let top = here.join(folder);
    let ignored = Ignored::find(&top);
    let walk = WalkDir::new(&top).sort_by_file_name().into_iter();
    // As a person would write it.
    let shown = |path: &Path| {
        let inner = path.strip_prefix(&top).unwrap_or(path);
        if folder == Path::new(".") { inner.to_owned() } else { folder.join(inner) }
    };
    let (mut files, mut failed) = (Vec::new(), None);
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !ignored.contains(entry)) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let path = error.path().map_or_else(|| folder.to_owned(), &shown);
                let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                failed.get_or_insert((path, source));
                continue;
            }
        };
        if entry.file_type().is_file() && is_known(entry.path()) {
            files.push(shown(entry.path()));
        }
    }
    (files, failed)
}

/// Returns whether a file has a kind of its own. A file that cannot be read has none.
fn is_known(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let is_text = read.is_ok() && !beginning.contains(&0);
    is_text
        && Facts::kind_of(&path.to_string_lossy(), &String::from_utf8_lossy(&beginning))
            != Kind::Text
}

/// What git ignores below a folder.
struct Ignored {
    /// The repository and its folder, if there is one.
    repository: Option<(Repository, PathBuf)>,
}

impl Ignored {
    /// If git ignores the folder itself, everything in it is read.
    fn find(folder: &Path) -> Self {
        let found = Repository::discover(folder).ok();
        let repository = found.and_then(|found| {
            let root = found.workdir()?.canonicalize().ok()?;
            Some((found, root))
        });
        let all = Self { repository };
        if all.ignores(folder) { Self { repository: None } } else { all }
    }

    fn contains(&self, entry: &DirEntry) -> bool {
        entry.file_name() == ".git" || self.ignores(entry.path())
    }

    fn ignores(&self, path: &Path) -> bool {
        let is_ignored = || {
            let (repository, root) = self.repository.as_ref()?;
            let full = path.canonicalize().ok()?;
            repository.is_path_ignored(full.strip_prefix(root).ok()?).ok()
        };
        is_ignored().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_with_a_kind_of_their_own_are_found_but_not_what_git_ignores() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, text) in [
            ("Dockerfile", "FROM debian:13\n"),
            ("docker/rocm.Dockerfile", "FROM debian:13\n"),
            ("compose.yml", "services:\n  a:\n    image: a\n"),
            (".github/workflows/ci.yml", "on: push\njobs:\n  a:\n    runs-on: a\n    steps: []\n"),
            ("entry", "#!/bin/sh\nexec a\n"),
            (".env", "A=b\n"),
            (".env.example", "A=b\n"),
            ("README.md", "FROM debian:13\n"),
            ("main.py", "print(1)\n"),
            ("data.yml", "a: b\n"),
            ("blob.sh", "\0\0"),
            ("build/Dockerfile", "FROM debian:13\n"),
            (".git/hooks/a.sh", "#!/bin/sh\n"),
        ] {
            write(name, text);
        }
        std::os::unix::fs::symlink("Dockerfile", folder.path().join("Dockerfile.link")).unwrap();
        let found = |here: &str, name: &str| {
            let (files, failed) = files_in(&folder.path().join(here), Path::new(name));
            assert!(failed.is_none(), "{failed:?}");
            files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let always = [".env.example", ".github/workflows/ci.yml", "Dockerfile"];
        let others = ["compose.yml", "docker/rocm.Dockerfile", "entry"];
        let all = [&[".env"][..], &always, &["build/Dockerfile"], &others].concat();
        assert_eq!(found("", "."), all, "without a repository");
        fs::remove_dir_all(folder.path().join(".git")).unwrap();
        Repository::init(folder.path()).unwrap();
        write(".gitignore", "/build/\n.env\n");
        assert_eq!(found("", "."), [&always[..], &others].concat());
        assert_eq!(found("", "docker"), ["docker/rocm.Dockerfile"]);
        let above = [&always[..], &others].concat();
        let above: Vec<_> = above.iter().map(|name| format!("../{name}")).collect();
        assert_eq!(found("docker", ".."), above);
        assert_eq!(found("", "build"), ["build/Dockerfile"], "a folder that is named is read");
        assert!(files_in(folder.path(), Path::new("absent")).1.is_some());
    }
}
