//! Why no plan can be made.

/// Why no plan can be made. What to do about it is said by the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An engine builds the track, so it stands on no image that only gets metadata.
    #[error("track `{track}` is built by an engine; it does not only add metadata to an image")]
    NeedsEngine {
        /// The track.
        track: &'static str,
    },
    /// The track cannot be rehearsed.
    #[error("track `{track}` cannot be rehearsed")]
    NoRehearsal {
        /// The track.
        track: &'static str,
    },
    /// The track has no such variant.
    #[error("track `{track}` has no variant `{variant}`")]
    UnknownVariant {
        /// The track.
        track: &'static str,
        /// The variant that was asked for.
        variant: String,
        /// All variants there are.
        known: Vec<String>,
    },
    /// A rehearsal is always of one variant.
    #[error("track `{track}` is rehearsed with variant `{rehearsed}`, not with `{variant}`")]
    RehearsedOtherwise {
        /// The track.
        track: &'static str,
        /// The variant that was asked for.
        variant: String,
        /// The one that it is rehearsed with.
        rehearsed: String,
    },
    /// A variant was asked for on a track that has none.
    #[error("track `{track}` has no variants")]
    NoVariants {
        /// The track.
        track: &'static str,
    },
    /// A file that the settings of the track name is not there.
    #[error("track `{track}` needs `{path}`, which is not there")]
    NoSuchFile {
        /// The track.
        track: &'static str,
        /// The file, from the root of the project.
        path: String,
    },
    /// A lock of packages does not have a set that the settings of the track name.
    #[error("`{lock}` has no set `{set}`, which track `{track}` needs")]
    NoSuchSet {
        /// The track.
        track: &'static str,
        /// The lock, from the root of the project.
        lock: String,
        /// The set.
        set: String,
    },
    /// A Python lock that the settings of the track name was never made.
    #[error("track `{track}` needs the Python lock `{lock}`, which was never made")]
    NoLock {
        /// The track.
        track: &'static str,
        /// The lock, a table of `python.toml`.
        lock: String,
    },
    /// Nobody could verify the commit or hash of a source yet.
    #[error("pin `{pin}` is unresolved: nobody has recorded a commit or hash of `{from}`")]
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
        track: &'static str,
    },
    /// The settings of the track name a pin that is not an image pin.
    #[error("track `{track}` stands on image pin `{pin}`, which `versions.toml` does not have")]
    NoSuchBase {
        /// The track.
        track: &'static str,
        /// The pin.
        pin: String,
    },
    /// Nobody could verify the digest of the base yet.
    #[error("pin `{pin}` is unresolved: nobody has recorded a digest of `{image}`")]
    Unresolved {
        /// The pin.
        pin: String,
        /// The image, with its tag where it has one.
        image: String,
        /// The tag, where the pin has one.
        tag: Option<String>,
    },
    /// An override names a pin that does not exist.
    #[error("there is no pin `{pin}`")]
    UnknownPin {
        /// The name that was given.
        pin: String,
        /// All names there are.
        known: Vec<String>,
    },
    /// An override names a pin that the track does not use.
    #[error("track `{track}` does not use pin `{pin}`")]
    UnusedPin {
        /// The track.
        track: &'static str,
        /// The pin.
        pin: String,
        /// What it uses instead.
        used: UsedPins,
    },
    /// The source that the track builds has patches, and nobody has read them.
    #[error(
        "pin `{pin}` is built with the patches of component `{component}`, which are not there"
    )]
    NoPatches {
        /// The pin.
        pin: String,
        /// The component, a folder of `patches/`.
        component: String,
    },
    /// A pin has a version that patches cannot be chosen by.
    #[error("pin `{pin}` has version `{version}`, which patches cannot be chosen by")]
    PatchVersion {
        /// The pin.
        pin: String,
        /// The version.
        version: String,
        /// Why.
        #[source]
        source: names::ParseVersionError,
    },
    /// A patch says that it does harm to the version of the source.
    #[error("patch `{component}/{patch}` refuses pin `{pin}`: {because}")]
    PatchRefuses {
        /// The pin.
        pin: String,
        /// The component.
        component: String,
        /// The patch.
        patch: String,
        /// Why.
        because: String,
    },
    /// Two patches that exclude each other are both for the source.
    #[error(
        "patches `{first}` and `{second}` of component `{component}` exclude each other, and pin `{pin}` needs both"
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
    /// The steps contradict each other: a defect of the planner.
    #[error("the plan of track `{track}` is not valid")]
    Invalid {
        /// The track.
        track: &'static str,
        /// Why.
        #[source]
        source: plan::InvalidPlan,
    },
    /// `gpus.toml` does not know the GPU.
    #[error("GPU `{gpu}` is not in `gpus.toml`")]
    UnknownGpu {
        /// The target.
        gpu: String,
        /// All targets there are.
        known: Vec<String>,
    },
    /// The track wants a spoof and none is known for the GPU.
    #[error("no spoof is known for GPU `{gpu}`")]
    NoSpoof {
        /// The target.
        gpu: String,
    },
    /// A spoof was asked for on a track that has none.
    #[error("track `{track}` sets no spoof")]
    NotASpoofTrack {
        /// The track.
        track: &'static str,
    },
    /// The time is after the year 9999, which RFC 3339 cannot write.
    #[error("source-date-epoch `{0}` is after the year 9999")]
    Epoch(u64),
}

/// The pins that a plan uses, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedPins {
    /// The image pins, which `--set` can change.
    pub images: Vec<String>,
    /// All others.
    pub others: Vec<String>,
}
