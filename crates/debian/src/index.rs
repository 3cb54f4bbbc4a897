//! The signed index of a suite: `InRelease`, or `Release` with a separate signature.

use std::io;
use std::path::{Path, PathBuf};

use pins::SuiteIndex;
use sha2::{Digest as _, Sha256};

use crate::local::hex;

/// Why an index cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Apt has not downloaded the index.
    #[error("`{}` contains no index of this suite", folder.display())]
    Missing {
        /// The folder of apt's indexes.
        folder: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It has no valid date.
    #[error("its field `{field}` is not a date: `{value}`")]
    Date {
        /// The field.
        field: &'static str,
        /// Its value; empty if it is missing.
        value: String,
    },
}

/// Reads the index of `suite` from apt's folder of verified indexes.
pub(crate) fn read_index(folder: &Path, suite: &str) -> Result<SuiteIndex, IndexError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| IndexError::Read { path, source }
    };
    let entries = std::fs::read_dir(folder).map_err(failed(folder))?;
    let names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Apt names a file after its URL, with `_` for each slash.
    let ends = ["InRelease", "Release"].map(|file| format!("_dists_{suite}_{file}"));
    let name = ends.iter().find_map(|end| names.iter().find(|name| name.ends_with(end)));
    let name = name.ok_or_else(|| IndexError::Missing { folder: folder.to_owned() })?;
    let path = folder.join(name);
    parse(&std::fs::read(&path).map_err(failed(&path))?)
}

fn parse(bytes: &[u8]) -> Result<SuiteIndex, IndexError> {
    let text = String::from_utf8_lossy(bytes);
    let field = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.split_once(':'));
        values.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
    };
    let date = moment("Date", field("Date").unwrap_or_default())?;
    let valid_until = field("Valid-Until").map(|value| moment("Valid-Until", value)).transpose()?;
    let hash = hex(&Sha256::digest(bytes));
    let sha256 = hash.parse().map_err(|_| IndexError::Date { field: "SHA256", value: hash })?;
    Ok(SuiteIndex { date, valid_until, sha256 })
}

/// Parses `Fri, 30 Oct 2026 08:08:01 UTC`; RFC 2822 requires a number for the time zone.
fn moment(field: &'static str, value: &str) -> Result<String, IndexError> {
    let numeric = value.replace(" UTC", " +0000").replace(" GMT", " +0000");
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&numeric);
    match parsed {
        Ok(moment) => Ok(moment.to_string()),
        Err(_) => Err(IndexError::Date { field, value: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Origin: Debian\nSuite: unstable\nCodename: sid\n\
        Date: Fri, 30 Oct 2026 08:08:01 UTC\nValid-Until: Fri, 06 Nov 2026 08:08:01 UTC\n";

    #[test]
    fn an_index_is_found_by_its_suite_and_read_with_its_dates_and_hash() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("a.test_debian_dists_sid-updates_InRelease", "Date: Sun, 01 Nov 2026 00:00:00 UTC\n");
        write("a.test_debian_dists_sid_main_binary-amd64_Packages", "");
        assert!(matches!(read_index(folder.path(), "sid"), Err(IndexError::Missing { .. })));
        write("a.test_debian_dists_sid_InRelease", TEXT);
        let index = read_index(folder.path(), "sid").unwrap();
        assert_eq!(index.date, "2026-10-30T08:08:01Z");
        assert_eq!(index.valid_until.as_deref(), Some("2026-11-06T08:08:01Z"));
        assert_eq!(index.sha256.as_str(), hex(&Sha256::digest(TEXT)));
        let updates = read_index(folder.path(), "sid-updates").unwrap();
        assert_eq!((updates.date.as_str(), updates.valid_until), ("2026-11-01T00:00:00Z", None));
    }

    #[test]
    fn a_wrong_date_is_told_with_its_field_and_value() {
        let wrong = TEXT.replace("06 Nov 2026 08:08:01 UTC", "next week");
        let error = parse(wrong.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "its field `Valid-Until` is not a date: `Fri, next week`");
        let error = parse(b"Origin: Debian\n").unwrap_err().to_string();
        assert_eq!(error, "its field `Date` is not a date: ``");
    }
}
