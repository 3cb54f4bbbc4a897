//! Looks up a new value for a pin, checks it, and writes `versions.toml`.
//!
//! [`look_up`] finds the value: `resolve` asks for it and refuses unexpected ones, `checks` tries
//! patches, `torch` compares it with the pinned PyTorch, and `pins::PinChange` edits the text.
//! [`Bump::write`] replaces the file. The file is read again under a lock before it is written, so
//! that two bumps at the same time both take effect. Nothing is ever committed or pushed.

mod checks;
mod report;
mod resolve;
mod torch;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use oci::client::RegistryClient;
use pins::{ChangeError, Changed, PinChange, Pins};
use project::clock::today;
use project::pins_file::{FILE, couplings};
use project::{Project, read_text};
use sources::Sources;

pub use self::checks::PatchVerdict;
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

/// Looks up the new value of a pin and checks it. `file` is the text of the pins' file with the pins
/// in it. Writes nothing.
///
/// # Errors
/// There is no such value, its source cannot be asked, it is refused and was not accepted, or a
/// data file is wrong.
pub fn look_up(
    project: &Project,
    file: (&str, &Pins),
    asked: &Asked<'_>,
    (sources, client): (&Sources, &RegistryClient),
) -> Result<Bump, Failure> {
    let (text, pins) = file;
    let name = asked.pin;
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
    let report = BumpReport::new(name, file, &changed, found, patches, couplings);
    let change = PinChange { evidence: change.evidence.filter(|_| changed.is_new), ..change };
    let (path, seen) = (project.root.join(FILE), text.to_owned());
    Ok(Bump { report, path, seen, change, changed })
}

impl Bump {
    /// Writes the value into the file, and notes that in the report.
    ///
    /// # Errors
    /// The file cannot be written, or another bump left something that cannot be changed.
    pub fn write(&mut self) -> Result<(), Failure> {
        write(&self.path, &self.seen, &self.change, &self.changed)?;
        self.report.written = true;
        Ok(())
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
        change.apply(FILE, &now).map_err(|error| cannot_edit(error, &now))?.text
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
