//! Reads and pushes manifests and indexes.

use bytes::Bytes;
use names::{Digest, ImageRef};
use net::{Body, Incoming};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};

use super::endpoint::{Endpoint, reference};
use super::error::{ErrorKind, Failure, RegistryError, Subject};
use super::request::Ask;
use super::{RegistryClient, Session, from_first_place, mismatch, not_to_push};
use crate::media::{
    DOCKER_LIST, DOCKER_MANIFEST, Document, MANIFEST_CAP, MediaError, OCI_INDEX, OCI_MANIFEST,
};

/// The media types that are supported: docker v2 schema 2 and OCI, image and index.
const ACCEPTED: [&str; 4] = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A manifest or index that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedManifest {
    /// The bytes as the registry sent them.
    pub bytes: Bytes,
    /// The media type that header and body agree on.
    pub media_type: String,
    /// The digest of the bytes.
    pub digest: Digest,
}

impl RegistryClient {
    /// Returns the manifest or index of `image`. If `image` has a digest, it is requested by that
    /// digest, and the bytes are checked against it.
    ///
    /// # Errors
    /// Fails if no location has it, or if a response is not an image manifest or index.
    pub async fn manifest(&self, image: &ImageRef) -> Result<FetchedManifest, RegistryError> {
        let session = &*self.session;
        let subject = subject("read the manifest of", image);
        if let Some(digest) = session.digest_in_files(image)
            && let Some(found) = session.bytes_in_files(&subject, &digest)
        {
            let bytes = found?;
            let media_type = own_type(&bytes).map_err(|failure| {
                RegistryError::unasked(&subject, image.repository.registry(), failure)
            })?;
            return Ok(FetchedManifest { bytes, media_type, digest });
        }
        let (reference, places) = session.places_of(&subject, image)?;
        from_first_place!(session, subject, places, |place| session
            .try_manifest(place, &reference, image.digest.as_ref())
            .await)
    }

    /// Returns the current digest of `image`, or `None` if neither a mirror nor the registry itself
    /// has it.
    ///
    /// # Errors
    /// Fails if no mirror has the image, and the registry itself cannot be queried.
    pub async fn manifest_digest(&self, image: &ImageRef) -> Result<Option<Digest>, RegistryError> {
        let session = &*self.session;
        let subject = subject("read the digest of", image);
        if let Some(digest) = session.digest_in_files(image) {
            return Ok(Some(digest));
        }
        let (reference, places) = session.places_of(&subject, image)?;
        let found = from_first_place!(session, subject, places, |place| session
            .try_digest(place, &reference, image.digest.as_ref())
            .await);
        match found {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the digest of `image` on the registry itself, where pushes go, or `None` if the
    /// registry has no such image. Mirrors are not queried.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached or refuses the request.
    pub async fn target_digest(&self, image: &ImageRef) -> Result<Option<Digest>, RegistryError> {
        let session = &*self.session;
        let subject = subject("check the target", image);
        let host = image.repository.registry();
        let reference =
            reference(image).map_err(|failure| RegistryError::unasked(&subject, host, failure))?;
        let places = [session.place_to_write(&subject, &image.repository)?];
        let found = from_first_place!(session, subject, places, |place| session
            .try_digest(place, &reference, image.digest.as_ref())
            .await);
        match found {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pushes a manifest or index under the digest or tag of `image`, and returns its digest.
    ///
    /// # Errors
    /// Fails if the registry rejects it, or reports a digest that does not match the bytes.
    pub async fn push_manifest(
        &self,
        image: &ImageRef,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<Digest, RegistryError> {
        let session = &*self.session;
        let subject = subject("push the manifest of", image);
        let host = image.repository.registry();
        let unasked = |failure| RegistryError::unasked(&subject, host, failure);
        let digest = Digest::of(&bytes);
        if let Some(wanted) = image.digest.as_ref().filter(|wanted| **wanted != digest) {
            let what = "the manifest to push has the digest";
            return Err(unasked(not_to_push(what, wanted, &digest)));
        }
        let content_type = HeaderValue::from_str(media_type).map_err(|_| {
            let detail = format!("{} is not a media type", net::quoted(media_type));
            unasked(Failure::fatal(ErrorKind::Protocol, detail))
        })?;
        let reference = reference(image).map_err(unasked)?;
        let place = session.place_to_write(&subject, &image.repository)?;
        let mut budget = session.budget(&place);
        loop {
            let mut ask = Ask::new(&place, Method::PUT, &format!("manifests/{reference}"));
            ask.headers.insert(CONTENT_TYPE, content_type.clone());
            ask.body = Body::Bytes(bytes.clone());
            match session.try_push(ask, &digest).await {
                Ok(()) => return Ok(digest),
                Err(failure) => {
                    let spent = budget.spend(failure).await;
                    spent.map_err(|end| RegistryError::new(&subject, vec![end]))?;
                }
            }
        }
    }
}

impl Session {
    fn places_of(
        &self,
        subject: &Subject,
        image: &ImageRef,
    ) -> Result<(String, Vec<Endpoint>), RegistryError> {
        let host = image.repository.registry();
        let reference =
            reference(image).map_err(|failure| RegistryError::unasked(subject, host, failure))?;
        Ok((reference, self.places(subject, &image.repository, image.digest.is_some())?))
    }

    async fn try_manifest(
        &self,
        place: &Endpoint,
        reference: &str,
        wanted: Option<&Digest>,
    ) -> Result<FetchedManifest, Failure> {
        // A copy of inputs stores manifests and indexes as blobs: it has only one platform of an
        // index, and registries refuse an index without its other manifests.
        let request = if place.is_copy {
            Ask::new(place, Method::GET, &format!("blobs/{reference}"))
        } else {
            ask(place, Method::GET, reference)
        };
        let answer = self.request(request).await?;
        if answer.status != StatusCode::OK {
            return Err(self.failure(place, answer).await);
        }
        let stated = stated_digest(&answer)?;
        let media_type = media_type(&answer);
        let bytes = answer.body.collect(MANIFEST_CAP, self.transport.timeouts().document).await?;
        let digest = Digest::of(&bytes);
        // A login page comes from another service, so this message is more useful than a digest
        // mismatch.
        if net::is_html(&bytes) || media_type.as_deref() == Some("text/html") {
            let detail = "it answered with a web page, as login portals and proxies do";
            return Err(Failure::fatal(ErrorKind::Protocol, detail));
        }
        if let Some(wanted) = wanted.filter(|wanted| **wanted != digest) {
            return Err(mismatch("the manifest", wanted, &digest));
        }
        if let Some(stated) = stated.filter(|stated| *stated != digest) {
            let detail = format!(
                "its `Docker-Content-Digest` header is `{stated}`, but the manifest's digest is `{digest}`"
            );
            return Err(Failure::fatal(ErrorKind::Integrity, detail));
        }
        // The media type of a blob does not describe the document in it.
        let media_type =
            if place.is_copy { own_type(&bytes)? } else { check_document(&bytes, media_type)? };
        Ok(FetchedManifest { bytes, media_type, digest })
    }

    async fn try_digest(
        &self,
        place: &Endpoint,
        reference: &str,
        wanted: Option<&Digest>,
    ) -> Result<Digest, Failure> {
        if place.is_copy {
            return Ok(self.try_manifest(place, reference, wanted).await?.digest);
        }
        let answer = self.request(ask(place, Method::HEAD, reference)).await?;
        match (answer.status, stated_digest(&answer)?) {
            (StatusCode::OK, Some(stated)) => match wanted.filter(|wanted| **wanted != stated) {
                Some(wanted) => Err(mismatch("the manifest", wanted, stated)),
                None => Ok(stated),
            },
            // If there is no header, or HEAD is not supported, the digest of the bytes is needed.
            (StatusCode::OK | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED, _) => {
                Ok(self.try_manifest(place, reference, wanted).await?.digest)
            }
            _ => Err(self.failure(place, answer).await),
        }
    }

    async fn try_push(&self, ask: Ask<'_>, digest: &Digest) -> Result<(), Failure> {
        let place = ask.place;
        let answer = self.request(ask).await?;
        if !matches!(answer.status, StatusCode::CREATED | StatusCode::OK | StatusCode::ACCEPTED) {
            return Err(self.failure(place, answer).await);
        }
        match stated_digest(&answer)?.filter(|stated| stated != digest) {
            None => Ok(()),
            Some(stated) => {
                let detail = format!("it stored `{stated}`, but `{digest}` was pushed");
                Err(Failure::fatal(ErrorKind::Integrity, detail))
            }
        }
    }
}

fn subject(action: &'static str, image: &ImageRef) -> Subject {
    Subject { action, name: image.to_string(), image: Some(image.clone()) }
}

fn ask<'a>(place: &'a Endpoint, method: Method, reference: &str) -> Ask<'a> {
    let mut ask = Ask::new(place, method, &format!("manifests/{reference}"));
    // A single header, because some registries read only the first.
    if let Ok(accepted) = HeaderValue::from_str(&ACCEPTED.join(", ")) {
        ask.headers.insert(ACCEPT, accepted);
    }
    ask
}

/// Returns the digest in the response header.
fn stated_digest(answer: &Incoming) -> Result<Option<Digest>, Failure> {
    let mut all = None;
    for stated in answer.headers.get_all(CONTENT_DIGEST) {
        let stated: Digest =
            String::from_utf8_lossy(stated.as_bytes()).parse().map_err(|error| {
                let detail = "its `Docker-Content-Digest` header is not a digest";
                Failure::fatal(ErrorKind::Protocol, detail).because(&error)
            })?;
        match &all {
            Some(other) if *other != stated => {
                let detail = format!(
                    "its `Docker-Content-Digest` headers contradict each other: `{other}` and `{stated}`"
                );
                return Err(Failure::fatal(ErrorKind::Integrity, detail));
            }
            _ => all = Some(stated),
        }
    }
    Ok(all)
}

/// Returns the media type of the response, without parameters.
fn media_type(answer: &Incoming) -> Option<String> {
    let text = answer.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Returns the media type of a document that was stored as a blob.
fn own_type(bytes: &[u8]) -> Result<String, Failure> {
    let bad = |error: &MediaError| {
        Failure::fatal(ErrorKind::Protocol, "it stores an unusable document").because(error)
    };
    let guessed = match Document::parse(bytes, None).map_err(|error| bad(&error))? {
        Document::Index(_) => OCI_INDEX,
        Document::Manifest(_) => OCI_MANIFEST,
    };
    let json: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let own = json.as_ref().and_then(|json| json.get("mediaType")?.as_str());
    Ok(own.unwrap_or(guessed).to_owned())
}

/// Checks that header and body agree on one of the four media types, and returns it.
fn check_document(bytes: &[u8], stated: Option<String>) -> Result<String, Failure> {
    let bad = |error: &MediaError| {
        Failure::fatal(ErrorKind::Protocol, "it sent an unusable document").because(error)
    };
    match stated {
        Some(stated) => {
            // If the body has schema 1, that error is more helpful than one about its signed media
            // type.
            let document = Document::parse(bytes, Some(&stated));
            if !ACCEPTED.contains(&stated.as_str()) && !matches!(document, Err(MediaError::Schema1))
            {
                return Err(bad(&MediaError::MediaType(net::clean(&stated))));
            }
            document.map_err(|error| bad(&error))?;
            Ok(stated)
        }
        None => {
            Document::parse(bytes, None).map_err(|error| bad(&error))?;
            let json: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
            let own = json.as_ref().and_then(|json| json.get("mediaType")?.as_str());
            let own = own.filter(|own| ACCEPTED.contains(own)).map(str::to_owned);
            own.ok_or_else(|| {
                let detail = "its header and the manifest both lack a media type";
                Failure::fatal(ErrorKind::Protocol, detail)
            })
        }
    }
}
