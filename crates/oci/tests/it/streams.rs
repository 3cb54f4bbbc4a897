//! Blob streams: resumed after an interruption, never wrong, never completely in memory.

use std::sync::Arc;

use oci::client::{ErrorKind, KeptPart};
use testkit::{Fault, FaultProxy, RandomImage, shared_registry};

use crate::support::{Sample, check, client, read, size};

const BIG: usize = 3_000_000;

fn big(name: &str) -> (Sample, FaultProxy) {
    let image = RandomImage { layers: vec![10, BIG], ..RandomImage::new(11) };
    (Sample::of(name, &image), FaultProxy::to(shared_registry().host()))
}

#[tokio::test]
async fn a_broken_transfer_goes_on_where_it_was() {
    let (sample, proxy) = big("resume");
    proxy.on("GET", "/blobs/").nth(1).does(Fault::ResetAt(1_000_000));
    proxy.on("GET", "/blobs/").nth(2).does(Fault::CloseAt(1_000_000));
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    let client = client();
    let stream = client.blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
    let ranges: Vec<_> =
        proxy.requests().iter().map(|r| r.header("range").map(str::to_owned)).collect();
    assert_eq!((ranges.len(), &ranges[0]), (3, &None));
    // A reset may overtake bytes that were sent before it.
    let starts: Vec<usize> = ranges[1..]
        .iter()
        .map(|range| range.as_deref().unwrap()[6..].trim_end_matches('-').parse().unwrap())
        .collect();
    assert!(starts[0] > 0 && starts[0] <= 1_000_000, "{starts:?}");
    assert!(starts[1] > starts[0], "{starts:?}");
    assert!(client.counters().bytes_received < BIG as u64 + 10_000);
}

#[tokio::test]
async fn a_kept_beginning_is_continued_unless_it_is_damaged() {
    let (sample, proxy) = big("kept");
    let (layer, folder) = (sample.layer(), tempfile::tempdir().unwrap());
    let path = folder.path().join("blobs/layer");
    let open = || Arc::new(KeptPart::open(&path, size(layer), 1).unwrap());
    let (client, whole) = (client(), size(layer));
    let from = sample.repository(&proxy.host());
    let rest = |part| client.kept_blob(&from, &layer.digest, whole, part);

    // The server closes the connection too early until the client gives up.
    proxy.on("GET", "/blobs/").first(1).does(Fault::CloseAt(1_000_000));
    proxy.on("GET", "/blobs/").first(20).does(Fault::CloseAt(0));
    let part = open();
    let (_, end) = read(rest(Arc::clone(&part)).await.unwrap()).await;
    end.unwrap_err();
    let kept = part.length();
    assert!(kept > 500_000 && kept <= 1_000_000, "{kept}");
    // Only one transfer uses the file.
    assert!(KeptPart::open(&path, whole, 1).is_none());
    drop(part);

    let other = FaultProxy::to(shared_registry().host());
    let from = sample.repository(&other.host());
    let rest = |part| client.kept_blob(&from, &layer.digest, whole, part);
    let (bytes, end) = read(rest(open()).await.unwrap()).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
    let ranges = || {
        let all = other.requests().into_iter();
        all.map(|r| r.header("range").map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(ranges(), [Some(format!("bytes={kept}-"))]);

    let file = oci::part_of(&path);
    let mut bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes, layer.bytes);
    bytes[7] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let part = open();
    let (_, end) = read(rest(Arc::clone(&part)).await.unwrap()).await;
    assert_eq!(end.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(part.length(), 0);
    let (bytes, end) = read(rest(Arc::clone(&part)).await.unwrap()).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
    part.remove();
    drop(part);
    assert!(!file.exists());
    assert!(KeptPart::open(&path, whole, u64::MAX / whole).is_none(), "the disk has no room");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_server_without_ranges_is_read_again_and_skipped() {
    let (sample, proxy) = big("no-range");
    proxy.on("GET", "/blobs/").nth(1).does(Fault::CloseAt(1_000_000));
    proxy.on("GET", "/blobs/").does(Fault::NoRange);
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
}

#[tokio::test]
async fn a_wrong_range_is_refused() {
    for (range, said) in [
        (Some("bytes 5-9/10"), "`bytes 5-9/10`, but"),
        (Some("bytes \u{9b}"), "but"),
        (None, "range ``, but"),
    ] {
        let (sample, proxy) = big("wrong-range");
        proxy.on("GET", "/blobs/").nth(1).does(Fault::CloseAt(1_000_000));
        let fault = Fault::Header("Content-Range".to_owned(), range.map(str::to_owned));
        proxy.on("GET", "/blobs/").does(fault);
        let layer = sample.layer();
        let repository = sample.repository(&proxy.host());
        let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
        let (bytes, end) = read(stream).await;
        check(end, ErrorKind::Protocol, said);
        assert!(bytes.len() <= 1_000_000);
    }
}

#[tokio::test]
async fn three_breaks_are_the_end() {
    let (sample, proxy) = big("breaks");
    proxy.on("GET", "/blobs/").does(Fault::CloseAt(100_000));
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    let error = check(end, ErrorKind::Unreachable, "the connection broke");
    assert_eq!(error.tries(), 3);
    assert!(bytes.len() <= 300_000 && layer.bytes.starts_with(&bytes));
}

#[tokio::test]
async fn a_server_that_ends_each_response_early_is_read_to_the_end() {
    let image = RandomImage { layers: vec![10, 3 * BIG], ..RandomImage::new(12) };
    let sample = Sample::of("early", &image);
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/blobs/").first(5).does(Fault::CloseAt(1_500_000));
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    end.unwrap();
    assert_eq!(bytes, layer.bytes);
    assert_eq!(proxy.count("GET", "/blobs/"), 6);
}

/// It has the usual number of attempts since then.
#[tokio::test]
async fn a_server_that_delivers_nothing_more_is_given_up() {
    let image = RandomImage { layers: vec![10, 3 * BIG], ..RandomImage::new(13) };
    let sample = Sample::of("nothing-more", &image);
    let proxy = FaultProxy::to(shared_registry().host());
    for number in 1..=4 {
        proxy.on("GET", "/blobs/").nth(number).does(Fault::CloseAt(1_500_000));
    }
    proxy.on("GET", "/blobs/").does(Fault::CloseAt(0));
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
    let (bytes, end) = read(stream).await;
    let error = check(end, ErrorKind::Unreachable, "the connection broke");
    assert!(error.has_delivered());
    assert_eq!((error.tries(), bytes.len() >= 4_000_000), (6, true));
}

#[tokio::test]
async fn the_last_piece_of_a_wrong_blob_is_withheld() {
    for at in [0, BIG / 2, BIG] {
        let (sample, proxy) = big("withheld");
        proxy.on("GET", "/blobs/").does(Fault::Flip(at));
        let layer = sample.layer();
        let repository = sample.repository(&proxy.host());
        let stream = client().blob_stream(&repository, &layer.digest, size(layer)).await.unwrap();
        let (bytes, end) = read(stream).await;
        check(end, ErrorKind::Integrity, "it served wrong content: the blob is");
        assert!(bytes.len() < layer.bytes.len());
    }
}

#[tokio::test]
async fn a_wrong_size_is_told_at_once() {
    let (sample, proxy) = big("sizes");
    let layer = sample.layer();
    let repository = sample.repository(&proxy.host());
    for wrong in [size(layer) - 1, size(layer) + 1, 0] {
        let outcome = client().blob_stream(&repository, &layer.digest, wrong).await;
        check(outcome, ErrorKind::Integrity, "the size is");
        let outcome = client().blob(&repository, &layer.digest, wrong, u64::MAX).await;
        check(outcome, ErrorKind::Integrity, "the size is");
    }
    let outcome = client().blob(&repository, &layer.digest, size(layer), 1000).await;
    let error = check(outcome, ErrorKind::TooLarge, "but the limit is 1000");
    assert_eq!(error.tries(), 0);
}
