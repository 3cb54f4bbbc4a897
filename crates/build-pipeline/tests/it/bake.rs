//! `export bake`: another builder builds the steps, and the images are the same.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{Guest, Machine, buildx, shared_registry};

use crate::built::{Bench, tiny_project};
use crate::dsl::{Project, Ran, ran};

/// The first Dockerfile. It has a stage called `base`, an obvious name for a context of bake, and
/// everything that bake must not change. It also copies a file from its context.
const FIRST: &str = r#"ARG BASE
FROM ${BASE} AS base
ENV PATH=/bin
ARG WORDS
RUN printf '%s\n' "$WORDS" > /words && chmod 600 /words && ln /words /other
COPY --chown=7:8 dockerfiles/tiny.Dockerfile /copied
HEALTHCHECK CMD ["true"]
SHELL ["/bin/sh", "-e", "-c"]
"#;
/// The second Dockerfile, based on the image of the first one.
const SECOND: &str = "ARG BASE\nFROM ${BASE}\nRUN echo 2 >> /words && rm /copied\n";
const VARIANT: &str = "vulkan --variant tiny";

/// Gives the variant a context, an argument and a second stage.
fn extend(project: &Project) {
    project.write("dockerfiles/second.Dockerfile", SECOND);
    project.edit(
        "versions/tracks.toml",
        "dockerfile = \"dockerfiles/tiny.Dockerfile\"\n",
        "dockerfile = \"dockerfiles/tiny.Dockerfile\"\n\
         files = [\"dockerfiles/tiny.Dockerfile\"]\n\
         args = { WORDS = \"a ${b} %{c} \\\"d\\\" 'e' \\\\\" }\n\n\
         [[vulkan.variants.tiny.stage]]\nname = \"second.2\"\n\
         dockerfile = \"dockerfiles/second.Dockerfile\"\n",
    );
}

/// Runs the program on a machine without an engine.
fn without_engine(project: &Project, line: &str) -> Ran {
    let mirror = format!("registry.example.org={}", shared_registry().host());
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    command.args(["--mirror", &mirror]).env("PATH", "/nowhere").env_remove("DOCKER_HOST");
    ran(command.output().unwrap())
}

/// Runs bake in a folder, with docker's BuildKit of Debian sid.
fn bake(folder: &Path, socket: &Path, words: &[&str]) -> String {
    let mut command = Command::new(buildx());
    command.arg("bake").args(words).current_dir(folder);
    command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
    command.env("HOME", folder.parent().unwrap());
    ran(command.output().unwrap()).expect(0).stdout
}

#[test]
fn an_image_that_bake_has_built_has_the_digest_of_an_image_of_an_engine() {
    let (project, _) = tiny_project(FIRST);
    extend(&project);
    let folder = project.path("bake");
    let export = format!("export bake {VARIANT} --output bake");

    // Each step needs the previous one, so bake runs twice.
    let machine = Machine::start(&Guest::with_engines("sid"), &[&project.path("")]);
    let socket = machine.start_docker(true);
    for stage in ["build-tiny", "build-second_2"] {
        without_engine(&project, &export)
            .expect(0)
            .prints("next: run `docker buildx bake` in `bake`");
        let file = project.read("bake/docker-bake.hcl");
        let printed: Value = serde_json::from_str(&bake(&folder, &socket, &["--print"])).unwrap();
        let targets = printed["target"].as_object().unwrap();
        assert_eq!(targets.len(), 1, "{targets:?}");
        assert!(targets.keys().next().unwrap().starts_with(stage), "{targets:?}");
        without_engine(&project, &export).expect(0);
        assert_eq!(project.read("bake/docker-bake.hcl"), file, "it is the same each time");
        bake(&folder, &socket, &[]);
    }
    without_engine(&project, &export)
        .expect(0)
        .prints("all steps are finished")
        .prints("build-pipeline build --track vulkan --variant tiny");
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|one| one.file_name()).collect();
    assert_eq!(left, [".build-pipeline"], "only the mark is left");
    let digest = without_engine(&project, &format!("build {VARIANT}")).expect(0).digest();

    let bench = Bench::new(FIRST);
    extend(&bench.project);
    let built =
        bench.command_at(&format!("build {VARIANT} --engine podman"), shared_registry().host());
    assert_eq!(ran({ built }.output().unwrap()).expect(0).digest(), digest);
}

#[test]
fn a_folder_of_others_and_a_wrong_archive_are_refused() {
    let (project, _) = tiny_project(FIRST);
    let export = format!("export bake {VARIANT}");
    without_engine(&project, &export).expect(2).says("no folder given");
    for (option, name) in
        [("--check", "--check"), ("--push x/y:1", "--push"), ("--install i", "--install")]
    {
        without_engine(&project, &format!("{export} --output bake {option}"))
            .expect(2)
            .says(&format!("`{name}` is not an option of `export bake`"));
    }
    project.write("mine/file", "1");
    without_engine(&project, &format!("{export} --output mine"))
        .expect(2)
        .says("`mine` is not a folder for bake");
    assert_eq!(project.read("mine/file"), "1");

    let export = format!("{export} --output bake");
    without_engine(&project, &export).expect(0).prints("next: ");
    let folder = std::fs::read_dir(project.path("bake")).unwrap().flatten();
    let name = folder.map(|one| one.file_name().into_string().unwrap());
    let name = name.filter(|one| one.starts_with("build-tiny")).collect::<Vec<_>>().concat();
    let archive = format!("bake/{name}.tar");
    for content in ["no archive", &"x".repeat(2000)] {
        project.write(&archive, content);
        without_engine(&project, &export).expect(2).says(&archive).says("run bake again");
    }
    std::fs::remove_file(project.path(&archive)).unwrap();

    // Files that somebody else put there are not changed.
    project.write("precious", "1");
    std::fs::create_dir(project.path("links")).unwrap();
    std::os::unix::fs::symlink("../precious", project.path("links/.build-pipeline")).unwrap();
    let links = export.replace("--output bake", "--output links");
    without_engine(&project, &links).expect(2).says("`links` is not a folder for bake");
    assert_eq!(project.read("precious"), "1");

    let context = project.path(&format!("bake/{name}/context"));
    let time = |path: &str| context.join(path).metadata().unwrap().modified().unwrap();
    assert_eq!(time("."), time("Dockerfile"), "folders have the time of the plan, too");

    // A file that somebody changed is written again.
    let dockerfile = format!("bake/{name}/context/Dockerfile");
    let text = project.read(&dockerfile);
    project.write(&dockerfile, "FROM scratch\n");
    without_engine(&project, &export).expect(0);
    assert_eq!(project.read(&dockerfile), text);
    let mark = std::fs::File::open(project.path("bake/.build-pipeline")).unwrap();
    mark.lock().unwrap();
    without_engine(&project, &export).expect(10).says("another run is using `bake`");
    let argument = "dockerfile = \"dockerfiles/tiny.Dockerfile\"\nargs = { WORDS = \"\u{e9}\" }\n";
    project.edit(
        "versions/tracks.toml",
        "dockerfile = \"dockerfiles/tiny.Dockerfile\"\n",
        argument,
    );
    without_engine(&project, &export.replace("--output bake", "--output other"))
        .expect(2)
        .says("bake may change the build argument `WORDS`");
}
