//! Rebuilds an image from scratch, without touching the existing one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use executor::{
    BlobCache, End, Execution, Executor, Job, Materials, Output, Settings, needs_engine,
};
use failure::{Failure, Kind};
use launch::engines;
use oci::client::RegistryClient;
use plan::Plan;
use project::build_env::{self, BuildOptions};
use project::image::Image;
use project::{environment, stores};
use tempfile::TempDir;

use crate::cli::{AskedEngine, Global};
use crate::global;
use crate::signals::{Signals, interrupted};
use terminal::output;
use terminal::reporter::Reporter;

/// A rebuilt image. Its files are deleted on drop.
pub(crate) struct Rebuilt {
    pub(crate) image: Image,
    _folder: TempDir,
}

/// Runs every step of a plan with an engine, into a folder that the result owns. Only sources,
/// packages and the layers of bases may come from this machine, because they are identified by
/// hash. The layers are searched in `nearby`, which contains layouts and archives.
pub(crate) async fn rebuild(
    global: &Global,
    materials: &Arc<Materials>,
    plan: &Arc<Plan>,
    client: &RegistryClient,
    nearby: Vec<PathBuf>,
    asked: AskedEngine,
) -> Result<Rebuilt, Failure> {
    let folder = folder()?;
    let layout = folder.path().join("image");
    let store = folder.path().join("store");
    let options = BuildOptions {
        is_fresh: true,
        keeps_failed: false,
        store: store.clone(),
        // A rebuild proves nothing if it uses results that others have built.
        shared: stores::open(client.clone(), Vec::new())?,
        old_packages: global.mirror.old_packages(),
    };
    let build_env = if plan.makes_layers() {
        Some(Arc::new(build_env::open(global::sources(global)?, Arc::clone(materials), options)?))
    } else {
        None
    };
    let settings = Settings {
        nearby,
        client: client.clone(),
        // The engine and the seal read a layer, but it is downloaded only once.
        cache: BlobCache::new(folder.path().join("cache")),
        verified: oci::Verified::none(),
        outputs: vec![Output::Layout {
            path: layout.clone(),
            with_layers: plan.needs_all_layers(),
        }],
        last_step: None,
        build_env,
    };
    let rebuilt = carry_out(global, plan, settings, asked, &store).await;
    rebuilt.map_err(|error| match error.kind {
        Kind::Interrupted | Kind::Terminated => {
            let hint = "rerun the same command; it uses cached downloads, and runs all steps again";
            Failure { hints: vec![hint.to_owned()], ..error }
        }
        _ => error,
    })?;
    let with = asked.map(|kind| format!(" with {kind}")).unwrap_or_default();
    let mut image = Image::at(&layout)?;
    image.name = format!("image rebuilt{with}");
    Ok(Rebuilt { image, _folder: folder })
}

/// Runs a plan without writing a record. Finds an engine if the plan needs one, and stops the run
/// when a signal arrives.
pub(crate) async fn carry_out(
    global: &Global,
    plan: &Arc<Plan>,
    settings: Settings,
    asked: AskedEngine,
    store: &Path,
) -> Result<Execution, Failure> {
    global.mirror.check_network(plan, &settings)?;
    let mut signals = Signals::listen();
    let reporter = Arc::new(Reporter::new(global.progress));
    let found = if needs_engine(plan, &settings) {
        reporter.test_engine(asked);
        let mut finding = Box::pin(engines::find(asked, store, &output::notice));
        tokio::select! {
            found = &mut finding => Some(found?),
            code = signals.next() => {
                signals.let_end(finding).await;
                return Err(interrupted(code));
            }
        }
    } else {
        None
    };
    let on_event = reporter.for_plan(plan, false);
    let job = Job { plan: Arc::clone(plan), settings, on_event };
    let mut came = None;
    let interrupt = async { came = Some(signals.next().await) };
    let executor = Executor::new(found.map(|found| found.engine));
    let execution = executor.execute(job, interrupt).await;
    executor.close().await;
    match (&execution.end, came) {
        (End::Succeeded, _) => Ok(execution),
        (End::Failed(error), _) => Err((&**error).into()),
        (_, Some(code)) => Err(interrupted(code)),
        _ => Err(Failure::new(Kind::Bug, "internal error: the build task stopped unexpectedly")),
    }
}

/// Creates a temporary folder beside the finished steps, where there is space for the files of
/// engines.
fn folder() -> Result<TempDir, Failure> {
    let work: PathBuf = environment::store_folder()?.join("work");
    let made = std::fs::create_dir_all(&work)
        .and_then(|()| tempfile::Builder::new().prefix("rebuild-").tempdir_in(&work));
    made.map_err(|error| {
        let what = format!("writing into `{}` failed", work.display());
        Failure::caused(Kind::Machine, what, &error)
    })
}
