//! The walk in TUTORIAL.md, "From an empty folder to a service": its commands run one after another
//! with podman and docker, against a registry, a git server and a package index on this machine.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{GitFolder, GitHttp, PodmanStore, RandomImage, busybox_root, shared_registry};

use crate::built::dockerd;
use crate::dsl::{Project, Ran, ran, workspace};
use crate::patch_pinned::Index;

/// Returns the commands of the walk: the blocks ```` ```sh walk ```` in the order of the text.
fn commands() -> String {
    let text = std::fs::read_to_string(workspace().join("TUTORIAL.md")).unwrap();
    let blocks = text.split("```sh walk\n").skip(1);
    let blocks: Vec<&str> = blocks.map(|block| block.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 2, "one block for each kind of track");
    blocks.concat()
}

/// Makes the wheel of package `tool-data` on an index.
fn publish(index: &Index) {
    const MAKE: &str = r#"
import hashlib, pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1]) / "simple" / "tool-data"
folder.mkdir(parents=True)
name, info = "tool_data-1.0-py3-none-any.whl", "tool_data-1.0.dist-info"
with zipfile.ZipFile(folder / name, "w") as wheel:
    wheel.writestr("tool_data/words.txt", "from the wheel\n")
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tool-data\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "")
digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
(folder / "index.html").write_text(f'<!DOCTYPE html><a href="{name}#sha256={digest}">{name}</a>')
"#;
    let mut python = Command::new("python3");
    python.args(["-c", MAKE]).arg(index.folder.path());
    ran(python.output().unwrap()).expect(0);
}

/// The servers on this machine that replace the network.
struct Place {
    project: Project,
    index: Index,
    _git: GitFolder,
    _server: GitHttp,
    _podman: PodmanStore,
    registry: String,
}

impl Place {
    fn new() -> Self {
        let host = shared_registry().host();
        let team = format!("walk-{}", std::process::id());
        RandomImage::new(9201).push(host, &format!("{team}/vllm"), "v0.27.1");
        let base = RandomImage { below: vec![busybox_root()], ..RandomImage::new(9202) };
        base.push(host, &format!("{team}/busybox"), "1.37");
        let git = GitFolder::new();
        git.init("tool");
        git.write("tool", "targets.txt", "list = \"gfx1100\"\n");
        git.commit("tool");
        git.run("tool", &["tag", "v0.5"]);
        let (server, index) = (GitHttp::start(git.path()), Index::start());
        publish(&index);
        let (project, podman) = (Project::empty(), PodmanStore::new());
        project.write("registries.conf", "");
        project.write_podman(&podman);
        let config = format!(
            "schema = 1\n[mirrors]\n\"docker.io/vllm/vllm-openai-rocm\" = \"{host}/{team}/vllm\"\n\
             \"docker.io/library/busybox\" = \"{host}/{team}/busybox\"\n\
             \"https://git.example.org\" = \"http://{}\"\n",
            server.host()
        );
        project.write("home/.config/build-pipeline/config.toml", &config);
        std::fs::create_dir_all(project.path("empty")).unwrap();
        // From the machine's own index, because the walk's index has only one package.
        let mut uv = Command::new("python3");
        uv.args(["-m", "pip", "install", "--quiet", "--target"]).arg(project.path("uv")).arg("uv");
        ran(uv.output().unwrap()).expect(0);
        let registry = format!("{host}/{team}");
        Self { project, index, _git: git, _server: server, _podman: podman, registry }
    }

    /// Runs a script in a folder, with the program on the `PATH`.
    fn sh(&self, script: &str, folder: &Path) -> Ran {
        let program = Path::new(env!("CARGO_BIN_EXE_build-pipeline")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let [bin, uv] = ["bin", "uv/bin"].map(|folder| self.project.path(folder));
        let mut bash = Command::new("bash");
        bash.args(["-e", "-u", "-o", "pipefail", "-c", script])
            .current_dir(folder)
            .env_clear()
            .env("PATH", format!("{}:{}:{}:{path}", bin.display(), uv.display(), program.display()))
            .env("HOME", self.project.path("home"))
            .env("CONTAINERS_REGISTRIES_CONF", self.project.path("registries.conf"))
            .env("DOCKER_HOST", format!("unix://{}", dockerd().socket().display()))
            .env("PIP_INDEX_URL", format!("http://127.0.0.1:{}/simple", self.index.port))
            .env("REGISTRY", &self.registry);
        ran(bash.output().unwrap())
    }

    /// Returns the config of a pushed image, as skopeo reads it.
    fn config(&self, name: &str) -> Value {
        let script =
            format!("skopeo inspect --config --tls-verify=false docker://$REGISTRY/{name}");
        let ran = self.sh(&script, &self.project.path("empty")).expect(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }
}

#[test]
fn the_walk_leads_from_an_empty_folder_to_a_service() {
    let place = Place::new();
    let ran = place.sh(&commands(), &place.project.path("empty")).expect(0);
    // Every verification of the walk proves something.
    assert!(ran.stdout.matches("proven: ").count() >= 2, "{}", ran.stdout);
    ran.prints("as planned").prints("the images are identical");
    let project = |file: &str| place.project.read(&format!("empty/ai/{file}"));

    let server = place.config("my-server:v1");
    let labels = &server["config"]["Labels"];
    assert_eq!(labels["io.github.build-pipeline.track"], "my-server");
    assert_eq!(labels["io.github.build-pipeline.gpu"], "gfx1201");
    let quadlet = project("build-pipeline-my-server.container");
    assert!(quadlet.contains("localhost/build-pipeline/my-server:latest"), "{quadlet}");

    // Both engines built an image with the project's own files, packages and patch.
    assert_eq!(project("podman.txt"), project("docker.txt"));
    let tool = place.config("tool:v1");
    let labels = &tool["config"]["Labels"];
    assert_eq!(labels["io.github.build-pipeline.patches"], "tool/tool-gpus");
    assert!(labels["io.github.build-pipeline.files-digest"].is_string(), "{labels}");
    let run = "docker run --rm --network=none localhost/build-pipeline/tool:latest";
    let said = place.sh(run, &place.project.path("empty")).expect(0).stdout;
    assert_eq!(said, "list = \"gfx1100;gfx1201\"\nfrom the wheel\n");
    assert!(
        project("build-pipeline-tool.container").contains("localhost/build-pipeline/tool:latest")
    );
}
