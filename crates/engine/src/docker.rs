//! docker: its classic builder and BuildKit, through the same call.

use std::path::{Path, PathBuf};

use names::{Builder, EngineKind};
use tokio::sync::OnceCell;

use crate::build::{self, Answer, BuildRequest, Built, OnEvent};
use crate::client::Client;
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

/// docker.
#[derive(Debug)]
pub(crate) struct Docker {
    socket: PathBuf,
    builder: DockerBuilder,
    /// Created once, with a negotiated API version: the daemon refuses versions that it does not
    /// know.
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

    pub(crate) async fn client(&self) -> Result<Client, EngineError> {
        self.client
            .get_or_try_init(|| async {
                Client::new(EngineKind::Docker, &self.socket)?.negotiated().await
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
        build::build(&client, self.builder.into(), request, context, &Answer::default(), on_event)
            .await
    }
}
