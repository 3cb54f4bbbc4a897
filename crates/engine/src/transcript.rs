//! Reads a build's output: steps, lines, the image's ID, and errors.

use std::collections::{BTreeMap, VecDeque};

use crate::build::RUN_ARGUMENT;
use crate::dialect::Dialect;
use crate::dockerfile::{self, Instruction};
use crate::error::{EngineError, RunFailure, is_content_gone, is_disk_full, without_structures};
use crate::lines::{Line, LineAssembler};

/// The maximum number of output lines in the error of a failed `RUN`.
const LOG_LINES: usize = 40;

/// How podman and docker warn about arguments that a Dockerfile does not use.
const UNUSED: [(&str, &str); 2] = [
    ("[Warning] one or more build args were not consumed: [", "]"),
    ("[Warning] One or more build-args [", "] were not consumed"),
];

/// The arguments that every Dockerfile gets, whether it uses them or not.
const OWN_ARGUMENTS: [&str; 3] = [RUN_ARGUMENT, "GPU_TARGET", "SOURCE_DATE_EPOCH"];

/// The end of the names of arguments with the versions of sources.
const VERSION: &str = "_VERSION";

/// An event of a running build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEvent {
    /// The engine starts an instruction.
    Step(StepMarker),
    /// A line of output, from the current instruction or from the engine itself.
    Line(Line),
}

/// An instruction that the engine starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMarker {
    /// Its number, counted from 1 by the engine. podman and BuildKit count within a stage.
    pub number: u32,
    /// The number of instructions, counted in the same way.
    pub total: u32,
    /// The instruction, as the engine writes it.
    pub instruction: String,
    /// The line of the Dockerfile on which it starts, counted from 1, if it was found.
    pub line: Option<usize>,
}

/// A piece of an engine's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text from podman or docker's classic builder.
    Text(String),
    /// A vertex of BuildKit has started or failed. If it has failed, `error` contains the reason.
    Vertex { digest: String, name: String, error: String },
    /// Output of a BuildKit vertex.
    Output { vertex: String, bytes: Vec<u8> },
    /// The image's ID, in a separate record.
    Image(String),
    /// The build has failed.
    Error(String),
}

/// The state of the reader.
pub(crate) struct Transcript {
    dialect: &'static dyn Dialect,
    instructions: Vec<Instruction>,
    /// The index in `instructions` after the last step that was found.
    next: usize,
    step: Option<StepMarker>,
    lines: LineAssembler,
    /// BuildKit's vertices, by their digests.
    vertices: BTreeMap<String, Vertex>,
    tail: VecDeque<String>,
    image: Option<String>,
    error: Option<String>,
}

/// A BuildKit vertex.
#[derive(Default)]
struct Vertex {
    /// The instruction, or `None` for BuildKit's internal work.
    step: Option<StepMarker>,
    /// Output that does not end with a line break yet.
    lines: LineAssembler,
    /// The error message, or empty.
    error: String,
}

impl Transcript {
    pub(crate) fn new(dialect: &'static dyn Dialect, dockerfile: &str) -> Self {
        Self {
            dialect,
            instructions: dockerfile::instructions(dockerfile),
            next: 0,
            step: None,
            lines: LineAssembler::default(),
            vertices: BTreeMap::new(),
            tail: VecDeque::new(),
            image: None,
            error: None,
        }
    }

    /// Reads a piece, and emits the events that it completes.
    pub(crate) fn read(&mut self, piece: Piece, emit: &mut (dyn FnMut(BuildEvent) + Send)) {
        match piece {
            Piece::Text(text) => self.text(&text, emit),
            Piece::Vertex { digest, name, error } => self.vertex(digest, &name, error, emit),
            Piece::Output { vertex, bytes } => {
                let mut done = Vec::new();
                let vertex = self.vertices.entry(vertex).or_default();
                vertex.lines.push(&bytes, &mut |line| done.push(line));
                done.into_iter().for_each(|line| self.line(line, emit));
            }
            Piece::Image(id) => self.image = Some(id),
            // The first error is the cause, and later ones are its consequences.
            Piece::Error(text) => {
                self.error.get_or_insert(text);
            }
        }
    }

    /// Reads a report about a vertex. BuildKit sends several for each vertex.
    fn vertex(
        &mut self,
        digest: String,
        name: &str,
        error: String,
        emit: &mut (dyn FnMut(BuildEvent) + Send),
    ) {
        let is_new = self.vertices.get(&digest).is_none_or(|known| known.step.is_none());
        let step = if is_new {
            buildkit_marker(name).map(|marker| self.begin(marker, emit))
        } else {
            None
        };
        let vertex = self.vertices.entry(digest).or_default();
        vertex.step = vertex.step.take().or(step);
        vertex.error = error;
    }

    fn text(&mut self, text: &str, emit: &mut (dyn FnMut(BuildEvent) + Send)) {
        let mut done = Vec::new();
        if let Some(marker) = self.dialect.marker(text) {
            self.lines.finish(&mut |line| done.push(line));
            done.into_iter().for_each(|line| self.line(line, emit));
            self.begin(marker, emit);
            return;
        }
        let text = self.dialect.uncoloured(text);
        if self.dialect.ends_with_id() {
            // The ID is the last line of the output, so any later line invalidates it.
            self.image = bare_id(text);
        }
        self.lines.push(text.as_bytes(), &mut |line| done.push(line));
        done.into_iter().for_each(|line| self.line(line, emit));
    }

    /// Starts a step, and returns it with its line.
    fn begin(
        &mut self,
        mut marker: StepMarker,
        emit: &mut (dyn FnMut(BuildEvent) + Send),
    ) -> StepMarker {
        if let Some(place) = dockerfile::locate(&self.instructions, &marker.instruction, self.next)
        {
            marker.line = Some(self.instructions[place].line);
            self.next = place + 1;
        }
        self.tail.clear();
        self.step = Some(marker.clone());
        emit(BuildEvent::Step(marker.clone()));
        marker
    }

    fn line(&mut self, line: Line, emit: &mut (dyn FnMut(BuildEvent) + Send)) {
        let Some(line) = without_own_arguments(line) else { return };
        // Reuses the memory of the oldest line: this runs for each line of logs that may be
        // gigabytes long.
        let oldest = if self.tail.len() == LOG_LINES { self.tail.pop_front() } else { None };
        let mut kept = oldest.unwrap_or_default();
        kept.clear();
        kept.push_str(&line.text);
        self.tail.push_back(kept);
        emit(BuildEvent::Line(line));
    }

    /// Returns the ID that the stream named, or the error.
    pub(crate) fn finish(
        mut self,
        emit: &mut (dyn FnMut(BuildEvent) + Send),
    ) -> Result<String, EngineError> {
        let mut done = Vec::new();
        self.lines.finish(&mut |line| done.push(line));
        for vertex in self.vertices.values_mut() {
            vertex.lines.finish(&mut |line| done.push(line));
        }
        done.into_iter().for_each(|line| self.line(line, emit));
        match (self.error.take(), self.image.take()) {
            (Some(error), _) => {
                // BuildKit works on several vertices at once, so the last vertex that started is
                // not necessarily the failed one.
                let is_cause = |vertex: &&Vertex| {
                    !vertex.error.is_empty()
                        && vertex.step.is_some()
                        && error.contains(&vertex.error)
                };
                if let Some(vertex) = self.vertices.values().find(is_cause) {
                    self.step.clone_from(&vertex.step);
                }
                Err(self.judge(error.trim()))
            }
            (None, Some(image)) => Ok(image),
            (None, None) => Err(EngineError::NoImageId),
        }
    }

    /// Turns the error message of a failed build into an [`EngineError`].
    pub(crate) fn judge(&self, detail: &str) -> EngineError {
        let detail = without_structures(detail);
        let owned = detail.to_owned();
        if is_disk_full(detail) {
            return EngineError::DiskFull { action: "build the image".to_owned(), detail: owned };
        }
        if is_content_gone(detail) {
            return EngineError::CacheGone { detail: owned };
        }
        let said = |words: &[&str]| words.iter().any(|word| detail.contains(word));
        // podman's own line, and the part of runc's output that BuildKit passes on.
        let said_first = ["error running container", "runc run failed: "];
        let is_runtime = |line: &&String| said_first.iter().any(|words| line.starts_with(words));
        let runtime = self.tail.iter().find(is_runtime);
        let words = runtime.map_or(detail, String::as_str);
        let cannot_run = runtime.is_some() || said(&RUNTIME_WORDS);
        // The runtime works, but the program that the instruction runs does not exist.
        let no_program = words.contains("exec: \"")
            || words.contains("exec: \\\"")
            || words.contains("executable file not found");
        if cannot_run && !no_program {
            return EngineError::Runtime { detail: words.to_owned() };
        }
        let status = if cannot_run { Some(127) } else { exit_status(detail) };
        if let Some(status) = status {
            let step = self.step.as_ref();
            return EngineError::Run(Box::new(RunFailure {
                status,
                instruction: step.map_or_else(|| owned.clone(), |step| step.instruction.clone()),
                line: step.and_then(|step| step.line),
                log: self.tail.iter().cloned().collect(),
            }));
        }
        let step = self.step.as_ref();
        let from =
            step.map(|step| step.instruction.as_str()).filter(|text| text.starts_with("FROM "));
        let unresolved =
            said(&["failed to create LLB definition"]) && detail.ends_with("not found");
        if from.is_none() && step.is_some() && is_cache_gone(detail) {
            return EngineError::CacheGone { detail: owned };
        }
        // Instructions that copy from another image or from the network say the same.
        let copies = step.is_some_and(|step| {
            let word = step.instruction.split_whitespace().next().unwrap_or_default();
            word.eq_ignore_ascii_case("COPY") || word.eq_ignore_ascii_case("ADD")
        });
        if !copies && (said(&BASE_WORDS) || unresolved) || from.is_some() {
            return EngineError::BaseMissing {
                detail: match from {
                    Some(from) => format!("{from}: {owned}"),
                    None => owned,
                },
            };
        }
        EngineError::Dockerfile { detail: owned, line: step.and_then(|step| step.line) }
    }
}

/// Error messages of engines that cannot start a container at all.
const RUNTIME_WORDS: [&str; 3] =
    ["OCI runtime create failed", "OCI runtime error", "could not find runtime"];

/// Returns whether an error message reports that an image or layer is missing from the engine's
/// cache. Such messages name a layer, or an image by its bare ID, which no Dockerfile does.
fn is_cache_gone(detail: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    let mut ids = detail.match_indices("sha256:");
    let has_id = ids.any(|(at, _)| !detail[..at].ends_with('@'));
    has(&["layer does not exist", "layer not known", "unknown parent image ID", "image with ID"])
        || (has_id && has(&["o such ", "not found", "not exist"]))
}

/// Error messages of engines for a missing base image.
const BASE_WORDS: [&str; 9] = [
    "failed to do request",
    "manifest unknown",
    "pull access denied",
    "No such image",
    "image not known",
    "initializing source",
    "repository does not exist",
    "failed to resolve source metadata",
    "does not resolve to an image ID",
];

/// Returns the exit status of a failed command, from the error messages of the engines.
fn exit_status(detail: &str) -> Option<i64> {
    ["exit status ", "returned a non-zero code: ", "exit code: "].iter().find_map(|words| {
        let (_, rest) = detail.rsplit_once(words)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// Parses `STEP 2/3: RUN true`, with `[1/2] ` in front if there are several stages.
pub(crate) fn podman_marker(text: &str) -> Option<StepMarker> {
    let rest = match text.strip_prefix('[') {
        Some(stages) => {
            let (numbers, rest) = stages.split_once("] ")?;
            fraction(numbers)?;
            rest
        }
        None => text,
    };
    let (numbers, instruction) = rest.strip_prefix("STEP ")?.split_once(": ")?;
    marker(numbers, instruction)
}

/// Parses `Step 2/3 : RUN true`.
pub(crate) fn classic_marker(text: &str) -> Option<StepMarker> {
    let (numbers, instruction) = text.strip_prefix("Step ")?.split_once(" : ")?;
    marker(numbers, instruction)
}

/// Parses `[stage-0 2/3] RUN true` or `[2/3] RUN true`. Other names are BuildKit's internal work.
fn buildkit_marker(name: &str) -> Option<StepMarker> {
    let (head, instruction) = name.strip_prefix('[')?.split_once("] ")?;
    marker(head.rsplit(' ').next()?, instruction)
}

fn marker(numbers: &str, instruction: &str) -> Option<StepMarker> {
    let (number, total) = fraction(numbers)?;
    let instruction = instruction.trim_end().to_owned();
    Some(StepMarker { number, total, instruction, line: None })
}

fn fraction(text: &str) -> Option<(u32, u32)> {
    let (number, total) = text.split_once('/')?;
    Some((number.trim().parse().ok()?, total.trim().parse().ok()?))
}

/// Returns the ID of an image without `sha256:`, if the text is nothing else.
fn bare_id(text: &str) -> Option<String> {
    let text = text.trim_end();
    let is_hex_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 64 && text.bytes().all(is_hex_digit)).then(|| text.to_owned())
}

/// Removes this tool's own arguments from a warning about unused ones. Returns `None` if no others
/// are left.
fn without_own_arguments(line: Line) -> Option<Line> {
    let named = |(begin, end): &(&'static str, &'static str)| {
        let names = line.text.trim_end().strip_prefix(begin)?.strip_suffix(end)?;
        Some((*begin, names, *end))
    };
    let Some((begin, names, end)) = UNUSED.iter().find_map(named) else { return Some(line) };
    let is_own = |name: &&str| OWN_ARGUMENTS.contains(name) || name.ends_with(VERSION);
    let others: Vec<&str> = names.split_whitespace().filter(|name| !is_own(name)).collect();
    let text = format!("{begin}{}{end}", others.join(" "));
    (!others.is_empty()).then_some(Line { text, ..line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_own_arguments_are_reported_as_unused() {
        for (said, shown) in [
            ("a line", Some("a line")),
            ("[Warning] one or more build args were not consumed: [BUILD_PIPELINE_RUN]", None),
            (
                "[Warning] one or more build args were not consumed: [BUILD_PIPELINE_RUN GPU_TARGET LLAMA_CPP_VERSION SOURCE_DATE_EPOCH]",
                None,
            ),
            (
                "[Warning] one or more build args were not consumed: [BUILD_PIPELINE_RUN JOBS]",
                Some("[Warning] one or more build args were not consumed: [JOBS]"),
            ),
            ("[Warning] One or more build-args [GPU_TARGET] were not consumed", None),
            (
                "[Warning] One or more build-args [A GPU_TARGET B] were not consumed\n",
                Some("[Warning] One or more build-args [A B] were not consumed"),
            ),
        ] {
            let line = Line { text: said.to_owned(), dropped: 0 };
            assert_eq!(without_own_arguments(line).map(|line| line.text).as_deref(), shown);
        }
    }
    use crate::DockerBuilder::{BuildKit, Classic};
    use crate::podman::Libpod;

    fn transcript(
        dialect: &'static dyn Dialect,
        pieces: Vec<Piece>,
    ) -> (Vec<BuildEvent>, Result<String, EngineError>) {
        let mut transcript = Transcript::new(dialect, "FROM a\nRUN x\n\nRUN y\n");
        let mut events = Vec::new();
        for piece in pieces {
            transcript.read(piece, &mut |event| events.push(event));
        }
        let end = transcript.finish(&mut |event| events.push(event));
        (events, end)
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn vertex(digest: &str, name: &str, error: &str) -> Piece {
        Piece::Vertex { digest: digest.into(), name: name.into(), error: error.into() }
    }

    #[test]
    fn an_error_belongs_to_the_vertex_that_failed() {
        let gone = "failed to compute cache key: \"/x\" not found: not found";
        let failed = vertex("copy", "[2/2] RUN x", gone);
        let from = || vertex("from", "[1/2] FROM a", "");
        // In both orders, and with a second report of the base's vertex in between: BuildKit reports a
        // vertex again when it ends.
        for pieces in [
            vec![from(), failed.clone(), Piece::Error(gone.into())],
            vec![failed.clone(), from(), Piece::Error(format!("failed to solve: {gone}"))],
            vec![from(), failed.clone(), from(), Piece::Error(gone.into())],
            vec![
                vertex("from", "[1/2] FROM a", "context canceled"),
                failed,
                Piece::Error(gone.into()),
            ],
        ] {
            let (events, end) = transcript(&BuildKit, pieces);
            assert_eq!(events.len(), 2, "{events:?}");
            let is_at_2 = matches!(end, Err(EngineError::Dockerfile { line: Some(2), .. }));
            assert!(is_at_2, "{end:?}");
        }
        // containerd may lose a snapshot while a base is unpacked, or after the last instruction.
        let lost = "failed to prepare 3cx: parent snapshot does not exist: not found";
        for at in [Some("[1/2] FROM a"), Some("exporting to image"), None] {
            let named = at.map(|name| vertex("x", name, lost)).into_iter();
            let (_, end) =
                transcript(&BuildKit, named.chain([Piece::Error(lost.into())]).collect());
            assert!(matches!(end, Err(EngineError::CacheGone { .. })), "{at:?}: {end:?}");
        }
        let missing = "failed to solve: a: not found";
        let pieces = vec![vertex("from", "[1/2] FROM a", missing), Piece::Error(missing.into())];
        let (_, end) = transcript(&BuildKit, pieces);
        assert!(matches!(end, Err(EngineError::BaseMissing { .. })), "{end:?}");
    }

    #[test]
    fn steps_are_found_in_all_builders() {
        for (dialect, piece) in [
            (&Libpod as &dyn Dialect, text("STEP 3/3: RUN y\n")),
            (&Libpod, text("[1/2] STEP 3/3: RUN y\n")),
            (&Classic, text("Step 3/3 : RUN y")),
            (&BuildKit, vertex("d", "[3/3] RUN y", "")),
            (&BuildKit, vertex("d", "[stage-1 3/3] RUN y", "")),
        ] {
            let (events, _) = transcript(dialect, vec![piece]);
            let instruction = "RUN y".to_owned();
            let marker = StepMarker { number: 3, total: 3, instruction, line: Some(4) };
            assert_eq!(events, [BuildEvent::Step(marker)]);
        }
    }

    #[test]
    fn an_open_line_ends_where_a_step_begins() {
        let (events, _) = transcript(&Libpod, vec![text("no end"), text("STEP 2/3: RUN x\n")]);
        assert_eq!(events.len(), 2);
        let line = Line { text: "no end".to_owned(), dropped: 0 };
        assert_eq!(events[0], BuildEvent::Line(line));
    }

    #[test]
    fn only_the_last_word_of_podman_is_an_id() {
        let id = "a".repeat(64);
        let said = || text(&format!("{id}\n"));
        assert_eq!(transcript(&Libpod, vec![said()]).1.unwrap(), id);
        let (_, end) = transcript(&Libpod, vec![said(), text("more\n")]);
        assert!(matches!(end, Err(EngineError::NoImageId)));
        let (_, end) = transcript(&Classic, vec![said()]);
        assert!(matches!(end, Err(EngineError::NoImageId)));
        let (_, end) = transcript(&Libpod, vec![said(), Piece::Error("late".into())]);
        assert!(matches!(end, Err(EngineError::Dockerfile { .. })));
    }

    #[test]
    fn failures_are_told_apart() {
        let end = |detail: &str| {
            let pieces =
                vec![text("STEP 2/3: RUN x\n"), text("said\n"), Piece::Error(detail.to_owned())];
            transcript(&Libpod, pieces).1.unwrap_err()
        };
        for detail in [
            "building at STEP \"RUN x\": while running runtime: exit status 7",
            "The command '/bin/sh -c x' returned a non-zero code: 7",
            "executor failed running [/bin/sh -c x]: exit code: 7",
            "process \"/bin/sh -c x\" did not complete successfully: exit code: 7",
        ] {
            let EngineError::Run(failure) = end(detail) else { panic!("{detail}") };
            assert_eq!((failure.status, failure.line), (7, Some(2)));
            assert_eq!(failure.instruction, "RUN x");
            assert_eq!(failure.log, ["said"]);
        }
        for full in [
            "committing container: write /x: no space left on device",
            // This is all that podman reports if its temporary files cannot be written.
            "failed Request: Unable to copy tar file from request body /libpod/build?q=1",
            "copying layers and metadata for container \"55f4\": initializing source containers-storage:742c-working-container: storing layer \"4677\" to file: io: read/write on closed pipe",
        ] {
            assert!(matches!(end(full), EngineError::DiskFull { .. }), "{full}");
        }
        assert!(matches!(
            end("pull access denied for x, repository does not exist"),
            EngineError::BaseMissing { .. }
        ));
        for gone in [
            "No such image: sha256:b288d79eb658",
            "unknown parent image ID sha256:b288d79eb658",
            "failed to get digest sha256:4f09: open /var/lib/docker/image/overlay2/imagedb/content/sha256/4f09: no such file or directory",
            "failed to get layer sha256:4f09: layer does not exist",
            "failed to commit vwhf to h3fr during finalize: failed to stat active key during commit: snapshot vwhf does not exist: not found",
            "failed to prepare extraction snapshot \"extract-8586-gZrz sha256:e088\": parent snapshot sha256:229f does not exist: not found",
            "failed to create lease: lease \"3cx\": not found",
        ] {
            assert!(matches!(end(gone), EngineError::CacheGone { .. }), "{gone}");
        }
        for copying in ["COPY --from=docker.io/library/alpine /a /", "add https://a.test/x /"] {
            let pieces = vec![
                text(&format!("STEP 2/3: {copying}\n")),
                Piece::Error("failed to do request: Head: dial tcp: lookup a.test".to_owned()),
            ];
            let end = transcript(&Libpod, pieces).1;
            assert!(matches!(end, Err(EngineError::Dockerfile { .. })), "{copying}: {end:?}");
        }
        let named = "No such image: docker.io/library/alpine@sha256:b288";
        assert!(matches!(end(named), EngineError::BaseMissing { .. }));
        assert!(matches!(
            end("Build error: Unknown instruction: \"RUNN\""),
            EngineError::Dockerfile { line: Some(2), .. }
        ));
        assert!(matches!(
            end("OCI runtime create failed: runc: x: exit status 1"),
            EngineError::Runtime { .. }
        ));
    }

    #[test]
    fn the_paint_of_the_classic_builder_comes_off() {
        let (events, _) = transcript(&Classic, vec![text("\x1b[91mred\n\x1b[0m")]);
        assert_eq!(events, [BuildEvent::Line(Line { text: "red".to_owned(), dropped: 0 })]);
    }
}
