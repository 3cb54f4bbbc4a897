//! `build-pipeline` without arguments: shows a newcomer the next steps.

use failure::Failure;
use names::TrackName;
use pins::Track;
use planner::BuildRequest;
use project::prepare::Preparer;
use project::request::{self, PendingRequest};

use crate::global;
use terminal::output;
use text::Page;

/// Prints what the user can do here.
pub(crate) fn run() -> Result<(), Failure> {
    let mut page = Page::default();
    page.line(format_args!(
        "build-pipeline builds reproducible container images for AMD gfx1151 (Strix Halo).\n"
    ));
    let project = global::project();
    match project {
        Ok(project) => {
            page.line(format_args!("project {}\n", project.root.display()));
            let mut preparer = Preparer::new(&project)?;
            let tracks = preparer.input.tracks.clone();
            let is_tried = |name: &TrackName, track: &Track| {
                track.letter.is_none() && !tracks.needs_engine(name)
            };
            let all = tracks.in_order().into_iter().rev();
            let own = all.into_iter().find(|(name, track)| is_tried(name, track));
            if let Some(track) = own.map(|(name, _)| name).or(tracks.first()) {
                if tracks.can_be_rehearsed(track) {
                    let engine = if tracks.needs_engine(track) { "" } else { " or an engine" };
                    page.line(format_args!("try it, without a network{engine}:"));
                    page.line(format_args!("  build-pipeline --track {track} --rehearse\n"));
                }
                page.line(format_args!("print the full plan:"));
                page.line(format_args!("  build-pipeline plan --track {track}\n"));
                page.line(format_args!("build an image, and verify it:"));
                page.line(format_args!("  build-pipeline --track {track}"));
                page.line(format_args!("  build-pipeline verify {track}\n"));
            }
            page.line(format_args!("tracks:"));
            let width = tracks.tracks.keys().map(|name| name.as_str().len()).max().unwrap_or(0);
            for (name, track) in tracks.in_order() {
                let letter = track.letter.unwrap_or(' ');
                let about = about(&mut preparer, name, track);
                page.line(format_args!("  {letter}  {:width$}  {about}", name.as_str()));
            }
        }
        Err(_) => {
            page.line(format_args!(
                "no project found: no versions/versions.toml in this folder or any parent folder."
            ));
            page.line(format_args!("create a project, and try it without a network or an engine:"));
            page.line(format_args!("  build-pipeline init my-images && cd my-images"));
            if let Some(track) = global::data()?.tracks()?.first() {
                page.line(format_args!("  build-pipeline --track {track} --rehearse"));
            }
        }
    }
    page.line(format_args!("\nbuild-pipeline --help lists all commands and options"));
    output::sanitised_result(&page.into_text())
}

/// Returns the title of a track, and what prevents building it, if anything.
fn about(preparer: &mut Preparer<'_>, name: &TrackName, track: &Track) -> String {
    let title = &track.title;
    if follows_a_tag(preparer, name) {
        return format!("{title} (its tag is resolved at each build)");
    }
    match obstacle(preparer, name) {
        None => title.clone(),
        Some(error) => format!("{title} (not ready: {})", error.lines().join(": ")),
    }
}

/// Returns whether each build of this track looks up the tag of its base.
fn follows_a_tag(preparer: &Preparer<'_>, name: &TrackName) -> bool {
    request::followed_tag(&BuildRequest::new(name.clone()), &[], &preparer.input).is_some()
}

/// Returns what prevents building a track, for example an unresolved pin.
pub(super) fn obstacle(preparer: &mut Preparer<'_>, name: &TrackName) -> Option<Failure> {
    if follows_a_tag(preparer, name) {
        return None;
    }
    preparer.plan(PendingRequest::new(BuildRequest::new(name.clone()))).err()
}
