//! The project's own files in a layer or a build context.

use std::collections::BTreeMap;
use std::fmt;

use names::{CONTEXT_NAMES, Digest, FileMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Input, Inputs};

/// The project's own files. The keys are absolute paths in the image for a layer, and relative
/// paths for a build context.
pub type OwnFiles = BTreeMap<String, OwnFile>;

/// One of the project's own files, folders or links in a layer or a build context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OwnFile {
    /// A file.
    File {
        /// The file input with its content.
        from: String,
        /// Its permissions.
        mode: FileMode,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A folder.
    Folder {
        /// Its permissions.
        mode: FileMode,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// Its target, relative.
        target: String,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
}

/// The numbered rules that make a layer from files. The crate `seal` must not change the bytes that
/// a version produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FilesContract {
    /// `files/1`: the same files always produce the same bytes.
    #[serde(rename = "files/1")]
    Files1,
}

impl fmt::Display for FilesContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files1 => "files/1",
        })
    }
}

/// Returns one line for each entry: its path and all its properties in the image.
pub(crate) fn listing(files: &OwnFiles, inputs: &Inputs) -> String {
    let line = |(path, file): (&String, &OwnFile)| match file {
        OwnFile::File { from, mode, uid, gid } => {
            let digest = inputs.get(from).map(Input::to_string).unwrap_or_default();
            format!("{path} {mode} {uid}:{gid} {digest}\n")
        }
        OwnFile::Folder { mode, uid, gid } => format!("{path}/ {mode} {uid}:{gid}\n"),
        OwnFile::Link { target, uid, gid } => format!("{path} -> {target} {uid}:{gid}\n"),
    };
    files.iter().map(line).collect()
}

/// Returns the digest of the concatenated listings of all layers and build contexts, in the order
/// of their steps, or `None` if there are none.
pub(crate) fn digest_of(listings: &str) -> Option<Digest> {
    (!listings.is_empty()).then(|| Digest::of(listings.as_bytes()))
}

/// Returns the path of an entry that a layer cannot contain, and the reason.
pub(crate) fn refused(files: &OwnFiles) -> Option<(String, &'static str)> {
    if files.is_empty() {
        return Some(("/".to_owned(), "the layer is empty"));
    }
    refused_below(files, "/", "it is not a plain absolute path")
}

/// Returns the path of an entry that a build context with these `folders` cannot contain, and the
/// reason.
pub(crate) fn refused_in_context<'a>(
    files: &OwnFiles,
    mut folders: impl Iterator<Item = &'a String>,
) -> Option<(String, &'static str)> {
    for (path, file) in files {
        let top = path.split('/').next().unwrap_or_default();
        if CONTEXT_NAMES.contains(&top) {
            return Some((path.clone(), "this name has a special meaning for engines"));
        }
        let is_git_like = match file {
            OwnFile::File { mode, uid: 0, gid: 0, .. } => {
                [FileMode::PLAIN, FileMode::EXECUTABLE].contains(mode)
            }
            OwnFile::Folder { mode, uid: 0, gid: 0 } => *mode == FileMode::EXECUTABLE,
            OwnFile::Link { uid: 0, gid: 0, .. } => true,
            _ => false,
        };
        if !is_git_like {
            return Some((
                path.clone(),
                "a build context keeps no owners, and only the modes that git knows: 0644 or 0755 for files, 0755 for folders",
            ));
        }
    }
    let taken = folders.find(|folder| {
        let below = format!("{folder}/");
        files.keys().any(|path| {
            path == *folder
                || path.starts_with(&below)
                || folder.starts_with(&format!("{path}/"))
                    && !matches!(files.get(path), Some(OwnFile::Folder { .. }))
        })
    });
    if let Some(folder) = taken {
        return Some((folder.clone(), "another step provides this folder"));
    }
    refused_below(files, "", "it is not a plain relative path")
}

/// Returns the path of an entry that cannot exist below `root`, and the reason.
fn refused_below(
    files: &OwnFiles,
    root: &str,
    not_plain: &'static str,
) -> Option<(String, &'static str)> {
    let is_plain = |path: &str| {
        path.strip_prefix(root).is_some_and(|names| {
            names.split('/').all(|name| {
                !matches!(name, "" | "." | "..")
                    && !name.starts_with(".wh.")
                    && !name.contains(char::is_control)
            })
        })
    };
    for (path, file) in files {
        if !is_plain(path) {
            return Some((path.clone(), not_plain));
        }
        if let OwnFile::Link { target, .. } = file
            && (target.is_empty() || target.starts_with('/') || target.contains(char::is_control))
        {
            return Some((path.clone(), "the target of the link is not relative"));
        }
        let is_in_file = path.match_indices('/').skip(root.len()).any(|(end, _)| {
            let above = path.get(..end).and_then(|above| files.get(above));
            above.is_some_and(|above| !matches!(above, OwnFile::Folder { .. }))
        });
        if is_in_file {
            return Some((path.clone(), "it is below something that is not a folder"));
        }
    }
    None
}
