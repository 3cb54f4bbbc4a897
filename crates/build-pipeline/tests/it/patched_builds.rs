//! Builds of patched sources through the command line: either the patches have the planned effect,
//! or no image is built and labelled.

use serde_json::Value;
use testkit::{GitFolder, GitHttp, PodmanStore, RandomImage, busybox_root, shared_registry};

use crate::dsl::{Project, Ran, ran};
use crate::patch::{head, list_edit};

const UPSTREAM: &str = "https://git.example.org";
const FILE: &str = "patches/demo/demo-list.toml";

/// A project whose track `vulkan` copies a patched source into an image.
struct Bench {
    project: Project,
    server: GitHttp,
    _git: GitFolder,
    _podman: PodmanStore,
}

impl Bench {
    fn new() -> Self {
        let base = RandomImage { below: vec![busybox_root()], ..RandomImage::new(611) };
        let base = base.push(shared_registry().host(), "patched/tiny", "1");
        let git = GitFolder::new();
        git.init("demo");
        git.write("demo", "a.txt", "list = \"gfx1100\"\n");
        let commit = git.commit("demo");
        let server = GitHttp::start(git.path());
        let (project, podman) = (Project::new(), PodmanStore::new());
        let versions = project.read("versions/versions.toml");
        let pins = format!(
            "\n[image.tiny]\nrepository = \"registry.example.org/patched/tiny\"\ntag = \"1\"\ndigest = \"{}\"\n\n\
             [source.demo]\nurl = \"{UPSTREAM}/demo\"\nversion = \"0.5\"\ncommit = \"{commit}\"\npatches = \"demo\"\n",
            base.digest
        );
        project.write("versions/versions.toml", &format!("{versions}{pins}"));
        let stage = "[vulkan.variants.tiny]\nbase = \"tiny\"\n[[vulkan.variants.tiny.stage]]\n\
                     name = \"tiny\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\
                     sources = { \"demo\" = \"demo\" }\n\n[vulkan.variants.debian]\n";
        project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
        let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nCOPY demo/a.txt /a.txt\nRUN echo the list is $(cat /a.txt)\n";
        project.write("dockerfiles/tiny.Dockerfile", text);
        project.write_podman(&podman);
        Self { project, server, _git: git, _podman: podman }
    }

    fn patch(&self, applies: &str, edit: &str) {
        let text = format!("{}[applies]\n{applies}\n\n{edit}", head("demo-list"));
        self.project.write(FILE, &text);
    }

    fn run(&self, line: &str) -> Ran {
        let path = std::env::var("PATH").unwrap();
        let registry = format!("registry.example.org={}", shared_registry().host());
        let git = format!("{UPSTREAM}=http://{}", self.server.host());
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        command
            .args(["--mirror", &registry, "--mirror", &git])
            .env("PATH", format!("{}:{path}", self.project.path("bin").display()));
        ran(command.output().unwrap())
    }

    fn build(&self) -> Ran {
        self.run("--track vulkan --variant tiny --engine podman")
    }

    fn last_record(&self) -> Value {
        self.project.records().pop().unwrap()
    }
}

#[test]
fn a_patch_is_in_the_image_in_the_plan_and_in_the_label() {
    let bench = Bench::new();
    bench.patch(
        "versions = \"<0.7\"\nabove = { then = \"skip\", because = \"upstream has it\" }",
        &list_edit("a.txt"),
    );
    let built = bench.build().expect(0).says("the list is list = \"gfx1100;gfx1151\"");
    let digest = built.digest();
    let labels = &bench.last_record()["plan"]["steps"];
    let last = labels.as_array().unwrap().last().unwrap();
    let labels = &last["action"]["edit"]["labels"];
    assert_eq!(labels["io.github.build-pipeline.patches"], "demo/demo-list");
    bench.run("verify vulkan-tiny").expect(0).prints("as planned");

    // A comment triggers no rebuild and changes no image.
    bench.project.edit(FILE, "[applies]", "# a comment\n[applies]");
    let again = bench.build().expect(0);
    assert_eq!(again.digest(), digest);
    assert!(!again.stderr.contains("the list is"), "{}", again.stderr);
    bench.run("verify vulkan-tiny").expect(0);

    // Upstream already contains the text: the patch still counts as effective.
    bench.project.edit(FILE, "item = \"{gpu}\"", "item = \"gfx1100\"");
    bench.build().expect(0).says("the list is list = \"gfx1100\"");
    bench.run("verify vulkan-tiny").expect(0);
}

#[test]
fn a_patch_that_does_not_come_to_what_the_plan_says_stops_the_build_before_any_run() {
    let bench = Bench::new();
    let upstream =
        "versions = \"<0.2\"\nabove = { then = \"expect-satisfied\", because = \"0.2 has it\" }";
    let skipped = list_edit("b.txt").replace("[[edit]]\n", "[[edit]]\nif_absent = \"skip\"\n");
    for (applies, edit, why) in [
        // The edited file does not exist.
        ("versions = \"*\"", list_edit("b.txt"), "none of its files exists"),
        (
            "versions = \"*\"",
            list_edit("a.txt").replace("expect = 1", "expect = 2"),
            "the anchor matches 1 times",
        ),
        // The edited file does not exist either. The patch allows that, but according to the plan
        // it takes effect.
        ("versions = \"*\"", skipped, "according to the plan, it takes effect in `demo`"),
        // Upstream should have it, and does not.
        (upstream, list_edit("a.txt"), "this version should include it (0.2 has it)"),
    ] {
        bench.patch(applies, &edit);
        let failed = bench.build().expect(7).says("patch `demo-list` does not apply").says(why);
        assert!(!failed.stderr.contains("the list is"), "no RUN: {}", failed.stderr);
        assert!(!bench.project.path("dist/vulkan-tiny").exists(), "nothing was labelled");
        let record = bench.last_record();
        assert_eq!(record["status"], "failed");
        assert_eq!(record["image"], Value::Null);
        for step in record["steps"].as_array().unwrap() {
            let (id, state) = (step["step"].as_str().unwrap(), step["state"].as_str().unwrap());
            let is_after = ["build-tiny", "seal-tiny", "label-image"].contains(&id);
            assert_eq!(state == "not-begun", is_after, "{id} is {state}");
        }
    }
    testkit::gate_passed(12, 4);

    // A version that the patch would break is refused before anything is fetched.
    let refuse = "versions = \"<0.2\"\nabove = { then = \"refuse\", because = \"it breaks\" }";
    bench.patch(refuse, &list_edit("a.txt"));
    let (requests, records) = (bench.server.requests(), bench.project.records().len());
    bench
        .build()
        .expect(2)
        .says("patch `demo/demo-list` refuses pin `demo`: 0.5 is above `<0.2`: it breaks");
    assert_eq!((bench.server.requests(), bench.project.records().len()), (requests, records));
}
