//! What all operations share: settings, connections, the way to try again.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oci::policy::{RefusedHop, check_hop};
use reqwest::Method;
use reqwest::header::HeaderName;
use url::Url;

use crate::address::{Mirror, SourceUrl};
use crate::error::{Again, ErrorKind, Failure};
use crate::event::Event;
use crate::http::{Incoming, Timeouts, Web, Wiring, redirect_target};
use crate::text;

/// The longest wait that a server may ask for.
const MAX_RETRY_AFTER: u64 = 10;
/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// What sources are fetched with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the cache. It may be shared by many processes.
    pub cache: PathBuf,
    /// Where urls are asked for instead.
    pub mirrors: Vec<Mirror>,
    /// Whether repositories and archives may be paths of this machine.
    pub allow_local: bool,
    /// Whether nothing may be asked for by the network.
    pub is_offline: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How often something is tried in all.
    pub tries: u32,
    /// The wait after the first try; each further wait is three times as long.
    pub first_wait: Duration,
    /// The most bytes that one pack or archive may have.
    pub max_bytes: u64,
    /// Whether proxies are used that the system's settings name.
    pub use_system_proxies: bool,
    /// Certificates that are trusted besides the system's, as DER.
    pub extra_roots: Vec<Vec<u8>>,
}

impl Settings {
    /// Returns the usual settings: 3 tries with 1 s and 3 s between, 8 GiB at the most.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            mirrors: Vec::new(),
            allow_local: false,
            is_offline: false,
            timeouts: Timeouts::default(),
            tries: 3,
            first_wait: Duration::from_secs(1),
            max_bytes: 8 << 30,
            use_system_proxies: true,
            extra_roots: Vec::new(),
        }
    }
}

/// Who is told what happens.
pub(crate) type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// Settings, connections, and who is told.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) settings: Arc<Settings>,
    pub(crate) web: Arc<Web>,
    pub(crate) listener: Listener,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Self {
        let web = Web::new(Wiring {
            timeouts: settings.timeouts,
            use_system_proxies: settings.use_system_proxies,
            extra_roots: settings.extra_roots.clone(),
        });
        Self { settings: Arc::new(settings), web: Arc::new(web), listener: Arc::new(|_| {}) }
    }

    pub(crate) fn notify(&self, event: Event<'_>) {
        (self.listener)(event);
    }

    /// Fails where the network may not be used.
    pub(crate) fn online(&self) -> Result<(), Failure> {
        match self.settings.is_offline {
            false => Ok(()),
            true => Err(Failure::fatal(
                ErrorKind::Unreachable,
                "it is not in the cache, and the network may not be used",
            )),
        }
    }

    /// Gets what is at `from`, after the redirects that may be followed.
    pub(crate) async fn get(
        &self,
        from: &SourceUrl,
        headers: &[(HeaderName, &str)],
    ) -> Result<Incoming, Failure> {
        let mut url = from.url().clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.web.send(Method::GET, &url, headers, Vec::new()).await?;
            let Some(to) = redirect_target(&url, &answer) else { return Ok(answer) };
            check_redirect(from, &url, &to)?;
            url = to;
        }
        Err(Failure::refused(format!("the server redirects more than {MAX_REDIRECTS} times")))
    }

    /// Runs work that blocks on a thread for such work.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            Err(Failure::fatal(ErrorKind::Tool, "a thread of ours ended early").because(&error))
        })
    }

    /// Returns the tries that an operation on `url` has.
    pub(crate) fn budget<'a>(&'a self, url: &'a SourceUrl) -> Budget<'a> {
        Budget { session: self, url, tries: 0 }
    }
}

fn check_redirect(base: &SourceUrl, from: &Url, to: &Url) -> Result<(), Failure> {
    check_hop(base.url(), base.reach(), from, to).map_err(|refusal| {
        let mut shown = to.clone();
        // A signature or a password may stand there.
        shown.set_query(None);
        let _ = shown.set_password(None).and_then(|()| shown.set_username(""));
        let why = match refusal {
            RefusedHop::Scheme(_) => "it is neither http nor https",
            RefusedHop::NoHost | RefusedHop::OtherHost { .. } => "it has no proper host",
            RefusedHop::UserInfo => "it carries a user name or password",
            RefusedHop::Downgrade => "it leads from https to http",
            RefusedHop::Inward { .. } => "it leads further inward than the server",
        };
        let shown = text::quoted(shown.as_str());
        Failure::refused(format!("the redirect to {shown} is not followed: {why}"))
    })
}

/// The tries that one operation has.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    session: &'a Session,
    url: &'a SourceUrl,
    tries: u32,
}

impl Budget<'_> {
    /// Takes note of a failed try. Returns after the wait where another one is due, and the
    /// failure where none is.
    pub(crate) async fn spend(&mut self, failure: Failure) -> Result<(), Failure> {
        self.tries += 1;
        let tries = self.tries;
        let wait = match failure.again {
            Again::No => None,
            Again::Yes => Some(self.usual_wait()),
            Again::After(seconds) if seconds <= MAX_RETRY_AFTER => {
                Some(Duration::from_secs(seconds))
            }
            Again::After(seconds) => {
                let detail = format!("{}; it may be asked again in {seconds} s", failure.detail);
                return Err(Failure { detail, ..failure });
            }
        };
        match wait {
            Some(wait) if tries < self.session.settings.tries => {
                tracing::info!(tries, reason = failure.detail, "a fetch is tried again");
                self.session.notify(Event::Retry { url: self.url, reason: &failure.detail });
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

    /// Returns the first wait, three times as long after each try, and up to a tenth more, so
    /// that many clients do not come back at the same moment.
    fn usual_wait(&self) -> Duration {
        let first = self.session.settings.first_wait;
        let wait = first * 3_u32.pow(self.tries.saturating_sub(1).min(8));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        wait + wait.mul_f64(f64::from(now.subsec_nanos() % 1000) / 10_000.0)
    }
}
