//! Artifacts by tag, in a repository of a registry or in a folder.
//!
//! Whoever reads an artifact checks it: both places return bytes only if they match their digest.

use bytes::Bytes;
use names::{Repository, Tag};

use crate::artifact_folder::ArtifactFolder;
use crate::client::{BlobStream, ErrorKind, RegistryClient, RegistryError};
use crate::layout::LayoutError;
use crate::media::{Descriptor, OCI_MANIFEST};

/// A place for artifacts.
#[derive(Debug, Clone)]
pub enum ArtifactPlace {
    /// A repository of a registry.
    Registry(Repository),
    /// An OCI layout with any number of entries.
    Folder(ArtifactFolder),
}

/// Why a place cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] LayoutError),
}

impl ArtifactError {
    /// Returns whether the place answered, and what it has is wrong or missing.
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Registry(error) => matches!(
                error.kind(),
                ErrorKind::Integrity
                    | ErrorKind::NotFound
                    | ErrorKind::TooLarge
                    | ErrorKind::Protocol
            ),
            Self::Folder(error) => {
                !matches!(error, LayoutError::Read { .. } | LayoutError::Write { .. })
            }
        }
    }
}

impl ArtifactPlace {
    /// Returns the manifest under a tag, or `None` if there is none.
    ///
    /// # Errors
    /// Fails if the place cannot be read, or if the manifest is damaged.
    pub async fn manifest(
        &self,
        client: &RegistryClient,
        tag: &Tag,
    ) -> Result<Option<Bytes>, ArtifactError> {
        match self {
            Self::Registry(repository) => match client.manifest(&repository.tagged(tag)).await {
                Ok(found) => Ok(Some(found.bytes)),
                Err(error) if error.is_missing() => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Folder(folder) => Ok(folder.manifest(tag)?),
        }
    }

    /// Returns a small blob.
    ///
    /// # Errors
    /// Fails if the blob is missing, damaged or larger than `cap`.
    pub async fn blob(
        &self,
        client: &RegistryClient,
        blob: &Descriptor,
        cap: u64,
    ) -> Result<Bytes, ArtifactError> {
        match self {
            Self::Registry(repository) => {
                Ok(client.blob(repository, &blob.digest, blob.size, cap).await?)
            }
            Self::Folder(folder) => Ok(folder.blob(blob, cap)?),
        }
    }

    /// Returns a blob as a stream that checks it.
    ///
    /// # Errors
    /// Fails if the blob is missing.
    pub async fn stream(
        &self,
        client: &RegistryClient,
        blob: &Descriptor,
    ) -> Result<BlobStream, ArtifactError> {
        match self {
            Self::Registry(repository) => {
                Ok(client.blob_stream(repository, &blob.digest, blob.size).await?)
            }
            Self::Folder(folder) => Ok(folder.stream(blob)?),
        }
    }

    /// Adds a blob, unless it is there.
    ///
    /// # Errors
    /// Fails if the stream breaks, or if the place cannot be written.
    pub async fn push(
        &self,
        client: &RegistryClient,
        blob: BlobStream,
    ) -> Result<(), ArtifactError> {
        match self {
            Self::Registry(repository) => {
                let (digest, size) = (blob.digest().clone(), blob.size());
                if !client.has_blob(repository, &digest).await? {
                    client.push_blob_stream(repository, &digest, size, blob).await?;
                }
                Ok(())
            }
            Self::Folder(folder) => folder.push(blob).await,
        }
    }

    /// Writes a manifest under a tag. Its blobs are already there.
    ///
    /// # Errors
    /// Fails if the place cannot be written.
    pub async fn push_manifest(
        &self,
        client: &RegistryClient,
        tag: &Tag,
        bytes: Bytes,
    ) -> Result<(), ArtifactError> {
        match self {
            Self::Registry(repository) => {
                client.push_manifest(&repository.tagged(tag), OCI_MANIFEST, bytes).await?;
                Ok(())
            }
            Self::Folder(folder) => Ok(folder.push_manifest(tag, &bytes)?),
        }
    }
}
