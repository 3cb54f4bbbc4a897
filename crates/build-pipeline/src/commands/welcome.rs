//! `build-pipeline` alone: what a newcomer can do next.

use pins::Track;

use crate::cli::Global;
use crate::error::CommandError;
use crate::output;
use crate::project::Project;

/// Prints what can be done here.
pub(crate) fn run(global: &Global) -> Result<(), CommandError> {
    let mut out = String::from(
        "build-pipeline builds reproducible containers for AMD gfx1151 (Strix Halo).\n\n",
    );
    let project = crate::working_folder(global).and_then(|folder| Project::find(&folder));
    match project {
        Ok(project) => {
            out.push_str(&format!("project {}\n\n", project.root.display()));
            out.push_str("try it, without a network or an engine:\n  build-pipeline --track locked-spoof --rehearse\n\n");
            out.push_str("see what would be done:\n  build-pipeline plan --track locked-spoof\n\n");
            out.push_str("build, and prove what was built:\n  build-pipeline --track locked-spoof\n  build-pipeline verify locked-spoof\n\n");
            out.push_str("tracks:\n");
            let tracks = project.read()?.tracks.tracks;
            for track in Track::ALL {
                let about =
                    tracks.get(&track).map_or("needs an engine; not in this version", |settings| {
                        settings.title.as_str()
                    });
                out.push_str(&format!("  {}  {:14} {about}\n", track.letter(), track.name()));
            }
        }
        Err(_) => {
            out.push_str(
                "this folder is not inside a project (no versions/versions.toml here or above).\n",
            );
            out.push_str("go to a checkout of build-pipeline, or name one: build-pipeline -C DIR --track locked-spoof --rehearse\n");
        }
    }
    out.push_str("\nbuild-pipeline --help lists all commands and options\n");
    output::sanitised_result(&out)
}
