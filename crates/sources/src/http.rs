//! Sends HTTP requests and reads responses: timeouts and statuses, independent of the content.
//!
//! Redirects are never followed here; the caller decides. The client for this machine has no TLS
//! roots and no proxy.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use oci::policy::Reach;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;
use url::Url;

use crate::error::{Again, ErrorKind, Failure};

/// The minimum speed, in bytes per second over the idle time. A slower transfer counts as hung.
/// This is cargo's limit.
const LEAST_SPEED: u64 = 10;

/// The time limits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a connection is established, including TLS.
    pub connect: Duration,
    /// Until the next byte is received.
    pub idle: Duration,
    /// Until another process releases a part of the cache.
    pub lock: Duration,
}

impl Default for Timeouts {
    /// Connect 10 s, like uv; idle 60 s, because a server may count objects for a while; lock 1 h.
    fn default() -> Self {
        let [connect, idle, lock] = [10, 60, 3600].map(Duration::from_secs);
        Self { connect, idle, lock }
    }
}

/// The settings for connections.
#[derive(Debug, Clone)]
pub(crate) struct Wiring {
    pub(crate) timeouts: Timeouts,
    pub(crate) use_system_proxies: bool,
    pub(crate) extra_roots: Vec<Vec<u8>>,
}

/// Creates the HTTP clients when they are first needed.
#[derive(Debug)]
pub(crate) struct Web {
    wiring: Wiring,
    inner: OnceLock<reqwest::Client>,
    outer: OnceLock<reqwest::Client>,
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) struct Body {
    response: reqwest::Response,
    pace: Pace,
}

/// Measures the speed of a transfer.
#[derive(Debug)]
pub(crate) struct Pace {
    idle: Duration,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(idle: Duration) -> Self {
        Self { idle, waited: Duration::ZERO, bytes: 0 }
    }

    /// Waits for the next bytes, within the limits.
    pub(crate) async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Failure> {
        let started = Instant::now();
        let result = timeout(self.idle, next).await.map_err(|_| {
            let detail = format!("the transfer stalled for {:.1} s", self.idle.as_secs_f32());
            Failure::passing(ErrorKind::Timeout, detail)
        });
        // Only time spent waiting for the server counts, not the consumer's.
        self.waited += started.elapsed();
        result
    }

    /// Counts received bytes.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes as u64;
        if self.waited >= self.idle {
            if self.bytes < LEAST_SPEED * self.idle.as_secs().max(1) {
                let detail = format!("the transfer was slower than {LEAST_SPEED} bytes per second");
                return Err(Failure::passing(ErrorKind::Timeout, detail));
            }
            self.waited = Duration::ZERO;
            self.bytes = 0;
        }
        Ok(())
    }
}

impl Body {
    /// Returns the next chunk, or `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let chunk = self.pace.wait(self.response.chunk()).await?;
        let chunk = chunk.map_err(|error| classify(&error.without_url()))?;
        self.pace.count(chunk.as_ref().map_or(0, Bytes::len))?;
        Ok(chunk)
    }
}

impl Web {
    pub(crate) fn new(wiring: Wiring) -> Self {
        Self { wiring, inner: OnceLock::new(), outer: OnceLock::new() }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.wiring.timeouts
    }

    /// Sends a request, and returns when the head of the response has arrived.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Incoming, Failure> {
        let client = self.client(url)?;
        let mut request = client.request(method, url.clone());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Failure::refused("a header would contain a line break"))?;
            request = request.header(name, value);
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        let Timeouts { connect, idle, .. } = self.wiring.timeouts;
        let response = timeout(connect + idle, request.send()).await.map_err(|_| {
            let detail =
                format!("there was no response for {:.1} s", (connect + idle).as_secs_f32());
            Failure::passing(ErrorKind::Timeout, detail)
        })?;
        let response = response.map_err(|error| classify(&error.without_url()))?;
        Ok(Incoming {
            status: response.status(),
            headers: response.headers().clone(),
            body: Body { response, pace: Pace::new(idle) },
        })
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, Failure> {
        let reach = url.host().as_ref().and_then(oci::policy::literal_reach);
        let is_inner = url.scheme() == "http" && reach == Some(Reach::Loopback);
        let slot = if is_inner { &self.inner } else { &self.outer };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .user_agent(crate::git::AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.wiring.timeouts.connect)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .tls_backend_preconfigured(self.tls(is_inner)?);
        let builder = match is_inner || !self.wiring.use_system_proxies {
            true => builder.no_proxy(),
            false => builder,
        };
        let client = builder.build().map_err(|error| {
            Failure::fatal(ErrorKind::Tool, "cannot set up an HTTP client").because(&error)
        })?;
        Ok(slot.get_or_init(|| client))
    }

    fn tls(&self, is_inner: bool) -> Result<rustls::ClientConfig, Failure> {
        let fail = |error: &rustls::Error| {
            Failure::fatal(ErrorKind::Tool, "cannot set up TLS on this machine").because(error)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(&error))?;
        if is_inner {
            let no_roots = rustls::RootCertStore::empty();
            return Ok(builder.with_root_certificates(no_roots).with_no_client_auth());
        }
        let roots = self.wiring.extra_roots.iter().cloned().map(CertificateDer::from);
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider)
            .map_err(|error| fail(&error))?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Returns the target of a redirect, if the response is one.
pub(crate) fn redirect_target(from: &Url, answer: &Incoming) -> Option<Url> {
    let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
    to.filter(|_| answer.status.is_redirection()).and_then(|to| from.join(to).ok())
}

/// Maps an unexpected status. `what` is what was requested.
pub(crate) fn status_failure(answer: &Incoming, what: &str) -> Failure {
    let status = answer.status;
    match status.as_u16() {
        401 => Failure::fatal(
            ErrorKind::Authentication,
            format!("the server asks for a password: there is no such {what}, or it is not public"),
        ),
        403 | 407 => Failure::fatal(
            ErrorKind::Authentication,
            format!("the server or a proxy denied the request with status {status}"),
        ),
        404 | 410 => Failure::fatal(ErrorKind::NotFound, format!("there is no such {what}")),
        408 | 425 | 429 | 500..=599 => {
            let failure = Failure::passing(
                ErrorKind::Unreachable,
                format!("the server failed with status {status}"),
            );
            match answer.headers.get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?)) {
                Some(seconds) => Failure { again: Again::After(seconds), ..failure },
                None => failure,
            }
        }
        _ => Failure::fatal(ErrorKind::Tool, format!("the server answered with status {status}")),
    }
}

/// Parses `Retry-After`: seconds, or a date.
fn seconds(value: &str) -> Option<u64> {
    value.trim().parse().ok().or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(date.duration_since(SystemTime::now()).map_or(0, |wait| wait.as_secs() + 1))
    })
}

/// Classifies an error of the HTTP client by its causes.
fn classify(error: &reqwest::Error) -> Failure {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = next {
        // `source` does not return the inner error of an `io::Error`.
        let inner = one.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let judged = inner.map_or(one, |inner| inner as &(dyn std::error::Error + 'static));
        if let Some(tls) = judged.downcast_ref::<rustls::Error>() {
            let detail = match tls {
                rustls::Error::InvalidCertificate(_) => "its certificate is not trusted",
                _ => "TLS failed",
            };
            return Failure::fatal(ErrorKind::Refused, detail).because(error);
        }
        if judged.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return Failure::fatal(ErrorKind::Tool, "the response is not HTTP").because(error);
        }
        next = judged.source();
    }
    let (kind, detail) = match () {
        () if error.is_timeout() => {
            (ErrorKind::Timeout, "the connection was not established in time")
        }
        () if error.is_connect() => (ErrorKind::Unreachable, "cannot connect"),
        () => (ErrorKind::Unreachable, "the connection broke"),
    };
    Failure::passing(kind, detail).because(error)
}
