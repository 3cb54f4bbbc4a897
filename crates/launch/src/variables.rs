//! The environment variables for a GPU: for a shell, a container or a program.

use std::path::PathBuf;

use failure::{Failure, Kind};
use host::shell_word;
use names::{GfxVersion, GpuTarget};
use pins::{Gpus, OVERRIDE, Releases, Setting, When};
use project::environment;
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::machine::{self, Data};
use crate::notice::Notice;

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
        let rocm = asked.rocm;
        if let Some(rocm) = rocm
            && format!("{rocm} or newer").parse::<Releases>().is_err()
        {
            return Err(Failure::new(Kind::Input, format!("`--rocm {rocm}` is not a ROCm release"))
                .hint("write one to three numbers, for example `--rocm 7.2`, which means all releases 7.2.*"));
        }
        let root = root()?;
        let found = host::gpus(&root);
        let (gpu, gpu_from) = machine::choose_gpu(asked.gpu, &gpus, &found, data, tell)?;
        let spoof = spoof(&gpus, &gpu, rocm, asked.spoof, tell)?;
        let mut set: Vec<Setting> = machine::visible(&gpu, &found).into_iter().collect();
        set.extend(host::wsl(&root).and_then(|wsl| wsl.setting(rocm)));
        set.extend(gpus.environment(&gpu, rocm, asked.when, spoof));
        Ok(Self {
            schema: 1,
            gpu: gpu.to_string(),
            gpu_from,
            rocm: rocm.map(str::to_owned),
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
    gpus: &Gpus,
    gpu: &GpuTarget,
    rocm: Option<&str>,
    is_asked: bool,
    tell: &dyn Fn(Notice),
) -> Result<Option<GfxVersion>, Failure> {
    let known = gpus.gpus.get(gpu);
    let asked = known.and_then(|known| known.spoof).filter(|_| is_asked);
    if is_asked && asked.is_none() {
        let what = format!("no {OVERRIDE} is known for {gpu}");
        return Err(Failure::new(Kind::Input, what)
            .hint("leave out `--spoof`")
            .hint(format!("or add `spoof` to `[{gpu}]` in versions/gpus.toml")));
    }
    let spoof = asked.or_else(|| gpus.wanted_override(gpu, rocm));
    let since = known.and_then(|known| known.native_since.as_ref()).filter(|_| spoof.is_some());
    if let Some(since) = since {
        // Crash reports exist only for GPUs that get an override only on request.
        let crashes = known.is_some_and(|known| known.is_spoof_on_request);
        let crash = if crashes { ", and crash with it" } else { "" };
        tell(Notice::warning(
            "spoof",
            format!(
                "AMD does not support {OVERRIDE}; ROCm {since} and newer run {gpu} without it{crash}"
            ),
        ));
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
    let Setting { name, value, when, why, evidence } = setting;
    Variable { name, value, when: when.name(), why, evidence }
}
