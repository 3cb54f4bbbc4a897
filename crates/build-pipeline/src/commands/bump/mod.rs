//! `build-pipeline bump`: looks up a new value for a pin, checks it, and writes `versions.toml`.
//!
//! `resolve` looks up the value and refuses unexpected ones, `checks` tries patches and known
//! incompatibilities, `pins::PinChange` edits the text, and [`write()`] replaces the file. The file
//! is read again under a lock before it is written, so that two bumps at the same time both take
//! effect. Nothing is ever committed or pushed.

pub(crate) mod args;
mod checks;
pub(crate) mod choice;
pub(crate) mod report;
mod resolve;
mod torch;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use pins::{ChangeError, Changed, PinChange};
use project::clock::today;
use project::pins_file::{FILE, couplings, pin_name, read};
use project::read_text;
use project::registry;

use self::args::{Bump, BumpFormat};
use self::report::BumpReport;
use crate::cli::Global;
use crate::global;
use crate::output;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Bump) -> Result<(), Failure> {
    let project = global::project(global)?;
    let path = project.root.join(FILE);
    let (text, pins) = read(&path)?;
    let name = pin_name(&args.pin, &pins)?;
    let (sources, client) = (global::sources(global)?, registry::client(&global.mirror)?);
    let (found, patches) = project::runtime::start()?.block_on(async {
        let found = resolve::resolve(args, &name, &pins, &sources, &client).await?;
        let patches = checks::try_patches(&project, &pins, &name, &found, &sources).await?;
        Ok::<_, Failure>((found, patches))
    })?;
    if let Some(need) = &patches.torch {
        torch::check(&pins, &name, need, &found.name)?;
    }
    if !args.accept.accept_broken_patches {
        checks::refuse_broken(&patches, &name, &found.name)?;
    }
    let (time, checked) = today()?;
    let change = PinChange {
        pin: name.clone(),
        value: found.value.clone(),
        checked,
        evidence: Some(found.evidence.clone()),
        time,
    };
    let mut changed = change.apply(FILE, &text).map_err(|error| cannot_edit(error, &text))?;
    if !changed.is_new {
        // A person wrote the file's evidence for this value, and it is still true.
        let change = PinChange { evidence: None, ..change.clone() };
        changed = change.apply(FILE, &text).map_err(|error| cannot_edit(error, &text))?;
    }
    let compat = project.compat()?;
    let couplings =
        compat.map(|compat| couplings(&compat, &changed.pins, &name)).unwrap_or_default();
    let mut report = BumpReport::new(&name, (&text, &pins), &changed, found, patches, couplings);
    if args.check {
        return Ok(());
    }
    if !args.dry_run {
        let change = PinChange { evidence: change.evidence.filter(|_| changed.is_new), ..change };
        write(&path, &text, &change, changed)?;
        report.written = true;
    }
    match args.format {
        BumpFormat::Json => output::json(&report),
        BumpFormat::Github => output::sanitised_result(&report.pull_request()),
        BumpFormat::Text => {
            report.warnings.iter().for_each(|warning| output::warn("bump", warning));
            output::sanitised_result(&report.text(args.dry_run))
        }
    }
}

fn cannot_edit(error: ChangeError, text: &str) -> Failure {
    match error {
        ChangeError::Parse(error) => Failure::places(error, text.to_owned()),
        error @ (ChangeError::NoSuchPin(_) | ChangeError::Kind { .. } | ChangeError::Form(_)) => {
            Failure::from_chain(Kind::Input, &error).hint("nothing was changed")
        }
    }
}

/// Writes the change atomically: to a temporary file that is synced and renamed. If another bump
/// has changed the file meanwhile, applies the change to the new content.
fn write(path: &Path, seen: &str, change: &PinChange, changed: Changed) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::caused(Kind::Machine, format!("writing `{}` failed", path.display()), error)
            .hint("the file was not changed; check the space and permissions of its folder")
    };
    let path = std::fs::canonicalize(path).map_err(|error| failed(&error))?;
    let folder =
        File::open(path.parent().unwrap_or(Path::new("/"))).map_err(|error| failed(&error))?;
    // The system releases the lock when the process ends, even if it is killed; no file remains.
    folder.lock().map_err(|error| failed(&error))?;
    let now = read_text(&path).map_err(|error| failed(&error))?;
    let text = match now == seen {
        true => changed.text,
        false => change.apply(FILE, &now).map_err(|error| cannot_edit(error, &now))?.text,
    };
    if text == now {
        return Ok(());
    }
    let put = || {
        let mut file = AtomicWriteFile::open(&path)?;
        file.write_all(text.as_bytes())?;
        file.commit()
    };
    put().map_err(|error| failed(&error))
}
