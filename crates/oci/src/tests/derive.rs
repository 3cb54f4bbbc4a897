//! The contract `derive/1`: golden digests, and a table for every rule.

use names::{ImageEdit, Platform};
use serde_json::{Map, Value, json};

use super::support::{Base, edit};
use crate::{DeriveError, DerivedImage, derive, native_gpus};

fn config(image: &DerivedImage) -> Value {
    serde_json::from_slice(&image.config).unwrap()
}

fn manifest(image: &DerivedImage) -> Value {
    serde_json::from_slice(&image.manifest).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Returns the docker base with one change to its config.
fn docker_with(change: impl FnOnce(&mut Value)) -> Base {
    let mut base = Base::docker();
    change(&mut base.config);
    base
}

fn inner_of(change: impl FnOnce(&mut Map<String, Value>)) -> Value {
    let base = docker_with(|config| change(config["config"].as_object_mut().unwrap()));
    config(&base.derived())["config"].take()
}

/// If one of these digests changes, the contract has changed: call it `derive/2`, keep `derive/1`
/// for images that carry its name, and describe the change in the changelog. Never edit only the
/// digests.
#[test]
fn the_golden_digests_of_derive_1() {
    for (base, config, manifest) in [
        (
            Base::docker(),
            "cbaf5161f465317ab19390238a2f5f7ca47ee4f9273ffd06af4ffb9111c37063",
            "762d1b5330526781acf9cda578d9da5c365fbc3d5b814b3f67ca71136ea11977",
        ),
        (
            Base::oci(),
            "d3415e132c0f8b1a3f7853062272716a1507b22086940d2c7ee11fb0fd42508d",
            "294f5ae8d4c43ac4b557112dc5318b994308c371e4295644fec491a322c0b5ef",
        ),
    ] {
        let image = base.derived();
        assert_eq!(
            (image.config_digest.hex(), image.manifest_digest.hex()),
            (config, manifest),
            "{}\n{}",
            String::from_utf8_lossy(&image.config),
            String::from_utf8_lossy(&image.manifest)
        );
        assert_eq!(image, base.derived());
    }
}

#[test]
fn keys_keep_their_order_and_unknown_ones_stay() {
    let docker = config(&Base::docker().derived());
    assert_eq!(keys(&docker), ["architecture", "config", "created", "history", "os", "rootfs"]);
    let inner = ["User", "Env", "Cmd", "WorkingDir", "Entrypoint", "OnBuild", "Labels"];
    assert_eq!(keys(&docker["config"]), inner);
    let oci = config(&Base::oci().derived());
    assert_eq!(
        keys(&oci),
        [
            "os",
            "created",
            "rootfs",
            "config",
            "architecture",
            "variant",
            "history",
            "moby.buildkit.x"
        ]
    );
    assert_eq!(oci["moby.buildkit.x"], Base::oci().config["moby.buildkit.x"]);
    assert_eq!(keys(&oci["moby.buildkit.x"]), ["z", "a"]);
    for (key, value) in [
        ("Healthcheck", json!({ "Test": ["CMD", "x"], "Interval": 30_000_000_000_i64 })),
        ("Shell", json!(["/bin/bash", "-c"])),
        ("OnBuild", json!(["RUN x"])),
        ("StopSignal", json!("SIGINT")),
        ("ArgsEscaped", json!(true)),
        ("com.example", json!({ "b": 1, "a": null })),
    ] {
        let inner = inner_of(|inner| drop(inner.insert(key.to_owned(), value.clone())));
        assert_eq!(inner[key].to_string(), value.to_string());
    }
}

#[test]
fn what_names_the_container_of_the_base_is_dropped() {
    let (config, inner) = (config(&Base::docker().derived()), inner_of(|_| ()));
    for key in ["container", "container_config", "docker_version"] {
        assert_eq!(config.get(key), None);
    }
    for key in ["Hostname", "Domainname", "Image"] {
        assert_eq!(inner.get(key), None);
    }
}

#[test]
fn env_is_set_in_place_and_new_variables_follow_sorted() {
    let new = ["NEW_A=1=1", "NEW_B=2"];
    for (base, wanted) in [
        (json!(["A=1", "SET=x", "B=2"]), vec!["A=1", "SET=by the edit", "B=2"]),
        (json!(["SET", "B=2"]), vec!["SET=by the edit", "B=2"]),
        (json!(["SETTER=1", "set=2"]), vec!["SETTER=1", "set=2"]),
        // Runtimes disagree on which of the two counts, so only one may remain.
        (json!(["SET=1", "B=2", "SET=3"]), vec!["SET=by the edit", "B=2"]),
        // Variables that the edit does not set stay unchanged.
        (json!(["B=1", "SET=1", "B=2"]), vec!["B=1", "SET=by the edit", "B=2"]),
        (json!([]), vec![]),
        (Value::Null, vec![]),
    ] {
        let inner = inner_of(|inner| drop(inner.insert("Env".to_owned(), base.clone())));
        let mut wanted = wanted;
        if !wanted.iter().any(|entry| entry.starts_with("SET=")) {
            wanted.extend(new);
            wanted.push("SET=by the edit");
        } else {
            wanted.extend(new);
        }
        assert_eq!(inner["Env"], json!(wanted), "{base}");
    }
    let none = ImageEdit { env: Default::default(), ..edit() };
    for base in [None, Some(Value::Null), Some(json!([]))] {
        let base = docker_with(|config| match base {
            Some(env) => config["config"]["Env"] = env,
            None => drop(config["config"].as_object_mut().unwrap().shift_remove("Env")),
        });
        let derived = config(&base.derive_with(&none).unwrap());
        assert_eq!(derived["config"].get("Env"), base.config["config"].get("Env"));
    }
}

#[test]
fn the_entrypoint_gets_the_words_in_front() {
    let ours = ["/bin/sh", "-c", "script", "name"];
    for (base, wanted) in [
        (Value::Null, vec![]),
        (json!([]), vec![]),
        (json!(["/entry"]), vec!["/entry"]),
        (json!(["/entry", "a b", ""]), vec!["/entry", "a b", ""]),
        (json!(["/bin/sh", "-c", "other"]), vec!["/bin/sh", "-c", "other"]),
        // A base made by this tool already has them.
        (json!(["/bin/sh", "-c", "script", "name", "/entry"]), vec!["/entry"]),
    ] {
        let inner = inner_of(|inner| drop(inner.insert("Entrypoint".to_owned(), base.clone())));
        let wanted: Vec<_> = ours.into_iter().chain(wanted).collect();
        assert_eq!(inner["Entrypoint"], json!(wanted), "{base}");
        assert_eq!(inner["Cmd"], json!(["/bin/bash"]));
    }
    let absent = inner_of(|inner| drop(inner.shift_remove("Entrypoint")));
    assert_eq!(absent["Entrypoint"], json!(ours));
    // If the edit has no words, the entrypoint stays unchanged, whatever it is.
    let plain = ImageEdit { entrypoint_prefix: Vec::new(), ..edit() };
    for base in [Value::Null, json!([]), json!(["/entry"])] {
        let base = docker_with(|config| config["config"]["Entrypoint"] = base);
        let derived = config(&base.derive_with(&plain).unwrap());
        assert_eq!(derived["config"]["Entrypoint"], base.config["config"]["Entrypoint"]);
    }
}

#[test]
fn labels_that_would_lie_are_reset_and_named() {
    let ours = json!({
        "architecture": "x86_64",
        "io.github.build-pipeline.plan-digest": "sha256:plan",
        "io.github.build-pipeline.track": "locked-spoof",
    });
    let with_kept = |extra: Value| {
        let mut all: std::collections::BTreeMap<String, Value> =
            serde_json::from_value(ours.clone()).unwrap();
        all.extend(serde_json::from_value::<Map<String, Value>>(extra).unwrap());
        json!(all)
    };
    for (base, wanted, reset) in [
        (Value::Null, ours.clone(), vec![]),
        (json!({}), ours.clone(), vec![]),
        (json!({ "z": "1", "a": "2" }), with_kept(json!({ "z": "1", "a": "2" })), vec![]),
        (
            json!({ "vendor": "v", "org.opencontainers.image.ref.name": "ubuntu", "vendors": "x" }),
            with_kept(json!({ "vendors": "x" })),
            vec!["org.opencontainers.image.ref.name", "vendor"],
        ),
        // This includes a label of this tool that the image does not set.
        (
            json!({ "io.github.build-pipeline.overrides": "x", "architecture": "arm64" }),
            ours.clone(),
            vec!["architecture", "io.github.build-pipeline.overrides"],
        ),
    ] {
        let base = docker_with(|config| config["config"]["Labels"] = base);
        let image = base.derived();
        let found = config(&image)["config"]["Labels"].take();
        // Compared as text, because the order matters.
        assert_eq!(found.to_string(), wanted.to_string());
        assert_eq!(image.reset, reset);
        assert_eq!(manifest(&image)["annotations"].to_string(), ours.to_string());
    }
    let image = Base::oci().derived();
    assert_eq!(
        manifest(&image)["annotations"].to_string(),
        with_kept(json!({ "com.example.kept": "yes" })).to_string()
    );
    // Dropped as a label and as an annotation; each name is listed once.
    let reset = ["org.opencontainers.image.created", "org.opencontainers.image.version"];
    assert_eq!(image.reset, reset);
}

#[test]
fn history_and_created_carry_the_edits_time() {
    let ours = json!({
        "created": "2027-01-15T08:00:00Z",
        "created_by": "build-pipeline derive/1: a test",
        "empty_layer": true,
    });
    let first = Base::docker().config["history"][0].clone();
    for (base, wanted) in [
        (Some(json!([first])), json!([first, ours])),
        (Some(json!([])), json!([ours])),
        (Some(Value::Null), json!([ours])),
        (None, json!([ours])),
    ] {
        let base = docker_with(|config| match base {
            Some(history) => config["history"] = history,
            None => drop(config.as_object_mut().unwrap().shift_remove("history")),
        });
        let derived = config(&base.derived());
        assert_eq!(derived["history"].to_string(), wanted.to_string());
        assert_eq!(derived["created"], "2027-01-15T08:00:00Z");
    }
}

#[test]
fn a_base_without_a_config_section_gets_one() {
    for missing in [true, false] {
        let base = docker_with(|config| {
            if missing {
                drop(config.as_object_mut().unwrap().shift_remove("config"));
            } else {
                config["config"] = Value::Null;
            }
        });
        let derived = config(&base.derived());
        assert_eq!(keys(&derived["config"]), ["Env", "Entrypoint", "Labels"]);
    }
}

#[test]
fn layers_stay_digest_for_digest_under_the_oci_name_of_their_type() {
    let oci = "application/vnd.oci.image.layer.v1.tar";
    for (base, wanted) in [
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", format!("{oci}+gzip")),
        ("application/vnd.docker.image.rootfs.diff.tar.zstd", format!("{oci}+zstd")),
        ("application/vnd.docker.image.rootfs.diff.tar", oci.to_owned()),
        (&*format!("{oci}+gzip"), format!("{oci}+gzip")),
        (&*format!("{oci}+zstd"), format!("{oci}+zstd")),
        (oci, oci.to_owned()),
    ] {
        let mut docker = Base::docker();
        docker.manifest["layers"][0]["mediaType"] = json!(base);
        let image = docker.derived();
        let mut expected = docker.manifest["layers"][0].clone();
        expected["mediaType"] = json!(wanted);
        // Compared as text: a descriptor keeps its keys and their order.
        assert_eq!(manifest(&image)["layers"][0].to_string(), expected.to_string());
        assert_eq!(image.layers[0].media_type, wanted);
    }
    let oci = Base::oci();
    let derived = manifest(&oci.derived());
    assert_eq!(derived["layers"].to_string(), oci.manifest["layers"].to_string());
    assert_eq!(derived["mediaType"], crate::media::OCI_MANIFEST);
    assert_eq!(derived["config"]["mediaType"], crate::media::OCI_CONFIG);
    assert_eq!(keys(&derived), ["schemaVersion", "mediaType", "config", "layers", "annotations"]);
}

#[test]
fn a_base_that_cannot_be_derived_from_is_refused() {
    let at = |pointer: &'static str, value: Value| {
        move |base: &mut Base| *base.config.pointer_mut(pointer).unwrap() = value
    };
    let layer = |media_type: &'static str| {
        move |base: &mut Base| base.manifest["layers"][2]["mediaType"] = json!(media_type)
    };
    type Change = Box<dyn FnOnce(&mut Base)>;
    let cases: Vec<(Change, &str)> = vec![
        (Box::new(|base| base.config = json!([])), "`(the document)` is an array, not an object"),
        (Box::new(at("/os", json!(1))), "key `os` is a number, not a string"),
        (Box::new(at("/architecture", Value::Null)), "no valid `architecture`"),
        (Box::new(at("/architecture", json!("arm64"))), "for linux/arm64, not for linux/amd64"),
        (Box::new(at("/os", json!("windows"))), "for windows/amd64, not for linux/amd64"),
        (Box::new(at("/rootfs", json!({}))), "no valid `rootfs.diff_ids`"),
        (
            Box::new(at("/rootfs/diff_ids", json!("x"))),
            "`rootfs.diff_ids` is a string, not an array",
        ),
        (Box::new(at("/rootfs/diff_ids", json!([]))), "lists 0 layers, but its manifest lists 3"),
        (
            Box::new(at("/rootfs/diff_ids", json!(["1", "2", "3", "4"]))),
            "lists 4 layers, but its manifest lists 3",
        ),
        (Box::new(at("/config", json!([]))), "`config` is an array, not an object"),
        (
            Box::new(at("/config/Entrypoint", json!("/entry"))),
            "`config.Entrypoint` is a string, not an array",
        ),
        (Box::new(at("/config/Env", json!({}))), "`config.Env` is an object, not an array"),
        (Box::new(at("/config/Env", json!([1]))), "`config.Env[0]` is a number, not a string"),
        (Box::new(at("/config/Labels", json!([]))), "`config.Labels` is an array, not an object"),
        (Box::new(at("/history", json!({}))), "`history` is an object, not an array"),
        (
            Box::new(layer("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")),
            "foreign.diff.tar.gzip`, which is not supported",
        ),
        (
            Box::new(layer("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip")),
            "which is not supported",
        ),
        (Box::new(layer("application/vnd.in-toto+json")), "which is not supported"),
        (Box::new(layer("application/vnd.oci.image.layer.v1.tarball")), "is not supported"),
    ];
    let urls: Change = Box::new(|base| {
        base.manifest["layers"][1]["urls"] = json!(["https://example.com/layer"]);
    });
    let cases = cases.into_iter().chain([(urls, "has `urls`: other tools would fetch it")]);
    for (change, wanted) in cases {
        let mut base = Base::docker();
        change(&mut base);
        let error = base.derive_with(&edit()).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let told = format!("{error}: {}", cause.unwrap_or_default());
        assert!(told.contains(wanted), "{told}");
    }
    let base = Base::docker();
    let arm = Platform { os: "linux".to_owned(), architecture: "arm64".to_owned() };
    let labels = Default::default();
    let error = derive(&base.manifest(), &base.config_bytes(), &arm, &edit(), &labels).unwrap_err();
    assert!(matches!(error, DeriveError::Platform { .. }), "{error:?}");
    let error = derive(&base.manifest(), b"{", &arm, &edit(), &labels).unwrap_err();
    assert!(matches!(error, DeriveError::Document(_)), "{error:?}");
}

#[test]
fn an_image_by_this_tool_is_a_base_like_any_other() {
    let first = Base::docker().derived();
    let again = Base { manifest: manifest(&first), config: config(&first), ..Base::docker() };
    let second = again.derived();
    let (mut was, mut is) = (config(&first), config(&second));
    // The only difference is one more history entry.
    let history = is["history"].as_array_mut().unwrap();
    assert_eq!(history.len(), 3);
    assert_eq!(history.pop(), Some(was["history"][1].clone()));
    assert_eq!(is.to_string(), was.to_string());
    assert_eq!(second.layers, first.layers);
    let (mut was_manifest, mut is_manifest) = (manifest(&first), manifest(&second));
    was_manifest["config"].take();
    is_manifest["config"].take();
    assert_eq!(is_manifest.to_string(), was_manifest.to_string());
    // The second derivation drops the labels of the first one before it sets its own.
    assert_eq!(second.reset, {
        let ours = was["config"]["Labels"].take();
        let mut ours: Vec<_> = keys(&ours).into_iter().map(str::to_owned).collect();
        ours.retain(|key| key != "com.example.kept");
        ours
    });
}

#[test]
fn native_gpus_reads_the_list_that_counts() {
    for (env, wanted) in [
        (json!(["PYTORCH_ROCM_ARCH=gfx90a;gfx1100"]), vec!["gfx90a", "gfx1100"]),
        (json!(["PYTORCH_ROCM_ARCH=gfx90a gfx1100,gfx1151"]), vec!["gfx90a", "gfx1100", "gfx1151"]),
        (json!(["PYTORCH_ROCM_ARCH=gfx942:xnack+; gfx1151 ;"]), vec!["gfx942", "gfx1151"]),
        (json!(["PYTORCH_ROCM_ARCH=a", "PYTORCH_ROCM_ARCH=b"]), vec!["b"]),
        (json!(["PYTORCH_ROCM_ARCH="]), vec![]),
        (json!(["PYTORCH_ROCM_ARCH_X=a", "X=PYTORCH_ROCM_ARCH=a"]), vec![]),
        (json!([1, "PYTORCH_ROCM_ARCH=a"]), vec![]),
        (json!("PYTORCH_ROCM_ARCH=a"), vec![]),
    ] {
        let config = json!({ "config": { "Env": env } }).to_string();
        assert_eq!(native_gpus(config.as_bytes()), wanted, "{config}");
    }
    assert_eq!(native_gpus(b"not JSON"), Vec::<String>::new());
}
