//! Records on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use jiff::Timestamp;
use names::Digest;
use record::{BuildRecord, Status, StepState};
use text::sanitise::sanitise_json;

use crate::environment;

/// How many recent runs to search for step durations.
const LATEST: usize = 20;

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::caused(Kind::Machine, format!("{what} `{}` failed", path.display()), error)
        .hint("records are under `XDG_STATE_HOME` (default `~/.local/state`); check its space and permissions")
}

/// Returns the folder of records.
fn records_folder() -> Result<PathBuf, Failure> {
    Ok(environment::state_folder()?.join("records"))
}

/// Checks that records can be written before there is anything to record.
///
/// # Errors
/// The folder cannot be created or written.
pub fn check_records() -> Result<(), Failure> {
    let folder = records_folder()?;
    fs::create_dir_all(&folder)
        .and_then(|()| Ok(rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK)?))
        .map_err(|error| failed("writing into", &folder, &error))
}

/// Writes a record with its secrets masked. The write is atomic: a temporary file is synced and
/// renamed. Returns the path of the record.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write_record(record: &BuildRecord) -> Result<PathBuf, Failure> {
    let folder = records_folder()?;
    let path = folder.join(format!("{}.json", record.id));
    let write = || {
        fs::create_dir_all(&folder)?;
        let mut file = AtomicWriteFile::open(&path)?;
        file.write_all(without_secrets(record).to_text().as_bytes())?;
        file.commit()
    };
    write().map_err(|error| failed("writing", &path, &error))?;
    Ok(path)
}

/// Returns a record in which all secrets are masked. The plan is unchanged, so its digest stays the
/// same; plans never contain secrets.
fn without_secrets(record: &BuildRecord) -> BuildRecord {
    let Ok(mut document) = serde_json::to_value(record) else { return record.clone() };
    if let Some(fields) = document.as_object_mut() {
        let others = fields.iter_mut().filter(|(key, _)| *key != "plan");
        others.for_each(|(_, one)| sanitise_json(one));
    }
    serde_json::from_value(document).unwrap_or_else(|_| record.clone())
}

/// Returns the files of all records, oldest first.
fn record_files() -> Result<Vec<PathBuf>, Failure> {
    let folder = records_folder()?;
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("reading", &folder, &error)),
        Ok(entries) => entries,
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

fn read_record(path: &Path) -> Result<BuildRecord, String> {
    // Reading a FIFO would block.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    BuildRecord::parse(&text).map_err(|error| error.to_string())
}

/// Returns how long each step of an image took last time, in milliseconds, from the latest runs.
/// This is only for display. Skips unreadable records.
pub fn last_times(image: &str) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    let files = record_files().unwrap_or_default();
    let named = format!("-{image}-");
    let is_of_it = |path: &&PathBuf| path.to_string_lossy().contains(&named);
    for path in files.iter().rev().filter(is_of_it).take(LATEST) {
        let record = read_record(path).ok().filter(|record| record.plan.name == image);
        for outcome in record.iter().flat_map(|record| &record.steps) {
            if outcome.state == StepState::Done {
                times.entry(outcome.step.clone()).or_insert(outcome.milliseconds);
            }
        }
    }
    times
}

/// Reads all records, oldest first. `warn` gets the name and the message of a warning about each
/// file that is not a record.
///
/// # Errors
/// The folder of records cannot be read.
pub fn read_records(warn: impl Fn(&str, &str)) -> Result<Vec<BuildRecord>, Failure> {
    let mut records = Vec::new();
    for path in record_files()? {
        match read_record(&path) {
            Ok(record) => records.push(record),
            Err(why) => warn(
                "unreadable-record",
                &format!("skipping `{}`: {why}; remove it if you do not need it", path.display()),
            ),
        }
    }
    Ok(records)
}

/// Returns the name of a project in records: the path of its folder, without links.
pub fn name_of(root: &Path) -> String {
    root.canonicalize().as_deref().unwrap_or(root).display().to_string()
}

/// Returns the name of a project in folder names: its own folder's name, with a short hash of its
/// path.
pub fn short_name_of(root: &Path) -> String {
    let path = name_of(root);
    let folder = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let folder: String = folder.chars().take(40).map(plain).collect();
    format!("{folder}-{}", &Digest::of(path.as_bytes()).hex()[..8])
}

/// Returns the other project that built the image of a plan, unless the project in `root` built it
/// too. `plan` is the digest of the plan. Skips unreadable records.
pub fn builder_elsewhere(root: &Path, image: &str, plan: &str) -> Option<String> {
    let named = format!("-{image}-");
    let files = record_files().ok()?;
    let files = files.iter().rev().filter(|path| path.to_string_lossy().contains(&named));
    let records = files.filter_map(|path| read_record(path).ok());
    let records: Vec<BuildRecord> =
        records.filter(|record| record.plan.digest().as_str() == plan).collect();
    if records.iter().any(|record| is_of_project(record, root)) {
        return None;
    }
    Some(records.into_iter().next()?.place?.project)
}

/// Returns whether a record belongs to the project in `root`. A record from an older version
/// belongs to all projects, and so does a record of a project that was moved or removed.
pub fn is_of_project(record: &BuildRecord, root: &Path) -> bool {
    let Some(place) = &record.place else { return true };
    let other = Path::new(&place.project);
    place.project == name_of(root) || !other.join("versions/versions.toml").exists()
}

/// Reads the records of the project in `root` like [`read_records`].
///
/// # Errors
/// The folder of records cannot be read.
pub fn read_records_of(
    root: &Path,
    warn: impl Fn(&str, &str),
) -> Result<Vec<BuildRecord>, Failure> {
    let mut records = read_records(warn)?;
    records.retain(|record| is_of_project(record, root));
    Ok(records)
}

/// Returns the record of the last successful build of an image of the project in `root`. Skips
/// unreadable records.
pub fn last_build(root: &Path, image: &str) -> Option<BuildRecord> {
    let files = record_files().ok()?;
    let named = format!("-{image}-");
    let is_of_it = |path: &&PathBuf| path.to_string_lossy().contains(&named);
    let mut records = files.iter().rev().filter(is_of_it).filter_map(|path| read_record(path).ok());
    records.find(|record| {
        record.plan.name == image
            && record.status == Status::Succeeded
            && is_of_project(record, root)
    })
}

/// Returns the ID of a run that is newer than `last`, and made an image of the same name with this
/// digest in the project in `root`. The run itself may have failed at another output. Skips
/// unreadable records.
pub fn newer_build(root: &Path, last: &BuildRecord, digest: &Digest) -> Option<String> {
    let files = record_files().ok()?;
    let named = format!("-{}-", last.plan.name);
    let is_of_it = |path: &&PathBuf| path.to_string_lossy().contains(&named);
    let mut records = files.iter().rev().filter(is_of_it).filter_map(|path| read_record(path).ok());
    let is_the_one = |record: &BuildRecord| {
        record.plan.name == last.plan.name
            && record.began > last.began
            && record.image.as_ref().is_some_and(|image| image.manifest_digest == *digest)
            && is_of_project(record, root)
    };
    records.find(is_the_one).map(|record| record.id)
}

/// Returns the path of an output of a run in the project in `root`.
pub fn output_path(record: &BuildRecord, root: &Path, path: &str) -> PathBuf {
    let folder = record.place.as_ref().map_or(root, |place| Path::new(&place.folder));
    folder.join(path)
}

/// Decides which records are old.
#[derive(Debug, Clone, Copy)]
pub enum Old {
    /// All except the given number of newest records.
    Beyond(usize),
    /// The records of runs that started before the given time.
    Before(Timestamp),
}

/// Returns the old records among `records`, which are sorted from the oldest to the newest. For
/// each image of a project, the newest record is kept, and so is the newest record of a successful
/// build, because `explain` needs it. Records of running builds are kept too.
pub fn old_records(records: &[BuildRecord], old: Old) -> Vec<&BuildRecord> {
    let (mut seen, mut succeeded) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (newer, record) in records.iter().rev().enumerate() {
        let project = record.place.as_ref().map(|place| place.project.as_str());
        let name = (project, record.plan.name.as_str());
        let is_newest = seen.insert(name);
        let is_needed = record.status == Status::Succeeded && succeeded.insert(name);
        let is_old = match old {
            Old::Beyond(count) => newer >= count,
            Old::Before(time) => record.began.parse().is_ok_and(|began: Timestamp| began < time),
        };
        if is_old && !is_newest && !is_needed && !is_under_way(record) {
            found.push(record);
        }
    }
    found.reverse();
    found
}

/// Removes a record.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_record(record: &BuildRecord) -> Result<(), Failure> {
    let path = records_folder()?.join(format!("{}.json", record.id.replace('/', "_")));
    match fs::remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|error| failed("removing", &path, &error)),
    }
}

/// Returns whether the process of an unfinished record is still running.
pub fn is_alive(record: &BuildRecord) -> bool {
    is_process(record.process)
}

/// Returns whether the run of a record is still in progress.
pub fn is_under_way(record: &BuildRecord) -> bool {
    record.status == Status::Running && is_alive(record)
}

/// Returns whether a process with this ID exists.
pub fn is_process(number: u32) -> bool {
    Path::new("/proc").join(number.to_string()).is_dir()
}
