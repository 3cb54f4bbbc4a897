//! Package files are fetched by hash, from the first mirror that has them.

use debian::{FetchError, Mirrors, OldPackages, fetch};
use pins::LockedPackage;
use sources::{ErrorKind, Settings, Sources};
use testkit::{Answer, FaultProxy};

use crate::support::{fetched, lock, mirrors, name, offline};

/// Returns sources with an empty cache and without retries.
fn empty(folder: &tempfile::TempDir) -> Sources {
    let mut settings = Settings::new(folder.path());
    settings.tries = 1;
    Sources::new(settings)
}

async fn hello() -> LockedPackage {
    let tools = &lock().await.sets[&name("tools")];
    tools.packages.iter().find(|package| package.name == "hello").unwrap().clone()
}

#[tokio::test]
async fn what_was_fetched_is_asked_of_nobody() {
    let first = fetched(&["tools"]).await;
    let packages: Vec<&LockedPackage> = first.iter().map(|fetched| &fetched.package).collect();
    let again = fetch(&offline(), &packages, &Mirrors::default(), &[]).await.unwrap();
    assert!(again.iter().all(|fetched| fetched.received == 0));
    for fetched in again {
        assert_eq!(std::fs::metadata(&fetched.path).unwrap().len(), fetched.package.size);
    }
}

#[tokio::test]
async fn a_mirror_that_does_not_answer_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut mirrors = mirrors();
    mirrors.archive.insert(0, "http://127.0.0.1:1/debian".parse().unwrap());
    let hello = hello().await;
    let fetched = fetch(&empty(&folder), &[&hello], &mirrors, &[]).await.unwrap();
    assert_eq!(fetched[0].received, hello.size);
}

#[tokio::test]
async fn a_file_that_was_superseded_is_told_apart_from_a_mirror_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let sources = empty(&folder);
    let hello = hello().await;
    let old = LockedPackage { file: hello.file.replace("hello_", "hello_0."), ..hello.clone() };
    let error = fetch(&sources, &[&old], &mirrors(), &[]).await.unwrap_err();
    assert!(matches!(error, FetchError::Superseded { .. }), "{error}");
    let nobody = Mirrors {
        archive: vec!["http://127.0.0.1:1/debian".parse().unwrap()],
        ..Mirrors::default()
    };
    let error = fetch(&sources, &[&hello], &nobody, &[]).await.unwrap_err();
    assert!(matches!(error, FetchError::Fetch { .. }), "{error}");
    let error = fetch(&sources, &[&hello], &Mirrors::default(), &[]).await.unwrap_err();
    assert!(matches!(error, FetchError::NoMirror { .. }), "{error}");
}

#[tokio::test]
async fn another_file_than_the_locked_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hello = hello().await;
    let other = LockedPackage { sha256: "0".repeat(64).parse().unwrap(), ..hello.clone() };
    match fetch(&empty(&folder), &[&other], &mirrors(), &[]).await {
        Err(FetchError::Fetch { source, .. }) => assert_eq!(source.kind(), ErrorKind::Integrity),
        other => panic!("{other:?}"),
    }
    let longer = LockedPackage { size: hello.size + 1, ..hello };
    let error = fetch(&empty(&folder), &[&longer], &mirrors(), &[]).await.unwrap_err();
    assert!(matches!(error, FetchError::Size { .. }), "{error}");
}

/// A package that only a snapshot archive has is fetched from that archive: from the snapshot of
/// the first day in the lock that contains it. An archive is tried only if a mirror responds that
/// it does not have the file.
#[tokio::test]
async fn a_file_that_left_the_mirror_comes_from_an_archive_of_the_days_of_the_lock() {
    let hello = LockedPackage { file: "pool/main/h/hello/hello_1_amd64.deb".to_owned(), ..local() };
    let archive = FaultProxy::alone();
    let path = |day: &str| format!("/debian/{day}T235959Z/{}", hello.file);
    archive.on("GET", &path("20261030")).does(Answer::new(200).body(CONTENT.to_vec()));
    archive.on("GET", &path("20261102")).does(Answer::new(404));
    let mirror = FaultProxy::alone();
    mirror.on("GET", &format!("/debian/{}", hello.file)).does(Answer::new(404));
    let fetch = async |archives: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::new(folder.path());
        (settings.tries, settings.allow_local) = (1, true);
        let rule = format!("https://snapshot.debian.org/archive={}", archive.url());
        settings.mirrors = vec![rule.parse().unwrap()];
        let mirrors = Mirrors {
            archive: archives.iter().map(|url| url.parse().unwrap()).collect(),
            old: vec![OldPackages::snapshots()],
            ..Mirrors::default()
        };
        let days = ["2026-11-02", "2026-10-30"];
        fetch(&Sources::new(settings), &[&hello], &mirrors, &days).await
    };
    let mirror = format!("{}/debian", mirror.url());
    let found = fetch(&[&mirror]).await.unwrap();
    assert_eq!(found[0].received, hello.size);
    assert_eq!(archive.requests().len(), 2);
    // An additional mirror that does not respond makes no difference.
    fetch(&[&mirror, "http://127.0.0.1:1/debian"]).await.unwrap();
    assert_eq!(archive.requests().len(), 4);
    // A mirror that does not respond may have the file.
    let error = fetch(&["http://127.0.0.1:1/debian"]).await.unwrap_err();
    assert!(matches!(error, FetchError::Fetch { .. }), "{error}");
    assert_eq!(archive.requests().len(), 4);
}

/// A folder with copies is used without a network. A wrong file in it is refused.
#[tokio::test]
async fn a_folder_with_copies_is_asked_before_the_mirrors() {
    let hello = LockedPackage { file: "pool/main/h/hello/hello_1_amd64.deb".to_owned(), ..local() };
    let copies = tempfile::tempdir().unwrap();
    let place = format!("file://{}/{{sha256}}", copies.path().display());
    let nobody = Mirrors {
        archive: vec!["http://127.0.0.1:1/debian".parse().unwrap()],
        old: vec![place.parse().unwrap()],
        ..Mirrors::default()
    };
    let fetch = async || {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::new(folder.path());
        (settings.tries, settings.allow_local) = (1, true);
        fetch(&Sources::new(settings), &[&hello], &nobody, &["2026-11-20"]).await
    };
    assert!(matches!(fetch().await, Err(FetchError::Fetch { .. })));
    let file = copies.path().join(hello.sha256.as_str());
    std::fs::write(&file, CONTENT).unwrap();
    assert_eq!(fetch().await.unwrap()[0].package, hello);
    std::fs::write(&file, b"a package that was replaced   ").unwrap();
    match fetch().await {
        Err(FetchError::Fetch { source, .. }) => assert_eq!(source.kind(), ErrorKind::Integrity),
        other => panic!("{other:?}"),
    }
}

/// If a file is available nowhere, the message names the places that keep old files.
#[tokio::test]
async fn a_file_that_nobody_has_is_told_with_the_places_that_were_asked() {
    let hello = LockedPackage { file: "pool/main/h/hello/hello_1_amd64.deb".to_owned(), ..local() };
    let server = FaultProxy::alone();
    for path in [format!("/debian/{}", hello.file), format!("/old/{}", hello.sha256)] {
        server.on("GET", &path).does(Answer::new(404));
    }
    let folder = tempfile::tempdir().unwrap();
    let old = format!("{}/old/{{sha256}}", server.url());
    let mirrors = Mirrors {
        archive: vec![format!("{}/debian", server.url()).parse().unwrap()],
        old: vec![old.parse().unwrap()],
        ..Mirrors::default()
    };
    let error = fetch(&empty(&folder), &[&hello], &mirrors, &[]).await.unwrap_err();
    assert!(matches!(error, FetchError::Superseded { .. }), "{error}");
    assert!(error.to_string().contains(&format!("`{old}`")), "{error}");
    assert_eq!(server.requests().len(), 2);
}

const CONTENT: &[u8] = b"a package that left the mirror";

fn local() -> LockedPackage {
    LockedPackage {
        name: "hello".to_owned(),
        version: "1".to_owned(),
        architecture: "amd64".to_owned(),
        file: String::new(),
        size: CONTENT.len() as u64,
        sha256: names::Digest::of(CONTENT).hex().parse().unwrap(),
    }
}
