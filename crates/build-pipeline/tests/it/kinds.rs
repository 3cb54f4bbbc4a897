//! A command that gets another kind of file or folder than it expects says what it got, and which
//! command is for it.

use crate::dsl::{Project, ran};

/// One path of each kind, its kind as a noun phrase, and a part of the command for it.
const KINDS: [(&str, &str, &str); 8] = [
    ("in.tar", "a bundle of inputs", "`build-pipeline bundle --check in.tar`"),
    ("copy", "a folder of inputs that `mirror` wrote", "`build-pipeline bundle --check copy`"),
    ("image.tar", "an archive of an image", "`build-pipeline verify image.tar`"),
    ("layout", "an OCI image layout", "`build-pipeline verify layout`"),
    ("record.json", "the record of a build", "`build-pipeline records record`"),
    ("plan.json", "a plan", "no command reads a plan from a file"),
    ("Dockerfile", "a Dockerfile", "`build-pipeline lint Dockerfile`"),
    ("build.log", "a log", "`build-pipeline diagnose build.log`"),
];

/// Commands with PATH in place of a path, and the kinds of `KINDS` that they accept.
const COMMANDS: [(&str, &[&str]); 14] = [
    ("verify PATH", &["image.tar", "layout"]),
    ("diff image.tar PATH", &["image.tar", "layout"]),
    ("diff PATH image.tar", &["image.tar", "layout"]),
    ("audit PATH", &["image.tar", "layout"]),
    ("slim PATH --output oci:out", &["image.tar", "layout"]),
    ("push PATH localhost:1/a:b", &["image.tar", "layout"]),
    ("bundle --check PATH", &["in.tar", "copy"]),
    ("build ollama --rehearse --bundle PATH", &["in.tar", "copy"]),
    ("diagnose PATH", &["build.log"]),
    // A list of files may contain any text.
    ("lint PATH", &["record.json", "plan.json", "Dockerfile", "build.log"]),
    ("patch lint-sed PATH", &["Dockerfile"]),
    ("records PATH", &[]),
    ("explain PATH", &[]),
    ("run PATH", &[]),
];

fn project() -> Project {
    let project = Project::new();
    let rehearsal = "build ollama --rehearse --with-layers";
    project
        .run(&format!("{rehearsal} --output oci:layout --output oci-archive:image.tar"))
        .expect(0);
    project.run("bundle ollama --rehearse -o in.tar").expect(0);
    project.run("mirror ollama --rehearse --to dir:copy").expect(0);
    let plan = project.run("plan ollama --rehearse --format json").expect(0).stdout;
    project.write("plan.json", &plan);
    let record = project.run("records --last --format json").expect(0).stdout;
    project.write("record.json", &record);
    project.write("Dockerfile", "FROM scratch\n");
    project.write("build.log", "nothing\n");
    project
}

#[test]
fn every_command_names_the_kind_of_a_wrong_path_and_the_right_command() {
    let project = project();
    for (command, accepted) in COMMANDS {
        for (path, noun, next) in KINDS {
            let line = command.replace("PATH", path);
            let words: Vec<&str> = line.split_whitespace().collect();
            let ran = ran(project.command(&words).output().unwrap());
            let is_named = ran.stderr.contains(&format!("`{path}` is {noun}"));
            assert_eq!(is_named, !accepted.contains(&path), "{line}: {}", ran.stderr);
            if is_named {
                assert_eq!((ran.code, &*ran.stdout), (2, ""), "{line}");
                assert!(ran.stderr.contains(next), "{line}: {}", ran.stderr);
            }
        }
    }
    assert!(!project.path("out").exists());
}

/// The tar of a source replaces neither an image nor a bundle.
#[test]
fn a_patched_source_does_not_replace_an_image_or_a_bundle() {
    let project = project();
    for (path, noun) in [("in.tar", "a bundle of inputs"), ("image.tar", "an archive of an image")]
    {
        let before = std::fs::read(project.path(path)).unwrap();
        let line = format!("patch apply aiter --output {path} --bundle in.tar");
        let ran = project.run(&line).expect(2);
        assert_eq!(std::fs::read(project.path(path)).unwrap(), before, "{line}");
        ran.says(&format!("is {noun}, not the tar of a source"));
    }
}
