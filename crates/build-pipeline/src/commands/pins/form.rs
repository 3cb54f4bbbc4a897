//! The form of `versions.toml`, for its JSON schema and nothing else: editors check and complete
//! with it. What single values may be is said by patterns; the reader in `pins` says more.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// The inputs of every image, pinned.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is wanted")]
pub(crate) struct VersionsFile {
    /// The number of the file's form: 1.
    #[schemars(range(min = 1, max = 1))]
    schema: u32,
    /// SOURCE_DATE_EPOCH of every image: the time of the newest pin change, in seconds.
    #[schemars(range(min = 1_577_836_800_u64, max = 4_294_967_296_u64))]
    source_date_epoch: u64,
    /// Git trees.
    #[serde(default)]
    source: BTreeMap<String, Source>,
    /// Release archives of the Python index.
    #[serde(default)]
    archive: BTreeMap<String, Archive>,
    /// Container images.
    #[serde(default)]
    image: BTreeMap<String, Image>,
    /// Sets of packages that belong together.
    #[serde(default)]
    release: BTreeMap<String, Release>,
}

/// A git tree at a full commit.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Source {
    /// Where the repository lies.
    #[schemars(regex(pattern = "^https://"))]
    url: String,
    /// The tag or branch the commit was found under, for readers.
    #[serde(default)]
    r#ref: Option<String>,
    /// The version this is, without a `v`.
    #[serde(default)]
    version: Option<String>,
    /// The commit, whole, or `unresolved`.
    #[schemars(regex(pattern = "^([0-9a-f]{40}|[0-9a-f]{64}|unresolved)$"))]
    commit: String,
    /// The folder below patches/ whose patches fit this tree.
    #[serde(default)]
    patches: Option<String>,
    /// The day it was last checked.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The day after which it is expected to be gone.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was read.
    #[serde(default)]
    evidence: Option<String>,
}

/// A release archive with a known hash.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Archive {
    /// The project's name on the index.
    project: String,
    /// The exact version.
    version: String,
    /// The hash of the archive, or `unresolved`.
    #[schemars(regex(pattern = "^([0-9a-f]{64}|unresolved)$"))]
    sha256: String,
    /// The directory inside the archive that is meant.
    #[serde(default)]
    subdirectory: Option<String>,
    /// The folder below patches/ whose patches fit this tree.
    #[serde(default)]
    patches: Option<String>,
    /// The day it was last checked.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The day after which it is expected to be gone.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was read.
    #[serde(default)]
    evidence: Option<String>,
}

/// A container image at a digest.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Image {
    /// Registry and path, without tag.
    repository: String,
    /// The tag the digest was found under, for readers.
    #[serde(default)]
    tag: Option<String>,
    /// The digest, or `unresolved`.
    #[schemars(regex(pattern = "^(sha256:[0-9a-f]{64}|unresolved)$"))]
    digest: String,
    /// What it is the digest of.
    #[serde(default)]
    kind: Option<Kind>,
    /// Whether the tag is asked for at each run.
    #[serde(default)]
    follow: Option<bool>,
    /// The ROCm release inside.
    #[serde(default)]
    rocm: Option<String>,
    /// GPU targets that it has native code for.
    #[serde(default)]
    gpus: Option<Vec<String>>,
    /// Why the vendor no longer builds it, and what follows it.
    #[serde(default)]
    discontinued: Option<String>,
    /// The day it was last checked.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The day after which it is expected to be gone.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was read.
    #[serde(default)]
    evidence: Option<String>,
}

/// What a digest is the digest of.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is wanted")]
enum Kind {
    /// A list of platforms.
    Index,
    /// One platform.
    Manifest,
}

/// A set of packages that belong together.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Release {
    /// The index they come from.
    #[schemars(regex(pattern = "^https://"))]
    index: String,
    /// Exact versions by name.
    packages: BTreeMap<String, String>,
    /// The day it was last checked.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    checked: Option<String>,
    /// The day after which it is expected to be gone.
    #[serde(default)]
    #[schemars(extend("format" = "date"))]
    expires: Option<String>,
    /// Where the value was read.
    #[serde(default)]
    evidence: Option<String>,
}
