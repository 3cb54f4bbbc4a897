//! Fuzzes registry responses, and the podman and docker files that configure requests.

use serde_json::Value;
use testkit::{Corpus, fuzz_some};

use super::support::Base;
use crate::credentials::CredentialFiles;
use crate::media::Document;
use crate::read_config;
use crate::registries_conf::RegistriesConf;

/// Byte sequences that are significant in JSON and TOML.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"true",
    b"1.5",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\\u0000",
    b"\\ud800",
    b"\\\"",
    b"\"auth\":\"a2ltOmE=\"",
    b"\"Digest\":",
    b"\"layers\":[],",
    b"\"credsStore\":\"none-such\",",
    b"a.example",
    b"\xc5\xbf",
    b"\xff",
    b"\n",
];

#[test]
fn fuzzed_documents_are_read_or_refused() {
    let [docker, oci] = [Base::docker(), Base::oci()];
    let index = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
    let inputs =
        [docker.manifest, oci.manifest, docker.config, oci.config].map(|one| one.to_string());
    let inputs = inputs.into_iter().chain([index.to_owned()]).map(String::into_bytes).collect();
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0020 }, |bytes, _| {
        runs += 1;
        if let Ok(config) = read_config(&bytes) {
            good += 1;
            // Writing it again gives a config with the same meaning.
            let text = Value::Object(config.clone()).to_string();
            assert_eq!(read_config(text.as_bytes()).expect(&text), config);
        }
        match Document::parse(&bytes, None) {
            Ok(_) => good += 1,
            Err(error) => assert!(error.to_string().len() < 400, "{error}"),
        }
    });
    assert!(good * 20 > runs, "only {good} of {runs} got through");
}

#[test]
fn fuzzed_credential_files_give_a_credential_or_an_error_without_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    let files = CredentialFiles { files: vec![file.clone()], helper_folders: Vec::new() };
    let image = "a.example/ns/repo".parse().unwrap();
    let inputs = [
        r#"{"auths":{"a.example":{"auth":"a2ltOmNhbmFyeQ=="}}}"#,
        r#"{"auths":{"https://a.example/v1/":{"username":"kim","password":"canary"}}}"#,
        r#"{"auths":{"a.example/ns":{"auth":"a2ltOmNhbmFyeQ==","identitytoken":"canary"},"b":null}}"#,
        r#"{"auths":{"a.example":{}},"credHelpers":{"b.example":"canary"},"HttpHeaders":{"a":"b"}}"#,
    ];
    let inputs = inputs.map(|text| text.as_bytes().to_vec()).into();
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0021 }, |bytes, _| {
        runs += 1;
        std::fs::write(&file, bytes).unwrap();
        match runtime.block_on(files.find(&image)) {
            Ok(found) => good += usize::from(found.is_some()),
            Err(error) => {
                let shown = format!("{error} {error:?}");
                // The name of a helper may be shown, because it is not a secret.
                let is_helper = shown.contains("Helper");
                assert!(is_helper || !shown.contains("canary"), "{shown}");
                assert!(!shown.contains("a2ltOmNhbmFyeQ"), "{shown}");
            }
        }
    });
    assert!(good * 50 > runs, "only {good} of {runs} got through");
}

#[test]
fn fuzzed_registries_conf_is_read_or_refused() {
    let inputs = [
        "unqualified-search-registries = [\"docker.io\"]\n[[registry]]\nprefix = \"*.a.example\"\nblocked = true\n",
        "[[registry]]\nprefix = \"docker.io/rocm\"\nlocation = \"h.example/m\"\n[[registry.mirror]]\nlocation = \"m.example:5000\"\ninsecure = true\npull-from-mirror = \"digest-only\"\n",
    ];
    let inputs = inputs.map(|text| text.as_bytes().to_vec()).into();
    let (mut good, mut runs) = (0, 0);
    fuzz_some(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0022 }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        let Ok(conf) = RegistriesConf::parse([("a.conf", text.as_ref())]) else { return };
        good += 1;
        for name in ["docker.io/rocm/vllm-dev", "x.a.example/b", "docker.io"] {
            if let Some(settings) = conf.find(name) {
                let moved = settings.relocate(name, &settings.location);
                assert!(
                    !moved.is_empty() && !moved.contains(char::is_control),
                    "{moved:?}: {text}"
                );
            }
        }
    });
    assert!(good * 20 > runs, "only {good} of {runs} got through");
}
