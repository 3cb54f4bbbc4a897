//! Fuzzes patch files: every input is refused or applied, all or nothing, and quickly.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the corpus is the project's patch files; a test may read them, or fail"
)]

use std::collections::BTreeMap;
use std::path::Path;

use patcher::{NoProbes, PatchSet, Subject, TreePath, apply, parse_patch, revert};
use testkit::{Corpus, fuzz_part, runs};

/// Bytes that have a meaning in patch files.
const WORDS: [&[u8]; 30] = [
    b"\n[[edit]]\n",
    b"\n[[assert]]\n",
    b"\n[[test]]\n",
    b"'''",
    b"\"",
    b"= ",
    b"{gpu}",
    b"{gpu_number}",
    b"{",
    b"}",
    b"(?P<list>",
    b"(?P<value>",
    b"(?s:.*)",
    b"(?:(?:a*)*)*",
    b"{1000}",
    b"{50}{50}",
    b"\\b",
    b"[^a]",
    b"[^",
    b".*",
    b"|",
    b"$",
    b"^",
    b"../",
    b"list-prepend",
    b"insert-after",
    b"expect = 0\n",
    b">=0.1, <",
    b"\xc3\xbc",
    b"\r\n",
];

/// Each input compiles about twenty patterns, so two halves run in parallel.
#[test]
fn fuzzed_patch_files_are_refused_or_applied_whole() {
    run(0x5eed_0007);
}

#[test]
fn fuzzed_patch_files_are_refused_or_applied_whole_the_other_half() {
    run(0x5eed_0008);
}

fn run(seed: u64) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../patches");
    let mut inputs = Vec::new();
    let mut tree: BTreeMap<TreePath, Vec<u8>> = BTreeMap::new();
    for component in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(component.unwrap().path()).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let patch = parse_patch("patch.toml", &text).unwrap();
            for (path, given) in patch.tests.iter().flat_map(|test| &test.given) {
                tree.entry(path.clone()).or_default().extend_from_slice(given.as_bytes());
            }
            // One test is enough for syntax mutations; more tests would make up most of the text.
            let parts: Vec<&str> = text.split_inclusive("\n\n[[test]]\n").collect();
            let text = parts[..parts.len().min(2)].concat();
            inputs.push(text.trim_end_matches("[[test]]\n").as_bytes().to_vec());
        }
    }
    inputs.sort();
    let (gpu, base) = ("gfx1151".parse().unwrap(), BTreeMap::new());
    let subject = Subject {
        gpu: &gpu,
        version: None,
        build_env: None,
        is_pristine: true,
        base: &base,
        receipts: &[],
    };
    let (mut good, mut applied) = (0, 0);
    fuzz_part(&Corpus { inputs, words: &WORDS, seed }, runs() / 2, |bytes, _| {
        let text = String::from_utf8_lossy(&bytes);
        let Ok(mut patch) = parse_patch("patch.toml", &text) else { return };
        good += 1;
        patch.relations.requires.clear();
        let outcome = apply(&PatchSet::new(vec![patch]).unwrap(), &subject, &tree, &NoProbes);
        assert!(
            outcome.ok || outcome.files.is_empty(),
            "only a part was applied: {:?}",
            outcome.patches
        );
        let Some(receipt) = outcome.receipt() else { return };
        applied += 1;
        let mut patched = tree.clone();
        for file in &outcome.files {
            assert_eq!(tree.get(&file.path), Some(&file.old));
            patched.insert(file.path.clone(), file.new.clone());
        }
        for (path, bytes) in revert(&receipt, &patched).unwrap() {
            assert_eq!(tree.get(&path), Some(&bytes));
        }
    });
    assert!(good > runs() / 20 && applied > runs() / 200, "{good} were patches, {applied} applied");
}
