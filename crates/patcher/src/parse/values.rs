//! Reads the value types of a patch file: paths, patterns, names, choices.

use names::GpuTarget;

use crate::TreePath;
use crate::gpu::{PLACEHOLDERS, fill, unknown_placeholder};
use crate::pattern::Pattern;
use crate::reader::{Report, Table, Text, list, nearest, quote};

/// The target for which patterns are tried. Placeholders become letters and digits for every
/// target.
pub(super) fn sample_gpu() -> GpuTarget {
    "gfx1151".parse().expect("it is a target")
}

pub(super) fn files(report: &mut Report<'_>, table: &Table<'_>) -> Vec<TreePath> {
    if !table.has("files") {
        table.add_missing(report, "files", "files = [\"CMakeLists.txt\"]");
    }
    let before = report.len();
    let texts = table.texts(report, "files", "CMakeLists.txt");
    if texts.is_empty() && table.has("files") && report.len() == before {
        report.add(
            &table.span_of("files"),
            "`files` is empty",
            "write `files = [\"CMakeLists.txt\"]`",
        );
    }
    texts.iter().filter_map(|text| parsed(report, text)).collect()
}

/// Parses a text as a `T`. The error of `T` consists of the problem and the rule, separated by `;`.
pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    report: &mut Report<'_>,
    text: &Text<'_>,
) -> Option<T> {
    match text.value.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let error: String = error.to_string();
            let (message, help) = error.split_once("; ").unwrap_or((&error, "change it"));
            report.add(&text.span, message, help);
            None
        }
    }
}

/// Returns the source of the pattern if it compiles and its placeholders are known.
pub(super) fn pattern(report: &mut Report<'_>, key: &str, text: &Text<'_>) -> Option<String> {
    if !placeholders_ok(report, key, text) {
        return None;
    }
    match Pattern::new(&fill(text.value, &sample_gpu())) {
        Ok(_) => Some(text.value.to_owned()),
        Err(reason) => {
            let message =
                format!("`{key}` {} is not a usable pattern: {reason}", quote(text.value));
            report.add(&text.span, message, "the syntax is that of the Rust crate `regex`: https://docs.rs/regex/1/regex/#syntax");
            None
        }
    }
}

pub(super) fn placeholders_ok(report: &mut Report<'_>, key: &str, text: &Text<'_>) -> bool {
    let Some(word) = unknown_placeholder(text.value) else { return true };
    let known = PLACEHOLDERS.map(|(name, _)| name);
    let message = format!("`{key}` contains the unknown placeholder {}", quote(word));
    report.add(&text.span, message, format!("the placeholders are {}", list(&known)));
    false
}

pub(super) fn choice<T: Copy>(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
    choices: &[(&str, T)],
) -> Option<T> {
    let text = table.text(report, key)?;
    let found = choices.iter().find(|(name, _)| *name == text.value);
    if found.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        add_choice(report, key, &text, &names);
    }
    found.map(|(_, value)| *value)
}

pub(super) fn add_choice(report: &mut Report<'_>, key: &str, text: &Text<'_>, names: &[&str]) {
    let help = match nearest(text.value, names) {
        Some(near) => format!("did you mean `{near}`? It must be one of {}", list(names)),
        None => format!("it must be one of {}", list(names)),
    };
    report.add(&text.span, format!("{} is not a value of `{key}`", quote(text.value)), help);
}

/// Checks the name of a patch or component.
pub(super) fn name(report: &mut Report<'_>, text: &Text<'_>, what: &str) -> Option<String> {
    let value = text.value;
    let is_valid = value.len() <= 64
        && value.starts_with(|c: char| c.is_ascii_lowercase())
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    if is_valid {
        return Some(value.to_owned());
    }
    report.add(
        &text.span,
        format!("{} is not {what}", quote(value)),
        "a name has at most 64 lower-case letters, digits, dots and dashes, and starts with a letter",
    );
    None
}
