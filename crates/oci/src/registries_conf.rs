//! Reads the supported parts of `registries.conf` (version 2): mirrors, other locations, blocked
//! names.
//!
//! Start at [`RegistriesConf::parse`]. The caller provides the texts, in the order of
//! containers-registries.conf.d(5): a later `[[registry]]` replaces an earlier one with the same
//! prefix. Short names are refused everywhere in this project, so their settings are ignored.
//! Unknown settings are ignored too. `insecure` allows plain http; it never disables certificate
//! checks.

use serde::Deserialize;

/// The settings of all registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistriesConf {
    registries: Vec<RegistrySettings>,
}

/// One `[[registry]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// The names that it applies to: `host`, `host/namespace…`, or `*.domain`.
    pub prefix: String,
    /// The replacement for the prefix in requests.
    pub location: String,
    /// Whether plain http is allowed.
    pub insecure: bool,
    /// Whether reading and writing are forbidden.
    pub blocked: bool,
    /// The locations to try first, in order.
    pub mirrors: Vec<MirrorSettings>,
}

/// One `[[registry.mirror]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    /// The replacement for the prefix in requests.
    pub location: String,
    /// Whether plain http is allowed.
    pub insecure: bool,
    /// Which reads may use it.
    pub pull: PullFromMirror,
}

/// Which reads may use a mirror.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullFromMirror {
    /// All reads.
    #[default]
    All,
    /// Reads by digest only.
    DigestOnly,
    /// Reads by tag only.
    TagOnly,
}

/// Why a `registries.conf` is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ParseRegistriesConfError {
    /// The text is not valid TOML, or has the wrong structure.
    #[error("`{name}` is not a valid registries.conf")]
    Toml {
        /// The file's name, as given by the caller.
        name: String,
        /// The reason.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The text has the format that podman dropped in 2022.
    #[error("`{name}` uses version 1 of the registries.conf format; write `[[registry]]` tables")]
    Version1 {
        /// The file's name, as given by the caller.
        name: String,
    },
    /// An entry has no name.
    #[error("a `[[registry]]` of `{name}` has no `prefix` and no `location`")]
    NoPrefix {
        /// The file's name, as given by the caller.
        name: String,
    },
    /// A location is not of the form HOST or HOST/PATH.
    #[error("`{location}` of `{prefix}` in `{name}` is not of the form HOST or HOST/PATH")]
    Location {
        /// The file's name, as given by the caller.
        name: String,
        /// The prefix.
        prefix: String,
        /// The location.
        location: String,
    },
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(default)]
    registry: Vec<RawRegistry>,
    registries: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawRegistry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<RawMirror>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawMirror {
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: PullFromMirror,
}

impl RegistriesConf {
    /// Parses files, given as name and text. Later ones take precedence.
    pub fn parse<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ParseRegistriesConfError> {
        let mut conf = Self::default();
        for (name, text) in files {
            conf.add(name, text)?;
        }
        Ok(conf)
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), ParseRegistriesConfError> {
        let file: RawFile = toml::from_str(text).map_err(|source| {
            ParseRegistriesConfError::Toml { name: name.to_owned(), source: Box::new(source) }
        })?;
        if file.registries.is_some() {
            return Err(ParseRegistriesConfError::Version1 { name: name.to_owned() });
        }
        for raw in file.registry {
            let settings = raw.checked(name)?;
            self.registries.retain(|other| other.prefix != settings.prefix);
            self.registries.push(settings);
        }
        Ok(())
    }

    /// Returns the entry with the longest prefix that matches `name` (`host/path`).
    pub fn find(&self, name: &str) -> Option<&RegistrySettings> {
        let fitting = self.registries.iter().filter(|r| r.rest_of(name).is_some());
        fitting.max_by_key(|registry| registry.prefix.len())
    }
}

impl RegistrySettings {
    /// Returns the part of `name` after the prefix, if the prefix matches.
    fn rest_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = match self.prefix.strip_prefix('*') {
            // `*.example.com` matches any complete host below example.com.
            Some(domain) => {
                let host_end = name.find('/').unwrap_or(name.len());
                let host = name[..host_end].split(':').next().unwrap_or_default();
                (host.len() > domain.len() && host.ends_with(domain)).then(|| &name[host_end..])
            }
            None => name.strip_prefix(&self.prefix),
        }?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// Returns `name` with the prefix replaced by `location`.
    pub fn relocate(&self, name: &str, location: &str) -> String {
        match self.rest_of(name) {
            Some(rest) if !location.is_empty() => format!("{location}{rest}"),
            _ => name.to_owned(),
        }
    }
}

impl RawRegistry {
    fn checked(self, name: &str) -> Result<RegistrySettings, ParseRegistriesConfError> {
        let trim = |text: &str| text.trim_end_matches('/').to_owned();
        let (prefix, location) = match (trim(&self.prefix), trim(&self.location)) {
            (prefix, location) if prefix.is_empty() && location.is_empty() => {
                return Err(ParseRegistriesConfError::NoPrefix { name: name.to_owned() });
            }
            (prefix, location) if prefix.is_empty() => (location.clone(), location),
            // A wildcard without a location leaves names unchanged.
            (prefix, location) if prefix.starts_with("*.") => (prefix, location),
            (prefix, location) if location.is_empty() => (prefix.clone(), prefix),
            both => both,
        };
        let check = |text: &str| {
            if is_location(text) {
                Ok(())
            } else {
                Err(ParseRegistriesConfError::Location {
                    name: name.to_owned(),
                    prefix: prefix.clone(),
                    location: names::mask(text).into_owned(),
                })
            }
        };
        if !location.is_empty() {
            check(&location)?;
        }
        let mut mirrors = Vec::new();
        for raw in self.mirror {
            let mirror = trim(&raw.location);
            check(&mirror)?;
            let pull = if self.mirror_by_digest_only {
                PullFromMirror::DigestOnly
            } else {
                raw.pull_from_mirror
            };
            mirrors.push(MirrorSettings { location: mirror, insecure: raw.insecure, pull });
        }
        Ok(RegistrySettings {
            prefix,
            location,
            insecure: self.insecure,
            blocked: self.blocked,
            mirrors,
        })
    }
}

/// Returns whether `text` is `host[:port][/path]`. Here, the host need not contain a dot.
pub(crate) fn is_location(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    let dotted = host.contains(['.', ':', '[']) || host == "localhost";
    // In the grammar of image references, a single label with a port is a host.
    let probe =
        if dotted { format!("{text}/x") } else { format!("{host}:1{}/x", &text[host.len()..]) };
    probe.parse::<names::Repository>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> RegistriesConf {
        RegistriesConf::parse(texts.iter().map(|text| ("conf", *text))).unwrap()
    }

    #[test]
    fn the_longest_prefix_is_found() {
        let conf = parse(&[r#"
            unqualified-search-registries = ["docker.io"]
            [[registry]]
            location = "example.com"
            [[registry]]
            prefix = "example.com/a/b/"
            location = "mirror.local/ab"
            [[registry]]
            prefix = "*.example.org"
            blocked = true
            [aliases]
            "x" = "example.com/x"
        "#]);
        for (name, wanted) in [
            ("example.com/x", Some("example.com")),
            ("example.com/a/b/c", Some("example.com/a/b")),
            ("example.com/a/bc", Some("example.com")),
            ("example.com:5000/a", None),
            ("example.community/a", None),
            ("a.b.example.org/x", Some("*.example.org")),
            ("a.example.org:5000/x", Some("*.example.org")),
            ("example.org/x", None),
        ] {
            assert_eq!(conf.find(name).map(|r| r.prefix.as_str()), wanted, "{name}");
        }
        let settings = conf.find("example.com/a/b/c").unwrap();
        let relocated = settings.relocate("example.com/a/b/c", &settings.location);
        assert_eq!(relocated, "mirror.local/ab/c");
        let wild = conf.find("a.example.org/x").unwrap();
        assert_eq!(wild.relocate("a.example.org/x", &wild.location), "a.example.org/x");
    }

    #[test]
    fn later_files_take_the_place_of_earlier_ones() {
        let conf = parse(&[
            "[[registry]]\nlocation = 'a.io'\nblocked = true\n[[registry]]\nlocation = 'b.io'",
            "[[registry]]\nlocation = 'a.io'\ninsecure = true",
        ]);
        let a = conf.find("a.io/x").unwrap();
        assert!(!a.blocked && a.insecure);
        assert!(conf.find("b.io/x").is_some());
    }

    #[test]
    fn mirrors_and_what_they_are_for() {
        let conf = parse(&[r#"
            [[registry]]
            location = "a.io"
            [[registry.mirror]]
            location = "one:5000/a"
            insecure = true
            [[registry.mirror]]
            location = "two.io"
            pull-from-mirror = "tag-only"
            [[registry]]
            location = "b.io"
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "localhost/b"
        "#]);
        let mirrors = &conf.find("a.io/x").unwrap().mirrors;
        assert_eq!(mirrors.iter().map(|m| m.insecure).collect::<Vec<_>>(), [true, false]);
        assert_eq!(mirrors[1].pull, PullFromMirror::TagOnly);
        assert_eq!(conf.find("b.io/x").unwrap().mirrors[0].pull, PullFromMirror::DigestOnly);
    }

    #[test]
    fn parse_says_what_is_wrong() {
        for (text, wanted) in [
            ("[[registry]\n", "`conf` is not a valid registries.conf"),
            ("[[registry]]\nblocked = 'yes'", "`conf` is not a valid registries.conf"),
            (
                "[[registry]]\nlocation='a.io'\n[[registry.mirror]]\nlocation='b.io'\n\
                 pull-from-mirror='never'",
                "`conf` is not a valid registries.conf",
            ),
            ("[registries.search]\nregistries = []", "`conf` uses version 1"),
            ("[[registry]]\ninsecure = true", "has no `prefix` and no `location`"),
            ("[[registry]]\nlocation = 'https://a.io'", "`https://a.io` of `https://a.io`"),
            (
                "[[registry]]\nlocation='a.io'\n[[registry.mirror]]\nlocation='b io'",
                "`b io` of `a.io` in `conf` is not of the form HOST",
            ),
        ] {
            let message = RegistriesConf::parse([("conf", text)]).unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
