//! Digests of manifests, indexes, configs and layers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A content digest: `sha256:` and 64 lower-case hexadecimal digits.
///
/// SHA-256 is the only algorithm that registries use in practice. The OCI image specification
/// ("Digests") also registers `sha512`; this type refuses it with an error that names the
/// algorithm.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
pub struct Digest(String);

/// The reason why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDigestError {
    /// The text has no `algorithm:` prefix.
    #[error("`{0}` has no algorithm; a digest is `sha256:` and 64 hexadecimal digits")]
    NoAlgorithm(String),
    /// The algorithm is not SHA-256.
    #[error("`{0}` uses an algorithm other than sha256")]
    Algorithm(String),
    /// The part after the colon is not 64 digits long.
    #[error("`{text}` has {found} digits after the colon; sha256 needs 64")]
    Length {
        /// The whole text.
        text: String,
        /// How many characters follow the colon.
        found: usize,
    },
    /// The part after the colon contains a character other than `0-9a-f`.
    #[error("`{text}` contains `{character}`; only 0-9 and a-f (lower case) are allowed")]
    Character {
        /// The whole text.
        text: String,
        /// The first invalid character.
        character: char,
    },
}

impl Digest {
    /// Returns the SHA-256 digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_sha256(sha2::Sha256::digest(bytes).into())
    }

    /// Converts the 32 raw bytes of a SHA-256 hash to a digest.
    pub fn from_sha256(raw: [u8; 32]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in raw {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        Self(text)
    }

    /// Returns the whole text, `sha256:…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    /// Returns the algorithm and the first 12 digits, for display only. Never use them to compare
    /// digests.
    pub fn short(&self) -> &str {
        &self.0[.."sha256:".len() + 12]
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (algorithm, hex) =
            text.split_once(':').ok_or_else(|| ParseDigestError::NoAlgorithm(text.to_owned()))?;
        if algorithm != "sha256" {
            return Err(ParseDigestError::Algorithm(text.to_owned()));
        }
        if let Some(character) = hex.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
            return Err(ParseDigestError::Character { text: text.to_owned(), character });
        }
        if hex.len() != 64 {
            return Err(ParseDigestError::Length { text: text.to_owned(), found: hex.len() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_empty_input_is_the_known_one() {
        assert_eq!(
            Digest::of(b"").as_str(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn the_short_form_has_12_digits() {
        assert_eq!(Digest::of(b"").short(), "sha256:e3b0c44298fc");
    }

    #[test]
    fn parse_refuses_what_is_not_a_sha256_digest() {
        let hex = "a".repeat(64);
        for (text, wanted) in [
            ("".to_owned(), "`` has no algorithm; a digest is `sha256:` and 64 hexadecimal digits"),
            (hex.clone(), "has no algorithm"),
            (format!("sha512:{hex}"), "uses an algorithm other than sha256"),
            (format!("SHA256:{hex}"), "uses an algorithm other than sha256"),
            (format!("sha256:{}", "A".repeat(64)), "contains `A`; only 0-9 and a-f"),
            ("sha256:abc".to_owned(), "has 3 digits after the colon; sha256 needs 64"),
            (format!("sha256:{hex}a"), "has 65 digits"),
            (format!("sha256:{hex} "), "contains ` `; only"),
        ] {
            let message = text.parse::<Digest>().unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn serde_checks_the_text() {
        let json = format!("\"sha256:{}\"", "0".repeat(64));
        let digest: Digest = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&digest).unwrap(), json);
        assert!(serde_json::from_str::<Digest>("\"sha256:0\"").is_err());
    }
}
