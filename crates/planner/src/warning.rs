//! Warnings about a plan: outdated or risky facts.

use serde::Serialize;

/// Information for people before a plan runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The rule's name, for example `spoof-unsupported`.
    pub rule: &'static str,
    /// The fact, and its consequence.
    pub message: String,
}

impl Warning {
    pub(crate) fn new(rule: &'static str, message: String) -> Self {
        Self { rule, message }
    }
}
