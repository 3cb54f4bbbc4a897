//! Finds the project folder and reads what plans are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use names::Digest;
use names::GpuTarget;
use pins::ParseError;
use plan::PatchUse;
use planner::PlanningInput;

use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::patching::patches;
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

    /// Reads the data files and the commit they stand at; for tracks that an engine builds also
    /// patches, Dockerfiles and locks.
    pub(crate) fn read(&self, built: bool) -> Result<PlanningInput, CommandError> {
        let pins = self.pins()?;
        let gpus = self.parse(FILES[1], pins::parse_gpus)?;
        let tracks =
            self.parse(FILES[2], |file, text| pins::parse_tracks_with(file, text, &pins))?;
        let mut input = PlanningInput {
            pins,
            gpus,
            tracks,
            patches: BTreeMap::new(),
            files: BTreeMap::new(),
            recipe: None,
        };
        if !built {
            input.recipe = recipe::read(&self.root, (&["versions"], &FILES))?;
            return Ok(input);
        }
        let mut names: BTreeSet<String> = FILES.map(str::to_owned).into();
        for (component, patches) in patches::read_all(self)? {
            let set = patches::select(patches, &[])?;
            let mut uses = Vec::new();
            for patch in set.patches() {
                let name = format!("patches/{component}/{}.toml", patch.id);
                let digest = self.digest(&name)?;
                uses.extend(digest.map(|digest| PatchUse {
                    component: component.clone(),
                    id: patch.id.clone(),
                    digest,
                }));
                names.insert(name);
            }
            input.patches.insert(component, uses);
        }
        for name in files_of_tracks(&input.tracks) {
            if let Some(digest) = self.digest(&name)? {
                input.files.insert(name.clone(), digest);
                names.insert(name);
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let folders = ["dockerfiles", "patches", "versions"];
        input.recipe = recipe::read(&self.root, (&folders, &names))?;
        Ok(input)
    }

    /// Returns the SHA-256 of a file, where there is one.
    fn digest(&self, name: &str) -> Result<Option<Digest>, CommandError> {
        match fs::read(self.root.join(name)) {
            Ok(bytes) => Ok(Some(Digest::of(&bytes))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CommandError::caused(
                ExitCode::Input,
                format!("reading `{}` failed", self.root.join(name).display()),
                &error,
            )),
        }
    }

    /// Reads the pins alone.
    pub(crate) fn pins(&self) -> Result<pins::Pins, CommandError> {
        self.parse(FILES[0], pins::parse_versions)
    }

    /// Reads the GPU target that images are made for where none is asked for.
    pub(crate) fn default_gpu(&self) -> Result<GpuTarget, CommandError> {
        Ok(self.parse("versions/tracks.toml", pins::parse_tracks)?.gpu)
    }

    /// Reads what Python locks are made from, where the project has some.
    pub(crate) fn python_sets(&self) -> Result<pins::PythonSets, CommandError> {
        const NAME: &str = "versions/python.toml";
        if !self.root.join(NAME).exists() {
            return Ok(pins::PythonSets::new());
        }
        let pins = self.pins()?;
        self.parse(NAME, |file, text| pins::parse_python_with(file, text, &pins))
    }

    /// Reads what runs with what, where the project says so.
    pub(crate) fn compat(&self) -> Result<Option<pins::Compat>, CommandError> {
        const NAME: &str = "versions/compat.toml";
        match self.root.join(NAME).exists() {
            true => self.parse(NAME, pins::parse_compat).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn parse<T>(
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

/// Returns the Dockerfiles and locks that the tracks name.
fn files_of_tracks(tracks: &pins::Tracks) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for variant in tracks.built.values().flat_map(|settings| settings.variants.values()) {
        names.extend(variant.stages.iter().map(|stage| stage.dockerfile.clone()));
        let locks = variant.stages.iter().filter_map(|stage| stage.python.as_deref());
        names.extend(locks.map(pins::python_lock_path));
        if let pins::VariantBase::Packages(lock) = &variant.base {
            names.insert(format!("versions/locks/{lock}.toml"));
        }
    }
    names
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
