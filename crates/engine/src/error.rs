//! Engine errors, grouped by what a caller can do about them.

use std::path::PathBuf;
use std::time::Duration;

/// Why an engine call failed.
///
/// Messages from the engine are included unchanged, with control characters. Callers sanitise them
/// before printing.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing answers on the socket.
    #[error("cannot {action}: no engine answers on `{}` ({reason})", .socket.display())]
    Unreachable {
        /// What was attempted.
        action: String,
        /// The socket that was tried.
        socket: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The private podman service does not start.
    #[error("cannot start `{program} system service`: {reason}")]
    Service {
        /// The program that was started.
        program: String,
        /// Its last output, or the system's error message.
        reason: String,
    },
    /// The connection ended before the response was complete, so the outcome is unknown.
    #[error(
        "lost the connection to the engine while trying to {action}; the outcome is unknown ({reason})"
    )]
    Lost {
        /// What was attempted.
        action: String,
        /// How the loss was detected.
        reason: String,
    },
    /// A `RUN` ended with a nonzero status.
    #[error(transparent)]
    Run(#[from] Box<RunFailure>),
    /// The engine rejects the Dockerfile, or one of its instructions other than `RUN`.
    #[error("the engine rejects the Dockerfile{}: {detail}", at_line(*.line))]
    Dockerfile {
        /// The engine's message.
        detail: String,
        /// The line of the Dockerfile that the build had reached, counted from 1.
        line: Option<usize>,
    },
    /// A base image is neither in the engine nor in its registry.
    #[error("the base image is not available: {detail}")]
    BaseMissing {
        /// The engine's message.
        detail: String,
    },
    /// The engine removed a part of its cache while a build, pull or push used it, for example
    /// because another build ended at that moment. The same operation can be retried.
    #[error("the engine removed a part of its cache while it was in use: {detail}")]
    CacheGone {
        /// The engine's message.
        detail: String,
    },
    /// A disk that the engine uses is full: its own, or the one with the contexts of podman's
    /// builds.
    #[error("cannot {action}: a disk that the engine uses is full ({detail})")]
    DiskFull {
        /// What was attempted.
        action: String,
        /// The engine's message.
        detail: String,
    },
    /// The engine cannot start any container.
    #[error("the engine cannot start containers: {detail}")]
    Runtime {
        /// The message of the OCI runtime.
        detail: String,
    },
    /// The engine reports that it lacks a feature, so a retry does not help.
    #[error("the engine does not have {what}: {detail}")]
    Unavailable {
        /// The missing feature.
        what: &'static str,
        /// The engine's message.
        detail: String,
    },
    /// The engine did not answer in time.
    #[error("cannot {action}: no response from the engine within {} s", .after.as_secs())]
    Silent {
        /// What was attempted.
        action: String,
        /// How long the caller waited.
        after: Duration,
    },
    /// The stream ended normally but named no image.
    #[error("the engine finished the build without naming an image")]
    NoImageId,
    /// The image that the stream named does not exist, is a different image, or does not belong to
    /// the run.
    #[error("the build named image `{named}`, but {found}")]
    ImageDiffers {
        /// The ID in the stream.
        named: String,
        /// The result of the inspect.
        found: String,
    },
    /// The engine does not have the object.
    #[error("cannot {action}: {detail}")]
    NotFound {
        /// What was attempted.
        action: String,
        /// The engine's message.
        detail: String,
    },
    /// The engine refused the request.
    #[error("cannot {action}: the engine reports: {detail}")]
    Refused {
        /// What was attempted.
        action: String,
        /// The engine's message.
        detail: String,
    },
    /// The engine's response is invalid.
    #[error("cannot {action}: the engine's response is invalid: {detail}")]
    Nonsense {
        /// What was attempted.
        action: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The data to send to the engine could not be read.
    #[error("cannot {action}: the data to send cannot be read")]
    Input {
        /// What was attempted.
        action: String,
        /// Why reading failed.
        #[source]
        source: std::io::Error,
    },
}

impl EngineError {
    /// Returns whether the engine cannot give files to other users, because its user namespace lacks
    /// their IDs.
    pub fn lacks_user_ids(&self) -> bool {
        matches!(self, Self::Dockerfile { detail, .. } if is_without_ids(detail))
    }

    /// Returns whether the engine itself reports that something is missing or does not work. Other
    /// failures may be temporary: a lost connection, a timeout, or a daemon that is busy or
    /// restarting.
    pub fn is_definitive(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Runtime { .. })
    }
}

/// A `RUN` that ended with a nonzero status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{instruction}`{} ended with status {status}",
    at_line(*.line)
)]
pub struct RunFailure {
    /// The exit status.
    pub status: i64,
    /// The instruction, as the engine writes it. If the step is unknown, the engine's message.
    pub instruction: String,
    /// The first line of the instruction in the Dockerfile, counted from 1.
    pub line: Option<usize>,
    /// The last lines of its output, oldest first.
    pub log: Vec<String>,
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line} of the Dockerfile)")).unwrap_or_default()
}

/// Returns whether the engine's message reports that containerd removed a snapshot or a lease that
/// was in use. This is a race between its garbage collection and builds or pulls that begin or end
/// at that moment (moby/buildkit#6521, #6977; containerd#3787). It says nothing about the
/// Dockerfile or the base image.
pub(crate) fn is_content_gone(detail: &str) -> bool {
    let is_snapshot = detail.contains("snapshot ") && detail.ends_with("does not exist: not found");
    is_snapshot || (detail.contains("lease \"") && detail.ends_with("\": not found"))
}

/// Returns whether the engine's message reports that it cannot give a file to another user, because
/// its user namespace lacks the ID.
pub(crate) fn is_without_ids(detail: &str) -> bool {
    detail.contains("lchown ") && detail.ends_with("invalid argument")
}

/// Returns the engine's message without the Go structures that it contains, such as podman's
/// `copier.request{Request:"PUT", …}`, which has 2,000 characters. The text after the last one has
/// the cause.
pub(crate) fn without_structures(detail: &str) -> &str {
    let is_name = |word: &str| {
        let part = |part: &str| !part.is_empty() && part.chars().all(char::is_alphanumeric);
        word.split_once('.').is_some_and(|(package, name)| part(package) && part(name))
    };
    let begins = detail.match_indices('{').any(|(at, _)| {
        let word = detail[..at].rsplit([' ', '*', '&', '"']).next().unwrap_or_default();
        is_name(word) && detail[at + 1..].starts_with(|c: char| c.is_ascii_uppercase())
    });
    match detail.rsplit_once("}: ") {
        Some((_, rest)) if begins && !rest.trim().is_empty() => rest,
        _ => detail,
    }
}

/// Returns whether the engine's message reports a full disk.
pub(crate) fn is_disk_full(detail: &str) -> bool {
    detail.contains("no space left on device")
        || detail.contains("disk quota exceeded")
        // podman reports this when the reader of a pipe fails. The real cause is lost.
        || (detail.contains("storing layer") && detail.contains("read/write on closed pipe"))
        // podman first writes the context to a file in its folder for temporary files. If that
        // fails, it reports this, and the real cause is lost.
        || detail.contains("Unable to copy tar file from request body")
}

/// Returns whether a message says that the engine has no image with the given ID. podman parses an
/// unknown ID as a name, refuses it because a name must not look like an ID
/// (`NormalizeToDockerHub`), and answers with status 500.
fn is_unknown_id(detail: &str) -> bool {
    detail.ends_with("cannot specify 64-byte hexadecimal strings")
}

/// Turns an API error outside builds into an [`EngineError`]. `status` is the HTTP status, if
/// there was one.
pub(crate) fn judge(action: &str, status: Option<u16>, detail: &str) -> EngineError {
    let action = action.to_owned();
    let detail = detail.trim().to_owned();
    if is_disk_full(&detail) {
        return EngineError::DiskFull { action, detail };
    }
    if is_content_gone(&detail) {
        return EngineError::CacheGone { detail };
    }
    match status {
        Some(404) => EngineError::NotFound { action, detail },
        _ if is_unknown_id(&detail) => EngineError::NotFound { action, detail },
        _ => EngineError::Refused { action, detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_with_its_cause_and_without_structures() {
        let long = "building at STEP \"COPY a /a\": storing \"/a\": error during bulk transfer for copier.request{Request:\"PUT\", StatOptions:copier.StatOptions{CheckForArchives:false}, Rename:map[string]string(nil)}: copier: put: error setting ownership of \"/a\" to 1:1: lchown /a: invalid argument";
        let cause =
            "copier: put: error setting ownership of \"/a\" to 1:1: lchown /a: invalid argument";
        assert_eq!(without_structures(long), cause);
        assert!(is_without_ids(cause));
        for kept in [
            "building at STEP \"COPY a /a\": no such file",
            "bad substitution ${a}: x",
            "json: {\"a.b\": {}}: unexpected end",
            "ends with copier.request{Request:\"PUT\"}",
            "",
        ] {
            assert_eq!(without_structures(kept), kept);
        }
    }
}
