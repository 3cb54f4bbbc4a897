//! Writes project files.

use std::io::{self, Write as _};
use std::path::Path;

use atomic_write_file::AtomicWriteFile;

/// Replaces a file: the text is written to a temporary file, synced and renamed. The caller holds
/// the lock of the folder.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    remove_half_files(path)?;
    let mut file = AtomicWriteFile::open(path)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}

/// Removes the temporary files of writers that were killed before they renamed them. No other
/// writer is active at this point. In a git checkout, such files could be committed by accident.
fn remove_half_files(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let start = format!(".{}.", name.to_string_lossy());
    let is_half = |found: &str| found.strip_prefix(&start).is_some_and(is_random);
    for entry in folder.read_dir()?.flatten() {
        if entry.file_name().to_str().is_some_and(is_half) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a suffix is a random suffix of `atomic_write_file`: six letters and digits. A
/// word or a date, as in `.versions.toml.backup`, was chosen by a person.
fn is_random(suffix: &str) -> bool {
    let has = |is: fn(&u8) -> bool| usize::from(suffix.bytes().any(|byte| is(&byte)));
    let kinds = has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase) + has(u8::is_ascii_digit);
    suffix.len() == 6 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric()) && kinds > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_files_of_killed_writers_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let kept = [
            ".a.toml",
            ".a.toml.202611",
            ".a.toml.abcD.1",
            ".a.toml.abcDE12",
            ".a.toml.backup",
            ".b.toml.abcDE1",
            "a.toml.abcDE1",
        ];
        for name in [&kept[..], &[".a.toml.abcDE1", ".a.toml.12345x"]].concat() {
            std::fs::write(folder.path().join(name), "half").unwrap();
        }
        replace(&path, "whole").unwrap();
        let names = folder.path().read_dir().unwrap().flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        let mut wanted = [&kept[..], &["a.toml"]].concat();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "whole");
    }
}
