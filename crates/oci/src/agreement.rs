//! Refuses archives and layouts in which programs would find different images.
//!
//! Programs disagree about entries with the same name, about names such as `/index.json`, and about
//! links: some take the first, some the last, and some unpack the archive and follow the link. An
//! archive is accepted only if none of this matters.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use names::Digest;
use serde_json::Value;

use crate::LayoutError;
use crate::archive::blob_name;
use crate::document;
use crate::media::Manifest;

/// The longest name that all systems accept, in bytes.
const LONGEST_NAME: usize = 4095;

/// The names of an archive's entries.
#[derive(Default)]
pub(crate) struct Names {
    /// Everything except folders.
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Names {
    /// Adds an entry. Returns the normalised name if the entry is a file.
    ///
    /// # Errors
    /// Returns what programs would read differently.
    pub(crate) fn add<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<Option<String>, String> {
        let kind = entry.header().entry_type();
        let raw = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&raw).into_owned();
        check_header(entry).map_err(|what| format!("entry `{shown}` {what}"))?;
        let name = normal_name(&raw).map_err(|what| format!("entry `{shown}` {what}"))?;
        for (at, _) in name.match_indices('/') {
            self.folders.insert(name[..at].to_owned());
        }
        if kind.is_dir() {
            self.folders.insert(name);
            return Ok(None);
        }
        if raw.ends_with(b"/") || name.is_empty() {
            return Err(format!("entry `{shown}` has the name of a folder"));
        }
        let is_link = kind.is_symlink() || kind.is_hard_link();
        if !kind.is_file() && !is_link {
            return Err(format!("entry `{shown}` is neither a file nor a folder"));
        }
        if is_link && is_of_layout(&name) {
            return Err(format!("entry `{shown}` is a link"));
        }
        if !self.files.insert(name.clone()) {
            return Err(format!("entry `{name}` occurs more than once"));
        }
        Ok(kind.is_file().then_some(name))
    }

    /// Checks all names together, and that only zeros follow the last entry.
    ///
    /// # Errors
    /// Returns what programs would read differently.
    pub(crate) fn finish(&self, mut rest: impl Read) -> Result<(), String> {
        if let Some(both) = self.files.intersection(&self.folders).next() {
            return Err(format!("`{both}` is a folder, and also a file or a link"));
        }
        if self.files.contains("repositories") && !self.files.contains("manifest.json") {
            return Err("it has the file `repositories`, but no `manifest.json`".to_owned());
        }
        let mut buffer = vec![0; 256 << 10];
        // The entries could be read, so an error here is the end of the file.
        while let Ok(count) = rest.read(&mut buffer)
            && count > 0
        {
            if buffer[..count].iter().any(|byte| *byte != 0) {
                return Err("there is more data after its end".to_owned());
            }
        }
        Ok(())
    }
}

/// Returns whether a name is that of a file or folder from which programs read an image.
fn is_of_layout(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    ["blobs", "index.json", "manifest.json", "oci-layout", "repositories"].contains(&first)
}

/// Returns a name without `.` and repeated slashes.
fn normal_name(raw: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(raw).map_err(|_| "has a name that is not UTF-8".to_owned())?;
    if text.len() > LONGEST_NAME {
        return Err(format!("has a name of {} bytes", text.len()));
    }
    if text.starts_with('/') {
        return Err("has an absolute name".to_owned());
    }
    if text.split('/').any(|part| part == "..") {
        return Err("has a name with `..`".to_owned());
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(parts.join("/"))
}

/// Refuses headers whose name or size depends on the reader.
fn check_header<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<(), String> {
    let block = entry.header().as_bytes();
    let is_known = [b"ustar\x0000", b"ustar  \0", &[0; 8]].iter().any(|it| block[257..265] == **it);
    if !is_known || block[508..512] == *b"tar\0" {
        return Err("has an unusual tar format".to_owned());
    }
    let Some(records) = entry.pax_extensions().ok().flatten() else { return Ok(()) };
    let mut keys = BTreeSet::new();
    for record in records {
        let record = record.map_err(|_| "has a damaged pax record".to_owned())?;
        let key = record.key_bytes();
        let is_read = [&b"path"[..], b"linkpath", b"size"].contains(&key);
        if key.starts_with(b"GNU.sparse.") || (is_read && record.value_bytes().is_empty()) {
            return Err("has an unusual pax record".to_owned());
        }
        if !keys.insert(key.to_vec()) {
            return Err("has a pax record twice".to_owned());
        }
    }
    Ok(())
}

/// Checks that `manifest.json`, from which docker loads an archive, means the image of the index.
/// `content` returns the digest of a file of the archive.
///
/// # Errors
/// Returns what is different.
pub(crate) fn check_docker(
    bytes: &[u8],
    image: &Manifest,
    content: impl Fn(&str) -> Option<Digest>,
) -> Result<(), String> {
    let invalid = |_| "its `manifest.json` is not valid".to_owned();
    let all = document::read_list(bytes, document::DOCKER).map_err(invalid)?;
    let [only] = all.as_slice() else {
        return Err(format!("its `manifest.json` has {} images, expected one", all.len()));
    };
    let is = |name: &Value, digest: &Digest| {
        let name = name.as_str().unwrap_or_default();
        name == blob_name(digest) || content(name).as_ref() == Some(digest)
    };
    if !only.get("Config").is_some_and(|name| is(name, &image.config.digest)) {
        return Err("its `manifest.json` names another config than its `index.json`".to_owned());
    }
    let layers = only.get("Layers").and_then(Value::as_array).map(Vec::as_slice);
    let layers = layers.unwrap_or_default();
    let are_same = layers.len() == image.layers.len()
        && layers.iter().zip(&image.layers).all(|(name, layer)| is(name, &layer.digest));
    if are_same {
        Ok(())
    } else {
        Err("its `manifest.json` names other layers than its `index.json`".to_owned())
    }
}

/// Refuses a file of a layout folder that is a link, or is in a folder that is one: programs that
/// copy or pack the layout do not follow it.
///
/// # Errors
/// There is a link.
pub(crate) fn check_no_link(layout: &Path, name: &str) -> Result<(), LayoutError> {
    match link_in(layout, name) {
        None => Ok(()),
        Some(link) => {
            let what = format!("`{link}` is a link");
            Err(LayoutError::Ambiguous { path: layout.to_owned(), what })
        }
    }
}

/// Returns the first part of `name`, a path in a folder, that is a link.
pub(crate) fn link_in(folder: &Path, name: &str) -> Option<String> {
    let mut path = folder.to_owned();
    name.split('/').find_map(|part| {
        path.push(part);
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_symlink);
        found.map(|_| path.strip_prefix(folder).unwrap_or(&path).display().to_string())
    })
}
