//! Failures, as a person sees them: what went wrong, why, and what to do next.
//!
//! Library errors do not mention flags or commands. `conversions` turns them into failures, and
//! adds the hints. `kind` lists the kinds of failure; the command gives each of them an exit
//! code. `unknown` creates the failures for unknown names.

mod conversions;
mod kind;
mod unknown;

use std::error::Error;

pub use conversions::{
    DEBIAN_MIRROR, MIRROR_ONLY, at_server, engine_hints, missing_image, no_mirror_hint,
    registry_hints, registry_kind,
};
pub use kind::Kind;
pub use unknown::{gpu_target, is_nearly, nearest, unknown_gpu};

/// An error that ends the program.
#[derive(Debug)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: Kind,
    /// The first line.
    pub message: Message,
    /// The causes of the error, outermost first.
    pub causes: Vec<String>,
    /// The last log lines of the failed command or step, if there are any.
    pub log: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
}

/// How the first line of an error is shown.
#[derive(Debug)]
pub enum Message {
    /// On one line.
    Line(String),
    /// As annotated places in data files, with the text of each file.
    Places(Vec<(pins::ParseError, String)>),
    /// The message was already printed; only the kind is left.
    Told,
}

impl Failure {
    /// Creates an error from its first line.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: Message::Line(message.into()),
            causes: Vec::new(),
            log: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Creates an error from `message` and the causes of `source`.
    pub fn caused(kind: Kind, message: impl Into<String>, source: &dyn Error) -> Self {
        Self { causes: chain(source), ..Self::new(kind, message) }
    }

    /// Creates an error from an error and its causes.
    pub fn from_chain(kind: Kind, error: &dyn Error) -> Self {
        let mut all = chain(error).into_iter();
        let first = all.next().unwrap_or_default();
        Self { causes: all.collect(), ..Self::new(kind, first) }
    }

    /// Creates an error whose message was already printed.
    pub fn told(kind: Kind) -> Self {
        Self { message: Message::Told, ..Self::new(kind, "") }
    }

    /// Creates an error from the problems in a data file and the text of that file.
    pub fn places(error: pins::ParseError, text: String) -> Self {
        Self::all_places(vec![(error, text)])
    }

    /// Creates an error from the problems in several data files.
    pub fn all_places(files: Vec<(pins::ParseError, String)>) -> Self {
        Self { message: Message::Places(files), ..Self::new(Kind::Input, "") }
    }

    /// Adds a cause.
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds a hint about what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint before the other hints.
    pub fn first_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.insert(0, hint.into());
        self
    }

    /// Puts `what` in front of the message, to show which of several items failed.
    pub fn within(mut self, what: &str) -> Self {
        if let Message::Line(line) = &mut self.message {
            *line = format!("{what}: {line}");
        }
        self
    }

    /// Returns the lines that a record keeps: the message and its causes. The caller hides secrets.
    pub fn lines(&self) -> Vec<String> {
        let first = match &self.message {
            Message::Line(line) => line.clone(),
            Message::Places(files) => {
                files.iter().map(|(error, _)| error.to_string()).collect::<Vec<_>>().join("\n")
            }
            Message::Told => String::new(),
        };
        [first].into_iter().chain(self.causes.iter().cloned()).collect()
    }
}

fn chain(error: &dyn Error) -> Vec<String> {
    let mut all = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        all.push(cause.to_string());
        next = cause.source();
    }
    all
}
