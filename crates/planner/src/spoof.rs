//! The spoof: it makes the HSA runtime treat one GPU as another.
//!
//! docker has no option that unsets an image's `ENV` (only `--env NAME` does so, if the caller does
//! not set NAME), and with an empty `HSA_OVERRIDE_GFX_VERSION` the runtime does not start at all
//! (libhsakmt, `topology.c`: the variable is present but cannot be parsed). So a spoofing image
//! sets the variable *and* starts through [`WRAPPER_SCRIPT`], which unsets it again if the user
//! asks for that.

use names::{GfxVersion, GpuTarget, PinName};
use pins::{Gpu, ImagePin};

use crate::{BuildRequest, PlanError, SpoofChoice, Warning};

/// The variable that the HSA runtime reads.
pub const OVERRIDE_VARIABLE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The variable that switches the spoof off when a container is started: `off`, `0` or `no`.
pub const OPT_OUT_VARIABLE: &str = "BUILD_PIPELINE_SPOOF";

/// The script that `sh` runs before the base's entrypoint in an image that spoofs.
///
/// It keeps a value that the user set, and unsets the variable if it is empty or if the opt-out
/// variable says so. It then replaces itself with the command (`exec`), so no shell remains as
/// process 1.
pub const WRAPPER_SCRIPT: &str = r#"case "${BUILD_PIPELINE_SPOOF-}" in off|0|no) unset HSA_OVERRIDE_GFX_VERSION;; esac
[ -n "${HSA_OVERRIDE_GFX_VERSION-}" ] || unset HSA_OVERRIDE_GFX_VERSION
[ $# -gt 0 ] || { echo 'no command: this image has no default, name one' >&2; exit 127; }
exec "$@""#;

/// Returns the words to put before the base's entrypoint.
pub(crate) fn entrypoint_prefix() -> Vec<String> {
    ["/bin/sh", "-c", WRAPPER_SCRIPT, "build-pipeline-spoof"].map(str::to_owned).to_vec()
}

/// Chooses the override of an image, and adds warnings about it.
pub(crate) fn decide(
    request: &BuildRequest,
    target: &GpuTarget,
    gpu: &Gpu,
    name: &PinName,
    base: &ImagePin,
    warnings: &mut Vec<Warning>,
) -> Result<Option<GfxVersion>, PlanError> {
    let native = native_support(target, gpu, base);
    let version = match request.spoof {
        SpoofChoice::Off => return Ok(None),
        SpoofChoice::Version(version) => version,
        SpoofChoice::Auto => {
            if let Some(why) = &native {
                warnings.push(Warning::new(
                    "spoof-not-needed",
                    format!("the spoof is left out: {why}. `--spoof VERSION` sets one anyway"),
                ));
                return Ok(None);
            }
            gpu.spoof.ok_or_else(|| PlanError::NoSpoof { gpu: target.to_string() })?
        }
    };
    if GfxVersion::of_target(target) == Some(version) {
        warnings.push(Warning::new(
            "spoof-is-identity",
            format!("{OVERRIDE_VARIABLE}={version} is already the version of {target}, so it changes nothing"),
        ));
    } else if let Some(why) = native {
        warnings.push(Warning::new(
            "spoof-not-needed",
            format!("{OVERRIDE_VARIABLE}={version} is not needed: {why}. On ROCm 7.2 and later it crashes programs (ROCm/ROCm#5824)"),
        ));
    } else {
        let support = match &gpu.native_since {
            // The reports of crashes come from this GPU.
            Some(release) if gpu.is_spoof_on_request => format!(
                "ROCm {release} and later support {target} without it, and crash with it (ROCm/ROCm#5824)"
            ),
            Some(release) => format!("ROCm {release} and later support {target} without it"),
            None => format!("no ROCm release is known to support {target} natively"),
        };
        let inside = match &base.rocm {
            Some(release) => format!("`{name}` has ROCm {release}"),
            None => format!("the ROCm release in `{name}` is not recorded"),
        };
        warnings.push(Warning::new(
            "spoof-unsupported",
            format!(
                "{OVERRIDE_VARIABLE}={version} on {target} is a debugging aid that AMD does not support (ROCm/ROCm#5238); {support}; {inside}. Start a container with `-e {OPT_OUT_VARIABLE}=off` to run without it"
            ),
        ));
    }
    Ok(Some(version))
}

/// Returns why the base is known to run on the GPU without a spoof, or `None`.
fn native_support(target: &GpuTarget, gpu: &Gpu, base: &ImagePin) -> Option<String> {
    if base.gpus.contains(target) {
        return Some(format!("the base has native code for {target}"));
    }
    let (inside, since) = (base.rocm.as_ref()?, gpu.native_since.as_ref()?);
    (release_number(inside)? >= release_number(since)?).then(|| {
        format!(
            "the base has ROCm {inside}, and ROCm has supported {target} natively since {since}"
        )
    })
}

/// Returns the numbers of a release such as `7.2.1`, for comparison. `7.2` is the same as `7.2.0`.
fn release_number(release: &str) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> =
        release.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}
