//! Writes the files of a new project.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use names::{ImageRef, PinName, TrackName};
use pins::Tracks;
use project::clock::today;
use project::pins_file::FILE;
use project::{Project, read_text, request};

use crate::ci::Ci;

/// The project to write.
#[derive(Debug, Clone, Default)]
pub struct NewProject {
    /// The name of its first track; without one, the project has only the built-in tracks.
    pub track: Option<String>,
    /// The base of the track.
    pub start: Option<Start>,
    /// The CI systems that build and verify its images.
    pub ci: Vec<Ci>,
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

/// Returns the built-in tracks.
fn built_in() -> Result<Tracks, Failure> {
    Project::find_or_built_in(Path::new("/")).tracks()
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

/// The file that explains the project to people.
const README: &str = "README.md";

/// Writes the files of a new project into `folder`, which may exist, and returns their paths in the
/// order in which they were written. Adds the missing lines to a `.gitignore`, and keeps a README.
/// Writes nothing if one of the other files already exists.
///
/// # Errors
/// The folder is a project, a name is wrong, or a file exists or cannot be written.
pub fn write(folder: &Path, new: &NewProject) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(FILE).exists() {
        let what = format!("`{}` is already a project", folder.display());
        return Err(Failure::new(Kind::Input, what)
            .hint("choose another folder, or add a track to its versions/tracks.toml"));
    }
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    let is_kept = |(path, _): &(PathBuf, String)| {
        (path.ends_with(README) || path.ends_with(IGNORED)) && exists(path)
    };
    let (kept, files): (Vec<_>, Vec<_>) = files(folder, new)?.into_iter().partition(is_kept);
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
            "# The tracks of this project, in addition to those of build-pipeline. TUTORIAL.md of\n\
             # build-pipeline explains all keys.\nschema = 1\n\n[{track}]\ntitle = \"{track}\"\n\
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
                pins.push_str(&image_pin(&pin, &reference)?);
                table = format!("{table}base = \"{pin}\"\n");
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

/// Returns the table of an image pin.
fn image_pin(pin: &PinName, reference: &str) -> Result<String, Failure> {
    let image: ImageRef = reference.parse().map_err(|error| {
        let what = format!("`{reference}` is not an image reference");
        Failure::caused(Kind::Input, what, &error)
            .hint("write registry, name and tag, for example `--base docker.io/vllm/vllm-openai-rocm:v0.27.1`")
    })?;
    let tag = image.tag.map(|tag| format!("tag = \"{tag}\"\n")).unwrap_or_default();
    let digest = image.digest.map_or("unresolved".to_owned(), |digest| digest.to_string());
    if tag.is_empty() && digest == "unresolved" {
        let what = format!("`{reference}` has neither a tag nor a digest");
        return Err(Failure::new(Kind::Input, what)
            .hint(format!("for example `--base {reference}:latest`")));
    }
    Ok(format!(
        "\n[image.{pin}]\nrepository = \"{}\"\n{tag}digest = \"{digest}\"\n",
        image.repository
    ))
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
        format!("build-pipeline --track {track} --rehearse   # try it without a network\n")
    } else {
        String::new()
    };
    format!(
        "# Images\n\nThe images of this folder are built with build-pipeline.\n\n```sh\n\
         build-pipeline                          # list the tracks\n\
         build-pipeline bump --unresolved        # resolve this project's unresolved pins\n\
         {rehearsal}build-pipeline --track {track}\n\
         build-pipeline verify {track}\n```\n\n\
         `versions/` contains the pins and tracks. `dist/` contains the images and is not committed.\n"
    )
}
