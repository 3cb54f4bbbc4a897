//! Bad input gives a clear error, exit code 2 and a next step, and changes nothing.

use crate::dsl::{Project, same};

/// Command lines, with the text of the error and of the hint.
const CASES: [(&str, &str, &str); 54] = [
    ("--rehearse", "no track given", "use `--track NAME`"),
    ("build", "no track given", "use `--track NAME`"),
    ("plan", "no track given", "`build-pipeline plan TRACK`"),
    ("plan offical", "there is no track `offical`", "did you mean `official`?"),
    ("--track source", "pin `fedora` is unresolved", "`--rehearse` builds on a small stand-in"),
    ("plan --track vulkan --variant debain", "no variant `debain`", "did you mean `debian`?"),
    ("plan --track vulkan --variant fedora", "pin `fedora` is unresolved", "--set fedora=44"),
    ("--track vulkan --rehearse", "because it has no key `rehearsal`", "`rehearsal = \"NAME\"`"),
    (
        "--track source --rehearse --variant fedora",
        "is rehearsed with variant `rehearsal`, not with `fedora`",
        "leave out `--variant fedora`",
    ),
    ("--track ollama --variant debian", "track `ollama` has no variants", "leave out `--variant`"),
    (
        "--track official --variant debian",
        "track `official` has no variant `debian`",
        "the only variant is `slim`",
    ),
    ("--track ollama", "pin `ollama` is unresolved", "`build-pipeline bump ollama`"),
    ("plan --track ollama", "pin `ollama` is unresolved", "--rehearse"),
    (
        "--track locked-spoof --set vllm-dev-lock=sha256:0",
        "there is no pin `vllm-dev-lock`",
        "did you mean `vllm-dev-locked`?",
    ),
    ("--track locked-spoof --set vllm-dev-locked", "has no `=`", "--set PIN=sha256:"),
    (
        "--track locked-spoof --set vllm-dev-locked=sha256:abc",
        "does not contain a valid digest",
        "--set PIN=",
    ),
    (
        "--track locked-spoof --set vllm-dev-locked=sha512:abc",
        "uses an algorithm other than sha256",
        "--set PIN=",
    ),
    ("--track locked-spoof --set vllm-dev-locked=-x", "`-x` is not a tag", "--set PIN="),
    (
        "--track locked-spoof --set vllm-legacy=v0.11.0",
        "pin `vllm-legacy` is not an image",
        "`build-pipeline bump vllm-legacy VALUE`",
    ),
    (
        "--track locked-spoof --rehearse --set vllm-dev-locked=a",
        "a rehearsal uses no image pins",
        "leave out",
    ),
    (
        "--track source --variant rehearsal --set fedora=44",
        "a rehearsal uses no image pins",
        "leave out `--set` or `--variant`",
    ),
    ("--track locked-spoof --gpu gfx1152x", "`gfx1152x` is not a GPU target", "rocminfo"),
    (
        "--track locked-spoof --gpu gfx1154",
        "the GPU `gfx1154` is not known",
        "the known targets are gfx",
    ),
    ("--track locked-spoof --spoof gfx1031", "`gfx1031` is a target name", "`--spoof 10.3.1`"),
    ("--track ollama --spoof gfx1100", "`gfx1100` is a target name", "hint: leave out `--spoof`"),
    ("--track locked-spoof --spoof 11.0", "`11.0` is not accepted by the HSA", "--spoof x.y.z"),
    ("--track locked-spoof --spoof 64.0.0", "`64.0.0` is not accepted by the HSA", "63.255.255"),
    (
        "--track ollama --rehearse --spoof 11.0.0",
        "track `ollama` sets no spoof",
        "that has `spoof = true`",
    ),
    (
        "--track locked-spoof --rehearse --push ghcr.io/a/b:c",
        "a rehearsed image cannot be pushed",
        "without `--rehearse`",
    ),
    ("--track locked-spoof --rehearse --push a/b:c", "is a short name", "HOST/NAME:TAG"),
    ("--track locked-spoof --push UPPER/x:1", "must not have upper-case", "HOST/NAME:TAG"),
    ("lint home", "contains no file of a kind that `lint` knows", "compose and environment files"),
    (
        "--track locked-spoof --mirror docker.io=http://127.0.0.1:5951/",
        "for a registry, leave out `http://`",
        "--mirror docker.io=127.0.0.1:5000",
    ),
    (
        "--track locked-spoof --rehearse --output dist",
        "does not start with a known kind of output",
        "oci-archive:FILE",
    ),
    ("--track locked-spoof --rehearse --output oci:", "does not specify a location", "oci:DIR"),
    (
        "--track locked-spoof,ollama --rehearse --output oci:x",
        "there are several images",
        "one image at a time",
    ),
    (
        "--track locked-spoof --mirror docker.io",
        "it does not have the form FROM=TO",
        "--mirror docker.io=127.0.0.1:5000",
    ),
    ("--track locked-spoof plan", "`--track` is not allowed before the command", "plan --track"),
    ("--rehearse build official", "`--rehearse` is not allowed before", "build --rehearse"),
    ("verify offcial", "is not a track, file or image reference", "hint: did you mean `official`?"),
    ("verify engine:a", "is not a track, file or image", "does not read images in an engine"),
    ("patch check aiter", "pin `aiter` is unresolved", "`build-pipeline bump aiter` looks up its"),
    ("verify oci:nothing", "nothing` failed", "an OCI image layout"),
    ("verify docker.io/a/b", "`docker.io/a/b` names a repository", "`docker.io/a/b:latest`"),
    (
        "verify rehearsal-trainer",
        "`rehearsal-trainer` is not a track",
        "`build-pipeline --track trainer --rehearse` makes the rehearsed image",
    ),
    ("--track locked-spoof --rehearse --store x:y", "cannot use `--store x:y`", "--store dir:"),
    ("explain aiter-on-rdna --format json", "describes a track, not a rule", "pass a track"),
    ("audit registry:nothing", "`registry:nothing` is not a track", "HOST/NAME:TAG"),
    ("verify nothing", "`nothing` is not a track, file or image reference", "HOST/NAME:TAG"),
    ("verify dist/nothing", "is not a track", "there is no folder or file `dist/nothing`"),
    ("verify dist/official", "is not a track", "`build-pipeline --track official` writes an image"),
    (
        "--track official --rehearse --output registry:foo",
        "`--output registry:foo` does not name an image",
        "HOST/NAME:TAG",
    ),
    ("push official 127.0.0.1:1/x:Y@z", "contains a user name", "write a digest, `@sha256:…`"),
    ("-C nowhere plan --track ollama", "`-C nowhere` is not a folder", "versions/"),
];

#[test]
fn wrong_arguments_say_what_is_wrong_and_what_is_next() {
    let project = Project::new();
    let before = project.files();
    for (line, error, hint) in CASES {
        let ran = project.run(line).expect(2).says("error: ").says(error).says("hint: ").says(hint);
        assert_eq!(ran.stdout, "", "{line}");
    }
    assert_eq!(project.files(), before, "nothing was written");
    assert!(project.records().is_empty());
}

#[test]
fn an_output_that_is_a_dangling_link_is_named_as_a_link() {
    let project = Project::new();
    std::os::unix::fs::symlink("nowhere", project.path("link")).unwrap();
    for output in ["oci:link", "oci-archive:link", "oci:link/below"] {
        let line = format!("--track locked-spoof --rehearse --output {output}");
        project.run(&line).expect(2).says("`link` is a symbolic link, and its target");
    }
    assert!(project.path("link").is_symlink() && !project.path("nowhere").exists());
}

#[test]
fn an_unresolved_source_is_looked_up_by_bump() {
    let project = Project::new();
    project.edit(
        "versions/versions.toml",
        "tag = \"44\"\ndigest = \"unresolved\"",
        &format!("tag = \"44\"\ndigest = \"sha256:{}\"", "1".repeat(64)),
    );
    let versions = project.read("versions/versions.toml");
    let pins = "[source.mine]\nurl = \"https://git.test/mine\"\nversion = \"1.0\"\ncommit = \"unresolved\"\n";
    project.write("versions/versions.toml", &format!("{versions}\n{pins}"));
    let tracks = project.read("versions/tracks.toml");
    let track = "[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"fedora\"\n\n[[mine.stage]]\nname = \"mine\"\ndockerfile = \"dockerfiles/mine.Dockerfile\"\nsources = { mine = \"mine\" }\n";
    project.write("versions/tracks.toml", &format!("{tracks}\n{track}"));
    project.write("dockerfiles/mine.Dockerfile", "ARG BASE\nFROM ${BASE}\n");
    let ran = project.run("plan --track mine").expect(2).says("pin `mine` is unresolved");
    ran.says("`build-pipeline bump mine` looks up its commit");
}

#[test]
fn a_track_in_place_of_a_command_is_understood() {
    let project = Project::new();
    for (line, hint) in [
        ("official", "hint: did you mean `build-pipeline build official`?"),
        ("D --rehearse", "hint: did you mean `build-pipeline build locked-spoof`?"),
        ("offcial", "hint: did you mean `build-pipeline build official`?"),
        ("plann", "hint: did you mean `plan`?"),
    ] {
        let ran = project.run(line).expect(2).says("unrecognized subcommand").says(hint);
        // A similar name is only a guess, so the commands are listed too.
        let hints = if line == "offcial" { 2 } else { 1 };
        assert_eq!(ran.stderr.matches("hint: ").count(), hints, "{}", ran.stderr);
    }
    project.run("patch official").expect(2).says("the commands of `patch` are `check`, `diff`");
}

#[test]
fn all_suggestions_look_alike() {
    let project = Project::new();
    for (line, hint) in [
        ("--trak x", "hint: did you mean `--track`?"),
        ("smoke official --level improt", "hint: did you mean `import`?"),
        ("help plann", "hint: did you mean `plan`?"),
        ("explain offcial", "hint: did you mean `official`?"),
        ("lock offcial", "hint: did you mean `official`?"),
        ("bump vllm-legcy", "hint: did you mean `vllm-legacy`?"),
    ] {
        let ran = project.run(line).expect(2).says(hint);
        assert!(!ran.stderr.contains("tip:"), "{}", ran.stderr);
    }
    let ran = project.run("plan --last").expect(2);
    assert!(!ran.stderr.contains("-- --last"), "{}", ran.stderr);
}

#[test]
fn a_value_of_a_variable_is_named_with_the_variable() {
    let project = Project::new();
    let with = |name: &str, value: &str, line: &str| {
        let mut command = project.command(&line.split(' ').collect::<Vec<_>>());
        crate::dsl::ran(command.env(format!("BUILD_PIPELINE_{name}"), value).output().unwrap())
    };
    for (name, value, wanted) in [
        ("PROGRESS", "x", "invalid value 'x' for 'BUILD_PIPELINE_PROGRESS'"),
        ("COLOR", "x", "invalid value 'x' for 'BUILD_PIPELINE_COLOR'"),
        ("ENGINE", "x", "invalid value 'x' for 'BUILD_PIPELINE_ENGINE'"),
        ("LOCK_TIMEOUT", "x", "'BUILD_PIPELINE_LOCK_TIMEOUT': not a number of seconds"),
        ("DIRECTORY", "nowhere", "`BUILD_PIPELINE_DIRECTORY=nowhere` is not a folder"),
        ("MIRROR", "docker.io", "cannot use `BUILD_PIPELINE_MIRROR=docker.io`"),
        ("MIRROR", "a.io=u:p@b.io", "`BUILD_PIPELINE_MIRROR=a.io=***@b.io` contains a user name"),
    ] {
        with(name, value, "build official").expect(2).says(wanted);
    }
    with("INDEX", "x", "bump vllm-sdist").expect(2).says("cannot use `BUILD_PIPELINE_INDEX=x`");
    with("COLOR", "x", "plan official --color y").expect(2).says("'y' for '--color <COLOR>'");
    project.run("-C nowhere plan official").expect(2).says("`-C nowhere` is not a folder");
    project.run("--lock-timeout x").expect(2).says("not a number of seconds");
}

#[test]
fn an_empty_variable_is_the_same_as_none() {
    let project = Project::new();
    let names = ["DIRECTORY", "MIRROR", "MIRROR_ONLY", "PROGRESS", "COLOR", "LOCK_TIMEOUT"];
    let mut command = project.command(&["plan", "official"]);
    for name in names.into_iter().chain(["ENGINE", "HOST", "INDEX"]) {
        command.env(format!("BUILD_PIPELINE_{name}"), "");
    }
    let empty = crate::dsl::ran(command.output().unwrap()).expect(0);
    assert_eq!(empty.stdout, project.run("plan official").expect(0).stdout);
    let mut wrong = project.command(&["plan", "official", "--mirror", ""]);
    wrong.env("BUILD_PIPELINE_MIRROR", "");
    crate::dsl::ran(wrong.output().unwrap()).expect(2);
}

#[test]
fn options_without_effect_are_refused() {
    let project = Project::new();
    let verify = project.run("build official --store-verify 5").expect(2);
    verify.says("`--store-verify` needs a store to compare with");
    let image = project.command(&["run", "official", "--image", "", "--print"]).output().unwrap();
    crate::dsl::ran(image).expect(2).says("--image");
}

#[test]
fn clap_refuses_what_it_does_not_know() {
    let project = Project::new();
    project.run("--track locked-spof").expect(2).says("did you mean `locked-spoof`?");
    project.run("--track x").expect(2).says("the tracks are official, source, nightly-spoof,");
    project.run("--trak locked-spoof").expect(2).says("--track");
    project.run("plann").expect(2).says("plan");
    project.run("plan --format yaml --track ollama").expect(2).says("tree, json, dot, mermaid");
}

#[test]
fn a_wrong_data_file_is_shown_with_its_place() {
    let project = Project::new();
    project.edit(
        "versions/versions.toml",
        "sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889",
        "sha256:a92fa9cb9150",
    );
    project.edit("versions/versions.toml", "[image.vllm-dev-nightly]", "[imgae.vllm-dev-nightly]");
    let ran = project.run("plan --track locked-spoof --color never").expect(2);
    let line = project
        .read("versions/versions.toml")
        .lines()
        .position(|line| line.contains("a92fa9cb9150"))
        .unwrap()
        + 1;
    ran.says(&format!("versions/versions.toml:{line}:"))
        .says("sha256:a92fa9cb9150")
        .says("imgae")
        .says("has 2 problems");
}

#[test]
fn missing_and_unreadable_data_files_are_named() {
    let project = Project::new();
    std::fs::remove_file(project.path("versions/gpus.toml")).unwrap();
    project
        .run("plan --track locked-spoof")
        .expect(2)
        .says("gpus.toml` failed")
        .says("hint: create it, or remove `built-in = false`");
    std::fs::create_dir(project.path("versions/gpus.toml")).unwrap();
    project.run("plan --track locked-spoof").expect(2).says("hint: replace it with a text file");

    let project = Project::new();
    std::fs::write(project.path("versions/versions.toml"), b"schema = 1\n# \xff\n").unwrap();
    project.run("plan --track locked-spoof").expect(2).says("line 2 is not UTF-8");
    project.write("versions/versions.toml", &"#".repeat((4 << 20) + 1));
    project.run("plan --track locked-spoof").expect(2).says("larger than 4 MiB");

    let project = Project::new();
    std::fs::remove_dir_all(project.path("versions")).unwrap();
    project
        .run("plan --track locked-spoof")
        .expect(2)
        .says("versions/versions.toml")
        .says("-C DIR");
}

#[test]
fn a_wrong_source_date_epoch_is_refused_and_a_right_one_is_seen() {
    let project = Project::new();
    let with = |value: &str| {
        let mut command = project.command(&["plan", "--track", "locked-spoof"]);
        crate::dsl::ran(command.env("SOURCE_DATE_EPOCH", value).output().unwrap())
    };
    with("yesterday").expect(2).says("SOURCE_DATE_EPOCH `yesterday`").says("date +%s");
    with("-1").expect(2);
    with("99999999999999").expect(2).says("after the year 9999");
    with("1700000000")
        .expect(0)
        .prints("2023-11-14T22:13:20Z")
        .prints("changed     source-date-epoch = 1700000000");
}

#[test]
fn a_path_of_the_wrong_kind_is_a_wrong_argument() {
    let project = Project::new();
    project.write("file", "x");
    std::fs::create_dir(project.path("folder")).unwrap();
    let before = project.files();
    let build = "--track locked-spoof --rehearse --output";
    for line in [
        format!("{build} oci-archive:folder"),
        format!("{build} oci:file"),
        format!("{build} oci:file/in"),
        format!("{build} oci-archive:file/in.tar"),
        format!("{build} oci:out --digest-file folder"),
        "bundle vulkan -o folder".to_owned(),
        "mirror vulkan --to dir:file".to_owned(),
        "man file".to_owned(),
        "man file/in".to_owned(),
        "init file".to_owned(),
        "init file/in".to_owned(),
        "export github locked-spoof --install ./x -o folder".to_owned(),
        "export github locked-spoof --install ./x -o file/in.yml".to_owned(),
        "slim dist/none -o oci:file".to_owned(),
    ] {
        let ran = project.run(&line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{line}: {}", ran.stderr);
    }
    same(&project.files(), &before, "refused commands");
}
