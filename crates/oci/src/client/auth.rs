//! Authentication: learns from a 401 what a registry requires, and gets tokens.
//!
//! No credential is sent before a registry requires one. It is sent only to the host that it is
//! stored for, and to the token server that this host names in its 401. [`check_realm`] decides
//! which token servers are acceptable. Redirects of token servers are not followed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use net::{Body, Incoming, Outgoing, Route, Transport, check_realm, clean, lock, quoted};
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use url::Url;

use super::challenge;
use super::endpoint::Endpoint;
use super::error::{ErrorKind, Failure};
use super::request::status_failure;
use super::secrets::Secrets;
use crate::credentials::{Credential, CredentialFiles};

/// The maximum size of a token server's response.
const MAX_TOKEN_ANSWER: u64 = 1 << 20;
/// The lifetime of a token if the server specifies none, in seconds (distribution specification,
/// "Token").
const DEFAULT_LIFE: u64 = 60;
/// A token is renewed this long before it expires, so that it does not expire during a request.
const MARGIN: Duration = Duration::from_secs(10);

/// The permission that a request needs: one set of actions on one repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scope {
    /// The path of the repository.
    pub(super) path: String,
    /// Whether write access is needed in addition to read access.
    pub(super) is_push: bool,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions = if self.is_push { "pull,push" } else { "pull" };
        write!(f, "repository:{}:{actions}", self.path)
    }
}

/// The authentication method of a registry.
#[derive(Debug, Clone)]
enum AuthMethod {
    Basic,
    Bearer { realm: Url, service: Option<String> },
}

/// A token, or the lack of one, for one host and one set of scopes.
#[derive(Default)]
struct Token {
    header: Option<HeaderValue>,
    ends: Option<Instant>,
}

type TokenSlot = Arc<tokio::sync::Mutex<Token>>;

/// Everything that is known about authentication, per host.
#[derive(Default)]
pub(super) struct Authorizer {
    files: CredentialFiles,
    methods: Mutex<BTreeMap<String, AuthMethod>>,
    tokens: Mutex<BTreeMap<(String, Vec<Scope>), TokenSlot>>,
    credentials: tokio::sync::Mutex<BTreeMap<(String, String), Option<Credential>>>,
    secrets: Arc<Secrets>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A token server's response. It has the token as `token` or as `access_token`.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<f64>,
}

impl Authorizer {
    pub(super) fn new(files: CredentialFiles) -> Self {
        Self { files, ..Self::default() }
    }

    /// Returns the `Authorization` header for a request to `place`. Returns `None` if the registry
    /// has not required one, or requires Basic authentication and no password is stored.
    pub(super) async fn header(
        &self,
        transport: &Transport,
        place: &Endpoint,
        base: &Url,
        scopes: &[Scope],
    ) -> Result<Option<HeaderValue>, Failure> {
        let method = lock(&self.methods).get(&place.host).cloned();
        match method {
            None => Ok(None),
            Some(AuthMethod::Basic) => match self.credential(place).await? {
                Some(Credential::Password { user, password }) => {
                    self.secret_header("Basic", &basic(&user, &password)).map(Some)
                }
                Some(Credential::IdentityToken(_)) | None => Ok(None),
            },
            Some(AuthMethod::Bearer { realm, service }) => {
                let slot = self.slot(place, scopes);
                // The lock is held while the token is fetched, so that other requests for the same
                // token wait.
                let mut token = slot.lock().await;
                if token.ends.is_none_or(|ends| ends <= Instant::now()) {
                    let asked = Asked { place, base, realm: &realm, service: service.as_deref() };
                    *token = self.fetch(transport, &asked, scopes).await?;
                }
                Ok(token.header.clone())
            }
        }
    }

    /// Handles a 401: records the method that the registry wants, and discards the token in
    /// `refused`.
    pub(super) async fn learn(
        &self,
        transport: &Transport,
        asked: (&Endpoint, &Url, &[Scope]),
        headers: &HeaderMap,
        refused: Option<&HeaderValue>,
    ) -> Result<(), Failure> {
        let (place, base, scopes) = asked;
        let values = headers.get_all(WWW_AUTHENTICATE).into_iter();
        let challenges: Vec<_> =
            values.filter_map(|value| value.to_str().ok()).flat_map(challenge::parse).collect();
        let of = |scheme: &str| challenges.iter().find(|challenge| challenge.scheme == scheme);
        let method = match (of("bearer"), of("basic")) {
            (Some(bearer), _) => {
                let realm = bearer.get("realm").unwrap_or_default();
                let realm = Url::parse(realm).map_err(|error| {
                    let realm = quoted(realm);
                    let detail =
                        format!("it names {realm} as its token server, which is not a URL");
                    Failure::fatal(ErrorKind::Protocol, detail).because(&error)
                })?;
                let address_scope = transport.scope_of(base).await;
                check_realm(base, address_scope, &realm).map_err(|refusal| {
                    let realm = clean(realm.as_str());
                    let detail = format!("its token server `{realm}` is not allowed: {refusal}");
                    Failure::fatal(ErrorKind::Refused, detail)
                })?;
                AuthMethod::Bearer { realm, service: bearer.get("service").map(str::to_owned) }
            }
            (None, Some(_)) => AuthMethod::Basic,
            (None, None) => {
                let detail = "it answered 401 Unauthorized and offers neither Bearer nor Basic authentication";
                return Err(Failure::fatal(ErrorKind::Authentication, detail));
            }
        };
        lock(&self.methods).insert(place.host.clone(), method);
        let slot = self.slot(place, scopes);
        let mut token = slot.lock().await;
        // Another request may have renewed it in the meantime.
        if token.header.as_ref() == refused {
            *token = Token::default();
        }
        Ok(())
    }

    /// Returns whether a credential is stored for `place`. Returns `false` if the lookup fails.
    pub(super) async fn has_credential(&self, place: &Endpoint) -> bool {
        matches!(self.credential(place).await, Ok(Some(_)))
    }

    /// Returns the secrets used so far, so that they can be removed from messages.
    pub(super) fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets)
    }

    fn slot(&self, place: &Endpoint, scopes: &[Scope]) -> TokenSlot {
        let key = (place.host.clone(), scopes.to_vec());
        Arc::clone(lock(&self.tokens).entry(key).or_default())
    }

    async fn credential(&self, place: &Endpoint) -> Result<Option<Credential>, Failure> {
        let key = (place.host.clone(), place.path.clone());
        let mut known = self.credentials.lock().await;
        if let Some(credential) = known.get(&key) {
            return Ok(credential.clone());
        }
        let found = self.files.find_for(&place.host, &place.path).await.map_err(|error| {
            let detail = format!("cannot look up a credential for `{}`", place.host);
            Failure::fatal(ErrorKind::Authentication, detail).because(&error)
        })?;
        match &found {
            Some(Credential::Password { password, .. }) => self.secrets.remember(password),
            Some(Credential::IdentityToken(token)) => self.secrets.remember(token),
            None => {}
        }
        known.insert(key, found.clone());
        Ok(found)
    }

    fn secret_header(&self, scheme: &str, secret: &str) -> Result<HeaderValue, Failure> {
        self.secrets.remember(secret);
        let mut value = HeaderValue::from_str(&format!("{scheme} {secret}")).map_err(|_| {
            let detail = "it issued a token with characters that are not allowed in a header";
            Failure::fatal(ErrorKind::Protocol, detail)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn fetch(
        &self,
        transport: &Transport,
        asked: &Asked<'_>,
        scopes: &[Scope],
    ) -> Result<Token, Failure> {
        let credential = self.credential(asked.place).await?;
        let request = match &credential {
            Some(Credential::IdentityToken(token)) => asked.by_refresh_token(token, scopes),
            Some(Credential::Password { user, password }) => {
                let mut request = asked.by_get(scopes, Some(user));
                let header = self.secret_header("Basic", &basic(user, password))?;
                request.headers.insert(AUTHORIZATION, header);
                request
            }
            None => asked.by_get(scopes, None),
        };
        let address_scope = transport.scope_of(asked.base).await;
        let host = asked.realm.host_str().unwrap_or_default().to_owned();
        let answer = transport.send(Route::Hop(address_scope), request).await?;
        let answer = self.read(transport, &host, answer).await?;
        let answer: TokenAnswer = serde_json::from_slice(&answer).map_err(|_| {
            let detail = format!("the token server `{host}` sent a response that is not a token");
            Failure::fatal(ErrorKind::Protocol, detail)
        })?;
        let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| {
            let detail = format!("the token server `{host}` sent a response without a token");
            Failure::fatal(ErrorKind::Protocol, detail)
        })?;
        // The value comes from a server, so it may be negative, infinite or absurd.
        let life = answer.expires_in.filter(|life| life.is_finite() && *life >= 0.0);
        let life = life.map_or(Duration::from_secs(DEFAULT_LIFE), |life| {
            Duration::from_secs_f64(life.min(86_400.0))
        });
        Ok(Token {
            header: Some(self.secret_header("Bearer", &token)?),
            ends: Some(Instant::now() + life.saturating_sub(MARGIN)),
        })
    }

    /// Reads a token server's response, or returns an error that describes it.
    async fn read(
        &self,
        transport: &Transport,
        host: &str,
        answer: Incoming,
    ) -> Result<Bytes, Failure> {
        if answer.status.is_redirection() {
            let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let detail = format!(
                "the token server `{host}` redirects{}; this tool does not follow the redirect, \
                 because that would forward the credential",
                to.and_then(|to| answer.url.join(to).ok())
                    .map(|to| format!(" to `{}`", clean(to.as_str())))
                    .unwrap_or_default()
            );
            return Err(Failure::fatal(ErrorKind::Refused, detail));
        }
        if answer.status == StatusCode::OK {
            let limit = transport.timeouts().document;
            return Ok(answer.body.collect(MAX_TOKEN_ANSWER, limit).await?);
        }
        let who = format!("its token server `{host}`");
        let limit = transport.timeouts().document;
        let mut failure = status_failure(answer, &who, &self.secrets, limit).await;
        if matches!(failure.kind, ErrorKind::Protocol | ErrorKind::NotFound) {
            failure.kind = ErrorKind::Authentication;
        }
        Err(failure)
    }
}

/// The context of a token request.
struct Asked<'a> {
    place: &'a Endpoint,
    base: &'a Url,
    realm: &'a Url,
    service: Option<&'a str>,
}

impl Asked<'_> {
    /// Returns the request of the distribution specification: `GET realm?service&scope…`.
    fn by_get(&self, scopes: &[Scope], account: Option<&str>) -> Outgoing {
        let mut url = self.realm.clone();
        url.set_fragment(None);
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = self.service {
                query.append_pair("service", service);
            }
            for scope in scopes {
                query.append_pair("scope", &scope.to_string());
            }
            if let Some(account) = account {
                query.append_pair("account", account);
            }
        }
        let headers = HeaderMap::new();
        Outgoing { method: Method::GET, url, headers, body: Body::Bytes(Bytes::new()) }
    }

    /// Returns the OAuth 2 request, with the identity token as the refresh token.
    fn by_refresh_token(&self, token: &str, scopes: &[Scope]) -> Outgoing {
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "refresh_token")
            .append_pair("service", self.service.unwrap_or_default())
            .append_pair("client_id", "build-pipeline")
            .append_pair("scope", &scopes.join(" "))
            .append_pair("refresh_token", token)
            .finish();
        let mut headers = HeaderMap::new();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        let url = self.realm.clone();
        Outgoing { method: Method::POST, url, headers, body: Body::Bytes(form.into()) }
    }
}

fn basic(user: &str, password: &str) -> String {
    BASE64_STANDARD.encode(format!("{user}:{password}"))
}
