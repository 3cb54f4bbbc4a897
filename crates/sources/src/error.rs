//! The error type of this crate.
//!
//! A [`Failure`] describes one failed attempt, and whether a retry makes sense. A [`SourceError`]
//! is the final result: the action, its object, and the reason. Messages of libraries and servers
//! are sanitised before they are included.

use std::io;

use crate::text;

/// The kind of a [`SourceError`]. The command line derives its exit code from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The repository, ref, commit, file or path does not exist.
    NotFound,
    /// A ref points at a different commit than before.
    Moved,
    /// There is no connection, it broke, or the server reported an internal error.
    Unreachable,
    /// The server took too long.
    Timeout,
    /// The server requires a credential, or denies access.
    Authentication,
    /// The received or cached content does not match its hash.
    Integrity,
    /// This tool's own rules forbid it, for example a scheme, a redirect, a path that leaves its
    /// root, or a decompression bomb.
    Refused,
    /// The disk is full, or a file cannot be read or written.
    Disk,
    /// A server or a library returned something invalid.
    Tool,
    /// Only mirrors may be used, and there is none.
    NoMirror,
}

/// Why a source could not be resolved, fetched, opened or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} `{}`: {}", .inner.action, .inner.subject, .inner.detail)]
pub struct SourceError {
    inner: Box<Inner>,
    #[source]
    cause: Option<Cause>,
}

/// The message of an underlying error, sanitised. The error itself might contain a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(String);

#[derive(Debug)]
struct Inner {
    action: &'static str,
    subject: String,
    kind: ErrorKind,
    detail: String,
    without_mirror: Option<String>,
}

/// Whether a retry makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The result would be the same.
    No,
    /// A retry may help, after the usual wait.
    Yes,
    /// A retry may help after this many seconds, according to the server.
    After(u64),
}

/// One failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
    pub(crate) again: Again,
    pub(crate) cause: Option<Cause>,
    /// The server for which a mirror is missing, if that is the problem: `https://HOST`.
    pub(crate) without_mirror: Option<String>,
}

impl SourceError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the object of the failed action: a URL, a file name or a path.
    pub fn subject(&self) -> &str {
        &self.inner.subject
    }

    /// Returns the server for which a mirror rule is missing, as `https://HOST`. It is set only if
    /// only mirrors may be used.
    pub fn without_mirror(&self) -> Option<&str> {
        self.inner.without_mirror.as_deref()
    }
}

impl Failure {
    /// Returns a failure that a retry would not fix.
    pub(crate) fn fatal(kind: ErrorKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail, again: Again::No, cause: None, without_mirror: None }
    }

    /// Returns a failure that may be temporary.
    pub(crate) fn passing(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { again: Again::Yes, ..Self::fatal(kind, detail) }
    }

    /// Returns the failure for a violation of this tool's own rules.
    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self::fatal(ErrorKind::Refused, detail)
    }

    /// Returns the failure of a disk operation on `path`. `doing` is a participle, such as
    /// `written`.
    pub(crate) fn disk(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let path = text::quoted(&path.display().to_string());
        let detail = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("{path} cannot be {doing}: the disk is full")
            }
            _ => format!("{path} cannot be {doing}"),
        };
        Self::fatal(ErrorKind::Disk, detail).because(error)
    }

    /// Adds the cause.
    pub(crate) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { cause: Some(Cause(net::causes(error))), ..self }
    }

    /// Adds the action and its object.
    pub(crate) fn at(self, action: &'static str, subject: impl ToString) -> SourceError {
        let Self { kind, detail, again: _, cause, without_mirror } = self;
        let subject = subject.to_string();
        let inner = Inner { action, subject, kind, detail, without_mirror };
        SourceError { inner: Box::new(inner), cause }
    }
}

impl From<net::Error> for Failure {
    fn from(error: net::Error) -> Self {
        let kind = match error.kind {
            net::ErrorKind::Unreachable => ErrorKind::Unreachable,
            net::ErrorKind::Timeout => ErrorKind::Timeout,
            net::ErrorKind::Protocol | net::ErrorKind::Setup => ErrorKind::Tool,
            net::ErrorKind::Tls | net::ErrorKind::TooLarge | net::ErrorKind::Refused => {
                ErrorKind::Refused
            }
            net::ErrorKind::OtherHost => ErrorKind::NoMirror,
        };
        let again = if error.kind.may_pass() { Again::Yes } else { Again::No };
        let cause = error.cause.map(Cause);
        Self { again, cause, ..Self::fatal(kind, error.detail) }
    }
}

impl From<SourceError> for Failure {
    /// Converts the error of an inner operation. The message will start with the outer operation.
    fn from(error: SourceError) -> Self {
        let SourceError { inner, cause } = error;
        let Inner { action, subject, kind, detail, without_mirror } = *inner;
        let detail = format!("cannot {action} `{subject}`: {detail}");
        Self { cause, without_mirror, ..Self::fatal(kind, detail) }
    }
}
