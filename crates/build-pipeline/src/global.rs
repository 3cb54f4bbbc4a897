//! Applies the global options: the working directory, and the clients that fetch inputs.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use executor::{Settings, SharedStores};
use failure::{Failure, Kind};
use host::run::Network;
use launch::additions::Additions;
use launch::machine::Data;
use launch::prepare::Asked;
use names::Digest;
use oci::client::RegistryClient;
use plan::Plan;
use project::request::Subject;
use project::{Project, stores};
use record::Note;
use sources::{Event, Sources};

use crate::cli::{self, Given, Global, NetworkChoice, StoreArgs};
use terminal::downloads::Downloads;
use terminal::output;
use text::sanitise::sanitise_line;

/// Makes the folder of `-C` the current folder, so that all relative paths start there.
pub(crate) fn enter(directory: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = directory else { return Ok(()) };
    std::env::set_current_dir(folder).map_err(|error| {
        let what = format!("`-C {}` is not a folder that can be opened", folder.display());
        Failure::caused(Kind::Input, what, &error)
            .hint("specify the folder that contains `versions/`")
    })
}

/// Returns the current folder, which `-C` sets.
pub(crate) fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|error| Failure::caused(Kind::Machine, "cannot read the current folder", &error))
}

/// Returns the project that the program runs in.
pub(crate) fn project() -> Result<Project, Failure> {
    Project::find(&working_folder()?)
}

/// Returns `subject` with the tracks `names` before its own.
pub(crate) fn with_names(subject: &cli::Subject, names: &[String]) -> cli::Subject {
    let tracks = names.iter().chain(&subject.tracks).cloned().collect();
    cli::Subject { tracks, ..subject.clone() }
}

/// Returns the images that the arguments select.
pub(crate) fn subject(args: &cli::Subject) -> Subject {
    Subject {
        tracks: args.tracks.clone(),
        variant: args.variant.clone(),
        set: args.set.clone(),
        gpus: args.gpus.clone(),
        spoof: args.spoof.clone(),
        slim: args.slim.clone(),
        rehearse: args.rehearse,
        label_revision: args.label_revision,
    }
}

/// Returns the container settings that the options of `run` and `smoke` request.
pub(crate) fn container(given: &Given, work: Option<PathBuf>) -> Asked {
    Asked {
        image: given.image.clone(),
        gpu: given.gpu.clone(),
        engine: given.engine,
        models: given.models.clone(),
        has_gpu: !given.no_gpu,
        network: match given.network {
            NetworkChoice::Own => Network::Own,
            NetworkChoice::Host => Network::Host,
            NetworkChoice::None => Network::None,
        },
        host_root: given.host_root.clone(),
        work,
        additions: Additions::default(),
    }
}

/// Finds the data files to check a machine against.
pub(crate) fn data() -> Result<Data, Failure> {
    Ok(Data::find(&working_folder()?))
}

/// Returns the client for registries. It is the same for the whole run.
pub(crate) fn registry(global: &Global) -> Result<RegistryClient, Failure> {
    if let Some(client) = global.client.get() {
        return Ok(client.clone());
    }
    let client = project::registry::client(&global.mirror)?;
    Ok(global.client.get_or_init(|| client).clone())
}

/// Prints the registry client's warnings about mirrors.
pub(crate) fn warn_of_mirrors(global: &Global) {
    let warnings = global.client.get().map(RegistryClient::warnings).unwrap_or_default();
    warnings.iter().for_each(|warning| output::warn(warning.rule, &warning.message));
}

/// Opens the shared stores that the command line specifies.
pub(crate) fn shared_stores(global: &Global, args: &StoreArgs) -> Result<SharedStores, Failure> {
    let named = stores::parse(&args.named, &global.mirror)?;
    if named.is_empty() && args.store_verify.is_some() {
        let what = "`--store-verify` needs a store to compare with";
        return Err(Failure::new(Kind::Input, what).hint(
            "name one with `--store`, or in `store` of ~/.config/build-pipeline/config.toml",
        ));
    }
    let results = args.results.iter().map(|text| result(text)).collect::<Result<_, _>>()?;
    let shared = stores::open(registry(global)?, named)?;
    Ok(shared.verifying(args.store_verify.unwrap_or(0)).with_results(results))
}

/// Parses the `KEY=DIGEST` of `--result`.
fn result(text: &str) -> Result<(Digest, Digest), Failure> {
    let parsed = text.split_once('=').and_then(|(key, digest)| {
        Some((format!("sha256:{key}").parse().ok()?, digest.parse().ok()?))
    });
    parsed.ok_or_else(|| {
        let what = format!("`--result {text}` is not a key and a digest");
        Failure::new(Kind::Input, what)
            .hint("use `--result KEY=sha256:…` with all 64 digits of the key")
    })
}

/// Takes a plan's finished steps from shared stores. Prints and returns the warnings about stores.
pub(crate) async fn take_from_stores(plan: &Plan, settings: &Settings) -> Vec<Note> {
    let notes = Mutex::new(Vec::new());
    let note = |rule: &str, message: String| {
        output::warn(rule, &sanitise_line(&message));
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(Note { rule: rule.to_owned(), message });
    };
    executor::take_from_stores(plan, settings, &note).await;
    notes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the client for sources, which shows progress.
pub(crate) fn sources(global: &Global) -> Result<Sources, Failure> {
    project::fetch::sources(&global.mirror, listener(global))
}

/// Returns a listener that shows the progress of fetching sources.
pub(crate) fn listener(global: &Global) -> impl Fn(Event<'_>) + Send + Sync + 'static + use<> {
    let downloads = Downloads::new(global.progress);
    move |event| downloads.tell(event)
}
