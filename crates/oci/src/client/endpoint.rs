//! Where to request a repository: mirrors first, then the registry itself.

use std::collections::BTreeSet;
use std::str::FromStr;

use names::{ImageRef, Repository, Secret};
use net::{AddressScope, Hosts, literal_scope};
use url::{Host, Url};

use super::error::{ErrorKind, Failure};
use crate::registries_conf::{PullFromMirror, RegistriesConf, is_location};

/// A rule of `--mirror FROM=TO`: repositories under `from` are requested under `to` first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    from: String,
    to: String,
    /// Whether every request by digest first looks for the blob in the repository `to`.
    is_copy: bool,
}

/// Why a mirror rule is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMirrorError {
    /// There is no `=`.
    #[error("`{0}` is not FROM=TO")]
    NoEquals(String),
    /// One side is not of the form HOST or HOST/PATH.
    #[error("`{0}` is not of the form HOST or HOST/PATH")]
    NotALocation(String),
    /// One side is a URL.
    #[error("`{text}` is a URL; for a registry, leave out `{scheme}`")]
    Url {
        /// The side, without secrets.
        text: String,
        /// Its scheme with `://`.
        scheme: String,
    },
}

impl Mirror {
    /// Creates a rule: repositories under `from` are requested under `to` first.
    pub fn new(from: &str, to: &str) -> Result<Self, ParseMirrorError> {
        let check = |text: &str| {
            let text = text.trim_end_matches('/');
            if is_location(text) {
                Ok(text.to_owned())
            } else if let Some((scheme @ ("http" | "https"), _)) = text.split_once("://") {
                let (text, scheme) = (Secret::from(text).to_string(), format!("{scheme}://"));
                Err(ParseMirrorError::Url { text, scheme })
            } else {
                Err(ParseMirrorError::NotALocation(Secret::from(text).to_string()))
            }
        };
        let from = check(from)?;
        let from = match from.split_once('/') {
            Some(("index.docker.io" | "registry-1.docker.io", path)) => format!("docker.io/{path}"),
            None if matches!(&*from, "index.docker.io" | "registry-1.docker.io") => {
                "docker.io".to_owned()
            }
            _ => from,
        };
        Ok(Self { from, to: check(to)?, is_copy: false })
    }

    /// Creates a rule: everything that has a digest is requested from a copy of inputs first.
    pub fn copy(repository: &Repository) -> Self {
        Self { from: String::new(), to: repository.to_string(), is_copy: true }
    }

    /// Returns the host of `to`, with its port.
    pub fn host(&self) -> String {
        Endpoint::new(&self.to, false, true).network_host().to_owned()
    }
}

impl FromStr for Mirror {
    type Err = ParseMirrorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) = text
            .split_once('=')
            .ok_or_else(|| ParseMirrorError::NoEquals(Secret::from(text).to_string()))?;
        Self::new(from, to)
    }
}

/// A location from which a repository can be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The host in its usual form, such as `docker.io`. Credentials are stored under it.
    pub(super) host: String,
    /// The repository's path on that host.
    pub(super) path: String,
    /// Whether plain http is allowed. If so, it is tried first.
    pub(super) is_plain: bool,
    /// Whether this is a mirror.
    pub(super) is_mirror: bool,
    /// Whether this is a copy of inputs: one repository that contains everything as blobs.
    pub(super) is_copy: bool,
}

impl Endpoint {
    pub(super) fn new(location: &str, is_plain: bool, is_mirror: bool) -> Self {
        let (host, path) = location.split_once('/').unwrap_or((location, ""));
        let is_plain = is_plain || is_loopback(host);
        Self { host: host.to_owned(), path: path.to_owned(), is_plain, is_mirror, is_copy: false }
    }

    /// Returns the host to connect to.
    pub(super) fn network_host(&self) -> &str {
        match self.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        }
    }

    /// Returns the root of the registry under `scheme`.
    pub(super) fn base(&self, scheme: &str) -> Result<Url, Failure> {
        Url::parse(&format!("{scheme}://{}/", self.network_host())).map_err(|error| {
            Failure::fatal(ErrorKind::Refused, format!("`{}` is not a host", self.host))
                .because(&error)
        })
    }
}

/// Returns whether `host`, which may have a port, is this machine by name or address.
pub(super) fn is_loopback(host: &str) -> bool {
    let url = Url::parse(&format!("http://{host}/")).ok();
    let parsed = url.as_ref().and_then(Url::host);
    parsed.as_ref().and_then(literal_scope) == Some(AddressScope::Loopback)
        // RFC 6761 reserves these names, but actual resolvers may resolve them to any address.
        && !matches!(parsed, Some(Host::Domain(name)) if name.ends_with(".localhost"))
}

/// The rules for finding locations.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    pub(super) conf: RegistriesConf,
    pub(super) mirrors: Vec<Mirror>,
    pub(super) plain_http: BTreeSet<String>,
    /// The hosts that requests may go to.
    pub(super) hosts: Hosts,
}

impl Rules {
    /// Returns the locations to read from, in order. The last one is the registry itself, unless it
    /// is blocked or must not be contacted.
    pub(super) fn to_read(
        &self,
        repository: &Repository,
        by_digest: bool,
    ) -> Result<Vec<Endpoint>, Failure> {
        let name = repository.to_string();
        let mut places = Vec::new();
        for mirror in &self.mirrors {
            if mirror.is_copy {
                let place = self.place(&mirror.to, false, true);
                places.extend(by_digest.then_some(Endpoint { is_copy: true, ..place }));
            } else if let Some(rest) = rest_after(&name, &mirror.from) {
                let location = format!("{}{rest}", mirror.to);
                // A rule that maps a name to itself adds no mirror; it permits requests to the
                // registry.
                places.push(self.place(&location, false, location != name));
            }
        }
        let settings = self.conf.find(&name);
        if let Some(settings) = settings.filter(|settings| !settings.blocked) {
            for mirror in &settings.mirrors {
                let fits = match mirror.pull {
                    PullFromMirror::All => true,
                    PullFromMirror::DigestOnly => by_digest,
                    PullFromMirror::TagOnly => !by_digest,
                };
                if fits {
                    let location = settings.relocate(&name, &mirror.location);
                    places.push(self.place(&location, mirror.insecure, true));
                }
            }
            let location = settings.relocate(&name, &settings.location);
            places.push(self.place(&location, settings.insecure, false));
        }
        match settings {
            None => places.push(self.place(&name, false, false)),
            Some(settings) if settings.blocked && places.is_empty() => return Err(blocked(&name)),
            Some(_) => {}
        }
        let mut known = Vec::<Endpoint>::new();
        for place in places {
            let is_known =
                known.iter().any(|other| other.host == place.host && other.path == place.path);
            if !is_known && self.allows(&place) {
                known.push(place);
            }
        }
        if known.is_empty() { Err(no_mirror()) } else { Ok(known) }
    }

    fn allows(&self, place: &Endpoint) -> bool {
        // If the host is not valid, the request reports it.
        place.base("https").map_or(true, |base| self.hosts.allows(&base))
    }

    /// Returns the location to write to: the registry itself, never a mirror.
    pub(super) fn to_write(&self, repository: &Repository) -> Result<Endpoint, Failure> {
        let name = repository.to_string();
        let place = match self.conf.find(&name) {
            Some(settings) if settings.blocked => return Err(blocked(&name)),
            Some(settings) => self.place(&name, settings.insecure, false),
            None => self.place(&name, false, false),
        };
        if self.allows(&place) { Ok(place) } else { Err(no_mirror()) }
    }

    fn place(&self, location: &str, is_plain: bool, is_mirror: bool) -> Endpoint {
        let mut place = Endpoint::new(location, is_plain, is_mirror);
        place.is_plain |= self.plain_http.contains(&place.host);
        place
    }
}

fn no_mirror() -> Failure {
    Failure::fatal(ErrorKind::NoMirror, "it must not be contacted, and no mirror rule covers it")
}

fn blocked(name: &str) -> Failure {
    Failure::fatal(ErrorKind::Refused, format!("registries.conf blocks `{name}`"))
}

/// Returns the part of `name` after `prefix`, if that part is empty or starts with a slash.
fn rest_after<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the reference to request: the digest if the image has one, otherwise the tag.
pub(super) fn reference(image: &ImageRef) -> Result<String, Failure> {
    match (&image.digest, &image.tag) {
        (Some(digest), _) => Ok(digest.to_string()),
        (None, Some(tag)) => Ok(tag.as_str().to_owned()),
        (None, None) => {
            Err(Failure::fatal(ErrorKind::Refused, "the reference has no tag and no digest"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(mirrors: &[&str], conf: &str) -> Rules {
        Rules {
            conf: RegistriesConf::parse([("conf", conf)]).unwrap(),
            mirrors: mirrors.iter().map(|text| text.parse().unwrap()).collect(),
            plain_http: ["plain.example:5000".to_owned()].into(),
            hosts: Hosts::All,
        }
    }

    fn shown(places: &[Endpoint]) -> String {
        let one = |place: &Endpoint| {
            let mark = if place.is_plain { " plain" } else { "" };
            let kind = if place.is_mirror { "mirror " } else { "" };
            format!("{kind}{}/{}{mark}", place.host, place.path)
        };
        places.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn places_to_read_from() {
        let conf = r#"
            [[registry]]
            prefix = "docker.io/rocm"
            location = "quay.io/rocm"
            [[registry.mirror]]
            location = "inner.example/rocm"
            insecure = true
            [[registry]]
            location = "blocked.example"
            blocked = true
        "#;
        for (mirrors, name, wanted) in [
            (&[][..], "ghcr.io/a/b", "ghcr.io/a/b"),
            (&[], "localhost:5000/a", "localhost:5000/a plain"),
            (&[], "[::1]:5000/a", "[::1]:5000/a plain"),
            (&[], "127.8.9.1/a", "127.8.9.1/a plain"),
            (&[], "x.localhost/a", "x.localhost/a"),
            (&[], "plain.example:5000/a", "plain.example:5000/a plain"),
            (&[], "plain.example/a", "plain.example/a"),
            (&[], "docker.io/rocm/vllm", "mirror inner.example/rocm/vllm plain, quay.io/rocm/vllm"),
            (
                &["docker.io=127.0.0.1:5000/hub", "index.docker.io/rocm=two.example"],
                "docker.io/rocm/vllm",
                "mirror 127.0.0.1:5000/hub/rocm/vllm plain, mirror two.example/vllm, \
                 mirror inner.example/rocm/vllm plain, quay.io/rocm/vllm",
            ),
            (&["docker.io/roc=x.example"], "docker.io/fedora", "docker.io/library/fedora"),
            (&["docker.io=docker.io"], "docker.io/fedora", "docker.io/library/fedora"),
            (&["blocked.example=x.example"], "blocked.example/a", "mirror x.example/a"),
        ] {
            let places = rules(mirrors, conf).to_read(&name.parse().unwrap(), true).unwrap();
            assert_eq!(shown(&places), wanted, "{name}");
        }
        let failure = rules(&[], conf).to_read(&"blocked.example/a".parse().unwrap(), true);
        assert_eq!(failure.unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn docker_hub_is_asked_at_its_registry() {
        let places = rules(&[], "").to_read(&"docker.io/a/b".parse().unwrap(), true).unwrap();
        let base = places[0].base("https").unwrap();
        assert_eq!(base.as_str(), "https://registry-1.docker.io/");
    }

    #[test]
    fn mirrors_that_are_none() {
        for (text, wanted) in [
            ("docker.io", "`docker.io` is not FROM=TO"),
            ("docker.io=https://x", "`https://x` is a URL; for a registry, leave out `https://`"),
            ("=x.example", "`` is not of the form HOST"),
            ("x.example=", "`` is not of the form HOST"),
            ("x.example=y z", "`y z` is not of the form HOST"),
            ("x.example=y/../z", "`y/../z` is not of the form HOST"),
        ] {
            let message = text.parse::<Mirror>().unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
