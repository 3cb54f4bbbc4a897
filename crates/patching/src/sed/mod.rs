//! Finds `sed -i` in Dockerfiles and scripts, and shows the effect of each call on a tree.
//!
//! `lint::shell` splits a file into commands, `call` finds the sed calls among them, `script`
//! splits a sed script, `lists` finds the lists in a text, and `judge` runs a call twice on a copy
//! of its file and examines the result.

mod call;
mod judge;
mod lists;
mod script;

pub use call::{SedCall, sed_call};
pub use judge::{Bench, Judgement, Rule};
