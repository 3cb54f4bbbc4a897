//! The format of `versions.toml`, only for its JSON schema, which editors use to check and complete
//! the file. Patterns describe the values; the parser checks more.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};

/// Returns the JSON schema of the file.
pub fn versions() -> Schema {
    schema_for!(VersionsFile)
}

/// The inputs of every image, pinned.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
struct VersionsFile {
    /// The version of the file format: 1.
    #[schemars(range(min = 1, max = 1))]
    schema: u32,
    /// Whether build-pipeline's own data files are the defaults of this project; true if absent.
    #[serde(default = "yes")]
    built_in: bool,
    /// SOURCE_DATE_EPOCH of every image: the time of the newest pin change, in seconds.
    #[schemars(range(min = 1_577_836_800_u64, max = 4_294_967_296_u64))]
    source_date_epoch: u64,
    /// Git trees.
    #[serde(default)]
    source: BTreeMap<String, Source>,
    /// Release archives from a Python package index.
    #[serde(default)]
    archive: BTreeMap<String, Archive>,
    /// Container images.
    #[serde(default)]
    image: BTreeMap<String, Image>,
    /// Sets of packages that belong together.
    #[serde(default)]
    release: BTreeMap<String, Release>,
}

/// The default of `built-in`.
fn yes() -> bool {
    true
}

/// A git tree at a full commit.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Source {
    /// The URL of the repository.
    #[schemars(regex(pattern = "^https://"))]
    url: String,
    /// The tag or branch under which the commit was found; `bump` and `outdated` look it up again.
    #[serde(default)]
    r#ref: Option<String>,
    /// The version, without a `v`.
    #[serde(default)]
    version: Option<String>,
    /// The full commit, or `unresolved`.
    #[schemars(regex(pattern = "^([0-9a-f]{40}|[0-9a-f]{64}|unresolved)$"))]
    commit: String,
    /// The folder below patches/ whose patches apply to this tree.
    #[serde(default)]
    patches: Option<String>,
    /// Build arguments that describe this tree.
    #[serde(default)]
    args: BTreeMap<String, String>,
    /// The date of the last check.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The date after which the input is expected to disappear.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was found.
    #[serde(default)]
    evidence: Option<String>,
    /// Why the pin must stay at its value.
    #[serde(default)]
    hold: Option<String>,
}

/// A release archive with a known hash.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Archive {
    /// The project's name on the index.
    project: String,
    /// The exact version.
    version: String,
    /// The hash of the archive, or `unresolved`.
    #[schemars(regex(pattern = "^([0-9a-f]{64}|unresolved)$"))]
    sha256: String,
    /// The directory inside the archive to use.
    #[serde(default)]
    subdirectory: Option<String>,
    /// The folder below patches/ whose patches apply to this tree.
    #[serde(default)]
    patches: Option<String>,
    /// Build arguments that describe this tree.
    #[serde(default)]
    args: BTreeMap<String, String>,
    /// The date of the last check.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The date after which the input is expected to disappear.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was found.
    #[serde(default)]
    evidence: Option<String>,
    /// Why the pin must stay at its value.
    #[serde(default)]
    hold: Option<String>,
}

/// A container image at a digest.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Image {
    /// Registry and path, without a tag.
    repository: String,
    /// The tag under which the digest was found; `bump` and `outdated` look it up again.
    #[serde(default)]
    tag: Option<String>,
    /// The digest, or `unresolved`.
    #[schemars(regex(pattern = "^(sha256:[0-9a-f]{64}|unresolved)$"))]
    digest: String,
    /// Whether the digest is that of an index or a manifest.
    #[serde(default)]
    kind: Option<Kind>,
    /// Whether each run looks up the tag again.
    #[serde(default)]
    follow: Option<bool>,
    /// The ROCm release in the image.
    #[serde(default)]
    rocm: Option<String>,
    /// GPU targets that the image contains native code for.
    #[serde(default)]
    gpus: Option<Vec<String>>,
    /// Why the vendor no longer builds the image, and what replaces it.
    #[serde(default)]
    discontinued: Option<String>,
    /// The date of the last check.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The date after which the input is expected to disappear.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was found.
    #[serde(default)]
    evidence: Option<String>,
    /// Why the pin must stay at its value.
    #[serde(default)]
    hold: Option<String>,
}

/// What kind of document a digest identifies.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Kind {
    /// A list of platforms.
    Index,
    /// One platform.
    Manifest,
}

/// A set of packages that belong together.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Release {
    /// The index that the packages come from.
    #[schemars(regex(pattern = "^https://"))]
    index: String,
    /// Exact versions by name.
    packages: BTreeMap<String, String>,
    /// The date of the last check.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The date after which the input is expected to disappear.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was found.
    #[serde(default)]
    evidence: Option<String>,
    /// Why the pin must stay at its value.
    #[serde(default)]
    hold: Option<String>,
}
