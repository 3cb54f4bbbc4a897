//! Keeps the RECORD of an installed Python package correct when its files are patched.
//!
//! RECORD lists the hash and size of each file of the package (PEP 376). Tools compare them with
//! the files, for example to find damaged packages.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use names::Sha256;
use patcher::{FileChange, FileReceipt, Receipt, Splice, TreePath};

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

/// A file whose row in a RECORD must change.
struct Row<'a> {
    path: &'a TreePath,
    old: String,
    new: String,
}

impl<'a> Row<'a> {
    fn new(path: &'a TreePath, old: (&Sha256, usize), new: (&Sha256, usize)) -> Self {
        let stated = |(hash, size): (&Sha256, usize)| format!("sha256={},{size}", encoded(hash));
        Self { path, old: stated(old), new: stated(new) }
    }
}

/// Returns the rows of files that an earlier run has changed. If it was killed, RECORD may still
/// state what they were before.
fn of_receipts<'a>(tree: &dyn Rooted, receipts: &'a [Receipt]) -> Vec<Row<'a>> {
    let files = receipts.iter().flat_map(|receipt| &receipt.files);
    let rows = files.filter_map(|file| {
        let now = tree.read(&file.path).ok().flatten().filter(|now| hash(now) == file.after)?;
        let sizes = file.splices.iter();
        let removed: usize = sizes.clone().map(|splice| splice.removed.len()).sum();
        let inserted: usize = sizes.map(|splice| splice.inserted.len()).sum();
        let before = (now.len() + removed).checked_sub(inserted)?;
        Some(Row::new(&file.path, (&file.before, before), (&file.after, now.len())))
    });
    rows.collect()
}

/// Returns the RECORDs that list changed files, with the new hashes. `receipts` are those of
/// earlier runs. A row that was already wrong before the change stays unchanged.
pub(crate) fn changes(
    tree: &dyn Rooted,
    files: &[FileChange],
    receipts: &[Receipt],
) -> Vec<RecordChange> {
    let mut rows = of_receipts(tree, receipts);
    rows.extend(files.iter().map(|file| {
        Row::new(&file.path, (&file.before, file.old.len()), (&file.after, file.new.len()))
    }));
    let mut changes = Vec::new();
    for info in dist_infos(tree) {
        let Ok(path) = format!("{}/RECORD", info.folder).parse::<TreePath>() else { continue };
        let Some(old) = tree.read(&path).ok().flatten() else { continue };
        let Ok(mut text) = String::from_utf8(old.clone()) else { continue };
        let splices: Vec<Splice> = rows.iter().filter_map(|row| update(&mut text, row)).collect();
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
fn update(record: &mut String, row: &Row<'_>) -> Option<Splice> {
    let Row { path, old: removed, new: inserted } = row;
    // Programs may quote the fields of RECORD, which is a CSV file.
    let names = [format!("{path},"), format!("\"{path}\",")];
    let mut starts = std::iter::once(0).chain(record.match_indices('\n').map(|(at, _)| at + 1));
    let at = starts.find_map(|start| {
        let name = names.iter().find(|name| record[start..].starts_with(name.as_str()))?;
        let rest = record[start + name.len()..].strip_prefix(removed.as_str())?;
        let is_whole = rest.is_empty() || rest.starts_with(['\r', '\n']);
        is_whole.then_some(start + name.len())
    })?;
    record.replace_range(at..at + removed.len(), inserted);
    Some(Splice { at, removed: removed.clone(), inserted: inserted.clone() })
}

/// Returns a hash in the format of RECORD.
fn encoded(hash: &Sha256) -> String {
    let digits = hash.to_string();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or_default();
    let raw: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    BASE64_URL_SAFE_NO_PAD.encode(raw)
}
