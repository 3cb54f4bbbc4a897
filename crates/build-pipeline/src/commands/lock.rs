//! `build-pipeline lock`: looks up Debian and Python packages again, and writes them with their
//! hashes below `versions/locks`.

use failure::Failure;
use project::Project;
use project::clock::now;
use project::python_locks::refuse_stale;
use upkeep::lock::{Asked, LockReport, Locks, choose, look_up, write};

use crate::cli::{Format, Global, Lock};
use crate::global;
use terminal::output;

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
        Format::Text => output::page(&report.page(args.dry_run, &now()?)),
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
