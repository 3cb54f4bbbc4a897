//! Writes the files of a new project.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use export::ci::Ci;
use failure::{Failure, Kind};
use names::{ImageRef, PinName, TrackName};
use pins::{Track, Tracks};
use project::clock::today;
use project::pins_file::FILE;
use project::{Project, read_text, request};

/// The project to write.
#[derive(Debug, Clone, Default)]
pub struct NewProject {
    /// The name of its first track; without one, the project has only the built-in tracks.
    pub track: Option<String>,
    /// The base of the track; if `None`, the first built-in track.
    pub start: Option<Start>,
    /// The CI systems that build and verify its images.
    pub ci: Vec<Ci>,
    /// The JSON schemas of data files, by the name of the file without `.toml`. With them, editors
    /// check and complete the files.
    pub schemas: BTreeMap<&'static str, String>,
}

impl NewProject {
    /// Returns the track that new users should start with: the project's own, or the first built-in
    /// track.
    ///
    /// # Errors
    /// The built-in tracks cannot be read.
    pub fn first_track(&self) -> Result<String, Failure> {
        match &self.track {
            Some(track) => Ok(track.clone()),
            None => Ok(first(&built_in()?)?.to_string()),
        }
    }
}

/// Returns a project without files of its own: the built-in data.
fn program() -> Project {
    Project::find_or_built_in(Path::new("/"))
}

/// Returns the built-in tracks.
fn built_in() -> Result<Tracks, Failure> {
    program().tracks()
}

fn first(tracks: &Tracks) -> Result<&TrackName, Failure> {
    tracks.first().ok_or_else(|| Failure::new(Kind::Bug, "the program has no tracks"))
}

/// The base of the first track of a project.
#[derive(Debug, Clone)]
pub enum Start {
    /// An image, by its reference.
    Image(String),
    /// A built-in track, by its name or letter.
    Track(String),
}

/// The file that lists the paths that git ignores.
const IGNORED: &str = ".gitignore";

/// The file with the ports, folders and smoke tests of tracks.
const RUN: &str = "versions/run.toml";

/// The data files that may be written, each with the name of its schema, and the path of the
/// schema.
const DATA: [(&str, &str, &str); 3] = [
    (FILE, "versions", "schemas/versions.schema.json"),
    ("versions/tracks.toml", "tracks", "schemas/tracks.schema.json"),
    (RUN, "run", "schemas/run.schema.json"),
];

/// The file that explains the project to people.
const README: &str = "README.md";

/// Writes the files of a new project into `folder`, which may exist, and returns their paths in the
/// order in which they were written. Adds the missing lines to a `.gitignore`, and keeps a README.
/// Writes nothing if one of the other files already exists.
///
/// # Errors
/// The folder is a project, a name is wrong, or a file exists or cannot be written.
pub fn write(folder: &Path, new: &NewProject) -> Result<Vec<PathBuf>, Failure> {
    if is_project(folder) {
        let what = format!("`{}` is already a project", folder.display());
        return Err(Failure::new(Kind::Input, what)
            .hint("choose another folder, or add a track to its versions/tracks.toml")
            .hint("with `--ci` and `--install`, and without `--track`, `init` adds only the file for a CI system"));
    }
    put_new(folder, files(folder, new)?)
}

/// Adds to a project the files that make CI systems build and verify the image of its first own
/// track, and returns that track and the paths of the files. Writes nothing if one of the files
/// already exists.
///
/// # Errors
/// The project's tracks cannot be read, or a file exists or cannot be written.
pub fn add_ci(folder: &Path, ci: &[Ci]) -> Result<(String, Vec<PathBuf>), Failure> {
    let (tracks, known) = (Project::find(folder)?.tracks()?, built_in()?);
    let is_own = |name: &&TrackName| !known.tracks.contains_key(*name);
    let own = tracks.in_order().into_iter().map(|(name, _)| name).find(is_own);
    let track = own.map_or_else(|| first(&known), Ok)?.to_string();
    let files = ci.iter().map(|ci| (folder.join(ci.system.path()), ci.text(&track))).collect();
    let written = put_new(folder, files).map_err(|told| {
        told.hint(format!("`build-pipeline export github {track}` and `export gitlab {track}` print such a file with a job for each step"))
    })?;
    Ok((track, written))
}

/// Returns whether a folder is a project.
pub fn is_project(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Writes new files. Adds missing lines to a `.gitignore`, and keeps a README. Writes nothing if one
/// of the other files already exists.
fn put_new(folder: &Path, all: Vec<(PathBuf, String)>) -> Result<Vec<PathBuf>, Failure> {
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    all.iter().try_for_each(|(path, _)| check_links(folder, path))?;
    let is_kept = |(path, _): &(PathBuf, String)| {
        (path.ends_with(README) || path.ends_with(IGNORED)) && exists(path)
    };
    let (kept, files): (Vec<_>, Vec<_>) = all.into_iter().partition(is_kept);
    if let Some((path, _)) = files.iter().find(|(path, _)| exists(path)) {
        return Err(Failure::new(Kind::Input, format!("`{}` already exists", path.display()))
            .hint("nothing was written; move the file away, or choose another folder"));
    }
    let parents = files.iter().filter_map(|(path, _)| path.parent());
    // The deepest folder is first.
    let new_folders: Vec<PathBuf> = parents
        .flat_map(Path::ancestors)
        .filter(|above| !exists(above))
        .map(Path::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .rev()
        .collect();
    let failed = |written: &[PathBuf], path: &Path, error: &io::Error| {
        // What remains of an incomplete project would look like a project, so remove it.
        written.iter().for_each(|file| drop(fs::remove_file(file)));
        new_folders.iter().for_each(|new_folder| drop(fs::remove_dir(new_folder)));
        let what = format!("writing `{}` failed", path.display());
        Failure::caused(Kind::of_write(error), what, error)
            .hint("all files that were written have been removed; check the space and permissions of the folder, or choose another one")
    };
    let mut written = Vec::new();
    for (path, text) in files {
        put(&path, &text).map_err(|error| failed(&written, &path, &error))?;
        written.push(path);
    }
    if let Some((path, lines)) = kept.into_iter().find(|(path, _)| path.ends_with(IGNORED))
        && add_lines(&path, &lines).map_err(|error| failed(&written, &path, &error))?
    {
        written.push(path);
    }
    Ok(written)
}

/// Refuses to write a file through a symbolic link in the project's folder. A README is kept, even
/// if it is a link.
fn check_links(folder: &Path, path: &Path) -> Result<(), Failure> {
    let inside = path.ancestors().take_while(|above| *above != folder);
    let is_link = |above: &&Path| {
        fs::symlink_metadata(above).is_ok_and(|found| found.is_symlink())
            && !above.ends_with(README)
    };
    let Some(link) = inside.into_iter().find(is_link) else { return Ok(()) };
    let what =
        format!("`{}` is a symbolic link, and a project has only files of its own", link.display());
    Err(Failure::new(Kind::Input, what)
        .hint("nothing was written; replace the link with a copy, or choose another folder"))
}

/// Adds missing lines to a list of ignored files, and returns whether any were missing.
fn add_lines(path: &Path, lines: &str) -> io::Result<bool> {
    let text = read_text(path)?;
    let plain = |line: &str| line.trim().trim_matches('/').to_owned();
    let has = |line: &&str| text.lines().any(|other| plain(other) == plain(line));
    let missing: Vec<&str> = lines.lines().filter(|line| !has(line)).collect();
    if missing.is_empty() {
        return Ok(false);
    }
    let start = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut file = OpenOptions::new().append(true).open(path)?;
    let length = file.metadata()?.len();
    let added = file
        .write_all(format!("{start}{}\n", missing.join("\n")).as_bytes())
        .and_then(|()| file.sync_all());
    // A partly written line must not remain.
    added.inspect_err(|_| drop(file.set_len(length)))?;
    Ok(true)
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let filled = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    filled.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Returns the files, with `versions.toml` last: it makes the folder a project.
fn files(folder: &Path, new: &NewProject) -> Result<Vec<(PathBuf, String)>, Failure> {
    let rehearsed = can_be_rehearsed(new)?;
    let first_track = new.first_track()?;
    let mut files =
        vec![(IGNORED, "/dist/\n".to_owned()), (README, readme(&first_track, rehearsed))];
    files.extend(new.ci.iter().map(|ci| (ci.system.path(), ci.text(&first_track))));
    let mut pins = head()?;
    if let Some(track) = &new.track {
        let track: TrackName = track.parse().map_err(|error: names::ParseNameError| {
            Failure::from_chain(Kind::Input, &error).hint("for example `--track my-vllm`")
        })?;
        let known = built_in()?;
        if known.tracks.contains_key(&track) {
            let what = format!("`{track}` is already a track of build-pipeline");
            return Err(Failure::new(Kind::Input, what)
                .hint(format!("to use that track, leave out `--track`; to make your own, choose another name: `--track my-{track} --from {track}`")));
        }
        let mut table = format!(
            "# The tracks of this project, in addition to those of build-pipeline.\n\
             # docs/reference/tracks.md in build-pipeline's repository explains all keys.\nschema = 1\n\n[{track}]\ntitle = \"{track}\"\n\
             description = \"An image of this project.\"\n"
        );
        let start = match &new.start {
            Some(start) => start.clone(),
            None => Start::Track(first(&known)?.to_string()),
        };
        match start {
            Start::Track(name) => {
                let base = request::track(&name, &known)?;
                table = format!("{table}track = \"{base}\"\n");
            }
            Start::Image(reference) => {
                let pin = format!("{track}-base").parse::<PinName>();
                let pin = pin.map_err(|error| Failure::from_chain(Kind::Input, &error))?;
                let image = image(&reference)?;
                pins.push_str(&image_pin(&pin, &image));
                table = format!("{table}base = \"{pin}\"\n");
                files.extend(run_row(&track, &image)?.map(|row| (RUN, row)));
            }
        }
        table.push_str("\n# Variables that the image sets.\n# [TRACK.env]\n# NAME = \"value\"\n");
        files.push((
            "versions/tracks.toml",
            table.replace("[TRACK.env]", &format!("[{track}.env]")),
        ));
    } else if new.start.is_some() {
        return Err(Failure::new(Kind::Input, "a base was given, but no name for the track")
            .hint("add `--track NAME`"));
    }
    files.push((FILE, pins));
    let mut schemas = Vec::new();
    for (name, text) in &mut files {
        let schema = DATA.iter().find(|(file, ..)| file == name);
        let schema = schema.and_then(|(_, data, path)| Some((*path, new.schemas.get(data)?)));
        if let Some((path, schema)) = schema {
            *text = format!("#:schema ../{path}\n{text}");
            schemas.push((path, schema.clone()));
        }
    }
    // `versions.toml` stays last.
    files.splice(0..0, schemas);
    Ok(files.into_iter().map(|(name, text)| (folder.join(name), text)).collect())
}

/// Returns the start of `versions.toml`.
fn head() -> Result<String, Failure> {
    let (seconds, _) = today()?;
    Ok(format!(
        "# The pins of this project, in addition to those of build-pipeline: `build-pipeline pins show`\n\
         # lists both. A pin with the name of one of them replaces it.\nschema = 1\n\n\
         # The time of all images: 00:00 UTC on the day of the newest change; `bump` raises it.\n\
         source-date-epoch = {seconds}\n"
    ))
}

/// Reads the reference of the image that a track is based on.
fn image(reference: &str) -> Result<ImageRef, Failure> {
    let image: ImageRef = reference.parse().map_err(|error| {
        let what = format!("`{reference}` is not an image reference");
        Failure::caused(Kind::Input, what, &error)
            .hint("write registry, name and tag, for example `--base docker.io/vllm/vllm-openai-rocm:v0.27.1`")
    })?;
    if image.tag.is_none() && image.digest.is_none() {
        let what = format!("`{reference}` has neither a tag nor a digest");
        return Err(Failure::new(Kind::Input, what)
            .hint(format!("for example `--base {reference}:latest`")));
    }
    Ok(image)
}

/// Returns the table of an image pin.
fn image_pin(pin: &PinName, image: &ImageRef) -> String {
    let tag = image.tag.as_ref().map(|tag| format!("tag = \"{tag}\"\n")).unwrap_or_default();
    let digest = image.digest.as_ref();
    let digest = digest.map_or_else(|| "unresolved".to_owned(), ToString::to_string);
    format!("\n[image.{pin}]\nrepository = \"{}\"\n{tag}digest = \"{digest}\"\n", image.repository)
}

/// Returns a `run.toml` with the port, folders and smoke tests of a built-in track on an image from
/// the same repository, if there is one.
fn run_row(track: &TrackName, image: &ImageRef) -> Result<Option<String>, Failure> {
    let program = program();
    let (tracks, pins) = (program.tracks()?, program.pins()?);
    let is_same = |its: &Track| {
        let pin = its.base_pin().and_then(|pin| pins.images.get(pin));
        pin.is_some_and(|pin| pin.repository == image.repository)
    };
    let Some((name, _)) = tracks.in_order().into_iter().find(|(_, its)| is_same(its)) else {
        return Ok(None);
    };
    let text = program.told_text(RUN)?;
    let head = format!("[{name}]");
    let rows = text.lines().skip_while(|line| *line != head).skip(1);
    let rows: Vec<&str> = rows.take_while(|line| !line.starts_with('[')).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "# What a container of each track gets, and how it is smoke-tested. This row was copied from\n\
         # track {name}, which is based on an image from the same repository.\nschema = 1\n\n\
         [{track}]\n{}\n",
        rows.join("\n").trim_end()
    )))
}

/// Returns whether containers of the project's first track get a port, folders and smoke tests: its
/// own, or those of the track that it is based on.
///
/// # Errors
/// The name of the base is wrong.
pub fn has_run_row(new: &NewProject) -> Result<bool, Failure> {
    match (&new.track, &new.start) {
        (Some(track), Some(Start::Image(reference))) => {
            let track = track.parse::<TrackName>();
            let track = track.map_err(|error| Failure::from_chain(Kind::Input, &error))?;
            Ok(run_row(&track, &image(reference)?)?.is_some())
        }
        _ => Ok(true),
    }
}

/// Returns whether the first track of a project can be rehearsed.
///
/// # Errors
/// The track that it is based on does not exist.
pub fn can_be_rehearsed(new: &NewProject) -> Result<bool, Failure> {
    let Some(Start::Track(base)) = &new.start else { return Ok(true) };
    let known = built_in()?;
    Ok(known.can_be_rehearsed(&request::track(base, &known)?))
}

fn readme(track: &str, is_rehearsed: bool) -> String {
    let rehearsal = if is_rehearsed {
        format!("build-pipeline --track {track} --rehearse   # try it on a small stand-in\n")
    } else {
        String::new()
    };
    format!(
        "# Images\n\nThe images of this folder are built with build-pipeline.\n\n```sh\n\
         build-pipeline                          # list the tracks\n\
         build-pipeline bump --unresolved        # resolve this project's unresolved pins\n\
         {rehearsal}build-pipeline --track {track}\n\
         build-pipeline verify {track}\n```\n\n\
         `versions/` contains the pins and tracks. `dist/` contains the images and is not committed.\n\
         `schemas/` lets editors check and complete the files in `versions/`; after an update of\n\
         build-pipeline, `build-pipeline schema tracks > schemas/tracks.schema.json` updates one.\n"
    )
}
