//! The exit codes, in one place. `build-pipeline help exit-codes` prints this table.

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitCode {
    /// All that was asked for is done.
    Done = 0,
    /// The build or check failed for a reason without a code of its own.
    Failed = 1,
    /// Arguments or input files are wrong.
    Input = 2,
    /// The machine lacks something.
    Machine = 3,
    /// A registry wants other credentials.
    Authentication = 4,
    /// A registry cannot be reached, or failed after all tries.
    Network = 5,
    /// Bytes are not what their digest or pin says.
    Integrity = 6,
    /// A patch did not apply.
    Patch = 7,
    /// The image was made from other pins than those of today.
    OutOfDate = 8,
    /// Another run held what this one needs for too long.
    Busy = 10,
    /// The image differs from what plan and pins give.
    Differs = 13,
    /// Newer releases exist.
    Newer = 20,
    /// Pins are unresolved.
    Unresolved = 21,
    /// Pins have expired.
    Expired = 22,
    /// A tag or release is something else than when it was pinned.
    Moved = 23,
    /// A branch was rewritten and has lost the pinned commit.
    Rewritten = 24,
    /// A release was yanked.
    Yanked = 25,
    /// A pin is gone from its source.
    Vanished = 26,
    /// A defect of build-pipeline.
    Bug = 101,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl ExitCode {
    /// All codes with what they mean, in the order of their numbers.
    pub(crate) const TABLE: [(Self, &str); 21] = [
        (Self::Done, "all that was asked for is done"),
        (
            Self::Failed,
            "the build or check failed for a reason without a code of its own; doctor: the worst finding is a warning; diagnose: the log shows a known failure",
        ),
        (Self::Input, "arguments or input files are wrong, or a pin that is needed is unresolved"),
        (
            Self::Machine,
            "the machine lacks something: disk space, a permission, a home directory; doctor: something does not work",
        ),
        (
            Self::Authentication,
            "a registry wants other credentials, or does not allow this with yours",
        ),
        (Self::Network, "a registry cannot be reached, limits the rate, or failed after all tries"),
        (Self::Integrity, "bytes are not what their digest or pin says; nothing was written"),
        (Self::Patch, "a patch did not apply; nothing was written"),
        (
            Self::OutOfDate,
            "verify: the image was made from other pins than those of today; lock --check, build: a lock was made from something else than what is asked for today",
        ),
        (Self::Busy, "another run held what this one needs for longer than --lock-timeout"),
        (Self::Differs, "verify: the image differs from what plan and pins give"),
        (
            Self::Newer,
            "outdated: newer releases exist (of several findings, the one listed last counts)",
        ),
        (Self::Unresolved, "outdated: pins are unresolved"),
        (Self::Expired, "outdated: pins are past their `expires`"),
        (Self::Moved, "outdated: a tag or release is something else than when it was pinned"),
        (Self::Rewritten, "outdated: a branch was rewritten and no longer has the pinned commit"),
        (Self::Yanked, "outdated: a pinned release was yanked"),
        (Self::Vanished, "outdated: a pinned tag, commit, image or archive is gone"),
        (Self::Bug, "a defect of build-pipeline; please report it"),
        (Self::Interrupted, "interrupted by Ctrl-C (SIGINT)"),
        (Self::Terminated, "terminated (SIGTERM)"),
    ];
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_once_and_in_order() {
        let numbers: Vec<u8> = ExitCode::TABLE.iter().map(|(code, _)| *code as u8).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(numbers, sorted);
    }
}
