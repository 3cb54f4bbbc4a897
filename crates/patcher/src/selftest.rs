//! Runs the tests inside a patch file.

use std::collections::BTreeMap;

use crate::engine::{Subject, apply};
use crate::probe::NoProbes;
use crate::spec::{Patch, PatchTest};
use crate::{PatchSet, TreePath};

/// A test of a patch file that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("test `{test}` of patch `{patch}`: {reason}")]
pub struct TestFailure {
    /// The patch.
    pub patch: String,
    /// The test.
    pub test: String,
    /// The reason.
    pub reason: String,
}

/// Runs the tests of a patch, without its probes. Returns all failures.
///
/// In addition to the test's own conditions, a second run on the result must find every change and
/// make none.
pub fn run_tests(patch: &Patch) -> Vec<TestFailure> {
    let failures = patch.tests.iter().filter_map(|test| {
        let reason = run_test(patch, test).err()?;
        Some(TestFailure { patch: patch.id.clone(), test: test.name.clone(), reason })
    });
    failures.collect()
}

fn run_test(patch: &Patch, test: &PatchTest) -> Result<(), String> {
    // The patch is tried alone; the patches it requires have their own tests.
    let mut patch = patch.clone();
    patch.relations.requires.clear();
    let set = PatchSet::new(vec![patch]).map_err(|error| error.to_string())?;
    let base = BTreeMap::new();
    let subject = Subject {
        gpu: &test.gpu,
        version: test.version.as_ref(),
        build_env: None,
        is_pristine: true,
        base: &base,
        receipts: &[],
    };
    let mut tree: BTreeMap<TreePath, Vec<u8>> =
        test.given.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    let outcome = apply(&set, &subject, &tree, &NoProbes);
    let verdict = &outcome.patches[0].verdict;
    if verdict.to_string() != test.verdict {
        return Err(format!(
            "the verdict is `{verdict}` ({}), expected `{}`",
            verdict.explain(),
            test.verdict
        ));
    }
    for file in &outcome.files {
        tree.insert(file.path.clone(), file.new.clone());
    }
    for (path, found) in &tree {
        let expected = test.then.get(path).or_else(|| test.given.get(path)).map(String::as_bytes);
        if expected != Some(found) {
            return Err(format!("`{path}` becomes:\n{}", String::from_utf8_lossy(found)));
        }
    }
    if let Some(path) = test.then.keys().find(|path| !tree.contains_key(path)) {
        return Err(format!("`{path}` is in `then`, but not in `given`"));
    }
    let second = apply(&set, &subject, &tree, &NoProbes);
    if outcome.ok && !(second.ok && second.files.is_empty()) {
        return Err(format!("the verdict of a second run is `{}`", second.patches[0].verdict));
    }
    Ok(())
}
