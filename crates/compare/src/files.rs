//! Files that differ between two layers. They are kept on disk, because there can be millions.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};

use executor::SortedLayer;
use failure::{Failure, Kind};
use project::environment;
use seal::{Entry, EntryPath, Listing};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Serialize, Serializer};
use text::sanitise::sanitise;

/// The maximum number of files of one kind that are shown for a layer.
const SHOWN: usize = 10;

/// A file that differs.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct File {
    pub(crate) path: String,
    /// The kind of difference: time, pyc, log, cache, order, xattr, mode/owner, path or content.
    pub(crate) cause: String,
    /// The file's line in the layer listing, if the layer contains the file.
    pub(crate) left: Option<String>,
    pub(crate) right: Option<String>,
}

/// The files that differ: the first ones of each kind in memory, all of them on disk.
#[derive(Debug)]
pub(crate) struct Files {
    causes: BTreeMap<String, (usize, Vec<File>)>,
    all: std::fs::File,
}

impl Files {
    /// Compares two layers.
    pub(crate) fn of(left: &SortedLayer, right: &SortedLayer) -> Result<Self, Failure> {
        let compare = || -> io::Result<Self> {
            let mut all = BufWriter::new(spool()?);
            let mut causes: BTreeMap<String, (usize, Vec<File>)> = BTreeMap::new();
            seal::compare(left, right, |difference| {
                let file = File::of(difference);
                serde_json::to_writer(&mut all, &file)?;
                all.write_all(b"\n")?;
                let (count, shown) = causes.entry(file.cause.clone()).or_default();
                *count += 1;
                if shown.len() < SHOWN {
                    shown.push(file);
                }
                Ok(())
            })?;
            let all = all.into_inner().map_err(io::IntoInnerError::into_error)?;
            Ok(Self { causes, all })
        };
        compare().map_err(|error| {
            Failure::caused(Kind::Machine, "comparing two layers failed", &error)
                .hint("their entries are sorted in files in the cache folder; check its free space")
        })
    }

    /// Returns the number of differences of each kind.
    pub(crate) fn summary(&self) -> String {
        if self.causes.is_empty() {
            "same files, compressed differently".to_owned()
        } else {
            let counts = self.causes.iter().map(|(cause, (count, _))| format!("{cause} {count}"));
            counts.collect::<Vec<_>>().join(", ")
        }
    }

    /// Returns each kind of difference with its number of files, and the first of these files.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (&str, usize, &[File])> {
        self.causes.iter().map(|(cause, (count, shown))| (cause.as_str(), *count, &shown[..]))
    }
}

/// Returns an unnamed temporary file.
fn spool() -> io::Result<std::fs::File> {
    match environment::work_folder() {
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            tempfile::tempfile_in(folder)
        }
        None => tempfile::tempfile(),
    }
}

impl Serialize for Files {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = self.causes.values().map(|(count, _)| count).sum();
        let mut list = serializer.serialize_seq(Some(count))?;
        let mut all = &self.all;
        all.seek(SeekFrom::Start(0)).map_err(S::Error::custom)?;
        for line in BufReader::new(all).lines() {
            let line = line.map_err(S::Error::custom)?;
            list.serialize_element(
                &serde_json::from_str::<File>(&line).map_err(S::Error::custom)?,
            )?;
        }
        list.end()
    }
}

impl File {
    /// Describes a difference, with lines of the layers' listings.
    fn of(difference: seal::Difference) -> Self {
        let line = |path: &EntryPath, entry: Option<Entry>| -> Option<String> {
            let listing = Listing { entries: vec![(path.clone(), entry?)] };
            Some(sanitise(format!("{listing:#}").lines().nth(1)?))
        };
        Self {
            path: sanitise(&difference.path.to_string()),
            cause: difference.cause.to_string(),
            left: line(&difference.path, difference.left),
            right: line(&difference.path, difference.right),
        }
    }
}
