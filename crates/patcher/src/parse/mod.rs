//! Reads a patch file.
//!
//! Start at [`parse_patch`]. `about` reads provenance, versions, relations and tests, `edit` reads
//! the edits, `probe` reads post-conditions and probes, and `values` reads the value types that
//! they share.

mod about;
mod edit;
mod probe;
mod values;

use pins::{ParseError, SECRET_HELP, secret_lines};

use crate::forms;
use crate::reader::{Report, Table, quote};
use crate::spec::{Patch, Probe};
use values::name;

/// The maximum number of edits, asserts, probes or tests in one patch.
const MAX_PARTS: usize = 64;

/// Parses the text of a patch file. Messages call it `file`.
///
/// # Errors
/// Returns all problems of the file, each with its position, the value and the correct form.
pub fn parse_patch(file: &str, text: &str) -> Result<Patch, ParseError> {
    parse(file, text, None)
}

/// The names that the path of a patch file implies: `patches/COMPONENT/ID.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchPlace<'a> {
    /// The name of the folder.
    pub component: &'a str,
    /// The name of the file, without `.toml`.
    pub id: &'a str,
}

/// Parses the text of a patch file like [`parse_patch`], and refuses an `id` or `component` that
/// differs from the path of the file. Builds find patches by path.
///
/// # Errors
/// Returns all problems of the file, each with its position, the value and the correct form.
pub fn parse_patch_at(file: &str, text: &str, place: PatchPlace<'_>) -> Result<Patch, ParseError> {
    parse(file, text, Some(place))
}

fn parse(file: &str, text: &str, place: Option<PatchPlace<'_>>) -> Result<Patch, ParseError> {
    let mut report = Report::new(file, text);
    let document = report.document();
    let patch = document.as_ref().and_then(|document| {
        let root = Table::root(&mut report, document)?;
        let patch = patch(&mut report, &root);
        if let (Some(place), Some(patch)) = (place, &patch) {
            check_place(&mut report, &root, patch, place);
        }
        // The new text gets into images, and the other texts into reports.
        for line in secret_lines(text) {
            report.add(&line, "this line contains a password or token", SECRET_HELP);
        }
        patch
    });
    report.finish(patch)
}

/// Compares the id and component of a patch with the path of its file.
fn check_place(report: &mut Report<'_>, root: &Table<'_>, patch: &Patch, place: PatchPlace<'_>) {
    if patch.id != place.id {
        let message =
            format!("the id is {}, but the file is called `{}.toml`", quote(&patch.id), place.id);
        let help = format!("rename the file to `{}.toml`, or change the id", patch.id);
        report.add(&root.span_of("id"), message, help);
    }
    if patch.component != place.component {
        let message = format!(
            "the component is {}, but the folder is called `{}`",
            quote(&patch.component),
            place.component
        );
        let help =
            format!("move the file to `patches/{}/`, or change the component", patch.component);
        report.add(&root.span_of("component"), message, help);
    }
}

fn patch(report: &mut Report<'_>, root: &Table<'_>) -> Option<Patch> {
    root.check_form(report, &forms::PATCH);
    let id = root.need_text(report, "id", "id = \"vllm-arch-list\"");
    let id = id.and_then(|id| name(report, &id, "a patch id"));
    let component = root.need_text(report, "component", "component = \"vllm\"");
    let component = component.and_then(|component| name(report, &component, "a component"));
    let provenance = need_table(report, root, "provenance", "`[provenance]`");
    let provenance = provenance.and_then(|table| about::provenance(report, &table));
    let applies = need_table(report, root, "applies", "`[applies]`");
    let applies = applies.and_then(|table| about::applies(report, &table));

    let edit_tables = parts(report, root, "edit", "`[[edit]]`");
    if edit_tables.is_empty() && !root.has("edit") {
        root.add_missing(report, "edit", "[[edit]]");
    }
    let versions = applies.as_ref().map(|applies| &applies.versions);
    let edits: Vec<_> =
        edit_tables.iter().filter_map(|table| edit::edit(report, table, versions)).collect();
    let assert_tables = parts(report, root, "assert", "`[[assert]]`");
    let asserts = assert_tables.iter().filter_map(|table| probe::assert(report, table)).collect();
    let probe_tables = parts(report, root, "probe", "`[[probe]]`");
    let probes: Vec<_> =
        probe_tables.iter().filter_map(|table| probe::probe(report, table)).collect();
    check_probe_names(report, &probes, &probe_tables);
    let relations = root.table(report, "relations", "`[relations]`");
    let relations = relations.map(|table| about::relations(report, &table)).unwrap_or_default();
    let test_tables = parts(report, root, "test", "`[[test]]`");
    let tests = test_tables.iter().filter_map(|table| about::test(report, table)).collect();

    let patch = Patch {
        id: id?,
        component: component?,
        provenance: provenance?,
        applies: applies?,
        edits,
        asserts,
        probes,
        relations,
        tests,
    };
    check_self_reference(report, root, &patch);
    Some(patch)
}

fn need_table<'t>(
    report: &mut Report<'_>,
    root: &Table<'t>,
    key: &str,
    place: &'static str,
) -> Option<Table<'t>> {
    if !root.has(key) {
        root.add_missing(report, key, place.trim_matches('`'));
    }
    root.table(report, key, place)
}

fn parts<'t>(
    report: &mut Report<'_>,
    root: &Table<'t>,
    key: &str,
    place: &'static str,
) -> Vec<Table<'t>> {
    let tables = root.tables(report, key, place);
    if tables.len() > MAX_PARTS {
        let message = format!("there are `{}` tables {place}", tables.len());
        report.add(
            &root.span_of(key),
            message,
            format!("at most {MAX_PARTS} are allowed; split the patch"),
        );
        return Vec::new();
    }
    tables
}

fn check_probe_names(report: &mut Report<'_>, probes: &[Probe], tables: &[Table<'_>]) {
    for (index, probe) in probes.iter().enumerate() {
        if probes[..index].iter().any(|other| other.name == probe.name) {
            let span = tables.get(index).map_or(0..0, |table| table.span_of("name"));
            report.add(
                &span,
                format!("two probes are called {}", quote(&probe.name)),
                "rename one of the two",
            );
        }
    }
}

fn check_self_reference(report: &mut Report<'_>, root: &Table<'_>, patch: &Patch) {
    let relations = &patch.relations;
    for (key, ids) in [("requires", &relations.requires), ("conflicts", &relations.conflicts)] {
        if ids.contains(&patch.id) {
            let message = format!("{} is listed in its own `{key}`", quote(&patch.id));
            report.add(&root.span_of("relations"), message, "remove it");
        }
    }
    for id in relations.requires.iter().filter(|id| relations.conflicts.contains(id)) {
        let message = format!("{} is in both `requires` and `conflicts`", quote(id));
        report.add(&root.span_of("relations"), message, "remove it from one of these lists");
    }
}
