//! What code was compiled for: a processor and its features.

use std::fmt;
use std::str::FromStr;

use names::GpuTarget;

/// The processors and their numbers in the low byte of a code object's `e_flags` (LLVM,
/// AMDGPUUsage, "AMDGPU `EF_AMDGPU_MACH` Values").
const PROCESSORS: [(u8, &str); 63] = [
    (0x20, "gfx600"),
    (0x21, "gfx601"),
    (0x22, "gfx700"),
    (0x23, "gfx701"),
    (0x24, "gfx702"),
    (0x25, "gfx703"),
    (0x26, "gfx704"),
    (0x28, "gfx801"),
    (0x29, "gfx802"),
    (0x2a, "gfx803"),
    (0x2b, "gfx810"),
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3a, "gfx602"),
    (0x3b, "gfx705"),
    (0x3c, "gfx805"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x49, "gfx1250"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x50, "gfx1310"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x59, "gfx12-generic"),
    (0x5a, "gfx1251"),
    (0x5b, "gfx12-5-generic"),
    (0x5f, "gfx9-4-generic"),
    // Processors whose number this program does not know; their names occur in bundles.
    (0, "gfx1154"),
    (0, "gfx1170"),
    (0, "gfx1171"),
    (0, "gfx1172"),
    (0, "gfx1311"),
    (0, SPIRV),
];

/// The target of portable code, which the runtime compiles when it loads it.
const SPIRV: &str = "amdgcnspirv";

/// The processors that run the code of a generic target (LLVM, AMDGPUUsage, "Generic Processors").
const GENERIC: [(&str, &[&str]); 7] = [
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    (
        "gfx10-3-generic",
        &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
    ),
    (
        "gfx11-generic",
        &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"],
    ),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
    ("gfx12-5-generic", &["gfx1250", "gfx1251"]),
];

/// A processor with its features: `gfx1151`, `gfx11-generic`, `gfx90a:sramecc+:xnack-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeTarget {
    processor: String,
    /// Error correction of the memory: on, off, or both.
    sramecc: Option<bool>,
    /// Retries of page faults: on, off, or both.
    xnack: Option<bool>,
}

/// How code matches a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It was compiled for this GPU.
    Exact,
    /// It was compiled for a generic target that the GPU belongs to, or it is portable.
    Generic,
}

impl CodeTarget {
    /// Returns the target of a processor that this program knows, with any feature.
    pub(crate) fn of_processor(name: &str) -> Option<Self> {
        let (_, name) = PROCESSORS.iter().find(|(_, known)| *known == name)?;
        Some(Self { processor: (*name).to_owned(), sramecc: None, xnack: None })
    }

    /// Returns the target of a processor that is newer than this program.
    fn of_new_processor(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("gfx")?;
        let (digits, is_digit): (&str, fn(&u8) -> bool) = match rest.strip_suffix("-generic") {
            Some(digits) => (digits, |b| b.is_ascii_digit() || *b == b'-'),
            None => (rest, |b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        };
        let is_name = (1..=5).contains(&digits.len())
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.as_bytes().iter().all(is_digit);
        is_name.then(|| Self { processor: name.to_owned(), sramecc: None, xnack: None })
    }

    /// Returns the target of a code object whose number this program does not know.
    pub(crate) fn of_new_number(flags: u32) -> Self {
        let processor = format!("unknown ({:#04x})", flags & 0xff);
        Self { processor, sramecc: None, xnack: None }
    }

    /// Returns the number of a processor in the flags of ELF files, if this program knows it.
    pub(crate) fn number_of(gpu: &GpuTarget) -> Option<u8> {
        let (number, _) = PROCESSORS.iter().find(|(_, known)| *known == gpu.as_str())?;
        Some(*number).filter(|number| *number != 0)
    }

    /// Returns whether this program knows the processor of a GPU.
    pub fn knows(gpu: &GpuTarget) -> bool {
        Self::of_processor(gpu.as_str()).is_some()
    }

    /// Returns the target of a family of processors, such as `gfx11xx`. The processors of the
    /// family are unknown, so the code matches no GPU.
    pub(crate) fn of_family(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("gfx")?.strip_suffix('x')?.trim_end_matches('x');
        let is_family = digits.bytes().all(|b| b.is_ascii_alphanumeric()) && name.len() < 12;
        (is_family && !digits.is_empty()).then(|| Self {
            processor: name.to_owned(),
            sramecc: None,
            xnack: None,
        })
    }

    /// Returns the known processor that a text starts with, and the rest of the text.
    pub(crate) fn prefix_of(text: &str) -> Option<(Self, &str)> {
        let known = PROCESSORS.iter().map(|(_, name)| *name);
        let longest = known.filter(|name| text.starts_with(name)).max_by_key(|name| name.len())?;
        Some((Self::of_processor(longest)?, &text[longest.len()..]))
    }

    /// Returns the target that the header of a code object specifies. `None` if this program
    /// does not know its number.
    ///
    /// `version` is `e_ident[EI_ABIVERSION]`. Since version 2 (code object V4), each feature has two
    /// bits; before, it had one.
    pub(crate) fn of_flags(flags: u32, version: u8) -> Option<Self> {
        let number = u8::try_from(flags & 0xff).ok().filter(|number| *number != 0)?;
        let (_, name) = PROCESSORS.iter().find(|(known, _)| *known == number)?;
        let two_bits = |shift: u32| match flags >> shift & 3 {
            2 => Some(false),
            3 => Some(true),
            _ => None,
        };
        let one_bit = |bit: u32| (flags & bit != 0).then_some(true);
        let (xnack, sramecc) = if version >= 2 {
            (two_bits(8), two_bits(10))
        } else {
            (one_bit(0x100), one_bit(0x200))
        };
        Some(Self { processor: (*name).to_owned(), sramecc, xnack })
    }

    /// Returns whether this is code that the runtime compiles when it loads it.
    pub(crate) fn is_portable(&self) -> bool {
        self.processor == SPIRV
    }

    /// Returns whether this program knows the processor.
    pub(crate) fn is_known(&self) -> bool {
        Self::of_processor(&self.processor).is_some()
    }

    /// Returns the processor.
    pub fn processor(&self) -> &str {
        &self.processor
    }

    /// Returns whether a GPU might run this code: the code matches, or it is unknown whether it
    /// does. The second case applies to families of processors, and to generic targets and numbers
    /// that are newer than this program.
    pub fn may_fit(&self, gpu: &GpuTarget) -> bool {
        let is_of_family = || {
            let family = self.processor.trim_end_matches('x');
            let places = self.processor.len() - family.len();
            let rest = gpu.as_str().strip_prefix(family);
            places > 0 && rest.is_some_and(|rest| rest.len() == places)
        };
        let is_exact_name = || Self::of_new_processor(&self.processor).is_some();
        let is_generic = self.processor.ends_with("-generic");
        let is_unknown = !self.is_known() && (is_generic || !is_exact_name());
        if self.processor.ends_with('x') {
            is_of_family()
        } else {
            is_unknown || self.fits(gpu).is_some()
        }
    }

    /// Returns how this code matches a GPU, or `None` if the GPU cannot run it. Features are not
    /// compared: they depend on the settings of the machine.
    pub fn fits(&self, gpu: &GpuTarget) -> Option<Fit> {
        let gpu = gpu.as_str();
        if self.processor == gpu {
            return Some(Fit::Exact);
        }
        let members = GENERIC.iter().find(|(name, _)| *name == self.processor);
        let is_member = members.is_some_and(|(_, members)| members.contains(&gpu));
        (is_member || self.processor == SPIRV).then_some(Fit::Generic)
    }
}

impl FromStr for CodeTarget {
    type Err = String;

    /// Parses `processor[:feature±]…`. The error names the problem.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let processor = parts.next().unwrap_or_default();
        let mut target = Self::of_processor(processor)
            .or_else(|| Self::of_new_processor(processor))
            .ok_or_else(|| format!("`{}` is not a GPU target", processor.escape_debug()))?;
        for part in parts {
            let (slot, sign) = match (part.strip_prefix("xnack"), part.strip_prefix("sramecc")) {
                (Some(sign), _) => (&mut target.xnack, sign),
                (_, Some(sign)) => (&mut target.sramecc, sign),
                (None, None) => (&mut None, ""),
            };
            *slot = match sign {
                "+" => Some(true),
                "-" => Some(false),
                _ => {
                    let part = part.escape_debug();
                    return Err(format!("`{part}` is not a feature of a GPU target"));
                }
            };
        }
        Ok(target)
    }
}

impl fmt::Display for CodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(is_on) = feature {
                write!(f, ":{name}{}", if is_on { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}
