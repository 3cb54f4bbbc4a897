//! The keys of the labels and annotations that our images carry.
//!
//! `org.opencontainers.image.*` are the OCI image specification's predefined annotation keys,
//! `architecture`, `build-date`, `vcs-*` the ones Red Hat's tools read (Konflux writes the same
//! set as labels and as annotations); our own stand under [`OWN_PREFIX`].

/// Time the image carries, RFC 3339.
pub const CREATED: &str = "org.opencontainers.image.created";
/// Address of the project. Only on request, with [`REVISION`].
pub const SOURCE: &str = "org.opencontainers.image.source";
/// Commit that last changed a file which the image is made from. Only on request: it depends on the
/// history of a repository and not on the content of the files (docs/adr/0003).
pub const REVISION: &str = "org.opencontainers.image.revision";
/// Version of what is inside.
pub const VERSION: &str = "org.opencontainers.image.version";
/// Title for people.
pub const TITLE: &str = "org.opencontainers.image.title";
/// One sentence for people.
pub const DESCRIPTION: &str = "org.opencontainers.image.description";
/// Fully qualified name of the base.
pub const BASE_NAME: &str = "org.opencontainers.image.base.name";
/// Pinned digest of the base: of its index or of its manifest, as the pin says.
pub const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";

/// Processor architecture, as `uname -m` prints it.
pub const ARCHITECTURE: &str = "architecture";
/// The same as [`CREATED`].
pub const BUILD_DATE: &str = "build-date";
/// Always `git`.
pub const VCS_TYPE: &str = "vcs-type";
/// The same as [`REVISION`].
pub const VCS_REF: &str = "vcs-ref";

/// What our own keys start with.
pub const OWN_PREFIX: &str = "io.github.build-pipeline.";
/// The track.
pub const TRACK: &str = "io.github.build-pipeline.track";
/// The GPU target.
pub const GPU: &str = "io.github.build-pipeline.gpu";
/// SHA-256 of the plan's canonical text.
pub const PLAN_DIGEST: &str = "io.github.build-pipeline.plan-digest";
/// SHA-256 of the values of the pins that the image is made from.
pub const PINS_DIGEST: &str = "io.github.build-pipeline.pins-digest";
/// The contract the image's bytes were made by.
pub const CONTRACT: &str = "io.github.build-pipeline.contract";
/// The value of `HSA_OVERRIDE_GFX_VERSION` that the image sets, or `off`.
pub const SPOOF: &str = "io.github.build-pipeline.spoof";
/// `true` on a rehearsed image, `false` on a real one.
pub const REHEARSAL: &str = "io.github.build-pipeline.rehearsal";
/// What the run changed against the data files, as `name=value` separated by spaces. Absent where
/// nothing was changed.
pub const OVERRIDES: &str = "io.github.build-pipeline.overrides";
/// The ROCm release inside, where the pin knows it.
pub const ROCM_VERSION: &str = "io.github.build-pipeline.rocm.version";

/// The variant of a track that an engine built.
pub const VARIANT: &str = "io.github.build-pipeline.variant";
/// What the keys of source labels start with, followed by the pin and `.source`, `.revision`,
/// `.sha256` or `.version`.
pub const PIN_PREFIX: &str = "io.github.build-pipeline.pin.";
/// The patches whose effect the sources have, as `component/id` separated by spaces, in the order in
/// which they are applied. Absent where there are none.
pub const PATCHES: &str = "io.github.build-pipeline.patches";
/// SHA-256 over the effects of [`PATCHES`], in order: lines of `component/id effect`.
pub const PATCHES_DIGEST: &str = "io.github.build-pipeline.patches-digest";
/// What sealing leaves out of the layers, separated by spaces.
pub const SCRUBBED: &str = "io.github.build-pipeline.scrubbed";

/// Labels and annotations of a base that would lie about an image made from it.
///
/// They describe the image they stand on: who built it, from what, when. A final `*` makes a prefix.
pub const RESET: [&str; 22] = [
    "org.opencontainers.image.*",
    "io.github.build-pipeline.*",
    "org.label-schema.*",
    "architecture",
    "build-date",
    "com.redhat.component",
    "description",
    "distribution-scope",
    "io.buildah.version",
    "io.k8s.description",
    "io.k8s.display-name",
    "io.openshift.tags",
    "maintainer",
    "name",
    "release",
    "summary",
    "url",
    "vcs-ref",
    "vcs-type",
    "vcs-url",
    "vendor",
    "version",
];
