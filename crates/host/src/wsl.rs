//! WSL2, where Windows passes the GPU through as `/dev/dxg`, and ROCm reaches it through librocdxg.

use crate::root::Root;

/// The facts about WSL2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wsl {
    /// Whether `/dev/dxg` exists.
    pub has_device: bool,
    /// The path of librocdxg, if it is installed.
    pub library: Option<String>,
}

/// The folders in which AMD's packages install librocdxg.
const FOLDERS: [&str; 4] = ["opt/rocm/lib", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64"];

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
        is_wsl.then(|| Self { has_device: root.has("dev/dxg"), library: library() })
    }
}
