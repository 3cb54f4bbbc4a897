//! Replaces files of a tree, all or none of them.
//!
//! All new contents are written next to the old files and synced before the first rename. A failure
//! undoes the renames. If the process is killed between two renames, some files are old and some
//! new, but each is complete. The ledger lists all files before the first temporary file exists, so
//! the next run can continue or undo the changes, and remove leftovers, which have fixed names.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};

use patcher::{Tree as _, TreePath, Unreadable};
use rustix::fs::{
    AtFlags, Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, linkat,
    mkdirat, openat, renameat, unlinkat,
};

use crate::directory::{Directory, Place};

/// A file with its old and new contents.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// The file.
    pub path: &'a TreePath,
    /// Its old contents.
    pub old: &'a [u8],
    /// Its new contents.
    pub new: &'a [u8],
}

/// Why files were not replaced. Every file is then unchanged, except after [`Self::Stuck`].
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// Something else changed a file after it was read.
    #[error("`{0}` was changed while it was being patched")]
    Changed(TreePath),
    /// A file cannot be read.
    #[error("`{0}` cannot be read")]
    Read(TreePath, #[source] Unreadable),
    /// A file cannot be written.
    #[error("`{0}` cannot be written")]
    Write(String, #[source] io::Error),
    /// A file cannot be written, and an already written file cannot be restored.
    #[error(
        "cannot write `{path}`, and cannot restore `{stuck}`; its old content is in `{beside}`"
    )]
    Stuck {
        /// The file that cannot be written.
        path: String,
        /// The file that cannot be restored.
        stuck: String,
        /// The file with the old content of `stuck`.
        beside: String,
        /// Why `path` cannot be written.
        #[source]
        error: io::Error,
    },
}

fn new_name(name: &str) -> String {
    format!(".{name}.build-pipeline-new")
}

fn old_name(name: &str) -> String {
    format!(".{name}.build-pipeline-old")
}

/// A file whose new content is ready next to it.
struct Ready<'a> {
    path: &'a TreePath,
    place: Place<'a>,
}

impl Ready<'_> {
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.place.folder, from, &self.place.folder, to)?)
    }

    /// Removes the temporary files.
    fn clean(&self) {
        for name in [new_name(self.place.name), old_name(self.place.name)] {
            // If it exists and cannot be removed, the next run tries again.
            let _ = unlinkat(&self.place.folder, name, AtFlags::empty());
        }
    }
}

impl Directory {
    /// Replaces files, all or none. Calls `announce` before it writes anything; if that fails,
    /// nothing is written.
    pub fn replace(
        &self,
        all: &[Replacement<'_>],
        announce: impl FnOnce() -> Result<(), ReplaceError>,
    ) -> Result<(), ReplaceError> {
        announce()?;
        self.replace_announced(all, || ())
    }

    /// Replaces files, all or none. Calls `before_renames` after all new contents have been
    /// written.
    fn replace_announced(
        &self,
        all: &[Replacement<'_>],
        before_renames: impl FnOnce(),
    ) -> Result<(), ReplaceError> {
        let mut ready = Vec::new();
        let mut prepare = || {
            for one in all {
                let (place, file) = self.find(one.path)?;
                let new = Ready { path: one.path, place };
                new.clean();
                let prepared = self.prepare(&new, &file, one);
                ready.push(new);
                prepared?;
            }
            Ok(())
        };
        if let Err(error) = prepare() {
            ready.iter().for_each(Ready::clean);
            return Err(error);
        }
        before_renames();
        for (index, one) in ready.iter().enumerate() {
            let name = one.place.name;
            if let Err(error) = one.rename(&new_name(name), name) {
                put_back(&ready[..index], one.path, &error)?;
                ready.iter().for_each(Ready::clean);
                return Err(ReplaceError::Write(one.path.to_string(), error));
            }
        }
        for one in &ready {
            // The renames are done; a failed sync of a folder is no reason to undo them.
            let _ = rustix::fs::fsync(&one.place.folder);
            one.clean();
        }
        Ok(())
    }

    /// Removes the temporary files that a killed run left behind. The caller holds the tree's lock.
    pub fn sweep<'p>(&self, paths: impl IntoIterator<Item = &'p TreePath>) {
        for path in paths {
            if let Ok(Some(place)) = self.place(path) {
                Ready { path, place }.clean();
            }
        }
    }

    fn find<'p>(&self, path: &'p TreePath) -> Result<(Place<'p>, File), ReplaceError> {
        let read = |error| ReplaceError::Read(path.clone(), error);
        let changed = || ReplaceError::Changed(path.clone());
        let place = self.place(path).map_err(read)?.ok_or_else(changed)?;
        let file = place.open(path).map_err(read)?.ok_or_else(changed)?;
        Ok((place, file))
    }

    fn prepare(
        &self,
        one: &Ready<'_>,
        file: &File,
        content: &Replacement<'_>,
    ) -> Result<(), ReplaceError> {
        let read = |error| ReplaceError::Read(one.path.clone(), error);
        if self.read(one.path).map_err(read)?.as_deref() != Some(content.old) {
            return Err(ReplaceError::Changed(one.path.clone()));
        }
        let name = one.place.name;
        let written = || {
            write_beside(&one.place, &new_name(name), content.new, file)?;
            // A hard link to the old file, or a copy if the file system has no hard links.
            let (folder, old) = (&one.place.folder, old_name(name));
            match linkat(folder, name, folder, old.as_str(), AtFlags::empty()) {
                Ok(()) => Ok(()),
                Err(_) => write_beside(&one.place, &old, content.old, file),
            }
        };
        written().map_err(|error| ReplaceError::Write(one.path.to_string(), error))
    }

    /// Writes a small file into one of the tool's own folders, atomically.
    pub fn write_own(&self, path: &TreePath, bytes: &[u8]) -> Result<(), ReplaceError> {
        let written = |error: io::Error| ReplaceError::Write(path.to_string(), error);
        if let Some((folder, _)) = path.as_str().split_once('/') {
            match mkdirat(self.root(), folder, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(written(error.into())),
            }
        }
        let place = self
            .place(path)
            .map_err(|error| ReplaceError::Read(path.clone(), error))?
            .ok_or_else(|| written(io::ErrorKind::NotADirectory.into()))?;
        let write = || {
            let name = new_name(place.name);
            let _ = unlinkat(&place.folder, name.as_str(), AtFlags::empty());
            let mut file = create(&place, &name)?;
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.sync_all()?;
            renameat(&place.folder, name, &place.folder, place.name)?;
            rustix::fs::fsync(&place.folder)?;
            Ok(())
        };
        write().map_err(written)
    }

    /// Removes one of the tool's own files, and its folder if that is then empty.
    pub fn remove_own(&self, path: &TreePath) -> Result<(), ReplaceError> {
        let Ok(Some(place)) = self.place(path) else { return Ok(()) };
        match unlinkat(&place.folder, place.name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(ReplaceError::Write(path.to_string(), error.into())),
        }
        self.sweep_own(path);
        Ok(())
    }

    /// Removes leftovers of a killed run that was writing one of the tool's own files: the
    /// incomplete new file, and the folder if it is empty. The caller holds the tree's lock.
    pub fn sweep_own(&self, path: &TreePath) {
        let Ok(Some(place)) = self.place(path) else { return };
        let _ = unlinkat(&place.folder, new_name(place.name), AtFlags::empty());
        if let Some((folder, _)) = path.as_str().split_once('/') {
            let _ = unlinkat(self.root(), folder, AtFlags::REMOVEDIR);
        }
    }
}

/// Restores the old files.
fn put_back(done: &[Ready<'_>], failed: &TreePath, cause: &io::Error) -> Result<(), ReplaceError> {
    for one in done {
        let old = old_name(one.place.name);
        one.rename(&old, one.place.name).map_err(|_| ReplaceError::Stuck {
            path: failed.to_string(),
            stuck: one.path.to_string(),
            beside: old,
            error: io::Error::new(cause.kind(), cause.to_string()),
        })?;
    }
    Ok(())
}

fn create(place: &Place<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(&place.folder, name, flags, Mode::from_raw_mode(0o600))?))
}

/// Attributes that the kernel computes from the bytes of a file.
const OF_CONTENT: [&str; 2] = ["security.ima", "security.evm"];

/// The access control list of a file, which gives rights to its group.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// The kernel's limit on the size of a file's attributes.
const MOST_ATTRIBUTES: usize = 64 << 10;

/// Gives a file exactly the extended attributes of another file: SELinux labels, access control
/// lists, capabilities, and the user's own attributes.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (wanted, present) = (attributes(from)?, attributes(to)?);
    for name in present.iter().filter(|name| !wanted.contains(name)) {
        // It comes from the default access control list of the folder.
        fremovexattr(to, name.as_str())?;
    }
    for name in wanted.iter().filter(|name| !OF_CONTENT.contains(&name.as_str())) {
        let value = attribute(from, name)?;
        if !present.contains(name) || attribute(to, name)? != value {
            fsetxattr(to, name.as_str(), &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Returns the names of a file's extended attributes. Some file systems have none.
fn attributes(file: &File) -> io::Result<Vec<String>> {
    let mut buffer = vec![0; MOST_ATTRIBUTES];
    let length = match flistxattr(file, &mut buffer[..]) {
        Ok(length) => length,
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => 0,
        Err(error) => return Err(error.into()),
    };
    let names = buffer[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).map_err(io::Error::other)).collect()
}

fn attribute(file: &File, name: &str) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; MOST_ATTRIBUTES];
    let length = fgetxattr(file, name, &mut buffer[..])?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Returns the mode of a file whose group could not be kept: the new group gets only the rights
/// that everyone has.
fn regrouped(mode: u32) -> u32 {
    (mode & !0o2070) | (mode & (mode << 3) & 0o070)
}

/// Writes a file with the owner, mode and attributes of another.
fn write_beside(place: &Place<'_>, name: &str, bytes: &[u8], model: &File) -> io::Result<()> {
    let like = model.metadata()?;
    let mut file = create(place, name)?;
    file.write_all(bytes)?;
    let made = file.metadata()?;
    let mut mode = like.mode() & 0o7777;
    if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
        match fchown(&file, Some(like.uid()), Some(like.gid())) {
            // Only root can give a file to a group that the user is not in.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && made.uid() == like.uid()
                    && !attributes(model)?.iter().any(|one| one == ACCESS_LIST) =>
            {
                mode = regrouped(mode);
            }
            given => given?,
        }
    }
    // After the owner, because changing the owner clears the set-user-ID bit.
    file.set_permissions(Permissions::from_mode(mode))?;
    copy_attributes(model, &file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_rename_takes_the_others_back() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let paths = ["a", "b", "c"].map(|name| name.parse::<TreePath>().unwrap());
        paths.iter().for_each(|path| write(path.as_str(), "old"));
        let inode = std::fs::metadata(folder.path().join("a")).unwrap().ino();
        let directory = Directory::open(folder.path()).unwrap();
        let all = paths.each_ref().map(|path| Replacement { path, old: b"old", new: b"new" });
        let stolen = folder.path().join(".b.build-pipeline-new");
        let steal = || std::fs::remove_file(&stolen).unwrap();
        let error = directory.replace_announced(&all, steal).unwrap_err();
        assert!(matches!(error, ReplaceError::Write(path, _) if path == "b"));
        assert_eq!(["a", "b", "c"].map(read), ["old", "old", "old"]);
        assert_eq!(std::fs::metadata(folder.path().join("a")).unwrap().ino(), inode);
        assert_eq!(folder.path().read_dir().unwrap().count(), 3, "no temporary files remain");

        directory.replace(&all, || Ok(())).unwrap();
        assert_eq!(["a", "b", "c"].map(read), ["new", "new", "new"]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 3, "no temporary files remain");
    }

    #[test]
    fn attributes_stay_and_the_folder_adds_none() {
        let folder = tempfile::tempdir().unwrap();
        let path: TreePath = "a".parse().unwrap();
        std::fs::write(folder.path().join("a"), "old").unwrap();
        let open = || File::open(folder.path().join("a")).unwrap();
        // Version 2 of the format: the owner has all rights, user 7 has the rights `named`, and the
        // group and the mask can read.
        let list = |named: u16| {
            let owner = [(1_u16, 7_u16, u32::MAX), (2, named, 7)];
            let others = [(4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
            let mut bytes = 2_u32.to_le_bytes().to_vec();
            for (tag, rights, id) in owner.into_iter().chain(others) {
                bytes.extend_from_slice(&tag.to_le_bytes());
                bytes.extend_from_slice(&rights.to_le_bytes());
                bytes.extend_from_slice(&id.to_le_bytes());
            }
            bytes
        };
        let access = ACCESS_LIST;
        let set = |name: &str, value: &[u8]| {
            fsetxattr(open(), name, value, XattrFlags::empty()).unwrap();
        };
        set("user.note", b"mine");
        set(access, &list(4));
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            set("security.selinux", b"system_u:object_r:lib_t:s0\0");
        }
        let root = File::open(folder.path()).unwrap();
        let default = "system.posix_acl_default";
        fsetxattr(&root, default, &list(6), XattrFlags::empty()).unwrap();
        let seen = || {
            let file = open();
            let names = attributes(&file).unwrap();
            let all = names.iter().map(|name| (name.clone(), attribute(&file, name).unwrap()));
            let all: std::collections::BTreeMap<_, _> = all.collect();
            (all, file.metadata().unwrap().mode())
        };
        let before = seen();
        assert_eq!(before.0.len(), if is_root { 3 } else { 2 });
        let directory = Directory::open(folder.path()).unwrap();
        for (old, new) in [("old", "new"), ("new", "old")] {
            let one = Replacement { path: &path, old: old.as_bytes(), new: new.as_bytes() };
            directory.replace(&[one], || Ok(())).unwrap();
            assert_eq!(seen(), before, "{new}");
        }
        // A file without an access control list does not get the folder's default list.
        fremovexattr(open(), access).unwrap();
        let before = seen();
        let one = Replacement { path: &path, old: b"old", new: b"new" };
        directory.replace(&[one], || Ok(())).unwrap();
        assert_eq!(seen(), before);
    }

    #[test]
    fn a_group_that_is_not_kept_gets_no_rights_beyond_those_of_everyone() {
        for (mode, wanted) in [
            (0o644, 0o644),
            (0o664, 0o644),
            (0o640, 0o600),
            (0o755, 0o755),
            (0o775, 0o755),
            (0o2754, 0o744),
            (0o4711, 0o4711),
            (0o607, 0o607),
        ] {
            assert_eq!(regrouped(mode), wanted, "{mode:o}");
        }
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "other").unwrap();
        let path: TreePath = "a".parse().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let all = [Replacement { path: &path, old: b"old", new: b"new" }];
        let error = directory.replace(&all, || Ok(())).unwrap_err();
        assert!(matches!(error, ReplaceError::Changed(_)));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
