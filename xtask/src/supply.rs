//! The supply chain of the program itself: its dependencies, and the check that a release is
//! reproducible.

use anyhow::Result;

use crate::run::command;
use crate::{release, setup};

/// Checks every dependency: its licence, its source, whether `deny.toml` forbids it, and the RustSec
/// database, which is fetched each time.
pub(crate) fn dependencies() -> Result<()> {
    deny(&["--locked", "check", "--hide-inclusion-graph"])
}

/// Checks dependencies and workflows, and checks that two releases have the same bytes. Returns the
/// number of checks.
pub(crate) fn gate() -> Result<usize> {
    // Not every network can reach the database of advisories.
    deny(&["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])?;
    crate::workflows(&crate::run::build_tool()?)?;
    release::run(true)?;
    Ok(3)
}

fn deny(arguments: &[&str]) -> Result<()> {
    command(&setup::cargo_deny()?, arguments, &[])
}
