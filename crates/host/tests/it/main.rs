//! Tests on recorded machines: the facts that are read, and every rule on a machine that passes it
//! and on one that does not.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod answers;
mod assess;
mod cases;
mod engines;
mod failures;
mod field;
mod machine;
mod model;
mod repairs;
mod rules;
mod run;
mod run_files;
mod snapshot;
mod survey;
mod unfold;
