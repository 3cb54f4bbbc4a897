//! Copies of inputs: bundles (`--bundle FILE`), and copies that `mirror` wrote (`--mirror all=…`).
//!
//! A fetch looks up a digest in the copies before it contacts a server. For images, the registry
//! client does this (`oci::inputs`); for all other inputs, `sources` uses `InputCopies`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use failure::{Failure, Kind};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use names::{CommitId, Digest, Repository, Sha256};
use oci::client::{ErrorKind, RegistryClient, RegistryError};
use oci::inputs::{InputBlob, InputFiles, InputKind, InputList, InputsError};
use plan::{Input, Plan};
use sources::Copies;
use tokio::sync::OnceCell;

use crate::kinds::explained;
use crate::mirrors::Mirrors;
use crate::registry;

/// Opens the bundles and folders that the user's options specify.
///
/// # Errors
/// One of them is neither a bundle nor a folder that `mirror` wrote, is damaged, or needs an older
/// bundle that is missing.
pub fn open(paths: &[PathBuf]) -> Result<InputFiles, Failure> {
    InputFiles::open(paths).map_err(|error| refused(&error))
}

/// Opens bundles and folders, and returns those that can be opened together, and why each of the
/// others cannot be opened.
pub fn open_each(paths: &[PathBuf]) -> (InputFiles, BTreeMap<PathBuf, Failure>) {
    let (mut rest, mut wrong) = (paths.to_vec(), BTreeMap::new());
    loop {
        match InputFiles::open(&rest) {
            Ok(files) => return (files, wrong),
            Err(error) => {
                let path = error.path().to_owned();
                rest.retain(|other| *other != path);
                // If an older bundle cannot be opened, the bundles that need it are not at fault.
                if !matches!(error, InputsError::Needs { .. }) || wrong.is_empty() {
                    wrong.insert(path, refused(&error));
                }
            }
        }
    }
}

/// Returns the failure for a bundle or folder that cannot be opened.
fn refused(error: &InputsError) -> Failure {
    let kind = match error {
        InputsError::Damaged { .. } | InputsError::Lacks { .. } => Kind::Integrity,
        _ => Kind::Input,
    };
    let told = Failure::from_chain(kind, error);
    match error {
            InputsError::NotABundle { path, .. } => explained(told, path, &path.display().to_string())
                .hint("`build-pipeline bundle TRACK -o FILE` writes a bundle, `build-pipeline mirror TRACK --to dir:PATH` a folder"),
            InputsError::Needs { .. } => told
                .hint("give the older bundle too: `--bundle NEW --bundle OLD`, or `bundle --check NEW OLD`; `build-pipeline bundle --check FILE` prints the ID of a bundle"),
            InputsError::Damaged { path, .. } | InputsError::Lacks { path, .. } => told
                .hint(format!("copy it again; `build-pipeline bundle --check {}` shows what is damaged", path.display())),
            InputsError::List { .. } => told.hint("use the build-pipeline that wrote it, or a newer one"),
            InputsError::Read { .. } => told,
        }
}

/// Checks that the bundles contain the inputs of plans. Without bundles, there is nothing to check.
/// The packages of locks are checked when they are fetched.
///
/// # Errors
/// An image, commit or archive is not in them.
pub fn check_plans<'a>(
    mirrors: &Mirrors,
    plans: impl Iterator<Item = &'a Plan>,
) -> Result<(), Failure> {
    if mirrors.bundles.is_empty() {
        return Ok(());
    }
    let files = open(&mirrors.bundles)?;
    for plan in plans {
        let missing = plan.inputs.values().find(|input| !has(&files, input));
        let Some(missing) = missing else { continue };
        let names: Vec<String> =
            mirrors.bundles.iter().map(|path| format!("`{}`", path.display())).collect();
        let what =
            format!("`{missing}`, which `{}` needs, is not in {}", plan.name, names.join(" or "));
        let lists = files.lists().iter();
        let tracks: Vec<&str> = lists.map(|list| list.track.as_str()).collect();
        return Err(Failure::new(Kind::Input, what)
            .hint(format!("the bundle contains the inputs of {}, as they were pinned when the bundle was made", tracks.join(", ")))
            .hint(format!("make a new bundle on a machine that can download the inputs: `build-pipeline bundle {} -o FILE`", plan.track)));
    }
    Ok(())
}

fn has(files: &InputFiles, input: &Input) -> bool {
    match input {
        Input::Image { reference, .. } => {
            reference.digest.as_ref().is_some_and(|digest| files.has(digest))
        }
        Input::Source { commit, .. } => files.pack(commit).is_some(),
        Input::Archive { sha256, .. } => digest(sha256).is_ok_and(|digest| files.has(&digest)),
        Input::Lock { .. } | Input::File { .. } => true,
    }
}

/// The copies of a run.
#[derive(Debug)]
pub(crate) struct InputCopies {
    files: InputFiles,
    registries: Vec<RegistryCopy>,
}

/// A repository that `mirror` wrote.
#[derive(Debug)]
struct RegistryCopy {
    client: RegistryClient,
    repository: Repository,
    lists: OnceCell<Vec<InputList>>,
}

impl InputCopies {
    /// Returns the copies that the rules name, if any.
    pub(crate) fn of(mirrors: &Mirrors) -> Result<Option<Arc<dyn Copies>>, Failure> {
        if !mirrors.has_copies() {
            return Ok(None);
        }
        let files = open(&mirrors.local_copies())?;
        let copy = |repository: &Repository| {
            let client = registry::client(mirrors)?;
            let repository = repository.clone();
            Ok(RegistryCopy { client, repository, lists: OnceCell::new() })
        };
        let registries = mirrors.repositories.iter().map(copy).collect::<Result<_, Failure>>()?;
        Ok(Some(Arc::new(Self { files, registries })))
    }

    async fn write(
        &self,
        is_wanted: impl Fn(&InputBlob) -> bool + Sync,
        to: &Path,
    ) -> io::Result<bool> {
        let mut all = self.files.lists().iter().flat_map(|list| &list.blobs);
        if let Some(blob) = all.find(|blob| is_wanted(blob)) {
            let (files, blob, to) = (self.files.clone(), blob.clone(), to.to_owned());
            let copied = tokio::task::spawn_blocking(move || copy(&files, &blob, &to)).await;
            return copied.map_err(io::Error::other)?.map(|()| true);
        }
        for registry in &self.registries {
            let lists = registry.lists.get_or_try_init(|| registry.read_lists()).await?;
            let mut listed = lists.iter().flat_map(|list| &list.blobs);
            if let Some(blob) = listed.find(|blob| is_wanted(blob)) {
                return registry.download(blob, to).await.map(|()| true);
            }
        }
        Ok(false)
    }
}

impl Copies for InputCopies {
    fn file<'a>(&'a self, sha256: &'a Sha256, to: &'a Path) -> BoxFuture<'a, io::Result<bool>> {
        async move {
            let digest = digest(sha256)?;
            self.write(|blob| blob.digest == digest, to).await
        }
        .boxed()
    }

    fn pack<'a>(&'a self, commit: &'a CommitId, to: &'a Path) -> BoxFuture<'a, io::Result<bool>> {
        let is_pack = |blob: &InputBlob| blob.kind == InputKind::Git;
        self.write(move |blob| is_pack(blob) && blob.commit.as_ref() == Some(commit), to).boxed()
    }
}

impl RegistryCopy {
    /// Reads the lists of all tracks.
    async fn read_lists(&self) -> io::Result<Vec<InputList>> {
        let mut lists = Vec::new();
        let tags = match self.client.tags(&self.repository).await {
            // Nothing was copied yet.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            tags => tags.map_err(failed)?,
        };
        for tag in tags {
            let manifest = self.client.manifest(&self.repository.tagged(&tag)).await;
            // The repository may contain other artifacts too.
            lists.extend(InputList::parse(&manifest.map_err(failed)?.bytes));
        }
        Ok(lists)
    }

    async fn download(&self, blob: &InputBlob, to: &Path) -> io::Result<()> {
        let stream = self.client.blob_stream(&self.repository, &blob.digest, blob.size).await;
        let mut stream = stream.map_err(failed)?;
        let mut file = File::create(to)?;
        while let Some(piece) = stream.next().await {
            file.write_all(&piece.map_err(failed)?)?;
        }
        Ok(())
    }
}

fn failed(error: RegistryError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Integrity => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Copies a blob out of a bundle or folder, and checks it.
fn copy(files: &InputFiles, blob: &InputBlob, to: &Path) -> io::Result<()> {
    let found = files.reader(&blob.digest).ok_or(io::ErrorKind::NotFound)?;
    let (mut reader, path) = found?;
    let mut out = File::create(to)?;
    let mut hasher = names::Hasher::new();
    let mut piece = vec![0; 256 << 10];
    loop {
        let count = reader.read(&mut piece)?;
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
        out.write_all(&piece[..count])?;
    }
    if Digest::from_sha256(hasher.finish()) == blob.digest {
        return Ok(());
    }
    let what = format!("`{}` is damaged: the {blob} has the wrong content", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

fn digest(sha256: &Sha256) -> io::Result<Digest> {
    format!("sha256:{sha256}").parse().map_err(io::Error::other)
}
