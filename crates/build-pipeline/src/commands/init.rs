//! `build-pipeline init`: writes a new project.

use std::path::{Path, PathBuf};

use export::ci::{Ci, System};
use failure::Failure;
use project::Project;
use project::prepare::Preparer;
use project::request;
use upkeep::init::{NewProject, Start, add_ci, can_be_rehearsed, has_run_row, is_project, write};

use crate::cli::{CiSystem, Document, Init};
use crate::commands::export::install;
use crate::commands::schema::schema;
use crate::commands::welcome::obstacle;
use crate::global;
use terminal::output;
use text::{Page, shell_line};

/// Runs the command.
pub(crate) fn run(args: &Init) -> Result<(), Failure> {
    let here = global::working_folder()?;
    let folder = args.folder.as_ref().map_or_else(|| here.clone(), |name| here.join(name));
    // This removes `.` components.
    let folder: PathBuf = folder.components().collect();
    let image = args.base.clone().map(Start::Image);
    let start = image.or_else(|| args.from.clone().map(Start::Track));
    let install = args.install.as_deref().map(install).transpose()?;
    let of_system = |system: &CiSystem| {
        let system = match system {
            CiSystem::Github => System::Github,
            CiSystem::Gitlab => System::Gitlab,
        };
        Some(Ci { system, install: install.clone()? })
    };
    let ci: Vec<Ci> = args.ci.iter().filter_map(of_system).collect();
    if !ci.is_empty() && args.track.is_none() && is_project(&folder) {
        let (track, written) = add_ci(&folder, &ci)?;
        let mut page = Page::default();
        written.iter().for_each(|path| page.line(format_args!("wrote {}", path.display())));
        page.line(format_args!("it builds and verifies track {track}"));
        return output::sanitised_result(&page.into_text());
    }
    let documents =
        [("versions", Document::Versions), ("tracks", Document::Tracks), ("run", Document::Run)];
    let schemas =
        documents.map(|(name, document)| Ok((name, output::json_text(&schema(document))?)));
    let schemas = schemas.into_iter().collect::<Result<_, Failure>>()?;
    let new = NewProject { track: args.track.clone(), start, ci, schemas };
    let written = write(&folder, &new)?;
    let mut page = Page::default();
    for path in written {
        page.line(format_args!("wrote {}", path.display()));
    }
    let track = new.first_track()?;
    page.line(format_args!("\nnext:"));
    if let Some(name) = args.folder.as_ref().filter(|_| folder != here) {
        let name = name.display().to_string();
        let option = if name.starts_with('-') { vec!["--".to_owned()] } else { Vec::new() };
        let words = [vec!["cd".to_owned()], option, vec![name]].concat();
        page.line(format_args!("  {}", shell_line(&words)));
    }
    if has_unresolved_pin(&folder, &track)? {
        page.line(format_args!("  build-pipeline bump --unresolved"));
    }
    if can_be_rehearsed(&new)? {
        page.line(format_args!("  build-pipeline --track {track} --rehearse"));
    }
    page.line(format_args!("  build-pipeline --track {track} --load"));
    page.line(format_args!("  build-pipeline run {track}"));
    output::sanitised_result(&page.into_text())?;
    if !has_run_row(&new)? {
        output::hint(&format!(
            "containers of `{track}` get ROCm's devices, but no port and no smoke tests; a table in `versions/run.toml` adds them: `[{track}]` with `gpu`, `port`, `models`, `models-at` and `smoke`; `build-pipeline schema run` describes the keys"
        ));
    }
    Ok(())
}

/// Returns whether a track of the new project cannot be built before a pin is resolved.
fn has_unresolved_pin(folder: &Path, track: &str) -> Result<bool, Failure> {
    let project = Project::find(folder)?;
    let mut preparer = Preparer::new(&project)?;
    let name = request::track(track, &preparer.input.tracks)?;
    Ok(obstacle(&mut preparer, &name).is_some())
}
