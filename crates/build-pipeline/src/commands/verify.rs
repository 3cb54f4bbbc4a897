//! `build-pipeline verify`: proves an image against plan and pins, field by field; with `--rebuild`
//! against the same image built again from nothing, byte by byte.

use std::path::Path;

use executor::{BlobCache, Settings, derive_image, fetch_base};
use names::Digest;
use oci::client::RegistryClient;
use pins::Track;
use plan::{Action, Input, Plan, Revision, labels};
use planner::BuildRequest;
use record::verify::{
    Documents, FieldCheck, Outcome, Verdict, compare, compare_with_plan, outcome,
};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Format, Global, Verify};
use crate::comparison::Comparison;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::image::Image;
use crate::output::Page;
use crate::prepare::{Preparer, Unconfirmed};
use crate::project::Project;
use crate::rebuild::rebuild;
use crate::rehearsal::Rehearsal;
use crate::request::{PendingRequest, RevisionChoice};
use crate::{environment, output, registry};

/// The number of the JSON form of a verification.
const SCHEMA: u32 = 1;

/// What `verify --format json` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Verification {
    /// The number of this JSON form.
    schema: u32,
    /// What was verified.
    image: String,
    /// The digest of its manifest.
    manifest_digest: Digest,
    /// What it was compared with: the digest of the plan of today.
    plan_digest: Digest,
    /// What is proven.
    outcome: Outcome,
    /// Every field that was compared.
    checks: Vec<FieldCheck>,
    /// Layers whose bytes were there and have the digest that the manifest names.
    layers_checked: usize,
    /// Layers that the manifest names and whose bytes lie elsewhere.
    layers_elsewhere: usize,
    /// What came of building it again, once for each engine that did.
    rebuilds: Vec<Comparison>,
}

impl Verification {
    /// Says of labels that were taken from the image that they were not compared. What is proven
    /// does not change: all else is as the plan gives it.
    fn mark(&mut self, unconfirmed: &[Unconfirmed]) {
        for Unconfirmed { label, why } in unconfirmed {
            let fields = [format!("label {label}"), format!("annotation {label}")];
            let same = |check: &&mut FieldCheck| {
                check.verdict == Verdict::Same && fields.contains(&check.field)
            };
            for check in self.checks.iter_mut().filter(same) {
                check.verdict = Verdict::Unchecked { why: (*why).to_owned() };
            }
        }
    }
}

/// Verifies what was named.
pub(crate) fn run(global: &Global, args: &Verify) -> Result<(), CommandError> {
    let folder = crate::working_folder(global)?;
    let project = Project::find(&folder)?;
    let client = registry::client(global)?;
    crate::runtime()?.block_on(async {
        let found = Image::find(&args.target, &folder, &client).await?;
        let mut preparer = Preparer::new(&project)?;
        let prepared = preparer.plan(request_of(&found)?)?;
        let (plan, materials) = (prepared.plan, preparer.into_materials());
        // Served for as long as something is read of it.
        let rehearsal = match prepared.stand_in {
            Some(stand_in) => Some(Rehearsal::start(&[stand_in]).await?),
            None => None,
        };
        let (client, cache) = match &rehearsal {
            Some(rehearsal) => (rehearsal.client.clone(), BlobCache::none()),
            None => {
                let folder = environment::cache_folder();
                let cache =
                    folder.map_or_else(BlobCache::none, |f| BlobCache::new(f.join("blobs")));
                (client, cache)
            }
        };
        let mut verification = verified(&found, &plan, &client, &cache).await?;
        // What was made of other pins is not made again by those of today.
        let can_be_same = !matches!(verification.outcome, Outcome::Differs | Outcome::OtherPins);
        if args.rebuild && can_be_same {
            for engine in &args.engine {
                let rebuilt = rebuild(global, &materials, &plan, &client, *engine).await?;
                let expected = &rebuilt.image;
                verification.checks = compare(expected.documents(), found.documents())
                    .map_err(|error| not_json(&found, &error))?;
                verification.outcome = outcome(&verification.checks);
                let comparison = Comparison::of(&found, expected, &client).await?;
                let is_same = comparison.is_same;
                verification.rebuilds.push(comparison);
                if !is_same {
                    break;
                }
            }
        }
        verification.mark(&prepared.unconfirmed);
        match args.format {
            Format::Json => output::json(&verification)?,
            Format::Text => output::sanitised_result(&text(&verification, &plan))?,
        }
        verdict(&verification)
    })
}

/// Verifies a layout or archive against a plan, and prints the outcome in short.
pub(crate) async fn verify_path(
    path: &Path,
    plan: &Plan,
    settings: &Settings,
) -> Result<(), CommandError> {
    let found = Image::at(path)?;
    let verification = verified(&found, plan, &settings.client, &settings.cache).await?;
    output::sanitised_result(&text(&verification, plan))?;
    verdict(&verification)
}

/// Reads from an image's labels what was asked for when it was built. If they lie, the comparison shows it.
fn request_of(found: &Image) -> Result<PendingRequest, CommandError> {
    let config: Value = serde_json::from_slice(&found.config).unwrap_or_default();
    let label = |key: &str| {
        config.pointer("/config/Labels").and_then(|all| all.get(key)).and_then(Value::as_str)
    };
    let Some(track) = label(labels::TRACK).and_then(Track::from_name) else {
        return Err(CommandError::new(
            ExitCode::Differs,
            format!(
                "`{}` carries no label `{}`: it was not built by build-pipeline",
                found.name,
                labels::TRACK
            ),
        )
        .hint("name an image that `build-pipeline --track …` made"));
    };
    let mut request = BuildRequest::new(track);
    request.rehearse = label(labels::REHEARSAL) == Some("true");
    request.variant = label(labels::VARIANT).map(str::to_owned);
    let overrides = label(labels::OVERRIDES).unwrap_or_default();
    request.read_overrides(overrides).map_err(|error| {
        CommandError::caused(
            ExitCode::Differs,
            format!(
                "label `{}` of `{}` was changed by another tool",
                labels::OVERRIDES,
                found.name
            ),
            &error,
        )
        .hint("build the image again")
    })?;
    if request.rehearse && !request.overrides.is_empty() {
        let what = format!("`{}` is a rehearsal, and its labels name other pins", found.name);
        return Err(CommandError::new(ExitCode::Differs, what).hint("build the image again"));
    }
    let of_image = Some(found.name.clone());
    let mut pending = PendingRequest { of_image, ..PendingRequest::new(request) };
    if let Some(commit) = label(labels::REVISION) {
        let commit = commit.parse().map_err(|error| {
            let label = labels::REVISION;
            let what = format!("label `{label}` of `{}` names no commit", found.name);
            CommandError::caused(ExitCode::Differs, what, &error).hint("build the image again")
        })?;
        let url = label(labels::SOURCE).map(str::to_owned);
        pending.revision = RevisionChoice::OfImage(Revision { url, commit });
    }
    Ok(pending)
}

/// Compares an image with what the plan gives over the base, or over nothing where the base cannot be had.
async fn verified(
    found: &Image,
    plan: &Plan,
    client: &RegistryClient,
    cache: &BlobCache,
) -> Result<Verification, CommandError> {
    let documents = found.documents();
    let not_json = |error: serde_json::Error| not_json(found, &error);
    let is_built = plan.is_built();
    let mut fetch = None;
    for step in plan.steps.iter().filter(|_| !is_built) {
        if let (Action::FetchBase { platform, .. }, Some(Input::Image { reference, manifest })) =
            (&step.action, plan.input_of(step))
        {
            fetch = Some(fetch_base(client, cache, reference, *manifest, platform).await);
        }
    }
    let checks = match fetch {
        None => {
            let why = "only `--rebuild` compares built layers, with those of another build";
            compare_with_plan(plan, documents, why).map_err(not_json)?
        }
        Some(Ok(base)) => {
            let expected = derive_image(plan, &base, plan.image_edit())
                .map_err(|error| CommandError::from(&error))?;
            let expected = Documents { manifest: &expected.manifest, config: &expected.config };
            compare(expected, documents).map_err(not_json)?
        }
        Some(Err(error)) => {
            let told = CommandError::from(&error);
            if told.code == ExitCode::Integrity {
                return Err(told);
            }
            compare_with_plan(plan, documents, &told.lines().join(": ")).map_err(not_json)?
        }
    };
    Ok(Verification {
        schema: SCHEMA,
        image: found.name.clone(),
        manifest_digest: found.manifest_digest.clone(),
        plan_digest: plan.digest(),
        outcome: match outcome(&checks) {
            Outcome::Incomplete if is_built => Outcome::AsPlanned,
            outcome => outcome,
        },
        checks,
        layers_checked: found.layers_checked(),
        layers_elsewhere: found.layers.len() - found.layers_checked(),
        rebuilds: Vec::new(),
    })
}

fn not_json(found: &Image, error: &serde_json::Error) -> CommandError {
    let what = format!("`{}` has a manifest or config that is not JSON", found.name);
    CommandError::caused(ExitCode::Differs, what, error)
}

/// Returns the verification for reading: every difference, and the fields that are right by number.
fn text(verification: &Verification, plan: &Plan) -> String {
    let mut out = Page::default();
    out.line(format_args!("{}  {}", verification.image, verification.manifest_digest));
    for (name, value) in &plan.overrides {
        out.line(format_args!("  made with {name} = {value}, not the data files' value"));
    }
    let same = verification.checks.iter().filter(|check| check.verdict == Verdict::Same).count();
    for FieldCheck { field, verdict } in &verification.checks {
        match verdict {
            Verdict::Same => {}
            Verdict::Differs { expected, found } => out
                .line(format_args!("  ✗ {field}\n      must be {expected}\n      is      {found}")),
            Verdict::Missing { expected } => {
                out.line(format_args!("  ✗ {field} is missing\n      must be {expected}"));
            }
            Verdict::Unexpected { found } => {
                out.line(format_args!("  ✗ {field} must not be there\n      is      {found}"));
            }
            Verdict::Unchecked { why } => {
                out.line(format_args!("  ? {field}: not compared, {why}"));
            }
        }
    }
    out.line(format_args!(
        "  ✓ {same} of {} fields are as plan {} gives them",
        verification.checks.len(),
        plan.digest().short()
    ));
    let (here, elsewhere) = (verification.layers_checked, verification.layers_elsewhere);
    if here > 0 {
        out.line(format_args!("  ✓ {here} layers have the bytes that the manifest names"));
    }
    if elsewhere > 0 {
        out.line(format_args!("  ✓ {elsewhere} layers lie at the base, named by digest"));
    }
    for rebuild in &verification.rebuilds {
        rebuild.show(&mut out);
    }
    let verdict = match verification.outcome {
        Outcome::Proven if !verification.rebuilds.is_empty() => {
            "proven: built again from nothing, it is the same image"
        }
        Outcome::Proven => "proven: the image is exactly what plan and pins give",
        Outcome::Differs => "differs: the image is not what plan and pins give",
        Outcome::OtherPins => {
            "out of date: the image says it was made from other pins than those of today"
        }
        Outcome::AsPlanned => {
            "as planned: nothing differs from what plan and pins say; `--rebuild` proves the layers too"
        }
        Outcome::Incomplete => "incomplete: nothing differs, but not all could be compared",
    };
    out.line(format_args!("{verdict}"));
    out.into_text()
}

/// Makes the exit code of an outcome.
fn verdict(verification: &Verification) -> Result<(), CommandError> {
    match verification.outcome {
        Outcome::Proven | Outcome::AsPlanned => Ok(()),
        Outcome::Differs => Err(CommandError::told(ExitCode::Differs)),
        Outcome::OtherPins => Err(CommandError::told(ExitCode::OutOfDate)),
        Outcome::Incomplete => Err(CommandError::told(ExitCode::Network)),
    }
}
