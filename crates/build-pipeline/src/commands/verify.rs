//! `build-pipeline verify`: compares an image with the plan and the pins, field by field. With
//! `--rebuild`, builds it again from scratch and compares every byte.

use std::path::Path;

use compare::{Source, Verification, request_of, slimmed};
use executor::{BlobCache, Materials, Settings, Store};
use failure::{Failure, Kind};
use plan::Plan;
use project::build_env::blob_cache;
use project::image::Image;
use project::outputs::nearby;
use project::prepare::Preparer;
use project::rehearsal::Rehearsal;
use project::{Project, environment};
use terminal::output;
use text::sanitise::sanitise_line;

use crate::cli::{Format, Global, StoreArgs, Verify};
use crate::global;
use crate::rebuild::rebuild;

/// Verifies the given image.
pub(crate) fn run(global: &Global, args: &Verify) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    if let Some(base) = &args.slimmed_from {
        let compared = slimmed::compare(&args.target, base, &folder, &client, &output::fetching);
        let comparison = project::runtime::start()?.block_on(compared)?;
        match args.format {
            Format::Json => output::large_json(&comparison)?,
            Format::Text => output::page(&slimmed::page(&comparison))?,
        }
        return if comparison.is_same { Ok(()) } else { Err(Failure::told(Kind::Differs)) };
    }
    let project = Project::find(&folder)?;
    project::runtime::start()?.block_on(async {
        let found = Image::find(&args.target, &folder, &client).await?;
        let mut preparer = Preparer::new(&project)?;
        let prepared = preparer.plan(request_of(&found)?)?;
        let (plan, materials) = (prepared.plan, preparer.into_materials());
        // The rehearsal's registry must run as long as something is read from it.
        let rehearsal = match prepared.stand_in {
            Some(stand_in) => Some(Rehearsal::start(&[stand_in]).await?),
            None => None,
        };
        let (client, cache) = match &rehearsal {
            Some(rehearsal) => (rehearsal.client.clone(), BlobCache::none()),
            None => (client, blob_cache()),
        };
        let store = Store::new(environment::store_folder()?);
        let source =
            Source { client: &client, cache: &cache, materials: &materials, store: &store };
        let mut verification = Verification::new(&found, &plan, &source).await?;
        let stores = StoreArgs { named: args.stores.clone(), ..StoreArgs::default() };
        let shared = global::shared_stores(global, &stores)?;
        let note = |rule: &str, message: String| output::warn(rule, &sanitise_line(&message));
        verification.compare_with(&shared, &plan, &found.layers, &note).await;
        if args.rebuild && verification.can_be_same() {
            // The tool builds the other images alone, so an engine proves nothing.
            let engines = if plan.is_built() { args.engine.as_slice() } else { &[None] };
            let places = nearby(&project.root.join("dist"), found.path());
            for engine in engines {
                let (client, places) = (&client, places.clone());
                let rebuilt = rebuild(global, &materials, &plan, client, places, *engine).await?;
                if !verification.add_rebuild(&found, &rebuilt.image, client).await? {
                    break;
                }
            }
        }
        verification.mark(&prepared.unconfirmed);
        match args.format {
            Format::Json => output::json(&verification)?,
            Format::Text => output::page(&verification.page(&plan))?,
        }
        let hints = verification.rebuild_hints(&found, &args.target, &plan);
        hints.iter().chain(&verification.change_hint(&plan)).for_each(|hint| output::hint(hint));
        verification.verdict()
    })
}

/// Verifies a layout or archive against a plan, and prints the result.
pub(crate) async fn verify_path(
    path: &Path,
    plan: &Plan,
    settings: &Settings,
    materials: &Materials,
) -> Result<(), Failure> {
    let found = Image::at(path)?;
    let store = Store::new(environment::store_folder()?);
    let (client, cache) = (&settings.client, &settings.cache);
    let source = Source { client, cache, materials, store: &store };
    let verification = Verification::new(&found, plan, &source).await?;
    output::page(&verification.page(plan))?;
    verification.verdict()
}
