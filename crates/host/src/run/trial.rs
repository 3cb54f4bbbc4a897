//! Judges the result of a smoke test: its exit status, its output, and the kernel's messages during
//! the test.

use regex::bytes::Regex;

use super::Trial;

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With status 0, and its output matches.
    Good,
    /// With status 0, but its output does not match.
    Silent,
    /// With a different status.
    Status(i64),
    /// Because of a signal, or with the status that a shell returns for one.
    Signal(i64, &'static str),
}

/// Judges the exit status and the output of a smoke test.
pub fn judge(trial: &Trial, status: i64, output: &[u8]) -> Ending {
    match (status, signal(status)) {
        (0, _) if trial.expect.is_match(output) => Ending::Good,
        (0, _) => Ending::Silent,
        (_, Some(name)) => Ending::Signal(status, name),
        (_, None) => Ending::Status(status),
    }
}

impl Ending {
    /// Returns the result in words.
    pub fn words(&self) -> String {
        match self {
            Self::Good => "it exited with 0, and its output contains the expected text".to_owned(),
            Self::Silent => {
                "it exited with 0, but its output does not contain the expected text".to_owned()
            }
            Self::Status(status) => format!("it exited with status {status}"),
            Self::Signal(status, name) => {
                let what = match *name {
                    "SIGABRT" => ": aborted, as HIP does after a GPU memory fault",
                    "SIGSEGV" => ": a segmentation fault",
                    "SIGKILL" => ": killed, most likely because memory ran out",
                    "SIGILL" => ": the CPU does not support an instruction",
                    _ => "",
                };
                format!("it exited with status {status} ({name}{what})")
            }
        }
    }
}

/// Returns whether the output shows that the program used a software device.
pub fn is_software(trial: &Trial, output: &[u8]) -> bool {
    trial.software.as_ref().is_some_and(|pattern: &Regex| pattern.is_match(output))
}

/// Returns the name of the signal for a status.
fn signal(status: i64) -> Option<&'static str> {
    const NAMES: [(i64, &str); 11] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let number = status.checked_sub(128)?;
    NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// A record of the kernel's log, in the format of `/dev/kmsg`: `6,1234,567890,-;text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLine {
    /// Its number; later records have larger numbers.
    pub number: u64,
    /// Its text.
    pub text: String,
}

/// Parses records of the kernel's log. Continuation lines (which start with a space) and lines that
/// are not records are left out.
pub fn kernel_lines(text: &str) -> Vec<KernelLine> {
    let record = |line: &str| {
        let (head, message) = line.split_once(';')?;
        let number = head.split(',').nth(1)?.parse().ok()?;
        Some(KernelLine { number, text: message.to_owned() })
    };
    text.lines().filter(|line| !line.starts_with(' ')).filter_map(record).collect()
}

/// Returns the messages of the GPU's driver in `after` that are not in `before`.
pub fn said_meanwhile(before: &[KernelLine], after: &[KernelLine]) -> Vec<String> {
    let last = before.iter().map(|line| line.number).max();
    let is_of_gpu = |text: &str| ["amdgpu", "kfd", "[drm"].iter().any(|word| text.contains(word));
    after
        .iter()
        .filter(|line| last.is_none_or(|last| line.number > last) && is_of_gpu(&line.text))
        .map(|line| line.text.clone())
        .collect()
}
