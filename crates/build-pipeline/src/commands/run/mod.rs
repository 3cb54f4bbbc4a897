//! `build-pipeline run`: starts a track's image with only the privileges it needs, or prints a file
//! that starts it.
//!
//! `launch::prepare` defines the container, and `launch::session` starts it. `tty` connects it
//! to the terminal.

mod tty;

use engine::Engine;
use failure::{Failure, Kind};
use host::run::{Container, Form, GpuWay};
use launch::additions::Additions;
use launch::prepare::{self, Asked, Prepared};
use launch::session::{self, Caller, Ended};

use self::tty::Raw;
use crate::cli::{PrintForm, Run};
use crate::commands::diagnose;
use crate::global;
use terminal::output;

/// Starts the container or prints it. Returns the exit status of its command.
pub(crate) fn run(args: &Run) -> Result<u8, Failure> {
    let is_started = args.print.is_none() && !args.dry_run;
    let runtime = project::runtime::start()?;
    let ended = runtime.block_on(async {
        let here = global::working_folder()?;
        let wanted = Asked {
            additions: Additions {
                variables: args.additions.env.clone(),
                files: args.additions.env_file.clone(),
                volumes: args.additions.volume.clone(),
            },
            ..global::container(&args.given, args.work.clone())
        };
        let prepared =
            Prepared::read(&here, &args.track, &wanted, is_started, &output::notice).await?;
        let container = container(&prepared, args)?;
        if let Some(form) = args.print {
            let text = container.print(form_of(form)).map_err(prepare::run_error)?;
            output::result(&text)?;
            let is_here = args.given.host_root.is_none();
            if form == PrintForm::Compose && is_here && prepared.machine.compose.is_none() {
                output::hint(&format!(
                    "`{} compose` needs a program that is not installed here: docs.docker.com/compose/install/linux explains how to install docker's plugin; podman can also use podman-compose",
                    prepared.engine_kind()
                ));
            }
            return Ok(0);
        }
        if is_started || args.given.host_root.is_none() {
            prepare::check_port(&container)?;
        }
        if is_started && !args.force {
            prepared.check_project().await?;
        }
        let is_checked = is_started && prepared.has_gpu && !args.force;
        if is_checked && prepared.row.gpu == GpuWay::Rocm {
            prepared.check_gpu().await?;
        }
        if args.dry_run {
            return output::page(&container.page()).map(|()| 0);
        }
        let engine = prepared.engine()?;
        if args.additions.detach {
            let started = session::detached(engine, &prepared, &container).await;
            engine.stop().await;
            return started.and_then(|name| show_detached(&prepared, &name)).map(|()| 0);
        }
        let ended = attended(engine, &prepared, &container, args.interactive).await;
        engine.stop().await;
        let ended = ended?;
        if ended.status != 0 {
            offer(&ended.last)?;
        }
        Ok(u8::try_from(ended.status).unwrap_or(1))
    });
    // A thread may still be waiting for terminal input; the process does not wait for it to end.
    runtime.shutdown_background();
    ended
}

/// Returns the container that the arguments describe. Unless it is only printed, the device nodes
/// must exist.
fn container(prepared: &Prepared, args: &Run) -> Result<Container, Failure> {
    let mut wish = prepared.wish()?;
    wish.entrypoint.clone_from(&args.entrypoint);
    wish.command.clone_from(&args.command);
    wish.is_detached = args.additions.detach;
    if let Some(publish) = &args.publish {
        wish.publish = prepare::publish(publish)?;
    }
    if args.print.is_none() && prepared.has_gpu {
        host::run::check_devices(prepared.row.gpu, &prepared.machine)
            .map_err(prepare::run_error)?;
    }
    let container = host::run::container(&wish).map_err(prepare::run_error)?;
    if args.publish.is_some() {
        prepare::check_publish(&container, wish.network)?;
    }
    if host::run::loses_groups(&container, &wish) {
        output::warn(
            "engine-groups",
            "a rootless engine without crun cannot keep the user's groups, so GPU programs may fail with `Permission denied`; `build-pipeline doctor` shows how to fix that",
        );
    }
    let too_old = args.print.and_then(|form| container.too_old_for(form_of(form)));
    if let Some(why) = too_old {
        output::warn("engine-version", &format!("{why}; `--print shell` works with every version"));
    }
    Ok(container)
}

/// Prints the name of a detached container, and how to use it.
fn show_detached(prepared: &Prepared, name: &str) -> Result<(), Failure> {
    let engine = prepared.engine_kind();
    output::result(&format!("{name}\n"))?;
    output::hint(&format!("`{engine} logs --follow {name}` shows its output"));
    output::hint(&format!("`{engine} rm --force {name}` stops and removes it"));
    Ok(())
}

/// Runs a container in the foreground, connected to this program's input and output.
async fn attended(
    engine: &Engine,
    prepared: &Prepared,
    container: &Container,
    is_interactive: bool,
) -> Result<Ended, Failure> {
    let has_terminal = tty::is_terminal();
    let has_input = has_terminal || is_interactive;
    let (size, output) = (tty::size, &output::pass_on);
    let caller = Caller { has_terminal, has_input, size, output };
    let begin = || {
        // The mode is restored on drop.
        let raw = if has_terminal { Raw::begin() } else { None };
        (raw, has_input.then(tty::input))
    };
    session::attended(engine, prepared, container, caller, begin).await
}

/// Prints the known failures in the last output, if there are any.
fn offer(last: &[u8]) -> Result<(), Failure> {
    let failures = global::data()?.failures()?;
    let unread = |error| Failure::caused(Kind::Bug, "cannot read the command's output", &error);
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
