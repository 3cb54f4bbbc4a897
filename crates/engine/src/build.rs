//! Builds: the request, the response stream, and the verdict.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use tokio::time::Instant;
use url::form_urlencoded;

use crate::client::Client;
use crate::error::EngineError;
use crate::image::{ImageId, Inspect};
use crate::records::RecordReader;
use crate::transcript::{BuildEvent, Transcript};
use crate::wire::{ByteStream, Call, chain};

/// The label on a run's images in an engine. Its value is the [`RunId`].
pub const RUN_LABEL: &str = "io.github.build-pipeline.run";
/// The label on a run's containers. It differs from [`RUN_LABEL`] because a container inherits the
/// labels of its image, and other people may start containers from images that this tool built.
pub const CONTAINER_LABEL: &str = "io.github.build-pipeline.container";
/// The label on the bases that this tool offers to an engine. Each step of a build inherits it from
/// the base, so everything that an engine keeps from a build carries it. podman 5.4 and later and
/// docker's classic builder add [`RUN_LABEL`] to the last step only. The value is constant, so that
/// later runs can use the engine's cache.
pub const BASE_LABEL: &str = "io.github.build-pipeline.base";
/// The label on images that exist only to keep the layers of a killed build until these can be
/// removed.
pub(crate) const ADOPTED_LABEL: &str = "io.github.build-pipeline.adopted";
/// The value of [`BASE_LABEL`].
pub const BASE_VALUE: &str = "true";
/// The prefix of repositories on this tool's loopback registries. Engines pull bases from them and
/// push built images to them.
pub const NAMESPACE: &str = "build-pipeline";
/// The build argument that marks podman's build containers, which have no labels while they run.
pub(crate) const RUN_ARGUMENT: &str = "BUILD_PIPELINE_RUN";

/// The current action, for errors.
const ACTION: &str = "build the image";

/// The name of a run. It identifies what the run leaves in an engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Parses 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        ((1..=64).contains(&text.len()) && text.bytes().all(is_plain)).then(|| Self(text.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The network of a `RUN` or a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Only its own loopback interface.
    None,
    /// The network of the engine's host.
    Host,
}

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The run that this build belongs to.
    pub run: RunId,
    /// The path of the Dockerfile in the context.
    pub dockerfile: String,
    /// The text of that Dockerfile. Steps and errors refer to its lines.
    pub dockerfile_text: String,
    /// The stage to build; `None` for the last.
    pub target: Option<String>,
    /// Build arguments.
    pub build_args: BTreeMap<String, String>,
    /// Labels of the image, in addition to [`RUN_LABEL`].
    pub labels: BTreeMap<String, String>,
    /// The network of the `RUN` instructions.
    pub network: Network,
    /// Whether the engine may use cached layers.
    pub use_cache: bool,
    /// The longest time for which the engine may neither send nor receive anything.
    pub idle_limit: Duration,
}

/// A built image that was inspected and found to be the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The image.
    pub image: ImageId,
    /// The result of the inspect.
    pub inspect: Inspect,
}

/// Receives the events of a build, in the order in which the engine reports them.
pub type OnEvent<'a> = &'a mut (dyn FnMut(BuildEvent) + Send);

/// Returns the part of a build request that all builders expect in the same form. `network` is the
/// builder's name for the network of the request.
pub(crate) fn query_of(
    request: &BuildRequest,
    build_args: &BTreeMap<String, String>,
    network: &str,
) -> form_urlencoded::Serializer<'static, String> {
    let mut labels = request.labels.clone();
    labels.insert(RUN_LABEL.to_owned(), request.run.0.clone());
    let json = |map: &BTreeMap<String, String>| serde_json::json!(map).to_string();
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("dockerfile", &request.dockerfile);
    query.append_pair("buildargs", &json(build_args));
    query.append_pair("labels", &json(&labels));
    query.append_pair("nocache", flag(!request.use_cache));
    // Without both, the container of an interrupted build is left behind.
    query.append_pair("rm", "1").append_pair("forcerm", "1");
    if let Some(target) = &request.target {
        query.append_pair("target", target);
    }
    query.append_pair("networkmode", network);
    query
}

/// The response of a build. It may have to be kept open after the build ends: see
/// [`crate::podman`].
pub(crate) type Answer = Arc<tokio::sync::Mutex<Option<Incoming>>>;

/// Builds an image, and judges the outcome by the stream and by inspecting the image.
pub(crate) async fn build(
    client: &Client,
    request: &BuildRequest,
    context: ByteStream,
    held: &Answer,
    on_event: OnEvent<'_>,
) -> Result<Built, EngineError> {
    let mut transcript = Transcript::new(client.dialect(), &request.dockerfile_text);
    let watch = Watch::new(request.idle_limit);
    let context = watch.over(context);
    let path = client.dialect().build_path(request);
    let call = Call { action: ACTION, method: Method::POST, path };
    let opened = watch.limit(client.wire().open(&call, Some(context))).await?;
    let answer = match opened {
        Ok(answer) => answer,
        Err(error) => {
            return Err(watch.take_failure().unwrap_or_else(|| rejudge(error, &transcript)));
        }
    };
    let mut held = held.lock().await;
    let body = held.insert(answer.into_body());
    let mut reader = RecordReader::default();
    while let Some(frame) = watch.limit(body.frame()).await? {
        let frame = frame.map_err(|error| {
            watch.take_failure().unwrap_or_else(|| EngineError::Lost {
                action: ACTION.to_owned(),
                reason: chain(&error),
            })
        })?;
        watch.note();
        if let Some(bytes) = frame.data_ref() {
            reader.push(bytes, &mut |piece| transcript.read(piece, on_event))?;
        }
    }
    reader.finish(&mut |piece| transcript.read(piece, on_event))?;
    let named = transcript.finish(on_event);
    if let Some(failure) = watch.take_failure() {
        return Err(failure);
    }
    confirm(client, &request.run, &named?).await
}

/// Turns a refusal that comes before the stream into an error about the Dockerfile or the base.
fn rejudge(error: EngineError, transcript: &Transcript) -> EngineError {
    match error {
        EngineError::Refused { detail, .. } | EngineError::NotFound { detail, .. } => {
            transcript.judge(&detail)
        }
        other => other,
    }
}

/// Inspects the image that the stream named, and checks that it belongs to the run.
async fn confirm(client: &Client, run: &RunId, named: &str) -> Result<Built, EngineError> {
    let differs = |found: String| EngineError::ImageDiffers { named: named.to_owned(), found };
    let image =
        ImageId::parse(named).ok_or_else(|| differs("that is not an image ID".to_owned()))?;
    let inspect = match client.inspect(image.as_str()).await {
        Ok(inspect) => inspect,
        Err(EngineError::NotFound { .. }) => {
            return Err(differs("`inspect` does not find it".to_owned()));
        }
        Err(error) => return Err(error),
    };
    if inspect.id != image {
        return Err(differs(format!("`inspect` returns `{}`", inspect.id)));
    }
    match inspect.labels.get(RUN_LABEL) {
        Some(found) if *found == run.0 => Ok(Built { image, inspect }),
        Some(found) => Err(differs(format!("that image belongs to the run `{found}`"))),
        None => Err(differs("that image does not belong to a run of this tool".to_owned())),
    }
}

/// Ends a transfer that makes no progress. Each byte in either direction restarts the timeout.
#[derive(Debug, Clone)]
struct Watch {
    limit: Duration,
    state: Arc<Mutex<Watched>>,
}

#[derive(Debug)]
struct Watched {
    last: Instant,
    /// Why the context could not be read. hyper reports only that the request was aborted.
    failure: Option<io::Error>,
}

impl Watch {
    fn new(limit: Duration) -> Self {
        let state = Watched { last: Instant::now(), failure: None };
        Self { limit, state: Arc::new(Mutex::new(state)) }
    }

    fn note(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last = Instant::now();
    }

    fn take_failure(&self) -> Option<EngineError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let source = state.failure.take()?;
        Some(EngineError::Input { action: ACTION.to_owned(), source })
    }

    /// Watches the bytes that are sent.
    fn over(&self, stream: ByteStream) -> ByteStream {
        let watch = self.clone();
        Box::pin(stream.map(move |piece| {
            watch.note();
            piece.map_err(|error| {
                let told = io::Error::new(error.kind(), error.to_string());
                let mut state = watch.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.failure.get_or_insert(error);
                told
            })
        }))
    }

    /// Waits for `future` as long as there is progress.
    async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut future = std::pin::pin!(future);
        loop {
            let last = self.state.lock().unwrap_or_else(PoisonError::into_inner).last;
            let deadline = last + self.limit;
            match tokio::time::timeout_at(deadline, future.as_mut()).await {
                Ok(value) => return Ok(value),
                Err(_) => {
                    let latest = self.state.lock().unwrap_or_else(PoisonError::into_inner).last;
                    if latest + self.limit <= Instant::now() {
                        return Err(EngineError::Silent {
                            action: ACTION.to_owned(),
                            after: self.limit,
                        });
                    }
                }
            }
        }
    }
}
