//! Reads the patch files of the project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use failure::{Failure, Kind, nearest};
use patcher::{Patch, PatchPlace, PatchSet, PatchSetError, parse_patch_at};

use crate::built_in;
use crate::folder::Project;

/// The folder of patches, from the project's root.
const FOLDER: &str = "patches";

/// Returns the names of the components that have patches, in order.
///
/// # Errors
/// The folder cannot be read.
pub fn components(project: &Project) -> Result<Vec<String>, Failure> {
    let mut names = BTreeSet::new();
    if project.has_own(FOLDER) {
        let folders = entries(&project.root.join(FOLDER))?.into_iter().filter(|path| path.is_dir());
        names.extend(folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())));
    }
    if project.has_built_in() {
        names.extend(built_in::names_in(FOLDER).into_iter().map(str::to_owned));
    }
    Ok(names.into_iter().collect())
}

/// Reads the patches of a component. Reports all problems in all its files at once.
///
/// # Errors
/// There is no such component, or a file cannot be read or is wrong.
pub fn read(project: &Project, component: &str) -> Result<Vec<Patch>, Failure> {
    let known = components(project)?;
    if !known.iter().any(|name| name == component) {
        let told =
            Failure::new(Kind::Input, format!("there are no patches for component `{component}`"));
        return Err(match nearest(component, known.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => told.hint("a patch is a file `patches/COMPONENT/ID.toml`"),
            None => told.hint(format!("`patches/` has {}", known.join(", "))),
        });
    }
    let mut ids = BTreeSet::new();
    let folder = format!("{FOLDER}/{component}");
    if project.has_own(&folder) {
        for path in entries(&project.root.join(&folder))? {
            ids.extend(id_of(&path)?);
        }
    }
    if project.has_built_in() {
        for name in built_in::names_in(&folder) {
            ids.extend(id_of(Path::new(name))?);
        }
    }
    let mut patches = Vec::new();
    let mut problems = Vec::new();
    for id in ids {
        let name = file_of(component, &id);
        let text =
            project.text(&name).map_err(|error| failed(&project.root.join(&name), &error))?;
        match parse_patch_at(&name, &text, PatchPlace { component, id: &id }) {
            Ok(patch) => patches.push(patch),
            Err(error) => problems.push((error, text.to_string())),
        }
    }
    if problems.is_empty() { Ok(patches) } else { Err(Failure::all_places(problems)) }
}

/// Returns the path of a patch file, relative to the project's root.
pub fn file_of(component: &str, id: &str) -> String {
    format!("patches/{component}/{id}.toml")
}

/// Returns the patch id in a file name. Refuses a file that looks like a misnamed patch, so that no
/// patch is skipped silently.
fn id_of(path: &Path) -> Result<Option<String>, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') || name.ends_with('~') || name.starts_with("README") {
        return Ok(None);
    }
    match name.strip_suffix(".toml").filter(|id| !id.is_empty()) {
        Some(id) => Ok(Some(id.to_owned())),
        None => Err(Failure::new(
            Kind::Input,
            format!("`{}` is not a patch file: its name does not end with `.toml`", path.display()),
        )
        .hint("rename it to `ID.toml` to use it, or move it out of the folder")),
    }
}

/// Returns a set of the given patches, or of all patches if none is given.
///
/// # Errors
/// There is no such patch, or the patches do not fit together.
pub fn select(patches: Vec<Patch>, only: &[String]) -> Result<PatchSet, Failure> {
    let ids: Vec<String> = patches.iter().map(|patch| patch.id.clone()).collect();
    if let Some(id) = only.iter().find(|id| !ids.contains(id)) {
        let told = Failure::new(Kind::Input, format!("there is no patch `{id}`"));
        return Err(match nearest(id, ids.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `--only {near}`?")),
            None => told.hint(format!("known patches are {}", ids.join(", "))),
        });
    }
    let is_wanted = |patch: &Patch| only.is_empty() || only.contains(&patch.id);
    let wanted = patches.into_iter().filter(is_wanted).collect();
    PatchSet::new(wanted).map_err(|error| {
        let told = Failure::from_chain(Kind::Input, &error);
        match &error {
            PatchSetError::Missing { required, .. } => {
                told.hint(format!("add `--only {required}`, or leave out `--only`"))
            }
            PatchSetError::Duplicate(_) => told.hint("rename one of the two"),
            PatchSetError::Components { .. } | PatchSetError::Cycle(_) => {
                told.hint("the tables `[relations]` in the patch files list their requirements")
            }
        }
    })
}

/// Reads the patches of a component as one set.
///
/// # Errors
/// Like [`read`] and [`select`].
pub fn read_set(project: &Project, component: &str) -> Result<PatchSet, Failure> {
    select(read(project, component)?, &[])
}

/// Reads the patches of every component.
///
/// # Errors
/// Like [`read`].
pub fn read_all(project: &Project) -> Result<BTreeMap<String, Vec<Patch>>, Failure> {
    let components = components(project)?;
    components.into_iter().map(|name| Ok((name.clone(), read(project, &name)?))).collect()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    paths.map_err(|error| failed(folder, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::caused(Kind::Input, format!("reading `{}` failed", path.display()), error)
        .hint("`git checkout -- patches` restores the files")
}
