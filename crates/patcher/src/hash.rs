//! SHA-256 of file contents, as the project's hash type.

use names::Digest;
use names::Sha256;

/// Returns the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    Digest::of(bytes).hex().parse().expect("a digest has 64 hexadecimal digits")
}
