//! The report for one GPU.

use std::collections::{BTreeMap, BTreeSet};

use gpu_code::{CodeTarget, Verdict, Wish};
use schemars::JsonSchema;
use serde::Serialize;

use crate::files::{Amount, FileCode, Found};

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// What an input contains, and whether a GPU can run it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The input, as the user specified it.
    pub input: String,
    /// The GPU target.
    pub gpu: String,
    /// The GPU version that the image makes ROCm assume (`HSA_OVERRIDE_GFX_VERSION`).
    pub forced: Option<String>,
    /// Whether the GPU can run the code: the best verdict of all parts.
    pub verdict: VerdictName,
    /// The version that the GPU has to imitate, if the verdict is `spoof`.
    pub spoof: Option<String>,
    /// The number of files in the input.
    pub files: u64,
    /// The number of archives among them, which were not read.
    pub archives: u64,
    /// The targets of the code.
    pub targets: Vec<Target>,
    /// The libraries and the folders of kernel files that contain GPU code.
    pub parts: Vec<Part>,
    /// The files that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// Whether a GPU can run code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictName {
    /// There is code for this GPU.
    Native,
    /// There is code for a generic target that this GPU belongs to.
    Generic,
    /// The GPU can run the code only if it imitates another GPU.
    Spoof,
    /// There is GPU code, but none for this GPU.
    None,
    /// There is no GPU code.
    HostOnly,
    /// Files that may contain code for this GPU cannot be read, or their code is for a family or
    /// for an unknown target. The other files contain none.
    Unreadable,
}

/// The code for one target.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Target {
    /// The target: `gfx1151`, `gfx11-generic`, `gfx90a:xnack+`.
    pub target: String,
    /// The number of code objects and kernel files.
    pub objects: u64,
    /// Their size after decompression, in bytes.
    pub bytes: u64,
}

/// A library or executable, or the kernel files of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Part {
    /// Its path.
    pub path: String,
    /// The number of files with GPU code: 1, or the number of kernel files in the folder.
    pub files: u64,
    /// The size of these files, in bytes.
    pub bytes: u64,
    /// Whether the GPU can run its code.
    pub verdict: VerdictName,
    /// The targets of its code.
    pub targets: Vec<Target>,
}

/// A file that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unreadable {
    /// Its path.
    pub path: String,
    /// Why.
    pub why: String,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Native => Self::Native,
            Verdict::Generic => Self::Generic,
            Verdict::Spoof(_) => Self::Spoof,
            Verdict::Unknown => Self::Unreadable,
            Verdict::None => Self::None,
            Verdict::HostOnly => Self::HostOnly,
        }
    }
}

impl AuditReport {
    /// Judges the code that was found, for one GPU.
    pub fn new(input: String, found: Found, wish: &Wish) -> Self {
        let mut parts: BTreeMap<String, FileCode> = BTreeMap::new();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (path, code) in found.files {
            let path = part_of(path, code.is_kernel_file && found.count > 1);
            *counts.entry(path.clone()).or_default() += 1;
            let part = parts.entry(path).or_default();
            part.size += code.size;
            part.code.extend(code.code);
            for (target, amount) in code.targets {
                part.targets.entry(target).or_default().add(amount);
            }
        }
        let mut totals: BTreeMap<CodeTarget, Amount> = BTreeMap::new();
        let mut code = BTreeSet::new();
        for part in parts.values() {
            code.extend(part.code.iter().cloned());
            for (target, amount) in &part.targets {
                totals.entry(target.clone()).or_default().add(*amount);
            }
        }
        let verdict = wish.judge(&code);
        let spoof = match verdict {
            Verdict::Spoof(version) => Some(version.to_string()),
            _ => None,
        };
        let parts = parts.into_iter().map(|(path, part)| Part {
            files: counts.get(&path).copied().unwrap_or_default(),
            bytes: part.size,
            verdict: wish.judge(&part.code).into(),
            targets: targets(part.targets),
            path,
        });
        Self {
            schema: SCHEMA,
            input,
            gpu: wish.gpu.to_string(),
            forced: wish.forced.map(|version| version.to_string()),
            verdict: match verdict {
                Verdict::None | Verdict::HostOnly if !found.unreadable.is_empty() => {
                    VerdictName::Unreadable
                }
                verdict => verdict.into(),
            },
            spoof,
            files: found.count,
            archives: found.archives,
            targets: targets(totals),
            parts: parts.collect(),
            unreadable: {
                let unreadable = found.unreadable.into_iter();
                unreadable.map(|(path, why)| Unreadable { path, why }).collect()
            },
        }
    }

    /// Returns whether the GPU can run the code as it is.
    pub fn is_usable(&self) -> bool {
        match self.verdict {
            VerdictName::Native | VerdictName::Generic => true,
            VerdictName::Spoof => self.forced.is_some(),
            VerdictName::None | VerdictName::HostOnly | VerdictName::Unreadable => false,
        }
    }
}

/// Returns the part that a file belongs to: kernel files belong to their folder.
fn part_of(path: String, is_kernel_file: bool) -> String {
    match path.rsplit_once('/').filter(|_| is_kernel_file) {
        Some((folder, _)) => format!("{folder}/"),
        None if is_kernel_file => "./".to_owned(),
        None => path,
    }
}

fn targets(amounts: BTreeMap<CodeTarget, Amount>) -> Vec<Target> {
    let targets = amounts.into_iter().map(|(target, Amount { objects, bytes })| Target {
        target: target.to_string(),
        objects,
        bytes,
    });
    targets.collect()
}
