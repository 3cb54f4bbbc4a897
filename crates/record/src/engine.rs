//! The engine that a run used.

use std::fmt;

use names::{Builder, EngineKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The engine that a run used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineUse {
    /// The kind of engine.
    pub kind: EngineKind,
    /// Its version.
    pub version: String,
    /// The builder for images.
    pub builder: Builder,
    /// The OCI runtime that started its containers.
    pub runtime: String,
    /// Its address: its socket, or the executable that was started.
    pub address: String,
    /// The source of this address, for example `DOCKER_HOST`.
    pub origin: String,
    /// The candidates that were tried first and not used, in order.
    pub passed_over: Vec<PassedOver>,
}

/// An engine that was found but not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOver {
    /// The source of its address.
    pub origin: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for EngineUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, version, builder, runtime, address, origin, .. } = self;
        write!(f, "{kind} {version}, builder {builder}, runtime {runtime}, at {address} ({origin})")
    }
}
