//! A folder for `docker buildx bake`: builds on another machine.
//!
//! Each bake target builds one step, and only from what is in the folder. So each run of this
//! command first takes the images that bake has built, then writes the contexts of the steps that
//! are ready. The user repeats both commands until no step is left. [`bake_file`] returns the text
//! of the file that bake reads.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use executor::{Bake, BlobCache, Materials, bake_file};
use export::{is_ours, subject};
use failure::{Failure, Kind};
use project::environment;
use project::prepare::{Preparation, Prepared};
use project::rehearsal::Rehearsal;
use project::steps::StepKind;

use crate::cli::{Export, Global, StoreArgs};
use crate::commands::step::settings;
use crate::global;
use crate::rebuild::carry_out;
use terminal::output;
use text::shell_line;

/// The file that bake reads by default.
const FILE: &str = "docker-bake.hcl";

/// Takes what bake has built, and writes what it can build next.
pub(super) fn run(
    global: &Global,
    args: &Export,
    command: &str,
    Preparation { plans, materials }: Preparation,
) -> Result<(), Failure> {
    let Some(folder) = &args.output else {
        return Err(Failure::new(Kind::Input, "no folder given")
            .hint("choose a new folder for bake with `--output`"));
    };
    let unused = [
        ("--check", args.check),
        ("--push", args.push.is_some()),
        ("--runs-on", args.runs_on.is_some()),
        ("--install", args.install.is_some()),
    ];
    if let Some((option, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::new(
            Kind::Input,
            format!("`{option}` is not an option of `export bake`"),
        )
        .hint("bake only builds steps: `build-pipeline build` writes and pushes the image"));
    }
    check_own_files(folder, &materials)?;
    let _lock = lock(folder)?;
    let bake = Arc::new(Bake::new(folder));
    let mut builds = Vec::new();
    for Prepared { plan, .. } in &plans {
        let words = ["build-pipeline".to_owned(), "build".to_owned()].into_iter();
        builds.push(shell_line(
            &words
                .chain(subject(plan).map_err(|error| super::fixed_time(&error))?)
                .collect::<Vec<_>>(),
        ));
    }
    let ended =
        project::runtime::start()?.block_on(carry_out_all(global, args, &bake, plans, &materials));
    let (waiting, file) = (bake.waiting(), folder.join(FILE));
    // Steps that are ready can be built even if another one failed.
    if !waiting.is_empty() {
        super::write(&file, &bake_file(&waiting, command))?;
    }
    ended?;
    if waiting.is_empty() {
        if is_file_with(&file, |text| is_ours(text.as_bytes())) {
            fs::remove_file(&file).map_err(|error| failed(folder, &error))?;
        }
        return output::result(&format!(
            "all steps are finished; write the image without an engine:\n{}\n",
            builds.join("\n")
        ));
    }
    let allow =
        if waiting.iter().any(|target| target.network) { " --allow network.host" } else { "" };
    let shown = folder.display();
    output::result(&format!(
        "next: run `docker buildx bake{allow}` in `{shown}`, and then this command again\n"
    ))
}

/// Runs all steps whose bases exist.
async fn carry_out_all(
    global: &Global,
    args: &Export,
    bake: &Arc<Bake>,
    plans: Vec<Prepared>,
    materials: &Arc<Materials>,
) -> Result<(), Failure> {
    let stores = StoreArgs { named: args.stores.clone(), ..StoreArgs::default() };
    for Prepared { plan, stand_in, .. } in plans {
        let last = plan.steps.iter().rfind(|step| StepKind::of(&step.action) == StepKind::Kept);
        let Some(last) = last else { continue };
        let shared = global::shared_stores(global, &stores)?;
        let mut settings = settings(global, shared, materials, Some(Arc::clone(bake)))?;
        settings.last_step = Some(last.id.clone());
        let rehearsal = match stand_in {
            Some(stand_in) => Some(Rehearsal::start(&[stand_in]).await?),
            None => None,
        };
        if let Some(rehearsal) = rehearsal.as_ref().filter(|_| !plan.is_built()) {
            (settings.client, settings.cache) = (rehearsal.client.clone(), BlobCache::none());
        }
        global::take_from_stores(&plan, &settings).await;
        carry_out(global, &plan, settings, None, &environment::store_folder()?).await?;
    }
    Ok(())
}

/// Refuses a folder inside the project's own files: it would become part of the next context.
fn check_own_files(folder: &Path, materials: &Materials) -> Result<(), Failure> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let place = absolute(folder);
    match materials.own_files.values().find(|own| place.starts_with(absolute(own))) {
        None => Ok(()),
        Some(own) => {
            let what = format!(
                "`{}` is inside `{}`, which a track adds to its image",
                folder.display(),
                own.display()
            );
            Err(Failure::new(Kind::Input, what).hint("choose another folder with `--output`"))
        }
    }
}

/// The lock file. It also marks the folder as one that this command created.
const MARK: &str = ".build-pipeline";
const MARK_TEXT: &str = "The folder of `build-pipeline export bake`.\n";

/// Locks a folder for bake, so that only one run uses it. Creates it if necessary.
fn lock(folder: &Path) -> Result<File, Failure> {
    let mark = folder.join(MARK);
    let is_new = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => false,
        Err(error) => return Err(failed(folder, &error)),
    };
    if !is_new && !is_file_with(&mark, |text| text == MARK_TEXT) {
        let what = format!("`{}` is not a folder for bake", folder.display());
        return Err(Failure::new(Kind::Input, what)
            .hint("choose a new folder, or one that `export bake` has written, with `--output`"));
    }
    let open = || {
        if is_new {
            fs::create_dir_all(folder)?;
            File::create_new(&mark)?.write_all(MARK_TEXT.as_bytes())?;
        }
        File::options().write(true).open(&mark)
    };
    let file = open().map_err(|error| failed(folder, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let what = format!("another run is using `{}`", folder.display());
            Err(Failure::new(Kind::Busy, what).hint("wait until that run has finished"))
        }
        Err(fs::TryLockError::Error(error)) => Err(failed(folder, &error)),
    }
}

/// Returns whether a path is a regular file, not a link to one, and `fits` accepts its text.
fn is_file_with(path: &Path, fits: impl Fn(&str) -> bool) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
        && project::read_text(path).is_ok_and(|text| fits(&text))
}

fn failed(folder: &Path, error: &io::Error) -> Failure {
    let what = format!("writing into `{}` failed", folder.display());
    Failure::caused(Kind::of_write(error), what, error)
}
