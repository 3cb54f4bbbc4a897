//! Runs one program with a time limit and an output limit.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long to wait for a program's remaining output after it has ended. On a busy machine, the
/// thread that reads it may have to wait.
const GRACE: Duration = Duration::from_secs(20);

/// How often to check a running program.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How long it may run.
    pub(super) time: Duration,
    /// How much it may print on each stream, in bytes.
    pub(super) output: u64,
}

/// The result of a program.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs a command with this standard input. The error contains the reason for stopping it.
pub(super) fn run(
    mut command: Command,
    stdin: Vec<u8>,
    limits: Limits,
) -> Result<Finished, String> {
    let program = command.get_program().to_os_string();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A separate process group, so that child processes are killed too.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
    let finished = attend(&mut child, stdin, limits);
    end_group(&child);
    drop(child.wait());
    let (status, stdout, stderr) = finished?;
    Ok(Finished {
        status,
        stdout: gathered(&stdout, limits.output)?,
        stderr: gathered(&stderr, limits.output)?,
    })
}

/// Receives the output of a program from the thread that reads it.
type Gathered = Receiver<io::Result<Vec<u8>>>;

/// Writes a program's input, reads its output, and waits for its end.
fn attend(
    child: &mut Child,
    stdin: Vec<u8>,
    limits: Limits,
) -> Result<(ExitStatus, Gathered, Gathered), String> {
    let stdout = gather(child.stdout.take(), limits.output)?;
    let stderr = gather(child.stderr.take(), limits.output)?;
    if let Some(pipe) = child.stdin.take() {
        feed(pipe, stdin)?;
    }
    Ok((wait(child, limits.time)?, stdout, stderr))
}

/// Writes the input of a program, in a thread.
pub(super) fn feed(mut pipe: ChildStdin, stdin: Vec<u8>) -> Result<(), String> {
    // It is not an error if a program does not read all of its input.
    let write = move || drop(pipe.write_all(&stdin));
    started(thread::Builder::new().spawn(write))
}

fn started(thread: io::Result<JoinHandle<()>>) -> Result<(), String> {
    thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begun.elapsed() >= limit => {
                return Err(format!("it took longer than {} s", limit.as_secs_f32()));
            }
            Ok(None) => thread::sleep(POLL),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Ends the remaining processes of a program's process group. It is fine if there are none.
fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Reads a pipe to its end, in a thread.
fn gather<R: Read + Send + 'static>(pipe: Option<R>, limit: u64) -> Result<Gathered, String> {
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
    started(thread::Builder::new().spawn(move || drop(sender.send(read()))))?;
    Ok(receiver)
}

fn gathered(from: &Gathered, limit: u64) -> Result<Vec<u8>, String> {
    match from.recv_timeout(GRACE) {
        Ok(Ok(bytes)) if bytes.len() as u64 > limit => {
            Err(format!("it printed more than {limit} bytes"))
        }
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(format!("cannot read its output: {error}")),
        Err(_) => Err("a child process is still running and keeps its output open".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script that may print 10 bytes.
    fn script(text: &str, stdin: &str) -> Result<Finished, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        let limits = Limits { time: Duration::from_secs(300), output: 10 };
        run(command, stdin.as_bytes().to_vec(), limits)
    }

    #[test]
    fn a_program_may_print_as_much_as_its_limit_on_each_stream() {
        let finished = script("cat; printf 0123456789 >&2; exit 3", "abcdefghij").unwrap();
        assert_eq!(
            (&*finished.stdout, &*finished.stderr),
            (&b"abcdefghij"[..], &b"0123456789"[..])
        );
        assert_eq!(finished.status.code(), Some(3));
        for text in ["printf 0123456789a", "printf 0123456789a >&2"] {
            assert_eq!(script(text, "").unwrap_err(), "it printed more than 10 bytes");
        }
        // A program need not read its input.
        assert!(script("exit 0", &"x".repeat(1 << 20)).unwrap().status.success());
        let missing = run(Command::new("/no/such/program"), Vec::new(), super::super::LIMITS);
        assert!(missing.unwrap_err().starts_with("cannot start `/no/such/program`: "));
    }
}
