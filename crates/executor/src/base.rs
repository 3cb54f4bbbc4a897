//! Fetching the manifest and config of a base, every byte checked against the pin.

use bytes::Bytes;
use names::{Digest, ImageRef};
use oci::client::RegistryClient;
use oci::media::{CONFIG_CAP, Document, Manifest};
use plan::{ManifestKind, Platform};

use crate::{BlobCache, ExecuteError};

/// A base image: its documents, no layers.
#[derive(Debug, Clone)]
pub struct Base {
    /// The image as the plan names it.
    pub image: ImageRef,
    /// The digest of the index, where the pin names one.
    pub index: Option<Digest>,
    /// The digest of the manifest for the platform.
    pub manifest_digest: Digest,
    /// The manifest for the platform.
    pub manifest: Manifest,
    /// The bytes of the config.
    pub config: Bytes,
    /// Whether nothing had to be fetched.
    pub was_cached: bool,
}

/// Fetches the documents of a base, or takes them from the cache.
///
/// # Errors
/// The image cannot be fetched, is not what the pin says, or has nothing for the platform.
pub async fn fetch_base(
    client: &RegistryClient,
    cache: &BlobCache,
    image: &ImageRef,
    kind: Option<ManifestKind>,
    platform: &Platform,
) -> Result<Base, ExecuteError> {
    let Some(pinned) = &image.digest else {
        return Err(ExecuteError::plan(format!("`{image}` has no digest")));
    };
    let source = Source { client, cache, image };
    let (document, mut was_cached) = source.document(pinned).await?;
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
            let (document, cached) = source.document(&chosen.digest).await?;
            was_cached &= cached;
            match document {
                Document::Manifest(manifest) => {
                    (Some(pinned.clone()), chosen.digest.clone(), manifest)
                }
                Document::Index(_) => {
                    return Err(ExecuteError::index_in_index(image, &chosen.digest));
                }
            }
        }
    };
    let (config, cached) = source.config(&manifest).await?;
    was_cached &= cached;
    Ok(Base { image: image.clone(), index, manifest_digest, manifest, config, was_cached })
}

/// Where the documents of one image come from.
struct Source<'a> {
    client: &'a RegistryClient,
    cache: &'a BlobCache,
    image: &'a ImageRef,
}

impl Source<'_> {
    /// Returns the manifest or index of a digest, and whether it was cached.
    async fn document(&self, digest: &Digest) -> Result<(Document, bool), ExecuteError> {
        let image = self.image;
        let unusable = |source| ExecuteError::media(format!("`{image}` cannot be used"), source);
        if let Some(bytes) = self.cache.get(digest) {
            return Ok((Document::parse(&bytes, None).map_err(unusable)?, true));
        }
        let reference = ImageRef { digest: Some(digest.clone()), ..image.clone() };
        let fetched = self.client.manifest(&reference).await;
        let fetched = fetched.map_err(|e| {
            ExecuteError::registry(format!("fetching the manifest of `{image}` failed"), e)
        })?;
        let document =
            Document::parse(&fetched.bytes, Some(&fetched.media_type)).map_err(unusable)?;
        self.cache.put(digest, &fetched.bytes);
        Ok((document, false))
    }

    /// Returns the bytes of a manifest's config, and whether they were cached.
    async fn config(&self, manifest: &Manifest) -> Result<(Bytes, bool), ExecuteError> {
        let descriptor = &manifest.config;
        if let Some(bytes) = self.cache.get(&descriptor.digest) {
            return Ok((bytes, true));
        }
        let image = self.image;
        let blob = self
            .client
            .blob(&image.repository, &descriptor.digest, descriptor.size, CONFIG_CAP)
            .await;
        let blob = blob.map_err(|e| {
            ExecuteError::registry(format!("fetching the config of `{image}` failed"), e)
        })?;
        self.cache.put(&descriptor.digest, &blob);
        Ok((blob, false))
    }
}
