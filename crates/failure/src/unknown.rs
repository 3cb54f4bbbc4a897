//! Failures for unknown names: they suggest a similar name, or list the names that exist.

use names::GpuTarget;

use crate::{Failure, Kind};

impl Failure {
    /// Adds a hint for an unknown name: the closest of `known`, or else `otherwise`.
    pub fn did_you_mean<'a>(
        self,
        typed: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: impl Into<String>,
    ) -> Self {
        match nearest(typed, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self.hint(otherwise),
        }
    }
}

/// Returns the name in `known` that is closest to `typed`, if one is close enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::damerau_levenshtein(typed, name), name));
    let (distance, name) = scored.min()?;
    let is_part =
        name.len() >= 4 && typed.len() >= 4 && (name.contains(typed) || typed.contains(name));
    (distance <= 1 + typed.len() / 4 || is_part).then_some(name)
}

/// Returns whether `typed` differs from a name by one letter at most, or by two that are swapped.
pub fn is_nearly(typed: &str, name: &str) -> bool {
    strsim::damerau_levenshtein(typed, name) <= 1
}

/// Parses the name of a GPU target. `gpus.toml` need not contain it.
///
/// # Errors
/// Fails if `text` is not the name of a target.
pub fn gpu_target(text: &str) -> Result<GpuTarget, Failure> {
    text.parse().map_err(|error: names::ParseNameError| {
        Failure::caused(Kind::Input, format!("cannot use the GPU target `{text}`"), &error).hint(
            "write a target, for example `gfx1151`; `rocminfo | grep gfx` prints that of this machine",
        )
    })
}

/// Returns the failure for a GPU target that `gpus.toml` does not contain. `known` are the targets
/// in the file.
pub fn unknown_gpu<'a>(gpu: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.into_iter().collect();
    let told = Failure::new(Kind::Input, format!("the GPU `{gpu}` is not known"));
    let family = known.iter().copied().filter(|other| is_of_family(other, gpu));
    let told = match nearest(gpu, family) {
        Some(near) if !is_well_formed(gpu) => told.hint(format!("did you mean `{near}`?")),
        _ => told,
    };
    told.hint(format!("the known targets are {}", known.join(", "))).hint(format!(
        "to add `{gpu}`, write a table `[{gpu}]` with `name` and `family` into versions/gpus.toml of your project (`build-pipeline init` creates a project)"
    ))
}

/// Returns whether a name has the form of the targets that LLVM lists (AMDGPUUsage): `gfx`, the
/// major version, and two digits, the last of them hexadecimal. Such a name probably means another
/// GPU and is not a typo, and code for a similar GPU would not run on that GPU.
fn is_well_formed(gpu: &str) -> bool {
    let Some(version) = gpu.strip_prefix("gfx") else { return false };
    let length = if version.starts_with('1') { 4 } else { 3 };
    version.len() == length && version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether two targets have the same major version, for example gfx11. In gfx9, the last
/// digits distinguish generations, so no two targets count as similar.
fn is_of_family(gpu: &str, other: &str) -> bool {
    let major =
        |target: &str| target.get(..5).filter(|start| start.starts_with("gfx1")).map(str::to_owned);
    major(gpu).is_some() && major(gpu) == major(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_of_another_generation_is_not_suggested() {
        let known = ["gfx1151", "gfx1103", "gfx1201", "gfx90a", "gfx942"];
        for (gpu, wanted) in [
            ("gfx1203", "the known targets are gfx1151, gfx1103, gfx1201, gfx90a, gfx942"),
            ("gfx1154", "the known targets are gfx1151, gfx1103, gfx1201, gfx90a, gfx942"),
            ("gfx1250", "the known targets are gfx1151, gfx1103, gfx1201, gfx90a, gfx942"),
            ("gfx115", "did you mean `gfx1151`?"),
            ("gfx1151l", "did you mean `gfx1151`?"),
            ("gfx12o1", "did you mean `gfx1201`?"),
            ("gfx1303", "the known targets are gfx1151, gfx1103, gfx1201, gfx90a, gfx942"),
            ("gfx906", "the known targets are gfx1151, gfx1103, gfx1201, gfx90a, gfx942"),
        ] {
            assert_eq!(unknown_gpu(gpu, known).hints[0], wanted, "{gpu}");
        }
    }
}
