//! The proxies that requests go through.

use names::Secret;
use reqwest::{NoProxy, Proxy};
use url::{Host, Url};

use crate::error::{Error, ErrorKind};

/// The hosts that are never contacted through a proxy: this machine.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// The proxies of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://`.
    pub http: Option<ProxyUrl>,
    /// For `https://`.
    pub https: Option<ProxyUrl>,
    /// Hosts that are contacted directly: names with all their subdomains, addresses, networks such
    /// as `10.0.0.0/8`, and `*` for all.
    pub except: Vec<String>,
}

/// The URL of a proxy. It may contain a user name and a password, which are never printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl(Secret);

/// The reason why a text is not the URL of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseProxyError {
    /// The scheme is not `http` or `https`.
    #[error("{0} is not an http or https proxy")]
    Scheme(Secret),
    /// The text is not a URL with a host and without a path.
    #[error("{0} is not the URL of a proxy")]
    Url(Secret),
}

impl std::str::FromStr for ProxyUrl {
    type Err = ParseProxyError;

    /// Accepts `http://HOST:PORT`, `https://HOST:PORT`, and `HOST:PORT`, as curl does.
    fn from_str(text: &str) -> Result<Self, ParseProxyError> {
        let shown = || Secret::from(format!("`{text}`"));
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|_| ParseProxyError::Url(shown()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ParseProxyError::Scheme(shown()));
        }
        match (url.host(), url.path()) {
            (Some(Host::Domain("")) | None, _) => Err(ParseProxyError::Url(shown())),
            (Some(_), "/") => Ok(Self(Secret::from(whole))),
            (Some(_), _) => Err(ParseProxyError::Url(shown())),
        }
    }
}

impl ProxyUrl {
    /// Returns the URL, with the user name and the password.
    pub fn secret(&self) -> &Secret {
        &self.0
    }
}

impl Proxies {
    /// Returns the proxies for a `reqwest` client.
    pub(crate) fn clients(&self) -> Result<Vec<Proxy>, Error> {
        let except = [self.except.join(","), LOOPBACK.to_owned()].join(",");
        let all = [
            self.http.as_ref().map(|url| Proxy::http(url.0.expose())),
            self.https.as_ref().map(|url| Proxy::https(url.0.expose())),
        ];
        let one = |proxy: Result<Proxy, reqwest::Error>| {
            let proxy = proxy.map_err(|error| {
                let error = error.without_url();
                Error::new(ErrorKind::Setup, "cannot use the proxy").because(&error)
            })?;
            Ok(proxy.no_proxy(NoProxy::from_string(&except)))
        };
        all.into_iter().flatten().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_http_url_and_its_password_is_not_shown() {
        for (text, whole) in [
            ("http://proxy.example:3128", "http://proxy.example:3128"),
            ("https://proxy.example/", "https://proxy.example/"),
            ("proxy.example:3128", "http://proxy.example:3128"),
            ("http://me:hunter2@proxy.example:3128", "http://me:hunter2@proxy.example:3128"),
        ] {
            let url: ProxyUrl = text.parse().unwrap();
            assert_eq!(url.secret().expose(), whole);
            assert!(!format!("{url:?} {}", url.secret()).contains("hunter2"));
        }
        for text in ["socks5://me:hunter2@h:1080", "http://", "", "http://h/path:hunter2"] {
            let error = text.parse::<ProxyUrl>().unwrap_err().to_string();
            assert!(!error.contains("me:hunter2"), "{error}");
        }
    }
}
