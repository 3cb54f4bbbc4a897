//! The kinds of failure.

/// The kind of a failure. The order of these kinds is the order of severity in `outdated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No failure: the reader closed the output.
    ReaderLeft,
    /// The build or check failed for a reason without its own code.
    Failed,
    /// Arguments or input files are wrong.
    Input,
    /// The machine lacks something.
    Machine,
    /// A registry or another server needs valid credentials, or denies access.
    Authentication,
    /// A registry or another server cannot be reached, or failed on every attempt.
    Network,
    /// Content does not match its digest or pin.
    Integrity,
    /// A patch did not apply.
    Patch,
    /// The image was not built from the current pins, or a lock is stale.
    OutOfDate,
    /// Another run held a needed lock for too long.
    Busy,
    /// The image differs from what the plan and the pins define.
    Differs,
    /// Newer releases exist.
    Newer,
    /// Pins are unresolved.
    Unresolved,
    /// Pins have expired.
    Expired,
    /// A tag or release changed since it was pinned.
    Moved,
    /// A branch was rewritten and no longer contains the pinned commit.
    Rewritten,
    /// A release was yanked.
    Yanked,
    /// A pinned input no longer exists upstream.
    Vanished,
    /// A bug in build-pipeline.
    Bug,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Kind {
    /// Returns the kind of a failed write to a path that the user chose: [`Kind::Input`] if the
    /// path is wrong, otherwise [`Kind::Machine`].
    pub fn of_write(error: &std::io::Error) -> Self {
        if oci::files::is_wrong_path(error) { Self::Input } else { Self::Machine }
    }
}
