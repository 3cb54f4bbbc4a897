//! The release archives that tests use, and their download locations.
//!
//! The list is `releases.toml`. The archives come from the package index in this machine's pip
//! configuration. They are kept in a cache that all checkouts share, so that a machine fetches each
//! archive only once. The product's own code fetches them: see `sources`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The list.
const LIST: &str = include_str!("../releases.toml");

/// A release archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The component whose patches are for it, for example `flash-attention`.
    pub component: String,
    /// The project on the package index, for example `flash-attn`.
    pub project: String,
    /// Its version.
    pub version: String,
    /// The file name.
    pub file: String,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The folder with the component's tree in the archive, if it is not the whole archive.
    pub subdirectory: Option<String>,
}

/// Returns all release archives, in the order of the list.
///
/// # Panics
/// Panics if the list is invalid.
pub fn releases() -> Vec<Release> {
    let list: toml::Table = LIST.parse().expect("releases.toml is TOML");
    let text = |table: &toml::Table, key: &str| -> Option<String> {
        table.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let tables = |table: &toml::Table, key: &str| -> Vec<toml::Table> {
        let rows = table.get(key).and_then(toml::Value::as_array).expect("a list of tables");
        rows.iter().map(|row| row.as_table().expect("a table").clone()).collect()
    };
    let mut releases = Vec::new();
    for project in tables(&list, "project") {
        for release in tables(&project, "releases") {
            releases.push(Release {
                component: text(&project, "component").expect("a project has a component"),
                project: text(&project, "name").expect("a project has a name"),
                version: text(&release, "version").expect("a release has a version"),
                file: text(&release, "file").expect("a release has a file"),
                sha256: text(&release, "sha256").expect("a release has a hash"),
                subdirectory: text(&project, "subdirectory"),
            });
        }
    }
    releases
}

/// Returns the folder for everything that tests download: in `XDG_CACHE_HOME` or `~/.cache`, or in
/// the workspace's `target` if there is no home.
pub fn releases_cache() -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    caches.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/releases"),
        |caches| caches.join("build-pipeline-tests"),
    )
}

/// Returns the URL of the package index in pip's configuration, or pip's default.
///
/// # Panics
/// Panics if pip is not installed.
pub fn python_index() -> String {
    if let Ok(url) = std::env::var("PIP_INDEX_URL") {
        return url;
    }
    let configured = python(&["-m", "pip", "config", "get", "global.index-url"]);
    let default = ["-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"];
    configured.or_else(|| python(&default)).expect("pip of python3 is installed")
}

/// Runs Python and returns its output, if it succeeds.
fn python(arguments: &[&str]) -> Option<String> {
    let output = Command::new("python3").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
