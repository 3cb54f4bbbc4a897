//! Wheels of a Python lock in the context of a build.

use std::future::pending;
use std::io::Write as _;

use executor::{End, ErrorKind, Execution};
use gpu_code::sample_object;
use names::{Digest, GpuTarget};
use plan::{Action, Input, Plan, Step};
use record::StepState;
use serde_json::json;
use testkit::{Answer, FaultProxy};

use crate::engines::{Bench, Builder};
use crate::support;

const FILE: &str = "demo-1.0-py3-none-any.whl";
const LOCK: &str = "pylock.demo.toml";

/// An index with one wheel, and a lock that contains it.
struct Wheel {
    bench: Bench,
    index: FaultProxy,
}

impl Wheel {
    async fn new(dockerfile: &str, wheel: &[u8]) -> Self {
        let index = FaultProxy::alone();
        let hash = Digest::of(wheel);
        let page = format!(
            r#"{{"meta":{{"api-version":"1.0"}},"name":"demo","files":[{{"filename":"{FILE}","url":"{}/files/{FILE}","hashes":{{"sha256":"{}"}}}}]}}"#,
            index.url(),
            hash.hex()
        );
        let json = "application/vnd.pypi.simple.v1+json";
        index
            .on("GET", "/simple/demo/")
            .does(Answer::new(200).header("Content-Type", json).body(page));
        let mut bench = Bench::new(dockerfile).await;
        bench.index = Some(format!("{}/simple", index.url()));
        let lock = format!(
            "lock-version = \"1.0\"\n[[packages]]\nname = \"demo\"\nversion = \"1.0\"\nwheels = [{{ path = \"wheels/{FILE}\", hashes = {{ sha256 = \"{}\" }} }}]\n[tool.build-pipeline]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\n",
            hash.hex()
        );
        std::fs::write(bench.path(LOCK), lock).unwrap();
        Self { bench, index }
    }

    /// Returns the bench's plan with the wheel in the context. `audited` is the GPU that the wheel
    /// must have code for.
    fn plan(&self, audited: Option<GpuTarget>) -> Plan {
        let lock = std::fs::read(self.bench.path(LOCK)).unwrap();
        let mut draft = self.bench.plan().into_draft();
        draft.inputs.insert(LOCK.to_owned(), Input::Lock { digest: Digest::of(&lock) });
        let mut last = "fetch-wheels".to_owned();
        let fetch = Action::FetchWheels { input: LOCK.to_owned() };
        draft.steps.insert(1, Step { id: last.clone(), action: fetch });
        if let Some(gpu) = audited {
            let action = Action::AuditWheels { wheels: last, gpu };
            last = "audit-wheels".to_owned();
            draft.steps.insert(2, Step { id: last.clone(), action });
        }
        for step in &mut draft.steps {
            if let Action::BuildImage { context, .. } = &mut step.action {
                context.insert("python".to_owned(), last.clone());
            }
        }
        draft.finish().unwrap()
    }

    /// Serves a file as the wheel.
    fn serve(&self, bytes: &[u8]) {
        let path = format!("/files/{FILE}");
        self.index.on("GET", &path).does(Answer::new(200).body(bytes.to_vec()));
    }

    async fn run(&self, plan: &Plan) -> Execution {
        let settings = self.bench.settings("store", false);
        let engine = Some(self.bench.engine(Builder::Podman));
        support::run_on(engine, plan, &settings, pending()).await.0
    }
}

/// A Dockerfile that prints the content of its folder `python`.
const CONTEXT: &str = r#"ARG BASE
FROM ${BASE}
COPY python /python
RUN cd /python && find . -type f | sort > /found && cat wheels/*.whl requirements.lock >> /found
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_wheels_of_a_lock_lie_in_the_context_and_only_by_their_hashes() {
    let wheel = b"of the wheel\n";
    let bench = Wheel::new(CONTEXT, wheel).await;
    let plan = bench.plan(None);
    // A different file under the same name is refused, and nothing is built.
    let other = Answer::new(200).body(b"something else\n".to_vec());
    bench.index.on("GET", &format!("/files/{FILE}")).first(1).does(other);
    bench.serve(wheel);
    let refused = bench.run(&plan).await;
    let End::Failed(error) = refused.end else { panic!("another wheel was accepted") };
    assert!(support::chain(&error).contains("SHA-256"), "{}", support::chain(&error));
    let built = bench.run(&plan).await;
    assert!(matches!(built.end, End::Succeeded), "{:?}", built.end);
    let listing = bench.bench.listing("store", &bench.bench.path("out"));
    let text = format!(
        "./pylock.toml\n./requirements.lock\n./wheels/{FILE}\nof the wheel\n# Written by `build-pipeline lock`; do not edit.\n# pip install --require-hashes --no-deps --only-binary :all: -r FILE\ndemo==1.0 \\\n    --hash=sha256:{}\n",
        Digest::of(wheel).hex()
    );
    let found = listing.lines().find(|line| line.contains("found")).unwrap_or_default();
    assert!(found.contains(Digest::of(text.as_bytes()).hex()), "{found}\n{text}");
}

/// Returns a wheel with a library for each GPU.
fn wheel_for(gpus: &[&str]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("demo/__init__.py", options).unwrap();
    zip.write_all(b"# gfx1151 and gfx1100\n").unwrap();
    for gpu in gpus {
        zip.start_file(format!("demo/kernels-{gpu}.co"), options).unwrap();
        zip.write_all(&sample_object(&gpu.parse().unwrap()).unwrap()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns a wheel with kernels of this GPU in a kpack archive (rocm-kpack, "KPAK").
fn wheel_with_kpack(gpu: &str) -> Vec<u8> {
    let kernel = sample_object(&gpu.parse().unwrap()).unwrap();
    let table = json!({
        "format_version": 1,
        "group_name": "blas",
        "gfx_arch_family": gpu,
        "gfx_arches": [gpu],
        "compression_scheme": "none",
        "toc": { "lib/libblas.so": {
            gpu: { "type": "hsaco", "ordinal": 0, "original_size": kernel.len() },
        } },
        "blobs": [{ "offset": 64, "size": kernel.len() }],
    });
    let mut archive = b"KPAK\x01\0\0\0".to_vec();
    archive.extend((64 + kernel.len() as u64).to_le_bytes());
    archive.resize(64, 0);
    archive.extend(&kernel);
    archive.extend(rmp_serde::to_vec_named(&table).unwrap());
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("demo/.kpack/blas.kpack", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&archive).unwrap();
    zip.finish().unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn wheels_with_code_for_other_gpus_only_stop_a_build_before_the_engine_starts() {
    let cases: [(Vec<u8>, Result<&str, &str>); 7] = [
        (
            wheel_with_kpack("gfx1100"),
            Err("the wheels contain no code for gfx1151, only for gfx1100"),
        ),
        (wheel_with_kpack("gfx1151"), Ok("parts with GPU code have code for gfx1151")),
        (wheel_for(&["gfx1100"]), Err("the wheels contain no code for gfx1151, only for gfx1100")),
        (b"no archive".to_vec(), Err("cannot look for GPU code in `demo-1.0-py3-none-any.whl`")),
        (wheel_for(&[])[..40].to_vec(), Err("cannot look for GPU code")),
        (wheel_for(&["gfx1100", "gfx1151"]), Ok("parts with GPU code have code for gfx1151")),
        (wheel_for(&[]), Ok("the wheels contain no GPU code")),
    ];
    for (wheel, expected) in cases {
        let bench = Wheel::new(CONTEXT, &wheel).await;
        bench.serve(&wheel);
        let plan = bench.plan(Some("gfx1151".parse().unwrap()));
        let done = bench.run(&plan).await;
        match (expected, done.end) {
            (Ok(note), End::Succeeded) => {
                let notes = format!("{:?}", done.notes);
                assert!(notes.contains(note), "{notes}");
            }
            (Err(message), End::Failed(error)) => {
                assert_eq!(error.kind(), ErrorKind::GpuCode);
                let told = support::chain(&error);
                assert!(told.contains(message), "{told}");
                let state =
                    |id: &str| done.steps.iter().find(|one| one.step == id).map(|one| one.state);
                assert_eq!(state("audit-wheels"), Some(StepState::Failed));
                let builds = plan
                    .steps
                    .iter()
                    .filter(|step| matches!(step.action, Action::BuildImage { .. }));
                for build in builds {
                    assert_eq!(state(&build.id), Some(StepState::NotBegun));
                }
            }
            (expected, end) => panic!("expected {expected:?}, found {end:?}"),
        }
    }
}
