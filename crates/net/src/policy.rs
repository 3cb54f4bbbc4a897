//! Decides which URLs a registry may send this tool to: redirects, token servers, upload locations.
//!
//! Start at [`check_hop`] and [`check_realm`]. A registry on the internet must not be able to make
//! this tool contact a machine behind the user's firewall, or switch from https to http
//! (CVE-2024-3727 and the 2026 series of go-containerregistry). The rule: a hop must never lead to
//! a less public network than the registry's own, nor to link-local or unspecified addresses, where
//! clouds run their metadata servers. This module opens no connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// How public an address is, ordered from the internet to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressScope {
    /// The internet.
    Public,
    /// A private network (RFC 1918, RFC 6598, unique local addresses) or a reserved range.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, unspecified, multicast and broadcast addresses, which are never allowed.
    Never,
}

/// Why a hop is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedHop {
    /// The target is not a web address.
    #[error("`{0}` is not http or https")]
    Scheme(String),
    /// The target has no host.
    #[error("the target has no host")]
    NoHost,
    /// The target contains a user name or a password.
    #[error("the target contains a user name or a password")]
    UserInfo,
    /// The target is http, but the URL that leads to it is https.
    #[error("it leads from https to http")]
    Downgrade,
    /// The target is less public than the registry.
    #[error("`{host}` is {scope}, but the registry is not", scope = .scope.in_words())]
    Inward {
        /// The host of the target.
        host: String,
        /// The scope of its address.
        scope: AddressScope,
    },
    /// The target is on another host, but only the registry itself is allowed.
    #[error("it leads to `{host}`, which is not the registry")]
    OtherHost {
        /// The host of the target.
        host: String,
    },
}

impl AddressScope {
    /// Returns the scope of `address`. IPv4 addresses inside IPv6 addresses are treated as IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => match embedded_v4(address) {
                Some(inner) => Self::of_v4(inner),
                None => Self::of_v6(address),
            },
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        match (a, b, c) {
            (0 | 224..=255, ..) | (169, 254, _) => Self::Never,
            (127, ..) => Self::Loopback,
            (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Self::Private,
            (192, 0, 0) | (198, 18..=19, _) => Self::Private,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            return Self::Loopback;
        }
        match address.segments()[0] {
            _ if address.is_unspecified() => Self::Never,
            0xfe80..=0xfebf | 0xff00..=0xffff => Self::Never,
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Self::Private,
            _ => Self::Public,
        }
    }

    /// Returns the scope in words, for messages.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "this machine",
            Self::Never => "a link-local, unspecified or multicast address",
        }
    }
}

/// Returns the IPv4 address inside `address`: mapped, compatible, NAT64 or 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(from(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(from(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// Returns the scope of a host that needs no name server: a literal address, or `localhost`.
pub fn literal_scope(host: &Host<&str>) -> Option<AddressScope> {
    match host {
        Host::Ipv4(address) => Some(AddressScope::of((*address).into())),
        Host::Ipv6(address) => Some(AddressScope::of((*address).into())),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            (name == "localhost" || name.ends_with(".localhost")).then_some(AddressScope::Loopback)
        }
    }
}

/// Returns whether two URLs have the same host and port, whatever their scheme.
pub fn is_same_host(one: &Url, other: &Url) -> bool {
    one.host() == other.host() && one.port_or_known_default() == other.port_or_known_default()
}

/// Checks one hop from `from` to `to`, requested by the registry at `registry` with the scope
/// `registry_scope`. Names are checked here only if they need no name server; the resolver of the
/// connection applies [`check_scope`] to every address that it finds.
pub fn check_hop(
    registry: &Url,
    registry_scope: AddressScope,
    from: &Url,
    to: &Url,
) -> Result<(), RefusedHop> {
    if !matches!(to.scheme(), "http" | "https") {
        return Err(RefusedHop::Scheme(to.scheme().to_owned()));
    }
    let host = to.host().ok_or(RefusedHop::NoHost)?;
    if !to.username().is_empty() || to.password().is_some() {
        return Err(RefusedHop::UserInfo);
    }
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(RefusedHop::Downgrade);
    }
    match literal_scope(&host) {
        Some(scope) if !is_same_host(registry, to) => {
            check_scope(&host.to_string(), scope, registry_scope)
        }
        _ => Ok(()),
    }
}

/// Checks that a host with the scope `scope` is at least as public as `registry_scope`.
pub fn check_scope(
    host: &str,
    scope: AddressScope,
    registry_scope: AddressScope,
) -> Result<(), RefusedHop> {
    if scope == AddressScope::Never || scope > registry_scope {
        return Err(RefusedHop::Inward { host: host.to_owned(), scope });
    }
    Ok(())
}

/// Checks the token server that the registry at `registry` names: https, or plain http if the
/// registry also uses plain http and the token server is on this machine or is the registry itself.
pub fn check_realm(
    registry: &Url,
    registry_scope: AddressScope,
    realm: &Url,
) -> Result<(), RefusedHop> {
    check_hop(registry, registry_scope, registry, realm)?;
    let is_here =
        realm.host().and_then(|host| literal_scope(&host)) == Some(AddressScope::Loopback);
    if realm.scheme() == "https" || is_here || is_same_host(registry, realm) {
        Ok(())
    } else {
        Err(RefusedHop::Downgrade)
    }
}

/// Checks the location at which an upload continues: it must be on the registry itself, with the
/// same scheme. No registry in use continues uploads elsewhere, and the session's URL is itself a
/// secret.
pub fn check_upload(registry: &Url, location: &Url) -> Result<(), RefusedHop> {
    check_hop(registry, AddressScope::Loopback, registry, location)?;
    if is_same_host(registry, location) && registry.scheme() == location.scheme() {
        Ok(())
    } else {
        Err(RefusedHop::OtherHost { host: location.host_str().unwrap_or_default().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn reach_of_every_special_range() {
        for (text, wanted) in [
            ("1.1.1.1", AddressScope::Public),
            ("172.15.0.1", AddressScope::Public),
            ("172.32.0.1", AddressScope::Public),
            ("100.63.255.255", AddressScope::Public),
            ("2606:4700::1111", AddressScope::Public),
            ("10.0.0.1", AddressScope::Private),
            ("172.16.0.1", AddressScope::Private),
            ("172.31.255.255", AddressScope::Private),
            ("192.168.1.1", AddressScope::Private),
            ("100.64.0.1", AddressScope::Private),
            ("198.18.0.1", AddressScope::Private),
            ("192.0.0.8", AddressScope::Private),
            ("fd00::1", AddressScope::Private),
            ("fec0::1", AddressScope::Private),
            ("127.0.0.1", AddressScope::Loopback),
            ("127.255.255.254", AddressScope::Loopback),
            ("::1", AddressScope::Loopback),
            ("::ffff:127.0.0.1", AddressScope::Loopback),
            ("::127.0.0.1", AddressScope::Loopback),
            ("64:ff9b::7f00:1", AddressScope::Loopback),
            ("2002:7f00:1::", AddressScope::Loopback),
            ("::ffff:10.1.2.3", AddressScope::Private),
            ("64:ff9b::a9fe:a9fe", AddressScope::Never),
            ("169.254.169.254", AddressScope::Never),
            ("0.0.0.0", AddressScope::Never),
            ("0.1.2.3", AddressScope::Never),
            ("224.0.0.1", AddressScope::Never),
            ("255.255.255.255", AddressScope::Never),
            ("::", AddressScope::Never),
            ("fe80::1", AddressScope::Never),
            ("ff02::1", AddressScope::Never),
        ] {
            assert_eq!(AddressScope::of(text.parse().unwrap()), wanted, "{text}");
        }
    }

    #[test]
    fn hops_of_a_public_registry() {
        let registry = url("https://registry.example");
        for (to, wanted) in [
            ("https://cdn.example/x", None),
            ("https://cdn.example:8443/x", None),
            ("http://cdn.example/x", Some("it leads from https to http")),
            ("https://u:p@cdn.example/x", Some("the target contains a user name or a password")),
            ("ftp://cdn.example/x", Some("`ftp` is not http or https")),
            ("file:///etc/passwd", Some("`file` is not http or https")),
            ("https://127.0.0.1/x", Some("`127.0.0.1` is this machine, but the registry is not")),
            ("https://localhost/x", Some("`localhost` is this machine, but the registry is not")),
            ("https://LOCALHOST./x", Some("`localhost.` is this machine, but the registry is not")),
            ("https://a.localhost/x", Some("is this machine")),
            ("https://2130706433/x", Some("`127.0.0.1` is this machine")),
            ("https://0x7f.1/x", Some("`127.0.0.1` is this machine")),
            ("https://0177.0.0.1/x", Some("`127.0.0.1` is this machine")),
            ("https://[::1]/x", Some("`[::1]` is this machine")),
            ("https://[::ffff:10.0.0.1]/x", Some("is a private address")),
            ("https://10.0.0.1/x", Some("is a private address")),
            ("https://172.16.0.1/x", Some("is a private address")),
            ("https://192.168.0.1/x", Some("is a private address")),
            ("https://[fd00::1]/x", Some("is a private address")),
            ("https://169.254.169.254/latest", Some("is a link-local")),
            ("https://0.0.0.0/x", Some("is a link-local, unspecified")),
        ] {
            let verdict = check_hop(&registry, AddressScope::Public, &registry, &url(to));
            match wanted {
                None => assert_eq!(verdict, Ok(()), "{to}"),
                Some(text) => {
                    let message = verdict.unwrap_err().to_string();
                    assert!(message.contains(text), "{to}: {message}");
                }
            }
        }
    }

    #[test]
    fn hops_of_inner_registries() {
        let private = url("https://10.0.0.5");
        assert!(
            check_hop(&private, AddressScope::Private, &private, &url("https://10.0.0.6/")).is_ok()
        );
        assert!(
            check_hop(&private, AddressScope::Private, &private, &url("https://127.0.0.1/"))
                .is_err()
        );
        let local = url("http://127.0.0.1:5000");
        assert!(
            check_hop(&local, AddressScope::Loopback, &local, &url("http://127.0.0.1:1/")).is_ok()
        );
        assert!(
            check_hop(&local, AddressScope::Loopback, &local, &url("http://169.254.1.1/")).is_err()
        );
        let odd = url("https://169.254.1.1:5000");
        assert!(
            check_hop(&odd, AddressScope::Never, &odd, &url("https://169.254.1.1:5000/x")).is_ok()
        );
    }

    #[test]
    fn realms() {
        let public = url("https://registry.example");
        let plain = url("http://registry.example:5000");
        let local = url("http://127.0.0.1:5000");
        assert!(check_realm(&public, AddressScope::Public, &url("https://auth.example/t")).is_ok());
        assert!(check_realm(&public, AddressScope::Public, &url("http://auth.example/t")).is_err());
        assert!(check_realm(&public, AddressScope::Public, &url("https://127.0.0.1/t")).is_err());
        assert!(
            check_realm(&plain, AddressScope::Public, &url("http://registry.example:5000/t"))
                .is_ok()
        );
        assert!(check_realm(&plain, AddressScope::Public, &url("http://auth.example/t")).is_err());
        assert!(check_realm(&local, AddressScope::Loopback, &url("http://127.0.0.1:6/t")).is_ok());
        assert!(
            check_realm(&local, AddressScope::Loopback, &url("https://auth.example/t")).is_ok()
        );
        assert!(
            check_realm(&local, AddressScope::Loopback, &url("http://auth.example/t")).is_err()
        );
    }

    #[test]
    fn uploads_stay_at_the_registry() {
        let registry = url("https://registry.example");
        assert!(check_upload(&registry, &url("https://registry.example:443/v2/x")).is_ok());
        assert!(check_upload(&registry, &url("https://registry.example:444/v2/x")).is_err());
        assert!(check_upload(&registry, &url("https://other.example/v2/x")).is_err());
        assert!(check_upload(&registry, &url("http://registry.example/v2/x")).is_err());
    }
}
