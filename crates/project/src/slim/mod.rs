//! Writes an image without code for other GPUs.

mod report;

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use audit::Layer;
use executor::{LayerError, Output, read_layer, visit_layer};
use failure::{Failure, Kind};
use names::{Digest, GfxVersion, GpuTarget, Hasher, ImageEdit, Platform};
use oci::archive::{self, ArchiveWriter, Content};
use oci::client::RegistryClient;
use oci::media::{Descriptor, Document};
use oci::{Base, DerivedImage, LayoutError, NewLayer, layout, replace_layers};
use plan::labels;
use seal::SealedLayer;
use slim::{Refusal, Slimmer, Survey};
use tempfile::{NamedTempFile, TempDir};

pub use self::report::SlimmedImage;
use crate::environment::work_folder;
use crate::image::{Image, SPACE, machine_failure};
use crate::outputs::check_not_input;

/// The name of the image in a layout or archive.
const NAME: &str = "slim";

/// What to slim, and how.
#[derive(Debug)]
pub struct SlimRequest<'a> {
    /// The image, as it was named.
    pub input: &'a str,
    /// The image.
    pub image: &'a Image,
    /// The GPU version that the image makes ROCm see.
    pub forced: Option<GfxVersion>,
    /// The GPUs whose code is kept.
    pub gpus: &'a [GpuTarget],
    /// The layout or the archive to write.
    pub output: &'a Output,
}

/// Reads an image twice, and writes it without code for other GPUs. `tell` gets progress messages.
///
/// # Errors
/// The image has no code for one of the GPUs, cannot be read, or cannot be written. An existing
/// image at the output location is then kept.
pub async fn slim_image(
    request: &SlimRequest<'_>,
    client: &RegistryClient,
    tell: &dyn Fn(&str),
) -> Result<SlimmedImage, Failure> {
    if let Some(path) = request.image.path() {
        check_not_input(request.output, [path])?;
    }
    let folder = folder_of(request.output)?;
    let mut slimmer = survey(request, client, tell).await?;
    let image = request.image;
    let blobs = Blobs::begin(folder)?;
    let mut new = Vec::new();
    for (number, layer) in image.layers.iter().enumerate() {
        tell(&format!("writing layer {} of {}", number + 1, image.layers.len()));
        if slimmer.is_affected(number) {
            let file = blobs.begin_file()?;
            let rewritten = rewrite(image, number, client, slimmer, file.reopen()).await;
            let (again, sealed) =
                rewritten.map_err(|failure| of_output(failure, request.output))?;
            slimmer = again;
            blobs.keep(file, &sealed.digest)?;
            let SealedLayer { diff_id, digest, size, .. } = sealed;
            let created_by = String::new();
            new.push(Some(NewLayer { diff_id, digest, size, created_by }));
        } else {
            slimmer.skip(number);
            if !blobs.has(layer) {
                let file = blobs.begin_file()?;
                copy(image, number, client, file.reopen()).await?;
                blobs.keep(file, &layer.digest)?;
            }
            new.push(None);
        }
    }
    let made = assembled(request, &new)?;
    let written = tokio::task::block_in_place(|| match request.output {
        Output::Layout { path, .. } => layout::write(path, &made, NAME),
        Output::Archive { path } => archive(path, &made, &blobs),
        Output::Registry { .. } | Output::Engine { .. } => Ok(()),
    });
    written.map_err(|error| write_failure(request.output, &error))?;
    let report = slimmer.finish();
    Ok(SlimmedImage {
        schema: 1,
        input: request.input.to_owned(),
        output: request.output.to_string(),
        digest: made.manifest_digest.to_string(),
        contract: slim::CONTRACT,
        gpus: request.gpus.iter().map(ToString::to_string).collect(),
        layers_changed: new.iter().flatten().count(),
        layer_bytes_before: image.layers.iter().map(|layer| layer.size).sum(),
        layer_bytes_after: made.layers.iter().map(|layer| layer.size).sum(),
        changed: report.changed,
        whole: report.whole,
    })
}

/// Returns the folder for the new layers: the layout's folder of blobs. `None` means a temporary
/// folder.
fn folder_of(output: &Output) -> Result<Option<PathBuf>, Failure> {
    match output {
        Output::Layout { path, .. } => {
            layout::check_target(path, NAME).map_err(|error| write_failure(output, &error))?;
            Ok(Some(layout::blobs_folder(path)))
        }
        Output::Archive { path } => {
            archive::check_target(path, Content::Image)
                .map_err(|error| write_failure(output, &error))?;
            Ok(None)
        }
        Output::Registry { .. } | Output::Engine { .. } => {
            let what = format!("`slim` cannot write to `{output}`");
            Err(Failure::new(Kind::Input, what).hint(
                "use `--output oci:DIR` or `--output oci-archive:FILE`, and copy the image from there: `skopeo copy oci:DIR docker://HOST/NAME:TAG`, `podman load -i FILE`",
            ))
        }
    }
}

/// Names the output in a hint if a layer cannot be written.
fn of_output(failure: Failure, output: &Output) -> Failure {
    match failure.kind {
        Kind::Machine => failure.hint(format!("the new layer is for `{output}`")),
        _ => failure,
    }
}

fn write_failure(output: &Output, error: &LayoutError) -> Failure {
    let what = format!("writing `{output}` failed");
    match error {
        LayoutError::Write { source, .. } if !oci::files::is_wrong_path(source) => {
            Failure::caused(Kind::Machine, what, error).hint(SPACE)
        }
        _ => Failure::caused(Kind::Input, what, error)
            .hint("specify a new or empty folder or file, or one that build-pipeline wrote"),
    }
}

/// Reads all layers, and checks that something remains for each GPU.
async fn survey(
    request: &SlimRequest<'_>,
    client: &RegistryClient,
    tell: &dyn Fn(&str),
) -> Result<Slimmer, Failure> {
    let image = request.image;
    image.check_rehearsal("rehearse it again with `--with-layers`")?;
    let mut survey = Survey::new(request.gpus.to_vec());
    for number in 0..image.layers.len() {
        tell(&format!("reading layer {} of {}", number + 1, image.layers.len()));
        let read = |reader: Box<dyn Read + Send>, diff_id: Option<Digest>| {
            let mut layer = Layer::new(work_folder());
            visit_layer(reader, diff_id.as_ref(), &mut layer)?;
            Ok(layer)
        };
        let layer = image.read_layer(number, client, read).await?;
        survey.add(layer.ok_or_else(|| missing(image, number))?);
    }
    let (found, slimmer) = survey.finish(work_folder());
    slim::check(&found, request.gpus, &[], request.forced)
        .map_err(|refusal| refused(&image.name, &refusal))?;
    Ok(slimmer)
}

fn refused(image: &str, refusal: &Refusal) -> Failure {
    let kind = match refusal {
        Refusal::Unreadable(_) => Kind::Integrity,
        _ => Kind::Failed,
    };
    let told = Failure::caused(kind, format!("cannot slim `{image}`"), refusal);
    match refusal {
        Refusal::Unreadable(_) => told.hint("the files are damaged; build or copy the image again"),
        Refusal::NoCode => told.hint("there is nothing to remove; use the image as it is"),
        Refusal::Imitates(imitated) => told.hint(format!("keep that code: `--gpu {imitated}`")),
        Refusal::Lacks { .. } => {
            told.hint("specify the GPUs whose code should be kept: `--gpu gfx1151,gfx1100`")
        }
    }
}

fn missing(image: &Image, number: usize) -> Failure {
    let what = format!("`{}` does not contain its layer {}", image.name, number + 1);
    Failure::new(Kind::Input, what)
        .hint("use the image in its registry, or build the image with `--with-layers`")
}

/// Writes a layer without code for other GPUs.
async fn rewrite(
    image: &Image,
    number: usize,
    client: &RegistryClient,
    mut slimmer: Slimmer,
    file: io::Result<File>,
) -> Result<(Slimmer, SealedLayer), Failure> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let read = move |reader: Box<dyn Read + Send>, diff_id: Option<Digest>| {
        let out = io::BufWriter::new(file.map_err(LayerError::Read)?);
        let sealed = read_layer(reader, diff_id.as_ref(), |tar| {
            Ok(slimmer.layer(number, tar, threads, out)?)
        })?;
        Ok((slimmer, sealed))
    };
    let done = image.read_layer(number, client, read).await?;
    done.ok_or_else(|| missing(image, number))
}

/// Copies a layer as it is.
async fn copy(
    image: &Image,
    number: usize,
    client: &RegistryClient,
    file: io::Result<File>,
) -> Result<(), Failure> {
    let read = move |mut reader: Box<dyn Read + Send>, _: Option<Digest>| {
        let mut file = file.map_err(LayerError::Read)?;
        io::copy(&mut reader, &mut file).map(drop).map_err(LayerError::Read)
    };
    let done = image.read_layer(number, client, read).await?;
    done.ok_or_else(|| missing(image, number))
}

/// Returns the config and the manifest for the new layers.
fn assembled(request: &SlimRequest<'_>, new: &[Option<NewLayer>]) -> Result<DerivedImage, Failure> {
    let image = request.image;
    let what = || format!("cannot slim `{}`", image.name);
    let base = match Document::parse(&image.manifest, None) {
        Ok(Document::Manifest(base)) => base,
        Ok(Document::Index(_)) => return Err(Failure::new(Kind::Input, what())),
        Err(error) => return Err(Failure::caused(Kind::Input, what(), &error)),
    };
    let gpus: Vec<&str> = request.gpus.iter().map(GpuTarget::as_str).collect();
    let labels = [
        (labels::SLIM, format!("{} {}", slim::CONTRACT, gpus.join(" "))),
        (labels::SLIM_BASE, image.manifest_digest.to_string()),
        (labels::GPU_TARGETS, gpus.join(" ")),
    ];
    let edit = ImageEdit {
        // The image's plan does not produce the new image.
        reset: vec![labels::PLAN_DIGEST.to_owned()],
        labels: labels.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
        ..ImageEdit::default()
    };
    let base = Base { manifest: &base, config: &image.config };
    replace_layers(base, &Platform::linux_amd64(), new, &edit)
        .map_err(|error| Failure::caused(Kind::Input, what(), &error))
}

/// Writes an archive with the layers of a folder.
fn archive(path: &Path, made: &DerivedImage, blobs: &Blobs) -> Result<(), LayoutError> {
    let mut archive = ArchiveWriter::begin(path, made, NAME)?;
    let mut written: Vec<&Digest> = Vec::new();
    let mut piece = vec![0; 1 << 20];
    for layer in &made.layers {
        // A manifest may list a layer twice, but its blob is stored once.
        if written.contains(&&layer.digest) {
            continue;
        }
        written.push(&layer.digest);
        let file = blobs.path(&layer.digest);
        let failed = |source| LayoutError::Read { path: file.clone(), source };
        let mut bytes = File::open(&file).map_err(failed)?;
        archive.begin_layer(layer)?;
        loop {
            match bytes.read(&mut piece).map_err(failed)? {
                0 => break,
                count => archive.write(&piece[..count])?,
            }
        }
        archive.end_layer(layer)?;
    }
    archive.finish()
}

/// A folder for layers.
struct Blobs {
    folder: PathBuf,
    /// Removes the folder at the end, if it is temporary.
    _temporary: Option<TempDir>,
}

/// Creates a temporary folder for an image. It is removed when the value is dropped.
///
/// # Errors
/// The folder cannot be created.
pub fn temporary_folder() -> Result<TempDir, Failure> {
    let work = work_folder().unwrap_or_else(std::env::temp_dir);
    let made = std::fs::create_dir_all(&work).and_then(|()| tempfile::tempdir_in(&work));
    made.map_err(|error| machine_failure(format!("writing `{}` failed", work.display()), &error))
}

impl Blobs {
    fn begin(folder: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
            return Ok(Self { folder, _temporary: None });
        }
        let temporary = temporary_folder()?;
        Ok(Self { folder: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    /// Returns whether a layer is here, with the right bytes.
    fn has(&self, layer: &Descriptor) -> bool {
        let hash = || -> io::Result<bool> {
            let mut file = File::open(self.path(&layer.digest))?;
            if file.metadata()?.len() != layer.size {
                return Ok(false);
            }
            let mut hasher = Hasher::new();
            let mut piece = vec![0; 1 << 20];
            loop {
                match file.read(&mut piece)? {
                    0 => return Ok(Digest::from_sha256(hasher.finish()) == layer.digest),
                    count => hasher.update(&piece[..count]),
                }
            }
        };
        hash().unwrap_or(false)
    }

    fn begin_file(&self) -> Result<NamedTempFile, Failure> {
        NamedTempFile::new_in(&self.folder).map_err(|error| unwritable(&self.folder, &error))
    }

    fn keep(&self, file: NamedTempFile, digest: &Digest) -> Result<(), Failure> {
        let path = self.path(digest);
        let mode = std::fs::Permissions::from_mode(0o644);
        let kept = file.as_file().set_permissions(mode).and_then(|()| {
            file.as_file().sync_all()?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        });
        kept.map_err(|error| unwritable(&path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let what = format!("writing `{}` failed", path.display());
    Failure::caused(Kind::of_write(error), what, error).hint(SPACE)
}
