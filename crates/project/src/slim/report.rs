//! The result of slimming an image, as JSON and as text.

use schemars::JsonSchema;
use serde::Serialize;
use slim::{ChangedFile, WholeFile};
use text::sanitise::sanitise_line;
use text::{Page, counted, size};

/// The maximum number of changed files that the text lists.
const MOST_FILES: usize = 20;

/// The result of `slim`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SlimmedImage {
    /// The version of this JSON format.
    pub schema: u32,
    /// The input, as it was named.
    pub input: String,
    /// Where the new image is.
    pub output: String,
    /// The digest of its manifest.
    pub digest: String,
    /// The contract (versioned specification) that determines its bytes.
    pub contract: &'static str,
    /// The GPU targets whose code is kept.
    pub gpus: Vec<String>,
    /// The number of layers that changed.
    pub layers_changed: usize,
    /// The size of the layers as they were stored before, in bytes.
    pub layer_bytes_before: u64,
    /// The size of the layers as they are stored now, in bytes.
    pub layer_bytes_after: u64,
    /// The files that changed or were removed, in the order of the layers.
    pub changed: Vec<ChangedFile>,
    /// The files that were not changed, although they contain code for other GPUs or cannot be
    /// read.
    pub whole: Vec<WholeFile>,
}

impl SlimmedImage {
    /// Returns the result as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let gpus = self.gpus.join(", ");
        page.line(format_args!("{}: only code for {gpus} is left", self.output));
        page.line(format_args!("  digest    {}", self.digest));
        let (before, after) = (self.layer_bytes_before, self.layer_bytes_after);
        page.line(format_args!(
            "  layers    {} before, {} after ({}); {} changed",
            size(before),
            size(after),
            change(before, after),
            self.layers_changed
        ));
        let removed: Vec<&ChangedFile> =
            self.changed.iter().filter(|file| file.after.is_none()).collect();
        let bytes: u64 = removed.iter().map(|file| file.before).sum();
        let files = counted(removed.len(), "file");
        page.line(format_args!("  removed   {files}, {}", size(bytes)));
        let mut smaller: Vec<&ChangedFile> =
            self.changed.iter().filter(|file| file.after.is_some()).collect();
        smaller.sort_by_key(|file| std::cmp::Reverse(file.before));
        if !smaller.is_empty() {
            page.line(format_args!("\n       before       after  file"));
        }
        for file in smaller.iter().take(MOST_FILES) {
            let remaining = size(file.after.unwrap_or_default());
            let path = sanitise_line(&file.path);
            page.line(format_args!("  {:>11} {remaining:>11}  {path}", size(file.before)));
        }
        if smaller.len() > MOST_FILES {
            let more = smaller.len() - MOST_FILES;
            page.line(format_args!("  and {more} more; `--format json` lists all"));
        }
        for file in &self.whole {
            let (path, why) = (sanitise_line(&file.path), sanitise_line(&file.why));
            page.line(format_args!("\n  unchanged  {path}: {why}"));
        }
        let from = &self.input;
        let place = self.output.split_once(':').map_or("", |(_, place)| place);
        page.line(format_args!(
            "\n  next: `build-pipeline audit {place}`, `build-pipeline diff {from} {place}`"
        ));
        page
    }
}

/// Returns the relative change of a size.
fn change(before: u64, after: u64) -> String {
    let percent = |part: u64| (part * 100).checked_div(before).unwrap_or_default();
    if after > before {
        format!("{} % more", percent(after - before))
    } else {
        format!("{} % less", percent(before - after))
    }
}
