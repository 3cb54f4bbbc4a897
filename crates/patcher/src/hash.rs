//! SHA-256 of file contents, in the project's one type for it, and its spelling in JSON.

use image_ref::Digest;
use pins::Sha256;

/// Returns the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    Digest::of(bytes).hex().parse().expect("a digest has 64 hexadecimal digits")
}

/// `#[serde(with = "hash::text")]`: 64 hexadecimal digits.
pub(crate) mod text {
    use pins::Sha256;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        hash: &Sha256,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(hash.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Sha256, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
