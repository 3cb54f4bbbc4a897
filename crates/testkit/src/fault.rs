//! The faults of a [`crate::FaultProxy`], and when they occur.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::proxy::FaultProxy;

/// One kind of fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Sends this response, without contacting the registry.
    Answer(Answer),
    /// Responds with status 307 and this `Location`, in which `{target}` is replaced with the
    /// requested path and query.
    Redirect(String),
    /// Never responds.
    Stall,
    /// Closes the connection normally, without a response.
    Close,
    /// Resets the connection, without a response.
    Reset,
    /// Resets the connection after this many bytes of the request's body.
    ResetUpload(u64),
    /// Sends these bytes instead of an HTTP response, and closes the connection.
    Garbage(Vec<u8>),
    /// Forwards the response, but resets the connection after this many bytes of its body.
    ResetAt(usize),
    /// Forwards the response, but closes the connection normally after this many bytes of its body.
    CloseAt(usize),
    /// Forwards the response with this `Content-Length`.
    Length(u64),
    /// Forwards the response with the byte at this position in the body changed.
    Flip(usize),
    /// Forwards the response with these bytes appended to its body, and a matching length.
    Append(Vec<u8>),
    /// Forwards the response without this many bytes at its end, and with a matching length.
    Cut(usize),
    /// Forwards the response with this body instead of its own.
    Body(Vec<u8>),
    /// Forwards the response with a header set, or removed.
    Header(String, Option<String>),
    /// Forwards the response in chunks, without a length.
    Chunked,
    /// Forwards the head of the response, followed by an endless body.
    Endless,
    /// Forwards the body of the response byte by byte, with this pause after each byte.
    Slow(Duration),
    /// Holds the request until this is set, and then forwards it.
    Held(Arc<AtomicBool>),
    /// Forwards the body of the response as far as this number of bytes allows. Several responses
    /// may share the number. When it is used up, they wait until it is increased.
    Allowance(Arc<AtomicU64>),
    /// Forwards the request without its `Range`.
    NoRange,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Fault {
    /// Returns a fault that responds with only a status.
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::new(status))
    }

    /// Returns a fault that sets a header of the response.
    pub fn header(name: &str, value: &str) -> Self {
        Self::Header(name.to_owned(), Some(value.to_owned()))
    }
}

impl From<Answer> for Fault {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl Answer {
    /// Returns a response with only a status.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// When a fault occurs, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) method: String,
    pub(crate) contains: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) seen: usize,
    pub(crate) fault: Fault,
}

impl Rule {
    /// Counts a request, and returns whether the rule applies to it.
    pub(crate) fn counts(&mut self, method: &str, target: &str) -> bool {
        if (self.method != "*" && self.method != method) || !target.contains(&self.contains) {
            return false;
        }
        self.seen += 1;
        (self.first..=self.last).contains(&self.seen)
    }
}

/// A rule that has no fault yet.
#[derive(Debug)]
pub struct RuleBuilder<'a> {
    pub(crate) proxy: &'a FaultProxy,
    pub(crate) rule: Rule,
}

impl RuleBuilder<'_> {
    /// Applies only to the first `count` matching requests.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        (self.rule.first, self.rule.last) = (1, count);
        self
    }

    /// Applies only to the matching request with this number, counted from 1.
    #[must_use]
    pub fn nth(mut self, number: usize) -> Self {
        (self.rule.first, self.rule.last) = (number, number);
        self
    }

    /// Activates the rule. If several rules match a request, the first one is used.
    pub fn does(mut self, fault: impl Into<Fault>) {
        self.rule.fault = fault.into();
        self.proxy.add(self.rule);
    }
}
