//! Changes one pin in the text of `versions.toml`, and nothing else in it.
//!
//! Start at [`PinChange::apply`]. It replaces the bytes of single values, so comments, order,
//! spaces, line endings and a byte order mark stay as they were. The new text is parsed again, and
//! returned only if this change is its only difference from the old text.

mod edit;

use names::{Digest, Tag};

use crate::versions::parse_versions;
use crate::{Facts, ManifestKind, ParseError, PinKind, Pinned, Pins};
use names::{CommitId, PinName, Sha256};

use edit::{Line, rewrite};

/// A new value for a pin, and the facts recorded with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinChange {
    /// The pin.
    pub pin: PinName,
    /// The new value.
    pub value: NewValue,
    /// The date on which it was looked up, as `YYYY-MM-DD`.
    pub checked: String,
    /// Where the value was read; `None` keeps the text in the file.
    pub evidence: Option<String>,
    /// The time of the change in seconds since 1970-01-01 UTC. `source-date-epoch` is raised to it
    /// if the value changes, and is never lowered.
    pub time: u64,
}

/// The value of a pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewValue {
    /// For a git tree. If the commit changes, `args` is removed.
    Source {
        /// The tag or branch that the commit was resolved from.
        git_ref: Option<String>,
        /// The version.
        version: Option<String>,
        /// The commit.
        commit: CommitId,
    },
    /// For an archive. If the hash changes, `args` is removed.
    Archive {
        /// The version.
        version: String,
        /// The hash of the archive.
        sha256: Sha256,
    },
    /// For an image. If the tag changes, `rocm`, `gpus` and `expires` are removed, because they
    /// describe the old image.
    Image {
        /// The tag that the digest was resolved from.
        tag: Option<Tag>,
        /// The digest.
        digest: Digest,
        /// Whether it is the digest of an index or of a manifest, if known.
        kind: Option<ManifestKind>,
    },
}

/// The text of `versions.toml` after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The new text.
    pub text: String,
    /// Its parsed content.
    pub pins: Pins,
    /// Whether the value of the pin changed. Otherwise, only facts about it can have changed, such
    /// as the date of its check.
    pub is_new: bool,
    /// Keys of the pin that were removed because they described the old value.
    pub removed: Vec<&'static str>,
}

/// The reason why a pin cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The file was already invalid.
    #[error("the file cannot be read")]
    Parse(#[source] ParseError),
    /// The pin does not exist.
    #[error("there is no pin `{0}`")]
    NoSuchPin(PinName),
    /// The new value is for a different kind of pin.
    #[error("pin `{pin}` is of kind `{}`, but the new value is for another kind", .kind.table())]
    Kind {
        /// The pin.
        pin: PinName,
        /// Its kind.
        kind: PinKind,
    },
    /// The pin is written in a form that cannot be edited.
    #[error(
        "pin `{0}` is written in a form that cannot be edited; write it as a table `[kind.{0}]` with one `key = value` on each line"
    )]
    Form(PinName),
}

impl PinChange {
    /// Returns the text of `versions.toml` with this change. `file` is its name in messages.
    ///
    /// # Errors
    /// Fails if the file is invalid, does not contain the pin, or writes it in a form that cannot
    /// be edited.
    pub fn apply(&self, file: &str, text: &str) -> Result<Changed, ChangeError> {
        let old = parse_versions(file, text).map_err(ChangeError::Parse)?;
        let kind = old.kind(&self.pin);
        let kind = kind.ok_or_else(|| ChangeError::NoSuchPin(self.pin.clone()))?;
        let wrong_kind = || ChangeError::Kind { pin: self.pin.clone(), kind };
        let mut new = old.clone();
        let removed = self.change(&mut new).ok_or_else(wrong_kind)?;
        let is_new = self.is_new(&old, &new);
        new.source_date_epoch =
            if is_new { old.source_date_epoch.max(self.time) } else { old.source_date_epoch };
        let form = || ChangeError::Form(self.pin.clone());
        let lines = lines(&new, &self.pin, kind);
        let text = rewrite(text, kind, &self.pin, &lines, new.source_date_epoch);
        let text = text.ok_or_else(form)?;
        match parse_versions(file, &text) {
            Ok(pins) if pins == new => Ok(Changed { text, pins, is_new, removed }),
            Ok(_) | Err(_) => Err(form()),
        }
    }

    /// Changes the pin in `pins`. Returns the removed keys, or `None` if the kind is wrong.
    fn change(&self, pins: &mut Pins) -> Option<Vec<&'static str>> {
        let mut removed = Vec::new();
        let facts = match &self.value {
            NewValue::Source { git_ref, version, commit } => {
                let pin = pins.sources.get_mut(&self.pin)?;
                let is_other = pin.commit.resolved() != Some(commit);
                if is_other && !std::mem::take(&mut pin.args).is_empty() {
                    removed.push("args");
                }
                pin.git_ref.clone_from(git_ref);
                pin.version.clone_from(version);
                pin.commit = Pinned::Resolved(commit.clone());
                &mut pin.facts
            }
            NewValue::Archive { version, sha256 } => {
                let pin = pins.archives.get_mut(&self.pin)?;
                let is_other = pin.sha256.resolved() != Some(sha256);
                if is_other && !std::mem::take(&mut pin.args).is_empty() {
                    removed.push("args");
                }
                pin.version.clone_from(version);
                pin.sha256 = Pinned::Resolved(sha256.clone());
                &mut pin.facts
            }
            NewValue::Image { tag, digest, kind } => {
                let pin = pins.images.get_mut(&self.pin)?;
                if pin.tag != *tag {
                    if pin.rocm.take().is_some() {
                        removed.push("rocm");
                    }
                    if !std::mem::take(&mut pin.gpus).is_empty() {
                        removed.push("gpus");
                    }
                    if pin.facts.expires.take().is_some() {
                        removed.push("expires");
                    }
                }
                pin.tag.clone_from(tag);
                pin.digest = Pinned::Resolved(digest.clone());
                pin.kind = kind.or(pin.kind);
                &mut pin.facts
            }
        };
        facts.checked = Some(self.checked.clone());
        if let Some(evidence) = &self.evidence {
            facts.evidence = Some(evidence.clone());
        }
        Some(removed)
    }

    /// Returns whether the value of the pin differs between `new` and `old`.
    fn is_new(&self, old: &Pins, new: &Pins) -> bool {
        fn differs<T: PartialEq, V>(
            old: &std::collections::BTreeMap<PinName, V>,
            new: &std::collections::BTreeMap<PinName, V>,
            name: &PinName,
            value: impl Fn(&V) -> T,
        ) -> bool {
            old.get(name).map(&value) != new.get(name).map(&value)
        }
        let name = &self.pin;
        differs(&old.sources, &new.sources, name, |pin| {
            (pin.git_ref.clone(), pin.version.clone(), pin.commit.clone())
        }) || differs(&old.archives, &new.archives, name, |pin| {
            (pin.version.clone(), pin.sha256.clone())
        }) || differs(&old.images, &new.images, name, |pin| (pin.tag.clone(), pin.digest.clone()))
    }
}

/// Returns the keys of a pin's table in the usual order, with the values that they must have. A key
/// with `None` must be absent.
fn lines(pins: &Pins, name: &PinName, kind: PinKind) -> Vec<Line> {
    let text = |key, value: Option<String>| Line { key, value: value.map(|v| quoted(&v)) };
    let kept_if = |is_kept: bool, key| {
        let line = Line { key, value: None };
        if is_kept { line.kept() } else { line }
    };
    let facts = |facts: &Facts, lines: &mut Vec<Line>| {
        lines.push(Line { key: "checked", value: facts.checked.clone() });
        lines.push(Line { key: "expires", value: facts.expires.clone() });
        lines.push(text("evidence", facts.evidence.clone()));
    };
    let mut lines = Vec::new();
    match kind {
        PinKind::Source => {
            if let Some(pin) = pins.sources.get(name) {
                lines.push(text("url", Some(pin.url.clone())));
                lines.push(text("ref", pin.git_ref.clone()));
                lines.push(text("version", pin.version.clone()));
                lines.push(text("commit", pin.commit.resolved().map(ToString::to_string)));
                lines.push(kept_if(!pin.args.is_empty(), "args"));
                facts(&pin.facts, &mut lines);
            }
        }
        PinKind::Archive => {
            if let Some(pin) = pins.archives.get(name) {
                lines.push(text("project", Some(pin.project.clone())));
                lines.push(text("version", Some(pin.version.clone())));
                lines.push(text("sha256", pin.sha256.resolved().map(ToString::to_string)));
                lines.push(kept_if(!pin.args.is_empty(), "args"));
                facts(&pin.facts, &mut lines);
            }
        }
        PinKind::Image => {
            if let Some(pin) = pins.images.get(name) {
                lines.push(text("repository", Some(pin.repository.to_string())));
                lines.push(text("tag", pin.tag.as_ref().map(ToString::to_string)));
                lines.push(text("digest", pin.digest.resolved().map(ToString::to_string)));
                lines.push(text("kind", pin.kind.map(|manifest| manifest.name().to_owned())));
                lines.push(text("rocm", pin.rocm.clone()));
                lines.push(kept_if(!pin.gpus.is_empty(), "gpus"));
                facts(&pin.facts, &mut lines);
            }
        }
        PinKind::Release => {}
    }
    lines
}

/// Returns `text` as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}
