//! Tests that the repairs of all rules together never leave the GPU with less memory, nor the host
//! with none.

use host::rules::Finding;

use crate::machine;
use crate::rules::{check, images};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// The memory of a machine in bytes: the carve-out, the host's total, and `ttm.pages_limit`.
#[derive(Debug, Clone, Copy)]
struct Memory {
    vram: u64,
    total: u64,
    limit: u64,
}

impl Memory {
    /// Returns the memory that programs on the GPU can have while the host keeps 4 GiB.
    fn for_gpu(self) -> u64 {
        self.vram + self.limit.min(self.total.saturating_sub(4 * GIB))
    }

    /// Applies the repairs of a finding as a person would.
    fn apply(&mut self, finding: &Finding) {
        for line in &finding.repair {
            if line.contains("UMA frame buffer to 512 MB") {
                let freed = self.vram - 512 * MIB;
                self.total += freed;
                self.vram -= freed;
                // The kernel's default.
                self.limit = self.total / 2;
            } else if let Some((_, rest)) = line.rsplit_once("ttm pages_limit=") {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
                self.limit = digits.parse::<u64>().unwrap() * PAGE;
            }
        }
    }

    /// Returns the files of a machine with this memory, with `options` in modprobe.d.
    fn files(self, gtt: u64, options: &str) -> String {
        let Self { vram, total, limit } = self;
        let (kib, pages) = (total / 1024, limit / PAGE);
        let gpu = "sys/bus/pci/devices/0000:c5:00.0";
        format!(
            "== proc/meminfo\nMemTotal: {kib} kB\n== proc/cmdline\nro\n\
             == sys/module/ttm/parameters/pages_limit\n{pages}\n\
             == {gpu}/mem_info_vram_total\n{vram}\n== {gpu}/mem_info_gtt_total\n{gtt}\n\
             == etc/modprobe.d/gpu.conf\n{options}\n"
        )
    }
}

/// Checks that no set of repairs gives the GPU less memory. Returns the number of findings.
fn check_repairs(before: Memory, gtt: u64, options: &str) -> usize {
    let machine = machine::read("strix-halo", &before.files(gtt, options));
    let checks = check(&machine, &images()).into_iter();
    let about_memory = checks.filter(|check| {
        let is_about_memory =
            check.rule.starts_with("memory-") || check.rule.starts_with("kernel-amdttm");
        // This rule takes memory from the GPU, and says so.
        is_about_memory && check.rule != "memory-for-host"
    });
    let findings: Vec<Finding> = about_memory.flat_map(|check| check.findings).collect();
    assert!(findings.len() <= 5, "{findings:?}");
    for set in 0..1_u32 << findings.len() {
        let mut after = before;
        let chosen = findings.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        chosen.for_each(|(_, finding)| after.apply(finding));
        // Pages and kilobytes are rounded.
        let is_less = after.for_gpu() + 2 * MIB < before.for_gpu();
        assert!(!is_less, "{before:?} {after:?} {set:b} {findings:#?}");
        let is_new = after.limit > before.limit + MIB;
        let is_all = after.limit + 4 * GIB > after.total + 2 * MIB;
        assert!(!(is_new && is_all), "{before:?} {after:?} {set:b} {findings:#?}");
    }
    findings.len()
}

/// For a carve-out of 96 GiB, two repairs once left the GPU with only 24 GiB.
#[test]
fn no_set_of_repairs_leaves_the_gpu_with_less_memory() {
    let mut found = 0;
    for installed in [16, 64, 128].map(|size| size * GIB) {
        for vram in [512 * MIB, 2 * GIB, 4 * GIB, 32 * GIB, 96 * GIB] {
            // The firmware and the kernel keep some memory, too.
            let Some(total) = installed.checked_sub(vram + installed / 60) else { continue };
            if total < 3 * GIB {
                continue;
            }
            for limit in [total / 2, total * 9 / 10, total] {
                let before = Memory { vram, total, limit };
                found += check_repairs(before, limit, "");
                found += check_repairs(before, total, "options amdttm pages_limit=2000");
                found += check_repairs(before, limit, "options ttm pages_limit=1000");
                let dkms = format!("== sys/module/amdttm/parameters/pages_limit\n{}", limit / PAGE);
                found += check_repairs(before, limit, &dkms);
            }
        }
    }
    assert!(found > 50, "{found}");
}
