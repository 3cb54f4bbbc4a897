//! Whether a GPU can run the code in a file.

use std::fmt;

use names::{GfxVersion, GpuTarget};

use crate::target::{CodeTarget, Fit};

/// The GPU that code should run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The GPU.
    pub gpu: GpuTarget,
    /// The version that the runtime must assume (`HSA_OVERRIDE_GFX_VERSION`). It then loads only
    /// code for that version.
    pub forced: Option<GfxVersion>,
    /// A version that the GPU can imitate, for [`Verdict::Spoof`].
    pub spoof: Option<GfxVersion>,
}

/// Whether a GPU can run the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// There is code for this GPU.
    Native,
    /// There is code for a generic target that this GPU belongs to.
    Generic,
    /// The GPU can run the code only if it imitates another GPU with this version.
    Spoof(GfxVersion),
    /// There may be code for this GPU: the code is for a family that the GPU belongs to, or for a
    /// target that this program does not know.
    Unknown,
    /// There is GPU code, but none for this GPU.
    None,
    /// There is no GPU code.
    HostOnly,
}

impl Wish {
    /// Judges the targets of the code in a file, or in a group of files that are used together.
    pub fn judge<'a>(&self, targets: impl IntoIterator<Item = &'a CodeTarget>) -> Verdict {
        let targets: Vec<&CodeTarget> = targets.into_iter().collect();
        let best = |gpu: &GpuTarget| targets.iter().filter_map(|target| target.fits(gpu)).min();
        let imitated = |version: GfxVersion| best(&version.target()?);
        let none = |gpu: Option<&GpuTarget>| match gpu {
            Some(gpu) if targets.iter().any(|target| target.may_fit(gpu)) => Verdict::Unknown,
            _ => Verdict::None,
        };
        if targets.is_empty() {
            return Verdict::HostOnly;
        }
        let own = GfxVersion::of_target(&self.gpu);
        if let Some(forced) = self.forced.filter(|forced| Some(*forced) != own) {
            // Another generation has different instructions.
            let is_similar = own.is_some_and(|own| own.major() == forced.major());
            let is_possible = is_similar || self.spoof == Some(forced);
            let fit = imitated(forced).filter(|_| is_possible);
            let gpu = forced.target().filter(|_| is_possible);
            return fit.map_or_else(|| none(gpu.as_ref()), |_| Verdict::Spoof(forced));
        }
        match (best(&self.gpu), self.spoof) {
            (Some(Fit::Exact), _) => Verdict::Native,
            (Some(Fit::Generic), _) => Verdict::Generic,
            (None, Some(spoof)) if imitated(spoof).is_some() => Verdict::Spoof(spoof),
            (None, _) => none(Some(&self.gpu)),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Generic => f.write_str("generic"),
            Self::Spoof(version) => write!(f, "only with spoof {version}"),
            Self::Unknown => f.write_str("not known"),
            Self::None => f.write_str("none"),
            Self::HostOnly => f.write_str("host only"),
        }
    }
}
