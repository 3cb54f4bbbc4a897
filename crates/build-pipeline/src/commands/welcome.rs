//! `build-pipeline` without arguments: shows a newcomer the next steps.

use failure::Failure;
use pins::Track;
use planner::BuildRequest;
use project::prepare::Preparer;
use project::request::{self, PendingRequest};

use crate::cli::Global;
use crate::global;
use crate::output::{self, Page};

/// Prints what the user can do here.
pub(crate) fn run(global: &Global) -> Result<(), Failure> {
    let mut page = Page::default();
    page.line(format_args!(
        "build-pipeline builds reproducible container images for AMD gfx1151 (Strix Halo).\n"
    ));
    let project = global::project(global);
    match project {
        Ok(project) => {
            page.line(format_args!("project {}\n", project.root.display()));
            page.line(format_args!("try it, without a network or an engine:"));
            page.line(format_args!("  build-pipeline --track locked-spoof --rehearse\n"));
            page.line(format_args!("print the full plan:"));
            page.line(format_args!("  build-pipeline plan --track locked-spoof\n"));
            page.line(format_args!("build an image, and verify it:"));
            page.line(format_args!("  build-pipeline --track locked-spoof"));
            page.line(format_args!("  build-pipeline verify locked-spoof\n"));
            page.line(format_args!("tracks:"));
            let mut preparer = Preparer::new(&project)?;
            for track in Track::ALL {
                let (letter, name) = (track.letter(), track.name());
                let about = about(&mut preparer, track)?;
                page.line(format_args!("  {letter}  {name:14} {about}"));
            }
        }
        Err(_) => {
            page.line(format_args!(
                "no project found: no versions/versions.toml in this folder or any parent folder."
            ));
            page.line(format_args!("go to a checkout of build-pipeline, or name one:"));
            page.line(format_args!("  build-pipeline -C DIR --track locked-spoof --rehearse"));
        }
    }
    page.line(format_args!("\nbuild-pipeline --help lists all commands and options"));
    output::sanitised_result(&page.into_text())
}

/// Returns the title of a track, and what prevents building it, if anything.
fn about(preparer: &mut Preparer<'_>, track: Track) -> Result<String, Failure> {
    let tracks = &preparer.input.tracks;
    let of_built = tracks.built.get(&track).map(|settings| &settings.title);
    let title = tracks.tracks.get(&track).map(|settings| &settings.title).or(of_built);
    let Some(title) = title.cloned() else {
        return Ok(format!("no table `[{}]` in versions/tracks.toml", track.name()));
    };
    let request = BuildRequest::new(track);
    if request::followed_tag(&request, &[], &preparer.input)?.is_some() {
        return Ok(format!("{title} (its tag is resolved at each build)"));
    }
    match preparer.plan(PendingRequest::new(request)) {
        Ok(_) => Ok(title),
        Err(error) => Ok(format!("{title} (not yet: {})", error.lines().join(": "))),
    }
}
