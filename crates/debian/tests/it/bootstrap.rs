//! A root file system of locked packages: the same bytes twice, and nothing of this machine in it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use debian::{Bootstrap, BootstrapError, LocalSource, ProgramError, Programs, bootstrap};
use pins::LockedPackage;

use crate::support::{EPOCH, SUITE, architecture, local_source, lock, mode, programs};

async fn packages() -> Vec<&'static LockedPackage> {
    lock().await.closure("base").unwrap()
}

fn request<'a>(
    packages: &'a [&'a LockedPackage],
    source: &'a LocalSource,
    work: &'a Path,
) -> Bootstrap<'a> {
    let (suite, architecture) = (SUITE, architecture());
    Bootstrap { suite, architecture, packages, source, epoch: EPOCH, mode: mode(), work }
}

/// What is in a tar: the text of each file, empty for what is none.
fn contents(tar: &Path) -> BTreeMap<String, (tar::Header, String)> {
    let mut archive = tar::Archive::new(std::fs::File::open(tar).unwrap());
    let mut contents = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        if entry.size() < 1 << 16 {
            entry.read_to_end(&mut bytes).unwrap();
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        contents.insert(path.trim_start_matches("./").to_owned(), (entry.header().clone(), text));
    }
    contents
}

#[tokio::test]
async fn two_runs_give_the_same_bytes_and_nothing_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let packages = packages().await;
    // Another folder and another hour must not be seen in the result.
    let mut made = Vec::new();
    for name in ["first", "the-second-folder"] {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let source = local_source(&["base", "tools"], &folder.join("packages")).await;
        let output = folder.join("root.tar");
        let started = Instant::now();
        let root = bootstrap(&programs(), &request(&packages, &source, &folder), &output).await;
        let root = root.unwrap_or_else(|error| {
            panic!("{error}: {:?} {:?}", std::error::Error::source(&error), error.last_lines())
        });
        println!("{name}: {} bytes, {:?}, {}", root.size, started.elapsed(), root.sha256);
        assert_eq!(std::fs::metadata(&output).unwrap().len(), root.size);
        // The package source and the result; no temporary folder is left.
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        made.push(root);
    }
    assert_eq!(made[0].sha256, made[1].sha256);
    let (first, second) = (std::fs::read(&made[0].path), std::fs::read(&made[1].path));
    assert!(first.unwrap() == second.unwrap());
    check_contents(&contents(&made[0].path), &folder.path().display().to_string());
}

fn check_contents(contents: &BTreeMap<String, (tar::Header, String)>, folder: &str) {
    for gone in ["etc/resolv.conf", "etc/hostname", "etc/machine-id", "etc/passwd-"] {
        let text = contents.get(gone).map(|(_, text)| text.as_str());
        assert!(text.is_none_or(str::is_empty), "{gone}: {text:?}");
    }
    assert_eq!(contents["etc/apt/sources.list"].1, "");
    // Where there are passwords, the day of their last change is that of the build.
    let day = (EPOCH / 86400).to_string();
    for line in contents.get("etc/shadow").iter().flat_map(|(_, text)| text.lines()) {
        assert_eq!(line.split(':').nth(2), Some(day.as_str()), "a day of now: {line}");
    }
    for (path, (header, text)) in contents {
        assert!(header.mtime().unwrap() <= EPOCH, "{path} is newer than the time that was given");
        assert!(!text.contains(folder), "{path} names a folder of this machine");
        let is_volatile = ["var/log/", "var/cache/apt/", "var/lib/apt/lists/", "tmp/", "run/"]
            .iter()
            .any(|start| path.starts_with(start));
        assert!(!is_volatile || header.entry_type().is_dir(), "{path} should be gone");
    }
    assert!(contents.contains_key("usr/bin/apt-get"));
    // The tools were in the source, but nobody asked for them.
    assert!(!contents.contains_key("usr/bin/hello"));
}

#[tokio::test]
async fn a_bootstrap_that_is_dropped_leaves_no_process_no_mount_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let packages = packages().await;
    let source = local_source(&["base"], &folder.path().join("packages")).await;
    let output = folder.path().join("root.tar");
    let programs = programs();
    let request = request(&packages, &source, folder.path());
    let marker = folder.path().display().to_string();
    {
        let running = bootstrap(&programs, &request, &output);
        let mut running = std::pin::pin!(running);
        // Until packages are being configured: then file systems are mounted.
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let step = tokio::time::timeout(Duration::from_millis(200), &mut running).await;
            assert!(step.is_err(), "it ended before it could be dropped: {step:?}");
            if is_begun(folder.path()) {
                break;
            }
            assert!(Instant::now() < deadline, "it does not begin");
        }
    }
    assert_eq!(processes_with(&marker), Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&marker), "{mounts}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["packages"]);
}

/// Returns whether a system lies below `work` already.
fn is_begun(work: &Path) -> bool {
    let below = |path: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
    };
    let folders = below(work).into_iter().flat_map(|folder| below(&folder));
    folders.into_iter().any(|root| root.join("var/lib/dpkg/status").is_file())
}

/// Returns the command lines of all processes that name `text`, this test's own left out.
fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(line);
        }
    }
    found
}

#[tokio::test]
async fn a_missing_program_is_named_with_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let packages = packages().await;
    let source = local_source(&["tools"], &folder.path().join("packages")).await;
    let programs = Programs { path: folder.path().into(), variables: BTreeMap::new() };
    let output = folder.path().join("root.tar");
    let error = bootstrap(&programs, &request(&packages, &source, folder.path()), &output)
        .await
        .unwrap_err();
    let BootstrapError::Program { source, .. } = error else { panic!("{error}") };
    assert!(matches!(source, ProgramError::Missing { .. }));
    assert_eq!(
        source.to_string(),
        "`mmdebstrap` is not installed; it is in the Debian package `mmdebstrap`"
    );
}

#[tokio::test]
async fn a_package_that_the_source_lacks_fails_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let packages = packages().await;
    let source = local_source(&["tools"], &folder.path().join("packages")).await;
    let output = folder.path().join("root.tar");
    let error = bootstrap(&programs(), &request(&packages, &source, folder.path()), &output)
        .await
        .unwrap_err();
    let BootstrapError::Program { source, .. } = &error else { panic!("{error}") };
    assert!(source.to_string().starts_with("`mmdebstrap` failed (exit status: "), "{source}");
    assert!(error.last_lines().iter().any(|line| line.starts_with("E: ")), "{error:?}");
    assert!(!output.exists());
}
