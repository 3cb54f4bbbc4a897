//! An in-process registry on its own loopback port: for rehearsals, and between this tool and an
//! engine.
//!
//! It implements what the OCI distribution specification 1.1 requires for pulling and pushing:
//! manifests by tag and digest, blobs with ranges, uploads in one or several chunks, mounts.
//! Uploads are kept in memory or spooled to files in a folder; both are deleted when the registry
//! is dropped.
//!
//! A blob can be *claimed*: the registry then reports that it has the blob, so that clients do not
//! upload it. An engine that pushes an image with a base of 20 GB sends only the new layers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use names::{Digest, Tag};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::media::{MANIFEST_CAP, OCI_MANIFEST};

mod store;

pub use store::{BlobSource, BlobStream, Received, StoredBlob};

use store::{Blob, Store, Upload, UploadError};

/// The registry. It stops serving when it is dropped.
#[derive(Debug)]
pub struct LoopbackRegistry {
    address: SocketAddr,
    store: Arc<Mutex<Store>>,
    server: JoinHandle<()>,
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

impl LoopbackRegistry {
    /// Starts serving on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Fails if no port is available.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Store::default()).await
    }

    /// Starts serving, and spools uploads to files in `folder`, which must exist. At most a
    /// megabyte of each blob is held in memory.
    ///
    /// # Errors
    /// Fails if no port is available.
    pub async fn start_in(folder: &Path) -> io::Result<Self> {
        Self::start_with(Store { spool: Some(folder.to_owned()), ..Store::default() }).await
    }

    async fn start_with(store: Store) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let store = Arc::new(Mutex::new(store));
        let server = tokio::spawn(serve(listener, Arc::clone(&store)));
        Ok(Self { address, store, server })
    }

    /// Returns the registry's host and port, as in an image reference.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds a blob, without a request.
    pub fn add_blob(&self, bytes: Bytes) -> Digest {
        let digest = Digest::of(&bytes);
        lock(&self.store).keep(&digest, Blob::Memory(bytes));
        digest
    }

    /// From now on, claims to have a blob. `size` is in bytes; `source` provides the bytes if they
    /// are requested. Without a source, such requests get a not-found error.
    ///
    /// podman requests a layer by its `diff_id` if it does not know the compressed digest, so claim
    /// both. A claim does not replace a stored blob.
    pub fn claim(&self, digest: &Digest, size: u64, source: Option<BlobSource>) {
        let mut store = lock(&self.store);
        store.blobs.entry(digest.clone()).or_insert(Blob::Claimed(size, source));
    }

    /// Returns a blob that was uploaded or added, but not a claimed one.
    pub fn blob(&self, digest: &Digest) -> Option<StoredBlob> {
        lock(&self.store).blobs.get(digest).and_then(Blob::stored)
    }

    /// Returns the digest, media type and bytes of a manifest or index, by tag or digest.
    pub fn manifest(&self, repository: &str, reference: &str) -> Option<(Digest, String, Bytes)> {
        lock(&self.store).find_manifest(repository, reference)
    }

    /// Returns the counters of the data received over HTTP so far.
    pub fn received(&self) -> Received {
        lock(&self.store).received
    }

    /// Returns why the spool folder did not accept an upload, if that happened, and clears the
    /// reason. The client may see only a closed connection.
    pub fn take_spool_failure(&self) -> Option<io::Error> {
        lock(&self.store).spool_failure.take()
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

impl Store {
    fn find_manifest(&self, repository: &str, reference: &str) -> Option<(Digest, String, Bytes)> {
        let digest = match reference.parse::<Digest>() {
            Ok(digest) => digest,
            Err(_) => self.tags.get(&(repository.to_owned(), reference.to_owned()))?.clone(),
        };
        let (media_type, bytes) = self.manifests.get(&(repository.to_owned(), digest.clone()))?;
        Some((digest, media_type.clone(), bytes.clone()))
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // The store is changed only by whole insertions, so it is consistent even after a panic.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, store: Arc<Mutex<Store>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely there is no free file descriptor. Retrying immediately would only spin.
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

/// Parses the path of a request, and calls the handler for its method.
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
            let range = range.map(str::to_owned);
            get_blob(store, &method, digest, range.as_deref()).await
        }
        _ => error(StatusCode::NOT_FOUND, "UNSUPPORTED"),
    }
}

fn get_manifest(store: &Mutex<Store>, repository: &str, reference: &str) -> Answer {
    let Some((digest, media_type, bytes)) = lock(store).find_manifest(repository, reference) else {
        return error(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN");
    };
    with_digest(respond(StatusCode::OK, &media_type, bytes), &digest)
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
    store.received.manifest_bytes += bytes.len() as u64;
    let layers = json.get("layers").and_then(Value::as_array).into_iter().flatten();
    for descriptor in layers.chain(json.get("config")) {
        let named =
            descriptor.get("digest").and_then(Value::as_str).and_then(|text| text.parse().ok());
        if !named.is_some_and(|blob: Digest| store.blobs.contains_key(&blob)) {
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

/// Lists the tags of a repository. `skopeo inspect` requests them and fails without them.
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

async fn get_blob(
    store: &Mutex<Store>,
    method: &Method,
    digest: &str,
    range: Option<&str>,
) -> Answer {
    let Ok(digest) = digest.parse::<Digest>() else {
        return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
    };
    let Some(blob) = lock(store).blobs.get(&digest).cloned() else {
        return error(StatusCode::NOT_FOUND, "BLOB_UNKNOWN");
    };
    let size = blob.size();
    let octets = "application/octet-stream";
    if method == Method::HEAD {
        if matches!(blob, Blob::Claimed(..)) {
            lock(store).received.already_there += 1;
        }
        let mut answer = respond(StatusCode::OK, octets, Bytes::new());
        answer.headers_mut().insert(CONTENT_LENGTH, size.into());
        return with_digest(answer, &digest);
    }
    let begin =
        range.and_then(|text| text.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<u64>().ok());
    if begin.is_some_and(|begin| begin >= size) {
        let mut answer = error(StatusCode::RANGE_NOT_SATISFIABLE, "UNSUPPORTED");
        if let Ok(value) = format!("bytes */{size}").parse() {
            answer.headers_mut().insert(CONTENT_RANGE, value);
        }
        return answer;
    }
    let stream = match store::open(&blob, &digest, begin.unwrap_or(0)).await {
        Ok(Some(stream)) => stream,
        Ok(None) => return error(StatusCode::NOT_FOUND, "BLOB_UNKNOWN"),
        Err(failure) => {
            tracing::warn!(%failure, %digest, "the loopback registry cannot serve a blob");
            return error(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN");
        }
    };
    let mut answer = Response::new(StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync());
    let headers = answer.headers_mut();
    if let Ok(value) = octets.parse() {
        headers.insert(CONTENT_TYPE, value);
    }
    headers.insert(CONTENT_LENGTH, (size - begin.unwrap_or(0)).into());
    if let Some(begin) = begin {
        if let Ok(value) = format!("bytes {begin}-{}/{size}", size - 1).parse() {
            headers.insert(CONTENT_RANGE, value);
        }
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    with_digest(answer, &digest)
}

async fn begin_upload(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
) -> Answer {
    let query = query_of(&request);
    let wanted = |key: &str| query.get(key).and_then(|text| text.parse::<Digest>().ok());
    if let Some(digest) = wanted("mount") {
        let mut store = lock(store);
        if let Some(blob) = store.blobs.get(&digest) {
            store.received.already_there += u64::from(matches!(blob, Blob::Claimed(..)));
            return created(&format!("/v2/{repository}/blobs/{digest}"), &digest);
        }
    }
    let spool = lock(store).spool.clone();
    let upload = match Upload::begin(spool.as_deref()) {
        Ok(upload) => upload,
        Err(failure) => return unspooled(store, failure),
    };
    if let Some(digest) = wanted("digest") {
        return finish_upload(request, store, repository, upload, &digest).await;
    }
    let number = {
        let mut store = lock(store);
        store.uploads_begun += 1;
        let number = store.uploads_begun;
        store.uploads.insert(number, upload);
        number
    };
    accepted(&format!("/v2/{repository}/blobs/uploads/{number}"), 0)
}

async fn continue_upload(
    request: Request<Incoming>,
    store: &Mutex<Store>,
    repository: &str,
    id: &str,
) -> Answer {
    let number = id.parse().unwrap_or(0);
    let Some(mut upload) = lock(store).uploads.remove(&number) else {
        return error(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
    };
    if request.method() == Method::PUT {
        let Some(digest) = query_of(&request).get("digest").and_then(|text| text.parse().ok())
        else {
            return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
        };
        return finish_upload(request, store, repository, upload, &digest).await;
    }
    let location = format!("/v2/{repository}/blobs/uploads/{number}");
    let begin = request.headers().get(CONTENT_RANGE).and_then(|range| {
        range.to_str().ok()?.split_once('-')?.0.trim_start_matches("bytes ").parse::<u64>().ok()
    });
    if begin.is_some_and(|begin| begin != upload.length()) {
        let mut answer = accepted(&location, upload.length());
        *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
        lock(store).uploads.insert(number, upload);
        return answer;
    }
    if let Err(failure) = upload.take(request.into_body(), |bytes| count(store, bytes)).await {
        return refused(store, failure);
    }
    let length = upload.length();
    lock(store).uploads.insert(number, upload);
    accepted(&location, length)
}

fn upload_status(store: &Mutex<Store>, repository: &str, upload: &str) -> Answer {
    let number = upload.parse().unwrap_or(0);
    let Some(received) = lock(store).uploads.get(&number).map(Upload::length) else {
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
    mut upload: Upload,
    digest: &Digest,
) -> Answer {
    if let Err(failure) = upload.take(request.into_body(), |bytes| count(store, bytes)).await {
        return refused(store, failure);
    }
    let blob = match upload.finish(digest).await {
        Ok(blob) => blob,
        Err(failure) => return refused(store, failure),
    };
    let mut store = lock(store);
    store.received.blobs += 1;
    store.keep(digest, blob);
    created(&format!("/v2/{repository}/blobs/{digest}"), digest)
}

fn count(store: &Mutex<Store>, bytes: usize) {
    lock(store).received.blob_bytes += bytes as u64;
}

fn refused(store: &Mutex<Store>, failure: UploadError) -> Answer {
    match failure {
        UploadError::Body => error(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID"),
        UploadError::Digest => error(StatusCode::BAD_REQUEST, "DIGEST_INVALID"),
        UploadError::Spool(failure) => unspooled(store, failure),
    }
}

fn unspooled(store: &Mutex<Store>, failure: io::Error) -> Answer {
    tracing::warn!(%failure, "the loopback registry cannot spool an upload");
    lock(store).spool_failure.get_or_insert(failure);
    error(StatusCode::INSUFFICIENT_STORAGE, "UNKNOWN")
}

/// Reads a body of at most `cap` bytes, or returns `None` if it is longer or incomplete.
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
    let mut answer = Response::new(Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
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

fn accepted(location: &str, received: u64) -> Answer {
    let mut answer =
        with_location(respond(StatusCode::ACCEPTED, "application/json", Bytes::new()), location);
    if let Ok(value) = format!("0-{}", received.saturating_sub(1)).parse() {
        answer.headers_mut().insert(RANGE, value);
    }
    answer
}

/// Returns an error in the format of the distribution specification ("Error codes").
fn error(status: StatusCode, code: &str) -> Answer {
    let body =
        json!({ "errors": [{ "code": code, "message": code.to_lowercase().replace('_', " ") }] });
    respond(status, "application/json", Bytes::from(body.to_string()))
}
