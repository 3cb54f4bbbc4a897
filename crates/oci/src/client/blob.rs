//! Reads small blobs, checks whether a blob exists, and mounts blobs across repositories.

use bytes::Bytes;
use names::{Digest, Repository};
use reqwest::{Method, StatusCode};

use super::auth::Scope;
use super::endpoint::Endpoint;
use super::error::{ErrorKind, Failure, RegistryError, Subject};
use super::request::{Ask, Target};
use super::{RegistryClient, Session, from_first_place, mismatch};

impl RegistryClient {
    /// Returns a complete blob of exactly `size` bytes. For configs and other small blobs.
    ///
    /// # Errors
    /// Fails if `size` is larger than `cap`, or if no location has the blob with this digest and
    /// size.
    pub async fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        cap: u64,
    ) -> Result<Bytes, RegistryError> {
        let session = &*self.session;
        let subject = subject("read the blob", repository, digest);
        if size > cap {
            let detail = format!("it has {size} bytes, but the limit is {cap}");
            let failure = Failure::fatal(ErrorKind::TooLarge, detail);
            return Err(RegistryError::unasked(&subject, repository.registry(), failure));
        }
        if let Some(found) = session.bytes_in_files(&subject, digest) {
            return found;
        }
        let places = session.places(&subject, repository, true)?;
        from_first_place!(session, subject, places, |place| session
            .try_blob(place, digest, size)
            .await)
    }

    /// Returns whether the registry itself has the blob. Mirrors are not queried.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached or refuses the request.
    pub async fn has_blob(
        &self,
        repository: &Repository,
        digest: &Digest,
    ) -> Result<bool, RegistryError> {
        let session = &*self.session;
        let subject = subject("check for the blob", repository, digest);
        let place = session.place_to_write(&subject, repository)?;
        let mut budget = session.budget(&place);
        loop {
            match session.try_has_blob(&place, digest).await {
                Ok(found) => return Ok(found),
                Err(failure) => {
                    let spent = budget.spend(failure).await;
                    spent.map_err(|end| RegistryError::new(&subject, vec![end]))?;
                }
            }
        }
    }

    /// Mounts a blob of `from` into `to` on the registry, without transferring it. Returns whether
    /// this worked; if not, the blob must be pushed.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached or refuses the request, or if the repositories are
    /// on different registries.
    pub async fn mount_blob(
        &self,
        to: &Repository,
        digest: &Digest,
        from: &Repository,
    ) -> Result<bool, RegistryError> {
        let session = &*self.session;
        let subject = subject("mount the blob", to, digest);
        if to.registry() != from.registry() {
            let detail = format!("`{from}` is on another registry");
            let failure = Failure::fatal(ErrorKind::Refused, detail);
            return Err(RegistryError::unasked(&subject, to.registry(), failure));
        }
        let place = session.place_to_write(&subject, to)?;
        let mut budget = session.budget(&place);
        loop {
            match session.try_mount(&place, digest, from).await {
                Ok(is_mounted) => return Ok(is_mounted),
                Err(failure) => {
                    let spent = budget.spend(failure).await;
                    spent.map_err(|end| RegistryError::new(&subject, vec![end]))?;
                }
            }
        }
    }
}

impl Session {
    async fn try_blob(
        &self,
        place: &Endpoint,
        digest: &Digest,
        size: u64,
    ) -> Result<Bytes, Failure> {
        let answer = self.request(Ask::new(place, Method::GET, &format!("blobs/{digest}"))).await?;
        if answer.status != StatusCode::OK {
            return Err(self.failure(place, answer).await);
        }
        if let Some(length) = answer.body.stated_length().filter(|length| *length != size) {
            return Err(wrong_size(size, length));
        }
        let bytes = answer.body.collect(size, self.transport.timeouts().document).await;
        let bytes = bytes.map_err(|error| match error.kind {
            net::ErrorKind::TooLarge => {
                mismatch("the size", format!("{size} bytes"), format!("more than {size} bytes"))
            }
            _ => error.into(),
        })?;
        if bytes.len() as u64 != size {
            return Err(wrong_size(size, bytes.len() as u64));
        }
        match Digest::of(&bytes) {
            found if found == *digest => Ok(bytes),
            found => Err(mismatch("the blob", digest, found)),
        }
    }

    async fn try_has_blob(&self, place: &Endpoint, digest: &Digest) -> Result<bool, Failure> {
        let ask = Ask::new(place, Method::HEAD, &format!("blobs/{digest}"));
        let answer = self.request(ask).await?;
        match answer.status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.failure(place, answer).await),
        }
    }

    async fn try_mount(
        &self,
        place: &Endpoint,
        digest: &Digest,
        from: &Repository,
    ) -> Result<bool, Failure> {
        let what = format!("blobs/uploads/?mount={digest}&from={}", from.path());
        let mut ask = Ask::new(place, Method::POST, &what);
        ask.scopes.push(Scope { path: from.path().to_owned(), is_push: false });
        let scopes = ask.scopes.clone();
        let answer = self.request(ask).await?;
        match answer.status {
            StatusCode::CREATED => Ok(true),
            StatusCode::ACCEPTED => {
                // The registry has started an upload instead. It expires after about a week.
                // Cancelling it now is a courtesy, so failures are ignored.
                if let Ok(url) = self.upload_location(place, &answer) {
                    let mut cancel = Ask::new(place, Method::DELETE, "");
                    (cancel.target, cancel.scopes) = (Target::Upload(url), scopes);
                    if let Err(failure) = self.request(cancel).await {
                        tracing::debug!(reason = failure.detail, "cannot cancel an upload");
                    }
                }
                Ok(false)
            }
            _ => Err(self.failure(place, answer).await),
        }
    }
}

/// Returns the subject of an operation on a blob.
pub(super) fn subject(action: &'static str, repository: &Repository, digest: &Digest) -> Subject {
    Subject { action, name: format!("{repository}@{digest}"), image: None }
}

pub(super) fn wrong_size(wanted: u64, found: u64) -> Failure {
    mismatch("the size", format!("{wanted} bytes"), format!("{found} bytes"))
}
