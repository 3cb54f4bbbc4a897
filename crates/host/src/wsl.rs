//! WSL2, where Windows passes the GPU through as `/dev/dxg`, and ROCm reaches it through librocdxg.

use std::path::Path;

use pins::{Releases, Setting, When};

use crate::kernel::Kernel;
use crate::root::Root;

/// The variable that makes ROCm look for `/dev/dxg`.
pub(crate) const DETECTION: &str = "HSA_ENABLE_DXG_DETECTION";

/// Why the variable is needed, and the source of this.
pub(crate) const DETECTION_FACT: (&str, &str) = (
    "ROCm before 7.13 does not look for /dev/dxg without this variable",
    "a maintainer in ROCm/librocdxg#34",
);

/// The facts about WSL2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wsl {
    /// Whether `/dev/dxg` exists.
    pub has_device: bool,
    /// The path of librocdxg, if it is installed.
    pub library: Option<String>,
    /// The path of the list of GPUs that librocdxg accepts, if it is installed.
    pub ids: Option<String>,
}

/// The folders in which AMD's packages install librocdxg.
const FOLDERS: [&str; 4] = ["opt/rocm/lib", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64"];

/// Where AMD's packages and the documented containers have the list of GPUs.
const LISTS: [&str; 2] = ["opt/rocm/share/rocdxg/dids.conf", "usr/share/rocdxg/dids.conf"];

impl Wsl {
    /// Reads the facts; `None` if the kernel is not WSL2's.
    pub(crate) fn read(root: &Root, release: Option<&str>) -> Option<Self> {
        let is_wsl = release.is_some_and(|release| release.to_lowercase().contains("microsoft"));
        let is_library = |name: &String| name.starts_with("librocdxg.so");
        let library = || {
            FOLDERS.into_iter().find_map(|folder| {
                let name = root.names(folder).into_iter().find(is_library)?;
                Some(format!("/{folder}/{name}"))
            })
        };
        let ids = || LISTS.into_iter().find(|path| root.has(path)).map(|path| format!("/{path}"));
        is_wsl.then(|| Self { has_device: root.has("dev/dxg"), library: library(), ids: ids() })
    }

    /// Returns the variable with which ROCm finds the GPU, if the release needs it. Newer releases
    /// ignore it, so it is also returned if `rocm` is `None`.
    pub fn setting(&self, rocm: Option<&str>) -> Option<Setting> {
        let (why, evidence) = DETECTION_FACT;
        rocm.is_none_or(needs_detection).then(|| Setting {
            name: DETECTION.to_owned(),
            value: "1".to_owned(),
            when: When::Run,
            programs: Vec::new(),
            why: why.to_owned(),
            evidence: evidence.to_owned(),
        })
    }
}

/// Returns the facts about WSL2; `None` if the machine at `root` is not WSL2.
pub fn wsl(root: &Path) -> Option<Wsl> {
    let root = Root::new(root);
    Wsl::read(&root, Kernel::read(&root).release.as_deref())
}

/// Returns whether a ROCm release looks for `/dev/dxg` only if a variable is set.
pub(crate) fn needs_detection(rocm: &str) -> bool {
    "7.12 or older".parse::<Releases>().is_ok_and(|old| old.may_contain(rocm))
}
