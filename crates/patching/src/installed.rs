//! Detects the Python packages, the ROCm version and the GPUs of a system.

use std::collections::BTreeSet;
use std::path::Path;

use names::GpuTarget;
use names::Version;
use patcher::{Tree as _, TreePath};

use crate::directory::Directory;
use crate::rooted::Rooted as _;
use crate::version::dist_infos;

/// Folders below which people install Python packages: folders of the system, of users and of
/// applications. `*` matches every folder.
const BASES: [&str; 9] =
    ["", "usr", "usr/local", "opt/*", "root", "home/*", "app", "workspace", "srv/*"];

/// Subfolders of [`BASES`] that may contain `lib/python3…`: the folder itself, virtual
/// environments, user installs, pyenv, conda, uv and pipx.
const ENVIRONMENTS: [&str; 17] = [
    "",
    ".venv",
    "venv",
    "env",
    ".local",
    ".pyenv/versions/*",
    "pyenv/versions/*",
    ".virtualenvs/*",
    ".conda/envs/*",
    "envs/*",
    ".local/share/uv/tools/*",
    ".local/share/pipx/venvs/*",
    "miniconda3",
    "miniforge3",
    "anaconda3",
    "mambaforge",
    "micromamba",
];

/// Installations of conda, whose environments are in `envs`.
const CONDAS: [&str; 5] = ["miniconda3", "miniforge3", "anaconda3", "mambaforge", "micromamba"];

/// Returns the tree itself and its folders of Python packages. Ignores folders that are reached
/// through links.
pub fn places(root: Directory) -> Vec<Directory> {
    let mut patterns: Vec<String> = Vec::new();
    for base in BASES {
        patterns.extend(ENVIRONMENTS.map(|environment| joined(base, environment)));
        patterns.extend(CONDAS.map(|conda| joined(base, &format!("{conda}/envs/*"))));
    }
    let prefixes: BTreeSet<String> =
        patterns.iter().flat_map(|pattern| matching(&root, pattern)).collect();
    let mut places = Vec::new();
    for library in
        prefixes.iter().flat_map(|prefix| [joined(prefix, "lib"), joined(prefix, "lib64")])
    {
        for python in folders(&root, &library).iter().filter(|name| name.starts_with("python3")) {
            let packages = ["site-packages", "dist-packages"];
            let names = packages.iter().map(|name| format!("{library}/{python}/{name}"));
            places.extend(names.filter_map(|name| root.inside(&name.parse::<TreePath>().ok()?)));
        }
    }
    places.insert(0, root);
    places
}

fn joined(prefix: &str, name: &str) -> String {
    match (prefix, name) {
        ("", name) => name.to_owned(),
        (prefix, "") => prefix.to_owned(),
        (prefix, name) => format!("{prefix}/{name}"),
    }
}

/// Returns the names in a folder, or nothing if it does not exist.
fn folders(root: &Directory, path: &str) -> Vec<String> {
    let folder = path.parse::<TreePath>().ok().and_then(|path| root.inside(&path));
    folder.map(|folder| folder.names()).unwrap_or_default()
}

/// Returns the paths that match a pattern. Only `*` is looked up in the file system; the other
/// parts of a path need not exist.
fn matching(root: &Directory, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        paths = match part {
            "*" => {
                let inside = |path: &String| {
                    let names = folders(root, path);
                    names.into_iter().map(|name| joined(path, &name)).collect::<Vec<_>>()
                };
                paths.iter().flat_map(inside).collect()
            }
            part => paths.iter().map(|path| joined(path, part)).collect(),
        };
    }
    paths
}

/// Returns the version of ROCm in a system, and where it was found. `/opt/rocm` is often a link, so
/// this also checks the folders next to it. If `/opt` has no ROCm, checks the Python packages. The
/// newest version wins.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_where_people_install_them() {
        let usual = [
            "usr/lib/python3/dist-packages",
            "usr/local/lib/python3.12/dist-packages",
            "usr/lib64/python3.13/site-packages",
            "opt/venv/lib/python3.12/site-packages",
            "opt/vllm/.venv/lib/python3.12/site-packages",
            "opt/conda/lib/python3.11/site-packages",
            "opt/conda/envs/rocm/lib/python3.11/site-packages",
            "app/.venv/lib/python3.12/site-packages",
            "app/venv/lib/python3.12/site-packages",
            "workspace/venv/lib/python3.12/site-packages",
            "root/.local/lib/python3.12/site-packages",
            "root/.pyenv/versions/3.12.4/lib/python3.12/site-packages",
            "home/me/.local/lib/python3.12/site-packages",
            "home/me/venv/lib/python3.12/site-packages",
            "home/me/.venv/lib/python3.12/site-packages",
            "home/me/.pyenv/versions/3.12.4/lib/python3.12/site-packages",
            "home/me/miniconda3/envs/rocm/lib/python3.12/site-packages",
            "home/me/miniforge3/lib/python3.12/site-packages",
            "home/me/.local/share/uv/tools/vllm/lib/python3.12/site-packages",
            ".venv/lib/python3.12/site-packages",
            "lib/python3.12/site-packages",
        ];
        let folder = tempfile::tempdir().unwrap();
        for path in usual {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let root = Directory::open(folder.path()).unwrap();
        let top = root.path().to_owned();
        let found: BTreeSet<String> = places(root)
            .iter()
            .skip(1)
            .map(|place| place.path().strip_prefix(&top).unwrap().display().to_string())
            .collect();
        assert_eq!(found, usual.map(str::to_owned).into());
    }
}
