//! Sealing layers of every tar dialect and shape.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod bytecode;
mod changes;
mod compare;
mod edit;
mod golden;
mod hostile;
mod model;
mod properties;
mod reading;
mod support;
mod tools;
