//! The rules. A finding contains the state of the machine, the right state, the reason, and the
//! commands that fix it.
//!
//! Start at [`check`]. A rule is a pure function of a [`Context`]; anything that can be data is
//! data (`versions/compat.toml`, `versions/gpus.toml`). To add a rule, add it to `RULES`, and add
//! two machines to the tests: one that violates it, and one that does not.

mod access;
mod environment;
mod faults;
mod gpu;
mod kernel;
mod memory;
mod programs;
mod storage;
mod system;
mod wsl;

use names::{GpuTarget, TrackName};
use pins::{Compat, Disk, Gpus};
use serde::Serialize;

use crate::gpu::Gpu;
use crate::model::Model;
use crate::snapshot::Snapshot;

/// The input of the rules.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The machine.
    pub machine: &'a Snapshot,
    /// The compatibility table.
    pub compat: &'a Compat,
    /// The facts about GPUs.
    pub gpus: &'a Gpus,
    /// The target that images are built for.
    pub wanted: &'a GpuTarget,
    /// The images to run here.
    pub images: &'a [Image],
    /// A model to load into the GPU's memory, if the user specified one.
    pub model: Option<ModelUse<'a>>,
    /// Today's date, `YYYY-MM-DD`.
    pub today: &'a str,
    /// Whether the user selected the images. Only then is it an error if an image needs something
    /// that the machine lacks.
    pub is_asked: bool,
}

/// A model to load into the GPU's memory.
#[derive(Debug, Clone, Copy)]
pub struct ModelUse<'a> {
    /// The model.
    pub model: &'a Model,
    /// The length of the context in tokens, if it differs from the model's longest one.
    pub context: Option<u64>,
}

/// An image to run on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its track.
    pub track: TrackName,
    /// Whether an engine builds it.
    pub needs_engine: bool,
    /// The disk space that it needs in an engine's store, if that is known.
    pub disk: Option<Disk>,
    /// The pin it is based on, if any.
    pub pin: Option<String>,
    /// The ROCm release in the image, if the pin specifies it.
    pub rocm: Option<String>,
    /// The GPUs for which the finished image has code, if it was built and checked.
    pub code: Option<Vec<String>>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; it causes no failures.
    Note,
    /// Something sometimes fails, is slow, or is unsafe.
    Warning,
    /// Something does not work.
    Error,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// What was found, and where.
    pub seen: String,
    /// The correct state.
    pub right: String,
    /// Why it matters: what goes wrong otherwise.
    pub why: String,
    /// The source.
    pub source: String,
    /// The commands that fix it, in order. A line that is not a command starts with `#`.
    pub repair: Vec<String>,
}

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Check {
    /// The rule's name.
    pub rule: &'static str,
    /// What it checks.
    pub title: &'static str,
    /// Whether it applied, and passed.
    pub result: Outcome,
    /// What was found, or why the rule does not apply.
    pub seen: String,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// Whether a rule applied, and passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No problems.
    Ok,
    /// There are problems.
    Found,
    /// The rule does not apply to this machine, or its data cannot be read.
    Skipped,
}

/// The verdict of a rule.
enum Verdict {
    /// No problems; contains what was found.
    Fine(String),
    /// The problems.
    Found(Vec<Finding>),
    /// The rule does not apply; contains the reason.
    Skipped(String),
}

/// A rule: its name, what it checks, and its function.
type Rule = (&'static str, &'static str, fn(&Context<'_>) -> Verdict);

/// All rules, in the order of the report.
const RULES: [Rule; 43] = [
    ("gpu-present", "GPU", gpu::present),
    ("gpu-wanted", "GPU and images", gpu::wanted),
    ("gpu-several", "several GPUs", gpu::several),
    ("image-code", "GPU code in built images", gpu::image_code),
    ("wsl-gpu", "GPU in WSL2", wsl::gpu),
    ("system-support", "updates of the system", system::support),
    ("kernel-rocm", "kernel and ROCm", kernel::rocm),
    ("host-rocm", "ROCm on this machine", kernel::host_rocm),
    ("kernel-faults", "known faults of the kernel", faults::release),
    ("kernel-gttsize", "amdgpu.gttsize", kernel::gttsize),
    ("kernel-memory-guard", "amdgpu.no_system_mem_limit", kernel::memory_guard),
    ("kernel-amdttm", "module parameters", kernel::parameters),
    ("kernel-cwsr", "amdgpu.cwsr_enable", kernel::cwsr),
    ("kernel-debugging", "parameters for debugging", faults::debugging),
    ("kernel-iommu", "IOMMU", kernel::iommu),
    ("firmware-mes", "firmware", kernel::firmware),
    ("firmware-dkms", "firmware of amdgpu-dkms", kernel::dkms_firmware),
    ("firmware-updates", "firmware outside packages", kernel::overriding_firmware),
    ("memory-gpu-limit", "memory for the GPU", memory::limit),
    ("memory-for-host", "memory for the host", memory::for_host),
    ("memory-limit-unused", "ttm.pages_limit in effect", memory::unused_limit),
    ("memory-gtt", "GTT and ttm.pages_limit", memory::gtt),
    ("memory-carve-out", "memory carve-out", memory::carve_out),
    ("memory-fragmentation", "free memory in large blocks", memory::fragmentation),
    ("memory-model", "memory for the model", memory::model),
    ("device-kfd", "/dev/kfd", access::kfd),
    ("device-render", "/dev/dri", access::render),
    ("device-access", "access to the GPU", access::open),
    ("device-open-to-all", "permissions of the device nodes", access::open_to_all),
    ("engine-present", "container engine", access::engine),
    ("engine-programs", "programs that podman starts", programs::installed),
    ("engine-socket", "engine's socket", access::socket),
    ("engine-version", "engine's version", access::version),
    ("engine-kernel", "engine's kernel", access::kernel),
    ("engine-groups", "groups in containers", access::container_groups),
    ("engine-subids", "user IDs for containers", access::subids),
    ("selinux-devices", "SELinux", access::selinux),
    ("override-form", "HSA_OVERRIDE_GFX_VERSION, form", environment::override_form),
    ("override-spoof", "HSA_OVERRIDE_GFX_VERSION, value", environment::override_value),
    ("environment", "environment variables", environment::variables),
    ("disk-space", "disk space", storage::space),
    ("podman-store", "podman's store", storage::store),
    ("podman-leftovers", "leftovers of builds", storage::leftovers),
];

/// Applies all rules, in a fixed order.
pub fn check(context: &Context<'_>) -> Vec<Check> {
    let apply = |(rule, title, judge): &Rule| {
        let (result, seen, findings) = match judge(context) {
            Verdict::Fine(seen) => (Outcome::Ok, seen, Vec::new()),
            Verdict::Skipped(why) => (Outcome::Skipped, why, Vec::new()),
            Verdict::Found(mut findings) => {
                findings.iter_mut().for_each(|finding| context.place(rule, finding));
                let mut seen: Vec<&str> = Vec::new();
                for finding in &findings {
                    if !seen.contains(&finding.seen.as_str()) {
                        seen.push(&finding.seen);
                    }
                }
                (Outcome::Found, seen.join("; "), findings)
            }
        };
        Check { rule, title, result, seen, findings }
    };
    RULES.iter().map(apply).collect()
}

/// Returns the names of all rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(name, ..)| *name)
}

/// Returns the worst severity, if there are findings.
pub fn worst(checks: &[Check]) -> Option<Severity> {
    checks.iter().flat_map(|check| &check.findings).map(|finding| finding.severity).max()
}

impl Context<'_> {
    /// Returns the GPU that the rules judge: the one that images are built for, otherwise the first
    /// one that is not integrated, otherwise the first.
    fn gpu(&self) -> Option<(&Gpu, &GpuTarget)> {
        let with_target =
            || self.machine.gpus.iter().filter_map(|gpu| Some((gpu, gpu.target.as_ref()?)));
        with_target()
            .find(|(_, target)| *target == self.wanted)
            .or_else(|| with_target().find(|(_, target)| !self.is_integrated(target)))
            .or_else(|| with_target().next())
    }

    /// Returns whether a GPU is integrated into the CPU.
    fn is_integrated(&self, target: &GpuTarget) -> bool {
        self.gpus.gpus.get(target).is_some_and(|gpu| gpu.is_integrated)
    }

    /// If this is a container, adds a note that repairs of the kernel, firmware and memory must be
    /// made on the host. Otherwise, for root, removes `sudo` from them.
    fn place(&self, rule: &str, finding: &mut Finding) {
        let is_for_host =
            ["kernel-", "firmware-", "memory-"].iter().any(|kind| rule.starts_with(kind));
        if self.machine.container.is_some() && is_for_host {
            finding.repair.insert(0, "# on the host, because this is a container:".to_owned());
        } else if self.machine.user.uid == 0 {
            finding.repair.iter_mut().for_each(|line| *line = without_sudo(line));
        }
    }

    /// Returns the ROCm releases of the images, each once, with their tracks.
    fn releases(&self) -> Vec<(&str, Vec<&str>)> {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        for image in self.images {
            let Some(rocm) = &image.rocm else { continue };
            match all.iter_mut().find(|(known, _)| known == rocm) {
                Some((_, tracks)) => tracks.push(image.track.as_str()),
                None => all.push((rocm, vec![image.track.as_str()])),
            }
        }
        all
    }

    /// Returns the user's name for use in a command.
    fn user(&self) -> &str {
        self.machine.user.name.as_deref().unwrap_or("$USER")
    }
}

impl Finding {
    fn new(severity: Severity, seen: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            severity,
            seen: seen.into(),
            right: right.into(),
            why: String::new(),
            source: String::new(),
            repair: Vec::new(),
        }
    }

    fn because(mut self, why: impl Into<String>, source: impl Into<String>) -> Self {
        (self.why, self.source) = (why.into(), source.into());
        self
    }

    fn repair(mut self, command: impl Into<String>) -> Self {
        self.repair.push(command.into());
        self
    }

    fn repairs(self, commands: Vec<String>) -> Self {
        commands.into_iter().fold(self, Self::repair)
    }
}

impl From<Finding> for Verdict {
    fn from(finding: Finding) -> Self {
        Self::Found(vec![finding])
    }
}

impl Verdict {
    fn fine(seen: impl Into<String>) -> Self {
        Self::Fine(seen.into())
    }

    fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }

    /// Returns `Found` if there are findings, otherwise `Fine`.
    fn of(findings: Vec<Finding>, fine: impl FnOnce() -> String) -> Self {
        if findings.is_empty() { Self::Fine(fine()) } else { Self::Found(findings) }
    }
}

/// Returns a command without `sudo`, which root does not need, and which Proxmox and containers
/// often lack.
fn without_sudo(line: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    line.replace("&& sudo ", "&& ").replace("| sudo ", "| ")
}

/// Returns bytes as GiB, with one decimal if it is not a whole number.
fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10 + (1 << 29)) >> 30;
    match tenths % 10 {
        0 => format!("{} GiB", tenths / 10),
        decimal => format!("{}.{decimal} GiB", tenths / 10),
    }
}
