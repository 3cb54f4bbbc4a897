//! The permissions of a file in an image.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The file names in the root of a build context that have a special meaning for engines. A
/// step's own files must not have these names.
pub const CONTEXT_NAMES: [&str; 4] =
    [".containerignore", ".dockerignore", "Dockerfile", "Dockerfile.dockerignore"];

/// The permission bits of a file in an image, without setuid, setgid and sticky. As text, it has
/// four octal digits: `0755`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^0[0-7]{3}$"))]
pub struct FileMode(u16);

/// The reason why a text is not the mode of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFileModeError {
    /// The text is not an octal number of three or four digits.
    #[error("`{0}` is not a file mode; write four octal digits, for example `0755`")]
    Form(String),
    /// The mode sets the setuid, setgid or sticky bit.
    #[error("`{text}` sets the {bit} bit; write `{plain}`")]
    Special {
        /// The text that was given.
        text: String,
        /// The name of the first such bit.
        bit: &'static str,
        /// The mode without these bits.
        plain: FileMode,
    },
}

impl FileMode {
    /// Git's mode for a file that is not executable.
    pub const PLAIN: Self = Self(0o644);
    /// The mode of a folder, and git's mode for an executable file.
    pub const EXECUTABLE: Self = Self(0o755);

    /// Returns the bits.
    pub fn bits(self) -> u32 {
        self.0.into()
    }

    /// Returns the mode for a folder that contains files with this mode: everyone who can read the
    /// files can enter the folder.
    #[must_use]
    pub fn of_folder(self) -> Self {
        Self(self.0 | ((self.0 & 0o444) >> 2))
    }
}

impl FromStr for FileMode {
    type Err = ParseFileModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_octal =
            matches!(text.len(), 3 | 4) && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let bits = u16::from_str_radix(text, 8).ok().filter(|_| is_octal);
        let bits = bits.ok_or_else(|| ParseFileModeError::Form(text.to_owned()))?;
        let plain = Self(bits & 0o777);
        let named = [(0o4000, "setuid"), (0o2000, "setgid"), (0o1000, "sticky")];
        match named.iter().find(|(special, _)| bits & special != 0) {
            None => Ok(plain),
            Some((_, bit)) => {
                Err(ParseFileModeError::Special { text: text.to_owned(), bit, plain })
            }
        }
    }
}

impl TryFrom<String> for FileMode {
    type Error = ParseFileModeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FileMode> for String {
    fn from(mode: FileMode) -> Self {
        mode.to_string()
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_has_only_permissions() {
        for (text, printed) in
            [("0755", "0755"), ("644", "0644"), ("0000", "0000"), ("777", "0777")]
        {
            assert_eq!(text.parse::<FileMode>().unwrap().to_string(), printed, "{text}");
        }
        for text in ["", "75", "0o755", "u+x", "0855", "07555", "-755", "rwxr-xr-x"] {
            let error = text.parse::<FileMode>().unwrap_err().to_string();
            assert!(error.contains("is not a file mode"), "{text}: {error}");
        }
        for (text, bit) in [("4755", "setuid"), ("2755", "setgid"), ("1777", "sticky")] {
            let error = text.parse::<FileMode>().unwrap_err().to_string();
            assert!(error.contains(bit), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_can_be_entered_by_those_who_can_read_its_files() {
        for (file, folder) in [
            ("0644", "0755"),
            ("0640", "0750"),
            ("0600", "0700"),
            ("0444", "0555"),
            ("0755", "0755"),
        ] {
            let mode: FileMode = file.parse().unwrap();
            assert_eq!(mode.of_folder().to_string(), folder, "{file}");
        }
    }
}
