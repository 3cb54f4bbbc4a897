//! `versions/gpus.toml`: what is known about each GPU target.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{GpuTarget, ParseError};

/// The content of `gpus.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// GPU targets, by name.
    pub gpus: BTreeMap<GpuTarget, Gpu>,
}

/// What is known about one GPU target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The products that have it, for readers, for example `Strix Halo`.
    pub name: String,
    /// The family, for example `RDNA 3.5`.
    pub family: String,
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
    unimplemented!("{file} {text}")
}
