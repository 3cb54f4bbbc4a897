//! Reads everything except the edits and probes: provenance, versions, relations, tests.

use std::collections::BTreeMap;

use names::GpuTarget;

use super::values::{add_choice, choice, name, parsed, pattern, sample_gpu};
use crate::forms;
use crate::reader::{Report, Table, Text, list, quote};
use crate::spec::{Applies, IfPartial, Outside, PatchTest, Provenance, Relations, Then};
use crate::{TreePath, Verdict, VersionRange};
use names::Version;

pub(super) fn provenance(report: &mut Report<'_>, table: &Table<'_>) -> Option<Provenance> {
    table.check_form(report, &forms::PROVENANCE);
    let description =
        table.need_text(report, "description", "description = \"what it does and why\"");
    let author = table.need_text(report, "author", "author = \"build-pipeline maintainers\"");
    let origin = table.need_text(report, "origin", "origin = \"other\"");
    let origin = origin.filter(|origin| check_origin(report, origin));
    let bug = table.text(report, "bug");
    let forwarded = table.need_text(report, "forwarded", "forwarded = \"not-needed\"");
    let applied_upstream = table.text(report, "applied_upstream");
    let last_update = table.need_date(report, "last_update");
    let limits = table.text(report, "limits");
    let owned = |text: Text<'_>| text.value.to_owned();
    Some(Provenance {
        description: owned(description?),
        author: owned(author?),
        origin: owned(origin?),
        bug: bug.map(owned),
        forwarded: owned(forwarded?),
        applied_upstream: applied_upstream.map(owned),
        last_update: last_update?,
        limits: limits.map(owned),
    })
}

fn check_origin(report: &mut Report<'_>, origin: &Text<'_>) -> bool {
    let kinds = ["upstream", "backport", "vendor", "other"];
    let kind = origin.value.split(',').next().unwrap_or_default().trim();
    if kinds.contains(&kind) {
        return true;
    }
    let message = format!("{} is not an origin", quote(origin.value));
    report.add(
        &origin.span,
        message,
        format!("an origin starts with one of {}, followed by a comma and the place", list(&kinds)),
    );
    false
}

pub(super) fn applies(report: &mut Report<'_>, table: &Table<'_>) -> Option<Applies> {
    table.check_form(report, &forms::APPLIES);
    let versions = table.need_text(report, "versions", "versions = \">=0.9.0, <0.11.1\"");
    let versions = versions.and_then(|text| parsed::<VersionRange>(report, &text));
    let below = outside(report, table, "below", "`[applies.below]`");
    let above = outside(report, table, "above", "`[applies.above]`");
    let gpus = table.text(report, "gpus").and_then(|text| pattern(report, "gpus", &text));
    let rocm = table.text(report, "rocm");
    let rocm = rocm.and_then(|text| parsed::<VersionRange>(report, &text));
    let partial = [("refuse", IfPartial::Refuse), ("apply", IfPartial::Apply)];
    let if_partial = choice(report, table, "if_partial", &partial).unwrap_or(IfPartial::Refuse);
    let versions = versions?;
    let example = "{ then = \"expect-satisfied\", because = \"…\" }";
    for (key, is_bounded) in [("below", versions.has_lower()), ("above", versions.has_upper())] {
        match (is_bounded, table.has(key)) {
            (true, false) => table.add_missing(report, key, &format!("{key} = {example}")),
            (false, true) => {
                let message = format!(
                    "`{key}` is given, but the range `{versions}` has no bound on that side"
                );
                report.add(
                    &table.span_of(key),
                    message,
                    "remove it, or add the bound to the range",
                );
            }
            _ => {}
        }
    }
    Some(Applies { versions, below, above, gpus, rocm, if_partial })
}

fn outside(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
    place: &'static str,
) -> Option<Outside> {
    let table = table.table(report, key, place)?;
    table.check_form(report, &forms::OUTSIDE);
    if !table.has("then") {
        table.add_missing(report, "then", "then = \"expect-satisfied\"");
    }
    let thens = [
        ("skip", Then::Skip),
        ("leave-alone", Then::LeaveAlone),
        ("expect-satisfied", Then::ExpectSatisfied),
        ("refuse", Then::Refuse),
    ];
    let then = choice(report, &table, "then", &thens);
    let because = table.need_text(report, "because", "because = \"upstream since 0.11.1\"");
    Some(Outside { then: then?, because: because?.value.to_owned() })
}

pub(super) fn relations(report: &mut Report<'_>, table: &Table<'_>) -> Relations {
    table.check_form(report, &forms::RELATIONS);
    let mut ids = |key: &str| -> Vec<String> {
        let texts = table.texts(report, key, "vllm-paged-attention");
        texts.iter().filter_map(|text| name(report, text, "a patch id")).collect()
    };
    let (requires, conflicts) = (ids("requires"), ids("conflicts"));
    let order = table.integer(report, "order").unwrap_or(0);
    let environment = table.table(report, "build_env", "`[relations.build_env]`");
    let pairs = environment.map(|environment| environment.pairs(report)).unwrap_or_default();
    let build_env =
        pairs.iter().map(|(key, value)| (key.value.to_owned(), value.value.to_owned())).collect();
    Relations { requires, conflicts, order, build_env }
}

pub(super) fn test(report: &mut Report<'_>, table: &Table<'_>) -> Option<PatchTest> {
    table.check_form(report, &forms::TEST);
    let name = table.need_text(report, "name", "name = \"the list of 0.10.2\"");
    let version = table.text(report, "version").and_then(|text| parsed::<Version>(report, &text));
    let gpu = table.text(report, "gpu").map(|text| parsed::<GpuTarget>(report, &text));
    let gpu = gpu.unwrap_or_else(|| Some(sample_gpu()));
    let given = test_files(report, table, "given", "`[test.given]`");
    let verdict = table.need_text(report, "verdict", "verdict = \"applied(1)\"");
    if let Some(verdict) = &verdict {
        let verdict_name = verdict.value.split('(').next().unwrap_or_default();
        if !Verdict::NAMES.contains(&verdict_name) {
            let text = Text { value: verdict_name, span: verdict.span.clone() };
            add_choice(report, "verdict", &text, &Verdict::NAMES);
        }
    }
    let then = test_files(report, table, "then", "`[test.then]`");
    Some(PatchTest {
        name: name?.value.to_owned(),
        version,
        gpu: gpu?,
        given,
        verdict: verdict?.value.to_owned(),
        then,
    })
}

fn test_files(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
    place: &'static str,
) -> BTreeMap<TreePath, String> {
    let Some(table) = table.table(report, key, place) else { return BTreeMap::new() };
    let pairs = table.pairs(report);
    pairs
        .iter()
        .filter_map(|(path, text)| Some((parsed(report, path)?, text.value.to_owned())))
        .collect()
}
