//! Detects what is installed in a system: Python packages, ROCm and GPUs.

use std::path::Path;

use names::GpuTarget;
use names::Version;
use patcher::{Tree as _, TreePath};

use crate::directory::Directory;
use crate::rooted::Rooted as _;
use crate::version::dist_infos;

/// Folders that contain `lib/python3…`, in addition to all folders in `opt`.
const PREFIXES: [&str; 5] = ["", "usr", "usr/local", ".venv", "venv"];

/// Returns the tree itself and its folders of Python packages. Ignores folders behind links.
pub fn places(root: Directory) -> Vec<Directory> {
    let inside = |path: &str| root.inside(&path.parse::<TreePath>().ok()?);
    let joined = |prefix: &str, name: &str| match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    };
    let opt = inside("opt").map(|opt| opt.names()).unwrap_or_default();
    let prefixes = PREFIXES
        .iter()
        .map(|prefix| (*prefix).to_owned())
        .chain(opt.iter().map(|name| joined("opt", name)));
    let mut places = Vec::new();
    for library in prefixes.flat_map(|prefix| [joined(&prefix, "lib"), joined(&prefix, "lib64")]) {
        let Some(folder) = inside(&library) else { continue };
        for python in folder.names().iter().filter(|name| name.starts_with("python3")) {
            let packages = ["site-packages", "dist-packages"];
            places.extend(
                packages.iter().filter_map(|name| inside(&format!("{library}/{python}/{name}"))),
            );
        }
    }
    places.insert(0, root);
    places
}

/// Returns the version of ROCm in a system, and where it was found. `/opt/rocm` is often a link, so
/// this also checks the folders next to it; the newest version wins.
pub fn rocm(places: &[Directory]) -> Option<(Version, String)> {
    let root = places.first()?;
    let opt = root.inside(&"opt".parse().ok()?);
    let folders = opt.map(|opt| opt.names()).unwrap_or_default();
    let from_opt = folders.iter().filter(|name| name.starts_with("rocm")).filter_map(|name| {
        let path: TreePath = format!("opt/{name}/.info/version").parse().ok()?;
        let text = String::from_utf8(root.read(&path).ok()??).ok()?;
        // In `6.4.1-83`, the part after the dash is the build number.
        let version = text.trim().split('-').next()?.parse().ok()?;
        Some((version, path.to_string()))
    });
    let packages = ["rocm", "rocm-sdk-core", "rocm-sdk"];
    let from_packages = places.iter().flat_map(|place| dist_infos(place)).filter_map(|one| {
        let version = packages.contains(&one.name.as_str()).then(|| one.version.parse().ok())??;
        Some((version, one.folder))
    });
    let newest = |all: Vec<(Version, String)>| all.into_iter().max_by(|a, b| a.0.cmp(&b.0));
    newest(from_opt.collect()).or_else(|| newest(from_packages.collect()))
}

/// Returns the GPU targets that a system's kernel reports, without duplicates. An override of the
/// HSA runtime has no effect on this.
pub fn gpus(host: &Path) -> Vec<(GpuTarget, String)> {
    let mut found: Vec<(GpuTarget, String)> = Vec::new();
    for gpu in host::gpus(host) {
        if let (Some(target), Some(node)) = (gpu.target, gpu.node)
            && !found.iter().any(|(known, _)| *known == target)
        {
            found.push((target, host.join(node).display().to_string()));
        }
    }
    found
}
