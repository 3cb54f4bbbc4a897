//! Runs programs from a given search path, in a given environment.
//!
//! A program gets its own process group. If the future that waits for it is dropped, the whole
//! group is killed, and the drop waits until it has ended, so that its folder can be removed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How many bytes at the end of a program's output are searched for the last lines, which become
/// part of an error.
const KEPT_OUTPUT: usize = 16 << 10;
/// The maximum number of output lines in an error.
const KEPT_LINES: usize = 20;
/// The maximum size of a program's output: 64 MiB. `apt-cache show` prints 2 MiB for 1,000
/// packages.
const MOST_ANSWER: usize = 64 << 20;

/// The search path and the environment for programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// A search path, in the format of `PATH`.
    pub path: OsString,
    /// Additional variables, for example for proxies. `PATH`, `LC_ALL` and `HOME` are always set.
    pub variables: BTreeMap<OsString, OsString>,
}

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not in the search path.
    #[error("`{program}` is not installed; it is in the Debian package `{package}`")]
    Missing {
        /// The name of the program.
        program: String,
        /// The package that contains it.
        package: &'static str,
    },
    /// It could not be started, or waiting for it failed.
    #[error("cannot run `{program}`")]
    Run {
        /// The name of the program.
        program: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It failed.
    #[error("`{program}` failed ({status})")]
    Failed {
        /// The name of the program.
        program: String,
        /// Its exit status, for example `exit status: 100`.
        status: String,
        /// The last nonempty lines of its output: at most 20, and at most 16 KiB. They are
        /// unsanitised, and callers must sanitise them before printing.
        last_lines: Vec<String>,
    },
    /// It printed too much.
    #[error("`{program}` printed more than {MOST_ANSWER} bytes")]
    TooLong {
        /// The name of the program.
        program: String,
    },
}

impl ProgramError {
    /// Returns the last lines of the program's output, if it failed. They are unsanitised.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Failed { last_lines, .. } => last_lines,
            Self::Missing { .. } | Self::Run { .. } | Self::TooLong { .. } => &[],
        }
    }
}

/// One call of a program.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) program: &'a str,
    pub(crate) package: &'static str,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(&'a str, OsString)>,
    /// Its working directory, and its `HOME`.
    pub(crate) folder: &'a Path,
}

impl Programs {
    /// Returns the path of a program.
    fn find(&self, program: &str, package: &'static str) -> Result<PathBuf, ProgramError> {
        let is_program = |path: &PathBuf| {
            use std::os::unix::fs::PermissionsExt as _;
            path.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        std::env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(program))
            .find(is_program)
            .ok_or_else(|| ProgramError::Missing { program: program.to_owned(), package })
    }

    /// Returns the command for a call.
    fn command(&self, call: &Call<'_>) -> Result<Command, ProgramError> {
        let mut command = Command::new(self.find(call.program, call.package)?);
        command
            .args(&call.arguments)
            .env_clear()
            .envs(&self.variables)
            .envs(call.variables.iter().map(|(name, value)| (OsStr::new(name), value)))
            .env("PATH", &self.path)
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", call.folder)
            .current_dir(call.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }

    /// Runs a program to completion, and returns its standard output.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<String, ProgramError> {
        let mut command = self.command(&call)?;
        let failed = |source| ProgramError::Run { program: call.program.to_owned(), source };
        let mut running = Running(Some(command.spawn().map_err(failed)?));
        let (Some(child), program) = (&mut running.0, call.program.to_owned()) else {
            return Err(failed(io::Error::other("it exited before its exit status could be read")));
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (answer, said) =
            tokio::try_join!(read(stdout, MOST_ANSWER), read_end(stderr)).map_err(failed)?;
        if answer.len() > MOST_ANSWER {
            return Err(ProgramError::TooLong { program });
        }
        let status = child.wait().await.map_err(failed)?;
        running.0 = None;
        if !status.success() {
            let (status, last_lines) = (status.to_string(), last_lines(&answer, &said));
            return Err(ProgramError::Failed { program, status, last_lines });
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Returns the last lines of both outputs, with standard error at the end.
fn last_lines(stdout: &[u8], stderr: &[u8]) -> Vec<String> {
    let mut output = String::from_utf8_lossy(stdout).into_owned();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&String::from_utf8_lossy(stderr));
    let from = floor_char(&output, output.len().saturating_sub(KEPT_OUTPUT));
    let lines = output[from..].lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

fn floor_char(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Reads at most `most + 1` bytes. The additional byte shows that there was more.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Reads everything and keeps the end.
async fn read_end(from: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    let Some(mut from) = from else { return Ok(kept) };
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(kept),
            count => kept.extend_from_slice(&buffer[..count]),
        }
        if kept.len() > 2 * KEPT_OUTPUT {
            kept.drain(..kept.len() - KEPT_OUTPUT);
        }
    }
}

/// A process whose process group is killed on drop.
struct Running(Option<Child>);

/// How long a drop waits for the killed group: at most 2 s, in steps of 5 ms. The group ends within
/// a few milliseconds unless the disk hangs.
const WAIT_STEPS: u32 = 400;
const WAIT_STEP: Duration = Duration::from_millis(5);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let Some(group) = id.and_then(Pid::from_raw) else { return };
        // The process may have ended already. In that case there is no such group.
        let _ended = kill_process_group(group, Signal::KILL);
        for _ in 0..WAIT_STEPS {
            let _reaped = child.try_wait();
            if test_kill_process_group(group).is_err() {
                return;
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &str) -> ProgramError {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs { path: "/usr/bin:/bin".into(), variables: BTreeMap::new() };
        let call = Call {
            program: "sh",
            package: "dash",
            arguments: vec!["-c".into(), script.into()],
            variables: Vec::new(),
            folder: folder.path(),
        };
        programs.run(call).await.unwrap_err()
    }

    #[tokio::test]
    async fn an_error_has_the_program_its_status_and_its_last_lines() {
        let error = run("printf out; printf 'E: why\\n\\n' >&2; exit 25").await;
        assert_eq!(error.to_string(), "`sh` failed (exit status: 25)");
        assert_eq!(error.last_lines(), ["out", "E: why"]);
    }

    #[tokio::test]
    async fn the_lines_of_an_error_are_bounded() {
        let error = run("seq 100000 >&2; exit 1").await;
        assert_eq!(error.last_lines().len(), KEPT_LINES);
        assert_eq!(error.last_lines().last().unwrap(), "100000");
        let error = run("head -c 1000000 /dev/zero | tr '\\0' ä >&2; exit 1").await;
        let length: usize = error.last_lines().iter().map(String::len).sum();
        assert!(length <= KEPT_OUTPUT + 4, "{length}");
    }
}
