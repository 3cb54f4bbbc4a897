//! `build-pipeline` alone: what a newcomer can do next.

use pins::Track;

use crate::cli::Global;
use crate::error::CommandError;
use crate::output::{self, Page};
use crate::project::Project;

/// Prints what can be done here.
pub(crate) fn run(global: &Global) -> Result<(), CommandError> {
    let mut page = Page::default();
    page.line(format_args!(
        "build-pipeline builds reproducible containers for AMD gfx1151 (Strix Halo).\n"
    ));
    let project = crate::working_folder(global).and_then(|folder| Project::find(&folder));
    match project {
        Ok(project) => {
            page.line(format_args!("project {}\n", project.root.display()));
            page.line(format_args!("try it, without a network or an engine:"));
            page.line(format_args!("  build-pipeline --track locked-spoof --rehearse\n"));
            page.line(format_args!("see what would be done:"));
            page.line(format_args!("  build-pipeline plan --track locked-spoof\n"));
            page.line(format_args!("build, and prove what was built:"));
            page.line(format_args!("  build-pipeline --track locked-spoof"));
            page.line(format_args!("  build-pipeline verify locked-spoof\n"));
            page.line(format_args!("tracks:"));
            let tracks = project.read(false)?.tracks.tracks;
            for track in Track::ALL {
                let (letter, name) = (track.letter(), track.name());
                let title = tracks.get(&track).map(|settings| settings.title.as_str());
                let about = title.unwrap_or("needs an engine; not in this version");
                page.line(format_args!("  {letter}  {name:14} {about}"));
            }
        }
        Err(_) => {
            page.line(format_args!(
                "this folder is not inside a project (no versions/versions.toml here or above)."
            ));
            page.line(format_args!("go to a checkout of build-pipeline, or name one:"));
            page.line(format_args!("  build-pipeline -C DIR --track locked-spoof --rehearse"));
        }
    }
    page.line(format_args!("\nbuild-pipeline --help lists all commands and options"));
    output::sanitised_result(&page.into_text())
}
