//! What the commands about a machine need: the machine, and the data files it is judged by.
//!
//! `doctor`, `env` and `diagnose` are of use outside of a checkout too, where nobody has the data
//! files. There those that the program was built with take their place.

use std::path::{Path, PathBuf};

use host::failures::{Failures, parse_failures};
use host::{Caller, Snapshot};
use pins::{Compat, GpuTarget, Gpus, ParseError, Pins, Tracks};

use crate::cli::Global;
use crate::error::{CommandError, nearest};
use crate::exit_code::ExitCode;
use crate::project::Project;
use crate::{environment, working_folder};

/// A data file: its name, and its text when the program was built.
type DataFile = (&'static str, &'static str);

const VERSIONS: DataFile =
    ("versions/versions.toml", include_str!("../../../versions/versions.toml"));
const GPUS: DataFile = ("versions/gpus.toml", include_str!("../../../versions/gpus.toml"));
const TRACKS: DataFile = ("versions/tracks.toml", include_str!("../../../versions/tracks.toml"));
const COMPAT: DataFile = ("versions/compat.toml", include_str!("../../../versions/compat.toml"));
const FAILURES: DataFile =
    ("versions/failures.toml", include_str!("../../../versions/failures.toml"));

/// Where the data files are read from: a project, or the program itself.
#[derive(Debug)]
pub(crate) struct Data {
    project: Option<Project>,
}

impl Data {
    /// Finds the project that the program works in, if it does in one.
    pub(crate) fn find(global: &Global) -> Result<Self, CommandError> {
        Ok(Self { project: Project::find(&working_folder(global)?).ok() })
    }

    /// Reads `gpus.toml`.
    pub(crate) fn gpus(&self) -> Result<Gpus, CommandError> {
        self.parse(GPUS, pins::parse_gpus)
    }

    /// Reads `tracks.toml`.
    pub(crate) fn tracks(&self) -> Result<Tracks, CommandError> {
        self.parse(TRACKS, pins::parse_tracks)
    }

    /// Reads `versions.toml`.
    pub(crate) fn pins(&self) -> Result<Pins, CommandError> {
        self.parse(VERSIONS, pins::parse_versions)
    }

    /// Reads `compat.toml`.
    pub(crate) fn compat(&self) -> Result<Compat, CommandError> {
        self.parse(COMPAT, pins::parse_compat)
    }

    /// Reads `failures.toml`.
    pub(crate) fn failures(&self) -> Result<Failures, CommandError> {
        self.parse(FAILURES, parse_failures)
    }

    /// Parses a file of the project, or the built-in one where there is no project. A project whose
    /// file is missing or wrong is told so: it is never replaced in silence.
    fn parse<T>(
        &self,
        (name, built_in): DataFile,
        parse: impl FnOnce(&str, &str) -> Result<T, ParseError>,
    ) -> Result<T, CommandError> {
        match &self.project {
            Some(project) => project.parse(name, parse),
            None => parse(name, built_in)
                .map_err(|error| CommandError::from_chain(ExitCode::Bug, &error)),
        }
    }
}

/// Returns the root of the machine that is looked at.
pub(crate) fn root(global: &Global, host_root: Option<&Path>) -> Result<PathBuf, CommandError> {
    let Some(host_root) = host_root else { return Ok(PathBuf::from("/")) };
    let root = working_folder(global)?.join(host_root);
    match root.is_dir() {
        true => Ok(root),
        false => Err(CommandError::new(
            ExitCode::Input,
            format!("`--host-root {}` names no folder", host_root.display()),
        )
        .hint("name the folder that has the machine's `proc`, `sys` and `etc` in it")),
    }
}

/// Looks at the machine below `root`.
pub(crate) fn look(root: &Path) -> Snapshot {
    Snapshot::read(root, &Caller::this_process(environment::gpu_variables()))
}

/// Reads the name of a GPU target that `gpus.toml` knows.
pub(crate) fn known_gpu(text: &str, gpus: &Gpus) -> Result<GpuTarget, CommandError> {
    let target: GpuTarget = text.parse().map_err(|error| {
        CommandError::from_chain(ExitCode::Input, &error).hint("a target looks like `gfx1151`")
    })?;
    if gpus.gpus.contains_key(&target) {
        return Ok(target);
    }
    let names: Vec<&str> = gpus.gpus.keys().map(GpuTarget::as_str).collect();
    let told = CommandError::new(
        ExitCode::Input,
        format!("`versions/gpus.toml` does not know `{target}`"),
    );
    Err(match nearest(text, names.iter().copied()) {
        Some(near) => told.hint(format!("did you mean `{near}`?")),
        None => told.hint(format!("it knows {}", names.join(", "))),
    })
}
