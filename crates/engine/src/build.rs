//! A build: the request, the stream it answers with, and the verdict.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use names::Builder;
use tokio::time::Instant;
use url::form_urlencoded;

use crate::client::Client;
use crate::error::EngineError;
use crate::image::{ImageId, Inspect};
use crate::records::RecordReader;
use crate::transcript::{BuildEvent, Transcript};
use crate::wire::{ByteStream, Call, chain};

/// The label that images of a run carry in an engine; its value is the [`RunId`].
pub const RUN_LABEL: &str = "io.github.build-pipeline.run";
/// The label of containers of a run. It is another one because a container takes over the labels
/// of its image, also one that somebody else makes of an image of ours.
pub const CONTAINER_LABEL: &str = "io.github.build-pipeline.container";
/// The label of the bases that this program offers to an engine. Each step of a build takes it over
/// from the base, so all that an engine keeps of a build has it: podman since 5.4 and docker's classic
/// builder give [`RUN_LABEL`] to the last step only. Its value is always the same, so that the cache
/// of an engine serves later runs.
pub const BASE_LABEL: &str = "io.github.build-pipeline.base";
/// The value of [`BASE_LABEL`].
pub const BASE_VALUE: &str = "true";
/// How the repositories of the loopback registries of this program begin, which bases are pulled
/// from and built images are pushed to.
pub const NAMESPACE: &str = "build-pipeline";
/// The build argument that marks podman's build containers, which have no labels while they run.
pub(crate) const RUN_ARGUMENT: &str = "BUILD_PIPELINE_RUN";

/// What is being done, for errors.
const ACTION: &str = "build the image";

/// The name of a run of ours, by which its leftovers are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Takes 1 to 64 of `a-z`, `0-9` and `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        ((1..=64).contains(&text.len()) && text.bytes().all(is_plain)).then(|| Self(text.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The network a `RUN` or a container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// None but the loopback of its own.
    None,
    /// That of the engine's host.
    Host,
}

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The run this build belongs to.
    pub run: RunId,
    /// The path of the Dockerfile in the context.
    pub dockerfile: String,
    /// The text of that Dockerfile: steps and errors name its lines.
    pub dockerfile_text: String,
    /// The stage to build, or the last.
    pub target: Option<String>,
    /// Build arguments.
    pub build_args: BTreeMap<String, String>,
    /// Labels of the image, besides [`RUN_LABEL`].
    pub labels: BTreeMap<String, String>,
    /// The network of its `RUN`s.
    pub network: Network,
    /// Whether the engine may take layers of earlier builds.
    pub use_cache: bool,
    /// How long the engine may say nothing and take nothing.
    pub idle_limit: Duration,
}

/// An image that was built, and that an inspect has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The image.
    pub image: ImageId,
    /// What the engine says of it.
    pub inspect: Inspect,
}

/// Where events of a build go, in the order of the engine's words.
pub type OnEvent<'a> = &'a mut (dyn FnMut(BuildEvent) + Send);

/// Returns the path and query of the request, in the words of each builder.
fn path_of(request: &BuildRequest, builder: Builder) -> String {
    let mut labels = request.labels.clone();
    labels.insert(RUN_LABEL.to_owned(), request.run.0.clone());
    let mut build_args = request.build_args.clone();
    if builder == Builder::Podman {
        build_args.insert(RUN_ARGUMENT.to_owned(), request.run.0.clone());
    }
    let json = |map: &BTreeMap<String, String>| serde_json::json!(map).to_string();
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("dockerfile", &request.dockerfile);
    query.append_pair("buildargs", &json(&build_args));
    query.append_pair("labels", &json(&labels));
    query.append_pair("nocache", flag(!request.use_cache));
    // Without both, a build that is broken off leaves its container behind.
    query.append_pair("rm", "1").append_pair("forcerm", "1");
    if let Some(target) = &request.target {
        query.append_pair("target", target);
    }
    if builder != Builder::Podman {
        let network = if request.network == Network::None { "none" } else { "host" };
        query.append_pair("networkmode", network);
        query.append_pair("version", if builder == Builder::BuildKit { "2" } else { "1" });
        return format!("/build?{}", query.finish());
    }
    // podman reads numbers here, and takes every word, `none` too, for the host's network
    // (pkg/api/handlers/compat/images_build.go): 0 is its default, 1 is none.
    let network = if request.network == Network::None { "1" } else { "0" };
    query.append_pair("networkmode", network);
    // In one layer, a file that a later RUN changes would change under all of its names.
    query.append_pair("layers", "1");
    // OCI's format has no place for HEALTHCHECK, SHELL and ONBUILD: podman drops the first and the
    // last, and runs RUN without SHELL.
    query.append_pair("outputformat", "application/vnd.docker.distribution.manifest.v2+json");
    query.append_pair("identitylabel", "false");
    // Bases are pulled by digest before a build; nothing else is fetched behind our back.
    query.append_pair("pullpolicy", "never");
    format!("/v4.0.0/libpod/build?{}", query.finish())
}

/// The answer of a build, which may have to be held beyond the build's own end: see
/// [`crate::podman`].
pub(crate) type Answer = Arc<tokio::sync::Mutex<Option<Incoming>>>;

/// Builds, and judges the outcome by the stream and by an inspect.
pub(crate) async fn build(
    client: &Client,
    builder: Builder,
    request: &BuildRequest,
    context: ByteStream,
    held: &Answer,
    on_event: OnEvent<'_>,
) -> Result<Built, EngineError> {
    let silent = (builder == Builder::Podman).then_some(UNUSED_ARGUMENT);
    let mut transcript = Transcript::new(builder, &request.dockerfile_text, silent);
    let watch = Watch::new(request.idle_limit);
    let context = watch.over(context);
    let path = path_of(request, builder);
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

/// podman's remark on [`RUN_ARGUMENT`], which no Dockerfile uses.
const UNUSED_ARGUMENT: &str = "[BUILD_PIPELINE_RUN]";

/// An engine that refuses before it streams refuses the Dockerfile or the base.
fn rejudge(error: EngineError, transcript: &Transcript) -> EngineError {
    match error {
        EngineError::Refused { detail, .. } | EngineError::NotFound { detail, .. } => {
            transcript.judge(&detail)
        }
        other => other,
    }
}

/// Asks the engine for the image its stream has named.
async fn confirm(client: &Client, run: &RunId, named: &str) -> Result<Built, EngineError> {
    let differs = |found: String| EngineError::ImageDiffers { named: named.to_owned(), found };
    let image = ImageId::parse(named).ok_or_else(|| differs("that is no image ID".to_owned()))?;
    let inspect = match client.inspect(image.as_str()).await {
        Ok(inspect) => inspect,
        Err(EngineError::NotFound { .. }) => {
            return Err(differs("an inspect finds no such image".to_owned()));
        }
        Err(error) => return Err(error),
    };
    if inspect.id != image {
        return Err(differs(format!("an inspect finds `{}`", inspect.id)));
    }
    match inspect.labels.get(RUN_LABEL) {
        Some(found) if *found == run.0 => Ok(Built { image, inspect }),
        Some(found) => Err(differs(format!("that image is of the run `{found}`"))),
        None => Err(differs("that image is of no run of ours".to_owned())),
    }
}

/// Ends what nothing happens in: each byte that goes or comes begins the time anew.
#[derive(Debug, Clone)]
struct Watch {
    limit: Duration,
    state: Arc<Mutex<Watched>>,
}

#[derive(Debug)]
struct Watched {
    last: Instant,
    /// Why the context could not be read. hyper says only that the request was broken off.
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

    /// Watches what is sent.
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

    /// Waits for `future` as long as something happens.
    async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut future = std::pin::pin!(future);
        loop {
            let last = self.state.lock().unwrap_or_else(PoisonError::into_inner).last;
            let deadline = last + self.limit;
            match tokio::time::timeout_at(deadline, future.as_mut()).await {
                Ok(value) => return Ok(value),
                Err(_) => {
                    let last = self.state.lock().unwrap_or_else(PoisonError::into_inner).last;
                    if last + self.limit <= Instant::now() {
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
