//! Reads the patch files of the project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patcher::{Patch, PatchSet, PatchSetError, parse_patch};

use crate::error::{CommandError, nearest};
use crate::exit_code::ExitCode;
use crate::project::{Project, read_text};

/// Returns the names of the components that there are patches for, in order.
pub(crate) fn components(project: &Project) -> Result<Vec<String>, CommandError> {
    let folder = project.root.join("patches");
    let mut names: Vec<String> = entries(&folder)?
        .into_iter()
        .filter(|path| path.is_dir())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Reads the patches of a component; all problems of all its files are reported at once.
pub(crate) fn read(project: &Project, component: &str) -> Result<Vec<Patch>, CommandError> {
    let known = components(project)?;
    if !known.iter().any(|name| name == component) {
        let told = CommandError::new(
            ExitCode::Input,
            format!("there are no patches for a component `{component}`"),
        );
        return Err(match nearest(component, known.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `{near}`?")),
            None => told.hint(format!("`patches/` has {}", known.join(", "))),
        });
    }
    let mut files: Vec<PathBuf> = entries(&project.root.join("patches").join(component))?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut patches = Vec::new();
    let mut problems = Vec::new();
    for path in files {
        let name = path.strip_prefix(&project.root).unwrap_or(&path).display().to_string();
        let text = read_text(&path).map_err(|error| failed(&path, &error))?;
        match parse_patch(&name, &text) {
            Ok(patch) if patch.component == component => patches.push(patch),
            Ok(patch) => {
                return Err(CommandError::new(
                    ExitCode::Input,
                    format!("`{name}` is for component `{}`", patch.component),
                )
                .hint(format!("move it to `patches/{}/`", patch.component)));
            }
            Err(error) => problems.push((error, text)),
        }
    }
    match problems.is_empty() {
        true => Ok(patches),
        false => Err(CommandError::all_places(problems)),
    }
}

/// Makes a set of the patches that were asked for; of all of them where none was named.
pub(crate) fn select(patches: Vec<Patch>, only: &[String]) -> Result<PatchSet, CommandError> {
    let ids: Vec<String> = patches.iter().map(|patch| patch.id.clone()).collect();
    if let Some(id) = only.iter().find(|id| !ids.contains(id)) {
        let told = CommandError::new(ExitCode::Input, format!("there is no patch `{id}`"));
        return Err(match nearest(id, ids.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `--only {near}`?")),
            None => told.hint(format!("there are {}", ids.join(", "))),
        });
    }
    let is_wanted = |patch: &Patch| only.is_empty() || only.contains(&patch.id);
    let wanted = patches.into_iter().filter(is_wanted).collect();
    PatchSet::new(wanted).map_err(|error| {
        let told = CommandError::from_chain(ExitCode::Input, &error);
        match &error {
            PatchSetError::Missing { required, .. } => {
                told.hint(format!("add `--only {required}`, or leave `--only` out"))
            }
            PatchSetError::Duplicate(_) => told.hint("rename one of the two"),
            PatchSetError::Components { .. } | PatchSetError::Cycle(_) => {
                told.hint("the tables `[relations]` of the patch files say what requires what")
            }
        }
    })
}

/// Reads the patches of every component.
pub(crate) fn read_all(project: &Project) -> Result<BTreeMap<String, Vec<Patch>>, CommandError> {
    let components = components(project)?;
    components.into_iter().map(|name| Ok((name.clone(), read(project, &name)?))).collect()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let entries = std::fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn failed(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::caused(ExitCode::Input, format!("reading `{}` failed", path.display()), error)
        .hint("`git checkout -- patches` brings the files back")
}
