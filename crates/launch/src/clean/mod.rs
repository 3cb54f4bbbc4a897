//! Cleans up after interrupted runs, in engines and on disk.
//!
//! Start at [`clean`]. `leftovers` checks every available engine, and `disk` checks this tool's own
//! folders. Neither touches anything that belongs to a running process, another program or another
//! user.

mod disk;
mod leftovers;
mod report;
mod task;

use failure::Failure;
use names::EngineKind;
use project::{environment, state};

pub use self::report::{CleanReport, Found, Kind, State, Unanswered};
use self::task::Task;

/// What to clean.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Whether to check engines.
    pub in_engines: bool,
    /// The only engine to clean; if `None`, all available engines.
    pub engine: Option<EngineKind>,
    /// Whether this is a dry run, which removes nothing.
    pub is_dry: bool,
    /// Whether to remove cached data too.
    pub takes_cache: bool,
}

/// Finds leftovers, removes them, and returns the result. `warn` receives the name and the message
/// of a warning about each file that is not a record.
///
/// # Errors
/// There is no home directory, or the records cannot be read. An engine that does not answer is not
/// an error; the report lists it.
pub fn clean(asked: &Asked, warn: impl Fn(&str, &str)) -> Result<CleanReport, Failure> {
    let mut task = Task {
        wanted: asked.engine,
        is_dry: asked.is_dry,
        takes_cache: asked.takes_cache,
        is_busy: false,
        cache: environment::cache_folder(),
        state: environment::state_folder()?,
        sockets: environment::socket_folder()?,
    };
    let mut report = CleanReport { schema: 1, dry_run: asked.is_dry, ..CleanReport::default() };
    // List the disk before reading the records: then the list contains no files of runs that start
    // later.
    let listed = disk::list(&task);
    task.is_busy = state::read_records(warn)?.iter().any(state::is_under_way);
    project::runtime::start()?.block_on(async {
        disk::sweep(&task).await;
        if asked.in_engines {
            leftovers::clean(&task, &mut report).await;
        }
    });
    disk::clean(&task, listed, &mut report.found);
    let counted = |one: &&Found| matches!(one.state, State::Removed | State::Found);
    report.bytes = report.found.iter().filter(counted).filter_map(|one| one.bytes).sum();
    Ok(report)
}
