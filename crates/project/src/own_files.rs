//! Reads the files that `files` in `tracks.toml` names, as they are in the working tree.
//!
//! The result depends only on names, contents, links and executable bits, as in git. Empty folders
//! are left out, because git does not have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use failure::{Failure, nearest};
use names::{Digest, FileMode, TrackName};
use oci::files::{hash, open};
use pins::reader::{Report, Wrong, quote, wrong};
use pins::{NamedFiles, ParseError, Track, TrackFile, check_destination, is_system_folder};
use plan::OwnFile;
use planner::OwnFilesOfTrack;

/// The maximum number of files and folders of a track.
const MOST_ENTRIES: usize = 10_000;

/// The owner's execute bit, the only permission bit that git records.
const EXECUTABLE: u32 = 0o100;

/// The project's files for tracks and build contexts.
#[derive(Debug, Default)]
pub(crate) struct ReadFiles {
    /// The files of each track, as the planner needs them.
    pub(crate) tracks: BTreeMap<TrackName, OwnFilesOfTrack>,
    /// The same for files in build contexts, by the path that stages name.
    pub(crate) contexts: BTreeMap<String, OwnFilesOfTrack>,
    /// Where the files are on disk, by the name of their input.
    pub(crate) places: BTreeMap<String, PathBuf>,
}

/// Reads the files for tracks and build contexts of the project in `root`. `name` is the file with
/// the tracks, and `text` is its text.
///
/// # Errors
/// Returns all problems, each with its position in `name`.
pub(crate) fn read(
    root: &Path,
    name: &str,
    text: &str,
    tracks: &[(&TrackName, &Track)],
    contexts: &[&TrackFile],
) -> Result<ReadFiles, Failure> {
    let mut report = Report::new(name, text);
    let mut read = ReadFiles::default();
    for (track, settings) in tracks {
        let mut collected = Collected::default();
        for file in &settings.files {
            collected.add(root, file, &mut report);
        }
        let Collected { own, places, .. } = collected;
        read.tracks.insert((*track).clone(), own);
        read.places.extend(places);
    }
    for file in contexts {
        let mut collected = Collected::default();
        collected.add(root, file, &mut report);
        let Collected { own, places, .. } = collected;
        read.contexts.insert(file.from.clone(), own);
        read.places.extend(places);
    }
    report.finish(Ok(read)).map_err(|error| Failure::places(error, text.to_owned()))
}

/// Adds a problem to `error` for each file that `text`, a `tracks.toml`, names but that does not
/// exist. `exists` returns whether there is a Dockerfile of that name.
pub(crate) fn with_missing(
    mut error: ParseError,
    root: &Path,
    text: &str,
    exists: impl Fn(&str) -> bool,
) -> ParseError {
    let NamedFiles { files, mut dockerfiles } = pins::named_files(text);
    dockerfiles.retain(|(_, path)| !exists(path));
    let mut report = Report::new(&error.file, text);
    let mut reported = None;
    for (span, path) in files.into_iter().chain(dockerfiles) {
        if let Err(wrong) = find(root, &path) {
            reported = Some(report.add(&span, wrong));
        }
    }
    let missing = reported.map_or(Ok(()), |reported| report.finish(Err(reported)));
    if let Err(missing) = missing {
        error.problems.extend(missing.problems);
        error.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    }
    error
}

/// Returns the name of the input for a project file. It always contains a slash, because a
/// name without one could be the name of a pin.
fn input_name(path: &str) -> String {
    if path.contains('/') { path.to_owned() } else { format!("./{path}") }
}

/// Converts the name of an input back to the file's path from the project's root.
pub(crate) fn path_of(input: &str) -> &str {
    input.strip_prefix("./").unwrap_or(input)
}

/// The files of one track.
#[derive(Default)]
struct Collected {
    own: OwnFilesOfTrack,
    places: BTreeMap<String, PathBuf>,
    /// The path in the project of each entry, by its path in the image.
    origins: BTreeMap<String, String>,
}

/// A file, folder or link in the project.
struct Found {
    /// Its path from the project's root.
    path: String,
    /// Its path relative to `from` in the row; empty for `from` itself.
    below: String,
    kind: FoundKind,
}

enum FoundKind {
    File { digest: Digest, is_executable: bool },
    Folder,
    Link(String),
}

impl Collected {
    /// Adds the files and folders that one row of `files` names.
    fn add(&mut self, root: &Path, row: &TrackFile, report: &mut Report<'_>) {
        let mut found = Vec::new();
        let walked = walk(root, row, &mut found);
        let has_wrong = !walked.is_empty();
        for wrong in walked {
            report.add(&row.from_span, wrong);
        }
        let is_folder = found.first().is_some_and(|one| matches!(one.kind, FoundKind::Folder));
        if is_folder && !has_wrong {
            let has_content = found.iter().any(|one| !matches!(one.kind, FoundKind::Folder));
            if !has_content {
                let message = format!("{} contains no file", quote(&row.from));
                report.add(&row.from_span, wrong(message, "add a file to it, or remove the entry"));
                return;
            }
        }
        for one in without_empty_folders(found) {
            if let Err(wrong) = self.put(root, row, one) {
                report.add(&row.to_span, wrong);
            }
        }
        if self.origins.len() > MOST_ENTRIES {
            let message = format!("a track cannot add more than {MOST_ENTRIES} files and folders");
            let help = "leave some out, or pack them into an archive that a stage unpacks";
            report.add(&row.from_span, wrong(message, help));
        }
    }

    /// Puts one file, folder or link into the layer.
    fn put(&mut self, root: &Path, row: &TrackFile, found: Found) -> Result<(), Wrong> {
        let Found { path, below, kind } = found;
        let to = match below.as_str() {
            "" => row.to.clone(),
            below => format!("{}/{below}", row.to.trim_end_matches('/')),
        };
        // A path in a build context is relative, and a context has no system folders.
        if to.starts_with('/') {
            match (is_system_folder(&to), matches!(kind, FoundKind::Folder)) {
                (true, true) => return Ok(()),
                (true, false) => return Err(in_place_of_folder(&to, &path)),
                (false, _) => check_destination(&to)?,
            }
        }
        let (uid, gid) = (row.owner.uid, row.owner.gid);
        let file = match kind {
            FoundKind::File { digest, is_executable } => {
                let of_git = if is_executable { FileMode::EXECUTABLE } else { FileMode::PLAIN };
                let (from, mode) = (input_name(&path), row.mode.unwrap_or(of_git));
                self.own.digests.insert(from.clone(), digest);
                self.places.insert(from.clone(), root.join(&path));
                OwnFile::File { from, mode, uid, gid }
            }
            FoundKind::Folder => {
                let mode = row.mode.map_or(FileMode::EXECUTABLE, FileMode::of_folder);
                OwnFile::Folder { mode, uid, gid }
            }
            FoundKind::Link(target) => OwnFile::Link { target, uid, gid },
        };
        self.check_place(&to, &path, &file)?;
        self.own.files.insert(to.clone(), file);
        self.origins.insert(to, path);
        Ok(())
    }

    /// Checks that no other entry has the same path, and that the entry's parents are folders.
    fn check_place(&self, to: &str, path: &str, file: &OwnFile) -> Result<(), Wrong> {
        let twice = |other: &str| {
            let message =
                format!("{} would be both {} and {}", quote(to), quote(other), quote(path));
            wrong(message, "change `to` in one of the entries, or remove one")
        };
        let origin = |place: &str| self.origins.get(place).map_or("", String::as_str);
        match self.own.files.get(to) {
            // Two entries may contain the same folder with the same attributes.
            Some(known) if known == file && matches!(file, OwnFile::Folder { .. }) => {}
            Some(OwnFile::Folder { .. }) if matches!(file, OwnFile::Folder { .. }) => {
                let message = format!("folder {} would have two owners or modes", quote(to));
                return Err(wrong(message, "give both entries the same `owner` and `mode`"));
            }
            Some(_) => return Err(twice(origin(to))),
            None => {}
        }
        let is_folder = |place: &str| {
            self.own.files.get(place).is_none_or(|known| matches!(known, OwnFile::Folder { .. }))
        };
        let mut above =
            to.match_indices('/').filter(|(end, _)| *end > 0).filter_map(|(end, _)| to.get(..end));
        if let Some(above) = above.find(|above| !is_folder(above)) {
            let message = format!("{} is below {}, which is not a folder", quote(to), quote(above));
            return Err(wrong(
                message,
                format!("change `to` in this entry or in the entry of `{}`", origin(above)),
            ));
        }
        let below = format!("{to}/");
        let is_file = !matches!(file, OwnFile::Folder { .. });
        match self.own.files.range(below.clone()..).next() {
            Some((other, _)) if is_file && other.starts_with(&below) => {
                let message =
                    format!("{} is below {}, which is not a folder", quote(other), quote(to));
                Err(wrong(
                    message,
                    format!("change `to` in this entry or in the entry of `{path}`"),
                ))
            }
            _ => Ok(()),
        }
    }
}

fn in_place_of_folder(to: &str, path: &str) -> Wrong {
    let name = path.rsplit('/').next().unwrap_or_default();
    wrong(
        format!("{} is a folder of the image, but {} is not a folder", quote(to), quote(path)),
        format!("write the full path: `{}/{name}`", to.trim_end_matches('/')),
    )
}

/// Removes folders without any file or link below them.
fn without_empty_folders(mut found: Vec<Found>) -> Vec<Found> {
    let mut used: BTreeSet<String> = BTreeSet::new();
    for one in found.iter().filter(|one| !matches!(one.kind, FoundKind::Folder)) {
        let parents = one.path.match_indices('/').filter_map(|(end, _)| one.path.get(..end));
        used.extend(parents.map(str::to_owned));
    }
    found.retain(|one| !matches!(one.kind, FoundKind::Folder) || used.contains(&one.path));
    found
}

/// Adds the files and folders of a row to `found`, parents first and sorted by name. Returns all
/// problems.
fn walk(root: &Path, row: &TrackFile, found: &mut Vec<Found>) -> Vec<Wrong> {
    let start_metadata = match find(root, &row.from) {
        Ok(metadata) => metadata,
        Err(wrong) => return vec![wrong],
    };
    let mut problems = Vec::new();
    let mut open = vec![(row.from.clone(), String::new(), start_metadata)];
    while let Some((path, below, metadata)) = open.pop() {
        if found.len() > MOST_ENTRIES {
            break;
        }
        let kind = match read_one(root, row, &path, &below, &metadata) {
            Ok(kind) => kind,
            Err(wrong) => {
                problems.push(wrong);
                continue;
            }
        };
        if matches!(kind, FoundKind::Folder) {
            match children(root, &path) {
                // `open` is a stack: its last entry is read first.
                Ok(names) => open.extend(names.into_iter().rev().map(|(name, child_metadata)| {
                    let below =
                        if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
                    (format!("{path}/{name}"), below, child_metadata)
                })),
                Err(wrong) => problems.push(wrong),
            }
        }
        found.push(Found { path, below, kind });
    }
    problems
}

/// Finds the file or folder that a row names. Does not follow links.
fn find(root: &Path, from: &str) -> Result<Metadata, Wrong> {
    let mut folder = String::new();
    let mut parts = from.split('/').peekable();
    while let Some(part) = parts.next() {
        let path = if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
        let metadata =
            fs::symlink_metadata(root.join(&path)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    missing(root, &folder, from)
                }
                _ => unreadable(&path, &error),
            })?;
        if metadata.is_symlink() {
            let target = fs::read_link(root.join(&path)).unwrap_or_default();
            let message = format!(
                "{} is a symbolic link to {}",
                quote(&path),
                quote(&target.display().to_string())
            );
            let help = "write the path of the file itself; a link is kept only inside a folder that is copied as a whole";
            return Err(wrong(message, help));
        }
        if parts.peek().is_none() {
            return Ok(metadata);
        }
        folder = path;
    }
    Err(missing(root, "", from))
}

fn missing(root: &Path, folder: &str, from: &str) -> Wrong {
    let message = format!("the project has no file or folder {}", quote(from));
    let names: Vec<String> = fs::read_dir(root.join(folder))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let wanted = from.strip_prefix(folder).unwrap_or(from).trim_start_matches('/');
    let (first, rest) = wanted.split_once('/').map_or((wanted, None), |(a, b)| (a, Some(b)));
    match nearest(first, names.iter().map(String::as_str)) {
        Some(near) => {
            let parts = [folder, near, rest.unwrap_or_default()];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            wrong(message, format!("did you mean `{}`?", parts.join("/")))
        }
        None => wrong(message, "create it, or correct the path"),
    }
}

fn unreadable(path: &str, error: &io::Error) -> Wrong {
    wrong(
        format!("{} cannot be read: {error}", quote(path)),
        "check the permissions of the file and its parent folders",
    )
}

/// Reads the entry at a path: a file, a folder, or a link that stays in the copied folder.
fn read_one(
    root: &Path,
    row: &TrackFile,
    path: &str,
    below: &str,
    metadata: &Metadata,
) -> Result<FoundKind, Wrong> {
    let kind = metadata.file_type();
    if path.rsplit('/').next() == Some(".git") {
        let message = format!("{} belongs to git, and differs between clones", quote(path));
        return Err(wrong(message, "copy the folder without it"));
    }
    if kind.is_dir() {
        return Ok(FoundKind::Folder);
    }
    if kind.is_symlink() {
        return link(root, row, path, below).map(FoundKind::Link);
    }
    if kind.is_file() {
        let digest = open(&root.join(path)).and_then(hash);
        let digest = digest.map_err(|error| unreadable(path, &error))?;
        let is_executable = metadata.mode() & EXECUTABLE != 0;
        return Ok(FoundKind::File { digest, is_executable });
    }
    let what = if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let message = format!("{} is {what}", quote(path));
    Err(wrong(message, "specify a regular file or a folder of regular files"))
}

/// Returns the target of a link, if it is relative and stays inside the folder that is copied.
fn link(root: &Path, row: &TrackFile, path: &str, below: &str) -> Result<String, Wrong> {
    let target = fs::read_link(root.join(path)).map_err(|error| unreadable(path, &error))?;
    let help = format!(
        "make it a relative link to a file in `{}`, or replace it with a copy of the file",
        row.from
    );
    let refuse = |why: &str| {
        let shown = quote(&target.display().to_string());
        wrong(format!("{} is a link to {shown}, which {why}", quote(path)), help.clone())
    };
    let Some(text) = target.to_str() else { return Err(refuse("is not UTF-8")) };
    if text.starts_with('/') {
        return Err(refuse("is an absolute path"));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse("has a control character"));
    }
    let mut depth = below.matches('/').count();
    for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
        depth = match (part, depth) {
            ("..", 0) => return Err(refuse("is outside the folder that is copied")),
            ("..", depth) => depth - 1,
            (_, depth) => depth + 1,
        };
    }
    Ok(text.to_owned())
}

/// Returns the entries of a folder, sorted by name.
fn children(root: &Path, path: &str) -> Result<Vec<(String, Metadata)>, Wrong> {
    let failed = |error: io::Error| unreadable(path, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(path)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            let shown = entry.file_name().to_string_lossy().into_owned();
            let message = format!("{} in {} is not a UTF-8 name", quote(&shown), quote(path));
            return Err(wrong(message, "rename it"));
        };
        names.push((name, entry.metadata().map_err(failed)?));
    }
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}
