//! The in-process registry that engines pull bases from and push images to.
//!
//! It claims to have all layers of a base, so that an engine sends only what it added.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use engine::{BASE_LABEL, BASE_VALUE, NAMESPACE};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use names::{Digest, ImageRef, Tag};
use oci::client::{RegistryClient, RegistryError};
use oci::loopback::{BlobSource, BlobStream, LoopbackRegistry, StoredBlob};
use oci::media::{Descriptor, OCI_MANIFEST};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::store::{Store, StoredImage};
use crate::place::Transfer;
use crate::{BlobCache, ExecuteError};

/// The beginning of a layer is kept only if the free disk space is at least this many times the
/// size of the rest. The engine needs room for the compressed layer and for its files.
const ROOM: u64 = 5;

/// The buffer size for reading files, in bytes.
const PIECE: usize = 256 << 10;

/// The registry, and its folder for temporary files.
#[derive(Debug)]
pub(crate) struct Sink {
    registry: LoopbackRegistry,
    spool: TempDir,
    /// The offered layers that could not be read, and why.
    unread: Arc<Mutex<BTreeMap<Digest, io::Error>>>,
}

/// An offered layer that could not be read. The engine learns only that the transfer failed.
#[derive(Debug)]
pub(super) struct Unread {
    layer: Digest,
    error: io::Error,
}

impl Unread {
    /// Returns whether another attempt may read the layer, for example from another location.
    pub(super) fn is_worth_reopening(&self) -> bool {
        is_worth_reopening(&self.error)
    }

    /// Returns the error for a step or an output.
    pub(super) fn into_error(self) -> ExecuteError {
        ExecuteError::unread_layer(&self.layer, self.error)
    }
}

/// Forgets why a layer could not be read, unless it had wrong bytes.
fn forget(unread: &Mutex<BTreeMap<Digest, io::Error>>, layer: &Digest) {
    let mut all = unread.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.get(layer).is_some_and(is_worth_reopening) {
        all.remove(layer);
    }
}

/// Returns whether another attempt may read a layer that could not be read.
fn is_worth_reopening(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<RegistryError>());
    inner.is_some_and(RegistryError::is_worth_reopening)
}

/// Where the layers of an offered image come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// Has the layers that this tool made.
    pub(crate) store: &'a Store,
    /// Reads the others from their registry.
    pub(crate) client: &'a RegistryClient,
    /// Keeps the layers that are read from a registry.
    pub(crate) cache: &'a BlobCache,
    /// Counts what the engine receives.
    pub(crate) transfer: Option<&'a Transfer>,
}

impl Sink {
    /// Starts serving.
    pub(crate) async fn start(store: &Store) -> Result<Self, ExecuteError> {
        let work = store.work()?;
        let spool =
            tempfile::Builder::new().prefix("spool-").tempdir_in(&work).map_err(|error| {
                ExecuteError::disk(format!("writing into `{}` failed", work.display()), error)
            })?;
        let registry = LoopbackRegistry::start_in(spool.path()).await;
        let registry = registry.map_err(|error| {
            ExecuteError::disk("cannot open a port on 127.0.0.1".to_owned(), error)
        })?;
        Ok(Self { registry, spool, unread: Arc::default() })
    }

    /// Returns the reference of a repository on this registry, with a tag.
    pub(crate) fn reference(&self, name: &str, tag: &str) -> Result<ImageRef, ExecuteError> {
        let text = format!("{}/{NAMESPACE}/{name}:{tag}", self.registry.host());
        text.parse().map_err(|_| ExecuteError::plan(format!("`{text}` is not a valid reference")))
    }

    /// Offers an image, and returns its reference with the digest.
    pub(crate) fn offer(
        &self,
        name: &str,
        made: &StoredImage,
        origin: Origin<'_>,
    ) -> Result<ImageRef, ExecuteError> {
        let tag: Tag = "base".parse().map_err(|_| ExecuteError::plan("invalid tag".to_owned()))?;
        self.registry.add_blob(made.config.clone());
        for (layer, diff_id) in made.manifest.layers.iter().zip(diff_ids(&made.config)?) {
            let source = self.watched(source_of(layer, made.remote.as_ref(), origin));
            self.registry.claim(&layer.digest, layer.size, Some(source));
            // A client that does not know the digest of the compressed layer requests this digest.
            self.registry.claim(&diff_id, layer.size, None);
        }
        let repository = format!("{NAMESPACE}/{name}");
        let bytes = made.manifest_bytes.clone();
        let media_type = made.manifest.json.get("mediaType").and_then(|value| value.as_str());
        let media_type = media_type.unwrap_or(OCI_MANIFEST);
        let digest = self.registry.add_manifest(&repository, Some(&tag), media_type, bytes);
        let reference = self.reference(name, tag.as_str())?;
        Ok(ImageRef { tag: None, digest: Some(digest), ..reference })
    }

    /// Offers an image to build on, like [`Sink::offer`]. It has an additional label, which
    /// everything built on it inherits. In an engine, this distinguishes it from the same image of
    /// another user.
    pub(crate) fn offer_base(
        &self,
        name: &str,
        base: &StoredImage,
        origin: Origin<'_>,
    ) -> Result<ImageRef, ExecuteError> {
        self.offer(&format!("{name}-base"), &labelled(base)?, origin)
    }

    /// Returns the manifest that was pushed to a repository under a tag.
    pub(crate) fn manifest(&self, name: &str, tag: &str) -> Option<Bytes> {
        let (_, _, bytes) = self.registry.manifest(&format!("{NAMESPACE}/{name}"), tag)?;
        Some(bytes)
    }

    /// Returns why a push failed, if the disk is the cause. The engine learns only that it failed.
    pub(crate) fn disk_failure(&self) -> Option<ExecuteError> {
        let failure = self.registry.take_spool_failure()?;
        let what = format!("writing into `{}` failed", self.spool.path().display());
        Some(ExecuteError::disk(what, failure))
    }

    /// Returns one of these layers that an engine requested last without getting it, if there is
    /// one, and forgets all of them. Other steps of the run may offer other layers.
    pub(super) fn take_unread(&self, layers: &[Descriptor]) -> Option<Unread> {
        let mut all = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = layers.iter().filter_map(|layer| all.remove_entry(&layer.digest));
        let first = found.next().map(|(layer, error)| Unread { layer, error });
        found.for_each(drop);
        first
    }

    /// Returns a source that remembers why it could not be read.
    fn watched(&self, source: BlobSource) -> BlobSource {
        let unread = Arc::clone(&self.unread);
        Arc::new(move |layer| {
            let opening = source(layer.clone());
            let unread = Arc::clone(&unread);
            // Engines repeat a request. Only the last one counts, unless an earlier one found wrong
            // bytes: they explain why no location is left.
            forget(&unread, &layer);
            let failed = move |error| {
                forget(&unread, &layer);
                let mut all = unread.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(layer.clone()).or_insert(error);
                io::Error::other("the layer cannot be read")
            };
            async move {
                let stream: BlobStream = match opening.await {
                    Ok(stream) => Box::pin(stream.map_err(failed)),
                    Err(error) => return Err(failed(error)),
                };
                Ok(stream)
            }
            .boxed()
        })
    }

    /// Returns the folder for files that are needed until the run ends.
    pub(crate) fn spool(&self) -> &Path {
        self.spool.path()
    }

    /// Returns a pushed blob.
    pub(crate) fn blob(&self, digest: &Digest) -> Option<StoredBlob> {
        self.registry.blob(digest)
    }
}

/// Returns an image with the label of bases.
fn labelled(base: &StoredImage) -> Result<StoredImage, ExecuteError> {
    let bad = || ExecuteError::plan("the config of a base is not valid".to_owned());
    let mut config: Value = serde_json::from_slice(&base.config).map_err(|_| bad())?;
    let inner = object_in(config.as_object_mut(), "config").ok_or_else(bad)?;
    let labels = object_in(Some(inner), "Labels").ok_or_else(bad)?;
    labels.insert(BASE_LABEL.to_owned(), BASE_VALUE.into());
    let config = Bytes::from(config.to_string());
    let mut manifest: Value = serde_json::from_slice(&base.manifest_bytes).map_err(|_| bad())?;
    let descriptor = object_in(manifest.as_object_mut(), "config").ok_or_else(bad)?;
    descriptor.insert("digest".to_owned(), Digest::of(&config).to_string().into());
    descriptor.insert("size".to_owned(), config.len().into());
    let manifest_bytes = Bytes::from(manifest.to_string());
    Ok(StoredImage { manifest_bytes, config, ..base.clone() })
}

/// Returns an object inside another one, and creates it if necessary.
fn object_in<'a>(
    outer: Option<&'a mut Map<String, Value>>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    let inner = outer?.entry(key).or_insert(Value::Null);
    if inner.is_null() {
        *inner = json!({});
    }
    inner.as_object_mut()
}

/// Returns the digests of an image's uncompressed layers.
pub(crate) fn diff_ids(config: &[u8]) -> Result<Vec<Digest>, ExecuteError> {
    let bad = || ExecuteError::plan("a config has no valid `rootfs.diff_ids`".to_owned());
    let config: Value = serde_json::from_slice(config).map_err(|_| bad())?;
    let items = config.pointer("/rootfs/diff_ids").and_then(|value| value.as_array());
    let parsed = items.ok_or_else(bad)?.iter().map(|item| item.as_str()?.parse().ok());
    parsed.collect::<Option<_>>().ok_or_else(bad)
}

/// Returns where to read a layer: from the store, or from its registry.
pub(super) fn source_of(
    layer: &Descriptor,
    remote: Option<&ImageRef>,
    origin: Origin<'_>,
) -> BlobSource {
    let source = LayerOrigin {
        path: origin.store.blob(&layer.digest),
        layer: layer.clone(),
        remote: remote.cloned(),
        client: origin.client.clone(),
        cache: origin.cache.clone(),
        transfer: origin.transfer.cloned(),
    };
    Arc::new(move |_| source.clone().open().boxed())
}

/// Where a layer comes from.
#[derive(Clone)]
struct LayerOrigin {
    layer: Descriptor,
    /// The file with the layer, if it is in the store.
    path: Option<PathBuf>,
    /// An image in the repository that has it.
    remote: Option<ImageRef>,
    client: RegistryClient,
    cache: BlobCache,
    transfer: Option<Transfer>,
}

impl LayerOrigin {
    async fn open(self) -> io::Result<BlobStream> {
        let Self { layer, path, remote, client, cache, transfer } = self;
        let stream = match (path, remote) {
            (Some(path), _) => file(path).await?,
            (None, Some(remote)) => {
                let opened = cache.stream(&client, &remote.repository, &layer, ROOM).await;
                let (stream, _) = opened.map_err(io::Error::other)?;
                stream.map_err(io::Error::other).boxed()
            }
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        let Some(transfer) = transfer else { return Ok(stream) };
        let count = transfer.receiver(&layer);
        Ok(stream.inspect_ok(move |piece| count(piece.len() as u64)).boxed())
    }
}

async fn file(path: PathBuf) -> io::Result<BlobStream> {
    let file = tokio::fs::File::open(path).await?;
    Ok(Box::pin(stream::try_unfold(file, |mut file| async {
        let mut piece = BytesMut::with_capacity(PIECE);
        let length = file.read_buf(&mut piece).await?;
        Ok((length > 0).then(|| (piece.freeze(), file)))
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::{client, config, image, image_of, keep, tar_of};

    #[test]
    fn a_base_gets_a_label_and_keeps_its_own() {
        for (inner, labels) in [
            (json!(null), json!({ BASE_LABEL: BASE_VALUE })),
            (json!({ "Labels": null }), json!({ BASE_LABEL: BASE_VALUE })),
            (json!({ "Labels": { "a": "b" } }), json!({ "a": "b", BASE_LABEL: BASE_VALUE })),
        ] {
            let base = image_of(&config(&inner, &[b"tar"]), "x", &[b"tar"]);
            let made = labelled(&base).unwrap();
            let found: Value = serde_json::from_slice(&made.config).unwrap();
            assert_eq!(found["config"]["Labels"], labels);
            let manifest: Value = serde_json::from_slice(&made.manifest_bytes).unwrap();
            assert_eq!(manifest["config"]["digest"], json!(Digest::of(&made.config)));
            assert_eq!(manifest["config"]["size"], json!(made.config.len()));
            let old: Value = serde_json::from_slice(&base.manifest_bytes).unwrap();
            assert_eq!(manifest["layers"], old["layers"]);
        }
        for inner in [json!([]), json!({ "Labels": "a=b" })] {
            let error = labelled(&image_of(&config(&inner, &[]), "x", &[])).unwrap_err();
            assert_eq!(error.to_string(), "the config of a base is not valid");
        }
    }

    #[test]
    fn a_config_must_list_its_layers() {
        let digest = Digest::of(b"tar");
        let good = json!({ "rootfs": { "diff_ids": [digest, digest] } }).to_string();
        assert_eq!(diff_ids(good.as_bytes()).unwrap(), [digest.clone(), digest]);
        for bad in [
            "",
            "{}",
            r#"{"rootfs":{"diff_ids":"x"}}"#,
            r#"{"rootfs":{"diff_ids":[1]}}"#,
            r#"{"rootfs":{"diff_ids":["sha256:1"]}}"#,
        ] {
            let error = diff_ids(bad.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("`rootfs.diff_ids`"), "{bad}: {error}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_offered_image_can_be_fetched_by_its_digest_with_all_layers() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let (here, gone) = (tar_of(&[("a", "text")]), tar_of(&[("b", "text")]));
        keep(&store, &here);
        let (made, cache, client) = (image(&[&here, &gone]), BlobCache::none(), client());
        let transfer = Transfer::new("out".to_owned(), Arc::new(|_| {}));
        let origin =
            Origin { store: &store, client: &client, cache: &cache, transfer: Some(&transfer) };
        let sink = Sink::start(&store).await.unwrap();
        let offered = sink.offer("mine", &made, origin).unwrap();
        assert_eq!(
            (offered.tag.as_ref(), offered.digest.as_ref()),
            (None, Some(&Digest::of(&made.manifest_bytes)))
        );
        assert!(offered.to_string().contains(&format!("/{NAMESPACE}/mine@")), "{offered}");
        assert_eq!(client.manifest(&offered).await.unwrap().bytes, made.manifest_bytes);
        assert_eq!(sink.manifest("mine", "base"), Some(made.manifest_bytes.clone()));
        let fetch = async |layer: &Descriptor| {
            client.blob(&offered.repository, &layer.digest, layer.size, layer.size).await
        };
        let [first, second] = &made.manifest.layers[..] else { panic!("two layers") };
        assert!(fetch(first).await.unwrap() == here);
        assert_eq!((transfer.received(), transfer.bytes()), (1, here.len() as u64));
        // A layer that is neither in the store nor in a registry cannot be sent.
        assert!(fetch(second).await.is_err());
        assert_eq!(transfer.received(), 1);
        let base = sink.offer_base("mine", &made, origin).unwrap();
        assert!(base.to_string().contains("/mine-base@"), "{base}");
        assert_ne!(base.digest, offered.digest);
    }
}
