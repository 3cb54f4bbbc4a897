//! Which steps a run carries out, and whether it needs an engine for them.

use std::sync::Arc;

use names::Digest;
use plan::Plan;
use record::StepState;

use super::support::{build_env, built_plan, image, keep, settings, tar_of};
use crate::build_env::{Bake, StoredImage};
use crate::built::keys;
use crate::run::{Run, Shared};
use crate::{BuildEnv, End, Job, Output, Settings, needs_engine, result_of, step_with_network};

/// Returns the steps that a run of a plan carries out, and the state of each step at its start.
fn steps(plan: &Plan, settings: &Settings) -> (Vec<String>, Vec<StepState>) {
    let (plan, settings) = (Arc::new(plan.clone()), settings.clone());
    let job = Job { plan, settings, on_event: Arc::new(|_| {}) };
    let run = Run::new(job, Arc::new(Shared::new(None)));
    let finished = run.finished();
    let ids = run.wanted(&finished).into_iter().map(|step| step.id.clone()).collect();
    let steps = run.execution(End::Succeeded).steps;
    (ids, steps.into_iter().map(|step| step.state).collect())
}

fn ids(plan: &Plan, settings: &Settings) -> Vec<String> {
    steps(plan, settings).0
}

#[test]
fn what_a_finished_step_needs_does_not_run_and_needs_no_engine() {
    const ALL: [&str; 4] = ["fetch-base", "build", "seal", "label"];
    let folder = tempfile::tempdir().unwrap();
    let with = |change: fn(&mut BuildEnv)| {
        let mut build_env = build_env(folder.path());
        change(&mut build_env);
        settings(Some(build_env))
    };
    let (plain, plan) = (with(|_| {}), built_plan(true));
    let key = keys(&plan)["seal"].clone();
    let networked = |settings: &Settings| step_with_network(&plan, settings).map(|step| &*step.id);
    assert_eq!(
        (ids(&plan, &plain), networked(&plain)),
        (ALL.map(str::to_owned).to_vec(), Some("build"))
    );
    assert!(needs_engine(&plan, &plain) && needs_engine(&plan, &settings(None)));
    assert!(step_with_network(&built_plan(false), &plain).is_none());
    assert_eq!(result_of(&key, &plain), None);
    let part = |last: &str| Settings { last_step: Some(last.to_owned()), ..plain.clone() };
    assert_eq!(ids(&plan, &part("build")), ALL[..2]);
    assert!(needs_engine(&plan, &part("build")) && !needs_engine(&plan, &part("fetch-base")));
    assert!(ids(&plan, &part("other")).is_empty());

    let (store, tar) = (build_env(folder.path()).store, tar_of(&[("a", "text")]));
    let made = image(&[&tar]);
    keep(&store, &tar);
    store.finish(&key, &made).unwrap();
    assert_eq!((ids(&plan, &plain), networked(&plain)), (vec!["label".to_owned()], None));
    assert!(!needs_engine(&plan, &plain));
    let cached = [StepState::Cached; 3];
    assert_eq!(steps(&plan, &plain).1, [&cached[..], &[StepState::NotBegun]].concat());
    assert_eq!(result_of(&key, &plain), Some(Digest::of(&made.manifest_bytes)));
    assert_eq!(result_of(&key, &settings(None)), None);
    let reference = "localhost/mine:1".parse().unwrap();
    let loads = Settings { outputs: vec![Output::Engine { reference }], ..plain.clone() };
    assert!(needs_engine(&plan, &loads));
    let fresh = with(|build_env| build_env.is_fresh = true);
    assert_eq!(ids(&plan, &fresh), ALL);
    assert!(needs_engine(&plan, &fresh));
    let baked = with(|build_env| {
        build_env.is_fresh = true;
        build_env.bake = Some(Arc::new(Bake::new("unused")));
    });
    assert!(!needs_engine(&plan, &baked), "bake builds instead of an engine");
    // It came from a store that this run is not allowed to read.
    let foreign = StoredImage { origin: Some("dir:/steps".to_owned()), ..made };
    store.finish(&key, &foreign).unwrap();
    assert_eq!(ids(&plan, &plain), ALL);
}
