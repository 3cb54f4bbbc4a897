//! Shared by the tests: fast settings, images in the shared registry, unique names.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use names::{Digest, ImageRef, Repository};
use oci::client::{
    BlobStream, ClientSettings, ErrorKind, RegistryClient, RegistryError, Retries, Timeouts,
};
use testkit::{PushedBlob, PushedImage, RandomImage, shared_registry};

/// Returns settings with three attempts within milliseconds.
pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        timeouts: Timeouts {
            connect: Duration::from_secs(120),
            idle: Duration::from_secs(120),
            document: Duration::from_secs(120),
            commit: Duration::from_secs(120),
        },
        retries: Retries {
            tries: 3,
            first_wait: Duration::from_millis(1),
            max_retry_after: Duration::from_millis(1500),
        },
        user_agent: "build-pipeline-tests".to_owned(),
        ..ClientSettings::default()
    }
}

/// Like [`settings`], with time limits of a few seconds.
pub(crate) fn impatient() -> ClientSettings {
    // A busy machine may take a second to answer.
    let [connect, idle, document, commit] = [2, 2, 3, 4].map(Duration::from_secs);
    let timeouts = Timeouts { connect, idle, document, commit };
    ClientSettings { timeouts, ..settings() }
}

pub(crate) fn client() -> RegistryClient {
    RegistryClient::new(settings())
}

/// Returns a repository path that is unique to the test.
pub(crate) fn unique(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("test/{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// An image in the shared registry, in its own repository.
pub(crate) struct Sample {
    pub(crate) path: String,
    pub(crate) image: PushedImage,
}

impl Sample {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(name, &RandomImage::new(7))
    }

    pub(crate) fn of(name: &str, image: &RandomImage) -> Self {
        let path = unique(name);
        let image = image.push(shared_registry().host(), &path, "one");
        Self { path, image }
    }

    pub(crate) fn repository(&self, host: &str) -> Repository {
        repository(host, &self.path)
    }

    pub(crate) fn tagged(&self, host: &str) -> ImageRef {
        self.repository(host).tagged(&"one".parse().unwrap())
    }

    pub(crate) fn pinned(&self, host: &str) -> ImageRef {
        self.repository(host).at(&self.image.digest)
    }

    pub(crate) fn layer(&self) -> &PushedBlob {
        &self.image.layers[1]
    }
}

pub(crate) fn repository(host: &str, path: &str) -> Repository {
    format!("{host}/{path}").parse().unwrap()
}

pub(crate) fn size(blob: &PushedBlob) -> u64 {
    blob.bytes.len() as u64
}

/// Reads a stream to its end or to its error.
pub(crate) async fn read(mut stream: BlobStream) -> (Vec<u8>, Result<(), RegistryError>) {
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(error) => return (all, Err(error)),
        }
    }
    (all, Ok(()))
}

/// Returns a stream of local bytes, in chunks.
pub(crate) fn local_stream(bytes: &[u8], piece: usize) -> BlobStream {
    let pieces: Vec<Bytes> = bytes.chunks(piece.max(1)).map(Bytes::copy_from_slice).collect();
    BlobStream::new(Digest::of(bytes), bytes.len() as u64, move || {
        Ok(stream::iter(pieces.clone().into_iter().map(io::Result::Ok)))
    })
}

/// Returns the message of an error and of all its causes.
pub(crate) fn words(error: &RegistryError) -> String {
    let mut words = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        words = format!("{words} | {source}");
        next = source.source();
    }
    words
}

/// Checks the kind of an error, and that its message contains `wanted`.
#[track_caller]
pub(crate) fn check<T: std::fmt::Debug>(
    outcome: Result<T, RegistryError>,
    kind: ErrorKind,
    wanted: &str,
) -> RegistryError {
    let error = outcome.unwrap_err();
    let words = words(&error);
    assert_eq!(error.kind(), kind, "{words}");
    assert!(words.contains(wanted), "`{wanted}` is not in: {words}");
    error
}
