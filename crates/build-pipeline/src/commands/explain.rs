//! `build-pipeline explain`: explains a `lint` rule, or why a track needs a rebuild.

use failure::{Failure, Kind};
use project::prepare::prepare;
use project::request::Subject;
use project::state;
use record::{BuildRecord, ExplainReport, Status};

use crate::cli::{Explain, Format, Global};
use crate::commands::lint;
use crate::global;
use terminal::output;

/// Runs `explain`.
pub(crate) fn run(global: &Global, args: &Explain) -> Result<(), Failure> {
    let name = args.name.as_deref();
    // Explaining a rule needs no project.
    let of_sed = name.and_then(patching::sed::explanation);
    if of_sed.is_some() || name.is_none_or(|name| ::lint::rule(name).is_some()) {
        if args.format == Format::Json {
            let what = "`explain --format json` describes a track, not a rule";
            return Err(
                Failure::new(Kind::Input, what).hint("pass a track, or leave out `--format`")
            );
        }
        return match of_sed {
            Some(text) => output::result(&text),
            None => lint::explain(name, None),
        };
    }
    let project = global::project();
    // Outside a project, the tracks are the built-in ones.
    let tracks = match &project {
        Ok(project) => project.tracks()?,
        Err(_) => global::data()?.tracks()?,
    };
    // `verify` and `records` call the rehearsed image of a track `rehearsal-TRACK`.
    let rehearsed = name.and_then(|name| name.strip_prefix("rehearsal-"));
    let rehearsed = rehearsed.and_then(|track| tracks.find(track));
    let Some(track) = rehearsed.or_else(|| name.and_then(|name| tracks.find(name))) else {
        return lint::explain(name, Some(&tracks));
    };
    let subject = Subject {
        tracks: vec![track.to_string()],
        variant: args.variant.clone(),
        rehearse: args.rehearse || rehearsed.is_some(),
        ..Subject::default()
    };
    let project = project?;
    for planned in prepare(&global.mirror, &project, &subject)?.plans {
        let records = state::read_records_of(&project.root, output::warn)?;
        let is_one = |record: &&BuildRecord| {
            record.plan.name == planned.plan.name && record.status == Status::Succeeded
        };
        let last = records.iter().filter(is_one).max_by_key(|record| &record.began);
        let report = ExplainReport::new(&planned.plan, last);
        match args.format {
            Format::Json => output::json(&report)?,
            Format::Text => {
                output::page(&report.page())?;
                if last.is_none() {
                    let option = if subject.rehearse { " --rehearse" } else { "" };
                    output::hint(&format!(
                        "`build-pipeline build {track}{option}` builds it, `build-pipeline plan {track}{option}` shows its steps"
                    ));
                }
            }
        }
    }
    Ok(())
}
