//! The kinds of files and folders that this tool writes or reads. A command that gets another kind
//! than it expects says what it got, and which command is for it.

use std::io::Read as _;
use std::path::Path;

use failure::{Failure, Kind};
use oci::archive::{self, Content};
use oci::inputs::INPUTS;
use serde_json::Value;

/// The maximum size of a JSON document that is recognised, in bytes.
const DOCUMENT_CAP: u64 = 4 << 20;

/// The kind of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A record of a build.
    Record,
    /// The output of `plan --format json`.
    Plan,
    /// A file that `bundle` wrote.
    Bundle,
    /// A folder that `mirror` wrote.
    Copy,
    /// A folder of finished steps.
    Store,
    /// An OCI image layout.
    Layout,
    /// An OCI archive.
    Archive,
    /// A Dockerfile.
    Dockerfile,
    /// A log.
    Log,
}

impl PathKind {
    /// Returns the kind of a file or folder: from its content or, for texts without a fixed form,
    /// from its name. Returns `None` if there is nothing at the path, or if the kind is unknown.
    pub fn of(path: &Path) -> Option<Self> {
        if path.is_dir() {
            return of_index(&read(&path.join("index.json"))?);
        }
        // A FIFO or a device must not be opened.
        if !path.is_file() {
            return None;
        }
        if archive::is_archive(path).ok()? {
            // Archives of other tools contain images, unless the first header is damaged.
            if !archive::is_ours(path).ok()? {
                return archive::is_tar(path).ok()?.then_some(Self::Archive);
            }
            return Some(match archive::content(path)? {
                Content::Bundle => Self::Bundle,
                Content::Image => Self::Archive,
            });
        }
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let is_dockerfile = ["dockerfile", "containerfile"].iter().any(|word| {
            name == *word
                || name.starts_with(&format!("{word}."))
                || name.ends_with(&format!(".{word}"))
        });
        match name.rsplit_once('.') {
            _ if is_dockerfile => Some(Self::Dockerfile),
            Some((_, "log")) => Some(Self::Log),
            Some((_, "json")) => of_document(&read(path)?),
            _ => None,
        }
    }

    /// Returns the kind as a noun phrase.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Record => "the record of a build",
            Self::Plan => "a plan",
            Self::Bundle => "a bundle of inputs",
            Self::Copy => "a folder of inputs that `mirror` wrote",
            Self::Store => "a store of finished steps",
            Self::Layout => "an OCI image layout",
            Self::Archive => "an archive of an image",
            Self::Dockerfile => "a Dockerfile",
            Self::Log => "a log",
        }
    }

    /// Says which commands are for a path of this kind.
    pub fn commands(self, path: &str) -> String {
        match self {
            Self::Record => {
                let file = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
                format!("`build-pipeline records {file}` shows it, if it is in the folder of records")
            }
            Self::Plan => "`build-pipeline build TRACK` builds what `plan TRACK` shows; no command reads a plan from a file".to_owned(),
            Self::Bundle => format!(
                "`build-pipeline bundle --check {path}` checks it, and `build-pipeline build TRACK --bundle {path}` builds from it"
            ),
            Self::Copy => format!(
                "`build-pipeline bundle --check {path}` checks it, and `build-pipeline build TRACK --mirror all=dir:{path}` builds from it"
            ),
            Self::Store => format!(
                "`build-pipeline step list TRACK --store dir:{path}` shows which steps of a track it has"
            ),
            Self::Layout | Self::Archive => {
                format!("`build-pipeline verify {path}` checks the image in it")
            }
            Self::Dockerfile => format!("`build-pipeline lint {path}` checks it"),
            Self::Log => format!("`build-pipeline diagnose {path}` finds known failures in it"),
        }
    }
}

/// Refuses a path of a known kind that a command does not take. `shown` is the path as the user
/// wrote it, and `wanted` is what the command takes, as a noun phrase.
///
/// # Errors
/// The path has a known kind, which is not one of `accepted`.
pub fn refuse_others(
    path: &Path,
    shown: &str,
    wanted: &str,
    accepted: &[PathKind],
) -> Result<(), Failure> {
    let Some(kind) = PathKind::of(path).filter(|kind| !accepted.contains(kind)) else {
        return Ok(());
    };
    let what = format!("`{shown}` is {}, not {wanted}", kind.noun());
    Err(Failure::new(Kind::Input, what).hint(kind.commands(shown)))
}

/// Adds a hint to an error about a name that is unknown, if there is a file or folder of a known
/// kind with this name.
pub fn explained(told: Failure, path: &Path, shown: &str) -> Failure {
    match PathKind::of(path) {
        Some(kind) => {
            told.first_hint(format!("`{shown}` is {}: {}", kind.noun(), kind.commands(shown)))
        }
        None => told,
    }
}

/// Reads a small JSON document.
fn read(path: &Path) -> Option<Value> {
    let mut bytes = Vec::new();
    // This refuses FIFOs and devices.
    oci::files::open(path).ok()?.take(DOCUMENT_CAP).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the kind of a folder with this `index.json`.
fn of_index(index: &Value) -> Option<PathKind> {
    let entries = index.get("manifests")?.as_array()?;
    let kind = entries.iter().find_map(|entry| entry.get("artifactType")?.as_str());
    Some(match kind {
        Some(INPUTS) => PathKind::Copy,
        Some(_) => PathKind::Store,
        None => PathKind::Layout,
    })
}

fn of_document(document: &Value) -> Option<PathKind> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    match () {
        () if has(&["tool_version", "plan_digest", "status"]) => Some(PathKind::Record),
        () if has(&["track", "inputs", "steps"]) => Some(PathKind::Plan),
        () => None,
    }
}
