//! Where images go: the syntax of `--output`, and the messages about outputs.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use executor::Output;
use failure::{Failure, Kind};
use names::{EngineKind, ImageRef};
use plan::Plan;
use record::OutputOutcome;
use text::{counted, size};

use crate::image::name_in_engine;

/// Returns a hint about the next steps with a finished image, depending on where it is.
pub fn next(plan: &Plan, output: &Output) -> String {
    let track = &plan.track;
    match output {
        Output::Layout { path, with_layers: true } => {
            let path = path.display();
            let load = match options(plan) {
                Some(options) => {
                    format!("`build-pipeline --track {track}{options} --load --engine docker`")
                }
                None => "the same command with `--load --engine docker`".to_owned(),
            };
            format!(
                "`build-pipeline push {path} HOST/NAME:TAG` pushes it; `podman pull oci:{path}` loads it into podman, and {load} into docker"
            )
        }
        Output::Layout { with_layers: false, .. } => {
            let load = match options(plan) {
                Some(options) => format!("`build-pipeline --track {track}{options} --load`"),
                None => "the same command with `--load`".to_owned(),
            };
            let image = image_option(plan, &name_in_engine(&plan.name));
            format!(
                "{load} loads it into {}, and `build-pipeline run {track}{image}` starts it; `--push HOST/NAME:TAG` pushes it",
                EngineKind::list("or", |kind| kind.to_string())
            )
        }
        Output::Archive { path } => {
            let path = path.display();
            format!(
                "{} loads it; `build-pipeline push {path} HOST/NAME:TAG` pushes it",
                EngineKind::list("or", |kind| format!("`{kind} load -i {path}`"))
            )
        }
        Output::Registry { reference } => format!(
            "`build-pipeline verify {reference}` checks it; `build-pipeline tag {reference} TAG` gives it another tag"
        ),
        Output::Engine { reference } => {
            let image = image_option(plan, &reference.to_string());
            format!(
                "`build-pipeline run {track}{image}` starts it; `build-pipeline smoke {track}{image}` tests it"
            )
        }
    }
}

/// Returns the options of a plan besides its track, or `None` if a pin or `SOURCE_DATE_EPOCH` was
/// set.
pub fn options(plan: &Plan) -> Option<String> {
    let option = |(name, value): (&String, &String)| {
        let is_option = ["variant", "gpu", "spoof", "slim"].contains(&name.as_str());
        is_option.then(|| format!(" --{name}={value}"))
    };
    plan.overrides.iter().map(option).collect()
}

/// Returns the options that make `run` use an image in an engine.
fn image_option(plan: &Plan, reference: &str) -> String {
    let gpu = plan.overrides.get("gpu").map(String::as_str);
    if reference != name_in_engine(&plan::image_name(&plan.track, None, gpu)) {
        return format!(" --image {reference}");
    }
    gpu.map(|gpu| format!(" --gpu {gpu}")).unwrap_or_default()
}

/// Returns the layouts and archives that may contain layers of an image: these, and the folders in
/// `dist`, which has the images without a given output. Images often have the same base.
pub fn nearby<'a>(dist: &Path, named: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = named.into_iter().map(Path::to_owned).collect();
    let known: Vec<_> = all.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let entries = std::fs::read_dir(dist).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    all.extend(folders.filter(|path| path.canonicalize().is_ok_and(|real| !known.contains(&real))));
    all.sort();
    all
}

/// Returns the path of a layout or archive.
pub fn path_of(output: &Output) -> Option<&Path> {
    match output {
        Output::Layout { path, .. } | Output::Archive { path } => Some(path),
        Output::Registry { .. } | Output::Engine { .. } => None,
    }
}

/// Refuses to publish a rehearsed image, or to push to a reference with a digest.
///
/// # Errors
/// The image must not be pushed to this reference.
pub fn check_push(is_rehearsal: bool, reference: &ImageRef) -> Result<(), Failure> {
    if reference.digest.is_some() {
        return Err(Failure::new(
            Kind::Input,
            format!("`{reference}` contains a digest, but a push cannot choose the digest"),
        )
        .hint("leave out `@sha256:…`; a name without a tag pushes the image by its digest alone"));
    }
    if is_rehearsal && !is_loopback(reference.repository.registry()) {
        return Err(Failure::new(
            Kind::Input,
            format!(
                "a rehearsed image cannot be pushed to `{reference}`: it is based on a stand-in"
            ),
        )
        .hint("push it to a registry on 127.0.0.1, or build without `--rehearse`"));
    }
    Ok(())
}

/// Returns whether a registry is on this machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The output that loads the image into the engine, under its default name.
pub const ENGINE: &str = "engine";

/// Parses the value of `--push`.
///
/// # Errors
/// `text` is not a valid reference.
pub fn parse_push(text: &str) -> Result<Output, Failure> {
    if text.is_empty() {
        let what = "`--push` does not specify a location";
        return Err(Failure::new(Kind::Input, what).hint("write `--push HOST/NAME:TAG`"));
    }
    registry(text, &format!("--push {text}"))
}

/// Parses the reference of an image on a registry. `shown` is the option that contains it.
fn registry(text: &str, shown: &str) -> Result<Output, Failure> {
    let reference = text.parse().map_err(|error| {
        Failure::caused(Kind::Input, format!("`{shown}` does not name an image"), &error).hint(
            "write `HOST/NAME:TAG`, with the registry and in lower case before the tag, for example `127.0.0.1:5000/official:latest`",
        )
    })?;
    Ok(Output::Registry { reference })
}

/// Parses `oci:DIR`, `oci-archive:FILE`, `registry:REF`, `engine` or `engine:NAME`. `name` is the
/// name of the image, and `with_layers` says whether a layout contains all layers.
///
/// # Errors
/// `text` is not a valid output.
pub fn parse_output(text: &str, name: &str, with_layers: bool) -> Result<Output, Failure> {
    let shown = format!("--output {text}");
    let form = "use `oci:DIR`, `oci-archive:FILE`, `registry:HOST/NAME:TAG`, `engine` or `engine:HOST/NAME:TAG`";
    let bad = |what: String| Failure::new(Kind::Input, what).hint(form);
    let engine = |full_name: &str| -> Result<Output, Failure> {
        let reference: ImageRef = full_name.parse().map_err(|e| {
            Failure::caused(Kind::Input, format!("`{shown}` does not name an image"), &e)
                .hint("write the full name: `localhost/NAME:TAG`")
        })?;
        match (&reference.tag, &reference.digest) {
            (Some(_), None) => Ok(Output::Engine { reference }),
            _ => Err(bad(format!("`{shown}` must contain a tag and no digest"))),
        }
    };
    match text.split_once(':') {
        None if text == ENGINE => engine(&name_in_engine(name)),
        Some((ENGINE, given)) if !given.is_empty() => engine(given),
        Some((_, "")) => Err(bad(format!("`{shown}` does not specify a location"))),
        Some(("oci", path)) => Ok(Output::Layout { path: Path::new(path).to_owned(), with_layers }),
        Some(("oci-archive", "-")) => {
            Err(Failure::new(Kind::Input, "an archive cannot be written to standard output")
                .hint("write it to a file: `--output oci-archive:FILE`"))
        }
        Some(("oci-archive", path)) => Ok(Output::Archive { path: Path::new(path).to_owned() }),
        Some(("registry", reference)) => registry(reference, &shown),
        _ => Err(bad(format!("`{shown}` does not start with a known kind of output"))),
    }
}

/// Refuses an output that is also an input, under whatever name: it would be replaced while it is
/// read.
///
/// # Errors
/// The output is one of the inputs.
pub fn check_not_input<'a>(
    output: &Output,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let Some(path) = path_of(output) else { return Ok(()) };
    // Two paths may lead to the same folder or file.
    let identity = |of: &Path| std::fs::metadata(of).ok().map(|found| (found.dev(), found.ino()));
    let Some(at_output) = identity(path) else { return Ok(()) };
    let input = inputs.into_iter().find(|input| identity(input) == Some(at_output));
    let Some(input) = input else { return Ok(()) };
    let what =
        format!("`{output}` is the input `{}` itself, and would be replaced", input.display());
    Err(Failure::new(Kind::Input, what).hint("choose another output with `--output`"))
}

/// Returns an output as the option that the user most likely typed.
fn option(output: &Output) -> String {
    match output {
        Output::Registry { reference } => format!("--push {reference}"),
        other => format!("--output {other}"),
    }
}

/// Refuses an output on disk at or below a symbolic link whose target does not exist.
///
/// # Errors
/// There is such a link.
pub fn check_dangling(output: &Output) -> Result<(), Failure> {
    let (Output::Layout { path, .. } | Output::Archive { path }) = output else { return Ok(()) };
    let is_dangling = |above: &&Path| above.is_symlink() && !above.exists();
    let Some(link) = path.ancestors().find(is_dangling) else { return Ok(()) };
    let what = format!("`{}` is a symbolic link, and its target does not exist", link.display());
    Err(Failure::new(Kind::Input, what)
        .hint("remove the link, create its target, or choose another output with `--output`"))
}

/// Returns an output with an absolute path, which is also right in another folder.
pub fn absolute(output: Output) -> Output {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    match output {
        Output::Layout { path, with_layers } => {
            Output::Layout { path: absolute(path), with_layers }
        }
        Output::Archive { path } => Output::Archive { path: absolute(path) },
        other => other,
    }
}

/// Returns what was transferred to an output.
pub(crate) fn moved(outcome: &OutputOutcome) -> String {
    let bytes = size(outcome.layer_bytes_copied);
    match (outcome.layers_copied, outcome.layers_mounted) {
        (0, 0) => "no layers transferred".to_owned(),
        (0, mounted) => format!("{} mounted, none transferred", counted(mounted, "layer")),
        (copied, 0) => format!("{} copied, {bytes}", counted(copied, "layer")),
        (copied, mounted) => {
            format!("{} mounted, {copied} copied, {bytes}", counted(mounted, "layer"))
        }
    }
}

/// Returns the image reference with the digest, if the output is on a registry.
pub(crate) fn pushed_reference(output: &str, digest: &names::Digest) -> Option<ImageRef> {
    let reference: ImageRef = output.strip_prefix("registry:")?.parse().ok()?;
    Some(reference.repository.at(digest))
}

/// Refuses an output that several images would be written to. A repository can hold any number of
/// untagged images.
///
/// # Errors
/// Two images have the same output.
pub fn check_places(outputs: &[Vec<Output>]) -> Result<(), Failure> {
    let is_single = |output: &&Output| !matches!(output, Output::Registry { reference } if reference.tag.is_none());
    for (number, of_one) in outputs.iter().enumerate() {
        let before = || outputs[..number].iter().flatten();
        let shared =
            of_one.iter().filter(is_single).find(|one| before().any(|other| other == *one));
        if let Some(output) = shared {
            let what =
                format!("`{}` is a single place, but there are several images", option(output));
            return Err(Failure::new(Kind::Input, what).hint(
                "write `{track}` and `{gpu}` into the name of the location, build one image at a time, or leave out `--output`: each image then goes to its own folder in `dist`",
            ));
        }
    }
    Ok(())
}
