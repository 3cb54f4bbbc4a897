//! The container engines and their image builders.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A container engine.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Podman.
    Podman,
    /// Docker.
    Docker,
}

/// The text is not the name of a container engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an engine; the engines are `podman` and `docker`")]
pub struct ParseEngineKindError(String);

impl EngineKind {
    /// All engines, in the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name, which is also the name of the engine's executable.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineKind {
    type Err = ParseEngineKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or_else(|| ParseEngineKindError(text.to_owned()))
    }
}

/// The builder of an engine, which builds an image from a Dockerfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Builder {
    /// Podman's builder.
    Podman,
    /// Docker's classic builder.
    Classic,
    /// BuildKit, which docker has included since 18.09.
    BuildKit,
}

impl fmt::Display for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Podman => "podman",
            Self::Classic => "classic",
            Self::BuildKit => "buildkit",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        for builder in [Builder::Podman, Builder::Classic, Builder::BuildKit] {
            assert_eq!(serde_json::to_value(builder).unwrap(), builder.to_string());
        }
        for other in ["auto", "Podman", "", "docker "] {
            let error = other.parse::<EngineKind>().unwrap_err().to_string();
            assert!(error.contains("`podman` and `docker`"), "{error}");
        }
    }
}
