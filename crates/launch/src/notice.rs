//! Messages for the user while a command runs.

/// A message for the user that does not stop the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A warning.
    Warning {
        /// Its name.
        rule: String,
        /// The finding and its consequence.
        message: String,
    },
    /// What to do next.
    Hint(String),
}

impl Notice {
    /// Creates a warning.
    pub(crate) fn warning(rule: &str, message: impl Into<String>) -> Self {
        Self::Warning { rule: rule.to_owned(), message: message.into() }
    }
}
