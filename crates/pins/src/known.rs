//! How a fact is known, so that a reader can judge it: `known = "vendor"` in data files.

use std::fmt;

use crate::problem::{Wrong, quote, wrong};

/// How a fact is known, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// The vendor's documents or source code confirm it.
    Vendor,
    /// A maintainer confirmed it.
    Maintainer,
    /// Several people reported it independently.
    Reports(u16),
    /// There is one source.
    OneSource,
}

impl Known {
    /// Parses `vendor`, `maintainer`, `3 reports` or `one source`.
    ///
    /// # Errors
    /// Fails if the text is something else.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let reports = text.strip_suffix(" reports").and_then(|number| number.parse().ok());
        match (text, reports) {
            ("vendor", _) => Ok(Self::Vendor),
            ("maintainer", _) => Ok(Self::Maintainer),
            ("one source", _) => Ok(Self::OneSource),
            (_, Some(number)) if number > 1 => Ok(Self::Reports(number)),
            _ => Err(wrong(
                format!("{} is not a value of `known`", quote(text)),
                "write `vendor`, `maintainer`, `3 reports` (two or more) or `one source`",
            )),
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vendor => f.write_str("the vendor confirms it"),
            Self::Maintainer => f.write_str("a maintainer confirmed it"),
            Self::Reports(number) => write!(f, "{number} independent reports"),
            Self::OneSource => f.write_str("one source"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_nothing_else() {
        for (text, known) in [
            ("vendor", Known::Vendor),
            ("maintainer", Known::Maintainer),
            ("2 reports", Known::Reports(2)),
            ("one source", Known::OneSource),
        ] {
            assert_eq!(Known::parse(text).unwrap(), known);
        }
        for text in ["", "1 reports", "0 reports", "reports", "Vendor", "-3 reports"] {
            assert!(Known::parse(text).is_err(), "{text}");
        }
    }
}
