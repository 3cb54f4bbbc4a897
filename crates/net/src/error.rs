//! Requests that got no response, or an incomplete one.

use crate::policy::RefusedHop;
use crate::text::clean;

/// The message if no connection could be opened.
pub const NOT_CONNECTED: &str = "cannot connect";

/// Why there is no complete response.
#[derive(Debug)]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What happened, as the end of a sentence about the server.
    pub detail: String,
    /// The messages of the underlying errors, sanitised. The errors themselves might contain a URL
    /// or a header.
    pub cause: Option<String>,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The connection failed, or was lost.
    Unreachable,
    /// The server took too long.
    Timeout,
    /// The certificate is not trusted, or TLS failed in another way.
    Tls,
    /// The response is not HTTP.
    Protocol,
    /// The response is larger than allowed.
    TooLarge,
    /// The address is less public than allowed.
    Refused,
    /// Requests to this host are not allowed.
    OtherHost,
    /// The HTTP client cannot be set up on this machine.
    Setup,
}

impl ErrorKind {
    /// Returns whether another attempt may succeed.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::Timeout)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), cause: None }
    }

    pub(crate) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { cause: Some(causes(error)), ..self }
    }

    /// Classifies an error of the HTTP client by its causes.
    pub(crate) fn of(error: &reqwest::Error) -> Self {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        let mut verdict = None;
        while let Some(one) = next {
            // `source` does not return the inner error of an `io::Error`.
            let inner = one.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            verdict = verdict.or_else(|| match inner {
                Some(inner) => judge(inner),
                None => judge(one),
            });
            next = match inner {
                Some(inner) => Some(inner),
                None => one.source(),
            };
        }
        let verdict = verdict.unwrap_or_else(|| match () {
            () if error.is_timeout() => {
                Self::new(ErrorKind::Timeout, "the connection was not established in time")
            }
            () if error.is_connect() => Self::new(ErrorKind::Unreachable, NOT_CONNECTED),
            () => Self::new(ErrorKind::Unreachable, "the connection broke"),
        });
        verdict.because(error)
    }
}

fn judge(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    if let Some(refusal) = error.downcast_ref::<RefusedHop>() {
        return Some(Error::new(
            ErrorKind::Refused,
            format!("the target is not allowed: {refusal}"),
        ));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        let detail = match error {
            rustls::Error::InvalidCertificate(_) => "its certificate is not trusted",
            _ => "TLS failed",
        };
        return Some(Error::new(ErrorKind::Tls, detail));
    }
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        return Some(Error::new(ErrorKind::Protocol, "the response is not HTTP"));
    }
    None
}

/// Returns the messages of an error and of its causes, sanitised. Leaves out repeated messages.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        next = source.source();
    }
    clean(&words)
}
