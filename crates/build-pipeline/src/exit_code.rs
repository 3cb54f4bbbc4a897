//! The exit codes. `build-pipeline help exit-codes` prints this table.

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitCode {
    /// Success.
    Done = 0,
    /// The build or check failed for a reason without its own code.
    Failed = 1,
    /// Arguments or input files are wrong.
    Input = 2,
    /// The machine lacks something.
    Machine = 3,
    /// A registry needs other credentials.
    Authentication = 4,
    /// A registry cannot be reached, or failed after all tries.
    Network = 5,
    /// Content does not match its digest or pin.
    Integrity = 6,
    /// A patch did not apply.
    Patch = 7,
    /// The image was made from pins other than the current ones.
    OutOfDate = 8,
    /// Another run held a needed lock for too long.
    Busy = 10,
    /// The image differs from what the plan and the pins define.
    Differs = 13,
    /// Newer releases exist.
    Newer = 20,
    /// Pins are unresolved.
    Unresolved = 21,
    /// Pins have expired.
    Expired = 22,
    /// A tag or release changed since it was pinned.
    Moved = 23,
    /// A branch was rewritten and no longer contains the pinned commit.
    Rewritten = 24,
    /// A release was yanked.
    Yanked = 25,
    /// A pin is gone from its source.
    Vanished = 26,
    /// A bug in build-pipeline.
    Bug = 101,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl ExitCode {
    /// All codes with their meanings, in numeric order.
    pub(crate) const TABLE: [(Self, &str); 21] = [
        (Self::Done, "success"),
        (
            Self::Failed,
            "the build or check failed for a reason without its own code; doctor: the worst finding is a warning; diagnose: the log shows a known failure",
        ),
        (Self::Input, "arguments or input files are wrong, or a required pin is unresolved"),
        (
            Self::Machine,
            "the machine lacks something: disk space, a permission, a home directory; doctor: something does not work",
        ),
        (Self::Authentication, "a registry needs other credentials, or yours do not allow this"),
        (
            Self::Network,
            "a registry cannot be reached, limits the rate, or failed after all retries",
        ),
        (Self::Integrity, "content does not match its digest or pin; nothing was written"),
        (Self::Patch, "a patch did not apply; nothing was written"),
        (
            Self::OutOfDate,
            "verify: the image was made from pins other than the current ones; lock --check, build: a lock does not match the current requirements",
        ),
        (Self::Busy, "another run held a needed lock for longer than --lock-timeout"),
        (Self::Differs, "verify: the image differs from what the plan and the pins define"),
        (
            Self::Newer,
            "outdated: newer releases exist (if there are several findings, the highest code is used)",
        ),
        (Self::Unresolved, "outdated: pins are unresolved"),
        (Self::Expired, "outdated: pins are past their `expires`"),
        (Self::Moved, "outdated: a tag or release changed since it was pinned"),
        (
            Self::Rewritten,
            "outdated: a branch was rewritten and no longer contains the pinned commit",
        ),
        (Self::Yanked, "outdated: a pinned release was yanked"),
        (Self::Vanished, "outdated: a pinned tag, commit, image or archive is gone"),
        (Self::Bug, "a bug in build-pipeline; please report it"),
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
