//! A Dockerfile like that of a service: a Python environment with locked wheels and an extension in
//! C. It needs a larger base than the others, and packages that not every machine can fetch.

use std::path::PathBuf;
use std::process::Command;

use testkit::{PodmanStore, shared_registry};

use crate::dsl::{Project, ran};
use crate::site::Site;

/// The base, and a project that has fetched what the Dockerfile needs.
pub(super) struct Venv {
    project: Project,
    base: String,
    digest: String,
}

/// The options that build the variant.
const BUILD: &str = "--track vulkan --variant venv";

impl Venv {
    /// Builds the base and the image with this machine's podman.
    pub(super) fn new() -> Self {
        let podman = PodmanStore::new();
        let project = Project::new();
        project.write_podman(&podman);
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", project.path("bin").display());
        let build = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            ran(project.command(&words).env("PATH", &path).output().unwrap()).expect(0).digest()
        };
        let stage = "[vulkan.variants.python]\npackages = \"rehearsal\"\n\
                     [[vulkan.variants.python.stage]]\nname = \"system\"\n\
                     dockerfile = \"dockerfiles/source/rehearsal.Dockerfile\"\n\
                     packages = [\"python\"]\n\
                     args = { PACKAGES = \"g++ python3-dev python3-pip python3-venv\" }\n\n\
                     [vulkan.variants.debian]\n";
        project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
        let host = shared_registry().host();
        let line = "--track vulkan --variant python --engine podman --push";
        let base = build(&format!("{line} {host}/built/python:1"));
        add_variant(&project, &base);
        let mirror = format!("registry.example.org={host}");
        let digest = build(&format!("{BUILD} --engine podman --mirror {mirror}"));
        Self { project, base, digest }
    }

    /// Builds the image twice on another machine, the second time from scratch.
    pub(super) fn built(&self, site: &Site) -> String {
        add_variant(&site.project, &self.base);
        let sources =
            |project: &Project| -> PathBuf { project.path("home/.cache/build-pipeline/sources") };
        let to = sources(&site.project);
        std::fs::create_dir_all(&to).unwrap();
        let mut copy = Command::new("cp");
        copy.args(["-a", "--no-target-directory"]).arg(sources(&self.project)).arg(&to);
        assert!(copy.status().unwrap().success());
        site.give_away();
        for more in ["", "--fresh"] {
            let ran = site.run(&format!("{BUILD} --engine {} {more}", site.engine_name()));
            assert_eq!(ran.expect(0).digest(), self.digest, "another engine, or `{more}`");
        }
        self.digest.trim_start_matches("sha256:")[..12].to_owned()
    }
}

/// Adds the variant to a project.
fn add_variant(project: &Project, base: &str) {
    let versions = project.read("versions/versions.toml");
    let pin = format!(
        "\n[image.python]\nrepository = \"registry.example.org/built/python\"\ntag = \"1\"\n\
         digest = \"{base}\"\nchecked = 2026-11-21\nevidence = \"a test\"\n"
    );
    project.write("versions/versions.toml", &format!("{versions}{pin}"));
    let stage = "[vulkan.variants.venv]\nbase = \"python\"\n[[vulkan.variants.venv.stage]]\n\
                 name = \"venv\"\ndockerfile = \"dockerfiles/venv.Dockerfile\"\n\
                 python = \"flash-attention\"\n\n[vulkan.variants.debian]\n";
    project.edit("versions/tracks.toml", "[vulkan.variants.debian]\n", stage);
    project.write("dockerfiles/venv.Dockerfile", include_str!("venv.Dockerfile"));
}
