//! Artifacts by tag, in a repository of a registry or in a folder.
//!
//! Both places return bytes only if they match their digest. The reader of an artifact must check
//! its content.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bytes::Bytes;
use names::{ImageRef, Repository, Tag};

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

/// Why a text is not a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePlaceError {
    /// The text has neither of the two forms.
    #[error("`{0}` is neither `registry:HOST/NAME` nor `dir:PATH`")]
    Form(String),
    /// The repository is not valid.
    #[error("`{0}` is not a repository: {1}")]
    Repository(String, String),
    /// The text names a single artifact.
    #[error(
        "`{0}` has a tag or digest; each artifact gets its own tag, so specify only the repository"
    )]
    Tagged(String),
}

impl FromStr for ArtifactPlace {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("registry", name)) => match name.parse::<ImageRef>() {
                Ok(ImageRef { repository, tag: None, digest: None }) => {
                    Ok(Self::Registry(repository))
                }
                Ok(_) => Err(ParsePlaceError::Tagged(name.to_owned())),
                Err(error) => Err(ParsePlaceError::Repository(name.to_owned(), error.to_string())),
            },
            Some(("dir", path)) if !path.is_empty() => {
                Ok(Self::Folder(ArtifactFolder::new(PathBuf::from(path))))
            }
            _ => Err(ParsePlaceError::Form(text.to_owned())),
        }
    }
}

impl fmt::Display for ArtifactPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(repository) => write!(f, "registry:{repository}"),
            Self::Folder(folder) => write!(f, "dir:{}", folder.path().display()),
        }
    }
}

/// Why a place cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Access to the registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Access to the folder failed.
    #[error(transparent)]
    Folder(#[from] LayoutError),
}

impl ArtifactError {
    /// Returns whether the place can be read, but its content is wrong or missing.
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
    /// Fails if the place cannot be read, or if the blob is missing, damaged or larger than `cap`.
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

    /// Returns a blob as a stream that verifies it.
    ///
    /// # Errors
    /// Fails if the place cannot be read, or if the blob is missing.
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

    /// Adds a blob, unless the place already has it.
    ///
    /// # Errors
    /// Fails if the stream fails, or if the place cannot be written.
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

    /// Writes a manifest under a tag. Its blobs must already be there.
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
