//! The origins of sources: URLs that the tool may fetch from, and mirrors.
//!
//! Start at [`SourceUrl`]. The internet is accessed only by https. Plain http and git's protocol
//! are allowed only for this machine, and local paths only if the caller allows them.

use std::fmt;
use std::str::FromStr;

use names::Secret;
use net::{AddressScope, literal_scope};
use url::{Position, Url};

use crate::git_ref::ParseSourceError;

/// The maximum length of a URL.
const MAX_URL: usize = 2048;

/// A URL that sources may be fetched from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceUrl(Url);

impl SourceUrl {
    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the parsed URL.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Returns whether this is a local path.
    pub fn is_file(&self) -> bool {
        self.0.scheme() == "file"
    }

    /// Returns the URL's scheme, host and port.
    pub fn server(&self) -> String {
        self.0[..Position::BeforePath].to_owned()
    }

    /// Returns the URL's host, and its port unless it is the default, or `None` for a local path.
    pub fn host(&self) -> Option<String> {
        let host = self.0.host_str()?;
        Some(self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }

    /// Returns the scope of the URL's host. A host whose scope cannot be determined without a name
    /// server counts as public.
    pub(crate) fn scope(&self) -> AddressScope {
        if self.is_file() {
            AddressScope::Loopback
        } else {
            scope(self.0.authority()).unwrap_or(AddressScope::Public)
        }
    }

    /// Returns the part of the URL that identifies the repository, without a trailing `.git` or
    /// slash.
    pub(crate) fn identity(&self) -> &str {
        bare(self.as_str())
    }

    /// Returns the URL of a submodule. `text` is its `url` in this repository's `.gitmodules`.
    pub fn join_submodule(&self, text: &str) -> Result<Self, ParseSourceError> {
        if !text.starts_with("./") && !text.starts_with("../") {
            return text.parse();
        }
        let refuse = |why: &str| Err(ParseSourceError::new(text, why));
        let mut parts: Vec<&str> = self.0.path().trim_matches('/').split('/').collect();
        for part in text.trim_end_matches('/').split('/') {
            match part {
                "." | "" => {}
                ".." => match parts.pop() {
                    Some(_) => {}
                    None => {
                        return refuse("leads above the host of its parent repository");
                    }
                },
                name => parts.push(name),
            }
        }
        format!("{}/{}", &self.0[..Position::BeforePath], parts.join("/")).parse()
    }
}

/// Returns the scope of a host with an optional port, if it can be determined without a name
/// server.
fn scope(authority: &str) -> Option<AddressScope> {
    // Addresses are recognised only in web URLs.
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    literal_scope(&url.host()?)
}

/// Returns `url` without suffixes that make no difference to the repository.
fn bare(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}

impl FromStr for SourceUrl {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why: &str| Err(ParseSourceError::new(text, why));
        // This is checked before parsing, because a password may contain any separator.
        if text.contains('@') && Secret::from(text).is_secret() {
            return refuse("is a URL with a user name or password");
        }
        if text.len() > MAX_URL {
            return refuse("is a URL of more than 2048 bytes");
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.contains('@') {
                refuse("is an ssh address; use https")
            } else {
                refuse("is not a URL")
            };
        };
        if !matches!(scheme, "https" | "http" | "git" | "file") {
            return refuse("is a URL with a scheme other than https");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if rest.contains(['?', '#']) {
            return refuse("is a URL with a query or fragment");
        }
        let is_host = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
        if !authority.bytes().all(is_host) || authority.starts_with('-') {
            return refuse("is not a URL with a valid host");
        }
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/+!$&'()*,;=:@".contains(&b);
        // Escapes are refused, because they would have to be compared, joined and displayed in two
        // forms. The `+` of a local version (`torch-2.11.0%2Brocm7.14.0`) is escaped in every
        // index, because some servers would read it as a space.
        if !path.replace("%2B", "+").bytes().all(is_plain) {
            return refuse("is a URL with unusual characters in its path");
        }
        let mut parts = path.trim_end_matches('/').split('/');
        if path.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) {
            return refuse(
                "is a URL without a path, or with `.`, `..` or an empty part in its path",
            );
        }
        let url = Url::parse(text)
            .map_err(|_| ParseSourceError::new(text, "is not a URL with a valid host"))?;
        // RFC 6761 also reserves `x.localhost`, but existing resolvers may resolve it to any
        // address.
        let is_here = scope(authority) == Some(AddressScope::Loopback)
            && !url.host_str().is_some_and(|host| host.ends_with(".localhost"));
        match scheme {
            "file" if authority.is_empty() => Ok(Self(url)),
            "file" => refuse("is a path on another machine"),
            _ if authority.is_empty() => refuse("is a URL without a host"),
            "https" => Ok(Self(url)),
            _ if is_here => Ok(Self(url)),
            _ => refuse("is not https, and not on this machine"),
        }
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule of `--mirror FROM=TO`: URLs at or below `from` are requested at or below `to` instead.
///
/// There is no fallback to `from`, so that the tool never leaves a closed network by accident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    from: String,
    to: String,
}

impl Mirror {
    /// Creates a rule for a single repository, or for a prefix that ends at a path separator.
    pub fn new(from: &str, to: &str) -> Result<Self, ParseSourceError> {
        let below = |text: &str| format!("{}/x", text.trim_end_matches('/'));
        // A prefix need not have a path: `https://github.com`.
        below(from).parse::<SourceUrl>()?;
        below(to).parse::<SourceUrl>()?;
        let trim = |text: &str| text.trim_end_matches('/').to_owned();
        Ok(Self { from: trim(from), to: trim(to) })
    }

    /// Returns the host and port of this rule's target, or `None` if the target is a local path.
    pub fn host(&self) -> Option<String> {
        let url = Url::parse(&self.to).ok()?;
        let host = url.host_str()?;
        Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }

    /// Returns the URL to request instead of `url` under this rule.
    fn apply(&self, url: &SourceUrl) -> Option<Result<SourceUrl, ParseSourceError>> {
        if url.identity() == bare(&self.from) {
            return Some(self.to.parse());
        }
        let rest = url.as_str().strip_prefix(&self.from)?;
        rest.starts_with('/').then(|| format!("{}{rest}", self.to).parse())
    }

    /// Returns the URL to request for `url`: the longest matching rule applies, and of several with
    /// the same source, the first. Without a match, it is `url` itself.
    ///
    /// # Errors
    /// Fails if the rule gives an invalid URL.
    pub fn resolve(rules: &[Self], url: &SourceUrl) -> Result<SourceUrl, ParseSourceError> {
        let length = |rule: &Self| bare(&rule.from).len();
        let fitting = rules.iter().filter_map(|rule| Some((length(rule), rule.apply(url)?)));
        // Of several equal maxima, `max_by_key` returns the last.
        let longest = fitting.rev().max_by_key(|(size, _)| *size);
        longest.map_or_else(|| Ok(url.clone()), |(_, to)| to)
    }
}

impl FromStr for Mirror {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) =
            text.split_once('=').ok_or_else(|| ParseSourceError::new(text, "is not FROM=TO"))?;
        Self::new(from, to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls() {
        for text in [
            "https://github.com/vllm-project/vllm",
            "https://github.com/vllm-project/vllm.git",
            "https://example.org:8443/~a/b/",
            "http://127.0.0.1:80/a",
            "http://localhost:9/a",
            "git://[::1]:9418/a/b",
            "file:///srv/git/a.git",
            "https://example.org/torch-2.11.0%2Brocm7.14.0.whl",
        ] {
            assert!(text.parse::<SourceUrl>().is_ok(), "{text}");
        }
        for (text, wanted) in [
            ("", "not a URL"),
            ("vllm", "not a URL"),
            ("git@github.com:a/b", "ssh"),
            ("ssh://git@github.com/a/b", "scheme other than https"),
            ("ext::sh -c x", "not a URL"),
            ("ext://sh/x", "scheme other than https"),
            ("HTTPS://github.com/a", "scheme other than https"),
            ("http://github.com/a", "not https, and not on this machine"),
            ("http://x.localhost/a", "not https, and not on this machine"),
            ("http://10.0.0.1/a", "not https, and not on this machine"),
            ("git://github.com/a", "not https, and not on this machine"),
            ("https://user@github.com/a", "user name"),
            ("https://user:secret@github.com/a", "user name"),
            ("https://github.com", "without a path"),
            ("https://github.com/", "without a path"),
            ("https://github.com/a?b", "query"),
            ("https://github.com/a#b", "query"),
            ("https://github.com/a/../b", "`..`"),
            ("https://github.com/a//b", "`..`"),
            ("https://github.com/a%2e%2e/b", "unusual"),
            ("https://github.com/a%2bb", "unusual"),
            ("https://github.com/a b", "unusual"),
            ("https://github.com/a\nb", "unusual"),
            ("https:///a", "without a host"),
            ("https://-oProxyCommand=x/a", "valid host"),
            ("file://host/a", "another machine"),
            ("file://localhost/a", "another machine"),
            ("file:///", "without a path"),
        ] {
            let message = text.parse::<SourceUrl>().map(|url| url.to_string()).unwrap_err();
            assert!(message.to_string().contains(wanted), "{text}: {message}");
            assert!(!message.to_string().contains("secret"), "{message}");
        }
    }

    #[test]
    fn submodule_urls() {
        let base: SourceUrl = "https://h.example/org/a.git".parse().unwrap();
        for (text, wanted) in [
            ("../b.git", "https://h.example/org/b.git"),
            ("../../o2/b", "https://h.example/o2/b"),
            ("./b", "https://h.example/org/a.git/b"),
            ("../.././c/", "https://h.example/c"),
            ("https://other.example/x/y", "https://other.example/x/y"),
        ] {
            assert_eq!(base.join_submodule(text).unwrap().as_str(), wanted, "{text}");
        }
        for text in ["../../../b", "../..", "/etc/passwd", "-u/x", "../b c", "../%2e%2e/x", "b"] {
            assert!(base.join_submodule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mirrors() {
        let rules: Vec<Mirror> = [
            "https://github.com=http://127.0.0.1:1/hub",
            "https://github.com/org=file:///srv/org",
            "https://github.com/org/one.git=git://127.0.0.1/one",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        for (url, wanted) in [
            ("https://github.com/a/b.git", "http://127.0.0.1:1/hub/a/b.git"),
            ("https://github.com/org/b", "file:///srv/org/b"),
            ("https://github.com/organ/b", "http://127.0.0.1:1/hub/organ/b"),
            ("https://github.com/org/one", "git://127.0.0.1/one"),
            ("https://github.com/org/one.git/", "git://127.0.0.1/one"),
            ("https://gitlab.com/org/one", "https://gitlab.com/org/one"),
            ("https://github.com.evil.example/a", "https://github.com.evil.example/a"),
        ] {
            let url = Mirror::resolve(&rules, &url.parse().unwrap()).unwrap();
            assert_eq!(url.as_str(), wanted);
        }
        for text in [
            "https://a.example",
            "a=b",
            "https://a.example=ssh://b",
            "https://a.example=http://b.example",
        ] {
            assert!(text.parse::<Mirror>().is_err(), "{text}");
        }
    }

    #[test]
    fn of_rules_with_the_same_source_the_first_applies() {
        let rules: Vec<Mirror> = [
            "https://h.example/one=https://first.example/one",
            "https://h.example=https://first.example",
            "https://h.example/one.git/=https://second.example/one",
            "https://h.example/=https://second.example",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        for url in ["https://h.example/one", "https://h.example/one.git", "https://h.example/two"] {
            let place = Mirror::resolve(&rules, &url.parse().unwrap()).unwrap();
            assert_eq!(place.host().unwrap(), "first.example", "{url}");
        }
    }

    proptest! {
        #[test]
        fn accepted_urls_stay_where_they_were(text in "(https|http|git|file)://[a-z0-9.@:\\[\\]-]{0,12}/[a-z./%@:?#-]{0,16}") {
            if let Ok(url) = text.parse::<SourceUrl>() {
                prop_assert!(url.url().username().is_empty() && url.url().password().is_none());
                prop_assert!(url.as_str().parse::<SourceUrl>().is_ok(), "{url}");
                let mut parts = url.url().path().split('/');
                prop_assert!(!parts.any(|part| part == ".."), "{url}");
                let is_https = url.url().scheme() == "https";
                prop_assert!(is_https || url.scope() == AddressScope::Loopback);
            }
        }
    }
}
