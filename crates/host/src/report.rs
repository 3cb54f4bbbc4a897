//! The report about a machine: its state, the checks, and the findings.

use names::GpuTarget;
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, Tone};

use crate::rules::{self, Check, Image, Outcome, Severity};
use crate::snapshot::Snapshot;

/// The output of `doctor --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// The version of this JSON format.
    schema: u32,
    /// The machine.
    machine: Machine,
    /// The GPU target of the images.
    wanted: String,
    /// The images that should run here.
    images: Vec<PinnedImage>,
    /// The worst severity, if there are any findings.
    pub worst: Option<Severity>,
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
    /// Whether it is WSL2.
    #[serde(skip)]
    is_wsl: bool,
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

impl DoctorReport {
    /// Creates the report of `checks` on a machine. `wanted` is the GPU target of the images.
    pub fn new(
        machine: &Snapshot,
        wanted: &GpuTarget,
        images: &[Image],
        checks: Vec<Check>,
    ) -> Self {
        let image = |image: &Image| PinnedImage {
            track: image.track.to_string(),
            pin: image.pin.clone(),
            rocm: image.rocm.clone(),
        };
        Self {
            schema: 1,
            machine: summary(machine),
            wanted: wanted.to_string(),
            images: images.iter().map(image).collect(),
            worst: rules::worst(&checks),
            checks,
        }
    }

    /// Returns the report as text: the machine, all checks, then the findings, worst first.
    pub fn page(&self) -> Page {
        let Self { machine, images, checks, .. } = self;
        let mut page = Page::default();
        let unknown = || "unknown".to_owned();
        page.line(format_args!(
            "machine  {}, kernel {}",
            machine.system.clone().unwrap_or_else(unknown),
            machine.kernel.clone().unwrap_or_else(unknown)
        ));
        let named: Vec<String> = images
            .iter()
            .map(|image| match &image.rocm {
                Some(rocm) => format!("{} (ROCm {rocm})", image.track),
                None => image.track.clone(),
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
}

/// Returns the tone of a severity.
fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning | Severity::Note => Tone::Doubtful,
    }
}

/// Returns the last line, with the number of findings.
fn count(machine: &Machine, found: &[Severity]) -> String {
    let of = |severity: Severity| {
        let count = found.iter().filter(|one| **one == severity).count();
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {}{plural}", name(severity)))
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(of).collect();
    let counts = if counts.is_empty() { "nothing to fix".to_owned() } else { counts.join(", ") };
    if machine.is_wsl {
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

/// Returns the word for a severity.
fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Returns a summary of a machine.
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
        is_wsl: machine.wsl.is_some(),
    }
}
