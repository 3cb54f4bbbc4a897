//! The version of a GPU, as `HSA_OVERRIDE_GFX_VERSION` spells it.

use std::fmt;
use std::str::FromStr;

use crate::GpuTarget;

/// A value of `HSA_OVERRIDE_GFX_VERSION`: `major.minor.stepping`.
///
/// The HSA runtime reads it with `%u.%u.%u%c` and accepts exactly three numbers, at most 63, 255
/// and 255. It refuses to start with any other value, including an empty one (libhsakmt,
/// `topology.c`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GfxVersion {
    major: u8,
    minor: u8,
    stepping: u8,
}

/// The reason why a text is not a value of `HSA_OVERRIDE_GFX_VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseGfxVersionError {
    /// The text is a target name instead of a version.
    #[error(
        "`{text}` is a target name, which the HSA runtime refuses; write the target's version, `{version}`"
    )]
    TargetName {
        /// The text that was given.
        text: String,
        /// The version of this target.
        version: GfxVersion,
    },
    /// The text does not consist of three numbers in the allowed ranges.
    #[error(
        "`{0}` is not accepted by the HSA runtime; write `major.minor.stepping`, for example `11.0.0`, at most `63.255.255`"
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
    /// Returns the native version of `target`: `gfx1151` is 11.5.1, `gfx90a` is 9.0.10.
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

    /// Returns the major version: the generation of the GPU.
    pub fn major(self) -> u8 {
        self.major
    }

    /// Returns the target of this version: 11.5.1 is `gfx1151`, 9.0.10 is `gfx90a`. `None` if no
    /// target name has these numbers.
    pub fn target(&self) -> Option<GpuTarget> {
        let Self { major, minor, stepping } = self;
        let target = format!("gfx{major}{minor:x}{stepping:x}").parse().ok()?;
        // From 16 on, a number would need two hexadecimal digits: 1.1.16 is not `gfx1110`.
        (Self::of_target(&target) == Some(*self)).then_some(target)
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

    #[test]
    fn a_version_has_the_target_whose_version_it_is() {
        for (version, wanted) in [
            ("11.5.1", Some("gfx1151")),
            ("11.0.0", Some("gfx1100")),
            ("10.3.0", Some("gfx1030")),
            ("9.0.10", Some("gfx90a")),
            ("9.4.2", Some("gfx942")),
            ("9.0.16", None),
            ("1.1.16", None),
            ("63.255.255", None),
        ] {
            let version: GfxVersion = version.parse().unwrap();
            let target = version.target();
            assert_eq!(target.as_ref().map(GpuTarget::as_str), wanted, "{version}");
            if let Some(target) = target {
                assert_eq!(GfxVersion::of_target(&target), Some(version));
            }
        }
    }
}
