//! Tests the crate through its public functions.

mod behaviour;
mod editing;
mod malformed;
mod posts;
mod probes;
mod properties;
mod reading;
mod reports;
mod selection;
mod trees;
mod verdicts;

use std::collections::BTreeMap;

use names::{GpuTarget, Sha256};

use crate::{NoProbes, Outcome, Patch, PatchSet, Receipt, Subject, TreePath, apply, parse_patch};
use names::Version;

/// Returns a patch with `edits`.
fn patch_text(id: &str, edits: &str) -> String {
    format!(
        "schema = 1\nid = \"{id}\"\ncomponent = \"vllm\"\n\n[provenance]\ndescription = \"d\"\nauthor = \"a\"\n\
         origin = \"other\"\nforwarded = \"no\"\nlast_update = 2026-11-20\n\n[applies]\nversions = \"*\"\n\n{edits}"
    )
}

/// Appends the target to the list in `f`.
const APPEND: &str = "[[edit]]\nfiles = [\"f\"]\nanchor = '''^list = \"(?P<list>[^\"]*)\"$'''\nexpect = 1\n\
                      op = \"list-append\"\nitem = \"{gpu}\"\nsep = \";\"\n";

/// Replaces `on` with `off` in `f`.
const REPLACE: &str = "[[edit]]\nfiles = [\"f\"]\nanchor = '''^switch (?P<value>on|off)$'''\nexpect = 1\n\
                       op = \"replace-capture\"\nwith = \"off\"\n";

/// Inserts a line before `end` in `g`.
const INSERT: &str = "[[edit]]\nfiles = [\"g\"]\nanchor = '''^end$'''\nexpect = 1\nop = \"insert-before\"\n\
                      text = \"new line\"\nalready = '''^new line$'''\n";

fn patch(id: &str, edits: &str) -> Patch {
    parse_patch(id, &patch_text(id, edits)).unwrap_or_else(|error| panic!("{error}"))
}

fn set(patches: &[(&str, &str)]) -> PatchSet {
    PatchSet::new(patches.iter().map(|(id, edits)| patch(id, edits)).collect()).unwrap()
}

type Files = BTreeMap<TreePath, Vec<u8>>;

fn files(files: &[(&str, &[u8])]) -> Files {
    files.iter().map(|(path, bytes)| (path.parse().unwrap(), bytes.to_vec())).collect()
}

fn gpu() -> GpuTarget {
    "gfx1151".parse().unwrap()
}

/// Returns what patches are tried for in a pristine tree without a version.
fn unversioned<'a>(gpu: &'a GpuTarget, base: &'a BTreeMap<TreePath, Sha256>) -> Subject<'a> {
    Subject { gpu, version: None, build_env: None, is_pristine: true, base, receipts: &[] }
}

fn run(set: &PatchSet, tree: &Files, version: Option<&str>, receipts: &[Receipt]) -> Outcome {
    let version: Option<Version> = version.map(|version| version.parse().unwrap());
    let gpu = gpu();
    let base = BTreeMap::new();
    let subject = Subject {
        gpu: &gpu,
        version: version.as_ref(),
        build_env: None,
        is_pristine: receipts.is_empty(),
        base: &base,
        receipts,
    };
    apply(set, &subject, tree, &NoProbes)
}

fn patched(tree: &Files, outcome: &Outcome) -> Files {
    let mut tree = tree.clone();
    tree.extend(outcome.files.iter().map(|file| (file.path.clone(), file.new.clone())));
    tree
}

fn verdicts(outcome: &Outcome) -> Vec<String> {
    outcome.patches.iter().map(|patch| patch.verdict.to_string()).collect()
}
