//! The result of a bump.

use names::PinName;
use pins::{NewValue, PinKind, Pins};
use project::pins_file::FILE;
use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;
use text::Page;

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

/// Returns the kind and the value of a pin.
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

    /// Returns the report as text.
    pub fn page(&self, with_diff: bool) -> Page {
        let mut page = Page::default();
        let Self { pin, from, to, .. } = self;
        match (self.changed, self.written) {
            (true, true) => {
                page.line(format_args!("bumped {pin}: {} -> {}", from.short(), to.short()));
            }
            (true, false) => {
                page.line(format_args!("would bump {pin}: {} -> {}", from.short(), to.short()));
            }
            (false, _) => page.line(format_args!(
                "{pin} is already at {}; only its `checked` date changes",
                to.short()
            )),
        }
        for one in &self.patches {
            page.line(format_args!("  patch {}: {}", one.id, one.explanation));
        }
        if with_diff && !self.diff.trim().is_empty() {
            page.line(format_args!("\n{}", self.diff.trim_end()));
        }
        page
    }

    /// Returns the title and body of a pull request.
    pub fn pull_request(&self) -> Page {
        let mut page = Page::default();
        let Self { pin, from, to, .. } = self;
        let name = |bound: &Bound| {
            bound
                .name
                .clone()
                .or_else(|| bound.value.clone())
                .unwrap_or_else(|| "unresolved".to_owned())
        };
        page.line(format_args!("pins: Bump {pin} to {}\n", name(to)));
        page.line(format_args!("| | before | after |\n|---|---|---|"));
        page.line(format_args!(
            "| name | {} | {} |",
            cell(from.name.as_deref()),
            cell(to.name.as_deref())
        ));
        page.line(format_args!(
            "| value | {} | {} |",
            cell(from.value.as_deref()),
            cell(to.value.as_deref())
        ));
        if let Some(old) = &self.moved_from {
            page.line(format_args!(
                "\n**The tag moved**: it pointed to `{old}` when it was pinned."
            ));
        }
        if !self.patches.is_empty() {
            page.line(format_args!("\n| patch | verdict | |\n|---|---|---|"));
            for one in &self.patches {
                page.line(format_args!(
                    "| `{}` | {} | {} |",
                    one.id,
                    one.verdict,
                    one.explanation.replace('|', "\\|")
                ));
            }
        }
        for warning in &self.warnings {
            page.line(format_args!("\n- {warning}"));
        }
        page.line(format_args!("\n```diff\n{}\n```", self.diff.trim_end()));
        page
    }
}

impl Bound {
    /// Returns a shortened value for display.
    pub fn short(&self) -> String {
        let short = |value: &String| {
            value.chars().take(if value.contains(':') { 19 } else { 12 }).collect::<String>()
        };
        match (&self.name, &self.value) {
            (Some(name), Some(value)) => format!("{name} ({})", short(value)),
            (None, Some(value)) => short(value),
            (Some(name), None) => format!("{name} (unresolved)"),
            (None, None) => "unresolved".to_owned(),
        }
    }
}

/// Returns the difference between two texts of the file.
fn diff(old: &str, new: &str) -> String {
    let (from, to) = (format!("a/{FILE}"), format!("b/{FILE}"));
    TextDiff::from_lines(old, new).unified_diff().header(&from, &to).to_string()
}

/// Returns a cell of a table in Markdown.
fn cell(text: Option<&str>) -> String {
    text.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"))
}
