//! Classifies requests that got no response or an incomplete one.

use super::error::{Again, ErrorKind, Failure};
use crate::policy::RefusedHop;

/// The message if nothing listens on the port.
pub(super) const NOT_CONNECTED: &str = "cannot connect";

/// Classifies an error of the HTTP client by its causes.
pub(super) fn classify(error: &reqwest::Error) -> Failure {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut verdict = None;
    while let Some(one) = next {
        // `source` does not return the inner error of an `io::Error`.
        let inner = one.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        verdict = verdict.or_else(|| match inner {
            Some(inner) => judge_error(inner),
            None => judge_error(one),
        });
        next = match inner {
            Some(inner) => Some(inner),
            None => one.source(),
        };
    }
    let (kind, again, detail) = verdict.unwrap_or_else(|| match () {
        () if error.is_timeout() => (
            ErrorKind::Timeout,
            Again::Yes,
            "the connection was not established in time".to_owned(),
        ),
        () if error.is_connect() => (ErrorKind::Unreachable, Again::Yes, NOT_CONNECTED.to_owned()),
        () => (ErrorKind::Unreachable, Again::Yes, "the connection broke".to_owned()),
    });
    Failure { again, ..Failure::fatal(kind, detail) }.because(error)
}

fn judge_error(error: &(dyn std::error::Error + 'static)) -> Option<(ErrorKind, Again, String)> {
    if let Some(refusal) = error.downcast_ref::<RefusedHop>() {
        return Some((
            ErrorKind::Refused,
            Again::No,
            format!("the target is not allowed: {refusal}"),
        ));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        let detail = match error {
            rustls::Error::InvalidCertificate(_) => "its certificate is not trusted",
            _ => "TLS failed",
        };
        return Some((ErrorKind::Tls, Again::No, detail.to_owned()));
    }
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        return Some((ErrorKind::Protocol, Again::No, "the response is not HTTP".to_owned()));
    }
    None
}
