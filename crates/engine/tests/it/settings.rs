//! How podman is started on a store of its own. The executor's tests and the bench have it too.

use engine::ServiceSettings;
use testkit::PodmanStore;

/// Returns how a private podman is started on a store, with runc: crun is not on every machine.
pub(crate) fn settings(store: &PodmanStore) -> ServiceSettings {
    ServiceSettings {
        program: "podman".into(),
        arguments: store.arguments(),
        runtime: Some("runc".to_owned()),
        sockets: store.sockets(),
        scratch: store.scratch(),
        caches: store.caches(),
    }
}
