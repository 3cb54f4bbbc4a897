//! Makes layers from the project's own files and adds them to images, and copies own files into
//! build contexts.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use names::Digest;
use oci::files::{hash, open};
use oci::media::{Document, Manifest};
use oci::{Base, DerivedImage, NewLayer, add_layer};
use plan::{Action, Input, OwnFile, OwnFiles, Plan, Platform, Step};
use seal::{Entry, EntryPath, Kind, SealError, layer_of_files};

use crate::build_env::{BuildEnv, StoredImage};
use crate::layers::PIECE;
use crate::{BaseImage, ExecuteError, Materials, Store};

/// Makes layers from the project's own files. Each file is compared with its digest in the plan.
#[derive(Debug)]
pub struct FilesMaker<'a> {
    /// Where the files are.
    pub materials: &'a Materials,
    /// Where the layers are kept.
    pub store: &'a Store,
    /// The number of threads that compress. The result does not depend on it.
    pub threads: NonZeroUsize,
}

impl BuildEnv {
    pub(crate) fn files_maker(&self) -> FilesMaker<'_> {
        FilesMaker { materials: &self.materials, store: &self.store, threads: self.threads }
    }
}

/// The parts of the action that adds files.
struct Added<'a> {
    files: &'a OwnFiles,
    epoch: u64,
    created: &'a str,
    created_by: &'a str,
}

impl FilesMaker<'_> {
    /// Adds the files of a step to a fetched base. Returns the base with the layer.
    ///
    /// # Errors
    /// Fails if a file differs from the plan or cannot be read, if the layer cannot be written, or
    /// if the base is damaged.
    pub fn on_base(
        &self,
        plan: &Plan,
        step: &Step,
        base: &BaseImage,
    ) -> Result<BaseImage, ExecuteError> {
        let layer = self.layer(plan, step)?;
        let below = Base { manifest: &base.manifest, config: &base.config };
        let (image, manifest) = added(below, &layer, added_of(step)?.created)?;
        let mut own_layers = base.own_layers.clone();
        own_layers.extend(manifest.layers.last().cloned());
        Ok(BaseImage { manifest, config: image.config, own_layers, ..base.clone() })
    }

    /// Adds the files of a step to an image that an earlier step made.
    pub(crate) fn on_stored(
        &self,
        plan: &Plan,
        step: &Step,
        base: &StoredImage,
    ) -> Result<StoredImage, ExecuteError> {
        let layer = self.layer(plan, step)?;
        let below = Base { manifest: &base.manifest, config: &base.config };
        let (image, _) = added(below, &layer, added_of(step)?.created)?;
        StoredImage::new(&image, base.remote.clone())
    }

    /// Makes the layer of a step, and stores it with its listing.
    ///
    /// # Errors
    /// Fails if a file differs from the plan or cannot be read, or if the layer cannot be written.
    pub fn layer(&self, plan: &Plan, step: &Step) -> Result<NewLayer, ExecuteError> {
        let Added { files, epoch, created_by, .. } = added_of(step)?;
        let (mut entries, mut sources) = (BTreeMap::new(), Sources::new());
        for (path, file) in files {
            let wrong = |_| ExecuteError::plan(format!("`{path}` is not a path in an image"));
            let place = EntryPath::parse(path.as_bytes()).map_err(wrong)?;
            let mut size = 0;
            if let OwnFile::File { from, .. } = file {
                let source = self.materials.own_files.get(from);
                let source = source.ok_or_else(|| ExecuteError::changed(from))?;
                let metadata = open(source).and_then(|opened| opened.metadata());
                size = metadata.map_err(|error| unreadable(from, error))?.len();
                sources.insert(place.clone(), (from, source));
            }
            entries.insert(place, entry(file, size));
        }
        let mut temporary = self.store.begin()?;
        let mut out = BufWriter::with_capacity(PIECE, temporary.as_file_mut());
        let made = layer_of_files(entries, epoch, self.threads, &mut out, |path| {
            let source = sources.get(path).map(|(_, source)| open(source));
            source.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
        });
        let layer = made.map_err(|error| failed(plan, &sources, error))?;
        for (path, entry) in &layer.listing.entries {
            let (Some((from, _)), Some(sha256)) = (sources.get(path), entry.sha256) else {
                continue;
            };
            if digest_of(plan, from) != Some(&Digest::from_sha256(sha256)) {
                return Err(ExecuteError::changed(from));
            }
        }
        let flushed = out.flush();
        drop(out);
        flushed.map_err(|error| ExecuteError::disk("writing a layer failed".to_owned(), error))?;
        self.store.keep(temporary, &layer.digest)?;
        self.store.keep_listing(&layer.digest, &layer.listing)?;
        Ok(NewLayer {
            digest: layer.digest,
            size: layer.size,
            diff_id: layer.diff_id,
            created_by: created_by.to_owned(),
        })
    }
}

impl FilesMaker<'_> {
    /// Copies the project's own files for a build context into an empty folder, and compares them
    /// with the plan.
    ///
    /// # Errors
    /// Fails if a file differs from the plan or cannot be read, or if a copy cannot be written.
    pub fn lay_out(
        &self,
        plan: &Plan,
        files: &OwnFiles,
        folder: &Path,
    ) -> Result<(), ExecuteError> {
        let failed = |error| {
            ExecuteError::disk(format!("writing into `{}` failed", folder.display()), error)
        };
        for (path, file) in files {
            let place = folder.join(path);
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            match file {
                // Nothing to do: writing the files and links in a folder creates it.
                OwnFile::Folder { .. } => {}
                OwnFile::Link { target, .. } => symlink(target, &place).map_err(failed)?,
                OwnFile::File { from, mode, .. } => {
                    let source = self.materials.own_files.get(from);
                    let source = source.ok_or_else(|| ExecuteError::changed(from))?;
                    let mut opened = open(source).map_err(|error| unreadable(from, error))?;
                    let mut copy = File::create_new(&place).map_err(failed)?;
                    io::copy(&mut opened, &mut copy).map_err(failed)?;
                    let permissions = Permissions::from_mode(mode.bits());
                    copy.set_permissions(permissions).map_err(failed)?;
                    let found = File::open(&place).and_then(hash).map_err(failed)?;
                    if digest_of(plan, from) != Some(&found) {
                        return Err(ExecuteError::changed(from));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The sources of a layer's contents: the name of the input and the file, by the path in the image.
type Sources<'a> = BTreeMap<EntryPath, (&'a str, &'a Path)>;

/// Returns the error for a layer that could not be made: a file changed in the meantime, or the
/// disk failed.
fn failed(plan: &Plan, sources: &Sources<'_>, error: SealError) -> ExecuteError {
    if matches!(error, SealError::Write(_)) {
        return ExecuteError::own_files(error);
    }
    let is_other = |(from, source): &&(&str, &Path)| {
        let found = open(source).and_then(hash).ok();
        found.as_ref() != digest_of(plan, from)
    };
    match sources.values().find(is_other) {
        Some((from, _)) => ExecuteError::changed(from),
        None => ExecuteError::own_files(error),
    }
}

fn added_of(step: &Step) -> Result<Added<'_>, ExecuteError> {
    match &step.action {
        Action::AddFiles { files, epoch, created, created_by, .. } => {
            Ok(Added { files, epoch: *epoch, created, created_by })
        }
        _ => Err(ExecuteError::plan(format!("step `{}` does not add files", step.id))),
    }
}

/// Returns an image with a layer on top.
fn added(
    below: Base<'_>,
    layer: &NewLayer,
    created: &str,
) -> Result<(DerivedImage, Manifest), ExecuteError> {
    let image = add_layer(below, &Platform::linux_amd64(), layer, created);
    let image = image.map_err(|error| ExecuteError::assemble(error.into()))?;
    match Document::parse(&image.manifest, None) {
        Ok(Document::Manifest(manifest)) => Ok((image, manifest)),
        _ => Err(ExecuteError::plan("cannot read the manifest of an image".to_owned())),
    }
}

/// Returns the layer's entry for one of the project's own files. `size` is the size of a file's
/// content.
fn entry(file: &OwnFile, size: u64) -> Entry {
    match file {
        OwnFile::File { mode, uid, gid, .. } => {
            Entry { mode: mode.bits(), uid: *uid, gid: *gid, size, ..Entry::new(Kind::File) }
        }
        OwnFile::Folder { mode, uid, gid } => {
            Entry { mode: mode.bits(), uid: *uid, gid: *gid, ..Entry::new(Kind::Directory) }
        }
        OwnFile::Link { target, uid, gid } => Entry {
            uid: *uid,
            gid: *gid,
            link: target.as_bytes().into(),
            ..Entry::new(Kind::Symlink)
        },
    }
}

/// Returns the plan's digest of one of the project's own files.
fn digest_of<'a>(plan: &'a Plan, from: &str) -> Option<&'a Digest> {
    match plan.inputs.get(from)? {
        Input::File { digest } => Some(digest),
        _ => None,
    }
}

/// Returns the error for one of the project's own files that cannot be opened.
fn unreadable(from: &str, error: io::Error) -> ExecuteError {
    match error.kind() {
        // It was a regular file when the plan was made.
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => ExecuteError::changed(from),
        _ => ExecuteError::disk(format!("reading `{from}` failed"), error),
    }
}

#[cfg(test)]
mod tests {
    use names::FileMode;
    use plan::{DeriveContract, Draft, FilesContract, ImageEdit};

    use super::*;
    use crate::ErrorKind;
    use crate::tests::support::{image, tar_of};

    /// Returns a plan that adds the file `files/start` with this content.
    fn plan_with(content: &[u8]) -> Plan {
        let text = str::to_owned;
        let base = format!("registry.invalid/b@{}", Digest::of(b"base"));
        let reference = base.parse().unwrap();
        let from = text("files/start");
        let file = OwnFile::File { from: from.clone(), mode: FileMode::PLAIN, uid: 0, gid: 0 };
        let add = Action::AddFiles {
            base: text("fetch"),
            contract: FilesContract::Files1,
            files: [(text("/opt/start"), file)].into(),
            epoch: 1_800_000_000,
            created: text("2027-01-15T08:00:00Z"),
            created_by: text("a test"),
        };
        let fetch = Action::FetchBase { input: text("base"), platform: Platform::linux_amd64() };
        let contract = DeriveContract::Derive1;
        let edit = ImageEdit::default();
        let derive = Action::DeriveImage { base: text("add"), contract, edit };
        let step = |(id, action)| Step { id: text(id), action };
        let draft = Draft {
            schema: plan::SCHEMA,
            track: text("mine"),
            name: text("mine"),
            gpu: "gfx1151".parse().unwrap(),
            rehearsal: false,
            source_date_epoch: 1_800_000_000,
            revision: None,
            overrides: BTreeMap::new(),
            inputs: [
                (text("base"), Input::Image { reference, manifest: None }),
                (from, Input::File { digest: Digest::of(content) }),
            ]
            .into(),
            steps: [("fetch", fetch), ("add", add), ("derive", derive)].map(step).into(),
        };
        draft.finish().unwrap()
    }

    #[test]
    fn a_file_that_changed_after_the_plan_stops_the_build() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("start");
        let plan = plan_with(b"as planned");
        let own_files = [("files/start".to_owned(), file.clone())].into();
        let materials = Materials { own_files, ..Materials::default() };
        let store = Store::new(folder.path().join("store"));
        let threads = NonZeroUsize::MIN;
        let maker = FilesMaker { materials: &materials, store: &store, threads };
        let make = || maker.layer(&plan, &plan.steps[1]);
        fs::write(&file, "as planned").unwrap();
        let layer = make().unwrap();
        assert!(store.blob(&layer.digest).is_some() && store.listing(&layer.digest).is_some());
        let work = folder.path().join("context");
        let lay_out = || {
            fs::create_dir(&work).unwrap();
            let Action::AddFiles { files, .. } = &plan.steps[1].action else { panic!("no files") };
            let files = files.iter().map(|(path, file)| (path[1..].to_owned(), file.clone()));
            let result = maker.lay_out(&plan, &files.collect(), &work);
            let found = fs::read(work.join("opt/start"));
            fs::remove_dir_all(&work).unwrap();
            result.map(|()| found.unwrap())
        };
        assert_eq!(lay_out().unwrap(), b"as planned");
        let refuse = |what: &str| {
            assert_eq!(lay_out().unwrap_err().kind(), ErrorKind::Changed, "{what}");
            let error = make().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed, "{what}: {error}");
            assert!(error.to_string().contains("`files/start` changed"), "{what}: {error}");
        };
        for content in ["As planned", "", "as planned, and more"] {
            fs::write(&file, content).unwrap();
            refuse(content);
        }
        fs::remove_file(&file).unwrap();
        refuse("removed");
        fs::create_dir(&file).unwrap();
        refuse("a folder");
        // Only the planned layer is kept.
        assert_eq!(fs::read_dir(folder.path().join("store/blobs")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.path().join("store/work")).unwrap().count(), 0);
    }

    #[test]
    fn own_files_keep_their_modes_owners_and_targets() {
        let (mode, uid, gid) = (FileMode::EXECUTABLE, 1, 2);
        let (from, target) = ("files/start".to_owned(), "../a".to_owned());
        let link_mode = Entry::new(Kind::Symlink).mode;
        for (file, wanted) in [
            (OwnFile::File { from, mode, uid, gid }, (Kind::File, 0o755, 7, "")),
            (OwnFile::Folder { mode, uid, gid }, (Kind::Directory, 0o755, 0, "")),
            (OwnFile::Link { target, uid, gid }, (Kind::Symlink, link_mode, 0, "../a")),
        ] {
            let entry = entry(&file, 7);
            let link = std::str::from_utf8(&entry.link).unwrap();
            assert_eq!((entry.kind, entry.mode, entry.size, link), wanted);
            assert_eq!((entry.uid, entry.gid), (1, 2));
        }
    }

    #[test]
    fn own_files_lie_on_top_of_a_base_and_in_a_context() {
        let folder = tempfile::tempdir().unwrap();
        let (file, plan) = (folder.path().join("start"), plan_with(b"text"));
        fs::write(&file, "text").unwrap();
        let own_files = [("files/start".to_owned(), file)].into();
        let materials = Materials { own_files, ..Materials::default() };
        let store = Store::new(folder.path().join("store"));
        let maker = FilesMaker { materials: &materials, store: &store, threads: NonZeroUsize::MIN };
        let (tar, step) = (tar_of(&[("a", "")]), &plan.steps[1]);
        let below = image(&[&tar]);
        let base = BaseImage {
            image: "registry.invalid/b:1".parse().unwrap(),
            index: None,
            manifest_digest: Digest::of(&below.manifest_bytes),
            manifest: below.manifest.clone(),
            config: below.config.clone(),
            own_layers: Vec::new(),
            was_cached: true,
        };
        let made = maker.on_base(&plan, step, &base).unwrap();
        let layer = maker.layer(&plan, step).unwrap();
        let [first, second] = &made.manifest.layers[..] else { panic!("{:?}", made.manifest) };
        assert_eq!((&first.digest, &second.digest), (&Digest::of(&tar), &layer.digest));
        assert_eq!(made.own_layers, std::slice::from_ref(second));
        let stored = StoredImage { remote: Some(base.image.clone()), ..below };
        let stored = maker.on_stored(&plan, step, &stored).unwrap();
        assert_eq!((stored.config, stored.remote), (made.config, Some(base.image)));
        let error = maker.layer(&plan, &plan.steps[0]).unwrap_err();
        assert_eq!(error.to_string(), "step `fetch` does not add files");

        let (from, mode) = ("files/start".to_owned(), FileMode::EXECUTABLE);
        let start = OwnFile::File { from, mode, uid: 0, gid: 0 };
        let link = OwnFile::Link { target: "opt/start".to_owned(), uid: 0, gid: 0 };
        let files = [("opt/start".to_owned(), start), ("link".to_owned(), link)].into();
        let context = folder.path().join("context");
        fs::create_dir(&context).unwrap();
        maker.lay_out(&plan, &files, &context).unwrap();
        assert_eq!(fs::read_link(context.join("link")).unwrap(), Path::new("opt/start"));
        let found = fs::metadata(context.join("link")).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, 0o755);
        let error = maker.lay_out(&plan, &files, &context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disk { full: false }, "nothing is replaced: {error}");
    }
}
