//! Makes the workshop that built tracks are carried out in: the store, and where to fetch from.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use engine::RunId;
use executor::{Lookup, Materials, Store, Tools, Workshop};

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::{environment, fetch};

/// How steps are carried out.
#[derive(Debug)]
pub(crate) struct Way {
    /// Whether finished steps are carried out again.
    pub(crate) is_fresh: bool,
    /// Whether what there was before a RUN that failed is left in the engine.
    pub(crate) keeps_failed: bool,
    /// The folder of finished steps.
    pub(crate) store: PathBuf,
}

/// Makes the workshop. Nothing is looked for yet.
pub(crate) fn open(
    global: &Global,
    materials: Arc<Materials>,
    way: Way,
) -> Result<Workshop, CommandError> {
    let Way { is_fresh, keeps_failed, store } = way;
    let number = std::process::id();
    let run = RunId::parse(&format!("run-{number}"))
        .ok_or_else(|| CommandError::new(ExitCode::Bug, "the name of the run is not valid"))?;
    let path = environment::program_path();
    Ok(Workshop {
        index: Lookup::new(|| fetch::python_index().ok()?.parse().ok()),
        mirrors: Lookup::new(|| debian::Mirrors::from_apt(&environment::apt_folder())),
        run,
        sources: fetch::sources(global)?,
        programs: debian::Programs { path: path.clone(), variables: BTreeMap::new() },
        tools: Tools::new(&path),
        materials,
        store: Store::new(store),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        is_fresh,
        keeps_failed,
        names: tokio::sync::Mutex::default(),
    })
}
