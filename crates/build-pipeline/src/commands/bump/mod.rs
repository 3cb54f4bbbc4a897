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
use jiff::Timestamp;
use names::PinName;
use pins::{ChangeError, Changed, PinChange, Pins};

pub(crate) use self::checks::couplings;

use self::args::{Bump, BumpFormat};
use self::report::{BumpReport, FILE};
use crate::cli::Global;
use crate::project::{Project, read_text, unreadable};
use crate::{environment, fetch, output, registry};

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Bump) -> Result<(), Failure> {
    let project = Project::find(&crate::working_folder(global)?)?;
    let path = project.root.join(FILE);
    let (text, pins) = read(&path)?;
    let name = pin_name(&args.pin, &pins)?;
    let (sources, client) = (fetch::sources(global)?, registry::client(global)?);
    let (found, patches) = crate::runtime()?.block_on(async {
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
        compat.map(|compat| checks::couplings(&compat, &changed.pins, &name)).unwrap_or_default();
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

/// Reads the pins and the text of their file.
pub(crate) fn read(path: &Path) -> Result<(String, Pins), Failure> {
    let shown = path.display().to_string();
    let text = read_text(path).map_err(|error| unreadable(&shown, FILE, &error))?;
    match pins::parse_versions(FILE, &text) {
        Ok(pins) => Ok((text, pins)),
        Err(error) => Err(Failure::places(error, text)),
    }
}

/// Returns the pin with the given name.
pub(crate) fn pin_name(typed: &str, pins: &Pins) -> Result<PinName, Failure> {
    let known = pins.names();
    if let Some(name) = typed.parse::<PinName>().ok().filter(|name| known.contains_key(name)) {
        return Ok(name);
    }
    let told = Failure::new(Kind::Input, format!("there is no pin `{typed}`"));
    Err(match pins.nearest_name(typed) {
        Some(near) => told.hint(format!("did you mean `{near}`?")),
        None => told.hint("`build-pipeline pins show` lists the pins"),
    })
}

/// Returns the start of today in seconds since 1970, and today's date, both in UTC.
pub(crate) fn today() -> Result<(u64, String), Failure> {
    let bad = |error: jiff::Error| {
        Failure::caused(Kind::Input, "SOURCE_DATE_EPOCH is out of range", &error)
    };
    let now = match environment::source_date_epoch()? {
        Some(seconds) => {
            Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).map_err(bad)?
        }
        None => Timestamp::now(),
    };
    let seconds = now.as_second();
    let midnight = u64::try_from(seconds - seconds.rem_euclid(86_400)).unwrap_or(0);
    Ok((midnight, now.strftime("%Y-%m-%d").to_string()))
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
