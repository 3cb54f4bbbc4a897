//! API calls that are the same for all engines, or differ only as their [`Dialect`] specifies.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ImageSummary;
use bollard::query_parameters::{
    ListImagesOptionsBuilder, PushImageOptionsBuilder, RemoveImageOptionsBuilder,
    TagImageOptionsBuilder,
};
use bollard::{ClientVersion, Docker};
use futures_util::TryStreamExt as _;
use http_body_util::BodyExt as _;
use hyper::{HeaderMap, Method};
use names::{EngineKind, ImageRef, Tag};
use serde_json::Value;
use tokio::sync::OnceCell;
use url::form_urlencoded;

use crate::build::RunId;
use crate::dialect::{Dialect, text_of};
use crate::engine::DIALECTS;
use crate::error::{EngineError, judge};
use crate::image::{ImageId, Inspect};
use crate::records::RecordReader;
use crate::transcript::Piece;
use crate::wire::{ByteStream, Call, LONG, SHORT, Wire, chain};

/// The version of docker's API that podman 4 and 5 support. docker's version is negotiated.
const PODMAN_COMPAT: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// The header of `/_ping` with the version of docker's API.
const API_VERSION: &str = "Api-Version";

/// A connection to one engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    dialect: &'static dyn Dialect,
    wire: Wire,
    docker: Docker,
    info: Arc<OnceCell<EngineInfo>>,
}

/// The versions that an engine reports.
struct Versions {
    engine: String,
    /// Of docker's API.
    api: String,
}

/// The facts that an engine reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Which engine it is.
    pub kind: EngineKind,
    /// The version of the engine.
    pub version: String,
    /// The version of the docker API that it supports.
    pub api_version: String,
    /// Whether it runs without root.
    pub is_rootless: bool,
    /// Its storage driver: `overlay`, `overlay2`, `vfs`, …
    pub storage_driver: String,
    /// The folder that contains its images and containers, on its own host.
    pub storage_root: PathBuf,
    /// Its default OCI runtime.
    pub runtime: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// The release of the kernel that its containers use.
    pub kernel: String,
    /// How many user IDs and group IDs its containers have (the smaller number), if it reports that.
    pub user_ids: Option<u64>,
}

impl Client {
    /// Prepares a connection. Nothing is sent yet.
    pub(crate) fn new(
        dialect: &'static dyn Dialect,
        socket: &std::path::Path,
    ) -> Result<Self, EngineError> {
        let wire = Wire::new(socket);
        let docker = wire.docker(PODMAN_COMPAT)?;
        Ok(Self { dialect, wire, docker, info: Arc::default() })
    }

    /// Negotiates the newest API version that both sides support.
    pub(crate) async fn negotiated(self) -> Result<Self, EngineError> {
        let docker = self.wire.docker(*bollard::API_DEFAULT_VERSION)?.negotiate_version().await;
        let docker = docker.map_err(|error| self.judge("negotiate an API version", error))?;
        Ok(Self { docker, ..self })
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        self.dialect
    }

    /// Returns the kind of the engine.
    pub fn kind(&self) -> EngineKind {
        self.dialect.kind()
    }

    /// Determines which engine answers on a socket. Every engine except docker identifies itself in
    /// a header.
    ///
    /// # Errors
    /// Fails if no engine answers.
    pub async fn kind_at(socket: &std::path::Path) -> Result<EngineKind, EngineError> {
        let headers = ping(&Wire::new(socket)).await?;
        let named = DIALECTS.into_iter().find(|dialect| dialect.is_named_in(&headers));
        Ok(named.map_or(EngineKind::Docker, Dialect::kind))
    }

    /// Requests only the version.
    pub(crate) async fn version(&self) -> Result<String, EngineError> {
        Ok(self.versions().await?.engine)
    }

    /// Requests the versions of the engine and of docker's API. podman has them in the headers of
    /// `/_ping`. Its `/version` and `/info` are slow, because they query the system's package
    /// manager about podman.
    async fn versions(&self) -> Result<Versions, EngineError> {
        let action = "read the version";
        if let Some(header) = self.dialect.version_header() {
            let headers = ping(&self.wire).await?;
            let nonsense = || EngineError::Nonsense {
                action: action.to_owned(),
                detail: format!("the response does not come from {}", self.kind()),
            };
            let engine = text_of(&headers, header).ok_or_else(nonsense)?.to_owned();
            let api = text_of(&headers, API_VERSION).unwrap_or_default().to_owned();
            return Ok(Versions { engine, api });
        }
        let version = self.wire.ask(&get(action, "/version".to_owned()), SHORT).await?;
        let text = |key| version.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Versions { engine: text("Version"), api: text("ApiVersion") })
    }

    /// Returns the facts that the engine reports about itself. A connection requests them once,
    /// because podman needs half a second of CPU time to answer.
    pub(crate) async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.info.get_or_try_init(|| self.read_info()).await.cloned()
    }

    async fn read_info(&self) -> Result<EngineInfo, EngineError> {
        let versions = self.versions().await?;
        let action = "read the engine's info";
        let fields = self.dialect.info();
        let info = self.wire.ask(&get(action, fields.path.to_owned()), SHORT).await?;
        let text = |json: &Value, pointer: &str| {
            json.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(EngineInfo {
            kind: self.kind(),
            version: versions.engine,
            api_version: versions.api,
            is_rootless: self.dialect.is_rootless(&info),
            storage_driver: text(&info, fields.storage_driver),
            storage_root: PathBuf::from(text(&info, fields.storage_root)),
            runtime: text(&info, fields.runtime),
            cgroup_version: text(&info, fields.cgroup_version).trim_start_matches('v').to_owned(),
            kernel: text(&info, fields.kernel),
            user_ids: user_ids(&info),
        })
    }

    /// Requests the size of BuildKit's cache. Older versions of docker also return the disk usage
    /// of everything else.
    pub(crate) async fn build_cache(&self) -> Result<u64, EngineError> {
        if !self.dialect.has_build_cache() {
            return Ok(0);
        }
        let path = "/system/df?type=build-cache".to_owned();
        let used = self.wire.ask(&get("read the size of BuildKit's cache", path), SHORT).await?;
        let records = used.get("BuildCache").and_then(Value::as_array);
        // Shared data also belongs to images, and stays with them.
        let own = |record: &&Value| record.get("Shared") != Some(&Value::Bool(true));
        let size = |record: &Value| record.get("Size").and_then(Value::as_u64);
        Ok(records.into_iter().flatten().filter(own).filter_map(size).sum())
    }

    /// Inspects an image by ID, name or `name@digest`.
    pub(crate) async fn inspect(&self, name: &str) -> Result<Inspect, EngineError> {
        let action = format!("inspect the image `{name}`");
        let raw =
            self.wire.ask(&get(&action, format!("/images/{}/json", part(name))), SHORT).await?;
        let nonsense = || "it lacks an ID or an architecture".to_owned();
        Inspect::read(raw).ok_or_else(|| EngineError::Nonsense { action, detail: nonsense() })
    }

    /// Adds a name to an image.
    pub(crate) async fn tag(&self, image: &ImageId, name: &ImageRef) -> Result<(), EngineError> {
        let (repository, tag) = named(name)?;
        let options = TagImageOptionsBuilder::new().repo(&repository).tag(tag.as_str()).build();
        let tagged = self.docker.tag_image(image.as_str(), Some(options)).await;
        let action = format!("tag the image `{name}`");
        tagged.map_err(|error| self.judge(&action, error))
    }

    /// Removes an image, or one of its names. Succeeds if there is no such image.
    pub(crate) async fn remove_image(&self, name: &str, by_force: bool) -> Result<(), EngineError> {
        let action = format!("remove the image `{name}`");
        let options = RemoveImageOptionsBuilder::new().force(by_force).build();
        let docker = self.docker.clone().with_timeout(LONG);
        match docker.remove_image(name, Some(options), None).await {
            Ok(_) => Ok(()),
            Err(error) => match self.wire.judge_bollard(&action, &docker, error) {
                EngineError::NotFound { .. } => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Pushes an image over plain HTTP to one of this tool's registries.
    pub(crate) async fn push(
        &self,
        image: &ImageId,
        to: &ImageRef,
        limit: Duration,
    ) -> Result<(), EngineError> {
        let action = format!("push the image to `{to}`");
        let silent = || EngineError::Silent { action: action.clone(), after: limit };
        let pushed = if let Some(path) = self.dialect.push_path(image, to) {
            let call = Call { action: &action, method: Method::POST, path };
            tokio::time::timeout(limit, self.streamed(&call, None)).await.map(|end| end.map(drop))
        } else {
            self.tag(image, to).await?;
            let pushed = tokio::time::timeout(limit, self.push_by_name(&action, to)).await;
            // The name was only for the push. If it is the only one, it is kept, because docker
            // would remove the image along with it.
            if self.inspect(image.as_str()).await?.tags.len() > 1 {
                self.remove_image(&to.to_string(), false).await?;
            }
            pushed
        };
        pushed.map_err(|_| silent())?
    }

    async fn push_by_name(&self, action: &str, name: &ImageRef) -> Result<(), EngineError> {
        let (repository, tag) = named(name)?;
        let options = PushImageOptionsBuilder::new().tag(tag.as_str()).build();
        let docker = self.docker.clone().with_timeout(LONG);
        let pushed = docker.push_image(&repository, Some(options), None);
        let judged = pushed.map_err(|error| self.wire.judge_bollard(action, &docker, error));
        judged.try_for_each(|_| std::future::ready(Ok(()))).await
    }

    /// Pulls an image by digest. `is_plain` allows plain HTTP, for this tool's registries.
    pub(crate) async fn pull(
        &self,
        name: &ImageRef,
        is_plain: bool,
        limit: Duration,
    ) -> Result<Inspect, EngineError> {
        let action = format!("pull the image `{name}`");
        let path = self.dialect.pull_path(name, is_plain);
        let call = Call { action: &action, method: Method::POST, path };
        let pulled = tokio::time::timeout(limit, self.streamed(&call, None)).await;
        pulled.map_err(|_| EngineError::Silent { action: action.clone(), after: limit })??;
        self.inspect(&name.to_string()).await
    }

    /// Loads an archive, and returns the names or IDs that the engine reports.
    pub(crate) async fn load(
        &self,
        archive: ByteStream,
        limit: Duration,
    ) -> Result<Vec<String>, EngineError> {
        let action = "load an image archive";
        let call = Call { action, method: Method::POST, path: "/images/load".to_owned() };
        let loaded = tokio::time::timeout(limit, self.streamed(&call, Some(archive))).await;
        let said = loaded
            .map_err(|_| EngineError::Silent { action: action.to_owned(), after: limit })??;
        // "Loaded image: a:b", "Loaded image ID: sha256:…", podman: "Loaded image(s): a:b,c:d".
        let names = said.lines().filter_map(|line| Some(line.split_once(": ")?.1));
        let names: Vec<String> =
            names.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
        if names.is_empty() {
            let detail = format!("the response contains no image name: {}", said.trim());
            return Err(EngineError::Nonsense { action: action.to_owned(), detail });
        }
        Ok(names)
    }

    /// Sends a request whose response is a stream of records, and returns the end of its text.
    async fn streamed(
        &self,
        call: &Call<'_>,
        input: Option<ByteStream>,
    ) -> Result<String, EngineError> {
        let mut body = self.wire.open(call, input).await?.into_body();
        let (mut text, mut failure) = (String::new(), None);
        let mut take = |piece: Piece| match piece {
            Piece::Error(error) => {
                failure.get_or_insert(error);
            }
            // Progress output can be long. Only its end matters.
            Piece::Text(more) => {
                text.push_str(&more);
                if text.len() > 256 << 10 {
                    text.clear();
                }
            }
            _ => {}
        };
        let mut reader = RecordReader::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| EngineError::Lost {
                action: call.action.to_owned(),
                reason: chain(&error),
            })?;
            if let Some(bytes) = frame.data_ref() {
                reader.push(bytes, &mut take)?;
            }
        }
        reader.finish(&mut take)?;
        match failure {
            Some(error) => Err(judge(call.action, None, &error)),
            None => Ok(text),
        }
    }

    /// Returns the images that have a label, given as `name` or `name=value`.
    pub(crate) async fn images_with(&self, label: &str) -> Result<Vec<ImageSummary>, EngineError> {
        let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
        let options = ListImagesOptionsBuilder::new().all(true).filters(&filters).build();
        let listed = self.docker.list_images(Some(options)).await;
        listed.map_err(|error| self.judge("list this tool's images", error))
    }

    /// Turns an error from a call with the usual time limit into an [`EngineError`].
    pub(crate) fn judge(&self, action: &str, error: bollard::errors::Error) -> EngineError {
        self.wire.judge_bollard(action, &self.docker, error)
    }
}

/// Returns how many user IDs and group IDs podman's containers have (the smaller number). Docker
/// does not report it.
fn user_ids(info: &Value) -> Option<u64> {
    let count = |map: &str| {
        let ranges = info.pointer(&format!("/host/idMappings/{map}"))?.as_array()?;
        Some(ranges.iter().filter_map(|range| range.get("size")?.as_u64()).sum::<u64>())
    };
    Some(count("uidmap")?.min(count("gidmap")?)).filter(|count| *count > 0)
}

/// Returns the headers of the response to `/_ping`.
async fn ping(wire: &Wire) -> Result<HeaderMap, EngineError> {
    let action = "determine which engine answers";
    let call = get(action, "/_ping".to_owned());
    let answer = tokio::time::timeout(SHORT, wire.open(&call, None)).await;
    let answer =
        answer.map_err(|_| EngineError::Silent { action: action.to_owned(), after: SHORT })??;
    Ok(answer.headers().clone())
}

pub(crate) fn label_filter(label: &str, run: Option<&RunId>) -> String {
    match run {
        Some(run) => format!("{label}={}", run.as_str()),
        None => label.to_owned(),
    }
}

pub(crate) fn get(action: &str, path: String) -> Call<'_> {
    Call { action, method: Method::GET, path }
}

/// Encodes pairs as a query string.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Encodes a name as one segment of a path.
pub(crate) fn part(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

/// Splits a name into repository and tag. The name must have a tag.
fn named(name: &ImageRef) -> Result<(String, Tag), EngineError> {
    let tag = name.tag.clone().ok_or_else(|| EngineError::Nonsense {
        action: format!("tag the image `{name}`"),
        detail: "the name has no tag".to_owned(),
    })?;
    Ok((name.repository.to_string(), tag))
}
