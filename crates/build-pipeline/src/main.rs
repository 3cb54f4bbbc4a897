//! Turns arguments and files into requests, prints the results, and sets the exit code.
//!
//! Overview: [`cli`] defines the command line, `commands` has one module per command, and `global`
//! applies the global options. Other crates do the work and write the text of each document; they
//! do not depend on arguments or the terminal. `typed` writes the command line for records and
//! locks. The crate `failure` explains what went wrong and what to do next, and the crate
//! `terminal` prints it. `rebuild` builds an image again. `refusal` rewrites clap's errors, and
//! `completions` writes shell completions.

mod cli;
mod commands;
mod completions;
mod global;
mod rebuild;
mod refusal;
mod signals;
mod typed;

use clap::builder::Resettable;
use clap::{Arg, CommandFactory as _, FromArgMatches as _};
use failure::Failure;
use names::Secret;
use project::config::Config;
use project::environment;
use terminal::exit_code::code_of;
use terminal::reporter::Reporter;
use terminal::{heartbeat, output};

use crate::cli::{Cli, Color, Command, Global};
use crate::refusal::Refusal;

fn main() -> std::process::ExitCode {
    // The processes that confine a probe run this same program, and must not have threads.
    if let Some(code) = executor::run_helper(std::env::args_os()) {
        return code;
    }
    hide_secrets_in_panics();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.global.color {
        Color::Auto => {}
        Color::Always => output::set_colours(true),
        Color::Never => output::set_colours(false),
    }
    if Reporter::is_json(cli.global.progress) {
        output::talk_json();
    }
    if cli.global.quiet {
        output::be_quiet();
    }
    start_logging(cli.global.verbose);
    match dispatch(&cli) {
        Ok(code) => code,
        Err(error) => {
            let error = typed::name_variables(error, &cli.global.variables);
            output::error(&error);
            code_of(error.kind).into()
        }
    }
}

/// Makes empty variables the same as variables that are not set, as other programs do.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    if !environment::has_empty() {
        return command;
    }
    let is_empty = |arg: &Arg| arg.get_env().is_some_and(environment::is_empty);
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(without_empty_variables)
}

/// Parses the command line. Prints clap's own output (help, errors).
fn parse() -> Result<Cli, std::process::ExitCode> {
    let told = |error: &clap::Error, command: &clap::Command| {
        if error.use_stderr() {
            let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            let typed: Vec<Secret> = words.iter().map(Secret::new).collect();
            // Hints can name the arguments of other commands.
            let mut command = command.clone();
            command.build();
            Refusal::new(error, &command, &words).print(&typed);
        } else if let Err(unwritten) =
            output::result(&names::mask(&error.render().ansi().to_string()))
        {
            output::error(&unwritten);
            return code_of(unwritten.kind).into();
        }
        std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    };
    // An invalid config file is an error only if the command uses it.
    let config = project::config::read();
    let mut command = without_empty_variables(Cli::command());
    if let Some(engine) = config.as_ref().ok().and_then(|config| config.engine) {
        command.build();
        command = with_engine(command, engine);
    }
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| told(&error, &command))?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| told(&error, &command))?;
    let applied = typed::check(&command, &matches)
        .and_then(|()| global::enter(cli.global.directory.as_deref()))
        .and_then(|()| configure(&mut cli, config));
    if let Err(error) = applied {
        if Reporter::is_json(cli.global.progress) {
            output::talk_json();
        }
        let error = typed::name_variables(error, &typed::from_variables(&command, &matches));
        output::error(&error);
        return Err(code_of(error.kind).into());
    }
    cli.global.words = typed::words(&command, &matches);
    cli.global.command = matches.subcommand_name().unwrap_or("build").to_owned();
    cli.global.variables = typed::from_variables(&command, &matches);
    // Freeing its thousand parts takes longer than parsing the command line.
    std::mem::forget(command);
    Ok(cli)
}

/// Applies the user's configuration where neither the command line nor the environment sets a
/// value.
fn configure(cli: &mut Cli, config: Result<Config, Failure>) -> Result<(), Failure> {
    let Global { mirror_rules, mirror_only, .. } = &cli.global;
    cli.global.mirror = project::mirrors::read(mirror_rules, *mirror_only)?;
    cli.global.mirror.use_bundles(&cli.global.bundles);
    let needs_none = matches!(
        cli.command,
        Some(
            Command::Help { .. }
                | Command::Completions { .. }
                | Command::Man { .. }
                | Command::Schema(_)
        )
    );
    let config = match config {
        Err(_) if needs_none => Config::default(),
        config => config?,
    };
    cli.global.mirror.add(&config);
    if let Some(cache) = config.cache {
        project::environment::use_cache_folder(cache);
    }
    let build = match &mut cli.command {
        None if cli.build.subject.tracks.is_empty() => None,
        None => Some(&mut cli.build),
        Some(Command::Build(args)) => Some(&mut args.build),
        Some(_) => None,
    };
    if let Some(build) = build
        && build.outputs.is_empty()
        && build.push.is_empty()
        && !build.load
        && !build.subject.rehearse
    {
        build.outputs.extend(config.output);
    }
    if let Some(stores) = stores_of(cli).filter(|stores| stores.is_empty()) {
        *stores = config.stores;
    }
    Ok(())
}

/// Returns the stores from the command line, if `store` in config.toml is their default.
fn stores_of(cli: &mut Cli) -> Option<&mut Vec<Secret>> {
    match &mut cli.command {
        // A rehearsal does not use the default stores, which may be on the network.
        None if cli.build.subject.tracks.is_empty() || cli.build.subject.rehearse => None,
        None => Some(&mut cli.build.stores.named),
        Some(Command::Build(args)) if args.build.subject.rehearse => None,
        Some(Command::Build(args)) => Some(&mut args.build.stores.named),
        Some(Command::Verify(args)) => Some(&mut args.stores),
        Some(Command::Step(args)) => match &mut args.command {
            cli::StepCommand::List(args) => Some(&mut args.stores),
            cli::StepCommand::Run(args) => Some(&mut args.stores.named),
            cli::StepCommand::Clean(_) => None,
        },
        Some(_) => None,
    }
}

/// Returns the command with `engine` in place of `auto` as the default of `--engine`, also in
/// commands of commands. `clean --engine` has no default, and keeps none.
fn with_engine(command: clap::Command, engine: &'static str) -> clap::Command {
    let with_default = |argument: clap::Arg| {
        let is_auto = argument.get_default_values().iter().any(|value| value == "auto");
        if argument.get_id() == "engine" && is_auto {
            argument.default_value(engine)
        } else {
            argument
        }
    };
    command.mut_args(with_default).mut_subcommands(|one| with_engine(one, engine))
}

/// Hides secrets in panic messages.
fn hide_secrets_in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::capture();
        output::say(&format!("{panic}"));
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            output::say(&format!("{trace}"));
        }
    }));
}

/// Runs the command. If the command runs another program, returns that program's exit code.
fn dispatch(cli: &Cli) -> Result<std::process::ExitCode, Failure> {
    // This program's lines must not mix with the output of a container.
    let is_container = matches!(cli.command, Some(Command::Run(_)));
    if !is_container && Reporter::is_log(cli.global.progress) {
        heartbeat::watch(&cli.global.command);
    }
    match &cli.command {
        Some(Command::Run(args)) => commands::run::run(args).map(Into::into),
        _ => {
            let ended = dispatch_own(cli);
            global::warn_of_mirrors(&cli.global);
            ended.map(|()| std::process::ExitCode::SUCCESS)
        }
    }
}

/// Runs a command that uses this program's own exit codes.
fn dispatch_own(cli: &Cli) -> Result<(), Failure> {
    let Some(command) = &cli.command else {
        let nothing_asked =
            cli::Build { lock_timeout: cli.build.lock_timeout, ..cli::Build::default() };
        return if cli.build == nothing_asked {
            commands::welcome::run()
        } else {
            commands::build::run(&cli.global, &cli.build)
        };
    };
    match command {
        Command::Init(args) => commands::init::run(args),
        Command::Build(cli::BuildArgs { names, build }) => {
            let subject = global::with_names(&build.subject, names);
            commands::build::run(&cli.global, &cli::Build { subject, ..build.clone() })
        }
        Command::Plan(args) => commands::plan::run(&cli.global, args),
        Command::Verify(args) => commands::verify::run(&cli.global, args),
        Command::Diff(args) => commands::diff::run(&cli.global, args),
        Command::Audit(args) => commands::audit::run(&cli.global, args),
        Command::Slim(args) => commands::slim::run(&cli.global, args),
        Command::Status(args) => commands::status::run(args),
        Command::Export(args) => commands::export::run(&cli.global, args),
        Command::Step(args) => commands::step::run(&cli.global, args),
        Command::Push(args) => commands::push::push(&cli.global, args),
        Command::Tag(args) => commands::push::tag(&cli.global, args),
        Command::Bundle(args) => commands::bundle::bundle(&cli.global, args),
        Command::Mirror(args) => commands::bundle::mirror(&cli.global, args),
        Command::Patch(args) => commands::patch::run(&cli.global, args),
        Command::Bump(args) => commands::bump::run(&cli.global, args),
        Command::Outdated(args) => commands::outdated::run(&cli.global, args),
        Command::Lock(args) => commands::lock::run(&cli.global, args),
        Command::Lint(args) => commands::lint::run(args),
        Command::Explain(args) => commands::explain::run(&cli.global, args),
        Command::Pins(args) => commands::pins::run(args),
        Command::Records(args) => commands::records::run(args),
        Command::Run(args) => commands::run::run(args).map(drop),
        Command::Smoke(args) => commands::smoke::run(args),
        Command::Clean(args) => commands::clean::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Env(args) => commands::env::run(args),
        Command::Diagnose(args) => commands::diagnose::run(args),
        Command::Schema(args) => commands::schema::run(args),
        Command::Completions { shell } => {
            let data = global::data()?;
            output::result(&completions::script(*shell, Cli::command(), &data))
        }
        Command::Man { folder } => commands::man::run(folder),
        Command::Help { topic } => commands::help::run(topic.as_deref()),
    }
}

/// Sends log lines to standard error, if `-v` or `RUST_LOG` requests them. With `--progress json`,
/// they are JSON too.
fn start_logging(verbose: u8) {
    let filter = project::environment::log_filter().unwrap_or_else(|| {
        match verbose {
            0 => "off",
            1 => "oci=info,executor=info,sources=info,launch=info,upkeep=info,build_pipeline=info",
            _ => "net=debug,oci=debug,executor=debug,sources=debug,launch=debug,upkeep=debug,build_pipeline=debug",
        }
        .to_owned()
    });
    if filter == "off" {
        return;
    }
    let filter = tracing_subscriber::EnvFilter::builder().parse_lossy(filter);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| output::LogWriter)
        .without_time()
        .init();
}
