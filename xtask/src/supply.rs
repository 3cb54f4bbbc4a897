//! The supply chain of the program itself: advisories about its dependencies, and the check that a
//! release is reproducible.

use anyhow::Result;

use crate::run::command;
use crate::{release, setup};

/// Checks every dependency against the RustSec database, which is fetched each time.
pub(crate) fn advisories() -> Result<()> {
    command(&setup::cargo_deny()?, &["--locked", "check", "advisories"], &[])
}

/// Checks dependencies and workflows, and checks that two releases have the same bytes. Returns the
/// number of checks.
pub(crate) fn gate() -> Result<usize> {
    crate::dependencies()?;
    crate::workflows()?;
    release::run(true)?;
    Ok(3)
}
