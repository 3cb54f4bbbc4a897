//! Image references: registry, repository path, tag, digest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, ParseDigestError, Secret};

/// A repository on a named registry, for example `docker.io/rocm/vllm-dev`.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Repository {
    registry: String,
    path: String,
}

/// A tag: a name that a registry can move to another image at any time.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"))]
pub struct Tag(String);

/// A fully qualified image reference: a repository with an optional tag and an optional digest.
///
/// If it has both, the digest identifies the image and the tag is only for people.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ImageRef {
    /// The repository that contains the image.
    pub repository: Repository,
    /// The tag; only for people if there is also a digest.
    pub tag: Option<Tag>,
    /// The digest of the manifest or index.
    pub digest: Option<Digest>,
}

/// The reason why a text is not a fully qualified image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseImageRefError {
    /// The text is empty.
    #[error("an image reference is missing")]
    Empty,
    /// The text contains a user name or password.
    #[error("`{text}` contains a user name or password; use `HOST/NAME` without them")]
    Credentials {
        /// The text without its secret parts.
        text: String,
    },
    /// The text starts with a scheme such as `docker://` or `https://`.
    #[error("`{text}` starts with `{scheme}`; write `{rest}`")]
    Scheme {
        /// The whole text.
        text: String,
        /// The scheme with its `://`.
        scheme: String,
        /// The text after the scheme.
        rest: String,
    },
    /// The first component is not a registry host.
    #[error(
        "`{text}` is a short name, which machines may resolve differently; write `{suggestion}`"
    )]
    ShortName {
        /// The whole text.
        text: String,
        /// The same name on Docker Hub.
        suggestion: String,
    },
    /// The host is not a DNS name or address with an optional port.
    #[error(
        "`{host}` is not a registry host; a host is a DNS name or an address, with an optional `:port`"
    )]
    Host {
        /// The text where the host should be.
        host: String,
    },
    /// The repository path does not follow the grammar.
    #[error("`{path}` is not a repository path; {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The tag does not follow the grammar.
    #[error(
        "`{0}` is not a tag; a tag has 1 to 128 characters from A-Z a-z 0-9 _ . - and does not start with . or -"
    )]
    Tag(String),
    /// The digest is not valid.
    #[error("the digest of `{text}` is not valid")]
    Digest {
        /// The whole text.
        text: String,
        /// What is wrong with the digest.
        #[source]
        source: ParseDigestError,
    },
}

impl Repository {
    /// Returns the registry: a host, with a port if there is one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path on the registry, without a leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the reference to `digest` in this repository.
    pub fn at(&self, digest: &Digest) -> ImageRef {
        ImageRef { repository: self.clone(), tag: None, digest: Some(digest.clone()) }
    }

    /// Returns the reference to `tag` in this repository.
    pub fn tagged(&self, tag: &Tag) -> ImageRef {
        ImageRef { repository: self.clone(), tag: Some(tag.clone()), digest: None }
    }
}

impl Tag {
    /// Returns the text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = ParseImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let head = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let tail = |c: char| head(c) || c == '.' || c == '-';
        let is_valid =
            (1..=128).contains(&text.len()) && text.starts_with(head) && text.chars().all(tail);
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseImageRefError::Tag(text.to_owned()))
        }
    }
}

impl FromStr for Repository {
    type Err = ParseImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseImageRefError::Empty);
        }
        check_secret(text)?;
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(ParseImageRefError::Scheme {
                text: text.to_owned(),
                scheme: format!("{scheme}://"),
                rest: rest.to_owned(),
            });
        }
        // Without a slash, a colon starts a tag.
        let name = text.split(':').next().unwrap_or(text);
        let short_name = || match check_path(name) {
            // A registry in front of it would not help.
            Err(error) if name.bytes().any(|b| b.is_ascii_uppercase()) => error,
            _ => ParseImageRefError::ShortName {
                text: text.to_owned(),
                suggestion: if text.contains('/') {
                    format!("docker.io/{text}")
                } else {
                    format!("docker.io/library/{text}")
                },
            },
        };
        let (host, path) = text.split_once('/').ok_or_else(short_name)?;
        if !host.contains(['.', ':', '[']) && host != "localhost" {
            return Err(short_name());
        }
        check_host(host)?;
        check_path(path)?;
        // Docker Hub has several host names, and its official images have a hidden `library/`.
        let registry = match host {
            "index.docker.io" | "registry-1.docker.io" => "docker.io",
            other => other,
        };
        let path = if registry == "docker.io" && !path.contains('/') {
            format!("library/{path}")
        } else {
            path.to_owned()
        };
        Ok(Self { registry: registry.to_owned(), path })
    }
}

impl FromStr for ImageRef {
    type Err = ParseImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_secret(text)?;
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => {
                let digest = digest.parse().map_err(|source| ParseImageRefError::Digest {
                    text: text.to_owned(),
                    source,
                })?;
                (name, Some(digest))
            }
        };
        // A colon starts a tag only after the last slash; before it, it starts a port.
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match name[last..].find(':') {
            Some(colon) if last > 0 => {
                let colon = last + colon;
                (&name[..colon], Some(name[colon + 1..].parse()?))
            }
            _ => (name, None),
        };
        Ok(Self { repository: repository.parse()?, tag, digest })
    }
}

/// Refuses a text that contains a secret. This check comes first, so that no error shows a part of
/// the secret: a password can contain every character that separates the parts of a reference.
fn check_secret(text: &str) -> Result<(), ParseImageRefError> {
    let secret = Secret::new(text);
    if secret.is_secret() {
        return Err(ParseImageRefError::Credentials { text: secret.to_string() });
    }
    Ok(())
}

/// Checks a host: DNS labels, an IPv4 address or a bracketed IPv6 address, and an optional port.
fn check_host(text: &str) -> Result<(), ParseImageRefError> {
    let refuse = || ParseImageRefError::Host { host: text.to_owned() };
    let (host, behind) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest.split_once(']').ok_or_else(refuse)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| refuse())?;
            (None, behind)
        }
        None => match text.find(':') {
            Some(colon) => (Some(&text[..colon]), &text[colon..]),
            None => (Some(text), ""),
        },
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.is_some_and(|host| !host.split('.').all(is_label)) {
        return Err(refuse());
    }
    let is_port = |port: &str| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match behind.strip_prefix(':') {
        Some(port) if is_port(port) => Ok(()),
        None if behind.is_empty() => Ok(()),
        _ => Err(refuse()),
    }
}

/// Checks a repository path by the grammar of the OCI distribution specification.
fn check_path(path: &str) -> Result<(), ParseImageRefError> {
    let refuse = |why| ParseImageRefError::Path { path: path.to_owned(), why };
    if path.is_empty() {
        return Err(refuse("it is empty"));
    }
    if path.len() > 255 {
        return Err(refuse("it is longer than 255 characters"));
    }
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(refuse("it must not have upper-case letters"));
    }
    for component in path.split('/') {
        if !is_path_component(component) {
            return Err(refuse(
                "each part between slashes has letters and digits, joined by one of . _ __ or dashes",
            ));
        }
    }
    Ok(())
}

/// Returns whether `component` is `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_path_component(component: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends_in_words =
        bytes.first().is_some_and(|b| is_word(*b)) && bytes.last().is_some_and(|b| is_word(*b));
    ends_in_words
        && component
            .split(|c: char| c.is_ascii() && is_word(c as u8))
            .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Implements `Debug` and the serde conversions of each type by means of its `Display`.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl TryFrom<String> for $type {
            type Error = ParseImageRefError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}
as_text!(Repository, Tag, ImageRef);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse_knows_a_port_from_a_tag() {
        for (text, registry, path, tag) in [
            ("127.0.0.1:5000/x", "127.0.0.1:5000", "x", None),
            ("127.0.0.1:5000/x:y", "127.0.0.1:5000", "x", Some("y")),
            ("localhost:5000/a/b:1.2", "localhost:5000", "a/b", Some("1.2")),
            ("[::1]:5000/a", "[::1]:5000", "a", None),
            ("[::1]/a:latest", "[::1]", "a", Some("latest")),
            ("docker.io/ollama/ollama:rocm", "docker.io", "ollama/ollama", Some("rocm")),
            ("docker.io/fedora:43", "docker.io", "library/fedora", Some("43")),
            ("index.docker.io/fedora", "docker.io", "library/fedora", None),
            ("registry-1.docker.io/fedora:43", "docker.io", "library/fedora", Some("43")),
            ("registry-1.docker.io/rocm/vllm", "docker.io", "rocm/vllm", None),
            ("registry-2.docker.io/fedora", "registry-2.docker.io", "fedora", None),
            ("ghcr.io/a/b__c--d.e_f", "ghcr.io", "a/b__c--d.e_f", None),
        ] {
            let parsed: ImageRef = text.parse().unwrap();
            assert_eq!(parsed.repository.registry(), registry, "{text}");
            assert_eq!(parsed.repository.path(), path, "{text}");
            assert_eq!(parsed.tag.as_ref().map(Tag::as_str), tag, "{text}");
        }
    }

    #[test]
    fn parse_keeps_tag_and_digest() {
        let text = format!("docker.io/rocm/vllm-dev:nightly@sha256:{}", "a9".repeat(32));
        let parsed: ImageRef = text.parse().unwrap();
        assert_eq!(parsed.tag.as_ref().unwrap().as_str(), "nightly");
        assert_eq!(parsed.digest.as_ref().unwrap().hex(), "a9".repeat(32));
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn parse_names_what_is_wrong() {
        for (text, wanted) in [
            ("", "an image reference is missing"),
            ("fedora:43", "write `docker.io/library/fedora:43`"),
            ("rocm/vllm-dev", "write `docker.io/rocm/vllm-dev`"),
            ("docker://ghcr.io/a/b", "starts with `docker://`; write `ghcr.io/a/b`"),
            ("ghcr.io/A/b", "it must not have upper-case letters"),
            ("A/b:1", "it must not have upper-case letters"),
            ("Ubuntu", "it must not have upper-case letters"),
            ("ghcr.io/", "it is empty"),
            ("ghcr.io/a//b", "each part between slashes"),
            ("ghcr.io/../b", "each part between slashes"),
            ("ghcr.io/a/..", "each part between slashes"),
            ("ghcr.io/a..b", "each part between slashes"),
            ("ghcr.io/a/b..c/d", "each part between slashes"),
            ("ghcr.io/a._b", "each part between slashes"),
            ("ghcr.io/a/-b", "each part between slashes"),
            ("ghcr.io/a/b___c", "each part between slashes"),
            ("ghcr.io/a/é", "each part between slashes"),
            ("ghcr.io/a/b:", "`` is not a tag"),
            ("ghcr.io/a/b:.x", "`.x` is not a tag"),
            ("ghcr.io/a/b:a:b", "`a:b` is not a tag"),
            ("ghcr.io/a/b@sha256:abc", "the digest of"),
            ("ghcr.io:0/a", "is not a registry host"),
            ("ghcr.io:99999/a", "is not a registry host"),
            ("ghcr.io:+80/a", "is not a registry host"),
            ("-x.io/a", "is not a registry host"),
            ("user@ghcr.io/a", "the digest of"),
            ("[::1/a", "is not a registry host"),
            ("a..b/c", "is not a registry host"),
        ] {
            let message = text.parse::<ImageRef>().unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
        let long = format!("ghcr.io/{}", "a".repeat(256));
        assert!(long.parse::<ImageRef>().unwrap_err().to_string().contains("255"));
        assert!(long[..long.len() - 1].parse::<ImageRef>().is_ok());
    }

    #[test]
    fn a_tag_has_at_most_128_characters() {
        let tag = "a".repeat(128);
        let parsed: ImageRef = format!("ghcr.io/a/b:{tag}").parse().unwrap();
        assert_eq!(parsed.tag.unwrap().as_str(), tag);
        let message = format!("ghcr.io/a/b:{tag}a").parse::<ImageRef>().unwrap_err().to_string();
        assert!(message.contains("a tag has 1 to 128 characters"), "{message}");
        assert!(format!("{tag}a").parse::<Tag>().is_err());
    }

    proptest! {
        #[test]
        fn print_then_parse_is_the_identity(
            host in "([a-z][a-z0-9]{0,8}\\.[a-z]{2,5}|localhost)(:[1-9][0-9]{0,3})?",
            path in "[a-z0-9]{1,6}([._]|__|-{1,3})?[a-z0-9]{1,4}(/[a-z0-9]{1,5}){0,3}",
            tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9._-]{0,20}"),
            digest in proptest::option::of("sha256:[0-9a-f]{64}"),
        ) {
            let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
            let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
            let text = format!("{host}/{path}{tag}{digest}");
            let parsed: ImageRef = text.parse().unwrap();
            let again: ImageRef = parsed.to_string().parse().unwrap();
            prop_assert_eq!(&parsed, &again);
            prop_assert_eq!(parsed.to_string(), text);
        }

        #[test]
        fn any_text_is_answered_without_a_panic(text in "\\PC{0,80}") {
            if let Ok(parsed) = text.parse::<ImageRef>() {
                prop_assert_eq!(parsed.to_string().parse::<ImageRef>().unwrap(), parsed);
            }
        }
    }
}
