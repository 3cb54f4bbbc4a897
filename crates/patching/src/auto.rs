//! Chooses patches based on the installed packages and the GPU, and applies them.

use std::collections::BTreeMap;
use std::path::Path;

use failure::{Failure, Kind};
use names::{GpuTarget, Version};
use patcher::{Patch, PatchSet, Position, Tree as _};
use project::{Project, patches};

use crate::apply::{Applying, apply};
use crate::directory::Directory;
use crate::prepared::{self, Prepared};
use crate::report::{Detected, LeftOut, PatchReport};
use crate::{installed, version};

/// The system to patch.
#[derive(Debug, Clone, Copy)]
pub struct System<'a> {
    /// The folder that the others are relative to.
    pub here: &'a Path,
    /// The root of the installed packages.
    pub root: &'a Path,
    /// The root of the system to look for the GPU in.
    pub host_root: &'a Path,
    /// The GPU target; if `None`, that of the system's GPU.
    pub gpu: Option<&'a str>,
}

/// Applies all patches for components that are installed in a system. Each package is patched
/// separately: if one cannot be patched, the others still are. Also returns the errors of packages
/// that could not be patched.
///
/// # Errors
/// No package has patches, the GPU is not known, or a patch file cannot be read.
pub fn run(
    project: &Project,
    system: System<'_>,
    how: Applying,
) -> Result<(PatchReport, Vec<Failure>), Failure> {
    let all = patches::read_all(project)?;
    let places = installed::places(prepared::open(system.here, system.root)?);
    let rocm = installed::rocm(&places);
    let (gpu, gpu_from) = gpu(project, system)?;
    let mut found = 0;
    let mut trees = Vec::new();
    let mut errors = Vec::new();
    for place in &places {
        for (component, patches) in &all {
            let folder = version::package_folder(component);
            let is_there = folder.and_then(|name| place.inside(&name.parse().ok()?)).is_some();
            if is_there {
                let rocm = rocm.as_ref().map(|(version, from)| (version, from.as_str()));
                found += 1;
                let prepared = prepare(component, patches, place, &Target { gpu: &gpu, rocm });
                match prepared.and_then(|(prepared, left)| apply(prepared, project, how, left)) {
                    Ok(tree) => trees.push(tree),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    if found == 0 {
        return Err(none_found(system.root, places.len(), &all));
    }
    let mut report = PatchReport::new("apply", trees);
    report.detected = Some(Detected {
        rocm: rocm.as_ref().map(|(version, _)| version.to_string()),
        rocm_from: rocm.map(|(_, from)| from),
        gpu: gpu.to_string(),
        gpu_from,
    });
    Ok((report, errors))
}

/// Returns the error for a system in which no package has patches.
fn none_found(root: &Path, places: usize, all: &BTreeMap<String, Vec<Patch>>) -> Failure {
    let folders: Vec<&str> =
        all.keys().filter_map(|component| version::package_folder(component)).collect();
    let s = if places == 2 { "" } else { "s" };
    Failure::new(
        Kind::Input,
        format!(
            "found no package under `{}` that has patches: searched {} folder{s} of Python packages for {}",
            root.display(),
            places - 1,
            folders.join(", ")
        ),
    )
    .hint("if a package is elsewhere, pass the folder that contains it: `--root …/site-packages`")
}

/// Returns the GPU target and its origin.
fn gpu(project: &Project, system: System<'_>) -> Result<(GpuTarget, String), Failure> {
    if let Some(text) = system.gpu {
        return Ok((project.known_gpu(text)?, "--gpu".to_owned()));
    }
    let host = system.here.join(system.host_root);
    let mut found = installed::gpus(&host);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(
            Kind::Input,
            format!("the kernel reports no AMD GPU under `{}`", host.display()),
        )
        .hint("specify the target with `--gpu gfx1151`, for example during a container build")),
        _ => {
            let names: Vec<&str> = found.iter().map(|(target, _)| target.as_str()).collect();
            Err(Failure::new(
                Kind::Input,
                format!("this system has GPUs with different targets: {}", names.join(", ")),
            )
            .hint(format!("specify one with `--gpu {}`", names[0])))
        }
    }
}

/// What a system has.
struct Target<'a> {
    gpu: &'a GpuTarget,
    /// The version of ROCm, and where it was found.
    rocm: Option<(&'a Version, &'a str)>,
}

/// Prepares the patches of a component that apply to an installed tree.
fn prepare(
    component: &str,
    patches: &[Patch],
    place: &Directory,
    &Target { gpu, rocm }: &Target<'_>,
) -> Result<(Prepared<Directory>, Vec<LeftOut>), Failure> {
    let directory = place.again().map_err(|error| {
        let shown = place.path().display();
        Failure::caused(Kind::Machine, format!("opening `{shown}` again failed"), &error)
    })?;
    let is_rocm = component == "therock";
    let found = version::detect(&directory, component).or_else(|| {
        let (version, from) = rocm.filter(|_| is_rocm)?;
        Some(version::Found { version: version.clone(), from: from.to_owned() })
    });
    let mut left_out: Vec<LeftOut> = Vec::new();
    let mut leave_out = |patch: &Patch, because: String| {
        left_out.push(LeftOut { id: patch.id.clone(), because });
        false
    };
    let is_unknown = found.is_none() && version::is_needed(patches);
    let mut chosen: Vec<Patch> = patches.to_vec();
    chosen.retain(|patch| {
        let files = patch.edits.iter().flat_map(|edit| &edit.files);
        let has_file = files.into_iter().any(|file| !matches!(directory.read(file), Ok(None)));
        if !has_file {
            return leave_out(
                patch,
                "it is for source trees; none of its files are installed".to_owned(),
            );
        }
        if is_unknown {
            return leave_out(patch, "the package does not state its version".to_owned());
        }
        let rocm = rocm.map(|(version, _)| version);
        match (&patch.applies.rocm, rocm) {
            (Some(range), Some(rocm)) if range.position(rocm) != Position::Inside => {
                leave_out(patch, format!("it is for ROCm `{range}`, but {rocm} is installed"))
            }
            (Some(range), None) => {
                leave_out(patch, format!("it is for ROCm `{range}`, but no ROCm was found"))
            }
            _ => true,
        }
    });
    loop {
        let ids: Vec<String> = chosen.iter().map(|patch| patch.id.clone()).collect();
        let count = chosen.len();
        chosen.retain(|patch| {
            match patch.relations.requires.iter().find(|required| !ids.contains(required)) {
                Some(missing) => leave_out(patch, format!("it requires `{missing}`")),
                None => true,
            }
        });
        if chosen.len() == count {
            break;
        }
    }
    let set = PatchSet::new(chosen).map_err(|error| Failure::from_chain(Kind::Input, &error))?;
    let prepared = Prepared::in_directory(component, set, gpu.clone(), found, directory)?;
    Ok((prepared, left_out))
}
