//! Writes the file of a CI system.

use crate::jobs::{Jobs, Options};

/// How the jobs of a CI system are written.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// The characters that begin a comment.
    pub(crate) comment: &'static str,
    /// Where jobs run by default: the label of runners, or an image.
    pub runs_on: &'static str,
    /// Returns the text of the file, without the first line.
    pub(crate) text: fn(&Jobs, &Options) -> String,
}

impl Writer {
    /// Returns the text of the file.
    pub fn file(&self, jobs: &Jobs, options: &Options) -> String {
        format!(
            "{} Written by `{}`. Do not edit it: `--check` compares it with the plans.\n{}",
            self.comment,
            options.command,
            (self.text)(jobs, options)
        )
    }
}

/// Returns whether `export` wrote a text, whatever its comments begin with.
pub fn is_ours(text: &[u8]) -> bool {
    let head = text.iter().position(u8::is_ascii_alphabetic).unwrap_or_default();
    text[head..].starts_with(b"Written by `build-pipeline export ")
}
