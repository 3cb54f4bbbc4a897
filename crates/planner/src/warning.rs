//! What is stale or dangerous about a plan.

use serde::Serialize;

/// Something a person should know before a plan runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The rule's name, for example `spoof-unsupported`.
    pub rule: &'static str,
    /// What is so, and what follows.
    pub message: String,
}

impl Warning {
    pub(crate) fn new(rule: &'static str, message: String) -> Self {
        Self { rule, message }
    }
}
