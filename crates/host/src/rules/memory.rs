//! The memory of a GPU that shares it with the host: the limit, the carve-out, and contradictions
//! between them.
//!
//! The repairs of all rules together never leave the GPU with less memory than before, unless the
//! host then has too little: [`for_host`] reports that, and [`carve_out`] does not keep such a
//! limit. While the carve-out is large, only [`carve_out`] gives advice: it computes the limit from
//! the total after the change.

use super::system::System;
use super::{Context, Finding, ModelUse, Severity, Verdict, gib, kernel};
use crate::gpu::{CarveOut, Gpu};
use crate::kernel::PAGE;

const GIB: u64 = 1 << 30;
const AMD_DOCS: &str = "ROCm/rocm-docs rdna3-5.rst";

/// Returns the GPU that the rules judge, if it is integrated.
fn integrated<'a>(context: &'a Context<'_>) -> Option<&'a Gpu> {
    context.gpu().filter(|(_, target)| context.is_integrated(target)).map(|(gpu, _)| gpu)
}

/// The largest carve-out that is left alone: some machines report 4 GiB at their smallest setting
/// (noamsto/nix-amd-ai#42).
const SMALL: u64 = 4 * GIB;
/// The carve-out to choose in the firmware setup; some machines offer no size below 2 GiB.
const CHOSEN: u64 = GIB / 2;

/// Returns the limit to set once the carve-out is small, in bytes: at least what the GPU has now,
/// unless that would leave less than [`LEFT`] for the host.
fn after_change(vram: u64, total: u64, limit: Option<u64>) -> u64 {
    let freed = vram.saturating_sub(CHOSEN);
    let kept = limit.unwrap_or_default().min(total.saturating_sub(LEFT));
    advised(total + freed).max(kept + freed)
}

/// Returns whether the carve-out has to change before anything else. A virtual machine's firmware
/// cannot change it.
pub(super) fn has_large_carve_out(context: &Context<'_>) -> bool {
    !context.machine.is_virtual
        && integrated(context).and_then(|gpu| gpu.vram).is_some_and(|vram| vram > SMALL)
}

/// The first kernel on which ROCm also uses the host's memory on a small integrated GPU, not only
/// the carve-out (a developer of Debian's packages in ROCm/legacy-rocm-build#2646).
const SHARES_SINCE: (u32, u32) = (6, 11);

/// Returns whether ROCm uses only the carve-out on this kernel, so that a smaller one would leave
/// the GPU with less memory. AMD's driver package and the kernels of RHEL and SLES contain newer
/// drivers than their versions show.
fn uses_only_carve_out(context: &Context<'_>) -> bool {
    let kernel = &context.machine.kernel;
    let release = kernel.release.as_deref().unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let Some(version) = parts.next().zip(parts.next()) else { return false };
    let is_backported =
        matches!(context.system(), System::RedHat | System::Suse | System::Transactional);
    version < SHARES_SINCE && !is_backported && !kernel.has_module("amdttm")
}

/// The reason why no smaller carve-out is advised on an old kernel.
const KERNEL_FIRST: &str =
    "ROCm uses only the reserved memory on this kernel: first install 6.11 or newer";

/// The reason why no rule judges the memory in an LXC container, which shows a total of its own.
const NOT_THE_HOSTS: &str =
    "an LXC container shows only the memory that it was given: run doctor on the host";

/// Returns whether the total is that of a container, not of the host.
fn is_total_of_container(context: &Context<'_>) -> bool {
    context.machine.container.as_deref() == Some("lxc")
}

/// The reason why a rule gives no advice while the carve-out is large.
pub(super) const CARVE_OUT_FIRST: &str = "first change the carve-out (memory-carve-out)";

/// Returns the commands that set the limit. A limit on the kernel command line is replaced there,
/// because the command line overrides files.
fn set_limit(context: &Context<'_>, pages: u64) -> Vec<String> {
    let kernel = &context.machine.kernel;
    let module = kernel.memory_module();
    let given = kernel.given(module, "pages_limit").find(|one| one.file == "/proc/cmdline");
    match given {
        Some(given) => kernel::replace(context, given, &format!("{module}.pages_limit={pages}")),
        None => context.set_parameter(module, "pages_limit", &pages.to_string()),
    }
}

/// The memory in bytes that is always left for the host.
const LEFT: u64 = 4 * GIB;

/// Returns the recommended limit in bytes: the total minus [`LEFT`], rounded down to a multiple of
/// 4 GiB. The limit reserves nothing; the host can use all memory that the GPU does not use.
pub(super) fn advised(total: u64) -> u64 {
    total.saturating_sub(LEFT) / (4 * GIB) * (4 * GIB)
}

/// Returns the repair if a problem with the module must be fixed first: the limit was set for a
/// module that does not exist, or the driver has to change. Another finding reports that problem.
fn module_first(context: &Context<'_>) -> Option<&'static str> {
    let kernel = &context.machine.kernel;
    if kernel::uses_dkms_on_apu(context) {
        return Some("# see kernel-amdttm: set the limit for the kernel's own driver");
    }
    let is_wrong =
        !kernel.has_module("amdttm") && kernel.given("amdttm", "pages_limit").next().is_some();
    is_wrong.then_some("# see kernel-amdttm: the limit was set for a module that does not exist")
}

/// The GPU may use most of the memory.
pub(super) fn limit(context: &Context<'_>) -> Verdict {
    if integrated(context).is_none() {
        return Verdict::skipped("no GPU that shares the host's memory");
    }
    let (total, limit) = match total_and_limit(context) {
        Ok(found) => found,
        Err(why) => return Verdict::skipped(why),
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
    if let Some(first) = module_first(context) {
        return finding.repair(first).into();
    }
    let finding = if uses_only_carve_out(context) {
        finding.repair(format!("# {KERNEL_FIRST}"))
    } else {
        finding
    };
    finding.repairs(set_limit(context, pages)).into()
}

/// Returns the host's total memory and the limit in bytes, or why they cannot be judged.
fn total_and_limit(context: &Context<'_>) -> Result<(u64, u64), &'static str> {
    let memory = &context.machine.memory;
    match memory.total.zip(memory.gpu_limit) {
        _ if is_total_of_container(context) => Err(NOT_THE_HOSTS),
        _ if has_large_carve_out(context) => Err(CARVE_OUT_FIRST),
        None => Err("/sys/module/ttm/parameters/pages_limit or /proc/meminfo cannot be read"),
        Some(found) => Ok(found),
    }
}

/// The limit leaves memory for the host.
pub(super) fn for_host(context: &Context<'_>) -> Verdict {
    if integrated(context).is_none() {
        return Verdict::skipped("no GPU that shares the host's memory");
    }
    let (total, limit) = match total_and_limit(context) {
        Ok(found) => found,
        Err(why) => return Verdict::skipped(why),
    };
    let left = gib(total.saturating_sub(limit));
    let best = advised(total);
    if total.saturating_sub(limit) >= LEFT || limit <= best || best == 0 {
        return Verdict::fine(format!("ttm.pages_limit leaves {left}"));
    }
    let severity = if limit > total { Severity::Warning } else { Severity::Note };
    Finding::new(
        severity,
        format!("ttm.pages_limit allows {} of {}, and leaves {left} for the host", gib(limit), gib(total)),
        format!("at most {} (ttm.pages_limit={})", gib(best), best / PAGE),
    )
    .because(
        "the driver needs memory to move the GPU's data out: a model that fills the limit makes the machine freeze, or the kernel ends programs",
        "the maintainers of TTM and amdgpu on amd-gfx, 2026-03-23; antirez/ds4#16; noamsto/nix-amd-ai PR 96",
    )
    .repair("# this takes memory from the GPU:")
    .repairs(set_limit(context, best / PAGE))
    .repairs(large_pools(context, best / PAGE))
    .into()
}

/// Returns advice on each `page_pool_size` above the limit: the pool keeps memory that programs on
/// the GPU have freed.
fn large_pools(context: &Context<'_>, pages: u64) -> Vec<String> {
    let kernel = &context.machine.kernel;
    let given = kernel.given(kernel.memory_module(), "page_pool_size");
    let is_large = given.filter(|one| one.value.parse::<u64>().is_ok_and(|size| size > pages));
    is_large
        .map(|one| format!("# also lower page_pool_size={} in {} to {pages}", one.value, one.file))
        .collect()
}

/// A configured limit is in effect.
pub(super) fn unused_limit(context: &Context<'_>) -> Verdict {
    let kernel = &context.machine.kernel;
    let Some(limit) = context.machine.memory.gpu_limit else {
        return Verdict::skipped("/sys/module/ttm/parameters/pages_limit cannot be read");
    };
    // The last setting counts, and the command line overrides modprobe.d.
    let mut given: Vec<_> = kernel.given(kernel.memory_module(), "pages_limit").collect();
    given.sort_by_key(|parameter| parameter.file == "/proc/cmdline");
    let Some(parameter) = given.last() else { return Verdict::skipped("no limit is configured") };
    match parameter.value.parse::<u64>() {
        Ok(pages) if pages == limit / PAGE => {
            Verdict::fine(format!("{pages} pages, {}", gib(limit)))
        }
        configured => {
            let finding = Finding::new(
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
                "the module was loaded with another value, for example from an initramfs that does not contain the file yet",
                AMD_DOCS,
            );
            if configured.is_ok_and(|pages| pages >= limit / PAGE) {
                finding.repairs(context.reboot_after(None)).into()
            } else {
                finding
                    .repair("# after a reboot, the configured value would give the GPU less memory; to keep what it has:")
                    .repairs(set_limit(context, limit / PAGE))
                    .into()
            }
        }
    }
}

/// The driver does not report more memory than the limit allows.
pub(super) fn gtt(context: &Context<'_>) -> Verdict {
    let Some(gpu) = integrated(context) else {
        return Verdict::skipped("no GPU that shares the host's memory");
    };
    let (Some(gtt), Some(limit)) = (gpu.gtt, context.machine.memory.gpu_limit) else {
        return Verdict::skipped("mem_info_gtt_total or pages_limit cannot be read");
    };
    if has_large_carve_out(context) {
        return Verdict::skipped(CARVE_OUT_FIRST);
    }
    if is_total_of_container(context) {
        return Verdict::skipped(NOT_THE_HOSTS);
    }
    // The two sizes are rounded differently.
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
    if let Some(first) = module_first(context) {
        return finding.repair(first).into();
    }
    let best = context.machine.memory.total.map_or(gtt, advised);
    if best <= limit && context.machine.kernel.given("amdgpu", "gttsize").next().is_some() {
        return finding
            .repair("# see kernel-gttsize: without that parameter, GTT equals the limit")
            .into();
    }
    finding.repairs(set_limit(context, best.max(limit) / PAGE)).into()
}

/// The firmware reserves little memory for the GPU.
pub(super) fn carve_out(context: &Context<'_>) -> Verdict {
    let Some(gpu) = integrated(context) else {
        return Verdict::skipped("no GPU that shares the host's memory");
    };
    if context.machine.is_virtual {
        return Verdict::skipped("a virtual machine: its host's firmware reserves the memory");
    }
    if is_total_of_container(context) {
        return Verdict::skipped(NOT_THE_HOSTS);
    }
    let (Some(vram), Some(total)) = (gpu.vram, context.machine.memory.total) else {
        return Verdict::skipped("mem_info_vram_total or /proc/meminfo cannot be read");
    };
    let seen = format!("{} reserved for the GPU, {} left for the host", gib(vram), gib(total));
    if vram <= SMALL {
        return Verdict::fine(seen);
    }
    if uses_only_carve_out(context) {
        return Verdict::skipped(KERNEL_FIRST);
    }
    let severity = if vram >= total { Severity::Warning } else { Severity::Note };
    let limit = after_change(vram, total, context.machine.memory.gpu_limit);
    let smallest = gpu.smallest.filter(|smallest| smallest.bytes <= SMALL);
    let reserved = gib(smallest.map_or(CHOSEN, |smallest| smallest.bytes));
    let right =
        format!("{reserved} reserved, and ttm.pages_limit={} ({})", limit / PAGE, gib(limit));
    let reduce = match (smallest, &gpu.address) {
        (Some(CarveOut { index, .. }), Some(address)) => format!(
            "echo {index} | sudo tee /sys/bus/pci/devices/{address}/uma/carveout  # has an effect from the next boot on"
        ),
        _ => "# first, in the firmware setup: set the UMA frame buffer to 512 MB, or to the smallest size that it offers, then boot the system".to_owned(),
    };
    Finding::new(severity, seen, right)
        .because(
            "the host cannot use memory that the firmware reserves, and a model is read through the host's memory",
            format!("{AMD_DOCS}; kyuz0/amd-strix-halo-vllm-toolboxes#81; maintainers in ROCm/rocm-systems PR 5290"),
        )
        .repair(reduce)
        .repairs(set_limit(context, limit / PAGE))
        .into()
}

/// The percentage of free memory in large blocks below which the memory counts as fragmented.
const LEAST_LARGE: u64 = 25;

/// Most of the free memory is in blocks of 2 MiB or more, which the driver prefers.
pub(super) fn fragmentation(context: &Context<'_>) -> Verdict {
    if integrated(context).is_none() {
        return Verdict::skipped("no GPU that shares the host's memory");
    }
    let Some(free) = context.machine.memory.free else {
        return Verdict::skipped("/proc/buddyinfo cannot be read");
    };
    let seen = format!(
        "{} of {} free memory is in blocks of 2 MiB or more",
        gib(free.large),
        gib(free.all)
    );
    if free.all < 4 * GIB || free.large / LEAST_LARGE >= free.all / 100 {
        return Verdict::fine(seen);
    }
    Finding::new(Severity::Note, seen, "most of it in large blocks")
        .because(
            "the driver (TTM) then fills the GPU's memory with single pages: a large model loads slowly, or an allocation fails although memory is free",
            "the kernel change `drm/ttm: Allow direct reclaim to allocate local memory`, ROCm/amdgpu#186",
        )
        .repair("sync && echo 3 | sudo tee /proc/sys/vm/drop_caches && echo 1 | sudo tee /proc/sys/vm/compact_memory")
        .into()
}

/// Returns how much of the host's memory a GPU can use: no more than the driver shows to programs,
/// than the limit allows, and than there is.
fn host_memory(context: &Context<'_>, gpu: &Gpu) -> Option<u64> {
    let memory = &context.machine.memory;
    let shown = [gpu.gtt, memory.gpu_limit].into_iter().flatten().min()?;
    Some(shown.min(memory.total.unwrap_or(shown)))
}

/// The GPU has enough memory for a model.
pub(super) fn model(context: &Context<'_>) -> Verdict {
    let Some(ModelUse { model, context: asked }) = context.model else {
        return Verdict::skipped("no model given (--model)");
    };
    let Some((gpu, target)) = context.gpu() else { return Verdict::skipped("no GPU") };
    let usable = match (gpu.vram, host_memory(context, gpu)) {
        // The GPU uses the memory that the firmware reserves or the host's memory, whichever is
        // larger.
        (Some(vram), Some(of_host)) if context.is_integrated(target) => vram.max(of_host),
        (Some(vram), _) if !context.is_integrated(target) => vram,
        _ => return Verdict::skipped("mem_info_vram_total or mem_info_gtt_total cannot be read"),
    };
    let weights = model.weights;
    let known = model.cache.zip(asked.or(model.context));
    let cache_bytes = known.map_or(0, |(cache, tokens)| cache.per_token.saturating_mul(tokens));
    let need = weights.saturating_add(cache_bytes);
    let is_exact = known.is_none_or(|(cache, tokens)| tokens <= cache.exact_until);
    let spelled = match known {
        Some((_, tokens)) => {
            let most = if is_exact { "" } else { "at most " };
            format!("{most}{} of KV cache for {tokens} tokens", gib(cache_bytes))
        }
        None => "a KV cache of unknown size".to_owned(),
    };
    let seen = format!(
        "{} has {} of weights and {spelled}; the GPU has {}",
        model.name,
        gib(weights),
        gib(usable)
    );
    let room = usable / 10 * 9;
    if need <= room && known.is_some() {
        return Verdict::fine(seen);
    }
    let is_too_large = weights > usable || (need > usable && is_exact);
    let severity = if is_too_large { Severity::Warning } else { Severity::Note };
    let finding = Finding::new(
        severity,
        seen,
        format!("at most {}, 90 % of the GPU's memory: the rest is for buffers", gib(room)),
    )
    .because(
        "layers that do not fit can run on the CPU with llama.cpp, which is slow; other programs fail with `out of memory`. vLLM uses 90 % of the memory by default",
        "drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c: `apu_prefer_gtt`; ROCm/rocm-systems#8475",
    );
    finding.repair(model_repair(context, gpu, need, room)).into()
}

/// The shortest context that is worth recommending, in tokens.
const SHORTEST: u64 = 1024;

/// Returns the advice for a model that needs more memory than `room`.
fn model_repair(context: &Context<'_>, gpu: &Gpu, need: u64, room: u64) -> String {
    let memory = &context.machine.memory;
    let later = match (integrated(context).and_then(|integrated| integrated.vram), memory.total) {
        (Some(vram), Some(total)) if vram > SMALL => after_change(vram, total, memory.gpu_limit),
        (Some(_), Some(total)) => advised(total),
        _ => 0,
    };
    let now = gpu.vram.max(host_memory(context, gpu)).unwrap_or_default();
    if later > now && need <= later / 10 * 9 {
        return format!(
            "# first give the GPU more memory (memory-gpu-limit or memory-carve-out): the model fits into {}",
            gib(later)
        );
    }
    let Some(ModelUse { model, context: asked }) = context.model else { return String::new() };
    let Some(cache) = model.cache else {
        return "# the size of the model's KV cache is unknown: leave room for it".to_owned();
    };
    if asked.or(model.context).is_none() {
        return "# specify the length of the context: --context TOKENS".to_owned();
    }
    let longest = room.saturating_sub(model.weights).checked_div(cache.per_token).unwrap_or(0);
    // llama.cpp rounds to 256 tokens.
    let longest = longest.min(model.context.unwrap_or(longest)) / 256 * 256;
    let options = "llama.cpp: --ctx-size, vLLM: --max-model-len";
    if longest < SHORTEST {
        "# use a smaller model, or a stronger quantisation of this one".to_owned()
    } else if longest <= cache.exact_until {
        format!("# use a shorter context: {longest} tokens fit ({options})")
    } else {
        format!(
            "# a context of {longest} tokens certainly fits, and a longer one may fit too ({options})"
        )
    }
}
