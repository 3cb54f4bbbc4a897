//! HTTP requests over a Unix socket, and their failures.
//!
//! Each request has its own connection. Dropping a response closes the connection, which tells the
//! engine that the client is gone, and no request can reuse a connection that the engine has
//! already closed. bollard's typed calls use the same wire.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use bollard::{BollardRequest, Docker};
use bytes::Bytes;
use futures_util::Stream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::error::{EngineError, judge};

/// Bytes to be sent to an engine.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The maximum size of a JSON document, in bytes. The description of a large image takes about
/// 100 KB, and a list of thousands of containers takes a few MB.
const DOCUMENT_CAP: usize = 64 << 20;

/// The time limit for calls that read or change a record. podman 4.3 locks its store while it
/// removes layers, so other calls wait.
pub(crate) const SHORT: Duration = Duration::from_secs(120);

/// The time limit for removing a large image or container.
pub(crate) const LONG: Duration = Duration::from_secs(1800);

/// The connection to one engine.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    socket: PathBuf,
}

/// A request without its body.
pub(crate) struct Call<'a> {
    pub(crate) action: &'a str,
    pub(crate) method: Method,
    pub(crate) path: String,
}

impl Wire {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Returns a bollard client on this wire that uses at most the API version `version`.
    pub(crate) fn docker(&self, version: bollard::ClientVersion) -> Result<Docker, EngineError> {
        let wire = self.clone();
        let transport = move |request: BollardRequest| {
            let wire = wire.clone();
            async move { Ok(wire.exchange(request).await?) }
        };
        Docker::connect_with_custom_transport(
            transport,
            Some("http://engine"),
            SHORT.as_secs(),
            &version,
        )
        .map_err(|error| EngineError::Nonsense {
            action: "prepare a connection".to_owned(),
            detail: error.to_string(),
        })
    }

    /// Sends a request and returns the head of the response. The caller reads the body.
    async fn exchange(&self, mut request: BollardRequest) -> io::Result<Response<Incoming>> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to an engine ended early");
            }
        });
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(io::Error::other)?;
        request.headers_mut().insert(HOST, HeaderValue::from_static("engine"));
        sender.send_request(request).await.map_err(broken)
    }

    /// Sends a request without a time limit, and returns the response if its status is a success.
    ///
    /// `input` is the body, as a tar stream.
    pub(crate) async fn open(
        &self,
        call: &Call<'_>,
        input: Option<ByteStream>,
    ) -> Result<Response<Incoming>, EngineError> {
        let body = match input {
            Some(stream) => bollard::body_try_stream(stream),
            None => bollard::body_full(Bytes::new()),
        };
        self.submit(call, "application/x-tar", Request::new(body)).await
    }

    /// Sends a request with a body, and returns the response if its status is a success.
    async fn submit(
        &self,
        call: &Call<'_>,
        content_type: &'static str,
        mut request: BollardRequest,
    ) -> Result<Response<Incoming>, EngineError> {
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.path.parse().map_err(|error: hyper::http::uri::InvalidUri| {
            EngineError::Nonsense { action: call.action.to_owned(), detail: error.to_string() }
        })?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let answer =
            self.exchange(request).await.map_err(|error| self.failed(call.action, &error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = read_whole(call.action, answer).await.unwrap_or_default();
        Err(judge(call.action, Some(status), &message_of(&body)))
    }

    /// Sends a JSON document and returns the JSON document in the response.
    pub(crate) async fn send(
        &self,
        call: &Call<'_>,
        document: &Value,
        limit: Duration,
    ) -> Result<Value, EngineError> {
        let request = Request::new(bollard::body_full(Bytes::from(document.to_string())));
        let asked = async {
            let answer = self.submit(call, "application/json", request).await?;
            read_whole(call.action, answer).await
        };
        let answer = tokio::time::timeout(limit, asked)
            .await
            .map_err(|_| EngineError::Silent { action: call.action.to_owned(), after: limit })??;
        parsed(call.action, &answer)
    }

    /// Sends a request that upgrades its connection to a bidirectional stream, and returns the
    /// stream.
    pub(crate) async fn upgrade(
        &self,
        call: &Call<'_>,
    ) -> Result<TokioIo<hyper::upgrade::Upgraded>, EngineError> {
        let request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "tcp")
            .body(bollard::body_full(Bytes::new()))
            .map_err(|error| EngineError::Nonsense {
                action: call.action.to_owned(),
                detail: error.to_string(),
            })?;
        let answer =
            self.exchange(request).await.map_err(|error| self.failed(call.action, &error))?;
        let status = answer.status().as_u16();
        if status != 101 {
            let body = read_whole(call.action, answer).await.unwrap_or_default();
            return Err(judge(call.action, Some(status), &message_of(&body)));
        }
        let upgraded = hyper::upgrade::on(answer).await;
        upgraded.map(TokioIo::new).map_err(|error| EngineError::Lost {
            action: call.action.to_owned(),
            reason: chain(&error),
        })
    }

    /// Requests a JSON document. An empty response gives `null`.
    pub(crate) async fn ask(&self, call: &Call<'_>, limit: Duration) -> Result<Value, EngineError> {
        let asked = async {
            let answer = self.open(call, None).await?;
            read_whole(call.action, answer).await
        };
        let body = tokio::time::timeout(limit, asked)
            .await
            .map_err(|_| EngineError::Silent { action: call.action.to_owned(), after: limit })??;
        parsed(call.action, &body)
    }

    /// Turns a failure of the connection itself into an [`EngineError`].
    pub(crate) fn failed(&self, action: &str, error: &io::Error) -> EngineError {
        let never_came = [
            io::ErrorKind::NotFound,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::PermissionDenied,
        ];
        let reason = chain(error);
        if never_came.contains(&error.kind()) {
            let socket = self.socket.clone();
            return EngineError::Unreachable { action: action.to_owned(), socket, reason };
        }
        EngineError::Lost { action: action.to_owned(), reason }
    }

    /// Turns an error from bollard into an [`EngineError`]. `docker` is the client of the call.
    pub(crate) fn judge_bollard(
        &self,
        action: &str,
        docker: &Docker,
        error: bollard::errors::Error,
    ) -> EngineError {
        use bollard::errors::Error as E;
        let action_text = action.to_owned();
        match error {
            E::DockerResponseServerError { status_code, message } => {
                judge(action, Some(status_code), &message)
            }
            E::DockerStreamError { error } => judge(action, None, &error),
            E::DockerContainerWaitError { error, .. } => judge(action, None, &error),
            E::RequestTimeoutError => {
                EngineError::Silent { action: action_text, after: docker.timeout() }
            }
            E::IOError { err } => self.failed(action, &err),
            E::HyperResponseError { err } => {
                EngineError::Lost { action: action_text, reason: chain(&err) }
            }
            other => EngineError::Nonsense { action: action_text, detail: chain(&other) },
        }
    }
}

/// Parses a response. An empty one gives `null`.
fn parsed(action: &str, body: &[u8]) -> Result<Value, EngineError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body).map_err(|error| EngineError::Nonsense {
        action: action.to_owned(),
        detail: error.to_string(),
    })
}

fn broken(error: hyper::Error) -> io::Error {
    io::Error::other(error)
}

/// Returns an error and all its causes as a single text.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let reason = cause.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        next = cause.source();
    }
    text
}

async fn read_whole(action: &str, answer: Response<Incoming>) -> Result<Bytes, EngineError> {
    let body = http_body_util::Limited::new(answer.into_body(), DOCUMENT_CAP);
    let read = body.collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| EngineError::Lost {
        action: action.to_owned(),
        reason: chain(error.as_ref()),
    })
}

/// Returns the message of an unsuccessful response. Both APIs wrap it in JSON.
fn message_of(body: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let wrapped = json.as_ref().and_then(|json| {
        let message = json.get("message").and_then(Value::as_str)?;
        match json.get("cause").and_then(Value::as_str) {
            Some(cause) if !message.contains(cause) => Some(format!("{message} ({cause})")),
            _ => Some(message.to_owned()),
        }
    });
    wrapped.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_response_names_its_own_time_limit() {
        let wire = Wire::new(Path::new("/nowhere"));
        let docker = wire.docker(*bollard::API_DEFAULT_VERSION).unwrap();
        for (docker, limit) in [(docker.clone(), SHORT), (docker.with_timeout(LONG), LONG)] {
            let error = bollard::errors::Error::RequestTimeoutError;
            match wire.judge_bollard("wait", &docker, error) {
                EngineError::Silent { after, .. } => assert_eq!(after, limit),
                other => panic!("{other:?}"),
            }
        }
    }
}
