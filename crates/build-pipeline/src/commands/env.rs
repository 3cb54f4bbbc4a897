//! `build-pipeline env`: the environment that a GPU wants, for a shell, a container or a program.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use host::shell_word;
use names::GpuTarget;
use pins::{OVERRIDE, Releases, Setting, When};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::machine::{self, Data};
use crate::output::{self, Page};

/// Print the environment that a GPU wants, for `eval "$(build-pipeline env)"`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --gpu the GPU is the machine's; of several it is one that is no part of the processor, and the others are hidden. versions/gpus.toml says what each variable does, and so does --format json."
)]
pub(crate) struct Env {
    /// The GPU target [default: the machine's, otherwise that of tracks.toml]
    #[arg(long, value_name = "GFX")]
    gpu: Option<String>,
    /// The ROCm release that programs run with; it decides whether an override is needed
    #[arg(long, value_name = "X.Y")]
    rocm: Option<String>,
    /// The form: shell for eval, dotenv for --env-file, json for programs
    #[arg(long, value_enum, default_value_t = EnvFormat::Shell)]
    format: EnvFormat,
    /// Also what is read while something is compiled
    #[arg(long)]
    build: bool,
    /// Also what finds the place of a fault, and makes everything slow; never bake it into an image
    #[arg(long)]
    debug: bool,
    /// Look for the GPU on the machine below this folder [default: /]
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
}

/// The form of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EnvFormat {
    /// Lines for a POSIX shell
    Shell,
    /// Lines for `podman run --env-file`
    Dotenv,
    /// For programs, with what each variable does and where that was read
    Json,
}

/// What `env --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnvReport {
    /// The number of this JSON form.
    schema: u32,
    /// The GPU target.
    gpu: String,
    /// Where it comes from.
    gpu_from: String,
    /// The ROCm release, where one was given.
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
    /// When it is read: `build`, `run` or `debug`.
    when: &'static str,
    /// What it does.
    why: String,
    /// Where that was read.
    evidence: String,
}

/// Prints the environment.
pub(crate) fn run(global: &Global, args: &Env) -> Result<(), CommandError> {
    let data = Data::find(global)?;
    let gpus = data.gpus()?;
    if let Some(rocm) = &args.rocm
        && format!("{rocm} or newer").parse::<Releases>().is_err()
    {
        return Err(CommandError::new(
            ExitCode::Input,
            format!("`--rocm {rocm}` is not a ROCm release"),
        )
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
            &format!("{OVERRIDE} is not supported by AMD; ROCm 7.2.1 and newer run {gpu} without"),
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

/// Returns lines that a POSIX shell takes, also where somebody forgets the quotes around `$(…)`:
/// each ends with a semicolon, and there are no comments.
fn shell(unset: &[String], set: &[Setting]) -> String {
    let mut page = Page::default();
    unset.iter().for_each(|name| page.line(format_args!("unset {name};")));
    for Setting { name, value, .. } in set {
        page.line(format_args!("export {name}={};", shell_word(value)));
    }
    page.into_text()
}

/// Returns lines for `--env-file`, which takes a value as it stands, without quotes.
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
