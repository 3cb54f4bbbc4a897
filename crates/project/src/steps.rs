//! The steps of plans with their keys, and where their results are.

use std::collections::BTreeMap;

use executor::{Settings, result_of, store_with};
use failure::{Failure, Kind};
use names::Digest;
use plan::{Action, Step};
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::prepare::Prepared;

/// The minimum number of digits of a shortened key.
const DIGITS: usize = 8;

/// The output of `step list --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepReport {
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
pub enum StepKind {
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
    /// Returns what happens to the result of an action.
    pub fn of(action: &Action) -> Self {
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

impl StepReport {
    /// Lists the steps of plans, and looks for their results on this machine and in the stores.
    pub async fn new(plans: &[Prepared], settings: &Settings) -> Self {
        let mut steps: Vec<ListedStep> = Vec::new();
        let mut places: BTreeMap<Digest, usize> = BTreeMap::new();
        for Prepared { plan, .. } in plans {
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
                    result: result_of(key, settings),
                    store: None,
                });
            }
        }
        look(&mut steps, settings).await;
        Self { schema: 1, steps }
    }

    /// Returns the steps as text, one per line.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let width = self.steps.iter().map(|step| step.step.len()).max().unwrap_or(0);
        for step in &self.steps {
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

/// Returns the index of the plan that has a step with this key, and the step.
///
/// # Errors
/// No step or several steps have this key, or the step's result is not kept.
pub fn find(plans: &[Prepared], key: &str) -> Result<(usize, Step), Failure> {
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

/// Returns the error for a key that no step has.
pub fn no_such(key: &str) -> Failure {
    let what = format!("no step of these tracks has a key that starts with `{key}`");
    Failure::new(Kind::Input, what)
        .hint("a key changes with every input: `build-pipeline step list` prints the current keys")
        .hint("specify the track with `--track`, and its variant or GPU if the step belongs to one")
}
