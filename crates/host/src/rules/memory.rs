//! The memory of a GPU that shares it with the host: the limit, the carve-out, and contradictions.

use super::{Context, Finding, Severity, Verdict, gib};
use crate::gpu::Gpu;
use crate::kernel::PAGE;

const GIB: u64 = 1 << 30;
const AMD_DOCS: &str = "ROCm/rocm-docs rdna3-5.rst";

/// Returns the judged GPU if it is integrated.
fn integrated<'a>(context: &'a Context<'_>) -> Option<&'a Gpu> {
    context.gpu().filter(|(_, target)| context.is_integrated(target)).map(|(gpu, _)| gpu)
}

/// Returns the recommended limit in bytes: everything except at least 4 GiB, in steps of 4 GiB. It
/// reserves nothing; the host can use what the GPU does not.
fn advised(total: u64) -> u64 {
    total.saturating_sub(4 * GIB) / (4 * GIB) * (4 * GIB)
}

/// Returns whether the limit was set for a module that does not exist; another finding reports
/// that.
fn given_to_amdttm(context: &Context<'_>) -> bool {
    let kernel = &context.machine.kernel;
    !kernel.has_module("amdttm") && kernel.given("amdttm", "pages_limit").next().is_some()
}

/// The repair for a limit that was set for a module that does not exist.
const AS_AMDTTM: &str = "# see kernel-amdttm: the limit was set for a module that does not exist";

/// The GPU may use most of the memory.
pub(super) fn limit(context: &Context<'_>) -> Verdict {
    if integrated(context).is_none() {
        return Verdict::skipped("no GPU that shares the host's memory");
    }
    let memory = &context.machine.memory;
    let (Some(total), Some(limit)) = (memory.total, memory.gpu_limit) else {
        return Verdict::skipped(
            "/sys/module/ttm/parameters/pages_limit or /proc/meminfo cannot be read",
        );
    };
    let seen = format!("ttm.pages_limit allows {} of {}", gib(limit), gib(total));
    let best = advised(total);
    // The kernel's default is about half.
    if limit * 4 >= best * 3 || best == 0 {
        return Verdict::fine(seen);
    }
    let pages = best / PAGE;
    let finding = Finding::new(
        Severity::Warning,
        seen,
        format!("{} (ttm.pages_limit={pages}), with a small carve-out", gib(best)),
    )
    .because(
        "a model that is larger than the limit cannot be loaded, no matter how much memory is free",
        AMD_DOCS,
    );
    if given_to_amdttm(context) {
        return finding.repair(AS_AMDTTM).into();
    }
    finding
        .repair(format!(
            "echo 'options ttm pages_limit={pages}' | sudo tee /etc/modprobe.d/ttm.conf"
        ))
        .repair(format!("{} && sudo reboot", context.rebuild_initramfs()))
        .into()
}

/// A configured limit is in effect.
pub(super) fn unused_limit(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    let Some(limit) = context.machine.memory.gpu_limit else {
        return Verdict::skipped("/sys/module/ttm/parameters/pages_limit cannot be read");
    };
    // The last setting counts, and the command line overrides modprobe.d.
    let mut given: Vec<_> = kernel.given("ttm", "pages_limit").collect();
    given.sort_by_key(|parameter| parameter.file == "/proc/cmdline");
    let Some(parameter) = given.last() else { return Verdict::skipped("none set") };
    match parameter.value.parse::<u64>() {
        Ok(pages) if pages == limit / PAGE => {
            Verdict::fine(format!("{pages} pages, {}", gib(limit)))
        }
        _ => Finding::new(
            Severity::Warning,
            format!(
                "{} sets ttm.pages_limit={}, but {} is in effect",
                parameter.file,
                parameter.value,
                limit / PAGE
            ),
            "the configured value, in pages of 4 KiB",
        )
        .because(
            "the module was loaded from an initramfs that does not contain the file yet",
            AMD_DOCS,
        )
        .repair(format!("{} && sudo reboot", context.rebuild_initramfs()))
        .into(),
    }
}

/// The driver does not promise more than the limit.
pub(super) fn gtt(context: &Context<'_>) -> Verdict {
    let Some(gpu) = integrated(context) else {
        return Verdict::skipped("no GPU that shares the host's memory");
    };
    let (Some(gtt), Some(limit)) = (gpu.gtt, context.machine.memory.gpu_limit) else {
        return Verdict::skipped("mem_info_gtt_total or pages_limit cannot be read");
    };
    // Each is rounded differently.
    if gtt <= limit + 64 * (1 << 20) {
        return Verdict::fine(format!("GTT {}, limit {}", gib(gtt), gib(limit)));
    }
    let finding = Finding::new(
        Severity::Warning,
        format!("GTT is {}, but ttm.pages_limit allows {}", gib(gtt), gib(limit)),
        "GTT equals ttm.pages_limit; `amdgpu.gttsize` is not set",
    )
    .because(
        "programs see memory that they cannot get, and fail while loading a model",
        "drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c: `this is unusual`",
    );
    if given_to_amdttm(context) {
        return finding.repair(AS_AMDTTM).into();
    }
    let pages = context.machine.memory.total.map_or(gtt, advised) / PAGE;
    finding
        .repair(format!(
            "echo 'options ttm pages_limit={pages}' | sudo tee /etc/modprobe.d/ttm.conf"
        ))
        .repair(format!("{} && sudo reboot", context.rebuild_initramfs()))
        .into()
}

/// The firmware reserves little memory for the GPU.
pub(super) fn carve_out(context: &Context<'_>) -> Verdict {
    let Some(gpu) = integrated(context) else {
        return Verdict::skipped("no GPU that shares the host's memory");
    };
    let (Some(vram), Some(total)) = (gpu.vram, context.machine.memory.total) else {
        return Verdict::skipped("mem_info_vram_total or /proc/meminfo cannot be read");
    };
    let seen = format!("{} reserved for the GPU, {} left for the host", gib(vram), gib(total));
    if vram <= 2 * GIB {
        return Verdict::fine(seen);
    }
    let severity = if vram >= total { Severity::Warning } else { Severity::Note };
    Finding::new(severity, seen, "0.5 GiB reserved, and a high ttm.pages_limit")
        .because(
            "the host cannot use memory that the firmware reserves, and a model is read through the host's memory",
            format!("{AMD_DOCS}; kyuz0/amd-strix-halo-vllm-toolboxes#81"),
        )
        .repair("# in the firmware setup: set the UMA frame buffer to 512 MB")
        .into()
}
