//! Blobs as streams that are verified while they are read.
//!
//! Start at [`BlobStream`]. The last chunk is held back until size and digest have been verified,
//! so a reader never gets a complete but wrong blob. An interrupted transfer continues with `Range`
//! after the last received byte: at the same location while attempts are left, then at the next.
//! An attempt that delivered a considerable part does not count.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use names::{Digest, Repository};
use net::{Incoming, IncomingBody};
use reqwest::header::{CONTENT_RANGE, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::blob::{subject, wrong_size};
use super::check::{Check, Prefix};
use super::endpoint::Endpoint;
use super::error::{Again, ErrorKind, Failure, Place, RegistryError, Subject};
use super::files::rest_in_file;
use super::request::Ask;
use super::retry::Budget;
use super::{RegistryClient, Session};

pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, RegistryError>> + Send>>;
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<BlobStream, RegistryError>> + Send>>;
type Watcher = Arc<dyn Fn(&Result<Bytes, RegistryError>) + Send + Sync>;

/// A streamed blob that is checked against its size and digest.
///
/// It ends with `None` after the last byte of a correct blob, or with one error.
pub struct BlobStream {
    digest: Digest,
    size: u64,
    pieces: Pieces,
    reopen: Option<Arc<dyn Fn() -> Opening + Send + Sync>>,
    watchers: Vec<Watcher>,
}

impl fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobStream")
            .field("digest", &self.digest)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Stream for BlobStream {
    type Item = Result<Bytes, RegistryError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.pieces.as_mut().poll_next(context);
        if let Poll::Ready(Some(piece)) = &polled {
            self.watchers.iter().for_each(|watcher| watcher(piece));
        }
        polled
    }
}

impl BlobStream {
    /// Returns a stream over a local source, such as a file. `open` is called again if a push must
    /// start over.
    pub fn new<S>(
        digest: Digest,
        size: u64,
        open: impl Fn() -> io::Result<S> + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let open: Arc<dyn Fn() -> io::Result<Pieces> + Send + Sync> = {
            let digest = digest.clone();
            Arc::new(move || {
                let (check, named) = (Check::new(&digest, size), digest.clone());
                Ok(local_pieces(open()?, check, move |failure| local_error(&named, failure)))
            })
        };
        Self::local(digest, size, open)
    }

    /// Returns a stream over verified chunks. `reopen` opens the blob again.
    pub(super) fn reopened_by(
        digest: Digest,
        size: u64,
        pieces: Pieces,
        reopen: Arc<dyn Fn() -> Opening + Send + Sync>,
    ) -> Self {
        Self { digest, size, pieces, reopen: Some(reopen), watchers: Vec::new() }
    }

    /// Returns a stream over bytes in memory.
    pub fn of_bytes(bytes: Bytes) -> Self {
        Self::new(Digest::of(&bytes), bytes.len() as u64, move || {
            Ok(stream::iter([Ok(bytes.clone())]))
        })
    }

    fn local(
        digest: Digest,
        size: u64,
        open: Arc<dyn Fn() -> io::Result<Pieces> + Send + Sync>,
    ) -> Self {
        let pieces = open().unwrap_or_else(|error| {
            let error = local_error(&digest, unreadable(&error));
            Box::pin(stream::iter([Err(error)]))
        });
        let again = {
            let digest = digest.clone();
            move || -> Opening {
                let stream = Self::local(digest.clone(), size, Arc::clone(&open));
                Box::pin(std::future::ready(Ok(stream)))
            }
        };
        Self { digest, size, pieces, reopen: Some(Arc::new(again)), watchers: Vec::new() }
    }

    /// Returns the digest that the blob is checked against.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the size that the blob is checked against.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Calls `watcher` with every chunk or error. If a push starts over, it is called for the
    /// repeated chunks too.
    #[must_use]
    pub fn inspect(
        mut self,
        watcher: impl Fn(&Result<Bytes, RegistryError>) + Send + Sync + 'static,
    ) -> Self {
        self.watchers.push(Arc::new(watcher));
        self
    }

    /// Returns a value that opens the same blob again from its start, if possible.
    pub(super) fn reopener(&self) -> Option<Reopener> {
        let open = Arc::clone(self.reopen.as_ref()?);
        Some(Reopener { open, watchers: self.watchers.clone() })
    }
}

/// Opens a blob again, for a push that starts over.
pub(super) struct Reopener {
    open: Arc<dyn Fn() -> Opening + Send + Sync>,
    watchers: Vec<Watcher>,
}

impl Reopener {
    pub(super) async fn open(&self) -> Result<BlobStream, RegistryError> {
        let mut stream = (self.open)().await?;
        stream.watchers.extend(self.watchers.iter().cloned());
        Ok(stream)
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::fatal(ErrorKind::Integrity, "it cannot be read").because(error)
}

fn local_error(digest: &Digest, failure: Failure) -> RegistryError {
    let subject = Subject { action: "read the local blob", name: digest.to_string(), image: None };
    RegistryError::unasked(&subject, "this machine", failure)
}

/// Returns the verified chunks of a local source. `failed` converts a failure to an error.
pub(super) fn local_pieces<S>(
    source: S,
    check: Check,
    failed: impl Fn(Failure) -> RegistryError + Send + 'static,
) -> Pieces
where
    S: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    let state = (Box::pin(source), check, failed, false);
    Box::pin(stream::unfold(state, |(mut pieces, mut verifier, to_error, is_done)| async move {
        if is_done {
            return None;
        }
        loop {
            let step = match pieces.next().await {
                Some(Ok(piece)) if piece.is_empty() => continue,
                Some(Ok(piece)) => verifier.take(piece).map(|piece| (piece, false)),
                Some(Err(error)) => Err(unreadable(&error)),
                None => verifier.finish().map(|piece| (piece, true)),
            };
            match step {
                Ok((Some(piece), is_last)) => {
                    return Some((Ok(piece), (pieces, verifier, to_error, is_last)));
                }
                Ok((None, false)) => {}
                Ok((None, true)) => return None,
                Err(failure) => {
                    let error = to_error(failure);
                    return Some((Err(error), (pieces, verifier, to_error, true)));
                }
            }
        }
    }))
}

impl RegistryClient {
    /// Returns a blob as a stream that is verified while it is read.
    ///
    /// # Errors
    /// Fails if no location has the blob. Later failures are items of the stream.
    pub async fn blob_stream(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
    ) -> Result<BlobStream, RegistryError> {
        open_blob(self.clone(), repository.clone(), digest.clone(), size).await
    }

    /// Returns the rest of a blob as a stream. The stream checks the beginning and the rest
    /// together.
    ///
    /// # Errors
    /// Fails if no location has the blob. Later failures are items of the stream.
    pub async fn rest_of_blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        beginning: Prefix,
    ) -> Result<BlobStream, RegistryError> {
        let mut check = Check::after(beginning, digest, size);
        let pieces: Pieces = if check.seen < size {
            transferred(self.clone(), repository, check).await?
        } else {
            let subject = subject("read the blob", repository, digest);
            let end = check.finish();
            let end =
                end.map_err(|failure| RegistryError::unasked(&subject, "this machine", failure));
            Box::pin(stream::iter(end.transpose()))
        };
        let digest = digest.clone();
        Ok(BlobStream { digest, size, pieces, reopen: None, watchers: Vec::new() })
    }
}

/// Starts to transfer the part of a blob that `check` has not seen yet.
pub(super) async fn transferred(
    client: RegistryClient,
    repository: &Repository,
    check: Check,
) -> Result<Pieces, RegistryError> {
    let subject = subject("read the blob", repository, &check.digest);
    if let Some(place) = client.session.inputs.place(&check.digest) {
        return rest_in_file(&place, &subject, check);
    }
    let check = match client.rest_nearby(&subject, check) {
        Ok(pieces) => return Ok(pieces),
        Err(check) => *check,
    };
    let places = client.session.places(&subject, repository, true)?.into();
    let mut transfer =
        Transfer { client, subject, places, current: None, failed: Vec::new(), check };
    transfer.open().await?;
    Ok(Box::pin(stream::unfold(Some(transfer), |transfer| async move {
        let mut transfer = transfer?;
        match transfer.next().await {
            Ok((piece, is_done)) => Some((Ok(piece?), (!is_done).then_some(transfer))),
            Err(error) => Some((Err(error), None)),
        }
    })))
}

/// Opens a blob. Returns a boxed future, because the result can open the blob again.
fn open_blob(client: RegistryClient, repository: Repository, digest: Digest, size: u64) -> Opening {
    Box::pin(async move {
        let pieces = transferred(client.clone(), &repository, Check::new(&digest, size)).await?;
        let wanted = digest.clone();
        let reopen = move || open_blob(client.clone(), repository.clone(), wanted.clone(), size);
        Ok(BlobStream::reopened_by(digest, size, pieces, Arc::new(reopen)))
    })
}

/// A blob in transfer.
struct Transfer {
    client: RegistryClient,
    subject: Subject,
    places: VecDeque<Endpoint>,
    current: Option<Current>,
    failed: Vec<Place>,
    check: Check,
}

/// The location that is being read from.
struct Current {
    endpoint: Endpoint,
    budget: Budget,
    body: Option<Running>,
    /// How much of the blob had arrived when the current attempt began.
    begin: u64,
}

/// A response in progress, and how many bytes at its start an earlier response already delivered.
struct Running {
    body: IncomingBody,
    skip: u64,
}

impl Transfer {
    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.client.session)
    }

    /// Makes sure that a response is in progress, at this location or a later one.
    async fn open(&mut self) -> Result<(), RegistryError> {
        let session = self.session();
        loop {
            if self.current.is_none() {
                let Some(endpoint) = self.places.pop_front() else {
                    let failed = std::mem::take(&mut self.failed);
                    return Err(RegistryError::new(&self.subject, failed));
                };
                let budget = session.budget(&endpoint);
                let begin = self.check.seen;
                self.current = Some(Current { endpoint, budget, body: None, begin });
            }
            let Some(current) = self.current.as_mut() else { continue };
            if current.body.is_some() {
                return Ok(());
            }
            match session.try_open(&current.endpoint, &self.check).await {
                Ok(running) => current.body = Some(running),
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    /// Returns the next chunk and whether it is the last. Returns no chunk for an empty blob.
    async fn next(&mut self) -> Result<(Option<Bytes>, bool), RegistryError> {
        loop {
            self.open().await?;
            let Some(running) = self.current.as_mut().and_then(|c| c.body.as_mut()) else {
                continue;
            };
            let step = match running.body.chunk().await {
                Ok(Some(mut piece)) => {
                    let skipped = running.skip.min(piece.len() as u64);
                    running.skip -= skipped;
                    piece.advance(usize::try_from(skipped).unwrap_or(piece.len()));
                    if piece.is_empty() {
                        continue;
                    }
                    self.check.take(piece).map(|piece| (piece, false))
                }
                Ok(None) if self.check.seen < self.check.size => {
                    let failure = wrong_size(self.check.size, self.check.seen);
                    Err(Failure { again: Again::Yes, ..failure })
                }
                Ok(None) => self.check.finish().map(|piece| (piece, true)),
                Err(error) => Err(error.into()),
            };
            match step {
                Ok((None, false)) => {}
                Ok(step) => return Ok(step),
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    /// Records a failure. Returns an error only if part of a wrong blob has been passed on;
    /// otherwise, [`Self::open`] tries again, here or elsewhere.
    async fn fail(&mut self, failure: Failure) -> Result<(), RegistryError> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        current.body = None;
        current.budget.delivered(self.check.seen.saturating_sub(current.begin));
        current.begin = self.check.seen;
        let is_passing = failure.again != Again::No;
        match current.budget.spend(failure).await {
            Ok(_) => {
                self.current = Some(current);
                Ok(())
            }
            Err(end) => {
                let is_wrong_mirror = !self.check.is_continued
                    && self.client.session.note(&self.subject, &current.endpoint, &end);
                let is_wrong = end.kind == ErrorKind::Integrity && !is_passing;
                self.failed.push(end);
                // Bytes of a wrong blob have been passed on and cannot be taken back.
                if is_wrong && self.check.seen > 0 {
                    let failed = std::mem::take(&mut self.failed);
                    let error = RegistryError::new(&self.subject, failed);
                    return Err(if is_wrong_mirror { error.worth_reopening() } else { error });
                }
                Ok(())
            }
        }
    }
}

impl Session {
    /// Requests the rest of a blob.
    async fn try_open(&self, place: &Endpoint, check: &Check) -> Result<Running, Failure> {
        let mut ask = Ask::new(place, Method::GET, &format!("blobs/{}", check.digest));
        if check.seen > 0 {
            let range = HeaderValue::from_str(&format!("bytes={}-", check.seen));
            ask.headers.extend(range.ok().map(|range| (RANGE, range)));
        }
        let answer = self.request(ask).await?;
        let (skip, wanted) = match answer.status {
            // Some servers do not support ranges. In that case the bytes received so far are read
            // again.
            StatusCode::OK => (check.seen, check.size),
            StatusCode::PARTIAL_CONTENT if check.seen > 0 => {
                check_range(&answer, check)?;
                (0, check.size - check.seen)
            }
            _ => return Err(self.failure(place, answer).await),
        };
        if let Some(length) = answer.body.stated_length().filter(|length| *length != wanted) {
            return Err(wrong_size(wanted, length));
        }
        Ok(Running { body: answer.body, skip })
    }
}

/// Checks that a partial response is exactly the part of the blob that is still missing.
fn check_range(answer: &Incoming, check: &Check) -> Result<(), Failure> {
    let Check { seen, size, .. } = check;
    let range = answer.headers.get(CONTENT_RANGE);
    let range = range.map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned());
    let range = range.unwrap_or_default();
    let wanted = format!("bytes {seen}-{}/", size - 1);
    match range.trim().strip_prefix(&wanted) {
        Some(total) if total == "*" || total == size.to_string() => Ok(()),
        _ => {
            let range = net::quoted(&range);
            let detail =
                format!("it continued with range {range}, but `{wanted}{size}` was requested");
            Err(Failure::fatal(ErrorKind::Protocol, detail))
        }
    }
}
