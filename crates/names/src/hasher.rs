//! SHA-256 for data that is too long to keep in memory: layers, archives, files.
//!
//! It uses `ring`, which is already a dependency because of TLS. On processors without SHA-256
//! instructions, `ring` takes half the time of other crates.

use ring::digest::{Context, SHA256};

/// A SHA-256 hash in progress.
#[derive(Clone)]
pub struct Hasher(Context);

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher {
    /// Starts a new hash.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes to the hash.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes.as_ref());
    }

    /// Returns the 32 bytes of the hash.
    pub fn finish(self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    #[test]
    fn pieces_give_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        for piece in [1, 63, 64, 65, 4096, 100_000] {
            let mut hasher = Hasher::new();
            bytes.chunks(piece).for_each(|chunk| hasher.update(chunk));
            assert_eq!(Digest::from_sha256(hasher.finish()), Digest::of(&bytes), "{piece}");
        }
        assert_eq!(Digest::from_sha256(Hasher::new().finish()), Digest::of(b""));
    }
}
