//! Reads post-conditions and probes.

use super::values::{add_choice, choice, files, pattern, placeholders_ok, sample_gpu};
use crate::forms;
use crate::gpu::fill;
use crate::reader::{Report, Table, Text, list, quote};
use crate::spec::{Assert, Condition, Probe, ProbeKind};

/// The limit on `count`. Counting can take one pass over the file for each match.
const MAX_COUNT: usize = 64;

pub(super) fn assert(report: &mut Report<'_>, table: &Table<'_>) -> Option<Assert> {
    table.check_form(report, &forms::ASSERT);
    let files = files(report, table);
    let conditions = conditions(report, table);
    match conditions.as_slice() {
        [condition] => Some(Assert { files, condition: condition.clone() }),
        [] => {
            if !table.has("matches") && !table.has("absent") {
                table.add_missing(report, "matches", "matches = '''…'''");
            }
            None
        }
        _ => {
            let message = "one `[[assert]]` has both `matches` and `absent`";
            report.add(&table.span, message, "write two tables, one for each");
            None
        }
    }
}

fn conditions(report: &mut Report<'_>, table: &Table<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let count = table.integer(report, "count").and_then(|count| {
        let checked = usize::try_from(count).ok().filter(|count| (1..=MAX_COUNT).contains(count));
        if checked.is_none() {
            let message = format!("`count` is `{count}`, but must be from 1 to 64");
            report.add(&table.span_of("count"), message, "to require no match, write `absent`");
        }
        checked
    });
    if let Some(text) = table.text(report, "matches") {
        conditions.extend(
            pattern(report, "matches", &text).map(|pattern| Condition::Matches { pattern, count }),
        );
    } else if table.has("count") && !table.has("matches") {
        report.add(&table.span_of("count"), "`count` needs `matches`", "add the pattern to count");
    }
    if let Some(text) = table.text(report, "absent") {
        conditions
            .extend(pattern(report, "absent", &text).map(|pattern| Condition::Absent { pattern }));
    }
    conditions
}

pub(super) fn probe(report: &mut Report<'_>, table: &Table<'_>) -> Option<Probe> {
    let kinds: [(&str, &[&str]); 4] = [
        ("cmake-script", &["script", "commands"]),
        ("cpp-macro", &["defines"]),
        ("python-compile", &[]),
        ("python-call", &["functions", "prelude", "call"]),
    ];
    table.check_form(report, &forms::PROBE);
    let name = table.need_text(report, "name", "name = \"cmake keeps the target\"");
    let files = files(report, table);
    let outcomes = [("success", true), ("failure", false)];
    let success = choice(report, table, "outcome", &outcomes).unwrap_or(true);
    let conditions = conditions(report, table);
    if !table.has("kind") {
        table.add_missing(report, "kind", "kind = \"python-compile\"");
    }
    let kind = table.text(report, "kind")?;
    let Some((kind, own)) = kinds.iter().find(|(known, _)| *known == kind.value) else {
        add_choice(report, "kind", &kind, &kinds.map(|(known, _)| known));
        return None;
    };
    for key in ["script", "commands", "defines", "functions", "prelude", "call"] {
        match (own.contains(&key), table.has(key)) {
            (true, false) if !["prelude", "commands"].contains(&key) => {
                table.add_missing(report, key, &format!("{key} = …"));
            }
            (false, true) => {
                let message = format!("`{key}` has no meaning for `{kind}`");
                let help = if own.is_empty() {
                    "remove it".to_owned()
                } else {
                    format!("remove it; `{kind}` takes {}", list(own))
                };
                report.add(&table.span_of(key), message, help);
            }
            _ => {}
        }
    }
    let kind = probe_kind(report, table, kind);
    Some(Probe { name: name?.value.to_owned(), files, kind: kind?, success, conditions })
}

fn probe_kind(report: &mut Report<'_>, table: &Table<'_>, kind: &str) -> Option<ProbeKind> {
    match kind {
        "cmake-script" => {
            let commands = table.text(report, "commands");
            let commands = commands.and_then(|text| pattern(report, "commands", &text));
            Some(ProbeKind::CmakeScript { script: template(report, table, "script")?, commands })
        }
        "cpp-macro" => {
            let texts = table.texts(report, "defines", "__HIPCC__");
            let defines = texts.iter().filter_map(|text| define(report, text)).collect();
            Some(ProbeKind::CppMacro { defines })
        }
        "python-compile" => Some(ProbeKind::PythonCompile),
        _ => {
            let texts = table.texts(report, "functions", "validate_and_update_archs");
            let functions = texts.iter().filter_map(|text| identifier(report, text)).collect();
            let prelude = template(report, table, "prelude").unwrap_or_default();
            Some(ProbeKind::PythonCall {
                functions,
                prelude,
                call: template(report, table, "call")?,
            })
        }
    }
}

/// Returns a text that may contain placeholders, if it contains no unknown ones.
fn template(report: &mut Report<'_>, table: &Table<'_>, key: &str) -> Option<String> {
    let text = table.text(report, key)?;
    placeholders_ok(report, key, &text).then(|| text.value.to_owned())
}

/// Accepts a macro as `NAME` or `NAME=VALUE`. It becomes a command-line argument, so no other form
/// is accepted.
fn define(report: &mut Report<'_>, text: &Text<'_>) -> Option<String> {
    let filled = fill(text.value, &sample_gpu());
    let (name, value) = filled.split_once('=').unwrap_or((&filled, ""));
    let is_word = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && is_word(name)
        && is_word(value)
    {
        return Some(text.value.to_owned());
    }
    report.add(
        &text.span,
        format!("{} is not a macro", quote(text.value)),
        "write `NAME` or `NAME=VALUE`",
    );
    None
}

fn identifier(report: &mut Report<'_>, text: &Text<'_>) -> Option<String> {
    let value = text.value;
    let is_name = !value.is_empty()
        && !value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_name {
        return Some(value.to_owned());
    }
    report.add(
        &text.span,
        format!("{} is not the name of a function", quote(value)),
        "write the bare name",
    );
    None
}
