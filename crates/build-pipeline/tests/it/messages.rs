//! The output for people and programs: help, tables and progress, without terminal escapes.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;
use testkit::{RandomImage, shared_registry};

use crate::dsl::{Base, Project};

#[test]
fn alone_it_says_what_a_newcomer_can_do() {
    let project = Project::new();
    project.run("").expect(0).prints("--track official --rehearse").prints("D  locked-spoof");
    std::fs::remove_dir_all(project.path("versions")).unwrap();
    project.run("").expect(0).prints("no project found").prints("build-pipeline init");
}

#[test]
fn a_newcomer_is_told_to_rehearse_only_what_can_be_rehearsed() {
    let project = Project::new();
    let tracks: toml::Table = project.read("versions/tracks.toml").parse().unwrap();
    let shown_with_only = |track: &str| {
        let mut one: toml::Table = "schema = 1".parse().unwrap();
        ["gpu", track]
            .iter()
            .for_each(|key| drop(one.insert((*key).to_owned(), tracks[*key].clone())));
        project.write("versions/tracks.toml", &one.to_string());
        project.run("").expect(0).prints(&format!("plan --track {track}")).stdout
    };
    let shown = shown_with_only("vulkan");
    assert!(!shown.contains("try it") && !shown.contains("--rehearse"), "{shown}");
    let shown = shown_with_only("source");
    assert!(shown.contains("try it, without a network:\n"), "{shown}");
    let shown = shown_with_only("official");
    assert!(shown.contains("try it, without a network or an engine:\n"), "{shown}");
}

#[test]
fn help_has_commands_and_topics() {
    let project = Project::new();
    project.run("help").expect(0).prints("--rehearse").prints("verify");
    project.run("help plan").expect(0).prints("--format");
    project.run("help exit-codes").expect(0).prints("  13  verify:").prints(" 130  ");
    project
        .run("help environment")
        .expect(0)
        .prints("SOURCE_DATE_EPOCH")
        .prints("BUILD_PIPELINE_MIRROR")
        .prints("\nHOME\n")
        .prints("\nTMPDIR\n");
    project.run("help exit-code").expect(2).says("hint: did you mean `exit-codes`?");
    project.run("--version").expect(0).prints("build-pipeline ");
}

#[test]
fn every_variable_of_the_program_is_in_the_table() {
    let project = Project::new();
    let table = project.run("help environment").expect(0).stdout;
    let help =
        project.run("--help").expect(0).stdout + &project.run("build --help").expect(0).stdout;
    for word in help
        .split(|c: char| !(c.is_ascii_uppercase() || c == '_'))
        .filter(|word| word.starts_with("BUILD_PIPELINE_"))
    {
        assert!(table.contains(word), "{word}");
    }
}

#[test]
fn completions_and_manual_pages_are_written() {
    let project = Project::new();
    for shell in ["bash", "zsh", "fish"] {
        project.run(&format!("completions {shell}")).expect(0).prints("locked-spoof");
    }
    project.run("man pages").expect(0);
    assert!(project.read("pages/build-pipeline-plan.1").contains(".TH"));
}

#[test]
fn bash_completes_names_after_every_command() {
    let project = Project::new();
    let script = project.run("completions bash").expect(0).stdout;
    project.write("completions", &script);
    let offers = |line: &str| {
        let complete = format!(
            ". ./completions; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _build__pipeline build-pipeline \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = std::process::Command::new("bash");
        bash.args(["--norc", "-c", &complete]).current_dir(project.path(""));
        let offered = crate::dsl::ran(bash.output().unwrap()).expect(0).stdout;
        // As in bash, duplicate words count once.
        let mut offered: Vec<&str> = offered.split_whitespace().collect();
        offered.dedup();
        offered.join(" ")
    };
    let commands = [
        "build",
        "plan",
        "verify",
        "diff",
        "audit",
        "slim",
        "push",
        "explain",
        "bundle",
        "mirror",
        "step list",
        "run",
        "smoke",
        "lock",
        "doctor -t",
        "init --from",
        "diff ollama",
        "plan --rehearse ollama",
    ];
    for command in commands {
        assert_eq!(
            offers(&format!("build-pipeline {command} locked-s")),
            "locked-spoof",
            "{command}"
        );
    }
    for (line, wanted) in [
        ("bump vllm-l", "vllm-legacy"),
        ("outdated vllm-l", "vllm-legacy"),
        ("pins show vllm-l", "vllm-legacy"),
        ("patch check vllm --pin vllm-l", "vllm-legacy"),
        ("patch check ait", "aiter"),
        ("plan official --set vllm-dev-l", "vllm-dev-locked="),
        ("explain known-b", "known-bad-version"),
        ("env --gpu gfx1151", "gfx1151"),
        ("init --track off", ""),
        ("patch lint", "lint-sed"),
    ] {
        assert_eq!(offers(&format!("build-pipeline {line}")), wanted, "{line}");
    }
}

/// fish offers only files after a command without such a line.
#[test]
fn fish_completes_names_after_every_command() {
    let script = Project::new().run("completions fish").expect(0).stdout;
    let offers = |command: &str, word: &str| {
        let condition = format!("-n \"__fish_build_pipeline_using_subcommand {command}\"");
        let mut lines = script.lines().filter(|line| line.contains(&condition));
        lines.any(|line| {
            let values = line.split_once(" -a \"").map_or("", |(_, values)| values);
            !line.contains(" -l ") && values.trim_end_matches('"').split(' ').any(|one| one == word)
        })
    };
    for (command, word) in [
        ("build", "vulkan"),
        ("plan", "vulkan"),
        ("verify", "vulkan"),
        ("run", "vulkan"),
        ("smoke", "vulkan"),
        ("explain", "vulkan"),
        ("explain", "hsa-override-identity"),
        ("bump", "vllm-openai-rocm"),
        ("pins; and __fish_seen_subcommand_from show", "vllm-openai-rocm"),
    ] {
        assert!(offers(command, word), "{command}: {word}");
    }
    // `--track` without a value is not a reason to stop.
    let retried = "or argparse -s (__fish_build_pipeline_global_optspecs) -- $cmd '' 2>/dev/null";
    assert!(script.contains(retried), "{script}");
}

#[test]
fn completions_contain_the_images_that_were_pushed() {
    let (project, base) = (Project::new(), Base::push(407));
    let host = testkit::shared_registry().host();
    let image = format!("{host}/completed-{}/image:v1", std::process::id());
    project.run(&format!("{} --push {image}", base.locked_spoof(host))).expect(0);
    for shell in ["bash", "fish", "zsh"] {
        let script = project.run(&format!("completions {shell}")).expect(0).stdout;
        assert!(script.replace('\\', "").contains(&image), "{shell}: {script}");
    }
    let script = project.run("completions zsh").expect(0).stdout;
    assert!(script.contains(&format!("' 'images:image:({image})' 'files:")), "{script}");
}

#[test]
fn results_have_colours_where_they_are_wanted() {
    let project = Project::new();
    for line in
        ["--track ollama --rehearse", "verify rehearsal-ollama", "status", "records", "doctor"]
    {
        let coloured = project.run(&format!("{line} --color always")).stdout;
        assert!(coloured.contains("\u{1b}["), "{line}: {coloured}");
        let plain = project.run(&format!("{line} --color never"));
        assert!(!plain.stdout.contains('\u{1b}') && !plain.stderr.contains('\u{1b}'), "{line}");
    }
}

#[test]
fn zsh_completes_tracks_and_files_where_both_are_possible() {
    let project = Project::new();
    let script = project.run("completions zsh").expect(0).stdout;
    let function =
        "_build_pipeline_tracks_or_files() {\n    _alternative 'tracks:track:(official source";
    assert_eq!(script.matches(function).count(), 1, "{script}");
    // The arguments of verify, diff, audit, slim and push.
    assert_eq!(script.matches(":_build_pipeline_tracks_or_files'").count(), 6, "{script}");
    assert!(!script.contains("_hosts"), "{script}");
}

#[test]
fn progress_as_json_is_one_object_a_line() {
    let project = Project::new();
    let ran =
        project.run("--track locked-spoof --rehearse --progress json --format json").expect(0);
    let events: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let steps = [
        "plan-begun",
        "step-begun",
        "step-ended",
        "step-begun",
        "step-ended",
        "output-begun",
        "output-ended",
    ];
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != "warning").collect();
    assert_eq!(others, steps);
    assert_eq!(names.iter().filter(|name| **name == "warning").count(), 2);
    serde_json::from_str::<Value>(&ran.stdout).unwrap();
}

#[test]
fn log_lines_are_json_too_where_progress_is() {
    let project = Project::new();
    let ran = project.run("-vv --track locked-spoof --rehearse --progress json").expect(0);
    let events: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(events.iter().any(|event| event["event"] == "log"), "{}", ran.stderr);
    crate::schemas::check(&project, "event", &events);
}

#[test]
fn errors_are_json_too_where_progress_is() {
    let project = Project::new();
    let ran = project.run("--track ollama --progress json").expect(2);
    let event: Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!((&event["event"], &event["exit_code"]), (&Value::from("error"), &Value::from(2)));
    assert!(event["message"].as_str().unwrap().contains("unresolved"));
    assert!(!event["hints"].as_array().unwrap().is_empty());
}

#[test]
fn details_of_the_cache_and_of_each_request_come_where_they_are_wanted() {
    let (project, base) = (Project::new(), Base::push(173));
    let host = shared_registry().host();
    let line = base.locked_spoof(host);
    let plain = project.run(&format!("{line} --output oci:a")).expect(0).stderr;
    assert!(!plain.contains("/v2/") && !plain.contains("is in the cache"), "{plain}");
    let some = project.run(&format!("{line} --output oci:b -v")).expect(0).stderr;
    assert!(some.contains("is in the cache") && !some.contains("/v2/"), "{some}");
    std::fs::remove_dir_all(project.path("home/.cache")).unwrap();
    let all = project.run(&format!("{line} --output oci:c -vv")).expect(0).stderr;
    let manifest = format!("GET http://{host}/v2/{}/manifests/{}", base.path, base.digest());
    assert!(all.contains(&format!("{manifest}: 200 OK")), "{all}");
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    let project = Project::new();
    assert!(!project.run("verify x").stderr.contains('\u{1b}'));
    assert!(project.run("verify x --color always").stderr.contains('\u{1b}'));
    let mut command = project.command(&["verify", "x"]);
    let ran = crate::dsl::ran(command.env("NO_COLOR", "1").output().unwrap());
    assert!(!ran.stderr.contains('\u{1b}'));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let project = Project::new();
    for line in [
        "plan --track locked-spoof",
        "plan --track locked-spoof --format json",
        "help",
        "help environment",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut child =
            project.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{line}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{line}: {stderr}");
    }
}

#[test]
fn text_from_outside_does_nothing_to_a_terminal() {
    let project = Project::new();
    let host = shared_registry().host();
    let path = format!("rocm/hostile-{}", std::process::id());
    let image = RandomImage::new(31).push(host, &path, "base");
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{path}");
    project
        .run(&format!("--track locked-spoof {mirror} --set vllm-dev-locked={}", image.digest))
        .expect(0);
    // A label of the image is replaced by text that clears the screen and sets the terminal's
    // title.
    let layout = project.path("dist/locked-spoof");
    let image = oci::LayoutImage::read(&layout).unwrap();
    let hostile = String::from_utf8(image.config.to_vec())
        .unwrap()
        .replace("gfx1151", "\\u001b]0;pwn\\u0007\\u001b[2J\\u009b31m\\u202e");
    let digest = names::Digest::of(hostile.as_bytes());
    let old = names::Digest::of(&image.config);
    let manifest = String::from_utf8(image.manifest.to_vec()).unwrap();
    let manifest = manifest.replace(old.as_str(), digest.as_str()).replace(
        &format!("\"size\":{}", image.config.len()),
        &format!("\"size\":{}", hostile.len()),
    );
    let manifest_digest = names::Digest::of(manifest.as_bytes());
    std::fs::write(oci::layout::blob_path(&layout, &digest), &hostile).unwrap();
    std::fs::write(oci::layout::blob_path(&layout, &manifest_digest), &manifest).unwrap();
    let index = std::fs::read_to_string(layout.join("index.json")).unwrap();
    std::fs::write(
        layout.join("index.json"),
        index.replace(image.manifest_digest.as_str(), manifest_digest.as_str()),
    )
    .unwrap();

    for format in ["text", "json"] {
        let ran = project.run(&format!("verify locked-spoof {mirror} --format {format}"));
        assert_ne!(ran.code, 0);
        for text in [&ran.stdout, &ran.stderr] {
            let bad: Vec<char> = text
                .chars()
                .filter(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}')
                .collect();
            assert!(bad.is_empty(), "{format}: {bad:?} in {text}");
        }
    }
}
