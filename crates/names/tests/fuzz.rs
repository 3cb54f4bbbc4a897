//! Fuzzes names: every input is refused, or is printed in a spelling that parses to the same value.

use names::{Digest, GfxVersion, ImageRef, Version};
use testkit::{Corpus, fuzz_some};

/// Bytes that have a meaning in names.
const WORDS: [&[u8]; 24] = [
    b"/",
    b":",
    b"@",
    b"@sha256:",
    b"sha512:",
    b"..",
    b".",
    b"-",
    b"__",
    b"://",
    b"docker.io/",
    b"index.docker.io/",
    b"localhost",
    b":5000",
    b":99999",
    b"[::1]",
    b"user:secret@",
    b"A",
    b"rc1",
    b"+rocm7.2.1",
    b".post2",
    b"\xc3\xbc",
    b"\x1b[2J",
    b"\0",
];

const DIGEST: &str = "sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889";

fn inputs(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn fuzzed_image_references_have_one_spelling() {
    let whole = format!("docker.io/rocm/vllm-dev:nightly@{DIGEST}");
    let inputs = inputs(&[
        &whole,
        DIGEST,
        "docker.io/fedora:43",
        "ghcr.io/a/b_c.d-e:v1.2",
        "localhost:5000/x/y",
        "127.0.0.1:5000/a",
    ]);
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0010 }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(digest) = text.parse::<Digest>() {
            good += 1;
            assert_eq!(digest.as_str(), text);
            assert_eq!(digest.hex().len(), 64, "{text}");
        }
        let Ok(reference) = text.parse::<ImageRef>() else { return };
        good += 1;
        let spelt = reference.to_string();
        assert_eq!(spelt.parse(), Ok(reference.clone()), "{text}");
        assert!(spelt.bytes().all(|b| b.is_ascii_graphic()), "{text}");
        let repository = &reference.repository;
        assert!(repository.registry().contains(['.', ':', '[']) || spelt.starts_with("localhost/"));
        // A repository path must not leave the registry's root, and must not change the request.
        for part in repository.path().split('/') {
            assert!(!matches!(part, "" | "." | ".."), "{text}");
        }
        assert!(!repository.path().contains(['?', '#', '%', '@', ':', '\\']), "{text}");
        assert!(repository.registry() != "index.docker.io", "{text}");
    });
    assert!(good * 20 > runs, "only {good} of {runs} were accepted");
}

#[test]
fn fuzzed_versions_are_in_one_order() {
    let inputs = inputs(&[
        "0.10.2",
        "1!2.0.post3.dev4",
        "2.11.0+rocm7.14.0",
        "7.14.0a20260608",
        "11.5.1",
        "0.20.0rc3",
    ]);
    let (mut good, mut runs, mut last) = (0, 0, None::<Version>);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0011 }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(version) = text.parse::<GfxVersion>() {
            assert_eq!(version.to_string().parse(), Ok(version), "{text}");
        }
        let Ok(version) = text.parse::<Version>() else { return };
        good += 1;
        assert_eq!(version.as_str().parse(), Ok(version.clone()), "{text}");
        if let Some(last) = last.replace(version.clone()) {
            assert_eq!(version.cmp(&last), last.cmp(&version).reverse(), "{text} and {last}");
            assert_eq!(version == last, version.cmp(&last).is_eq(), "{text} and {last}");
        }
    });
    assert!(good * 20 > runs, "only {good} of {runs} were accepted");
}
