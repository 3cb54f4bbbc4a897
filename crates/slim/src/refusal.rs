//! Why an image is not slimmed.

use audit::{AuditReport, Found};
use gpu_code::Wish;
use names::{GfxVersion, GpuTarget};

/// Why an image is not slimmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Files that may contain the code for a GPU cannot be read. These are their paths.
    #[error("it cannot be slimmed safely, because files with GPU code cannot be read: {0}")]
    Unreadable(String),
    /// It has no GPU code.
    #[error("it has no GPU code")]
    NoCode,
    /// It sets `HSA_OVERRIDE_GFX_VERSION`, and the code for the selected GPU would be removed.
    #[error("it makes ROCm treat the GPU as {0}, so it does not work without the code for {0}")]
    Imitates(GpuTarget),
    /// It has no code for a GPU whose code must be kept.
    #[error("it contains no code for {gpu}; its targets: {targets}")]
    Lacks {
        /// The GPU.
        gpu: GpuTarget,
        /// The targets of its code.
        targets: String,
    },
}

/// Checks that an image still works on the GPUs once the code for other GPUs is removed. The
/// image need not have code for the GPUs in `if_present`. `forced` is the version that the image
/// makes ROCm assume.
///
/// # Errors
/// Fails if the image would not work, or has no GPU code.
pub fn check(
    found: &Found,
    gpus: &[GpuTarget],
    if_present: &[GpuTarget],
    forced: Option<GfxVersion>,
) -> Result<(), Refusal> {
    let report = |gpu: &GpuTarget| {
        let wish = Wish { gpu: gpu.clone(), forced: None, spoof: None };
        AuditReport::new(String::new(), found.clone(), &wish)
    };
    let Some(first) = gpus.first().map(report) else { return Err(Refusal::NoCode) };
    let damaged: Vec<&str> = first.unreadable.iter().map(|file| &*file.path).collect();
    let or_damaged = |refusal| match &*damaged {
        [] => refusal,
        paths => Refusal::Unreadable(paths.join(", ")),
    };
    if first.targets.is_empty() {
        return Err(or_damaged(Refusal::NoCode));
    }
    let imitated = forced.and_then(|version| version.target());
    let is_kept = |gpu: &GpuTarget| gpus.contains(gpu) || if_present.contains(gpu);
    if let Some(imitated) = imitated.filter(|imitated| !is_kept(imitated)) {
        return Err(Refusal::Imitates(imitated));
    }
    match gpus.iter().find(|gpu| !report(gpu).is_usable()) {
        Some(gpu) => {
            let targets: Vec<&str> = first.targets.iter().map(|one| &*one.target).collect();
            let targets = targets.join(", ");
            Err(or_damaged(Refusal::Lacks { gpu: gpu.clone(), targets }))
        }
        None => Ok(()),
    }
}
