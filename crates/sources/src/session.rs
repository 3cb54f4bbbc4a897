//! The state shared by all operations: settings, connections, retries.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{
    AddressScope, FixedName, Hosts, Incoming, Proxies, RefusedHop, Route, Transport,
    TransportSettings, check_hop, is_same_host, usual_wait,
};
use reqwest::Method;
use reqwest::header::HeaderName;
use url::Url;

use crate::address::{Mirror, SourceUrl};
use crate::copies::Copies;
use crate::error::{Again, Asked, ErrorKind, Failure, Service};
use crate::event::Event;
use crate::http::{
    INWARD, LEAST_SPEED, Timeouts, redirect_target, redirected, refused_redirect, send,
};
use crate::tree::refusal;

/// The longest wait that a server may request, in seconds.
const MAX_RETRY_AFTER: u64 = 10;
/// The minimum time between two reports of the same retry.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// The settings for fetching sources.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the cache. Several processes may share it.
    pub cache: PathBuf,
    /// The mirrors for URLs.
    pub mirrors: Vec<Mirror>,
    /// The hosts that may be contacted.
    pub hosts: Hosts,
    /// Copies of sources, which are tried before any server.
    pub copies: Option<Arc<dyn Copies>>,
    /// Whether repositories and archives may be local paths.
    pub allow_local: bool,
    /// Whether the network must not be used.
    pub is_offline: bool,
    /// The time limits.
    pub timeouts: Timeouts,
    /// How many attempts without progress end an operation.
    pub tries: u32,
    /// The wait after the first attempt. Each further wait is three times as long.
    pub first_wait: Duration,
    /// The maximum size of a pack or archive, in bytes.
    pub max_bytes: u64,
    /// The proxies. They are never used for this machine.
    pub proxies: Proxies,
    /// Certificates (DER) that are trusted in addition to the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Host names with fixed addresses, for tests.
    pub fixed_names: Vec<FixedName>,
}

impl Settings {
    /// Returns the default settings: 3 attempts with waits of 1 s and 3 s, and at most 8 GiB.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            mirrors: Vec::new(),
            hosts: Hosts::All,
            copies: None,
            allow_local: false,
            is_offline: false,
            timeouts: Timeouts::default(),
            tries: 3,
            first_wait: Duration::from_secs(1),
            max_bytes: 8 << 30,
            proxies: Proxies::default(),
            extra_roots: Vec::new(),
            fixed_names: Vec::new(),
        }
    }
}

/// Receives events.
pub(crate) type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// The settings, the connections and the listener.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) settings: Arc<Settings>,
    pub(crate) web: Arc<Transport>,
    pub(crate) listener: Listener,
    /// When a retry was last reported, by server and reason.
    pub(crate) retries: Arc<Mutex<BTreeMap<(String, String), Instant>>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Self {
        let Timeouts { connect, idle, .. } = settings.timeouts;
        let web = Transport::new(TransportSettings {
            timeouts: net::Timeouts { connect, idle, ..net::Timeouts::default() },
            least_speed: LEAST_SPEED,
            user_agent: crate::git::AGENT.to_owned(),
            fixed_names: settings.fixed_names.clone(),
            proxies: settings.proxies.clone(),
            extra_roots: settings.extra_roots.clone(),
            hosts: settings.hosts.clone(),
        });
        Self {
            settings: Arc::new(settings),
            web: Arc::new(web),
            listener: Arc::new(|_| {}),
            retries: Arc::default(),
        }
    }

    pub(crate) fn notify(&self, event: Event<'_>) {
        (self.listener)(event);
    }

    /// Reports that a request to `place` is retried, unless this was reported a moment ago for the
    /// same server and reason.
    pub(crate) fn tell_retry(&self, place: &SourceUrl, reason: &str) {
        let now = Instant::now();
        let key = (place.server(), reason.to_owned());
        {
            let mut retries = net::lock(&self.retries);
            if retries.get(&key).is_some_and(|before| now - *before < RETRY_PAUSE) {
                return;
            }
            retries.insert(key, now);
        }
        self.notify(Event::Retry { url: place, reason });
    }

    /// Adds the server or mirror of `url` to a failure.
    pub(crate) fn asked(&self, url: &SourceUrl, service: Service, failure: Failure) -> Failure {
        match self.place(url) {
            Ok(place) => failure.asked(&asked(url, &place, service)),
            Err(_) => failure,
        }
    }

    /// Returns the URL that is actually requested for `url`.
    ///
    /// # Errors
    /// Fails if a mirror rule gives an invalid URL, or if there is no rule and only mirrors may be
    /// used.
    pub(crate) fn place(&self, url: &SourceUrl) -> Result<SourceUrl, Failure> {
        let place = Mirror::resolve(&self.settings.mirrors, url).map_err(refusal)?;
        if self.settings.hosts.allows(place.url()) {
            return Ok(place);
        }
        let server = place.server();
        let missing = if self.settings.copies.is_some() { "no copy has it, " } else { "" };
        let detail =
            format!("{missing}`{server}` must not be contacted, and no mirror rule covers it");
        let failure = Failure::fatal(ErrorKind::NoMirror, detail);
        Err(Failure { without_mirror: Some(server), ..failure })
    }

    /// Fails if the network must not be used.
    pub(crate) fn online(&self) -> Result<(), Failure> {
        self.is_online_or("network access is disabled")
    }

    /// Fails if the network must not be used for content that the cache does not have.
    pub(crate) fn online_for_content(&self) -> Result<(), Failure> {
        self.is_online_or("it is not in the cache, and network access is disabled")
    }

    fn is_online_or(&self, detail: &str) -> Result<(), Failure> {
        if self.settings.is_offline {
            return Err(Failure::fatal(ErrorKind::Unreachable, detail));
        }
        Ok(())
    }

    /// Gets the content at `from`, and follows allowed redirects. A redirect never leads to a less
    /// public network than the server's own, whatever the name in the redirect resolves to.
    pub(crate) async fn get(
        &self,
        from: &SourceUrl,
        headers: &[(HeaderName, &str)],
    ) -> Result<Incoming, Failure> {
        let (mut url, mut route) = (from.url().clone(), Route::Direct);
        for _ in 0..=MAX_REDIRECTS {
            let answer = send(&self.web, route, Method::GET, &url, headers, Vec::new()).await;
            let answer = answer.map_err(|failure| redirected(from, &url, failure))?;
            let Some(to) = redirect_target(&answer) else { return Ok(answer) };
            let scope = self.web.scope_of(from.url()).await;
            check_redirect(from, scope, &url, &to)?;
            route = if is_same_host(from.url(), &to) { Route::Direct } else { Route::Hop(scope) };
            url = to;
        }
        Err(Failure::refused(format!("the server redirects more than {MAX_REDIRECTS} times")))
    }

    /// Runs blocking work on a separate thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            Err(Failure::fatal(ErrorKind::Tool, "an internal thread stopped unexpectedly")
                .because(&error))
        })
    }

    /// Returns the retry budget of an operation on `url`, which is requested at `place`.
    pub(crate) fn budget(
        &self,
        url: &SourceUrl,
        place: &SourceUrl,
        service: Service,
    ) -> Budget<'_> {
        Budget { session: self, asked: asked(url, place, service), tries: 0, in_vain: 0 }
    }
}

fn asked(url: &SourceUrl, place: &SourceUrl, service: Service) -> Asked {
    Asked { url: place.clone(), is_mirror: url != place, service }
}

fn check_redirect(
    base: &SourceUrl,
    scope: AddressScope,
    from: &Url,
    to: &Url,
) -> Result<(), Failure> {
    check_hop(base.url(), scope, from, to).map_err(|refusal| {
        let why = match refusal {
            RefusedHop::Scheme(_) => "it is not http or https",
            RefusedHop::NoHost | RefusedHop::OtherHost { .. } => "it has no valid host",
            RefusedHop::UserInfo => "it contains a user name or password",
            RefusedHop::Downgrade => "it leads from https to http",
            RefusedHop::Inward { .. } => INWARD,
        };
        refused_redirect(to, why)
    })
}

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    session: &'a Session,
    asked: Asked,
    tries: u32,
    /// The attempts since the last progress.
    in_vain: u32,
}

/// An attempt that delivers at least this many bytes does not count: the operation is making
/// progress.
const PROGRESS: u64 = 1 << 20;
/// The largest number of attempts, whether they make progress or not.
const MOST_TRIES: u32 = 1000;

impl Budget<'_> {
    /// Returns the server that is contacted.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Records how many bytes an attempt delivered before it failed.
    pub(crate) fn delivered(&mut self, bytes: u64) {
        if bytes >= PROGRESS {
            self.in_vain = 0;
        }
    }

    /// Records a failed attempt. Waits if another attempt is allowed; otherwise returns the failure
    /// with the server that was contacted.
    pub(crate) async fn spend(&mut self, failure: Failure) -> Result<(), Failure> {
        let spent = self.try_spend(failure).await;
        spent.map_err(|last| last.asked(&self.asked))
    }

    async fn try_spend(&mut self, failure: Failure) -> Result<(), Failure> {
        self.tries += 1;
        self.in_vain += 1;
        let (tries, in_vain) = (self.tries, self.in_vain);
        let wait = match failure.again {
            Again::No => None,
            Again::Yes => Some(usual_wait(self.session.settings.first_wait, in_vain)),
            Again::After(seconds) if seconds <= MAX_RETRY_AFTER => {
                Some(Duration::from_secs(seconds))
            }
            Again::After(seconds) => {
                let detail =
                    format!("{}; the request can be retried in {seconds} s", failure.detail);
                return Err(Failure { detail, ..failure });
            }
        };
        match wait {
            Some(wait) if in_vain < self.session.settings.tries && tries < MOST_TRIES => {
                tracing::info!(tries, reason = failure.detail, "retrying a fetch");
                self.session.tell_retry(&self.asked.url, &failure.detail);
                tokio::time::sleep(wait).await;
                Ok(())
            }
            _ if tries > 1 => {
                let detail = format!("{} ({tries} tries)", failure.detail);
                Err(Failure { detail, ..failure })
            }
            _ => Err(failure),
        }
    }
}
