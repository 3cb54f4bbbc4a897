//! Reads `versions/python.toml`.

use std::collections::BTreeSet;

use super::{PythonSet, PythonSets, normalised};
use crate::checks::{self, line};
use crate::problem::{ParseError, Report, Reported, Wrong, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use crate::{PinKind, Pins, built, forms};

/// Parses the text of `python.toml`. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_python(file: &str, text: &str) -> Result<PythonSets, ParseError> {
    parse(file, text, None)
}

/// Parses the text like [`parse_python`], and checks that every source and release is a pin of
/// `pins`.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_python_with(file: &str, text: &str, pins: &Pins) -> Result<PythonSets, ParseError> {
    parse(file, text, Some(pins))
}

fn parse(file: &str, text: &str, pins: Option<&Pins>) -> Result<PythonSets, ParseError> {
    let mut report = Report::new(file, text);
    let sets = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let named = root.entries().filter(|entry| entry.key != "schema");
        collect(&mut report, named, |report, entry| {
            let name =
                checks::pin_name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
            let set = read_set(report, entry, pins);
            Ok((name?, set?))
        })
    });
    report.finish(sets)
}

fn read_set(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    pins: Option<&Pins>,
) -> Result<PythonSet, Reported> {
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::PYTHON_SET.keys);
    let python = table.required(report, "python", "python = \"3.13\"", python);
    let example = "platform = \"x86_64-manylinux_2_40\"";
    let platform = table.required(report, "platform", example, platform);
    let source = table.optional(report, "source", |text| {
        let pin = checks::pin_name(text)?;
        built::check_pin(&pin, pins, &[PinKind::Source, PinKind::Archive]).map(|()| pin)
    });
    let files = table.texts(report, "files", "requirements/common.txt", checks::source_file);
    let release = table.optional(report, "release", |text| {
        let pin = checks::pin_name(text)?;
        built::check_pin(&pin, pins, &[PinKind::Release]).map(|()| pin)
    });
    let requirements = table.texts(report, "requirements", "numpy>=2", requirement);
    let provided = table.texts(report, "provided", "torch", |text| {
        checks::package_name(text).map(|name| normalised(&name))
    });
    let (source, files, release, requirements) = (source?, files?, release?, requirements?);
    match (&source, files.is_empty()) {
        (None, false) => return Err(table.add_missing(report, "source", "source = \"vllm\"")),
        (Some(_), true) => {
            return Err(table.add_missing(report, "files", "files = [\"pyproject.toml\"]"));
        }
        (None, true) if requirements.is_empty() && release.is_none() => {
            return Err(table.add_missing(report, "requirements", "requirements = [\"numpy>=2\"]"));
        }
        (None, true) | (Some(_), false) => {}
    }
    Ok(PythonSet {
        python: python?,
        platform: platform?,
        source,
        files,
        release,
        requirements: requirements.into_iter().collect(),
        provided: provided?.into_iter().collect::<BTreeSet<_>>(),
    })
}

/// Accepts a version of Python in the form that wheels use: major and minor.
fn python(text: &str) -> Result<String, Wrong> {
    let minor = text.strip_prefix("3.").and_then(|minor| minor.parse::<u8>().ok());
    match minor.filter(|minor| text == format!("3.{minor}")) {
        Some(_) => Ok(text.to_owned()),
        None => Err(wrong(
            format!("{} is not a version of Python that wheels are built for", quote(text)),
            "write the major and minor version, for example `3.13`",
        )),
    }
}

/// Accepts the name of a platform in uv's terms: an architecture and a C library.
fn platform(text: &str) -> Result<String, Wrong> {
    let number = |digits: &str| digits.parse::<u16>().is_ok_and(|n| n.to_string() == digits);
    let is_valid = text.split_once('-').is_some_and(|(architecture, library)| {
        let release = library.strip_prefix("manylinux_").or(library.strip_prefix("musllinux_"));
        ["x86_64", "aarch64"].contains(&architecture)
            && release
                .and_then(|release| release.split_once('_'))
                .is_some_and(|(major, minor)| number(major) && number(minor))
    });
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not a platform that wheels are built for", quote(text)),
            "write an architecture and the oldest C library, for example `x86_64-manylinux_2_40` for glibc 2.40",
        ))
    }
}

/// Accepts a requirement that names a package on the index.
pub(super) fn requirement(text: &str) -> Result<String, Wrong> {
    let text = line(300)(text)?;
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    // The name is followed by extras, versions or a marker; in a file or URL, by something else.
    if !is_name
        || !(rest.is_empty()
            || rest.starts_with(['[', '(', '<', '>', '=', '!', '~', ';', ' ', '@']))
    {
        return Err(wrong(
            format!("{} is not a requirement", quote(&text)),
            "write a package and its accepted versions, for example `numpy>=2`; options are not supported",
        ));
    }
    if text.contains('@') {
        return Err(wrong(
            format!("{} is a file or a repository, not a package on the index", quote(&text)),
            "make it a pin in `versions/versions.toml`, and write the name of the package here",
        ));
    }
    Ok(text)
}
