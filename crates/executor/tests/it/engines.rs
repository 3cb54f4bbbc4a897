//! podman, docker's classic builder and BuildKit make the same image from a plan with a Dockerfile.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use engine::{DockerBuilder, Engine, RunId};
use executor::{
    BlobCache, BuildEnv, End, Event, Execution, Lookup, Materials, Output, Settings, Store, Tools,
    needs_engine,
};
use names::Digest;
use oci::LayoutImage;
use oci::loopback::LoopbackRegistry;
use plan::{Action, Draft, ImageEdit, Input, Plan, Platform, Seal, Step, labels};
use record::{OutputState, StepState};
use serde_json::json;
use sources::Sources;
use tempfile::TempDir;
use testkit::{Dockerd, PodmanStore, busybox_root};

use crate::settings::settings;
use crate::support;

/// Everything that makes layers differ: links, modes, owners, names, and hidden, replaced or
/// recreated files.
const NASTY: &str = r#"ARG BASE
FROM ${BASE}
ARG SOURCE_DATE_EPOCH
ENV A=1 B="two words"
LABEL org.example.kept=yes
WORKDIR /work
RUN mkdir -p data/deep && echo one > data/one && ln data/one data/hard && ln -s one data/soft \
 && echo x > data/deep/x && chmod 4755 data/one && chown 3000000:3000001 data/deep/x \
 && mkfifo data/fifo && truncate -s 3000000 data/sparse && chmod 1777 data/deep \
 && echo u > "data/ünï-ço∂é" && mkdir -p "$(printf 'long%.0s/' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58)" \
 && echo new > /etc/new
RUN rm -rf data/deep && mkdir data/deep && echo y > data/deep/y && rm /etc/old \
 && rm -rf /etc/dir && echo file > /etc/dir && echo changed > /etc/kept && touch /tmp/scrubbed
RUN mv data moved && date > /var-log-of-time && rm /var-log-of-time
COPY Dockerfile /copied
EXPOSE 8080/tcp
USER 1000
STOPSIGNAL SIGINT
CMD ["sh", "-c", "echo ran"]
"#;

/// The builder of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Builder {
    Podman,
    Classic,
    BuildKit,
}

pub(crate) fn dockerd() -> &'static Dockerd {
    static SHARED: OnceLock<Dockerd> = OnceLock::new();
    SHARED.get_or_init(Dockerd::start)
}

/// A base on a registry, a project with a Dockerfile, and a store of finished steps.
pub(crate) struct Bench {
    registry: LoopbackRegistry,
    base: Digest,
    folder: TempDir,
    pub(crate) podman: Arc<PodmanStore>,
    /// The package index for wheels.
    pub(crate) index: Option<String>,
}

/// Puts an image on a registry, with busybox, some files to hide, and a file with this content.
/// `config` contains the container settings of the base.
fn put_base(registry: &LoopbackRegistry, content: &[u8], config: &serde_json::Value) -> Digest {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |name: &str, kind: tar::EntryType, text: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(if kind.is_dir() { 0o755 } else { 0o644 });
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, name, text).unwrap();
    };
    add("etc/", tar::EntryType::Directory, b"");
    for name in ["etc/old", "etc/kept"] {
        add(name, tar::EntryType::Regular, b"of the base\n");
    }
    add("etc/dir/", tar::EntryType::Directory, b"");
    add("etc/dir/inside", tar::EntryType::Regular, b"of the base\n");
    add("etc/content", tar::EntryType::Regular, content);
    let tars = [busybox_root(), tar.into_inner().unwrap()];
    let mut layers = Vec::new();
    for tar in &tars {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(tar).unwrap();
        let layer = Bytes::from(gzip.finish().unwrap());
        let size = layer.len();
        layers.push(json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": registry.add_blob(layer), "size": size,
        }));
    }
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": config,
        "history": [{ "created_by": "busybox" }, { "created_by": "files" }],
        "rootfs": { "type": "layers", "diff_ids": tars.map(|tar| Digest::of(&tar)) },
    });
    let config = Bytes::from(config.to_string());
    let size = config.len();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": oci::media::OCI_MANIFEST, "layers": layers,
        "config": {
            "mediaType": oci::media::OCI_CONFIG, "digest": registry.add_blob(config), "size": size,
        },
    });
    let manifest = Bytes::from(manifest.to_string());
    registry.add_manifest("base", None, oci::media::OCI_MANIFEST, manifest)
}

impl Bench {
    pub(crate) async fn new(dockerfile: &str) -> Self {
        Self::on(dockerfile, b"", &json!({ "Env": ["PATH=/bin"] })).await
    }

    pub(crate) async fn on(dockerfile: &str, content: &[u8], config: &serde_json::Value) -> Self {
        let registry = LoopbackRegistry::start().await.unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
        let base = put_base(&registry, content, config);
        Self { registry, base, folder, podman: Arc::new(PodmanStore::new()), index: None }
    }

    pub(crate) fn plan(&self) -> Plan {
        let dockerfile = std::fs::read(self.folder.path().join("Dockerfile")).unwrap();
        let edit = ImageEdit {
            created: "2020-01-01T00:00:00Z".to_owned(),
            created_by: "a test".to_owned(),
            env: BTreeMap::from([("C".to_owned(), "3".to_owned())]),
            reset: labels::RESET.map(str::to_owned).to_vec(),
            labels: BTreeMap::from([(labels::TRACK.to_owned(), "vulkan".to_owned())]),
            ..ImageEdit::default()
        };
        let scrub =
            ["dev", "etc/hostname", "etc/hosts", "etc/resolv.conf", "proc", "run", "sys", "tmp/*"]
                .map(str::to_owned);
        let contract = plan::SealContract::Seal1;
        let seal = Seal { contract, scrub: scrub.to_vec(), epoch: 1_577_836_800 };
        let step = |id: &str, action| Step { id: id.to_owned(), action };
        let fetch =
            Action::FetchBase { input: "base".to_owned(), platform: Platform::linux_amd64() };
        let build = Action::BuildImage {
            base: "fetch-base".to_owned(),
            dockerfile: "Dockerfile".to_owned(),
            args: BTreeMap::from([("SOURCE_DATE_EPOCH".to_owned(), seal.epoch.to_string())]),
            context: BTreeMap::new(),
            files: plan::OwnFiles::new(),
            network: false,
        };
        let image = Action::SealImage {
            image: "build".to_owned(),
            base: "fetch-base".to_owned(),
            seal,
            edit: ImageEdit { env: BTreeMap::new(), labels: BTreeMap::new(), ..edit.clone() },
        };
        let contract = plan::DeriveContract::Derive1;
        let label = Action::DeriveImage { base: "seal".to_owned(), contract, edit };
        let base = format!("registry.invalid/base@{}", self.base).parse().unwrap();
        let inputs = [
            ("base", Input::Image { reference: base, manifest: None }),
            ("Dockerfile", Input::File { digest: Digest::of(&dockerfile) }),
        ];
        let draft = Draft {
            schema: plan::SCHEMA,
            track: "vulkan".to_owned(),
            name: "nasty".to_owned(),
            gpu: "gfx1151".parse().unwrap(),
            rehearsal: false,
            source_date_epoch: 1_577_836_800,
            revision: None,
            overrides: BTreeMap::new(),
            inputs: inputs.map(|(name, input)| (name.to_owned(), input)).into(),
            steps: vec![
                step("fetch-base", fetch),
                step("build", build),
                step("seal", image),
                step("label", label),
            ],
        };
        draft.finish().unwrap()
    }

    /// Returns the texts of all files that have been written for plans so far.
    fn materials(&self) -> Materials {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let files = entries.filter(|entry| entry.path().is_file()).map(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text.into())
        });
        Materials { files: files.collect(), ..Materials::default() }
    }

    /// Returns a plan that only adds metadata.
    fn derived(&self, label: &str) -> Plan {
        let mut draft = self.plan().into_draft();
        draft.name = "derived".to_owned();
        draft.inputs.remove("Dockerfile");
        draft.steps.retain(|step| ["fetch-base", "label"].contains(&&*step.id));
        let Some(Step { action: Action::DeriveImage { base, edit, .. }, .. }) =
            draft.steps.last_mut()
        else {
            panic!("the last step labels");
        };
        "fetch-base".clone_into(base);
        edit.labels.insert("org.example.label".to_owned(), label.to_owned());
        draft.finish().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the engine with a builder. Nothing is started yet.
    pub(crate) fn engine(&self, builder: Builder) -> Engine {
        let docker = |builder| Engine::docker_at(dockerd().socket(), builder);
        match builder {
            Builder::Classic => docker(DockerBuilder::Classic),
            Builder::BuildKit => docker(DockerBuilder::BuildKit),
            Builder::Podman => Engine::podman(settings(&self.podman)),
        }
    }

    /// Returns the name of the run for a store. Tests share a docker daemon, so the name is unique.
    pub(crate) fn run_id(&self, store: &str) -> RunId {
        let folder = self.folder.path().file_name().unwrap().to_str().unwrap().to_lowercase();
        let folder: String = folder.chars().filter(char::is_ascii_alphanumeric).collect();
        RunId::parse(&format!("test-{folder}-{store}")).unwrap()
    }

    pub(crate) fn settings(&self, store: &str, is_fresh: bool) -> Settings {
        self.settings_with(store, is_fresh, |_| {})
    }

    /// Returns settings with a build environment that `change` has modified.
    pub(crate) fn settings_with(
        &self,
        store: &str,
        is_fresh: bool,
        change: impl FnOnce(&mut BuildEnv),
    ) -> Settings {
        let index = self.index.clone();
        let mut build_env = BuildEnv {
            index: Lookup::new(move || index.as_ref().map(|url| url.parse().unwrap())),
            mirrors: Lookup::new(debian::Mirrors::default),
            run: self.run_id(store),
            sources: Sources::new(sources::Settings::new(self.path("sources"))),
            tools: Tools::new("/usr/bin:/bin".as_ref()),
            materials: Arc::new(self.materials()),
            store: Store::new(self.path(store)),
            shared: executor::SharedStores::new(
                support::client("registry.invalid=127.0.0.1:1"),
                Vec::new(),
                "a test".to_owned(),
            ),
            threads: std::num::NonZeroUsize::new(2).unwrap(),
            is_fresh,
            keeps_failed: false,
            bake: None,
            names: tokio::sync::Mutex::default(),
        };
        change(&mut build_env);
        Settings {
            nearby: Vec::new(),
            client: support::client(&format!("registry.invalid={}", self.registry.host())),
            cache: BlobCache::none(),
            verified: oci::Verified::none(),
            outputs: vec![Output::Layout { path: self.path("out"), with_layers: true }],
            last_step: None,
            build_env: Some(Arc::new(build_env)),
        }
    }

    /// Returns the listing of the top layer of an image in a layout.
    pub(crate) fn listing(&self, store: &str, layout: &Path) -> String {
        let image = LayoutImage::read(layout).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
        let layers = manifest["layers"].as_array().unwrap();
        let digest: Digest = layers.last().unwrap()["digest"].as_str().unwrap().parse().unwrap();
        std::fs::read_to_string(self.path(store).join("listings").join(digest.hex())).unwrap()
    }

    pub(crate) async fn run(
        &self,
        builder: Builder,
        settings: &Settings,
    ) -> (Execution, Vec<Event>) {
        let engine = Some(self.engine(builder));
        support::run_on(engine, &self.plan(), settings, pending()).await
    }
}

/// Returns the digests of the image in a layout, and removes the layout.
fn taken(layout: &Path) -> (Digest, Digest) {
    let image = LayoutImage::read(layout).unwrap();
    assert!(image.absent_layers.is_empty(), "every layer is there");
    std::fs::remove_dir_all(layout).unwrap();
    (image.manifest_digest, Digest::of(&image.config))
}

/// Where the engine supports it, the compilers' cache persists between builds. Fresh builds never
/// use it, and the image is always the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_compilers_keep_changes_no_image_and_serves_no_fresh_build() {
    let bench = Bench::new(&format!(
        "ARG BASE\nFROM ${{BASE}} AS build\nARG COMMIT\nARG COMPILER_LAUNCHER=ccache\n\
         RUN --mount=type=cache,id=test-{},target=/kept \\\n    \
         echo \"by ${{COMPILER_LAUNCHER}} with $(ls /kept)\"; touch /kept/object; echo made > /made\n\
         FROM ${{BASE}}\nCOPY --from=build /made /made\n",
        std::process::id()
    ))
    .await;
    let mut images = BTreeSet::new();
    for (store, builder, is_fresh, wanted) in [
        ("kept-podman", Builder::Podman, false, "by ccache with "),
        ("kept-podman-again", Builder::Podman, false, "by ccache with object"),
        ("kept-podman-fresh", Builder::Podman, true, "by  with object"),
        ("kept-buildkit", Builder::BuildKit, false, "by ccache with "),
        ("kept-buildkit-again", Builder::BuildKit, false, "by ccache with object"),
        // For a fresh build, BuildKit leaves the mount empty.
        ("kept-buildkit-fresh", Builder::BuildKit, true, "by  with "),
        ("kept-classic", Builder::Classic, false, "by  with "),
    ] {
        // Each build has a new service, which finds the files that the previous one kept. The
        // commit also differs, because otherwise the engine would not execute this RUN again.
        let settings = bench.settings(store, is_fresh);
        let mut draft = bench.plan().into_draft();
        for step in &mut draft.steps {
            if let Action::BuildImage { args, .. } = &mut step.action {
                args.insert("COMMIT".to_owned(), store.to_owned());
            }
        }
        let plan = draft.finish().unwrap();
        let engine = Some(bench.engine(builder));
        let (execution, events) = support::run_on(engine, &plan, &settings, pending()).await;
        assert!(matches!(execution.end, End::Succeeded), "{store}: {:?}", execution.end);
        let said = events.iter().filter_map(|event| match event {
            Event::BuildLine { text, .. } => text.find("by ").map(|at| text[at..].to_owned()),
            _ => None,
        });
        let said: Vec<String> = said.collect();
        assert!(said.contains(&wanted.to_owned()), "{store}: {said:?}");
        images.insert(bench.listing(store, &bench.path("out")));
    }
    assert_eq!(images.len(), 1, "{images:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_builders_give_one_image_and_leave_nothing_behind() {
    let bench = Bench::new(NASTY).await;
    let mut images = Vec::new();
    for (store, builder) in [
        ("podman", Builder::Podman),
        ("classic", Builder::Classic),
        ("buildkit", Builder::BuildKit),
        ("podman-again", Builder::Podman),
        ("classic-again", Builder::Classic),
        ("buildkit-again", Builder::BuildKit),
    ] {
        let settings = bench.settings(store, true);
        let (execution, _) = bench.run(builder, &settings).await;
        assert!(matches!(execution.end, End::Succeeded), "{store}: {:?}", execution.end);
        let config = LayoutImage::read(&bench.path("out")).unwrap().config;
        let config = String::from_utf8_lossy(&config).into_owned();
        images.push((
            store,
            (bench.listing(store, &bench.path("out")), config, taken(&bench.path("out"))),
        ));
        let build_env = settings.build_env.unwrap();
        let engine = bench.engine(builder);
        let left = engine.leftovers(Some(&build_env.run)).await.unwrap();
        engine.stop().await;
        assert!(left.is_empty(), "{store}: {left:?}");
    }
    let (_, (listing, config, digests)) = &images[0];
    for (store, (other, other_config, other_digests)) in &images[1..] {
        // Differences are easier to read line by line.
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (ours, theirs) = (lines(listing), lines(other));
        let differ: Vec<&String> = ours.symmetric_difference(&theirs).collect();
        assert!(differ.is_empty(), "{store}: {differ:#?}");
        assert_eq!(other_config, config, "{store}");
        assert_eq!(other_digests, digests, "{store}");
    }
}

/// Loads an image into an engine. Returns the state of the output, and what was received.
async fn load(bench: &Bench, plan: &Plan, builder: Builder, store: &str) -> (OutputState, u64) {
    let name = format!("localhost/build-pipeline/{}:latest", plan.name);
    let output = Output::Engine { reference: name.parse().unwrap() };
    let settings = Settings { outputs: vec![output], ..bench.settings(store, false) };
    assert!(needs_engine(plan, &settings));
    let engine = Some(bench.engine(builder));
    let (execution, _) = support::run_on(engine, plan, &settings, pending()).await;
    assert!(matches!(execution.end, End::Succeeded), "{builder:?}: {:?}", execution.end);
    let engine = bench.engine(builder);
    let found = engine.inspect(&name).await.unwrap();
    engine.stop().await;
    let image = execution.image.unwrap();
    assert_eq!(found.id.as_str(), image.config_digest.to_string(), "{builder:?}");
    assert_eq!(found.tags, [name], "{builder:?}: the name on loopback is gone");
    (execution.outputs[0].state, execution.traffic.bytes_received)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_put_into_the_engine_once() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nRUN echo loaded > /loaded\n").await;
    for (builder, store) in [(Builder::Podman, "podman"), (Builder::Classic, "docker")] {
        for wanted in [OutputState::Written, OutputState::UpToDate] {
            assert_eq!(load(&bench, &bench.plan(), builder, store).await.0, wanted, "{builder:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layers_of_a_base_are_sent_to_an_engine_once() {
    // No other test gives this base to the engines.
    let noise: Vec<u8> = (0..50_000_u32)
        .flat_map(|n| Digest::of(&n.to_le_bytes()).hex()[..20].to_owned().into_bytes())
        .collect();
    let bench = Bench::on("", &noise, &json!({})).await;
    for (builder, store) in [(Builder::Podman, "podman"), (Builder::Classic, "docker")] {
        let (first, all) = load(&bench, &bench.derived("one"), builder, store).await;
        let (second, rest) = load(&bench, &bench.derived("two"), builder, store).await;
        assert_eq!((first, second), (OutputState::Written, OutputState::Written), "{builder:?}");
        assert!(all > 500_000, "{builder:?}: the base was received: {all} bytes");
        assert!(rest < 10_000, "{builder:?}: {rest} bytes were received again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_step_is_not_carried_out_again_and_asks_no_engine() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nRUN echo once > /once\n").await;
    let settings = bench.settings("store", false);
    assert!(needs_engine(&bench.plan(), &settings));
    let (first, _) = bench.run(Builder::Podman, &settings).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    let image = taken(&bench.path("out"));
    let settings = bench.settings("store", false);
    assert!(!needs_engine(&bench.plan(), &settings), "all that an engine does is finished");
    let (second, _) = support::run(&bench.plan(), &settings, pending()).await;
    assert!(matches!(second.end, End::Succeeded), "{:?}", second.end);
    assert_eq!(taken(&bench.path("out")), image);
    // Labels are written each time. That needs no engine, and builds nothing.
    let (label, before) = second.steps.split_last().unwrap();
    assert!(before.iter().all(|step| step.state == StepState::Cached), "{before:?}");
    assert_eq!((&*label.step, label.state), ("label", StepState::Done));
    // Running everything again needs an engine, and so does loading the image into one.
    assert!(needs_engine(&bench.plan(), &bench.settings("store", true)));
    let output = Output::Engine { reference: "localhost/once:1".parse().unwrap() };
    let loads = Settings { outputs: vec![output], ..bench.settings("store", false) };
    assert!(needs_engine(&bench.plan(), &loads) && needs_engine(&bench.derived("x"), &loads));
    assert!(!needs_engine(&bench.derived("x"), &bench.settings("store", true)));
    // A different Dockerfile results in a different step.
    std::fs::write(bench.path("Dockerfile"), "ARG BASE\nFROM ${BASE}\nRUN echo two > /once\n")
        .unwrap();
    assert!(needs_engine(&bench.plan(), &bench.settings("store", false)));
    let (none, _) = support::run(&bench.plan(), &bench.settings("store", false), pending()).await;
    let End::Failed(error) = none.end else { panic!("{:?}", none.end) };
    assert_eq!(error.kind(), executor::ErrorKind::Engine, "{error}");
    let (third, _) = bench.run(Builder::Podman, &bench.settings("store", false)).await;
    assert!(matches!(third.end, End::Succeeded), "{:?}", third.end);
    assert_ne!(taken(&bench.path("out")), image);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_run_says_which_line_with_what_status_and_what_it_said_last() {
    let text = "ARG BASE\nFROM ${BASE}\nRUN echo fine\nRUN echo said before it failed; exit 7\n";
    let bench = Bench::new(text).await;
    for (store, builder) in
        [("a", Builder::Podman), ("b", Builder::Classic), ("c", Builder::BuildKit)]
    {
        let settings = bench.settings(store, true);
        let (execution, events) = bench.run(builder, &settings).await;
        let End::Failed(error) = execution.end else { panic!("{builder:?} does not fail") };
        let failure = error.run_failure().unwrap_or_else(|| panic!("{builder:?}: {error:?}"));
        assert_eq!((failure.status, failure.line), (7, Some(4)), "{builder:?}: {failure:?}");
        assert!(
            failure.log.iter().any(|line| line.contains("said before it failed")),
            "{failure:?}"
        );
        let told = |event: &&Event| matches!(event, Event::BuildInstruction { line: Some(4), .. });
        assert!(events.iter().any(|event| told(&event)), "{builder:?}: {events:?}");
        assert!(!bench.path("out").exists(), "no output is written");
    }
}
