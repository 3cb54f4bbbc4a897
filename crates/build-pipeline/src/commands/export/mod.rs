//! `build-pipeline export`: writes the steps of plans as jobs for a CI system.

mod bake;
mod github;
mod gitlab;
mod jobs;
mod tekton;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use upkeep::ci::Install;

use crate::cli::{BuildSystem, Export, Global};
use crate::commands::step::plans;
use crate::global;
use crate::output;

use jobs::{Jobs, Options};

/// Writes, prints or checks a workflow.
pub(crate) fn run(global: &Global, args: &Export) -> Result<(), Failure> {
    let project = global::project(global)?;
    let subject = global::with_names(&args.subject, &args.names);
    if subject.tracks.is_empty() {
        return Err(Failure::new(Kind::Input, "no track given")
            .hint("use `build-pipeline export github vulkan --store …`"));
    }
    let prepared = plans(global, &project, &subject)?;
    let command = command(args, &subject.tracks);
    let write_jobs = match args.system {
        BuildSystem::Github => github::workflow,
        BuildSystem::Gitlab => gitlab::pipeline,
        BuildSystem::Tekton => tekton::pipeline,
        BuildSystem::Bake => return bake::run(global, args, &command, prepared),
    };
    let plans: Vec<_> = prepared.plans.into_iter().map(|one| one.plan).collect();
    let stores = project::stores::parse(&args.stores, &global.mirror)?;
    let options = Options {
        hosts: stores.iter().filter_map(|store| store.host().map(str::to_owned)).collect(),
        stores: args.stores.iter().map(|store| store.expose().to_owned()).collect(),
        push: args.push.as_ref().map(|push| push.expose().to_owned()),
        install: Install::new(args.install.as_deref().unwrap_or_default())?,
        runs_on: args.runs_on.clone().unwrap_or_else(|| runs_on(args.system).to_owned()),
        command,
    };
    let jobs = Jobs::of(&plans)?;
    let text = write_jobs(&jobs, &options);
    match (&args.output, args.check) {
        (None, _) => output::result(&text),
        (Some(file), true) => check(file, &text, &options.command),
        (Some(file), false) => write(file, &text),
    }
}

/// Returns the command that generates the file, without the options that specify where it is
/// written.
fn command(args: &Export, tracks: &[String]) -> String {
    let system = match args.system {
        BuildSystem::Github => "github",
        BuildSystem::Gitlab => "gitlab",
        BuildSystem::Tekton => "tekton",
        BuildSystem::Bake => "bake",
    };
    format!("build-pipeline export {system} {}", tracks.join(" "))
}

/// Returns where jobs run by default.
fn runs_on(system: BuildSystem) -> &'static str {
    match system {
        BuildSystem::Github => "ubuntu-24.04",
        BuildSystem::Gitlab | BuildSystem::Tekton | BuildSystem::Bake => "debian:13",
    }
}

/// The start of every file that `export` writes.
const WRITTEN_BY: &str = "# Written by `build-pipeline export ";

/// Writes the file. Never overwrites a file that `export` did not write.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let is_other = match fs::read(file) {
        Ok(found) => !found.starts_with(WRITTEN_BY.as_bytes()),
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
    let found = fs::read_to_string(file).map_err(|error| {
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
