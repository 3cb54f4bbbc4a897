//! The table of faults, each with the error that it must cause.

use std::time::Duration;

use bytes::Bytes;
use names::Digest;
use oci::client::{ClientSettings, ErrorKind, RegistryClient, RegistryError};
use testkit::{Answer, Fault, FaultProxy, RandomImage, shared_registry};

use crate::support::{
    Sample, client, impatient, local_stream, read, repository, settings, size, unique, words,
};

/// The operation during which the fault occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Tagged,
    Pinned,
    Head,
    Blob,
    Stream,
    Has,
    Mount,
    Push,
    PushStream,
    PushManifest,
}
use Work::{Blob, Has, Head, Mount, Pinned, Push, PushManifest, PushStream, Stream, Tagged};

const ALL: [Work; 10] =
    [Tagged, Pinned, Head, Blob, Stream, Has, Mount, Push, PushStream, PushManifest];

/// One line of the table.
struct Case {
    work: Work,
    fault: Fault,
    /// How many matching requests it affects.
    count: usize,
    /// The expected result: success, or the kind of error, a part of the message, and the number of
    /// attempts.
    wanted: Result<(), (ErrorKind, &'static str, u32)>,
    is_impatient: bool,
}

impl Work {
    /// Returns the requests that are affected.
    fn needle(self) -> (&'static str, &'static str) {
        match self {
            Tagged | Pinned => ("GET", "/manifests/"),
            Head => ("HEAD", "/manifests/"),
            Blob | Stream => ("GET", "/blobs/"),
            Has => ("HEAD", "/blobs/"),
            Mount => ("POST", "mount="),
            Push | PushStream => ("PUT", "/blobs/uploads/"),
            PushManifest => ("PUT", "/manifests/"),
        }
    }

    async fn run(
        self,
        client: &RegistryClient,
        host: &str,
        sample: &Sample,
    ) -> Result<(), RegistryError> {
        let from = sample.repository(host);
        let to = repository(host, &unique("faulty"));
        let layer = sample.layer();
        match self {
            Tagged => client.manifest(&sample.tagged(host)).await.map(drop),
            Pinned => client.manifest(&sample.pinned(host)).await.map(drop),
            Head => client.manifest_digest(&sample.pinned(host)).await.map(drop),
            Blob => client.blob(&from, &layer.digest, size(layer), 1 << 20).await.map(drop),
            Stream => {
                let stream = client.blob_stream(&from, &layer.digest, size(layer)).await?;
                let (bytes, end) = read(stream).await;
                // If all bytes arrived, they are correct.
                assert!(end.is_err() || bytes == layer.bytes);
                assert!(end.is_ok() || bytes.len() < layer.bytes.len());
                end
            }
            Has => client.has_blob(&from, &layer.digest).await.map(drop),
            Mount => client.mount_blob(&to, &layer.digest, &from).await.map(drop),
            Push => {
                client.push_blob(&to, &Digest::of(b"bytes"), Bytes::from_static(b"bytes")).await
            }
            PushStream => {
                let bytes = vec![7; 300_000];
                let stream = local_stream(&bytes, 10_000);
                client.push_blob_stream(&to, &Digest::of(&bytes), 300_000, stream).await
            }
            PushManifest => {
                // A separate repository, because the registry fails if two tests write the same
                // tag.
                for blob in sample.image.layers.iter().chain([&sample.image.config]) {
                    assert!(client.mount_blob(&to, &blob.digest, &from).await?);
                }
                let bytes = Bytes::from(sample.image.manifest.bytes.clone());
                let tag = to.tagged(&"faulty".parse().unwrap());
                client.push_manifest(&tag, &sample.image.media_type, bytes).await.map(drop)
            }
        }
    }
}

impl Case {
    async fn run(self, sample: &Sample) -> Result<(), String> {
        let Self { work, fault, count, wanted, is_impatient } = self;
        let proxy = FaultProxy::to(shared_registry().host());
        let name = format!("{work:?} with {count} × {fault:?}");
        let (method, contains) = work.needle();
        proxy.on(method, contains).first(count).does(fault);
        let settings: ClientSettings = if is_impatient { impatient() } else { settings() };
        let client = RegistryClient::new(settings);
        let outcome = work.run(&client, &proxy.host(), sample).await;
        let verdict = outcome.as_ref().map_err(|e| (e.kind(), words(e), e.tries()));
        let is_right = match (&verdict, &wanted) {
            (Ok(()), Ok(())) => true,
            (Err((kind, said, tries)), Err((wanted_kind, wanted_words, wanted_tries))) => {
                kind == wanted_kind && said.contains(wanted_words) && tries == wanted_tries
            }
            _ => false,
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("{name}:\n  found  {verdict:?}\n  wanted {wanted:?}"))
        }
    }
}

fn case(work: Work, fault: impl Into<Fault>, wanted: (ErrorKind, &'static str, u32)) -> Case {
    Case { work, fault: fault.into(), count: usize::MAX, wanted: Err(wanted), is_impatient: false }
}

/// Returns a case in which the fault occurs `count` times and the operation then succeeds.
fn passes(work: Work, fault: impl Into<Fault>, count: usize) -> Case {
    Case { work, fault: fault.into(), count, wanted: Ok(()), is_impatient: false }
}

async fn run(name: &str, cases: Vec<Case>) {
    let sample = Sample::of(name, &RandomImage { layers: vec![100, 9000], ..RandomImage::new(3) });
    let (sample, total) = (std::sync::Arc::new(sample), cases.len());
    let mut running = tokio::task::JoinSet::new();
    for case in cases {
        let sample = std::sync::Arc::clone(&sample);
        running.spawn(async move { case.run(&sample).await });
    }
    let outcomes = running.join_all().await;
    let wrong: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {total} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    testkit::gate_passed(10, total);
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_pass_are_tried_three_times() {
    let mut cases = Vec::new();
    for (status, kind, said) in [
        (408, ErrorKind::Timeout, "answered 408"),
        (429, ErrorKind::RateLimited { until: None }, "answered 429"),
        (500, ErrorKind::Registry, "answered 500"),
        (502, ErrorKind::Registry, "answered 502"),
        (503, ErrorKind::Registry, "answered 503"),
        (504, ErrorKind::Registry, "answered 504"),
    ] {
        for work in ALL {
            cases.push(case(work, Fault::status(status), (kind, said, 3)));
            cases.push(passes(work, Fault::status(status), 2));
        }
    }
    run("passing", cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_stay_are_tried_once() {
    let mut cases = Vec::new();
    for (status, kind, said) in [
        (400, ErrorKind::Protocol, "answered 400"),
        (402, ErrorKind::Protocol, "answered 402"),
        (403, ErrorKind::Denied, "answered 403"),
        (410, ErrorKind::Protocol, "answered 410"),
        (418, ErrorKind::Protocol, "answered 418"),
        (505, ErrorKind::Registry, "answered 505"),
        (204, ErrorKind::Protocol, "answered 204"),
        (304, ErrorKind::Protocol, "answered 304"),
    ] {
        for work in [Tagged, Pinned, Head, Blob, Stream, Has, Mount] {
            cases.push(case(work, Fault::status(status), (kind, said, 1)));
        }
    }
    for work in [Tagged, Pinned, Blob, Stream, Mount, PushManifest] {
        cases.push(case(work, Fault::status(404), (ErrorKind::NotFound, "answered 404", 1)));
    }
    cases.push(case(Push, Fault::status(413), (ErrorKind::Protocol, "answered 413", 1)));
    cases.push(case(Push, Fault::status(404), (ErrorKind::NotFound, "answered 404", 3)));
    run("staying", cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_are_tried_three_times() {
    let mut cases = Vec::new();
    for work in ALL {
        for fault in [Fault::Reset, Fault::Close] {
            cases.push(case(work, fault.clone(), (ErrorKind::Unreachable, "connection broke", 3)));
            cases.push(passes(work, fault, 2));
        }
        let garbage = Fault::Garbage(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec());
        cases.push(case(work, garbage, (ErrorKind::Protocol, "the response is not HTTP", 1)));
    }
    for work in [Tagged, Pinned, Blob, Stream] {
        for fault in [Fault::ResetAt(0), Fault::ResetAt(17), Fault::CloseAt(17), Fault::CloseAt(0)]
        {
            cases.push(passes(work, fault, 2));
        }
    }
    for work in [Tagged, Blob] {
        for fault in [Fault::ResetAt(17), Fault::CloseAt(17), Fault::Length(1_000_000)] {
            let (kind, said) = match (work, &fault) {
                (Blob, Fault::Length(_)) => (ErrorKind::Integrity, "the size is `1000000 bytes`"),
                _ => (ErrorKind::Unreachable, "the connection broke"),
            };
            let tries = if kind == ErrorKind::Integrity { 1 } else { 3 };
            cases.push(case(work, fault, (kind, said, tries)));
        }
    }
    for at in [0, 1, 65_536, 299_999] {
        cases.push(passes(PushStream, Fault::ResetUpload(at), 2));
        let wanted = (ErrorKind::Unreachable, "connection broke", 3);
        cases.push(case(PushStream, Fault::ResetUpload(at), wanted));
    }
    run("broken", cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends() {
    let mut cases = Vec::new();
    for work in ALL {
        cases.push(case(work, Fault::Stall, (ErrorKind::Timeout, "there was no response for", 3)));
    }
    let slow = || Fault::Slow(Duration::from_millis(20));
    for work in [Tagged, Blob, Stream] {
        cases.push(case(
            work,
            slow(),
            (ErrorKind::Timeout, "slower than 1000 bytes per second", 3),
        ));
    }
    let hung = || Fault::Slow(Duration::from_secs(60));
    cases.push(case(Tagged, hung(), (ErrorKind::Timeout, "the transfer stalled", 3)));
    cases.push(case(Stream, hung(), (ErrorKind::Timeout, "the transfer stalled", 3)));
    let cases = cases.into_iter().map(|case| Case { is_impatient: true, ..case });
    run("silent", cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_content_is_never_taken() {
    const WRONG: &str = "it served wrong content";
    let integrity = |said| (ErrorKind::Integrity, said, 1);
    let other = || Fault::Body(br#"{"schemaVersion":2}"#.to_vec());
    let mut cases = vec![
        case(Pinned, Fault::Flip(40), integrity(WRONG)),
        case(Pinned, Fault::Append(b"\n".to_vec()), integrity(WRONG)),
        case(Pinned, Fault::Cut(1), integrity(WRONG)),
        case(Pinned, other(), integrity(WRONG)),
        case(Tagged, other(), integrity("its `Docker-Content-Digest` header is")),
        case(Tagged, Fault::Flip(40), integrity("its `Docker-Content-Digest` header is")),
    ];
    for work in [Blob, Stream] {
        for fault in [Fault::Flip(0), Fault::Flip(5000), Fault::Append(vec![0]), other()] {
            cases.push(case(work, fault, integrity(WRONG)));
        }
    }
    cases.push(case(Blob, Fault::Cut(1), integrity("the size is")));
    cases.push(case(Stream, Fault::Cut(1), integrity("the size is")));
    let zero = format!("sha256:{}", "0".repeat(64));
    for work in [Tagged, Pinned, Head] {
        let said = if work == Head { WRONG } else { "its `Docker-Content-Digest` header" };
        cases.push(case(work, Fault::header("Docker-Content-Digest", &zero), integrity(said)));
        let bad = Fault::header("Docker-Content-Digest", "md5:x");
        cases.push(case(work, bad, (ErrorKind::Protocol, "is not a digest", 1)));
        let none = Fault::Header("Docker-Content-Digest".to_owned(), None);
        cases.push(passes(work, none, usize::MAX));
    }
    let two = || {
        let answer = Answer::new(200).header("Docker-Content-Digest", &zero);
        answer.header("Docker-Content-Digest", &zero.replace('0', "1"))
    };
    for work in [Tagged, Pinned, Head] {
        cases.push(case(work, two(), integrity("contradict each other")));
    }
    let stored = Answer::new(201).header("Docker-Content-Digest", &zero);
    cases.push(case(PushManifest, stored, integrity("it stored")));
    run("wrong", cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_another_kind_are_refused() {
    let protocol = |said| (ErrorKind::Protocol, said, 1);
    let page = || {
        let page = "<!DOCTYPE html><html>Log in";
        Answer::new(200).header("Content-Type", "text/html; charset=utf-8").body(page)
    };
    let json = |media_type: &str, body: &str| {
        Answer::new(200).header("Content-Type", media_type).body(body)
    };
    let (index, manifest) =
        ("application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json");
    let signed = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let mut cases = vec![
        case(Tagged, page(), protocol("a web page")),
        case(Pinned, page(), protocol("a web page")),
        case(Tagged, json(signed, r#"{"schemaVersion":1}"#), protocol("schema 1")),
        case(Tagged, json(manifest, r#"{"schemaVersion":1}"#), protocol("schema 1")),
        case(Tagged, json(manifest, "[]"), protocol("is an array, not an object")),
        case(Tagged, json(manifest, "{"), protocol("is not JSON")),
        case(Tagged, json(manifest, ""), protocol("is not JSON")),
        case(Tagged, json("application/json", "{}"), protocol("`application/json` is not")),
        case(Tagged, json("a\u{9b}b/c", "{}"), protocol("no valid `config`")),
        case(
            Tagged,
            json(index, r#"{"manifests":[],"layers":[]}"#),
            protocol("both layers and manifests"),
        ),
        case(
            Tagged,
            json(index, &format!(r#"{{"mediaType":"{manifest}","manifests":[]}}"#)),
            protocol("but `application/vnd.oci.image.index.v1+json` was declared"),
        ),
        case(
            Tagged,
            Answer::new(200).body(r#"{"manifests":[]}"#),
            protocol("both lack a media type"),
        ),
        case(Tagged, Fault::header("Content-Type", index), protocol("was declared")),
        passes(Tagged, Fault::Header("Content-Type".to_owned(), None), 9),
        passes(Tagged, Fault::Chunked, 9),
        passes(Blob, Fault::Chunked, 9),
        passes(Stream, Fault::Chunked, 9),
        // If HEAD is not supported or returns no digest, the manifest itself is read.
        passes(Head, Fault::status(405), 9),
        passes(Head, Fault::status(501), 9),
        passes(Head, Fault::status(200), 9),
        case(Mount, Answer::new(307), protocol("answered 307")),
        case(Tagged, Answer::new(307), protocol("without a valid `Location`")),
        case(Stream, Answer::new(206).body("x"), protocol("answered 206")),
    ];
    let too_large = |said| (ErrorKind::TooLarge, said, 1);
    cases.push(case(Tagged, Fault::Endless, too_large("larger than the limit of 4194304 bytes")));
    cases.push(case(
        Pinned,
        Fault::Length(5 << 20),
        too_large("larger than the limit of 4194304 bytes"),
    ));
    cases.push(case(Blob, Fault::Endless, (ErrorKind::Integrity, "more than", 1)));
    cases.push(case(Stream, Fault::Endless, (ErrorKind::Integrity, "more than", 1)));
    let tried = cases.len();
    run("other", cases).await;
    testkit::gate_passed(8, tried);
}

#[tokio::test]
async fn an_endless_list_of_tags_is_refused() {
    let proxy = FaultProxy::alone();
    for (asked, next) in [("last=a", "b"), ("last=b", "a"), ("tags/list", "a")] {
        let link = format!("</v2/test/x/tags/list?last={next}>; rel=\"next\"");
        let page = Answer::new(200).header("Link", &link).body(r#"{"tags":["v1"]}"#);
        proxy.on("GET", asked).does(page);
    }
    let host = proxy.host();
    let place = format!("{host}/test/x").parse().unwrap();
    let error = client().tags(&place).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    let words = words(&error);
    assert!(words.contains(&format!(" `{host}` sent an endless list of tags")), "{words}");
}
