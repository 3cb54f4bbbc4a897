//! The servers for packages: apt's own sources, and Debian's public servers.
//!
//! [`Mirrors::of_machine`] reads both formats of apt's sources (sources.list(5)): `*.list` with one
//! source per line, and `*.sources` with paragraphs. The machine need not have apt. Files from a
//! mirror are trusted because of their signature or hash, not because of the host.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use pins::{PUBLIC_ARCHIVE, PUBLIC_SECURITY};
use url::Url;

use crate::old::OldPackages;

/// The releases in Debian's archive. They distinguish Debian's sources from others on the same
/// machine (browsers, editors). For a release that is not listed here, mirrors can be named
/// explicitly.
const RELEASES: [&str; 10] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// The URL of a copy of Debian's archive: the folder that contains `dists` and `pool`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mirror(Url);

/// Why a string is not the URL of a mirror.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a valid mirror URL: it {why}")]
pub struct MirrorError {
    /// The text, without credentials.
    text: String,
    /// The reason.
    why: &'static str,
}

/// The servers for packages. The first one that has a file is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirrors {
    /// Mirrors of the main archive.
    pub archive: Vec<Mirror>,
    /// Mirrors of the archive of security updates.
    pub security: Vec<Mirror>,
    /// Places that keep files which the mirrors have deleted.
    pub old: Vec<OldPackages>,
}

impl Mirror {
    /// Returns the URL, without a trailing slash.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Returns the URL for fetching a file by its hash. If apt uses a mirror over plain http, https
    /// is used here, except on this machine. The hash protects the content, but downloads need not
    /// be visible to others.
    pub fn file(&self, path: &str) -> String {
        let url = format!("{}/{path}", self.as_str());
        match (url.strip_prefix("http://"), self.is_here()) {
            (Some(rest), false) => format!("https://{rest}"),
            _ => url,
        }
    }

    fn is_here(&self) -> bool {
        match self.0.host() {
            None => true,
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
        }
    }
}

impl FromStr for Mirror {
    type Err = MirrorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.split_once('@').map_or(text, |(_, rest)| rest);
        let refuse = |why| Err(MirrorError { text: bare.to_owned(), why });
        let Ok(url) = text.parse::<Url>() else { return refuse("is not a URL") };
        if !matches!(url.scheme(), "https" | "http" | "file") {
            return refuse("does not start with `https://`, `http://` or `file:///`");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("has a user name or password; apt reads those from auth.conf");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("has a query or fragment");
        }
        // The URL is written into an apt source file, where these characters are special.
        if url.as_str().contains(|c: char| c.is_whitespace() || "[]\"'\\".contains(c)) {
            return refuse("has a character that is not allowed in apt's sources");
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Mirrors {
    /// Returns the mirrors in apt's sources below `folder`, usually `/etc/apt`: first the mirrors
    /// in `sources.list`, then those in `sources.list.d` in alphabetical order. If they name no
    /// mirror for an archive, Debian's public mirror is used. If a file cannot be read, a warning
    /// is logged, and this file and the ones after it are not used.
    pub fn of_machine(folder: &Path) -> Self {
        let mut mirrors = Self::default();
        if let Err(error) = mirrors.read(folder) {
            tracing::warn!(%error, "cannot use apt's sources");
        }
        for (list, public) in
            [(&mut mirrors.archive, PUBLIC_ARCHIVE), (&mut mirrors.security, PUBLIC_SECURITY)]
        {
            if list.is_empty() {
                list.extend(public.parse::<Mirror>());
            }
        }
        mirrors
    }

    /// Adds the mirrors in apt's sources below `folder`, file by file. Fails at the first file that
    /// cannot be read.
    fn read(&mut self, folder: &Path) -> io::Result<()> {
        let mut files = vec![folder.join("sources.list")];
        let parts = folder.join("sources.list.d");
        let failed = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot read `{}`: {error}", path.display()))
        };
        match std::fs::read_dir(&parts) {
            Ok(entries) => {
                let mut found = Vec::new();
                for entry in entries {
                    found.push(entry.map_err(|source| failed(&parts, source))?.path());
                }
                found.sort();
                files.extend(found);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(&parts, source)),
        }
        for file in files {
            let is_paragraphs = match file.extension().and_then(|end| end.to_str()) {
                Some("list") => false,
                Some("sources") => true,
                _ => continue,
            };
            let text = match std::fs::read(&file) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(failed(&file, source)),
            };
            let entries = if is_paragraphs { paragraphs(&text) } else { lines(&text) };
            entries.iter().for_each(|entry| self.take(entry));
        }
        Ok(())
    }

    /// Adds the mirrors of a source, if it is a source of Debian.
    fn take(&mut self, entry: &Entry) {
        if !entry.components.iter().any(|component| component == "main") {
            return;
        }
        for suite in &entry.suites {
            let (release, rest) = suite.split_once(['-', '/']).unwrap_or((suite, ""));
            if !RELEASES.contains(&release) {
                continue;
            }
            let list = match rest {
                "" | "updates" if !suite.contains('/') => &mut self.archive,
                "security" => &mut self.security,
                _ => continue,
            };
            for mirror in entry.uris.iter().filter_map(|uri| uri.parse::<Mirror>().ok()) {
                if !list.contains(&mirror) {
                    list.push(mirror);
                }
            }
        }
    }
}

/// A source of binary packages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
}

/// Parses `deb [option=value …] uri suite component…` lines.
fn lines(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let rest = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t', '[']))?;
        let rest = match rest.trim_start().strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        let (uri, suite) = (words.next()?, words.next()?);
        Some(Entry { uris: vec![uri], suites: vec![suite], components: words.collect() })
    };
    text.lines().filter_map(entry).collect()
}

/// Parses paragraphs of `Field: value`, where a continuation line of a value starts with a space.
fn paragraphs(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            entries.extend(paragraph(&std::mem::take(&mut fields)));
            last.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some(value) = fields.get_mut(&last) {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            last = name.trim().to_ascii_lowercase();
            fields.insert(last.clone(), value.trim().to_owned());
        }
    }
    entries
}

fn paragraph(fields: &BTreeMap<String, String>) -> Option<Entry> {
    let words = |name: &str| -> Vec<String> {
        fields
            .get(name)
            .into_iter()
            .flat_map(|text| text.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let is_off = fields.get("enabled").is_some_and(|value| {
        ["no", "false", "without", "off", "disable"].contains(&value.to_ascii_lowercase().as_str())
    });
    if is_off || !words("types").iter().any(|kind| kind == "deb") {
        return None;
    }
    Some(Entry { uris: words("uris"), suites: words("suites"), components: words("components") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors(list: &str, sources: &str) -> Mirrors {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        std::fs::write(folder.path().join("sources.list"), list).unwrap();
        std::fs::write(folder.path().join("sources.list.d/debian.sources"), sources).unwrap();
        std::fs::write(
            folder.path().join("sources.list.d/old.list.save"),
            "deb http://no/ sid main",
        )
        .unwrap();
        let mut mirrors = Mirrors::default();
        mirrors.read(folder.path()).unwrap();
        mirrors
    }

    fn shown(list: &[Mirror]) -> Vec<&str> {
        list.iter().map(Mirror::as_str).collect()
    }

    #[test]
    fn lines_are_read_with_options_and_comments() {
        let found = mirrors(
            "# deb http://commented.test/debian trixie main\n\
             deb [arch=amd64 signed-by=/a b.gpg] http://a.test/debian/ bookworm main contrib # why\n\
             deb-src http://b.test/debian bookworm main\n\
             deb https://a.test/debian-security bookworm-security main\n\
             deb https://browser.test/apt stable browser\n\
             deb https://flat.test/ ./\n\
             deb cdrom:[Debian]/ bookworm main\n",
            "",
        );
        assert_eq!(shown(&found.archive), ["http://a.test/debian"]);
        assert_eq!(shown(&found.security), ["https://a.test/debian-security"]);
    }

    #[test]
    fn paragraphs_are_read_with_many_values_and_long_lines() {
        let found = mirrors(
            "",
            "Types: deb deb-src\n# a comment inside\nURIs: http://a.test/debian\n https://b.test/debian\nSuites: trixie trixie-updates\nComponents: main\n\n\
             Types: deb\nEnabled: no\nURIs: http://off.test/debian\nSuites: trixie\nComponents: main\n\n\
             types: deb\nuris: http://a.test/debian-security/\nsuites: trixie-security\ncomponents: main non-free\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n",
        );
        assert_eq!(shown(&found.archive), ["http://a.test/debian", "https://b.test/debian"]);
        assert_eq!(shown(&found.security), ["http://a.test/debian-security"]);
    }

    #[test]
    fn a_mirror_that_apt_does_not_name_is_debians_public_one() {
        let of = |list: &str, sources: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("sources.list"), list).unwrap();
            if let Some(sources) = sources {
                let parts = folder.path().join("sources.list.d");
                std::fs::create_dir(&parts).unwrap();
                std::fs::write(parts.join("debian.sources"), sources).unwrap();
            }
            let found = Mirrors::of_machine(folder.path());
            [found.archive, found.security].map(|list| shown(&list).join(" "))
        };
        let public = [PUBLIC_ARCHIVE, PUBLIC_SECURITY];
        let sid = "deb http://a.test/debian sid main\n";
        assert_eq!(of(sid, None), ["http://a.test/debian", PUBLIC_SECURITY]);
        let both =
            "deb http://a.test/debian trixie main\ndeb http://a.test/s trixie-security main\n";
        assert_eq!(of(both, None), ["http://a.test/debian", "http://a.test/s"]);
        let security = "deb http://a.test/s trixie-security main\n";
        assert_eq!(of(security, None), [PUBLIC_ARCHIVE, "http://a.test/s"]);
        assert_eq!(of("deb http://a.test/ubuntu noble main universe\n", None), public);
        let off = "Types: deb\nEnabled: no\nURIs: http://off.test/debian\nSuites: trixie\nComponents: main\n";
        assert_eq!(of("", Some(off)), public);
        let on = off.replace("Enabled: no\n", "");
        assert_eq!(of("", Some(&on)), ["http://off.test/debian", PUBLIC_SECURITY]);
    }

    #[test]
    fn a_machine_without_apt_or_whose_apt_cannot_be_read_uses_debians_public_mirrors() {
        let folder = tempfile::tempdir().unwrap();
        let of = |folder: &Path| {
            let found = Mirrors::of_machine(folder);
            [found.archive, found.security].map(|list| shown(&list).join(" "))
        };
        let public = [PUBLIC_ARCHIVE, PUBLIC_SECURITY];
        assert_eq!(of(&folder.path().join("none")), public);
        // Root can read every file, but nobody can read a folder as a file.
        std::fs::create_dir(folder.path().join("sources.list")).unwrap();
        let error = Mirrors::default().read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("sources.list`: "), "{error}");
        assert_eq!(of(folder.path()), public);
    }

    #[test]
    fn files_are_asked_by_https_but_on_this_machine() {
        let file = |mirror: &str| mirror.parse::<Mirror>().unwrap().file("pool/a.deb");
        assert_eq!(file("http://a.test/debian/"), "https://a.test/debian/pool/a.deb");
        assert_eq!(file("https://a.test/debian"), "https://a.test/debian/pool/a.deb");
        assert_eq!(file("http://127.0.0.1:80/debian"), "http://127.0.0.1/debian/pool/a.deb");
        assert_eq!(file("http://localhost:8080"), "http://localhost:8080/pool/a.deb");
        assert_eq!(file("file:///srv/debian"), "file:///srv/debian/pool/a.deb");
    }

    #[test]
    fn urls_that_apt_could_misread_or_that_hold_secrets_are_refused() {
        for (text, why) in [
            ("debian", "not a URL"),
            ("ftp://a.test/debian", "does not start with"),
            ("https://me:secret@a.test/debian", "password"),
            ("https://a.test/debian?x", "query"),
            ("https://a.test/de'b", "not allowed"),
        ] {
            let error = text.parse::<Mirror>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}
