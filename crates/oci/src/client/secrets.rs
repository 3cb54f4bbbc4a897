//! Remembers every secret that was used, so that none is shown again: a server may echo what it
//! was sent.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use super::transport::lock;

/// The secrets of one client.
#[derive(Default)]
pub(super) struct Secrets(Mutex<BTreeSet<String>>);

impl Secrets {
    /// Keeps a secret. Very short ones would blot out ordinary words.
    pub(super) fn remember(&self, secret: &str) {
        if secret.len() >= 4 {
            lock(&self.0).insert(secret.to_owned());
        }
    }

    /// Replaces every secret in `text`.
    pub(super) fn scrub(&self, text: String) -> String {
        lock(&self.0).iter().fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
