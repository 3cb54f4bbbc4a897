//! Converts the options of `patch`.

use patching::prepared::{RunProbes, Wanted};

use crate::cli::{Options, ProbeOptions};

/// Returns how to run probes.
pub(crate) fn run_probes(options: &ProbeOptions) -> RunProbes {
    match options {
        ProbeOptions { no_probes: true, .. } => RunProbes::No,
        ProbeOptions { unconfined_probes: true, .. } => RunProbes::ConfinedIfPossible,
        _ => RunProbes::Confined,
    }
}

/// Returns the selection of patches, pin, version and GPU target.
pub(crate) fn wanted(options: &Options) -> Wanted<'_> {
    Wanted {
        only: &options.only,
        pin: options.pin.as_deref(),
        version: options.version.as_deref(),
        gpu: options.gpu.as_deref(),
    }
}
