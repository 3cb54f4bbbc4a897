//! The reasons why no plan can be made.

/// The reason why no plan can be made. The command line adds a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The track and a track below it have stages with the same name, so their images would have
    /// the same name.
    #[error("track `{track}` and a track that it is based on both have a stage `{stage}`")]
    SameStage {
        /// The track.
        track: String,
        /// The stage.
        stage: String,
    },
    /// The track cannot be rehearsed.
    #[error("track `{track}` cannot be rehearsed, because it has no key `rehearsal`")]
    NoRehearsal {
        /// The track.
        track: String,
    },
    /// The track has no such variant.
    #[error("track `{track}` has no variant `{variant}`")]
    UnknownVariant {
        /// The track.
        track: String,
        /// The requested variant.
        variant: String,
        /// All variants.
        known: Vec<String>,
    },
    /// A rehearsal always uses one particular variant.
    #[error("track `{track}` is rehearsed with variant `{rehearsed}`, not with `{variant}`")]
    RehearsedOtherwise {
        /// The track.
        track: String,
        /// The requested variant.
        variant: String,
        /// The variant for rehearsals.
        rehearsed: String,
    },
    /// A variant was requested for a track without variants.
    #[error("track `{track}` has no variants")]
    NoVariants {
        /// The track.
        track: String,
    },
    /// A file that the track's settings name does not exist.
    #[error("track `{track}` needs `{path}`, which does not exist")]
    NoSuchFile {
        /// The track.
        track: String,
        /// The file, from the root of the project.
        path: String,
    },
    /// A package lock does not contain a set that the track's settings name.
    #[error("`{lock}` has no set `{set}`, but track `{track}` needs it")]
    NoSuchSet {
        /// The track.
        track: String,
        /// The lock, from the root of the project.
        lock: String,
        /// The set.
        set: String,
    },
    /// The caller has not read the track's own files.
    #[error("the project files of track `{track}` were not read")]
    NoOwnFiles {
        /// The track.
        track: String,
    },
    /// A Python lock in the track's settings has not been made.
    #[error("track `{track}` needs the Python lock `{lock}`, which has not been made yet")]
    NoLock {
        /// The track.
        track: String,
        /// The lock, a table of `python.toml`.
        lock: String,
        /// Whether the track can be rehearsed.
        has_rehearsal: bool,
    },
    /// No verified commit or hash of a source is recorded yet.
    #[error("pin `{pin}` is unresolved: no commit or hash is recorded for `{from}`")]
    UnresolvedSource {
        /// The pin.
        pin: String,
        /// The repository or project.
        from: String,
    },
    /// `tracks.toml` has no table for the track.
    #[error("`tracks.toml` has no settings for track `{track}`")]
    NoSettings {
        /// The track.
        track: String,
    },
    /// The base of a track is not an image pin.
    #[error("track `{track}` is based on `{pin}`, which is not an image pin in `versions.toml`")]
    NoSuchBase {
        /// The track.
        track: String,
        /// The pin.
        pin: String,
    },
    /// A source of a track is neither a source pin nor an archive pin.
    #[error(
        "track `{track}` is built from `{pin}`, which is not a source or archive pin in `versions.toml`"
    )]
    NoSuchSource {
        /// The track.
        track: String,
        /// The pin.
        pin: String,
    },
    /// No verified digest of the base is recorded yet.
    #[error("pin `{pin}` is unresolved: no digest is recorded for `{image}`")]
    Unresolved {
        /// The pin.
        pin: String,
        /// The image, with its tag if it has one.
        image: String,
        /// The tag, if the pin has one.
        tag: Option<String>,
        /// Whether the track can be rehearsed.
        has_rehearsal: bool,
    },
    /// An override names a pin that does not exist.
    #[error("there is no pin `{pin}`")]
    UnknownPin {
        /// The given name.
        pin: String,
        /// All pin names.
        known: Vec<String>,
    },
    /// An override names a pin that the track does not use.
    #[error("track `{track}` does not use pin `{pin}`")]
    UnusedPin {
        /// The track.
        track: String,
        /// The pin.
        pin: String,
        /// The pins that it uses.
        used: UsedPins,
    },
    /// The patches of a source that the track builds do not exist.
    #[error("pin `{pin}` is built with the patches of component `{component}`, which do not exist")]
    NoPatches {
        /// The pin.
        pin: String,
        /// The component, a folder of `patches/`.
        component: String,
    },
    /// A pin's version cannot be used to choose patches.
    #[error("pin `{pin}` has version `{version}`, which cannot be used to choose patches")]
    PatchVersion {
        /// The pin.
        pin: String,
        /// The version.
        version: String,
        /// The reason.
        #[source]
        source: names::ParseVersionError,
    },
    /// A patch would break this version of the source.
    #[error("patch `{component}/{patch}` refuses pin `{pin}`: {because}")]
    PatchRefuses {
        /// The pin.
        pin: String,
        /// The component.
        component: String,
        /// The patch.
        patch: String,
        /// The reason.
        because: String,
    },
    /// Two patches for the source conflict.
    #[error(
        "patches `{first}` and `{second}` of component `{component}` conflict, and pin `{pin}` needs both"
    )]
    PatchConflict {
        /// The pin.
        pin: String,
        /// The component.
        component: String,
        /// A patch.
        first: String,
        /// The other one.
        second: String,
    },
    /// The steps contradict each other, which is a bug in the planner.
    #[error("the plan of track `{track}` is not valid")]
    Invalid {
        /// The track.
        track: String,
        /// The reason.
        #[source]
        source: plan::InvalidPlan,
    },
    /// `gpus.toml` does not list the GPU.
    #[error("`versions/gpus.toml` does not contain GPU `{gpu}`")]
    UnknownGpu {
        /// The target.
        gpu: String,
        /// All targets in the file.
        known: Vec<String>,
    },
    /// `slim` names a GPU that `gpus.toml` does not list.
    #[error("`slim` names GPU `{gpu}`, which `versions/gpus.toml` does not contain")]
    UnknownSlimGpu {
        /// The target.
        gpu: String,
        /// All targets in the file.
        known: Vec<String>,
    },
    /// The track needs a spoof, but none is known for the GPU.
    #[error("no spoof is known for GPU `{gpu}`")]
    NoSpoof {
        /// The target.
        gpu: String,
    },
    /// A spoof was requested for a track without one.
    #[error("track `{track}` sets no spoof")]
    NotASpoofTrack {
        /// The track.
        track: String,
    },
    /// The time is after the year 9999, which RFC 3339 cannot express.
    #[error("source-date-epoch `{0}` is after the year 9999")]
    Epoch(u64),
}

/// The pins that a plan uses, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedPins {
    /// The image pins, which `--set` can change.
    pub images: Vec<String>,
    /// All other pins.
    pub others: Vec<String>,
}
