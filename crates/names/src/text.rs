//! The small validated strings that pins and tracks consist of: names, commits, hashes, GPU
//! targets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reason why a text is not a pin or track name, commit, hash or GPU target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct ParseNameError {
    /// The given text.
    pub text: String,
    /// The expected form, with the rule.
    pub what: &'static str,
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $type:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(
            Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $type(String);

        impl $type {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        // A map with such keys can be searched for any `&str`.
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = ParseNameError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_valid: fn(&str) -> bool = $check;
                if is_valid(text) {
Ok(Self(text.to_owned()))
} else {
Err(ParseNameError { text: text.to_owned(), what: $what })
}
            }
        }

        impl TryFrom<String> for $type {
            type Error = ParseNameError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_text!(
    /// The name of a pin, for example `vllm-dev-locked`.
    ///
    /// `gpu`, `spoof` and `source-date-epoch` are not pin names: a plan lists them next to the pins
    /// that a run changed.
    PinName,
    "a pin name; a pin name has at most 64 lower-case letters, digits and single dashes, starts with a letter, does not end with a dash, and is not `gpu`, `spoof` or `source-date-epoch`",
    |text| {
        text.len() <= 64
            && !matches!(text, "gpu" | "spoof" | "source-date-epoch")
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.ends_with('-')
            && !text.contains("--")
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
);

checked_text!(
    /// The name of a track, for example `locked-spoof`.
    ///
    /// `gpu` and `schema` are other keys of `tracks.toml`, and `rehearsal-NAME` is the name of the
    /// rehearsed image of track NAME.
    TrackName,
    "a track name; a track name has 2 to 64 lower-case letters, digits and single dashes, starts with a letter, does not end with a dash, and is not `gpu`, `schema` or `rehearsal-…`",
    |text| {
        (2..=64).contains(&text.len())
            && !matches!(text, "gpu" | "schema")
            && !text.starts_with("rehearsal-")
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.ends_with('-')
            && !text.contains("--")
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
);

checked_text!(
    /// A full git commit id: 40 lower-case hexadecimal digits (SHA-1) or 64 (SHA-256).
    CommitId,
    "a full commit; a commit has 40 (or 64) lower-case hexadecimal digits",
    |text| matches!(text.len(), 40 | 64) && is_lower_hex(text)
);

checked_text!(
    /// The SHA-256 of a file: 64 lower-case hexadecimal digits.
    Sha256,
    "a SHA-256; a SHA-256 has 64 lower-case hexadecimal digits",
    |text| text.len() == 64 && is_lower_hex(text)
);

checked_text!(
    /// A GPU target as LLVM names it, for example `gfx1151`.
    GpuTarget,
    "a GPU target; a target is `gfx` and 3 to 5 hexadecimal digits, for example `gfx1151`",
    |text| {
        text.strip_prefix("gfx").is_some_and(|rest| (3..=5).contains(&rest.len()) && is_lower_hex(rest))
    }
);

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_targets_have_lower_case_hexadecimal_digits() {
        let refuses = |text: &str| {
            assert!(text.parse::<GpuTarget>().is_err(), "{text}");
            assert!(text.parse::<CommitId>().is_err(), "{text}");
            assert!(text.parse::<Sha256>().is_err(), "{text}");
        };
        for (digits, length) in [("0123456789", 40), ("abcdef", 40), ("abcdef", 64)] {
            let text: String = digits.chars().cycle().take(length).collect();
            assert!(text.parse::<CommitId>().is_ok(), "{text}");
            assert_eq!(text.parse::<Sha256>().is_ok(), length == 64, "{text}");
            for (from, to) in [(&digits[1..2], "g"), (&digits[1..2], "B"), (&digits[..1], "")] {
                refuses(&text.replacen(from, to, 1));
            }
            refuses(&format!("{text}0"));
        }
        for text in ["gfx900", "gfx90a", "gfx1151", "gfx12000"] {
            assert_eq!(text.parse::<GpuTarget>().unwrap().as_str(), text);
        }
        for text in ["", "gfx", "gfx90", "gfx120000", "gfx115x", "gfx90A", "1151", "GFX1151"] {
            refuses(text);
        }
    }
}
