//! Runs the probes of patches: small programs that check, without a GPU, that a patch works.
//!
//! This module is not in `patcher`, which starts no processes, and not in the command line, because
//! a build that patches its sources runs the same probes. Start at [`Tools`].
//!
//! A probe executes unreviewed code of the tree that is patched. So a probe runs in its own
//! namespaces (`confine`): as an ordinary user, without a network, with a read-only view of its
//! files and of the system's programs (`jail`), and with limits on time, memory, processes and
//! output. If the machine does not allow that, the probe is not run, unless the user allows it to
//! run unconfined.

mod confine;
mod jail;
mod process;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use patcher::{ProbeJob, ProbeRun, Probes, Tool};

pub use confine::run_helper;
use confine::{Confined, Ended};
use process::Limits;

/// The limits of a probe. The slowest probe in this project takes a third of a second; for the
/// largest file, the preprocessor prints 300 kB. The time is generous, because a probe may have to
/// wait for other programs. A confined probe has a limit on its CPU time too.
const LIMITS: Limits = Limits { time: Duration::from_secs(120), output: 4 << 20 };

/// The first words of the reason that is given if this machine cannot confine a probe.
pub const CANNOT_CONFINE: &str = "this machine cannot confine a probe";

/// Where a confined probe finds programs.
const JAIL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The programs on this machine that run probes.
#[derive(Debug, Clone)]
pub struct Tools {
    path: std::ffi::OsString,
    limits: Limits,
    confinement: Confinement,
    launcher: PathBuf,
}

/// Whether programs run in their own namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Programs run in their own namespaces, or not at all.
    Required,
    /// Programs run in their own namespaces if this machine allows it.
    Preferred,
    /// Programs run with all privileges of this process.
    Off,
}

/// The result of a program that changes a file in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// It succeeded. Contains the new content of the file.
    Content(Vec<u8>),
    /// It failed. Contains its error output.
    Failed(String),
    /// It was not run or was stopped. Contains the reason.
    NotRun(String),
}

/// A program with its input.
struct Job<'a> {
    program: &'a [&'a str],
    arguments: &'a [String],
    files: &'a BTreeMap<String, Vec<u8>>,
    stdin: &'a [u8],
    /// The file whose content is the result, instead of standard output.
    result: Option<&'a str>,
}

impl Tools {
    /// Creates tools that are searched for in the directories of `path`, which has the format of
    /// `PATH`. Programs are either confined or not run. The calling program must call
    /// [`run_helper`] when it starts.
    pub fn new(path: &OsStr) -> Self {
        Self {
            path: path.to_owned(),
            limits: LIMITS,
            confinement: Confinement::Required,
            launcher: PathBuf::from(confine::THIS_PROGRAM),
        }
    }

    /// Returns these tools with a different [`Confinement`].
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Returns these tools with a different program that calls [`run_helper`].
    #[must_use]
    pub fn launched_by(self, launcher: &Path) -> Self {
        Self { launcher: launcher.to_owned(), ..self }
    }

    /// Returns these tools with different limits on the time and on the size of the output.
    #[must_use]
    pub fn limited_to(self, time: Duration, output: u64) -> Self {
        Self { limits: Limits { time, output }, ..self }
    }

    /// Returns the paths of all `names` that are installed, in order of preference.
    fn find(&self, names: &[&str]) -> Vec<PathBuf> {
        let is_program = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let folders: Vec<PathBuf> =
            std::env::split_paths(&self.path).filter(|folder| folder.is_absolute()).collect();
        let paths = names.iter().flat_map(|name| folders.iter().map(move |at| at.join(name)));
        paths.filter(is_program).collect()
    }

    /// Runs a program, confined according to [`Confinement`].
    fn run_program(&self, job: &Job<'_>) -> ProbeRun {
        let found = self.find(job.program);
        let names = job.program.join(" or ");
        let Some(first) = found.first() else {
            return ProbeRun::NotRun { reason: format!("{names} is not installed") };
        };
        if self.confinement == Confinement::Off {
            return self.run_freely(job, first);
        }
        let run = match found.iter().find(|path| is_visible(path)) {
            Some(program) => self.run_confined(job, program),
            None => ProbeRun::NotRun {
                reason: format!(
                    "`{}` is not in a system folder, so a confined probe cannot see it",
                    first.display()
                ),
            },
        };
        match run {
            ProbeRun::NotRun { .. } if self.confinement == Confinement::Preferred => {
                self.run_freely(job, first)
            }
            run => run,
        }
    }

    fn run_confined(&self, job: &Job<'_>, program: &Path) -> ProbeRun {
        let confined = Confined {
            program: program.to_owned(),
            arguments: job.arguments.to_vec(),
            path: JAIL_PATH.to_owned(),
            result: job.result.map(str::to_owned),
            ..Confined::default()
        };
        let run = confined
            .command(&self.launcher, job.files, job.stdin)
            .and_then(|(command, input)| process::run(command, input, self.limits));
        let finished = match run {
            Ok(finished) => finished,
            Err(reason) => return ProbeRun::Stopped { reason },
        };
        match confine::ended(finished.status) {
            Ended::Ran { success } => {
                ProbeRun::Ended { success, stdout: finished.stdout, stderr: finished.stderr }
            }
            Ended::NotConfined => {
                let why = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
                ProbeRun::NotRun { reason: format!("{CANNOT_CONFINE}: {why}") }
            }
            Ended::OutOfTime => {
                let reason = format!("it used more than {} s of CPU time", jail::CPU_TIME);
                ProbeRun::Stopped { reason }
            }
            Ended::Stopped => {
                ProbeRun::Stopped { reason: format!("its helper ended with {}", finished.status) }
            }
        }
    }

    /// Runs a program with all privileges of this process, in a temporary directory.
    fn run_freely(&self, job: &Job<'_>, program: &Path) -> ProbeRun {
        let run = || {
            let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
            for (name, bytes) in job.files {
                let path = directory.path().join(name);
                let folder = path.parent().unwrap_or(directory.path());
                fs::create_dir_all(folder)
                    .and_then(|()| fs::write(&path, bytes))
                    .map_err(|error| format!("cannot write `{name}` for it: {error}"))?;
            }
            let mut command = Command::new(program);
            command
                .args(job.arguments)
                .current_dir(directory.path())
                .env_clear()
                .env("PATH", &self.path)
                .env("LC_ALL", "C")
                .env("HOME", directory.path());
            let mut finished = process::run(command, job.stdin.to_vec(), self.limits)?;
            if let Some(name) = job.result {
                let path = directory.path().join(name);
                finished.stdout = fs::read(path).map_err(|error| error.to_string())?;
            }
            Ok(finished)
        };
        match run() {
            Ok(process::Finished { status, stdout, stderr }) => {
                ProbeRun::Ended { success: status.success(), stdout, stderr }
            }
            Err(reason) => ProbeRun::Stopped { reason },
        }
    }

    /// Runs a program on a copy of one file, under the limits of probes.
    pub fn edit(&self, program: &str, arguments: &[String], name: &str, content: &[u8]) -> Edited {
        let files = BTreeMap::from([(name.to_owned(), content.to_vec())]);
        let program = [program];
        let job =
            Job { program: &program, arguments, files: &files, stdin: b"", result: Some(name) };
        match self.run_program(&job) {
            ProbeRun::Ended { success: true, stdout, .. } => Edited::Content(stdout),
            ProbeRun::Ended { stderr, .. } => {
                Edited::Failed(String::from_utf8_lossy(&stderr).trim().to_owned())
            }
            ProbeRun::NotRun { reason } | ProbeRun::Stopped { reason } => Edited::NotRun(reason),
        }
    }
}

/// Returns whether a confined program can see a path and its target.
fn is_visible(path: &Path) -> bool {
    let is_in = |place: &Path| jail::PROGRAMS.iter().any(|folder| place.starts_with(folder));
    is_in(path) && fs::canonicalize(path).is_ok_and(|path| is_in(&path))
}

/// Returns the programs that can serve as a tool, in order of preference.
fn names(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::Cmake => &["cmake"],
        Tool::Cpp => &["g++", "clang++"],
        Tool::Python => &["python3"],
    }
}

impl Probes for Tools {
    fn run(&self, job: &ProbeJob) -> ProbeRun {
        self.run_program(&Job {
            program: names(job.tool),
            arguments: &job.arguments,
            files: &job.files,
            stdin: &job.stdin,
            result: None,
        })
    }
}
