//! Images assembled from a base and sealed layers: the same config, whatever the engine wrote.

use names::{Digest, ImageEdit, Platform};
use serde_json::{Value, json};

use super::support::{Base, edit};
use crate::{AssembleError, DerivedImage, NewLayer, assemble};

fn new_layers() -> Vec<NewLayer> {
    ["apt-get install", "COPY tree"]
        .map(|line| NewLayer {
            diff_id: Digest::of(line.as_bytes()),
            digest: Digest::of(format!("gzip {line}").as_bytes()),
            size: line.len() as u64,
            created_by: line.to_owned(),
        })
        .to_vec()
}

fn plain() -> ImageEdit {
    ImageEdit { env: [].into(), entrypoint_prefix: Vec::new(), ..edit() }
}

/// Returns what an engine wrote: the base's layers, its own above them, and `config`.
fn built(base: &Base, config: Value, more: Value) -> Value {
    let mut diff_ids = base.config["rootfs"]["diff_ids"].clone();
    diff_ids.as_array_mut().unwrap().push(json!("sha256:unsealed"));
    let mut built = json!({
        "config": config,
        "created": "2026-06-01T01:02:03.456Z",
        "history": [{ "created_by": "/bin/sh -c #(nop)" }],
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    built.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    built
}

fn try_assemble(
    base: &Base,
    built: &Value,
    edit: &ImageEdit,
) -> Result<DerivedImage, AssembleError> {
    let (manifest, config) = (base.manifest(), base.config_bytes());
    assemble(
        crate::Base { manifest: &manifest, config: &config },
        &Platform::linux_amd64(),
        built.to_string().as_bytes(),
        &new_layers(),
        edit,
    )
}

/// Returns the same image as podman, docker's classic builder and BuildKit describe it.
fn engines(base: &Base) -> [Value; 3] {
    let podman = json!({
        "Env": ["PATH=/bin", "A=1"], "Cmd": ["/run"], "WorkingDir": "/srv", "User": "7",
        "ExposedPorts": { "80/tcp": {} }, "Volumes": { "/data": {} },
        "Labels": { "io.buildah.version": "1.28.2", "com.example.kept": "yes" },
    });
    let classic = json!({
        "Hostname": "abc", "Domainname": "", "User": "7", "AttachStdin": false, "Tty": false,
        "ExposedPorts": { "80/tcp": {} }, "Volumes": { "/data": {} }, "OnBuild": null,
        "Env": ["PATH=/bin", "A=1"], "Cmd": ["/run"], "Image": "sha256:abc", "Entrypoint": null,
        "WorkingDir": "/srv", "Labels": { "com.example.kept": "yes" },
    });
    let buildkit = json!({
        "Labels": { "com.example.kept": "yes" }, "Volumes": { "/data": {} }, "Entrypoint": [],
        "Env": ["PATH=/bin", "A=1"], "WorkingDir": "/srv", "Cmd": ["/run"], "User": "7",
        "ExposedPorts": { "80/tcp": {} }, "ArgsEscaped": true, "OnBuild": null, "StopSignal": "",
    });
    [
        built(base, podman, json!({ "os": "linux", "architecture": "amd64" })),
        built(
            base,
            classic,
            json!({ "container": "abc", "container_config": {}, "docker_version": "20.10" }),
        ),
        built(base, buildkit, json!({ "moby.buildkit.buildinfo.v1": "e30=" })),
    ]
}

#[test]
fn all_engines_give_one_image() {
    for base in [Base::docker(), Base::oci()] {
        let [one, two, three] =
            engines(&base).map(|built| try_assemble(&base, &built, &plain()).unwrap());
        assert_eq!(one, two);
        assert_eq!(one, three);
    }
}

/// If this changes, the contract has changed: call it `seal/2`.
#[test]
fn the_config_and_manifest_of_seal_1() {
    let base = Base::docker();
    let image = try_assemble(&base, &engines(&base)[0], &edit()).unwrap();
    let pretty = |bytes: &[u8]| {
        let value: Value = serde_json::from_slice(bytes).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    };
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}\n{}",
        image.config_digest,
        pretty(&image.config),
        image.manifest_digest,
        pretty(&image.manifest)
    ));
}

#[test]
fn nothing_said_is_no_key() {
    let base = Base::docker();
    let empty = built(&base, json!({ "Labels": { "io.buildah.version": "1" } }), json!({}));
    let edit = ImageEdit { labels: [].into(), ..plain() };
    let image = try_assemble(&base, &empty, &edit).unwrap();
    let config: Value = serde_json::from_slice(&image.config).unwrap();
    assert_eq!(config["config"], json!({}));
    let null = built(&base, Value::Null, json!({}));
    assert_eq!(try_assemble(&base, &null, &edit).unwrap(), image);
}

#[test]
fn an_image_on_another_base_is_refused() {
    let base = Base::docker();
    let mut other = engines(&base)[0].clone();
    other["rootfs"]["diff_ids"][1] = json!("sha256:other");
    let error = try_assemble(&base, &other, &plain()).unwrap_err();
    let wanted = base.config["rootfs"]["diff_ids"][1].as_str().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "the built image is not based on the pinned base: its layer 2 is `sha256:other`, not \
             `{wanted}`; rebuild without caches"
        )
    );
    other["rootfs"]["diff_ids"] = json!([]);
    let error = try_assemble(&base, &other, &plain()).unwrap_err();
    assert!(matches!(error, AssembleError::NotOnBase { layer: 1, .. }), "{error}");
}
