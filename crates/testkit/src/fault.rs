//! What a [`crate::FaultProxy`] can be told to do wrong, and when.

use std::time::Duration;

use crate::proxy::FaultProxy;

/// One way to misbehave.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answers by itself; the registry is not asked.
    Answer(Answer),
    /// Answers 307 with this `Location`; `{target}` in it becomes the path and query asked for.
    Redirect(String),
    /// Never answers.
    Stall,
    /// Ends the connection in order, without an answer.
    Close,
    /// Resets the connection, without an answer.
    Reset,
    /// Resets the connection after this many bytes of the request's body.
    ResetUpload(u64),
    /// Sends these bytes instead of HTTP and ends the connection.
    Garbage(Vec<u8>),
    /// Passes on a good answer, then resets the connection after this many bytes of its body.
    ResetAt(usize),
    /// Passes on a good answer, then ends the connection in order after this many bytes.
    CloseAt(usize),
    /// Passes on a good answer whose `Content-Length` is this.
    Length(u64),
    /// Passes on a good answer with one byte of the body changed.
    Flip(usize),
    /// Passes on a good answer with more behind its body, and a length that says so.
    Append(Vec<u8>),
    /// Passes on a good answer without its last bytes, and a length that says so.
    Cut(usize),
    /// Passes on a good answer with another body.
    Body(Vec<u8>),
    /// Passes on a good answer with a header set, or removed.
    Header(String, Option<String>),
    /// Passes on a good answer in chunks, without a length.
    Chunked,
    /// Passes on the head of a good answer and then a body that never ends.
    Endless,
    /// Passes on a good answer, one byte after each pause.
    Slow(Duration),
    /// Passes on the request without its `Range`.
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
    /// Answers with a status and nothing else.
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
    /// An answer with a status and nothing else.
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

/// When to misbehave, and how often.
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
    /// Counts a request, and returns whether the rule is for it.
    pub(crate) fn counts(&mut self, method: &str, target: &str) -> bool {
        if (self.method != "*" && self.method != method) || !target.contains(&self.contains) {
            return false;
        }
        self.seen += 1;
        (self.first..=self.last).contains(&self.seen)
    }
}

/// A rule that lacks its fault.
#[derive(Debug)]
pub struct RuleBuilder<'a> {
    pub(crate) proxy: &'a FaultProxy,
    pub(crate) rule: Rule,
}

impl RuleBuilder<'_> {
    /// Only for the first `count` fitting requests.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        (self.rule.first, self.rule.last) = (1, count);
        self
    }

    /// Only for the fitting request of this number, counted from 1.
    #[must_use]
    pub fn nth(mut self, number: usize) -> Self {
        (self.rule.first, self.rule.last) = (number, number);
        self
    }

    /// Sets the rule in force. Where several fit a request, the one set first counts.
    pub fn does(mut self, fault: impl Into<Fault>) {
        self.rule.fault = fault.into();
        self.proxy.add(self.rule);
    }
}
