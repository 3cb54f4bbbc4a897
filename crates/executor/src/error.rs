//! Errors during the execution of a plan.

use std::error::Error;
use std::io;
use std::path::Path;

use debian::{FetchError, LocalSourceError, WriteRootError};
use engine::{EngineError, RunFailure};
use names::{Digest, ImageRef};
use oci::client::{ErrorKind as RegistryKind, RegistryError};
use oci::files::is_wrong_path;
use oci::media::MediaError;
use oci::{DeriveError, LayoutError};
use seal::{SealError, TarError};
use sources::{ErrorKind as SourceKind, SourceError};

use crate::{BaseImage, LayerError};

/// Why a plan failed. The command line adds hints.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ExecuteError {
    what: String,
    kind: ErrorKind,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kind of error. The command line derives the exit code and hints from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A registry request failed, with the kind of failure.
    Registry(RegistryKind),
    /// Content does not match its digest or pin.
    Integrity,
    /// The base is not a usable image.
    Base,
    /// A file cannot be written or read.
    Disk {
        /// Whether the disk is full.
        full: bool,
    },
    /// The target contains something that this tool must not overwrite.
    Target,
    /// Another run writes to the target.
    Busy,
    /// A source is not available, with the kind of failure.
    Source(SourceKind),
    /// A patch does not apply, or one of its probes failed.
    Patch,
    /// A project file changed after the plan was made.
    Changed,
    /// There is no engine, or a call to it failed for a reason other than [`ErrorKind::Build`].
    Engine,
    /// An instruction of a Dockerfile failed, or the engine rejects the Dockerfile.
    Build,
    /// Engines would make different images from a Dockerfile.
    Dockerfile,
    /// The engine's result cannot be made canonical.
    Capture,
    /// The image or its wheels have no code for the GPU, or cannot be searched for it.
    GpuCode,
    /// The code for other GPUs cannot be removed from the image.
    Slim,
    /// A Debian package cannot be fetched, with the kind of failure.
    Package(SourceKind),
    /// No mirror has a Debian package any more, or no mirror is known.
    Packages,
    /// The packages, or the system made from them, differ from the lock.
    Lock,
    /// A store, or another job of the same workflow, has a different result for the key of a step.
    StoreDiffers,
    /// The plan contains something that no plan should contain: a bug.
    Plan,
}

/// The failure of a RUN, and the attempt to keep the state before it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct KeptRun {
    error: EngineError,
    /// The command that shows the state, or why it was not kept.
    command: Result<String, String>,
}

impl ExecuteError {
    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the engine cannot give files to other users, because its user namespace lacks
    /// their IDs.
    pub fn lacks_user_ids(&self) -> bool {
        self.engine_error().is_some_and(EngineError::lacks_user_ids)
    }

    /// Returns whether an engine reports that a disk is full.
    pub fn is_engines_disk(&self) -> bool {
        matches!(self.engine_error(), Some(EngineError::DiskFull { .. }))
    }

    /// Returns how the connection to the engine was lost, if it was.
    pub fn lost_engine(&self) -> Option<&str> {
        match self.engine_error()? {
            EngineError::Lost { reason, .. } => Some(reason),
            _ => None,
        }
    }

    pub(crate) fn registry(what: String, source: RegistryError) -> Self {
        let kind = match source.kind() {
            RegistryKind::Integrity => ErrorKind::Integrity,
            other => ErrorKind::Registry(other),
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    /// Returns the error for a layer of a finished image that cannot be listed.
    pub(crate) fn layer(source: LayerError) -> Self {
        let (what, kind) = match source {
            LayerError::Tar(TarError { source: Some(source), .. })
                if source.raw_os_error().is_some() || is_registry_error(&source) =>
            {
                return Self::reading(source);
            }
            LayerError::New(SealError::Write(source)) | LayerError::Read(source) => {
                return Self::reading(source);
            }
            LayerError::Tar(_) | LayerError::New(_) => {
                ("a layer of the image is not a valid layer", ErrorKind::Base)
            }
            LayerError::Trailing | LayerError::DiffId { .. } => {
                ("a layer does not match the image's config", ErrorKind::Integrity)
            }
        };
        Self { what: what.to_owned(), kind, source: Some(Box::new(source)) }
    }

    /// Returns the error for a layer that cannot be read from the disk or from a registry.
    fn reading(source: io::Error) -> Self {
        Self::transferring("reading a layer failed".to_owned(), source)
    }

    fn transferring(what: String, source: io::Error) -> Self {
        match source.downcast() {
            Ok(source) => Self::registry(what, source),
            Err(source) => Self::disk(what, source),
        }
    }

    /// Returns the error for a layer that an engine requested from this tool.
    pub(crate) fn unread_layer(layer: &Digest, source: io::Error) -> Self {
        Self::transferring(format!("fetching layer `{layer}` failed"), source)
    }

    pub(crate) fn media(what: String, source: MediaError) -> Self {
        Self { what, kind: ErrorKind::Base, source: Some(Box::new(source)) }
    }

    pub(crate) fn derive(base: &BaseImage, source: DeriveError) -> Self {
        let what = format!("deriving an image from `{}` failed", base.image);
        Self { what, kind: ErrorKind::Base, source: Some(Box::new(source)) }
    }

    pub(crate) fn layout(what: String, source: LayoutError) -> Self {
        let kind = match &source {
            LayoutError::Write { source, .. } | LayoutError::Read { source, .. } => {
                if is_wrong_path(source) { ErrorKind::Target } else { disk_kind(source) }
            }
            LayoutError::Busy(_) => ErrorKind::Busy,
            LayoutError::NotALayout(_)
            | LayoutError::NotAFolder(_)
            | LayoutError::NotArtifacts(_)
            | LayoutError::NotAnArchive(_)
            | LayoutError::ForeignArchive(_)
            | LayoutError::NotABlob(_)
            | LayoutError::NotAnImage { .. }
            | LayoutError::Several { .. }
            | LayoutError::OtherArchive { .. }
            | LayoutError::TooMany { .. }
            | LayoutError::Link { .. }
            | LayoutError::Foreign { .. } => ErrorKind::Target,
            LayoutError::Integrity { .. } | LayoutError::Ambiguous { .. } => ErrorKind::Integrity,
            LayoutError::Count { .. }
            | LayoutError::Document { .. }
            | LayoutError::NoMarker(_)
            | LayoutError::Missing { .. } => ErrorKind::Target,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    /// Returns the error for an archive that bake has written.
    pub(crate) fn baked(archive: &Path, source: LayoutError) -> Self {
        let archive = archive.display();
        let is_incomplete =
            |kind| matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof);
        match source {
            LayoutError::Read { source, .. } if !is_incomplete(source.kind()) => {
                Self::disk(format!("reading `{archive}` failed"), source)
            }
            source => {
                let what = format!(
                    "`{archive}` is not a complete image; wait if bake is still running, otherwise remove it and run bake again"
                );
                Self { what, kind: ErrorKind::Target, source: Some(Box::new(source)) }
            }
        }
    }

    /// Returns the error for a build argument that bake may change.
    pub(crate) fn bake_argument(step: &str, argument: &str) -> Self {
        let what = format!(
            "step `{step}`: bake may change the build argument `{argument}`, because its value is not ASCII"
        );
        Self { what, kind: ErrorKind::Dockerfile, source: None }
    }

    pub(crate) fn wrong_kind(image: &ImageRef, pinned: plan::ManifestKind) -> Self {
        let found = match pinned {
            plan::ManifestKind::Index => plan::ManifestKind::Manifest,
            plan::ManifestKind::Manifest => plan::ManifestKind::Index,
        };
        let what = format!("`{image}` is pinned as an {pinned}, but is an {found}")
            .replace("an manifest", "a manifest");
        Self { what, kind: ErrorKind::Integrity, source: None }
    }

    pub(crate) fn index_in_index(image: &ImageRef, digest: &Digest) -> Self {
        let what = format!("`{image}` is an index whose entry `{digest}` is also an index");
        Self { what, kind: ErrorKind::Base, source: None }
    }

    pub(crate) fn disk(what: String, source: std::io::Error) -> Self {
        Self { what, kind: disk_kind(&source), source: Some(Box::new(source)) }
    }

    pub(crate) fn source(source: SourceError) -> Self {
        let kind = ErrorKind::Source(source.kind());
        Self { what: "cannot get a source".to_owned(), kind, source: Some(Box::new(source)) }
    }

    pub(crate) fn patch(id: &str, why: &str) -> Self {
        let what = format!("patch `{id}` does not apply: {why}");
        Self { what, kind: ErrorKind::Patch, source: None }
    }

    pub(crate) fn changed(path: &str) -> Self {
        let what = format!("`{path}` changed after the plan was made");
        Self { what, kind: ErrorKind::Changed, source: None }
    }

    pub(crate) fn engine(what: String, source: EngineError) -> Self {
        let kind = match &source {
            EngineError::Run(_) | EngineError::Dockerfile { .. } => ErrorKind::Build,
            EngineError::DiskFull { .. } => ErrorKind::Disk { full: true },
            _ => ErrorKind::Engine,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    /// Returns the error for a failed RUN whose previous state was to be kept. `command` shows the
    /// state; it is an error if the state could not be kept.
    pub(crate) fn kept(what: String, error: EngineError, command: Result<String, String>) -> Self {
        let kind = ErrorKind::Build;
        Self { what, kind, source: Some(Box::new(KeptRun { error, command })) }
    }

    pub(crate) fn dockerfile(path: &str, why: &engine::NotPortable) -> Self {
        let what = format!("`{path}`, {why}");
        Self { what, kind: ErrorKind::Dockerfile, source: None }
    }

    pub(crate) fn triggers(why: &engine::Outside) -> Self {
        let what = format!("an ONBUILD of the base cannot run here: {why}");
        Self { what, kind: ErrorKind::Base, source: None }
    }

    pub(crate) fn docker_format(key: &str) -> Self {
        let what = format!(
            "the base has `{key}` in its config, and layers in a format that docker manifests do \
             not support; podman would ignore `{key}`"
        );
        Self { what, kind: ErrorKind::Base, source: None }
    }

    pub(crate) fn no_engine(wants: &str) -> Self {
        let what = format!("{wants} needs an engine, but this run has none");
        Self { what, kind: ErrorKind::Engine, source: None }
    }

    pub(crate) fn capture(what: String) -> Self {
        Self { what, kind: ErrorKind::Capture, source: None }
    }

    pub(crate) fn gpu_code(what: String) -> Self {
        Self { what, kind: ErrorKind::GpuCode, source: None }
    }

    /// Returns the error for a wheel that cannot be read.
    pub(crate) fn wheel(name: &str, source: audit::ZipError) -> Self {
        let what = format!("cannot look for GPU code in `{name}`");
        Self { what, kind: ErrorKind::GpuCode, source: Some(Box::new(source)) }
    }

    /// Returns the error for an image that cannot be slimmed.
    pub(crate) fn slim(image: &str, source: slim::Refusal) -> Self {
        let what = format!("code for other GPUs cannot be removed from `{image}`");
        Self { what, kind: ErrorKind::Slim, source: Some(Box::new(source)) }
    }

    /// Returns the error for an image whose config or manifest prevents slimming.
    pub(crate) fn slim_config(image: &str, source: DeriveError) -> Self {
        let what = format!("code for other GPUs cannot be removed from `{image}`");
        Self { what, kind: ErrorKind::Base, source: Some(Box::new(source)) }
    }

    /// Returns the error for a layer of an image that cannot be slimmed.
    pub(crate) fn slim_layer(layer: &Digest, source: LayerError) -> Self {
        let what = format!("code for other GPUs cannot be removed from layer `{layer}`");
        let kind = match &source {
            LayerError::New(SealError::Write(error)) => disk_kind(error),
            LayerError::Read(error) if error.raw_os_error().is_some() => disk_kind(error),
            LayerError::DiffId { .. } => ErrorKind::Integrity,
            LayerError::Read(_)
            | LayerError::Tar(_)
            | LayerError::New(_)
            | LayerError::Trailing => ErrorKind::Slim,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    pub(crate) fn seal(source: seal::SealError) -> Self {
        let what = "cannot seal a layer from the engine".to_owned();
        Self { what, kind: ErrorKind::Capture, source: Some(Box::new(source)) }
    }

    pub(crate) fn own_files(source: seal::SealError) -> Self {
        let what = "cannot make the layer with the project's own files".to_owned();
        let kind = match &source {
            seal::SealError::Write(error) => disk_kind(error),
            _ => ErrorKind::Disk { full: false },
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    pub(crate) fn assemble(source: oci::AssembleError) -> Self {
        let what = "cannot assemble an image from the sealed layers".to_owned();
        Self { what, kind: ErrorKind::Capture, source: Some(Box::new(source)) }
    }

    pub(crate) fn packages(source: FetchError) -> Self {
        let what = "cannot get the packages of the lock".to_owned();
        let kind = match &source {
            FetchError::Fetch { source, .. } => ErrorKind::Package(source.kind()),
            FetchError::Size { .. } => ErrorKind::Lock,
            FetchError::Superseded { .. }
            | FetchError::NoMirror { .. }
            | FetchError::Url { .. } => ErrorKind::Packages,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    pub(crate) fn bootstrap(source: WriteRootError) -> Self {
        let what = "cannot make a base from the packages".to_owned();
        let kind = match &source {
            WriteRootError::Write(error) => disk_kind(error),
            WriteRootError::Package { .. } => ErrorKind::Lock,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    pub(crate) fn local_source(source: LocalSourceError) -> Self {
        let what = "cannot make a package source from the packages".to_owned();
        let kind = match &source {
            LocalSourceError::Disk { source, .. } => disk_kind(source),
            LocalSourceError::NotEmpty { .. } => ErrorKind::Plan,
            LocalSourceError::Open { .. }
            | LocalSourceError::Twice { .. }
            | LocalSourceError::Changed { .. }
            | LocalSourceError::Other { .. } => ErrorKind::Lock,
        };
        Self { what, kind, source: Some(Box::new(source)) }
    }

    /// Returns the details of a failed RUN, if that is the cause.
    pub fn run_failure(&self) -> Option<&RunFailure> {
        match self.engine_error()? {
            EngineError::Run(failure) => Some(failure),
            _ => None,
        }
    }

    fn engine_error(&self) -> Option<&EngineError> {
        let source = self.source.as_ref()?;
        match source.downcast_ref::<KeptRun>() {
            Some(kept) => Some(&kept.error),
            None => source.downcast_ref(),
        }
    }

    /// Returns the attempt to keep the state before a failed RUN, if there was one: the command
    /// that shows the state, or why it was not kept.
    pub fn kept_run(&self) -> Option<Result<&str, &str>> {
        let kept = self.source.as_ref()?.downcast_ref::<KeptRun>()?;
        Some(kept.command.as_deref().map_err(String::as_str))
    }

    pub(crate) fn store_differs(what: String) -> Self {
        Self { what, kind: ErrorKind::StoreDiffers, source: None }
    }

    pub(crate) fn plan(what: String) -> Self {
        Self { what, kind: ErrorKind::Plan, source: None }
    }
}

fn is_registry_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<RegistryError>())
}

fn disk_kind(error: &std::io::Error) -> ErrorKind {
    ErrorKind::Disk { full: error.kind() == std::io::ErrorKind::StorageFull }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn io(kind: io::ErrorKind) -> io::Error {
        kind.into()
    }

    const FULL: ErrorKind = ErrorKind::Disk { full: true };
    const DISK: ErrorKind = ErrorKind::Disk { full: false };

    #[test]
    fn an_output_that_cannot_be_written_is_wrong_busy_or_on_a_bad_disk() {
        use io::ErrorKind as Io;
        let path = || PathBuf::from("out");
        let write = |kind| LayoutError::Write { path: path(), source: io(kind) };
        let (digest, found) = (Digest::of(b"a"), Digest::of(b"b"));
        for (error, wanted) in [
            (write(Io::StorageFull), FULL),
            (write(Io::PermissionDenied), DISK),
            (write(Io::NotADirectory), ErrorKind::Target),
            (LayoutError::Read { path: path(), source: io(Io::NotFound) }, DISK),
            (LayoutError::Read { path: path(), source: io(Io::IsADirectory) }, ErrorKind::Target),
            (LayoutError::Busy(path()), ErrorKind::Busy),
            (LayoutError::NotALayout(path()), ErrorKind::Target),
            (LayoutError::Count { path: path(), count: 2 }, ErrorKind::Target),
            (LayoutError::Missing { path: path(), digest: found.clone() }, ErrorKind::Target),
            (LayoutError::Integrity { path: path(), digest, found }, ErrorKind::Integrity),
        ] {
            let cause = error.to_string();
            let error = ExecuteError::layout("writing failed".to_owned(), error);
            assert_eq!(error.kind(), wanted, "{cause}");
            assert_eq!(error.source().unwrap().to_string(), cause);
        }
        for (kind, wanted) in [
            (Io::InvalidData, ErrorKind::Target),
            (Io::UnexpectedEof, ErrorKind::Target),
            (Io::PermissionDenied, DISK),
            (Io::StorageFull, FULL),
        ] {
            let source = LayoutError::Read { path: path(), source: io(kind) };
            let error = ExecuteError::baked(&path(), source);
            assert_eq!(
                (error.kind(), error.to_string().starts_with("reading")),
                (wanted, wanted != ErrorKind::Target)
            );
        }
    }

    #[tokio::test]
    async fn a_layer_that_a_registry_did_not_send_is_no_damaged_layer() {
        let image: ImageRef = "127.0.0.1:9/a:1".parse().unwrap();
        let asked = crate::tests::support::client().manifest(&image).await;
        let wanted = ExecuteError::registry(String::new(), asked.unwrap_err()).kind();
        let asked = crate::tests::support::client().manifest(&image).await;
        let broken = io::Error::other(asked.unwrap_err());
        let tar = std::io::Read::chain([0; 9].as_slice(), Broken(Some(broken)));
        let error = crate::layers::list_layer(tar, None).unwrap_err();
        assert!(matches!(error, LayerError::Tar(_)), "{error:?}");
        assert_eq!(ExecuteError::layer(error).kind(), wanted);
    }

    /// A reader that fails.
    struct Broken(Option<io::Error>);

    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.take().map_or(Ok(0), Err)
        }
    }

    #[test]
    fn a_layer_is_damaged_or_the_disk_is() {
        let (wanted, found) = (Digest::of(b"a"), Digest::of(b"b"));
        let differs = || LayerError::DiffId { wanted: wanted.clone(), found: found.clone() };
        let full = || io(io::ErrorKind::StorageFull);
        let read = || LayerError::Read(io::Error::other("damaged"));
        let no_space = || LayerError::Read(io::Error::from_raw_os_error(28));
        let new = |error| LayerError::New(SealError::Write(error));
        assert_eq!(ExecuteError::layer(differs()).kind(), ErrorKind::Integrity);
        assert_eq!(ExecuteError::layer(LayerError::Trailing).kind(), ErrorKind::Integrity);
        assert_eq!(ExecuteError::layer(LayerError::Read(full())).kind(), FULL);
        assert_eq!(ExecuteError::layer(new(full())).kind(), FULL);
        let no_tar = crate::layers::list_layer([1; 512].as_slice(), None).unwrap_err();
        assert_eq!(ExecuteError::layer(no_tar).kind(), ErrorKind::Base);
        for (error, wanted) in [
            (differs(), ErrorKind::Integrity),
            (LayerError::Trailing, ErrorKind::Slim),
            (read(), ErrorKind::Slim),
            (no_space(), FULL),
            (new(full()), FULL),
            (new(io(io::ErrorKind::PermissionDenied)), DISK),
            (LayerError::New(SealError::Epoch(1)), ErrorKind::Slim),
        ] {
            let cause = error.to_string();
            assert_eq!(ExecuteError::slim_layer(&found, error).kind(), wanted, "{cause}");
        }
        assert_eq!(ExecuteError::own_files(SealError::Write(full())).kind(), FULL);
        assert_eq!(ExecuteError::own_files(SealError::Epoch(1)).kind(), DISK);
        assert_eq!(ExecuteError::bootstrap(WriteRootError::Write(full())).kind(), FULL);
    }

    #[test]
    fn a_lock_that_does_not_fit_is_not_a_bug_and_a_reused_folder_is() {
        let folder = PathBuf::from("packages");
        let disk =
            LocalSourceError::Disk { path: folder.clone(), source: io(io::ErrorKind::StorageFull) };
        for (error, wanted) in [
            (disk, FULL),
            (LocalSourceError::NotEmpty { folder }, ErrorKind::Plan),
            (LocalSourceError::Twice { file: "a.deb".to_owned() }, ErrorKind::Lock),
            (LocalSourceError::Changed { file: "a.deb".to_owned() }, ErrorKind::Lock),
        ] {
            let cause = error.to_string();
            assert_eq!(ExecuteError::local_source(error).kind(), wanted, "{cause}");
        }
    }

    #[test]
    fn an_image_of_the_wrong_kind_is_named_with_both_kinds() {
        let image: ImageRef = "registry.invalid/base:1".parse().unwrap();
        for (pinned, wanted) in [
            (plan::ManifestKind::Index, "is pinned as an index, but is a manifest"),
            (plan::ManifestKind::Manifest, "is pinned as a manifest, but is an index"),
        ] {
            let error = ExecuteError::wrong_kind(&image, pinned);
            assert_eq!(error.to_string(), format!("`{image}` {wanted}"));
            assert_eq!(error.kind(), ErrorKind::Integrity);
        }
    }
}
