//! One module per command. Each reads its arguments, calls the library crates, and prints the
//! result.

pub(crate) mod audit;
pub(crate) mod build;
pub(crate) mod bump;
pub(crate) mod bundle;
pub(crate) mod clean;
pub(crate) mod diagnose;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod init;
pub(crate) mod lint;
pub(crate) mod lock;
pub(crate) mod man;
pub(crate) mod outdated;
pub(crate) mod patch;
pub(crate) mod pins;
pub(crate) mod plan;
pub(crate) mod push;
pub(crate) mod records;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod slim;
pub(crate) mod smoke;
pub(crate) mod status;
pub(crate) mod step;
pub(crate) mod verify;
pub(crate) mod welcome;
