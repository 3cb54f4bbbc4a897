//! The smallest files with GPU code, for rehearsals. No GPU can run their content.

use names::GpuTarget;

use crate::bundle::PLAIN;
use crate::elf::HEADER;
use crate::target::CodeTarget;

/// The alignment of code in a bundle, in bytes.
const PAGE: usize = 4096;

/// Returns a bundle with a code object for each of the GPUs. GPUs whose ELF number this program
/// does not know are left out.
pub fn sample_bundle(gpus: &[GpuTarget]) -> Vec<u8> {
    let code: Vec<(String, Vec<u8>)> = gpus
        .iter()
        .filter_map(|gpu| {
            let id = format!("hipv4-amdgcn-amd-amdhsa--{gpu}");
            Some((id, sample_object(gpu)?))
        })
        .collect();
    let mut head = PLAIN.to_vec();
    head.extend((code.len() as u64).to_le_bytes());
    let size = head.len() + code.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut offset = size.next_multiple_of(PAGE);
    let mut body = Vec::new();
    for (id, object) in &code {
        for number in [offset, object.len(), id.len()] {
            head.extend((number as u64).to_le_bytes());
        }
        head.extend(id.as_bytes());
        body.extend(object);
        body.resize(body.len().next_multiple_of(PAGE), 0);
        offset += object.len().next_multiple_of(PAGE);
    }
    head.resize(size.next_multiple_of(PAGE), 0);
    head.extend(body);
    head
}

/// Returns a code object: an ELF header (LLVM, AMDGPUUsage, "ELF Code Object") and text. Returns
/// `None` if this program does not know the ELF number of the GPU.
pub fn sample_object(gpu: &GpuTarget) -> Option<Vec<u8>> {
    let number = CodeTarget::number_of(gpu)?;
    // 64-bit, little-endian, version 1, for HSA, code object version 5.
    let mut elf = b"\x7fELF\x02\x01\x01\x40\x03".to_vec();
    elf.resize(16, 0);
    // A library for machine 224, version 1.
    elf.extend([3, 0, 224, 0, 1, 0, 0, 0]);
    elf.resize(48, 0);
    elf.extend(u32::from(number).to_le_bytes());
    elf.extend([64, 0]);
    elf.resize(HEADER, 0);
    elf.extend(format!("stands in for code for {gpu}\n").as_bytes());
    Some(elf)
}
