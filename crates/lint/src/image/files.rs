//! The files and folders of an image while it is built: which paths exist, which certainly do not,
//! and whom they belong to.

use std::collections::BTreeMap;

use crate::shell::UNKNOWN;

/// Whether a path exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A command has made it.
    Present,
    /// Nothing has made it, or a command has removed it.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// Whom a path belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Only root can change it.
    Root,
    /// It belongs to another user.
    User(String),
    /// Nothing is known.
    Unknown,
}

/// What a command made or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    is_there: bool,
    is_folder: bool,
    /// The period in which everything inside was known; 0 if it never was.
    complete: usize,
    /// The owner, and the period in which it was known.
    owner: (Owner, usize),
    /// The period in which it was removed.
    removed: usize,
    /// The line that made it.
    line: usize,
    /// Whether anything was put into it.
    is_used: bool,
}

/// The files of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    nodes: BTreeMap<String, Node>,
    /// Whether the base is one whose top folders are known.
    is_plain: bool,
    /// The current periods. A program that can make or change any file starts a new one.
    period: usize,
    owned: usize,
}

/// The maximum number of paths that are known.
const MOST: usize = 500;

/// The top folders of a distribution.
const TOP: [&str; 24] = [
    "afs",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "init",
];

/// The folders of a distribution below which only root can write.
const OF_ROOT: [&str; 14] = [
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/usr",
    "/var/cache",
    "/var/lib",
];

/// The folders below `/var`, which are the same in all distributions.
const OF_VAR: [&str; 20] = [
    "adm", "agentx", "backups", "cache", "crash", "db", "empty", "ftp", "games", "kerberos", "lib",
    "local", "lock", "log", "mail", "nis", "opt", "preserve", "run", "spool",
];

impl Files {
    /// Returns the files of a base image. If its top folders are not known, nothing is.
    pub(super) fn new(is_plain: bool) -> Self {
        Self { nodes: BTreeMap::new(), is_plain, period: 1, owned: 1 }
    }

    /// Returns whether a path, which is absolute and plain, exists.
    pub(crate) fn find(&self, path: &str) -> Presence {
        if !is_known(path) {
            return Presence::Unknown;
        }
        let Some((place, node)) = self.nearest(path) else { return self.in_base(path) };
        let is_itself = place.len() == path.len();
        match node {
            Node { is_there: false, removed, .. } if *removed == self.period => Presence::Absent,
            Node { is_there: false, .. } => Presence::Unknown,
            _ if is_itself => Presence::Present,
            Node { is_folder: false, .. } => Presence::Absent,
            Node { complete, .. } if *complete == self.period => Presence::Absent,
            _ => Presence::Unknown,
        }
    }

    /// Returns whether the base image has a path.
    fn in_base(&self, path: &str) -> Presence {
        let mut parts = path.split('/').skip(1);
        let top = parts.next().unwrap_or_default();
        let second = parts.next().unwrap_or_default();
        let is_top = top.is_empty() || TOP.contains(&top);
        let is_var =
            second.is_empty() || matches!(second, "tmp" | "www" | "yp") || OF_VAR.contains(&second);
        if self.is_plain && (!is_top || top == "var" && !is_var) {
            Presence::Absent
        } else {
            Presence::Unknown
        }
    }

    /// Returns the path itself or the nearest folder above it that a command made.
    fn nearest(&self, path: &str) -> Option<(&str, &Node)> {
        let mut place = path;
        loop {
            if let Some((found, node)) = self.nodes.get_key_value(place) {
                return Some((found, node));
            }
            place = parent(place)?;
        }
    }

    /// Returns whether a user other than root can make or change a path; `None` if this is not
    /// known.
    pub(crate) fn can_write(&self, user: &str, path: &str) -> Option<bool> {
        if !is_known(path) || user.contains(UNKNOWN) {
            return None;
        }
        let mut place = path;
        // Who makes a new file must be able to write to its folder.
        while self.find(place) == Presence::Absent {
            place = parent(place).unwrap_or("/");
        }
        if place == "/" {
            return self.is_plain.then_some(false);
        }
        let owner = match self.nearest(place) {
            Some((_, node)) if node.owner.1 == self.owned => node.owner.0.clone(),
            Some(_) => Owner::Unknown,
            None => self.owner_in_base(place),
        };
        match owner {
            Owner::Root => Some(false),
            Owner::User(name) if name == user => Some(true),
            _ => None,
        }
    }

    fn owner_in_base(&self, path: &str) -> Owner {
        let is_of_root = OF_ROOT.iter().any(|one| is_below(path, one));
        if self.is_plain && is_of_root { Owner::Root } else { Owner::Unknown }
    }

    /// Adds a folder. If nothing was there, everything inside is known: nothing.
    pub(super) fn make_folder(&mut self, path: &str, owner: Owner, line: usize) {
        let found = self.find(path);
        let is_open =
            ["/dev", "/home", "/run", "/tmp", "/var/tmp"].iter().any(|one| is_below(path, one));
        match found {
            Presence::Present => {}
            Presence::Absent => self.insert(path, true, self.period, owner, line),
            // The base may have it already.
            Presence::Unknown if is_open => self.insert(path, true, 0, Owner::Unknown, line),
            Presence::Unknown => self.insert(path, true, 0, owner, line),
        }
    }

    /// Adds a folder and those above it.
    pub(super) fn make_folders(&mut self, path: &str, owner: &Owner, line: usize) {
        let places = path.match_indices('/').map(|(at, _)| &path[..at]).skip(1);
        for place in places.take(MOST_PARTS) {
            if self.find(place) == Presence::Absent {
                self.make_folder(place, owner.clone(), line);
            }
        }
        self.make_folder(path, owner.clone(), line);
    }

    /// Adds a file.
    pub(super) fn make_file(&mut self, path: &str, owner: Owner, line: usize) {
        self.use_above(path);
        if self.find(path) != Presence::Present {
            self.insert(path, false, 0, owner, line);
        }
    }

    /// Adds a path that may be a file, or a folder with any content.
    pub(super) fn fill(&mut self, path: &str, owner: Owner, line: usize) {
        if path == "/" {
            return self.forget_places();
        }
        self.use_above(path);
        if self.find(path) == Presence::Present {
            self.forget(path);
        } else {
            self.insert(path, true, 0, owner, line);
        }
        if let Some(node) = self.nodes.get_mut(path) {
            node.is_used = true;
        }
    }

    fn insert(&mut self, path: &str, is_folder: bool, complete: usize, owner: Owner, line: usize) {
        if !is_known(path) || path == "/" {
            return;
        }
        if self.nodes.len() >= MOST {
            self.forget_all();
            return self.nodes.clear();
        }
        let owner = (owner, self.owned);
        let node =
            Node { is_there: true, is_folder, complete, owner, removed: 0, line, is_used: false };
        self.nodes.insert(path.to_owned(), node);
    }

    /// Notes that the folders above a path are not empty.
    fn use_above(&mut self, path: &str) {
        let mut place = path;
        for _ in 0..MOST_PARTS {
            let Some(above) = parent(place) else { return };
            if let Some(node) = self.nodes.get_mut(above) {
                node.is_used = true;
            }
            place = above;
        }
    }

    /// Removes a path and everything below it.
    pub(super) fn remove(&mut self, path: &str, line: usize) {
        if !is_known(path) {
            return;
        }
        let below = format!("{path}/");
        self.nodes.retain(|own, _| !own.starts_with(&below));
        let owner = (Owner::Unknown, self.owned);
        let node = Node {
            is_there: false,
            is_folder: false,
            complete: 0,
            owner,
            removed: self.period,
            line,
            is_used: false,
        };
        if self.nodes.len() < MOST {
            self.nodes.insert(path.to_owned(), node);
        }
    }

    fn below<'n>(&'n mut self, path: &'n str) -> impl Iterator<Item = &'n mut Node> {
        let nodes = self.nodes.range_mut(path.to_owned()..);
        let inside = nodes.take_while(move |(own, _)| own.starts_with(path));
        inside.filter(move |(own, _)| is_below(own, path)).map(|(_, node)| node)
    }

    /// Notes that anything can have been put into a folder, or removed from it.
    pub(super) fn forget(&mut self, path: &str) {
        if path == "/" {
            return self.forget_places();
        }
        self.below(path)
            .for_each(|node| (node.complete, node.removed, node.is_used) = (0, 0, true));
        if let Some(node) = self.nodes.get_mut(path) {
            node.is_there = true;
            node.is_folder = true;
        } else if self.find(path) == Presence::Unknown {
            let owner = self.nearest(path).map(|(_, node)| node.owner.clone());
            let owner = owner.filter(|(_, owned)| *owned == self.owned);
            let owner = owner.map_or_else(|| self.owner_in_base(path), |(owner, _)| owner);
            self.insert(path, true, 0, owner, 0);
        }
    }

    /// Changes the owner of a path, and of everything below it if the change is recursive.
    pub(super) fn own(&mut self, path: &str, owner: &Owner, is_deep: bool) {
        let owned = self.owned;
        if is_known(path) && is_deep {
            self.below(path).for_each(|node| node.owner = (owner.clone(), owned));
        }
        match self.nodes.get_mut(path) {
            Some(node) => node.owner = (owner.clone(), owned),
            None => self.insert(path, true, 0, owner.clone(), 0),
        }
    }

    /// Notes that a program may have changed the content of every folder that a command made.
    pub(super) fn forget_content(&mut self) {
        self.period += 1;
    }

    /// Notes that a program may have made again what was removed: a cache, a package.
    pub(super) fn forget_removed(&mut self) {
        self.nodes.retain(|_, node| node.is_there);
    }

    /// Returns whether a command removed a path.
    pub(crate) fn is_removed(&self, path: &str) -> bool {
        self.nearest(path).is_some_and(|(_, node)| !node.is_there)
    }

    /// Notes that a program may have made files anywhere.
    pub(super) fn forget_places(&mut self) {
        self.period += 1;
        self.is_plain = false;
    }

    /// Notes that a program may have done anything.
    pub(super) fn forget_all(&mut self) {
        self.period += 1;
        self.owned += 1;
        self.is_plain = false;
    }

    /// Returns the folders that a command made, and into which nothing was put, with the line.
    pub(crate) fn empty(&self) -> impl Iterator<Item = (&str, usize)> {
        let is_empty = |node: &Node| {
            node.is_there && node.is_folder && node.complete == self.period && !node.is_used
        };
        let nodes = self.nodes.iter().filter(move |(_, node)| is_empty(node));
        nodes.map(|(path, node)| (path.as_str(), node.line))
    }
}

/// The maximum depth of a folder.
const MOST_PARTS: usize = 20;

/// Returns whether a path is known completely: absolute, and without variables or patterns.
fn is_known(path: &str) -> bool {
    path.starts_with('/') && !path.contains([UNKNOWN, '*', '?', '[', '{', '~', '$'])
}

/// Returns the folder above a path; `None` above `/`.
pub(crate) fn parent(path: &str) -> Option<&str> {
    let at = path.rfind('/').filter(|_| path.len() > 1)?;
    Some(if at == 0 { "/" } else { &path[..at] })
}

/// Returns whether a path is a folder, or is inside it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_absent() {
        let mut files = Files::new(true);
        for (path, expected) in [
            ("/app", Presence::Absent),
            ("/usr/bin/x", Presence::Unknown),
            ("/var/list/x", Presence::Absent),
            ("/var/lib/x", Presence::Unknown),
            ("/app/*", Presence::Unknown),
            ("app", Presence::Unknown),
            ("/", Presence::Unknown),
        ] {
            assert_eq!(files.find(path), expected, "{path}");
        }
        files.make_folders("/app/a/b", &Owner::Root, 1);
        assert_eq!(files.find("/app/a"), Presence::Present);
        assert_eq!(files.find("/app/c"), Presence::Absent);
        files.fill("/app/a/b/c", Owner::Root, 2);
        assert_eq!(files.find("/app/a/b/c/d"), Presence::Unknown);
        files.make_file("/app/f", Owner::Root, 3);
        assert_eq!(files.find("/app/f/g"), Presence::Absent);
        assert_eq!(files.empty().count(), 0);
        files.remove("/app/a", 4);
        assert_eq!(files.find("/app/a/b"), Presence::Absent);
        files.forget_content();
        assert_eq!(files.find("/app/a/b"), Presence::Unknown);
        assert_eq!(files.find("/srv2"), Presence::Absent);
        files.forget_all();
        assert_eq!(files.find("/srv2"), Presence::Unknown);
        assert_eq!(Files::new(false).find("/app"), Presence::Unknown);
    }

    #[test]
    fn a_user_needs_the_folder_in_which_something_is_made() {
        let mut files = Files::new(true);
        files.make_folder("/app", Owner::Root, 1);
        files.make_folder("/app/own", Owner::User("u".to_owned()), 1);
        for (path, expected) in [
            ("/app/x/y", Some(false)),
            ("/app/own/x", Some(true)),
            ("/data", Some(false)),
            ("/tmp/x", None),
            ("/home/u", None),
            ("/usr/local/bin/x", Some(false)),
        ] {
            assert_eq!(files.can_write("u", path), expected, "{path}");
        }
        files.own("/app", &Owner::User("v".to_owned()), true);
        assert_eq!(files.can_write("u", "/app/own/x"), None);
        files.forget_all();
        assert_eq!(files.can_write("v", "/app/x"), None);
        assert_eq!(files.can_write("u", "/data"), None);
    }

    #[test]
    fn the_number_of_paths_has_a_limit() {
        let mut files = Files::new(true);
        for number in 0..2 * MOST {
            files.make_folders(&format!("/a/{number}"), &Owner::Root, number);
        }
        assert_eq!(files.find("/b"), Presence::Unknown);
    }
}
