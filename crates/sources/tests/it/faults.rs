//! Git servers that disconnect, send wrong data, or hang.

use std::time::{Duration, Instant};

use sources::{ErrorKind, Settings, Sources};
use testkit::{Answer, Fault, FaultProxy, GitFolder, GitHttp};

use crate::support::{Cache, fetch, large, listening, small, tar};

#[tokio::test]
async fn a_pack_that_breaks_off_anywhere_is_fetched_again() {
    let folder = GitFolder::new();
    let commit = large(&folder, "a");
    let server = GitHttp::start(folder.path());
    let whole = fetch(&Cache::new().sources(), &server.url("a"), &commit).await.unwrap();
    let size = usize::try_from(whole.received).unwrap();
    let points = [0, 1, 3, 4, 5, 50, 200, 1000, size / 3, size / 2, size - 1000];
    for at in points {
        for fault in [Fault::ResetAt(at), Fault::CloseAt(at)] {
            let proxy = FaultProxy::to(&server.host());
            proxy.on("POST", "").first(1).does(fault.clone());
            let cache = Cache::new();
            let (sources, heard) = listening(&cache.sources());
            let url = format!("{}/a", proxy.url());
            let fetched = fetch(&sources, &url, &commit).await.unwrap();
            assert_eq!(tar(&fetched.tree), tar(&whole.tree));
            let heard = heard.lock().unwrap().clone();
            assert!(heard[1].starts_with("retry: the connection broke"), "{fault:?}: {heard:?}");
            // If the connection always breaks, nothing remains that could be mistaken for a pack.
            let proxy = FaultProxy::to(&server.host());
            proxy.on("POST", "").does(fault.clone());
            let cache = Cache::new();
            let url = format!("{}/a", proxy.url());
            let error = fetch(&cache.sources(), &url, &commit).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
            let files = cache.files();
            assert!(!files.iter().any(|(name, _)| name.ends_with(".pack")), "{files:?}");
            // When the server works again, the same cache can be used.
            let mirror = format!("{url}={}", server.url("a"));
            assert!(fetch(&cache.mirrored(&[&mirror]), &url, &commit).await.is_ok());
        }
    }
}

#[tokio::test]
async fn a_pack_with_any_byte_changed_is_not_believed() {
    let folder = GitFolder::new();
    let commit = small(&folder, "a");
    let server = GitHttp::start(folder.path());
    let (list, pack) = (record_list(&server), record(&server, &commit));
    assert!(pack.windows(4).any(|bytes| bytes == b"PACK"));
    let size = pack.len();
    let mut refused = 0;
    let flipped = (0..size).map(|at| {
        let mut bytes = pack.clone();
        bytes[at] ^= 0xff;
        (at, bytes)
    });
    let cut = (0..size).step_by(7).chain(size - 8..size).map(|at| (at, pack[..at].to_vec()));
    for (at, bytes) in flipped.chain(cut) {
        let proxy = FaultProxy::alone();
        let kind = "application/x-git-upload-pack-advertisement";
        proxy.on("GET", "").does(Answer::new(200).header("Content-Type", kind).body(list.clone()));
        proxy.on("POST", "").does(Answer::new(200).body(bytes));
        let cache = Cache::new();
        let settings = Settings { tries: 1, ..cache.settings() };
        match fetch(&Sources::new(settings), &format!("{}/a", proxy.url()), &commit).await {
            // Damage after the end of the pack does not matter.
            Ok(fetched) => {
                assert_eq!(fetched.tree.read_file("README").unwrap(), b"this is a\n");
            }
            Err(error) => {
                refused += 1;
                let known = matches!(
                    error.kind(),
                    ErrorKind::Integrity
                        | ErrorKind::Tool
                        | ErrorKind::Content
                        | ErrorKind::Unreachable
                        | ErrorKind::NotFound
                        | ErrorKind::Authentication
                );
                assert!(known, "{at}: {error}");
                let files = cache.files();
                assert!(!files.iter().any(|(name, _)| name.contains("receipts/")), "{files:?}");
            }
        }
    }
    assert!(refused > size / 2, "{refused} of {size}");
}

#[tokio::test]
async fn servers_that_answer_something_else() {
    let folder = GitFolder::new();
    let commit = small(&folder, "a");
    let other = {
        folder.write("a", "more", "x");
        folder.commit("a")
    };
    let server = GitHttp::start(folder.path());
    let pack = |text: &[u8]| Answer::new(200).body(text.to_vec());
    let packet = |data: &[u8]| [format!("{:04x}", data.len() + 4).as_bytes(), data].concat();
    let packets = |all: &[&[u8]]| {
        let mut bytes: Vec<u8> = all.iter().flat_map(|data| packet(data)).collect();
        bytes.extend(b"0000");
        bytes
    };
    for (answer, kind, wanted) in [
        (pack(b""), ErrorKind::Unreachable, "the response is incomplete"),
        (pack(b"0000"), ErrorKind::Tool, "at an unexpected position"),
        (
            pack(b"<html>"),
            ErrorKind::Content,
            "the server does not speak git's protocol: it sent `<html>`",
        ),
        (pack(&packets(&[b"packfile\n"])), ErrorKind::Tool, "did not send a pack"),
        (pack(&packets(&[b"packfile\n", b"\x01PACK"])), ErrorKind::Integrity, "is damaged"),
        (pack(&packets(&[b"packfile\n", b"\x09x"])), ErrorKind::Tool, "an unknown band"),
        (
            pack(&packets(&[b"packfile\n", b"\x03boom\n"])),
            ErrorKind::Tool,
            "reports an error: `boom`",
        ),
        (
            pack(&packets(&[b"ERR upload-pack: not our ref 0\n"])),
            ErrorKind::NotFound,
            "does not have this commit",
        ),
        (
            pack(&packets(&[b"ERR access denied\x1b[2J"])),
            ErrorKind::Authentication,
            "denies access: `access denied [2J`",
        ),
        (pack(&packets(&[b"strange\n"])), ErrorKind::Tool, "`strange` at an unexpected position"),
        (Answer::new(500), ErrorKind::Server, "status 500"),
    ] {
        let proxy = FaultProxy::to(&server.host());
        proxy.on("POST", "").does(answer);
        let error = fetch(&Cache::new().sources(), &format!("{}/a", proxy.url()), &commit)
            .await
            .unwrap_err();
        let is_right = error.kind() == kind && error.to_string().contains(wanted);
        assert!(is_right, "{wanted}: {:?} {error}", error.kind());
        assert!(!error.to_string().contains('\u{1b}'));
    }
    // A valid pack of another commit.
    let proxy = FaultProxy::to(&server.host());
    proxy.on("POST", "").does(Fault::Body(record(&server, &other)));
    let cache = Cache::new();
    let url = format!("{}/a", proxy.url());
    let error = fetch(&cache.sources(), &url, &commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(error.to_string().contains("did not send everything"), "{error}");
    assert!(fetch(&cache.offline(), &url, &commit).await.is_err());
}

/// Returns the server's response to a request for `commit`.
fn record(server: &GitHttp, commit: &str) -> Vec<u8> {
    let line = |text: &str| format!("{:04x}{text}\n", text.len() + 5);
    let question = [
        line("command=fetch").as_str(),
        "0001",
        &line(&format!("want {commit}")),
        &line("deepen 1"),
        // The number of progress messages depends on the speed of the server.
        &line("no-progress"),
        &line("done"),
        "0000",
    ]
    .concat();
    curl(&[
        "-H",
        "Content-Type: application/x-git-upload-pack-request",
        "--data-binary",
        &question,
        &format!("{}/git-upload-pack", server.url("a")),
    ])
}

/// Returns the server's first message.
fn record_list(server: &GitHttp) -> Vec<u8> {
    curl(&[&format!("{}/info/refs?service=git-upload-pack", server.url("a"))])
}

fn curl(arguments: &[&str]) -> Vec<u8> {
    let output = std::process::Command::new("curl")
        .args(["-s", "--noproxy", "*", "-H", "Git-Protocol: version=2"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.stdout.len() > 100);
    output.stdout
}

#[tokio::test]
async fn servers_that_hang_or_never_end() {
    let folder = GitFolder::new();
    let commit = small(&folder, "a");
    let server = GitHttp::start(folder.path());
    for (method, fault, kinds) in [
        ("GET", Fault::Stall, [ErrorKind::Timeout; 2]),
        ("POST", Fault::Stall, [ErrorKind::Timeout; 2]),
        ("POST", Fault::Slow(Duration::from_millis(400)), [ErrorKind::Timeout; 2]),
        ("POST", Fault::Endless, [ErrorKind::Content, ErrorKind::Refused]),
        ("GET", Fault::Endless, [ErrorKind::Content, ErrorKind::Refused]),
    ] {
        let proxy = FaultProxy::to(&server.host());
        proxy.on(method, "").does(fault.clone());
        let cache = Cache::new();
        let mut settings = cache.settings();
        settings.timeouts.idle = Duration::from_secs(1);
        settings.timeouts.connect = Duration::from_millis(500);
        settings.tries = 1;
        let started = Instant::now();
        let error = fetch(&Sources::new(settings), &format!("{}/a", proxy.url()), &commit)
            .await
            .unwrap_err();
        assert!(kinds.contains(&error.kind()), "{fault:?}: {:?} {error}", error.kind());
        assert!(started.elapsed() < Duration::from_secs(300), "{fault:?}");
    }
}

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves_the_cache_as_it_was() {
    let folder = GitFolder::new();
    let commit = large(&folder, "a");
    let server = GitHttp::start(folder.path());
    let cache = Cache::new();
    let proxy = FaultProxy::to(&server.host());
    proxy.on("POST", "").first(1).does(Fault::Slow(Duration::from_millis(1)));
    let url = format!("{}/a", proxy.url());
    let sources = cache.sources();
    let slow = tokio::time::timeout(Duration::from_millis(300), fetch(&sources, &url, &commit));
    assert!(slow.await.is_err(), "it was dropped in the middle");
    let fetched = fetch(&cache.sources(), &url, &commit).await.unwrap();
    tar(&fetched.tree);
    let names: Vec<String> = cache.files().into_iter().map(|(name, _)| name).collect();
    let packs = names.iter().filter(|name| name.contains("objects/pack/"));
    assert_eq!(packs.count(), 2, "{names:?}");
}
