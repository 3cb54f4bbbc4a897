//! The exit codes. `build-pipeline help exit-codes` prints this table.

use failure::Kind;

/// All exit codes with their meanings, in numeric order.
pub const TABLE: [(u8, &str); 21] = [
    (0, "success"),
    (
        1,
        "the build or check failed for a reason without its own code; doctor: the worst finding is a warning; diagnose: the log shows a known failure that is not harmless",
    ),
    (2, "arguments or input files are wrong, or a required pin is unresolved"),
    (
        3,
        "the machine lacks something: disk space, a permission, a home directory; doctor: something does not work",
    ),
    (
        4,
        "a registry or another server requires valid credentials, or your credentials do not grant access",
    ),
    (
        5,
        "a registry or another server cannot be reached, does not have the image or file, limits the request rate, or failed after all retries; verify: the base could not be fetched, so not everything could be compared",
    ),
    (6, "content is damaged, or does not match its digest or pin; it was not used"),
    (7, "a patch did not apply; its tree was not changed"),
    (
        8,
        "verify: the image was not built from the current pins; lock --check, build: a lock does not match the current requirements",
    ),
    (10, "another process uses the output, folder or tree; build waits up to --lock-timeout"),
    (
        13,
        "verify: the image differs from what the plan and the pins define; diff: the images differ; --store: two builds of a step gave different results; export --check: the file is not up to date",
    ),
    (
        20,
        "outdated: newer releases exist (if there are several findings, the code of the worst one is used)",
    ),
    (21, "outdated: pins are unresolved"),
    (22, "outdated: pins are past their `expires` date"),
    (23, "outdated: a tag or release changed since it was pinned"),
    (24, "outdated: a branch was rewritten and no longer contains the pinned commit"),
    (25, "outdated: a pinned release was yanked"),
    (26, "outdated: a pinned tag, commit, image or archive is gone"),
    (101, "a bug in build-pipeline; please report it"),
    (130, "interrupted by Ctrl-C (SIGINT) or Ctrl-\\ (SIGQUIT)"),
    (143, "terminated (SIGTERM or SIGHUP)"),
];

/// Returns the exit code for a kind of failure.
pub fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::ReaderLeft => 0,
        Kind::Failed => 1,
        Kind::Input => 2,
        Kind::Machine => 3,
        Kind::Authentication => 4,
        Kind::Network => 5,
        Kind::Integrity => 6,
        Kind::Patch => 7,
        Kind::OutOfDate => 8,
        Kind::Busy => 10,
        Kind::Differs => 13,
        Kind::Newer => 20,
        Kind::Unresolved => 21,
        Kind::Expired => 22,
        Kind::Moved => 23,
        Kind::Rewritten => 24,
        Kind::Yanked => 25,
        Kind::Vanished => 26,
        Kind::Bug => 101,
        Kind::Interrupted => 130,
        Kind::Terminated => 143,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_occur_once_and_in_order() {
        assert!(TABLE.is_sorted_by(|one, next| one.0 < next.0));
    }
}
