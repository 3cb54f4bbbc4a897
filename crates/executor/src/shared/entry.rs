//! The entry of a finished step: its record, its image, and the layers that no other registry has.

use bytes::Bytes;
use futures_util::StreamExt as _;
use names::{Digest, ImageRef, Tag};
use oci::ArtifactPlace;
use oci::client::{BlobStream, RegistryClient};
use oci::media::{CONFIG_CAP, Descriptor, Document, MANIFEST_CAP, Manifest, OCI_MANIFEST};
use record::SlimSummary;
use seal::Listing;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;

use super::Problem;
use crate::ExecuteError;
use crate::build_env::{Store, StoredImage, parse_manifest};

/// The type of the artifact.
pub(super) const STEP: &str = "application/vnd.build-pipeline.step.v1";
/// The type of its config, the record.
const RECORD: &str = "application/vnd.build-pipeline.step.record.v1+json";
/// The types of the image's documents. With the usual types, registries would expect complete
/// images.
const MANIFEST: &str = "application/vnd.build-pipeline.step.manifest.v1+json";
const CONFIG: &str = "application/vnd.build-pipeline.step.config.v1+json";
/// The media type of a layer's listing.
const LISTING: &str = "application/vnd.build-pipeline.step.listing.v1";
/// The annotation that records which layer a listing belongs to.
const OF_LAYER: &str = "build-pipeline.layer";
/// The version of the record's format.
const SCHEMA: u32 = 1;
/// The maximum size of a record or of a listing, in bytes.
const RECORD_CAP: u64 = 16 << 20;
const LISTING_CAP: u64 = 256 << 20;

/// The inputs of a step, and its result. It contains no time and no location, so that every machine
/// writes the same bytes.
#[derive(Debug, Serialize, Deserialize)]
struct StepRecord {
    schema: u32,
    /// The key of the step: the digest of `content`.
    key: Digest,
    /// Everything that determines the result.
    content: String,
    /// The digest of the image's manifest.
    result: Digest,
    /// What was removed, if the step slims an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slim: Option<SlimSummary>,
}

/// An entry that was read from a store. Its documents match their digests, and it belongs to the
/// key.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The digest of the image's manifest.
    pub(crate) result: Digest,
    pub(crate) slim: Option<SlimSummary>,
    /// The layers that the store has, lowest first.
    pub(crate) layers: Vec<Descriptor>,
    listings: Vec<Descriptor>,
    manifest: Manifest,
    manifest_bytes: Bytes,
    config: Bytes,
}

impl Entry {
    /// Reads the entry with a key, and checks that it belongs to the key. `None` if there is none.
    pub(super) async fn read(
        place: &ArtifactPlace,
        client: &RegistryClient,
        key: &Digest,
    ) -> Result<Option<Self>, Problem> {
        Self::read_tag(place, client, key, &tag_of(key)?).await
    }

    async fn read_tag(
        place: &ArtifactPlace,
        client: &RegistryClient,
        key: &Digest,
        tag: &Tag,
    ) -> Result<Option<Self>, Problem> {
        let Some(bytes) = place.manifest(client, tag).await? else { return Ok(None) };
        let artifact = match Document::parse(&bytes, None) {
            Ok(Document::Manifest(manifest)) => manifest,
            _ => return Err(refused("it is not an artifact")),
        };
        let artifact_type = artifact.json.get("artifactType").and_then(Value::as_str);
        if artifact_type != Some(STEP) || artifact.config.media_type != RECORD {
            return Err(refused("it is not a finished step"));
        }
        let record = place.blob(client, &artifact.config, RECORD_CAP).await?;
        let record = read_record(&record, key)?;
        let part = |kind: &str| artifact.layers.iter().find(|part| part.media_type == kind);
        let (Some(manifest_part), Some(config_part)) = (part(MANIFEST), part(CONFIG)) else {
            return Err(refused("it lacks the manifest or the config of its image"));
        };
        if manifest_part.digest != record.result {
            let (says, found) = (&record.result, &manifest_part.digest);
            return Err(refused(&format!(
                "its record specifies `{says}`, but its image is `{found}`"
            )));
        }
        let manifest_bytes = place.blob(client, manifest_part, MANIFEST_CAP).await?;
        let config_bytes = place.blob(client, config_part, CONFIG_CAP).await?;
        let manifest =
            parse_manifest(&manifest_bytes).map_err(|error| refused(&super::chain(&error)))?;
        if manifest.config.digest != config_part.digest {
            return Err(refused("its image has a different config"));
        }
        let has = |layer: &&Descriptor| artifact.layers.iter().any(|one| is_same(one, layer));
        let layers = manifest.layers.iter().filter(has).cloned().collect();
        let listings = artifact.layers.iter().filter(|layer| layer.media_type == LISTING);
        Ok(Some(Self {
            result: record.result,
            slim: record.slim,
            layers,
            listings: listings.cloned().collect(),
            manifest,
            manifest_bytes,
            config: config_bytes,
        }))
    }

    /// Returns the layers of the image that the store does not have.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Descriptor> {
        let has = |layer: &&Descriptor| self.layers.iter().any(|one| is_same(one, layer));
        self.manifest.layers.iter().filter(move |layer| !has(layer))
    }

    /// Returns all layers of the image, lowest first.
    pub(super) fn all_layers(&self) -> &[Descriptor] {
        &self.manifest.layers
    }

    /// Returns the image.
    pub(super) fn image(&self, remote: Option<ImageRef>, origin: &str) -> StoredImage {
        StoredImage {
            manifest: self.manifest.clone(),
            manifest_bytes: self.manifest_bytes.clone(),
            config: self.config.clone(),
            remote,
            origin: Some(origin.to_owned()),
        }
    }

    /// Returns the listing of a layer, if the store has a valid one.
    pub(super) async fn listing(
        &self,
        place: &ArtifactPlace,
        client: &RegistryClient,
        layer: &Digest,
    ) -> Option<Listing> {
        let is_of = |part: &&Descriptor| {
            let of = part.json.pointer("/annotations").and_then(|all| all.get(OF_LAYER));
            of.and_then(Value::as_str) == Some(layer.as_str())
        };
        let part = self.listings.iter().find(is_of)?;
        let bytes = place.blob(client, part, LISTING_CAP).await.ok()?;
        std::str::from_utf8(&bytes).ok()?.parse().ok()
    }
}

fn read_record(bytes: &[u8], key: &Digest) -> Result<StepRecord, Problem> {
    let record: StepRecord = serde_json::from_slice(bytes)
        .map_err(|error| refused(&format!("its record cannot be read: {error}")))?;
    if record.schema != SCHEMA {
        let found = record.schema;
        return Err(refused(&format!("its record has schema {found}, not {SCHEMA}")));
    }
    if record.key != *key || Digest::of(record.content.as_bytes()) != *key {
        let found = Digest::of(record.content.as_bytes());
        return Err(refused(&format!("it is the result of the key `{}`", found.hex())));
    }
    Ok(record)
}

fn is_same(one: &Descriptor, other: &Descriptor) -> bool {
    one.digest == other.digest && one.size == other.size
}

fn refused(why: &str) -> Problem {
    Problem::Refused(why.to_owned())
}

/// Copies a layer into this machine's store. The stream checks it.
pub(super) async fn copy_layer(
    place: &ArtifactPlace,
    client: &RegistryClient,
    layer: &Descriptor,
    own: &Store,
) -> Result<(), Problem> {
    let mut stream = place.stream(client, layer).await?;
    let mut file = own.begin()?;
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(oci::ArtifactError::from)?;
        file.write_all(&piece).map_err(|error| {
            ExecuteError::disk(format!("writing `{}` failed", file.path().display()), error)
        })?;
    }
    Ok(own.keep(file, &layer.digest)?)
}

/// Returns the tag of the entry with a key.
pub(super) fn tag_of(key: &Digest) -> Result<Tag, ExecuteError> {
    tag(key.hex())
}

pub(super) fn tag(text: &str) -> Result<Tag, ExecuteError> {
    text.parse().map_err(|_| ExecuteError::plan(format!("`{text}` is not a tag")))
}

/// The parts of an entry, and its manifest.
pub(super) struct NewEntry {
    parts: Vec<Part>,
    manifest: Bytes,
}

/// A blob of an entry.
enum Part {
    Bytes(Bytes),
    File(Descriptor, PathBuf),
}

impl NewEntry {
    /// Makes the entry of a finished step. `content` is the text whose digest is the key.
    pub(super) fn new(
        made: &StoredImage,
        content: &str,
        slim: Option<SlimSummary>,
        own: &Store,
    ) -> Self {
        let record = StepRecord {
            schema: SCHEMA,
            key: Digest::of(content.as_bytes()),
            content: content.to_owned(),
            result: Digest::of(&made.manifest_bytes),
            slim,
        };
        let record = serde_json::to_vec(&record).expect("a record holds text and numbers");
        let mut new = Self { parts: Vec::new(), manifest: Bytes::new() };
        let config = new.add(RECORD, record.into());
        let mut layers = vec![
            new.add(MANIFEST, made.manifest_bytes.clone()),
            new.add(CONFIG, made.config.clone()),
        ];
        for layer in crate::place::distinct(&made.manifest.layers) {
            let Some(path) = own.layer(layer) else { continue };
            layers.push(json!({
                "mediaType": layer.media_type, "digest": layer.digest, "size": layer.size,
            }));
            new.parts.push(Part::File(layer.clone(), path));
            if let Some(listing) = own.listing(&layer.digest) {
                let mut part = new.add(LISTING, listing.to_string().into());
                part["annotations"] = json!({ OF_LAYER: layer.digest });
                layers.push(part);
            }
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": STEP,
            "config": config,
            "layers": layers,
        });
        new.manifest = manifest.to_string().into();
        new
    }

    /// Adds a small blob, and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Bytes) -> Value {
        let descriptor =
            json!({ "mediaType": media_type, "digest": Digest::of(&bytes), "size": bytes.len() });
        self.parts.push(Part::Bytes(bytes));
        descriptor
    }

    /// Writes the entry under a tag. The tag is written last, so that nobody sees an unfinished
    /// entry.
    pub(super) async fn push(
        self,
        place: &ArtifactPlace,
        client: &RegistryClient,
        tag: &Tag,
    ) -> Result<(), oci::ArtifactError> {
        for part in self.parts {
            place.push(client, part.stream()).await?;
        }
        place.push_manifest(client, tag, self.manifest).await
    }
}

impl Part {
    fn stream(self) -> BlobStream {
        match self {
            Self::Bytes(bytes) => BlobStream::of_bytes(bytes),
            Self::File(layer, path) => {
                let mut files = oci::LocalBlobs::default();
                files.add_file(&layer, path);
                let stream = files.layer(&layer);
                stream.unwrap_or_else(|| BlobStream::of_bytes(Bytes::new()))
            }
        }
    }
}
