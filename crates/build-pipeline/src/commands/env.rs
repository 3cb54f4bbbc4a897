//! `build-pipeline env`: prints a GPU's environment variables for a shell, a container or a
//! program.

use failure::{Failure, Kind};
use host::shell_word;
use launch::machine;
use names::GpuTarget;
use pins::{OVERRIDE, Releases, Setting, When};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Env, EnvFormat, Global};
use crate::global;
use crate::output::{self, Page};

/// The output of `env --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnvReport {
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
    /// Variables to set.
    set: Vec<Variable>,
}

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

/// Prints the environment.
pub(crate) fn run(global: &Global, args: &Env) -> Result<(), Failure> {
    let data = global::data(global)?;
    let gpus = data.gpus()?;
    if let Some(rocm) = &args.rocm
        && format!("{rocm} or newer").parse::<Releases>().is_err()
    {
        return Err(Failure::new(Kind::Input, format!("`--rocm {rocm}` is not a ROCm release"))
            .hint("write two or three numbers, for example `--rocm 7.2.1`"));
    }
    let found =
        host::gpus(&machine::root(&global::working_folder(global)?, args.host_root.as_deref())?);
    let (gpu, gpu_from) =
        machine::choose_gpu(args.gpu.as_deref(), &gpus, &found, &data, &output::notice)?;
    let mut asked = vec![When::Run];
    asked.extend(args.build.then_some(When::Build));
    asked.extend(args.debug.then_some(When::Debug));
    let rocm = args.rocm.as_deref();
    let mut set: Vec<Setting> = machine::visible(&gpu, &found).into_iter().collect();
    set.extend(gpus.environment(&gpu, rocm, &asked));
    let has_override = set.iter().any(|one| one.name == OVERRIDE);
    if has_override && gpus.gpus.get(&gpu).is_some_and(|known| known.native_since.is_some()) {
        output::warn(
            "spoof",
            &format!("AMD does not support {OVERRIDE}; ROCm 7.2.1 and newer run {gpu} without it"),
        );
    }
    let unset = if has_override { Vec::new() } else { vec![OVERRIDE.to_owned()] };
    match args.format {
        EnvFormat::Shell => output::result(&shell(&unset, &set)),
        EnvFormat::Dotenv => output::result(&dotenv(&gpu, &set)),
        EnvFormat::Json => output::json(&EnvReport {
            schema: 1,
            gpu: gpu.to_string(),
            gpu_from,
            rocm: args.rocm.clone(),
            unset,
            set: set.into_iter().map(variable).collect(),
        }),
    }
}

/// Returns lines for a POSIX shell. They work even if the quotes around `$(…)` are missing: each
/// ends with a semicolon, and there are no comments.
fn shell(unset: &[String], set: &[Setting]) -> String {
    let mut page = Page::default();
    unset.iter().for_each(|name| page.line(format_args!("unset {name};")));
    for Setting { name, value, .. } in set {
        page.line(format_args!("export {name}={};", shell_word(value)));
    }
    page.into_text()
}

/// Returns lines for `--env-file`, which takes values literally, without quotes.
fn dotenv(gpu: &GpuTarget, set: &[Setting]) -> String {
    let mut page = Page::default();
    page.line(format_args!("# {gpu}, written by `build-pipeline env --format dotenv`"));
    for Setting { name, value, why, .. } in set {
        page.line(format_args!("# {why}\n{name}={value}"));
    }
    page.into_text()
}

fn variable(setting: Setting) -> Variable {
    let Setting { name, value, when, why, evidence } = setting;
    Variable { name, value, when: when.name(), why, evidence }
}
