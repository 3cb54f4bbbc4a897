//! `build-pipeline clean`: what runs that were broken off left behind, in engines and on disk.
//!
//! Start at [`run`]. [`leftovers`] asks every engine that is there, [`disk`] looks into our own
//! folders. What is of a run whose process lives is left alone, and so is all that is not ours.

mod disk;
mod leftovers;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use engine::ServiceSettings;
use names::EngineKind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::Format;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::output::{self, Page};
use crate::reporter::size;
use crate::{engines, environment, state};

/// Remove what runs that were broken off left behind, in engines and on disk
#[derive(Debug, Args)]
#[command(
    after_help = "Only what has our label and no name of yours, or lies in our own folders, is touched; runs that are under way are left alone. Ends with 0 also where nothing was left, and with 1 where something could not be removed."
)]
pub(crate) struct Clean {
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove cached blobs, sources and finished steps too; they are fetched and made again
    #[arg(long)]
    cache: bool,
    /// Ask this engine only [default: every engine that is there]
    #[arg(long, value_parser = only())]
    engine: Option<Only>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is asked for what runs have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Engine(EngineKind),
    /// No engine: the disk alone is looked at.
    None,
}

/// Returns the parser of `--engine`.
fn only() -> impl TypedValueParser<Value = Only> {
    let kinds = EngineKind::ALL.map(|kind| PossibleValue::new(kind.as_str()).help(kind.as_str()));
    let none = PossibleValue::new("none").help("No engine: look at the disk only");
    PossibleValuesParser::new(kinds.into_iter().chain([none]))
        .map(|text| text.parse().map_or(Only::None, Only::Engine))
}

/// What `clean --format json` prints.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CleanReport {
    /// The number of this JSON form.
    schema: u32,
    /// Whether nothing was to be removed.
    dry_run: bool,
    /// The engines that answered.
    engines: Vec<String>,
    /// The engines that are there and could not be asked.
    unanswered: Vec<Unanswered>,
    /// What was found, in engines first.
    found: Vec<Found>,
    /// The bytes of what was removed, or in a dry run would be. Images count what they share.
    bytes: u64,
    /// The bytes of docker's BuildKit cache. It has no labels, so nothing of it was removed.
    build_cache: u64,
}

/// An engine that could not be asked.
#[derive(Debug, Serialize, JsonSchema)]
struct Unanswered {
    /// Which.
    engine: String,
    /// Why.
    reason: String,
}

/// Something of ours.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// What it is.
    kind: Kind,
    /// The engine it is in; none for what lies on disk.
    engine: Option<String>,
    /// Its ID in the engine, or its path.
    name: String,
    /// The run it is of, where it says so.
    run: Option<String>,
    /// Its bytes, where they are known.
    bytes: Option<u64>,
    /// What became of it.
    state: State,
    /// Why it was not removed.
    reason: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// A container.
    Container,
    /// A container that podman built in.
    BuildContainer,
    /// An image, or a layer that a build may take up again.
    Image,
    /// A folder or socket of a podman service.
    Service,
    /// A file or folder of work that was broken off.
    Temporary,
    /// A folder of what can be fetched or made again.
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

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It would be removed.
    Found,
    /// It was removed.
    Removed,
    /// It is of a run that is under way.
    UnderWay,
    /// It could not be removed.
    Kept,
}

/// What the run is asked to do, and where.
#[derive(Debug)]
struct Task {
    /// The one engine that is asked.
    wanted: Option<EngineKind>,
    is_dry: bool,
    takes_cache: bool,
    /// Whether a run is under way.
    is_busy: bool,
    /// The folder of all that can be fetched or made again, where there is a home.
    cache: Option<PathBuf>,
    /// The folder of records and locks.
    state: PathBuf,
    /// The folder of podman's sockets.
    sockets: PathBuf,
}

impl Task {
    /// Returns the folder for what is under way.
    fn work(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("store/work"))
    }

    /// Returns how builds start a podman service.
    fn service(&self, program: &Path) -> Option<ServiceSettings> {
        let store = self.cache.as_ref()?.join("store");
        Some(engines::service(program.to_owned(), self.sockets.clone(), &store))
    }
}

/// Looks for what is left, removes it, and says what it was.
pub(crate) fn run(args: &Clean) -> Result<(), CommandError> {
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
    // Before the runs: what a run makes that begins after this is not in the list.
    let listed = disk::list(&task);
    task.is_busy = state::read_records()?.iter().any(state::is_under_way);
    crate::runtime()?.block_on(async {
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
        true => Err(CommandError::told(ExitCode::Failed)),
        false => Ok(()),
    }
}

fn page(report: &CleanReport) -> String {
    let mut page = Page::default();
    for one in &report.unanswered {
        page.line(format_args!("{} could not be asked: {}", one.engine, one.reason));
    }
    let headed = [
        (State::Removed, "removed"),
        (State::Found, "would be removed"),
        (State::UnderWay, "left alone, because its run is under way"),
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
            "docker's BuildKit has a cache of {}, and cannot tell whose it is; `docker builder prune` \
             removes it",
            size(report.build_cache),
        ));
    }
    let of = |state| report.found.iter().filter(|one| one.state == state).count();
    let (count, verb) = match report.dry_run {
        true => (of(State::Found), "would be removed"),
        false => (of(State::Removed), "removed"),
    };
    let place = match report.engines.as_slice() {
        [] => "in no engine".to_owned(),
        engines => format!("in {}", engines.join(", ")),
    };
    if count == 0 {
        page.line(format_args!("nothing to remove ({place} and on disk)"));
    } else {
        let bytes = size(report.bytes);
        page.line(format_args!("{count} {verb}, {bytes} ({place} and on disk)"));
    }
    page.into_text()
}
