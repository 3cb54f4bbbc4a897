//! Manifests, indexes and descriptors, as JSON that preserves unknown content.
//!
//! A typed model of the OCI image specification drops unknown keys and their order, which changes
//! digests. Here, a document stays a [`serde_json::Value`], and only the required parts are read.

use names::{Digest, ParseDigestError, Platform};
use serde_json::Value;

use crate::document::{self, DocumentError};

/// OCI image index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// OCI image manifest.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The config of an artifact that needs none (image specification, "Guidance for an Empty
/// Descriptor").
pub const EMPTY_CONFIG: &[u8] = b"{}";
/// The type of [`EMPTY_CONFIG`].
pub const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// OCI image config.
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Docker's name for an index.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Docker's name for an image manifest.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Docker's name for an image config.
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// The maximum size of a manifest or index, in bytes (about the same as containerd's
/// `MaxManifestSize`).
pub const MANIFEST_CAP: u64 = 4 << 20;
/// The maximum size of an image config, in bytes.
pub const CONFIG_CAP: u64 = 4 << 20;

/// A reference from one document to a blob or another document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The media type of the target.
    pub media_type: String,
    /// The digest of the target.
    pub digest: Digest,
    /// The size of the target, in bytes.
    pub size: u64,
    /// The complete descriptor, including annotations.
    pub json: Value,
}

/// A manifest or an index, read from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// An image index.
    Index(Index),
    /// An image manifest.
    Manifest(Manifest),
}

/// An image index: one manifest per platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    entries: Vec<(Descriptor, Option<Platform>)>,
}

/// An image manifest: a config and layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The descriptor of the config.
    pub config: Descriptor,
    /// The descriptors of the layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// The complete manifest.
    pub json: Value,
}

/// Why bytes are not a supported manifest or index.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The manifest or index is not JSON, or parsers interpret it differently.
    #[error("cannot read the manifest")]
    Document(#[source] DocumentError),
    /// The config is not JSON, or parsers interpret it differently.
    #[error("cannot read the config")]
    Config(#[source] DocumentError),
    /// The format is retired. It is older than content-addressed images.
    #[error(
        "the manifest has the retired Docker schema 1; push the image again with a current tool"
    )]
    Schema1,
    /// The media type is not that of an image.
    #[error("`{0}` is not the media type of an image manifest or index")]
    MediaType(String),
    /// The media type in the body is not the declared one.
    #[error("the document has the media type `{body}`, but `{stated}` was declared")]
    Disagrees {
        /// The type in the body.
        body: String,
        /// The type that the registry or the parent declared.
        stated: String,
    },
    /// A document looks like both a manifest and an index (CVE-2021-41190).
    #[error("the document has both layers and manifests, so parsers disagree on its meaning")]
    Ambiguous,
    /// A field is missing or has the wrong type.
    #[error("the manifest has no valid `{0}`")]
    Field(String),
    /// A digest in the document is not valid.
    #[error("the manifest's `{field}` has no valid digest")]
    Digest {
        /// The field.
        field: String,
        /// The reason.
        #[source]
        source: ParseDigestError,
    },
    /// The size in a descriptor is wrong.
    #[error("`{digest}` has {found} bytes, but its descriptor specifies {stated}")]
    Size {
        /// The digest of the target.
        digest: Digest,
        /// The size in the descriptor.
        stated: u64,
        /// The actual size.
        found: u64,
    },
    /// The index has no image for the platform.
    #[error("the index has no image for {wanted}; it has {found}")]
    NoPlatform {
        /// The requested platform.
        wanted: String,
        /// The available platforms.
        found: String,
    },
    /// The manifest describes something other than an image.
    #[error("it is not an image, but an artifact of the type `{0}`")]
    Artifact(String),
    /// The config is for another platform.
    #[error("the image is for {found}, not for {wanted}")]
    OtherPlatform {
        /// The requested platform.
        wanted: String,
        /// The platform in the config.
        found: String,
    },
}

impl Document {
    /// Parses a manifest or index. `stated` is the media type that a registry or descriptor
    /// declared.
    ///
    /// # Errors
    /// Fails if the bytes are not an image manifest or index, or do not have the declared type.
    pub fn parse(bytes: &[u8], stated: Option<&str>) -> Result<Self, MediaError> {
        let json = document::read(bytes, document::MANIFEST).map_err(MediaError::Document)?;
        let json = Value::Object(json);
        if json.get("schemaVersion").and_then(Value::as_u64) == Some(1) {
            return Err(MediaError::Schema1);
        }
        let body = json.get("mediaType").and_then(Value::as_str);
        if let (Some(body), Some(stated)) = (body, stated)
            && body != stated
        {
            return Err(MediaError::Disagrees { body: body.to_owned(), stated: stated.to_owned() });
        }
        let has = |key| json.get(key).is_some_and(|value| !value.is_null());
        if has("manifests") && (has("layers") || has("config")) {
            return Err(MediaError::Ambiguous);
        }
        // An OCI document need not contain its own type. Without it, the declared type counts, and
        // without that, the document's fields determine the type.
        let guessed = if has("manifests") { OCI_INDEX } else { OCI_MANIFEST };
        match body.or(stated).unwrap_or(guessed) {
            OCI_INDEX | DOCKER_LIST => Index::from_json(&json).map(Self::Index),
            OCI_MANIFEST | DOCKER_MANIFEST => Manifest::from_json(json).map(Self::Manifest),
            other => Err(MediaError::MediaType(other.to_owned())),
        }
    }
}

impl Index {
    fn from_json(json: &Value) -> Result<Self, MediaError> {
        let entries = list(json, "manifests")?
            .iter()
            .enumerate()
            .map(|(number, entry)| {
                let descriptor = Descriptor::from_json(entry, &format!("manifests[{number}]"))?;
                Ok((descriptor, platform_of(entry)))
            })
            .collect::<Result<_, MediaError>>()?;
        Ok(Self { entries })
    }

    /// Returns the descriptor of the first image for `wanted` (image index specification,
    /// "platform").
    ///
    /// Attestations, which have the platform `unknown/unknown` in an index, are never chosen.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn choose(&self, wanted: &Platform) -> Result<&Descriptor, MediaError> {
        let fits =
            |(_, platform): &&(Descriptor, Option<Platform>)| platform.as_ref() == Some(wanted);
        self.entries.iter().find(fits).map(|(descriptor, _)| descriptor).ok_or_else(|| {
            let platforms = self.entries.iter().filter_map(|(_, platform)| platform.as_ref());
            let found: Vec<_> = platforms.map(ToString::to_string).collect();
            MediaError::NoPlatform {
                wanted: wanted.to_string(),
                found: if found.is_empty() { "none".to_owned() } else { found.join(", ") },
            }
        })
    }
}

/// Returns the platform of an entry of an index.
pub(crate) fn platform_of(entry: &Value) -> Option<Platform> {
    let text = |key| entry.pointer(&format!("/platform/{key}")).and_then(Value::as_str);
    let (os, architecture) = text("os").zip(text("architecture"))?;
    Some(Platform { os: os.to_owned(), architecture: architecture.to_owned() })
}

impl Manifest {
    fn from_json(json: Value) -> Result<Self, MediaError> {
        let config = json.get("config").ok_or_else(|| MediaError::Field("config".to_owned()))?;
        let config = Descriptor::from_json(config, "config")?;
        let layers = list(&json, "layers")?
            .iter()
            .enumerate()
            .map(|(number, layer)| Descriptor::from_json(layer, &format!("layers[{number}]")))
            .collect::<Result<_, _>>()?;
        Ok(Self { config, layers, json })
    }

    /// Checks that the manifest describes an image (image manifest specification, "Guidelines for
    /// Artifact Usage").
    ///
    /// # Errors
    /// Fails if it describes another artifact, such as a chart or a model.
    pub fn check_is_image(&self) -> Result<(), MediaError> {
        let own = self.json.get("artifactType").and_then(Value::as_str);
        match self.config.media_type.as_str() {
            OCI_CONFIG | DOCKER_CONFIG => Ok(()),
            other => Err(MediaError::Artifact(own.unwrap_or(other).to_owned())),
        }
    }

    /// Returns the sum of the layers' sizes, in bytes.
    pub fn layer_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size).sum()
    }
}

impl Descriptor {
    /// Checks the size of the target.
    ///
    /// # Errors
    /// Fails if it does not match the descriptor.
    pub fn check_size(&self, found: u64) -> Result<(), MediaError> {
        check_size(&self.digest, self.size, found)
    }

    pub(crate) fn from_json(json: &Value, field: &str) -> Result<Self, MediaError> {
        let missing = |key: &str| MediaError::Field(format!("{field}.{key}"));
        let text = |key: &str| json.get(key).and_then(Value::as_str).ok_or_else(|| missing(key));
        let digest = text("digest")?
            .parse()
            .map_err(|source| MediaError::Digest { field: field.to_owned(), source })?;
        let size = json.get("size").and_then(Value::as_u64).ok_or_else(|| missing("size"))?;
        Ok(Self { media_type: text("mediaType")?.to_owned(), digest, size, json: json.clone() })
    }
}

/// Checks that the config of an image is for the platform `wanted`.
///
/// # Errors
/// Fails if the config is not JSON, or names another platform.
pub fn check_platform(config: &[u8], wanted: &Platform) -> Result<(), MediaError> {
    let config = crate::read_config(config).map_err(MediaError::Config)?;
    let text = |key: &str, absent: &str| {
        config.get(key).and_then(Value::as_str).unwrap_or(absent).to_owned()
    };
    let found = Platform {
        os: text("os", &wanted.os),
        architecture: text("architecture", &wanted.architecture),
    };
    if found == *wanted {
        return Ok(());
    }
    Err(MediaError::OtherPlatform { wanted: wanted.to_string(), found: found.to_string() })
}

/// Checks that content has the declared size.
pub(crate) fn check_size(digest: &Digest, stated: u64, found: u64) -> Result<(), MediaError> {
    if stated == found {
        Ok(())
    } else {
        Err(MediaError::Size { digest: digest.clone(), stated, found })
    }
}

fn list<'a>(json: &'a Value, key: &str) -> Result<&'a Vec<Value>, MediaError> {
    json.get(key).and_then(Value::as_array).ok_or_else(|| MediaError::Field(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, stated: Option<&str>) -> String {
        Document::parse(text.as_bytes(), stated).unwrap_err().to_string()
    }

    #[test]
    fn parse_says_what_is_wrong() {
        let digest = format!("sha256:{}", "1".repeat(64));
        let config = format!(r#"{{"mediaType":"{OCI_CONFIG}","digest":"{digest}","size":2}}"#);
        for (text, stated, wanted) in [
            ("<html>".to_owned(), None, "cannot read the manifest"),
            (r#"{"schemaVersion":1}"#.to_owned(), None, "retired Docker schema 1"),
            (format!(r#"{{"mediaType":"{OCI_INDEX}"}}"#), Some(OCI_MANIFEST), "was declared"),
            (r#"{"manifests":[],"layers":[]}"#.to_owned(), None, "both layers and manifests"),
            ("{}".to_owned(), None, "no valid `config`"),
            (format!(r#"{{"config":{config}}}"#), None, "no valid `layers`"),
            (
                r#"{"config":{"digest":"x","mediaType":"y","size":1}}"#.to_owned(),
                None,
                "`config` has no valid digest",
            ),
            (r#"{"mediaType":"text/html"}"#.to_owned(), None, "`text/html` is not the media type"),
            (
                format!(r#"{{"config":{config},"layers":[{{"size":-1}}]}}"#),
                None,
                "`layers[0].digest`",
            ),
        ] {
            let message = error(&text, stated);
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn choose_takes_linux_amd64_and_never_an_attestation() {
        let entry = |n: u8, os: &str, architecture: &str| {
            format!(
                r#"{{"mediaType":"{OCI_MANIFEST}","digest":"sha256:{}","size":9,"platform":{{"os":"{os}","architecture":"{architecture}"}}}}"#,
                n.to_string().repeat(64)
            )
        };
        let index = |entries: &[String]| {
            let text =
                format!(r#"{{"mediaType":"{OCI_INDEX}","manifests":[{}]}}"#, entries.join(","));
            match Document::parse(text.as_bytes(), Some(OCI_INDEX)).unwrap() {
                Document::Index(index) => index,
                Document::Manifest(_) => unreachable!(),
            }
        };
        let wanted = Platform::linux_amd64();
        let all = index(&[
            entry(1, "unknown", "unknown"),
            entry(2, "linux", "arm64"),
            entry(3, "linux", "amd64"),
        ]);
        assert_eq!(all.choose(&wanted).unwrap().digest.hex(), "3".repeat(64));
        let none = index(&[entry(1, "unknown", "unknown"), entry(2, "linux", "arm64")]);
        assert_eq!(
            none.choose(&wanted).unwrap_err().to_string(),
            "the index has no image for linux/amd64; it has unknown/unknown, linux/arm64"
        );
    }
}
