//! Performs one request to a registry: scheme, authentication, redirects, and the result.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use net::{
    Body, Incoming, NOT_CONNECTED, Outgoing, Route, check_hop, check_upload, clean, is_same_host,
    lock,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode};
use url::Url;

use super::auth::Scope;
use super::endpoint::Endpoint;
use super::error::{Again, ErrorKind, Failure};
use super::retry::not_before;
use super::secrets::Secrets;
use super::{Session, text};

/// The minimum length at which a value in a redirect URL may be a signature.
const SHORTEST_SIGNATURE: usize = 20;
/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// The maximum size of an error's body.
const MAX_ERROR_BODY: u64 = 64 << 10;

/// A request to a registry.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) place: &'a Endpoint,
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    pub(super) scopes: Vec<Scope>,
}

/// The target of a request.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A path on the registry, without a leading slash.
    Path(String),
    /// An upload location that the registry returned. It has already been checked.
    Upload(Url),
}

/// The scheme that a host supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Https,
    Http,
    /// Plain http is allowed, but the client does not know yet whether the host supports it.
    MaybeHttp,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http | Self::MaybeHttp => "http",
        }
    }
}

impl<'a> Ask<'a> {
    /// Returns a request without a body for `what` (`manifests/x`, `blobs/x`) in the location's
    /// repository.
    pub(super) fn new(place: &'a Endpoint, method: Method, what: &str) -> Self {
        let is_push = !matches!(method, Method::GET | Method::HEAD);
        Self {
            place,
            method,
            target: Target::Path(format!("v2/{}/{what}", place.path)),
            headers: HeaderMap::new(),
            body: Body::Bytes(Bytes::new()),
            scopes: vec![Scope { path: place.path.clone(), is_push }],
        }
    }

    /// Returns the same request again, if its body can be sent again.
    fn replay(&self) -> Option<Self> {
        let body = match &self.body {
            Body::Bytes(bytes) => Body::Bytes(bytes.clone()),
            Body::Stream(..) => return None,
        };
        let target = self.target.clone();
        let (headers, scopes) = (self.headers.clone(), self.scopes.clone());
        Some(Self { place: self.place, method: self.method.clone(), target, headers, body, scopes })
    }
}

impl Session {
    /// Sends `ask`, authenticates if required, and follows redirects of reads.
    pub(super) async fn request(&self, ask: Ask<'_>) -> Result<Incoming, Failure> {
        let place = ask.place;
        let scheme = self.scheme(place);
        if scheme != Scheme::MaybeHttp {
            return self.request_by(scheme, ask).await;
        }
        // First contact with a host that may support either scheme: http first, because nothing
        // secret is sent before the host asks, then https if the response shows that the host does
        // not speak http.
        let again = ask.replay();
        let answer = self.request_by(Scheme::Http, ask).await;
        let may_speak_tls = match &answer {
            Ok(answer) => answer.status == StatusCode::BAD_REQUEST,
            Err(failure) => {
                matches!(failure.kind, ErrorKind::Protocol | ErrorKind::Unreachable)
                    && failure.detail != NOT_CONNECTED
            }
        };
        if let Some(again) = again.filter(|_| may_speak_tls)
            && let Ok(https_answer) = self.request_by(Scheme::Https, again).await
        {
            lock(&self.schemes).insert(place.host.clone(), Scheme::Https);
            return Ok(https_answer);
        }
        if answer.is_ok() {
            lock(&self.schemes).insert(place.host.clone(), Scheme::Http);
        }
        answer
    }

    fn scheme(&self, place: &Endpoint) -> Scheme {
        if !place.is_plain {
            Scheme::Https
        } else {
            lock(&self.schemes).get(&place.host).copied().unwrap_or(Scheme::MaybeHttp)
        }
    }

    async fn request_by(&self, scheme: Scheme, ask: Ask<'_>) -> Result<Incoming, Failure> {
        let base = ask.place.base(scheme.name())?;
        let url = match &ask.target {
            Target::Upload(url) => url.clone(),
            Target::Path(path) => base.join(path).map_err(|error| {
                Failure::fatal(ErrorKind::Protocol, "the request does not have a valid URL")
                    .because(&error)
            })?,
        };
        let again = ask.replay();
        let (answer, auth) = self.send_once(&base, url.clone(), ask).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return self.follow(&base, answer, auth, again).await;
        }
        let Some(retry) = again else {
            // A consumed body cannot be sent again here, so the upload starts over.
            let detail = "the registry requested a new token in the middle of an upload";
            return Err(Failure::passing(ErrorKind::Authentication, detail));
        };
        let for_redirects = retry.replay();
        let place = retry.place;
        let asked = (place, &base, retry.scopes.as_slice());
        self.auth.learn(&self.transport, asked, &answer.headers, auth.as_ref()).await?;
        self.drain(answer).await;
        let (retry_answer, retry_auth) = self.send_once(&base, url, retry).await?;
        if retry_answer.status != StatusCode::UNAUTHORIZED {
            return self.follow(&base, retry_answer, retry_auth, for_redirects).await;
        }
        let given = if self.auth.has_credential(place).await {
            format!("it rejects the credential stored for `{}`", place.host)
        } else {
            format!("it requires a credential, but none is stored for `{}`", place.host)
        };
        let limit = self.transport.timeouts().document;
        let said = said(retry_answer, &self.auth.secrets(), limit).await;
        Err(Failure::fatal(ErrorKind::Authentication, format!("{given}{said}")))
    }

    /// Reads and drops the rest of a response, so that its connection can be reused.
    async fn drain(&self, answer: Incoming) {
        drop(answer.body.collect(MAX_ERROR_BODY, self.transport.timeouts().idle).await);
    }

    /// Sends `ask` once with the current authorization. Returns the response and the authorization.
    async fn send_once(
        &self,
        base: &Url,
        url: Url,
        ask: Ask<'_>,
    ) -> Result<(Incoming, Option<HeaderValue>), Failure> {
        let Ask { place, method, mut headers, body, scopes, .. } = ask;
        let auth = self.auth.header(&self.transport, place, base, &scopes).await?;
        if let Some(auth) = &auth {
            headers.insert(AUTHORIZATION, auth.clone());
        }
        let out = Outgoing { method, url, headers, body };
        Ok((self.transport.send(Route::Direct, out).await?, auth))
    }

    /// Follows redirects of a read. The authorization is sent only to the registry itself.
    async fn follow(
        &self,
        base: &Url,
        mut answer: Incoming,
        auth: Option<HeaderValue>,
        again: Option<Ask<'_>>,
    ) -> Result<Incoming, Failure> {
        let Some(ask) = again.filter(|ask| matches!(ask.method, Method::GET | Method::HEAD)) else {
            return Ok(answer);
        };
        for _ in 0..=MAX_REDIRECTS {
            if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let to = location(&answer)?;
            let address_scope = self.transport.scope_of(base).await;
            check_hop(base, address_scope, &answer.url, &to).map_err(|refusal| {
                let detail =
                    format!("its redirect to `{}` is not allowed: {refusal}", clean(to.as_str()));
                Failure::fatal(ErrorKind::Refused, detail)
            })?;
            // The signature in a signed URL gives access to the content.
            let signatures =
                to.query_pairs().filter(|(_, value)| value.len() >= SHORTEST_SIGNATURE);
            signatures.for_each(|(_, value)| self.auth.secrets().remember(&value));
            let mut headers = ask.headers.clone();
            let is_home = is_same_host(base, &to);
            if let Some(auth) = auth.as_ref().filter(|_| is_home && to.scheme() == base.scheme()) {
                headers.insert(AUTHORIZATION, auth.clone());
            }
            let route = if is_home { Route::Direct } else { Route::Hop(address_scope) };
            let body = Body::Bytes(Bytes::new());
            let out = Outgoing { method: ask.method.clone(), url: to, headers, body };
            self.drain(answer).await;
            answer = self.transport.send(route, out).await?;
        }
        let detail = format!("it redirects more than {MAX_REDIRECTS} times");
        Err(Failure::fatal(ErrorKind::Refused, detail))
    }

    /// Returns the location at which the registry continues an upload.
    pub(super) fn upload_location(
        &self,
        place: &Endpoint,
        answer: &Incoming,
    ) -> Result<Url, Failure> {
        let to = location(answer)?;
        let base = place.base(answer.url.scheme())?;
        check_upload(&base, &to).map_err(|refusal| {
            let detail =
                format!("its upload location `{}` is not allowed: {refusal}", clean(to.as_str()));
            Failure::fatal(ErrorKind::Refused, detail)
        })?;
        Ok(to)
    }

    /// Reads the body of a response, and turns its status into a failure.
    pub(super) async fn failure(&self, place: &Endpoint, answer: Incoming) -> Failure {
        let base = place.base(answer.url.scheme());
        let who = match (base, answer.url.host_str(), answer.url.port()) {
            (Ok(base), ..) if is_same_host(&base, &answer.url) => "it".to_owned(),
            (_, Some(host), Some(port)) => format!("`{host}:{port}`"),
            (_, host, _) => format!("`{}`", host.unwrap_or_default()),
        };
        let limit = self.transport.timeouts().document;
        status_failure(answer, &who, &self.auth.secrets(), limit).await
    }
}

fn location(answer: &Incoming) -> Result<Url, Failure> {
    let status = answer.status.as_u16();
    let missing = || {
        let detail = format!("it answered {status} without a valid `Location`");
        Failure::fatal(ErrorKind::Protocol, detail)
    };
    let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).ok_or_else(missing)?;
    answer.url.join(to).map_err(|_| missing())
}

/// Returns the message in an error's body, with `: ` in front, or an empty string if there is none.
async fn said(answer: Incoming, secrets: &Secrets, limit: Duration) -> String {
    let body = answer.body.collect(MAX_ERROR_BODY, limit).await.unwrap_or_default();
    // This must happen before the text is truncated, because a truncated secret would not be found.
    let body = secrets.scrub(String::from_utf8_lossy(&body).into_owned());
    text::error_body(&body).map(|said| format!(": {said}")).unwrap_or_default()
}

/// Turns an unexpected response from `who` into a failure.
pub(super) async fn status_failure(
    answer: Incoming,
    who: &str,
    secrets: &Secrets,
    limit: Duration,
) -> Failure {
    let status = answer.status;
    let (kind, may_pass) = match status.as_u16() {
        401 => (ErrorKind::Authentication, false),
        403 => (ErrorKind::Denied, false),
        404 => (ErrorKind::NotFound, false),
        408 => (ErrorKind::Timeout, true),
        429 => (ErrorKind::RateLimited { until: None }, true),
        500 | 502 | 503 | 504 => (ErrorKind::Registry, true),
        501 | 505.. => (ErrorKind::Registry, false),
        _ => (ErrorKind::Protocol, false),
    };
    let again = match not_before(&answer.headers, SystemTime::now()) {
        _ if !may_pass => Again::No,
        Some(time) => Again::NotBefore(time),
        None => Again::Yes,
    };
    let said = said(answer, secrets, limit).await;
    Failure { again, ..Failure::fatal(kind, format!("{who} answered {status}{said}")) }
}
