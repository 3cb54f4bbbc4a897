//! `lint` reads the project's files and other people's, in four formats; `explain` gives the
//! reasons.

use serde_json::Value;

use crate::dsl::Project;

/// A folder like the first public version of a similar pipeline.
fn legacy() -> Project {
    let project = Project::new();
    project.write(
        "old/versions.env",
        "VLLM_VERSION=v0.10.3\nFLASH_ATTENTION_COMMIT=main_perf\nVLLM_VERSION=v0.11.0\n",
    );
    project.write("old/Dockerfile.amd", "FROM rocm/vllm-dev:rocm7.1.1_navi_ubuntu24.04_py3.12_pytorch_2.8_vllm_0.10.2rc1\nENV HSA_OVERRIDE_GFX_VERSION=gfx1031 \\\n    AMD_SERIALIZE_KERNEL=3\n");
    project.write("old/build.sh", "#!/bin/bash\nset -e\nsource versions.env\npodman build -f Dockerfile.nightly --build-arg V=$VLLM_VERSION .\ngit -C vllm checkout $VLLM_COMMIT\n");
    project.write("old/compose.yml", "services:\n  ollama:\n    image: ollama/ollama:latest\n    devices: [/dev/kfd, /dev/dri]\n    environment:\n      - OLLAMA_GPU_MEMORY=96GB\n");
    project
}

const FILES: &str = "old/versions.env old/Dockerfile.amd old/build.sh old/compose.yml";

#[test]
fn the_mistakes_of_the_first_public_version_are_found() {
    let project = legacy();
    let ran = project.run(&format!("lint {FILES}")).expect(1);
    for (place, rule) in [
        ("old/versions.env:1: error", "no-such-version"),
        ("old/versions.env:2: warning", "flash-attention-branch"),
        ("old/versions.env:3: warning", "duplicate-pin"),
        ("old/Dockerfile.amd:1: error", "release-candidate-image"),
        ("old/Dockerfile.amd:1: error", "rocm-too-old"),
        ("old/Dockerfile.amd:2: error", "hsa-override-form"),
        ("old/Dockerfile.amd:3: warning", "debug-variable-baked"),
        ("old/build.sh:4: error", "missing-file"),
        ("old/build.sh:5: information", "undefined-pin"),
        ("old/compose.yml:3: error", "ollama-without-rocm"),
        ("old/compose.yml:6: error", "variable-does-not-exist"),
    ] {
        let is_there = ran
            .stdout
            .lines()
            .any(|line| line.starts_with(place) && line.ends_with(&format!("[{rule}]")));
        assert!(is_there, "{place} {rule}\n{}", ran.stdout);
    }
    ran.prints("source: ROCm libhsakmt topology.c, the parser of the variable (the vendor confirms it; checked on 2026-11-20)")
        .prints("4 files: ");
    // A Dockerfile that the script builds may also be next to the script.
    project.write("old/Dockerfile.nightly", "FROM scratch\n");
    let ran = project.run("lint old/build.sh old/versions.env").expect(1);
    assert!(!ran.stdout.contains("missing-file"), "{}", ran.stdout);
    // The folder in which lint is started does not matter.
    let mut inside = project.command(&["lint", "build.sh", "versions.env"]);
    let inside =
        crate::dsl::ran(inside.current_dir(project.path("old")).output().unwrap()).expect(1);
    assert!(!inside.stdout.contains("missing-file"), "{}", inside.stdout);
}

#[test]
fn our_own_files_have_no_errors_and_no_warnings_of_our_making() {
    let ran = Project::new().run("lint").expect(0);
    for line in ran.stdout.lines().filter(|line| line.starts_with("versions/")) {
        assert!(
            line.ends_with("[pin-unresolved]") || line.ends_with("[pin-discontinued]"),
            "{line}"
        );
    }
    Project::new().run("lint --strict").expect(1);
}

#[test]
fn all_forms_say_the_same() {
    let project = legacy();
    let json: Value =
        serde_json::from_str(&project.run(&format!("lint --format json {FILES}")).expect(1).stdout)
            .unwrap();
    let findings = json["findings"].as_array().unwrap();
    let count = |severity: &str| findings.iter().filter(|one| one["severity"] == severity).count();
    assert_eq!(json["errors"], count("error"));
    assert_eq!(json["warnings"], count("warning"));
    assert_eq!(json["files"], 4);
    let sarif: Value = serde_json::from_str(
        &project.run(&format!("lint --format sarif {FILES}")).expect(1).stdout,
    )
    .unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    // The schema is OASIS's own, as included in the crate serde-sarif.
    let mut schema: Value = serde_json::from_str(include_str!("sarif-2.1.0.schema.json")).unwrap();
    // One of its patterns has an extra bracket, which strict parsers refuse.
    for owner in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][owner]["properties"]["language"];
        assert!(language.as_object_mut().unwrap().remove("pattern").is_some());
    }
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&sarif)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    assert!(!validator.is_valid(&serde_json::json!({ "version": "2.1.0" })));
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), findings.len());
    for (result, finding) in results.iter().zip(findings) {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], finding["line"]);
        assert_eq!(place["artifactLocation"]["uri"], finding["file"]);
        assert_eq!(result["ruleId"], finding["rule"]);
    }
    let github = project.run(&format!("lint --format github {FILES}")).expect(1).stdout;
    assert!(
        github.lines().all(|line| line.starts_with("::") || line.ends_with("are not shown")),
        "{github}"
    );
    assert!(
        github.contains("::error file=old/Dockerfile.amd,line=2,title=hsa-override-form::"),
        "{github}"
    );
}

#[test]
fn the_numbers_of_a_result_are_worded() {
    let project = Project::new();
    let ran = project.run("lint nope").expect(2).says("reading `nope` failed");
    assert_eq!(ran.stdout, "");
    project.write("a.sh", "HSA_OVERRIDE_GFX_VERSION=gfx1100 true\n");
    project.run("lint a.sh nope").expect(2).prints("1 file: 1 error, 0 warnings, 0 informational;");
}

#[test]
fn every_rule_is_explained() {
    let project = Project::new();
    let list = project.run("explain").expect(0).stdout;
    let rules: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(rules.len() >= 60, "{}", rules.len());
    for rule in ["ollama-without-rocm", "pin-tag-disagrees", rules[0]] {
        let ran = project.run(&format!("explain {rule}")).expect(0);
        ran.prints(rule)
            .prints("\nWhy: ")
            .prints("\nSource: ")
            .prints("\nKnown: ")
            .prints(&format!("build-pipeline: allow {rule}"));
    }
    project.run("explain image-unpined").expect(2).says("did you mean `image-unpinned`?");
    project.run("explain sed-drops").expect(0).prints("a finding of `patch lint-sed`");
}

#[test]
fn what_cannot_be_read_is_said() {
    let project = Project::new();
    project.run("lint nothing.sh").expect(2).says("reading `nothing.sh` failed");
    // A file that cannot be checked does not hide the findings in the others.
    std::fs::write(project.path("binary"), [0x7f, 0xff, 0]).unwrap();
    std::fs::write(
        project.path("latin.sh"),
        b"# f\xfcr gfx1151\nexport HSA_OVERRIDE_GFX_VERSION=gfx1100\n",
    )
    .unwrap();
    project
        .run("lint binary latin.sh nothing.sh")
        .expect(2)
        .prints("binary:1: error: the file is binary, and was not checked [not-utf-8]")
        .prints("latin.sh:1: warning: the line is not UTF-8")
        .prints("latin.sh:2: error: `HSA_OVERRIDE_GFX_VERSION=gfx1100` is not three numbers")
        .says("reading `nothing.sh` failed");
    project.run("lint binary").expect(1);
    for bytes in [b"\xff\xfeF\0R\0", b"\xfe\xff\0F\0R"] {
        std::fs::write(project.path("Dockerfile"), bytes).unwrap();
        let told = project.run("lint Dockerfile").expect(1);
        told.prints("Dockerfile:1: error: the text is UTF-16, not UTF-8, and was not checked");
    }
    // Files outside a project can be checked too.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.env"), "HSA_OVERRIDE_GFX_VERSION=gfx1151\n").unwrap();
    let path = folder.path().display().to_string();
    project.run(&format!("-C {path} lint x.env")).expect(1).prints("hsa-override-form");
    project.run(&format!("-C {path} lint")).expect(2).says("versions/versions.toml");
}

#[test]
fn a_file_that_is_built_may_be_next_to_the_script_or_in_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("repo/scripts")).unwrap();
    std::fs::create_dir_all(at("elsewhere")).unwrap();
    let script = "docker build -f docker/Dockerfile .\n";
    std::fs::write(at("repo/scripts/build.sh"), script).unwrap();
    std::fs::write(at("elsewhere/build.sh"), script).unwrap();
    let project = Project::new();
    let run = |here: &str, file: &str| {
        let here = at(here).display().to_string();
        project.run(&format!("-C {here} lint {file}")).stdout
    };
    let is_missing = |text: String| text.contains("missing-file");
    // Outside a repository, nothing shows which files belong to the script.
    assert!(!is_missing(run("elsewhere", "build.sh")));
    std::fs::create_dir_all(at("repo/.git")).unwrap();
    for (here, file) in [("repo", "scripts/build.sh"), ("elsewhere", "../repo/scripts/build.sh")] {
        assert!(is_missing(run(here, file)), "{here}");
    }
    std::fs::create_dir_all(at("repo/docker")).unwrap();
    std::fs::write(at("repo/docker/Dockerfile"), "FROM scratch\n").unwrap();
    for (here, file) in [("repo", "scripts/build.sh"), ("elsewhere", "../repo/scripts/build.sh")] {
        assert!(!is_missing(run(here, file)), "{here}");
    }
}

#[test]
fn the_compose_file_beside_an_environment_file_is_read() {
    let project = Project::new();
    project.write("a/.env", "VLLM_ATTENTION_BACKEND=TRITON_ATTN\n");
    let is_reported = || project.run("lint a/.env").stdout.contains("variable-without-effect");
    assert!(is_reported());
    let service = "services:\n  a:\n    command: serve -a ${VLLM_ATTENTION_BACKEND}\n";
    project.write("a/compose.yml", service);
    assert!(!is_reported());
}

#[test]
fn the_gpu_is_that_of_the_caller_or_the_project() {
    let project = Project::new();
    project.write("run.sh", "docker run -e HSA_OVERRIDE_GFX_VERSION=11.0.0 localhost/a\n");
    project.run("lint run.sh").expect(1).prints("[hsa-override-gfx1151]");
    project.run("lint --gpu gfx1103 run.sh").expect(0);
    let outside = tempfile::tempdir().unwrap();
    let text = "docker run -e HSA_OVERRIDE_GFX_VERSION=11.0.0 localhost/a\n";
    std::fs::write(outside.path().join("run.sh"), text).unwrap();
    let here = outside.path().display().to_string();
    project.run(&format!("-C {here} lint run.sh")).expect(0);
    project.run(&format!("-C {here} lint --gpu gfx1151 run.sh")).expect(1);
    // The project's GPU is only for files in its folder.
    project.run(&format!("lint {here}/run.sh")).expect(0);
    project.run(&format!("lint --gpu gfx1151 {here}/run.sh")).expect(1);
    project.run("lint --gpu strix run.sh").expect(2).says("`rocminfo | grep gfx` prints that");
}
