//! Finds what podman had not finished when it was killed, in the files of containers/storage:
//! images, and layers for which it had not created an image yet.
//!
//! An unfinished image has a record but no name and no manifest. It cannot be used. As long as it
//! exists, `podman images --all` fails, while the API may leave it out.
//!
//! A stray layer is a layer that no image or container uses. podman does not list it, and while it
//! exists, the layers below it cannot be removed. To remove it, this tool creates an image for it
//! and removes both: see [`StrayLayer::archive`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use names::Digest;
use serde_json::{Value, json};

use crate::build::{ADOPTED_LABEL, BASE_LABEL, BASE_VALUE, RUN_LABEL};
use crate::client::EngineInfo;
use crate::probe;

/// The records of containers/storage.
struct Records {
    folder: PathBuf,
    images: Vec<Value>,
    /// The layers, by ID.
    layers: BTreeMap<String, Value>,
    containers: Vec<Value>,
}

impl Records {
    fn read(info: &EngineInfo) -> Self {
        let folder = |name: &str| info.storage_root.join(format!("{}-{name}", info.storage_driver));
        let images = folder("images");
        let layers = read_both(&folder("layers"), "layers").into_iter();
        Self {
            images: read(&images.join("images.json")),
            layers: layers.filter_map(|layer| Some((text(&layer, "id")?, layer))).collect(),
            containers: containers(info),
            folder: images,
        }
    }

    /// Returns the top layers of the complete images that have this tool's label, and those of the
    /// other complete images.
    fn layers_of_images(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
        for record in self.images.iter().filter(|record| has_manifest(record)) {
            let is_ours = text(record, "id").is_some_and(|id| has_our_label(&self.folder, &id));
            if is_ours { &mut ours } else { &mut others }.extend(text(record, "layer"));
        }
        (ours, others)
    }

    fn parent(&self, layer: &str) -> Option<String> {
        text(self.layers.get(layer)?, "parent")
    }
}

/// Returns the IDs of the unfinished images that belong to builds of this tool: they have its
/// label, or they are empty and were built on one of its images. Another run may be about to finish
/// one.
pub(crate) fn images(info: &EngineInfo) -> BTreeSet<String> {
    let records = Records::read(info);
    let (ours, others) = records.layers_of_images();
    let is_built_on_ours = |top: String| {
        // Steps between the image and the next complete one may be unfinished, too.
        let mut chain = std::iter::successors(Some(top.clone()), |layer| records.parent(layer));
        match chain.find(|layer| ours.contains(layer) || others.contains(layer)) {
            // Somebody else may have an image with the same layer as one of this tool's bases.
            Some(nearest) => ours.contains(&nearest),
            None => records.parent(&top).is_none(),
        }
    };
    let is_empty = |record: &Value, key: &str| record[key].as_array().is_none_or(Vec::is_empty);
    let is_ours = |record: &Value, id: &str| {
        has_our_label(&records.folder, id)
            || (is_empty(record, "big-data-names")
                && text(record, "layer").is_none_or(is_built_on_ours))
    };
    let images = records.images.iter();
    images
        .filter(|record| !has_manifest(record) && is_empty(record, "names"))
        .filter_map(|record| text(record, "id").filter(|id| is_ours(record, id)))
        .collect()
}

/// A layer of a build of this tool that no image and no container uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StrayLayer {
    /// The digest and size of each layer's tar, from the lowest layer up to this one.
    chain: Vec<(Digest, u64)>,
}

/// Returns the highest stray layers above images of this tool, and those of its probe. Another run,
/// or somebody else who builds, loads or pulls an image with the same base, may be about to create
/// an image for such a layer.
///
/// A layer that was pulled is left out: containers/storage records that it was compressed.
pub(crate) fn stray_layers(info: &EngineInfo) -> BTreeSet<StrayLayer> {
    let records = Records::read(info);
    let (ours, _) = records.layers_of_images();
    let mapped = |record: &Value| record["mapped-layers"].as_array().cloned().unwrap_or_default();
    let mapped = records.images.iter().flat_map(mapped);
    let mut used: BTreeSet<String> =
        mapped.filter_map(|layer| layer.as_str().map(str::to_owned)).collect();
    let users = records.images.iter().chain(&records.containers);
    used.extend(users.filter_map(|record| text(record, "layer")));
    let parents: BTreeSet<String> =
        records.layers.values().filter_map(|layer| text(layer, "parent")).collect();
    let is_stray = |id: &str| {
        let Some(layer) = records.layers.get(id) else { return false };
        !used.contains(id)
            && layer["names"].as_array().is_none_or(Vec::is_empty)
            && layer["compression"].as_i64().unwrap_or_default() == 0
            && layer["flags"]["incomplete"] != true
    };
    let is_ours = |id: &str| {
        let mut lowest = id.to_owned();
        // The layers of several steps may be stray.
        while let Some(parent) = records.parent(&lowest) {
            if !is_stray(&parent) {
                return ours.contains(&parent);
            }
            lowest = parent;
        }
        // The probe has no base.
        probe::is_in(&info.storage_root.join(&info.storage_driver).join(&lowest).join("diff"))
    };
    let highest = records.layers.keys().filter(|id| !parents.contains(*id));
    let stray = highest.filter(|id| is_stray(id) && is_ours(id));
    stray.filter_map(|id| chain(&records, id)).map(|chain| StrayLayer { chain }).collect()
}

/// Returns the layers from the lowest one to the given one, if an image that lists their digests
/// would use exactly these layers (`layerID` in containers/image's `storage/storage_dest.go`).
fn chain(records: &Records, top: &str) -> Option<Vec<(Digest, u64)>> {
    let mut chain = Vec::new();
    let mut next = Some(top.to_owned());
    while let Some(id) = next {
        let layer = records.layers.get(&id)?;
        let digest: Digest = text(layer, "diff-digest")?.parse().ok()?;
        next = text(layer, "parent");
        let wanted = match &next {
            None => digest.hex().to_owned(),
            Some(parent) => {
                let text = format!("{parent}+{}", digest.hex());
                Digest::of(text.as_bytes()).hex().to_owned()
            }
        };
        if id != wanted {
            return None;
        }
        chain.push((digest, layer["diff-size"].as_u64()?));
    }
    chain.reverse();
    Some(chain)
}

impl StrayLayer {
    /// Returns an OCI archive with an image of these layers, without their content: podman does not
    /// read the content of a layer that it has. If the image is removed, its layers are removed
    /// too, unless others use them. The image has this tool's label, and the current time.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        let digests: Vec<&Digest> = self.chain.iter().map(|(digest, _)| digest).collect();
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "created": jiff::Timestamp::now().to_string(),
            "config": { "Labels": { BASE_LABEL: BASE_VALUE, ADOPTED_LABEL: "true" } },
            "rootfs": { "type": "layers", "diff_ids": digests },
        })
        .to_string();
        let media_type = |name: &str| format!("application/vnd.oci.image.{name}");
        let layer = |(digest, size): &(Digest, u64)| json!({ "mediaType": media_type("layer.v1.tar"), "digest": digest, "size": size });
        let document = |name: &str, content: &str| {
            let digest = Digest::of(content.as_bytes());
            json!({ "mediaType": media_type(name), "digest": digest, "size": content.len() })
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type("manifest.v1+json"),
            "config": document("config.v1+json", &config),
            "layers": self.chain.iter().map(layer).collect::<Vec<_>>(),
        })
        .to_string();
        let index = json!({
            "schemaVersion": 2,
            "manifests": [document("manifest.v1+json", &manifest)],
        })
        .to_string();
        let blob = |content: &str| format!("blobs/sha256/{}", Digest::of(content.as_bytes()).hex());
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in [
            ("oci-layout".to_owned(), r#"{"imageLayoutVersion":"1.0.0"}"#),
            ("index.json".to_owned(), &index),
            (blob(&config), &config),
            (blob(&manifest), &manifest),
        ] {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, content.as_bytes())?;
        }
        archive.into_inner()
    }
}

/// Returns whether podman can read the image of a record.
fn has_manifest(record: &Value) -> bool {
    let names = record["big-data-names"].as_array();
    names.is_some_and(|names| names.iter().any(|name| name == "manifest"))
}

fn text(record: &Value, key: &str) -> Option<String> {
    record[key].as_str().map(str::to_owned)
}

/// Returns the records of all containers.
pub(crate) fn containers(info: &EngineInfo) -> Vec<Value> {
    let folder = format!("{}-containers", info.storage_driver);
    read_both(&info.storage_root.join(folder), "containers")
}

/// Reads records. Those that need not survive a crash of the machine, such as those of build
/// containers, are in a separate file.
fn read_both(folder: &Path, name: &str) -> Vec<Value> {
    let files = [format!("{name}.json"), format!("volatile-{name}.json")];
    files.iter().flat_map(|file| read(&folder.join(file))).collect()
}

fn read(path: &Path) -> Vec<Value> {
    let records = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&records).unwrap_or_default()
}

/// Returns whether the config of an image contains a label of this tool.
fn has_our_label(images: &Path, id: &str) -> bool {
    let name = base64::engine::general_purpose::STANDARD.encode(format!("sha256:{id}"));
    let config = std::fs::read(images.join(id).join(format!("={name}"))).unwrap_or_default();
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    let labels = &config["config"]["Labels"];
    [BASE_LABEL, RUN_LABEL].iter().any(|label| labels.get(label).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with records that a test writes.
    struct Store {
        folder: tempfile::TempDir,
        layers: Vec<Value>,
        images: Vec<Value>,
        containers: Vec<Value>,
    }

    impl Store {
        /// Returns a store with an image of this tool, and the layer of that image.
        fn new() -> (Self, String) {
            let folder = tempfile::tempdir().unwrap();
            let mut store = Self { folder, layers: vec![], images: vec![], containers: vec![] };
            let base = store.layer(None, b"base", &json!({ "compression": 2 }));
            store.image(&base, true);
            (store, base)
        }

        fn layer(&mut self, parent: Option<&str>, content: &[u8], more: &Value) -> String {
            let digest = Digest::of(content);
            let id = match parent {
                None => digest.hex().to_owned(),
                Some(parent) => {
                    Digest::of(format!("{parent}+{}", digest.hex()).as_bytes()).hex().to_owned()
                }
            };
            let mut layer = json!({ "id": id, "diff-digest": digest, "diff-size": content.len() });
            let object = layer.as_object_mut().unwrap();
            object.extend(parent.map(|parent| ("parent".to_owned(), parent.into())));
            object.extend(more.as_object().unwrap().clone());
            self.layers.push(layer);
            id
        }

        fn image(&mut self, layer: &str, is_ours: bool) {
            let id = Digest::of(format!("{layer} {is_ours}").as_bytes()).hex().to_owned();
            if is_ours {
                let name = base64::engine::general_purpose::STANDARD.encode(format!("sha256:{id}"));
                let folder = self.folder.path().join("overlay-images").join(&id);
                std::fs::create_dir_all(&folder).unwrap();
                let config = json!({ "config": { "Labels": { BASE_LABEL: BASE_VALUE } } });
                std::fs::write(folder.join(format!("={name}")), config.to_string()).unwrap();
            }
            let image = json!({ "id": id, "layer": layer, "big-data-names": ["manifest"] });
            self.images.push(image);
        }

        /// Returns the digests of the highest stray layers.
        fn stray(&self) -> Vec<String> {
            let stray = stray_layers(&self.written());
            stray.iter().map(|layer| layer.chain.last().unwrap().0.to_string()).collect()
        }

        /// Writes the records, and returns where they are.
        fn written(&self) -> EngineInfo {
            for (name, records) in [
                ("layers", &self.layers),
                ("images", &self.images),
                ("containers", &self.containers),
            ] {
                let folder = self.folder.path().join(format!("overlay-{name}"));
                std::fs::create_dir_all(&folder).unwrap();
                let text = serde_json::to_vec(records).unwrap();
                std::fs::write(folder.join(format!("{name}.json")), text).unwrap();
            }
            EngineInfo {
                storage_driver: "overlay".to_owned(),
                storage_root: self.folder.path().to_owned(),
                kind: names::EngineKind::Podman,
                version: String::new(),
                api_version: String::new(),
                is_rootless: false,
                runtime: String::new(),
                cgroup_version: String::new(),
                kernel: String::new(),
                user_ids: None,
            }
        }
    }

    fn digest(content: &[u8]) -> String {
        Digest::of(content).to_string()
    }

    #[test]
    fn a_layer_above_an_image_of_this_tool_is_stray_and_no_other() {
        let none = json!({});
        let (mut store, base) = Store::new();
        store.layer(Some(&base), b"stray", &none);
        assert_eq!(store.stray(), [digest(b"stray")]);
        // Somebody else's image with the layers of the base changes nothing.
        store.image(&base, false);
        assert_eq!(store.stray(), [digest(b"stray")]);

        type Change = fn(&mut Store, &str);
        let changes: [(&str, Change); 8] = [
            ("an image has it", |store, base| {
                let layer = store.layer(Some(base), b"a", &json!({}));
                store.image(&layer, false);
            }),
            ("a container has it", |store, base| {
                let layer = store.layer(Some(base), b"a", &json!({}));
                store.containers.push(json!({ "id": "1", "layer": layer }));
            }),
            ("an image maps it", |store, base| {
                let layer = store.layer(Some(base), b"a", &json!({}));
                store.images[0]["mapped-layers"] = json!([layer]);
            }),
            ("it has a name", |store, base| {
                store.layer(Some(base), b"a", &json!({ "names": ["somebody's"] }));
            }),
            ("it was pulled", |store, base| {
                store.layer(Some(base), b"a", &json!({ "compression": 2 }));
            }),
            ("it is being written", |store, base| {
                store.layer(Some(base), b"a", &json!({ "flags": { "incomplete": true } }));
            }),
            ("it is above somebody else's image", |store, _| {
                let other = store.layer(None, b"other", &json!({}));
                store.image(&other, false);
                store.layer(Some(&other), b"a", &json!({}));
            }),
            ("it is above nothing", |store, _| {
                store.layer(None, b"a", &json!({}));
            }),
        ];
        for (why, change) in changes {
            let (mut store, base) = Store::new();
            change(&mut store, &base);
            assert_eq!(store.stray(), [""; 0], "{why}");
        }
    }

    #[test]
    fn of_several_stray_layers_the_highest_is_returned() {
        let none = json!({});
        let (mut store, base) = Store::new();
        let first = store.layer(Some(&base), b"first", &none);
        store.layer(Some(&first), b"second", &none);
        assert_eq!(store.stray(), [digest(b"second")]);
        // podman would not reuse a layer whose ID does not follow from the digests.
        store.layers.last_mut().unwrap()["id"] = "x".into();
        assert_eq!(store.stray(), [""; 0]);
    }

    #[test]
    fn an_unfinished_image_belongs_to_the_nearest_complete_one_below_it() {
        let unfinished = |layer: &str| json!({ "id": "1", "layer": layer });
        let (mut store, base) = Store::new();
        let step = store.layer(Some(&base), b"step", &json!({}));
        let next = store.layer(Some(&step), b"next", &json!({}));
        let other = store.layer(Some(&base), b"other", &json!({}));
        store.image(&other, false);
        let above = store.layer(Some(&other), b"above", &json!({}));
        let lowest = store.layer(None, b"lowest", &json!({}));
        let second = store.layer(Some(&lowest), b"second", &json!({}));
        for (layer, is_ours) in [
            (&base, true),
            (&step, true),
            (&next, true),
            (&other, false),
            (&above, false),
            (&lowest, true),
            (&second, false),
        ] {
            store.images.push(unfinished(layer));
            assert_eq!(images(&store.written()).len(), usize::from(is_ours), "{layer}");
            store.images.pop();
        }
    }

    #[test]
    fn the_layer_of_a_probe_is_known_by_its_content() {
        let (mut store, _) = Store::new();
        let probe = store.layer(None, b"probe", &json!({}));
        let folder = store.folder.path().join("overlay").join(&probe).join("diff");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("probe"), "another program").unwrap();
        assert_eq!(store.stray(), [""; 0]);
        std::fs::write(folder.join("probe"), probe::executable("1-0-00002a")).unwrap();
        assert_eq!(store.stray(), [digest(b"probe")]);
    }
}
