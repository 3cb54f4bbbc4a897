//! `build-pipeline export`: writes the steps of plans as jobs for a CI system.

mod bake;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use atomic_write_file::AtomicWriteFile;
use export::ci::{Install, InstallError};
use export::{EpochError, Jobs, Options, is_ours};
use failure::{Failure, Kind};

use crate::cli::{Export, Global};
use crate::commands::step::plans;
use crate::global;
use terminal::output;

/// Writes, prints or checks a workflow.
pub(crate) fn run(global: &Global, args: &Export) -> Result<(), Failure> {
    let project = global::project()?;
    let subject = global::with_names(&args.subject, &args.names);
    if subject.tracks.is_empty() {
        return Err(Failure::new(Kind::Input, "no track given")
            .hint("use `build-pipeline export github vulkan --store …`"));
    }
    let prepared = plans(global, &project, &subject)?;
    // The options are left out.
    let command =
        format!("build-pipeline export {} {}", args.system.name(), subject.tracks.join(" "));
    let Some(writer) = args.system.writer() else {
        return bake::run(global, args, &command, prepared);
    };
    let plans: Vec<_> = prepared.plans.into_iter().map(|one| one.plan).collect();
    let stores = project::stores::parse(&args.stores, &global.mirror)?;
    let options = Options {
        hosts: stores.iter().filter_map(|store| store.host().map(str::to_owned)).collect(),
        stores: args.stores.iter().map(|store| store.expose().to_owned()).collect(),
        push: args.push.as_ref().map(|push| push.expose().to_owned()),
        install: install(args.install.as_deref().unwrap_or_default())?,
        runs_on: args.runs_on.clone().unwrap_or_else(|| writer.runs_on.to_owned()),
        command,
    };
    let text = writer.file(&Jobs::of(&plans).map_err(|error| fixed_time(&error))?, &options);
    match (&args.output, args.check) {
        (None, _) => output::result(&text),
        (Some(file), true) => check(file, &text, &options.command),
        (Some(file), false) => write(file, &text),
    }
}

/// Checks the value of `--install`.
pub(crate) fn install(command: &str) -> Result<Install, Failure> {
    Install::new(command).map_err(|error: InstallError| {
        let hint = match error {
            InstallError::Secret => "use a variable of the CI system, such as `$TOKEN`",
            _ => "for example `--install 'cargo install --locked --git URL build-pipeline'`",
        };
        Failure::new(Kind::Input, format!("the command of `--install` {error}")).hint(hint)
    })
}

/// Returns the error for a plan whose time comes from a variable.
fn fixed_time(error: &EpochError) -> Failure {
    Failure::from_chain(Kind::Input, error)
        .hint("set `source-date-epoch` in versions/versions.toml")
}

/// Writes the file. Never overwrites a file that `export` did not write.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let is_other = match project::read_bytes(file) {
        Ok(found) => !is_ours(&found),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_other {
        let what = format!("`{}` exists, and `export` did not write it", file.display());
        return Err(Failure::new(Kind::Input, what)
            .hint("choose another file with `--output`, or move this one away first"));
    }
    let write = || {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut whole = AtomicWriteFile::open(file)?;
        whole.write_all(text.as_bytes())?;
        whole.commit()
    };
    write().map_err(|error| {
        let kind = Kind::of_write(&error);
        Failure::caused(kind, format!("writing `{}` failed", file.display()), &error)
            .hint("choose another file with `--output`")
    })
}

/// Compares a file with what it should contain.
fn check(file: &Path, wanted: &str, command: &str) -> Result<(), Failure> {
    let found = project::read_text(file).map_err(|error| {
        Failure::caused(Kind::Input, format!("reading `{}` failed", file.display()), &error)
    })?;
    if found == wanted {
        return Ok(());
    }
    let same = found.lines().zip(wanted.lines()).take_while(|(one, other)| one == other).count();
    let line = same + 1;
    let what = format!("`{}`, line {line}, is not up to date", file.display());
    let mut told = Failure::new(Kind::Differs, what);
    let shown = |text: &str| text.lines().nth(same).unwrap_or("(the end)").trim().to_owned();
    told.causes = vec![
        format!("the file contains `{}`", shown(&found)),
        format!("it should contain `{}`", shown(wanted)),
    ];
    Err(told.hint(format!("`{command} …` without `--check` writes the file again")))
}
