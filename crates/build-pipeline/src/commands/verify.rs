//! `build-pipeline verify`: proves an image against plan and pins, field by field.

use std::path::{Path, PathBuf};

use executor::{BlobCache, Settings, derive_image, fetch_base};
use image_ref::{Digest, ImageRef};
use oci::LayoutImage;
use oci::client::RegistryClient;
use oci::media::{CONFIG_CAP, Document};
use pins::Track;
use plan::{Action, Plan, labels};
use planner::BuildRequest;
use record::verify::{
    Documents, FieldCheck, Outcome, Verdict, compare, compare_with_plan, outcome,
};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Format, Global, Verify};
use crate::error::{CommandError, registry_code, registry_hints};
use crate::exit_code::ExitCode;
use crate::output::Page;
use crate::project::Project;
use crate::rehearsal::Rehearsal;
use crate::{environment, output, registry, rehearsal};

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
}

/// An image whose manifest and config were read and have the digests they are named by.
struct Found {
    name: String,
    manifest_digest: Digest,
    manifest: bytes::Bytes,
    config: bytes::Bytes,
    layers_checked: usize,
    layers_elsewhere: usize,
}

/// Verifies what was named.
pub(crate) fn run(global: &Global, args: &Verify) -> Result<(), CommandError> {
    let project = Project::find(&crate::working_folder(global)?)?;
    let mut input = project.read(true)?;
    let client = registry::client(global)?;
    crate::runtime()?.block_on(async {
        let found = find(&args.target, &project, &client).await?;
        let request = request_of(&found)?;
        let (plan, verification) = if request.rehearse {
            let stand_in = rehearsal::stand_in(request.track, &mut input)?;
            let plan = planner::plan(&request, &input)?.plan;
            let rehearsal = Rehearsal::start(&[stand_in]).await?;
            let verification =
                verified(&found, &plan, &rehearsal.client, &BlobCache::none()).await?;
            (plan, verification)
        } else {
            let plan = planner::plan(&request, &input)?.plan;
            let cache = environment::cache_folder()
                .map_or_else(BlobCache::none, |f| BlobCache::new(f.join("blobs")));
            let verification = verified(&found, &plan, &client, &cache).await?;
            (plan, verification)
        };
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
    let found = from_path(path)?;
    let verification = verified(&found, plan, &settings.client, &settings.cache).await?;
    output::sanitised_result(&text(&verification, plan))?;
    verdict(&verification)
}

/// Reads the image that was named: a track's under `dist/`, a path, or a reference.
async fn find(
    target: &str,
    project: &Project,
    client: &RegistryClient,
) -> Result<Found, CommandError> {
    if let Some(track) = Track::from_name(target) {
        let path = project.root.join("dist").join(track.name());
        if path.exists() {
            return from_path(&path);
        }
        let rehearsed: PathBuf =
            project.root.join("dist").join(format!("rehearsal-{}", track.name()));
        let told = CommandError::new(
            ExitCode::Input,
            format!("there is no image of track `{target}` at `{}`", path.display()),
        );
        return Err(match rehearsed.exists() {
            true => told.hint(format!(
                "there is a rehearsed one: `build-pipeline verify {}`",
                rehearsed.display()
            )),
            false => told.hint(format!("`build-pipeline --track {target}` builds it")),
        });
    }
    let path = Path::new(target);
    if path.exists() {
        return from_path(path);
    }
    match target.parse::<ImageRef>() {
        Ok(reference) => from_registry(&reference, client).await,
        Err(error) => Err(CommandError::new(
            ExitCode::Input,
            format!("`{target}` is no track, no file and no image reference"),
        )
        .hint(format!("{error}"))
        .hint(
            "name a track, a folder such as `dist/locked-spoof`, an archive, or `HOST/NAME:TAG`",
        )),
    }
}

fn from_path(path: &Path) -> Result<Found, CommandError> {
    let image = LayoutImage::read(path).map_err(|error| {
        let code = match &error {
            oci::LayoutError::Integrity { .. } => ExitCode::Integrity,
            _ => ExitCode::Input,
        };
        let told = CommandError::from_chain(code, &error);
        match code {
            ExitCode::Integrity => told.hint(
                "the file was changed or damaged after it was written; remove it and build again",
            ),
            _ => told.hint("name an OCI image layout or an archive of one"),
        }
    })?;
    Ok(Found {
        name: path.display().to_string(),
        manifest_digest: image.manifest_digest,
        manifest: image.manifest,
        config: image.config,
        layers_checked: image.present_layers.len(),
        layers_elsewhere: image.absent_layers.len(),
    })
}

async fn from_registry(
    reference: &ImageRef,
    client: &RegistryClient,
) -> Result<Found, CommandError> {
    let failed = |error: oci::client::RegistryError| {
        let told = CommandError::caused(
            registry_code(error.kind()),
            format!("reading `{reference}` failed"),
            &error,
        );
        registry_hints(told, error.kind())
    };
    let unusable = |error: oci::media::MediaError| {
        CommandError::caused(
            ExitCode::Failed,
            format!("`{reference}` is not an image of ours"),
            &error,
        )
    };
    let manifest = client.manifest(reference).await.map_err(failed)?;
    let parsed =
        match Document::parse(&manifest.bytes, Some(&manifest.media_type)).map_err(unusable)? {
            Document::Manifest(parsed) => parsed,
            Document::Index(_) => {
                return Err(CommandError::new(
                    ExitCode::Differs,
                    format!("`{reference}` is an index, and build-pipeline makes single manifests"),
                )
                .hint("name the image that `build-pipeline --push` made"));
            }
        };
    let config = &parsed.config;
    let config = client
        .blob(&reference.repository, &config.digest, config.size, CONFIG_CAP)
        .await
        .map_err(failed)?;
    Ok(Found {
        name: reference.to_string(),
        manifest_digest: manifest.digest,
        manifest: manifest.bytes,
        config,
        layers_checked: 0,
        layers_elsewhere: parsed.layers.len(),
    })
}

/// Reads from an image's labels what was asked for when it was built. If they lie, the comparison shows it.
fn request_of(found: &Found) -> Result<BuildRequest, CommandError> {
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
    Ok(request)
}

/// Compares an image with what the plan gives over the base, or over nothing where the base cannot be had.
async fn verified(
    found: &Found,
    plan: &Plan,
    client: &RegistryClient,
    cache: &BlobCache,
) -> Result<Verification, CommandError> {
    let documents = Documents { manifest: &found.manifest, config: &found.config };
    let not_json = |e: serde_json::Error| {
        CommandError::caused(
            ExitCode::Differs,
            format!("`{}` has a manifest or config that is not JSON", found.name),
            &e,
        )
    };
    let mut fetch = None;
    for step in &plan.steps {
        if let Action::FetchBase { image, kind, platform } = &step.action {
            fetch = Some(fetch_base(client, cache, image, *kind, platform).await);
        }
    }
    let checks = match (fetch, plan.image_edit()) {
        (Some(Ok(base)), Some(edit)) => {
            let expected =
                derive_image(plan, &base, edit).map_err(|error| CommandError::from(&error))?;
            let expected = Documents { manifest: &expected.manifest, config: &expected.config };
            compare(expected, documents).map_err(not_json)?
        }
        (Some(Err(error)), _) => {
            let told = CommandError::from(&error);
            if told.code == ExitCode::Integrity {
                return Err(told);
            }
            compare_with_plan(plan, documents, &told.lines().join(": ")).map_err(not_json)?
        }
        _ => return Err(CommandError::new(ExitCode::Bug, "the plan derives no image")),
    };
    Ok(Verification {
        schema: SCHEMA,
        image: found.name.clone(),
        manifest_digest: found.manifest_digest.clone(),
        plan_digest: plan.digest(),
        outcome: outcome(&checks),
        checks,
        layers_checked: found.layers_checked,
        layers_elsewhere: found.layers_elsewhere,
    })
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
    let verdict = match verification.outcome {
        Outcome::Proven => "proven: the image is exactly what plan and pins give",
        Outcome::Differs => "differs: the image is not what plan and pins give",
        Outcome::OtherPins => {
            "out of date: the image says it was made from other pins than those of today"
        }
        Outcome::Incomplete => {
            "incomplete: nothing differs, but the base could not be had to compare the rest"
        }
    };
    out.line(format_args!("{verdict}"));
    out.into_text()
}

/// Makes the exit code of an outcome.
fn verdict(verification: &Verification) -> Result<(), CommandError> {
    match verification.outcome {
        Outcome::Proven => Ok(()),
        Outcome::Differs => Err(CommandError::told(ExitCode::Differs)),
        Outcome::OtherPins => Err(CommandError::told(ExitCode::OutOfDate)),
        Outcome::Incomplete => Err(CommandError::told(ExitCode::Network)),
    }
}
