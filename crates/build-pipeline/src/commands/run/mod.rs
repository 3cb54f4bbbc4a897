//! `build-pipeline run`: starts the image of a track with the rights it needs, or writes what does.
//!
//! `prepare` makes the container of arguments, data files, machine and engine (`smoke` does the same);
//! `session` starts it and stands between it and the terminal.

pub(crate) mod prepare;
pub(crate) mod session;
mod terminal;

use clap::{Args, ValueEnum};
use host::run::{Container, Form, Groups};

use crate::cli::{Global, track_names};
use crate::commands::diagnose;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::machine::Data;
use crate::output::{self, Page};
use prepare::{Given, Prepared};

/// Start the image of a track with just the rights it needs, or write a file that does
#[derive(Debug, Args)]
#[command(
    after_help = "Ends as the command in the container does. versions/run.toml says what each track gets: devices, port, folders."
)]
pub(crate) struct Run {
    /// The track; its letter will do
    #[arg(value_name = "TRACK", value_parser = track_names())]
    track: String,
    #[command(flatten)]
    given: Given,
    /// Write the container as a file instead of starting it
    #[arg(long, value_enum, value_name = "FORM")]
    print: Option<PrintForm>,
    /// Say what would be started and stop
    #[arg(long, conflicts_with = "print")]
    dry_run: bool,
    /// Send standard input to the command, also where it is no terminal
    #[arg(short, long)]
    interactive: bool,
    /// Start this program in place of the image's entrypoint
    #[arg(long, value_name = "PROGRAM")]
    entrypoint: Option<String>,
    /// Publish the track's port here [default: 127.0.0.1 and the same number]
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    publish: Option<String>,
    /// The folder that is mounted as the working folder, /work [default: the current one for trainer]
    #[arg(long, value_name = "DIR")]
    work: Option<std::path::PathBuf>,
    /// The command in the container [default: the image's own]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// A form that a container is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrintForm {
    /// A script for a POSIX shell
    Shell,
    /// A unit for podman's systemd generator
    Quadlet,
    /// A compose file
    Compose,
    /// A manifest for distrobox assemble
    Distrobox,
}

/// Starts or writes the container. Returns how its command ended.
pub(crate) fn run(global: &Global, args: &Run) -> Result<u8, CommandError> {
    let is_started = args.print.is_none() && !args.dry_run;
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(async {
        let work = args.work.as_deref();
        let prepared =
            Prepared::read(global, &args.track, &args.given, is_started, work).await?;
        if is_started && prepared.has_gpu {
            host::run::check_devices(prepared.row.gpu, &prepared.machine)
                .map_err(prepare::run_error)?;
        }
        let mut wish = prepared.wish()?;
        wish.entrypoint.clone_from(&args.entrypoint);
        wish.command.clone_from(&args.command);
        if let Some(publish) = &args.publish {
            wish.publish = prepare::publish(publish)?;
        }
        let container = host::run::container(&wish).map_err(prepare::run_error)?;
        if host::run::loses_groups(&container, &wish) {
            output::warn(
                "engine-groups",
                "a rootless engine without crun cannot keep the user's groups, so the GPU may be `Permission denied`; `build-pipeline doctor` says how to repair that",
            );
        }
        if let Some(form) = args.print {
            let text = container.print(form_of(form)).map_err(prepare::run_error)?;
            return output::result(&text).map(|()| 0);
        }
        if args.dry_run {
            return output::sanitised_result(&text(&container)).map(|()| 0);
        }
        let engine = prepared.engine()?;
        let ended = session::attended(engine, &prepared, &container, args.interactive).await;
        engine.stop().await;
        let ended = ended?;
        if ended.status != 0 {
            offer(global, &ended.last)?;
        }
        Ok(u8::try_from(ended.status).unwrap_or(1))
    });
    // A thread may still wait for the terminal; the process does not wait for it.
    runtime.shutdown_background();
    ended
}

/// Says which known failures the last of an output shows, where it shows any.
fn offer(global: &Global, last: &[u8]) -> Result<(), CommandError> {
    let failures = Data::find(global)?.failures()?;
    let unread =
        |error| CommandError::caused(ExitCode::Bug, "what the command said cannot be read", &error);
    diagnose::offer(&failures.diagnose(last).map_err(unread)?);
    Ok(())
}

fn form_of(form: PrintForm) -> Form {
    match form {
        PrintForm::Shell => Form::Shell,
        PrintForm::Quadlet => Form::Quadlet,
        PrintForm::Compose => Form::Compose,
        PrintForm::Distrobox => Form::Distrobox,
    }
}

/// Returns the container for reading.
fn text(container: &Container) -> String {
    let mut page = Page::default();
    let mut line = |name: &str, value: &str| page.line(format_args!("{name:12} {value}"));
    line("engine", container.engine.as_str());
    line("image", &container.image);
    if let Some(entrypoint) = &container.entrypoint {
        line("entrypoint", entrypoint);
    }
    if !container.command.is_empty() {
        line("command", &container.command.join(" "));
    }
    match container.devices.is_empty() {
        true => line("devices", "none"),
        false => line("devices", &container.devices.join(" ")),
    }
    match &container.groups {
        Groups::None => {}
        Groups::Keep => line("groups", "those of the user are kept"),
        Groups::Numbers(all) => {
            line("groups", &all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        }
    }
    if let Some((uid, gid)) = container.user {
        line("user", &format!("{uid}:{gid}"));
    }
    line("security", &container.security.join(" "));
    if let Some(size) = container.shared_memory {
        line("/dev/shm", &format!("{size} GiB"));
    }
    for folder in &container.folders {
        line("folder", &format!("{} at {}", folder.host, folder.container));
    }
    if let Some(port) = &container.port {
        line("port", &format!("{}:{} to {}", port.address, port.host, port.container));
    }
    for (name, value) in &container.environment {
        line("variable", &format!("{name}={value}"));
    }
    page.into_text()
}
