//! What the options of `patch` want.

use patching::prepared::Wanted;

use crate::cli::Options;

/// Returns which patches the options want, and on what.
pub(crate) fn wanted(options: &Options) -> Wanted<'_> {
    Wanted {
        only: &options.only,
        pin: options.pin.as_deref(),
        version: options.version.as_deref(),
        gpu: options.gpu.as_deref(),
    }
}
