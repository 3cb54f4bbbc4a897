//! The error type of this crate.
//!
//! A [`Failure`] describes one failed attempt, and whether a retry makes sense. A [`SourceError`]
//! is the final result: the action, its object, and the reason. Messages of libraries and servers
//! are sanitised before they are included.

use std::io;

use crate::address::SourceUrl;
use crate::text;

/// The kind of a [`SourceError`]. The command line derives its exit code from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The repository, ref, commit, file or path does not exist.
    NotFound,
    /// A ref points at a different commit than before.
    Moved,
    /// There is no connection, or it broke.
    Unreachable,
    /// The server took too long.
    Timeout,
    /// The server's certificate is not trusted, or TLS failed in another way.
    Tls,
    /// The server limits the request rate.
    RateLimited,
    /// The server reported an internal error.
    Server,
    /// The server requires a credential, or denies access.
    Authentication,
    /// The proxy requires a credential.
    Proxy,
    /// The server sent another kind of content, such as a web page.
    Content,
    /// The received or cached content does not match its hash.
    Integrity,
    /// This tool's own rules forbid the request or the content, for example a scheme, a redirect, a
    /// path that leaves its root, or a decompression bomb.
    Refused,
    /// The disk is full, or a file cannot be read or written.
    Disk,
    /// A server or a library returned something invalid.
    Tool,
    /// Only mirrors may be used, and there is none.
    NoMirror,
}

/// The kind of service that a server provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A git repository.
    Git,
    /// A Python package index.
    Index,
    /// An archive of Debian packages.
    Debian,
    /// A file.
    File,
}

/// The server that was contacted: the one in the URL of the source, or a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The URL that was requested. It contains no credentials.
    pub url: SourceUrl,
    /// Whether a mirror rule gave this URL.
    pub is_mirror: bool,
    /// The kind of service.
    pub service: Service,
}

impl Asked {
    /// Returns the server's host and port, or the path of a local mirror.
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(host) => host,
            None => self.url.url().path().to_owned(),
        }
    }
}

/// Why a source could not be resolved, fetched, opened or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} `{}`{}: {}", .inner.action, .inner.subject, .inner.place(), .inner.detail)]
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
    asked: Option<Box<Asked>>,
}

impl Inner {
    /// Returns the part of the message that names the URL that was requested.
    fn place(&self) -> String {
        let Some(asked) = &self.asked else { return String::new() };
        let word = if self.action.starts_with("fetch") { "from" } else { "at" };
        if asked.is_mirror {
            format!(" {word} mirror `{}`", asked.url)
        } else if self.subject.contains(asked.url.as_str()) {
            String::new()
        } else {
            format!(" {word} `{}`", asked.url)
        }
    }
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
    /// The server that was contacted, if any.
    pub(crate) asked: Option<Box<Asked>>,
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

    /// Returns the server or mirror that was contacted. It is `None` if the failure has no such
    /// cause, for example if the network must not be used or the disk is full.
    pub fn asked(&self) -> Option<&Asked> {
        self.inner.asked.as_deref()
    }

    /// Returns the mirror that was contacted, if a mirror rule applied.
    pub fn mirror(&self) -> Option<&Asked> {
        self.asked().filter(|asked| asked.is_mirror)
    }
}

impl Failure {
    /// Returns a failure that a retry would not fix.
    pub(crate) fn fatal(kind: ErrorKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail, again: Again::No, cause: None, without_mirror: None, asked: None }
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

    /// Adds the server that was contacted, unless the failure has nothing to do with it.
    pub(crate) fn asked(self, asked: &Asked) -> Self {
        match self.kind {
            ErrorKind::Disk => self,
            _ if self.asked.is_some() => self,
            _ => Self { asked: Some(Box::new(asked.clone())), ..self },
        }
    }

    /// Adds the action and its object.
    pub(crate) fn at(self, action: &'static str, subject: impl ToString) -> SourceError {
        let Self { kind, detail, again: _, cause, without_mirror, asked } = self;
        let subject = subject.to_string();
        let inner = Inner { action, subject, kind, detail, without_mirror, asked };
        SourceError { inner: Box::new(inner), cause }
    }
}

impl From<net::Error> for Failure {
    fn from(error: net::Error) -> Self {
        let kind = match error.kind {
            net::ErrorKind::Unreachable => ErrorKind::Unreachable,
            net::ErrorKind::Timeout => ErrorKind::Timeout,
            net::ErrorKind::Tls => ErrorKind::Tls,
            net::ErrorKind::Protocol => ErrorKind::Content,
            net::ErrorKind::Setup => ErrorKind::Tool,
            net::ErrorKind::TooLarge | net::ErrorKind::Refused => ErrorKind::Refused,
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
        let Inner { action, subject, kind, detail, without_mirror, asked } = *inner;
        let detail = format!("cannot {action} `{subject}`: {detail}");
        Self { cause, without_mirror, asked, ..Self::fatal(kind, detail) }
    }
}
