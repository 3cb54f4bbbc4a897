//! Sends one HTTP request and reads its answer: connections, timeouts, counters, nothing more.
//!
//! There are several `reqwest` clients, made when first needed. The one for this machine has no
//! TLS roots and no proxy, because loading roots takes longer than a whole derive. The ones for
//! redirects and token servers check every address that the resolver gives them against the
//! registry's own [`Reach`], at the moment of connecting, so that a second look-up cannot give
//! another answer. Behind a proxy it is the proxy that resolves names; there only literal
//! addresses can be judged.

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

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// Until the next byte comes or goes.
    pub idle: Duration,
    /// Until a small document (manifest, config, token) is read whole.
    pub document: Duration,
    /// Until a registry has stored a blob after its last byte; some copy it once more.
    pub commit: Duration,
}

impl Default for Timeouts {
    /// Connect 10 s and idle 30 s, as uv; a document 60 s; a commit 5 min.
    fn default() -> Self {
        let [connect, idle, document, commit] = [10, 30, 60, 300].map(Duration::from_secs);
        Self { connect, idle, document, commit }
    }
}

/// The least speed, in bytes per second over the idle time, below which a transfer counts as hung. A
/// layer of 100 MB would take a day at it.
const LEAST_SPEED: u64 = 1000;

/// What went over the wire so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, those for tokens and redirects included.
    pub requests: u64,
    /// Bytes of answer bodies.
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

/// A name whose address the caller fixes, as curl's `--connect-to` does; for tests and oddly
/// built networks.
#[derive(Debug, Clone)]
pub struct FixedName {
    /// The host name.
    pub name: String,
    /// Where connections to it go.
    pub address: IpAddr,
    /// Where the host counts as being when redirects are judged.
    pub reach: Reach,
}

/// What the connections are made with.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    pub(super) timeouts: Timeouts,
    pub(super) user_agent: String,
    pub(super) use_system_proxies: bool,
    pub(super) extra_roots: Vec<Vec<u8>>,
    pub(super) fixed_names: Vec<FixedName>,
}

/// Which of the clients a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// To this machine.
    Loopback,
    /// To a registry that the caller named.
    Direct,
    /// To a host that a registry named; addresses further inward than this are refused.
    Hop(Reach),
}

/// A request, ready to go.
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
    /// A body of known size, and how far it has got.
    Stream(reqwest::Body, u64, Arc<AtomicU64>),
}

/// An answer whose body is not read yet.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) body: IncomingBody,
}

/// The body of an answer.
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

/// Locks a mutex; no holder can leave these maps half changed.
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

    /// Returns where the host of `url` lies: the least inward of its addresses.
    ///
    /// A name that cannot be resolved here counts as public: a proxy will resolve it.
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

    /// Sends a request and returns when the head of its answer is there.
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
                // hyper takes an explicit length over chunks, which some registries refuse.
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
            Failure::fatal(ErrorKind::Tls, "no HTTP client can be set up").because(&error)
        })?;
        let slot = Slot { client, judged };
        clients.insert(route, slot.clone());
        Ok(slot)
    }

    fn tls(&self, route: Route) -> Result<rustls::ClientConfig, Failure> {
        let fail = |error: &rustls::Error| {
            Failure::fatal(ErrorKind::Tls, "TLS cannot be set up on this machine").because(error)
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

/// Waits for an answer to an upload, for as long as the body moves.
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
        // The first round has the time of the connection as well.
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
    let detail = format!("there was no answer for {:.1} s", patience.as_secs_f32());
    Failure::passing(ErrorKind::Timeout, detail)
}

impl IncomingBody {
    /// Returns the length that the head of the answer states.
    pub(super) fn stated_length(&self) -> Option<u64> {
        let text = self.response.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
        text.parse().ok()
    }

    /// Returns the next piece, or nothing at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let started = Instant::now();
        let chunk = timeout(self.idle, self.response.chunk())
            .await
            .map_err(|_| {
                let seconds = self.idle.as_secs_f32();
                let detail = format!("the transfer stood still for {seconds:.1} s");
                Failure::passing(ErrorKind::Timeout, detail)
            })?
            .map_err(|error| classify(&error.without_url()))?;
        let Some(chunk) = chunk else { return Ok(None) };
        self.meter.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        // Only the time spent waiting for the server counts, not what the consumer takes.
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

    /// Reads the whole of a small document, of at most `cap` bytes and within `limit`.
    pub(super) async fn collect(mut self, cap: u64, limit: Duration) -> Result<Bytes, Failure> {
        let too_large = || {
            let detail = format!("the answer is larger than the {cap} bytes that are read");
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
            let detail = format!("the answer was not whole within {:.1} s", limit.as_secs_f32());
            Err(Failure::passing(ErrorKind::Timeout, detail))
        })
    }
}
