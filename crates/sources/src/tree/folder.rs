//! A local folder as a tree, for trees that are already unpacked.
//!
//! Links on the path to a file are never followed, even if someone changes the folder at the same
//! time: each directory is opened relative to its parent. Files and folders named `.git` are left
//! out.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode as Permissions, OFlags};

use super::{Content, Mode, Tree, refusal};
use crate::error::{Failure, SourceError};
use crate::git_ref::TreePath;
use crate::text;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 200;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    root: OwnedFd,
}

impl Tree {
    /// Returns the tree that is unpacked at `root`. The content of a file is read only on request.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or contains anything other than files, folders and
    /// links.
    pub fn from_folder(root: &Path) -> Result<Self, SourceError> {
        let shown = text::clean(&root.display().to_string());
        let read = || {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let root_fd = rustix::fs::openat(CWD, root, flags, Permissions::empty())
                .map_err(|error| Failure::disk("opened", root, &error.into()))?;
            let folder = Arc::new(Folder { path: root.to_owned(), root: root_fd });
            let mut tree = Self::new();
            folder.collect(&mut tree)?;
            Ok(tree)
        };
        read().map_err(|failure: Failure| failure.at("open the folder", shown))
    }
}

impl Folder {
    fn collect(self: &Arc<Self>, tree: &mut Tree) -> Result<(), Failure> {
        let mut open = vec![None::<TreePath>];
        while let Some(base) = open.pop() {
            if base.as_ref().is_some_and(|base| base.parents().count() >= MAX_DEPTH) {
                return Err(Failure::refused(format!(
                    "folders are nested more than {MAX_DEPTH} levels deep"
                )));
            }
            let fail = |error: io::Error| {
                let place = base.as_ref().map_or("", TreePath::as_str);
                Failure::disk("read", &self.path.join(place), &error)
            };
            let directory = match &base {
                None => rustix::io::dup(&self.root).map_err(io::Error::from).map_err(fail)?,
                Some(base) => self.directory(base.as_str()).map_err(fail)?,
            };
            let entries = rustix::fs::Dir::read_from(&directory);
            for entry in entries.map_err(io::Error::from).map_err(fail)? {
                let entry = entry.map_err(io::Error::from).map_err(fail)?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..")
                    || name.to_bytes().eq_ignore_ascii_case(b".git")
                {
                    continue;
                }
                let name_path = TreePath::from_bytes(name.to_bytes()).map_err(refusal)?;
                let path = match &base {
                    None => name_path,
                    Some(base) => base.join(&name_path).map_err(refusal)?,
                };
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(&directory, name, flags);
                let stat = stat.map_err(io::Error::from).map_err(fail)?;
                let folder = Arc::clone(self);
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => open.push(Some(path)),
                    FileType::RegularFile => {
                        let is_executable = stat.st_mode & 0o100 != 0;
                        let mode = if is_executable { Mode::Executable } else { Mode::File };
                        let size = u64::try_from(stat.st_size).unwrap_or_default();
                        let content = Content::Folder { folder, path: path.clone(), size };
                        tree.add(path, mode, content)?;
                    }
                    FileType::Symlink => {
                        let content = Content::FolderLink { folder, path: path.clone() };
                        tree.add(path, Mode::Symlink, content)?;
                    }
                    _ => {
                        let path = text::quoted(path.as_str());
                        let detail = format!("{path} is not a file, folder or link");
                        return Err(Failure::refused(detail));
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens the directory at `path`, component by component.
    fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut current = rustix::io::dup(&self.root)?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            current = rustix::fs::openat(&current, part, flags, Permissions::empty())?;
        }
        Ok(current)
    }

    fn parent<'a>(&self, path: &'a TreePath) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (parent, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
        Ok((self.directory(parent)?, OsStr::from_bytes(name.as_bytes())))
    }

    /// Opens a file.
    pub(crate) fn open(&self, path: &TreePath) -> Result<File, Failure> {
        let open = || -> io::Result<File> {
            let (parent, name) = self.parent(path)?;
            // Non-blocking, because someone may have put a pipe there in the meantime.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = File::from(rustix::fs::openat(&parent, name, flags, Permissions::empty())?);
            if file.metadata()?.is_file() {
                Ok(file)
            } else {
                Err(io::Error::other("it is no longer a file"))
            }
        };
        open().map_err(|error| Failure::disk("opened", &self.path.join(path.as_str()), &error))
    }

    /// Returns the target of a link.
    pub(crate) fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, Failure> {
        let read = || -> io::Result<Vec<u8>> {
            let (parent, name) = self.parent(path)?;
            Ok(rustix::fs::readlinkat(&parent, name, Vec::new())?.into_bytes())
        };
        read().map_err(|error| Failure::disk("read", &self.path.join(path.as_str()), &error))
    }
}
