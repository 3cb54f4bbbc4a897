//! docker: its classic builder and BuildKit, over the same call.

use std::path::PathBuf;

use tokio::sync::OnceCell;

use crate::build::{self, Answer, BuildRequest, Built, OnEvent};
use crate::client::Client;
use crate::error::EngineError;
use crate::probe::{self, Capabilities};
use crate::transcript::Dialect;
use crate::wire::ByteStream;
use crate::{Engine, Kind};

/// Which of docker's builders builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DockerBuilder {
    /// BuildKit, which docker has had since 18.09.
    BuildKit,
    /// The builder before it.
    Classic,
}

/// docker.
#[derive(Debug)]
pub struct Docker {
    socket: PathBuf,
    builder: DockerBuilder,
    /// Asked for once: the daemon refuses a call in a version it does not know.
    client: OnceCell<Client>,
}

impl Docker {
    /// Uses the daemon behind a socket. Nothing is sent yet.
    pub fn at(socket: PathBuf, builder: DockerBuilder) -> Self {
        Self { socket, builder, client: OnceCell::new() }
    }
}

impl Engine for Docker {
    fn kind(&self) -> Kind {
        Kind::Docker
    }

    async fn client(&self) -> Result<Client, EngineError> {
        self.client
            .get_or_try_init(|| async {
                Client::new(Kind::Docker, &self.socket)?.negotiated().await
            })
            .await
            .cloned()
    }

    async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        let dialect = match self.builder {
            DockerBuilder::BuildKit => Dialect::BuildKit,
            DockerBuilder::Classic => Dialect::Classic,
        };
        let client = self.client().await?;
        build::build(&client, dialect, request, context, &Answer::default(), on_event).await
    }

    fn has_cache_mounts(&self) -> bool {
        self.builder == DockerBuilder::BuildKit
    }

    async fn probe(&self) -> Result<Capabilities, EngineError> {
        let info = self.info().await?;
        let buildkit = Self::at(self.socket.clone(), DockerBuilder::BuildKit);
        let with_buildkit = probe::run(&buildkit).await;
        let has_buildkit = with_buildkit.is_ok();
        let run = match (self.builder, with_buildkit) {
            (DockerBuilder::BuildKit, run) => run?,
            (DockerBuilder::Classic, _) => probe::run(self).await?,
        };
        Ok(Capabilities {
            info,
            runtime: None,
            runtime_failures: Vec::new(),
            can_cancel: true,
            has_buildkit,
            run,
        })
    }
}
