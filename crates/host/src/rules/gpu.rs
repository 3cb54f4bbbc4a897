//! Is there a GPU, and is it the one that images are built for?

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
        return Finding::new(
            Severity::Note,
            "no AMD GPU",
            "one, to run ROCm; images can be built, verified and pushed without one",
        )
        .because("the PCI bus and the compute driver list none", "/sys/bus/pci, /sys/class/kfd")
        .repair("lspci -nn -d 1002:")
        .into();
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
            "without the compute driver, ROCm programs find no GPU; a kernel without CONFIG_HSA_AMD does not have it",
        )
        .repair("sudo dmesg | grep -iE 'amdgpu|kfd'"),
        Some(driver) => finding(
            Severity::Warning,
            format!("the driver `{driver}` is bound to the GPU at {address}"),
            "containers cannot use a GPU that is reserved for a virtual machine",
        )
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
        .repair("sudo modprobe amdgpu && sudo dmesg | grep -i amdgpu"),
    }
    .into()
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
    if is_known {
        finding.repair(format!("build-pipeline --track official --gpu {target}"))
    } else {
        finding.repair(format!("# add a table `[{target}]` to versions/gpus.toml"))
    }
    .into()
}

/// If there is an integrated and another GPU, a variable selects one.
pub(super) fn several(context: &Context<'_>) -> Verdict {
    let targets: Vec<_> =
        context.machine.gpus.iter().filter_map(|gpu| gpu.target.as_ref()).collect();
    if targets.len() < 2 {
        return Verdict::skipped("fewer than two GPUs");
    }
    let set = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]
        .into_iter()
        .find_map(|name| Some(format!("{name}={}", context.machine.variable(name)?)));
    let own = targets.iter().position(|target| !context.is_integrated(target));
    let names: Vec<&str> = targets.iter().map(|target| target.as_str()).collect();
    let has_both = own.is_some() && targets.iter().any(|target| context.is_integrated(target));
    match (set, own) {
        (Some(set), _) => Verdict::fine(format!("{}; {set} chooses", names.join(", "))),
        (None, Some(own)) if has_both => Finding::new(
            Severity::Warning,
            format!("{}, and no variable selects one", names.join(" and ")),
            format!("only {} is visible to ROCm", names[own]),
        )
        .because(
            "programs also start on the integrated GPU, and an override applies to all GPUs at once",
            "ROCm's documentation of ROCR_VISIBLE_DEVICES",
        )
        .repair(format!("export ROCR_VISIBLE_DEVICES={own}"))
        .repair("eval \"$(build-pipeline env)\"  # does the same")
        .into(),
        (None, _) => Verdict::fine(names.join(", ")),
    }
}
