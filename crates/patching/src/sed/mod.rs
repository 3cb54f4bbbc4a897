//! Finds `sed -i` in Dockerfiles and scripts, and shows the effect of each call on a tree.
//!
//! `lint::shell` splits a file into commands, `call` finds the sed calls among them, `script`
//! splits a sed script, `lists` finds the lists in a text, `judge` runs a call twice on a copy of
//! its file and examines the result, and `report` lists the findings.

mod call;
mod judge;
mod lists;
mod report;
mod script;

pub use judge::explanation;
pub use report::{Asked, LintReport};
