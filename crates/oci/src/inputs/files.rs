//! Reads lists and blobs in folders and archives.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use names::{CommitId, Digest, ImageRef};
use serde_json::Value;

use super::write::NEEDS;
use super::{INPUTS, InputBlob, InputKind, InputList, ParseListError};
use crate::agreement::link_in;
use crate::archive::{self, blob_name};
use crate::document;
use crate::files;
use crate::layout::read_capped;
use crate::local::{LocalBlobs, Place};
use crate::media::MANIFEST_CAP;

/// The lists and blobs in folders and archives on this machine.
#[derive(Debug, Clone, Default)]
pub struct InputFiles {
    lists: Vec<InputList>,
    blobs: LocalBlobs,
    /// The IDs of the bundles and copies: the digests of their `index.json`.
    ids: Vec<Digest>,
    /// The images that are named by a tag, and their digests.
    tags: BTreeMap<String, Digest>,
    /// All blobs in all lists.
    listed: BTreeSet<Digest>,
}

/// Why files are not usable as a source of inputs.
#[derive(Debug, thiserror::Error)]
pub enum InputsError {
    /// A file cannot be read.
    #[error("reading `{}` failed", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file or folder is not a bundle.
    #[error("`{}` is not a bundle: {why}", path.display())]
    NotABundle {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A list cannot be read.
    #[error("`{}` has a list of inputs that cannot be read", path.display())]
    List {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: ParseListError,
    },
    /// A document is missing, or does not match its digest.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is damaged.
        what: String,
    },
    /// A listed blob is missing.
    #[error("`{}` is incomplete: it lacks the {blob}", path.display())]
    Lacks {
        /// The file or folder.
        path: PathBuf,
        /// The blob.
        blob: Box<InputBlob>,
    },
    /// The bundle has only the blobs that an older bundle lacks, and the older bundle was not
    /// given.
    #[error("`{}` has only the blobs added since bundle {needs}, which was not given", path.display())]
    Needs {
        /// The file.
        path: PathBuf,
        /// The ID of the older bundle.
        needs: Digest,
    },
}

impl InputsError {
    /// Returns the file or folder that is not usable.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::NotABundle { path, .. }
            | Self::List { path, .. }
            | Self::Damaged { path, .. }
            | Self::Lacks { path, .. }
            | Self::Needs { path, .. } => path,
        }
    }
}

/// The content of a folder's or archive's index.
struct Opened {
    id: Digest,
    needs: Vec<Digest>,
    lists: Vec<(Digest, u64)>,
}

impl InputFiles {
    /// Opens folders and archives. Lists are read and checked; other blobs are checked when they
    /// are used.
    ///
    /// # Errors
    /// Fails if one of them is not a bundle, is damaged or incomplete, or needs a bundle that is
    /// not among them.
    pub fn open(paths: &[PathBuf]) -> Result<Self, InputsError> {
        let opened: Vec<Opened> =
            paths.iter().map(|path| open_one(path)).collect::<Result<_, _>>()?;
        let mut all = Self { blobs: LocalBlobs::find(paths), ..Self::default() };
        all.ids = opened.iter().map(|one| one.id.clone()).collect();
        for (path, one) in paths.iter().zip(&opened) {
            if let Some(needs) = one.needs.iter().find(|needs| !all.ids.contains(needs)) {
                return Err(InputsError::Needs { path: path.clone(), needs: needs.clone() });
            }
        }
        for (path, one) in paths.iter().zip(&opened) {
            for (digest, size) in &one.lists {
                let list = all.list(path, digest, *size)?;
                if path.is_dir() {
                    list.blobs
                        .iter()
                        .try_for_each(|blob| no_link(path, &blob_name(&blob.digest)))?;
                }
                all.add(path, list)?;
            }
        }
        Ok(all)
    }

    fn list(&self, path: &Path, digest: &Digest, size: u64) -> Result<InputList, InputsError> {
        let damaged = |what| InputsError::Damaged { path: path.to_owned(), what };
        let lacks = || damaged(format!("its index refers to the list {digest}, which is missing"));
        let read = self.read(digest).ok_or_else(lacks)?;
        let bytes = read.map_err(|source| InputsError::Read { path: path.to_owned(), source })?;
        if bytes.len() as u64 != size || Digest::of(&bytes) != *digest {
            return Err(damaged(format!("the list {digest} has the wrong content")));
        }
        InputList::parse(&bytes)
            .map_err(|source| InputsError::List { path: path.to_owned(), source })
    }

    fn add(&mut self, path: &Path, list: InputList) -> Result<(), InputsError> {
        for blob in &list.blobs {
            let place = self.blobs.find_blob(&blob.digest);
            if place.is_none_or(|place| place.size != blob.size || !place.is_in_file()) {
                let blob = Box::new(blob.clone());
                return Err(InputsError::Lacks { path: path.to_owned(), blob });
            }
            self.listed.insert(blob.digest.clone());
            if blob.kind == InputKind::Manifest
                && let Ok(ImageRef { repository, tag: Some(tag), digest: Some(digest) }) =
                    blob.name.parse::<ImageRef>()
            {
                self.tags.insert(repository.tagged(&tag).to_string(), digest);
            }
        }
        self.lists.push(list);
        Ok(())
    }

    /// Returns the lists.
    pub fn lists(&self) -> &[InputList] {
        &self.lists
    }

    /// Returns the IDs of the bundles and copies, in the order of their paths.
    pub fn ids(&self) -> &[Digest] {
        &self.ids
    }

    /// Returns whether a list names the blob. If so, one of the files has it.
    pub fn has(&self, digest: &Digest) -> bool {
        self.listed.contains(digest)
    }

    /// Returns the pack of a commit.
    pub fn pack(&self, commit: &CommitId) -> Option<&InputBlob> {
        let mut all = self.lists.iter().flat_map(|list| &list.blobs);
        all.find(|blob| blob.kind == InputKind::Git && blob.commit.as_ref() == Some(commit))
    }

    /// Returns a reader that does not verify the blob, and the file that contains the blob.
    pub fn reader(&self, digest: &Digest) -> Option<io::Result<(impl io::Read + use<>, PathBuf)>> {
        let place = self.place(digest)?;
        Some(place.open(0).map(|reader| (reader, place.file)))
    }

    /// Returns the location of a listed blob.
    pub(crate) fn place(&self, digest: &Digest) -> Option<Place> {
        if self.has(digest) { self.blobs.find_blob(digest) } else { None }
    }

    /// Returns the digest of an image that is named by a tag.
    pub(crate) fn tag(&self, image: &ImageRef) -> Option<&Digest> {
        self.tags.get(&image.to_string())
    }

    /// Returns a document of at most 4 MiB, unchecked.
    fn read(&self, digest: &Digest) -> Option<io::Result<Bytes>> {
        Some(self.blobs.find_blob(digest)?.open(0).and_then(read_capped))
    }
}

/// Refuses a file of a folder that is a link or is in a linked folder: programs that copy the folder
/// do not follow it, and its target may change.
fn no_link(folder: &Path, name: &str) -> Result<(), InputsError> {
    match link_in(folder, name) {
        None => Ok(()),
        Some(link) => {
            let what = format!("`{link}` is a link");
            Err(InputsError::Damaged { path: folder.to_owned(), what })
        }
    }
}

/// Reads the index of a folder or archive, and checks that this tool wrote it.
fn open_one(path: &Path) -> Result<Opened, InputsError> {
    let not = |why: &str| InputsError::NotABundle { path: path.to_owned(), why: why.to_owned() };
    let failed = |source| InputsError::Read { path: path.to_owned(), source };
    let is_folder = path.is_dir();
    let bytes = if is_folder {
        ["index.json", "oci-layout"].iter().try_for_each(|name| no_link(path, name))?;
        match files::open(&path.join("index.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(not("the folder has no `index.json`"));
            }
            opened => opened.and_then(read_capped).map_err(failed)?,
        }
    } else {
        files::open(path).map_err(failed)?;
        if archive::is_archive(path).map_err(failed)?
            && let Some(what) = archive::disagreement(path).map_err(failed)?
        {
            return Err(InputsError::Damaged { path: path.to_owned(), what });
        }
        archive::small_file(path, "index.json")
            .map_err(failed)?
            .ok_or_else(|| not("it is not an OCI archive"))?
    };
    let id = Digest::of(&bytes);
    // An archive has a copy of the index under its digest, so that damage to either is detected.
    if !is_folder && !archive::blobs_of(path).map_err(failed)?.contains_key(&id) {
        let is_ours = String::from_utf8_lossy(&bytes).contains("vnd.build-pipeline");
        return Err(if is_ours {
            let what = format!("no blob has the digest of its `index.json`, {id}");
            InputsError::Damaged { path: path.to_owned(), what }
        } else {
            not("its index does not name a list of inputs")
        });
    }
    let index = document::read(&bytes, document::MANIFEST)
        .map_err(|_| not("its `index.json` is not valid"))?;
    let entries = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    let ours = entries.filter(|entry| entry.get("artifactType").is_some_and(|kind| kind == INPUTS));
    let entry = |entry: &Value| {
        let digest = entry.get("digest")?.as_str()?.parse().ok()?;
        Some((digest, entry.get("size")?.as_u64().filter(|size| *size <= MANIFEST_CAP)?))
    };
    let lists: Option<Vec<_>> = ours.map(entry).collect();
    let lists = lists.filter(|lists| !lists.is_empty());
    let lists = lists.ok_or_else(|| not("its index does not name a list of inputs"))?;
    let needs = index.get("annotations").and_then(|all| all.get(NEEDS)).and_then(Value::as_str);
    let needs: Result<Vec<Digest>, _> =
        needs.unwrap_or_default().split_whitespace().map(str::parse).collect();
    let needs = needs.map_err(|_| not("its index does not specify the bundle that it needs"))?;
    Ok(Opened { id, needs, lists })
}
