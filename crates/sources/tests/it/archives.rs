//! Archives from a web server with injected faults.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use net::{AddressScope, FixedName};
use sources::{ArchiveSource, ErrorKind, Settings};
use testkit::{Answer, Fault, FaultProxy, authority_der, gate_passed};

use crate::support::{Cache, listening, paths};

pub(crate) fn source(url: &str, sha256: &str) -> ArchiveSource {
    ArchiveSource {
        project: "demo".to_owned(),
        version: "1".to_owned(),
        sha256: sha256.parse().unwrap(),
        url: Some(url.parse().unwrap()),
    }
}

pub(crate) fn sha256_of(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// Returns a source archive and its hash.
fn archive() -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("demo-1");
    fs::create_dir_all(root.join("vendor/llama.cpp")).unwrap();
    fs::write(root.join("vendor/llama.cpp/CMakeLists.txt"), "project(x)\n").unwrap();
    let noise = crate::support::noise(300_000, 1);
    fs::write(root.join("data"), noise).unwrap();
    let target = folder.path().join("demo-1.tar.gz");
    let status = std::process::Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "-czf"])
        .arg(&target)
        .args(["-C", folder.path().to_str().unwrap(), "demo-1"])
        .status();
    assert!(status.unwrap().success());
    (fs::read(&target).unwrap(), sha256_of(&target))
}

/// Returns a server that has only the archive, and supports `Range`.
fn server(bytes: &[u8]) -> RangeServer {
    RangeServer::start(bytes.to_vec())
}

/// A tiny web server that supports ranges.
struct RangeServer {
    port: u16,
}

impl RangeServer {
    fn start(bytes: Vec<u8>) -> Self {
        use std::io::{BufRead as _, BufReader, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut from = None;
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                    let lower = line.to_ascii_lowercase();
                    if let Some(range) = lower.strip_prefix("range: bytes=") {
                        from = range.trim().trim_end_matches('-').parse::<usize>().ok();
                    }
                    line.clear();
                }
                let (head, body) = match from {
                    None => ("200 OK\r\n".to_owned(), &bytes[..]),
                    Some(from) if from < bytes.len() => {
                        let last = bytes.len() - 1;
                        let range =
                            format!("Content-Range: bytes {from}-{last}/{}\r\n", bytes.len());
                        (format!("206 Partial Content\r\n{range}"), &bytes[from..])
                    }
                    Some(_) => ("416 Range Not Satisfiable\r\n".to_owned(), &[][..]),
                };
                let head = format!(
                    "HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let mut stream = stream;
                drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)));
            }
        });
        Self { port }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

#[tokio::test]
async fn an_archive_is_downloaded_once() {
    let (bytes, sha256) = archive();
    let server = server(&bytes);
    let proxy = FaultProxy::to(&server.host());
    let cache = Cache::new();
    let source = source(&format!("{}/f/demo-1.tar.gz", proxy.url()), &sha256);
    let fetched = cache.sources().fetch_archive(&source).await.unwrap();
    assert_eq!((fetched.size, fetched.received), (bytes.len() as u64, bytes.len() as u64));
    let tree = fetched.tree(&Default::default(), None).unwrap();
    assert_eq!(paths(&tree), ["data", "vendor/llama.cpp/CMakeLists.txt"]);
    let tree = fetched.tree(&Default::default(), Some("vendor/llama.cpp")).unwrap();
    assert_eq!(paths(&tree), ["CMakeLists.txt"]);
    let again = cache.offline().fetch_archive(&ArchiveSource { url: None, ..source.clone() }).await;
    assert_eq!(again.unwrap().received, 0);
    assert_eq!(proxy.count("*", ""), 1);
    // A damaged file in the cache is downloaded again.
    for damage in [&b""[..], b"xy", &bytes[..1000]] {
        fs::write(fetched.path(), damage).unwrap();
        let healed = cache.sources().fetch_archive(&source).await.unwrap();
        assert_eq!(healed.received, bytes.len() as u64);
        fs::write(fetched.path(), damage).unwrap();
        let error = cache.offline().fetch_archive(&source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
    }
}

#[tokio::test]
async fn a_broken_download_goes_on() {
    let (bytes, sha256) = archive();
    let server = server(&bytes);
    for fault in [Fault::ResetAt(100_000), Fault::CloseAt(100_000)] {
        let proxy = FaultProxy::to(&server.host());
        proxy.on("GET", "").first(2).does(fault);
        let cache = Cache::new();
        let (sources, heard) = listening(&cache.sources());
        let source = source(&format!("{}/demo-1.tar.gz", proxy.url()), &sha256);
        let fetched = sources.fetch_archive(&source).await.unwrap();
        assert_eq!(fetched.received, bytes.len() as u64, "no byte came twice");
        let heard = heard.lock().unwrap();
        let resumed: Vec<_> = heard.iter().filter(|word| word.starts_with("resumed")).collect();
        assert_eq!(resumed, ["resumed from 100000", "resumed from 200000"]);
    }
    // A later run also continues the download, or recovers if the existing part is wrong or too
    // long.
    for part in [bytes[..5000].to_vec(), vec![0; 5000], vec![0; 2 * bytes.len()], bytes.clone()] {
        let cache = Cache::new();
        let folder = cache.folder.path().join("cache/archives");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{sha256}.part")), &part).unwrap();
        let source = source(&format!("http://{}/demo-1.tar.gz", server.host()), &sha256);
        let fetched = cache.sources().fetch_archive(&source).await.unwrap();
        assert_eq!(fs::read(fetched.path()).unwrap(), bytes);
    }
    // With a server that does not support ranges, the download starts over.
    let proxy = FaultProxy::to(&server.host());
    proxy.on("GET", "").first(1).does(Fault::ResetAt(100_000));
    proxy.on("GET", "").does(Fault::NoRange);
    let source = source(&format!("{}/demo-1.tar.gz", proxy.url()), &sha256);
    let fetched = Cache::new().sources().fetch_archive(&source).await.unwrap();
    assert_eq!(fetched.size, bytes.len() as u64);
}

#[tokio::test]
async fn a_server_that_ends_each_response_early_is_read_to_the_end() {
    let bytes = crate::support::noise(8_000_000, 2);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("archive"), &bytes).unwrap();
    let sha256 = sha256_of(&folder.path().join("archive"));
    let server = server(&bytes);
    let proxy = FaultProxy::to(&server.host());
    proxy.on("GET", "").first(5).does(Fault::CloseAt(1_500_000));
    let source = |proxy: &FaultProxy| source(&format!("{}/demo-1.tar.gz", proxy.url()), &sha256);
    let fetched = Cache::new().sources().fetch_archive(&source(&proxy)).await.unwrap();
    assert_eq!(fetched.received, bytes.len() as u64, "no byte came twice");
    assert_eq!(proxy.count("GET", ""), 6);

    // If it then delivers nothing, it is given up.
    let stuck = FaultProxy::to(&server.host());
    stuck.on("GET", "").nth(1).does(Fault::CloseAt(1_500_000));
    stuck.on("GET", "").nth(2).does(Fault::CloseAt(1_500_000));
    stuck.on("GET", "").does(Fault::CloseAt(0));
    let error = Cache::new().sources().fetch_archive(&source(&stuck)).await.unwrap_err();
    assert!(error.to_string().contains("(4 tries)"), "{error}");
}

#[tokio::test]
async fn what_is_not_the_archive_is_refused() {
    let (bytes, sha256) = archive();
    let server = server(&bytes);
    for (fault, kind, wanted) in [
        (Fault::Flip(1000), ErrorKind::Integrity, "but the pin is"),
        (Fault::Append(b"x".to_vec()), ErrorKind::Integrity, "but the pin is"),
        (Fault::Cut(1), ErrorKind::Integrity, "but the pin is"),
        (
            Answer::new(200).body("<html>log in</html>").into(),
            ErrorKind::Integrity,
            "it is a web page (HTML), not the file: its SHA-256 is",
        ),
        (Fault::Length(9 << 30), ErrorKind::Refused, "larger than the"),
        (Fault::Endless, ErrorKind::Refused, "larger than the"),
        (Fault::status(404), ErrorKind::NotFound, "no such file"),
        (Fault::status(401), ErrorKind::Authentication, "password"),
        (Fault::status(407), ErrorKind::Proxy, "the proxy requires credentials"),
        (
            Answer::new(429).header("Retry-After", "3600").into(),
            ErrorKind::RateLimited,
            "limits the request rate (status 429 Too Many Requests); the request can be retried",
        ),
        (Fault::status(500), ErrorKind::Server, "status 500 Internal Server Error (3 tries)"),
        (Fault::status(418), ErrorKind::Tool, "418"),
        (Fault::Close, ErrorKind::Unreachable, "(3 tries)"),
        (Fault::Reset, ErrorKind::Unreachable, "(3 tries)"),
        (
            Answer::new(503).header("Retry-After", "3600").into(),
            ErrorKind::Server,
            "the request can be retried in 3600 s",
        ),
        (Fault::Redirect("{target}".to_owned()), ErrorKind::Refused, "more than 5 times"),
        (Fault::Redirect("ftp://h.example/x".to_owned()), ErrorKind::Refused, "not http or https"),
        (Fault::Redirect("file:///etc/passwd".to_owned()), ErrorKind::Refused, "not http or https"),
        (
            Fault::Redirect("http://169.254.169.254/x?t=secret".to_owned()),
            ErrorKind::Refused,
            "a network that is less public",
        ),
        (
            Fault::Redirect("http://u:secret@127.0.0.1/x".to_owned()),
            ErrorKind::Refused,
            "user name",
        ),
    ] {
        let proxy = FaultProxy::to(&server.host());
        proxy.on("GET", "").does(fault);
        let cache = Cache::new();
        let sources = sources::Sources::new(Settings { max_bytes: 4 << 20, ..cache.settings() });
        let error = sources
            .fetch_archive(&source(&format!("{}/demo-1.tar.gz", proxy.url()), &sha256))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let start = format!("cannot fetch the archive `demo 1` from `{}/demo-1", proxy.url());
        assert!(error.to_string().starts_with(&start), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        let whole = cache.folder.path().join("cache/archives").join(&sha256);
        assert!(!whole.exists());
    }
    // A redirect to the current location is followed, and temporary failures are retried.
    let proxy = FaultProxy::to(&server.host());
    proxy.on("GET", "/old").does(Fault::Redirect(format!("http://{}/new", server.host())));
    proxy.on("GET", "/old").nth(1).does(Fault::status(503));
    let archive = source(&format!("{}/old", proxy.url()), &sha256);
    assert!(Cache::new().sources().fetch_archive(&archive).await.is_ok());
}

#[tokio::test]
async fn a_redirect_to_a_name_with_an_internal_address_is_not_followed() {
    let (bytes, sha256) = archive();
    let server = server(&bytes);
    let name = |(name, scope): (&str, AddressScope)| FixedName {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        scope,
    };
    let names = [
        ("registry.test", AddressScope::Public),
        ("cdn.test", AddressScope::Public),
        ("inner.test", AddressScope::Private),
        ("here.test", AddressScope::Loopback),
        ("metadata.test", AddressScope::Never),
    ];
    for (to, is_followed) in [
        ("registry.test", true),
        ("cdn.test", true),
        ("inner.test", false),
        ("here.test", false),
        ("metadata.test", false),
    ] {
        let proxy = FaultProxy::tls_to(&server.host());
        let elsewhere = FaultProxy::tls_to(&server.host());
        let target = if to == "registry.test" { &proxy } else { &elsewhere };
        let location = format!("{}/new?signature=secret", target.url_as(to));
        proxy.on("GET", "/old").does(Fault::Redirect(location));
        let cache = Cache::new();
        let sources = sources::Sources::new(Settings {
            extra_roots: vec![authority_der()],
            fixed_names: names.map(name).into(),
            ..cache.settings()
        });
        let archive = source(&format!("{}/old", proxy.url_as("registry.test")), &sha256);
        let fetched = sources.fetch_archive(&archive).await;
        if is_followed {
            fetched.unwrap();
            continue;
        }
        let error = fetched.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let wanted = format!("the redirect to `{}/new` is not followed", target.url_as(to));
        assert!(error.to_string().contains(&wanted), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("it leads to a network that is less public than the server's"),
            "{error}"
        );
        assert_eq!(elsewhere.requests().len(), 0, "{to}");
    }
    gate_passed(11, 3);
}

#[tokio::test]
async fn archives_of_this_machine_where_that_is_allowed() {
    let (bytes, sha256) = archive();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo-1.tar.gz");
    fs::write(&path, &bytes).unwrap();
    let url = format!("file://{}", path.display());
    let cache = Cache::new();
    let error = cache.sources().fetch_archive(&source(&url, &sha256)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(cache.local().fetch_archive(&source(&url, &sha256)).await.is_ok());
    let other = "0".repeat(64);
    let error = cache.local().fetch_archive(&source(&url, &other)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    let gone = format!("file://{}/nope", folder.path().display());
    let error = cache.local().fetch_archive(&source(&gone, &other)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let unknown = ArchiveSource { url: None, ..source(&url, &other) };
    let error = cache.local().fetch_archive(&unknown).await.unwrap_err();
    assert!(error.to_string().contains("no download location is known"), "{error}");
    // Through a mirror of the whole index.
    let rule = format!("https://files.example/packages=file://{}", folder.path().display());
    let archive = source("https://files.example/packages/demo-1.tar.gz", &sha256);
    assert!(Cache::new().mirrored(&[&rule]).fetch_archive(&archive).await.is_ok());
}
