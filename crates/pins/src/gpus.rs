//! `versions/gpus.toml`: facts about each GPU target.
//!
//! Start at [`Gpus`]; [`GfxVersion`] is the form of a target that the HSA runtime reads. Whether a
//! track uses a spoof is decided elsewhere.

use std::collections::BTreeMap;

use crate::ParseError;
use crate::checks::{self, line};
use crate::forms;
use crate::limits::{self, Limit};
use crate::problem::{Report, Reported, quote};
use crate::reader::{Entry, Table, collect, document};
use crate::tracks::secrets;
use crate::variables::{self, Variable};
use crate::{Releases, compat};
use names::{GfxVersion, GpuTarget};

/// The content of `gpus.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// GPU targets, by name.
    pub gpus: BTreeMap<GpuTarget, Gpu>,
    /// Environment variables that builds and programs read, by name.
    pub variables: BTreeMap<String, Variable>,
    /// What GPUs cannot do with some ROCm releases, by name.
    pub limits: BTreeMap<String, Limit>,
    /// AMD's ROCm releases, for example `7.2`, from the oldest to the newest.
    pub rocm_releases: Vec<String>,
}

/// The facts about one GPU target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The products with this target, such as `Strix Halo`; for people.
    pub name: String,
    /// More products with this target.
    pub products: Vec<String>,
    /// The family, for example `RDNA 3.5`.
    pub family: String,
    /// Whether the GPU is on the same chip as the CPU and shares the host's memory.
    pub is_integrated: bool,
    /// The value of `HSA_OVERRIDE_GFX_VERSION` for a spoof on this GPU, if one helps.
    pub spoof: Option<GfxVersion>,
    /// The ROCm releases with which the spoof helps, because they have code for the GPU that it
    /// names; empty means all.
    pub spoof_rocm: Vec<Releases>,
    /// What can happen with the spoof, for example `programs can crash`; for people.
    pub spoof_risk: Option<String>,
    /// Whether `env` prints the override only if the user asks for it, because every usable ROCm
    /// release has native code.
    pub is_spoof_on_request: bool,
    /// The first ROCm release that supports the target natively, for example `7.2.0`.
    pub native_since: Option<String>,
    /// Targets that AMD does not support in the same machine as this one.
    pub not_beside: Vec<GpuTarget>,
    /// The source of these facts, for people.
    pub evidence: Option<String>,
}

impl Gpus {
    /// Returns these rows, plus those in `lower` that have other names.
    #[must_use]
    pub fn over(mut self, lower: Self) -> Self {
        for (target, gpu) in lower.gpus {
            self.gpus.entry(target).or_insert(gpu);
        }
        for (name, variable) in lower.variables {
            self.variables.entry(name).or_insert(variable);
        }
        for (name, limit) in lower.limits {
            self.limits.entry(name).or_insert(limit);
        }
        if self.rocm_releases.is_empty() {
            self.rocm_releases = lower.rocm_releases;
        }
        self
    }
}

/// Parses the text of `gpus.toml`. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_gpus(file: &str, text: &str) -> Result<Gpus, ParseError> {
    let mut report = Report::new(file, text);
    let gpus = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let others = ["schema", "variable", "limit", "rocm-releases"];
        let targets = root.entries().filter(|entry| !others.contains(&entry.key));
        let gpus = collect(&mut report, targets, read_gpu);
        let variables = variables::read(&mut report, &root);
        let limits = limits::read(&mut report, &root);
        let rocm_releases = root.texts(&mut report, "rocm-releases", "7.2", checks::rocm_release);
        let named = root.entries().filter(|entry| entry.key != "schema");
        let without_secrets = secrets::check(&mut report, named);
        let gpus = Gpus {
            gpus: gpus?,
            variables: variables?,
            limits: limits?,
            rocm_releases: rocm_releases?,
        };
        without_secrets.map(|()| gpus)
    });
    report.finish(gpus)
}

fn read_gpu(report: &mut Report<'_>, entry: &Entry<'_>) -> Result<(GpuTarget, Gpu), Reported> {
    let target = checks::gpu_target(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
    // A key that is not a target is usually not a table either; one problem is enough for it.
    if let Err(reported) = &target
        && entry.as_table().is_none()
    {
        return Err(*reported);
    }
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::GPU.keys);
    let name = table.required(report, "name", "name = \"Strix Halo\"", line(100));
    let products = table.texts(report, "products", "Radeon 8060S", line(100));
    let family = table.required(report, "family", "family = \"RDNA 3.5\"", line(100));
    let is_integrated = table.flag(report, "integrated");
    let spoof = table.optional(report, "spoof", |text| checks::spoof(text, target.as_ref().ok()));
    let spoof_rocm = table.texts(report, "spoof-rocm", "7.0 or newer", compat::releases);
    let spoof_risk = table.optional(report, "spoof-risk", line(100));
    let is_spoof_on_request = table.flag(report, "spoof-on-request");
    let not_beside = table.texts(report, "not-beside", "gfx1201", checks::gpu_target);
    let native_since = table.optional(report, "native-since", checks::rocm_release);
    let evidence = table.optional(report, "evidence", line(500));
    table.date(report, "checked")?;
    let gpu = Gpu {
        name: name?,
        products: products?,
        family: family?,
        is_integrated: is_integrated?,
        spoof: spoof?,
        spoof_rocm: spoof_rocm?,
        spoof_risk: spoof_risk?,
        is_spoof_on_request: is_spoof_on_request?,
        not_beside: not_beside?,
        native_since: native_since?,
        evidence: evidence?,
    };
    Ok((target?, gpu))
}
