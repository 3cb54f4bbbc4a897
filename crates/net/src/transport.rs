//! Sends one HTTP request and reads the response: connections, timeouts and counters.
//!
//! There are several `reqwest` clients, created when first needed. The one for plain http to this
//! machine has no proxy and no TLS roots: loading roots takes longer than deriving an image. The
//! clients for redirects and token servers compare every resolved address with the
//! registry's own [`AddressScope`] when they connect, so that a second lookup cannot bypass the
//! check. With a proxy, the proxy resolves names, so only literal addresses can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;
use url::{Host, Url};

use crate::error::{Error, ErrorKind};
use crate::hosts::Hosts;
use crate::pace::Pace;
use crate::policy::{AddressScope, literal_scope};
use crate::proxies::Proxies;
use crate::resolver::Names;
use crate::text::quoted;

/// The time limits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a connection is established, including TLS.
    pub connect: Duration,
    /// Until the next byte is sent or received.
    pub idle: Duration,
    /// Until a small document (manifest, config, token) is complete.
    pub document: Duration,
    /// Until a server has stored an upload, counted from the last byte sent. Some registries copy
    /// the upload first.
    pub commit: Duration,
}

impl Default for Timeouts {
    /// Connect 10 s and idle 30 s, like uv; a document 60 s; a commit 5 min.
    fn default() -> Self {
        let [connect, idle, document, commit] = [10, 30, 60, 300].map(Duration::from_secs);
        Self { connect, idle, document, commit }
    }
}

/// The network traffic of a [`Transport`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, including those for tokens and redirects.
    pub requests: u64,
    /// Bytes of response bodies.
    pub bytes_received: u64,
    /// Bytes of request bodies.
    pub bytes_sent: u64,
}

/// What all transports of this process have received, in bytes.
static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Returns how many bytes of response bodies this process has received, for progress messages.
pub fn bytes_received() -> u64 {
    RECEIVED.load(Ordering::Relaxed)
}

/// Counts the traffic of a [`Transport`].
#[derive(Debug, Default)]
pub struct Meter {
    requests: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Meter {
    /// Counts bytes of the body of a request.
    pub fn count_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A host name whose address the caller sets, like curl's `--resolve`. For tests and unusual
/// networks.
#[derive(Debug, Clone)]
pub struct FixedName {
    /// The host name.
    pub name: String,
    /// The address to connect to.
    pub address: IpAddr,
    /// The scope to assume for the host when redirects are checked.
    pub scope: AddressScope,
}

/// The settings for connections.
#[derive(Debug, Clone)]
pub struct TransportSettings {
    /// The time limits.
    pub timeouts: Timeouts,
    /// The minimum speed of a response, in bytes per second over the idle time. A slower transfer
    /// counts as hung.
    pub least_speed: u64,
    /// The `User-Agent`.
    pub user_agent: String,
    /// The proxies. They are never used for this machine.
    pub proxies: Proxies,
    /// Certificates (DER) that are trusted in addition to the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Host names with fixed addresses.
    pub fixed_names: Vec<FixedName>,
    /// The hosts that requests may go to.
    pub hosts: Hosts,
}

/// How a request gets to its target. The route decides which addresses it may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// To this machine.
    Loopback,
    /// To a server that the caller named.
    Direct,
    /// To a host that a server named. Addresses that are less public than this scope are refused.
    Hop(AddressScope),
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// The target.
    pub url: Url,
    /// The headers, except those that every request has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

/// The body of a request.
#[derive(Debug)]
pub enum Body {
    /// A small body, or none.
    Bytes(Bytes),
    /// A body of known size, and the number of bytes sent.
    Stream(reqwest::Body, u64, Arc<AtomicU64>),
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub struct Incoming {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The URL that was requested.
    pub url: Url,
    /// The body.
    pub body: IncomingBody,
}

/// The body of a response.
#[derive(Debug)]
pub struct IncomingBody {
    response: reqwest::Response,
    meter: Arc<Meter>,
    pace: Pace,
}

/// All connections of a client.
pub struct Transport {
    settings: TransportSettings,
    clients: Mutex<BTreeMap<Route, Slot>>,
    tls: OnceLock<rustls::ClientConfig>,
    scopes: Mutex<BTreeMap<String, AddressScope>>,
    meter: Arc<Meter>,
}

#[derive(Clone)]
struct Slot {
    client: reqwest::Client,
    judged: Arc<Mutex<BTreeSet<String>>>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Locks a mutex, even after a panic. Only for values that a panic cannot leave half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport {
    /// Returns a transport. It opens connections and loads certificates only when needed.
    pub fn new(settings: TransportSettings) -> Self {
        Self {
            settings,
            clients: Mutex::default(),
            tls: OnceLock::new(),
            scopes: Mutex::default(),
            meter: Arc::default(),
        }
    }

    /// Returns the time limits.
    pub fn timeouts(&self) -> Timeouts {
        self.settings.timeouts
    }

    /// Returns the network traffic so far.
    pub fn counters(&self) -> Counters {
        Counters {
            requests: self.meter.requests.load(Ordering::Relaxed),
            bytes_received: self.meter.received.load(Ordering::Relaxed),
            bytes_sent: self.meter.sent.load(Ordering::Relaxed),
        }
    }

    /// Returns the counters, for bodies that count their own bytes.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Returns the scope of the host in `url`: that of its most public address.
    ///
    /// A name that cannot be resolved here counts as public, because a proxy will resolve it.
    pub async fn scope_of(&self, url: &Url) -> AddressScope {
        let Some(host) = url.host() else { return AddressScope::Public };
        if let Some(scope) = literal_scope(&host) {
            return scope;
        }
        let name = host.to_string();
        if let Some(fixed) = self.settings.fixed_names.iter().find(|fixed| fixed.name == name) {
            return fixed.scope;
        }
        if let Some(scope) = lock(&self.scopes).get(&name) {
            return *scope;
        }
        let addresses = tokio::net::lookup_host((name.as_str(), 443)).await.ok();
        let scopes = addresses.into_iter().flatten().map(|address| AddressScope::of(address.ip()));
        let scope = scopes.min().unwrap_or(AddressScope::Public);
        lock(&self.scopes).insert(name, scope);
        scope
    }

    /// Sends a request, and returns when the head of the response has arrived. Redirects are not
    /// followed.
    ///
    /// # Errors
    /// Fails if there is no response, if it does not arrive in time, or if requests to the host are
    /// not allowed.
    pub async fn send(&self, route: Route, out: Outgoing) -> Result<Incoming, Error> {
        if !self.settings.hosts.allows(&out.url) {
            let host = quoted(out.url.host_str().unwrap_or_default());
            let detail = format!("{host} must not be contacted, because no mirror rule names it");
            return Err(Error::new(ErrorKind::OtherHost, detail));
        }
        let scope = out.url.host().as_ref().and_then(literal_scope);
        let route = match scope {
            Some(AddressScope::Loopback) if out.url.scheme() == "http" => Route::Loopback,
            _ => route,
        };
        let slot = self.slot(route)?;
        if let Some(Host::Domain(name)) = out.url.host() {
            lock(&slot.judged).insert(name.to_owned());
        }
        let timeouts = self.settings.timeouts;
        let patience = if out.method == Method::PUT { timeouts.commit } else { timeouts.idle };
        // Without query and user information, because both may be secret.
        let origin = out.url.origin().ascii_serialization();
        let shown = format!("{} {origin}{}", out.method, out.url.path());
        let mut request = slot.client.request(out.method, out.url.clone()).headers(out.headers);
        let mut progress = None;
        match out.body {
            Body::Bytes(bytes) => {
                self.meter.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if !bytes.is_empty() {
                    request = request.body(bytes);
                }
            }
            Body::Stream(body, size, sent) => {
                // With an explicit length, hyper does not use chunked encoding, which some
                // registries refuse.
                request = request.header(CONTENT_LENGTH, HeaderValue::from(size)).body(body);
                progress = Some((size, sent));
            }
        }
        self.meter.requests.fetch_add(1, Ordering::Relaxed);
        let answer = request.send();
        let response = match progress {
            None => timeout(timeouts.connect + patience, answer)
                .await
                .map_err(|_| hung(timeouts.connect + patience)),
            Some((size, sent)) => watched(answer, timeouts, size, &sent).await,
        }?;
        let response = response.map_err(|error| {
            let error = Error::of(&error.without_url());
            tracing::debug!("{shown}: {}", error.detail);
            error
        })?;
        tracing::debug!("{shown}: {}", response.status());
        Ok(Incoming {
            status: response.status(),
            headers: response.headers().clone(),
            url: out.url,
            body: IncomingBody {
                response,
                meter: Arc::clone(&self.meter),
                pace: Pace::new(timeouts.idle, self.settings.least_speed),
            },
        })
    }

    fn slot(&self, route: Route) -> Result<Slot, Error> {
        let mut clients = lock(&self.clients);
        if let Some(slot) = clients.get(&route) {
            return Ok(slot.clone());
        }
        let judged = Arc::<Mutex<BTreeSet<String>>>::default();
        let names = Names {
            fixed: self.settings.fixed_names.clone(),
            limit: match route {
                Route::Hop(scope) => Some(scope),
                Route::Loopback | Route::Direct => None,
            },
            judged: Arc::clone(&judged),
        };
        let builder = reqwest::Client::builder()
            .user_agent(&self.settings.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.settings.timeouts.connect)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .dns_resolver(Arc::new(names))
            .tls_backend_preconfigured(self.tls(route)?);
        // The settings already include the environment's proxies.
        let mut builder = builder.no_proxy();
        if route != Route::Loopback {
            for proxy in self.settings.proxies.clients()? {
                builder = builder.proxy(proxy);
            }
        }
        let client = builder.build().map_err(|error| {
            Error::new(ErrorKind::Setup, "cannot set up an HTTP client").because(&error)
        })?;
        let slot = Slot { client, judged };
        clients.insert(route, slot.clone());
        Ok(slot)
    }

    fn tls(&self, route: Route) -> Result<rustls::ClientConfig, Error> {
        let fail = |error: &rustls::Error| {
            Error::new(ErrorKind::Setup, "cannot set up TLS on this machine").because(error)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(&error))?;
        if route == Route::Loopback {
            let no_roots = rustls::RootCertStore::empty();
            return Ok(builder.with_root_certificates(no_roots).with_no_client_auth());
        }
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let roots = self.settings.extra_roots.iter().cloned().map(CertificateDer::from);
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider)
            .map_err(|error| fail(&error))?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

/// Waits for the response to an upload. Fails if the body makes no progress for the idle time, or
/// if the response takes too long after the last byte.
async fn watched<T>(
    answer: impl Future<Output = T>,
    timeouts: Timeouts,
    size: u64,
    sent: &AtomicU64,
) -> Result<T, Error> {
    let mut answer = std::pin::pin!(answer);
    let mut before = None;
    loop {
        let now = sent.load(Ordering::Relaxed);
        let patience = if now >= size { timeouts.commit } else { timeouts.idle };
        // The first wait includes the time for connecting.
        let patience = if before.is_none() { patience + timeouts.connect } else { patience };
        if before == Some(now) {
            return Err(hung(patience));
        }
        before = Some(now);
        if let Ok(answer) = timeout(patience, &mut answer).await {
            return Ok(answer);
        }
    }
}

fn hung(patience: Duration) -> Error {
    let detail = format!("there was no response for {:.1} s", patience.as_secs_f32());
    Error::new(ErrorKind::Timeout, detail)
}

impl IncomingBody {
    /// Returns the length in the response's `Content-Length` header.
    pub fn stated_length(&self) -> Option<u64> {
        let text = self.response.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
        text.parse().ok()
    }

    /// Returns the next chunk, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the connection breaks or is too slow.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let chunk = self.pace.wait(self.response.chunk()).await?;
        let Some(chunk) = chunk.map_err(|error| Error::of(&error.without_url()))? else {
            return Ok(None);
        };
        self.meter.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        RECEIVED.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        self.pace.count(chunk.len())?;
        Ok(Some(chunk))
    }

    /// Reads a small document of at most `cap` bytes within `limit`.
    ///
    /// # Errors
    /// Fails if the document is larger or is not complete in time.
    pub async fn collect(mut self, cap: u64, limit: Duration) -> Result<Bytes, Error> {
        let too_large = || {
            let detail = format!("the response is larger than the limit of {cap} bytes");
            Error::new(ErrorKind::TooLarge, detail)
        };
        if self.stated_length().is_some_and(|length| length > cap) {
            return Err(too_large());
        }
        let read = async {
            let mut all = bytes::BytesMut::new();
            while let Some(chunk) = self.chunk().await? {
                if (all.len() + chunk.len()) as u64 > cap {
                    return Err(too_large());
                }
                all.extend_from_slice(&chunk);
            }
            Ok(all.freeze())
        };
        timeout(limit, read).await.unwrap_or_else(|_| {
            let detail =
                format!("the response was not complete within {:.1} s", limit.as_secs_f32());
            Err(Error::new(ErrorKind::Timeout, detail))
        })
    }
}
