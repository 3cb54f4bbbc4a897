//! Builds that are cancelled by dropping them, or that end when the engine is killed.

use std::time::Duration;

use engine::{BuildEvent, DockerBuilder, Engine, EngineError, LeftoverKind};
use testkit::{PodmanStore, kill_with_children, parent_of};

use crate::support::{
    Base, PATIENCE, build, context, docker, dockerd, podman, request, run_id, within,
};

/// Starts a build, and drops it as soon as its `RUN` prints something.
async fn drop_while_it_sleeps(engine: &Engine, run: &str, from: &str) {
    let text = format!("FROM {from}\nRUN echo asleep; sleep 3000\n");
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event
            && line.text == "asleep"
        {
            say.send(()).unwrap();
        }
    };
    let request = request(run, &text);
    let built = engine.build(&request, context(&text, &[]), &mut on_event);
    tokio::select! {
        built = built => panic!("the build ended: {built:?}"),
        asleep = said.recv() => asleep.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_build_ends_its_run_on_podman() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let name = base.name.to_string();
    drop_while_it_sleeps(&engine, "dropped", &name).await;
    let limit = PATIENCE;
    within(limit, "the RUN ends", || store.container_processes().is_empty()).await;
    // The service for other calls remains. The service of the build and its folder are gone.
    within(limit, "the service ends", || store.services().len() == 1).await;
    let scratch = || std::fs::read_dir(store.scratch()).unwrap().count();
    within(limit, "its folder is removed", || scratch() == 1).await;
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
    let (built, _) =
        build(&engine, &request("next", &format!("FROM {name}\nRUN true\n")), &[]).await;
    built.unwrap();
    engine.stop().await;
    assert_eq!(store.services(), [0u32; 0]);
}

async fn dropping_ends_the_run_on_docker(builder: DockerBuilder, run: &str) {
    let engine = docker(builder);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let text =
        |word: &str| format!("FROM {}\nRUN echo {word}; sleep 3000; echo {word}\n", base.name);
    // Other tests in this binary build on the same daemon. This test's sleep is identified by its
    // name.
    let is_ours = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(run)
    };
    let request = request(run, &text(run));
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event
            && line.text == run
        {
            say.send(()).unwrap();
        }
    };
    let mut built = Box::pin(engine.build(&request, context(&text(run), &[]), &mut on_event));
    tokio::select! {
        built = &mut built => panic!("the build ended: {built:?}"),
        asleep = said.recv() => asleep.unwrap(),
    }
    assert!(dockerd().container_processes().iter().any(is_ours));
    drop(built);
    let is_gone = || !dockerd().container_processes().iter().any(is_ours);
    within(PATIENCE, "the RUN ends", is_gone).await;
    assert_eq!(engine.leftovers(Some(&run_id(run))).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_build_ends_its_run_on_docker_classic() {
    dropping_ends_the_run_on_docker(DockerBuilder::Classic, "dropped-classic").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_build_ends_its_run_on_docker_buildkit() {
    dropping_ends_the_run_on_docker(DockerBuilder::BuildKit, "dropped-buildkit").await;
}

/// The service is killed. The `RUN` continues; `clean` stops it, and touches nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_service_is_an_unknown_outcome_and_can_be_cleaned() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let sleeper =
        |word: &str| format!("FROM {}\nRUN echo {word}; sleep 3000; echo {word}\n", base.name);
    // Another user's build on the same store, from the same base, at the same time.
    let foreign = podman(&store);
    let foreign_text = sleeper("foreign");
    let foreign_request = request("foreign", &foreign_text);
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let mut on_foreign = |event| drop(say.send(event));
    let other = foreign.build(&foreign_request, context(&foreign_text, &[]), &mut on_foreign);
    let mut other = Box::pin(other);
    let begun = async {
        while let Some(event) = said.recv().await {
            if matches!(&event, BuildEvent::Line(line) if line.text == "foreign") {
                return;
            }
        }
    };
    tokio::select! { built = &mut other => panic!("{built:?}"), () = begun => {} }
    let before = store.services();
    let text = sleeper("ours");
    let killed = async {
        let request = request("killed", &text);
        let mut on_event = |event| {
            if matches!(&event, BuildEvent::Line(line) if line.text == "ours") {
                for pid in store.services().iter().filter(|pid| !before.contains(pid)) {
                    // Its watchdog started the service and the process that waits to stop its
                    // `RUN`.
                    kill_with_children(parent_of(*pid).expect("the service runs"));
                }
            }
        };
        engine.build(&request, context(&text, &[]), &mut on_event).await
    };
    let built =
        tokio::select! { built = &mut other => panic!("{built:?}"), built = killed => built };
    assert!(matches!(built, Err(EngineError::Lost { .. })), "{built:?}");
    let is_asleep = || store.container_processes().len() == 4;
    within(PATIENCE, "two shells and their children", is_asleep).await;
    let run = run_id("killed");
    let left = engine.leftovers(Some(&run)).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].kind, LeftoverKind::BuildContainer);
    assert_eq!(engine.clean(&run).await.unwrap(), left);
    assert_eq!(engine.leftovers(Some(&run)).await.unwrap(), []);
    let limit = PATIENCE;
    within(limit, "the RUN ends", || store.container_processes().len() == 2).await;
    assert_eq!(engine.leftovers(None).await.unwrap().len(), 1, "the container of the other build");
    drop(other);
    within(limit, "the other build ends", || store.container_processes().is_empty()).await;
    let text = format!("FROM {}\nRUN true\n", base.name);
    build(&engine, &request("next", &text), &[]).await.0.unwrap();
}

/// At any point, a build can be dropped: `clean` finds and removes what it left, and the next build
/// works.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_can_be_dropped_at_any_point() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let text = format!("FROM {}\nCOPY data /data\nRUN sleep 0.2\nRUN sleep 20\n", base.name);
    let data = vec![1; 1 << 20];
    let run = run_id("anywhere");
    for step in 0..12 {
        let mut request = request("anywhere", &text);
        request.use_cache = step % 2 == 0;
        let mut on_event = |_| {};
        let input = context(&text, &[("data", &data)]);
        let built = engine.build(&request, input, &mut on_event);
        let after = Duration::from_millis(step * 120);
        assert!(tokio::time::timeout(after, built).await.is_err(), "it ended within {after:?}");
    }
    // This waits until the services of all these builds have ended.
    engine.clean(&run).await.unwrap();
    within(PATIENCE, "the builds end", || store.services().len() == 1).await;
    assert_eq!(store.container_processes(), [0u32; 0]);
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
    engine.inspect(&base.name.to_string()).await.unwrap();
    let text = format!("FROM {}\nRUN true\n", base.name);
    build(&engine, &request("next", &text), &[]).await.0.unwrap();
}
