//! The settings for podman on its own store. The executor's tests and benchmarks use this file too.

use engine::ServiceSettings;
use testkit::PodmanStore;

/// Returns the settings for a private podman on a store, with runc, because not every machine has
/// crun.
pub(crate) fn settings(store: &PodmanStore) -> ServiceSettings {
    ServiceSettings {
        program: "podman".into(),
        arguments: store.arguments(),
        runtime: Some("runc".to_owned()),
        sockets: store.sockets(),
        scratch: store.scratch(),
        caches: store.caches(),
        state: None,
    }
}
