//! `build-pipeline clean`: cleans up after interrupted runs, in engines and on disk.
//!
//! Start at [`run`]. [`leftovers`] checks every available engine, and [`disk`] this tool's own
//! folders. It does not touch anything that belongs to a running process or to others.

mod disk;
mod leftovers;

use std::path::{Path, PathBuf};

use engine::ServiceSettings;
use failure::{Failure, Kind as FailureKind};
use names::EngineKind;
use project::{environment, state};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Clean, Format, Only};
use crate::engines;
use crate::output::{self, Page};
use crate::reporter::size;

/// The output of `clean --format json`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CleanReport {
    /// The version of this JSON format.
    schema: u32,
    /// Whether this is a dry run, which removes nothing.
    dry_run: bool,
    /// The engines that answered.
    engines: Vec<String>,
    /// The engines that could not be asked.
    unanswered: Vec<Unanswered>,
    /// The leftovers that were found, those in engines first.
    found: Vec<Found>,
    /// The bytes that were removed, or would be in a dry run. Data that images share is counted for
    /// each image.
    bytes: u64,
    /// The size of docker's BuildKit cache in bytes. It has no labels, so nothing of it was
    /// removed.
    build_cache: u64,
}

/// An engine that could not be asked.
#[derive(Debug, Serialize, JsonSchema)]
struct Unanswered {
    /// The engine.
    engine: String,
    /// The reason.
    reason: String,
}

/// A leftover of this tool.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// Its kind.
    kind: Kind,
    /// The engine that contains it; null if it is on disk.
    engine: Option<String>,
    /// Its ID in the engine, or its path.
    name: String,
    /// The run that it belongs to, if known.
    run: Option<String>,
    /// Its size in bytes, if known.
    bytes: Option<u64>,
    /// What happened to it.
    state: State,
    /// Why it was not removed.
    reason: Option<String>,
}

/// A kind of leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// A container.
    Container,
    /// A build container of podman.
    BuildContainer,
    /// An image, or a layer that a build may reuse.
    Image,
    /// A folder or socket of a podman service.
    Service,
    /// A temporary file or folder of an interrupted run.
    Temporary,
    /// A cache folder, whose content can be fetched or built again.
    Cache,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::BuildContainer => "build container",
            Self::Image => "image",
            Self::Service => "service",
            Self::Temporary => "temporary",
            Self::Cache => "cache",
        }
    }
}

/// What happened to a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It would be removed.
    Found,
    /// It was removed.
    Removed,
    /// Its run is still in progress.
    UnderWay,
    /// It could not be removed.
    Kept,
}

/// The task of this command.
#[derive(Debug)]
struct Task {
    /// The only engine to check, if one was given.
    wanted: Option<EngineKind>,
    is_dry: bool,
    takes_cache: bool,
    /// Whether another run is in progress.
    is_busy: bool,
    /// The cache folder, if there is a home directory.
    cache: Option<PathBuf>,
    /// The folder of records and locks.
    state: PathBuf,
    /// The folder of podman's sockets.
    sockets: PathBuf,
}

impl Task {
    /// Returns the folder for work in progress.
    fn work(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("store/work"))
    }

    /// Returns the settings with which builds start a podman service.
    fn service(&self, program: &Path) -> Option<ServiceSettings> {
        let store = self.cache.as_ref()?.join("store");
        Some(engines::service(program.to_owned(), self.sockets.clone(), &store))
    }
}

/// Finds leftovers, removes them, and reports the result.
pub(crate) fn run(args: &Clean) -> Result<(), Failure> {
    let wanted = match args.engine {
        Some(Only::Engine(kind)) => Some(kind),
        Some(Only::None) | None => None,
    };
    let mut task = Task {
        wanted,
        is_dry: args.dry_run,
        takes_cache: args.cache,
        is_busy: false,
        cache: environment::cache_folder(),
        state: environment::state_folder()?,
        sockets: environment::socket_folder()?,
    };
    let mut report = CleanReport { schema: 1, dry_run: args.dry_run, ..CleanReport::default() };
    // List the disk before reading the records: then the list contains nothing of runs that start
    // later.
    let listed = disk::list(&task);
    task.is_busy = state::read_records(output::warn)?.iter().any(state::is_under_way);
    project::runtime::start()?.block_on(async {
        disk::sweep(&task).await;
        if args.engine != Some(Only::None) {
            leftovers::clean(&task, &mut report).await;
        }
    });
    disk::clean(&task, listed, &mut report.found);
    let counted = |one: &&Found| matches!(one.state, State::Removed | State::Found);
    report.bytes = report.found.iter().filter(counted).filter_map(|one| one.bytes).sum();
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::sanitised_result(&page(&report))?,
    }
    match report.found.iter().any(|one| one.state == State::Kept) || !report.unanswered.is_empty() {
        true => Err(Failure::told(FailureKind::Failed)),
        false => Ok(()),
    }
}

fn page(report: &CleanReport) -> String {
    let mut page = Page::default();
    for one in &report.unanswered {
        page.line(format_args!("cannot ask {}: {}", one.engine, one.reason));
    }
    let headed = [
        (State::Removed, "removed"),
        (State::Found, "would be removed"),
        (State::UnderWay, "not touched, because its run is still in progress"),
        (State::Kept, "could not be removed"),
    ];
    for (state, heading) in headed {
        let mut found = report.found.iter().filter(|one| one.state == state).peekable();
        if found.peek().is_some() {
            page.line(format_args!("{heading}:"));
        }
        for one in found {
            let engine = one.engine.as_deref().map(|name| format!("{name}: "));
            let run = one.run.as_deref().map(|run| format!(", of {run}"));
            let bytes = one.bytes.map(|bytes| format!(", {}", size(bytes)));
            page.line(format_args!(
                "  {}{} {}{}{}",
                engine.unwrap_or_default(),
                one.kind.word(),
                one.name,
                run.unwrap_or_default(),
                bytes.unwrap_or_default(),
            ));
            if let Some(reason) = &one.reason {
                page.line(format_args!("    {reason}"));
            }
        }
    }
    if report.build_cache > 0 {
        page.line(format_args!(
            "docker's BuildKit has a cache of {}, which does not show who filled it; `docker builder prune` removes it",
            size(report.build_cache),
        ));
    }
    let of = |state| report.found.iter().filter(|one| one.state == state).count();
    let (count, verb) = match report.dry_run {
        true => (of(State::Found), "would be removed"),
        false => (of(State::Removed), "removed"),
    };
    let place = match report.engines.as_slice() {
        [] => "on disk".to_owned(),
        engines => format!("in {} and on disk", engines.join(", ")),
    };
    if count == 0 {
        page.line(format_args!("nothing to remove ({place})"));
    } else {
        let bytes = size(report.bytes);
        page.line(format_args!("{count} {verb}, {bytes} ({place})"));
    }
    page.into_text()
}
