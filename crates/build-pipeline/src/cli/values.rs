//! Value types that several commands share.

use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use names::EngineKind;
use terminal::reporter::Progress;

/// Returns the parser of `--progress`.
pub(crate) fn progress() -> impl TypedValueParser<Value = Progress> {
    let values = [
        ("auto", "Live lines on a terminal, plain lines elsewhere or if CI is set"),
        ("tty", "Live lines"),
        ("plain", "Plain lines, as in a log"),
        ("json", "One JSON object per line; only messages about wrong arguments are text"),
    ];
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(|text| match text.as_str() {
        "tty" => Progress::Tty,
        "plain" => Progress::Plain,
        "json" => Progress::Json,
        _ => Progress::Auto,
    })
}

/// When to colour messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal; NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb can change this
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The engine that the command line specifies; `None` for `auto`.
pub(crate) type AskedEngine = Option<EngineKind>;

/// Returns the parser of `--engine`.
pub(crate) fn engine_names() -> impl TypedValueParser<Value = AskedEngine> {
    let order = EngineKind::ALL.map(EngineKind::as_str).join(", else ");
    let auto = PossibleValue::new("auto").help(format!(
        "The engine from CONTAINER_HOST, DOCKER_HOST or a similar variable, podman's default connection or docker's context, else {order}"
    ));
    let kinds = EngineKind::ALL.map(|kind| PossibleValue::new(kind.as_str()).help(kind.as_str()));
    PossibleValuesParser::new([auto].into_iter().chain(kinds)).map(|text| text.parse().ok())
}

/// Parses a percentage from 0 to 100, with or without `%`.
pub(crate) fn percent(text: &str) -> Result<u8, &'static str> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|number| *number <= 100).ok_or("not a percentage from `0%` to `100%`")
}

/// Parses a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a number of seconds; write, for example, `300`")
}

/// Parses a whole number.
pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "not a whole number from 0, or too large; write, for example, `30`")
}

/// Parses a whole number above 0.
pub(crate) fn positive<T: FromStr + Default + PartialEq>(text: &str) -> Result<T, &'static str> {
    let number = text.parse().ok().filter(|number| *number != T::default());
    number.ok_or("not a whole number above 0, or too large; write, for example, `30`")
}

/// An output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}
