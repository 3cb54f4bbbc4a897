//! The registry client: reads and pushes manifests and blobs, and does not trust responses.
//!
//! Start at [`RegistryClient`]. `manifest`, `blob`, `tags`, `stream`, `kept` and `upload` are the
//! operations. `request` performs one request with authentication (`auth`, `challenge`) and
//! redirects. `endpoint` decides where to send requests, and `retry` when to retry. `files` reads
//! from bundles and copies on this machine. `error` and `text` describe failures. The crate `net`
//! sends requests, and decides which redirects may be followed.
//!
//! Content is checked against the requested digest; content that is read by tag gets the digest of
//! its bytes. A blob is kept in memory as a whole only if it was requested with
//! [`RegistryClient::blob`].

mod auth;
mod blob;
mod challenge;
mod check;
mod endpoint;
mod error;
mod files;
mod kept;
mod manifest;
mod nearby;
mod request;
mod retry;
mod secrets;
mod stream;
mod tags;
mod text;
mod upload;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use names::Repository;
use net::{Transport, TransportSettings, lock};

pub use self::check::Prefix;
pub use self::endpoint::{Mirror, ParseMirrorError};
pub use self::error::{ErrorKind, RegistryError};
pub use self::kept::KeptPart;
pub use self::manifest::FetchedManifest;
pub use self::retry::Retries;
pub use self::stream::BlobStream;
pub use net::{AddressScope, Counters, FixedName, Hosts, Proxies, Timeouts, bytes_received};

use self::auth::Authorizer;
use self::endpoint::{Endpoint, Rules};
use self::error::{Failure, Place, Subject};
use self::nearby::Nearby;
use self::request::Scheme;
use self::retry::Budget;
use crate::credentials::CredentialFiles;
use crate::inputs::InputFiles;
use crate::registries_conf::RegistriesConf;

/// The minimum speed of a response, in bytes per second. At this speed, a layer of 100 MB would
/// take a day.
const LEAST_SPEED: u64 = 1000;

/// The settings of a client. [`Default`] reads no files and has no mirrors.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The files to search for credentials.
    pub credentials: CredentialFiles,
    /// The content of `registries.conf`.
    pub registries_conf: RegistriesConf,
    /// The mirrors of `--mirror`. They precede those of `registries.conf`.
    pub mirrors: Vec<Mirror>,
    /// Hosts, with their ports, for which plain http is allowed. It is always allowed for this
    /// machine.
    pub plain_http: BTreeSet<String>,
    /// The `User-Agent`.
    pub user_agent: String,
    /// The time limits.
    pub timeouts: Timeouts,
    /// The retry settings.
    pub retries: Retries,
    /// The proxies. They are never used for this machine.
    pub proxies: Proxies,
    /// Certificates (DER) that are trusted in addition to the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Host names with fixed addresses.
    pub fixed_names: Vec<FixedName>,
    /// The hosts that requests may go to.
    pub hosts: Hosts,
    /// Files that may contain the requested content. They are searched first.
    pub inputs: InputFiles,
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
            proxies: Proxies::default(),
            extra_roots: Vec::new(),
            fixed_names: Vec::new(),
            hosts: Hosts::All,
            inputs: InputFiles::default(),
        }
    }
}

/// A client for all registries. Clones share connections, tokens and counters.
///
/// Reads go through mirrors and continue with the next location when one fails; writes go to the
/// registry itself. A mirror that served wrong content is not used again (see
/// [`RegistryClient::warnings`]).
#[derive(Debug, Clone)]
pub struct RegistryClient {
    session: Arc<Session>,
    nearby: Arc<Nearby>,
}

/// The state that the clones of a client share.
#[derive(Debug)]
struct Session {
    rules: Rules,
    inputs: InputFiles,
    retries: Retries,
    auth: Authorizer,
    transport: Transport,
    schemes: Mutex<BTreeMap<String, Scheme>>,
    /// The mirrors that served wrong content, by host.
    distrusted: Mutex<BTreeSet<String>>,
    /// The problems of mirrors that the user should know about, by host.
    warnings: Mutex<BTreeMap<String, Warning>>,
}

/// A problem that did not stop anything but should be investigated.
#[derive(Debug, Clone)]
pub struct Warning {
    /// The name of the problem: `mirror-distrusted` or `mirror-failed`.
    pub rule: &'static str,
    /// The problem, as a sentence.
    pub message: String,
}

impl RegistryClient {
    /// Returns a client. It opens connections and loads certificates only when needed.
    pub fn new(settings: ClientSettings) -> Self {
        let ClientSettings { credentials, registries_conf, mirrors, plain_http, .. } = settings;
        let wiring = TransportSettings {
            timeouts: settings.timeouts,
            least_speed: LEAST_SPEED,
            user_agent: settings.user_agent,
            proxies: settings.proxies,
            extra_roots: settings.extra_roots,
            fixed_names: settings.fixed_names,
            hosts: settings.hosts.clone(),
        };
        let session = Session {
            rules: Rules { conf: registries_conf, mirrors, plain_http, hosts: settings.hosts },
            inputs: settings.inputs,
            retries: settings.retries,
            auth: Authorizer::new(credentials),
            transport: Transport::new(wiring),
            schemes: Mutex::default(),
            distrusted: Mutex::default(),
            warnings: Mutex::default(),
        };
        Self { session: Arc::new(session), nearby: Arc::default() }
    }

    /// Returns the network traffic so far.
    pub fn counters(&self) -> Counters {
        self.session.transport.counters()
    }

    /// Returns the problems that did not stop anything but should be investigated, at most one per
    /// mirror: mirrors whose content did not match the requested digest, and mirrors that failed in
    /// another way. Content that a mirror lacks is not reported.
    pub fn warnings(&self) -> Vec<Warning> {
        lock(&self.session.warnings).values().cloned().collect()
    }

    /// Returns the locations from which `repository` is read, in order: mirrors, then the registry
    /// itself if it may be contacted.
    pub fn locations(&self, repository: &Repository) -> Vec<Repository> {
        let places = self.session.rules.to_read(repository, true).unwrap_or_default();
        places.iter().filter_map(|p| format!("{}/{}", p.host, p.path).parse().ok()).collect()
    }
}

impl Session {
    /// Returns the locations to read from that are still trusted.
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
        Ok(places.into_iter().filter(|place| !distrusted.contains(&place.host)).collect())
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
        Budget::new(self.retries, place, self.auth.secrets())
    }

    /// Records how a location failed. Returns whether it was a mirror with wrong content, which is
    /// not used again.
    fn note(&self, subject: &Subject, endpoint: &Endpoint, place: &Place) -> bool {
        if !endpoint.is_mirror || place.kind == ErrorKind::NotFound {
            return false;
        }
        let is_wrong = place.kind == ErrorKind::Integrity;
        let (rule, what) = if is_wrong {
            lock(&self.distrusted).insert(place.host.clone());
            ("mirror-distrusted", "is no longer used")
        } else {
            ("mirror-failed", "was skipped because it failed")
        };
        let message = format!("mirror `{}` {what}: {}", place.host, place.detail);
        tracing::warn!(mirror = place.host, subject = subject.name, "{message}");
        let warning = Warning { rule, message };
        let mut warnings = lock(&self.warnings);
        let known = warnings.entry(place.host.clone()).or_insert_with(|| warning.clone());
        // Wrong content is more serious than an earlier failure of the mirror.
        if is_wrong && known.rule != rule {
            *known = warning;
        }
        is_wrong
    }
}

/// Reads from each location in turn, with a fresh retry budget for each, until one returns a
/// result.
///
/// This is a macro because the compiler cannot prove that a borrowing closure returns a `Send`
/// future.
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

/// Returns the failure for a wrong digest or size.
fn mismatch(what: &str, wanted: impl fmt::Display, found: impl fmt::Display) -> Failure {
    let detail =
        format!("it served wrong content: {what} is `{found}`, but `{wanted}` was requested");
    Failure::fatal(ErrorKind::Integrity, detail)
}

/// Returns the failure for content to push whose digest or size differs from what the caller
/// states.
fn not_to_push(what: &str, wanted: impl fmt::Display, found: impl fmt::Display) -> Failure {
    Failure::fatal(ErrorKind::Integrity, format!("{what} `{found}`, not `{wanted}`"))
}
