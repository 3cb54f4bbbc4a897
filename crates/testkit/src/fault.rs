//! The faults of a [`crate::FaultProxy`], and when they occur.

use std::time::Duration;

use crate::proxy::FaultProxy;

/// One kind of fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answers itself, without contacting the registry.
    Answer(Answer),
    /// Answers 307 with this `Location`; `{target}` in it is replaced with the requested path and
    /// query.
    Redirect(String),
    /// Never answers.
    Stall,
    /// Closes the connection normally, without an answer.
    Close,
    /// Resets the connection, without an answer.
    Reset,
    /// Resets the connection after this many bytes of the request's body.
    ResetUpload(u64),
    /// Sends these bytes instead of HTTP and closes the connection.
    Garbage(Vec<u8>),
    /// Forwards a good answer, then resets the connection after this many bytes of its body.
    ResetAt(usize),
    /// Forwards a good answer, then closes the connection normally after this many bytes.
    CloseAt(usize),
    /// Forwards a good answer with this `Content-Length`.
    Length(u64),
    /// Forwards a good answer with one changed byte in the body.
    Flip(usize),
    /// Forwards a good answer with extra bytes after its body, and a matching length.
    Append(Vec<u8>),
    /// Forwards a good answer without its last bytes, and a matching length.
    Cut(usize),
    /// Forwards a good answer with another body.
    Body(Vec<u8>),
    /// Forwards a good answer with a header set, or removed.
    Header(String, Option<String>),
    /// Forwards a good answer in chunks, without a length.
    Chunked,
    /// Forwards the head of a good answer, followed by an endless body.
    Endless,
    /// Forwards a good answer, one byte after each pause.
    Slow(Duration),
    /// Forwards the request without its `Range`.
    NoRange,
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Fault {
    /// Answers with only a status.
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::new(status))
    }

    /// Sets a header of a good answer.
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
    /// Returns an answer with only a status.
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

/// A rule without its fault.
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

    /// Activates the rule. If several rules match a request, the first one wins.
    pub fn does(mut self, fault: impl Into<Fault>) {
        self.rule.fault = fault.into();
        self.proxy.add(self.rule);
    }
}
