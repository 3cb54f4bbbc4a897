//! Keeps the RECORD of an installed Python package correct when its files are patched.
//!
//! RECORD lists the hash and size of each file of the package (PEP 376). Tools compare them with
//! the files, for example to find damaged packages.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use names::Digest;
use patcher::{FileChange, FileReceipt, Splice, TreePath};

use crate::receipts::hash;
use crate::rooted::Rooted;
use crate::version::dist_infos;

/// A RECORD to write.
#[derive(Debug)]
pub(crate) struct RecordChange {
    /// Its old content.
    pub(crate) old: Vec<u8>,
    /// Its new content.
    pub(crate) new: Vec<u8>,
    /// How to undo the change.
    pub(crate) receipt: FileReceipt,
}

/// Returns the RECORDs that list changed files, with the new hashes. A row that was already wrong
/// before the change stays unchanged.
pub(crate) fn changes(tree: &dyn Rooted, files: &[FileChange]) -> Vec<RecordChange> {
    let mut changes = Vec::new();
    for info in dist_infos(tree) {
        let Ok(path) = format!("{}/RECORD", info.folder).parse::<TreePath>() else { continue };
        let Some(old) = tree.read(&path).ok().flatten() else { continue };
        let Ok(mut text) = String::from_utf8(old.clone()) else { continue };
        let splices: Vec<Splice> =
            files.iter().filter_map(|file| update(&mut text, file)).collect();
        if !splices.is_empty() {
            let new = text.into_bytes();
            let (before, after) = (hash(&old), hash(&new));
            let receipt = FileReceipt { path, before, after, splices };
            changes.push(RecordChange { old, new, receipt });
        }
    }
    changes
}

/// Replaces the hash and size of a file in a RECORD, and returns the change.
fn update(record: &mut String, file: &FileChange) -> Option<Splice> {
    let stated = |bytes: &[u8]| format!("sha256={},{}", digest(bytes), bytes.len());
    let (removed, inserted) = (stated(&file.old), stated(&file.new));
    let row = format!("{},{removed}", file.path);
    let mut starts = std::iter::once(0).chain(record.match_indices('\n').map(|(at, _)| at + 1));
    let start = starts.find(|start| {
        let rest = record[*start..].strip_prefix(row.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['\r', '\n']))
    })?;
    let at = start + file.path.as_str().len() + 1;
    record.replace_range(at..at + removed.len(), &inserted);
    Some(Splice { at, removed, inserted })
}

/// Returns a hash in the format of RECORD.
fn digest(bytes: &[u8]) -> String {
    let hash = Digest::of(bytes);
    let digits = hash.hex();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or_default();
    let raw: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    BASE64_URL_SAFE_NO_PAD.encode(raw)
}
