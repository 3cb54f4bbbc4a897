//! A directory as a tree to patch. Symbolic links are never followed.
//!
//! Every part of a path is opened relative to the one before it (`openat` with `O_NOFOLLOW`), so
//! that no link can point outside the tree, even if it is created while the program runs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use patcher::{MAX_FILE_BYTES, Tree, TreePath, Unreadable};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::rooted::Rooted;

/// Flags for opening a folder in a path.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    root: File,
    path: PathBuf,
}

/// The location of a file: its open folder and its name in that folder.
#[derive(Debug)]
pub struct Place<'p> {
    /// The open folder.
    pub folder: OwnedFd,
    /// The name in it.
    pub name: &'p str,
}

impl Directory {
    /// Opens the directory at `path`. Links in `path` itself are followed, because the caller chose
    /// it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { root: File::from(root), path: fs::canonicalize(path)? })
    }

    /// Opens the directory again.
    pub fn again(&self) -> io::Result<Self> {
        // A copy of the descriptor would share the read position and the lock.
        let root = openat(&self.root, ".", FOLDER, Mode::empty())?;
        Ok(Self { root: File::from(root), path: self.path.clone() })
    }

    /// Returns its path, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the root directory, for locking.
    pub fn root(&self) -> &File {
        &self.root
    }

    /// Opens a folder inside this directory. Returns `None` if it is missing or reached through a
    /// link.
    pub fn inside(&self, path: &TreePath) -> Option<Self> {
        let place = self.place(path).ok().flatten()?;
        let root = openat(&place.folder, place.name, FOLDER, Mode::empty()).ok()?;
        Some(Self { root: File::from(root), path: self.path.join(path.as_str()) })
    }

    /// Opens the folders on the path to a file. Returns `None` if one of them is missing or is not
    /// a folder. Refuses links.
    pub fn place<'p>(&self, path: &'p TreePath) -> Result<Option<Place<'p>>, Unreadable> {
        let unreadable = |at: &str, error: &io::Error| Unreadable(format!("`{at}`: {error}"));
        let text = path.as_str();
        let mut folder: OwnedFd =
            self.root.try_clone().map_err(|error| unreadable("", &error))?.into();
        for (end, _) in text.match_indices('/') {
            let walked = &text[..end];
            let part = walked.rsplit('/').next().unwrap_or(walked);
            match statat(&folder, part, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(unreadable(walked, &error.into())),
                Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                    FileType::Directory => {}
                    FileType::Symlink => return Err(link(walked)),
                    _ => return Ok(None),
                },
            }
            folder = openat(&folder, part, FOLDER, Mode::empty())
                .map_err(|error| unreadable(walked, &error.into()))?;
        }
        let name = text.rsplit('/').next().unwrap_or(text);
        Ok(Some(Place { folder, name }))
    }
}

fn link(path: &str) -> Unreadable {
    Unreadable(format!("`{path}` is a symbolic link; links are never followed or patched"))
}

impl Place<'_> {
    /// Opens the file for reading, if it exists. Refuses anything other than a regular file.
    pub fn open(&self, path: &TreePath) -> Result<Option<File>, Unreadable> {
        let unreadable = |error: Errno| Unreadable(io::Error::from(error).to_string());
        // Check the type before opening: opening a device or a pipe may have side effects.
        match statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {}
                FileType::Symlink => return Err(link(path.as_str())),
                FileType::Directory => return Err(Unreadable("it is a directory".to_owned())),
                _ => return Err(Unreadable("it is not a regular file".to_owned())),
            },
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            File::from(openat(&self.folder, self.name, flags, Mode::empty()).map_err(unreadable)?);
        let metadata = file.metadata().map_err(|error| Unreadable(error.to_string()))?;
        if metadata.is_file() {
            Ok(Some(file))
        } else {
            Err(Unreadable("it is not a regular file".to_owned()))
        }
    }
}

impl Rooted for Directory {
    fn names(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.root) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| !matches!(name.as_str(), "." | ".."))
            .collect();
        names.sort();
        names
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

impl Tree for Directory {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(place) = self.place(path)? else { return Ok(None) };
        let Some(file) = place.open(path)? else { return Ok(None) };
        let failed = |error: io::Error| Unreadable(error.to_string());
        let size = file.metadata().map_err(failed)?.size();
        if size > MAX_FILE_BYTES as u64 {
            return Err(Unreadable(format!(
                "it has {size} bytes; the maximum is {MAX_FILE_BYTES}"
            )));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_maximum_size() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let file = File::create(folder.path().join("a")).unwrap();
        let read = || directory.read(&"a".parse().unwrap());
        file.set_len(MAX_FILE_BYTES as u64).unwrap();
        assert_eq!(read().unwrap().unwrap().len(), MAX_FILE_BYTES);
        file.set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
        let wanted = "it has 4194305 bytes; the maximum is 4194304";
        assert_eq!(read().unwrap_err().to_string(), wanted);
    }
}
