//! The registry client: reads manifests and blobs, pushes them, and trusts nothing it is told.
//!
//! Start at [`RegistryClient`]. One module a concern: `manifest`, `blob`, `stream` and `upload`
//! are the operations; `request` carries one request through authentication (`auth`, `challenge`)
//! and redirects; `transport` sends it to where `resolver` allows; `endpoint` knows where to ask; `retry` when to ask again;
//! `broken`, `error` and `text` say what went wrong. What may be followed is judged in [`crate::policy`].
//!
//! Every byte that leaves this module was checked against the digest it was asked for by; what is
//! read by tag gets the digest of its bytes. A blob is never kept whole in memory unless it was
//! asked for by [`RegistryClient::blob`].

mod auth;
mod blob;
mod broken;
mod challenge;
mod check;
mod endpoint;
mod error;
mod manifest;
mod request;
mod resolver;
mod retry;
mod secrets;
mod stream;
mod tags;
mod text;
mod transport;
mod upload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use names::Repository;

pub use self::endpoint::{Mirror, ParseMirrorError};
pub use self::error::{ErrorKind, RegistryError};
pub use self::manifest::FetchedManifest;
pub use self::retry::Retries;
pub use self::stream::BlobStream;
pub use self::transport::{Counters, FixedName, Timeouts};
pub use crate::policy::Reach;

use self::auth::Authorizer;
use self::endpoint::{Endpoint, Rules};
use self::error::{Failure, Place, Subject};
use self::request::Scheme;
use self::retry::Budget;
use self::transport::{Transport, Wiring, lock};
use crate::credentials::CredentialFiles;
use crate::registries_conf::RegistriesConf;

/// What a client is made with. [`Default`] reads no files and knows no mirrors.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Where credentials are looked up.
    pub credentials: CredentialFiles,
    /// What `registries.conf` says.
    pub registries_conf: RegistriesConf,
    /// What `--mirror` says; these go before those of `registries.conf`.
    pub mirrors: Vec<Mirror>,
    /// Hosts, with their ports, that may be talked to by plain http. This machine always may.
    pub plain_http: BTreeSet<String>,
    /// The `User-Agent`.
    pub user_agent: String,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How often and when things are tried again.
    pub retries: Retries,
    /// Whether `HTTPS_PROXY` and the like are honoured. Never for this machine.
    pub use_system_proxies: bool,
    /// Certificates (DER) that are trusted beside those of the system.
    pub extra_roots: Vec<Vec<u8>>,
    /// Names whose addresses are given here.
    pub fixed_names: Vec<FixedName>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            credentials: CredentialFiles::default(),
            registries_conf: RegistriesConf::default(),
            mirrors: Vec::new(),
            plain_http: BTreeSet::new(),
            user_agent: "build-pipeline".to_owned(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            use_system_proxies: true,
            extra_roots: Vec::new(),
            fixed_names: Vec::new(),
        }
    }
}

/// A client for all registries. Clones share connections, tokens and counters.
///
/// Reading goes through mirrors and falls to the next place when one fails; writing goes to the
/// registry itself. A mirror that served wrong content is not asked again, see
/// [`RegistryClient::warnings`].
#[derive(Debug, Clone)]
pub struct RegistryClient {
    session: Arc<Session>,
}

/// What the clones of a client share.
#[derive(Debug)]
struct Session {
    rules: Rules,
    retries: Retries,
    auth: Authorizer,
    transport: Transport,
    schemes: Mutex<BTreeMap<String, Scheme>>,
    distrusted: Mutex<BTreeMap<String, String>>,
}

impl RegistryClient {
    /// Returns a client. It opens no connection and loads no certificates before it has to.
    pub fn new(settings: ClientSettings) -> Self {
        let ClientSettings { credentials, registries_conf, mirrors, plain_http, .. } = settings;
        let wiring = Wiring {
            timeouts: settings.timeouts,
            user_agent: settings.user_agent,
            use_system_proxies: settings.use_system_proxies,
            extra_roots: settings.extra_roots,
            fixed_names: settings.fixed_names,
        };
        let session = Session {
            rules: Rules { conf: registries_conf, mirrors, plain_http },
            retries: settings.retries,
            auth: Authorizer::new(credentials),
            transport: Transport::new(wiring),
            schemes: Mutex::default(),
            distrusted: Mutex::default(),
        };
        Self { session: Arc::new(session) }
    }

    /// Returns what went over the wire so far.
    pub fn counters(&self) -> Counters {
        self.session.transport.counters()
    }

    /// Returns what should be looked into although it stopped nothing: mirrors whose content did
    /// not have the digest it was asked for by.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.session.distrusted).values().cloned().collect()
    }

    /// Returns where `repository` is read from, in the order in which these are asked: mirrors,
    /// then the registry itself.
    pub fn locations(&self, repository: &Repository) -> Vec<Repository> {
        let places = self.session.rules.to_read(repository, true).unwrap_or_default();
        places.iter().filter_map(|p| format!("{}/{}", p.host, p.path).parse().ok()).collect()
    }
}

impl Session {
    /// Returns the places to read from that are still trusted.
    fn places(
        &self,
        subject: &Subject,
        repository: &Repository,
        by_digest: bool,
    ) -> Result<Vec<Endpoint>, RegistryError> {
        let places = self
            .rules
            .to_read(repository, by_digest)
            .map_err(|failure| RegistryError::unasked(subject, repository.registry(), failure))?;
        let distrusted = lock(&self.distrusted);
        Ok(places.into_iter().filter(|place| !distrusted.contains_key(&place.host)).collect())
    }

    fn place_to_write(
        &self,
        subject: &Subject,
        repository: &Repository,
    ) -> Result<Endpoint, RegistryError> {
        self.rules
            .to_write(repository)
            .map_err(|failure| RegistryError::unasked(subject, repository.registry(), failure))
    }

    fn budget(&self, place: &Endpoint) -> Budget {
        Budget::new(self.retries, &place.host, self.auth.secrets())
    }

    /// Takes note of how a place failed. Returns whether it was a mirror with wrong content, which
    /// is not asked again.
    fn note(&self, subject: &Subject, endpoint: &Endpoint, place: &Place) -> bool {
        let is_wrong = endpoint.is_mirror && place.kind == ErrorKind::Integrity;
        if is_wrong {
            let warning = format!("mirror `{}` is not used any more: {}", place.host, place.detail);
            tracing::warn!(mirror = place.host, subject = subject.name, "{warning}");
            lock(&self.distrusted).entry(place.host.clone()).or_insert(warning);
        }
        is_wrong
    }
}

/// Reads from each place in turn, with a fresh budget for each, until one gives an answer.
///
/// A macro, because a closure that borrows cannot be shown to give a `Send` future.
macro_rules! from_first_place {
    ($session:expr, $subject:expr, $places:expr, |$place:ident| $attempt:expr) => {{
        let mut failed = Vec::new();
        let mut answer = None;
        'places: for $place in &$places {
            let mut budget = $session.budget($place);
            loop {
                match $attempt {
                    Ok(found) => {
                        answer = Some(found);
                        break 'places;
                    }
                    Err(failure) => {
                        if let Err(end) = budget.spend(failure).await {
                            $session.note(&$subject, $place, &end);
                            failed.push(end);
                            break;
                        }
                    }
                }
            }
        }
        answer.ok_or_else(|| RegistryError::new(&$subject, failed))
    }};
}
use from_first_place;

/// Makes a failure of a digest or size that is not the one asked for.
fn mismatch(what: &str, wanted: impl std::fmt::Display, found: impl std::fmt::Display) -> Failure {
    let detail =
        format!("it served wrong content: {what} is `{found}` where `{wanted}` was asked for");
    Failure::fatal(ErrorKind::Integrity, detail)
}
