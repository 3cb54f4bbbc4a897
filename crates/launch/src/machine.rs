//! The machine to check, and the data files it is checked against.
//!
//! `doctor`, `env` and `diagnose` are also useful outside a project. There, they use the built-in
//! data files.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use engine::{Engine, EngineError};
use failure::{Failure, Kind};
use host::failures::{Failures, parse_failures_over};
use host::run::{Rows, parse_rows};
use host::{Caller, Disk, Gpu, Snapshot};
use names::{EngineKind, GpuTarget, TrackName};
use pins::{Compat, Gpus, Pins, Setting, Tracks, When};
use project::{Project, environment, state};

use crate::engines;
use crate::notice::Notice;
use crate::products;

/// Where data files are read from: a project, or the program itself.
#[derive(Debug)]
pub struct Data {
    project: Project,
}

impl Data {
    /// Finds the project that contains the folder `here`, if there is one.
    pub fn find(here: &Path) -> Self {
        Self { project: Project::find_or_built_in(here) }
    }

    /// Returns the folder of the project, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.project.folder()
    }

    /// Returns the root of the project, or the current folder if there is no project.
    pub fn root(&self) -> &Path {
        &self.project.root
    }

    /// Returns the host folder that is the home directory in a track's containers. A built-in track
    /// has the same folder in all projects, because its image is the same.
    ///
    /// # Errors
    /// A data file cannot be read, or something in it is wrong.
    pub fn home_of(&self, track: &TrackName) -> Result<String, Failure> {
        let homes = format!("{}/home", environment::shown_cache_folder());
        let project = self.folder().map(state::short_name_of);
        Ok(match project {
            Some(project) if !self.project.is_of_program(track)? => {
                format!("{homes}/{project}/{track}")
            }
            _ => format!("{homes}/{track}"),
        })
    }

    /// Reads `gpus.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn gpus(&self) -> Result<Gpus, Failure> {
        self.project.gpus()
    }

    /// Reads `tracks.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn tracks(&self) -> Result<Tracks, Failure> {
        self.project.tracks()
    }

    /// Reads `versions.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn pins(&self) -> Result<Pins, Failure> {
        self.project.pins()
    }

    /// Returns the names of the components that have patches.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn patched(&self) -> Result<Vec<String>, Failure> {
        project::patches::components(&self.project)
    }

    /// Reads `compat.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn compat(&self) -> Result<Compat, Failure> {
        match self.project.compat()? {
            Some(compat) => Ok(compat),
            // This reports that the file is missing.
            None => self.project.parse("versions/compat.toml", pins::parse_compat),
        }
    }

    /// Reads `failures.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn failures(&self) -> Result<Failures, Failure> {
        const FILE: &str = "versions/failures.toml";
        let lower = self.project.extended_text(FILE).map(|text| (FILE, text));
        self.project.parse(FILE, |file, text| parse_failures_over(file, text, lower))
    }

    /// Reads `run.toml`.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn run(&self) -> Result<Rows, Failure> {
        let tracks = self.tracks()?;
        let parse = |file: &str, text: &str| parse_rows(file, text, &tracks);
        const FILE: &str = "versions/run.toml";
        let replaced = self.project.own_tracks()?;
        // A built-in row applies only to the built-in track.
        let without_replaced = |mut rows: Rows| {
            rows.retain(|track, _| !replaced.contains(track));
            rows
        };
        let rows = self.project.layered(FILE, parse, |own, all| {
            let mut all = without_replaced(all);
            all.extend(own);
            all
        })?;
        Ok(if self.project.has_own(FILE) { rows } else { without_replaced(rows) })
    }

    /// Returns the names of the programs in the images of the tracks.
    ///
    /// # Errors
    /// A data file cannot be read, or something in it is wrong.
    pub fn programs(&self) -> Result<Vec<String>, Failure> {
        let all: BTreeSet<String> =
            self.run()?.into_values().filter_map(|row| row.program).collect();
        Ok(all.into_iter().collect())
    }

    /// Reads a `smoke` script.
    ///
    /// # Errors
    /// There is no such script, or it cannot be read.
    pub fn script(&self, name: &str) -> Result<String, Failure> {
        let name = format!("versions/smoke/{name}");
        let text = self.project.text(&name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::caused(
                Kind::Input,
                format!("reading `{name}` failed"),
                &error,
            )
            .hint(
                "versions/run.toml names this script; create it, or specify another script there",
            ),
            _ => self.project.unreadable(&name, &error),
        })?;
        Ok(text.to_string())
    }
}

/// Returns the root of the machine to check: `/`, or `host_root`, which is relative to `here`.
///
/// # Errors
/// It is not a folder.
pub fn root(here: &Path, host_root: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(host_root) = host_root else { return Ok(PathBuf::from("/")) };
    let root = here.join(host_root);
    if root.is_dir() {
        Ok(root)
    } else {
        Err(Failure::new(
            Kind::Input,
            format!("`--host-root {}` is not a folder", host_root.display()),
        )
        .hint("specify the folder that contains the machine's `proc`, `sys` and `etc`"))
    }
}

/// Reads the state of the machine below `root`.
pub(crate) fn look(root: &Path) -> Snapshot {
    Snapshot::read(root, &Caller::this_process(environment::gpu_variables()))
}

/// Asks the engines of this machine for facts that no file contains: version, runtime, builder, and
/// whether they are rootless. Records why an engine does not answer. Adds engines at sockets that
/// variables specify, and marks the engine that builds use.
///
/// # Errors
/// Threads cannot be started, or there is no home directory.
pub(crate) fn ask_engines(machine: &mut Snapshot) -> Result<(), Failure> {
    // podman would create a store if there is none, but this check must not change anything.
    let has_store = machine.disks.iter().any(|disk| disk.path.ends_with("/containers/storage"));
    let runtime = project::runtime::start()?;
    machine.engines.extend(runtime.block_on(engines::others(&machine.engines))?);
    machine.engines.iter_mut().for_each(connect);
    machine.engines.extend(without_socket(machine));
    let asked: Vec<host::Engine> = runtime.block_on(async {
        let asked = machine.engines.iter().map(|engine| async {
            if !engine.is_usable() || (engine.socket.is_none() && !has_store) {
                return engine.clone();
            }
            let asked = tokio::time::timeout(engines::PATIENCE, facts(engine, machine)).await;
            let trouble = match asked {
                Ok(Ok(Some(asked))) => return asked,
                Ok(Err(error)) => Some(chain(&error)),
                // A service that this program starts may need more time.
                Ok(Ok(None)) | Err(_) if engine.socket.is_none() => None,
                Ok(Ok(None)) | Err(_) => {
                    Some(format!("no answer within {} s", engines::PATIENCE.as_secs()))
                }
            };
            host::Engine { trouble, ..engine.clone() }
        });
        futures_util::future::join_all(asked).await
    });
    machine.engines = asked;
    engines::select(machine)?;
    let is_read = |store: &str| machine.disks.iter().any(|disk| disk.path == store);
    let stores = machine.engines.iter().filter_map(|engine| engine.store.as_deref());
    let others: Vec<Disk> = stores.filter(|store| !is_read(store)).filter_map(Disk::of).collect();
    machine.disks.extend(others);
    Ok(())
}

/// Tries to connect to the socket of an engine, and records the result.
fn connect(engine: &mut host::Engine) {
    let Some(socket) = engine.socket.as_ref().filter(|_| engine.may_connect != Some(false)) else {
        return;
    };
    match std::os::unix::net::UnixStream::connect(socket) {
        Ok(_) => engine.may_connect = Some(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            engine.may_connect = Some(false);
        }
        Err(error) => engine.trouble = Some(error.to_string()),
    }
}

/// Returns the user's own podman without its socket, if nothing answers there. Builds start a
/// service of their own.
fn without_socket(machine: &Snapshot) -> Option<host::Engine> {
    environment::engines().podman_program?;
    let is_own = |one: &&host::Engine| {
        one.kind == EngineKind::Podman && one.is_rootless == (machine.user.uid != 0)
    };
    let mut own = machine.engines.iter().filter(is_own);
    let first = own.clone().next()?;
    own.all(|one| !one.is_usable()).then(|| host::Engine {
        socket: None,
        may_connect: None,
        trouble: None,
        ..first.clone()
    })
}

async fn facts(
    engine: &host::Engine,
    machine: &Snapshot,
) -> Result<Option<host::Engine>, EngineError> {
    let asked = match &engine.socket {
        Some(path) => Engine::at(engine.kind, path.into(), None),
        None => match engines::private_podman() {
            Ok(Some(podman)) => podman,
            _ => return Ok(None),
        },
    };
    let mut facts = engines::facts(&asked, engine.socket.clone(), machine).await;
    if let Ok(found) = &mut facts
        && found.kind == EngineKind::Podman
        && found.is_rootless
    {
        // This takes half a second. Without the answer, files show the IDs.
        found.user_ids = asked.info().await.ok().and_then(|info| info.user_ids);
    }
    asked.stop().await;
    facts.map(Some)
}

/// Returns the message of an error, and those of its sources.
pub(crate) fn chain(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Returns the GPU target and its origin: `asked`, else the target of a GPU in `found`, else the
/// default GPU target. Among the GPUs in `found`, prefers the one that images are built for,
/// then one that is not integrated into the CPU. `tell` receives notices about an unusual choice.
///
/// # Errors
/// The requested target is unknown, or a data file is wrong.
pub fn choose_gpu(
    asked: Option<&str>,
    gpus: &Gpus,
    found: &[Gpu],
    data: &Data,
    tell: &dyn Fn(Notice),
) -> Result<(GpuTarget, String), Failure> {
    if let Some(text) = asked {
        return Ok((products::known(text, gpus)?, "--gpu".to_owned()));
    }
    let is_integrated =
        |target: &GpuTarget| gpus.gpus.get(target).is_some_and(|gpu| gpu.is_integrated);
    let targets = || found.iter().filter_map(|gpu| Some((gpu.target.clone()?, gpu.node.clone()?)));
    let default = data.tracks()?.gpu;
    let own = targets()
        .find(|(target, _)| *target == default)
        .or_else(|| targets().find(|(target, _)| !is_integrated(target)))
        .or_else(|| targets().next());
    let Some((target, node)) = own else {
        tell(Notice::Hint(format!(
            "no AMD GPU was found; using {default}, the default GPU target; `--gpu` selects another, and is needed in WSL2, which does not show the GPU"
        )));
        return Ok((default, "versions/tracks.toml".to_owned()));
    };
    if !gpus.gpus.contains_key(&target) {
        tell(Notice::warning(
            "gpu-wanted",
            format!(
                "`versions/gpus.toml` does not contain {target}; only settings for all GPUs are used"
            ),
        ));
    }
    Ok((target, format!("/{node}")))
}

/// Returns the variable that hides the other GPUs, if there are any.
pub(crate) fn visible(gpu: &GpuTarget, found: &[Gpu]) -> Option<Setting> {
    let targets: Vec<&GpuTarget> = found.iter().filter_map(|one| one.target.as_ref()).collect();
    let own: Vec<String> = targets
        .iter()
        .enumerate()
        .filter(|(_, target)| **target == gpu)
        .map(|(index, _)| index.to_string())
        .collect();
    (!own.is_empty() && own.len() < targets.len()).then(|| Setting {
        name: "ROCR_VISIBLE_DEVICES".to_owned(),
        value: own.join(","),
        when: When::Run,
        programs: Vec::new(),
        why: "hides the other GPUs, which programs would otherwise use too".to_owned(),
        evidence: "ROCm's documentation of ROCR_VISIBLE_DEVICES".to_owned(),
    })
}

/// Parses the name of a GPU target that `gpus.toml` contains.
///
/// # Errors
/// It is not the name of a target, or the file does not contain it.
pub(crate) fn known_gpu(text: &str, gpus: &Gpus) -> Result<GpuTarget, Failure> {
    let target = failure::gpu_target(text)?;
    if gpus.gpus.contains_key(&target) {
        Ok(target)
    } else {
        Err(failure::unknown_gpu(target.as_str(), gpus.gpus.keys().map(GpuTarget::as_str)))
    }
}
