//! The only place that prints: results to standard output, all talk to standard error.

use std::io::{self, Write as _};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};

use crate::error::{CommandError, Message};
use crate::exit_code::ExitCode;
use crate::sanitise::{sanitise, sanitise_json, sanitise_line};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Prints a result. A reader that went away (`| head`) is no error.
pub(crate) fn result(text: &str) -> Result<(), CommandError> {
    written(anstream::stdout().write_all(text.as_bytes()).and_then(|()| anstream::stdout().flush()))
}

/// Prints a result that may hold text from outside.
pub(crate) fn sanitised_result(text: &str) -> Result<(), CommandError> {
    result(&sanitise(text))
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

/// Says something on standard error. If nobody listens, nothing is lost that a record does not hold.
pub(crate) fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}

/// Says a warning.
pub(crate) fn warn(rule: &str, message: &str) {
    say(&format!("{WARNING}warning{WARNING:#}: {} [{rule}]", sanitise_line(message)));
}

/// Returns the text of a hint line.
pub(crate) fn hint_line(hint: &str) -> String {
    format!("{HINT}hint{HINT:#}: {}", sanitise_line(hint))
}

/// Says an error: what, why, what next.
pub(crate) fn error(error: &CommandError) {
    match &error.message {
        Message::Told => return,
        Message::Line(line) => say(&format!("{ERROR}error{ERROR:#}: {}", sanitise_line(line))),
        Message::Places(places, text) => places_in(places, text),
    }
    for cause in &error.causes {
        say(&format!("  caused by: {}", sanitise_line(cause)));
    }
    for hint in &error.hints {
        say(&hint_line(hint));
    }
}

/// Says what is wrong with a data file, each place with its line.
fn places_in(error: &pins::ParseError, text: &str) {
    let renderer = Renderer::styled();
    let text = sanitise(text);
    for problem in &error.problems {
        let message = sanitise_line(&problem.message);
        let help = sanitise_line(&problem.help);
        // A text that had to be sanitised may have moved; the line and column in words are right.
        let span = problem.span.clone();
        let fits = span.end <= text.len()
            && text.is_char_boundary(span.start)
            && text.is_char_boundary(span.end);
        let span = if fits { span } else { 0..0 };
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
