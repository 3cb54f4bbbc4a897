//! Is there a GPU, and is it the one that images are built for?

use names::GpuTarget;
use pins::OVERRIDE;

use super::kernel::newer_kernel;
use super::{Context, Finding, Severity, Verdict};
use crate::gpu::Gpu;

/// The compute driver lists a GPU.
pub(super) fn present(context: &Context<'_>) -> Verdict {
    let machine = context.machine;
    let known: Vec<String> = machine.gpus.iter().filter_map(|gpu| describe(context, gpu)).collect();
    if !known.is_empty() {
        return Verdict::fine(known.join("; "));
    }
    let Some(gpu) = machine.gpus.first() else {
        if machine.wsl.is_some() {
            return Verdict::skipped("WSL2 shows no GPU on the PCI bus; see wsl-gpu");
        }
        return none(context).into();
    };
    let address = gpu.address.as_deref().unwrap_or("an unknown address");
    let finding = |severity, seen: String, why: &str| {
        Finding::new(
            severity,
            seen,
            "the driver `amdgpu` is bound to it, and /sys/class/kfd lists it",
        )
        .because(why, "the kernel's documentation of amdgpu")
    };
    match gpu.driver.as_deref() {
        Some("amdgpu") => finding(
            Severity::Error,
            format!("the GPU at {address} has its driver, but no entry in /sys/class/kfd"),
            "without the compute driver, ROCm programs find no GPU; a kernel without CONFIG_HSA_AMD does not include this driver",
        )
        .repair("sudo dmesg | grep -iE 'amdgpu|kfd'"),
        Some(driver) => finding(
            Severity::Warning,
            format!("the driver `{driver}` is bound to the GPU at {address}"),
            "containers cannot use a GPU that is reserved for a virtual machine",
        )
        .repair("# only if no virtual machine uses the GPU:")
        .repair(format!("echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/unbind"))
        .repair("echo 1 | sudo tee /sys/bus/pci/rescan && sudo modprobe amdgpu"),
        None if machine.kernel.words.iter().any(|word| word == "nomodeset") => finding(
            Severity::Error,
            format!("no driver is bound to the GPU at {address}, and `nomodeset` is on the kernel's command line"),
            "`nomodeset` prevents amdgpu from starting",
        )
        .repair("# remove `nomodeset` from the kernel's command line, then reboot"),
        None => finding(
            Severity::Error,
            format!("no driver is bound to the GPU at {address}"),
            "no program can use it",
        )
        .repair("sudo modprobe amdgpu && sudo dmesg | grep -i amdgpu")
        .repair("# if that does not mention the GPU, the kernel is too old for it:")
        .repair(newer_kernel(context)),
    }
    .into()
}

/// Reports that the machine has no AMD GPU, and where one could come from.
fn none(context: &Context<'_>) -> Finding {
    let machine = context.machine;
    let seen = match machine.other_makers.as_slice() {
        [] => "no AMD GPU".to_owned(),
        others => format!("no AMD GPU, but one by {}", others.join(" and by ")),
    };
    let finding = Finding::new(
        Severity::Note,
        seen,
        "an AMD GPU, to run ROCm; images can be built, verified and pushed without one",
    )
    .because("the PCI bus and the compute driver list none", "/sys/bus/pci, /sys/class/kfd")
    .repair("lspci -nn -d 1002:");
    if machine.is_virtual {
        finding.repair(
            "# this is a virtual machine: if its host has an AMD GPU, pass it through to this machine",
        )
    } else {
        finding
    }
}

fn describe(context: &Context<'_>, gpu: &Gpu) -> Option<String> {
    let target = gpu.target.as_ref()?;
    let at = gpu.address.as_deref().map_or(String::new(), |address| format!(" at {address}"));
    let name = context.gpus.gpus.get(target).map(|known| format!(", {}", known.name));
    Some(format!("{target}{at}{}", name.unwrap_or_default()))
}

/// The GPU is known, and images are built for it.
pub(super) fn wanted(context: &Context<'_>) -> Verdict {
    let Some((_, target)) = context.gpu() else {
        return Verdict::skipped("no GPU to compare with");
    };
    if target == context.wanted {
        return Verdict::fine(format!("images are built for {target}"));
    }
    let is_known = context.gpus.gpus.contains_key(target);
    let finding = Finding::new(
        Severity::Warning,
        format!("images are built for {}, but this machine has {target}", context.wanted),
        "images for this machine's GPU",
    )
    .because(
        "code for another GPU fails with `invalid device function`",
        "ROCm/TheRock RELEASES.md: there are wheels for each target",
    );
    match context.images.first() {
        _ if !is_known => {
            finding.repair(format!("# add a table `[{target}]` to versions/gpus.toml"))
        }
        Some(image) => {
            finding.repair(format!("build-pipeline --track {} --gpu {target}", image.track))
        }
        None => finding,
    }
    .into()
}

/// If there are several GPUs, a variable selects the one that images are built for, or else the one
/// that is not integrated.
pub(super) fn several(context: &Context<'_>) -> Verdict {
    let targets: Vec<_> =
        context.machine.gpus.iter().filter_map(|gpu| gpu.target.as_ref()).collect();
    let Some((_, own)) = context.gpu().filter(|_| targets.len() > 1) else {
        return Verdict::skipped("fewer than two GPUs");
    };
    let set = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]
        .into_iter()
        .find_map(|name| Some(format!("{name}={}", context.machine.variable(name)?)));
    let names: Vec<&str> = targets.iter().map(|target| target.as_str()).collect();
    let is_mixed = targets.iter().any(|target| context.is_integrated(target))
        && targets.iter().any(|target| !context.is_integrated(target));
    let others = targets.iter().any(|target| *target != own);
    let mut findings = Vec::from_iter(unsupported_pair(context, &targets, set.is_some()));
    if set.is_none() && others && (own == context.wanted || is_mixed) {
        let all = targets.iter().enumerate().filter(|(_, target)| **target == own);
        let visible: Vec<String> = all.map(|(index, _)| index.to_string()).collect();
        let finding = Finding::new(
            Severity::Warning,
            format!("{}, and no variable selects one", names.join(" and ")),
            format!("only {own} is visible to ROCm"),
        )
        .because(
            format!("programs also start on the other GPU, and {OVERRIDE} applies to all GPUs unless {OVERRIDE}_<node> is set for one"),
            "ROCm's documentation of ROCR_VISIBLE_DEVICES; libhsakmt topology.c",
        );
        findings.push(
            finding
                .repair(format!("export ROCR_VISIBLE_DEVICES={}", visible.join(",")))
                .repair(format!("eval \"$(build-pipeline env --gpu {own})\"  # does the same")),
        );
    }
    Verdict::of(findings, || match set {
        Some(set) => format!("{}; {set} selects one", names.join(", ")),
        None => names.join(", "),
    })
}

/// Returns a finding if AMD does not support two of these GPUs together in one machine.
fn unsupported_pair(
    context: &Context<'_>,
    targets: &[&GpuTarget],
    is_chosen: bool,
) -> Option<Finding> {
    let (one, other, known) = targets.iter().find_map(|one| {
        let known = context.gpus.gpus.get(*one)?;
        let other = targets.iter().find(|other| known.not_beside.contains(other))?;
        Some((one, other, known))
    })?;
    let severity = if is_chosen { Severity::Note } else { Severity::Warning };
    let finding = Finding::new(
        severity,
        format!("{one} and {other} in one machine"),
        "only one of the two, or at least only one visible to programs",
    )
    .because(
        "AMD does not support this pair, and programs may start on the wrong GPU",
        known.evidence.clone().unwrap_or_default(),
    );
    Some(
        finding
            .repair("# hide one with ROCR_VISIBLE_DEVICES, or switch it off in the firmware setup"),
    )
}

/// Built images have code for this machine's GPU.
pub(super) fn image_code(context: &Context<'_>) -> Verdict {
    let Some((_, target)) = context.gpu() else {
        return Verdict::skipped("no GPU to compare with");
    };
    let built = || context.images.iter().filter_map(|image| Some((image, image.code.as_ref()?)));
    let findings = built().filter(|(_, code)| !code.iter().any(|one| one == target.as_str())).map(
        |(image, code)| {
            let track = image.track.as_str();
            Finding::new(
                Severity::Error,
                format!(
                    "the image of track {track} has code for {}, not for {target}",
                    code.join(", ")
                ),
                format!("an image with code for {target}"),
            )
            .because(
                "programs fail with `invalid device function`, or find no GPU",
                "the label io.github.build-pipeline.gpu-targets of the last build",
            )
            .repair(format!("build-pipeline --track {track} --gpu {target}"))
        },
    );
    let findings: Vec<Finding> = findings.collect();
    match built().next() {
        None => Verdict::skipped("no built image records which GPUs it has code for"),
        Some(_) => Verdict::of(findings, || {
            let tracks: Vec<&str> = built().map(|(image, _)| image.track.as_str()).collect();
            format!("{} has code for {target}", tracks.join(", "))
        }),
    }
}
