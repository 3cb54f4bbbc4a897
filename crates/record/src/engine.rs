//! The engine that a run used.

use std::fmt;

use names::{Builder, EngineKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The engine that a run used, and why it was this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineUse {
    /// Which engine it was.
    pub kind: EngineKind,
    /// Its version.
    pub version: String,
    /// What built images in it.
    pub builder: Builder,
    /// The OCI runtime that started its containers.
    pub runtime: String,
    /// Where it was found: its socket, or the program that was started.
    pub address: String,
    /// What named this place, for example `DOCKER_HOST`.
    pub origin: String,
    /// The candidates that came before it and were not used, in their order.
    pub passed_over: Vec<PassedOver>,
}

/// An engine that was looked for and not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOver {
    /// What named its place.
    pub origin: String,
    /// Why it was not used.
    pub reason: String,
}

impl fmt::Display for EngineUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, version, builder, runtime, address, origin, .. } = self;
        write!(f, "{kind} {version}, builder {builder}, runtime {runtime}, at {address} ({origin})")
    }
}
