//! The result of a bump.

use names::PinName;
use pins::{NewValue, PinKind, Pins};
use project::pins_file::FILE;
use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;

use super::checks::{PatchCheck, PatchVerdict};
use super::resolve::Found;

/// The version of this JSON format.
const SCHEMA: u32 = 1;

/// The output of `bump --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BumpReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The pin.
    pub pin: String,
    /// Its kind: source, archive or image.
    pub kind: &'static str,
    /// The old value.
    pub from: Bound,
    /// The new value, even if it was not written.
    pub to: Bound,
    /// Whether the new value differs from the old one.
    pub changed: bool,
    /// Whether the file was written.
    pub written: bool,
    /// The value of the same tag when it was pinned, if it was different.
    pub moved_from: Option<String>,
    /// Keys of the pin that were removed because they described the old value.
    pub removed: Vec<&'static str>,
    /// The results of the pin's patches on the new source.
    pub patches: Vec<PatchVerdict>,
    /// Warnings for people.
    pub warnings: Vec<String>,
    /// The diff of the file.
    pub diff: String,
}

/// The value of a pin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Bound {
    /// The tag, branch or version that it was resolved from.
    pub name: Option<String>,
    /// The commit, digest or hash; null if it is unresolved.
    pub value: Option<String>,
}

fn bound(pins: &Pins, name: &PinName) -> (PinKind, Bound) {
    if let Some(pin) = pins.sources.get(name) {
        let value = pin.commit.resolved().map(ToString::to_string);
        (PinKind::Source, Bound { name: pin.git_ref.clone(), value })
    } else if let Some(pin) = pins.archives.get(name) {
        let value = pin.sha256.resolved().map(ToString::to_string);
        (PinKind::Archive, Bound { name: Some(pin.version.clone()), value })
    } else {
        let pin = pins.images.get(name);
        let tag = pin.and_then(|pin| pin.tag.as_ref()).map(ToString::to_string);
        let value = pin.and_then(|pin| pin.digest.resolved()).map(ToString::to_string);
        (PinKind::Image, Bound { name: tag, value })
    }
}

impl BumpReport {
    pub(crate) fn new(
        name: &PinName,
        before: (&str, &Pins),
        after: &pins::Changed,
        found: Found,
        patches: PatchCheck,
        couplings: Vec<String>,
    ) -> Self {
        let (kind, from) = bound(before.1, name);
        let (_, to) = bound(&after.pins, name);
        let mut warnings = found.notes;
        if !after.removed.is_empty() {
            let what = match &found.value {
                NewValue::Image { .. } => "image",
                NewValue::Source { .. } | NewValue::Archive { .. } => "source",
            };
            let keys =
                after.removed.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            warnings.push(format!("removed {keys}, which described the old {what}; add the values for the new {what} when you know them"));
        }
        warnings.extend(patches.unknown);
        warnings.extend(
            patches
                .verdicts
                .iter()
                .filter(|one| !one.ok)
                .map(|one| format!("patch `{}` does not apply: {}", one.id, one.explanation)),
        );
        warnings.extend(couplings);
        Self {
            schema: SCHEMA,
            pin: name.to_string(),
            kind: kind.table(),
            from,
            to,
            changed: after.is_new,
            written: false,
            moved_from: found.moved_from,
            removed: after.removed.clone(),
            patches: patches.verdicts,
            warnings,
            diff: diff(before.0, &after.text),
        }
    }
}

fn diff(old: &str, new: &str) -> String {
    let (from, to) = (format!("a/{FILE}"), format!("b/{FILE}"));
    TextDiff::from_lines(old, new).unified_diff().header(&from, &to).to_string()
}
