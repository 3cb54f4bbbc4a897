//! A registry inside this process, on a loopback port of its own: the rehearsal's, and later the
//! one that stands between us and an engine.
//!
//! It speaks what the OCI distribution specification 1.1 asks of a registry for pulling and
//! pushing: manifests by tag and digest, blobs with ranges, uploads in one or several pieces,
//! mounts. Everything is kept in memory and gone when the value is dropped.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use image_ref::{Digest, Tag};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::media::{MANIFEST_CAP, OCI_MANIFEST};

/// The largest blob that is taken, in bytes: everything is held in memory.
const BLOB_CAP: usize = 256 << 20;

/// The registry. It stops serving when it is dropped.
#[derive(Debug)]
pub struct LoopbackRegistry {
    address: SocketAddr,
    store: Arc<Mutex<Store>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Store {
    blobs: BTreeMap<Digest, Bytes>,
    /// Manifests by repository and digest, with their media types.
    manifests: BTreeMap<(String, Digest), (String, Bytes)>,
    tags: BTreeMap<(String, String), Digest>,
    uploads: BTreeMap<u64, BytesMut>,
    uploads_begun: u64,
}

type Answer = Response<Full<Bytes>>;

impl LoopbackRegistry {
    /// Begins to serve on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let store = Arc::new(Mutex::new(Store::default()));
        let server = tokio::spawn(serve(listener, Arc::clone(&store)));
        Ok(Self { address, store, server })
    }

    /// Returns the registry's host and port, as an image reference names it.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds a blob, without a request.
    pub fn add_blob(&self, bytes: Bytes) -> Digest {
        let digest = Digest::of(&bytes);
        lock(&self.store).blobs.insert(digest.clone(), bytes);
        digest
    }

    /// Adds a manifest or index to a repository, without a request.
    pub fn add_manifest(
        &self,
        repository: &str,
        tag: Option<&Tag>,
        media_type: &str,
        bytes: Bytes,
    ) -> Digest {
        let digest = Digest::of(&bytes);
        let mut store = lock(&self.store);
        if let Some(tag) = tag {
            store.tags.insert((repository.to_owned(), tag.to_string()), digest.clone());
        }
        store
            .manifests
            .insert((repository.to_owned(), digest.clone()), (media_type.to_owned(), bytes));
        digest
    }
}

impl Drop for LoopbackRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // The store is changed by whole insertions only, so it is sound after a panic too.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, store: Arc<Mutex<Store>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptor is free, most likely; asking again at once would only spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let store = Arc::clone(&store);
        let service = service_fn(move |request| {
            let store = Arc::clone(&store);
            async move { Ok::<_, Infallible>(answer(request, &store).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the loopback registry ended early");
            }
        });
    }
}

/// Splits the path of a request and hands it to the verb that answers it.
async fn answer(request: Request<Incoming>, store: &Mutex<Store>) -> Answer {
    let path = request.uri().path().to_owned();
    let Some(rest) = path.strip_prefix("/v2/") else {
        return error(StatusCode::NOT_FOUND, "UNSUPPORTED");
    };
    if rest.is_empty() {
        return respond(StatusCode::OK, "application/json", Bytes::from_static(b"{}"));
    }
    let method = request.method().clone();
    if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
        return match method {
            Method::GET | Method::HEAD => get_manifest(store, repository, reference),
            Method::PUT => put_manifest(request, store, repository, reference).await,
            _ => error(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
        };
    }
    if let Some((repository, upload)) = rest.rsplit_once("/blobs/uploads/") {
        return match method {
            Method::POST => begin_upload(request, store, repository).await,
            Method::PATCH | Method::PUT => {
                continue_upload(request, store, repository, upload).await
            }
            Method::GET => upload_status(store, repository, upload),
            Method::DELETE => match lock(store).uploads.remove(&upload.parse().unwrap_or(0)) {
                Some(_) => respond(StatusCode::NO_CONTENT, "application/json", Bytes::new()),
                None => error(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN"),
            },
            _ => error(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
        };
    }
    if let Some(repository) = rest.strip_suffix("/tags/list") {
        return list_tags(store, repository);
    }
    match rest.rsplit_once("/blobs/") {
        Some((_, digest)) if method == Method::GET || method == Method::HEAD => {
            let range = request.headers().get(RANGE).and_then(|value| value.to_str().ok());
            get_blob(store, digest, range)
        }
        _ => error(StatusCode::NOT_FOUND, "UNSUPPORTED"),
    }
}

fn get_manifest(store: &Mutex<Store>, repository: &str, reference: &str) -> Answer {
    let store = lock(store);
    let digest = match reference.parse::<Digest>() {
        Ok(digest) => Some(digest),
        Err(_) => store.tags.get(&(repository.to_owned(), reference.to_owned())).cloned(),
    };
    let found =
        digest.and_then(|digest| store.manifests.get_key_value(&(repository.to_owned(), digest)));
    let Some(((_, digest), (media_type, bytes))) = found else {
        return error(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN");
    };
    with_digest(respond(StatusCode::OK, media_type, bytes.clone()), digest)
}

async fn put_manifest(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
    reference: &str,
) -> Answer {
    let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or(OCI_MANIFEST).to_owned();
    let Some(bytes) = collect(request.into_body(), MANIFEST_CAP as usize).await else {
        return error(StatusCode::PAYLOAD_TOO_LARGE, "MANIFEST_INVALID");
    };
    let digest = Digest::of(&bytes);
    let Ok(json) = serde_json::from_slice::<Value>(&bytes) else {
        return error(StatusCode::BAD_REQUEST, "MANIFEST_INVALID");
    };
    let mut store = lock(store);
    let layers = json.get("layers").and_then(Value::as_array).into_iter().flatten();
    for descriptor in layers.chain(json.get("config")) {
        let named =
            descriptor.get("digest").and_then(Value::as_str).and_then(|text| text.parse().ok());
        if !named.is_some_and(|digest: Digest| store.blobs.contains_key(&digest)) {
            return error(StatusCode::NOT_FOUND, "MANIFEST_BLOB_UNKNOWN");
        }
    }
    match (reference.parse::<Digest>(), reference.parse::<Tag>()) {
        (Ok(named), _) if named != digest => {
            return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
        }
        (Ok(_), _) => {}
        (Err(_), Ok(tag)) => {
            store.tags.insert((repository.to_owned(), tag.to_string()), digest.clone());
        }
        (Err(_), Err(_)) => return error(StatusCode::BAD_REQUEST, "TAG_INVALID"),
    }
    store.manifests.insert((repository.to_owned(), digest.clone()), (media_type, bytes));
    created(&format!("/v2/{repository}/manifests/{digest}"), &digest)
}

/// Lists the tags of a repository; `skopeo inspect` asks for them and fails without.
fn list_tags(store: &Mutex<Store>, repository: &str) -> Answer {
    let store = lock(store);
    if !store.manifests.keys().any(|(name, _)| name == repository) {
        return error(StatusCode::NOT_FOUND, "NAME_UNKNOWN");
    }
    let tags = store.tags.keys().filter(|(name, _)| name == repository);
    let tags: Vec<&String> = tags.map(|(_, tag)| tag).collect();
    let body = json!({ "name": repository, "tags": tags }).to_string();
    respond(StatusCode::OK, "application/json", Bytes::from(body))
}

fn get_blob(store: &Mutex<Store>, digest: &str, range: Option<&str>) -> Answer {
    let Ok(digest) = digest.parse::<Digest>() else {
        return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
    };
    let Some(bytes) = lock(store).blobs.get(&digest).cloned() else {
        return error(StatusCode::NOT_FOUND, "BLOB_UNKNOWN");
    };
    let octets = "application/octet-stream";
    let begin = range
        .and_then(|text| text.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let answer = match begin {
        None => respond(StatusCode::OK, octets, bytes),
        Some(begin) if begin < bytes.len() => {
            let covered = format!("bytes {begin}-{}/{}", bytes.len() - 1, bytes.len());
            let mut answer = respond(StatusCode::PARTIAL_CONTENT, octets, bytes.slice(begin..));
            if let Ok(value) = covered.parse() {
                answer.headers_mut().insert(CONTENT_RANGE, value);
            }
            answer
        }
        Some(_) => {
            let mut answer = error(StatusCode::RANGE_NOT_SATISFIABLE, "UNSUPPORTED");
            if let Ok(value) = format!("bytes */{}", bytes.len()).parse() {
                answer.headers_mut().insert(CONTENT_RANGE, value);
            }
            return answer;
        }
    };
    with_digest(answer, &digest)
}

async fn begin_upload(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
) -> Answer {
    let query = query_of(&request);
    let wanted = |key: &str| query.get(key).and_then(|text| text.parse::<Digest>().ok());
    if let Some(digest) = wanted("mount")
        && lock(store).blobs.contains_key(&digest)
    {
        return created(&format!("/v2/{repository}/blobs/{digest}"), &digest);
    }
    if let Some(digest) = wanted("digest") {
        return finish_upload(request, store, repository, BytesMut::new(), &digest).await;
    }
    let number = {
        let mut store = lock(store);
        store.uploads_begun += 1;
        let number = store.uploads_begun;
        store.uploads.insert(number, BytesMut::new());
        number
    };
    accepted(&format!("/v2/{repository}/blobs/uploads/{number}"), 0)
}

async fn continue_upload(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
    upload: &str,
) -> Answer {
    let number = upload.parse().unwrap_or(0);
    let Some(mut bytes) = lock(store).uploads.remove(&number) else {
        return error(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
    };
    if request.method() == Method::PUT {
        let Some(digest) = query_of(&request).get("digest").and_then(|text| text.parse().ok())
        else {
            return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
        };
        return finish_upload(request, store, repository, bytes, &digest).await;
    }
    let Some(piece) = collect(request.into_body(), BLOB_CAP - bytes.len()).await else {
        return error(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID");
    };
    bytes.extend_from_slice(&piece);
    let length = bytes.len();
    lock(store).uploads.insert(number, bytes);
    accepted(&format!("/v2/{repository}/blobs/uploads/{number}"), length)
}

fn upload_status(store: &Mutex<Store>, repository: &str, upload: &str) -> Answer {
    let number = upload.parse().unwrap_or(0);
    let Some(received) = lock(store).uploads.get(&number).map(BytesMut::len) else {
        return error(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
    };
    let mut answer = accepted(&format!("/v2/{repository}/blobs/uploads/{number}"), received);
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

async fn finish_upload(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
    mut bytes: BytesMut,
    digest: &Digest,
) -> Answer {
    let Some(piece) = collect(request.into_body(), BLOB_CAP - bytes.len()).await else {
        return error(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID");
    };
    bytes.extend_from_slice(&piece);
    if Digest::of(&bytes) != *digest {
        return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
    }
    lock(store).blobs.insert(digest.clone(), bytes.freeze());
    created(&format!("/v2/{repository}/blobs/{digest}"), digest)
}

/// Reads a body of at most `cap` bytes, or nothing where it is longer or breaks off.
async fn collect(body: Incoming, cap: usize) -> Option<Bytes> {
    let body = http_body_util::Limited::new(body, cap);
    body.collect().await.ok().map(http_body_util::Collected::to_bytes)
}

fn query_of(request: &Request<Incoming>) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect()
}

fn respond(status: StatusCode, media_type: &str, bytes: Bytes) -> Answer {
    let length = bytes.len();
    let mut answer = Response::new(Full::new(bytes));
    *answer.status_mut() = status;
    if let Ok(value) = media_type.parse() {
        answer.headers_mut().insert(CONTENT_TYPE, value);
    }
    answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    answer
}

fn with_digest(mut answer: Answer, digest: &Digest) -> Answer {
    if let Ok(value) = digest.as_str().parse() {
        answer.headers_mut().insert("docker-content-digest", value);
    }
    answer
}

fn with_location(mut answer: Answer, location: &str) -> Answer {
    if let Ok(value) = location.parse() {
        answer.headers_mut().insert(LOCATION, value);
    }
    answer
}

fn created(location: &str, digest: &Digest) -> Answer {
    with_digest(
        with_location(respond(StatusCode::CREATED, "application/json", Bytes::new()), location),
        digest,
    )
}

fn accepted(location: &str, received: usize) -> Answer {
    let mut answer =
        with_location(respond(StatusCode::ACCEPTED, "application/json", Bytes::new()), location);
    if let Ok(value) = format!("0-{}", received.saturating_sub(1)).parse() {
        answer.headers_mut().insert(RANGE, value);
    }
    answer
}

/// Returns an error in the form of the distribution specification ("Error codes").
fn error(status: StatusCode, code: &str) -> Answer {
    let body =
        json!({ "errors": [{ "code": code, "message": code.to_lowercase().replace('_', " ") }] });
    respond(status, "application/json", Bytes::from(body.to_string()))
}
