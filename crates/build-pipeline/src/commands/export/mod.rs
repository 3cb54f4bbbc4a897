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
use clap::ValueEnum;
use failure::{Failure, Kind};
use upkeep::ci::Install;

use crate::cli::{Export, Global};
use crate::commands::step::plans;
use crate::global;
use terminal::output;

use jobs::{Jobs, Options};

/// A CI system. It is defined here, not with the other arguments, so that adding a system changes
/// only this folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildSystem {
    /// GitHub Actions
    Github,
    /// GitLab CI
    Gitlab,
    /// Tekton Pipelines
    Tekton,
    /// docker buildx bake, for builders on other machines. Write the build contexts of all ready
    /// steps to a folder, and import the images that bake has written to it
    Bake,
}

/// The help of `--runs-on`.
pub(crate) const RUNS_ON_HELP: &str = "Where jobs run: a runner label for GitHub Actions [default: ubuntu-24.04], or a container image for GitLab and Tekton [default: debian:13]";

/// How the jobs of a CI system are written.
struct Writer {
    /// The characters that begin a comment.
    comment: &'static str,
    /// Where jobs run by default.
    runs_on: &'static str,
    /// Returns the text of the file, without the first line.
    text: fn(&Jobs, &Options) -> String,
}

impl BuildSystem {
    /// Returns how jobs are written; `None` for bake, which has no jobs.
    fn writer(self) -> Option<Writer> {
        match self {
            Self::Github => Some(github::WRITER),
            Self::Gitlab => Some(gitlab::WRITER),
            Self::Tekton => Some(tekton::WRITER),
            Self::Bake => None,
        }
    }

    /// Returns the name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Returns the values of `system` that write jobs, which need a store and an installed tool.
pub(crate) fn with_jobs() -> impl Iterator<Item = (&'static str, String)> {
    let systems = BuildSystem::value_variants().iter();
    systems.filter(|system| system.writer().is_some()).map(|system| ("system", system.name()))
}

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
        install: Install::new(args.install.as_deref().unwrap_or_default())?,
        runs_on: args.runs_on.clone().unwrap_or_else(|| writer.runs_on.to_owned()),
        command,
    };
    let jobs = Jobs::of(&plans)?;
    let text = format!(
        "{} Written by `{}`. Do not edit it: `--check` compares it with the plans.\n{}",
        writer.comment,
        options.command,
        (writer.text)(&jobs, &options)
    );
    match (&args.output, args.check) {
        (None, _) => output::result(&text),
        (Some(file), true) => check(file, &text, &options.command),
        (Some(file), false) => write(file, &text),
    }
}

/// Returns whether `export` wrote a text, whatever its comments begin with.
fn is_ours(text: &[u8]) -> bool {
    let head = text.iter().position(u8::is_ascii_alphabetic).unwrap_or_default();
    text[head..].starts_with(b"Written by `build-pipeline export ")
}

/// Writes the file. Never overwrites a file that `export` did not write.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let is_other = match fs::read(file) {
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
