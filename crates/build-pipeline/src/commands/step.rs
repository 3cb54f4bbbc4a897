//! `build-pipeline step`: lists the steps of tracks with their keys, runs one, and cleans shared
//! folders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use executor::{
    Bake, BlobCache, BuildEnv, Materials, Settings, SharedStores, result_of, store_with,
};
use failure::{Failure, Kind};
use names::Digest;
use oci::Verified;
use plan::{Action, Step};
use project::build_env::BuildOptions;
use project::prepare::{Preparation, Prepared, Preparer, prepare};
use project::rehearsal::Rehearsal;
use project::{Project, build_env, environment, request, stores};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{
    Format, Global, StepArguments, StepClean, StepCommand, StepList, StepRun, StoreArgs, Subject,
};
use crate::global;
use crate::rebuild::carry_out;
use terminal::output;
use text::{Page, counted, size};

/// The minimum number of digits of a shortened key.
const DIGITS: usize = 8;

/// The output of `step list --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StepReport {
    /// The version of this JSON format.
    schema: u32,
    /// The steps, each once, in the order in which they run.
    steps: Vec<ListedStep>,
}

/// A step of one or several tracks.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedStep {
    /// The key: 64 hexadecimal digits.
    key: String,
    /// The name of the step.
    step: String,
    /// The images whose plans contain it.
    tracks: Vec<String>,
    /// What happens to its result.
    kind: StepKind,
    /// The digest of its result, if this machine has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Digest>,
    /// The first store that has its result, unless this machine has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
}

/// What happens to the result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepKind {
    /// It is an image that is kept and can be shared through stores.
    Kept,
    /// It is an input, which is fetched by its digest when a step needs it.
    Input,
    /// Another step of the same run uses it, and it is not kept.
    Passing,
    /// It is the image of the track, which `build` writes.
    Image,
}

impl StepKind {
    pub(crate) fn of(action: &Action) -> Self {
        match action {
            Action::FetchBase { .. }
            | Action::FetchSource { .. }
            | Action::FetchPackages { .. }
            | Action::FetchWheels { .. } => Self::Input,
            Action::BuildImage { .. } | Action::AuditWheels { .. } | Action::AddFiles { .. } => {
                Self::Passing
            }
            Action::BootstrapBase { .. }
            | Action::SealImage { .. }
            | Action::SlimImage { .. }
            | Action::AuditImage { .. } => Self::Kept,
            Action::DeriveImage { .. } => Self::Image,
        }
    }
}

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

fn list(global: &Global, args: &StepList) -> Result<(), Failure> {
    let project = global::project()?;
    let subject = global::with_names(&args.subject, &args.names);
    let Preparation { plans, materials } = plans(global, &project, &subject)?;
    let mut steps: Vec<ListedStep> = Vec::new();
    let mut places: BTreeMap<Digest, usize> = BTreeMap::new();
    let stores = StoreArgs { named: args.stores.clone(), ..StoreArgs::default() };
    let settings = settings(global, global::shared_stores(global, &stores)?, &materials, None)?;
    for Prepared { plan, .. } in &plans {
        let keys = plan.step_keys();
        for step in &plan.steps {
            let Some(key) = keys.get(&*step.id) else { continue };
            if let Some(place) = places.get(key) {
                steps[*place].tracks.push(plan.name.clone());
                continue;
            }
            places.insert(key.clone(), steps.len());
            steps.push(ListedStep {
                key: key.hex().to_owned(),
                step: step.id.clone(),
                tracks: vec![plan.name.clone()],
                kind: StepKind::of(&step.action),
                result: result_of(key, &settings),
                store: None,
            });
        }
    }
    project::runtime::start()?.block_on(look(&mut steps, &settings));
    let report = StepReport { schema: 1, steps };
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::page(&text(&report)),
    }
}

/// Looks in the stores for the results that this machine lacks.
async fn look(steps: &mut [ListedStep], settings: &Settings) {
    let Some(build_env) = &settings.build_env else { return };
    let is_wanted = |step: &&mut ListedStep| step.kind == StepKind::Kept && step.result.is_none();
    for step in steps.iter_mut().filter(is_wanted) {
        if let Ok(key) = format!("sha256:{}", step.key).parse() {
            step.store = store_with(&build_env.shared, &key).await;
        }
    }
}

fn text(report: &StepReport) -> Page {
    let mut page = Page::default();
    let width = report.steps.iter().map(|step| step.step.len()).max().unwrap_or(0);
    for step in &report.steps {
        let state = match (step.kind, &step.result, &step.store) {
            (StepKind::Input, ..) => "fetched when needed".to_owned(),
            (StepKind::Passing, ..) => "used by the next step".to_owned(),
            (StepKind::Image, ..) => "written by `build`".to_owned(),
            (StepKind::Kept, Some(_), _) => "finished".to_owned(),
            (StepKind::Kept, None, Some(store)) => format!("in {store}"),
            (StepKind::Kept, None, None) => "not run".to_owned(),
        };
        let (key, name, tracks) = (&step.key, &step.step, step.tracks.join(", "));
        page.line(format_args!("{key}  {name:width$}  {state}  ({tracks})"));
    }
    page
}

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

/// Returns the index of the plan that has a step with this key, and the step.
fn find(plans: &[Prepared], key: &str) -> Result<(usize, Step), Failure> {
    let is_key = key.len() >= DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_key {
        let what = format!("`{key}` is not the key of a step");
        return Err(Failure::new(Kind::Input, what).hint(format!(
            "write at least the first {DIGITS} digits of a key that `build-pipeline step list` prints"
        )));
    }
    let mut found: BTreeMap<Digest, (usize, &Step)> = BTreeMap::new();
    for (number, Prepared { plan, .. }) in plans.iter().enumerate() {
        for (id, full) in plan.step_keys() {
            let step = plan.steps.iter().find(|step| step.id == id);
            if let Some(step) = step.filter(|_| full.hex().starts_with(&key.to_lowercase())) {
                found.entry(full).or_insert((number, step));
            }
        }
    }
    let mut found = found.into_values();
    let (number, step) = match (found.next(), found.next()) {
        (Some(one), None) => one,
        (Some(_), Some(_)) => {
            let what = format!("several steps have keys that start with `{key}`");
            return Err(Failure::new(Kind::Input, what).hint("write more digits"));
        }
        (None, _) => return Err(no_such(key)),
    };
    let why = match StepKind::of(&step.action) {
        StepKind::Kept => return Ok((number, step.clone())),
        StepKind::Input => "fetches an input, which is not kept in a store",
        StepKind::Passing => "has an intermediate result, which is not stored",
        StepKind::Image => "writes the image",
    };
    let what = format!("step `{}` {why}", step.id);
    let track = plans.get(number).map(|one| one.plan.track.clone()).unwrap_or_default();
    Err(Failure::new(Kind::Input, what).hint(format!(
        "`build-pipeline step list {track}` lists the steps; `build-pipeline build {track}` builds the image"
    )))
}

fn no_such(key: &str) -> Failure {
    let what = format!("no step of these tracks has a key that starts with `{key}`");
    Failure::new(Kind::Input, what)
        .hint("a key changes with every input: `build-pipeline step list` prints the current keys")
        .hint("specify the track with `--track`, and its variant or GPU if the step belongs to one")
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
    let cache = environment::cache_folder().map(|folder| folder.join("blobs"));
    Ok(Settings {
        client: global::registry(global)?,
        cache: cache.map_or_else(BlobCache::none, BlobCache::new),
        verified: Verified::none(),
        nearby: Vec::new(),
        outputs: Vec::new(),
        last_step: None,
        build_env: Some(Arc::new(build_env)),
    })
}
