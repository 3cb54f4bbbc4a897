//! `build-pipeline [build] --track …`: plans, builds, records.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Engine;
use executor::{
    BlobCache, BuildEnv, End, ExecuteError, Execution, Executor, Job, Materials, Output, Settings,
    needs_engine,
};
use failure::{Failure, Kind};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use launch::engines;
use oci::Verified;
use plan::Plan;
use project::build_env::{BuildOptions, blob_cache};
use project::locks::{self, Locks};
use project::outputs::{
    ENGINE, absolute, check_dangling, check_places, check_push, nearby, next, options,
    parse_output, parse_push, path_of,
};
use project::prepare::{Preparation, Prepared, prepare};
use project::push::{NameFacts, check_digest_apart, check_digest_file, write_digest};
use project::rehearsal::Rehearsal;
use project::{Project, build_env, copies, environment, history, state};
use record::{BuildRecord, OutputOutcome, OutputState, Run, Status};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::cli::{Build, Format, Global, PlanFormat, StepArgs};
use crate::commands::{diagnose, verify};
use crate::global;
use crate::signals::{Signals, interrupted};
use terminal::output::{self, ErrorDocument};
use terminal::reporter::Reporter;
use text::{Page, shell_line};

/// Builds the requested tracks, all at the same time.
pub(crate) fn run(global: &Global, args: &Build) -> Result<(), Failure> {
    if args.subject.tracks.is_empty() {
        return Err(Failure::new(Kind::Input, "no track given")
            .hint("use `--track NAME`; add `--rehearse` to try a track on a small stand-in, if it has one")
            .hint("`build-pipeline` lists the tracks"));
    }
    let project = global::project()?;
    let Preparation { plans, materials } =
        prepare(&global.mirror, &project, &global::subject(&args.subject))?;
    if args.dry_run {
        let format = match args.format {
            Format::Text => PlanFormat::Tree,
            Format::Json => PlanFormat::Json,
        };
        return crate::commands::plan::print(&plans, format);
    }
    let on_inputs = plans.iter().filter(|one| one.stand_in.is_none());
    copies::check_plans(&global.mirror, on_inputs.map(|one| &*one.plan))?;
    // A build that cannot be recorded does not start.
    state::check_records()?;
    if let Some(file) = &args.digest_file {
        if plans.len() > 1 {
            return Err(Failure::new(
                Kind::Input,
                "`--digest-file` takes one digest, but there are several images",
            )
            .hint("build one image at a time, or use `--format json`"));
        }
        check_digest_file(file)?;
    }
    let reporter = Arc::new(Reporter::new(global.progress));
    let session = Session { global, args, project: &project, materials, reporter };
    project::runtime::start()?.block_on(session.all(plans))
}

/// The shared state of the builds of one run.
struct Session<'a> {
    global: &'a Global,
    args: &'a Build,
    project: &'a Project,
    materials: Arc<Materials>,
    reporter: Arc<Reporter>,
}

/// The output of `build --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BuildReport {
    /// The version of this JSON format.
    schema: u32,
    /// The images that were built and, if there are several tracks, those that could not be built.
    builds: Vec<Entry>,
}

/// An image that was built.
#[derive(Debug, Serialize, JsonSchema)]
struct Built {
    /// The name of the image.
    name: String,
    /// The digest of its manifest.
    manifest_digest: names::Digest,
    /// The digest of its config, which is the image ID.
    config_digest: names::Digest,
    /// The digest of the plan.
    plan_digest: names::Digest,
    /// Where the image was written.
    outputs: Vec<record::OutputOutcome>,
    /// The path of the record.
    record: PathBuf,
}

/// The result for one track.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Entry {
    /// The image was built.
    Built(Built),
    /// The image could not be built.
    Failed {
        /// The name of the image.
        name: String,
        /// Why.
        error: ErrorDocument,
    },
}

/// A build that was started.
struct StartedBuild {
    prepared: Prepared,
    record: BuildRecord,
    settings: Settings,
}

/// The initial record of a build, while it is being written.
type Beginning = JoinHandle<Result<PathBuf, Failure>>;

/// A build that ended and was recorded.
struct FinishedBuild {
    record: BuildRecord,
    /// The path of the record.
    written: Result<PathBuf, Failure>,
    /// Why the build failed, unless a signal or an earlier error stopped it.
    failure: Option<Arc<ExecuteError>>,
}

impl FinishedBuild {
    /// Records how a build ended, after its initial record is written. `early` is the reason if the
    /// build was interrupted or not started.
    async fn of(
        begun: &StartedBuild,
        beginning: Beginning,
        execution: Execution,
        early: Option<&Failure>,
    ) -> Self {
        let Execution { steps, image, outputs, notes, traffic, end } = execution;
        let mut record = begun.record.clone();
        (record.steps, record.image, record.outputs, record.traffic) =
            (steps, image, outputs, traffic);
        record.notes.extend(notes);
        record.ended = Some(now());
        record.status = match &end {
            End::Succeeded => Status::Succeeded,
            End::Interrupted => Status::Interrupted,
            End::Failed(_) | End::NotBegun => Status::Failed,
        };
        let failure = match end {
            End::Failed(error) => Some(error),
            End::Succeeded | End::Interrupted | End::NotBegun => None,
        };
        if record.status != Status::Succeeded {
            let own = failure.as_deref().map(Failure::from);
            record.error = own.as_ref().or(early).map(Failure::lines).unwrap_or_default();
        }
        let beginning = beginning.await.unwrap_or_else(|error| {
            let what = "internal error: the task that writes a record stopped unexpectedly";
            Err(Failure::caused(Kind::Bug, what, &error))
        });
        let written = beginning.and(state::write_record(&record));
        Self { record, written, failure }
    }
}

impl StartedBuild {
    /// Prints the warnings of a plan, and starts its record.
    fn new(prepared: Prepared, settings: Settings, words: &[String]) -> Self {
        prepared.warnings.iter().for_each(|warning| output::warn(warning.rule, &warning.message));
        let warnings = prepared.warnings.iter();
        let run = Run {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: words.to_vec(),
            process: std::process::id(),
            place: prepared.place(),
            began: now(),
            warnings: warnings.map(|one| format!("{}: {}", one.rule, one.message)).collect(),
            recipe: prepared.recipe(),
        };
        let record = BuildRecord::begin(Plan::clone(&prepared.plan), run);
        Self { prepared, record, settings }
    }
}

impl Session<'_> {
    async fn all(&self, mut plans: Vec<Prepared>) -> Result<(), Failure> {
        let stand_ins: Vec<_> = plans.iter_mut().filter_map(|one| one.stand_in.take()).collect();
        // The rehearsal serves the stand-ins until the builds end.
        let rehearsal =
            if stand_ins.is_empty() { None } else { Some(Rehearsal::start(&stand_ins).await?) };
        let mut begun = Vec::new();
        let mut build_env = None;
        let places = plans.iter().map(|one| self.outputs(&one.plan));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        check_places(&places)?;
        if let Some(file) = &self.args.digest_file {
            check_digest_apart(file, places.iter().flatten().filter_map(path_of))?;
        }
        // An invalid store is reported even if no step makes a layer.
        global::shared_stores(self.global, &self.args.stores)?;
        for (one, outputs) in plans.into_iter().zip(places) {
            let is_built = one.plan.is_built();
            let (client, cache) = match rehearsal.as_ref().filter(|_| !is_built) {
                Some(rehearsal) => (rehearsal.client.clone(), BlobCache::none()),
                None => (global::registry(self.global)?, blob_cache()),
            };
            let is_loaded = outputs.iter().any(|output| matches!(output, Output::Engine { .. }));
            let build_env = if one.plan.makes_layers() || is_loaded {
                // All builds share one engine and one store.
                Some(Arc::clone(match &build_env {
                    Some(build_env) => build_env,
                    None => build_env.insert(self.build_env()?),
                }))
            } else {
                None
            };
            let verified = Verified::new(environment::state_folder()?.join("verified"));
            let nearby = nearby(&self.dist(), outputs.iter().filter_map(path_of));
            let last_step = None;
            let settings =
                Settings { client, cache, verified, nearby, outputs, last_step, build_env };
            begun.push(StartedBuild::new(one, settings, &self.global.words));
        }
        let has_dist = self.dist().exists();
        let ended = self.carry_out(begun).await;
        if !has_dist {
            hide_from_git(&self.dist());
        }
        ended
    }

    /// Returns the folder for images without a given output.
    fn dist(&self) -> PathBuf {
        self.project.root.join("dist")
    }

    fn build_env(&self) -> Result<Arc<BuildEnv>, Failure> {
        let StepArgs { engine: _, fresh: is_fresh, keep_failed: keeps_failed } = self.args.steps;
        let options = BuildOptions {
            is_fresh,
            keeps_failed,
            store: environment::store_folder()?,
            shared: global::shared_stores(self.global, &self.args.stores)?,
            old_packages: self.global.mirror.old_packages(),
        };
        Ok(Arc::new(build_env::open(
            global::sources(self.global)?,
            Arc::clone(&self.materials),
            options,
        )?))
    }

    /// Runs plans, and records each as soon as it ends, even if it failed. Prints all errors but
    /// the first, and returns the first.
    async fn carry_out(&self, mut begun: Vec<StartedBuild>) -> Result<(), Failure> {
        // Listen before the first record is written: an unhandled signal would leave it unfinished.
        let signals = Signals::listen();
        // Sync the records while the first request is in progress.
        let beginnings = begun.iter().map(|one| {
            let record = one.record.clone();
            tokio::task::spawn_blocking(move || state::write_record(&record))
        });
        let beginnings = beginnings.collect();
        let (ended, ended_early) = self.execute(&mut begun, beginnings, signals).await;
        let several = begun.len() > 1;
        let (mut built, mut failures) = (Vec::new(), Vec::from_iter(ended_early));
        let mut told: Vec<(Arc<ExecuteError>, &str)> = Vec::new();
        for (one, FinishedBuild { record, written, failure }) in begun.iter().zip(ended) {
            let name = one.prepared.plan.name.as_str();
            let failure = failure.map(|cause| {
                let error = Failure::from(&*cause);
                // A step that several plans need fails only once.
                if let Some((_, first)) = told.iter().find(|(other, _)| Arc::ptr_eq(other, &cause))
                {
                    return Failure::new(
                        error.kind,
                        format!("a step that it shares with `{first}` failed"),
                    );
                }
                told.push((cause, name));
                error
            });
            let shown =
                match (failure, written) {
                    (Some(failure), Ok(path)) => {
                        Err(failure.hint(format!("the record is `{}`", path.display())))
                    }
                    (Some(failure), Err(error)) => Err(failure
                        .hint(format!("its record is unfinished: {}", error.lines().join(": ")))),
                    (None, Err(error)) => Err(unrecorded(&record, error)),
                    (None, Ok(path)) if record.status == Status::Succeeded => {
                        self.show(&one.prepared, &record, &one.settings, &path).await.map(Some)
                    }
                    // An error that ended all builds early is printed once, with the path of each
                    // record.
                    (None, Ok(path)) => {
                        let hint = format!("the record is `{}`", path.display());
                        if let Some(early) = failures.first_mut() {
                            early.hints.push(hint);
                        }
                        Ok(None)
                    }
                };
            let failed = match (&shown, failures.first()) {
                (Err(error), _) | (Ok(None), Some(error)) => Some(ErrorDocument::from(error)),
                _ => None,
            };
            let failed = failed.filter(|_| several);
            built.extend(failed.map(|error| Entry::Failed { name: name.to_owned(), error }));
            match shown {
                Ok(shown) => built.extend(shown.map(Entry::Built)),
                Err(error) if several => failures.push(error.within(name)),
                Err(error) => failures.push(error),
            }
        }
        if self.args.format == Format::Json && !built.is_empty() {
            let shown = output::json(&BuildReport { schema: 1, builds: built });
            failures.extend(shown.err());
        }
        failures.iter().for_each(|failure| self.offer(failure));
        let mut failures = failures.into_iter();
        let Some(failure) = failures.next() else { return Ok(()) };
        failures.for_each(|other| output::error(&other));
        Err(failure)
    }

    /// Shows the result of a build.
    async fn show(
        &self,
        prepared: &Prepared,
        record: &BuildRecord,
        settings: &Settings,
        path: &Path,
    ) -> Result<Built, Failure> {
        let Some(image) = &record.image else {
            return Err(Failure::new(Kind::Bug, "the plan did not produce an image"));
        };
        if let Some(file) = &self.args.digest_file {
            write_digest(file, &image.manifest_digest)?;
        }
        if self.args.format == Format::Text {
            output::page(&history::built(record, image, &settings.outputs, path))?;
            if prepared.plan.rehearsal {
                self.show_rehearsed(&prepared.plan, settings).await?;
            } else if let Some(next) = settings.outputs.first().map(|one| next(&prepared.plan, one))
            {
                output::hint(&next);
            }
        }
        Ok(Built {
            name: prepared.plan.name.clone(),
            manifest_digest: image.manifest_digest.clone(),
            config_digest: image.config_digest.clone(),
            plan_digest: record.plan_digest.clone(),
            outputs: record.outputs.clone(),
            record: path.to_owned(),
        })
    }

    /// Prints the known failures in the last output lines of a RUN.
    fn offer(&self, failure: &Failure) {
        if failure.log.is_empty() {
            return;
        }
        // A problem with the list of known failures must not hide the real error.
        let Ok(failures) = global::data().and_then(|data| data.failures()) else {
            return;
        };
        let log = failure.log.join("\n");
        if let Ok(found) = failures.diagnose(log.as_bytes()) {
            diagnose::offer(&found);
        }
    }

    /// Takes the locks of the outputs, finds the engine, and runs the plans until they end or a
    /// signal arrives.
    ///
    /// Also returns the error if the plans were not started or a signal stopped them.
    async fn execute(
        &self,
        begun: &mut [StartedBuild],
        beginnings: Vec<Beginning>,
        mut signals: Signals,
    ) -> (Vec<FinishedBuild>, Option<Failure>) {
        let is_testing = Cell::new(false);
        let ready = {
            let mut preparing = Box::pin(self.ready(begun, &is_testing));
            tokio::select! {
                ready = &mut preparing => ready.map_err(|error| (None, error)),
                code = signals.next() => {
                    if is_testing.get() {
                        signals.let_end(preparing).await;
                    }
                    Err((Some(code), interrupted(code)))
                }
            }
        };
        let (_locks, engine) = match ready {
            Ok(ready) => ready,
            Err((signal, error)) => {
                let end = || match signal {
                    Some(_) => End::Interrupted,
                    None => End::NotBegun,
                };
                let ended = join_all(begun.iter().zip(beginnings).map(|(one, beginning)| {
                    let execution = Execution::not_begun(&one.record.plan, end());
                    FinishedBuild::of(one, beginning, execution, Some(&error))
                }));
                return (ended.await, Some(error));
            }
        };
        let executor = Executor::new(engine);
        let signal = signals.next().shared();
        let ended = join_all(begun.iter().zip(beginnings).map(async |(one, beginning)| {
            let plan = &one.prepared.plan;
            let job = Job {
                plan: Arc::clone(plan),
                settings: one.settings.clone(),
                on_event: self.reporter.for_plan(plan, begun.len() > 1),
            };
            let execution = executor.execute(job, signal.clone().map(drop)).await;
            let early = signal.peek().copied().map(interrupted);
            FinishedBuild::of(one, beginning, execution, early.as_ref()).await
        }));
        let ended = ended.await;
        executor.close().await;
        let is_whole = ended.iter().all(|one| one.record.status == Status::Succeeded);
        let came = signal.peek().copied().filter(|_| !is_whole);
        (ended, came.map(interrupted))
    }

    /// Returns the locks, which are held until the plans have run, and the engine, if a plan needs
    /// one. Finds the engine after waiting for other runs, which may have finished the steps that
    /// need it, and before fetching anything except finished steps. `is_testing` becomes true when
    /// the test of the engine begins.
    async fn ready(
        &self,
        begun: &mut [StartedBuild],
        is_testing: &Cell<bool>,
    ) -> Result<(Locks, Option<Engine>), Failure> {
        let outputs = begun.iter().flat_map(|one| &one.settings.outputs);
        let locks = self.take_locks(outputs.collect()).await?;
        for one in begun.iter_mut() {
            let notes = global::take_from_stores(&one.prepared.plan, &one.settings).await;
            one.record.notes.extend(notes);
        }
        let mut needing: Vec<&mut StartedBuild> = begun
            .iter_mut()
            .filter(|one| needs_engine(&one.prepared.plan, &one.settings))
            .collect();
        if needing.is_empty() {
            return Ok((locks, None));
        }
        for one in &needing {
            self.global.mirror.check_network(&one.prepared.plan, &one.settings)?;
        }
        let store = environment::store_folder()?;
        let engine = self.args.steps.engine;
        self.reporter.test_engine(engine);
        is_testing.set(true);
        let found = engines::find(engine, &store, &output::notice).await?;
        for one in &mut needing {
            one.record.engine = Some(found.used.clone());
            one.record.notes.extend(found.notes.iter().cloned());
        }
        Ok((locks, Some(found.engine)))
    }

    async fn take_locks(&self, outputs: Vec<&Output>) -> Result<Locks, Failure> {
        let is_on_disk =
            |output: &&&Output| matches!(output, Output::Layout { .. } | Output::Archive { .. });
        for (number, output) in outputs.iter().enumerate().filter(|(_, one)| is_on_disk(one)) {
            for other in outputs.iter().skip(number + 1) {
                if locks::are_one(output, other)? {
                    let what = format!("`{output}` and `{other}` are the same place");
                    return Err(Failure::new(Kind::Input, what).hint(
                        "use each location only once, and give each track a separate location",
                    ));
                }
            }
        }
        let command = shell_line(&self.global.words);
        Locks::take(&outputs, self.args.lock_timeout, &command, &output::waiting).await
    }

    /// Shows a newcomer the results of a rehearsal: the labels, the proof, and the next steps.
    async fn show_rehearsed(&self, plan: &Plan, settings: &Settings) -> Result<(), Failure> {
        let mut text = Page::default();
        text.line(format_args!("\nlabels"));
        for (key, value) in plan.final_labels() {
            text.line(format_args!("  {key}={value}"));
        }
        output::sanitised_result(&text.into_text())?;
        let layout = settings.outputs.iter().find_map(|output| match output {
            Output::Layout { path, .. } | Output::Archive { path } => Some(path.clone()),
            Output::Registry { .. } | Output::Engine { .. } => None,
        });
        if let Some(path) = layout {
            output::result("\nverify\n")?;
            verify::verify_path(&path, plan, settings, &self.materials).await?;
        }
        let track = &plan.track;
        let options = options(plan).unwrap_or_default();
        let next = if plan.slimmed_for().is_some() && !plan.is_built() {
            format!(
                "with network access, `build-pipeline --track {track}{options}` does the same with the pinned base: it reads all layers, and writes them without code for other GPUs"
            )
        } else if plan.is_built() {
            format!(
                "`build-pipeline plan --track {track}{options}` shows the inputs of the real image; on a machine that can download them, `build-pipeline --track {track}{options}` builds the image with the same steps"
            )
        } else {
            format!(
                "with network access, `build-pipeline --track {track}{options}` does the same with the pinned base; its layers stay in the base's registry"
            )
        };
        output::hint(&next);
        Ok(())
    }

    /// Returns the outputs of a plan.
    fn outputs(&self, plan: &Plan) -> Result<Vec<Output>, Failure> {
        let pushes = self.args.push.iter().map(|one| (one.expose(), true));
        let named = self.args.outputs.iter().map(|one| (one.expose(), false));
        let load = self.args.load.then_some((ENGINE, false));
        let mut all = Vec::new();
        let facts = NameFacts::of_plan(plan);
        for (text, is_push) in named.chain(pushes).chain(load) {
            let filled = facts.fill_in(text)?;
            let mut output = if is_push {
                parse_push(&filled)?
            } else {
                parse_output(&filled, &plan.name, self.args.with_layers)?
            };
            if self.global.directory.is_some() {
                output = absolute(output);
            }
            if let Output::Registry { reference } = &output {
                check_push(plan.rehearsal, reference)?;
            }
            if !all.contains(&output) {
                all.push(output);
            }
        }
        if all.is_empty() {
            let path = self.dist().join(&plan.name);
            // A relative path is shorter if the project is the current folder. With `-C`, the user's
            // shell is in another folder.
            let here = std::env::current_dir().ok();
            let path = here
                .filter(|_| self.global.directory.is_none())
                .and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()))
                .unwrap_or(path);
            all.push(Output::Layout { path, with_layers: self.args.with_layers });
        }
        all.iter().try_for_each(check_dangling)?;
        // No registry has the layers that this plan creates, so the layout must contain them.
        for output in all.iter_mut().filter(|_| plan.needs_all_layers()) {
            if let Output::Layout { with_layers, .. } = output {
                *with_layers = true;
            }
        }
        Ok(all)
    }
}

/// Makes git ignore a new folder for images, if a file was written into it, as Python's `venv` does
/// for its folders.
fn hide_from_git(folder: &Path) {
    if has_files(folder)
        && let Err(error) = std::fs::write(folder.join(".gitignore"), "*\n")
    {
        tracing::debug!(%error, "cannot write .gitignore");
    }
}

/// Returns whether a folder contains a file, at any depth.
fn has_files(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.any(|path| !path.is_dir() || has_files(&path))
}

/// Returns the error for a record that could not be written. If the image is complete, the message
/// says so.
fn unrecorded(record: &BuildRecord, error: Failure) -> Failure {
    let done = |output: &&OutputOutcome| {
        matches!(output.state, OutputState::Written | OutputState::UpToDate)
    };
    let places: Vec<&str> =
        record.outputs.iter().filter(done).map(|output| output.output.as_str()).collect();
    let (Status::Succeeded, Some(image)) = (record.status, &record.image) else { return error };
    let what = format!(
        "the image is complete, but its record is missing: {} at {}",
        image.manifest_digest,
        places.join(", ")
    );
    let mut told = Failure::new(error.kind, what);
    told.causes = error.lines();
    told.hints = error.hints;
    told
}

/// Returns the current time with milliseconds, so that the records of short builds sort correctly.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_of_a_record_has_milliseconds() {
        let now = super::now();
        let fraction = now.strip_suffix('Z').and_then(|now| now.split_once('.'));
        assert_eq!(fraction.map(|(_, digits)| digits.len()), Some(3), "{now}");
        now.parse::<jiff::Timestamp>().unwrap();
    }
}
