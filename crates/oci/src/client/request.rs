//! Carries one request to a registry through: scheme, authentication, redirects, verdict.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode};
use url::Url;

use super::auth::Scope;
use super::broken::NOT_CONNECTED;
use super::endpoint::Endpoint;
use super::error::{Again, ErrorKind, Failure};
use super::retry::not_before;
use super::secrets::Secrets;
use super::transport::{Body, Incoming, Outgoing, Route, lock};
use super::{Session, text};
use crate::policy::{check_hop, check_upload, is_same_host};

/// The length from which a value in the URL of a redirect may be a signature.
const SHORTEST_SIGNATURE: usize = 20;
/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;
/// The most that is read of an error's body.
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

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A path on the registry, without a slash in front.
    Path(String),
    /// A place the registry itself named for an upload; it is checked already.
    Upload(Url),
}

/// By which scheme a host is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Https,
    Http,
    /// Http is allowed, and nothing is known yet.
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
    /// A request without a body for `what` (`manifests/x`, `blobs/x`) in the place's repository.
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

    /// Returns the same request once more, where its body can be sent once more.
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
    /// Sends `ask`, authenticates where asked to, and follows redirects of reads.
    pub(super) async fn request(&self, ask: Ask<'_>) -> Result<Incoming, Failure> {
        let place = ask.place;
        let scheme = self.scheme(place);
        if scheme != Scheme::MaybeHttp {
            return self.request_by(scheme, ask).await;
        }
        // First contact with a host that may speak either: http first, as nothing secret is sent
        // before it asks, then https where the answer shows that it does not speak http.
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
            && let Ok(answer) = self.request_by(Scheme::Https, again).await
        {
            lock(&self.schemes).insert(place.host.clone(), Scheme::Https);
            return Ok(answer);
        }
        if answer.is_ok() {
            lock(&self.schemes).insert(place.host.clone(), Scheme::Http);
        }
        answer
    }

    fn scheme(&self, place: &Endpoint) -> Scheme {
        match place.is_plain {
            false => Scheme::Https,
            true => lock(&self.schemes).get(&place.host).copied().unwrap_or(Scheme::MaybeHttp),
        }
    }

    async fn request_by(&self, scheme: Scheme, ask: Ask<'_>) -> Result<Incoming, Failure> {
        let base = ask.place.base(scheme.name())?;
        let url = match &ask.target {
            Target::Upload(url) => url.clone(),
            Target::Path(path) => base.join(path).map_err(|error| {
                Failure::fatal(ErrorKind::Protocol, "the request has no valid URL").because(&error)
            })?,
        };
        let again = ask.replay();
        let (answer, auth) = self.send_once(&base, url.clone(), ask).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return self.follow(&base, answer, auth, again).await;
        }
        let Some(ask) = again else {
            // A body that is gone cannot be sent again here; the upload starts over.
            let detail = "the registry wanted a new token in the middle of an upload";
            return Err(Failure::passing(ErrorKind::Authentication, detail));
        };
        let again = ask.replay();
        let place = ask.place;
        let asked = (place, &base, ask.scopes.as_slice());
        self.auth.learn(&self.transport, asked, &answer.headers, auth.as_ref()).await?;
        self.drain(answer).await;
        let (answer, auth) = self.send_once(&base, url, ask).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return self.follow(&base, answer, auth, again).await;
        }
        let given = match self.auth.has_credential(place).await {
            true => format!("it refuses the credential stored for `{}`", place.host),
            false => format!("it wants a credential, and none is stored for `{}`", place.host),
        };
        let limit = self.transport.timeouts().document;
        let said = said(answer, &self.auth.secrets(), limit).await;
        Err(Failure::fatal(ErrorKind::Authentication, format!("{given}{said}")))
    }

    /// Reads the rest of an answer nobody needs, so that its connection can be used again.
    async fn drain(&self, answer: Incoming) {
        drop(answer.body.collect(MAX_ERROR_BODY, self.transport.timeouts().idle).await);
    }

    /// Sends `ask` as it is, with the authorization known so far, which is returned too.
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

    /// Follows redirects of a read. The authorization goes along only to the registry itself.
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
            let reach = self.transport.reach_of(base).await;
            check_hop(base, reach, &answer.url, &to).map_err(|refusal| {
                let detail =
                    format!("its redirect to `{}` is refused: {refusal}", text::clean(to.as_str()));
                Failure::fatal(ErrorKind::Refused, detail)
            })?;
            // Whoever has the signature of a signed URL has what lies there.
            let signatures =
                to.query_pairs().filter(|(_, value)| value.len() >= SHORTEST_SIGNATURE);
            signatures.for_each(|(_, value)| self.auth.secrets().remember(&value));
            let mut headers = ask.headers.clone();
            let is_home = is_same_host(base, &to);
            if let Some(auth) = auth.as_ref().filter(|_| is_home && to.scheme() == base.scheme()) {
                headers.insert(AUTHORIZATION, auth.clone());
            }
            let route = if is_home { Route::Direct } else { Route::Hop(reach) };
            let body = Body::Bytes(Bytes::new());
            let out = Outgoing { method: ask.method.clone(), url: to, headers, body };
            self.drain(answer).await;
            answer = self.transport.send(route, out).await?;
        }
        let detail = format!("it redirects more than {MAX_REDIRECTS} times");
        Err(Failure::fatal(ErrorKind::Refused, detail))
    }

    /// Returns where the registry says that an upload goes on.
    pub(super) fn upload_location(
        &self,
        place: &Endpoint,
        answer: &Incoming,
    ) -> Result<Url, Failure> {
        let to = location(answer)?;
        let base = place.base(answer.url.scheme())?;
        check_upload(&base, &to).map_err(|refusal| {
            let detail =
                format!("its upload location `{}` is refused: {refusal}", text::clean(to.as_str()));
            Failure::fatal(ErrorKind::Refused, detail)
        })?;
        Ok(to)
    }

    /// Reads the answer's body and makes a failure of its status.
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

/// Returns what an error's body says, with `: ` in front; empty where it says nothing.
async fn said(answer: Incoming, secrets: &Secrets, limit: Duration) -> String {
    let body = answer.body.collect(MAX_ERROR_BODY, limit).await.unwrap_or_default();
    // Before it is cut: a secret that is cut in half is not found any more.
    let body = secrets.scrub(String::from_utf8_lossy(&body).into_owned());
    text::error_body(&body).map(|said| format!(": {said}")).unwrap_or_default()
}

/// Makes a failure of an answer of `who` that is none of those a request can do with.
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
