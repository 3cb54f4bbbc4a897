//! podman: a separate service for each build, or a socket that the user named.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use names::{Builder, EngineKind, ImageRef};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::build::{self, Answer, BuildRequest, Built, Network, OnEvent, RUN_ARGUMENT, RUN_LABEL};
use crate::client::{Client, part, query};
use crate::container::ContainerRequest;
use crate::dialect::{Dialect, InfoFields};
use crate::error::EngineError;
use crate::image::ImageId;
use crate::service::{self, Purpose, Service, ServiceSettings};
use crate::specgen;
use crate::transcript::{StepMarker, podman_marker};
use crate::wire::ByteStream;

/// The path prefix of podman's own API. podman 5 accepts it as well.
pub(crate) const LIBPOD: &str = "/v4.0.0/libpod";

/// podman's own API.
#[derive(Debug)]
pub(crate) struct Libpod;

impl Dialect for Libpod {
    fn kind(&self) -> EngineKind {
        EngineKind::Podman
    }

    fn builder(&self) -> Builder {
        Builder::Podman
    }

    fn version_header(&self) -> Option<&'static str> {
        Some("Libpod-API-Version")
    }

    fn info(&self) -> &'static InfoFields {
        &INFO
    }

    fn is_rootless(&self, info: &Value) -> bool {
        info.pointer("/host/security/rootless") == Some(&Value::Bool(true))
    }

    fn has_build_cache(&self) -> bool {
        false
    }

    fn push_path(&self, image: &ImageId, to: &ImageRef) -> Option<String> {
        // podman 4.3 reports nothing until it is done. Later versions report progress only with
        // `quiet=false`.
        let query =
            query(&[("destination", &to.to_string()), ("tlsVerify", "false"), ("quiet", "false")]);
        Some(format!("{LIBPOD}/images/{}/push?{query}", part(image.as_str())))
    }

    fn pull_path(&self, name: &ImageRef, is_plain: bool) -> String {
        let verify = if is_plain { "false" } else { "true" };
        let query = query(&[("reference", &name.to_string()), ("tlsVerify", verify)]);
        format!("{LIBPOD}/images/pull?{query}")
    }

    fn own_container(
        &self,
        request: &ContainerRequest,
    ) -> Result<Option<(String, Value)>, EngineError> {
        Ok(Some((format!("{LIBPOD}/containers/create"), specgen::body(request)?)))
    }

    fn build_path(&self, request: &BuildRequest) -> String {
        let mut build_args = request.build_args.clone();
        build_args.insert(RUN_ARGUMENT.to_owned(), request.run.as_str().to_owned());
        // podman expects a number here. It treats every word, even `none`, as the host's network
        // (pkg/api/handlers/compat/images_build.go). 0 is its default, 1 is none.
        let network = match request.network {
            Network::None => "1",
            Network::Host => "0",
        };
        let mut query = build::query_of(request, &build_args, network);
        // If all instructions shared one layer, a RUN that changes a file would change all of its
        // hard links.
        query.append_pair("layers", "1");
        // podman 5.4 and later add other labels to the last image only, and keep the images of the
        // earlier stages. Older versions add them to every image, and do not know this option.
        query.append_pair("layerLabel", &format!("{RUN_LABEL}={}", request.run.as_str()));
        // The OCI format cannot represent HEALTHCHECK, SHELL and ONBUILD. podman drops the first
        // and the last, and executes RUN without SHELL.
        query.append_pair("outputformat", "application/vnd.docker.distribution.manifest.v2+json");
        query.append_pair("identitylabel", "false");
        // Bases are pulled by digest before a build. The engine must not fetch anything else.
        query.append_pair("pullpolicy", "never");
        format!("{LIBPOD}/build?{}", query.finish())
    }

    fn marker(&self, text: &str) -> Option<StepMarker> {
        podman_marker(text)
    }

    fn ends_with_id(&self) -> bool {
        true
    }

    fn uses_buildah(&self) -> bool {
        true
    }

    /// Returns how long a killed podman may take to end. Until then, it may create the container of
    /// a step, and the image of that step cannot be removed.
    fn settling(&self) -> Duration {
        Duration::from_secs(20)
    }
}

const INFO: InfoFields = InfoFields {
    path: "/v4.0.0/libpod/info",
    storage_driver: "/store/graphDriverName",
    storage_root: "/store/graphRoot",
    runtime: "/host/ociRuntime/name",
    cgroup_version: "/host/cgroupVersion",
    kernel: "/host/kernel",
};

/// podman.
#[derive(Debug)]
pub(crate) struct Podman {
    connection: Connection,
    /// The connection for everything except builds, once it has been made.
    calls: Mutex<Option<Calls>>,
    endings: Endings,
}

/// The dropped builds whose services may still be ending.
type Endings = Arc<std::sync::Mutex<Vec<JoinHandle<()>>>>;

/// A connection, and the service that answers it if this tool started one.
#[derive(Debug)]
struct Calls {
    service: Option<Service>,
    client: Client,
}

impl Calls {
    fn is_alive(&mut self) -> bool {
        self.service.as_mut().is_none_or(Service::is_alive)
    }
}

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
        Self { connection, calls: Mutex::new(None), endings: Endings::default() }
    }

    /// Returns whether cancelling a build stops its `RUN`.
    pub(crate) fn can_cancel(&self) -> bool {
        matches!(self.connection, Connection::Private(_))
    }

    /// Stops this tool's services and waits until they have ended. A running build keeps its own
    /// service.
    pub(crate) async fn stop(&self) {
        self.settle().await;
        let calls = self.calls.lock().await.take();
        if let Some(service) = calls.and_then(|calls| calls.service) {
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

    /// Waits until the services of dropped builds have ended, and removes what killed watchdogs
    /// left behind ([`service::sweep`]).
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
/// connection removes its container. Without one, the service exits immediately and leaves the
/// container behind. Therefore the response is held until the service has ended.
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
        let mut calls = self.calls.lock().await;
        let is_alive = calls.as_mut().is_some_and(Calls::is_alive);
        if let Some(calls) = calls.as_ref().filter(|_| is_alive) {
            return Ok(calls.client.clone());
        }
        let (service, client) = match &self.connection {
            Connection::Socket(socket) => (None, Client::new(&Libpod, socket)?),
            Connection::Private(settings) => {
                let service = Service::start(settings, Purpose::Calls).await?;
                let client = Client::new(&Libpod, service.socket())?;
                (Some(service), client)
            }
        };
        *calls = Some(Calls { service, client: client.clone() });
        Ok(client)
    }

    pub(crate) async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        match &self.connection {
            Connection::Socket(socket) => {
                let client = Client::new(&Libpod, socket)?;
                let held = Answer::default();
                build::build(&client, request, context, &held, on_event).await
            }
            Connection::Private(settings) => {
                let started = Service::start(settings, Purpose::Build).await?;
                let client = Client::new(&Libpod, started.socket())?;
                let held = Answer::default();
                let endings = Arc::clone(&self.endings);
                let mut ending =
                    Ending { service: Some(started), held: Arc::clone(&held), endings };
                let built = build::build(&client, request, context, &held, on_event).await;
                match (built, ending.service.take()) {
                    (Err(EngineError::Lost { action, reason }), Some(service)) => {
                        let said = service.stop_and_report().await;
                        Err(EngineError::Lost { action, reason: with_output(reason, &said) })
                    }
                    (built, Some(service)) => {
                        service.stop().await;
                        built
                    }
                    (built, None) => built,
                }
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

/// Adds one line of a service's output to the reason why the connection was lost: the first line of
/// a Go crash, without the long trace after it, otherwise the last line.
fn with_output(reason: String, said: &str) -> String {
    let is_cause = |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    match said.lines().find(is_cause).or(said.lines().last()) {
        Some(line) => format!("{reason}; podman printed: {line}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_crash_is_quoted_without_its_trace() {
        for (said, quoted) in [
            ("", "eof"),
            ("a\nb", "eof; podman printed: b"),
            ("a\nfatal error: x\n\ngoroutine 1:", "eof; podman printed: fatal error: x"),
            ("panic: y [recovered]\n\tpanic: y", "eof; podman printed: panic: y [recovered]"),
        ] {
            assert_eq!(with_output("eof".to_owned(), said), quoted);
        }
    }
}
