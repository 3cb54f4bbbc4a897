//! The common code for all servers of sources: time limits, redirects, and the meaning of statuses.
//! The crate `net` sends the requests.

use std::time::{Duration, SystemTime};

use net::{Body, Incoming, Outgoing, Route, Transport, is_same_host};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::address::SourceUrl;
use crate::error::{Again, ErrorKind, Failure};
use crate::text;

/// The minimum speed, in bytes per second over the idle time. A slower transfer counts as hung.
/// This is cargo's limit.
pub(crate) const LEAST_SPEED: u64 = 10;

/// The time limits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// The limit for establishing a connection, including TLS.
    pub connect: Duration,
    /// The limit for the next byte to arrive.
    pub idle: Duration,
    /// The limit for another process to release a part of the cache.
    pub lock: Duration,
}

impl Default for Timeouts {
    /// Connect 10 s, like uv; idle 60 s, because a server may count objects for a while; lock 1 h.
    fn default() -> Self {
        let [connect, idle, lock] = [10, 60, 3600].map(Duration::from_secs);
        Self { connect, idle, lock }
    }
}

/// Sends a request, and returns when the head of the response has arrived. Redirects are not
/// followed. `route` sets how public the host's addresses must be.
pub(crate) async fn send(
    web: &Transport,
    route: Route,
    method: Method,
    url: &Url,
    headers: &[(HeaderName, &str)],
    body: Vec<u8>,
) -> Result<Incoming, Failure> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value)
            .map_err(|_| Failure::refused("a header would contain a line break"))?;
        all.append(name, value);
    }
    let body = Body::Bytes(body.into());
    let request = Outgoing { method, url: url.clone(), headers: all, body };
    web.send(route, request).await.map_err(|error| match error.kind {
        net::ErrorKind::Refused => refused_redirect(url, INWARD),
        _ => error.into(),
    })
}

/// Why a redirect into an internal network is not followed.
pub(crate) const INWARD: &str = "it leads to a network that is less public than the server's";

/// Returns the error for a redirect that is not followed.
pub(crate) fn refused_redirect(to: &Url, why: &str) -> Failure {
    let shown = shown(to);
    Failure::refused(format!("the redirect to {shown} is not followed: {why}"))
}

/// Returns the URL from a redirect for display, without its query, user name and password, because
/// these may be secret.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    let _ = shown.set_password(None).and_then(|()| shown.set_username(""));
    text::quoted(shown.as_str())
}

/// Returns the target of a redirect, if the response is one.
pub(crate) fn redirect_target(answer: &Incoming) -> Option<Url> {
    let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
    to.filter(|_| answer.status.is_redirection()).and_then(|to| answer.url.join(to).ok())
}

/// Turns an unexpected status into a failure. `from` is the URL that was requested first, and `what`
/// names the object.
pub(crate) fn status_failure(answer: &Incoming, from: &SourceUrl, what: &str) -> Failure {
    redirected(from, &answer.url, of_status(answer, what))
}

/// Names the host that answered, if the server of `from` redirected the request to it.
pub(crate) fn redirected(from: &SourceUrl, to: &Url, failure: Failure) -> Failure {
    let is_named = matches!(failure.kind, ErrorKind::Refused | ErrorKind::NoMirror);
    if is_named || is_same_host(from.url(), to) {
        return failure;
    }
    let detail = format!("{} (after a redirect to {})", failure.detail, shown(to));
    Failure { detail, ..failure }
}

fn of_status(answer: &Incoming, what: &str) -> Failure {
    let status = answer.status;
    match status.as_u16() {
        401 => Failure::fatal(
            ErrorKind::Authentication,
            format!("the server asks for a password: there is no such {what}, or it is not public"),
        ),
        403 => Failure::fatal(
            ErrorKind::Authentication,
            format!("the server denied the request with status {status}"),
        ),
        407 => Failure::fatal(
            ErrorKind::Proxy,
            format!("the proxy requires credentials (status {status})"),
        ),
        404 | 410 => Failure::fatal(ErrorKind::NotFound, format!("there is no such {what}")),
        408 | 425 | 429 | 500..=599 => {
            let failure = if status == StatusCode::TOO_MANY_REQUESTS {
                let detail = format!("the server limits the request rate (status {status})");
                Failure::passing(ErrorKind::RateLimited, detail)
            } else {
                let detail = format!("the server failed with status {status}");
                Failure::passing(ErrorKind::Server, detail)
            };
            let now = SystemTime::now();
            let time = answer.headers.get(RETRY_AFTER);
            match time.and_then(|value| net::retry_time(value.to_str().ok()?, now)) {
                Some(time) => {
                    let wait = time.duration_since(now).unwrap_or_default();
                    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                    Failure { again: Again::After(seconds), ..failure }
                }
                None => failure,
            }
        }
        _ => Failure::fatal(ErrorKind::Tool, format!("the server answered with status {status}")),
    }
}
