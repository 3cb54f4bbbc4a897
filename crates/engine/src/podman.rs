//! podman: a service of our own for each build, or a socket the user named.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::build::{self, Answer, BuildRequest, Built, OnEvent};
use crate::client::Client;
use crate::error::EngineError;
use crate::probe::{self, Capabilities};
use crate::service::{Service, ServiceSettings};
use crate::transcript::Dialect;
use crate::wire::ByteStream;
use crate::{Engine, Kind};

/// podman.
#[derive(Debug)]
pub struct Podman {
    way: Way,
    /// The service for everything but builds, once one was needed.
    service: Mutex<Option<Service>>,
}

#[derive(Debug)]
enum Way {
    Private(ServiceSettings),
    Socket(PathBuf),
}

impl Podman {
    /// Uses services of our own. Nothing is started yet.
    pub fn private(settings: ServiceSettings) -> Self {
        Self { way: Way::Private(settings), service: Mutex::new(None) }
    }

    /// Uses a socket the user named. A build that is cancelled may go on to the end of its `RUN`.
    pub fn at(socket: PathBuf) -> Self {
        Self { way: Way::Socket(socket), service: Mutex::new(None) }
    }

    /// Returns whether cancelling a build ends its `RUN`.
    pub fn can_cancel(&self) -> bool {
        matches!(self.way, Way::Private(_))
    }

    /// Stops the service of our own, if one runs, and waits until it is gone.
    pub async fn stop(&self) {
        if let Some(service) = self.service.lock().await.take() {
            service.stop().await;
        }
    }
}

/// Stops the service of a build that is dropped.
///
/// A service that is told to stop waits for its open connections, and a build that has one ends
/// its `RUN` and removes its container. Without, it leaves at once and the container stays; so the
/// answer is held until the service is gone.
struct Ending {
    service: Option<Service>,
    held: Answer,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(service) = self.service.take() else { return };
        // Without a runtime there is nobody to wait: the service itself ends all the same.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let held = Arc::clone(&self.held);
            runtime.spawn(async move {
                service.stop().await;
                drop(held);
            });
        }
    }
}

impl Engine for Podman {
    fn kind(&self) -> Kind {
        Kind::Podman
    }

    async fn client(&self) -> Result<Client, EngineError> {
        let settings = match &self.way {
            Way::Socket(socket) => return Client::new(Kind::Podman, socket),
            Way::Private(settings) => settings,
        };
        let mut held = self.service.lock().await;
        let is_alive = held.as_mut().is_some_and(Service::is_alive);
        if !is_alive {
            *held = Some(Service::start(settings).await?);
        }
        match held.as_ref() {
            Some(service) => Client::new(Kind::Podman, service.socket()),
            None => Err(EngineError::Service {
                program: settings.program.display().to_string(),
                reason: "it is gone".to_owned(),
            }),
        }
    }

    async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        match &self.way {
            Way::Socket(socket) => {
                let client = Client::new(Kind::Podman, socket)?;
                let held = Answer::default();
                build::build(&client, Dialect::Podman, request, context, &held, on_event).await
            }
            Way::Private(settings) => {
                let service = Service::start(settings).await?;
                let client = Client::new(Kind::Podman, service.socket())?;
                let held = Answer::default();
                let mut ending = Ending { service: Some(service), held: Arc::clone(&held) };
                let built =
                    build::build(&client, Dialect::Podman, request, context, &held, on_event).await;
                if let Some(service) = ending.service.take() {
                    service.stop().await;
                }
                built
            }
        }
    }

    async fn probe(&self) -> Result<Capabilities, EngineError> {
        let run = match &self.way {
            Way::Socket(_) => vec![None],
            // A runtime that was chosen is not questioned.
            Way::Private(settings) if settings.runtime.is_some() => vec![None],
            Way::Private(_) => vec![None, Some("crun"), Some("runc")],
        };
        let info = self.info().await?;
        let mut failures = Vec::new();
        for runtime in run {
            let engine = match (&self.way, runtime) {
                (Way::Private(settings), Some(runtime)) => {
                    let runtime = Some(runtime.to_owned());
                    &Self::private(ServiceSettings { runtime, ..settings.clone() })
                }
                _ => self,
            };
            match probe::run(engine).await {
                Ok(probe) => {
                    return Ok(Capabilities {
                        runtime: runtime.map(str::to_owned),
                        runtime_failures: failures,
                        can_cancel: self.can_cancel(),
                        has_buildkit: false,
                        run: probe,
                        info,
                    });
                }
                Err(EngineError::Runtime { detail }) => {
                    failures.push(format!("{}: {detail}", runtime.unwrap_or(&info.runtime)));
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Runtime { detail: failures.join("; ") })
    }
}
