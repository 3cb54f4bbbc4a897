//! Removes code for other GPUs from the layers of an image. No engine is needed.
//!
//! The layers are copied to this machine first, because they are read twice. The layers that an
//! interrupted run has copied are kept for the next run, in a folder named after the step's key.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use audit::Layer;
use names::{Digest, GfxVersion, GpuTarget, ImageEdit, Platform};
use oci::client::RegistryClient;
use oci::media::Descriptor;
use oci::{Base, LocalBlobs, NewLayer, Verified, replace_layers};
use record::{SlimSummary, SlimmedLayer};
use seal::SealedLayer;
use slim::{Slimmer, Survey};
use tokio::task::block_in_place;
use tokio_util::task::TaskTracker;

use super::BuildEnv;
use super::sink::diff_ids;
use super::store::StoredImage;
use crate::copy::{LayerCopy, copy_into_files};
use crate::layers::{LayerError, PIECE, read_layer, visit_layer};
use crate::place::{Transfer, distinct};
use crate::{Event, ExecuteError, OnEvent};

/// How often a run checks whether another run that slims the same image has ended.
const WAIT: Duration = Duration::from_millis(200);

/// What to slim, and for which GPUs.
pub(crate) struct SlimStep<'a> {
    /// The name of the step.
    pub(crate) step: &'a str,
    /// Its key.
    pub(crate) key: &'a Digest,
    pub(crate) image: &'a StoredImage,
    /// The name of the image, for messages.
    pub(crate) name: &'a str,
    /// The GPUs whose code is kept. The image must have code for each of them.
    pub(crate) gpus: &'a [GpuTarget],
    /// The GPUs whose code is kept if the image has some.
    pub(crate) if_present: &'a [GpuTarget],
    /// The GPU version that the image makes ROCm assume, unless a later step changes it.
    pub(crate) forced: Option<GfxVersion>,
    /// Layouts and archives that may contain layers of the image.
    pub(crate) nearby: &'a [PathBuf],
    pub(crate) client: &'a RegistryClient,
    /// The tasks of this run that copy layers.
    pub(crate) copies: &'a TaskTracker,
    pub(crate) on_event: &'a OnEvent,
}

/// A layer on this machine.
struct LocalLayer {
    path: PathBuf,
    digest: Digest,
    diff_id: Digest,
    size: u64,
}

impl BuildEnv {
    /// Removes code for other GPUs from an image.
    pub(crate) async fn slim(&self, step: &SlimStep<'_>) -> Result<StoredImage, ExecuteError> {
        let folder = LayerFolder::open(&self.store.work()?, step.key).await?;
        // Another process may have just finished this step.
        if let Some(made) = self.finished(step.key) {
            return Ok(made);
        }
        let layers = self.copy_layers(step, &folder).await?;
        let survey = match self.survey(step, &layers).await {
            Ok(slimmer) => slimmer,
            Err(error) => {
                folder.remove_if_useless(&error);
                return Err(error);
            }
        };
        let (new, slimmer) = self.rewrite(step, &layers, survey).await?;
        for (layer, _) in layers.iter().zip(&new).filter(|(_, new)| new.is_none()) {
            // A manifest may list a layer twice.
            if layer.path.starts_with(&folder.path) && layer.path.exists() {
                self.store.keep_file(&layer.path, &layer.digest)?;
            }
        }
        let kept: Vec<&GpuTarget> = sorted(step);
        let base = Base { manifest: &step.image.manifest, config: &step.image.config };
        // The last step of the plan adds the labels.
        let edit = ImageEdit::default();
        let made = replace_layers(base, &Platform::linux_amd64(), &new, &edit);
        let made = made.map_err(|error| ExecuteError::slim_config(step.name, error))?;
        let made = StoredImage::new(&made, step.image.remote.clone())?;
        let report = slimmer.finish();
        let changed = layers.iter().enumerate().zip(&new);
        let summary = SlimSummary {
            gpus: kept.iter().map(ToString::to_string).collect(),
            layer_bytes_before: step.image.manifest.layer_bytes(),
            layer_bytes_after: made.manifest.layer_bytes(),
            layers: changed
                .filter_map(|((number, layer), rewritten)| {
                    let rewritten = rewritten.as_ref()?;
                    Some(SlimmedLayer {
                        layer: number + 1,
                        before: layer.digest.clone(),
                        after: rewritten.digest.clone(),
                        bytes_before: layer.size,
                        bytes_after: rewritten.size,
                    })
                })
                .collect(),
            files_smaller: report.changed.iter().filter(|file| file.after.is_some()).count(),
            files_removed: report.changed.iter().filter(|file| file.after.is_none()).count(),
            whole: report.whole.iter().map(|file| format!("{}: {}", file.path, file.why)).collect(),
        };
        self.store.keep_slimmed(step.key, &summary)?;
        self.store.finish(step.key, &made)?;
        folder.remove();
        Ok(made)
    }

    /// Makes sure that all layers of an image are on this machine and intact. Returns them, lowest
    /// first.
    async fn copy_layers(
        &self,
        step: &SlimStep<'_>,
        folder: &LayerFolder,
    ) -> Result<Vec<LocalLayer>, ExecuteError> {
        let layers = &step.image.manifest.layers;
        let mut wanted = Vec::new();
        let mut verified = Verified::none().of(&folder.path);
        for layer in distinct(layers) {
            let is_there = block_in_place(|| {
                self.store.layer(layer).is_some()
                    || verified.has(&folder.layer(&layer.digest), &layer.digest, layer.size)
            });
            if !is_there {
                wanted.push(layer.clone());
            }
            // Lets a signal stop the run between two layers.
            tokio::task::yield_now().await;
        }
        self.fetch_layers(step, folder, wanted).await?;
        let diff_ids = diff_ids(&step.image.config)?;
        if diff_ids.len() != layers.len() {
            let what = format!("the config of `{}` does not list its layers", step.name);
            return Err(ExecuteError::plan(what));
        }
        let local = |(layer, diff_id): (&Descriptor, Digest)| {
            let kept = folder.layer(&layer.digest);
            let path = Some(kept.clone()).filter(|path| path.exists());
            let path = path.or_else(|| self.store.blob(&layer.digest)).unwrap_or(kept);
            LocalLayer { path, digest: layer.digest.clone(), diff_id, size: layer.size }
        };
        Ok(layers.iter().zip(diff_ids).map(local).collect())
    }

    /// Copies layers into the folder, several at once, from files on this machine or from the
    /// registry of the image.
    async fn fetch_layers(
        &self,
        step: &SlimStep<'_>,
        folder: &LayerFolder,
        wanted: Vec<Descriptor>,
    ) -> Result<(), ExecuteError> {
        let Some(first) = wanted.first() else { return Ok(()) };
        let Some(remote) = &step.image.remote else {
            let what = format!("the layer `{}` is not in the store", first.digest);
            return Err(ExecuteError::capture(what));
        };
        let local = block_in_place(|| LocalBlobs::find(step.nearby));
        let transfer = Transfer::new(step.step.to_owned(), step.on_event.clone());
        let layer_bytes = wanted.iter().map(|layer| layer.size).sum();
        (step.on_event)(Event::LayersWanted { step: step.step.to_owned(), layer_bytes });
        let copy = |layer: Descriptor| {
            let file = folder.layer(&layer.digest);
            let copy = LayerCopy {
                client: step.client.clone(),
                repository: Some(remote.repository.clone()),
                local: local.clone(),
                transfer: transfer.clone(),
                layer,
            };
            (copy, file)
        };
        let copies = wanted.into_iter().map(copy).collect();
        copy_into_files(copies, step.copies, |_| {}).await
    }

    /// Finds code for other GPUs, and checks that the image works without it.
    async fn survey(
        &self,
        step: &SlimStep<'_>,
        layers: &[LocalLayer],
    ) -> Result<Slimmer, ExecuteError> {
        let kept = sorted(step).into_iter().cloned().collect();
        let mut survey = Survey::new(kept);
        let work = self.store.work()?;
        for local in layers {
            let mut layer = Layer::new(Some(work.clone()));
            let read = || visit_layer(open(&local.path)?, Some(&local.diff_id), &mut layer);
            block_in_place(read).map_err(|error| ExecuteError::slim_layer(&local.digest, error))?;
            survey.add(layer);
            tokio::task::yield_now().await;
        }
        let (found, slimmer) = survey.finish(Some(work));
        slim::check(&found, step.gpus, step.if_present, step.forced)
            .map_err(|refusal| ExecuteError::slim(step.name, refusal))?;
        Ok(slimmer)
    }

    /// Slims the layers that contain code for other GPUs, and stores the new ones. Returns an
    /// element for each layer: `None` if it stays unchanged.
    async fn rewrite(
        &self,
        step: &SlimStep<'_>,
        layers: &[LocalLayer],
        mut slimmer: Slimmer,
    ) -> Result<(Vec<Option<NewLayer>>, Slimmer), ExecuteError> {
        let mut new = Vec::new();
        for (number, local) in layers.iter().enumerate() {
            if !slimmer.is_affected(number) {
                slimmer.skip(number);
                new.push(None);
                continue;
            }
            let mut file = self.store.begin()?;
            let write = || {
                let out = BufWriter::with_capacity(PIECE, file.as_file_mut());
                read_layer(open(&local.path)?, Some(&local.diff_id), |tar| {
                    Ok(slimmer.layer(number, tar, self.threads, out)?)
                })
            };
            let sealed = block_in_place(write);
            let SealedLayer { digest, size, diff_id, listing, .. } =
                sealed.map_err(|error| ExecuteError::slim_layer(&local.digest, error))?;
            self.store.keep(file, &digest)?;
            self.store.keep_listing(&digest, &listing)?;
            (step.on_event)(Event::LayerSlimmed {
                step: step.step.to_owned(),
                number: number + 1,
                total: layers.len(),
                before: local.size,
                after: size,
            });
            new.push(Some(NewLayer { diff_id, digest, size, created_by: String::new() }));
            tokio::task::yield_now().await;
        }
        Ok((new, slimmer))
    }
}

/// Returns the GPUs whose code is kept, sorted.
fn sorted<'a>(step: &SlimStep<'a>) -> Vec<&'a GpuTarget> {
    let mut kept: Vec<&GpuTarget> = step.gpus.iter().chain(step.if_present).collect();
    kept.sort();
    kept
}

fn open(path: &Path) -> Result<File, LayerError> {
    File::open(path).map_err(LayerError::Read)
}

/// The folder for the layers of an image that is being slimmed. Only one process uses it.
struct LayerFolder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl LayerFolder {
    /// Creates and locks the folder. Waits while another process uses it.
    async fn open(work: &Path, key: &Digest) -> Result<Self, ExecuteError> {
        let path = work.join(format!("slim-{}", &key.hex()[..16]));
        let failed = |error: io::Error| {
            ExecuteError::disk(format!("writing into `{}` failed", path.display()), error)
        };
        loop {
            fs::create_dir_all(&path).map_err(failed)?;
            let lock = File::open(&path).map_err(failed)?;
            match lock.try_lock() {
                // The process that held the lock may have removed the folder.
                Ok(()) if is_at(&lock, &path) => return Ok(Self { path, _lock: lock }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => tokio::time::sleep(WAIT).await,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    fn layer(&self, digest: &Digest) -> PathBuf {
        self.path.join(digest.hex())
    }

    /// Removes the folder. If that fails, `clean` removes it later.
    fn remove(self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::info!(%error, path = %self.path.display(), "cannot remove the copied layers");
        }
    }

    /// Removes the folder if the next run cannot use it: a layer in it is damaged, or the image
    /// cannot be slimmed.
    fn remove_if_useless(self, error: &ExecuteError) {
        use crate::ErrorKind::{GpuCode, Integrity, Slim};
        if matches!(error.kind(), GpuCode | Integrity | Slim) {
            self.remove();
        }
    }
}

/// Returns whether a path still refers to an open folder.
fn is_at(folder: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (folder.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::ErrorKind;
    use crate::tests::support::{LAYER, build_env, client, config, image, image_of, keep, tar_of};

    #[tokio::test(flavor = "multi_thread")]
    async fn only_one_run_uses_the_copied_layers() {
        let work = tempfile::tempdir().unwrap();
        let key = Digest::of(b"key");
        let first = LayerFolder::open(work.path(), &key).await.unwrap();
        let waiting = || tokio::time::timeout(WAIT, LayerFolder::open(work.path(), &key));
        assert!(waiting().await.is_err(), "the first run holds the lock");
        LayerFolder::open(work.path(), &Digest::of(b"other")).await.unwrap();
        // A layer is kept for the next run, unless it is damaged.
        fs::write(first.layer(&key), "layer").unwrap();
        first.remove_if_useless(&ExecuteError::plan("a bug".to_owned()));
        let second = LayerFolder::open(work.path(), &key).await.unwrap();
        assert!(second.layer(&key).exists());
        let damaged = LayerError::DiffId { wanted: key.clone(), found: key.clone() };
        second.remove_if_useless(&ExecuteError::layer(damaged));
        let third = LayerFolder::open(work.path(), &key).await.unwrap();
        assert!(!third.layer(&key).exists());
        // A run that waited does not use a folder that was removed in the meantime.
        let path = third.path.clone();
        let old = File::open(&path).unwrap();
        assert!(is_at(&old, &path));
        third.remove();
        assert!(!is_at(&old, &path));
        fs::create_dir(&path).unwrap();
        assert!(!is_at(&old, &path));
    }

    /// Returns a tar with a kernel for each GPU.
    fn kernels(gpus: &[&str]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for gpu in gpus {
            let object = gpu_code::sample_object(&gpu.parse().unwrap()).unwrap();
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(object.len() as u64);
            tar.append_data(&mut header, format!("kernels-{gpu}.co"), &*object).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn code_for_other_gpus_is_removed_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let build_env = build_env(folder.path());
        let (other, mixed) = (tar_of(&[("a", "text")]), kernels(&["gfx1151", "gfx1100"]));
        let told = Arc::<Mutex<Vec<(usize, usize)>>>::default();
        let kept = Arc::clone(&told);
        let on_event: OnEvent = Arc::new(move |event| match event {
            Event::LayerSlimmed { number, total, .. } => kept.lock().unwrap().push((number, total)),
            other => panic!("{other:?}"),
        });
        let (client, copies) = (client(), TaskTracker::new());
        let gpus = ["gfx1151", "gfx1201"].map(|gpu| gpu.parse::<GpuTarget>().unwrap());
        let slim = async |name: &str, image: &StoredImage, gpus: &[GpuTarget]| {
            let key = Digest::of(name.as_bytes());
            let step = SlimStep {
                step: "slim",
                key: &key,
                image,
                name,
                gpus,
                if_present: &[],
                forced: None,
                nearby: &[],
                client: &client,
                copies: &copies,
                on_event: &on_event,
            };
            let made = build_env.slim(&step).await;
            made.map(|made| (made, build_env.store.slimmed(&key).unwrap()))
        };
        let base = image(&[&other, &mixed]);
        let error = slim("absent", &base, &gpus[..1]).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Capture);
        assert!(error.to_string().ends_with("is not in the store"), "{error}");
        keep(&build_env.store, &other);
        keep(&build_env.store, &mixed);
        let error = slim("lacking", &base, &gpus).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Slim);
        assert_eq!(error.to_string(), "code for other GPUs cannot be removed from `lacking`");
        let short = image_of(&config(&serde_json::json!({}), &[&other]), LAYER, &[&other, &mixed]);
        let error = slim("short", &short, &gpus[..1]).await.err().unwrap();
        assert_eq!(error.to_string(), "the config of `short` does not list its layers");
        assert!(told.lock().unwrap().is_empty(), "nothing is rewritten for a refused image");

        let (made, summary) = slim("good", &base, &gpus[..1]).await.unwrap();
        assert_eq!(*told.lock().unwrap(), [(2, 2)]);
        let [first, second] = &made.manifest.layers[..] else { panic!("{:?}", made.manifest) };
        assert_eq!(first.digest, Digest::of(&other));
        let listing = build_env.store.listing(&second.digest).unwrap();
        let paths: Vec<String> = listing.entries.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(paths, ["kernels-gfx1151.co"]);
        let [layer] = &summary.layers[..] else { panic!("{summary:?}") };
        assert_eq!(
            (layer.layer, &layer.before, &layer.after),
            (2, &Digest::of(&mixed), &second.digest)
        );
        assert_eq!((layer.bytes_before, layer.bytes_after), (mixed.len() as u64, second.size));
        assert_eq!((summary.files_smaller, summary.files_removed), (0, 1));
        assert_eq!(summary.gpus, ["gfx1151"]);
        assert_eq!(summary.layer_bytes_before, (other.len() + mixed.len()) as u64);
        assert_eq!(summary.layer_bytes_after, other.len() as u64 + second.size);
        // It is finished: the next run reads it from the store.
        let (again, _) = slim("good", &base, &gpus[..1]).await.unwrap();
        assert_eq!((again.manifest_bytes, told.lock().unwrap().len()), (made.manifest_bytes, 1));
    }
}
