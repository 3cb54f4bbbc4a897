//! Finds the project folder and reads its files, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use failure::{Failure, Kind, Message};
use gpu_code::CodeTarget;
use names::{GpuTarget, TrackName};
use pins::{ParseError, References, Tracks};
use planner::PlanningInput;

use crate::inside::{self, Outside};
use crate::{built_in, own_files, owner, recipe};

pub(crate) const VERSIONS: &str = "versions/versions.toml";
pub(crate) const TRACKS: &str = "versions/tracks.toml";

/// The data files that every plan uses: pins, GPU targets, tracks.
pub const DATA_FILES: [&str; 3] = [VERSIONS, "versions/gpus.toml", TRACKS];

/// The maximum size of a data file in bytes; people edit these files.
const DATA_FILE_CAP: u64 = 4 << 20;

/// The maximum size of any other file, such as a Dockerfile, in bytes. Locks of many wheels are
/// long.
const MATERIAL_CAP: u64 = 16 << 20;

/// A folder that contains `versions/versions.toml`, or only the built-in data.
#[derive(Debug, Clone)]
pub struct Project {
    /// The folder.
    pub root: PathBuf,
    /// Whether the folder has data files.
    has_files: bool,
    /// The texts of the files that were read. Each file is read once.
    texts: Arc<Mutex<BTreeMap<String, Arc<str>>>>,
    /// Whether the built-in data files are defaults, once that is known.
    has_built_in: Arc<OnceLock<bool>>,
}

impl Project {
    /// Finds the project that contains `start`: the nearest folder with `versions/versions.toml`
    /// among `start` and its parents.
    ///
    /// A project in a parent folder must belong to the user: in `/tmp`, for example, anyone can
    /// create `versions/versions.toml`. git checks its repositories in a similar way (`safe.directory`).
    ///
    /// # Errors
    /// There is no such folder, or a project in a parent folder belongs to another user.
    pub fn find(start: &Path) -> Result<Self, Failure> {
        // Without this, the folder before a `..` would count as a parent.
        let full = start
            .canonicalize()
            .ok()
            .filter(|_| start.components().any(|c| c == Component::ParentDir));
        let start = full.as_deref().unwrap_or(start);
        // A file that cannot be used is an error of that project, not a reason to use another one.
        let is_project = |folder: &&Path| match fs::symlink_metadata(folder.join(VERSIONS)) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
        };
        match start.ancestors().find(is_project) {
            Some(root) if root != start => match owner::stranger(root) {
                Some(path) => Err(owner::refusal(root, &path)),
                None => Ok(Self::at(root, true)),
            },
            Some(root) => Ok(Self::at(root, true)),
            None => Err(Failure::new(
                Kind::Input,
                format!(
                    "no project found: no `{VERSIONS}` in `{}` or any parent folder",
                    start.display()
                ),
            )
            .hint("`build-pipeline init` makes this folder a project; `-C DIR` selects another folder")),
        }
    }

    /// Finds the project that contains `start` like [`Project::find`]. If there is none that can be
    /// used, returns one that consists of the built-in data.
    pub fn find_or_built_in(start: &Path) -> Self {
        Self::find(start).unwrap_or_else(|_| Self::at(start, false))
    }

    fn at(root: &Path, has_files: bool) -> Self {
        let (texts, has_built_in) = (Arc::default(), Arc::default());
        Self { root: root.to_owned(), has_files, texts, has_built_in }
    }

    /// Returns the folder, unless the project is only the built-in data.
    pub fn folder(&self) -> Option<&Path> {
        self.has_files.then_some(&*self.root)
    }

    /// Reads the data files. Patches, Dockerfiles and locks are read for each plan that needs them.
    ///
    /// # Errors
    /// A file cannot be read, or something in it is wrong.
    pub fn data(&self) -> Result<PlanningInput, Failure> {
        let (pins, gpus) = (self.pins(), self.gpus());
        let tracks = self.tracks_with(pins.as_ref().ok());
        match (pins, gpus, tracks) {
            (Ok(pins), Ok(gpus), Ok(tracks)) => Ok(PlanningInput::new(pins, gpus, tracks)),
            (pins, gpus, tracks) => Err(all([pins.err(), gpus.err(), tracks.err()])),
        }
    }

    /// Returns whether the built-in data files are defaults for this project.
    pub fn has_built_in(&self) -> bool {
        // An invalid file is reported when its content is needed.
        let read = || self.own_text(VERSIONS).is_ok_and(|text| pins::has_built_in(&text));
        *self.has_built_in.get_or_init(|| !self.has_files || read())
    }

    /// Returns whether the project, or else the program, has a file.
    pub fn has(&self, name: &str) -> bool {
        self.has_own(name) || (self.has_built_in() && built_in::text(name).is_some())
    }

    /// Returns whether the project folder has a file or a link with that name.
    pub fn has_own(&self, name: &str) -> bool {
        self.has_files && fs::symlink_metadata(self.root.join(name)).is_ok()
    }

    /// Returns the names of the entries in a project folder, and in the built-in folder of that
    /// name if the built-in files are defaults.
    pub fn names_in(&self, folder: &str) -> BTreeSet<String> {
        let is_inside = self.has_files && self.check_inside(folder).is_ok();
        let own = is_inside.then(|| fs::read_dir(self.root.join(folder)).ok()).flatten();
        let own = own.into_iter().flatten().flatten();
        let mut names: BTreeSet<String> =
            own.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        if self.has_built_in() {
            names.extend(built_in::names_in(folder).into_iter().map(str::to_owned));
        }
        names
    }

    /// Checks that no symbolic link on a path, which is relative to the project's root, points
    /// outside the project. A path that does not exist passes.
    ///
    /// # Errors
    /// A link points outside the project; [`Project::unreadable`] explains it.
    pub fn check_inside(&self, name: &str) -> std::io::Result<()> {
        inside::check(&self.root, name)
    }

    /// Returns the text of a file, given its path from the project's root: from the project's
    /// folder, or else from the program. Reads each file once.
    ///
    /// # Errors
    /// The file cannot be read, is too large or is not UTF-8.
    pub fn text(&self, name: &str) -> std::io::Result<Arc<str>> {
        match self.own_text(name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !self.has_own(name) => {
                let built_in = built_in::text(name).filter(|_| self.has_built_in());
                built_in.map(Arc::from).ok_or(error)
            }
            result => result,
        }
    }

    /// Returns the text of a file in the project's folder. Reads each file once.
    ///
    /// # Errors
    /// The file cannot be read, is too large, is not UTF-8, or is outside the project.
    pub fn own_text(&self, name: &str) -> std::io::Result<Arc<str>> {
        if !self.has_files {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(name) {
            return Ok(Arc::clone(text));
        }
        let is_data = Path::new(name).parent() == Some(Path::new("versions"));
        let cap = if is_data { DATA_FILE_CAP } else { MATERIAL_CAP };
        self.check_inside(name)?;
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
        self.text(name).map_err(|error| self.unreadable(name, &error))
    }

    /// Returns the error for a project file that cannot be read, given its path from the
    /// root.
    pub fn unreadable(&self, name: &str, error: &std::io::Error) -> Failure {
        unreadable(&self.root, name, error)
    }

    /// Reads the pins: the project's, and the program's pins with other names.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn pins(&self) -> Result<pins::Pins, Failure> {
        if !self.has_files {
            return self.built_in(VERSIONS, pins::parse_versions);
        }
        let own = self.parse(VERSIONS, pins::parse_versions)?;
        // Otherwise, `has_built_in` would parse the file again.
        self.has_built_in.get_or_init(|| own.has_built_in);
        if !self.reads_built_in(VERSIONS) {
            return Ok(own);
        }
        Ok(own.over(&self.built_in(VERSIONS, pins::parse_versions)?))
    }

    /// Reads the GPU targets of the project and the program.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn gpus(&self) -> Result<pins::Gpus, Failure> {
        self.layered("versions/gpus.toml", pins::parse_gpus, pins::Gpus::over)
    }

    /// Parses the name of a GPU target that LLVM or `gpus.toml` knows. Every other target is a typo.
    ///
    /// # Errors
    /// It is not the name of a known target, or the file is wrong.
    pub fn known_gpu(&self, text: &str) -> Result<GpuTarget, Failure> {
        let target = failure::gpu_target(text)?;
        if CodeTarget::knows(&target) {
            return Ok(target);
        }
        let known = self.gpus()?.gpus;
        if known.contains_key(&target) {
            return Ok(target);
        }
        Err(failure::unknown_gpu(target.as_str(), known.keys().map(GpuTarget::as_str)))
    }

    /// Reads the tracks of the project and the program.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn tracks(&self) -> Result<Tracks, Failure> {
        let pins = self.pins();
        match (self.tracks_with(pins.as_ref().ok()), pins) {
            (Ok(tracks), Ok(_)) => Ok(tracks),
            (tracks, pins) => Err(all([pins.err(), tracks.err(), None])),
        }
    }

    /// Reads the tracks. Without `pins`, does not check the pins that they name.
    fn tracks_with(&self, pins: Option<&pins::Pins>) -> Result<Tracks, Failure> {
        let plain = |file: &str, text: &str| {
            pins::parse_tracks_with(file, text, References { pins, tracks: None })
        };
        if !self.has_own(TRACKS) && self.has_built_in() {
            return self.built_in(TRACKS, plain);
        }
        let lower = if self.reads_built_in(TRACKS) { self.built_in_tracks()? } else { None };
        let known = References { pins, tracks: lower.as_ref() };
        self.parse(TRACKS, |file, text| {
            pins::parse_tracks_with(file, text, known).map_err(|error| {
                own_files::with_missing(error, &self.root, text, |path| self.has(path))
            })
        })
    }

    /// Reads the built-in tracks, if they are defaults for this project.
    ///
    /// # Errors
    /// The built-in file cannot be used with the project.
    pub fn built_in_tracks(&self) -> Result<Option<Tracks>, Failure> {
        if self.has_built_in() {
            self.built_in(TRACKS, pins::parse_tracks).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the names of the tracks that the project adds or replaces.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn own_tracks(&self) -> Result<BTreeSet<TrackName>, Failure> {
        let (all, lower) = (self.tracks()?, self.built_in_tracks()?);
        let is_own = |(name, track): &(TrackName, pins::Track)| {
            lower.as_ref().is_none_or(|lower| lower.tracks.get(name) != Some(track))
        };
        Ok(all.tracks.into_iter().filter(is_own).map(|(name, _)| name).collect())
    }

    /// Returns whether a track of the project is the same as the built-in track of that name.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn is_of_program(&self, track: &TrackName) -> Result<bool, Failure> {
        let program = self.built_in(TRACKS, pins::parse_tracks)?;
        Ok(program.tracks.get(track) == self.tracks()?.tracks.get(track))
    }

    /// Reads the default GPU target of images.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn default_gpu(&self) -> Result<GpuTarget, Failure> {
        Ok(self.tracks()?.gpu)
    }

    /// Reads the requirements of Python locks, if there are any.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn python_sets(&self) -> Result<pins::PythonSets, Failure> {
        const NAME: &str = "versions/python.toml";
        if !self.has(NAME) {
            return Ok(pins::PythonSets::new());
        }
        let pins = self.pins();
        let parse = |file: &str, text: &str| match &pins {
            Ok(pins) => pins::parse_python_with(file, text, pins),
            Err(_) => pins::parse_python(file, text),
        };
        let sets = self.layered(NAME, parse, |own, mut all| {
            all.extend(own);
            all
        });
        match (sets, pins) {
            (Ok(sets), Ok(_)) => Ok(sets),
            (sets, pins) => Err(all([pins.err(), sets.err(), None])),
        }
    }

    /// Reads the compatibility table of the project and the program, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn compat(&self) -> Result<Option<pins::Compat>, Failure> {
        const NAME: &str = "versions/compat.toml";
        if !self.has(NAME) {
            return Ok(None);
        }
        if !self.reads_built_in(NAME) {
            return self.parse(NAME, pins::parse_compat).map(Some);
        }
        let lower = self.built_in(NAME, pins::parse_compat)?;
        self.parse(NAME, |file, text| pins::parse_compat_over(file, text, lower)).map(Some)
    }

    /// Returns the text of the built-in file of that name, if the project has a file of its own
    /// that extends it.
    pub fn extended_text(&self, name: &str) -> Option<&'static str> {
        built_in::text(name).filter(|_| self.reads_built_in(name))
    }

    /// Reads a project file, and adds what only the built-in file has. `over` merges the
    /// two; the project's content takes precedence.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn layered<T>(
        &self,
        name: &str,
        parse: impl Fn(&str, &str) -> Result<T, ParseError>,
        over: impl FnOnce(T, T) -> T,
    ) -> Result<T, Failure> {
        if !self.has_own(name) && self.has_built_in() {
            return self.built_in(name, parse);
        }
        let own = self.parse(name, &parse)?;
        if !self.reads_built_in(name) {
            return Ok(own);
        }
        Ok(over(own, self.built_in(name, parse)?))
    }

    /// Returns whether the built-in file adds something to the project's file of that name.
    pub(crate) fn reads_built_in(&self, name: &str) -> bool {
        self.has_built_in()
            && built_in::text(name)
                .is_some_and(|text| self.own_text(name).is_ok_and(|own| *own != *text))
    }

    /// Parses a built-in file.
    fn built_in<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str, &str) -> Result<T, ParseError>,
    ) -> Result<T, Failure> {
        let text = built_in::text(name).unwrap_or_default();
        parse(name, text).map_err(|error| {
            let what = format!("build-pipeline's own `{name}` cannot be used with this project");
            Failure::caused(Kind::Input, what, &error)
                .hint(format!("a pin in `{VERSIONS}` may have the same name as a built-in pin of another kind; rename it, or set `built-in = false`"))
        })
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

/// Combines the failures of several data files into one with the problems in all of them. If the
/// first failure is not a list of such problems, returns it unchanged.
fn all(failures: [Option<Failure>; 3]) -> Failure {
    let mut failures = failures.into_iter().flatten();
    let mut first = failures.next().unwrap_or_else(|| Failure::all_places(Vec::new()));
    if let Message::Places(files) = &mut first.message {
        files.extend(failures.flat_map(|one| match one.message {
            Message::Places(others) => others,
            Message::Line(_) | Message::Told => Vec::new(),
        }));
    }
    first
}

/// Reads the text of a data file outside a project.
///
/// # Errors
/// The file cannot be read, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    read_capped(path, DATA_FILE_CAP)
}

/// Reads the text of a file that the user names. It can be a pipe, such as that of `<(COMMAND)`.
///
/// # Errors
/// The file cannot be read, is too large or is not UTF-8.
pub fn read_named_text(path: &Path) -> std::io::Result<String> {
    text(read_to_cap(fs::File::open(path)?, DATA_FILE_CAP)?)
}

/// Reads the bytes of a small file, whatever its encoding.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    read_bytes_capped(path, DATA_FILE_CAP)
}

/// Creates the error for a file or folder that cannot be read in the project at `root`. `name` is
/// its path from there.
pub(crate) fn unreadable(root: &Path, name: &str, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{InvalidData, NotFound, PermissionDenied};
    let shown = root.join(name).display().to_string();
    let told = Failure::caused(Kind::Input, format!("reading `{shown}` failed"), error);
    if Outside::of(error).is_some() {
        return told.hint(inside::NEXT);
    }
    match error.kind() {
        PermissionDenied => told.hint("check the permissions of the file and its parent folders"),
        _ if recipe::is_committed(root, name) => {
            told.hint(format!("`git checkout HEAD -- {name}` restores the last committed version"))
        }
        NotFound if built_in::text(name).is_some() => told.hint(format!(
            "create it, or remove `built-in = false` from {VERSIONS} to use build-pipeline's own file"
        )),
        NotFound => told.hint("create it, or correct its name"),
        InvalidData => told.hint("save it as text in UTF-8"),
        _ => told.hint("replace it with a text file"),
    }
}

fn read_bytes_capped(path: &Path, cap: u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind};
    // Reading a FIFO would block.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    read_to_cap(fs::File::open(path)?, cap)
}

fn read_to_cap(file: fs::File, cap: u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind};
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
    text(read_bytes_capped(path, cap)?)
}

fn text(bytes: Vec<u8>) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind};
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}
