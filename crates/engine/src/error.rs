//! Why an engine could not do what was asked, in kinds a caller can act on.

use std::path::PathBuf;
use std::time::Duration;

/// Why an engine could not do what was asked.
///
/// Texts of the engine stand in here as they came, control characters too; whoever prints them
/// cleans them.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing answers on the socket.
    #[error("cannot {action}: no engine answers on `{}` ({reason})", .socket.display())]
    Unreachable {
        /// What was being done.
        action: String,
        /// The socket that was tried.
        socket: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The private podman service does not come up.
    #[error("cannot start `{program} system service`: {reason}")]
    Service {
        /// The program that was started.
        program: String,
        /// What it said last, or what the system said.
        reason: String,
    },
    /// The connection ended before the answer was complete, so nobody knows what became of it.
    #[error(
        "the engine went away while it was to {action}; what became of it is unknown ({reason})"
    )]
    Lost {
        /// What was being done.
        action: String,
        /// How the loss showed itself.
        reason: String,
    },
    /// A `RUN` ended with a status other than 0.
    #[error(transparent)]
    Run(#[from] Box<RunFailure>),
    /// The engine does not accept the Dockerfile, or one of its instructions other than `RUN`.
    #[error("the engine refuses the Dockerfile{}: {detail}", at_line(*.line))]
    Dockerfile {
        /// The engine's words.
        detail: String,
        /// The line of the Dockerfile the build had come to, from 1.
        line: Option<usize>,
    },
    /// An image a build stands on is neither in the engine nor in its registry.
    #[error("the base image cannot be had: {detail}")]
    BaseMissing {
        /// The engine's words.
        detail: String,
    },
    /// An image of the engine's cache, which a build had taken, was removed while the build used it.
    /// Another build that ends at that moment does so. The same build can be tried again.
    #[error("an image in the engine's cache was removed while the build used it: {detail}")]
    CacheGone {
        /// The engine's words.
        detail: String,
    },
    /// The engine's disk is full.
    #[error("cannot {action}: the engine's disk is full ({detail})")]
    DiskFull {
        /// What was being done.
        action: String,
        /// The engine's words.
        detail: String,
    },
    /// The engine cannot start a container at all, whatever it is to run.
    #[error("the engine cannot start containers: {detail}")]
    Runtime {
        /// The words of the OCI runtime.
        detail: String,
    },
    /// The engine does not have something: its own answer, which a second try does not change.
    #[error("the engine does not have {what}: {detail}")]
    Unavailable {
        /// What it does not have.
        what: &'static str,
        /// The engine's words.
        detail: String,
    },
    /// The engine said nothing for too long.
    #[error("cannot {action}: the engine said nothing for {} s", .after.as_secs())]
    Silent {
        /// What was being done.
        action: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The stream ended in good order and named no image.
    #[error("the engine ended the build without naming an image")]
    NoImageId,
    /// The image the stream named is not what an inspect finds.
    #[error("the build named image `{named}`, but {found}")]
    ImageDiffers {
        /// The ID the stream named.
        named: String,
        /// What an inspect says.
        found: String,
    },
    /// The engine has no such thing.
    #[error("cannot {action}: {detail}")]
    NotFound {
        /// What was being done.
        action: String,
        /// The engine's words.
        detail: String,
    },
    /// The engine understood and said no.
    #[error("cannot {action}: the engine says: {detail}")]
    Refused {
        /// What was being done.
        action: String,
        /// The engine's words.
        detail: String,
    },
    /// The engine's answer makes no sense.
    #[error("cannot {action}: the engine's answer makes no sense: {detail}")]
    Nonsense {
        /// What was being done.
        action: String,
        /// What is wrong with it.
        detail: String,
    },
    /// What was to be sent to the engine could not be read.
    #[error("cannot {action}: the data to send cannot be read")]
    Input {
        /// What was being done.
        action: String,
        /// Why reading failed.
        #[source]
        source: std::io::Error,
    },
}

impl EngineError {
    /// Returns whether this is an answer of the engine about what it has, and not a failure that may
    /// pass: a lost connection, a time limit, a daemon that is busy or starts again.
    pub fn is_definitive(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Runtime { .. })
    }
}

/// A `RUN` that ended with a status other than 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{instruction}`{} ended with status {status}",
    at_line(*.line)
)]
pub struct RunFailure {
    /// The exit status.
    pub status: i64,
    /// The instruction, as the Dockerfile or the engine has it.
    pub instruction: String,
    /// The line of the Dockerfile the instruction begins on, from 1.
    pub line: Option<usize>,
    /// The last lines it said, oldest first.
    pub log: Vec<String>,
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line} of the Dockerfile)")).unwrap_or_default()
}

/// Returns whether the engine's words tell of a full disk.
pub(crate) fn is_disk_full(detail: &str) -> bool {
    detail.contains("no space left on device")
        || detail.contains("disk quota exceeded")
        // What podman writes behind a pipe: the reason stays on the other side.
        || (detail.contains("storing layer") && detail.contains("read/write on closed pipe"))
}

/// Judges an error of the API outside of builds: `status` is that of HTTP, where there was one.
pub(crate) fn judge(action: &str, status: Option<u16>, detail: &str) -> EngineError {
    let action = action.to_owned();
    let detail = detail.trim().to_owned();
    if is_disk_full(&detail) {
        return EngineError::DiskFull { action, detail };
    }
    match status {
        Some(404) => EngineError::NotFound { action, detail },
        _ => EngineError::Refused { action, detail },
    }
}
