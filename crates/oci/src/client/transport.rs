//! Sends one HTTP request and reads the response: connections, timeouts and counters.
//!
//! There are several `reqwest` clients, created when first needed. The one for this machine has no
//! TLS roots and no proxy, because loading roots takes longer than deriving an image. The clients
//! for redirects and token servers compare every resolved address with the registry's own [`Reach`]
//! when they connect, so that a second lookup cannot give another result. With a proxy, the proxy
//! resolves names, so only literal addresses can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;
use url::{Host, Url};

use super::broken::classify;
use super::error::{ErrorKind, Failure};
use super::resolver::Names;
use crate::policy::{Reach, literal_reach};

/// The time limits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a connection is established, including TLS.
    pub connect: Duration,
    /// Until the next byte is sent or received.
    pub idle: Duration,
    /// Until a small document (manifest, config, token) is complete.
    pub document: Duration,
    /// Until a registry has stored a blob after its last byte. Some registries copy it again.
    pub commit: Duration,
}

impl Default for Timeouts {
    /// Connect 10 s and idle 30 s, like uv; a document 60 s; a commit 5 min.
    fn default() -> Self {
        let [connect, idle, document, commit] = [10, 30, 60, 300].map(Duration::from_secs);
        Self { connect, idle, document, commit }
    }
}

/// The minimum speed, in bytes per second over the idle time. A slower transfer counts as hung. At
/// this speed, a layer of 100 MB would take a day.
const LEAST_SPEED: u64 = 1000;

/// The network traffic so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, including those for tokens and redirects.
    pub requests: u64,
    /// Bytes of response bodies.
    pub bytes_received: u64,
    /// Bytes of request bodies.
    pub bytes_sent: u64,
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    requests: AtomicU64,
    received: AtomicU64,
    pub(super) sent: AtomicU64,
}

/// A host name whose address the caller fixes, like curl's `--connect-to`. For tests and unusual
/// networks.
#[derive(Debug, Clone)]
pub struct FixedName {
    /// The host name.
    pub name: String,
    /// The address to connect to.
    pub address: IpAddr,
    /// The reach that the host is treated as having when redirects are checked.
    pub reach: Reach,
}

/// The settings for connections.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    pub(super) timeouts: Timeouts,
    pub(super) user_agent: String,
    pub(super) use_system_proxies: bool,
    pub(super) extra_roots: Vec<Vec<u8>>,
    pub(super) fixed_names: Vec<FixedName>,
}

/// The client that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// To this machine.
    Loopback,
    /// To a registry that the caller named.
    Direct,
    /// To a host that a registry named. More internal addresses than this are refused.
    Hop(Reach),
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// The body of a request.
#[derive(Debug)]
pub(super) enum Body {
    Bytes(Bytes),
    /// A body of known size, and the number of bytes sent.
    Stream(reqwest::Body, u64, Arc<AtomicU64>),
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) body: IncomingBody,
}

/// The body of a response.
#[derive(Debug)]
pub(super) struct IncomingBody {
    response: reqwest::Response,
    meter: Arc<Meter>,
    idle: Duration,
    window: Duration,
    window_bytes: u64,
}

/// All connections of a registry client.
pub(super) struct Transport {
    wiring: Wiring,
    clients: Mutex<BTreeMap<Route, Slot>>,
    tls: OnceLock<rustls::ClientConfig>,
    reaches: Mutex<BTreeMap<String, Reach>>,
    meter: Arc<Meter>,
}

#[derive(Clone)]
struct Slot {
    client: reqwest::Client,
    judged: Arc<Mutex<BTreeSet<String>>>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("wiring", &self.wiring).finish_non_exhaustive()
    }
}

/// Locks a mutex. A panic cannot leave these maps half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport {
    pub(super) fn new(wiring: Wiring) -> Self {
        Self {
            wiring,
            clients: Mutex::default(),
            tls: OnceLock::new(),
            reaches: Mutex::default(),
            meter: Arc::default(),
        }
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.wiring.timeouts
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            requests: self.meter.requests.load(Ordering::Relaxed),
            bytes_received: self.meter.received.load(Ordering::Relaxed),
            bytes_sent: self.meter.sent.load(Ordering::Relaxed),
        }
    }

    pub(super) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Returns the reach of the host in `url`: that of its least internal address.
    ///
    /// A name that cannot be resolved here counts as public, because a proxy will resolve it.
    pub(super) async fn reach_of(&self, url: &Url) -> Reach {
        let Some(host) = url.host() else { return Reach::Public };
        if let Some(reach) = literal_reach(&host) {
            return reach;
        }
        let name = host.to_string();
        if let Some(fixed) = self.wiring.fixed_names.iter().find(|fixed| fixed.name == name) {
            return fixed.reach;
        }
        if let Some(reach) = lock(&self.reaches).get(&name) {
            return *reach;
        }
        let addresses = tokio::net::lookup_host((name.as_str(), 443)).await.ok();
        let reaches = addresses.into_iter().flatten().map(|address| Reach::of(address.ip()));
        let reach = reaches.min().unwrap_or(Reach::Public);
        lock(&self.reaches).insert(name, reach);
        reach
    }

    /// Sends a request, and returns when the head of the response has arrived.
    pub(super) async fn send(&self, route: Route, out: Outgoing) -> Result<Incoming, Failure> {
        let reach = out.url.host().as_ref().and_then(literal_reach);
        let route = match reach {
            Some(Reach::Loopback) if out.url.scheme() == "http" => Route::Loopback,
            _ => route,
        };
        let slot = self.slot(route)?;
        if let Some(Host::Domain(name)) = out.url.host() {
            lock(&slot.judged).insert(name.to_owned());
        }
        let timeouts = self.wiring.timeouts;
        let patience = if out.method == Method::PUT { timeouts.commit } else { timeouts.idle };
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
                // With an explicit length, hyper does not use chunks, which some registries refuse.
                request = request.header(CONTENT_LENGTH, HeaderValue::from(size)).body(body);
                progress = Some((size, sent));
            }
        }
        self.meter.requests.fetch_add(1, Ordering::Relaxed);
        let answer = request.send();
        let response = match progress {
            None => timeout(timeouts.connect + patience, answer).await.map_err(|_| hung(patience)),
            Some((size, sent)) => watched(answer, timeouts, size, &sent).await,
        }?;
        let response = response.map_err(|error| classify(&error.without_url()))?;
        Ok(Incoming {
            status: response.status(),
            headers: response.headers().clone(),
            url: out.url,
            body: IncomingBody {
                response,
                meter: Arc::clone(&self.meter),
                idle: timeouts.idle,
                window: Duration::ZERO,
                window_bytes: 0,
            },
        })
    }

    fn slot(&self, route: Route) -> Result<Slot, Failure> {
        let mut clients = lock(&self.clients);
        if let Some(slot) = clients.get(&route) {
            return Ok(slot.clone());
        }
        let judged = Arc::<Mutex<BTreeSet<String>>>::default();
        let names = Names {
            fixed: self.wiring.fixed_names.clone(),
            limit: match route {
                Route::Hop(reach) => Some(reach),
                Route::Loopback | Route::Direct => None,
            },
            judged: Arc::clone(&judged),
        };
        let builder = reqwest::Client::builder()
            .user_agent(&self.wiring.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.wiring.timeouts.connect)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .dns_resolver(Arc::new(names))
            .tls_backend_preconfigured(self.tls(route)?);
        let builder = match route == Route::Loopback || !self.wiring.use_system_proxies {
            true => builder.no_proxy(),
            false => builder,
        };
        let client = builder.build().map_err(|error| {
            Failure::fatal(ErrorKind::Tls, "cannot set up an HTTP client").because(&error)
        })?;
        let slot = Slot { client, judged };
        clients.insert(route, slot.clone());
        Ok(slot)
    }

    fn tls(&self, route: Route) -> Result<rustls::ClientConfig, Failure> {
        let fail = |error: &rustls::Error| {
            Failure::fatal(ErrorKind::Tls, "cannot set up TLS on this machine").because(error)
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
        let roots = self.wiring.extra_roots.iter().cloned().map(CertificateDer::from);
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

/// Waits for the response to an upload, as long as the body makes progress.
async fn watched<T>(
    answer: impl Future<Output = T>,
    timeouts: Timeouts,
    size: u64,
    sent: &AtomicU64,
) -> Result<T, Failure> {
    let mut answer = std::pin::pin!(answer);
    let mut before = None;
    loop {
        let now = sent.load(Ordering::Relaxed);
        let patience = if now >= size { timeouts.commit } else { timeouts.idle };
        // The first round includes the time for connecting.
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

fn hung(patience: Duration) -> Failure {
    let detail = format!("there was no response for {:.1} s", patience.as_secs_f32());
    Failure::passing(ErrorKind::Timeout, detail)
}

impl IncomingBody {
    /// Returns the length in the head of the response.
    pub(super) fn stated_length(&self) -> Option<u64> {
        let text = self.response.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
        text.parse().ok()
    }

    /// Returns the next chunk, or `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let started = Instant::now();
        let chunk = timeout(self.idle, self.response.chunk())
            .await
            .map_err(|_| {
                let seconds = self.idle.as_secs_f32();
                let detail = format!("the transfer stalled for {seconds:.1} s");
                Failure::passing(ErrorKind::Timeout, detail)
            })?
            .map_err(|error| classify(&error.without_url()))?;
        let Some(chunk) = chunk else { return Ok(None) };
        self.meter.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        // Only time spent waiting for the server counts, not the consumer's.
        self.window += started.elapsed();
        self.window_bytes += chunk.len() as u64;
        if self.window >= self.idle {
            if u128::from(self.window_bytes) * 1000
                < u128::from(LEAST_SPEED) * self.idle.as_millis()
            {
                let detail = format!("the transfer was slower than {LEAST_SPEED} bytes per second");
                return Err(Failure::passing(ErrorKind::Timeout, detail));
            }
            self.window = Duration::ZERO;
            self.window_bytes = 0;
        }
        Ok(Some(chunk))
    }

    /// Reads a small document of at most `cap` bytes within `limit`.
    pub(super) async fn collect(mut self, cap: u64, limit: Duration) -> Result<Bytes, Failure> {
        let too_large = || {
            let detail = format!("the response is larger than the limit of {cap} bytes");
            Failure::fatal(ErrorKind::TooLarge, detail)
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
            Err(Failure::passing(ErrorKind::Timeout, detail))
        })
    }
}
