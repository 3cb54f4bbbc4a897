//! Layers of every dialect and shape, sealed.

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
