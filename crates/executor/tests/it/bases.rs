//! podman, docker's classic builder and BuildKit make the same base image from locked Debian
//! packages.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io::Read as _;
use std::path::Path;

use executor::{End, Execution, Materials, Settings, needs_engine};
use names::Digest;
use oci::LayoutImage;
use plan::{Action, BootstrapContract, DeriveContract, Draft, ImageEdit, Input, Plan, Seal, Step};

use crate::debian_support::{EPOCH, lock, mirrors};
use crate::engines::{Bench, Builder};
use crate::support;

/// The paths that are scrubbed from a base: files that engines mount.
const SCRUB: [&str; 8] =
    ["dev", "etc/hostname", "etc/hosts", "etc/resolv.conf", "proc", "run/*", "sys", "tmp/*"];

fn plan(lock: &str) -> Plan {
    let seal = Seal {
        contract: plan::SealContract::Seal1,
        scrub: SCRUB.map(str::to_owned).to_vec(),
        epoch: EPOCH,
    };
    let created = "2026-11-20T00:00:00Z".to_owned();
    let step = |id: &str, action| Step { id: id.to_owned(), action };
    let digest = pins::parse_package_lock("lock", lock).unwrap().digest_of("base").unwrap();
    let sets = BTreeMap::from([("base".to_owned(), digest)]);
    let fetch = Action::FetchPackages { input: "lock".to_owned(), sets };
    let bootstrap = Action::BootstrapBase {
        contract: BootstrapContract::Bootstrap1,
        packages: "fetch-packages".to_owned(),
        set: "base".to_owned(),
        created: created.clone(),
        seal,
    };
    let edit = ImageEdit { created, created_by: "a test".to_owned(), ..ImageEdit::default() };
    let contract = DeriveContract::Derive1;
    let label = Action::DeriveImage { base: "bootstrap-base".to_owned(), contract, edit };
    let lock = Input::Lock { digest: Digest::of(lock.as_bytes()) };
    let draft = Draft {
        schema: plan::SCHEMA,
        track: "vulkan".to_owned(),
        name: "base".to_owned(),
        gpu: "gfx1151".parse().unwrap(),
        rehearsal: false,
        source_date_epoch: EPOCH,
        revision: None,
        overrides: BTreeMap::new(),
        inputs: BTreeMap::from([("lock".to_owned(), lock)]),
        steps: vec![
            step("fetch-packages", fetch),
            step("bootstrap-base", bootstrap),
            step("label", label),
        ],
    };
    draft.finish().unwrap()
}

/// Returns settings that include the lock as a project file, and this machine's mirrors.
fn settings(bench: &Bench, store: &str, lock: &str) -> Settings {
    let files = BTreeMap::from([("lock".to_owned(), lock.into())]);
    let materials = Materials { files, ..Materials::default() };
    let mirrors = executor::Lookup::new(mirrors);
    bench.settings_with(store, false, |build_env| {
        build_env.materials = materials.into();
        build_env.mirrors = mirrors;
    })
}

async fn made(bench: &Bench, builder: Builder, plan: &Plan, settings: &Settings) -> Execution {
    support::run_on(Some(bench.engine(builder)), plan, settings, pending()).await.0
}

/// Returns the entries of the only layer: the header of each, and the text of short files.
fn entries(layout: &Path) -> BTreeMap<String, (tar::Header, String)> {
    let image = LayoutImage::read(layout).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
    let [layer] = &manifest["layers"].as_array().unwrap()[..] else { panic!("one layer") };
    let digest: Digest = layer["digest"].as_str().unwrap().parse().unwrap();
    let file = std::fs::File::open(layout.join("blobs/sha256").join(digest.hex())).unwrap();
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(file));
    let mut entries = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
        let mut bytes = Vec::new();
        if entry.size() < 1 << 16 {
            entry.read_to_end(&mut bytes).unwrap();
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        entries.insert(path, (entry.header().clone(), text));
    }
    entries
}

fn check_entries(entries: &BTreeMap<String, (tar::Header, String)>, bench: &Bench) {
    let folder = bench.path("").display().to_string();
    for (path, (header, text)) in entries {
        assert!(header.mtime().unwrap() <= EPOCH, "{path} is newer than the time of the plan");
        assert!(!text.contains(&folder), "{path} contains the name of a folder of this machine");
        let is_volatile =
            ["var/log/", "var/cache/apt/", "var/lib/apt/lists/", "tmp/", "run/", "packages"]
                .iter()
                .any(|start| path.starts_with(start));
        assert!(!is_volatile || header.entry_type().is_dir(), "{path} should be gone");
    }
    for gone in [
        "etc/resolv.conf",
        "etc/hostname",
        "etc/hosts",
        "etc/machine-id",
        "etc/passwd-",
        "packages",
    ] {
        assert!(!entries.contains_key(gone), "{gone} should be gone");
    }
    assert!(entries.contains_key("usr/bin/apt-get"));
    assert_eq!(entries["usr/bin/su"].0.mode().unwrap(), 0o4755);
    assert!(entries["etc/passwd"].1.contains("_apt"), "{}", entries["etc/passwd"].1);
    let status = &entries["var/lib/dpkg/status"].1;
    assert!(status.is_empty() || !status.contains("half-"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night: it takes minutes"]
async fn three_builders_make_one_base_and_leave_nothing_behind() {
    let bench = Bench::new("").await;
    let text = lock().await.to_toml();
    let plan = plan(&text);
    let mut images = BTreeSet::new();
    for (store, builder) in [
        ("podman", Builder::Podman),
        ("classic", Builder::Classic),
        ("buildkit", Builder::BuildKit),
    ] {
        let settings = settings(&bench, store, &text);
        assert!(needs_engine(&plan, &settings), "nothing is finished");
        let execution = made(&bench, builder, &plan, &settings).await;
        assert!(matches!(execution.end, End::Succeeded), "{store}: {:?}", execution.end);
        let layout = bench.path("out");
        check_entries(&entries(&layout), &bench);
        images.insert(LayoutImage::read(&layout).unwrap().manifest_digest);
        std::fs::remove_dir_all(&layout).unwrap();
        // A finished base comes from the store.
        assert!(!needs_engine(&plan, &settings), "the base is finished");
        let run = bench.run_id(store);
        let left = bench.engine(builder).leftovers(Some(&run)).await.unwrap();
        assert_eq!(left, [], "{store}");
    }
    assert_eq!(images.len(), 1, "{images:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_lacks_a_package_says_which_file_is_missing() {
    let bench = Bench::new("").await;
    // Without the C library nothing can run.
    let text = lock().await.to_toml();
    let text: String = text
        .lines()
        .filter(|line| !line.contains("name = \"libc6\""))
        .map(|line| format!("{line}\n"))
        .collect();
    let settings = settings(&bench, "podman", &text);
    let execution = made(&bench, Builder::Podman, &plan(&text), &settings).await;
    let End::Failed(error) = execution.end else { panic!("{:?}", execution.end) };
    assert_eq!(error.kind(), executor::ErrorKind::Build, "{error:?}");
}
