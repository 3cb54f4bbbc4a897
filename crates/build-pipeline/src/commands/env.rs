//! `build-pipeline env`: prints a GPU's environment variables for a shell, a container or a
//! program.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use failure::{Failure, Kind};
use host::shell_word;
use names::GpuTarget;
use pins::{OVERRIDE, Releases, Setting, When};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::Global;
use crate::machine::{self, Data};
use crate::output::{self, Page};

/// Print environment variables for a GPU, for `eval "$(build-pipeline env)"`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --gpu, the tool uses this machine's GPU. If there are several, it prefers one that is not integrated into the processor, and hides the others. versions/gpus.toml and --format json explain each variable."
)]
pub(crate) struct Env {
    /// The GPU target [default: this machine's, or else the one in tracks.toml]
    #[arg(long, value_name = "GFX")]
    gpu: Option<String>,
    /// The ROCm release of the programs; it determines whether an override is needed
    #[arg(long, value_name = "X.Y")]
    rocm: Option<String>,
    /// Output format: shell for eval, dotenv for --env-file, json for programs
    #[arg(long, value_enum, default_value_t = EnvFormat::Shell)]
    format: EnvFormat,
    /// Add variables that matter only during compilation
    #[arg(long)]
    build: bool,
    /// Add variables that locate faults but make everything slow; never put them into an image
    #[arg(long)]
    debug: bool,
    /// Look for the GPU of the system below this folder [default: /]
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
}

/// The output format of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EnvFormat {
    /// Lines for a POSIX shell
    Shell,
    /// Lines for `podman run --env-file`
    Dotenv,
    /// For programs, with the purpose and source of each variable
    Json,
}

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
    let data = Data::find(global)?;
    let gpus = data.gpus()?;
    if let Some(rocm) = &args.rocm
        && format!("{rocm} or newer").parse::<Releases>().is_err()
    {
        return Err(Failure::new(Kind::Input, format!("`--rocm {rocm}` is not a ROCm release"))
            .hint("write two or three numbers, for example `--rocm 7.2.1`"));
    }
    let found = host::gpus(&machine::root(global, args.host_root.as_deref())?);
    let (gpu, gpu_from) = machine::choose_gpu(args.gpu.as_deref(), &gpus, &found, &data)?;
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
