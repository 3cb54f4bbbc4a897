//! Reads the project's patch files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use patcher::{Patch, PatchPlace, PatchSet, PatchSetError, parse_patch_at};

use crate::folder::Project;
use crate::{built_in, recipe};

/// The folder of patches, from the project's root.
const FOLDER: &str = "patches";

/// Returns the names of the components that have patches, in order.
///
/// # Errors
/// The folder cannot be read.
pub fn components(project: &Project) -> Result<Vec<String>, Failure> {
    let mut names = BTreeSet::new();
    if project.has_own(FOLDER) {
        let folders = entries(project, FOLDER)?.into_iter().filter(|path| path.is_dir());
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
/// There is no such component, or a file cannot be read or is invalid.
pub fn read(project: &Project, component: &str) -> Result<Vec<Patch>, Failure> {
    let known = components(project)?;
    if !known.iter().any(|name| name == component) {
        let told =
            Failure::new(Kind::Input, format!("there are no patches for component `{component}`"));
        let folder = format!("{FOLDER}/{component}");
        if recipe::is_committed(&project.root, &folder) {
            return Err(told.hint(format!(
                "`git checkout HEAD -- {folder}` restores the last committed version"
            )));
        }
        let otherwise = if known.is_empty() {
            "a patch is a file `patches/COMPONENT/ID.toml`".to_owned()
        } else {
            format!("the components are {}", known.join(", "))
        };
        return Err(told.did_you_mean(component, known.iter().map(String::as_str), otherwise));
    }
    let mut patches = Vec::new();
    let mut problems = Vec::new();
    for id in ids(project, component)? {
        let name = file_of(component, &id);
        let text = project.told_text(&name)?;
        match parse_patch_at(&name, &text, PatchPlace { component, id: &id }) {
            Ok(patch) => patches.push(patch),
            Err(error) => problems.push((error, text.to_string())),
        }
    }
    if problems.is_empty() { Ok(patches) } else { Err(Failure::all_places(problems)) }
}

/// Returns the ids of a component's patches, in order.
fn ids(project: &Project, component: &str) -> Result<BTreeSet<String>, Failure> {
    let mut ids = BTreeSet::new();
    let folder = format!("{FOLDER}/{component}");
    if project.has_own(&folder) {
        for path in entries(project, &folder)? {
            ids.extend(id_of(&path)?);
        }
    }
    if project.has_built_in() {
        for name in built_in::names_in(&folder) {
            ids.extend(id_of(Path::new(name))?);
        }
    }
    Ok(ids)
}

/// Returns whether a project has exactly the patches of the program.
///
/// # Errors
/// A folder or file cannot be read.
pub fn are_built_in(project: &Project) -> Result<bool, Failure> {
    let components = components(project)?;
    let mut is_same = components.iter().eq(built_in::names_in(FOLDER));
    for component in &components {
        let ids = ids(project, component)?;
        is_same &= built_in::names_in(&format!("{FOLDER}/{component}")).len() == ids.len();
        for id in &ids {
            let name = file_of(component, id);
            is_same &= built_in::text(&name) == Some(&*project.told_text(&name)?);
        }
    }
    Ok(is_same)
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

/// Returns a set of the patches whose ids are in `only`, or of all patches if `only` is empty.
///
/// # Errors
/// There is no such patch, or the patches cannot be used together.
pub fn select(patches: Vec<Patch>, only: &[String]) -> Result<PatchSet, Failure> {
    let ids: Vec<String> = patches.iter().map(|patch| patch.id.clone()).collect();
    if let Some(id) = only.iter().find(|id| !ids.contains(id)) {
        let told = Failure::new(Kind::Input, format!("there is no patch `{id}`"));
        let otherwise = format!("the patches are {}", ids.join(", "));
        return Err(told.did_you_mean(id, ids.iter().map(String::as_str), otherwise));
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

fn entries(project: &Project, folder: &str) -> Result<Vec<PathBuf>, Failure> {
    let folders = project.check_inside(folder);
    let paths = folders.and_then(|()| std::fs::read_dir(project.root.join(folder)));
    let paths = paths.and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
    });
    paths.map_err(|error| project.unreadable(folder, &error))
}
