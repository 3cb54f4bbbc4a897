//! The error type of the registry client.
//!
//! A [`Failure`] describes one failed attempt, and whether a retry makes sense. A [`RegistryError`]
//! is the final result: the action, its object, the locations, the number of attempts, and the time
//! spent waiting.

use std::fmt;
use std::time::{Duration, SystemTime};

use names::ImageRef;

use super::secrets::Secrets;

/// The kind of a [`RegistryError`]. The command line derives its exit code from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The registry does not have the repository, manifest or blob.
    NotFound,
    /// The registry requires a credential, or rejected the given one.
    Authentication,
    /// The registry recognises the user but denies access.
    Denied,
    /// The registry received too many requests.
    RateLimited {
        /// When the registry accepts requests again, if known.
        until: Option<SystemTime>,
    },
    /// The connection failed, or was lost.
    Unreachable,
    /// The registry took too long.
    Timeout,
    /// The certificate is not trusted, or TLS failed in another way.
    Tls,
    /// The content does not match its digest or size.
    Integrity,
    /// The response violates the distribution specification.
    Protocol,
    /// The response is larger than allowed.
    TooLarge,
    /// This tool's own rules forbid the request, for example because of a redirect to a less public
    /// address, or because the registry is blocked.
    Refused,
    /// The registry reported an internal error (5xx).
    Registry,
    /// Only mirrors may be used, and there is none.
    NoMirror,
}

impl ErrorKind {
    /// Returns the rank of a failure if several locations failed. The failure with the lowest rank
    /// is reported, because it is the most useful to the user: a missing login at a mirror, for
    /// example, is more useful to know than an unreachable registry.
    fn rank(self) -> u8 {
        match self {
            Self::Integrity => 0,
            Self::Authentication => 1,
            Self::Denied => 2,
            Self::NoMirror => 3,
            Self::RateLimited { .. } => 4,
            Self::Protocol | Self::TooLarge => 5,
            Self::Registry => 6,
            Self::Tls => 7,
            Self::Refused => 8,
            Self::NotFound => 9,
            Self::Timeout => 10,
            Self::Unreachable => 11,
        }
    }
}

/// Why something could not be read from or written to a registry.
pub struct RegistryError(Box<Inner>);

struct Inner {
    subject: Subject,
    places: Vec<Place>,
    is_worth_reopening: bool,
}

/// A location that was tried, and the result.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: String,
    /// The repository on that host, with the host, if the location is a mirror.
    pub(super) mirror: Option<String>,
    pub(super) tries: u32,
    /// Whether an attempt delivered a considerable part before it failed.
    pub(super) has_delivered: bool,
    pub(super) waited: Duration,
    pub(super) kind: ErrorKind,
    pub(super) detail: String,
    pub(super) cause: Option<Cause>,
}

/// The message of an underlying error, sanitised. The error itself might contain a URL or a header.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Cause(String);

/// The current action and its object. Every error names them.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// A verb and an object that fit after "cannot": `read the manifest`.
    pub(super) action: &'static str,
    /// The repository, with the tag or digest.
    pub(super) name: String,
    /// The image, if the object is one.
    pub(super) image: Option<ImageRef>,
}

/// Whether a retry makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The result would be the same.
    No,
    /// A retry may help, after the usual wait.
    Yes,
    /// A retry may help, but not before this time.
    NotBefore(SystemTime),
}

/// One failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) detail: String,
    pub(super) again: Again,
    pub(super) cause: Option<Cause>,
}

impl From<net::Error> for Failure {
    fn from(error: net::Error) -> Self {
        let kind = match error.kind {
            net::ErrorKind::Unreachable => ErrorKind::Unreachable,
            net::ErrorKind::Timeout => ErrorKind::Timeout,
            net::ErrorKind::Tls | net::ErrorKind::Setup => ErrorKind::Tls,
            net::ErrorKind::Protocol => ErrorKind::Protocol,
            net::ErrorKind::TooLarge => ErrorKind::TooLarge,
            net::ErrorKind::Refused => ErrorKind::Refused,
            net::ErrorKind::OtherHost => ErrorKind::NoMirror,
        };
        let again = if error.kind.may_pass() { Again::Yes } else { Again::No };
        Self { kind, detail: error.detail, again, cause: error.cause.map(Cause) }
    }
}

impl Failure {
    /// Returns the same failure, without secrets in its message.
    pub(super) fn scrubbed(self, secrets: &Secrets) -> Self {
        let cause = self.cause.map(|Cause(words)| Cause(secrets.scrub(words)));
        Self { detail: secrets.scrub(self.detail), cause, ..self }
    }

    /// Returns a failure that a retry would not fix.
    pub(super) fn fatal(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), again: Again::No, cause: None }
    }

    /// Returns a failure that may be temporary.
    pub(super) fn passing(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { again: Again::Yes, ..Self::fatal(kind, detail) }
    }

    /// Returns the same failure with its cause.
    pub(super) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { cause: Some(Cause(net::causes(error))), ..self }
    }
}

impl RegistryError {
    pub(super) fn new(subject: &Subject, places: Vec<Place>) -> Self {
        Self(Box::new(Inner { subject: subject.clone(), places, is_worth_reopening: false }))
    }

    /// Returns an error for a request that was never sent, or for which other locations do not
    /// matter.
    pub(super) fn unasked(subject: &Subject, host: &str, failure: Failure) -> Self {
        Self::new(subject, vec![Place::new(host, 0, Duration::ZERO, failure)])
    }

    /// Marks that another location may have the right content.
    pub(super) fn worth_reopening(mut self) -> Self {
        self.0.is_worth_reopening = true;
        self
    }

    /// Returns whether reading again may succeed: the location that sent wrong content is no longer
    /// used, or a damaged file was removed.
    pub fn is_worth_reopening(&self) -> bool {
        self.0.is_worth_reopening
    }

    /// Returns the failure that is most useful to the user.
    fn telling(&self) -> Option<&Place> {
        // If every location lacks the object, the registry's failure counts.
        let is_copy = |place: &Place| place.kind == ErrorKind::NotFound && place.mirror.is_some();
        self.0.places.iter().min_by_key(|place| (place.kind.rank(), is_copy(place)))
    }

    /// Returns the kind of the failure. If several locations failed, it is the kind that is most
    /// useful to the user.
    pub fn kind(&self) -> ErrorKind {
        self.telling().map_or(ErrorKind::Unreachable, |place| place.kind)
    }

    /// Returns the host whose failure has the kind that [`Self::kind`] returns.
    pub fn host(&self) -> &str {
        self.telling().map_or("", |place| &place.host)
    }

    /// Returns whether that host is a mirror.
    pub fn is_at_mirror(&self) -> bool {
        self.telling().is_some_and(|place| place.mirror.is_some())
    }

    /// Returns whether something was to be written to the registry.
    pub fn is_push(&self) -> bool {
        self.0.subject.action.starts_with("push ")
    }

    /// Returns whether the request was a part of a push, which uses no mirror.
    pub fn is_of_push(&self) -> bool {
        self.is_push()
            || ["check ", "mount "].iter().any(|verb| self.0.subject.action.starts_with(verb))
    }

    /// Returns whether a request to that host was attempted.
    pub fn was_asked(&self) -> bool {
        self.telling().is_some_and(|place| place.tries > 0)
    }

    /// Returns whether the registry itself, which is the last location, lacks the object.
    pub(crate) fn is_missing(&self) -> bool {
        let registry = self.0.places.last().filter(|place| place.mirror.is_none());
        registry.is_some_and(|place| place.kind == ErrorKind::NotFound)
    }

    /// Returns the image and its name at the first mirror that does not have it, if copying the
    /// image there would help.
    pub fn missing_copy(&self) -> Option<(String, String)> {
        let image = self.0.subject.image.as_ref()?;
        let is_missing = |place: &&Place| place.kind == ErrorKind::NotFound;
        let mirror = self.0.places.iter().filter(is_missing).find_map(|one| one.mirror.as_ref())?;
        // skopeo does not accept a name with both a tag and a digest.
        let end = match (&image.digest, &image.tag) {
            (Some(digest), _) => format!("@{digest}"),
            (None, Some(tag)) => format!(":{tag}"),
            (None, None) => return None,
        };
        // If the registry itself does not have the image, there is nothing to copy.
        (!self.is_missing())
            .then(|| (format!("{}{end}", image.repository), format!("{mirror}{end}")))
    }

    /// Returns whether that host delivered a considerable part of the content before it failed.
    pub fn has_delivered(&self) -> bool {
        self.telling().is_some_and(|place| place.has_delivered)
    }

    /// Returns the number of attempts at the last location.
    pub fn tries(&self) -> u32 {
        self.0.places.last().map_or(0, |place| place.tries)
    }

    /// Returns the time spent waiting between attempts, over all locations.
    pub fn waited(&self) -> Duration {
        self.0.places.iter().map(|place| place.waited).sum()
    }
}

impl Place {
    pub(super) fn new(host: &str, tries: u32, waited: Duration, failure: Failure) -> Self {
        let Failure { kind, detail, again: _, cause } = failure;
        let (host, has_delivered) = (host.to_owned(), false);
        Self { host, mirror: None, tries, has_delivered, waited, kind, detail, cause }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { subject: Subject { action, name, .. }, places, .. } = &*self.0;
        write!(f, "cannot {action} `{name}`: ")?;
        for (index, place) in places.iter().enumerate() {
            if index > 0 {
                f.write_str("; then ")?;
            }
            write!(f, "{place}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at `{}` ", self.host)?;
        match self.tries {
            0 => {}
            1 => f.write_str("(1 try) ")?,
            tries if self.waited.is_zero() => write!(f, "({tries} tries) ")?,
            tries => write!(f, "({tries} tries, waited {:.1} s) ", self.waited.as_secs_f32())?,
        }
        f.write_str(&self.detail)
    }
}

impl fmt::Debug for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryError")
            .field("kind", &self.kind())
            .field("subject", &self.0.subject)
            .field("places", &self.0.places)
            .finish()
    }
}

impl std::error::Error for RegistryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.telling()?.cause.as_ref()?;
        Some(cause)
    }
}
