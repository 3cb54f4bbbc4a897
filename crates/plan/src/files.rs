//! The layer with own files of the project.

use std::collections::BTreeMap;
use std::fmt;

use names::{Digest, FileMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Input, Inputs};

/// The entries of a layer with own files, by their absolute path in the image.
pub type OwnFiles = BTreeMap<String, OwnFile>;

/// An entry of a layer with own files of the project.
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

/// The numbered rules that make a layer from files; the crate `seal` must keep the bytes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FilesContract {
    /// `files/1`: equal files give equal bytes.
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

/// Returns one line for each entry: its path, and everything that the image contains of it.
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

/// Returns the digest of the listings of several layers, lowest first, or `None` if there are none.
pub(crate) fn digest_of(listings: &str) -> Option<Digest> {
    (!listings.is_empty()).then(|| Digest::of(listings.as_bytes()))
}

/// Returns the reason why a layer cannot have these entries, and the path of one of them.
pub(crate) fn refused(files: &OwnFiles) -> Option<(String, &'static str)> {
    if files.is_empty() {
        return Some(("/".to_owned(), "the layer is empty"));
    }
    let is_plain = |path: &str| {
        path.strip_prefix('/').is_some_and(|names| {
            names.split('/').all(|name| {
                !matches!(name, "" | "." | "..")
                    && !name.starts_with(".wh.")
                    && !name.contains(char::is_control)
            })
        })
    };
    for (path, file) in files {
        if !is_plain(path) {
            return Some((path.clone(), "it is not a plain absolute path"));
        }
        if let OwnFile::Link { target, .. } = file
            && (target.is_empty() || target.starts_with('/') || target.contains(char::is_control))
        {
            return Some((path.clone(), "the target of the link is not relative"));
        }
        let is_in_file = path.match_indices('/').skip(1).any(|(end, _)| {
            let above = path.get(..end).and_then(|above| files.get(above));
            above.is_some_and(|above| !matches!(above, OwnFile::Folder { .. }))
        });
        if is_in_file {
            return Some((path.clone(), "it is below something that is not a folder"));
        }
    }
    None
}
