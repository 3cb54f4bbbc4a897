//! Parses every patch file of the repository and runs the tests inside it.
#![expect(
    clippy::disallowed_methods,
    reason = "a test may read the directory with the patch files"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use patcher::{Patch, PatchSet, parse_patch, run_tests};

type Patches = Vec<(String, Patch)>;

fn patches() -> Result<Patches, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../patches");
    let mut patches = Vec::new();
    for component in std::fs::read_dir(root)? {
        let component = component?;
        for file in std::fs::read_dir(component.path())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            let patch = parse_patch(&name, &std::fs::read_to_string(file.path())?)?;
            assert_eq!(name, format!("{}.toml", patch.id), "the file name must match the patch id");
            assert_eq!(component.file_name().to_string_lossy(), patch.component);
            patches.push((name, patch));
        }
    }
    Ok(patches)
}

#[test]
fn the_tests_inside_every_patch_file_hold() {
    for (name, patch) in patches().unwrap() {
        assert!(patch.tests.len() >= 2, "{name} has too few tests");
        assert!(
            !patch.asserts.is_empty() && !patch.probes.is_empty(),
            "{name} lacks asserts or probes"
        );
        let failures: Vec<String> = run_tests(&patch).iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

#[test]
fn the_patches_of_a_component_make_a_set() {
    let mut components: BTreeMap<String, Vec<Patch>> = BTreeMap::new();
    for (_, patch) in patches().unwrap() {
        components.entry(patch.component.clone()).or_default().push(patch);
    }
    assert!(components.len() >= 7, "{:?}", components.keys());
    for (component, patches) in components {
        assert!(PatchSet::new(patches).is_ok(), "{component}");
    }
}
