//! Shared stores in folders: what is pushed, read, refused and compared.

use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use names::Digest;
use oci::client::BlobStream;
use oci::{ArtifactFolder, ArtifactPlace};
use seal::Listing;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{client, image, image_of, keep, tar_of};
use crate::build_env::StoredImage;
use crate::layers::list_layer;
use crate::shared::{Finished, Turn, Wanted};
use crate::{ErrorKind, SharedStores, Store, compare_with_stores, store_with};

const CONTENT: &str = "what the step is made from";

/// The notes of a run: the rule and the message of each.
#[derive(Default)]
struct Notes(Mutex<Vec<(String, String)>>);

impl Notes {
    fn note(&self) -> impl Fn(&str, String) + Sync {
        |rule, message| self.0.lock().unwrap().push((rule.to_owned(), message))
    }

    fn taken(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn key() -> Digest {
    Digest::of(CONTENT.as_bytes())
}

fn stores(texts: &[String]) -> SharedStores {
    let stores = texts.iter().map(|text| text.parse().unwrap());
    SharedStores::new(client(), stores.collect(), "a run".to_owned())
}

fn name(folder: &Path) -> String {
    format!("dir:{}", folder.display())
}

fn wanted(key: &Digest) -> Wanted<'_> {
    Wanted { step: "seal", key, remote: None }
}

/// Returns an image with one file, whose layer and listing are in `store`.
fn made(store: &Store, text: &str) -> StoredImage {
    let tar = tar_of(&[("a", text)]);
    keep(store, &tar);
    store.keep_listing(&Digest::of(&tar), &list_layer(&*tar, None).unwrap()).unwrap();
    image(&[&tar])
}

async fn publish(shared: &SharedStores, made: &StoredImage, own: &Store) -> Result<(), String> {
    let key = key();
    let finished = Finished { wanted: wanted(&key), made, content: CONTENT };
    let published = shared.publish(finished, own, &|rule, message| panic!("{rule}: {message}"));
    published.await.map_err(|error| {
        assert_eq!(error.kind(), ErrorKind::StoreDiffers);
        error.to_string()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_pushed_to_writable_stores_and_read_from_all() {
    let folder = TempDir::new().unwrap();
    let [written, read_only] = ["written", "read-only"].map(|name| folder.path().join(name));
    let own = Store::new(folder.path().join("own"));
    let image = made(&own, "text");
    let shared = stores(&[format!("{},ro", name(&read_only)), name(&written)]);
    publish(&shared, &image, &own).await.unwrap();
    assert!(!read_only.exists());
    assert_eq!(store_with(&shared, &key()).await, Some(name(&written)));
    assert_eq!(store_with(&shared, &Digest::of(b"other")).await, None);
    // The same result again changes nothing.
    publish(&shared, &image, &own).await.unwrap();
    let (other, notes) = (Store::new(folder.path().join("other")), Notes::default());
    let reader = stores(&[format!("{},ro", name(&written))]);
    let found = reader.pull(wanted(&key()), &other, &notes.note()).await.unwrap();
    assert_eq!((found.manifest_bytes, found.config), (image.manifest_bytes, image.config));
    assert_eq!(found.origin.as_deref(), Some(&*name(&written)));
    assert!(other.layer(&image.manifest.layers[0]).is_some());
    assert_eq!(other.finished(&key()).unwrap().origin, Some(name(&written)));
    let absent = reader.pull(wanted(&Digest::of(b"other")), &other, &notes.note()).await;
    assert!(absent.is_none() && notes.taken().is_empty());
    assert!(reader.may_read(&name(&written)) && !reader.may_read(&name(&read_only)));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_results_for_one_key_stop_the_run_and_both_are_kept() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let own = Store::new(folder.path().join("own"));
    let (first, second) = (made(&own, "text"), made(&own, "TEXT"));
    let shared = stores(&[name(&store)]);
    publish(&shared, &first, &own).await.unwrap();
    let config = image_of(&json!({ "other": true }), "x", &[]).config;
    let mut relabelled = first.clone();
    let manifest: Value = serde_json::from_slice(&first.manifest_bytes).unwrap();
    let mut manifest = manifest.clone();
    manifest["config"]["digest"] = json!(Digest::of(&config));
    manifest["config"]["size"] = json!(config.len());
    relabelled.manifest_bytes = Bytes::from(manifest.to_string());
    relabelled.manifest = crate::build_env::parse_manifest(&relabelled.manifest_bytes).unwrap();
    relabelled.config = config;
    let mut longer = image(&[&tar_of(&[("a", "text")]), &tar_of(&[("b", "")])]);
    longer.origin = None;
    for (other, why) in [
        (&second, "`/a` differs"),
        (&relabelled, "the layers are the same, but the configs differ"),
        (&longer, "the images have different numbers of layers"),
    ] {
        let [there, here] = [&first, other].map(|image| Digest::of(&image.manifest_bytes));
        let error = publish(&shared, other, &own).await.unwrap_err();
        let kept = format!("{}.{}", key().hex(), &here.hex()[..12]);
        for part in [why, here.as_str(), there.as_str(), &*name(&store), key().hex(), &*kept] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let place: ArtifactPlace = name(&store).parse().unwrap();
        assert!(place.manifest(&client(), &kept.parse().unwrap()).await.unwrap().is_some());
        // A store that is only read gets nothing, but is compared too.
        let reader = stores(&[format!("{},ro", name(&store))]);
        let error = publish(&reader, other, &own).await.unwrap_err();
        assert!(error.contains(why) && !error.contains("the store also has"), "{error}");
    }
    // The results that other jobs of a workflow require.
    let required = Digest::of(b"required");
    let shared = shared.with_results([(key(), required.clone())].into());
    let error = publish(&shared, &first, &own).await.unwrap_err();
    assert!(error.ends_with(&format!("but `{required}` is required")), "{error}");
    let notes = Notes::default();
    assert!(shared.pull(wanted(&key()), &own, &notes.note()).await.is_none());
    let [(rule, message)] = &notes.taken()[..] else { panic!("one note") };
    assert_eq!(rule, "store-refused");
    assert!(message.contains(&format!("but `{required}` is required")), "{message}");
}

/// Pushes an artifact by hand, under the tag of the key.
async fn put(folder: &Path, artifact: &Value, blobs: &[&[u8]]) {
    let place = ArtifactPlace::Folder(ArtifactFolder::new(folder.to_owned()));
    for blob in blobs {
        let stream = BlobStream::of_bytes(Bytes::copy_from_slice(blob));
        place.push(&client(), stream).await.unwrap();
    }
    let bytes = artifact.to_string().into();
    place.push_manifest(&client(), &key().hex().parse().unwrap(), bytes).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_does_not_belong_to_its_key_is_refused_and_replaced() {
    const TYPE: &str = "application/vnd.build-pipeline.step";
    let tar = tar_of(&[("a", "text")]);
    let image = image(&[&tar]);
    let result = Digest::of(&image.manifest_bytes);
    let record = json!({ "schema": 1, "key": key(), "content": CONTENT, "result": result });
    let with = |field: &str, value: Value| {
        let mut record = record.clone();
        record[field] = value;
        record
    };
    let other = Digest::of(b"other");
    for (record, change, why) in [
        (with("schema", json!(2)), "", "its record has schema 2, not 1"),
        (with("schema", Value::Null), "", "its record cannot be read"),
        (with("key", json!(other)), "", "it is the result of the key"),
        (with("content", json!("other")), "", other.hex()),
        (with("result", json!(other)), "", "its record specifies"),
        (record.clone(), "type", "it is not a finished step"),
        (record.clone(), "record", "it is not a finished step"),
        (record.clone(), "manifest", "it lacks the manifest or the config of its image"),
        (record.clone(), "config", "it lacks the manifest or the config of its image"),
        (record.clone(), "other config", "its image has a different config"),
        (record.clone(), "layer", "it lacks the layer"),
    ] {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("store");
        let record = record.to_string();
        let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": Digest::of(bytes), "size": bytes.len() });
        let config = if change == "other config" { b"{}" } else { &image.config[..] };
        let mut layers = vec![
            part(&format!("{TYPE}.manifest.v1+json"), &image.manifest_bytes),
            part(&format!("{TYPE}.config.v1+json"), config),
            part("application/vnd.oci.image.layer.v1.tar", &tar),
        ];
        let lost = ["manifest", "config", "layer"].iter().position(|name| *name == change);
        lost.map(|lost| layers.remove(lost));
        let kind =
            if change == "record" { "x".to_owned() } else { format!("{TYPE}.record.v1+json") };
        let artifact = json!({
            "schemaVersion": 2, "mediaType": oci::media::OCI_MANIFEST,
            "artifactType": if change == "type" { "x".to_owned() } else { format!("{TYPE}.v1") },
            "config": part(&kind, record.as_bytes()), "layers": layers,
        });
        put(&store, &artifact, &[record.as_bytes(), &image.manifest_bytes, config, &tar]).await;
        let (own, notes) = (Store::new(folder.path().join("own")), Notes::default());
        let shared = stores(&[name(&store)]);
        assert!(shared.pull(wanted(&key()), &own, &notes.note()).await.is_none(), "{why}");
        let [(rule, message)] = &notes.taken()[..] else { panic!("{why}: one note") };
        assert_eq!(rule, "store-refused", "{message}");
        assert!(message.contains(why) && message.contains(key().hex()), "{why}: {message}");
        assert!(own.finished(&key()).is_none(), "{why}");
        // The run's own result replaces it.
        keep(&own, &tar);
        publish(&shared, &image, &own).await.unwrap();
        let other = Store::new(folder.path().join("other"));
        assert!(shared.pull(wanted(&key()), &other, &notes.note()).await.is_some(), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_compared_with_the_entry_of_its_last_kept_step() {
    let folder = TempDir::new().unwrap();
    let own = Store::new(folder.path().join("own"));
    let (plan, image) = (super::support::built_plan(false), made(&own, "text"));
    let step = plan.steps.iter().find(|step| step.id == "seal").unwrap();
    let keys = crate::built::keys(&plan);
    let content = plan.key_text(step, |need| keys.get(need));
    let shared = stores(&[name(&folder.path().join("store"))]);
    let finished = Finished { wanted: wanted(&keys["seal"]), made: &image, content: &content };
    shared.publish(finished, &own, &|_, message| panic!("{message}")).await.unwrap();
    let layers = &image.manifest.layers;
    let top = super::support::layer("on top", 1);
    let added = [&layers[..], std::slice::from_ref(&top)].concat();
    let other = super::support::layer("other", 1);
    for (found, difference) in [
        (layers.clone(), None),
        (added, Some((None, Some(top.digest.clone())))),
        (Vec::new(), Some((Some(layers[0].digest.clone()), None))),
        (vec![other.clone()], Some((Some(layers[0].digest.clone()), Some(other.digest)))),
    ] {
        let checks = compare_with_stores(&plan, &found, &shared, &|_, message| panic!("{message}"));
        let [check] = &checks.await[..] else { panic!("one store has the entry") };
        assert_eq!((&*check.step, &check.difference), ("seal", &difference));
    }
    assert!(
        own.listing(&layers[0].digest).is_some_and(|listing: Listing| listing.entries.len() == 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_takes_finished_steps_first_unless_it_builds_them_to_compare() {
    let folder = TempDir::new().unwrap();
    let (store, publisher) = (folder.path().join("store"), folder.path().join("publisher"));
    let (plan, own) = (super::support::built_plan(false), Store::new(&publisher));
    let keys = crate::built::keys(&plan);
    let key = &keys["seal"];
    let step = plan.steps.iter().find(|step| step.id == "seal").unwrap();
    let content = plan.key_text(step, |need| keys.get(need));
    let image = made(&own, "text");
    let finished = Finished { wanted: wanted(key), made: &image, content: &content };
    let shared = stores(&[name(&store)]);
    shared.publish(finished, &own, &|_, message| panic!("{message}")).await.unwrap();
    let remotes = crate::shared::remotes(&plan);
    assert_eq!(remotes.keys().collect::<Vec<_>>(), ["fetch-base", "seal"]);
    assert_eq!(remotes["seal"], remotes["fetch-base"]);
    for (number, percent, last, is_fresh, is_taken) in [
        (1, 0, None, false, true),
        (2, 0, Some("label"), false, true),
        // The last step needs nothing that the store has.
        (3, 0, Some("build"), false, false),
        (4, 0, None, true, false),
        (5, 100, None, false, false),
    ] {
        let mut build_env = super::support::build_env(&folder.path().join(number.to_string()));
        build_env.shared = stores(&[name(&store)]).verifying(percent);
        build_env.is_fresh = is_fresh;
        let mut settings = super::support::settings(Some(build_env));
        settings.last_step = last.map(str::to_owned);
        crate::take_from_stores(&plan, &settings, &|_, message| panic!("{message}")).await;
        let build_env = settings.build_env.as_ref().unwrap();
        assert_eq!(build_env.store.finished(key).is_some(), is_taken, "{number}");
        assert_eq!(crate::needs_engine(&plan, &settings), !is_taken, "{number}");
        assert_eq!(build_env.shared.is_sampled(key), percent == 100, "{number}");
    }
    // A run that is not allowed to read from the store is told why it builds the step again.
    let (notes, folder) = (Notes::default(), folder.path().join("1"));
    let settings = super::support::settings(Some(super::support::build_env(&folder)));
    crate::take_from_stores(&plan, &settings, &notes.note()).await;
    let [(rule, message)] = &notes.taken()[..] else { panic!("one note") };
    assert_eq!(rule, "store-not-allowed");
    assert!(message.contains(&format!("`--store {}`", name(&store))), "{message}");
    assert!(crate::needs_engine(&plan, &settings));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_is_reported_once_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let proxy = testkit::FaultProxy::alone();
    proxy.on("GET", "/v2/").does(testkit::Fault::status(403));
    let name = format!("registry:{}/steps", proxy.host());
    let shared = stores(std::slice::from_ref(&name));
    let (own, notes) = (Store::new(folder.path()), Notes::default());
    let (image, key) = (made(&own, "text"), key());
    assert!(shared.pull(wanted(&key), &own, &notes.note()).await.is_none());
    let asked = proxy.requests().len();
    assert!(asked > 0, "the store is queried once");
    assert!(shared.pull(wanted(&key), &own, &notes.note()).await.is_none());
    publish(&shared, &image, &own).await.unwrap();
    let turn = shared.claim(wanted(&key), &own, &notes.note()).await;
    assert!(matches!(turn, Turn::Build(None)));
    assert_eq!(proxy.requests().len(), asked);
    let [(rule, message)] = &notes.taken()[..] else { panic!("one note") };
    assert_eq!(rule, "store-unreachable");
    let wanted = format!("the store `{name}` is not used in this run: ");
    let why = message.strip_prefix(&wanted).unwrap_or_else(|| panic!("{message}"));
    assert_eq!(shared.unreached(), [(name, why.to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_store_that_does_not_answer_lacks_nothing_of_this_run() {
    let folder = TempDir::new().unwrap();
    let proxy = testkit::FaultProxy::alone();
    proxy.on("GET", "/v2/").does(testkit::Fault::status(403));
    let shared = stores(&[format!("registry:{}/steps,ro", proxy.host())]);
    let (own, notes, key) = (Store::new(folder.path()), Notes::default(), key());
    assert!(shared.pull(wanted(&key), &own, &notes.note()).await.is_none());
    assert_eq!(notes.taken().len(), 1);
    assert_eq!(shared.unreached(), []);
}
