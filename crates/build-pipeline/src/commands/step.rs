//! `build-pipeline step`: lists the steps of tracks with their keys, runs one, and cleans shared
//! folders.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use executor::{Bake, BlobCache, BuildEnv, Materials, Settings, SharedStores, result_of};
use failure::{Failure, Kind};
use oci::Verified;
use project::build_env::{BuildOptions, blob_cache};
use project::prepare::{Preparation, Prepared, Preparer, prepare};
use project::rehearsal::Rehearsal;
use project::steps::{StepReport, find, no_such};
use project::{Project, build_env, environment, request, stores};

use crate::cli::{
    Format, Global, StepArguments, StepClean, StepCommand, StepList, StepRun, StoreArgs, Subject,
};
use crate::global;
use crate::rebuild::carry_out;
use terminal::output;
use text::{counted, size};

/// Runs `step`.
pub(crate) fn run(global: &Global, args: &StepArguments) -> Result<(), Failure> {
    match &args.command {
        StepCommand::List(args) => list(global, args),
        StepCommand::Run(args) => run_one(global, args),
        StepCommand::Clean(args) => clean(global, args),
    }
}

/// Returns the plans of a subject. If it names no tracks, returns the plans of all tracks that can
/// be planned without a request to a registry.
pub(crate) fn plans(
    global: &Global,
    project: &Project,
    subject: &Subject,
) -> Result<Preparation, Failure> {
    if !subject.tracks.is_empty() {
        return prepare(&global.mirror, project, &global::subject(subject));
    }
    let mut preparer = Preparer::new(project)?;
    let tracks = preparer.input.tracks.clone();
    let mut plans = Vec::new();
    for (name, _) in tracks.in_order() {
        let one = Subject { tracks: vec![name.to_string()], ..subject.clone() };
        // A track that cannot be planned has no steps.
        let Ok(pending) = request::read(&global::subject(&one), &preparer.input) else { continue };
        for request in pending.into_iter().filter(|request| request.tags.is_empty()) {
            plans.extend(preparer.plan(request).ok());
        }
    }
    Ok(Preparation { plans, materials: preparer.into_materials() })
}

/// Lists steps.
fn list(global: &Global, args: &StepList) -> Result<(), Failure> {
    let project = global::project()?;
    let subject = global::with_names(&args.subject, &args.names);
    let Preparation { plans, materials } = plans(global, &project, &subject)?;
    let stores = StoreArgs { named: args.stores.clone(), ..StoreArgs::default() };
    let settings = settings(global, global::shared_stores(global, &stores)?, &materials, None)?;
    let report = project::runtime::start()?.block_on(StepReport::new(&plans, &settings));
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::page(&report.page()),
    }
}

/// Runs one step, and prints the digest of its result.
fn run_one(global: &Global, args: &StepRun) -> Result<(), Failure> {
    let project = global::project()?;
    let Preparation { mut plans, materials } = plans(global, &project, &args.subject)?;
    let (number, step) = find(&plans, &args.key)?;
    let Prepared { plan, stand_in, .. } = plans.swap_remove(number);
    let shared = global::shared_stores(global, &args.stores)?;
    let mut settings = settings(global, shared, &materials, None)?;
    settings.last_step = Some(step.id.clone());
    let key = plan.step_keys().remove(&*step.id).ok_or_else(|| no_such(&args.key))?;
    project::runtime::start()?.block_on(async {
        let rehearsal = match stand_in {
            Some(stand_in) => Some(Rehearsal::start(&[stand_in]).await?),
            None => None,
        };
        if let Some(rehearsal) = rehearsal.as_ref().filter(|_| !plan.is_built()) {
            (settings.client, settings.cache) = (rehearsal.client.clone(), BlobCache::none());
        }
        global::take_from_stores(&plan, &settings).await;
        let store = environment::store_folder()?;
        carry_out(global, &plan, settings.clone(), args.engine, &store).await?;
        let Some(result) = result_of(&key, &settings) else {
            return Err(Failure::new(Kind::Bug, format!("step `{}` has no result", step.id)));
        };
        check_stores(&step.id, &settings)?;
        output::result(&format!("{result}\n"))
    })
}

/// Fails if a writable store did not answer, so that it lacks the result of the step.
fn check_stores(step: &str, settings: &Settings) -> Result<(), Failure> {
    let build_env = settings.build_env.as_ref();
    let unreached = build_env.map(|one| one.shared.unreached()).unwrap_or_default();
    if unreached.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = unreached.iter().map(|(name, _)| format!("`{name}`")).collect();
    let what = format!("the result of step `{step}` was not stored in {}", names.join(" or "));
    let mut told = Failure::new(Kind::Network, what);
    told.causes = unreached.into_iter().map(|(_, why)| why).collect();
    Err(told.hint("run the command again when the store can be reached"))
}

/// Removes steps that no run has used for some time.
fn clean(global: &Global, args: &StepClean) -> Result<(), Failure> {
    let age = Duration::from_secs(u64::from(args.unused_for) * 24 * 3600);
    let since = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    for store in stores::parse(&args.stores, &global.mirror)? {
        let name = store.name();
        if let Some(folder) = store.folder().filter(|folder| !folder.is_dir()) {
            let what =
                format!("cannot clean `{name}`: the folder `{}` does not exist", folder.display());
            return Err(Failure::new(Kind::Input, what)
                .hint("check the spelling, and whether the disk is mounted; nothing was removed"));
        }
        let removed = store.clean(since, args.dry_run).map_err(|error| {
            Failure::caused(Kind::Machine, format!("cannot clean `{name}`"), &error)
        })?;
        let Some(removed) = removed else {
            return Err(Failure::new(Kind::Input, format!("cannot clean `{name}`: it is not a folder")).hint(
                "remove old tags with the registry's own retention rules: the tag of each step is its key",
            ));
        };
        let word = if args.dry_run { "would remove" } else { "removed" };
        let (entries, bytes) = (counted(removed.entries, "entry"), size(removed.bytes));
        output::result(&format!("{name}: {word} {entries}, {bytes}\n"))?;
    }
    Ok(())
}

/// Returns settings without outputs. If `bake` is given, it builds instead of an engine.
pub(crate) fn settings(
    global: &Global,
    shared: SharedStores,
    materials: &Arc<Materials>,
    bake: Option<Arc<Bake>>,
) -> Result<Settings, Failure> {
    let store = environment::store_folder()?;
    let old_packages = global.mirror.old_packages();
    let (is_fresh, keeps_failed) = (false, false);
    let options = BuildOptions { is_fresh, keeps_failed, store, shared, old_packages };
    let build_env = build_env::open(global::sources(global)?, Arc::clone(materials), options)?;
    let build_env = BuildEnv { bake, ..build_env };
    Ok(Settings {
        client: global::registry(global)?,
        cache: blob_cache(),
        verified: Verified::none(),
        nearby: Vec::new(),
        outputs: Vec::new(),
        last_step: None,
        build_env: Some(Arc::new(build_env)),
    })
}
