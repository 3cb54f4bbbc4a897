//! Text for people.
//!
//! A [`Page`] is the text form of a document: lines, some with a verdict and its [`Tone`].
//! [`counted`], [`size`] and [`seconds`] write amounts, and [`shell_line`] writes a command.
//! [`annotations`] writes GitHub's workflow commands, and [`sanitise`] makes untrusted text safe to
//! print.
//!
//! The crate prints nothing; the crate `terminal` does, and chooses the colours.

mod amounts;
pub mod annotations;
mod page;
pub mod sanitise;

pub use amounts::{counted, seconds, size};
pub use page::{Page, Tone};

/// Returns words as one line for a POSIX shell.
pub fn shell_line(words: &[String]) -> String {
    // Arguments from an operating system never contain NUL.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}
