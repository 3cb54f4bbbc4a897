//! Several plans executed at the same time, in one engine and one store.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex};

use engine::Engine;
use executor::{End, Event, Execution, Executor, Job, Output, Settings};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use plan::{Action, Draft, Input, Plan, Step};
use record::StepState;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::engines::{Bench, Builder};

/// Writes a Dockerfile, and returns its plan under this name, as one of several in the run.
fn plan_of(bench: &Bench, name: &str, run: &str) -> Plan {
    let text = format!("ARG BASE\nFROM ${{BASE}}\nRUN {run}\n");
    std::fs::write(bench.path("Dockerfile"), text).unwrap();
    let mut draft = bench.plan().into_draft();
    name.clone_into(&mut draft.name);
    let file = format!("{name}.Dockerfile");
    std::fs::rename(bench.path("Dockerfile"), bench.path(&file)).unwrap();
    for step in &mut draft.steps {
        if let Action::BuildImage { dockerfile, .. } = &mut step.action {
            dockerfile.clone_from(&file);
        }
    }
    let text = draft.inputs.remove("Dockerfile").unwrap();
    draft.inputs.insert(file, text);
    draft.finish().unwrap()
}

/// Executes plans at the same time. Returns the result of each, and all events in order, each with
/// the name of its plan.
async fn together(
    bench: &Bench,
    engine: Engine,
    settings: &Settings,
    plans: &[Plan],
    interrupt: impl Future<Output = ()>,
) -> (Vec<Execution>, Vec<(String, Event)>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let jobs = plans.iter().map(|plan| {
        let (kept, name) = (Arc::clone(&events), plan.name.clone());
        let outputs =
            vec![Output::Layout { path: bench.path(&format!("out-{name}")), with_layers: true }];
        Job {
            plan: Arc::new(plan.clone()),
            settings: Settings { outputs, ..settings.clone() },
            on_event: Arc::new(move |event| kept.lock().unwrap().push((name.clone(), event))),
        }
    });
    let (executor, interrupt) = (Executor::new(Some(engine)), interrupt.shared());
    let executions = jobs.map(|job| executor.execute(job, interrupt.clone()));
    let executions = join_all(executions.collect::<Vec<_>>()).await;
    executor.close().await;
    let events = events.lock().unwrap().clone();
    (executions, events)
}

/// Returns the index of the event at which a step of a plan started or ended.
fn place(events: &[(String, Event)], name: &str, is_it: impl Fn(&Event) -> bool) -> Option<usize> {
    events.iter().position(|(plan, event)| plan == name && is_it(event))
}

fn begins(wanted: &str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::StepBegun { step, .. } if step == wanted)
}

fn ends(wanted: &str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::StepEnded { step, .. } if step == wanted)
}

fn states(execution: &Execution) -> Vec<StepState> {
    execution.steps.iter().map(|outcome| outcome.state).collect()
}

/// Returns a RUN that waits for another RUN that must run at the same time. They communicate
/// through a folder that persists between builds.
fn meeting(builder: Builder, name: &str, other: &str) -> String {
    let place = format!("id=meeting-{builder:?}-{},target=/meeting", std::process::id());
    format!(
        "--mount=type=cache,{place} touch /meeting/{name}; n=0; \\\n \
         until [ -e /meeting/{other} ]; do n=$((n + 1)); [ $n -lt 3000 ] || exit 9; sleep 0.1; done"
    )
}

/// On both engines, two builds run at the same time, and shared inputs are fetched once.
#[tokio::test(flavor = "multi_thread")]
async fn plans_go_on_side_by_side_and_share_what_they_have_in_common() {
    for builder in [Builder::Podman, Builder::BuildKit] {
        let bench = Bench::new("").await;
        let plans = [("one", "two"), ("two", "one")]
            .map(|(name, other)| plan_of(&bench, name, &meeting(builder, name, other)));
        let settings = bench.settings("together", false);
        let (executions, events) =
            together(&bench, bench.engine(builder), &settings, &plans, pending()).await;
        for execution in &executions {
            assert!(matches!(execution.end, End::Succeeded), "{builder:?}: {:?}", execution.end);
        }
        let last_begin = ["one", "two"].map(|name| place(&events, name, begins("build")).unwrap());
        let first_end = ["one", "two"].map(|name| place(&events, name, ends("build")).unwrap());
        assert!(last_begin.iter().max() < first_end.iter().min(), "{builder:?}: {events:#?}");
        let fetched = |(_, event): &&(String, Event)| begins("fetch-base")(event);
        assert_eq!(events.iter().filter(fetched).count(), 1, "{builder:?}: {events:#?}");
        assert_ne!(
            executions[0].image.as_ref().unwrap().manifest_digest,
            executions[1].image.as_ref().unwrap().manifest_digest,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_two_plans_have_runs_once() {
    let bench = Bench::new("").await;
    let one = plan_of(&bench, "one", "sleep 1; echo once");
    let mut two = Draft { name: "two".to_owned(), ..one.clone().into_draft() };
    let Some(Action::DeriveImage { edit, .. }) = two.steps.last_mut().map(|step| &mut step.action)
    else {
        panic!("the last step labels");
    };
    edit.labels.insert("org.example.other".to_owned(), "yes".to_owned());
    let two = two.finish().unwrap();
    let settings = bench.settings("together-once", true);
    let (executions, events) =
        together(&bench, bench.engine(Builder::Podman), &settings, &[one, two], pending()).await;
    let said = |(_, event): &&(String, Event)| matches!(event, Event::BuildLine { text, .. } if text == "once");
    assert_eq!(events.iter().filter(said).count(), 1, "{events:#?}");
    let images = executions.iter().map(|execution| execution.image.as_ref().unwrap());
    let layers: Vec<_> = images.clone().map(|image| image.layers).collect();
    assert_eq!(layers[0], layers[1]);
    let digests: Vec<_> = images.map(|image| &image.manifest_digest).collect();
    assert_ne!(digests[0], digests[1], "each image has its own labels");
    // Either plan may reach a step first.
    let [one, two] = [0, 1].map(|number| states(&executions[number]));
    let pairs: Vec<_> = one.into_iter().zip(two).collect();
    let is_once = |(one, two): &(StepState, StepState)| {
        [*one, *two].contains(&StepState::Done) && [*one, *two].contains(&StepState::Cached)
    };
    assert!(pairs[..3].iter().all(is_once), "{pairs:?}");
    assert_eq!(pairs[3], (StepState::Done, StepState::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_fails_does_not_end_the_others() {
    let bench = Bench::new("").await;
    let bad = plan_of(&bench, "bad", "echo broken; exit 7");
    let good = plan_of(&bench, "good", "sleep 3; echo whole");
    // This plan needs the step that fails in the first plan.
    let also_bad = Draft { name: "also-bad".to_owned(), ..bad.clone().into_draft() };
    let also_bad = also_bad.finish().unwrap();
    let settings = bench.settings("together-bad", false);
    let plans = [bad, good, also_bad];
    let (executions, events) =
        together(&bench, bench.engine(Builder::Podman), &settings, &plans, pending()).await;
    let End::Failed(error) = &executions[0].end else { panic!("{:?}", executions[0].end) };
    let End::Failed(other) = &executions[2].end else { panic!("{:?}", executions[2].end) };
    for error in [error, other] {
        assert_eq!(error.to_string(), "step `build` failed");
        assert!(error.run_failure().is_some(), "each error contains the reason");
    }
    assert!(matches!(executions[1].end, End::Succeeded), "{:?}", executions[1].end);
    let begun = |(_, event): &&(String, Event)| begins("build")(event);
    assert_eq!(events.iter().filter(begun).count(), 2, "{events:#?}");
    let not_begun = [StepState::Failed, StepState::NotBegun, StepState::NotBegun];
    assert!(states(&executions[0]).ends_with(&not_begun), "{:?}", executions[0].steps);
}

/// A package index that answers each request with 404 once it is notified.
async fn index_without_files(is_told: Arc<Notify>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/simple", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            is_told.notified().await;
            is_told.notify_one();
            let answer =
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            drop(stream.write_all(answer).await);
        }
    });
    url
}

/// Returns a plan with two builds, of which the second needs wheels that do not exist.
fn plan_with_wheels(bench: &Bench, run: &str) -> Plan {
    let lock = format!(
        "lock-version = \"1.0\"\n[[packages]]\nname = \"demo\"\nversion = \"1.0\"\nwheels = [{{ path = \"wheels/demo-1.0-py3-none-any.whl\", hashes = {{ sha256 = \"{}\" }} }}]\n[tool.build-pipeline]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\n",
        "1".repeat(64)
    );
    std::fs::write(bench.path("pylock.demo.toml"), &lock).unwrap();
    let mut draft = plan_of(bench, "whole", run).into_draft();
    let name = "pylock.demo.toml".to_owned();
    let lock = Input::Lock { digest: names::Digest::of(lock.as_bytes()) };
    draft.inputs.insert(name.clone(), lock);
    let (build, seal) = (draft.steps[1].clone(), draft.steps[2].clone());
    let mut second = [build, seal];
    for step in &mut second {
        step.id = format!("{}-second", step.id);
        match &mut step.action {
            Action::BuildImage { base, context, .. } => {
                "seal".clone_into(base);
                context.insert("python".to_owned(), "broken".to_owned());
            }
            Action::SealImage { image, base, .. } => {
                "build-second".clone_into(image);
                "seal".clone_into(base);
            }
            _ => unreachable!(),
        }
    }
    draft.steps.splice(3..3, second);
    let fetch = Action::FetchWheels { input: name };
    draft.steps.insert(1, Step { id: "broken".to_owned(), action: fetch });
    if let Some(Action::DeriveImage { base, .. }) =
        draft.steps.last_mut().map(|step| &mut step.action)
    {
        "seal-second".clone_into(base);
    }
    draft.finish().unwrap()
}

/// When a step fails, the builds in progress are sealed and kept. The reason is kept even if the
/// caller does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_costs_nothing_that_is_under_way() {
    for is_interrupted in [false, true] {
        let mut bench = Bench::new("").await;
        let has_begun = Arc::new(Notify::new());
        bench.index = Some(index_without_files(Arc::clone(&has_begun)).await);
        let length = if is_interrupted { 3000 } else { 5 };
        let plan = plan_with_wheels(&bench, &format!("echo begun; sleep {length}"));
        let settings = bench.settings("together-failing", false);
        let (interrupt, interrupted) = tokio::sync::oneshot::channel::<()>();
        let interrupt = Mutex::new(Some(interrupt).filter(|_| is_interrupted));
        let on_event: executor::OnEvent = Arc::new(move |event| {
            if matches!(&event, Event::BuildLine { text, .. } if text.trim() == "begun") {
                has_begun.notify_one();
            }
            if ends("broken")(&event) {
                drop(interrupt.lock().unwrap().take());
            }
        });
        let interrupt = async {
            drop(interrupted.await);
            if !is_interrupted {
                pending::<()>().await;
            }
        };
        let job = Job { plan: Arc::new(plan), settings: settings.clone(), on_event };
        let executor = Executor::new(Some(bench.engine(Builder::Podman)));
        let execution = executor.execute(job, interrupt).await;
        executor.close().await;
        let End::Failed(error) = &execution.end else { panic!("{:?}", execution.end) };
        assert_eq!(error.to_string(), "cannot get a source");
        let (build, seal) = if is_interrupted {
            (StepState::Interrupted, StepState::NotBegun)
        } else {
            (StepState::Done, StepState::Done)
        };
        let wanted = [StepState::Failed, build, seal];
        assert_eq!(states(&execution)[1..4], wanted);
        assert!(states(&execution)[4..].iter().all(|state| *state == StepState::NotBegun));
        assert_eq!(bench.podman.container_processes(), [0u32; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_ends_all_plans() {
    let bench = Bench::new("").await;
    let plans =
        ["one", "two"].map(|name| plan_of(&bench, name, &format!("sleep 3000; echo {name}")));
    let settings = bench.settings("together-cut", false);
    let asleep = async {
        let begin = std::time::Instant::now();
        while bench.podman.container_processes().len() < 4 {
            assert!(begin.elapsed().as_secs() < 300, "the RUNs do not start");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let (executions, _) =
        together(&bench, bench.engine(Builder::Podman), &settings, &plans, asleep).await;
    for execution in &executions {
        assert!(matches!(execution.end, End::Interrupted), "{:?}", execution.end);
        let build = &execution.steps[1];
        assert_eq!(build.state, StepState::Interrupted, "{:?}", execution.steps);
    }
    assert_eq!(bench.podman.container_processes(), [0u32; 0]);
}
