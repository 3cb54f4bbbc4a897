//! Shared by the tests: a separate cache, and shortcuts for fetching.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sources::{Event, FetchedGit, GitSource, Settings, SourceError, Sources, Submodules, Tree};
use tempfile::TempDir;
use testkit::GitFolder;

/// A cache in a temporary folder.
pub(crate) struct Cache {
    pub(crate) folder: TempDir,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Settings for tests, with very short waits.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.folder.path().join("cache"));
        settings.first_wait = Duration::from_millis(5);
        settings.timeouts.connect = Duration::from_secs(5);
        settings.timeouts.idle = Duration::from_secs(10);
        settings
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources::new(self.settings())
    }

    /// Sources that must not use the network.
    pub(crate) fn offline(&self) -> Sources {
        Sources::new(Settings { is_offline: true, ..self.settings() })
    }

    /// Sources that may read local paths.
    pub(crate) fn local(&self) -> Sources {
        Sources::new(Settings { allow_local: true, ..self.settings() })
    }

    /// Sources with these mirrors.
    pub(crate) fn mirrored(&self, rules: &[&str]) -> Sources {
        let mirrors = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Sources::new(Settings { mirrors, allow_local: true, ..self.settings() })
    }

    /// Returns the files of the cache with their sizes, without locks.
    pub(crate) fn files(&self) -> Vec<(String, u64)> {
        let mut open = vec![self.folder.path().to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_none_or(|end| end != "lock") {
                    let name = path.strip_prefix(self.folder.path()).unwrap();
                    files.push((name.display().to_string(), entry.metadata().unwrap().len()));
                }
            }
        }
        files.sort();
        files
    }
}

pub(crate) fn source(url: &str, commit: &str) -> GitSource {
    let (url, commit) = (url.parse().unwrap(), commit.parse().unwrap());
    GitSource { url, commit, submodules: Submodules::All }
}

/// Fetches a tree with all its submodules.
pub(crate) async fn fetch(
    sources: &Sources,
    url: &str,
    commit: &str,
) -> Result<FetchedGit, SourceError> {
    sources.fetch_git(&source(url, commit)).await
}

/// Creates a repository with one small commit.
pub(crate) fn small(folder: &GitFolder, name: &str) -> String {
    folder.init(name);
    folder.write(name, "README", format!("this is {name}\n"));
    folder.write(name, "src/main.c", "int main() { return 0; }\n");
    folder.commit(name)
}

/// Creates a repository whose pack has about 100 kB.
pub(crate) fn large(folder: &GitFolder, name: &str) -> String {
    folder.init(name);
    for number in 0..20 {
        folder.write(name, &format!("data/{number}"), noise(5120, number));
    }
    folder.commit(name)
}

/// Returns incompressible bytes, the same for the same seed.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn tar(tree: &Tree) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.write_tar(1_700_000_000, &mut bytes).unwrap();
    bytes
}

pub(crate) fn paths(tree: &Tree) -> Vec<&str> {
    tree.paths().map(|(path, _)| path.as_str()).collect()
}

/// Records events in a short form.
pub(crate) fn listening(sources: &Sources) -> (Sources, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let writer = Arc::clone(&heard);
    let sources = sources.with_listener(move |event| {
        let word = match event {
            Event::Waiting { .. } => "waiting".to_owned(),
            Event::Cached { .. } | Event::CachedArchive { .. } => "cached".to_owned(),
            Event::Fetching { .. } => "fetching".to_owned(),
            Event::Retry { reason, .. } => format!("retry: {reason}"),
            Event::Resumed { from, .. } => format!("resumed from {from}"),
            _ => return,
        };
        writer.lock().unwrap().push(word);
    });
    (sources, heard)
}
