//! docker: its classic builder and BuildKit, through the same call.

use std::path::{Path, PathBuf};

use names::{Builder, EngineKind};
use tokio::sync::OnceCell;

use crate::build::{self, Answer, BuildRequest, Built, OnEvent};
use crate::client::Client;
use crate::dialect::Dialect;
use crate::error::EngineError;
use crate::wire::ByteStream;

/// The builder inside docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DockerBuilder {
    /// BuildKit, available since docker 18.09.
    BuildKit,
    /// The builder before BuildKit.
    Classic,
}

impl From<DockerBuilder> for Builder {
    fn from(builder: DockerBuilder) -> Self {
        match builder {
            DockerBuilder::BuildKit => Self::BuildKit,
            DockerBuilder::Classic => Self::Classic,
        }
    }
}

impl Dialect for DockerBuilder {
    fn kind(&self) -> EngineKind {
        EngineKind::Docker
    }

    fn builder(&self) -> Builder {
        (*self).into()
    }

    fn has_cache_mounts(&self) -> bool {
        *self == Self::BuildKit
    }

    fn builder_version(&self) -> &'static str {
        match self {
            Self::BuildKit => "2",
            Self::Classic => "1",
        }
    }

    fn uncoloured<'a>(&self, text: &'a str) -> &'a str {
        match self {
            Self::BuildKit => text,
            // The classic builder colours standard error.
            Self::Classic => {
                let text = text.strip_prefix("\x1b[91m").unwrap_or(text);
                text.strip_suffix("\x1b[0m").unwrap_or(text)
            }
        }
    }

    fn probe_options(&self) -> &'static str {
        match self {
            // The Dockerfiles of stages use RUN --mount, which BuildKit in early versions of docker
            // rejects.
            Self::BuildKit => "--mount=type=cache,target=/cache ",
            Self::Classic => "",
        }
    }

    fn missing(&self, said: &str) -> Option<&'static str> {
        let contains = |known: &&str| said.contains(known);
        let is_without = NO_BUILDKIT.iter().any(contains)
            || said.contains(NO_CONTEXT) && NO_CONTEXT_REASONS.iter().any(contains);
        (*self == Self::BuildKit && is_without).then_some("BuildKit")
    }
}

/// Messages of daemons that do not have BuildKit. The first two come from the classic builder when
/// it reads the probe's `RUN --mount`: the first from docker 18.09 to 28, the second from older
/// versions. The others are responses to a build with BuildKit (moby's
/// `builder/dockerfile/dispatchers.go`, `bflag.go`, `api/server/router/build`).
const NO_BUILDKIT: [&str; 5] = [
    "the --mount option requires buildkit",
    "unknown flag: mount",
    "buildkit is only supported with experimental mode",
    "buildkit not supported",
    "buildkit is not supported",
];

/// The error of docker 26 with the containerd image store if the context of a BuildKit build is in
/// the request (moby#47717): docker then tries to fetch the context from a host that does not
/// exist, or through a proxy, which refuses the request.
const NO_CONTEXT: &str = "failed to read downloaded context";
const NO_CONTEXT_REASONS: [&str; 3] =
    ["lookup build-context-", "proxyconnect tcp", "invalid response status"];

/// docker.
#[derive(Debug)]
pub(crate) struct Docker {
    socket: PathBuf,
    builder: DockerBuilder,
    /// Created once, with a negotiated API version: the daemon refuses versions that it does not
    /// support.
    client: OnceCell<Client>,
}

impl Docker {
    /// Uses the daemon at a socket. Nothing is sent yet.
    pub(crate) fn at(socket: PathBuf, builder: DockerBuilder) -> Self {
        Self { socket, builder, client: OnceCell::new() }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn builder(&self) -> DockerBuilder {
        self.builder
    }

    pub(crate) fn dialect(&self) -> &'static DockerBuilder {
        match self.builder {
            DockerBuilder::BuildKit => &DockerBuilder::BuildKit,
            DockerBuilder::Classic => &DockerBuilder::Classic,
        }
    }

    pub(crate) async fn client(&self) -> Result<Client, EngineError> {
        self.client
            .get_or_try_init(|| async {
                Client::new(self.dialect(), &self.socket)?.negotiated().await
            })
            .await
            .cloned()
    }

    pub(crate) async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        let client = self.client().await?;
        build::build(&client, request, context, &Answer::default(), on_event).await
    }
}
