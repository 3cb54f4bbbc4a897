//! Finds the project folder and reads what plans are made from.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pins::{GpuTarget, ParseError};
use planner::PlanningInput;

use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::recipe;

/// The data files: pins, GPU targets, tracks.
const FILES: [&str; 3] = ["versions/versions.toml", "versions/gpus.toml", "versions/tracks.toml"];

/// The data files' largest size in bytes; they are edited by hand.
const DATA_FILE_CAP: u64 = 1 << 20;

/// A folder with `versions/versions.toml` in it.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
}

impl Project {
    /// Finds the project that `start` lies in: the nearest folder upwards with `versions/versions.toml`.
    pub(crate) fn find(start: &Path) -> Result<Self, CommandError> {
        let is_project = |folder: &&Path| folder.join("versions/versions.toml").is_file();
        match start.ancestors().find(is_project) {
            Some(root) => Ok(Self { root: root.to_owned() }),
            None => Err(CommandError::new(
                ExitCode::Input,
                format!(
                    "neither `{}` nor a folder above it has `versions/versions.toml`",
                    start.display()
                ),
            )
            .hint("go to a checkout of build-pipeline, or name one with `-C DIR`")),
        }
    }

    /// Reads the data files and the commit they stand at.
    pub(crate) fn read(&self) -> Result<PlanningInput, CommandError> {
        let pins = self.parse(FILES[0], pins::parse_versions)?;
        let gpus = self.parse(FILES[1], pins::parse_gpus)?;
        let tracks =
            self.parse(FILES[2], |file, text| pins::parse_tracks_with(file, text, &pins))?;
        let recipe = recipe::read(&self.root, &FILES)?;
        Ok(PlanningInput { pins, gpus, tracks, recipe })
    }

    /// Reads the GPU target that images are made for where none is asked for.
    pub(crate) fn default_gpu(&self) -> Result<GpuTarget, CommandError> {
        Ok(self.parse("versions/tracks.toml", pins::parse_tracks)?.gpu)
    }

    /// Reads what runs with what, where the project says so.
    pub(crate) fn compat(&self) -> Result<Option<pins::Compat>, CommandError> {
        const NAME: &str = "versions/compat.toml";
        match self.root.join(NAME).exists() {
            true => self.parse(NAME, pins::parse_compat).map(Some),
            false => Ok(None),
        }
    }

    fn parse<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str, &str) -> Result<T, ParseError>,
    ) -> Result<T, CommandError> {
        let path = self.root.join(name);
        let text = read_text(&path).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let told = CommandError::caused(
                ExitCode::Input,
                format!("reading `{}` failed", path.display()),
                &error,
            );
            match missing {
                true => told.hint(format!("`git checkout -- {name}` brings the file back")),
                false => told,
            }
        })?;
        parse(name, &text).map_err(|error| CommandError::places(error, text))
    }
}

/// Reads the text of a data file.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind};
    let file = fs::File::open(path)?;
    let mut bytes = Vec::with_capacity(
        usize::try_from(file.metadata()?.len().min(DATA_FILE_CAP)).unwrap_or(0) + 1,
    );
    file.take(DATA_FILE_CAP + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DATA_FILE_CAP {
        return Err(Error::new(ErrorKind::FileTooLarge, "the file has more than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}
