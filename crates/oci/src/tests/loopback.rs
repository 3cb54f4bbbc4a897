//! The loopback registry, tested with raw HTTP.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use names::Digest;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::loopback::{LoopbackRegistry, StoredBlob};
use crate::media::OCI_MANIFEST;

/// A registry with its own runtime, so that tests may block.
pub(super) struct Server {
    pub(super) registry: LoopbackRegistry,
    runtime: Runtime,
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Server {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let registry = runtime.block_on(LoopbackRegistry::start()).unwrap();
        Self { registry, runtime }
    }

    /// Starts a registry that spools to a folder.
    pub(super) fn spooling(folder: &std::path::Path) -> Self {
        let mut server = Self::start();
        server.registry = server.runtime.block_on(LoopbackRegistry::start_in(folder)).unwrap();
        server
    }

    pub(super) fn ask(&self, method: &str, target: &str) -> Answer {
        self.send(method, target, &[], b"")
    }

    pub(super) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = TcpStream::connect(self.registry.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.registry.host(),
            body.len()
        );
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A registry that refuses a large body need not read all of it.
        drop(stream.write_all(body));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Answer { status, headers: headers.collect(), body: answer[end + 4..].to_vec() }
    }

    fn begin_upload(&self) -> String {
        let answer = self.ask("POST", "/v2/a/b/blobs/uploads/");
        assert_eq!(answer.status, 202);
        answer.headers["location"].clone()
    }
}

impl Answer {
    /// Returns the code of an error in the format of the specification.
    fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        body["errors"][0]["code"].as_str().unwrap().to_owned()
    }
}

const BLOB: &[u8] = b"0123456789";

#[test]
fn blobs_are_answered_whole_and_in_ranges() {
    let server = Server::start();
    let digest = server.registry.add_blob(Bytes::from_static(BLOB));
    let target = format!("/v2/any/repository/blobs/{digest}");
    for (range, status, body, covered) in [
        (None, 200, "0123456789", None),
        (Some("bytes=0-"), 206, "0123456789", Some("bytes 0-9/10")),
        (Some("bytes=4-"), 206, "456789", Some("bytes 4-9/10")),
        (Some("bytes=9-"), 206, "9", Some("bytes 9-9/10")),
        // Other forms may be ignored: RFC 9110, "Range".
        (Some("bytes=2-4"), 200, "0123456789", None),
        (Some("bytes=-2"), 200, "0123456789", None),
        (Some("lines=1-"), 200, "0123456789", None),
        (Some("bytes=0-,5-"), 200, "0123456789", None),
    ] {
        let headers: Vec<_> = range.into_iter().map(|range| ("Range", range)).collect();
        let answer = server.send("GET", &target, &headers, b"");
        assert_eq!((answer.status, &*answer.body), (status, body.as_bytes()), "{range:?}");
        assert_eq!(answer.headers.get("content-range").map(String::as_str), covered);
        assert_eq!(answer.headers["content-length"], body.len().to_string());
        assert_eq!(answer.headers["docker-content-digest"], digest.to_string());
    }
    for begin in ["10", "11", "18446744073709551615"] {
        let range = format!("bytes={begin}-");
        let answer = server.send("GET", &target, &[("Range", &range)], b"");
        assert_eq!((answer.status, &*answer.headers["content-range"]), (416, "bytes */10"));
    }
}

#[test]
fn head_tells_what_get_would_and_sends_no_body() {
    let server = Server::start();
    let blob = server.registry.add_blob(Bytes::from_static(BLOB));
    let manifest = Bytes::from(r#"{"schemaVersion":2}"#);
    let tag = "latest".parse().unwrap();
    let digest = server.registry.add_manifest("a/b", Some(&tag), OCI_MANIFEST, manifest);
    for target in [
        format!("/v2/a/b/blobs/{blob}"),
        "/v2/a/b/manifests/latest".to_owned(),
        format!("/v2/a/b/manifests/{digest}"),
        "/v2/a/b/manifests/absent".to_owned(),
        "/v2/".to_owned(),
    ] {
        let (head, get) = (server.ask("HEAD", &target), server.ask("GET", &target));
        assert_eq!(head.status, get.status, "{target}");
        for name in ["content-length", "content-type", "docker-content-digest"] {
            assert_eq!(head.headers.get(name), get.headers.get(name), "{target}: {name}");
        }
        assert_eq!(head.body, b"");
        assert_eq!(get.headers["content-length"], get.body.len().to_string());
    }
}

#[test]
fn what_is_not_there_has_the_code_of_the_specification() {
    let server = Server::start();
    let absent = Digest::of(b"absent");
    let manifest = Bytes::from(r#"{"schemaVersion":2}"#);
    let digest = server.registry.add_manifest("a/b", None, OCI_MANIFEST, manifest);
    for (method, target, status, code) in [
        ("GET", format!("/v2/a/b/blobs/{absent}"), 404, "BLOB_UNKNOWN"),
        ("GET", "/v2/a/b/blobs/sha256:short".to_owned(), 400, "DIGEST_INVALID"),
        ("GET", format!("/v2/a/b/manifests/{absent}"), 404, "MANIFEST_UNKNOWN"),
        ("GET", "/v2/a/b/manifests/latest".to_owned(), 404, "MANIFEST_UNKNOWN"),
        // A manifest exists only in its own repository.
        ("GET", format!("/v2/a/c/manifests/{digest}"), 404, "MANIFEST_UNKNOWN"),
        ("DELETE", format!("/v2/a/b/manifests/{digest}"), 405, "UNSUPPORTED"),
        ("GET", "/v2/a/c/tags/list".to_owned(), 404, "NAME_UNKNOWN"),
        ("GET", "/v2/a/b/blobs/uploads/1".to_owned(), 404, "BLOB_UPLOAD_UNKNOWN"),
        ("PATCH", "/v2/a/b/blobs/uploads/1".to_owned(), 404, "BLOB_UPLOAD_UNKNOWN"),
        ("PUT", format!("/v2/a/b/blobs/uploads/x?digest={absent}"), 404, "BLOB_UPLOAD_UNKNOWN"),
        ("DELETE", "/v2/a/b/blobs/uploads/1".to_owned(), 404, "BLOB_UPLOAD_UNKNOWN"),
        ("GET", "/v2/_catalog".to_owned(), 404, "UNSUPPORTED"),
        ("GET", "/".to_owned(), 404, "UNSUPPORTED"),
        ("GET", "/v1/a".to_owned(), 404, "UNSUPPORTED"),
    ] {
        let answer = server.ask(method, &target);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{method} {target}");
        assert_eq!(answer.headers["content-type"], "application/json");
    }
}

#[test]
fn a_blob_is_pushed_in_one_piece_or_in_several() {
    let server = Server::start();
    let digest = Digest::of(BLOB);
    let is_there = || server.ask("HEAD", &format!("/v2/a/b/blobs/{digest}")).status == 200;
    let ends: [&dyn Fn(&Server) -> Answer; 3] = [
        &|server| {
            let target = format!("{}?digest={digest}", server.begin_upload());
            server.send("PUT", &target, &[], BLOB)
        },
        &|server| {
            server.send("POST", &format!("/v2/a/b/blobs/uploads/?digest={digest}"), &[], BLOB)
        },
        &|server| {
            let location = server.begin_upload();
            for (piece, received) in [(&BLOB[..3], "0-2"), (&BLOB[3..4], "0-3"), (&[], "0-3")] {
                let answer = server.send("PATCH", &location, &[], piece);
                assert_eq!((answer.status, &*answer.headers["range"]), (202, received));
                assert_eq!(answer.headers["location"], location);
                let status = server.ask("GET", &location);
                assert_eq!((status.status, &*status.headers["range"]), (204, received));
            }
            server.send("PUT", &format!("{location}?digest={digest}"), &[], &BLOB[4..])
        },
    ];
    for end in ends {
        let server = Server::start();
        let answer = end(&server);
        assert_eq!(answer.status, 201);
        assert_eq!(answer.headers["docker-content-digest"], digest.to_string());
        let found = server.ask("GET", &answer.headers["location"]);
        assert_eq!(found.body, BLOB);
    }
    assert!(!is_there());
}

#[test]
fn a_push_with_a_wrong_or_no_digest_stores_nothing() {
    let server = Server::start();
    let digest = Digest::of(BLOB);
    let absent = |server: &Server| {
        assert_eq!(server.ask("HEAD", &format!("/v2/a/b/blobs/{digest}")).status, 404);
        let other = Digest::of(b"other");
        assert_eq!(server.ask("HEAD", &format!("/v2/a/b/blobs/{other}")).status, 404);
    };
    for query in [format!("?digest={digest}"), "?digest=sha256:short".to_owned(), String::new()] {
        let location = server.begin_upload();
        let answer = server.send("PUT", &format!("{location}{query}"), &[], b"other");
        assert_eq!((answer.status, &*answer.code()), (400, "DIGEST_INVALID"));
        // The upload has ended.
        assert_eq!(server.ask("GET", &location).status, 404);
        absent(&server);
    }
    let location = server.begin_upload();
    assert_eq!(server.send("PATCH", &location, &[], BLOB).status, 202);
    assert_eq!(server.ask("DELETE", &location).status, 204);
    assert_eq!(server.send("PUT", &format!("{location}?digest={digest}"), &[], b"").status, 404);
    absent(&server);
}

#[test]
fn a_mount_succeeds_where_the_blob_is_there_and_begins_an_upload_elsewhere() {
    let server = Server::start();
    let digest = server.registry.add_blob(Bytes::from_static(BLOB));
    let mount = |digest: &str| {
        server.ask("POST", &format!("/v2/to/here/blobs/uploads/?mount={digest}&from=from/there"))
    };
    let mounted = mount(digest.as_str());
    assert_eq!((mounted.status, mounted.body.len()), (201, 0));
    assert_eq!(mounted.headers["location"], format!("/v2/to/here/blobs/{digest}"));
    assert_eq!(mounted.headers["docker-content-digest"], digest.to_string());
    for absent in [Digest::of(b"absent").as_str(), "sha256:short", ""] {
        let answer = mount(absent);
        assert_eq!(answer.status, 202, "{absent}");
        assert_eq!(server.ask("DELETE", &answer.headers["location"]).status, 204);
    }
}

#[test]
fn a_manifest_is_taken_by_tag_and_digest_and_only_with_its_blobs() {
    let server = Server::start();
    let (config, layer) = (Digest::of(b"config"), Digest::of(b"layer"));
    let manifest = json!({ "config": { "digest": config }, "layers": [{ "digest": layer }] });
    let manifest = manifest.to_string().into_bytes();
    let digest = Digest::of(&manifest);
    let put = |reference: &str, body: &[u8]| {
        let headers = [("Content-Type", "application/x-test")];
        server.send("PUT", &format!("/v2/a/b/manifests/{reference}"), &headers, body)
    };
    let refused = |answer: Answer| (answer.status, answer.code());
    assert_eq!(refused(put("one", &manifest)), (404, "MANIFEST_BLOB_UNKNOWN".to_owned()));
    server.registry.add_blob(Bytes::from_static(b"config"));
    assert_eq!(refused(put("one", &manifest)), (404, "MANIFEST_BLOB_UNKNOWN".to_owned()));
    server.registry.add_blob(Bytes::from_static(b"layer"));

    for (reference, body, wanted) in [
        ("two", &b"<html>"[..], (400, "MANIFEST_INVALID")),
        (Digest::of(b"other").as_str(), &manifest, (400, "DIGEST_INVALID")),
        (".no-tag", &manifest, (400, "TAG_INVALID")),
        ("sha256:short", &manifest, (400, "TAG_INVALID")),
        ("two", br#"{"config":{}}"#, (404, "MANIFEST_BLOB_UNKNOWN")),
        ("two", br#"{"layers":[{"digest":"x"}]}"#, (404, "MANIFEST_BLOB_UNKNOWN")),
        ("two", &vec![b' '; (4 << 20) + 1], (413, "MANIFEST_INVALID")),
    ] {
        let (status, code) = refused(put(reference, body));
        assert_eq!((status, &*code), wanted, "{reference}");
    }
    assert_eq!(server.ask("GET", "/v2/a/b/tags/list").status, 404);

    for reference in ["two", "one", digest.as_str()] {
        let answer = put(reference, &manifest);
        assert_eq!((answer.status, answer.body.len()), (201, 0));
        assert_eq!(answer.headers["location"], format!("/v2/a/b/manifests/{digest}"));
        let found = server.ask("GET", &format!("/v2/a/b/manifests/{reference}"));
        assert_eq!((found.status, &found.body), (200, &manifest));
        assert_eq!(found.headers["content-type"], "application/x-test");
        assert_eq!(found.headers["docker-content-digest"], digest.to_string());
    }
    // A tag points to the last pushed manifest.
    let other = br#"{"layers":[]}"#;
    assert_eq!(put("one", other).status, 201);
    assert_eq!(server.ask("GET", "/v2/a/b/manifests/one").body, other);
    assert_eq!(server.ask("GET", "/v2/a/b/manifests/two").body, manifest);
    let listed = server.ask("GET", "/v2/a/b/tags/list").body;
    assert_eq!(listed, br#"{"name":"a/b","tags":["one","two"]}"#);
}

#[test]
fn a_request_that_breaks_off_harms_nobody_else() {
    let server = Server::start();
    let digest = Digest::of(BLOB);
    let location = server.begin_upload();
    let mut stream = TcpStream::connect(server.registry.host()).unwrap();
    let head = format!("PATCH {location} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream);
    let mut garbage = TcpStream::connect(server.registry.host()).unwrap();
    garbage.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(garbage.read_to_end(&mut answer));
    let target = format!("{}?digest={digest}", server.begin_upload());
    assert_eq!(server.send("PUT", &target, &[], BLOB).status, 201);
}

#[test]
fn it_stops_when_it_is_dropped() {
    let Server { registry, runtime } = Server::start();
    let host = registry.host();
    assert!(host.starts_with("127.0.0.1:"), "{host}");
    drop(registry);
    drop(runtime);
    assert!(TcpStream::connect(host).is_err());
}

#[test]
fn the_file_of_a_blob_stays_when_the_blob_is_uploaded_again() {
    let spool = tempfile::tempdir().unwrap();
    let server = Server::spooling(spool.path());
    let digest = Digest::of(BLOB);
    let upload = || {
        let target = format!("/v2/a/b/blobs/uploads/?digest={digest}");
        assert_eq!(server.send("POST", &target, &[], BLOB).status, 201);
        server.registry.blob(&digest).unwrap()
    };
    let first = upload();
    let StoredBlob::File { path, .. } = &first else { panic!("{first:?}") };
    assert_eq!(upload(), first);
    server.registry.add_blob(Bytes::from_static(BLOB));
    assert_eq!(std::fs::read(path).unwrap(), BLOB);
}
