//! Types that plans and images share: terms of the OCI image specification, and the changes to a
//! base image.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The key of the label and annotation that record an image's track.
pub const TRACK_LABEL: &str = "io.github.build-pipeline.track";

/// The kind of object that a digest identifies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestKind {
    /// An image index (a list of platform manifests).
    Index,
    /// An image manifest, for one platform.
    Manifest,
}

/// A platform, as defined in the OCI image index specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The operating system, as a `GOOS` value.
    pub os: String,
    /// The CPU architecture, as a `GOARCH` value.
    pub architecture: String,
}

/// The changes to the config and manifest of a base image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageEdit {
    /// `created` of the config and of the new history entry, RFC 3339 in UTC.
    pub created: String,
    /// `created_by` of the new history entry.
    pub created_by: String,
    /// Environment variables to set; they replace the base's variables of the same name.
    pub env: BTreeMap<String, String>,
    /// The entrypoint, instead of the base's. If set, the base's arguments (`Cmd`) are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// The default arguments, instead of the base's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// The user, instead of the base's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The working directory, instead of the base's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Words to put before the entrypoint.
    pub entrypoint_prefix: Vec<String>,
    /// The base's labels and annotations to drop: whole keys, or prefixes that end in `*`.
    pub reset: Vec<String>,
    /// Labels to set. The plan digest is added later, because the plan cannot contain it.
    pub labels: BTreeMap<String, String>,
}

impl ManifestKind {
    /// Returns the spelling in plans and in `versions.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Manifest => "manifest",
        }
    }
}

impl ImageEdit {
    /// Returns whether a label or annotation of the base is dropped.
    pub fn resets(&self, key: &str) -> bool {
        self.reset.iter().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == rule,
        })
    }
}

impl Platform {
    /// Returns `linux/amd64`, the only platform of gfx1151 machines.
    pub fn linux_amd64() -> Self {
        Self { os: "linux".to_owned(), architecture: "amd64".to_owned() }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

impl fmt::Display for ManifestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_takes_whole_keys_and_prefixes() {
        let edit = |rules: &[&str]| ImageEdit {
            reset: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..ImageEdit::default()
        };
        for (rules, key, wanted) in [
            (&["name"][..], "name", true),
            (&["name"], "names", false),
            (&["name"], "nam", false),
            (&["name"], "Name", false),
            (&["name"], "org.example.name", false),
            (&["org.example.*"], "org.example.a", true),
            (&["org.example.*"], "org.example.", true),
            (&["org.example.*"], "org.example", false),
            (&["org.example.*"], "org.examples.a", false),
            (&["org.example.*"], "com.org.example.a", false),
            (&["*"], "anything", true),
            // A star inside a key is a literal star.
            (&["a*b"], "axb", false),
            (&["a*b"], "a*b", true),
            (&[], "", false),
            (&[""], "", true),
            (&["x", "y*"], "yes", true),
        ] {
            assert_eq!(edit(rules).resets(key), wanted, "{rules:?} {key}");
        }
    }

    #[test]
    fn a_kind_of_manifest_is_written_as_in_versions_toml() {
        assert_eq!(ManifestKind::Index.to_string(), "index");
        assert_eq!(ManifestKind::Manifest.to_string(), "manifest");
    }
}
