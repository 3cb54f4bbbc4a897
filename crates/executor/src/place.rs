//! Puts the layers of an image into a repository of a registry.
//!
//! A layer is transferred only if the registry does not have it and cannot mount it from another
//! of its repositories (distribution specification, "Mounting a blob from another repository").

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use names::{Digest, Repository};
use oci::LocalBlobs;
use oci::client::{BlobStream, KeptPart, RegistryClient};
use oci::media::Descriptor;
use tokio::task::JoinSet;

use crate::{BlobCache, Event, ExecuteError, OnEvent};

/// How many layers are copied at once. More streams do not make better use of a connection, and
/// registries limit connections (podman and skopeo copy 6, docker 3).
pub(crate) const LAYERS_AT_ONCE: usize = 4;

/// The beginning of a layer is kept only if the free disk space is at least this many times the
/// size of the rest.
pub(crate) const ROOM: u64 = 2;

/// The number of bytes of a layer between two progress reports.
const PROGRESS_STEP: u64 = 4 << 20;

/// Counts the transferred bytes of a layer.
pub(crate) type Ticker = Box<dyn Fn(u64) + Send + Sync>;

/// The transfer of layers to an output.
#[derive(Clone)]
pub struct Transfer {
    /// The output, in the syntax of `--output`.
    pub output: String,
    /// Receives the progress.
    pub on_event: OnEvent,
    bytes: Arc<AtomicU64>,
    /// The layers that an engine has received completely.
    received: Arc<Mutex<BTreeSet<Digest>>>,
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer").field("output", &self.output).finish_non_exhaustive()
    }
}

impl Transfer {
    /// Creates a transfer whose byte count is 0.
    pub fn new(output: String, on_event: OnEvent) -> Self {
        Self { output, on_event, bytes: Arc::default(), received: Arc::default() }
    }

    /// Returns the number of bytes that were transferred.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of layers that an engine has received completely.
    pub(crate) fn received(&self) -> usize {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns a function that counts the bytes of a layer that an engine receives.
    pub(crate) fn receiver(&self, layer: &Descriptor) -> Ticker {
        let (tick, received) = (self.ticker(layer), Arc::clone(&self.received));
        let (digest, size, seen) = (layer.digest.clone(), layer.size, AtomicU64::new(0));
        Box::new(move |more| {
            tick(more);
            if seen.fetch_add(more, Ordering::Relaxed) + more == size {
                received.lock().unwrap_or_else(PoisonError::into_inner).insert(digest.clone());
            }
        })
    }

    /// Reports a layer that needs no transfer.
    pub(crate) fn has(&self, layer: &Descriptor) {
        let (output, total) = (self.output.clone(), layer.size);
        let layer = layer.digest.clone();
        (self.on_event)(Event::LayerProgress { output, layer, done: total, total });
    }

    /// Returns a function that counts the bytes of a layer and reports progress at intervals.
    pub(crate) fn ticker(&self, layer: &Descriptor) -> Ticker {
        self.ticker_after(layer, 0)
    }

    /// Like [`Self::ticker`], but for a layer of which `kept` bytes need no transfer.
    pub(crate) fn ticker_after(&self, layer: &Descriptor, kept: u64) -> Ticker {
        let (transfer, layer, total) = (self.clone(), layer.digest.clone(), layer.size);
        let counter = AtomicU64::new(kept);
        Box::new(move |more| {
            transfer.bytes.fetch_add(more, Ordering::Relaxed);
            let before = counter.fetch_add(more, Ordering::Relaxed);
            // A transfer that starts over counts the same bytes again.
            let done = (before + more).min(total);
            let is_end = done == total && total > PROGRESS_STEP;
            if before / PROGRESS_STEP != done / PROGRESS_STEP || is_end {
                let (output, layer) = (transfer.output.clone(), layer.clone());
                (transfer.on_event)(Event::LayerProgress { output, layer, done, total });
            }
        })
    }
}

/// Where the layers of an image are.
#[derive(Debug, Clone, Default)]
pub struct LayerSource {
    /// Layouts and archives, which may contain only some of them.
    pub files: LocalBlobs,
    /// The repository that has the layers that the files do not contain.
    pub repository: Option<Repository>,
    /// Other repositories that have all of them, for mounting.
    pub copies: Vec<Repository>,
    /// Keeps the beginning of each layer while it is read from the repository.
    pub cache: BlobCache,
}

impl LayerSource {
    async fn open(
        &self,
        layer: &Descriptor,
        client: &RegistryClient,
    ) -> Result<(BlobStream, Option<Arc<KeptPart>>), ExecuteError> {
        if let Some(stream) = self.files.layer(layer) {
            return Ok((stream, None));
        }
        let Some(repository) = &self.repository else {
            return Err(ExecuteError::plan(format!(
                "layer `{}` is not in the image's folder, and the image does not name its base",
                layer.digest
            )));
        };
        self.cache.stream(client, repository, layer, ROOM).await.map_err(|error| {
            ExecuteError::registry(format!("fetching layer `{}` failed", layer.digest), error)
        })
    }
}

/// How the layers got to an output. Layers that were already there are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// The number of layers that were transferred.
    pub copied: usize,
    /// The number of layers that were mounted from another repository.
    pub mounted: usize,
}

/// A repository that receives the layers of an image.
#[derive(Debug)]
pub struct LayerTarget<'a> {
    /// Talks to the registries.
    pub client: &'a RegistryClient,
    /// The repository.
    pub repository: &'a Repository,
    /// Counts the transferred bytes.
    pub transfer: &'a Transfer,
}

impl LayerTarget<'_> {
    /// Makes sure that the repository has all layers, and adds to `placed` how it got each.
    ///
    /// # Errors
    /// Fails if a layer cannot be found, read or pushed. The copies in progress are then stopped.
    pub async fn place(
        &self,
        layers: &[Descriptor],
        source: &LayerSource,
        placed: &mut Placed,
    ) -> Result<(), ExecuteError> {
        let mut locations =
            source.repository.as_ref().map(|one| self.client.locations(one)).unwrap_or_default();
        locations.extend(source.copies.iter().cloned());
        let is_near = |place: &&Repository| place.registry() == self.repository.registry();
        let neighbours: Vec<&Repository> = locations.iter().filter(is_near).collect();
        let may_have = neighbours.is_empty() || neighbours.contains(&self.repository);
        let neighbour = neighbours.into_iter().find(|place| *place != self.repository);
        let mut copies = JoinSet::new();
        for layer in distinct(layers) {
            if copies.len() == LAYERS_AT_ONCE {
                placed.add(joined(&mut copies).await?);
            }
            let one = OneLayer {
                client: self.client.clone(),
                layer: layer.clone(),
                target: self.repository.clone(),
                neighbour: neighbour.cloned(),
                // A layer that was made here is not in the other repository.
                may_have: may_have || source.files.layer(layer).is_some(),
                transfer: self.transfer.clone(),
            };
            copies.spawn(one.place(source.clone()));
        }
        while !copies.is_empty() {
            placed.add(joined(&mut copies).await?);
        }
        Ok(())
    }
}

impl Placed {
    pub(crate) fn add(&mut self, how: Option<How>) {
        match how {
            Some(How::Copied) => self.copied += 1,
            Some(How::Mounted) => self.mounted += 1,
            Some(How::There) | None => {}
        }
    }
}

/// Returns the distinct layers, in the order of their digests.
pub(crate) fn distinct(layers: &[Descriptor]) -> Vec<&Descriptor> {
    let mut layers: Vec<&Descriptor> = layers.iter().collect();
    layers.sort_by_key(|layer| &layer.digest);
    layers.dedup_by_key(|layer| &layer.digest);
    layers
}

/// How an output got a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    /// It was there before, or on this machine.
    There,
    /// It was mounted from another repository.
    Mounted,
    /// It was transferred.
    Copied,
}

/// A layer to be transferred.
struct OneLayer {
    client: RegistryClient,
    layer: Descriptor,
    target: Repository,
    /// A repository of the same registry that has the layer.
    neighbour: Option<Repository>,
    /// Whether the target may already have it.
    may_have: bool,
    transfer: Transfer,
}

impl OneLayer {
    async fn place(self, source: LayerSource) -> Result<How, ExecuteError> {
        let Self { client, layer, target, transfer, .. } = &self;
        let pushing = |error| {
            ExecuteError::registry(format!("pushing to `{}` failed", transfer.output), error)
        };
        if self.may_have && client.has_blob(target, &layer.digest).await.map_err(pushing)? {
            transfer.has(layer);
            source.cache.remove_parts(std::slice::from_ref(layer));
            return Ok(How::There);
        }
        if let Some(from) = &self.neighbour
            && client.mount_blob(target, &layer.digest, from).await.map_err(pushing)?
        {
            transfer.has(layer);
            source.cache.remove_parts(std::slice::from_ref(layer));
            return Ok(How::Mounted);
        }
        let (stream, part) = source.open(layer, client).await?;
        let tick = transfer.ticker(layer);
        let counted = stream.inspect(move |piece| {
            if let Ok(piece) = piece {
                tick(piece.len() as u64);
            }
        });
        let pushed = client.push_blob_stream(target, &layer.digest, layer.size, counted).await;
        pushed.map_err(pushing)?;
        if let Some(part) = part {
            part.remove();
        }
        Ok(How::Copied)
    }
}

/// Waits for one of the copies, while the others continue.
pub(crate) async fn joined<T: 'static>(
    copies: &mut JoinSet<Result<T, ExecuteError>>,
) -> Result<Option<T>, ExecuteError> {
    match copies.join_next().await {
        None => Ok(None),
        Some(Ok(result)) => result.map(Some),
        Some(Err(error)) => {
            Err(ExecuteError::plan(format!("a copy stopped unexpectedly: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::{client, layer};

    const MEBIBYTE: u64 = 1 << 20;

    /// Returns a transfer, and the progress that it has reported so far.
    fn transfer() -> (Transfer, Arc<Mutex<Vec<u64>>>) {
        let told = Arc::<Mutex<Vec<u64>>>::default();
        let kept = Arc::clone(&told);
        let on_event = move |event| match event {
            Event::LayerProgress { done, .. } => kept.lock().unwrap().push(done),
            other => panic!("{other:?}"),
        };
        (Transfer::new("an output".to_owned(), Arc::new(on_event)), told)
    }

    #[test]
    fn progress_is_reported_at_each_step_and_at_the_end_of_a_large_layer() {
        let m = MEBIBYTE;
        for (size, kept, pieces, wanted) in [
            (4 * m - 1, 0, &[4 * m - 1][..], &[][..]),
            (4 * m, 0, &[4 * m - 1, 1], &[4 * m]),
            (4 * m + 1, 0, &[4 * m, 1], &[4 * m, 4 * m + 1]),
            (9 * m, 0, &[9 * m], &[9 * m]),
            (9 * m, 5 * m, &[2 * m, m, m], &[8 * m, 9 * m]),
            // The transfer starts over.
            (6 * m, 0, &[5 * m, 5 * m], &[5 * m, 6 * m]),
        ] {
            let (transfer, told) = transfer();
            let tick = transfer.ticker_after(&layer("a", size), kept);
            pieces.iter().for_each(|piece| tick(*piece));
            assert_eq!(*told.lock().unwrap(), wanted, "{size} {kept} {pieces:?}");
            assert_eq!(transfer.bytes(), pieces.iter().sum::<u64>());
        }
        let (transfer, told) = transfer();
        transfer.has(&layer("a", 7));
        assert_eq!((&**told.lock().unwrap(), transfer.bytes()), (&[7][..], 0));
    }

    #[test]
    fn an_engine_has_received_a_layer_when_the_last_byte_is_there() {
        let (transfer, _) = transfer();
        for (name, pieces, received) in [
            ("a", &[4, 5][..], 0),
            ("b", &[4, 6], 1),
            ("c", &[10], 2),
            ("b", &[10], 2),
            ("d", &[4, 7], 2),
        ] {
            let count = transfer.receiver(&layer(name, 10));
            pieces.iter().for_each(|piece| count(*piece));
            assert_eq!(transfer.received(), received, "{name}");
        }
        assert_eq!(transfer.bytes(), 50);
    }

    #[test]
    fn each_layer_is_placed_once() {
        let [a, b] = ["a", "b"].map(|name| layer(name, 1));
        let mut sorted = [&a, &b];
        sorted.sort_by_key(|layer| &layer.digest);
        for layers in [vec![a.clone(), b.clone(), a.clone()], vec![b.clone(), a.clone(), b.clone()]]
        {
            assert_eq!(distinct(&layers), sorted);
        }
        let mut placed = Placed::default();
        for how in
            [Some(How::Copied), Some(How::Mounted), Some(How::There), None, Some(How::Copied)]
        {
            placed.add(how);
        }
        assert_eq!(placed, Placed { copied: 2, mounted: 1 });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_layer_that_is_nowhere_is_an_error_that_names_it() {
        let registry = oci::loopback::LoopbackRegistry::start().await.unwrap();
        let repository: Repository = format!("{}/made", registry.host()).parse().unwrap();
        let (layer, (transfer, _), client) = (layer("a", 1), transfer(), client());
        let target = LayerTarget { client: &client, repository: &repository, transfer: &transfer };
        let mut placed = Placed::default();
        let layers = std::slice::from_ref(&layer);
        let error = target.place(layers, &LayerSource::default(), &mut placed).await.unwrap_err();
        assert!(error.to_string().contains(layer.digest.as_str()), "{error}");
        assert!(error.to_string().contains("does not name its base"), "{error}");
        assert_eq!(placed, Placed::default());
    }
}
