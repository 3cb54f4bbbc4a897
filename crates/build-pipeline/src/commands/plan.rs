//! `build-pipeline plan`: prints what would be done, and does nothing.

use planner::Planned;

use crate::cli::{Global, PlanArgs, PlanFormat, Subject};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::project::Project;
use crate::request::{self, Wanted};
use crate::{judge, output, registry, rehearsal, render};

/// Prints the plans of the tracks that were asked for.
pub(crate) fn run(global: &Global, args: &PlanArgs) -> Result<(), CommandError> {
    let planned = plans(global, &args.subject)?;
    for one in &planned {
        // The outline says them itself.
        if args.format != PlanFormat::Tree {
            one.warnings.iter().for_each(|warning| output::warn(warning.rule, &warning.message));
        }
    }
    match args.format {
        PlanFormat::Json => match planned.as_slice() {
            [one] => output::result(&one.plan.canonical_text()),
            many => output::json(&many.iter().map(|one| &one.plan).collect::<Vec<_>>()),
        },
        PlanFormat::Tree => planned
            .iter()
            .try_for_each(|one| output::sanitised_result(&render::tree(&one.plan, &one.warnings))),
        PlanFormat::Dot => {
            planned.iter().try_for_each(|one| output::sanitised_result(&render::dot(&one.plan)))
        }
        PlanFormat::Mermaid => {
            planned.iter().try_for_each(|one| output::sanitised_result(&render::mermaid(&one.plan)))
        }
    }
}

/// Makes the plans of the tracks that were asked for, asking registries only where a tag must be resolved.
pub(crate) fn plans(global: &Global, subject: &Subject) -> Result<Vec<Planned>, CommandError> {
    if subject.tracks.is_empty() {
        return Err(CommandError::new(ExitCode::Input, "no track was named")
            .hint("write `--track locked-spoof`; the tracks are official, source, nightly-spoof, locked-spoof, vulkan, ollama and trainer"));
    }
    let project = Project::find(&crate::working_folder(global)?)?;
    let mut input = project.read(subject.is_built())?;
    let mut all = request::read(subject, &input)?;
    resolve_all(global, &mut all, &input)?;
    let mut planned = Vec::new();
    for Wanted { request, .. } in all {
        if request.rehearse {
            rehearsal::stand_in(request.track, &mut input)?;
        }
        let mut one = planner::plan(&request, &input)?;
        judge::judge(&project, &mut one)?;
        planned.push(one);
    }
    Ok(planned)
}

fn resolve_all(
    global: &Global,
    all: &mut [Wanted],
    input: &planner::PlanningInput,
) -> Result<(), CommandError> {
    if all.iter().all(|wanted| wanted.unresolved.is_empty()) {
        return Ok(());
    }
    let client = registry::client(global)?;
    crate::runtime()?.block_on(async {
        for wanted in all {
            request::resolve(wanted, input, &client).await?;
        }
        Ok(())
    })
}
