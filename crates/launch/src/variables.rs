//! The environment variables for a GPU: for a shell, a container or a program.

use std::path::PathBuf;

use failure::{Failure, Kind};
use host::shell_word;
use names::GfxVersion;
use pins::{Advice, OVERRIDE, Setting, When};
use project::environment;
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::gpu_use::{self, GpuUse, known_program};
use crate::machine::{self, Data};
use crate::notice::Notice;
use crate::release;

/// The output of `env --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EnvReport {
    /// The version of this JSON format.
    schema: u32,
    /// The GPU target.
    gpu: String,
    /// The origin of the GPU target.
    gpu_from: String,
    /// The ROCm release, if one was given.
    rocm: Option<String>,
    /// The program, if one was given.
    program: Option<String>,
    /// What programs cannot do on the GPU with this release, and what to use.
    limits: Vec<GpuLimit>,
    /// Variables that must not be set.
    unset: Vec<String>,
    /// Variables that are often set for ROCm, and why this command does not set them.
    not_set: Vec<NotSet>,
    /// Variables to set.
    set: Vec<Variable>,
}

/// A variable that is deliberately not set.
#[derive(Debug, Serialize, JsonSchema)]
struct NotSet {
    /// Its name.
    name: &'static str,
    /// Why it is not set.
    why: &'static str,
}

/// What programs cannot do on a GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct GpuLimit {
    /// The fact, and what to use.
    what: String,
    /// The source of this information.
    evidence: String,
}

/// Variables that users may expect here. The help explains them too.
const NOT_SET: [NotSet; 2] = [
    NotSet {
        name: "LD_LIBRARY_PATH",
        why: "programs and wheels find their own ROCm; if this variable points to another one, they load that one and crash",
    },
    NotSet {
        name: "DEVICE_LIB_PATH",
        why: "the compiler finds its device libraries; their folder differs between ROCm packages and wheels, and a wrong folder breaks builds",
    },
];

/// A variable to set.
#[derive(Debug, Serialize, JsonSchema)]
struct Variable {
    /// Its name.
    name: String,
    /// Its value.
    value: String,
    /// When it has an effect: `build`, `run` or `debug`.
    when: &'static str,
    /// Its purpose.
    why: String,
    /// The source of this information.
    evidence: String,
}

/// What the variables are for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The GPU target, or `None` for that of the machine.
    pub gpu: Option<&'a str>,
    /// The ROCm release.
    pub rocm: Option<&'a str>,
    /// The program, or `None` for all.
    pub program: Option<&'a str>,
    /// When the variables have an effect.
    pub when: &'a [When],
    /// Whether to set the override.
    pub spoof: bool,
}

impl EnvReport {
    /// Determines the variables. `root` returns the root of the machine, and `tell` gets warnings.
    ///
    /// # Errors
    /// A data file is wrong, the target or release is invalid, or the requested override is not
    /// known.
    pub fn new(
        root: impl FnOnce() -> Result<PathBuf, Failure>,
        data: &Data,
        asked: Asked<'_>,
        tell: &dyn Fn(Notice),
    ) -> Result<Self, Failure> {
        let gpus = data.gpus()?;
        let rocm = asked.rocm.map(|text| release::read(text, &gpus, tell)).transpose()?;
        let rocm = rocm.as_deref();
        let root = root()?;
        let found = host::gpus(&root);
        let wsl = host::wsl(&root);
        let is_hidden = wsl.is_some() && found.iter().all(|gpu| gpu.target.is_none());
        if asked.gpu.is_none() && is_hidden {
            return Err(Failure::new(Kind::Input, "WSL2 does not show which GPU this is").hint(
                "name it with `--gpu`, for example `--gpu gfx1100` or `--gpu \"RX 7900 XTX\"`",
            ));
        }
        let (gpu, gpu_from) = machine::choose_gpu(asked.gpu, &gpus, &found, data, tell)?;
        let programs = data.programs()?;
        let program = asked.program.map(|text| known_program(text, &gpus, programs.clone()));
        let program = program.transpose()?;
        let gpu_use = GpuUse { gpus: &gpus, gpu: &gpu, rocm, program: program.as_deref() };
        let spoof = spoof(gpu_use, asked.spoof, tell)?;
        let limits = gpu_use.limits(&programs, spoof.is_some(), "--spoof", tell);
        let mut set: Vec<Setting> = machine::visible(&gpu, &found).into_iter().collect();
        if !set.is_empty() {
            gpu_use::tell_hidden(&gpu, &found, "selects another GPU", tell);
            for (name, value) in environment::gpu_variables() {
                gpu_use::warn_of_index(&name, &value, &format!("use `unset {name}`"), tell);
            }
        }
        set.extend(wsl.and_then(|wsl| wsl.setting(rocm)));
        set.extend(gpu_use.settings(asked.when, spoof));
        Ok(Self {
            schema: 1,
            gpu: gpu.to_string(),
            gpu_from,
            rocm: rocm.map(str::to_owned),
            limits: limits.into_iter().map(limit).collect(),
            program,
            unset: unset(spoof.is_some()),
            not_set: Vec::from(NOT_SET),
            set: set.into_iter().map(variable).collect(),
        })
    }

    /// Returns lines for a POSIX shell. They work even if the quotes around `$(…)` are missing:
    /// each ends with a semicolon, and there are no comments.
    pub fn shell(&self) -> Page {
        let mut page = Page::default();
        self.unset.iter().for_each(|name| page.line(format_args!("unset {name};")));
        for Variable { name, value, .. } in &self.set {
            page.line(format_args!("export {name}={};", shell_word(value)));
        }
        page
    }

    /// Returns lines for `--env-file`, which takes values literally, without quotes.
    pub fn dotenv(&self) -> Page {
        let mut page = Page::default();
        page.line(format_args!("# {}, written by `build-pipeline env --format dotenv`", self.gpu));
        for Variable { name, value, why, .. } in &self.set {
            page.line(format_args!("# {why}\n{name}={value}"));
        }
        for NotSet { name, why } in &NOT_SET {
            page.line(format_args!("# {name} is not set: {why}"));
        }
        page
    }
}

/// Returns the override to set, if this GPU needs one with this ROCm release or the user requested
/// one. Warns about it.
fn spoof(
    gpu_use: GpuUse<'_>,
    is_asked: bool,
    tell: &dyn Fn(Notice),
) -> Result<Option<GfxVersion>, Failure> {
    let GpuUse { gpus, gpu, rocm, .. } = gpu_use;
    let known = gpus.gpus.get(gpu);
    let asked = known.and_then(|known| known.spoof).filter(|_| is_asked);
    if is_asked && asked.is_none() {
        let what = format!("`versions/gpus.toml` names no {OVERRIDE} for {gpu}");
        let own = format!("`export {OVERRIDE}=X.Y.Z` after `env` sets a value of your choice");
        return Err(Failure::new(Kind::Input, what).hint("leave out `--spoof`").hint(own));
    }
    let since = known.and_then(|known| known.native_since.as_deref());
    // The GPU's own code works, and the override does not.
    let is_harmful = known.is_some_and(|known| known.is_spoof_on_request)
        && rocm.is_some_and(|rocm| gpus.is_native(gpu, rocm));
    if let (Some(_), Some(since), true) = (asked, since, is_harmful) {
        let risk = known.and_then(|known| known.spoof_risk.as_deref());
        let risk = risk.map_or(String::new(), |risk| format!(", and with {OVERRIDE}, {risk}"));
        let what = format!("ROCm {since} and newer have code for {gpu}{risk}");
        return Err(Failure::new(Kind::Input, what).hint("leave out `--spoof`"));
    }
    let spoof = asked.or_else(|| gpus.wanted_override(gpu, rocm));
    if spoof.is_some() {
        if rocm.is_none() && since.is_some() {
            tell(Notice::Hint(
                "`--rocm` names the ROCm release of the programs; newer ones need no override"
                    .to_owned(),
            ));
        }
        gpu_use.warn_of_override(tell);
    }
    Ok(spoof)
}

/// Returns the variables to unset: the override, if this command does not set it, and its per-node
/// variants, which the runtime reads first.
fn unset(has_override: bool) -> Vec<String> {
    let is_for_node = |name: &String| {
        let node = name.strip_prefix(OVERRIDE).and_then(|rest| rest.strip_prefix('_'));
        node.is_some_and(|node| node.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let stale = environment::gpu_variables().into_keys().filter(is_for_node);
    (!has_override).then(|| OVERRIDE.to_owned()).into_iter().chain(stale).collect()
}

/// Returns a setting as the report has it.
fn variable(setting: Setting) -> Variable {
    let Setting { name, value, when, why, evidence, .. } = setting;
    Variable { name, value, when: when.name(), why, evidence }
}

/// Returns a limit as the report has it.
fn limit(advice: Advice) -> GpuLimit {
    GpuLimit { what: advice.text, evidence: advice.evidence }
}
