//! The GPUs: those that the kernel's compute driver (KFD) lists, and those on the PCI bus.
//!
//! `HSA_OVERRIDE_GFX_VERSION` has no effect here, because the kernel does not read it.

use std::path::Path;

use names::GpuTarget;

use crate::root::Root;

/// A GPU made by AMD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its target, if KFD lists one.
    pub target: Option<GpuTarget>,
    /// The file that the target was read from, relative to the root.
    pub node: Option<String>,
    /// Its address on the PCI bus, for example `0000:c5:00.0`.
    pub address: Option<String>,
    /// Its PCI device ID, for example `0x1586` for the Radeon 8060S of Strix Halo.
    pub device: Option<u64>,
    /// The kernel driver that is bound to it, for example `amdgpu` or `vfio-pci`.
    pub driver: Option<String>,
    /// Its own memory in bytes, including a carve-out by the firmware.
    pub vram: Option<u64>,
    /// The additional host memory that it may use, in bytes.
    pub gtt: Option<u64>,
    /// The smallest carve-out that the kernel can ask the firmware for (since Linux 7.0).
    pub smallest: Option<CarveOut>,
}

/// A size of the carve-out that the firmware offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarveOut {
    /// Its number, which is written into `uma/carveout`.
    pub index: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Gpu {
    /// Returns the number of its KFD node, which `HSA_OVERRIDE_GFX_VERSION_<node>` uses. CPUs are
    /// nodes too, so the first GPU is usually node 1.
    pub fn node_number(&self) -> Option<u32> {
        self.node.as_ref()?.strip_prefix(NODES)?.split('/').nth(1)?.parse().ok()
    }
}

/// The directory of KFD's nodes.
const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
/// The directory of PCI devices.
const PCI: &str = "sys/bus/pci/devices";
/// AMD's PCI vendor ID.
const AMD: u64 = 0x1002;

/// Returns the GPUs of the machine at `root`. Those that KFD lists come first, in KFD's order,
/// which `ROCR_VISIBLE_DEVICES` uses too.
pub fn gpus(root: &Path) -> Vec<Gpu> {
    read(&Root::new(root))
}

pub(crate) fn read(root: &Root) -> Vec<Gpu> {
    let mut on_bus: Vec<Gpu> =
        root.names(PCI).into_iter().filter_map(|address| pci(root, address)).collect();
    let mut all = Vec::new();
    let mut nodes = root.names(NODES);
    // `10` comes after `9`.
    nodes.sort_by_key(|node| (node.len(), node.clone()));
    for node in nodes {
        let path = format!("{NODES}/{node}/properties");
        let Some(text) = root.text(&path) else { continue };
        let Some(target) = property(&text, "gfx_target_version").and_then(target) else { continue };
        let address = property(&text, "location_id")
            .map(|location| address(property(&text, "domain").unwrap_or(0), location));
        let at = on_bus.iter().position(|gpu| gpu.address == address && address.is_some());
        let gpu = at.map(|at| on_bus.remove(at)).unwrap_or(Gpu {
            target: None,
            node: None,
            address,
            device: property(&text, "device_id").filter(|id| *id > 0),
            driver: None,
            vram: None,
            gtt: None,
            smallest: None,
        });
        all.push(Gpu { target: Some(target), node: Some(path), ..gpu });
    }
    all.extend(on_bus);
    all
}

/// Returns the device at a PCI address, if it is an AMD GPU.
fn pci(root: &Root, address: String) -> Option<Gpu> {
    let path = |name: &str| format!("{PCI}/{address}/{name}");
    let class = root.number(&path("class"))? >> 8;
    // Display controllers, and `processing accelerators` such as Instinct cards.
    let is_gpu = matches!(class, 0x0300 | 0x0302 | 0x0380 | 0x1200);
    if !is_gpu || root.number(&path("vendor"))? != AMD {
        return None;
    }
    Some(Gpu {
        target: None,
        node: None,
        device: root.number(&path("device")),
        driver: root.link_name(&path("driver")),
        vram: root.number(&path("mem_info_vram_total")),
        gtt: root.number(&path("mem_info_gtt_total")),
        smallest: root.text(&path("uma/carveout_options")).as_deref().and_then(smallest),
        address: Some(address),
    })
}

/// Returns the smallest size in lines such as `0: Minimum (512 MB)` and `3:  (4 GB)`.
fn smallest(text: &str) -> Option<CarveOut> {
    let option = |line: &str| {
        let (index, rest) = line.split_once(':')?;
        let size = rest.rsplit_once('(')?.1.split(')').next()?;
        let (number, unit) = size.split_once(' ')?;
        let unit: u64 = match unit {
            "MB" => 1 << 20,
            "GB" => 1 << 30,
            _ => return None,
        };
        let bytes = number.parse::<u64>().ok()?.checked_mul(unit)?;
        Some(CarveOut { index: index.trim().parse().ok()?, bytes })
    };
    text.lines().filter_map(option).min_by_key(|option| option.bytes)
}

/// Returns the makers of display controllers on the PCI bus that are not AMD's, each once.
pub(crate) fn other_makers(root: &Root) -> Vec<&'static str> {
    let mut all: Vec<&str> = root
        .names(PCI)
        .iter()
        .filter(|address| {
            let class = root.number(&format!("{PCI}/{address}/class"));
            class.is_some_and(|class| class >> 16 == 0x03)
        })
        .filter_map(|address| maker(root.number(&format!("{PCI}/{address}/vendor"))?))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the maker of a GPU, or the program that emulates it.
fn maker(vendor: u64) -> Option<&'static str> {
    Some(match vendor {
        0x10de => "NVIDIA",
        0x8086 => "Intel",
        0x1234 | 0x1af4 | 0x1b36 => "QEMU",
        0x15ad => "VMware",
        0x1414 => "Hyper-V",
        0x80ee => "VirtualBox",
        _ => return None,
    })
}

fn property(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns the PCI address of a `location_id`: bus, five bits of device, three of function.
fn address(domain: u64, location: u64) -> String {
    format!(
        "{domain:04x}:{:02x}:{:02x}.{}",
        location >> 8 & 0xff,
        location >> 3 & 0x1f,
        location & 0x7
    )
}

/// Returns the target of a `gfx_target_version`: `110501` is gfx1151. A CPU has 0.
fn target(number: u64) -> Option<GpuTarget> {
    let (major, minor, stepping) = (number / 10_000, number / 100 % 100, number % 100);
    (major > 0).then(|| format!("gfx{major}{minor:x}{stepping:x}").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_the_kernel_writes_them() {
        for (number, name) in [
            (110_501, Some("gfx1151")),
            (110_000, Some("gfx1100")),
            (90_010, Some("gfx90a")),
            (90_402, Some("gfx942")),
            (100_306, Some("gfx1036")),
            (120_001, Some("gfx1201")),
            (0, None),
        ] {
            assert_eq!(target(number).as_ref().map(GpuTarget::as_str), name, "{number}");
        }
    }

    #[test]
    fn the_smallest_carve_out_need_not_be_the_first() {
        let bytes = |text| smallest(text).map(|found| (found.index, found.bytes >> 20));
        assert_eq!(bytes("0: Minimum (512 MB)\n1:  (1 GB)\n7: High (16 GB)\n"), Some((0, 512)));
        assert_eq!(bytes("0: Auto\n1: High (16 GB)\n2:  (2 GB)\n"), Some((2, 2048)));
        for text in
            ["", "0: Auto", "x: (1 GB)", "0: (x MB)", "0: (99999999999999999999 GB)", "0: (1"]
        {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_location_is_an_address() {
        assert_eq!(address(0, 50_432), "0000:c5:00.0");
        assert_eq!(address(1, 0x0308 | 1), "0001:03:01.1");
    }
}
