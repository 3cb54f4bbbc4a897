//! Pushes finished steps to stores, and compares them with the stores' entries.

use names::Digest;
use seal::{Cause, Listing, compare};

use super::entry::{NewEntry, tag, tag_of};
use super::{Entry, OnNote, Problem, SharedStore, SharedStores, Wanted, lock};
use crate::ExecuteError;
use crate::build_env::{Store, StoredImage};

/// A step that finished on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) made: &'a StoredImage,
    /// The text whose digest is the key.
    pub(crate) content: &'a str,
}

impl SharedStores {
    /// Compares a finished step with the entries of all stores, and pushes it to the stores that
    /// lack it.
    ///
    /// # Errors
    /// Fails if the workflow requires a different result for the key, or if a store has one. If
    /// that store is writable, this run's result is also kept there.
    pub(crate) async fn publish(
        &self,
        finished: Finished<'_>,
        own: &Store,
        note: OnNote<'_>,
    ) -> Result<(), ExecuteError> {
        let result = Digest::of(&finished.made.manifest_bytes);
        let Wanted { step, key, .. } = finished.wanted;
        if let Some(required) = self.results.get(key).filter(|required| **required != result) {
            return Err(ExecuteError::store_differs(format!(
                "step `{step}` has the result `{result}` here, but `{required}` is required"
            )));
        }
        for store in &self.stores {
            if lock(&self.failed).contains_key(store.name()) {
                continue;
            }
            match self.publish_to(store, finished, own).await {
                Ok(None) => {}
                Ok(Some(other)) => return Err(self.differs(store, finished, &other, own).await),
                Err(problem) => self.tell(store, finished.wanted, problem, note),
            }
        }
        Ok(())
    }

    /// Pushes a finished step to a writable store that has no valid entry for it. Returns the store's
    /// entry if it has a different result.
    async fn publish_to(
        &self,
        store: &SharedStore,
        finished: Finished<'_>,
        own: &Store,
    ) -> Result<Option<Entry>, Problem> {
        let key = finished.wanted.key;
        let result = Digest::of(&finished.made.manifest_bytes);
        let mut is_pushed = false;
        // An invalid entry is replaced.
        let mut pushes = !store.is_read_only && self.is_refused(store, key);
        loop {
            match Entry::read(&store.place, &self.client, key).await {
                Ok(Some(other)) if other.result != result => return Ok(Some(other)),
                Ok(Some(_)) if !pushes => return Ok(None),
                Ok(None) if store.is_read_only || is_pushed => return Ok(None),
                Ok(_) => {}
                Err(Problem::Refused(_)) if !store.is_read_only && !is_pushed => {}
                Err(problem) => return Err(problem),
            }
            let new = self.entry_of(finished, own);
            new.push(&store.place, &self.client, &tag_of(key)?).await?;
            // Another run may have pushed at the same time: read it again.
            (pushes, is_pushed) = (false, true);
        }
    }

    fn entry_of(&self, finished: Finished<'_>, own: &Store) -> NewEntry {
        let slim = own.slimmed(finished.wanted.key);
        NewEntry::new(finished.made, finished.content, slim, own)
    }

    /// Keeps both results if the store is writable, and returns the error that names the first
    /// difference.
    async fn differs(
        &self,
        store: &SharedStore,
        finished: Finished<'_>,
        other: &Entry,
        own: &Store,
    ) -> ExecuteError {
        let Finished { wanted: Wanted { step, key, .. }, made, .. } = finished;
        let result = Digest::of(&made.manifest_bytes);
        let mut kept = String::new();
        if !store.is_read_only {
            let name = format!("{}.{}", key.hex(), result.hex().get(..12).unwrap_or_default());
            let new = self.entry_of(finished, own);
            let pushed = match tag(&name) {
                Ok(tag) => new.push(&store.place, &self.client, &tag).await.is_ok(),
                Err(_) => false,
            };
            if pushed {
                kept = format!("; the store also has this run's result, as `{name}`");
            }
        }
        let first = self.first_difference(store, made, other, own).await;
        ExecuteError::store_differs(format!(
            "step `{step}` has the result `{result}` here, but `{}` in `{}` for the same key `{}`: {first}{kept}",
            other.result,
            store.name(),
            key.hex(),
        ))
    }

    /// Returns the first difference between an image and an entry.
    async fn first_difference(
        &self,
        store: &SharedStore,
        made: &StoredImage,
        other: &Entry,
        own: &Store,
    ) -> String {
        let mut pairs = made.manifest.layers.iter().zip(other.all_layers());
        if let Some((here, there)) = pairs.find(|(here, there)| here.digest != there.digest) {
            let listed = other.listing(&store.place, &self.client, &there.digest).await;
            let listed = own.listing(&here.digest).zip(listed);
            let file = listed.and_then(|(ours, theirs)| first_file(&ours, &theirs));
            let (here, there) = (&here.digest, &there.digest);
            return file
                .unwrap_or_else(|| format!("layer `{here}` here, but `{there}` in the store"));
        }
        if made.manifest.layers.len() == other.all_layers().len() {
            return "the layers are the same, but the configs differ".to_owned();
        }
        "the images have different numbers of layers".to_owned()
    }
}

/// Returns the first file that differs between two layers.
fn first_file(here: &Listing, there: &Listing) -> Option<String> {
    let mut first = None;
    let _ = compare(here, there, |difference| {
        // Positions of entries differ as a consequence of other differences.
        if first.is_none() && difference.cause != Cause::Order {
            first = Some(format!("`/{}` differs ({})", difference.path, difference.cause));
        }
        Ok(())
    });
    first
}
