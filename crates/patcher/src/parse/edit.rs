//! Reads an edit.

use super::values::{add_choice, choice, files, parsed, pattern, placeholders_ok, sample_gpu};
use crate::VersionRange;
use crate::forms;
use crate::gpu::fill;
use crate::pattern::{Pattern, matches_nothing};
use crate::reader::{Report, Table, list, quote};
use crate::spec::{Edit, Expect, IfAbsent, Item, Lines, Op, Replacement};

/// The largest accepted count in `expect`; an anchor with more matches is too vague.
const MAX_COUNT: i64 = 64;

/// The longest text that an edit inserts; a longer one belongs in a file of its own.
const MAX_INSERT: usize = 64 * 1024;

pub(super) fn edit(
    report: &mut Report<'_>,
    table: &Table<'_>,
    versions: Option<&VersionRange>,
) -> Option<Edit> {
    table.check_form(report, &forms::EDIT);
    let before = report.len();
    let files = files(report, table);
    let absent = [("fail", IfAbsent::Fail), ("skip", IfAbsent::Skip)];
    let if_absent = choice(report, table, "if_absent", &absent).unwrap_or(IfAbsent::Fail);
    let absent_in = table.text(report, "absent_in");
    let absent_in = absent_in.and_then(|text| parsed::<VersionRange>(report, &text));
    if absent_in.is_some() && if_absent == IfAbsent::Fail {
        let message = "`absent_in` limits `if_absent = \"skip\"`, which is not there";
        report.add(&table.span_of("absent_in"), message, "add `if_absent = \"skip\"`");
    }
    let anchor_text = table.need_text(report, "anchor", "anchor = '''…'''");
    let anchor = anchor_text.as_ref().and_then(|text| pattern(report, "anchor", text));
    let expect = expect(report, table, versions);
    let op = op(report, table);
    let already_text = table.text(report, "already");
    let already = already_text.as_ref().and_then(|text| pattern(report, "already", text));
    let satisfied_by = table.text(report, "satisfied_by");
    let satisfied_by = satisfied_by.and_then(|text| pattern(report, "satisfied_by", &text));
    let guards = table.text(report, "guards");
    let guards = guards.and_then(|text| pattern(report, "guards", &text));
    let edit = Edit {
        files,
        if_absent,
        absent_in,
        anchor: anchor?,
        expect: expect?,
        op: op?,
        already,
        satisfied_by,
        guards,
    };
    if report.len() == before {
        check_edit(report, table, &edit);
    }
    Some(edit)
}

fn expect(
    report: &mut Report<'_>,
    table: &Table<'_>,
    versions: Option<&VersionRange>,
) -> Option<Expect> {
    if !table.is_table("expect") {
        if !table.has("expect") {
            table.add_missing(report, "expect", "expect = 1");
        }
        let count = table.integer(report, "expect")?;
        let count = checked_count(report, table, count)?;
        return Some(Expect(vec![(VersionRange::all(), count)]));
    }
    let counts = table.table(report, "expect", "`expect`")?;
    let mut parts = Vec::new();
    for (range, count) in counts.numbers(report) {
        let range = parsed::<VersionRange>(report, &range);
        let count = checked_count(report, table, count);
        parts.push((range?, count?));
    }
    let versions = versions?;
    let ranges: Vec<&VersionRange> = parts.iter().map(|(range, _)| range).collect();
    let fault = if ranges.is_empty() {
        Some("it contains no count".to_owned())
    } else {
        versions.division_fault(&ranges)
    };
    if let Some(fault) = fault {
        let help = format!(
            "together, the ranges must cover `{versions}`, with each version in exactly one of them"
        );
        report.add(&counts.span, format!("`expect` is incomplete or contradictory: {fault}"), help);
        return None;
    }
    Some(Expect(parts))
}

fn checked_count(report: &mut Report<'_>, table: &Table<'_>, count: i64) -> Option<usize> {
    let checked = usize::try_from(count).ok().filter(|_| (1..=MAX_COUNT).contains(&count));
    if checked.is_none() {
        let message =
            format!("`expect` contains `{count}`, but a count must be from 1 to {MAX_COUNT}");
        report.add(&table.span_of("expect"), message, "write how often the anchor matches");
    }
    checked
}

fn op(report: &mut Report<'_>, table: &Table<'_>) -> Option<Op> {
    let ops: [(&str, &[&str]); 5] = [
        ("list-append", &["item", "sep"]),
        ("list-prepend", &["item", "sep"]),
        ("insert-before", &["text"]),
        ("insert-after", &["text"]),
        ("replace-capture", &["with"]),
    ];
    if !table.has("op") {
        table.add_missing(report, "op", "op = \"list-append\"");
    }
    let op = table.text(report, "op")?;
    let Some((name, keys)) = ops.iter().find(|(name, _)| *name == op.value) else {
        add_choice(report, "op", &op, &ops.map(|(name, _)| name));
        return None;
    };
    for key in ["item", "sep", "text", "with"] {
        match (keys.contains(&key), table.has(key)) {
            (true, false) => table.add_missing(report, key, &format!("{key} = \"…\"")),
            (false, true) => {
                let message = format!("`{key}` has no meaning for `{name}`");
                report.add(
                    &table.span_of(key),
                    message,
                    format!("remove it; `{name}` takes {}", list(keys)),
                );
            }
            _ => {}
        }
    }
    let mut value = |key: &str| {
        let text = table.text(report, key)?;
        placeholders_ok(report, key, &text).then(|| text.value.to_owned())
    };
    match *name {
        "list-append" => Some(Op::ListAppend(Item { item: value("item")?, sep: value("sep")? })),
        "list-prepend" => Some(Op::ListPrepend(Item { item: value("item")?, sep: value("sep")? })),
        "insert-before" => Some(Op::InsertBefore(Lines { text: value("text")? })),
        "insert-after" => Some(Op::InsertAfter(Lines { text: value("text")? })),
        _ => Some(Op::ReplaceCapture(Replacement { with: value("with")? })),
    }
}

/// Checks everything that can be checked without a file: groups, second runs, counts.
fn check_edit(report: &mut Report<'_>, table: &Table<'_>, edit: &Edit) {
    let gpu = sample_gpu();
    let compiled = |source: &str| Pattern::new(&fill(source, &gpu)).ok();
    let anchor_span = table.span_of("anchor");
    if matches_nothing(&fill(&edit.anchor, &gpu)) {
        let message = format!("the anchor {} also matches the empty string", quote(&edit.anchor));
        report.add(&anchor_span, message, "an anchor must match some text at the place it finds");
    }
    let group = match &edit.op {
        Op::ListAppend(_) | Op::ListPrepend(_) => Some("list"),
        Op::ReplaceCapture(_) => Some("value"),
        Op::InsertBefore(_) | Op::InsertAfter(_) => None,
    };
    if let Some(group) = group
        && compiled(&edit.anchor).is_some_and(|anchor| !anchor.has_group(group))
    {
        let message = format!("the anchor {} has no group `{group}`", quote(&edit.anchor));
        report.add(&anchor_span, message, format!("put the part to change in `(?P<{group}>…)`"));
    }
    match &edit.op {
        Op::ListAppend(item) | Op::ListPrepend(item) => {
            if item.sep.trim().is_empty() {
                let message = format!("the separator {} is blank", quote(&item.sep));
                report.add(
                    &table.span_of("sep"),
                    message,
                    "a separator needs at least one character that is not blank",
                );
            } else if item.item.contains(item.sep.trim()) {
                let message = format!("the item {} contains the separator", quote(&item.item));
                report.add(&table.span_of("item"), message, "add one item per edit");
            }
        }
        Op::InsertBefore(lines) | Op::InsertAfter(lines) => {
            check_insert(report, table, edit, &lines.text);
        }
        Op::ReplaceCapture(_) => {}
    }
    if inserted(edit).len() > MAX_INSERT {
        let message = format!("the edit inserts `{}` bytes", inserted(edit).len());
        report.add(&table.span, message, format!("an edit can insert at most {MAX_INSERT} bytes"));
    }
}

fn check_insert(report: &mut Report<'_>, table: &Table<'_>, edit: &Edit, text: &str) {
    if edit.expect.0.iter().any(|(_, count)| *count != 1) {
        let message = "lines are inserted at one place, but `expect` allows more than one match";
        report.add(&table.span_of("expect"), message, "write `expect = 1`");
    }
    let Some(already) = &edit.already else {
        return table.add_missing(
            report,
            "already",
            "already = '''text that occurs only in the inserted lines'''",
        );
    };
    let gpu = sample_gpu();
    let is_found = Pattern::new(&fill(already, &gpu))
        .is_ok_and(|already| already.is_in(fill(text, &gpu).as_bytes()));
    if !is_found {
        let message = format!("`already` {} does not match the inserted text", quote(already));
        report.add(
            &table.span_of("already"),
            message,
            "a second run would insert the text again; match a word of `text`",
        );
    }
}

/// Returns the text that an edit inserts, for checks on the whole text.
fn inserted(edit: &Edit) -> &str {
    match &edit.op {
        Op::ListAppend(item) | Op::ListPrepend(item) => &item.item,
        Op::InsertBefore(lines) | Op::InsertAfter(lines) => &lines.text,
        Op::ReplaceCapture(replacement) => &replacement.with,
    }
}
