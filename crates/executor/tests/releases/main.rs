//! This project's patches on real release archives: verdicts compared with the recorded matrix, and
//! behaviour.
//!
//! The archives are fetched by hash with the code that builds use, into a cache outside the
//! checkout. If an archive is not available, its test fails. The matrix is `docs/patch-matrix.md`;
//! after a change, `INSTA_UPDATE=always` writes its parts again for review.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers may panic")]

mod archive;
mod behaviour;
mod matrix;

use std::collections::BTreeMap;

use pins::Pinned;

#[test]
fn verdicts_on_vllm_are_those_of_the_matrix() {
    matrix::check("vllm");
}

#[test]
fn verdicts_on_flash_attention_are_those_of_the_matrix() {
    matrix::check("flash-attention");
}

#[test]
fn verdicts_on_llama_cpp_are_those_of_the_matrix() {
    matrix::check("llama.cpp");
}

#[test]
fn verdicts_on_aiter_are_those_of_the_matrix() {
    matrix::check("aiter");
}

#[test]
fn the_list_is_as_long_as_it_should_be_and_agrees_with_the_pins() {
    let releases = testkit::releases();
    let of = |project: &str| releases.iter().filter(|one| one.project == project).count();
    assert!(releases.len() >= 30, "{}", releases.len());
    assert!(of("vllm") >= 14 && of("flash-attn") >= 6 && of("llama-cpp-python") >= 4);
    let hashes: BTreeMap<(&str, &str), &str> = releases
        .iter()
        .map(|one| ((one.project.as_str(), one.version.as_str()), one.sha256.as_str()))
        .collect();
    assert_eq!(hashes.len(), releases.len(), "a release is listed twice");
    let text = include_str!("../../../../versions/versions.toml");
    let pins = pins::parse_versions("versions.toml", text).unwrap();
    let mut found = 0;
    for (name, pin) in &pins.archives {
        if let Some(listed) = hashes.get(&(pin.project.as_str(), pin.version.as_str())) {
            assert_eq!(pin.sha256, Pinned::Resolved(listed.parse().unwrap()), "{name}");
            found += 1;
        }
    }
    assert!(found >= 5, "{found} of the pinned archives are in the list");
}
