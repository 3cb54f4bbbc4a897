//! What a person should know while a command works.

/// Something that a person should know, although the work goes on.
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
