//! Places that keep package files after the mirrors have deleted them: snapshot archives, and
//! folders with copies.
//!
//! A place is a URL with placeholders, so that archives of any layout can be used. A file is
//! accepted because of its hash in the lock, not because of its place.

use std::fmt;
use std::str::FromStr;

use pins::LockedPackage;
use sources::SourceUrl;

/// Debian's daily snapshots of everything that its archives ever contained.
const SNAPSHOTS: &str = "https://snapshot.debian.org/archive/{archive}/{time}/{file}";

/// The placeholders, and the values that replace them.
const PLACEHOLDERS: [(&str, &str); 4] = [
    ("{archive}", "`debian` or `debian-security`"),
    ("{time}", "the end of a day in the lock, such as `20261120T235959Z`"),
    ("{file}", "the path of the file in the archive"),
    ("{sha256}", "the SHA-256 of the file"),
];

/// A place that keeps package files: a URL with placeholders.
#[derive(Clone, PartialEq, Eq)]
pub struct OldPackages(String);

/// Why a string is not a place for package files.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` cannot be used: {why}")]
pub struct OldPackagesError {
    text: String,
    why: String,
}

impl OldPackages {
    /// Returns Debian's snapshot archive.
    pub fn snapshots() -> Self {
        Self(SNAPSHOTS.to_owned())
    }

    /// Returns whether this is a folder on this machine. Folders are searched before any mirror.
    pub fn is_folder(&self) -> bool {
        self.0.starts_with("file:")
    }

    /// Returns the server, as `HOST` or `HOST:PORT`, or `None` if this is a folder.
    pub fn host(&self) -> Option<String> {
        let (_, rest) = self.0.split_once("://")?;
        rest.split(['/', '{']).next().filter(|host| !host.is_empty()).map(str::to_owned)
    }

    /// Returns the URLs that a file may have at this place: one for each of `days` (`YYYY-MM-DD`)
    /// if the URL depends on the day, otherwise one.
    pub(crate) fn urls(&self, package: &LockedPackage, days: &[&str]) -> Vec<String> {
        let archive = if package.is_security_update() { "debian-security" } else { "debian" };
        let same = self.0.replace("{archive}", archive).replace("{file}", &package.file);
        let same = same.replace("{sha256}", package.sha256.as_str());
        if !same.contains("{time}") {
            return vec![same];
        }
        let on = |day: &&str| same.replace("{time}", &format!("{}T235959Z", day.replace('-', "")));
        days.iter().map(on).collect()
    }
}

impl FromStr for OldPackages {
    type Err = OldPackagesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why: String| Err(OldPackagesError { text: text.to_owned(), why });
        let known = || PLACEHOLDERS.iter().map(|(name, meaning)| format!("`{name}` ({meaning})"));
        let plain =
            PLACEHOLDERS.iter().fold(text.to_owned(), |text, (name, _)| text.replace(name, "x"));
        if plain.contains(['{', '}']) {
            let known = known().collect::<Vec<_>>().join(", ");
            return refuse(format!("it has an unknown placeholder; the known ones are {known}"));
        }
        if !text.contains("{file}") && !text.contains("{sha256}") {
            return refuse(
                "every file would have the same URL; add `{file}` or `{sha256}`".to_owned(),
            );
        }
        match plain.parse::<SourceUrl>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => refuse(format!("it is not the URL of a file: {error}")),
        }
    }
}

impl fmt::Display for OldPackages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OldPackages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(file: &str) -> LockedPackage {
        LockedPackage {
            name: "a".to_owned(),
            version: "1".to_owned(),
            architecture: "all".to_owned(),
            file: file.to_owned(),
            size: 1,
            sha256: "ab".repeat(32).parse().unwrap(),
        }
    }

    #[test]
    fn placeholders_become_the_archive_the_days_the_file_and_its_hash() {
        let main = package("pool/main/a/a/a_1_all.deb");
        let days = ["2026-11-02", "2026-10-30"];
        assert_eq!(
            OldPackages::snapshots().urls(&main, &days),
            [
                "https://snapshot.debian.org/archive/debian/20261102T235959Z/pool/main/a/a/a_1_all.deb",
                "https://snapshot.debian.org/archive/debian/20261030T235959Z/pool/main/a/a/a_1_all.deb",
            ]
        );
        let update = package("pool/updates/main/a/a/a_1_all.deb");
        let urls = OldPackages::snapshots().urls(&update, &days[..1]);
        assert!(urls[0].contains("/debian-security/20261102T235959Z/pool/updates/"), "{urls:?}");
        let folder: OldPackages = "file:///srv/packages/{sha256}".parse().unwrap();
        assert_eq!(folder.urls(&main, &days), [format!("file:///srv/packages/{}", main.sha256)]);
    }

    #[test]
    fn a_place_knows_its_server() {
        let place = |text: &str| text.parse::<OldPackages>().unwrap();
        assert_eq!(place("https://a.test:8080/{file}").host().as_deref(), Some("a.test:8080"));
        let folder = place("file:///srv/{sha256}");
        assert!(folder.is_folder() && folder.host().is_none());
    }

    #[test]
    fn wrong_places_are_refused_with_the_reason() {
        for (text, why) in [
            ("https://a.test/{name}", "unknown placeholder"),
            ("https://a.test/{time}", "add `{file}` or `{sha256}`"),
            ("a.test/{file}", "not the URL of a file"),
            ("ftp://a.test/{file}", "not the URL of a file"),
        ] {
            let error = text.parse::<OldPackages>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
