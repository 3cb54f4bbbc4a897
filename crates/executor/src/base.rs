//! Fetches the manifest and config of a base, and checks every byte against the pin.

use bytes::Bytes;
use names::{Digest, ImageRef};
use oci::client::RegistryClient;
use oci::media::{CONFIG_CAP, Descriptor, Document, Manifest, MediaError, check_platform};
use plan::{ManifestKind, Platform};

use crate::{BlobCache, ExecuteError};

/// A base image: its documents, without layers.
#[derive(Debug, Clone)]
pub struct BaseImage {
    /// The image whose repository has the layers: the one in the plan or, if there is none, an
    /// image that this run offers on loopback.
    pub image: ImageRef,
    /// The digest of the index, if the pin names one.
    pub index: Option<Digest>,
    /// The digest of the manifest for the platform.
    pub manifest_digest: Digest,
    /// The manifest for the platform.
    pub manifest: Manifest,
    /// The bytes of the config.
    pub config: Bytes,
    /// The layers on top, made on this machine from the project's own files. The base's registry
    /// does not have them.
    pub own_layers: Vec<Descriptor>,
    /// Whether the cache contained all of these documents.
    pub was_cached: bool,
}

/// Fetches the documents of a base, or reads them from the cache.
///
/// # Errors
/// Fails if the image cannot be fetched, does not match the pin, or does not support the platform.
pub async fn fetch_base(
    client: &RegistryClient,
    cache: &BlobCache,
    image: &ImageRef,
    kind: Option<ManifestKind>,
    platform: &Platform,
) -> Result<BaseImage, ExecuteError> {
    let Some(pinned) = &image.digest else {
        return Err(ExecuteError::plan(format!("`{image}` has no digest")));
    };
    let source = Source { client, cache, image };
    let (document, mut was_cached) = source.document(pinned, None).await?;
    let (index, manifest_digest, manifest) = match (document, kind) {
        (Document::Manifest(_), Some(ManifestKind::Index)) => {
            return Err(ExecuteError::wrong_kind(image, ManifestKind::Index));
        }
        (Document::Index(_), Some(ManifestKind::Manifest)) => {
            return Err(ExecuteError::wrong_kind(image, ManifestKind::Manifest));
        }
        (Document::Manifest(manifest), _) => (None, pinned.clone(), manifest),
        (Document::Index(index), _) => {
            let chosen = index.choose(platform);
            let chosen =
                chosen.map_err(|e| ExecuteError::media(format!("`{image}` cannot be used"), e))?;
            let (chosen_document, cached) = source.document(&chosen.digest, Some(chosen)).await?;
            was_cached &= cached;
            match chosen_document {
                Document::Manifest(manifest) => {
                    (Some(pinned.clone()), chosen.digest.clone(), manifest)
                }
                Document::Index(_) => {
                    return Err(ExecuteError::index_in_index(image, &chosen.digest));
                }
            }
        }
    };
    let unusable = |error| ExecuteError::media(format!("`{image}` cannot be used"), error);
    manifest.check_is_image().map_err(unusable)?;
    let (config, cached) = source.config(&manifest).await?;
    check_platform(&config, platform).map_err(unusable)?;
    was_cached &= cached;
    let (image, own_layers) = (image.clone(), Vec::new());
    Ok(BaseImage { image, index, manifest_digest, manifest, config, own_layers, was_cached })
}

/// The sources of one image's documents.
struct Source<'a> {
    client: &'a RegistryClient,
    cache: &'a BlobCache,
    image: &'a ImageRef,
}

impl Source<'_> {
    /// Returns the manifest or index that has the given digest, and whether it was cached. `named`
    /// is the descriptor that refers to it, if there is one.
    async fn document(
        &self,
        digest: &Digest,
        named: Option<&Descriptor>,
    ) -> Result<(Document, bool), ExecuteError> {
        let image = self.image;
        let unusable = |source| ExecuteError::media(format!("`{image}` cannot be used"), source);
        let check = |bytes: &Bytes| {
            named.map_or(Ok(()), |named| named.check_size(bytes.len() as u64)).map_err(unusable)
        };
        if let Some(bytes) = self.cache.get(digest) {
            check(&bytes)?;
            return Ok((Document::parse(&bytes, None).map_err(unusable)?, true));
        }
        let reference = ImageRef { digest: Some(digest.clone()), ..image.clone() };
        let fetched = self.client.manifest(&reference).await;
        let fetched = fetched.map_err(|e| {
            ExecuteError::registry(format!("fetching the manifest of `{image}` failed"), e)
        })?;
        check(&fetched.bytes)?;
        let document =
            Document::parse(&fetched.bytes, Some(&fetched.media_type)).map_err(unusable)?;
        self.cache.put(digest, &fetched.bytes);
        Ok((document, false))
    }

    /// Returns the bytes of a manifest's config, and whether they were cached.
    async fn config(&self, manifest: &Manifest) -> Result<(Bytes, bool), ExecuteError> {
        let (descriptor, image) = (&manifest.config, self.image);
        let check = |bytes: &Bytes| match oci::read_config(bytes) {
            Ok(_) => Ok(()),
            Err(source) => {
                let what = format!("`{image}` cannot be used");
                Err(ExecuteError::media(what, MediaError::Config(source)))
            }
        };
        if let Some(bytes) = self.cache.get(&descriptor.digest) {
            check(&bytes)?;
            return Ok((bytes, true));
        }
        let blob = self
            .client
            .blob(&image.repository, &descriptor.digest, descriptor.size, CONFIG_CAP)
            .await;
        let blob = blob.map_err(|e| {
            ExecuteError::registry(format!("fetching the config of `{image}` failed"), e)
        })?;
        check(&blob)?;
        self.cache.put(&descriptor.digest, &blob);
        Ok((blob, false))
    }
}
