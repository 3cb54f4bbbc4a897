//! The error of this crate, and the failures it is made of.
//!
//! A [`Failure`] is what went wrong in one try, and says whether another try makes sense. A
//! [`SourceError`] is the end of the matter: what was being done to what, and why it did not work.
//! What libraries and servers say is cleaned before it comes near a message.

use std::io;

use crate::text;

/// What sort of failure a [`SourceError`] is; the command line picks its exit code by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such repository, ref, commit, file or path.
    NotFound,
    /// A ref points at another commit than it did.
    Moved,
    /// There is no connection, it broke, or the server failed by its own account.
    Unreachable,
    /// The server took too long.
    Timeout,
    /// The server wants a credential, or says no.
    Authentication,
    /// What came, or what lies in the cache, is not what its hash says.
    Integrity,
    /// Our own rules forbid it: a scheme, a redirect, a path that leaves its root, a bomb.
    Refused,
    /// The disk is full, or a file cannot be read or written.
    Disk,
    /// The server or a library answered in a way that makes no sense.
    Tool,
}

/// Why a source could not be resolved, fetched, opened or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} `{}`: {}", .inner.action, .inner.subject, .inner.detail)]
pub struct SourceError {
    inner: Box<Inner>,
    #[source]
    cause: Option<Cause>,
}

/// The words of an underlying error, cleaned; the error itself might show a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(String);

#[derive(Debug)]
struct Inner {
    action: &'static str,
    subject: String,
    kind: ErrorKind,
    detail: String,
}

/// Whether another try makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It would end the same way.
    No,
    /// It may help, after the usual wait.
    Yes,
    /// It may help after this many seconds, by the server's own word.
    After(u64),
}

/// What went wrong in one try.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
    pub(crate) again: Again,
    pub(crate) cause: Option<Cause>,
}

impl SourceError {
    /// Returns what sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns what was being fetched or read: a url, a file name, a path.
    pub fn subject(&self) -> &str {
        &self.inner.subject
    }
}

impl Failure {
    /// A failure that another try would not mend.
    pub(crate) fn fatal(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), again: Again::No, cause: None }
    }

    /// A failure that may pass.
    pub(crate) fn passing(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { again: Again::Yes, ..Self::fatal(kind, detail) }
    }

    /// A breach of our own rules.
    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self::fatal(ErrorKind::Refused, detail)
    }

    /// A failure of this machine's disk while doing something to `path`.
    pub(crate) fn disk(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let path = text::quoted(&path.display().to_string());
        let detail = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("{path} cannot be {doing}, the disk is full")
            }
            _ => format!("{path} cannot be {doing}"),
        };
        Self::fatal(ErrorKind::Disk, detail).because(error)
    }

    /// The same failure, with what caused it.
    pub(crate) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            let more = source.to_string();
            if !words.contains(&more) {
                words = format!("{words}: {more}");
            }
            next = source.source();
        }
        Self { cause: Some(Cause(text::clean(&words))), ..self }
    }

    /// Says what was being done to what.
    pub(crate) fn at(self, action: &'static str, subject: impl ToString) -> SourceError {
        let Self { kind, detail, again: _, cause } = self;
        let subject = subject.to_string();
        SourceError { inner: Box::new(Inner { action, subject, kind, detail }), cause }
    }
}

impl From<SourceError> for Failure {
    /// For an operation inside another one, whose words lead.
    fn from(error: SourceError) -> Self {
        let SourceError { inner, cause } = error;
        let Inner { action, subject, kind, detail } = *inner;
        Self { cause, ..Self::fatal(kind, format!("cannot {action} `{subject}`: {detail}")) }
    }
}
