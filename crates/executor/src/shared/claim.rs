//! Claims: a run uses them to tell other runs that it is building a step.
//!
//! A claim is a small artifact next to the entry, under `KEY.claim`, that its owner renews while it
//! works. The clocks of machines differ, so a reader does not compare times: a claim has lapsed if
//! it has not changed for [`LAPSE`]. Registries have no compare-and-swap, so each run reads its
//! claim again after a while, and the last one to write wins ([`settle`], after Fischer's algorithm
//! in Lamport, "A Fast Mutual Exclusion Algorithm", 1987). If two runs win anyway, both build the
//! step, and have the same result.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use names::{Digest, Tag};
use oci::ArtifactPlace;
use oci::client::{BlobStream, RegistryClient};
use oci::media::{EMPTY_CONFIG, EMPTY_TYPE, OCI_MANIFEST};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::entry::tag;
use super::{OnNote, Problem, SharedStores, Wanted};
use crate::build_env::{Store, StoredImage};

/// How often an owner renews its claim.
const RENEW: Duration = Duration::from_secs(5);
/// How long a claim may stay unchanged. After that, its owner is considered dead.
const LAPSE: Duration = Duration::from_secs(20);
/// How many times a run writes its claim before it continues without one.
const TRIES: u32 = 8;
/// How often a waiting run checks the claim.
const POLL: Duration = Duration::from_secs(1);
/// How long a run waits after writing a claim, in case another run writes one at the same moment.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a run waits if it wrote its claim late. By then, an owner that did not wait for this
/// claim has renewed its own claim and thereby replaced this one.
const SETTLE_LATE: Duration = RENEW.saturating_mul(2);

/// The type of the artifact.
pub(super) const CLAIM: &str = "application/vnd.build-pipeline.claim.v1";
const OWNER: &str = "build-pipeline.owner";
const TIME: &str = "build-pipeline.time";
/// The owner of a claim that was given up.
const NOBODY: &str = "";

/// What a run does with a step.
pub(crate) enum Turn {
    /// It builds the step. The claim, if there is one, is renewed until it is released or dropped.
    Build(Option<Claim>),
    /// Another run has finished it.
    Finished(Box<StoredImage>),
}

/// A claim of this run.
#[derive(Debug)]
pub(crate) struct Claim {
    post: Post,
    renewal: JoinHandle<()>,
}

/// The location of a claim.
#[derive(Debug, Clone)]
struct Post {
    place: ArtifactPlace,
    client: RegistryClient,
    tag: Tag,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

impl Claim {
    /// Tells other runs that they need not wait any longer.
    pub(crate) async fn release(self) {
        self.renewal.abort();
        if let Err(error) = self.post.write(NOBODY).await {
            tracing::info!(%error, "cannot release a claim");
        }
    }
}

impl Post {
    /// Returns the owner and the bytes of the claim, if there is one.
    async fn read(&self) -> Result<Option<(String, Bytes)>, oci::ArtifactError> {
        let Some(bytes) = self.place.manifest(&self.client, &self.tag).await? else {
            return Ok(None);
        };
        let json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let owner = json.pointer("/annotations").and_then(|all| all.get(OWNER)?.as_str());
        let owner = owner.unwrap_or(NOBODY).to_owned();
        Ok(Some((owner, bytes)).filter(|(owner, _)| owner != NOBODY))
    }

    async fn write(&self, owner: &str) -> Result<(), oci::ArtifactError> {
        let (digest, size) = (Digest::of(EMPTY_CONFIG), EMPTY_CONFIG.len());
        let descriptor = json!({ "mediaType": EMPTY_TYPE, "digest": digest, "size": size });
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let claim = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": CLAIM,
            "config": descriptor,
            "layers": [descriptor],
            "annotations": { OWNER: owner, TIME: time.as_millis().to_string() },
        });
        self.place.push_manifest(&self.client, &self.tag, claim.to_string().into()).await
    }

    /// Writes the only blob of a claim. This takes time, so it is not part of [`Self::write`].
    async fn prepare(&self) -> Result<(), oci::ArtifactError> {
        let empty = Bytes::from_static(EMPTY_CONFIG);
        self.place.push(&self.client, BlobStream::of_bytes(empty)).await
    }

    /// Renews the claim until the task is aborted.
    async fn renew(self, owner: String) {
        loop {
            tokio::time::sleep(RENEW).await;
            if let Err(error) = self.write(&owner).await {
                tracing::info!(%error, "cannot renew a claim");
            }
        }
    }
}

/// Returns how long a run waits before it reads its claim again. `span` is the time from the start
/// of the read that found no owner to the end of the write.
///
/// Another run may have read the claim before this run wrote its own, and may write its claim
/// later. If that run is fast, its claim is visible after [`SETTLE`]. If it is slow, it waits
/// longer itself.
fn settle(span: Duration) -> Duration {
    if span < SETTLE / 2 { SETTLE } else { SETTLE_LATE }
}

impl SharedStores {
    /// Claims a step in the first writable store. If another run builds it, waits until that run
    /// has finished it, released it, or died.
    pub(crate) async fn claim(&self, wanted: Wanted<'_>, own: &Store, note: OnNote<'_>) -> Turn {
        let Some(store) = self.stores.iter().find(|store| !store.is_read_only) else {
            return Turn::Build(None);
        };
        if super::lock(&self.failed).contains_key(store.name()) {
            return Turn::Build(None);
        }
        let Ok(tag) = tag(&format!("{}.claim", wanted.key.hex())) else {
            return Turn::Build(None);
        };
        let post = Post { place: store.place.clone(), client: self.client.clone(), tag };
        match self.turn(&post, wanted, own, note).await {
            Ok(turn) => turn,
            // Without a claim, another run may build the same step; this only costs time.
            Err(error) => {
                self.tell(store, wanted, Problem::from(error), note);
                Turn::Build(None)
            }
        }
    }

    async fn turn(
        &self,
        post: &Post,
        wanted: Wanted<'_>,
        own: &Store,
        note: OnNote<'_>,
    ) -> Result<Turn, oci::ArtifactError> {
        let mut seen: Option<(Bytes, Instant)> = None;
        let mut is_told = false;
        post.prepare().await?;
        let mut tries = 0;
        loop {
            // A store that does not return what was written cannot hold claims.
            if tries == TRIES {
                tracing::info!(
                    step = wanted.step,
                    "claims that were written to the store cannot be read back"
                );
                return Ok(Turn::Build(None));
            }
            let started = Instant::now();
            match post.read().await? {
                Some((owner, claim)) if owner != self.owner => {
                    let since = match &seen {
                        Some((before, since)) if *before == claim => *since,
                        _ => Instant::now(),
                    };
                    seen = Some((claim, since));
                    if since.elapsed() < LAPSE {
                        if !is_told {
                            let step = wanted.step;
                            note(
                                "store-waiting",
                                format!("step `{step}`: waiting for {owner}, which is building it"),
                            );
                            is_told = true;
                        }
                        tokio::time::sleep(POLL).await;
                        if let Some(made) = self.pull(wanted, own, note).await {
                            return Ok(Turn::Finished(Box::new(made)));
                        }
                        continue;
                    }
                }
                Some(_) | None => {}
            }
            tries += 1;
            post.write(&self.owner).await?;
            tokio::time::sleep(settle(started.elapsed())).await;
            seen = None;
            if post.read().await?.is_some_and(|(owner, _)| owner == self.owner) {
                break;
            }
        }
        // Another run may have finished the step before this claim.
        if let Some(made) = self.pull(wanted, own, note).await {
            post.write(NOBODY).await?;
            return Ok(Turn::Finished(Box::new(made)));
        }
        let renewal = tokio::spawn(post.clone().renew(self.owner.clone()));
        Ok(Turn::Build(Some(Claim { post: post.clone(), renewal })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::shared::Finished;
    use crate::tests::support::{client, image, keep, tar_of};

    #[test]
    fn a_run_that_wrote_its_claim_late_waits_longer() {
        let moment = Duration::from_nanos(1);
        for (span, wanted) in [
            (Duration::ZERO, SETTLE),
            (SETTLE / 2 - moment, SETTLE),
            (SETTLE / 2, SETTLE_LATE),
            (RENEW, SETTLE_LATE),
        ] {
            assert_eq!(settle(span), wanted, "{span:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_second_run_waits_for_the_first_and_takes_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let shared = |owner: &str, option: &str| {
            let store = format!("dir:{}{option}", folder.path().join("store").display());
            SharedStores::new(client(), vec![store.parse().unwrap()], owner.to_owned())
        };
        let [own, other] = ["own", "other"].map(|name| Store::new(folder.path().join(name)));
        let key = Digest::of(b"content");
        let wanted = Wanted { step: "seal", key: &key, remote: None };
        let silent = |rule: &str, message| panic!("{rule}: {message}");
        let turn = shared("reader", ",ro").claim(wanted, &own, &silent).await;
        assert!(matches!(turn, Turn::Build(None)), "a store that is only read holds no claims");
        assert!(!folder.path().join("store").exists());

        let (first, second) = (shared("the first", ""), shared("the second", ""));
        let turn = first.claim(wanted, &own, &silent).await;
        let Turn::Build(Some(claim)) = turn else { panic!("nobody else builds it") };
        let tar = tar_of(&[("a", "text")]);
        keep(&own, &tar);
        let made = image(&[&tar]);
        let notes = Mutex::new(Vec::new());
        let note = |rule: &str, message: String| {
            notes.lock().unwrap().push(format!("{rule}: {message}"));
        };
        let finished = Finished { wanted, made: &made, content: "content" };
        let publish = async {
            while notes.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            first.publish(finished, &own, &silent).await.unwrap();
        };
        let (turn, ()) = tokio::join!(second.claim(wanted, &other, &note), publish);
        let Turn::Finished(found) = turn else { panic!("the first run has built it") };
        assert_eq!(found.manifest_bytes, made.manifest_bytes);
        let wanted_note = "store-waiting: step `seal`: waiting for the first, which is building it";
        assert_eq!(*notes.lock().unwrap(), [wanted_note]);
        claim.release().await;
        // After a release, nobody waits.
        let key = Digest::of(b"other");
        let wanted = Wanted { step: "seal", key: &key, remote: None };
        let Turn::Build(Some(claim)) = first.claim(wanted, &own, &silent).await else {
            panic!("nobody builds it");
        };
        claim.release().await;
        let turn = second.claim(wanted, &other, &silent).await;
        assert!(matches!(turn, Turn::Build(Some(_))));
    }
}
