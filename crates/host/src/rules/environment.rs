//! Environment variables that change which GPU a program sees or which code it loads, and those
//! that have no effect.

use names::{GfxVersion, GpuTarget};
use pins::{OVERRIDE, refused_variable};

use super::{Context, Finding, Severity, Verdict};
use crate::gpu::Gpu;

/// Returns the override for all GPUs and those for single nodes (`…_1`), with their values.
fn overrides<'a>(context: &'a Context<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = context.machine.environment.iter();
    all.filter(|(name, _)| name.starts_with(OVERRIDE))
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

fn where_from(name: &str) -> String {
    format!(
        "grep -rn {name} ~/.bashrc ~/.profile ~/.config/environment.d /etc/environment /etc/profile.d 2>/dev/null"
    )
}

/// The HSA runtime can parse the override.
pub(super) fn override_form(context: &Context<'_>) -> Verdict {
    let findings = overrides(context).filter_map(|(name, value)| {
        let error = value.parse::<GfxVersion>().err()?;
        let seen = match value {
            "" => format!("{name} is set, but empty"),
            _ => format!("{name}={value}: {error}"),
        };
        let finding = Finding::new(Severity::Error, seen, "not set, or `major.minor.stepping`")
            .because(
                "the HSA runtime refuses to start, so no GPU is found; an empty value is wrong too",
                "libhsakmt topology.c",
            );
        Some(finding.repair(format!("unset {name}")).repair(where_from(name)))
    });
    Verdict::of(findings.collect(), || match overrides(context).next() {
        None => "not set".to_owned(),
        Some((name, value)) => format!("{name}={value}"),
    })
}

/// Returns the override that the HSA runtime reads for a GPU: its own (`…_<node>`), or else the one
/// for all GPUs.
fn effective<'a>(context: &'a Context<'_>, gpu: &Gpu) -> Option<(&'a str, &'a str)> {
    let own = gpu.node_number().map(|node| format!("{OVERRIDE}_{node}"));
    overrides(context)
        .find(|(name, _)| Some(*name) == own.as_deref())
        .or_else(|| overrides(context).find(|(name, _)| *name == OVERRIDE))
}

/// The override is not used for a GPU that ROCm supports.
pub(super) fn override_value(context: &Context<'_>) -> Verdict {
    if overrides(context).next().is_none() {
        return missing(context).map_or_else(|| Verdict::fine("not set"), Verdict::from);
    }
    let Some((gpu, target)) = context.gpu() else {
        return Verdict::skipped("set, but there is no GPU to compare with");
    };
    if overrides(context).all(|(_, value)| value.parse::<GfxVersion>().is_err()) {
        return Verdict::skipped("set, but not a valid version");
    }
    let mut findings: Vec<Finding> =
        overrides(context).filter_map(|(name, value)| without_gpu(context, name, value)).collect();
    let Some((name, value)) = effective(context, gpu) else {
        return Verdict::of(findings, || format!("set, but not for {target}"));
    };
    match value.parse::<GfxVersion>() {
        Ok(version) if Some(version) == GfxVersion::of_target(target) => {
            let same = Finding::new(
                Severity::Note,
                format!("{name}={value} is already the version of {target}"),
                "not set",
            )
            .because(
                "it changes nothing here, but breaks containers that are started on another GPU",
                "libhsakmt topology.c",
            );
            findings.push(same.repair(format!("unset {name}")));
        }
        Ok(_) => findings.extend(spoof(context, name, value)),
        Err(_) => {}
    }
    Verdict::of(findings, || "set to the version that this GPU needs".to_owned())
}

/// Returns a finding if the first ROCm release of the images has no code for the GPU, and an
/// override helps.
fn missing(context: &Context<'_>) -> Option<Finding> {
    let (_, target) = context.gpu()?;
    let releases = context.releases();
    let (rocm, _) = releases.first()?;
    let wanted = context.gpus.wanted_override(target, Some(rocm))?;
    let since = context.gpus.gpus.get(target).and_then(|known| known.native_since.as_deref());
    let newer = since.map_or(String::new(), |since| format!(", from ROCm {since} on"));
    let finding = Finding::new(
        Severity::Warning,
        format!("not set, and ROCm {rocm} has no code for {target}"),
        format!("an image with code for {target}{newer}, or else {OVERRIDE}={wanted}"),
    )
    .because(
        "programs then find no GPU, or fail with `invalid device function`; with the override, some programs work, and others hang, because they get code for a larger GPU",
        "versions/gpus.toml; ublue-os/bluefin#2197; a maintainer in ROCm/legacy-rocm-build#4557",
    );
    Some(finding.repair(format!("eval \"$(build-pipeline env --gpu {target})\"")))
}

/// Returns a finding if an override is for a node that is not a GPU.
fn without_gpu(context: &Context<'_>, name: &str, value: &str) -> Option<Finding> {
    let suffix = name.strip_prefix(OVERRIDE)?.strip_prefix('_')?;
    let nodes: Vec<u32> = context.machine.gpus.iter().filter_map(Gpu::node_number).collect();
    if suffix.parse().is_ok_and(|node| nodes.contains(&node)) {
        return None;
    }
    let names: Vec<String> = nodes.iter().map(|node| format!("{OVERRIDE}_{node}")).collect();
    let finding = Finding::new(
        Severity::Warning,
        format!("{name}={value}, but no GPU has the node number {suffix}"),
        format!("one of {}", names.join(", ")),
    )
    .because(
        "the runtime reads the variable with the number of the GPU's KFD node; CPUs have numbers too, so the first GPU is usually node 1",
        "libhsakmt topology.c",
    );
    Some(finding.repair(format!("unset {name}")))
}

/// The major version of the first RDNA GPUs. Before them, one family has GPUs that cannot run each
/// other's code, such as gfx908 and gfx90a.
const RDNA: u8 = 10;

/// Returns whether a version is of the GPU's family, whose GPUs run most of each other's code:
/// programs run on gfx1150 and gfx1152 with 11.5.1 (kyuz0/amd-strix-halo-toolboxes#43,
/// lemonade-sdk/lemonade#2002).
fn is_of_family(target: &GpuTarget, value: &str) -> bool {
    let family = |version: GfxVersion| {
        version.to_string().rsplit_once('.').map(|(family, _)| family.to_owned())
    };
    let given = value.parse::<GfxVersion>().ok().filter(|given| given.major() >= RDNA);
    given.is_some() && given.and_then(family) == GfxVersion::of_target(target).and_then(family)
}

/// Judges an override with the version of another GPU.
fn spoof(context: &Context<'_>, name: &str, value: &str) -> Option<Finding> {
    let (_, target) = context.gpu()?;
    let releases = context.releases();
    let native: Vec<String> = releases
        .iter()
        .filter(|(rocm, _)| context.gpus.is_native(target, rocm))
        .map(|(rocm, tracks)| format!("ROCm {rocm} ({})", tracks.join(", ")))
        .collect();
    let wanted = context.gpus.wanted_override(target, releases.first().map(|(rocm, _)| *rocm));
    let finding = |severity, why: String| {
        Finding::new(severity, format!("{name}={value} on a {target}"), "not set")
            .because(
                why,
                "ROCm/legacy-rocm-build#5238 and #5824; kyuz0/amd-strix-halo-toolboxes PR 115 and #43",
            )
            .repair(format!("unset {name}"))
            .repair(where_from(name))
    };
    if !native.is_empty() {
        let (severity, effect) = if is_of_family(target, value) {
            (Severity::Warning, "do not need the override")
        } else {
            (Severity::Error, "crash with the override")
        };
        return Some(finding(
            severity,
            format!(
                "it selects code for another GPU; programs on {} have native code for this GPU, and {effect}",
                native.join(" and ")
            ),
        ));
    }
    if wanted.is_some_and(|wanted| value.parse() == Ok(wanted)) {
        return None;
    }
    Some(finding(
        Severity::Warning,
        "it selects code for another GPU, which AMD intends only for debugging".to_owned(),
    ))
}

/// Variables that never existed, do nothing, or are only for a single run.
pub(super) fn variables(context: &Context<'_>) -> Verdict {
    let findings = context.machine.environment.iter().filter_map(|(name, value)| {
        let (what, help) = refused_variable(name, value).or_else(|| outdated(name, value))?;
        let finding = Finding::new(Severity::Warning, what, help).because(
            "it looks like a setting but has no effect, or it slows everything down",
            SOURCE,
        );
        Some(finding.repair(format!("unset {name}")))
    });
    Verdict::of(findings.collect(), || "no wrong variables".to_owned())
}

const SOURCE: &str =
    "ollama envconfig/config.go; vllm-project/vllm#32180; ROCm's documentation of HIP variables";

/// Variables that vLLM no longer reads.
fn outdated(name: &str, value: &str) -> Option<(String, String)> {
    match (name, value) {
        ("VLLM_USE_V1", "0") => {
            Some(("vLLM 0.14 and later ignore `VLLM_USE_V1=0`".to_owned(), "not set".to_owned()))
        }
        ("VLLM_ATTENTION_BACKEND", _) => Some((
            format!("current vLLM releases do not read `VLLM_ATTENTION_BACKEND={value}`"),
            format!("`vllm serve --attention-backend {value}`"),
        )),
        _ => None,
    }
}
