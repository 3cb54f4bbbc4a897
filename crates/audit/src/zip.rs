//! Python wheels and other zip archives.

use std::io::{self, Read, Seek};
use std::path::Path;

use gpu_code::{HEAD, Spool, is_candidate};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::files::{Found, head, scan};

impl Found {
    /// Reads the files of a zip archive to their end, so that their checksums are checked, and adds
    /// them with `prefix` in front of their names. `folder` is for temporary files.
    ///
    /// # Errors
    /// Fails if the archive cannot be read or is damaged. A damaged file with GPU code is not an
    /// error: it is part of the result.
    pub fn add_zip(
        &mut self,
        prefix: &str,
        archive: impl Read + Seek,
        folder: Option<&Path>,
    ) -> Result<(), ZipError> {
        let mut archive = ZipArchive::new(archive)?;
        for number in 0..archive.len() {
            let entry = archive.by_index(number)?;
            if !entry.is_file() {
                continue;
            }
            let name = format!("{prefix}{}", entry.name()?);
            self.count(&name);
            if let Some(spool) = spooled(&name, entry, folder)? {
                self.add(name.clone(), scan(&name, &spool));
            }
        }
        Ok(())
    }
}

/// Reads a file to its end. Returns `None` if its first [`HEAD`] bytes show that it cannot contain GPU
/// code.
fn spooled(name: &str, mut input: impl Read, folder: Option<&Path>) -> io::Result<Option<Spool>> {
    let mut spool = Spool::new(folder);
    let mut piece = vec![0; 256 << 10];
    let mut is_kept = true;
    loop {
        let count = match input.read(&mut piece) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if is_kept {
            let is_first = spool.size() < HEAD as u64;
            spool.push(&piece[..count])?;
            if is_first && spool.size() >= HEAD as u64 {
                is_kept = is_candidate(name, &head(&spool)?);
            }
        }
    }
    Ok(is_kept.then_some(spool))
}
