//! Reads documents and blobs from files on this machine: from bundles and copies of inputs.

use bytes::Bytes;
use names::{Digest, ImageRef};

use super::Session;
use super::check::Check;
use super::error::{ErrorKind, Failure, RegistryError, Subject};
use super::mismatch;
use super::stream::{Pieces, local_pieces};
use crate::layout::read_capped;
use crate::local::Place;

impl Session {
    /// Returns the digest of an image, if the files have it.
    pub(super) fn digest_in_files(&self, image: &ImageRef) -> Option<Digest> {
        match &image.digest {
            Some(digest) => self.inputs.place(digest).map(|_| digest.clone()),
            None => self.inputs.tag(image).cloned(),
        }
    }

    /// Returns a document or another small blob, if the files have it.
    pub(super) fn bytes_in_files(
        &self,
        subject: &Subject,
        digest: &Digest,
    ) -> Option<Result<Bytes, RegistryError>> {
        let place = self.inputs.place(digest)?;
        let bytes = place.open(0).and_then(read_capped).map_err(|error| unreadable(&error));
        let checked = bytes.and_then(|bytes| match Digest::of(&bytes) {
            found if found == *digest => Ok(bytes),
            found => Err(mismatch("the blob", digest, found)),
        });
        let file = place.file.display().to_string();
        Some(checked.map_err(|failure| RegistryError::unasked(subject, &file, failure)))
    }
}

/// Returns the part of a blob in a file that `check` has not seen yet.
pub(super) fn rest_in_file(
    place: &Place,
    subject: &Subject,
    check: Check,
) -> Result<Pieces, RegistryError> {
    let (file, subject) = (place.file.display().to_string(), subject.clone());
    let failed = move |failure| RegistryError::unasked(&subject, &file, failure);
    match place.stream(check.seen) {
        Ok(stream) => Ok(local_pieces(stream, check, failed)),
        Err(error) => Err(failed(unreadable(&error))),
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::fatal(ErrorKind::Integrity, "it cannot be read").because(error)
}
