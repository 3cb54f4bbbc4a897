//! Reads layers from layouts and archives on this machine before a registry is asked.
//!
//! Such a file is not trusted: its bytes are checked like those of a registry. A damaged file is
//! not used again, and the layer is then read from the next location.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use names::Digest;
use net::lock;

use super::RegistryClient;
use super::check::{Check, Prefix};
use super::error::{RegistryError, Subject};
use super::stream::{Pieces, local_pieces};
use crate::local::{LocalBlobs, Place};
use crate::media::Descriptor;

/// Layouts and archives that may contain requested layers.
#[derive(Debug, Default)]
pub(super) struct Nearby {
    paths: Vec<PathBuf>,
    used: Mutex<Used>,
}

/// What is known about the copies that were opened. A copy is a digest in a file.
#[derive(Debug, Default)]
struct Used {
    opened: BTreeSet<(Digest, PathBuf)>,
    damaged: BTreeSet<(Digest, PathBuf)>,
}

impl RegistryClient {
    /// Returns a client that first looks for layers in these layouts and archives. They may change
    /// or disappear at any time.
    #[must_use]
    pub fn beside(&self, paths: Vec<PathBuf>) -> Self {
        let nearby = Nearby { paths, used: Mutex::default() };
        Self { session: Arc::clone(&self.session), nearby: Arc::new(nearby) }
    }

    /// Returns whether a layer is read from a file on this machine.
    pub fn has_file(&self, layer: &Descriptor) -> bool {
        self.session.inputs.place(&layer.digest).is_some()
            || self.nearby.copy(&layer.digest, layer.size).is_some()
    }

    /// Hashes the copies of these layers that were read. Returns whether one is damaged that was not
    /// reported before; reading the layer again then uses another location. Call this if a reader
    /// failed, because it may have stopped before the damage was found.
    pub fn has_damaged_copy(&self, layers: &[Descriptor]) -> bool {
        let local = LocalBlobs::find(&self.nearby.paths);
        let is_intact = |layer: &Descriptor, file: &Path| {
            // A file that was removed meanwhile is not damaged.
            local.found(&layer.digest).find(|place| place.file == file).is_none_or(|place| {
                let read = place.open(0).and_then(Prefix::read);
                read.is_ok_and(|read| read.is(layer))
            })
        };
        let opened = lock(&self.nearby.used).opened.clone();
        let damaged = opened.into_iter().filter(|(digest, file)| {
            let layer = layers.iter().find(|layer| layer.digest == *digest);
            layer.is_some_and(|layer| !is_intact(layer, file))
        });
        let damaged: Vec<_> = damaged.collect();
        for copy in &damaged {
            // Each copy counts only once, so that a caller who tries again comes to an end.
            lock(&self.nearby.used).opened.remove(copy);
            self.nearby.distrust(copy.clone());
        }
        !damaged.is_empty()
    }

    /// Returns the files whose copy of a layer was damaged.
    pub fn damaged_files(&self) -> Vec<PathBuf> {
        lock(&self.nearby.used).damaged.iter().map(|(_, file)| file.clone()).collect()
    }

    /// Returns the part of a blob that `check` has not seen yet, if a file near the outputs has it.
    pub(super) fn rest_nearby(
        &self,
        subject: &Subject,
        check: Check,
    ) -> Result<Pieces, Box<Check>> {
        let opened = self.nearby.copy(&check.digest, check.size).and_then(|place| {
            let stream = place.stream(check.seen).ok()?;
            Some((stream, place.file))
        });
        let Some((stream, file)) = opened else { return Err(Box::new(check)) };
        tracing::info!("{} is read from `{}`", check.digest, file.display());
        let copy = (check.digest.clone(), file);
        lock(&self.nearby.used).opened.insert(copy.clone());
        let (nearby, subject) = (Arc::clone(&self.nearby), subject.clone());
        // If the beginning came from elsewhere, it may be the damaged part.
        let is_continued = check.is_continued;
        let failed = move |failure| {
            if !is_continued {
                nearby.distrust(copy.clone());
            }
            let place = copy.1.display().to_string();
            RegistryError::unasked(&subject, &place, failure).worth_reopening()
        };
        Ok(local_pieces(stream, check, failed))
    }
}

impl Nearby {
    /// Returns a copy of a blob that is not known to be damaged.
    fn copy(&self, digest: &Digest, size: u64) -> Option<Place> {
        if self.paths.is_empty() {
            return None;
        }
        let used = lock(&self.used);
        let is_usable = |place: &Place| {
            place.size == size && !used.damaged.contains(&(digest.clone(), place.file.clone()))
        };
        LocalBlobs::find(&self.paths).found(digest).find(is_usable)
    }

    fn distrust(&self, copy: (Digest, PathBuf)) {
        tracing::warn!(layer = %copy.0, "`{}` is damaged", copy.1.display());
        lock(&self.used).damaged.insert(copy);
    }
}
