//! Finds `sed -i` in Dockerfiles and scripts, and says what each does to a tree.
//!
//! `shell` takes a file apart into commands, `call` finds the calls of sed among them, `script` takes
//! a sed script apart, `lists` finds the lists in a text, and `judge` runs a call on a copy of its
//! file, twice, and looks at what became of it.

pub(crate) mod call;
pub(crate) mod judge;
mod lists;
mod script;
