//! Finds the project folder and reads its files, each once.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use failure::{Failure, Kind};
use names::GpuTarget;
use pins::ParseError;
use planner::PlanningInput;

/// The data files that every plan uses: pins, GPU targets, tracks.
pub const DATA_FILES: [&str; 3] =
    ["versions/versions.toml", "versions/gpus.toml", "versions/tracks.toml"];

/// The maximum size of a data file in bytes; people edit these files.
const DATA_FILE_CAP: u64 = 1 << 20;

/// The maximum size of a lock or Dockerfile in bytes. Locks of many wheels are long.
const MATERIAL_CAP: u64 = 16 << 20;

/// A folder that contains `versions/versions.toml`.
#[derive(Debug, Clone)]
pub struct Project {
    /// The folder.
    pub root: PathBuf,
    /// The texts of the files that were read. Each file is read once.
    texts: Arc<Mutex<BTreeMap<String, Arc<str>>>>,
}

impl Project {
    /// Finds the project that contains `start`: the nearest parent folder with
    /// `versions/versions.toml`.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn find(start: &Path) -> Result<Self, Failure> {
        let is_project = |folder: &&Path| folder.join("versions/versions.toml").is_file();
        match start.ancestors().find(is_project) {
            Some(root) => Ok(Self { root: root.to_owned(), texts: Arc::default() }),
            None => Err(Failure::new(
                Kind::Input,
                format!(
                    "no project found: no `versions/versions.toml` in `{}` or any parent folder",
                    start.display()
                ),
            )
            .hint("go to a checkout of build-pipeline, or name one with `-C DIR`")),
        }
    }

    /// Reads the data files. Patches, Dockerfiles and locks are read for each plan that needs them.
    ///
    /// # Errors
    /// A file cannot be read, or something in it is wrong.
    pub fn data(&self) -> Result<PlanningInput, Failure> {
        let [_, gpus, tracks] = DATA_FILES;
        let pins = self.pins()?;
        let gpus = self.parse(gpus, pins::parse_gpus)?;
        let tracks = self.parse(tracks, |file, text| pins::parse_tracks_with(file, text, &pins))?;
        let (patches, files) = (BTreeMap::new(), BTreeMap::new());
        Ok(PlanningInput { pins, gpus, tracks, patches, files, sets: BTreeMap::new() })
    }

    /// Returns the text of a file, given its path from the project's root. Reads each file once.
    ///
    /// # Errors
    /// The file cannot be read, is too large or is not UTF-8.
    pub fn text(&self, name: &str) -> std::io::Result<Arc<str>> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(name) {
            return Ok(Arc::clone(text));
        }
        let is_data = Path::new(name).parent() == Some(Path::new("versions"));
        let cap = if is_data { DATA_FILE_CAP } else { MATERIAL_CAP };
        let text: Arc<str> = read_capped(&self.root.join(name), cap)?.into();
        texts.insert(name.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// Returns the text of a file like [`Project::text`], with a hint on how to restore a missing
    /// file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn told_text(&self, name: &str) -> Result<Arc<str>, Failure> {
        let path = || self.root.join(name).display().to_string();
        self.text(name).map_err(|error| unreadable(&path(), name, &error))
    }

    /// Reads only the pins.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn pins(&self) -> Result<pins::Pins, Failure> {
        self.parse(DATA_FILES[0], pins::parse_versions)
    }

    /// Reads the default GPU target of images.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn default_gpu(&self) -> Result<GpuTarget, Failure> {
        Ok(self.parse("versions/tracks.toml", pins::parse_tracks)?.gpu)
    }

    /// Reads the requirements of Python locks, if the project has any.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn python_sets(&self) -> Result<pins::PythonSets, Failure> {
        const NAME: &str = "versions/python.toml";
        if !self.root.join(NAME).exists() {
            return Ok(pins::PythonSets::new());
        }
        let pins = self.pins()?;
        self.parse(NAME, |file, text| pins::parse_python_with(file, text, &pins))
    }

    /// Reads the compatibility table, if the project has one.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn compat(&self) -> Result<Option<pins::Compat>, Failure> {
        const NAME: &str = "versions/compat.toml";
        if !self.root.join(NAME).exists() {
            return Ok(None);
        }
        self.parse(NAME, pins::parse_compat).map(Some)
    }

    /// Reads and parses a file.
    ///
    /// # Errors
    /// The file cannot be read, or `parse` refuses its text.
    pub fn parse<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str, &str) -> Result<T, ParseError>,
    ) -> Result<T, Failure> {
        let text = self.told_text(name)?;
        parse(name, &text).map_err(|error| Failure::places(error, text.to_string()))
    }
}

/// Reads the text of a data file outside a project.
///
/// # Errors
/// The file cannot be read, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    read_capped(path, DATA_FILE_CAP)
}

/// Reads the bytes of a small file, whatever its encoding.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    read_bytes_capped(path, DATA_FILE_CAP)
}

/// Creates the error for a project file that cannot be read. `name` is its path from the root.
pub fn unreadable(shown: &str, name: &str, error: &std::io::Error) -> Failure {
    let told = Failure::caused(Kind::Input, format!("reading `{shown}` failed"), error);
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            told.hint("check the permissions of the file and its parent folders")
        }
        _ => told.hint(format!("`git checkout -- {name}` restores the file")),
    }
}

fn read_bytes_capped(path: &Path, cap: u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind};
    // Reading a FIFO would block.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = fs::File::open(path)?;
    let mut bytes =
        Vec::with_capacity(usize::try_from(file.metadata()?.len().min(cap)).unwrap_or(0) + 1);
    file.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        let message = format!("the file is larger than {} MiB", cap >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn read_capped(path: &Path, cap: u64) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind};
    String::from_utf8(read_bytes_capped(path, cap)?).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}
