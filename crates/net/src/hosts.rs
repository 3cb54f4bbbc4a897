//! The hosts that requests may go to.

use std::collections::BTreeSet;

use url::Url;

/// The hosts that requests may go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    /// All hosts.
    #[default]
    All,
    /// Only these: `HOST` for the default port, otherwise `HOST:PORT`.
    Only(BTreeSet<String>),
}

impl Hosts {
    /// Returns whether requests may go to the host of `url`. A URL without a host is a path, which
    /// is always allowed.
    pub fn allows(&self, url: &Url) -> bool {
        let (Self::Only(hosts), Some(host)) = (self, url.host_str()) else { return true };
        let named = url.port_or_known_default().map(|port| format!("{host}:{port}"));
        (url.port().is_none() && hosts.contains(host))
            || named.is_some_and(|name| hosts.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_hosts_are_allowed() {
        let hosts = ["a.example", "b.example:5000", "c.example:443", "[::1]:80"];
        let hosts = Hosts::Only(hosts.map(str::to_owned).into());
        for (url, wanted) in [
            ("https://a.example/x", true),
            ("http://a.example/x", true),
            ("https://A.example:443/x", true),
            ("https://a.example:444/x", false),
            ("https://b.example:5000/x", true),
            ("https://b.example/x", false),
            ("https://c.example/x", true),
            ("http://c.example/x", false),
            ("http://[::1]/x", true),
            ("https://x.a.example/x", false),
            ("file:///srv/git", true),
        ] {
            assert_eq!(hosts.allows(&url.parse().unwrap()), wanted, "{url}");
            assert!(Hosts::All.allows(&url.parse().unwrap()));
        }
    }
}
