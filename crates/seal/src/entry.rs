//! The metadata of a layer's entry, without its content.

pub use tar_stream::Xattrs;

/// The only extended attribute that belongs to an image: file capabilities (capabilities(7)). All
/// others (`user.*`, `security.selinux`, `security.ima`) come from the build machine.
pub const CAPABILITY: &[u8] = b"security.capability";

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A further name of a file. The link is the path of its first name.
    Hardlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// Hides the path in the layers below. Only in listings.
    Whiteout,
    /// Hides the content of the directory in the layers below. Only in listings.
    Opaque,
}

/// An entry without its path and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its type.
    pub kind: Kind,
    /// The permission bits with setuid, setgid and sticky: `mode & 07777`.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The modification time, in seconds since 1970.
    pub mtime: i64,
    /// The size of the content, in bytes; 0 for everything except files.
    pub size: u64,
    /// The major and minor number of a device.
    pub device: (u32, u32),
    /// The target of a link: for a symbolic link as in the tar, for a hard link as a normalised
    /// path.
    pub link: Box<[u8]>,
    /// The extended attributes.
    pub xattrs: Xattrs,
    /// The SHA-256 of a file's content, if it was computed.
    pub sha256: Option<[u8; 32]>,
}

impl Entry {
    /// Returns an entry of the given kind, with all other fields empty.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: 0,
            size: 0,
            device: (0, 0),
            link: Box::default(),
            xattrs: Xattrs::new(),
            sha256: None,
        }
    }

    /// Returns the directory that unpacking creates if a layer has no entry for a parent directory.
    pub(crate) fn implied_directory() -> Self {
        Self { mode: 0o755, ..Self::new(Kind::Directory) }
    }

    /// Returns whether this is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Normalises fields that do not belong to the image: the mode of links (Linux has none), and
    /// extended attributes that are not kept. Returns the names of the dropped attributes.
    pub(crate) fn normalise(&mut self) -> Vec<Box<[u8]>> {
        if self.kind == Kind::Symlink {
            self.mode = 0o777;
        }
        let is_kept = |name: &[u8]| name == CAPABILITY;
        let names: Vec<_> = self.xattrs.keys().filter(|name| !is_kept(name)).cloned().collect();
        self.xattrs.retain(|name, _| is_kept(name));
        names
    }

    /// Returns whether both are equal except for time and content.
    pub(crate) fn has_same_metadata(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)
            && (self.size, self.device) == (other.size, other.device)
            && self.link == other.link
            && self.xattrs == other.xattrs
    }
}
