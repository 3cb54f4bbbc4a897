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
#[error("`{0}` is not an engine; the engines are {all}", all = EngineKind::list("and", |kind| format!("`{kind}`")))]
pub struct ParseEngineKindError(String);

/// What is known about an engine without asking it.
#[derive(Debug)]
pub struct EngineFacts {
    /// The name, which is also the name of its executable.
    pub name: &'static str,
    /// Its package in Debian.
    pub debian_package: &'static str,
    /// The paths of its sockets, relative to `/`. A list contains the paths of one socket. `{uid}`
    /// is replaced with the user's ID; the engine at such a socket runs as this user.
    pub sockets: &'static [&'static [&'static str]],
    /// The folders of its images, relative to `/`, or below the home folder `~`.
    pub stores: &'static [&'static str],
    /// The files that may name another folder for its images, in the order in which they count. `~`
    /// is the home directory.
    pub store_files: &'static [&'static str],
    /// The files that name its OCI runtime, in order of precedence, in the same form. If there are
    /// any, this tool asks the engine only for its version, because other requests are slow.
    pub runtime_files: &'static [&'static str],
    /// Its usual OCI runtime.
    pub usual_runtime: &'static str,
    /// The OCI runtime with which a rootless engine can keep the user's groups (`keep-groups`).
    pub keeps_groups_with: Option<&'static str>,
    /// Whether it works without a socket, as the user who starts it.
    pub is_daemonless: bool,
    /// Whether systemd can start its containers from quadlets.
    pub has_quadlets: bool,
    /// Whether its containers get higher limits than a machine may allow, if it runs as root.
    pub needs_limits: bool,
    /// How to use it instead of another engine.
    pub selected_by: &'static str,
}

const PODMAN: EngineFacts = EngineFacts {
    name: "podman",
    debian_package: "podman",
    sockets: &[&["run/user/{uid}/podman/podman.sock"], &["run/podman/podman.sock"]],
    stores: &["~/.local/share/containers/storage", "var/lib/containers/storage"],
    // containers-storage.conf(5)
    store_files: &[
        "~/.config/containers/storage.conf",
        "etc/containers/storage.conf",
        "usr/share/containers/storage.conf",
    ],
    // containers.conf(5)
    runtime_files: &[
        "~/.config/containers/containers.conf",
        "etc/containers/containers.conf",
        "usr/share/containers/containers.conf",
    ],
    usual_runtime: "crun",
    keeps_groups_with: Some("crun"),
    is_daemonless: true,
    has_quadlets: true,
    needs_limits: true,
    selected_by: "# add `--engine podman` to `run`, `smoke` and `build`",
};

const DOCKER: EngineFacts = EngineFacts {
    name: "docker",
    debian_package: "docker.io",
    sockets: &[&["run/docker.sock", "var/run/docker.sock"]],
    stores: &["var/lib/docker"],
    // dockerd(8)
    store_files: &["etc/docker/daemon.json"],
    runtime_files: &[],
    usual_runtime: "runc",
    keeps_groups_with: None,
    is_daemonless: false,
    has_quadlets: false,
    needs_limits: false,
    selected_by: "docker context use default",
};

impl EngineKind {
    /// All engines, in the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns what is known about the engine without asking it.
    pub const fn facts(self) -> &'static EngineFacts {
        match self {
            Self::Podman => &PODMAN,
            Self::Docker => &DOCKER,
        }
    }

    /// Returns the name, which is also the name of the engine's executable.
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Returns a list of all engines, such as "podman or docker". `shown` gives the form of each,
    /// and `word` comes before the last.
    pub fn list(word: &str, shown: impl Fn(Self) -> String) -> String {
        let all = Self::ALL.map(shown);
        match all.as_slice() {
            [first @ .., last] if !first.is_empty() => {
                format!("{} {word} {last}", first.join(", "))
            }
            all => all.concat(),
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
        assert_eq!(EngineKind::list("or", |kind| kind.to_string()), "podman or docker");
        for other in ["auto", "Podman", "", "docker "] {
            let error = other.parse::<EngineKind>().unwrap_err().to_string();
            assert!(error.contains("`podman` and `docker`"), "{error}");
        }
    }
}
