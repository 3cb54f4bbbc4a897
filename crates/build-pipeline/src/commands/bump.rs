//! `build-pipeline bump`: looks up a new value for a pin, checks it, and writes `versions.toml`.

use failure::{Failure, Kind};
use names::PinName;
use oci::ArtifactPlace;
use oci::client::RegistryClient;
use project::Project;
use project::pins_file::{input_of, pin_name, read};
use sources::Sources;
use upkeep::bump::{Accepted, Asked, look_up, newest, unresolved, wanted_unresolved};

use crate::cli::{Bump, BumpFormat, Global};
use crate::commands::bundle::{copy_input, place};
use crate::global;
use terminal::output;
use text::counted;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Bump) -> Result<(), Failure> {
    let project = global::project()?;
    let (sources, client) = (global::sources(global)?, global::registry(global)?);
    let to = args.mirror_to.as_ref().map(|to| place(to.expose())).transpose()?;
    let mirrored = |name: &PinName| match &to {
        Some(to) => mirror(global, &project, name, to),
        None => Ok(()),
    };
    let Some(pin) = &args.pin else {
        return run_all(&project, args, &sources, &client, &mirrored);
    };
    let pins = project.pins()?;
    let name = pin_name(pin, &pins)?;
    let recorded = || unresolved(&pins).into_iter().find(|(unresolved, _)| *unresolved == name);
    let value = args.value.clone().or_else(|| recorded().map(|(_, value)| value));
    let value = value.unwrap_or_else(|| "latest".to_owned());
    let (text, _) = read(&project.root)?;
    let mut bump = look_up(&project, &text, &asked(args, &name, &value), &sources, &client)?;
    if let Some(reason) = pins.hold(&name) {
        let warning = format!("`hold` in versions.toml says to keep {name} at its value: {reason}");
        bump.report.warnings.insert(0, warning);
    }
    if args.check {
        return Ok(());
    }
    if !args.dry_run {
        bump.write()?;
        mirrored(&name)?;
    }
    let report = &bump.report;
    match args.format {
        BumpFormat::Json => output::json(report),
        BumpFormat::Github => output::page(&report.pull_request()),
        BumpFormat::Text => {
            report.warnings.iter().for_each(|warning| output::warn("bump", warning));
            output::page(&report.page(args.dry_run))
        }
    }
}

/// Copies a pin's input, under a name that is unique to the pin's value.
fn mirror(
    global: &Global,
    project: &Project,
    pin: &PinName,
    to: &ArtifactPlace,
) -> Result<(), Failure> {
    let Some((value, input)) = input_of(&read(&project.root)?.1, pin) else { return Ok(()) };
    let value = value.trim_start_matches("sha256:");
    let name = format!("pin-{pin}-{}", value.get(..12).unwrap_or(value));
    copy_input(global, &name, &input, to).map_err(|told| {
        told.cause(format!("pin {pin} was written, but its input was not copied"))
            .hint(format!("`build-pipeline mirror TRACK --to {to}` copies what a track needs"))
    })
}

fn asked<'a>(args: &'a Bump, pin: &'a PinName, value: &'a str) -> Asked<'a> {
    Asked {
        pin,
        value,
        index: args.index.url.as_deref(),
        accepted: Accepted {
            downgrade: args.accept.allow_downgrade,
            moved: args.accept.accept_moved,
            broken_patches: args.accept.accept_broken_patches,
        },
    }
}

/// Bumps all pins of the project, or all that are unresolved. A pin that cannot be bumped does not
/// stop the others.
fn run_all(
    project: &Project,
    args: &Bump,
    sources: &Sources,
    client: &RegistryClient,
    mirrored: &dyn Fn(&PinName) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let own = read(&project.root)?.1;
    let wanted =
        if args.many.unresolved { wanted_unresolved(project, &own)? } else { newest(&own) };
    if wanted.is_empty() {
        if !args.many.unresolved {
            return output::result("the project's versions.toml has no pins\n");
        }
        output::result(
            "neither the project's versions.toml nor its tracks have unresolved pins\n",
        )?;
        if project.has_built_in() {
            output::hint("`build-pipeline bump PIN` resolves a built-in pin");
        }
        return Ok(());
    }
    let width = wanted.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    let mut failed = Vec::new();
    for (name, value) in &wanted {
        if let Some(reason) = own.hold(name).filter(|_| args.many.all) {
            output::sanitised_result(&format!("{:width$}  held: {reason}\n", name.as_str()))?;
            continue;
        }
        let bumped = read(&project.root).and_then(|(text, _)| {
            let mut bump = look_up(project, &text, &asked(args, name, value), sources, client)?;
            if !args.dry_run {
                bump.write()?;
                mirrored(name)?;
            }
            Ok(bump.report)
        });
        let line = match bumped {
            Ok(report) if report.changed => {
                let end = if args.dry_run { " (not written)" } else { "" };
                format!("{} -> {}{end}", report.from.short(), report.to.short())
            }
            Ok(report) => format!("already at {}", report.to.short()),
            Err(error) => {
                failed.push(error.kind);
                format!("not bumped: {}", error.lines().join(": "))
            }
        };
        output::sanitised_result(&format!("{:width$}  {line}\n", name.as_str()))?;
    }
    let Some(first) = failed.first().copied() else { return Ok(()) };
    let all = counted(wanted.len(), "pin");
    let what = format!("not bumped: {} of {all}", failed.len());
    let kind = if failed.iter().all(|kind| *kind == first) { first } else { Kind::Failed };
    Err(Failure::new(kind, what).hint("`build-pipeline bump PIN` shows one of them in detail"))
}
