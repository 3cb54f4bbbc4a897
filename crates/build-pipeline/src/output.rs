//! The only place that prints: results to standard output, all talk to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use names::Secret;

use crate::error::{CommandError, Message};
use crate::exit_code::ExitCode;
use crate::sanitise::{sanitise, sanitise_in_place, sanitise_json, sanitise_line};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Whether all talk is JSON, one object a line.
static TALKS_JSON: AtomicBool = AtomicBool::new(false);

/// What is said beside events, as a line of `--progress json`.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Talk {
    /// Something a person should know before the build.
    Warning {
        /// The rule's name.
        rule: String,
        /// What is so, and what follows.
        message: String,
    },
    /// A source is being fetched.
    Fetching {
        /// What, and from where.
        message: String,
    },
    /// The run waits for another.
    Waiting {
        /// What for, and who holds it.
        message: String,
    },
    /// A failure that is known.
    KnownFailure {
        /// Its name.
        name: String,
        /// What happened.
        cause: String,
        /// The first line that shows it.
        line: Option<String>,
    },
    /// What to do next.
    Hint {
        /// The command to type.
        message: String,
    },
    /// The run ends with an error.
    Error {
        /// The exit code.
        exit_code: u8,
        /// What went wrong.
        message: String,
        /// What it was caused by, outermost first.
        causes: Vec<String>,
        /// The last lines of what failed, where it said something.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        log: Vec<String>,
        /// What to do next.
        hints: Vec<String>,
    },
}

/// A text that is put together line by line.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Adds a line.
    pub(crate) fn line(&mut self, text: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        self.0.write_fmt(text).expect("a string takes any text");
        self.0.push('\n');
    }

    /// Returns the whole text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Makes all talk JSON from here on.
pub(crate) fn talk_json() {
    TALKS_JSON.store(true, Ordering::Relaxed);
}

/// Says something as a JSON line where that is asked for; returns whether it was.
fn said_as_json(talk: impl FnOnce() -> Talk) -> bool {
    let is_json = TALKS_JSON.load(Ordering::Relaxed);
    if is_json {
        json_line(&talk());
    }
    is_json
}

/// Says a JSON object on a line of its own.
pub(crate) fn json_line(object: &impl serde::Serialize) {
    if let Ok(mut value) = serde_json::to_value(object) {
        sanitise_json(&mut value);
        say(&value.to_string());
    }
}

/// Prints a result. A reader that went away (`| head`) is no error.
pub(crate) fn result(text: &str) -> Result<(), CommandError> {
    written(anstream::stdout().write_all(text.as_bytes()).and_then(|()| anstream::stdout().flush()))
}

/// Prints a result that may hold text from outside.
pub(crate) fn sanitised_result(text: &str) -> Result<(), CommandError> {
    result(&sanitise(text))
}

/// Prints a result byte by byte, unless it goes to a terminal.
pub(crate) fn exact_result(bytes: &[u8]) -> Result<(), CommandError> {
    match io::stdout().is_terminal() {
        true => sanitised_result(&String::from_utf8_lossy(bytes)),
        false => written(io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())),
    }
}

/// Prints a document as indented JSON.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<(), CommandError> {
    let bug = |e: serde_json::Error| {
        CommandError::caused(ExitCode::Bug, "a result cannot be written as JSON", &e)
    };
    let mut value = serde_json::to_value(document).map_err(bug)?;
    sanitise_json(&mut value);
    result(&format!("{value:#}\n"))
}

/// Prints a document as [`json`] does, piece by piece, because it may be large. Its texts are clean.
pub(crate) fn large_json(document: &impl serde::Serialize) -> Result<(), CommandError> {
    let mut writer = io::BufWriter::new(anstream::stdout());
    let done = serde_json::to_writer_pretty(&mut writer, document).map_err(io::Error::from);
    written(done.and_then(|()| writer.write_all(b"\n")).and_then(|()| writer.flush()))
}

/// Hands on what a program that the user started says, byte by byte, to the stream that it said it on.
pub(crate) fn pass_on(bytes: &[u8], is_error: bool) -> Result<(), CommandError> {
    match is_error {
        false => written(io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())),
        true => {
            // Who does not listen to errors may still want results.
            drop(io::stderr().write_all(bytes));
            Ok(())
        }
    }
}

fn written(done: io::Result<()>) -> Result<(), CommandError> {
    match done {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(CommandError::told(ExitCode::Done))
        }
        Err(error) => Err(CommandError::caused(
            ExitCode::Machine,
            "standard output cannot be written",
            &error,
        )),
    }
}

/// Says something on standard error, without secrets. If nobody listens, nothing is lost that a record
/// does not hold.
pub(crate) fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{}", names::mask(text)));
}

/// Says a warning.
pub(crate) fn warn(rule: &str, message: &str) {
    if !said_as_json(|| Talk::Warning { rule: rule.to_owned(), message: message.to_owned() }) {
        say(&format!("{WARNING}warning{WARNING:#}: {} [{rule}]", sanitise_line(message)));
    }
}

/// Says that a source is being fetched.
pub(crate) fn fetching(message: &str) {
    if !said_as_json(|| Talk::Fetching { message: message.to_owned() }) {
        say(&sanitise_line(message));
    }
}

/// Says that the run waits for another.
pub(crate) fn waiting(message: &str) {
    if !said_as_json(|| Talk::Waiting { message: message.to_owned() }) {
        say(&sanitise_line(message));
    }
}

/// Says that an output shows a failure that is known.
pub(crate) fn known_failure(name: &str, cause: &str, line: Option<&str>) {
    let as_talk = || Talk::KnownFailure {
        name: name.to_owned(),
        cause: cause.to_owned(),
        line: line.map(str::to_owned),
    };
    if said_as_json(as_talk) {
        return;
    }
    say(&format!("{WARNING}known{WARNING:#}: {} [{name}]", sanitise_line(cause)));
    if let Some(line) = line {
        say(&format!("  | {}", sanitise_line(line)));
    }
}

/// Says what to do next.
pub(crate) fn hint(message: &str) {
    if !said_as_json(|| Talk::Hint { message: message.to_owned() }) {
        say(&format!("{HINT}hint{HINT:#}: {}", sanitise_line(message)));
    }
}

/// Says an error: what, why, what next.
pub(crate) fn error(error: &CommandError) {
    if matches!(error.message, Message::Told) {
        return;
    }
    let as_talk = || Talk::Error {
        exit_code: error.code as u8,
        message: error.lines().into_iter().next().unwrap_or_default(),
        causes: error.causes.clone(),
        log: error.log.clone(),
        hints: error.hints.clone(),
    };
    if said_as_json(as_talk) {
        return;
    }
    match &error.message {
        Message::Told => {}
        Message::Line(line) => say(&format!("{ERROR}error{ERROR:#}: {}", sanitise_line(line))),
        Message::Places(files) => {
            files.iter().for_each(|(error, text)| places_in(error, text));
        }
    }
    for cause in &error.causes {
        say(&format!("  caused by: {}", sanitise_line(cause)));
    }
    for line in &error.log {
        say(&format!("  | {}", sanitise_line(line)));
    }
    for hint in &error.hints {
        self::hint(hint);
    }
}

/// Returns the bytes of `masked` that hold the same characters as `span` of `plain`: a `*` may take
/// fewer bytes than the character that it hides.
fn moved(plain: &str, masked: &str, span: Range<usize>) -> Range<usize> {
    let place = |at: usize| {
        let count = plain[..at].chars().count();
        masked.char_indices().nth(count).map_or(masked.len(), |(at, _)| at)
    };
    place(span.start)..place(span.end)
}

/// Says what is wrong with a data file, each place with its line.
fn places_in(error: &pins::ParseError, text: &str) {
    let renderer = Renderer::styled();
    let (plain, text) = sanitise_in_place(text);
    for problem in &error.problems {
        let message = sanitise_line(&problem.message);
        let help = sanitise_line(&problem.help);
        // A text that had to be sanitised may have moved; the line and column in words are right.
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
    let count = error.problems.len();
    let problems = if count == 1 { "problem" } else { "problems" };
    say(&format!("{ERROR}error{ERROR:#}: `{}` has {count} {problems}", error.file));
}

/// A writer of log lines to standard error that hides secrets: each event comes as one text.
#[derive(Debug)]
pub(crate) struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(names::mask(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Prints what clap says of the command line: help to standard output, errors to standard error. It
/// quotes what was typed, so secrets are hidden.
pub(crate) fn clap_error(error: &clap::Error, typed: &[Secret]) -> Result<(), CommandError> {
    let text = error.render().ansi().to_string();
    // Each word by itself first: in the text, a quote in a password would end it.
    let text = typed
        .iter()
        .filter(|word| word.is_secret())
        .fold(text, |text, word| text.replace(word.expose(), &word.masked()));
    if error.use_stderr() {
        say(text.trim_end());
        return Ok(());
    }
    result(&names::mask(&text))
}
