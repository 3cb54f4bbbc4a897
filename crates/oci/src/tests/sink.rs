//! The loopback registry as the target of an engine's pushes: files, claims, counters.

use bytes::Bytes;
use names::Digest;
use serde_json::json;

use super::loopback::Server;
use crate::loopback::{BlobStream, Received, StoredBlob};
use crate::media::OCI_MANIFEST;

fn begin(server: &Server) -> String {
    let answer = server.ask("POST", "/v2/a/b/blobs/uploads/");
    assert_eq!(answer.status, 202);
    answer.headers["location"].clone()
}

fn files(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn uploads_become_files_and_are_served_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::spooling(folder.path());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let digest = Digest::of(&bytes);
    let upload = begin(&server);
    let middle = 1_234_567;
    let first = server.send("PATCH", &upload, &[("Content-Range", "0-1234566")], &bytes[..middle]);
    assert_eq!((first.status, first.headers["range"].as_str()), (202, "0-1234566"));
    // A chunk that does not start at the end of the last one is refused, and nothing is lost.
    let gap = server.send("PATCH", &upload, &[("Content-Range", "5-9")], b"01234");
    assert_eq!((gap.status, gap.headers["range"].as_str()), (416, "0-1234566"));
    let end = format!("{upload}?digest={digest}");
    assert_eq!(server.send("PUT", &end, &[], &bytes[middle..]).status, 201);
    let Some(StoredBlob::File { path, size }) = server.registry.blob(&digest) else {
        panic!("the blob is not a file")
    };
    assert_eq!(size, 3_000_000);
    assert_eq!(std::fs::read(path).unwrap(), bytes);
    let target = format!("/v2/a/b/blobs/{digest}");
    assert_eq!(server.ask("GET", &target).body, bytes);
    let rest = server.send("GET", &target, &[("Range", "bytes=2999990-")], b"");
    assert_eq!((rest.status, rest.body.as_slice()), (206, &bytes[2_999_990..]));
    let head = server.ask("HEAD", &target);
    assert_eq!((head.status, head.headers["content-length"].as_str()), (200, "3000000"));
    let received = Received { blobs: 1, blob_bytes: 3_000_000, ..Received::default() };
    assert_eq!(server.registry.received(), received);
    drop(server);
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn bytes_with_another_digest_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::spooling(folder.path());
    let digest = Digest::of(b"said");
    for upload in [begin(&server), "/v2/a/b/blobs/uploads/".to_owned()] {
        let method = if upload.ends_with('/') { "POST" } else { "PUT" };
        let answer = server.send(method, &format!("{upload}?digest={digest}"), &[], b"sent");
        assert_eq!(answer.status, 400);
    }
    assert_eq!(server.registry.blob(&digest), None);
    assert_eq!(files(folder.path()), 0);
    assert_eq!(server.registry.received().blobs, 0);
}

#[test]
fn claimed_blobs_are_there_for_who_asks_and_not_for_who_reads() {
    let server = Server::start();
    let digest = Digest::of(b"20 GB of ROCm");
    let target = format!("/v2/a/b/blobs/{digest}");
    assert_eq!(server.ask("HEAD", &target).status, 404);
    server.registry.claim(&digest, 20 << 30, None);
    let head = server.ask("HEAD", &target);
    assert_eq!((head.status, head.headers["content-length"].as_str()), (200, "21474836480"));
    assert_eq!(server.ask("GET", &target).status, 404);
    let mount = format!("/v2/a/b/blobs/uploads/?mount={digest}&from=c/d");
    assert_eq!(server.ask("POST", &mount).status, 201);
    assert_eq!(server.registry.received().already_there, 2);
    assert_eq!(server.registry.blob(&digest), None);
    // A manifest may refer to the claimed blob.
    let config = server.registry.add_blob(Bytes::from_static(b"{}"));
    let manifest = json!({ "config": { "digest": config }, "layers": [{ "digest": digest }] });
    let manifest = manifest.to_string();
    let kind = [("Content-Type", OCI_MANIFEST)];
    let put = server.send("PUT", "/v2/a/b/manifests/new", &kind, manifest.as_bytes());
    assert_eq!(put.status, 201);
    let (found, media_type, bytes) = server.registry.manifest("a/b", "new").unwrap();
    assert_eq!((media_type.as_str(), &*bytes), (OCI_MANIFEST, manifest.as_bytes()));
    assert_eq!(server.registry.manifest("a/b", found.as_str()).unwrap().0, found);
    assert_eq!(server.registry.manifest("a/b", "old"), None);
    // A claim does not replace a stored blob.
    server.registry.claim(&config, 2, None);
    assert!(server.registry.blob(&config).is_some());
}

#[test]
fn a_claim_with_a_source_is_served_from_there() {
    let server = Server::start();
    let bytes = Bytes::from(vec![7; 200_000]);
    let digest = Digest::of(&bytes);
    let size = bytes.len() as u64;
    let source = move |_| {
        let pieces: Vec<_> = bytes.chunks(30_000).map(|piece| Ok(bytes.slice_ref(piece))).collect();
        let stream: BlobStream = Box::pin(futures_util::stream::iter(pieces));
        let opened: futures_util::future::BoxFuture<'static, _> = Box::pin(async { Ok(stream) });
        opened
    };
    server.registry.claim(&digest, size, Some(std::sync::Arc::new(source)));
    let answer = server.ask("GET", &format!("/v2/a/b/blobs/{digest}"));
    assert_eq!((answer.status, Digest::of(&answer.body)), (200, digest));
    let lost = Digest::of(b"lost");
    let failing = |_| -> futures_util::future::BoxFuture<'static, std::io::Result<BlobStream>> {
        Box::pin(async { Err(std::io::Error::other("the real registry is away")) })
    };
    server.registry.claim(&lost, 4, Some(std::sync::Arc::new(failing)));
    assert_eq!(server.ask("GET", &format!("/v2/a/b/blobs/{lost}")).status, 500);
}
