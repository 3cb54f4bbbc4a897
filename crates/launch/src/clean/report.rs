//! The leftovers that `clean` found, and what happened to them.

use project::environment;
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, size};

/// The output of `clean --format json`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CleanReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// Whether this is a dry run, which removes nothing.
    pub dry_run: bool,
    /// The engines that answered.
    pub engines: Vec<String>,
    /// The engines that could not be reached.
    pub unanswered: Vec<Unanswered>,
    /// The engines that nobody requested and whose usual socket exists, but does not answer. They
    /// may contain leftovers.
    pub passed_over: Vec<Unanswered>,
    /// The leftovers that were found, those in engines first.
    pub found: Vec<Found>,
    /// The bytes that were removed, or would be in a dry run. Data that images share is counted for
    /// each image.
    pub bytes: u64,
    /// The size of docker's BuildKit cache in bytes. It has no labels, so none of it was removed.
    pub build_cache: u64,
}

impl CleanReport {
    /// Returns the report as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        for one in &self.unanswered {
            page.line(format_args!("cannot query {}: {}", one.engine, one.reason));
        }
        for one in &self.passed_over {
            let Unanswered { engine, reason } = one;
            page.line(format_args!("did not look into {engine}: {reason}"));
        }
        let headed = [
            (State::Removed, "removed"),
            (State::Found, "would be removed"),
            (State::UnderWay, "not touched, because its run is still in progress"),
            (State::LeftAlone, "left alone"),
            (State::Kept, "could not be removed"),
        ];
        for (state, heading) in headed {
            let mut found = self.found.iter().filter(|one| one.state == state).peekable();
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
        if self.build_cache > 0 {
            let command = prune(environment::program_in_path("docker").is_some());
            page.line(format_args!(
                "docker's BuildKit has a cache of {}, and does not record which program filled it; `{command}` removes it",
                size(self.build_cache),
            ));
        }
        let of = |state| self.found.iter().filter(|one| one.state == state).count();
        let (count, verb) = if self.dry_run {
            (of(State::Found), "would be removed")
        } else {
            (of(State::Removed), "removed")
        };
        let place = match self.engines.as_slice() {
            [] => "on disk".to_owned(),
            engines => format!("in {} and on disk", engines.join(", ")),
        };
        if count == 0 {
            page.line(format_args!("nothing to remove ({place})"));
        } else {
            // The engine reports the size of each image with the layers that it shares with others.
            let state = if self.dry_run { State::Found } else { State::Removed };
            let may_share = |one: &Found| one.kind == Kind::Image && one.state == state;
            let at_most = if self.found.iter().any(may_share) { "up to " } else { "" };
            let bytes = size(self.bytes);
            page.line(format_args!("{count} {verb}, {at_most}{bytes} ({place})"));
        }
        page
    }
}

/// Returns the command that removes BuildKit's cache. Debian 13 has docker's client in a package of
/// its own, so it can be missing.
fn prune(has_client: bool) -> &'static str {
    if has_client {
        "docker builder prune"
    } else {
        "curl --unix-socket /var/run/docker.sock --request POST http://localhost/build/prune"
    }
}

/// An engine that could not be reached.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unanswered {
    /// The engine.
    pub engine: String,
    /// The reason.
    pub reason: String,
}

/// A leftover of this tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    /// Its kind.
    pub kind: Kind,
    /// The engine that contains it; null if it is on disk.
    pub engine: Option<String>,
    /// Its ID in the engine, or its path.
    pub name: String,
    /// The run that it belongs to, if known.
    pub run: Option<String>,
    /// Its size in bytes, if known.
    pub bytes: Option<u64>,
    /// What happened to it.
    pub state: State,
    /// Why it was not removed.
    pub reason: Option<String>,
}

/// A kind of leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
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
    /// Returns its name for display.
    pub fn word(self) -> &'static str {
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
pub enum State {
    /// It would be removed.
    Found,
    /// It was removed.
    Removed,
    /// Its run, or another run that may use it, is still in progress.
    UnderWay,
    /// It does not belong to this tool alone, for example a link that the user made.
    LeftAlone,
    /// It could not be removed.
    Kept,
}
