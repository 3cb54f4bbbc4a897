//! Runs the probes of patches: small programs that check, without a GPU, that a patch works.
//!
//! This module is not in `patcher`, which starts no processes, and not in the command line, because
//! a build that patches its sources runs the same probes. Start at [`Tools`].
//!
//! A probe gets its own directory, no environment variable except `PATH`, no terminal, a time limit
//! and an output limit. It can use the network: it comes from a patch file, which is trusted as
//! much as a Dockerfile.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use patcher::{ProbeJob, ProbeRun, Probes, Tool};

/// The time limit of a probe. The slowest probe in this project takes a third of a second.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The output limit of a probe. For the largest file in this project, the preprocessor prints 300
/// kB.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// How long to wait for a probe's remaining output after it has ended.
const GRACE: Duration = Duration::from_secs(2);

/// How often to check a running probe.
const POLL: Duration = Duration::from_millis(5);

/// The programs on this machine that run probes.
#[derive(Debug, Clone)]
pub struct Tools {
    path: std::ffi::OsString,
    time_limit: Duration,
    output_limit: u64,
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

/// The result of a program that ran under the limits of a probe.
#[derive(Debug)]
struct FinishedProbe {
    success: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Tools {
    /// Searches the directories in `path`, which has the format of `PATH`.
    pub fn new(path: &OsStr) -> Self {
        Self { path: path.to_owned(), time_limit: TIME_LIMIT, output_limit: OUTPUT_LIMIT }
    }

    /// Returns the path of the first of `names` that is installed.
    fn find(&self, names: &[&str]) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        names.iter().find_map(|name| {
            std::env::split_paths(&self.path)
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(name))
                .find(is_program)
        })
    }

    /// Runs a program in a directory, under the limits. The error contains the reason for stopping
    /// it.
    fn run_in(
        &self,
        directory: &Path,
        program: &Path,
        arguments: &[String],
        stdin: &[u8],
    ) -> Result<FinishedProbe, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", &self.path)
            .env("LC_ALL", "C")
            .env("HOME", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group, so that child processes are ended too.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let stdout = self.gather(child.stdout.take());
        let stderr = self.gather(child.stderr.take());
        let input = stdin.to_vec();
        if let Some(mut pipe) = child.stdin.take() {
            // It is not an error if a probe does not read all of its input.
            std::thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let status = self.wait(&mut child);
        end_group(&child);
        drop(child.wait());
        let success = status?;
        Ok(FinishedProbe {
            success,
            stdout: self.gathered(&stdout)?,
            stderr: self.gathered(&stderr)?,
        })
    }

    fn wait(&self, child: &mut Child) -> Result<bool, String> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if begun.elapsed() >= self.time_limit => {
                    return Err(format!("it took longer than {} s", self.time_limit.as_secs_f32()));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Reads a pipe to its end, in a thread.
    fn gather<R: Read + Send + 'static>(&self, pipe: Option<R>) -> Receiver<io::Result<Vec<u8>>> {
        let limit = self.output_limit;
        let (sender, receiver) = channel();
        let read = move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.by_ref().take(limit + 1).read_to_end(&mut bytes)?;
                // The rest is read and dropped, so that the writer can finish.
                io::copy(&mut pipe, &mut io::sink())?;
            }
            Ok(bytes)
        };
        // If the output arrives too late, the receiver is gone.
        std::thread::spawn(move || drop(sender.send(read())));
        receiver
    }

    fn gathered(&self, from: &Receiver<io::Result<Vec<u8>>>) -> Result<Vec<u8>, String> {
        match from.recv_timeout(GRACE) {
            Ok(Ok(bytes)) if bytes.len() as u64 > self.output_limit => {
                Err(format!("it printed more than {} bytes", self.output_limit))
            }
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(format!("cannot read its output: {error}")),
            Err(_) => Err("a child process goes on running and holds its output open".to_owned()),
        }
    }

    /// Runs a program on a copy of one file, under the limits of probes.
    pub fn edit(&self, program: &str, arguments: &[String], name: &str, content: &[u8]) -> Edited {
        let Some(found) = self.find(&[program]) else {
            return Edited::NotRun(format!("{program} is not installed"));
        };
        let run = || {
            let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
            let path = directory.path().join(name);
            fs::write(&path, content).map_err(|error| error.to_string())?;
            let ended = self.run_in(directory.path(), &found, arguments, b"")?;
            let content = fs::read(&path).map_err(|error| error.to_string())?;
            Ok::<_, String>((ended, content))
        };
        match run() {
            Ok((FinishedProbe { success: true, .. }, content)) => Edited::Content(content),
            Ok((FinishedProbe { stderr, .. }, _)) => {
                Edited::Failed(String::from_utf8_lossy(&stderr).trim().to_owned())
            }
            Err(reason) => Edited::NotRun(reason),
        }
    }

    fn run_job(&self, job: &ProbeJob, program: &Path) -> Result<FinishedProbe, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        for (name, bytes) in &job.files {
            let path = directory.path().join(name);
            let folder = path.parent().unwrap_or(directory.path());
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&path, bytes))
                .map_err(|error| format!("cannot write `{name}` for it: {error}"))?;
        }
        self.run_in(directory.path(), program, &job.arguments, &job.stdin)
    }
}

/// Ends the remaining processes of a probe's process group. It is fine if there are none.
fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
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
        let names = names(job.tool);
        let Some(program) = self.find(names) else {
            return ProbeRun::NotRun { reason: format!("{} is not installed", names.join(" or ")) };
        };
        match self.run_job(job, &program) {
            Ok(FinishedProbe { success, stdout, stderr }) => {
                ProbeRun::Ended { success, stdout, stderr }
            }
            Err(reason) => ProbeRun::Stopped { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn tools() -> Tools {
        Tools::new(&std::env::var_os("PATH").unwrap())
    }

    fn python(script: &str) -> ProbeJob {
        ProbeJob {
            patch: "a".to_owned(),
            probe: "b".to_owned(),
            tool: Tool::Python,
            arguments: ["-I", "-B", "-"].map(str::to_owned).to_vec(),
            stdin: script.as_bytes().to_vec(),
            files: BTreeMap::from([("sub/a.txt".to_owned(), b"text".to_vec())]),
        }
    }

    fn stopped(run: &ProbeRun) -> &str {
        match run {
            ProbeRun::Stopped { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_probe_sees_its_files_and_nothing_of_the_environment() {
        let script = "import os\nprint(sorted(os.listdir('.')), open('sub/a.txt').read())\n\
             print(sorted(set(os.environ) - {'LC_CTYPE'}))";
        match tools().run(&python(script)) {
            ProbeRun::Ended { success: true, stdout, .. } => {
                let stdout = String::from_utf8(stdout).unwrap();
                assert!(stdout.starts_with("['sub'] text\n"), "{stdout}");
                assert!(!stdout.contains("CARGO"), "{stdout}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_probe_that_takes_too_long_is_stopped_with_all_it_started() {
        let tools = Tools { time_limit: Duration::from_millis(800), ..tools() };
        let mark = format!("{}", 86_400 + std::process::id());
        let script =
            format!("import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\nwhile True: pass");
        let begun = Instant::now();
        assert_eq!(stopped(&tools.run(&python(&script))), "it took longer than 0.8 s");
        assert!(begun.elapsed() < Duration::from_secs(60));
        let is_left = || {
            fs::read_dir("/proc").unwrap().flatten().any(|entry| {
                fs::read(entry.path().join("cmdline"))
                    .is_ok_and(|line| line == format!("sleep\0{mark}\0").into_bytes())
            })
        };
        // A killed process ends when the kernel next schedules it, which takes a while on a busy
        // machine.
        while is_left() {
            let elapsed = begun.elapsed();
            assert!(elapsed < Duration::from_secs(60), "a child process of the probe is left");
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_probe_that_prints_too_much_is_stopped() {
        let tools = Tools { output_limit: 1000, ..tools() };
        assert_eq!(
            stopped(&tools.run(&python("print('x' * 100000)"))),
            "it printed more than 1000 bytes"
        );
    }

    #[test]
    fn what_a_probe_leaves_behind_does_not_hold_us() {
        let script = "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)";
        let begun = Instant::now();
        assert!(stopped(&tools().run(&python(script))).contains("goes on"));
        assert!(begun.elapsed() < Duration::from_secs(40));
    }

    #[test]
    fn a_missing_tool_is_no_pass() {
        let empty = tempfile::tempdir().unwrap();
        match Tools::new(empty.path().as_os_str()).run(&python("")) {
            ProbeRun::NotRun { reason } => assert_eq!(reason, "python3 is not installed"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_is_told_with_its_last_words() {
        match tools().run(&python("raise SystemExit('no such list')")) {
            ProbeRun::Ended { success: false, stderr, .. } => {
                assert_eq!(stderr, b"no such list\n");
            }
            other => panic!("{other:?}"),
        }
    }
}
