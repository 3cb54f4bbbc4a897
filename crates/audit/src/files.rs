//! The GPU code in the files of an input.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gpu_code::{CodeObject, CodeTarget, HEAD, Spool, is_library};

/// The GPU code of an input.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The files that contain or describe GPU code, by path.
    pub(crate) files: BTreeMap<String, FileCode>,
    /// The files that cannot be read, and why.
    pub(crate) unreadable: BTreeMap<String, String>,
    /// The number of files in the input.
    pub(crate) count: u64,
    /// The number of archives among them, which are not read.
    pub(crate) archives: u64,
}

/// The GPU code of a file.
#[derive(Debug, Clone, Default)]
pub struct FileCode {
    /// The amount of code for each target.
    pub(crate) targets: BTreeMap<CodeTarget, Amount>,
    /// The targets for which there is code, not only data about code.
    pub(crate) code: BTreeSet<CodeTarget>,
    /// The size of the file, in bytes.
    pub(crate) size: u64,
    /// Whether the file consists of kernels only. Such files are used together with the other
    /// kernel files in the same folder.
    pub(crate) is_kernel_file: bool,
    /// Whether the file has parts that no AMD GPU uses, for example code for the CPU.
    pub(crate) has_other_parts: bool,
}

impl FileCode {
    /// Returns whether the file has code, or data about code, for a target that `is_meant` accepts.
    pub fn has(&self, is_meant: impl Fn(&CodeTarget) -> bool) -> bool {
        self.targets.keys().any(is_meant)
    }

    /// Returns whether the file is of use only to targets that `is_meant` accepts.
    pub fn is_only_for(&self, is_meant: impl Fn(&CodeTarget) -> bool) -> bool {
        self.is_kernel_file && !self.has_other_parts && self.targets.keys().all(is_meant)
    }
}

/// An amount of GPU code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Amount {
    /// The number of code objects and kernel files.
    pub(crate) objects: u64,
    /// Their size after decompression, in bytes.
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

/// The result for one file: `Ok(None)` if it contains no GPU code, an error if it is damaged.
pub type Scanned = Result<Option<FileCode>, String>;

/// Returns the first bytes of a file.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn head(file: &Spool) -> io::Result<Vec<u8>> {
    let mut head = vec![0; usize::try_from(file.size()).unwrap_or(HEAD).min(HEAD)];
    file.read_at(0, &mut head)?;
    Ok(head)
}

/// Scans a file. `path` matters for files whose names contain their GPU target.
///
/// # Errors
/// Fails if the file is damaged; the text is the reason.
pub fn scan(path: &str, file: &Spool) -> Scanned {
    let objects = gpu_code::scan(path, file).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    })?;
    let mut code = FileCode { size: file.size(), ..FileCode::default() };
    code.is_kernel_file = !head(file).is_ok_and(|head| is_library(&head));
    for object in &objects {
        add(&mut code, object);
    }
    Ok((!code.targets.is_empty()).then_some(code))
}

fn add(code: &mut FileCode, object: &CodeObject) {
    if object.size == 0 {
        return;
    }
    let Some(target) = object.target() else {
        code.has_other_parts = true;
        return;
    };
    let amount = Amount { objects: 1, bytes: object.size };
    code.targets.entry(target.clone()).or_default().add(amount);
    code.code.extend(object.code_target().cloned());
}

/// The file name extensions of archives.
const ARCHIVES: [&str; 14] = [
    ".a", ".conda", ".deb", ".jar", ".rpm", ".tar", ".tar.bz2", ".tar.gz", ".tar.xz", ".tar.zst",
    ".tgz", ".whl", ".zip", ".7z",
];

impl Found {
    /// Counts a file.
    pub fn count(&mut self, path: &str) {
        self.count += 1;
        self.archives += u64::from(ARCHIVES.iter().any(|end| path.ends_with(end)));
    }

    /// Adds the result for a file.
    pub fn add(&mut self, path: String, scanned: Scanned) {
        match scanned {
            Ok(None) => {}
            Ok(Some(code)) => {
                self.files.insert(path, code);
            }
            Err(why) => {
                self.unreadable.insert(path, why);
            }
        }
    }
}
