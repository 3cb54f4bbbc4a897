//! What to clean, and the folders of this tool.

use std::path::{Path, PathBuf};

use engine::ServiceSettings;
use names::EngineKind;

use crate::engines;

/// What to clean.
#[derive(Debug)]
pub(crate) struct Task {
    /// The only engine to clean, if one was given.
    pub(crate) wanted: Option<EngineKind>,
    pub(crate) is_dry: bool,
    pub(crate) takes_cache: bool,
    /// Whether another run is in progress.
    pub(crate) is_busy: bool,
    /// The cache folder, if there is a home directory.
    pub(crate) cache: Option<PathBuf>,
    /// The folder of records and locks.
    pub(crate) state: PathBuf,
    /// The folder of podman's sockets.
    pub(crate) sockets: PathBuf,
}

impl Task {
    /// Returns the settings that builds use to start a podman service.
    pub(crate) fn service(&self, program: &Path) -> Option<ServiceSettings> {
        let store = self.cache.as_ref()?.join("store");
        Some(engines::service(program.to_owned(), self.sockets.clone(), &store))
    }
}
