//! Operations without faults, against Debian's registry alone.

use bytes::Bytes;
use oci::client::ErrorKind;
use oci::media::Document;
use testkit::{FaultProxy, Flavour, RandomImage, shared_registry};

use crate::support::{Sample, check, client, local_stream, read, repository, size, unique};

#[tokio::test]
async fn manifests_of_both_flavours_and_both_kinds_are_read() {
    let host = shared_registry().host();
    for flavour in [Flavour::Docker, Flavour::Oci] {
        for is_index in [false, true] {
            let image = RandomImage { flavour, is_index, ..RandomImage::new(1) };
            let sample = Sample::of("kinds", &image);
            let client = client();
            let by_tag = client.manifest(&sample.tagged(host)).await.unwrap();
            let by_digest = client.manifest(&sample.pinned(host)).await.unwrap();
            assert_eq!(by_tag, by_digest);
            assert_eq!(by_tag.digest, sample.image.digest);
            assert_eq!(by_tag.media_type, sample.image.media_type);
            let document = Document::parse(&by_tag.bytes, Some(&by_tag.media_type)).unwrap();
            assert_eq!(matches!(document, Document::Index(_)), is_index);
            let found = client.manifest_digest(&sample.tagged(host)).await.unwrap();
            assert_eq!(found, Some(sample.image.digest));
        }
    }
}

#[tokio::test]
async fn a_derive_takes_few_requests_and_moves_no_layer() {
    let sample = Sample::new("derive");
    let proxy = FaultProxy::to(shared_registry().host());
    let (client, host) = (client(), proxy.host());
    let repository = sample.repository(&host);
    client.manifest(&sample.pinned(&host)).await.unwrap();
    let config = &sample.image.config;
    client.blob(&repository, &config.digest, size(config), 1 << 20).await.unwrap();
    let to = self::repository(&host, &unique("derived"));
    for layer in &sample.image.layers {
        assert!(client.mount_blob(&to, &layer.digest, &repository).await.unwrap());
    }
    client.push_blob(&to, &config.digest, Bytes::from(config.bytes.clone())).await.unwrap();
    let bytes = Bytes::from(sample.image.manifest.bytes.clone());
    let image = to.tagged(&"new".parse().unwrap());
    let digest = client.push_manifest(&image, &sample.image.media_type, bytes).await.unwrap();
    assert_eq!(client.manifest_digest(&image).await.unwrap(), Some(digest));
    let counters = client.counters();
    // Two reads, two mounts, two requests for the config, one for the manifest, one check.
    assert_eq!(counters.requests, 8);
    assert_eq!(proxy.requests().len(), 8);
    let documents = size(config) + size(&sample.image.manifest);
    assert_eq!(counters.bytes_sent, documents);
    assert_eq!(counters.bytes_received, documents);
}

#[tokio::test]
async fn blobs_are_found_or_not() {
    let sample = Sample::new("has");
    let (client, repository) = (client(), sample.repository(shared_registry().host()));
    let absent = names::Digest::of(b"nobody has this");
    assert!(client.has_blob(&repository, &sample.layer().digest).await.unwrap());
    assert!(!client.has_blob(&repository, &absent).await.unwrap());
    let missing = client.blob(&repository, &absent, 1, 1).await;
    let error = check(missing, ErrorKind::NotFound, "answered 404");
    assert_eq!(error.tries(), 1);
    let absent_tag = repository.tagged(&"absent".parse().unwrap());
    assert_eq!(client.manifest_digest(&absent_tag).await.unwrap(), None);
    check(client.manifest(&absent_tag).await, ErrorKind::NotFound, "MANIFEST_UNKNOWN");
}

#[tokio::test]
async fn an_error_names_everything() {
    let host = shared_registry().host();
    let image = format!("{host}/test/nowhere:v1").parse().unwrap();
    let error = client().manifest(&image).await.unwrap_err();
    assert_eq!(
        error.to_string().replace(host, "HOST"),
        "cannot read the manifest of `HOST/test/nowhere:v1`: at `HOST` (1 try) it answered \
         404 Not Found: `MANIFEST_UNKNOWN: manifest unknown`"
    );
}

#[tokio::test]
async fn a_name_without_tag_and_digest_is_refused() {
    let host = shared_registry().host();
    let image = format!("{host}/test/bare").parse().unwrap();
    check(client().manifest(&image).await, ErrorKind::Refused, "no tag and no digest");
}

#[tokio::test]
async fn empty_and_one_byte_blobs_stream() {
    let (client, host) = (client(), shared_registry().host());
    for bytes in [&b""[..], b"x"] {
        let repository = repository(host, &unique("tiny"));
        let digest = names::Digest::of(bytes);
        let size = bytes.len() as u64;
        let stream = local_stream(bytes, 1);
        client.push_blob_stream(&repository, &digest, size, stream).await.unwrap();
        let (read, end) = read(client.blob_stream(&repository, &digest, size).await.unwrap()).await;
        end.unwrap();
        assert_eq!(read, bytes);
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let proxy = FaultProxy::alone();
    let host = proxy.host();
    drop(proxy);
    let image = format!("{host}/test/x:y").parse().unwrap();
    // The port was free a moment ago. The listener's thread may accept one more connection before
    // it ends.
    let error = client().manifest(&image).await.unwrap_err();
    assert_eq!((error.kind(), error.tries()), (ErrorKind::Unreachable, 3), "{error}");
}
