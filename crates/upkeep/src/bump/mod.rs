//! Looks up a new value for a pin, checks it, and writes `versions.toml`.
//!
//! [`look_up`] finds the value: `resolve` looks it up and refuses unexpected values, `checks` tries
//! patches, `torch` compares it with the pinned PyTorch, and `pins::PinChange` edits the text.
//! [`Bump::write`] replaces the file. The file is read again under a lock before it is written, so
//! that two bumps at the same time both take effect. Nothing is ever committed or pushed. `many`
//! lists the pins for a run that bumps several.

mod checks;
mod many;
mod report;
mod resolve;
mod torch;

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use names::PinName;
use oci::client::RegistryClient;
use pins::{ChangeError, Changed, PinChange, Pins};
use project::clock::today;
use project::pins_file::{FILE, couplings};
use project::{Project, built_in, read_text};
use sources::Sources;

use crate::files::replace;

pub use self::checks::PatchVerdict;
pub use self::many::{newest, pins_of, unresolved, wanted_unresolved};
pub use self::report::{Bound, BumpReport};
pub use self::resolve::{Accepted, Asked};

/// A new value that was looked up and checked.
#[derive(Debug)]
pub struct Bump {
    /// The result for people and programs.
    pub report: BumpReport,
    path: PathBuf,
    /// The text of the file when the value was looked up.
    seen: String,
    change: PinChange,
    changed: Changed,
}

/// Looks up the new value of a pin and checks it. `own` is the text of the project's file. If the
/// pin is built in and this text lacks it, the result adds the pin's table to the text. Writes
/// nothing.
///
/// # Errors
/// There is no such value, its source cannot be reached, the value is refused and was not accepted,
/// or a data file is wrong.
pub fn look_up(
    project: &Project,
    own: &str,
    asked: &Asked<'_>,
    sources: &Sources,
    client: &RegistryClient,
) -> Result<Bump, Failure> {
    let name = asked.pin;
    let text = &*with_table(own, name)?;
    let own_pins = parse(text)?;
    // Checks may compare the pin with built-in pins that the project's file lacks.
    let pins = &own_pins.clone().over(&project.pins()?);
    let (found, patches) = project::runtime::start()?.block_on(async {
        let found = resolve::resolve(asked, pins, sources, client).await?;
        let patches = checks::try_patches(project, pins, name, &found, sources).await?;
        Ok::<_, Failure>((found, patches))
    })?;
    if let Some(need) = &patches.torch {
        torch::check(pins, name, need, &found.name)?;
    }
    if !asked.accepted.broken_patches {
        checks::refuse_broken(&patches, name, &found.name)?;
    }
    let (time, checked) = today()?;
    let change = PinChange {
        pin: name.clone(),
        value: found.value.clone(),
        checked,
        evidence: Some(found.evidence.clone()),
        time,
    };
    let mut changed = change.apply(FILE, text).map_err(|error| cannot_edit(error, text))?;
    if !changed.is_new {
        // A person wrote the file's evidence for this value, and it is still true.
        let change = PinChange { evidence: None, ..change.clone() };
        changed = change.apply(FILE, text).map_err(|error| cannot_edit(error, text))?;
    }
    let compat = project.compat()?;
    let couplings =
        compat.map(|compat| couplings(&compat, &changed.pins, name)).unwrap_or_default();
    let report = BumpReport::new(name, (own, &own_pins), &changed, found, patches, couplings);
    let change = PinChange { evidence: change.evidence.filter(|_| changed.is_new), ..change };
    let (path, seen) = (project.root.join(FILE), own.to_owned());
    Ok(Bump { report, path, seen, change, changed })
}

impl Bump {
    /// Writes the value into the file, and records this in the report.
    ///
    /// # Errors
    /// The file cannot be written, or the change does not apply to what another bump has written.
    pub fn write(&mut self) -> Result<(), Failure> {
        write(&self.path, &self.seen, &self.change, &self.changed)?;
        self.report.written = true;
        Ok(())
    }
}

fn parse(text: &str) -> Result<Pins, Failure> {
    pins::parse_versions(FILE, text).map_err(|error| Failure::places(error, text.to_owned()))
}

/// Returns the text of a project's file with the table of a pin. If the file lacks the table, adds
/// the built-in table.
fn with_table<'a>(own: &'a str, name: &PinName) -> Result<Cow<'a, str>, Failure> {
    if parse(own)?.kind(name).is_some() {
        return Ok(Cow::Borrowed(own));
    }
    let built_in = built_in::text(FILE).unwrap_or_default();
    let Some(kind) = parse(built_in)?.kind(name) else {
        return Ok(Cow::Borrowed(own));
    };
    let head = format!("[{}.{name}", kind.table());
    let mut table = String::new();
    let mut is_in = false;
    for line in built_in.lines() {
        if line.starts_with('[') {
            is_in = line.strip_prefix(&head).is_some_and(|rest| rest.starts_with([']', '.']));
        }
        if is_in && !line.starts_with('#') {
            table.push_str(line);
            table.push('\n');
        }
    }
    Ok(Cow::Owned(format!("{}\n\n{}\n", own.trim_end(), table.trim_end())))
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
fn write(path: &Path, seen: &str, change: &PinChange, changed: &Changed) -> Result<(), Failure> {
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
    let text = if now == seen {
        changed.text.clone()
    } else {
        let now = with_table(&now, &change.pin)?;
        change.apply(FILE, &now).map_err(|error| cannot_edit(error, &now))?.text
    };
    if text == now {
        return Ok(());
    }
    replace(&path, &text).map_err(|error| failed(&error))
}
