//! What the options of `patch` want.

use patching::prepared::{RunProbes, Wanted};

use crate::cli::{Options, ProbeOptions};

/// Returns how the options want probes to run.
pub(crate) fn run_probes(options: &ProbeOptions) -> RunProbes {
    match options {
        ProbeOptions { no_probes: true, .. } => RunProbes::No,
        ProbeOptions { unconfined_probes: true, .. } => RunProbes::ConfinedIfPossible,
        _ => RunProbes::Confined,
    }
}

/// Returns which patches the options want, and on what.
pub(crate) fn wanted(options: &Options) -> Wanted<'_> {
    Wanted {
        only: &options.only,
        pin: options.pin.as_deref(),
        version: options.version.as_deref(),
        gpu: options.gpu.as_deref(),
    }
}
