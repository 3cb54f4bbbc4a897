//! Probes of real engines: definitive answers, retries, and simultaneous probes.

use engine::{DockerBuilder, Engine, EngineError};
use names::Builder;
use testkit::{Dockerd, EngineProxy, PodmanStore};

use crate::support::{dockerd, podman};

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_whose_connection_breaks_is_tried_again() {
    for builder in [DockerBuilder::BuildKit, DockerBuilder::Classic] {
        let proxy = EngineProxy::start(&dockerd().socket());
        proxy.break_builds(3);
        let engine = Engine::docker_at(proxy.socket(), builder);
        let probed = engine.probe().await.unwrap();
        assert_eq!((probed.builder, proxy.builds()), (builder.into(), 4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_always_breaks_is_no_answer() {
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.break_builds(usize::MAX);
    let error =
        Engine::docker_at(proxy.socket(), DockerBuilder::BuildKit).probe().await.unwrap_err();
    assert!(matches!(error, EngineError::Lost { .. }), "{error:?}");
    assert!(!error.is_definitive());
}

/// The message comes from the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_without_buildkit_says_so_and_is_asked_once() {
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.remove_buildkit();
    let error =
        Engine::docker_at(proxy.socket(), DockerBuilder::BuildKit).probe().await.unwrap_err();
    let EngineError::Unavailable { what: "BuildKit", detail } = &error else { panic!("{error:?}") };
    assert!(detail.contains("requires BuildKit"), "{detail}");
    assert_eq!(proxy.builds(), 1);
    let classic = Engine::docker_at(proxy.socket(), DockerBuilder::Classic).probe().await.unwrap();
    assert_eq!(classic.builder, Builder::Classic);
}

/// Probes of several processes share the daemon without interfering.
#[tokio::test(flavor = "multi_thread")]
async fn many_probes_at_once_all_succeed() {
    // A separate daemon, because other tests probe the shared one and this test lists everything at
    // the end.
    let daemon = Dockerd::start();
    let proxy = EngineProxy::start(&daemon.socket());
    let probes = (0..16).map(|number| {
        let builder =
            if number % 4 == 0 { DockerBuilder::Classic } else { DockerBuilder::BuildKit };
        let engine = Engine::docker_at(proxy.socket(), builder);
        async move { engine.probe().await.map(|probed| probed.run.is_isolated) }
    });
    for probed in futures_util::future::join_all(probes).await {
        assert!(probed.unwrap());
    }
    assert_eq!(proxy.builds(), 16, "no probe had to be retried");
    let engine = Engine::docker_at(proxy.socket(), DockerBuilder::Classic);
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_of_podman_names_its_builder() {
    let store = PodmanStore::new();
    let probed = podman(&store).probe().await.unwrap();
    assert_eq!((probed.builder, probed.info.runtime.as_str()), (Builder::Podman, "runc"));
}
