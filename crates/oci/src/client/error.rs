//! The error of the registry client, and the failures it is made of.
//!
//! A [`Failure`] is what went wrong in one try; it says whether another try makes sense. A
//! [`RegistryError`] is the end of the matter: what was being done to what, where, how often it
//! was tried and how long was waited.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::secrets::Secrets;
use super::text;

/// What sort of failure a [`RegistryError`] is; the command line picks its exit code by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The registry has no such repository, manifest or blob.
    NotFound,
    /// The registry wants a credential, or refused the one that was given.
    Authentication,
    /// The registry knows who asks and says no.
    Denied,
    /// The registry was asked too often.
    RateLimited {
        /// When it may be asked again, where it said so.
        until: Option<SystemTime>,
    },
    /// There is no connection, or it broke.
    Unreachable,
    /// The registry took too long.
    Timeout,
    /// The certificate was refused, or TLS failed otherwise.
    Tls,
    /// The content is not what its digest or size says.
    Integrity,
    /// The answer is not one that the distribution specification allows.
    Protocol,
    /// The answer is larger than what may be read.
    TooLarge,
    /// Our own rules forbid it: an inward redirect, a blocked registry.
    Refused,
    /// The registry failed by its own account (5xx).
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

/// One place that was asked, and how that ended.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) tries: u32,
    pub(super) waited: Duration,
    pub(super) kind: ErrorKind,
    pub(super) detail: String,
    pub(super) cause: Option<Cause>,
}

/// The words of an underlying error, cleaned; the error itself might show a URL or a header.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Cause(String);

/// What is being done to what; every error names it.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// A verb and an object that fit behind "cannot": `read the manifest`.
    pub(super) action: &'static str,
    /// The repository and what of it.
    pub(super) name: String,
}

/// Whether another try makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It would end the same way.
    No,
    /// It may help, after the usual wait.
    Yes,
    /// It may help, not before this time.
    NotBefore(SystemTime),
}

/// What went wrong in one try.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) detail: String,
    pub(super) again: Again,
    pub(super) cause: Option<Cause>,
}

impl Cause {
    /// Takes the words of `error` and of everything beneath it.
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            let text = source.to_string();
            if !words.ends_with(&text) {
                words = format!("{words}: {text}");
            }
            next = source.source();
        }
        Self(text::clean(&words))
    }
}

impl Failure {
    /// The same failure, with no secret in its words.
    pub(super) fn scrubbed(self, secrets: &Secrets) -> Self {
        let cause = self.cause.map(|Cause(words)| Cause(secrets.scrub(words)));
        Self { detail: secrets.scrub(self.detail), cause, ..self }
    }

    /// A failure that another try would not mend.
    pub(super) fn fatal(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), again: Again::No, cause: None }
    }

    /// A failure that may pass.
    pub(super) fn passing(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { again: Again::Yes, ..Self::fatal(kind, detail) }
    }

    /// The same failure, with what caused it.
    pub(super) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { cause: Some(Cause::of(error)), ..self }
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

    /// An error of something that was never asked for, or that needs no further word on where.
    pub(super) fn unasked(subject: &Subject, host: &str, failure: Failure) -> Self {
        Self::new(subject, vec![Place::new(host, 0, Duration::ZERO, failure)])
    }

    /// Marks that another place may have the right content.
    pub(super) fn worth_reopening(mut self) -> Self {
        self.0.is_worth_reopening = true;
        self
    }

    pub(super) fn is_worth_reopening(&self) -> bool {
        self.0.is_worth_reopening
    }

    /// Returns what sort of failure it is: that of the last place asked.
    pub fn kind(&self) -> ErrorKind {
        self.0.places.last().map_or(ErrorKind::Unreachable, |place| place.kind)
    }

    /// Returns how often the last place was tried.
    pub fn tries(&self) -> u32 {
        self.0.places.last().map_or(0, |place| place.tries)
    }

    /// Returns how long was waited between tries, over all places.
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
