//! The keys of the labels and annotations of the images.
//!
//! `org.opencontainers.image.*` are the predefined annotation keys of the OCI image specification.
//! `architecture`, `build-date` and `vcs-*` are the keys that Red Hat's tools read (Konflux writes
//! the same set as labels and as annotations). This tool's own keys start with [`OWN_PREFIX`].

/// The time of the image, RFC 3339.
pub const CREATED: &str = "org.opencontainers.image.created";
/// The address of the project. Set only on request, together with [`REVISION`].
pub const SOURCE: &str = "org.opencontainers.image.source";
/// The last commit that changed a file that the image is made from. Set only on request, because it
/// depends on the history of a repository, not on the content of the files (docs/adr/0003).
pub const REVISION: &str = "org.opencontainers.image.revision";
/// The version: the base's tag, or its short digest. Absent if an engine builds the image.
pub const VERSION: &str = "org.opencontainers.image.version";
/// The title, for people.
pub const TITLE: &str = "org.opencontainers.image.title";
/// One sentence, for people.
pub const DESCRIPTION: &str = "org.opencontainers.image.description";
/// The fully qualified name of the base.
pub const BASE_NAME: &str = "org.opencontainers.image.base.name";
/// The pinned digest of the base: of its index or of its manifest, depending on the pin.
pub const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";

/// The CPU architecture, as `uname -m` prints it.
pub const ARCHITECTURE: &str = "architecture";
/// The same as [`CREATED`].
pub const BUILD_DATE: &str = "build-date";
/// Always `git`.
pub const VCS_TYPE: &str = "vcs-type";
/// The same as [`REVISION`].
pub const VCS_REF: &str = "vcs-ref";

/// The prefix of this tool's own keys.
pub const OWN_PREFIX: &str = "io.github.build-pipeline.";
/// The track.
pub const TRACK: &str = names::TRACK_LABEL;
/// The GPU target.
pub const GPU: &str = "io.github.build-pipeline.gpu";
/// The GPU targets that the image contains code for, separated by spaces; the build checked this.
/// Absent if the build did not check.
pub const GPU_TARGETS: &str = "io.github.build-pipeline.gpu-targets";
/// The contract by which code for other GPUs was removed, and the GPUs whose code was kept. Absent
/// if the image was not slimmed.
pub const SLIM: &str = "io.github.build-pipeline.slim";
/// The digest of the manifest before slimming, if the command `slim` wrote the image.
pub const SLIM_BASE: &str = "io.github.build-pipeline.slim-base";
/// The SHA-256 of the plan's canonical text.
pub const PLAN_DIGEST: &str = "io.github.build-pipeline.plan-digest";
/// The SHA-256 of the pins and locks that the image is made from.
pub const PINS_DIGEST: &str = "io.github.build-pipeline.pins-digest";
/// The contract that determines the image's bytes.
pub const CONTRACT: &str = "io.github.build-pipeline.contract";
/// The value of `HSA_OVERRIDE_GFX_VERSION` that the image sets, or `off`.
pub const SPOOF: &str = "io.github.build-pipeline.spoof";
/// `true` on a rehearsed image, `false` on a real one.
pub const REHEARSAL: &str = "io.github.build-pipeline.rehearsal";
/// The settings that this run overrides, as `name=value` separated by spaces. Absent if there are
/// none.
pub const OVERRIDES: &str = "io.github.build-pipeline.overrides";
/// The ROCm release in the image, if the pin states it. Absent if an engine builds the image.
pub const ROCM_VERSION: &str = "io.github.build-pipeline.rocm.version";

/// The variant. Absent for the default image of a track that needs no engine.
pub const VARIANT: &str = "io.github.build-pipeline.variant";
/// The prefix of source labels, followed by the pin and `.source`, `.revision`, `.sha256` or
/// `.version`.
pub const PIN_PREFIX: &str = "io.github.build-pipeline.pin.";
/// The patches that are in effect in the sources, as `component/id` separated by spaces, in order
/// of application. Absent if there are none.
pub const PATCHES: &str = "io.github.build-pipeline.patches";
/// The SHA-256 of the effects of [`PATCHES`], in order: lines of `component/id effect`.
pub const PATCHES_DIGEST: &str = "io.github.build-pipeline.patches-digest";
/// The SHA-256 of the list of the project's own files in layers and build contexts: one line per
/// entry, with path, mode, owner and digest. Absent if there are none.
pub const FILES_DIGEST: &str = "io.github.build-pipeline.files-digest";
/// The paths that sealing leaves out of the layers, separated by spaces.
pub const SCRUBBED: &str = "io.github.build-pipeline.scrubbed";

/// Labels and annotations of a base that would be wrong on an image based on it.
///
/// They describe only the base itself: who built it, from what, and when. A final `*` makes a key a
/// prefix.
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
