//! Pushes: starting over from the POST, streaming, mounting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::stream;
use names::Digest;
use oci::client::{BlobStream, ErrorKind};
use testkit::{Fault, FaultProxy, RandomImage, shared_registry};

use crate::support::{Sample, check, client, local_stream, repository, size, unique};

#[tokio::test]
async fn sixty_four_mebibytes_stream_from_registry_to_registry() {
    let image = RandomImage { layers: vec![10, 64 << 20], ..RandomImage::new(12) };
    let sample = Sample::of("large", &image);
    let target = testkit::DebianRegistry::start();
    let (from, to) =
        (sample.repository(shared_registry().host()), repository(target.host(), "test/large"));
    let (client, layer) = (client(), sample.layer());
    let largest = Arc::new(AtomicU64::new(0));
    let stream = client.blob_stream(&from, &layer.digest, size(layer)).await.unwrap();
    let stream = stream.inspect({
        let largest = Arc::clone(&largest);
        move |piece| {
            let length = piece.as_ref().unwrap().len() as u64;
            largest.fetch_max(length, Ordering::Relaxed);
        }
    });
    client.push_blob_stream(&to, &layer.digest, size(layer), stream).await.unwrap();
    assert!(client.has_blob(&to, &layer.digest).await.unwrap());
    assert!(largest.load(Ordering::Relaxed) <= 1 << 20);
    let counters = client.counters();
    assert_eq!((counters.bytes_received, counters.bytes_sent), (size(layer), size(layer)));
    assert_eq!(counters.requests, 4);
}

#[tokio::test]
async fn a_failed_push_starts_over_from_its_post() {
    for fault in [Fault::status(503), Fault::Reset, Fault::ResetUpload(50_000)] {
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("PUT", "uploads").first(2).does(fault);
        let bytes = vec![3; 200_000];
        let to = repository(&proxy.host(), &unique("again"));
        let (digest, client) = (Digest::of(&bytes), client());
        let stream = local_stream(&bytes, 1000);
        client.push_blob_stream(&to, &digest, 200_000, stream).await.unwrap();
        assert!(client.has_blob(&to, &digest).await.unwrap());
        assert_eq!((proxy.count("POST", ""), proxy.count("PUT", "")), (3, 3));
        let head = proxy.requests().into_iter().find(|r| r.method == "PUT").unwrap();
        assert_eq!(head.header("content-length"), Some("200000"));
        assert_eq!(head.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn a_failed_post_leaves_the_stream_alone() {
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("POST", "uploads").first(2).does(Fault::status(500));
    let bytes = vec![4; 1000];
    let to = repository(&proxy.host(), &unique("post"));
    let opened = Arc::new(AtomicU64::new(0));
    let stream = BlobStream::new(Digest::of(&bytes), 1000, {
        let (opened, bytes) = (Arc::clone(&opened), Bytes::from(bytes.clone()));
        move || {
            opened.fetch_add(1, Ordering::Relaxed);
            Ok(stream::iter([Ok(bytes.clone())]))
        }
    });
    client().push_blob_stream(&to, &Digest::of(&bytes), 1000, stream).await.unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_source_that_breaks_leaves_nothing_behind() {
    let sample = Sample::new("source");
    let source = FaultProxy::to(shared_registry().host());
    source.on("GET", "/blobs/").does(Fault::Flip(4000));
    let (client, layer) = (client(), sample.layer());
    let from = sample.repository(&source.host());
    let to = repository(shared_registry().host(), &unique("target"));
    let stream = client.blob_stream(&from, &layer.digest, size(layer)).await.unwrap();
    let outcome = client.push_blob_stream(&to, &layer.digest, size(layer), stream).await;
    let error = check(outcome, ErrorKind::Integrity, "cannot read the blob");
    assert!(error.to_string().contains(&source.host()), "{error}");
    assert!(!client.has_blob(&to, &layer.digest).await.unwrap());
}

#[tokio::test]
async fn local_sources_are_checked_like_all_others() {
    let to = repository(shared_registry().host(), &unique("local"));
    let wanted = Digest::of(b"wanted");
    for (pieces, said) in [
        (vec![Ok("wanteX".into())], "it served wrong content"),
        (vec![Ok("wante".into())], "the size is"),
        (vec![Ok("wante".into()), Ok("dd".into())], "the size is"),
        (vec![Ok("wan".into()), Err("disk")], "it cannot be read"),
    ] {
        let pieces: Vec<Result<Bytes, &str>> = pieces;
        let stream = BlobStream::new(wanted.clone(), 6, move || {
            let pieces = pieces.clone().into_iter();
            Ok(stream::iter(pieces.map(|piece| piece.map_err(std::io::Error::other))))
        });
        let outcome = client().push_blob_stream(&to, &wanted, 6, stream).await;
        check(outcome, ErrorKind::Integrity, said);
    }
    assert!(!client().has_blob(&to, &wanted).await.unwrap());
    let outcome = client().push_blob(&to, &wanted, "other".into()).await;
    check(outcome, ErrorKind::Integrity, "the blob to push has the digest");
    let outcome = client().push_blob_stream(&to, &wanted, 5, local_stream(b"other", 1)).await;
    check(outcome, ErrorKind::Integrity, "the blob to push has the digest");
}

#[tokio::test]
async fn mounts_succeed_or_leave_no_upload() {
    let sample = Sample::new("mount");
    let proxy = FaultProxy::to(shared_registry().host());
    let from = sample.repository(&proxy.host());
    let to = repository(&proxy.host(), &unique("mounted"));
    let (client, digest) = (client(), &sample.layer().digest);
    assert!(client.mount_blob(&to, digest, &from).await.unwrap());
    assert!(client.has_blob(&to, digest).await.unwrap());
    assert_eq!(client.counters().bytes_sent + client.counters().bytes_received, 0);
    assert_eq!(proxy.count("DELETE", ""), 0);
    let absent = Digest::of(b"nobody has this");
    assert!(!client.mount_blob(&to, &absent, &from).await.unwrap());
    assert_eq!(proxy.count("DELETE", "/blobs/uploads/"), 1);
    // Cancelling the upload is a courtesy, so its failure has no effect.
    proxy.on("DELETE", "").does(Fault::status(500));
    assert!(!client.mount_blob(&to, &absent, &from).await.unwrap());
    let elsewhere = "ghcr.io/a/b".parse().unwrap();
    let outcome = client.mount_blob(&to, digest, &elsewhere).await;
    check(outcome, ErrorKind::Refused, "is on another registry");
}

#[tokio::test]
async fn manifests_are_pushed_by_tag_and_digest() {
    let sample = Sample::new("manifests");
    let (client, host) = (client(), shared_registry().host());
    let to = sample.repository(host);
    let bytes = Bytes::from(sample.image.manifest.bytes.clone());
    let (digest, media_type) = (&sample.image.digest, &sample.image.media_type);
    for image in [to.at(digest), to.tagged(&"two".parse().unwrap())] {
        let pushed = client.push_manifest(&image, media_type, bytes.clone()).await.unwrap();
        assert_eq!(&pushed, digest);
    }
    let wrong = to.at(&Digest::of(b"other"));
    let outcome = client.push_manifest(&wrong, media_type, bytes.clone()).await;
    check(outcome, ErrorKind::Integrity, "the manifest to push has the digest");
    let outcome = client.push_manifest(&wrong, "a\nb", bytes).await;
    assert!(outcome.is_err());
}
