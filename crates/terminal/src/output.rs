//! The only module that prints: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use failure::{Failure, Kind, Message};
use launch::Notice;
use text::sanitise::{sanitise, sanitise_in_place, sanitise_json, sanitise_line};
use text::{Page, Tone, counted};

use crate::exit_code::code_of;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();

/// Whether messages are JSON, one object per line.
static TALKS_JSON: AtomicBool = AtomicBool::new(false);

/// When something was last printed.
static PRINTED: Mutex<Option<Instant>> = Mutex::new(None);

/// Whether progress and notes are suppressed.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// A message that is not a build event, as a line of `--progress json`.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Talk {
    /// A warning.
    Warning {
        /// The rule's name.
        rule: String,
        /// The finding and its consequence.
        message: String,
    },
    /// A source is being fetched, or a layer or package is being processed.
    Fetching {
        /// What is happening, such as the source and where it comes from.
        message: String,
    },
    /// The run waits for another run.
    Waiting {
        /// The lock, and its holder.
        message: String,
    },
    /// A known failure was found.
    KnownFailure {
        /// Its name.
        name: String,
        /// The cause.
        cause: String,
        /// The first line that shows it.
        line: Option<String>,
    },
    /// What the lines say about a failure that is not known: which part failed, and how.
    Assessment {
        /// The name of the kind of failure.
        kind: String,
        /// What happened.
        what: String,
        /// The first line that shows it.
        line: Option<String>,
    },
    /// A line of the log, which `-v` or `RUST_LOG` requests.
    Log {
        /// The line.
        message: String,
    },
    /// What to do next.
    Hint {
        /// The next step.
        message: String,
    },
    /// The run ends with an error.
    Error(ErrorDocument),
}

/// The error of a run, or of one item of a result.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub struct ErrorDocument {
    /// The exit code.
    exit_code: u8,
    /// What went wrong.
    message: String,
    /// The causes, outermost first.
    causes: Vec<String>,
    /// The last log lines of the failed step, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log: Vec<String>,
    /// What to do next.
    hints: Vec<String>,
}

impl From<&Failure> for ErrorDocument {
    fn from(error: &Failure) -> Self {
        Self {
            exit_code: code_of(error.kind),
            message: error.lines().into_iter().next().unwrap_or_default(),
            causes: error.causes.clone(),
            log: error.log.clone(),
            hints: error.hints.clone(),
        }
    }
}

/// Returns the colour of a verdict.
fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good => GOOD,
        Tone::Doubtful => WARNING,
        Tone::Bad => ERROR,
    }
}

/// From now on, prints colours always or never, instead of only on a terminal.
pub fn set_colours(are_on: bool) {
    let choice = if are_on { anstream::ColorChoice::Always } else { anstream::ColorChoice::Never };
    choice.write_global();
}

/// Switches all messages to JSON.
pub fn talk_json() {
    TALKS_JSON.store(true, Ordering::Relaxed);
}

/// Suppresses progress and notes from now on.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether progress and notes are suppressed.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints a message as a JSON line in JSON mode. Returns whether it did.
fn said_as_json(talk: impl FnOnce() -> Talk) -> bool {
    let is_json = TALKS_JSON.load(Ordering::Relaxed);
    if is_json {
        json_line(&talk());
    }
    is_json
}

/// Prints a JSON object on one line of standard error.
pub fn json_line(object: &impl serde::Serialize) {
    if let Ok(mut value) = serde_json::to_value(object) {
        sanitise_json(&mut value);
        say(&value.to_string());
    }
}

/// Prints a result. If the reader has closed the pipe (`| head`), the exit code is the same as if
/// it had read everything.
pub fn result(text: &str) -> Result<(), Failure> {
    written(anstream::stdout().write_all(text.as_bytes()).and_then(|()| anstream::stdout().flush()))
}

/// Prints a result that may contain untrusted text.
pub fn sanitised_result(text: &str) -> Result<(), Failure> {
    result(&sanitise(text))
}

/// Prints a page that may contain untrusted text, with its verdicts in colour.
pub fn page(page: &Page) -> Result<(), Failure> {
    let mut shown = String::new();
    for (piece, tone) in page.pieces() {
        let piece = sanitise(piece);
        match tone.map(style) {
            None => shown.push_str(&piece),
            Some(style) => {
                shown.extend([style.render().to_string(), piece, style.render_reset().to_string()]);
            }
        }
    }
    result(&shown)
}

/// Prints a result unchanged, unless it goes to a terminal.
pub fn exact_result(bytes: &[u8]) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        sanitised_result(&String::from_utf8_lossy(bytes))
    } else {
        written(io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()))
    }
}

/// Prints a document as indented JSON.
pub fn json(document: &impl serde::Serialize) -> Result<(), Failure> {
    result(&json_text(document)?)
}

/// Returns a document as indented JSON.
pub fn json_text(document: &impl serde::Serialize) -> Result<String, Failure> {
    let bug =
        |e: serde_json::Error| Failure::caused(Kind::Bug, "cannot write a result as JSON", &e);
    let mut value = serde_json::to_value(document).map_err(bug)?;
    sanitise_json(&mut value);
    Ok(format!("{value:#}\n"))
}

/// Prints a document like [`json`], but piece by piece, because it may be large. The caller must
/// have sanitised its strings.
pub fn large_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    let mut writer = io::BufWriter::new(anstream::stdout());
    let done = serde_json::to_writer_pretty(&mut writer, document).map_err(io::Error::from);
    written(done.and_then(|()| writer.write_all(b"\n")).and_then(|()| writer.flush()))
}

/// Passes on the output of a program that the user started, unchanged, to the same stream.
pub fn pass_on(bytes: &[u8], is_error: bool) -> Result<(), Failure> {
    if !is_error {
        let done = io::stdout().write_all(bytes).and_then(|()| io::stdout().flush());
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(Failure::told(Kind::ReaderLeft))
            }
            done => written(done),
        }
    } else {
        note_printed();
        // If standard error is closed, standard output may still be wanted.
        drop(io::stderr().write_all(bytes));
        Ok(())
    }
}

fn written(done: io::Result<()>) -> Result<(), Failure> {
    note_printed();
    match done {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::caused(Kind::Machine, "cannot write to standard output", &error))
        }
    }
}

/// Prints a line to standard error, without secrets. Errors are ignored, because the record
/// contains everything important.
pub fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{}", names::mask(text)));
    note_printed();
}

fn note_printed() {
    *PRINTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// Returns how long nothing has been printed, counted from `started` at the earliest.
pub fn silence(started: Instant) -> Duration {
    let printed = *PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    printed.unwrap_or(started).max(started).elapsed()
}

/// Prints a warning.
pub fn warn(rule: &str, message: &str) {
    if !said_as_json(|| Talk::Warning { rule: rule.to_owned(), message: message.to_owned() }) {
        say(&format!("{WARNING}warning{WARNING:#}: {} [{rule}]", sanitise_line(message)));
    }
}

/// Prints a notice.
pub fn notice(notice: Notice) {
    match notice {
        Notice::Warning { rule, message } => warn(&rule, &message),
        Notice::Hint(message) => hint(&message),
    }
}

/// Reports that a source is being fetched, or what else the command is doing.
pub fn fetching(message: &str) {
    if !is_quiet() && !said_as_json(|| Talk::Fetching { message: message.to_owned() }) {
        say(&sanitise_line(message));
    }
}

/// Reports that the run waits for another run.
pub fn waiting(message: &str) {
    if !is_quiet() && !said_as_json(|| Talk::Waiting { message: message.to_owned() }) {
        say(&sanitise_line(message));
    }
}

/// Reports a known failure that was found in a log or in a program's output.
pub fn known_failure(name: &str, cause: &str, line: Option<&str>) {
    let as_talk = || Talk::KnownFailure {
        name: name.to_owned(),
        cause: cause.to_owned(),
        line: line.map(str::to_owned),
    };
    if !said_as_json(as_talk) {
        found("known", name, cause, line);
    }
}

/// Reports what the lines of a log or of a program's output say about a failure that is not known.
pub fn assessment(kind: &str, what: &str, line: Option<&str>) {
    let as_talk = || Talk::Assessment {
        kind: kind.to_owned(),
        what: what.to_owned(),
        line: line.map(str::to_owned),
    };
    if !said_as_json(as_talk) {
        found("assessment (not a known failure, check it)", kind, what, line);
    }
}

/// Prints what was found in a log, with the first line that shows it.
fn found(head: &str, name: &str, what: &str, line: Option<&str>) {
    say(&format!("{WARNING}{head}{WARNING:#}: {} [{name}]", sanitise_line(what)));
    if let Some(line) = line {
        say(&format!("  | {}", sanitise_line(line)));
    }
}

/// Prints a hint about what to do next, unless notes are suppressed.
pub fn hint(message: &str) {
    if !is_quiet() {
        advise(message);
    }
}

/// Prints a hint that belongs to an error or a known failure.
pub fn advise(message: &str) {
    if !said_as_json(|| Talk::Hint { message: message.to_owned() }) {
        say(&format!("{HINT}hint{HINT:#}: {}", sanitise_line(message)));
    }
}

/// Prints an error: what, why, and what to do next.
pub fn error(error: &Failure) {
    if matches!(error.message, Message::Told) {
        return;
    }
    if said_as_json(|| Talk::Error(error.into())) {
        return;
    }
    match &error.message {
        Message::Told => {}
        Message::Line(line) => say(&format!("{ERROR}error{ERROR:#}: {}", sanitise_line(line))),
        Message::Places(files) => {
            files.iter().for_each(|(problems, text)| places_in(problems, text));
        }
    }
    for cause in &error.causes {
        say(&format!("  caused by: {}", sanitise_line(cause)));
    }
    for line in &error.log {
        say(&format!("  | {}", sanitise_line(line)));
    }
    for hint in &error.hints {
        advise(hint);
    }
}

/// Returns the byte range in `masked` of the characters at `span` in `plain`. A `*` may take fewer
/// bytes than the character that it hides.
fn moved(plain: &str, masked: &str, span: Range<usize>) -> Range<usize> {
    let place = |at: usize| {
        let count = plain[..at].chars().count();
        masked.char_indices().nth(count).map_or(masked.len(), |(index, _)| index)
    };
    place(span.start)..place(span.end)
}

/// Prints the problems in a data file, each with its line.
fn places_in(error: &pins::ParseError, text: &str) {
    let renderer = Renderer::styled();
    let (plain, text) = sanitise_in_place(text);
    for problem in &error.problems {
        let message = sanitise_line(&problem.message);
        let help = sanitise_line(&problem.help);
        // Sanitising may have moved the text; the line and column in the message are still right.
        let span = problem.span.clone();
        let fits = span.end <= plain.len()
            && plain.is_char_boundary(span.start)
            && plain.is_char_boundary(span.end);
        let span = if fits { moved(&plain, &text, span) } else { 0..0 };
        let report = [Level::ERROR
            .primary_title(message)
            .element(
                Snippet::source(text.as_str())
                    .path(error.file.as_str())
                    .annotation(AnnotationKind::Primary.span(span)),
            )
            .element(Level::HELP.message(help))];
        say(&renderer.render(&report).to_string());
    }
    let problems = counted(error.problems.len(), "problem");
    say(&format!("{ERROR}error{ERROR:#}: `{}` has {problems}", error.file));
}

/// Writes log lines to standard error without secrets, in JSON mode as JSON. Each event arrives in
/// one write.
#[derive(Debug)]
pub struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if said_as_json(|| Talk::Log { message: text.trim_end().to_owned() }) {
            return Ok(bytes.len());
        }
        io::stderr().write_all(names::mask(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
