//! `patch apply --when auto`: chooses patches by what is installed and by the GPU.

use std::path::Path;

use failure::{Failure, Kind};
use names::GpuTarget;
use names::Version;
use patcher::{Patch, PatchSet, Tree as _};
use patching::directory::Directory;
use patching::prepared::{self, Prepared};
use patching::{installed, version};
use project::{Project, patches};

use crate::cli::Apply;
use crate::commands::patch::apply::{apply, why_not};
use crate::commands::patch::report::{self, Detected, LeftOut, PatchReport, TreeReport};
use crate::commands::patch::wanted::run_probes;

/// Applies all patches for components that are installed under a root.
pub(crate) fn run(here: &Path, project: &Project, args: &Apply) -> Result<(), Failure> {
    let Some(root) = &args.options.root else {
        return Err(Failure::new(Kind::Input, "no system given")
            .hint("write `--root DIR`; `--root /` is this system"));
    };
    let all = patches::read_all(project)?;
    let places = installed::places(prepared::open(here, root)?);
    let rocm = installed::rocm(&places);
    let (gpu, gpu_from) = gpu(here, args)?;
    let mut found = Vec::new();
    for place in &places {
        for (component, patches) in &all {
            let folder = version::package_folder(component);
            let is_there = folder.and_then(|name| place.inside(&name.parse().ok()?)).is_some();
            if is_there {
                let rocm = rocm.as_ref().map(|(version, from)| (version, from.as_str()));
                found.push(prepare(component, patches, place, (&gpu, rocm))?);
            }
        }
    }
    // Work out all trees first: if one fails, nothing is written anywhere.
    let mut trees = Vec::new();
    for (prepared, left_out) in &found {
        let outcome = prepared.outcome(run_probes(&args.options.probes));
        let mut tree = TreeReport::new(prepared, outcome);
        tree.set_left_out(left_out.clone());
        if let Some(because) = why_not(prepared.tree.path(), &project.root, args) {
            tree.set_not_written(because);
        }
        trees.push(tree);
    }
    if trees.iter().all(|tree| report::is_good(tree.outcome(), &args.options)) {
        let done = found.into_iter().map(|(prepared, left)| apply(prepared, project, args, left));
        trees = done.collect::<Result<_, _>>()?;
    }
    let mut report = PatchReport::new("apply", trees);
    report.detected = Some(Detected {
        rocm: rocm.as_ref().map(|(version, _)| version.to_string()),
        rocm_from: rocm.map(|(_, from)| from),
        gpu: gpu.to_string(),
        gpu_from,
    });
    report::print(&report, &args.options)
}

/// Returns the GPU target and its origin.
fn gpu(here: &Path, args: &Apply) -> Result<(GpuTarget, String), Failure> {
    if let Some(text) = &args.options.gpu {
        let parsed = text.parse().map_err(|error| {
            Failure::from_chain(Kind::Input, &error).hint("a target looks like `gfx1151`")
        })?;
        return Ok((parsed, "--gpu".to_owned()));
    }
    let host = here.join(args.host_root.as_deref().unwrap_or(Path::new("/")));
    let mut found = installed::gpus(&host);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(
            Kind::Input,
            format!("the kernel reports no AMD GPU under `{}`", host.display()),
        )
        .hint("name the target with `--gpu gfx1151`, for example in a container's build")),
        _ => {
            let names: Vec<&str> = found.iter().map(|(target, _)| target.as_str()).collect();
            Err(Failure::new(
                Kind::Input,
                format!("there are GPUs of several targets: {}", names.join(", ")),
            )
            .hint(format!("name one with `--gpu {}`", names[0])))
        }
    }
}

/// Prepares the patches of a component that fit an installed tree.
fn prepare(
    component: &str,
    patches: &[Patch],
    place: &Directory,
    (gpu, rocm): (&GpuTarget, Option<(&Version, &str)>),
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
        match (has_file, is_unknown) {
            (false, _) => {
                leave_out(patch, "it is for sources; none of its files is installed".to_owned())
            }
            (true, true) => leave_out(patch, "the package does not state its version".to_owned()),
            (true, false) => true,
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
