//! A cache that is damaged, or shared by several processes.

use std::fs;
use std::sync::Arc;

use sources::ErrorKind;
use testkit::{GitFolder, GitHttp, gate_cases, gate_passed};

use crate::support::{Cache, fetch, listening, small, tar};

/// The kind of damage to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Removed,
    CutTo(usize),
    FlippedAt(usize),
}

/// Like cargo's `corrupt_git`: if any single file is damaged, the cache repairs itself, or the
/// error tells the user what to do.
#[tokio::test]
async fn damage_to_any_file_heals() {
    let folder = GitFolder::new();
    let first = small(&folder, "a");
    folder.write("a", "more", "more");
    let second = folder.commit("a");
    let server = GitHttp::start(folder.path());
    let url = server.url("a");
    let cache = Cache::new();
    for commit in [&first, &second] {
        fetch(&cache.sources(), &url, commit).await.unwrap();
    }
    let wanted = tar(&fetch(&cache.offline(), &url, &second).await.unwrap().tree);
    let files = cache.files();
    assert!(files.len() >= 10, "{files:?}");
    // Each case starts with an undamaged copy.
    let kept = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        drop(fs::remove_dir_all(to));
        let status = std::process::Command::new("cp").arg("-a").args([from, to]).status();
        assert!(status.unwrap().success());
    };
    let folder = cache.folder.path().join("cache");
    copy(&folder, &kept.path().join("cache"));
    let mut cases = 0;
    let flips = gate_cases(8, 20);
    for (name, size) in &files {
        let path = cache.folder.path().join(name);
        let size = usize::try_from(*size).unwrap();
        let cuts = [0, 2, size / 2].map(Damage::CutTo);
        let flips = (0..flips).map(|n| Damage::FlippedAt(n * size / flips));
        for damage in [Damage::Removed].into_iter().chain(cuts).chain(flips) {
            copy(&kept.path().join("cache"), &folder);
            let mut bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            match damage {
                Damage::Removed => {}
                Damage::CutTo(length) => {
                    fs::write(&path, &bytes[..length.min(bytes.len())]).unwrap();
                }
                Damage::FlippedAt(at) => {
                    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x20);
                    fs::write(&path, bytes).unwrap();
                }
            }
            cases += 1;
            for commit in [&first, &second] {
                let fetched = fetch(&cache.sources(), &url, commit).await.unwrap();
                let bytes = tar(&fetched.tree);
                assert!(commit == &first || bytes == wanted, "{name} {damage:?}");
            }
        }
    }
    assert!(cases > 100, "{cases}");
    gate_passed(7, cases);
}

#[tokio::test]
async fn junk_between_the_packs_goes() {
    let folder = GitFolder::new();
    let first = small(&folder, "a");
    let server = GitHttp::start(folder.path());
    let cache = Cache::new();
    fetch(&cache.sources(), &server.url("a"), &first).await.unwrap();
    let names: Vec<String> = cache.files().into_iter().map(|(name, _)| name).collect();
    let pack = names.iter().find(|name| name.ends_with(".pack")).unwrap();
    let packs = cache.folder.path().join(pack);
    let packs = packs.parent().unwrap();
    for junk in ["pack-0123.pack", "pack-0123.idx", "tmp_pack_x", "pack_git2_x"] {
        fs::write(packs.join(junk), "junk").unwrap();
    }
    folder.write("a", "b", "c");
    let second = folder.commit("a");
    fetch(&cache.sources(), &server.url("a"), &second).await.unwrap();
    assert_eq!(fs::read_dir(packs).unwrap().count(), 4);
    for commit in [first, second] {
        assert!(fetch(&cache.offline(), &server.url("a"), &commit).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_want_the_same_and_one_fetches() {
    let folder = GitFolder::new();
    let commit = Arc::new(small(&folder, "a"));
    let server = GitHttp::start(folder.path());
    let cache = Arc::new(Cache::new());
    let (sources, heard) = listening(&cache.sources());
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let (sources, url, commit) = (sources.clone(), server.url("a"), Arc::clone(&commit));
            tokio::spawn(async move { fetch(&sources, &url, &commit).await.unwrap().tree })
        })
        .collect();
    for task in tasks {
        tar(&task.await.unwrap());
    }
    let heard = heard.lock().unwrap();
    assert_eq!(heard.iter().filter(|word| *word == "fetching").count(), 1, "{heard:?}");
    assert!(!heard.iter().any(|word| word == "waiting"), "there is no other run: {heard:?}");
    assert_eq!(server.requests(), 2, "one request for the capabilities, one for the pack");
}

#[tokio::test]
async fn a_lock_that_is_held_is_waited_for_and_named() {
    let folder = GitFolder::new();
    let commit = small(&folder, "a");
    let server = GitHttp::start(folder.path());
    let cache = Cache::new();
    fetch(&cache.sources(), &server.url("a"), &commit).await.unwrap();
    folder.write("a", "b", "c");
    let next = folder.commit("a");
    let locks = fs::read_dir(cache.folder.path().join("cache/git")).unwrap();
    let lock = locks.map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    let held = fs::File::options().write(true).open(&lock).unwrap();
    held.lock().unwrap();
    // Cached content needs no lock.
    assert!(fetch(&cache.sources(), &server.url("a"), &commit).await.is_ok());
    let mut settings = cache.settings();
    settings.timeouts.lock = std::time::Duration::from_millis(200);
    let (sources, heard) = listening(&sources::Sources::new(settings));
    let error = fetch(&sources, &server.url("a"), &next).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains(lock.to_str().unwrap()), "{error}");
    assert_eq!(*heard.lock().unwrap(), ["waiting"]);
    drop(held);
    assert!(fetch(&sources, &server.url("a"), &next).await.is_ok());
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_says_where() {
    let folder = GitFolder::new();
    let commit = small(&folder, "a");
    let server = GitHttp::start(folder.path());
    let cache = Cache::new();
    fs::write(cache.folder.path().join("cache"), "a file").unwrap();
    let error = fetch(&cache.sources(), &server.url("a"), &commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disk);
    assert!(error.to_string().contains("cache/git` cannot be created"), "{error}");
}
