//! Folders that belong to root, but to which another user must write: a command of the build, or the
//! program of the image.

use super::folder::is_root;
use crate::image::effects::{Effect, base_name};
use crate::image::files::{Presence, is_below};
use crate::image::{State, Step};
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Context, Facts, Findings, Hit, Severity};

/// Checks one step of a build.
pub(super) fn at(
    facts: &Facts<'_>,
    context: Context<'_>,
    state: &State,
    step: &Step<'_>,
    found: &mut Findings<'_>,
) {
    if is_root(&state.user) || state.user.contains(UNKNOWN) {
        return;
    }
    match step {
        Step::Command { own, command, effects, is_sure: true } => {
            let Some(path) = refused(state, command, effects) else { return };
            let message =
                format!("`{}` cannot write to `{path}`, which belongs to root", state.user);
            let hit = Hit::new(RULE, command.words[0].line, message);
            let may_go_on = own.text.contains(';');
            found.hit(if may_go_on { hit.at_most(Severity::Warning) } else { hit });
        }
        Step::End { stage } if *stage == facts.stages.len() => {
            let files =
                context.exists.map_or_else(Vec::new, |files| files.compose_files(facts.file));
            // A compose file can choose another user, or mount the folder.
            if files.iter().any(|text| text.contains("user:")) {
                return;
            }
            let is_mounted = |path: &str| files.iter().any(|text| text.contains(path));
            caches(state, &is_mounted, found);
            empty(state, &is_mounted, found);
        }
        _ => {}
    }
}

const RULE: &str = "folder-not-writable";

/// Programs that write to the folder in which they run.
const LOCAL: [&str; 5] = ["make", "npm", "pnpm", "uv", "yarn"];

/// Returns the path to which a command writes although its user cannot do so.
fn refused(state: &State, command: &ShellCommand, effects: &[Effect]) -> Option<String> {
    let is_refused = |path: &String| state.files.can_write(&state.user, path) == Some(false);
    let own = effects.iter().find_map(|effect| match effect {
        Effect::File(path) | Effect::Folder { path, .. } => {
            let path = state.path(command, path);
            // `mkdir -p` changes nothing if the folder exists.
            let is_there = matches!(effect, Effect::Folder { .. })
                && state.files.find(&path) != Presence::Absent;
            Some(path).filter(|path| !is_there && is_refused(path))
        }
        Effect::Tree(path) => Some(state.path(command, path)).filter(is_refused),
        Effect::Inside(path) if path == "." => Some(state.path(command, path)).filter(is_refused),
        _ => None,
    });
    let program = base_name(&command.words[0].text);
    let second = command.words.get(1).map(|word| word.text.as_str());
    let is_local = LOCAL.contains(&program)
        && !matches!(second, Some("-C" | "config" | "pip" | "tool" | "python" | "cache" | "-g"))
        && !command
            .words
            .iter()
            .any(|word| matches!(word.text.as_str(), "-g" | "--global" | "--version"));
    let here = || Some(state.folder_of(command)).filter(|path| is_local && is_refused(path));
    own.or_else(here)
}

/// Variables that name a folder to which a program writes.
const CACHES: [&str; 22] = [
    "DIFFUSERS_CACHE",
    "GRADIO_TEMP_DIR",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "MIOPEN_CUSTOM_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "OLLAMA_MODELS",
    "PYTHONPYCACHEPREFIX",
    "SENTENCE_TRANSFORMERS_HOME",
    "TEMP",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_HOME",
    "TRANSFORMERS_CACHE",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Checks for variables that name a folder to which the program of the image cannot write.
fn caches(state: &State, is_mounted: &dyn Fn(&str) -> bool, found: &mut Findings<'_>) {
    for name in CACHES {
        let Some((path, line)) = state.variables.of_image(name) else { continue };
        if state.files.can_write(&state.user, path) == Some(false) && !is_mounted(path) {
            let message = format!(
                "`{name}` is `{path}`, which belongs to root, so `{}` cannot write there",
                state.user
            );
            // The others usually name folders in it.
            return found.hit(Hit::new(RULE, line, message).at_most(Severity::Warning));
        }
    }
}

/// Names of folders to which programs write.
const WRITTEN: [&str; 16] = [
    ".cache",
    "cache",
    "checkpoints",
    "data",
    "db",
    "logs",
    "log",
    "output",
    "outputs",
    "results",
    "sessions",
    "temp",
    "tmp",
    "upload",
    "uploads",
    "workspace",
];

/// Checks for folders that the file makes for the program, but not for its user.
fn empty(state: &State, is_mounted: &dyn Fn(&str) -> bool, found: &mut Findings<'_>) {
    let is_written = |path: &str| WRITTEN.contains(&base_name(path));
    let is_refused = |path: &str| state.files.can_write(&state.user, path) == Some(false);
    let folders: Vec<(&str, usize)> = state
        .files
        .empty()
        .filter(|(path, line)| {
            *line > 0
                && is_written(path)
                && is_refused(path)
                && !is_mounted(path)
                && *path != state.folder
        })
        .collect();
    let Some((path, line)) = folders.first() else { return };
    let is_inside = |other: &(&str, usize)| is_below(other.0, path);
    let others = folders.iter().filter(|other| !is_inside(other)).count();
    let also = match others {
        0 => String::new(),
        1 => " and another one".to_owned(),
        _ => format!(" and {others} others"),
    };
    let message = format!("`{path}`{also} belongs to root, so `{}` cannot write there", state.user);
    found.hit(Hit::new(RULE, *line, message).at_most(Severity::Warning));
}
