//! Finds the files below a folder that `lint` can check.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use git2::Repository;
use lint::report::Skipped;
use lint::{Facts, Kind};
use walkdir::{DirEntry, WalkDir};

/// How much of a file is read to find its kind, in bytes.
const BEGINNING: u64 = 64 << 10;

/// The files below a folder.
#[derive(Debug, Default)]
pub(crate) struct InFolder {
    /// Those that have a kind that `lint` knows, in the order of their names.
    pub(crate) files: Vec<PathBuf>,
    /// Those that seem to have such a kind, but are not checked.
    pub(crate) skipped: Vec<Skipped>,
    /// The first folder that cannot be read; it does not stop the others.
    pub(crate) failed: Option<(PathBuf, io::Error)>,
}

/// Finds the files below `folder`, which is relative to `here`. `.git` and what git ignores are left
/// out. A link is checked under its name if its target is a file below `folder` that is not checked
/// under another name.
pub(crate) fn files_in(here: &Path, folder: &Path) -> InFolder {
    let top = here.join(folder);
    let ignored = Ignored::find(&top);
    let walk = WalkDir::new(&top).sort_by_file_name().into_iter();
    // As a person would write it.
    let shown = |path: &Path| {
        let inner = path.strip_prefix(&top).unwrap_or(path);
        if folder == Path::new(".") { inner.to_owned() } else { folder.join(inner) }
    };
    let (mut found, mut links, mut targets) = (InFolder::default(), Vec::new(), BTreeSet::new());
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !ignored.contains(entry)) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let path = error.path().map_or_else(|| folder.to_owned(), &shown);
                let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                found.failed.get_or_insert((path, source));
                continue;
            }
        };
        if entry.path_is_symlink() {
            links.push(entry.into_path());
        } else if entry.file_type().is_file() {
            match content(entry.path()) {
                Content::Known => {
                    targets.extend(entry.path().canonicalize());
                    found.files.push(shown(entry.path()));
                }
                Content::Other => {}
                Content::Binary(why) => found.skipped.push(skipped(&shown(entry.path()), why)),
            }
        }
    }
    let root = top.canonicalize().unwrap_or(top.clone());
    for link in links {
        match linked(&link, &root) {
            Linked::Nothing => {}
            Linked::Skipped(why) => found.skipped.push(skipped(&shown(&link), why)),
            Linked::File(target) => {
                if targets.insert(target) {
                    found.files.push(shown(&link));
                }
            }
        }
    }
    found.files.sort();
    found
}

fn skipped(path: &Path, why: &'static str) -> Skipped {
    Skipped { file: path.display().to_string(), why }
}

/// What a link is for `lint`.
enum Linked {
    /// Nothing that `lint` checks.
    Nothing,
    /// A file of a known kind that is not checked, and why.
    Skipped(&'static str),
    /// A file of a known kind.
    File(PathBuf),
}

/// Returns what a link below the folder `root` is.
fn linked(link: &Path, root: &Path) -> Linked {
    let Ok(target) = link.canonicalize() else {
        let is_known = has_known_name(link);
        return if is_known {
            Linked::Skipped("the target of the link does not exist")
        } else {
            Linked::Nothing
        };
    };
    // Device files and pipes are not opened.
    if !target.is_file() {
        return Linked::Nothing;
    }
    match content(link) {
        Content::Known if target.starts_with(root) => Linked::File(target),
        Content::Known => Linked::Skipped("it is a link to a file outside of the folder"),
        Content::Binary(why) => Linked::Skipped(why),
        Content::Other => Linked::Nothing,
    }
}

/// What a file contains.
enum Content {
    /// Text of a kind that `lint` knows.
    Known,
    /// Data that are no UTF-8 text, in a file with the name of such a kind.
    Binary(&'static str),
    /// Anything else.
    Other,
}

/// Returns what a file contains. A file that cannot be read has the kind of its name.
fn content(path: &Path) -> Content {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let is_known = |text: &str| Facts::kind_of(&path.to_string_lossy(), text) != Kind::Text;
    let binary = |why| if has_known_name(path) { Content::Binary(why) } else { Content::Other };
    if read.is_err() {
        return binary("it cannot be read");
    }
    if lint::is_utf16(&beginning) {
        return binary("its text is UTF-16, not UTF-8");
    }
    if lint::is_binary(&beginning) {
        return binary("it is binary");
    }
    if is_known(&String::from_utf8_lossy(&beginning)) { Content::Known } else { Content::Other }
}

/// Returns whether the name of a file alone shows a kind that `lint` knows.
fn has_known_name(path: &Path) -> bool {
    Facts::kind_of(&path.to_string_lossy(), "") != Kind::Text
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
            let InFolder { files, failed, .. } =
                files_in(&folder.path().join(here), Path::new(name));
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
        assert!(files_in(folder.path(), Path::new("absent")).failed.is_some());
    }

    #[test]
    fn links_are_checked_once_and_what_is_skipped_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir_all(inside.join("b")).unwrap();
        let write = |name: &str, text: &[u8]| fs::write(inside.join(name), text).unwrap();
        write("Dockerfile", b"FROM debian:13\n");
        write("base.txt", b"FROM debian:13\n");
        write("blob.sh", b"\0\0");
        write("run.sh", b"\xff\xfe#\0");
        write("logo.png", b"\0\0");
        fs::write(folder.path().join("other"), "FROM debian:13\n").unwrap();
        for (name, target) in [
            ("b/Dockerfile", "../Dockerfile"),
            ("c.Dockerfile", "base.txt"),
            ("d.Dockerfile", "base.txt"),
            ("e.Dockerfile", "../other"),
            ("f.Dockerfile", "absent"),
            ("g.Dockerfile", "/dev/zero"),
            ("h.Dockerfile", "b"),
            ("i.sh", "blob.sh"),
            ("j.png", "absent"),
            ("k", "."),
        ] {
            std::os::unix::fs::symlink(target, inside.join(name)).unwrap();
        }
        let InFolder { files, skipped, failed } = files_in(folder.path(), Path::new("inside"));
        assert!(failed.is_none(), "{failed:?}");
        assert_eq!(files, ["inside/Dockerfile", "inside/c.Dockerfile"].map(PathBuf::from));
        let mut skipped: Vec<_> = skipped.iter().map(|one| (&*one.file, one.why)).collect();
        skipped.sort_unstable();
        let wanted = [
            ("inside/blob.sh", "it is binary"),
            ("inside/e.Dockerfile", "it is a link to a file outside of the folder"),
            ("inside/f.Dockerfile", "the target of the link does not exist"),
            ("inside/i.sh", "it is binary"),
            ("inside/run.sh", "its text is UTF-16, not UTF-8"),
        ];
        assert_eq!(skipped, wanted);
    }
}
