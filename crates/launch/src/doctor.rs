//! Checks whether the machine can run the images of some tracks, and a model.

use std::path::Path;

use failure::{Failure, Kind};
use host::model::Model;
use host::report::DoctorReport;
use host::rules::{self, Context, Image, ModelUse};
use names::TrackName;
use pins::{Pins, Tracks};
use plan::labels;
use project::{request, state};
use record::Status;

use crate::machine::{self, Data};
use crate::products;

/// What to check the machine for. Paths are relative to `here`.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The folder that paths are relative to.
    pub here: &'a Path,
    /// The GPU target, or `None` for the project's.
    pub gpu: Option<&'a str>,
    /// The tracks to run; if empty, all tracks that need no engine.
    pub tracks: &'a [String],
    /// The root of the machine; if `None`, this machine.
    pub host_root: Option<&'a Path>,
    /// A model to load into the GPU's memory.
    pub model: Option<&'a Path>,
    /// The length of the model's context in tokens.
    pub context: Option<u64>,
}

/// Checks the machine. `warn` gets the name and the message of a warning about each file that
/// cannot be read.
///
/// # Errors
/// A data file or the model cannot be read, or there is no such track or target.
pub fn check(
    data: &Data,
    asked: Asked<'_>,
    warn: impl Fn(&str, &str),
) -> Result<DoctorReport, Failure> {
    let (gpus, tracks) = (data.gpus()?, data.tracks()?);
    let wanted = match asked.gpu {
        Some(text) => products::known(text, &gpus)?,
        None => tracks.gpu.clone(),
    };
    let images = with_code(images(asked.tracks, &tracks, &data.pins()?)?, data.root(), warn);
    let compat = data.compat()?;
    let root = machine::root(asked.here, asked.host_root)?;
    let model = asked.model.map(|path| model(&asked.here.join(path))).transpose()?;
    let mut machine = machine::look(&root);
    if root == Path::new("/") {
        machine::ask_engines(&mut machine)?;
    }
    let (_, today) = project::clock::today()?;
    let checks = rules::check(&Context {
        machine: &machine,
        compat: &compat,
        gpus: &gpus,
        wanted: &wanted,
        images: &images,
        model: model.as_ref().map(|model| ModelUse { model, context: asked.context }),
        today: &today,
        is_asked: !asked.tracks.is_empty(),
    });
    Ok(DoctorReport::new(&machine, &wanted, &images, checks))
}

/// Reads the header of a model.
fn model(path: &Path) -> Result<Model, Failure> {
    host::model::read(path).map_err(|error| {
        Failure::from_chain(Kind::Input, &error).hint(
            "`--model` takes a .gguf file, or a folder with config.json and .safetensors files",
        )
    })
}

/// Returns the images of the requested tracks, or of all tracks that need no engine.
///
/// # Errors
/// There is no such track.
fn images(asked: &[String], tracks: &Tracks, pins: &Pins) -> Result<Vec<Image>, Failure> {
    let asked =
        asked.iter().map(|name| request::track(name, tracks)).collect::<Result<Vec<_>, _>>()?;
    let is_asked = |name: &TrackName| {
        if asked.is_empty() { !tracks.needs_engine(name) } else { asked.contains(name) }
    };
    let image = |name: &TrackName| {
        let chain = tracks.chain(name);
        let base = chain.last().and_then(|(_, lowest)| lowest.base_pin());
        let pin = base.and_then(|base| pins.images.get(base));
        Image {
            track: name.clone(),
            needs_engine: tracks.needs_engine(name),
            disk: chain.first().and_then(|(_, track)| track.disk.clone()),
            pin: base.map(ToString::to_string),
            rocm: pin.and_then(|pin| pin.rocm.clone()),
            code: None,
        }
    };
    let all = tracks.in_order().into_iter().map(|(name, _)| name);
    Ok(all.filter(|name| is_asked(name)).map(image).collect())
}

/// Adds the GPUs for which the last build of each track has code. Only builds of the project in
/// `root` count.
fn with_code(mut images: Vec<Image>, root: &Path, warn: impl Fn(&str, &str)) -> Vec<Image> {
    // Without a state folder, nothing was built.
    let records = state::read_records_of(root, warn).unwrap_or_default();
    for record in records.iter().filter(|record| record.status == Status::Succeeded) {
        let all = record.plan.final_labels();
        let track = all.get(labels::TRACK).map(String::as_str);
        if let Some(image) = images.iter_mut().find(|image| Some(image.track.as_str()) == track) {
            let code = all.get(labels::GPU_TARGETS);
            image.code = code.map(|code| code.split(' ').map(str::to_owned).collect());
        }
    }
    images
}
