//! The users of an image while it is built.

use std::collections::BTreeMap;

use super::effects::{operands, value};
use crate::shell::UNKNOWN;

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    /// The home folder; empty if it is not known.
    pub(crate) home: String,
    /// Whether the command that made the user also made the home folder; `None` if this is not known.
    pub(crate) has_home: Option<bool>,
}

/// The users of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Users {
    made: BTreeMap<String, User>,
    /// Whether nothing else can have made users.
    is_known: bool,
}

/// The users of distributions, and of the images with languages.
const OF_BASES: &[&str] = &[
    "_apt",
    "adm",
    "alpine",
    "backup",
    "bin",
    "bird",
    "cdrom",
    "daemon",
    "dbus",
    "dnsmasq",
    "fedora",
    "ftp",
    "games",
    "gnats",
    "guest",
    "halt",
    "irc",
    "list",
    "lp",
    "mail",
    "man",
    "messagebus",
    "news",
    "nobody",
    "node",
    "ntp",
    "operator",
    "postgres",
    "postmaster",
    "proxy",
    "root",
    "shutdown",
    "squid",
    "sshd",
    "sync",
    "sys",
    "systemd-network",
    "tcpdump",
    "ubuntu",
    "user",
    "utmp",
    "uucp",
    "www-data",
];

/// The maximum number of users that are known.
const MOST: usize = 100;

impl Users {
    /// Returns the users of a base image.
    pub(super) fn new(is_known: bool) -> Self {
        Self { made: BTreeMap::new(), is_known }
    }

    /// Notes that any user can have been made.
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Returns a user that a command of the file made.
    pub(crate) fn get(&self, name: &str) -> Option<&User> {
        self.made.get(name)
    }

    /// Returns whether the image certainly has no such user.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_known = !name.contains([UNKNOWN, '$', '{', '%']);
        self.is_known
            && is_name
            && is_known
            && !OF_BASES.contains(&name)
            && !self.made.contains_key(name)
    }

    /// Reads a command that makes a user. Returns the home folder that it makes.
    pub(super) fn read(&mut self, words: &[&str], makes_homes: bool) -> Option<(String, String)> {
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let takes_value = [
            "-u",
            "--uid",
            "-g",
            "--gid",
            "-G",
            "--groups",
            "-s",
            "--shell",
            "-d",
            "--home",
            "--home-dir",
            "-c",
            "--comment",
            "--gecos",
            "-b",
            "--base-dir",
            "-k",
            "--skel",
            "-h",
            "--ingroup",
            "-p",
            "--password",
            "-K",
            "-e",
            "-f",
            "--conf",
        ];
        let is_busybox =
            program == "adduser" && words.iter().any(|word| matches!(*word, "-D" | "-S"));
        let takes_value: Vec<&str> = takes_value.into_iter().filter(|one| *one != "-D").collect();
        let plain = operands(words, &takes_value);
        // `adduser NAME GROUP` adds a user to a group.
        let name = if program == "adduser" { plain.first() } else { plain.last() };
        let name = (*name?).to_owned();
        if name.contains([UNKNOWN, '$']) || self.made.len() >= MOST {
            self.is_known = false;
            return None;
        }
        let has = |options: &[&str]| {
            words[1..].iter().any(|word| {
                let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                options.iter().any(|option| {
                    *word == *option
                        || option.len() == 2
                            && letters
                                .is_some_and(|rest| rest.len() < 5 && rest.contains(&option[1..]))
                })
            })
        };
        let given =
            value(words, if is_busybox { &["-h"] } else { &["-d", "--home-dir", "--home"] });
        let home = given.map_or_else(|| format!("/home/{name}"), str::to_owned);
        let is_system = has(&["-r", "--system", "-S"]);
        let has_home = match program {
            "useradd" if has(&["-m", "--create-home"]) => Some(true),
            "useradd" if has(&["-M", "--no-create-home"]) => Some(false),
            "useradd" if is_system => Some(false),
            "useradd" => Some(makes_homes),
            _ if has(&["-H", "--no-create-home"]) => Some(false),
            _ if is_system => None,
            _ => Some(true),
        };
        let made = (has_home == Some(true)).then(|| (name.clone(), home.clone()));
        self.made.insert(name, User { home, has_home });
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_homes_are_read() {
        for (text, expected) in [
            ("useradd -m a", Some(Some(true))),
            ("useradd -ms /bin/bash a", Some(Some(true))),
            ("useradd a", Some(Some(false))),
            ("useradd -r -g x -u 999 a", Some(Some(false))),
            ("useradd --create-home --uid 1000 a", Some(Some(true))),
            ("adduser --disabled-password --gecos '' a", Some(Some(true))),
            ("adduser --system a", Some(None)),
            ("adduser -D -H a", Some(Some(false))),
            ("useradd -m b", None),
        ] {
            let mut users = Users::new(true);
            let words: Vec<&str> = text.split(' ').collect();
            users.read(&words, false);
            assert_eq!(users.get("a").map(|one| one.has_home), expected, "{text}");
        }
        let mut users = Users::new(true);
        assert!(users.lacks("a") && !users.lacks("root") && !users.lacks("1000"));
        assert!(!users.lacks("$A"));
        users.read(&["useradd", "-d", "/srv/a", "-m", "a"], false);
        assert!(!users.lacks("a"));
        assert_eq!(users.get("a").map(|one| one.home.as_str()), Some("/srv/a"));
        users.read(&["useradd", "\u{fffc}"], false);
        assert!(!users.lacks("b"));
    }
}
