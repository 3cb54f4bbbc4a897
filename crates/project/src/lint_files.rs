//! Reads the files that `lint` checks, and looks for the files that these refer to.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use failure::{Failure, Kind};
use lint::report::Skipped;
use lint::{Context, Exists, Facts, Finding};

use crate::built_in;
use crate::clock::today;
use crate::folder::{DATA_FILES, Project, read_bytes};
use crate::kinds::{PathKind, refuse_others};
use crate::lint_folder::{InFolder, files_in};

/// The result of checking files.
#[derive(Debug)]
pub struct Checked {
    /// The findings, file by file.
    pub findings: Vec<Finding>,
    /// The number of files that were checked.
    pub files: usize,
    /// The files in folders that seem to have a known kind, but were not checked.
    pub skipped: Vec<Skipped>,
    /// The first file that could not be read; it is reported after the findings in the others.
    pub failed: Option<Failure>,
}

/// Checks the files and folders `names`, which are relative to `here`, or the project's own files
/// if there are no names. Of a folder, the files of a known kind are checked. Files outside a project can also be checked; inside a project, the project's data is
/// used. `gpu` is the target that all files are for. The project's default target is only for files
/// in the project's folder.
///
/// # Errors
/// A data file of the project is wrong, `gpu` is not a known target, or there is neither a project nor a
/// name.
pub fn check(here: &Path, names: &[PathBuf], gpu: Option<&str>) -> Result<Checked, Failure> {
    let project = Project::find(here);
    let compat = match &project {
        Ok(project) => project.compat()?,
        Err(_) => None,
    };
    let compat = match compat {
        Some(compat) => compat,
        None => {
            let (name, text) = lint::data::COMPAT;
            pins::parse_compat(name, text)
                .map_err(|error| Failure::from_chain(Kind::Bug, &error))?
        }
    };
    let gpu = gpu.map(|text| Project::find_or_built_in(here).known_gpu(text)).transpose()?;
    let project_gpu = project.as_ref().ok().and_then(|project| project.default_gpu().ok());
    // If the pins are invalid, tracks are checked without them: the pins must be corrected first.
    let pins = project.as_ref().ok().and_then(|project| project.pins().ok());
    let has_built_in = project.as_ref().is_ok_and(Project::has_built_in);
    let tracks = project.as_ref().ok().and_then(|project| project.built_in_tracks().ok()?);
    let root = project.as_ref().map_or_else(|_| here.to_owned(), |project| project.root.clone());
    let Read { files, mut findings, skipped, failed } = match names {
        [] => of_project(&project.map_err(|told| told.first_hint(ANY_FOLDER))?),
        names => read_all(here, names),
    };
    let facts: Vec<Facts<'_>> = files.iter().map(|(name, text)| Facts::read(name, text)).collect();
    let defined = facts.iter().flat_map(Facts::defined).map(str::to_owned).collect();
    let built = facts.iter().flat_map(|one| one.built.iter().cloned()).collect();
    let (_, day) = today()?;
    let here = if names.is_empty() { root.as_path() } else { here };
    let folder = Folder { here, root: &root, has_built_in };
    let context = Context {
        compat: Some(&compat),
        today: Some(&day),
        defined: Some(&defined),
        built: Some(&built),
        pins: pins.as_ref(),
        tracks: tracks.as_ref(),
        exists: Some(&folder),
        gpu: gpu.as_ref(),
        project_gpu: None,
    };
    findings.extend(facts.into_iter().flat_map(|one| {
        let project_gpu = project_gpu.as_ref().filter(|_| is_below(&root, &here.join(one.file)));
        lint::check_facts(one, Context { project_gpu, ..context })
    }));
    Ok(Checked { findings, files: files.len(), skipped, failed })
}

/// What to do outside of a project.
const ANY_FOLDER: &str = "`build-pipeline lint .` checks the files below this folder";

/// Returns whether a file is in a folder, or in a folder below it.
fn is_below(folder: &Path, file: &Path) -> bool {
    let full = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full(file).starts_with(full(folder))
}

/// The folders that paths in the checked files may be relative to.
#[derive(Debug)]
struct Folder<'a> {
    /// The folder that file names on the command line are relative to.
    here: &'a Path,
    /// The root of the project, or the working folder if there is none.
    root: &'a Path,
    /// Whether the project uses the built-in data files.
    has_built_in: bool,
}

impl Exists for Folder<'_> {
    fn exists(&self, file: &str, path: &str) -> Option<bool> {
        let file = self.here.join(file);
        let beside = file.parent().unwrap_or(self.here);
        let repository = beside.ancestors().find(|folder| folder.join(".git").exists());
        // Outside a repository and a project, a missing file may simply be somewhere else.
        let is_known =
            repository.is_some() || beside.starts_with(self.root) && is_project(self.root);
        let places = [Some(beside), repository, Some(self.here), Some(self.root)];
        let is_built_in = self.has_built_in && built_in::text(path).is_some();
        if is_built_in || places.into_iter().flatten().any(|folder| folder.join(path).exists()) {
            return Some(true);
        }
        is_known.then_some(false)
    }

    fn compose_files(&self, file: &str) -> Vec<String> {
        let file = self.here.join(file);
        let beside = file.parent().unwrap_or(self.here);
        let texts = compose_files_in(beside);
        if !texts.is_empty() {
            return texts;
        }
        COMPOSE_FOLDERS.iter().flat_map(|name| compose_files_in(&beside.join(name))).collect()
    }

    fn beside(&self, file: &str) -> Vec<(String, String)> {
        let file = self.here.join(file);
        let folder = file.parent().unwrap_or(self.here);
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let all: BTreeSet<String> = names.filter(|name| is_program(name)).collect();
        let is_small = |name: &String| {
            std::fs::metadata(folder.join(name)).is_ok_and(|one| one.len() <= LARGEST_BESIDE)
        };
        let read = |name: String| {
            let bytes = read_bytes(&folder.join(&name)).ok()?;
            Some((name, String::from_utf8(bytes).ok()?))
        };
        all.into_iter().filter(is_small).take(MOST_BESIDE).filter_map(read).collect()
    }

    fn text(&self, file: &str, path: &str) -> Option<String> {
        let file = self.here.join(file);
        self.read_in(file.parent().unwrap_or(self.here), path)
    }

    fn place(&self, file: &str) -> Option<String> {
        let full = self.here.join(file).canonicalize().ok()?;
        let beside = full.parent()?;
        let top = beside.ancestors().find(|folder| folder.join(".git").exists())?;
        full.strip_prefix(top.parent()?).ok().map(|path| path.display().to_string())
    }

    fn in_context(&self, file: &str, path: &str) -> Option<String> {
        let full = self.here.join(file);
        let beside = full.parent().unwrap_or(self.here);
        let top = self.top(beside);
        let above = beside.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
        self.text(file, path).or_else(|| above.into_iter().find_map(|one| self.read_in(one, path)))
    }

    fn is_in_context(&self, file: &str, path: &str) -> bool {
        let full = self.here.join(file);
        let beside = full.parent().unwrap_or(self.here);
        let top = self.top(beside);
        let mut above = beside.ancestors().take_while(|folder| folder.starts_with(top));
        above.any(|folder| folder.join(path).exists())
            || self
                .compose_files(file)
                .iter()
                .any(|text| contexts(text).any(|context| beside.join(context).join(path).exists()))
    }
}

impl Folder<'_> {
    /// Returns the folder above which no file is read: the repository, or the folder in which the
    /// program was started.
    fn top<'p>(&'p self, beside: &'p Path) -> &'p Path {
        beside.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(self.here)
    }

    /// Returns the text of a file, if its path leads to no place above the repository.
    fn read_in(&self, folder: &Path, path: &str) -> Option<String> {
        let path = Path::new(path);
        let is_inside =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_relative =
            path.components().all(|one| is_inside(one) || one == Component::ParentDir);
        let full = folder.join(path);
        let is_known = path.components().all(is_inside) || is_below(self.top(folder), &full);
        if !(is_relative && is_known) {
            return None;
        }
        String::from_utf8(read_bytes(&full).ok()?).ok()
    }
}

/// Returns the contexts of the builds in a compose file.
fn contexts(text: &str) -> impl Iterator<Item = &str> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("context:"));
    values.map(|value| value.trim().trim_matches(['"', '\'']))
}

/// Folders in which the compose files for an environment file often are.
const COMPOSE_FOLDERS: [&str; 3] = ["compose", "deploy", "docker"];

/// Returns the texts of the compose files in a folder.
fn compose_files_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let all: BTreeSet<String> = names.filter(|name| is_compose(name)).collect();
    let texts =
        all.iter().take(MOST_COMPOSE).filter_map(|name| read_bytes(&folder.join(name)).ok());
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// The maximum number of compose files that are read in a folder.
const MOST_COMPOSE: usize = 20;

/// The maximum number of files in the folder of a file that are read.
const MOST_BESIDE: usize = 40;

/// The maximum size of such a file.
const LARGEST_BESIDE: u64 = 200_000;

/// Returns whether a file has the name of a script, unit, quadlet, manifest or Dockerfile.
fn is_program(name: &str) -> bool {
    let quadlets = [".build", ".container", ".image", ".kube", ".network", ".pod", ".volume"];
    let others = [".service", ".sh", ".yaml", ".yml"];
    quadlets.iter().chain(&others).any(|end| name.ends_with(end))
        || name.contains("Dockerfile")
        || name.contains("Containerfile")
        || matches!(name, "Makefile" | "justfile")
}

/// Returns whether a file has the name of a compose file, for example `docker-compose.rocm.yml`.
fn is_compose(name: &str) -> bool {
    (name.starts_with("compose") || name.starts_with("docker-compose"))
        && (name.ends_with(".yml") || name.ends_with(".yaml"))
}

/// Returns whether a folder is the root of a project.
fn is_project(root: &Path) -> bool {
    root.join(DATA_FILES[0]).exists()
}

/// The files that could be read, and the problems with the others.
#[derive(Debug, Default)]
struct Read {
    /// The names and texts.
    files: Vec<(String, String)>,
    /// The files that are not text.
    findings: Vec<Finding>,
    /// The files in folders that are not checked.
    skipped: Vec<Skipped>,
    /// The first file that could not be read.
    failed: Option<Failure>,
}

/// The kinds of files that are found in folders.
const KINDS: &str = "it knows Dockerfiles, compose and environment files, shell scripts, Python requirements, Kubernetes manifests, quadlets, systemd units, CI workflows, and a project's pins and tracks";

/// Reads files, and those below folders that have a kind of their own.
fn read_all(here: &Path, names: &[PathBuf]) -> Read {
    let (mut files, mut skipped, mut failed) = (Vec::new(), Vec::new(), None);
    for name in names {
        if !here.join(name).is_dir() || PathKind::of(&here.join(name)).is_some() {
            files.push(name.clone());
            continue;
        }
        let InFolder { files: found, skipped: others, failed: unread } = files_in(here, name);
        if let Some((path, error)) = unread {
            let what = format!("reading `{}` failed", path.display());
            let told = Failure::caused(Kind::Input, what, &error);
            failed.get_or_insert(told.hint("check the permissions of the folder"));
        } else if found.is_empty() {
            let shown = name.display();
            let what = if others.is_empty() {
                format!("`{shown}` contains no file of a kind that `lint` knows")
            } else {
                format!("`{shown}` contains no file that `lint` can check")
            };
            let next = "a file that is named is always checked: `build-pipeline lint FILE`";
            failed.get_or_insert(Failure::new(Kind::Input, what).hint(KINDS).hint(next));
        }
        files.extend(found);
        skipped.extend(others);
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let read = read(here, &files);
    Read { skipped, failed: failed.or(read.failed), ..read }
}

/// Reads files; a file that cannot be read does not stop the others.
fn read(here: &Path, names: &[PathBuf]) -> Read {
    let mut read = Read::default();
    for path in names {
        let name = path.display().to_string();
        // Lists of files, as `git ls-files` prints them, may contain any text.
        let texts = [PathKind::Record, PathKind::Plan, PathKind::Dockerfile, PathKind::Log];
        if let Err(told) = refuse_others(&here.join(path), &name, "a text file", &texts) {
            read.failed.get_or_insert(told);
            continue;
        }
        let bytes = match read_bytes(&here.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "check the path",
                    _ => {
                        "pass folders or text files: `build-pipeline lint .`, `build-pipeline lint run.sh .env`"
                    }
                };
                let told = Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
                    .hint(hint);
                read.failed.get_or_insert(told);
                continue;
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => read.files.push((name, text)),
            Err(error) => {
                let line =
                    |end| error.as_bytes()[..end].iter().filter(|b| **b == b'\n').count() + 1;
                let line = line(error.utf8_error().valid_up_to());
                read.findings.extend(lint::not_utf8(&name, line, error.as_bytes()));
                if !lint::is_binary(error.as_bytes()) {
                    read.files.push((name, String::from_utf8_lossy(error.as_bytes()).into_owned()));
                }
            }
        }
    }
    read
}

/// Reads the pins, the tracks, the requirements of Python locks, and everything below
/// `dockerfiles/`.
fn of_project(project: &Project) -> Read {
    let data = ["versions/versions.toml", "versions/tracks.toml", "versions/python.toml"];
    let mut names: Vec<PathBuf> = data.map(PathBuf::from).into();
    names.retain(|name| project.root.join(name).exists());
    let mut failed = None;
    let mut is_inside = |name: &PathBuf| {
        let name = name.to_string_lossy();
        let checked = project.check_inside(&name);
        if let Err(error) = &checked {
            failed.get_or_insert_with(|| project.unreadable(&name, error));
        }
        checked.is_ok()
    };
    names.retain(&mut is_inside);
    let mut folders = vec![PathBuf::from("dockerfiles")];
    folders.retain(&mut is_inside);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(project.root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let name = folder.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(name),
                Ok(kind) if kind.is_file() => names.push(name),
                Ok(_) | Err(_) => {}
            }
        }
    }
    names.sort();
    let read = read(&project.root, &names);
    Read { failed: failed.or(read.failed), ..read }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_up_to_the_top_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("repository");
        fs::create_dir_all(here.join("docker")).unwrap();
        fs::create_dir_all(here.join(".git")).unwrap();
        fs::write(folder.path().join("outside.txt"), "outside").unwrap();
        fs::write(here.join("list.txt"), "inside").unwrap();
        let read = Folder { here: &here, root: &here, has_built_in: true };
        let inside = Some("inside".to_owned());
        assert_eq!(read.text("docker/Dockerfile", "../list.txt"), inside);
        assert_eq!(read.in_context("docker/Dockerfile", "list.txt"), inside);
        for outside in ["../../outside.txt", "/etc/hostname", "../docker/../../outside.txt"] {
            assert_eq!(read.text("docker/Dockerfile", outside), None, "{outside}");
            assert_eq!(read.in_context("docker/Dockerfile", outside), None, "{outside}");
        }
        assert_eq!(read.in_context("docker/Dockerfile", "outside.txt"), None);
    }

    #[test]
    fn small_scripts_units_and_manifests_are_beside_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let names = ["Dockerfile", "a.env", "b.volume", "c.yaml", "main.py", "start.sh"];
        for name in names {
            fs::write(here.join(name), name).unwrap();
        }
        fs::write(here.join("large.sh"), vec![b'a'; 200_001]).unwrap();
        fs::write(here.join("binary.sh"), [0xff, 0xfe]).unwrap();
        let read = Folder { here, root: here, has_built_in: true };
        let beside = read.beside("a.env");
        let found: Vec<&str> = beside.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, ["Dockerfile", "b.volume", "c.yaml", "start.sh"]);
        assert!(beside.iter().all(|(name, text)| name == text));
    }
}
