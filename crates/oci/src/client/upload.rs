//! Pushes blobs: one `POST`, and one `PUT` with the complete blob.
//!
//! A failed push starts over from its `POST`, because the state of an upload session is unreliable
//! after an interrupted request.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use names::{Digest, Repository};
use net::{Body, Meter, lock};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use url::Url;

use super::blob::subject;
use super::endpoint::Endpoint;
use super::error::{ErrorKind, Failure, RegistryError};
use super::request::{Ask, Target};
use super::stream::BlobStream;
use super::{RegistryClient, Session, not_to_push};

impl RegistryClient {
    /// Pushes a small blob.
    ///
    /// # Errors
    /// Fails if the bytes do not match the digest, or if the registry rejects them.
    pub async fn push_blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        bytes: Bytes,
    ) -> Result<(), RegistryError> {
        let session = &*self.session;
        let subject = subject("push the blob", repository, digest);
        let found = Digest::of(&bytes);
        if found != *digest {
            let failure = not_to_push("the blob to push has the digest", digest, found);
            return Err(RegistryError::unasked(&subject, repository.registry(), failure));
        }
        let place = session.place_to_write(&subject, repository)?;
        let mut budget = session.budget(&place);
        loop {
            let body = Body::Bytes(bytes.clone());
            let pushed = match session.begin_upload(&place).await {
                Ok(url) => session.finish_upload(&place, url, digest, body).await,
                Err(failure) => Err(failure),
            };
            match pushed {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    let spent = budget.spend(failure).await;
                    spent.map_err(|end| RegistryError::new(&subject, vec![end]))?;
                }
            }
        }
    }

    /// Pushes a blob from a stream, without holding it completely in memory or on disk.
    ///
    /// # Errors
    /// Fails if the stream fails or does not match the digest, or if the registry rejects the blob.
    pub async fn push_blob_stream(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        stream: BlobStream,
    ) -> Result<(), RegistryError> {
        let session = &*self.session;
        let subject = subject("push the blob", repository, digest);
        let unasked = |failure| RegistryError::unasked(&subject, repository.registry(), failure);
        if stream.digest() != digest {
            let what = "the blob to push has the digest";
            return Err(unasked(not_to_push(what, digest, stream.digest())));
        }
        if stream.size() != size {
            let what = "the size of the blob to push is";
            return Err(unasked(not_to_push(what, size, stream.size())));
        }
        let place = session.place_to_write(&subject, repository)?;
        let mut budget = session.budget(&place);
        let reopener = stream.reopener();
        let mut stream = Some(stream);
        loop {
            let source = Arc::new(Source::default());
            let pushed = match session.begin_upload(&place).await {
                Err(failure) => Err(failure),
                Ok(url) => {
                    let blob = match (stream.take(), &reopener) {
                        (Some(blob), _) => blob,
                        (None, Some(reopener)) => reopener.open().await?,
                        (None, None) => return Err(unasked(gone())),
                    };
                    let meter = session.transport.meter();
                    let body = Uploading { blob, meter, source: Arc::clone(&source) };
                    let progress = Arc::clone(&source.sent);
                    let body = Body::Stream(reqwest::Body::wrap_stream(body), size, progress);
                    session.finish_upload(&place, url, digest, body).await
                }
            };
            // If reading failed, the failed request is only a consequence.
            let failure = match (pushed, lock(&source.broken).take()) {
                (Ok(()), None) => return Ok(()),
                (_, Some(broken)) if !broken.is_worth_reopening() => return Err(broken),
                (_, Some(broken)) => {
                    Failure::passing(ErrorKind::Integrity, "the blob to push could not be read")
                        .because(&broken)
                }
                (Err(failure), None) => failure,
            };
            let spent = budget.spend(failure).await;
            spent.map_err(|end| RegistryError::new(&subject, vec![end]))?;
        }
    }
}

fn gone() -> Failure {
    Failure::fatal(ErrorKind::Protocol, "the blob has been consumed and cannot be sent again")
}

/// The state of an upload's source.
#[derive(Debug, Default)]
struct Source {
    sent: Arc<AtomicU64>,
    broken: Mutex<Option<RegistryError>>,
}

/// A blob as the body of a request. Counts the bytes sent, and keeps the error if reading the blob
/// fails.
struct Uploading {
    blob: BlobStream,
    meter: Arc<Meter>,
    source: Arc<Source>,
}

impl Stream for Uploading {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.blob).poll_next(context);
        polled.map(|piece| match piece? {
            Ok(piece) => {
                let count = piece.len() as u64;
                self.source.sent.fetch_add(count, Ordering::Relaxed);
                self.meter.count_sent(count);
                Some(Ok(piece))
            }
            Err(error) => {
                *lock(&self.source.broken) = Some(error);
                Some(Err(std::io::Error::other("the source of the upload failed")))
            }
        })
    }
}

impl Session {
    /// Starts an upload, and returns the location at which it continues.
    async fn begin_upload(&self, place: &Endpoint) -> Result<Url, Failure> {
        let answer = self.request(Ask::new(place, Method::POST, "blobs/uploads/")).await?;
        match answer.status {
            StatusCode::ACCEPTED => self.upload_location(place, &answer),
            _ => Err(self.failure(place, answer).await),
        }
    }

    /// Sends the blob and completes the upload.
    async fn finish_upload(
        &self,
        place: &Endpoint,
        mut url: Url,
        digest: &Digest,
        body: Body,
    ) -> Result<(), Failure> {
        url.query_pairs_mut().append_pair("digest", digest.as_str());
        let mut ask = Ask::new(place, Method::PUT, "");
        ask.target = Target::Upload(url);
        let octets = HeaderValue::from_static("application/octet-stream");
        ask.headers.insert(CONTENT_TYPE, octets);
        ask.body = body;
        let answer = self.request(ask).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::OK | StatusCode::NO_CONTENT => Ok(()),
            // The session is unknown because it has ended in the meantime. A new one may succeed.
            StatusCode::NOT_FOUND => {
                let failure = self.failure(place, answer).await;
                Err(Failure { again: super::error::Again::Yes, ..failure })
            }
            _ => Err(self.failure(place, answer).await),
        }
    }
}
