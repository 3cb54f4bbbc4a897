//! `build-pipeline bump`: looks up a new value for a pin, checks it, and writes `versions.toml`.

use std::collections::BTreeSet;

use failure::{Failure, Kind};
use names::{ImageRef, PinName};
use oci::ArtifactPlace;
use oci::client::RegistryClient;
use pins::{PinKind, Pinned, Pins};
use plan::Input;
use project::Project;
use project::pins_file::{pin_name, read};
use sources::Sources;
use upkeep::bump::{Accepted, Asked, Bound, BumpReport, look_up};

use crate::cli::{Bump, BumpFormat, Global};
use crate::commands::bundle::{copy_input, place};
use crate::global;
use terminal::output;
use text::{Page, counted};

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
        BumpFormat::Github => output::sanitised_result(&pull_request(report)),
        BumpFormat::Text => {
            report.warnings.iter().for_each(|warning| output::warn("bump", warning));
            output::sanitised_result(&self::text(report, args.dry_run))
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

/// Returns the value of a pin, and its input as plans define it. Returns `None` for an unresolved
/// pin, and for a release, which has no single input to copy.
fn input_of(pins: &Pins, name: &PinName) -> Option<(String, Input)> {
    if let Some(pin) = pins.images.get(name) {
        let digest = pin.digest.resolved()?.clone();
        let (repository, tag) = (pin.repository.clone(), pin.tag.clone());
        let value = digest.to_string();
        let reference = ImageRef { repository, tag, digest: Some(digest) };
        return Some((value, Input::Image { reference, manifest: None }));
    }
    if let Some(pin) = pins.sources.get(name) {
        let (url, commit) = (pin.url.clone(), pin.commit.resolved()?.clone());
        return Some((commit.to_string(), Input::Source { url, commit, version: None }));
    }
    let pin = pins.archives.get(name)?;
    let sha256 = pin.sha256.resolved()?.clone();
    let (project, version) = (pin.project.clone(), pin.version.clone());
    let value = sha256.to_string();
    Some((value, Input::Archive { project, version, sha256, subdirectory: None }))
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
    let wanted = if args.many.unresolved {
        let used = used(project)?;
        let is_wanted = |name: &PinName| own.names().contains_key(name) || used.contains(name);
        unresolved(&project.pins()?).into_iter().filter(|(name, _)| is_wanted(name)).collect()
    } else {
        newest(&own)
    };
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
    let mut failed = 0;
    for (name, value) in &wanted {
        if let Some(reason) = own.hold(name).filter(|_| args.many.all) {
            output::sanitised_result(&format!("{:width$}  held: {reason}\n", name.as_str()))?;
            continue;
        }
        let bumped = read(&project.root).and_then(|(text, _)| {
            let mut bump = look_up(project, &text, &asked(args, name, value), sources, client)?;
            bump.write()?;
            mirrored(name)?;
            Ok(bump.report)
        });
        let line = match bumped {
            Ok(report) if report.changed => {
                format!("{} -> {}", words(&report.from), words(&report.to))
            }
            Ok(report) => format!("already at {}", words(&report.to)),
            Err(error) => {
                failed += 1;
                format!("not bumped: {}", error.lines().join(": "))
            }
        };
        output::sanitised_result(&format!("{:width$}  {line}\n", name.as_str()))?;
    }
    match failed {
        0 => Ok(()),
        _ => {
            let all = counted(wanted.len(), "pin");
            let what = format!("not bumped: {failed} of {all}");
            Err(Failure::new(Kind::Failed, what)
                .hint("`build-pipeline bump PIN` shows one of them in detail"))
        }
    }
}

/// Returns the pins that the project's own tracks use.
fn used(project: &Project) -> Result<BTreeSet<PinName>, Failure> {
    let (all, own) = (project.tracks()?, project.own_tracks()?);
    let chains = own.iter().flat_map(|name| all.chain(name));
    Ok(chains.flat_map(|(_, track)| track.pins()).cloned().collect())
}

/// Returns the unresolved pins, each with its recorded tag, branch or version.
fn unresolved(pins: &Pins) -> Vec<(PinName, String)> {
    let latest = || "latest".to_owned();
    let sources = pins.sources.iter().filter(|(_, pin)| pin.commit == Pinned::Unresolved);
    let sources = sources.map(|(name, pin)| (name, pin.git_ref.clone().unwrap_or_else(latest)));
    let archives = pins.archives.iter().filter(|(_, pin)| pin.sha256 == Pinned::Unresolved);
    let archives = archives.map(|(name, pin)| (name, pin.version.clone()));
    // If a pin follows its tag, each build looks up the digest.
    let images =
        pins.images.iter().filter(|(_, pin)| pin.digest == Pinned::Unresolved && !pin.follow);
    let images =
        images.map(|(name, pin)| (name, pin.tag.as_ref().map_or_else(latest, ToString::to_string)));
    let all = sources.chain(archives).chain(images);
    all.map(|(name, value)| (name.clone(), value)).collect()
}

/// Returns all pins that can be bumped, each with the value `latest`.
fn newest(pins: &Pins) -> Vec<(PinName, String)> {
    let can_be_bumped = |(_, kind): &(&PinName, PinKind)| *kind != PinKind::Release;
    let names = pins.names().into_iter().filter(can_be_bumped);
    names.map(|(name, _)| (name.clone(), "latest".to_owned())).collect()
}

/// Returns the report as text.
fn text(report: &BumpReport, with_diff: bool) -> String {
    let mut page = Page::default();
    let BumpReport { pin, from, to, .. } = report;
    match (report.changed, report.written) {
        (true, true) => {
            page.line(format_args!("bumped {pin}: {} -> {}", words(from), words(to)));
        }
        (true, false) => {
            page.line(format_args!("would bump {pin}: {} -> {}", words(from), words(to)));
        }
        (false, _) => page.line(format_args!(
            "{pin} is already at {}; only its `checked` date changes",
            words(to)
        )),
    }
    for one in &report.patches {
        page.line(format_args!("  patch {}: {}", one.id, one.explanation));
    }
    if with_diff {
        page.line(format_args!("\n{}", report.diff.trim_end()));
    }
    page.into_text()
}

/// Returns the title and body of a pull request.
fn pull_request(report: &BumpReport) -> String {
    let mut page = Page::default();
    let BumpReport { pin, from, to, .. } = report;
    let name = |bound: &Bound| {
        bound
            .name
            .clone()
            .or_else(|| bound.value.clone())
            .unwrap_or_else(|| "unresolved".to_owned())
    };
    page.line(format_args!("pins: Bump {pin} to {}\n", name(to)));
    page.line(format_args!("| | before | after |\n|---|---|---|"));
    page.line(format_args!(
        "| name | {} | {} |",
        cell(from.name.as_deref()),
        cell(to.name.as_deref())
    ));
    page.line(format_args!(
        "| value | {} | {} |",
        cell(from.value.as_deref()),
        cell(to.value.as_deref())
    ));
    if let Some(old) = &report.moved_from {
        page.line(format_args!("\n**The tag moved**: it pointed to `{old}` when it was pinned."));
    }
    if !report.patches.is_empty() {
        page.line(format_args!("\n| patch | verdict | |\n|---|---|---|"));
        for one in &report.patches {
            page.line(format_args!(
                "| `{}` | {} | {} |",
                one.id,
                one.verdict,
                one.explanation.replace('|', "\\|")
            ));
        }
    }
    for warning in &report.warnings {
        page.line(format_args!("\n- {warning}"));
    }
    page.line(format_args!("\n```diff\n{}\n```", report.diff.trim_end()));
    page.into_text()
}

/// Returns a shortened value for display.
fn words(bound: &Bound) -> String {
    let short = |value: &String| {
        value.chars().take(if value.contains(':') { 19 } else { 12 }).collect::<String>()
    };
    match (&bound.name, &bound.value) {
        (Some(name), Some(value)) => format!("{name} ({})", short(value)),
        (None, Some(value)) => short(value),
        (Some(name), None) => format!("{name} (unresolved)"),
        (None, None) => "unresolved".to_owned(),
    }
}

fn cell(text: Option<&str>) -> String {
    text.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"))
}
