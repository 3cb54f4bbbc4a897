//! Which GPU a file is about: the targets and products that it names.

use std::collections::BTreeSet;

use ::names::{GfxVersion, GpuTarget};

use crate::Context;
use crate::data::data;

/// How sure it is that a row about some GPUs applies to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// The file is about other GPUs.
    No,
    /// Nothing says which GPU the file is about.
    Unknown,
    /// The file is about one of the GPUs, and about others.
    Possible,
    /// The file is about one of the GPUs.
    Certain,
}

/// The GPUs that a file names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) named: BTreeSet<GpuTarget>,
}

impl Target {
    /// Reads the names of targets and products in a file and in its path.
    pub(crate) fn read(file: &str, text: &str) -> Self {
        let lower = format!("{file}\n{text}").to_ascii_lowercase();
        let mut named = BTreeSet::new();
        for (at, _) in lower.match_indices("gfx") {
            // The value of an override is not the GPU.
            let before = lower[..at].trim_end_matches(['=', ':', '"', '\'', ' ']);
            if before.ends_with("hsa_override_gfx_version") {
                continue;
            }
            let rest = &lower[at..];
            let end =
                rest[3..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |e| e + 3);
            // `gfx110X` is a family, and no target.
            named.extend(rest[..end].parse::<GpuTarget>().ok().filter(|_| (6..=7).contains(&end)));
        }
        for row in &data().gpus {
            if row.words.iter().any(|word| lower.contains(word.as_str())) {
                named.insert(row.target.clone());
            }
        }
        // The target of an override is not the GPU, unless the rules are about it.
        let is_judged =
            |gpu: &GpuTarget| data().overrides.iter().any(|one| one.row.gpus.contains(gpu));
        if named.len() > 1 {
            for imitated in overridden(&lower).into_iter().filter(|gpu| !is_judged(gpu)) {
                named.remove(&imitated);
            }
        }
        Self { named }
    }

    /// Returns whether a row about `gpus` applies. An empty list means all GPUs.
    pub(crate) fn matches(&self, gpus: &[GpuTarget], context: Context<'_>) -> Match {
        if gpus.is_empty() {
            return Match::Certain;
        }
        let certain = |gpu: &GpuTarget| if gpus.contains(gpu) { Match::Certain } else { Match::No };
        if let Some(gpu) = context.gpu {
            return certain(gpu);
        }
        if self.named.is_empty() {
            return context.project_gpu.map_or(Match::Unknown, certain);
        }
        match self.named.iter().filter(|gpu| gpus.contains(gpu)).count() {
            0 => Match::No,
            count if count == self.named.len() => Match::Certain,
            _ => Match::Possible,
        }
    }

    /// Returns whether a version is the own one of a GPU that the file is about.
    pub(crate) fn is_own(&self, version: GfxVersion, context: Context<'_>) -> bool {
        let is = |gpu: &GpuTarget| GfxVersion::of_target(gpu) == Some(version);
        match context.gpu {
            Some(gpu) => is(gpu),
            None if self.named.is_empty() => context.project_gpu.is_some_and(is),
            None => self.named.iter().any(is),
        }
    }
}

/// Returns the targets that the overrides of a text imitate.
fn overridden(lower: &str) -> Vec<GpuTarget> {
    let after = |at: usize| {
        let rest = lower[at..].trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest = rest.trim_start_matches(['=', ':', ' ', '"', '\'', '-', '$', '{']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        rest[..end].parse::<GfxVersion>().ok()?.target()
    };
    lower.match_indices("hsa_override_gfx_version").filter_map(|(at, _)| after(at)).collect()
}
