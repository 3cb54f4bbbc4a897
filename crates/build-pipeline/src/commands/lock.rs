//! `build-pipeline lock`: looks up Debian and Python packages again, and writes them with their
//! hashes below `versions/locks`.

use failure::Failure;
use project::Project;
use project::clock::now;
use project::python_locks::refuse_stale;
use upkeep::lock::{
    Asked, Index, LockChange, LockReport, Locks, PackageFromTo, choose, look_up, write,
};

use crate::cli::{Format, Global, Lock};
use crate::global;
use terminal::output;
use text::{Page, counted};

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Lock) -> Result<(), Failure> {
    let project = global::project()?;
    let chosen = choose(&project, &args.names)?;
    if args.check {
        return check(&project, &chosen, args);
    }
    let asked = Asked {
        mirrors: &global.mirror,
        index: args.index.url.as_deref(),
        accepts_moved: args.trust.accept_moved,
        is_snapshot: args.trust.snapshot,
    };
    let listener = global::listener(global);
    let all = look_up(&project, &chosen, &asked, listener, &output::fetching)?;
    let report = write(&project, &all, &global.mirror, args.dry_run)?;
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::sanitised_result(&text(&report, args.dry_run, &now()?)),
    }
}

/// Reports stale locks.
fn check(project: &Project, chosen: &Locks, args: &Lock) -> Result<(), Failure> {
    let checked = upkeep::lock::check(project, chosen, !args.names.is_empty())?;
    for name in checked.unmade {
        let hint = format!(
            "lock `{name}` does not exist yet; `build-pipeline lock {name}` creates it, on a machine that can reach its sources"
        );
        output::hint(&hint);
    }
    if !checked.stale.is_empty() {
        return Err(refuse_stale(checked.stale));
    }
    match (args.format, checked.count) {
        (Format::Json, _) => output::json(&LockReport::default()),
        (Format::Text, 1) => output::result("1 lock matches the current requirements\n"),
        (Format::Text, count) => {
            output::result(&format!("{count} locks match the current requirements\n"))
        }
    }
}

/// Returns the report as text.
fn text(report: &LockReport, is_dry: bool, now: &str) -> String {
    let mut page = Page::default();
    for lock in &report.locks {
        let LockChange { name, packages, added, removed, changed, files, .. } = lock;
        if files.is_empty() {
            page.line(format_args!("{name}: {}, unchanged", counted(*packages, "package")));
            describe_indexes(&mut page, lock, now);
            continue;
        }
        let would = if is_dry { "would have " } else { "" };
        page.line(format_args!(
            "{name}: {would}{}: {} added, {} removed, {} with a different version",
            counted(*packages, "package"),
            added.len(),
            removed.len(),
            changed.len()
        ));
        added.iter().for_each(|one| page.line(format_args!("  + {} {}", one.name, one.version)));
        removed.iter().for_each(|one| page.line(format_args!("  - {} {}", one.name, one.version)));
        for PackageFromTo { name: package, from, to } in changed {
            page.line(format_args!("    {package} {from} -> {to}"));
        }
        describe_indexes(&mut page, lock, now);
        if !is_dry {
            page.line(format_args!("wrote {}", files.join(", ")));
        }
    }
    page.into_text()
}

/// Adds the indexes of the packages, and how long builds can be expected to find the packages
/// there.
fn describe_indexes(page: &mut Page, change: &LockChange, now: &str) {
    for Index { suite, date, .. } in &change.indexes {
        page.line(format_args!("  index of {suite}: {date}"));
    }
    if let Some(lasts) = change.lasts(now) {
        page.line(format_args!("  {lasts}"));
    }
}
