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
        address: Some(address),
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
    fn a_location_is_an_address() {
        assert_eq!(address(0, 50_432), "0000:c5:00.0");
        assert_eq!(address(1, 0x0308 | 1), "0001:03:01.1");
    }
}
