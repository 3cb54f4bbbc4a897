//! `build-pipeline doctor`: finds problems on this machine and shows how to fix them.

use std::path::Path;

use failure::{Failure, Kind};
use host::Snapshot;
use host::model::Model;
use host::rules::{self, Check, Context, Image, ModelUse, Outcome, Severity};
use launch::machine;
use names::TrackName;
use pins::{Pins, Tracks};
use plan::labels;
use project::{request, state};
use record::Status;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Doctor, Format};
use crate::global;
use terminal::output;
use text::{Page, Tone};

/// The output of `doctor --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoctorReport {
    /// The version of this JSON format.
    schema: u32,
    /// The machine.
    machine: Machine,
    /// The GPU target of the images.
    wanted: String,
    /// The images that should run here.
    images: Vec<PinnedImage>,
    /// The worst severity, if there are any findings.
    worst: Option<Severity>,
    /// All checks, in a fixed order.
    checks: Vec<Check>,
}

/// A summary of the machine.
#[derive(Debug, Serialize, JsonSchema)]
struct Machine {
    /// The operating system.
    system: Option<String>,
    /// The kernel's release.
    kernel: Option<String>,
    /// The total memory in bytes.
    memory: Option<u64>,
    /// The GPUs.
    gpus: Vec<MachineGpu>,
    /// The container engines.
    engines: Vec<MachineEngine>,
}

/// A GPU of the machine.
#[derive(Debug, Serialize, JsonSchema)]
struct MachineGpu {
    /// Its target, if the compute driver names one.
    target: Option<String>,
    /// Its PCI address.
    address: Option<String>,
    /// Its driver.
    driver: Option<String>,
    /// The size of its dedicated or reserved memory, in bytes.
    vram: Option<u64>,
    /// The bytes of host memory that it may use.
    gtt: Option<u64>,
}

/// A container engine of the machine.
#[derive(Debug, Serialize, JsonSchema)]
struct MachineEngine {
    /// Its name, such as `podman`.
    kind: &'static str,
    /// Its socket.
    socket: Option<String>,
    /// Whether it is rootless.
    rootless: bool,
    /// Its version, if it answered.
    version: Option<String>,
    /// The OCI runtime.
    runtime: Option<String>,
    /// What builds Dockerfiles, if the engine answered, such as `buildkit`.
    builder: Option<String>,
    /// The release of the kernel that its containers use, if the engine reports it.
    kernel: Option<String>,
}

/// An image that should run on the machine.
#[derive(Debug, Serialize, JsonSchema)]
struct PinnedImage {
    /// Its track.
    track: String,
    /// The pin that it is based on.
    pin: Option<String>,
    /// Its ROCm version.
    rocm: Option<String>,
}

/// Runs the checks and prints the report.
pub(crate) fn run(args: &Doctor) -> Result<(), Failure> {
    let data = global::data()?;
    let (gpus, tracks) = (data.gpus()?, data.tracks()?);
    let wanted = match &args.gpu {
        Some(text) => machine::known_gpu(text, &gpus)?,
        None => tracks.gpu.clone(),
    };
    let images = with_code(images(&args.tracks, &tracks, &data.pins()?)?, data.root());
    let compat = data.compat()?;
    let root = machine::root(&global::working_folder()?, args.host_root.as_deref())?;
    let model = args.model.as_deref().map(|path| model(&global::working_folder()?.join(path)));
    let model = model.transpose()?;
    let mut machine = machine::look(&root);
    if root == std::path::Path::new("/") {
        machine::ask_engines(&mut machine)?;
    }
    let checks = rules::check(&Context {
        machine: &machine,
        compat: &compat,
        gpus: &gpus,
        wanted: &wanted,
        images: &images,
        model: model.as_ref().map(|model| ModelUse { model, context: args.context }),
        is_asked: !args.tracks.is_empty(),
    });
    let worst = rules::worst(&checks);
    match args.format {
        Format::Text => output::page(&text(&machine, &images, &checks))?,
        Format::Json => output::json(&DoctorReport {
            schema: 1,
            machine: summary(&machine),
            wanted: wanted.to_string(),
            images: images.iter().map(pinned).collect(),
            worst,
            checks,
        })?,
    }
    match worst {
        None | Some(Severity::Note) => Ok(()),
        Some(Severity::Warning) => Err(Failure::told(Kind::Failed)),
        Some(Severity::Error) => Err(Failure::told(Kind::Machine)),
    }
}

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
fn with_code(mut images: Vec<Image>, root: &Path) -> Vec<Image> {
    // Without a state folder, nothing was built.
    let records = state::read_records_of(root, output::warn).unwrap_or_default();
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

fn text(machine: &Snapshot, images: &[Image], checks: &[Check]) -> Page {
    let mut page = Page::default();
    let unknown = || "unknown".to_owned();
    page.line(format_args!(
        "machine  {}, kernel {}",
        machine.kernel.system.clone().unwrap_or_else(unknown),
        machine.kernel.release.clone().unwrap_or_else(unknown)
    ));
    let named: Vec<String> = images
        .iter()
        .map(|image| match &image.rocm {
            Some(rocm) => format!("{} (ROCm {rocm})", image.track),
            None => image.track.to_string(),
        })
        .collect();
    page.line(format_args!("images   {}\n", named.join(", ")));
    let width = checks.iter().map(|check| check.title.len()).max().unwrap_or_default();
    for Check { title, result, seen, findings, .. } in checks {
        match (result, findings.iter().map(|finding| finding.severity).max()) {
            (_, Some(severity)) => page.column(name(severity), tone(severity), 8),
            (Outcome::Skipped, None) => page.add(format_args!("{:8}", "-")),
            (Outcome::Ok | Outcome::Found, None) => page.column("ok", Tone::Good, 8),
        }
        page.line(format_args!(" {title:width$}  {seen}"));
    }
    let mut found: Vec<_> = checks
        .iter()
        .flat_map(|check| check.findings.iter().map(move |finding| (check.rule, finding)))
        .collect();
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    for (rule, finding) in &found {
        page.line(format_args!(""));
        page.verdict(name(finding.severity), tone(finding.severity));
        page.line(format_args!(": {} [{rule}]", finding.seen));
        page.line(format_args!("  correct {}", finding.right));
        page.line(format_args!("  why     {}", finding.why));
        page.line(format_args!("  source  {}", finding.source));
        for (index, command) in finding.repair.iter().enumerate() {
            let head = if index == 0 { "fix" } else { "" };
            page.line(format_args!("  {head:7} {command}"));
        }
    }
    page.line(format_args!(
        "\n{}",
        count(machine, &found.iter().map(|(_, one)| one.severity).collect::<Vec<_>>())
    ));
    page
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning | Severity::Note => Tone::Doubtful,
    }
}

/// Returns the last line, with the number of findings.
fn count(machine: &Snapshot, found: &[Severity]) -> String {
    let of = |severity: Severity| {
        let count = found.iter().filter(|one| **one == severity).count();
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {}{plural}", name(severity)))
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(of).collect();
    let counts = if counts.is_empty() { "nothing to fix".to_owned() } else { counts.join(", ") };
    if machine.wsl.is_some() {
        format!(
            "{counts}; this is WSL2: ROCm programs use /dev/dxg, but `run` and `smoke` start containers with /dev/kfd, which WSL2 does not have"
        )
    } else if machine.gpus.is_empty() {
        format!(
            "{counts}; this machine has no AMD GPU: it can build, verify and push images, but not run them on ROCm"
        )
    } else {
        counts
    }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn summary(machine: &Snapshot) -> Machine {
    Machine {
        system: machine.kernel.system.clone(),
        kernel: machine.kernel.release.clone(),
        memory: machine.memory.total,
        gpus: machine
            .gpus
            .iter()
            .map(|gpu| MachineGpu {
                target: gpu.target.as_ref().map(ToString::to_string),
                address: gpu.address.clone(),
                driver: gpu.driver.clone(),
                vram: gpu.vram,
                gtt: gpu.gtt,
            })
            .collect(),
        engines: machine
            .engines
            .iter()
            .map(|engine| MachineEngine {
                kind: engine.kind.as_str(),
                socket: engine.socket.clone(),
                rootless: engine.is_rootless,
                version: engine.version.clone(),
                runtime: engine.runtime.clone(),
                builder: engine.builder.map(|builder| builder.to_string()),
                kernel: engine.kernel.clone(),
            })
            .collect(),
    }
}

fn pinned(image: &Image) -> PinnedImage {
    PinnedImage { track: image.track.to_string(), pin: image.pin.clone(), rocm: image.rocm.clone() }
}
