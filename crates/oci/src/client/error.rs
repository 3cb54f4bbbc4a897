//! The error type of the registry client.
//!
//! A [`Failure`] describes one failed attempt, and whether a retry makes sense. A [`RegistryError`]
//! is the final result: the action, its object, the locations, the number of attempts, and the time
//! spent waiting.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::secrets::Secrets;

/// The kind of a [`RegistryError`]. The command line derives its exit code from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The registry does not have the repository, manifest or blob.
    NotFound,
    /// The registry requires a credential, or rejected the given one.
    Authentication,
    /// The registry knows the user and denies access.
    Denied,
    /// The registry received too many requests.
    RateLimited {
        /// When it accepts requests again, if it said so.
        until: Option<SystemTime>,
    },
    /// There is no connection, or it broke.
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
    /// This tool's own rules forbid it: a redirect to an internal address, or a blocked registry.
    Refused,
    /// The registry reported an internal error (5xx).
    Registry,
}

/// Why something could not be read from or written to a registry.
pub struct RegistryError(Box<Inner>);

struct Inner {
    action: &'static str,
    name: String,
    places: Vec<Place>,
    is_worth_reopening: bool,
}

/// A location that was tried, and the result.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) tries: u32,
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
        Self(Box::new(Inner {
            action: subject.action,
            name: subject.name.clone(),
            places,
            is_worth_reopening: false,
        }))
    }

    /// Returns an error for a request that was never sent, or that needs no further information
    /// about locations.
    pub(super) fn unasked(subject: &Subject, host: &str, failure: Failure) -> Self {
        Self::new(subject, vec![Place::new(host, 0, Duration::ZERO, failure)])
    }

    /// Marks that another location may have the right content.
    pub(super) fn worth_reopening(mut self) -> Self {
        self.0.is_worth_reopening = true;
        self
    }

    pub(super) fn is_worth_reopening(&self) -> bool {
        self.0.is_worth_reopening
    }

    /// Returns the kind of failure at the last location.
    pub fn kind(&self) -> ErrorKind {
        self.0.places.last().map_or(ErrorKind::Unreachable, |place| place.kind)
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
        Self { host: host.to_owned(), tries, waited, kind, detail, cause }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { action, name, places, .. } = &*self.0;
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
            .field("action", &self.0.action)
            .field("name", &self.0.name)
            .field("places", &self.0.places)
            .finish()
    }
}

impl std::error::Error for RegistryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.0.places.last()?.cause.as_ref()?;
        Some(cause)
    }
}
