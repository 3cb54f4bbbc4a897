//! `versions/gpus.toml`: what is known about each GPU target.
//!
//! Start at [`Gpus`]; [`GfxVersion`] is the spelling of a target that the HSA runtime reads. Which
//! track spoofs, and whether that is wise, is not decided here.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::checks::{self, line};
use crate::problem::{Report, Reported, quote};
use crate::reader::{Entry, Table, collect, document};
use crate::variables::{self, Variable};
use crate::{GpuTarget, ParseError};

/// The content of `gpus.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// GPU targets, by name.
    pub gpus: BTreeMap<GpuTarget, Gpu>,
    /// Environment variables that builds and programs read, by name.
    pub variables: BTreeMap<String, Variable>,
}

/// What is known about one GPU target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The products that have it, for readers, for example `Strix Halo`.
    pub name: String,
    /// The family, for example `RDNA 3.5`.
    pub family: String,
    /// Whether it is part of the processor and shares the host's memory.
    pub is_integrated: bool,
    /// The `HSA_OVERRIDE_GFX_VERSION` that a spoof of this target uses, where one is of use.
    pub spoof: Option<GfxVersion>,
    /// The first ROCm release that supports the target natively, for example `7.2.1`.
    pub native_since: Option<String>,
    /// Where these facts were read, for readers.
    pub evidence: Option<String>,
}

/// A value of `HSA_OVERRIDE_GFX_VERSION`: `major.minor.stepping`.
///
/// The HSA runtime reads it with `%u.%u.%u%c` and wants exactly three numbers, at most 63, 255 and
/// 255; on anything else, an empty value included, it refuses to start (libhsakmt, `topology.c`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GfxVersion {
    major: u8,
    minor: u8,
    stepping: u8,
}

/// Why a text is not a value of `HSA_OVERRIDE_GFX_VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseGfxVersionError {
    /// A target name stands where its version should.
    #[error(
        "`{text}` is a target name, on which the HSA runtime refuses to start; the override of that target reads `{version}`"
    )]
    TargetName {
        /// The text that was given.
        text: String,
        /// The version spelling of the same target.
        version: GfxVersion,
    },
    /// It is not three numbers in range.
    #[error(
        "`{0}` is not an override the HSA runtime accepts; it is `major.minor.stepping`, for example `11.0.0`, at most `63.255.255`"
    )]
    Form(String),
}

impl FromStr for GfxVersion {
    type Err = ParseGfxVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseGfxVersionError::Form(text.to_owned());
        if let Ok(target) = text.parse::<GpuTarget>() {
            let version = Self::of_target(&target).ok_or_else(refuse)?;
            return Err(ParseGfxVersionError::TargetName { text: text.to_owned(), version });
        }
        let number = |part: Option<&str>, most: u8| {
            let part =
                part.filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|part| part.parse::<u8>().ok()).filter(|n| *n <= most).ok_or_else(refuse)
        };
        let mut parts = text.split('.');
        let version = Self {
            major: number(parts.next(), 63)?,
            minor: number(parts.next(), 255)?,
            stepping: number(parts.next(), 255)?,
        };
        if parts.next().is_some() { Err(refuse()) } else { Ok(version) }
    }
}

impl GfxVersion {
    /// Returns the version that `target` itself has: `gfx1151` is 11.5.1, `gfx90a` is 9.0.10.
    pub fn of_target(target: &GpuTarget) -> Option<Self> {
        let digits = target.as_str().strip_prefix("gfx")?;
        let (major, rest) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
        let (minor, stepping) = rest.split_at_checked(1)?;
        Some(Self {
            major: major.parse().ok().filter(|major| *major <= 63)?,
            minor: u8::from_str_radix(minor, 16).ok()?,
            stepping: u8::from_str_radix(stepping, 16).ok()?,
        })
    }
}

impl fmt::Display for GfxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.stepping)
    }
}

impl fmt::Debug for GfxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads the text of `gpus.toml`. `file` is how messages name it.
///
/// # Errors
/// Every problem of the file at once, each with its place, the value and what would be right.
pub fn parse_gpus(file: &str, text: &str) -> Result<Gpus, ParseError> {
    let mut report = Report::new(file, text);
    let gpus = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let targets = root.entries().filter(|entry| !matches!(entry.key, "schema" | "variable"));
        let gpus = collect(&mut report, targets, read_gpu);
        let variables = variables::read(&mut report, &root);
        Ok(Gpus { gpus: gpus?, variables: variables? })
    });
    report.finish(gpus)
}

fn read_gpu(report: &mut Report<'_>, entry: &Entry<'_>) -> Result<(GpuTarget, Gpu), Reported> {
    let target = checks::gpu_target(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
    // A key that is no target is most likely no table either; one problem is enough for it.
    if let Err(reported) = &target
        && entry.as_table().is_none()
    {
        return Err(*reported);
    }
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    table
        .check_keys(report, &["name", "family", "integrated", "spoof", "native-since", "evidence"]);
    let name = table.required(report, "name", "name = \"Strix Halo\"", line(100));
    let family = table.required(report, "family", "family = \"RDNA 3.5\"", line(100));
    let is_integrated = table.flag(report, "integrated");
    let spoof = table.optional(report, "spoof", |text| checks::spoof(text, target.as_ref().ok()));
    let native_since = table.optional(report, "native-since", checks::rocm_release);
    let evidence = table.optional(report, "evidence", line(500));
    let gpu = Gpu {
        name: name?,
        family: family?,
        is_integrated: is_integrated?,
        spoof: spoof?,
        native_since: native_since?,
        evidence: evidence?,
    };
    Ok((target?, gpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_in_range() {
        for (text, printed) in [
            ("11.0.0", "11.0.0"),
            ("10.3.0", "10.3.0"),
            ("11.5.1", "11.5.1"),
            ("9.0.10", "9.0.10"),
            ("0.0.0", "0.0.0"),
            ("63.255.255", "63.255.255"),
            ("011.00.0", "11.0.0"),
        ] {
            assert_eq!(text.parse::<GfxVersion>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn what_the_hsa_runtime_refuses_is_refused() {
        for text in [
            "",
            "11",
            "11.0",
            "11.0.0.0",
            "11.0.0 ",
            " 11.0.0",
            "11.0.0x",
            "11..0",
            "11.0.",
            ".0.0",
            "64.0.0",
            "11.256.0",
            "11.0.256",
            "-1.0.0",
            "+11.0.0",
            "11,0,0",
            "11.a.0",
            "v11.0.0",
            "1e1.0.0",
            "٣.0.0",
            "gfx",
            "gfxabcd",
            "gfx99999",
            "gfx1151 ",
            "GFX1151",
            "9999999999.0.0",
        ] {
            let error = text.parse::<GfxVersion>().unwrap_err();
            assert_eq!(error, ParseGfxVersionError::Form(text.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_target_name_is_answered_with_its_version() {
        for (target, wanted) in [
            ("gfx1151", "11.5.1"),
            ("gfx1150", "11.5.0"),
            ("gfx1100", "11.0.0"),
            ("gfx1103", "11.0.3"),
            ("gfx1031", "10.3.1"),
            ("gfx1010", "10.1.0"),
            ("gfx1201", "12.0.1"),
            ("gfx90a", "9.0.10"),
            ("gfx90c", "9.0.12"),
            ("gfx906", "9.0.6"),
            ("gfx942", "9.4.2"),
        ] {
            let error = target.parse::<GfxVersion>().unwrap_err();
            let ParseGfxVersionError::TargetName { text, version } = error else {
                panic!("{target} is a target name");
            };
            assert_eq!((text.as_str(), version.to_string().as_str()), (target, wanted));
            assert_eq!(GfxVersion::of_target(&target.parse().unwrap()), Some(version));
            assert_eq!(wanted.parse::<GfxVersion>().unwrap(), version);
        }
    }
}
