//! podman: a separate service for each build, or a socket that the user named.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use names::{Builder, EngineKind};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::build::{self, Answer, BuildRequest, Built, OnEvent};
use crate::client::Client;
use crate::error::EngineError;
use crate::service::{self, Purpose, Service, ServiceSettings};
use crate::wire::ByteStream;

/// podman.
#[derive(Debug)]
pub(crate) struct Podman {
    connection: Connection,
    /// The service for everything except builds, once it has been started.
    service: Mutex<Option<Service>>,
    endings: Endings,
}

/// The dropped builds whose services may still be ending.
type Endings = Arc<std::sync::Mutex<Vec<JoinHandle<()>>>>;

#[derive(Debug)]
enum Connection {
    Private(ServiceSettings),
    Socket(PathBuf),
}

impl Podman {
    /// Uses services that this tool starts. Nothing is started yet.
    pub(crate) fn private(settings: ServiceSettings) -> Self {
        Self::by(Connection::Private(settings))
    }

    /// Uses a socket that the user named. A cancelled build may continue to the end of its `RUN`.
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self::by(Connection::Socket(socket))
    }

    fn by(connection: Connection) -> Self {
        Self { connection, service: Mutex::new(None), endings: Endings::default() }
    }

    /// Returns whether cancelling a build ends its `RUN`.
    pub(crate) fn can_cancel(&self) -> bool {
        matches!(self.connection, Connection::Private(_))
    }

    /// Stops this tool's services and waits until they have ended. A running build keeps its own
    /// service.
    pub(crate) async fn stop(&self) {
        self.settle().await;
        if let Some(service) = self.service.lock().await.take() {
            service.stop().await;
        }
    }

    /// Waits until the services of dropped builds have ended.
    pub(crate) async fn settle(&self) {
        let endings =
            std::mem::take(&mut *self.endings.lock().unwrap_or_else(PoisonError::into_inner));
        for ending in endings {
            drop(ending.await);
        }
    }

    /// Waits until the services of dropped builds have ended, and sweeps up what killed watchdogs
    /// left ([`service::sweep`]).
    pub(crate) async fn quieten(&self) {
        self.settle().await;
        if let Connection::Private(settings) = &self.connection {
            service::sweep(settings).await;
        }
    }
}

/// Stops the service of a dropped build.
///
/// When a service is told to stop, it waits for its open connections, and a build with an open
/// connection removes its container. Without one, the service exits immediately and the container
/// stays. Therefore the response is held until the service has ended.
struct Ending {
    service: Option<Service>,
    held: Answer,
    endings: Endings,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(service) = self.service.take() else { return };
        // Without a tokio runtime nothing can wait, but the service still ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let held = Arc::clone(&self.held);
            let ending = runtime.spawn(async move {
                service.stop().await;
                drop(held);
            });
            let mut endings = self.endings.lock().unwrap_or_else(PoisonError::into_inner);
            endings.retain(|earlier| !earlier.is_finished());
            endings.push(ending);
        }
    }
}

impl Podman {
    pub(crate) async fn client(&self) -> Result<Client, EngineError> {
        let settings = match &self.connection {
            Connection::Socket(socket) => return Client::new(EngineKind::Podman, socket),
            Connection::Private(settings) => settings,
        };
        let mut held = self.service.lock().await;
        let is_alive = held.as_mut().is_some_and(Service::is_alive);
        if !is_alive {
            *held = Some(Service::start(settings, Purpose::Calls).await?);
        }
        match held.as_ref() {
            Some(service) => Client::new(EngineKind::Podman, service.socket()),
            None => Err(EngineError::Service {
                program: settings.program.display().to_string(),
                reason: "it has ended".to_owned(),
            }),
        }
    }

    pub(crate) async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        match &self.connection {
            Connection::Socket(socket) => {
                let client = Client::new(EngineKind::Podman, socket)?;
                let held = Answer::default();
                build::build(&client, Builder::Podman, request, context, &held, on_event).await
            }
            Connection::Private(settings) => {
                let started = Service::start(settings, Purpose::Build).await?;
                let client = Client::new(EngineKind::Podman, started.socket())?;
                let held = Answer::default();
                let endings = Arc::clone(&self.endings);
                let mut ending =
                    Ending { service: Some(started), held: Arc::clone(&held), endings };
                let built =
                    build::build(&client, Builder::Podman, request, context, &held, on_event).await;
                if let Some(service) = ending.service.take() {
                    service.stop().await;
                }
                built
            }
        }
    }

    /// Returns whether a probe may look for a working OCI runtime: only if the caller has not
    /// chosen one.
    pub(crate) fn may_choose_runtime(&self) -> bool {
        matches!(&self.connection, Connection::Private(settings) if settings.runtime.is_none())
    }

    /// Returns the settings for a service with a different OCI runtime.
    pub(crate) fn with_runtime(&self, runtime: &str) -> Option<ServiceSettings> {
        match &self.connection {
            Connection::Private(settings) => {
                Some(ServiceSettings { runtime: Some(runtime.to_owned()), ..settings.clone() })
            }
            Connection::Socket(_) => None,
        }
    }
}
