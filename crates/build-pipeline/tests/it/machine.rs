//! `doctor`, `env` and `diagnose`, on recorded machines, in real shells and on logs.

use std::collections::BTreeMap;
use std::process::Command;

use crate::dsl::{Project, Ran, ran, workspace};
use crate::schemas;
use crate::unfold;

/// A project with a recorded machine in `machine/`.
fn with_machine(name: &str, changes: &str) -> Project {
    let project = Project::new();
    unfold::machine(&project.path("machine"), name);
    unfold::text(&project.path("machine"), changes);
    project
}

fn doctor(name: &str, changes: &str, more: &str) -> Ran {
    with_machine(name, changes).run(&format!("doctor --host-root machine {more}"))
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_exit_code_is_that_of_the_worst_finding() {
    for (name, code) in [
        ("strix-halo", 0),
        ("strix-halo-fixed-hwe", 0),
        ("no-gpu", 0),
        ("strix-halo-carve-out", 1),
        ("desktop-two-gpus", 1),
        ("strix-halo-with-navi4", 1),
        ("strix-halo-wsl2", 0),
        ("strix-halo-sles", 1),
        ("strix-halo-old-kernel", 3),
        ("strix-halo-bad-firmware", 3),
        ("strix-halo-rootless-debian", 3),
        ("gpu-without-driver", 3),
    ] {
        let text = doctor(name, "", "").expect(code);
        let document = json(&doctor(name, "", "--format json").expect(code));
        let worst = document["worst"].as_str();
        let expected = match (name, code) {
            ("no-gpu" | "strix-halo-wsl2", _) => Some("note"),
            (_, 0) => None,
            (_, 1) => Some("warning"),
            _ => Some("error"),
        };
        assert_eq!(worst, expected, "{name}");
        assert_eq!(text.stderr, "", "{name}");
    }
}

#[test]
fn what_is_found_is_told_with_what_is_right_and_what_repairs_it() {
    let all = doctor("strix-halo-old-kernel", "", "").expect(3).stdout;
    insta::assert_snapshot!("doctor_old_kernel", all);
    let all = doctor("strix-halo", "", "").expect(0).stdout;
    insta::assert_snapshot!("doctor_good", all);
}

#[test]
fn a_machine_without_a_gpu_is_told_what_works() {
    doctor("no-gpu", "", "").expect(0).prints("no AMD GPU").prints(
        "this machine has no AMD GPU: it can build, verify and push images, but not run them on ROCm",
    );
    // A track that needs an engine gives a different result.
    doctor("no-gpu", "", "--track source").expect(3).prints("no podman and no docker");
    doctor("no-gpu", "", "--track b,D").expect(3).prints("images   source, locked-spoof");
}

#[test]
fn the_rocm_of_the_pinned_image_is_judged_and_no_other() {
    let project = with_machine("strix-halo", "");
    project.run("doctor --host-root machine --track ollama").expect(0).prints("ROCm 7.2.1");
    let (from, to) = ("base = \"vllm-openai-rocm\"", "base = \"vllm-dev-navi-legacy\"");
    project.edit("versions/tracks.toml", from, to);
    project
        .run("doctor --host-root machine --track official")
        .expect(3)
        .prints("with AMD's ROCm 7.1.1 (track official): unsupported")
        .prints("ROCm/rocm-docs rdna3-5.rst");
    project.run("doctor --host-root machine --track ollama").expect(0);
    project.run("doctor --host-root machine --track ollama --gpu gfx1100").expect(1);
}

#[test]
fn this_machine_is_looked_at_too() {
    let project = Project::new();
    let code = project.run("doctor").code;
    assert!([0, 1, 3].contains(&code), "{code}");
    // Without a project, the built-in data files are used.
    std::fs::remove_dir_all(project.path("versions")).unwrap();
    assert_eq!(project.run("doctor").code, code);
    project.run("env --gpu gfx1151").expect(0).prints("export ");
}

/// Every engine that answers is reported, even if its socket is not in the default place.
#[test]
fn every_engine_that_answers_is_named() {
    let (project, docker) = (Project::new(), testkit::Dockerd::start());
    let socket = docker.socket().display().to_string();
    let doctor = |more: &[&str], builder: &str| {
        let mut command = project.command(&[&["doctor"], more].concat());
        command.env("DOCKER_HOST", format!("unix://{socket}")).env("DOCKER_BUILDKIT", builder);
        crate::dsl::ran(command.output().unwrap())
    };
    let version = docker.docker(&["version", "--format", "{{.Server.Version}}"]).concat();
    doctor(&[], "").prints(&format!("docker {version} at {socket}, builder buildkit"));
    let report = json(&doctor(&["--format", "json"], "0"));
    let engines = report["machine"]["engines"].as_array().unwrap();
    let found = engines.iter().find(|engine| engine["socket"] == *socket).unwrap();
    assert_eq!(found["kind"], "docker");
    assert_eq!(found["version"], *version);
    assert_eq!(found["rootless"], false);
    assert_eq!(found["builder"], "classic");
}

/// A killed engine leaves its socket file, and a variable may name a socket that nothing serves.
#[test]
fn an_engine_that_does_not_answer_is_an_error() {
    let project = Project::new();
    let dead = project.path("dead.sock").display().to_string();
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let silent = project.path("silent.sock").display().to_string();
    let _hung = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let missing = project.path("missing.sock").display().to_string();
    for variable in ["DOCKER_HOST", "CONTAINER_HOST", "BUILD_PIPELINE_HOST"] {
        for (address, why) in [
            (format!("unix://{dead}"), "Connection refused"),
            (format!("unix://{silent}"), "no engine answers"),
            (format!("unix://{missing}"), "No such file"),
            ("tcp://127.0.0.1:1".to_owned(), "another machine"),
        ] {
            let mut command = project.command(&["doctor"]);
            let ran = crate::dsl::ran(command.env(variable, &address).output().unwrap()).expect(3);
            ran.prints(&format!("no engine works (`{variable}`: ")).prints(why);
        }
    }
}

/// An unknown GPU never gets the name of another generation.
#[test]
fn wrong_arguments_and_data_files_are_answered() {
    let project = with_machine("strix-halo", "");
    let suggested = [("gfx1511", ""), ("gfx1202", ""), ("gfx803", ""), ("gfx115", "gfx1150")];
    for (unknown, near) in suggested {
        for command in ["doctor", "env", "plan --track official"] {
            let refused = project.run(&format!("{command} --gpu {unknown}")).expect(2);
            let is_suggested = refused.stderr.contains(&format!("did you mean `{near}`?"));
            assert_eq!(is_suggested, !near.is_empty(), "{}", refused.stderr);
            refused
                .says(&format!("the GPU `{unknown}` is not known"))
                .says("known targets are gfx1010, gfx1012")
                .says(&format!("write a table `[{unknown}]`"));
        }
    }
    for command in ["env", "plan --track official", "lint", "patch check vllm --root ."] {
        let refused = project.run(&format!("{command} --gpu foo")).expect(2);
        refused.says("`foo` is not a GPU target").says("`rocminfo | grep gfx` prints that");
    }
    project.run("doctor --host-root nowhere").expect(2).says("`--host-root nowhere` is not a");
    project.run("doctor --track z").expect(2);
    project.run("env --rocm seven").expect(2).says("`--rocm seven` is not a ROCm release");
    project.run("diagnose nowhere.log").expect(2).says("nowhere.log").says("standard input");
    project.run("diagnose machine").expect(2);
    project.edit("versions/compat.toml", "\"unsupported\"", "\"broken\"");
    project.run("doctor --host-root machine").expect(2).says("versions/compat.toml");
    project.edit(
        "versions/failures.toml",
        "any = ['Memory access fault",
        "any = ['(Memory access fault",
    );
    project.run("diagnose").expect(2).says("is not a regular expression");
    std::fs::remove_file(project.path("versions/failures.toml")).unwrap();
    project.run("diagnose").expect(2).says("create it, or remove `built-in = false`");
}

#[test]
fn nothing_that_a_machine_says_acts_on_a_terminal() {
    let payload = "\x1b]0;title\x07\x1b[2J\u{202e}";
    let changes = format!(
        "== etc/os-release\nID=evil\nPRETTY_NAME=\"{payload}\"\n\
         == etc/modprobe.d/a.conf\noptions amdgpu gttsize={payload}\n\
         == recorded\nuser 1000 1000\nenv HSA_OVERRIDE_GFX_VERSION={payload}\n"
    );
    for format in ["text", "json"] {
        let ran = doctor("strix-halo", &changes, &format!("--format {format}"));
        let rest = ran.stdout.chars().filter(|c| c.is_control() && *c != '\n');
        assert_eq!(rest.count(), 0, "{}", ran.stdout);
        assert!(!ran.stdout.contains('\u{202e}'));
    }
    let project = Project::new();
    project.write("log", &format!("{payload}HIP error: invalid device function{payload}\n"));
    let ran = project.run("diagnose log").expect(1).prints("invalid device function");
    assert!(!ran.stdout.contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn documents_keep_to_their_schemas() {
    let names = std::fs::read_dir(unfold::folder()).unwrap().flatten();
    let names = names
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".machine")?.to_owned()));
    let project = Project::new();
    let documents: Vec<_> = names.map(|name| json(&doctor(&name, "", "--format json"))).collect();
    assert!(documents.len() >= 13);
    schemas::check(&project, "doctor", &documents);
    let gpus = ["gfx1151", "gfx1031", "gfx942"];
    let documents: Vec<_> = gpus
        .iter()
        .map(|gpu| json(&project.run(&format!("env --gpu {gpu} --build --debug --format json"))))
        .collect();
    schemas::check(&project, "env", &documents);
    project.write("log", "HIP error: invalid device function\n");
    schemas::check(&project, "diagnose", &[json(&project.run("diagnose log --format json"))]);
}

/// Evaluates the output of `env` in a shell and returns the resulting environment.
fn evaluated(
    project: &Project,
    shell: &str,
    quotes: &str,
    arguments: &str,
) -> BTreeMap<String, String> {
    let program = env!("CARGO_BIN_EXE_build-pipeline");
    let script = format!("eval {quotes}$({program} env {arguments} 2>/dev/null){quotes}; env -0");
    let output = Command::new(shell)
        .args(["-c", &script])
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HSA_OVERRIDE_GFX_VERSION", "stale")
        // The runtime reads this variable first.
        .env("HSA_OVERRIDE_GFX_VERSION_1", "11.0.0")
        .output()
        .unwrap();
    let ran = ran(output).expect(0);
    assert_eq!(ran.stderr, "", "{shell}");
    let pairs = ran.stdout.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn real_shells_get_the_environment_as_it_is_meant() {
    let project = Project::new();
    // Nothing in a data file may ever be executed.
    let hostile = r#"a'b "c" $(touch pwned) `touch pwned` \ ; touch pwned & # * ~ $HOME !x"#;
    project.edit(
        "versions/gpus.toml",
        "[variable.HSA_NO_SCRATCH_RECLAIM]\nvalue = \"1\"",
        &format!("[variable.HSA_NO_SCRATCH_RECLAIM]\nvalue = '''{hostile}'''"),
    );
    for shell in ["sh", "bash", "dash"] {
        for gpu in ["gfx1151", "gfx1031", "gfx1100", "gfx942"] {
            let line = format!("env --gpu {gpu} --build --debug --format json");
            let document = json(&project.run(&line).expect(0));
            let arguments = format!("--gpu {gpu} --build --debug");
            let all = evaluated(&project, shell, "\"", &arguments);
            for variable in document["set"].as_array().unwrap() {
                let name = variable["name"].as_str().unwrap();
                assert_eq!(all.get(name).unwrap(), variable["value"].as_str().unwrap(), "{shell}");
            }
            assert_eq!(all.get("HSA_OVERRIDE_GFX_VERSION_1"), None, "{shell} {gpu}");
            let is_set = all.get("HSA_OVERRIDE_GFX_VERSION").map(String::as_str);
            assert_eq!(is_set, (gpu == "gfx1031").then_some("10.3.0"), "{shell} {gpu}");
            let reclaim = all.get("HSA_NO_SCRATCH_RECLAIM").map(String::as_str);
            let wanted = matches!(gpu, "gfx1151" | "gfx942").then_some(hostile);
            assert_eq!(reclaim, wanted, "{shell} {gpu}");
        }
    }
    assert!(!project.path("pwned").exists());
    // Without the quotes, the output becomes one line; plain values survive that.
    for shell in ["sh", "bash", "dash"] {
        let all = evaluated(&project, shell, "", "--gpu gfx1100");
        assert_eq!(all["VLLM_ROCM_USE_AITER"], "0");
        assert_eq!(all.get("HSA_OVERRIDE_GFX_VERSION"), None);
    }
}

#[test]
fn of_two_gpus_the_one_that_is_no_part_of_the_processor_is_taken() {
    let project = with_machine("desktop-two-gpus", "");
    project
        .run("env --host-root machine")
        .expect(0)
        .prints("export ROCR_VISIBLE_DEVICES=0;\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0;")
        .says("shows programs only gfx1031; `--gpu gfx1036` selects another GPU");
    let mut command = project.command(&["env", "--host-root", "machine"]);
    let masked = ran(command.env("HIP_VISIBLE_DEVICES", "1").output().unwrap()).expect(0);
    masked.says("programs may find none; use `unset HIP_VISIBLE_DEVICES`");
    project
        .run("env --host-root machine --gpu gfx1036")
        .expect(0)
        .prints("export ROCR_VISIBLE_DEVICES=1;\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0;");
    // With a single GPU, no GPU is hidden.
    let one = with_machine("strix-halo", "").run("env --host-root machine").expect(0);
    assert!(!one.stdout.contains("VISIBLE_DEVICES"), "{}", one.stdout);
    assert_eq!(one.stderr, "");
    let none = with_machine("no-gpu", "").run("env --host-root machine").expect(0);
    none.says("no AMD GPU was found").prints("TORCH_ROCM_AOTRITON");
}

/// The releases and the reason are those of `doctor`.
#[test]
fn in_wsl2_the_variable_with_which_rocm_finds_the_gpu_is_set() {
    let detection = "export HSA_ENABLE_DXG_DETECTION=1;";
    for (machine, rocm, is_set) in [
        ("strix-halo-wsl2", "", true),
        ("strix-halo-wsl2", "--rocm 7.2", true),
        ("strix-halo-wsl2", "--rocm 7.12.1", true),
        ("strix-halo-wsl2", "--rocm 7.13", false),
        ("strix-halo", "--rocm 7.2", false),
    ] {
        let project = with_machine(machine, "");
        let line = format!("env --host-root machine --gpu gfx1151 {rocm}");
        let printed = project.run(&line).expect(0).stdout;
        assert_eq!(printed.contains(detection), is_set, "{machine} {rocm}: {printed}");
    }
    let project = with_machine("strix-halo-wsl2", "");
    let unknown = project.run("env --host-root machine").expect(2);
    let unknown = unknown.says("WSL2 does not show which GPU this is").says("name it with `--gpu`");
    assert_eq!(unknown.stdout, "", "no GPU is guessed");
    project
        .run("run ollama --print shell --host-root machine")
        .expect(0)
        .prints("--device /dev/dxg")
        .prints("--env HSA_ENABLE_DXG_DETECTION=1")
        .prints("/opt/rocm/lib/librocdxg.so.1.2.2:/usr/lib/librocdxg.so:ro");
}

#[test]
fn what_is_for_builds_and_for_debugging_is_printed_only_where_it_is_asked_for() {
    let project = Project::new();
    let plain = project.run("env --gpu gfx1151").expect(0).stdout;
    for name in
        ["PYTORCH_ROCM_ARCH", "AMD_SERIALIZE_KERNEL", "HIP_LAUNCH_BLOCKING", "AMD_LOG_LEVEL"]
    {
        assert!(!plain.contains(name), "{plain}");
    }
    project.run("env --gpu gfx1151 --build").expect(0).prints("export PYTORCH_ROCM_ARCH=gfx1151;");
    project.run("env --gpu gfx1151 --debug").expect(0).prints("export AMD_SERIALIZE_KERNEL=3;");
    let debug = project.run("env --gpu gfx1151 --rocm 10 --debug").expect(0);
    let debug = debug
        .prints("export AMD_SERIALIZE_COPY=3;")
        .prints("export AMD_LOG_LEVEL=3;")
        .prints("export PYTORCH_HIP_ALLOC_CONF=");
    assert!(!debug.stdout.contains("TORCH_USE_HIP_DSA"), "no program reads it");
    project.run("env --help").expect(0).prints("LD_LIBRARY_PATH and DEVICE_LIB_PATH are not set");
    let dotenv = project.run("env --gpu gfx1031 --rocm 7.2 --format dotenv").expect(0).stdout;
    let lines: Vec<&str> = dotenv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        ["HSA_OVERRIDE_GFX_VERSION=10.3.0", "SGLANG_USE_AITER=0", "VLLM_ROCM_USE_AITER=0"]
    );
}

/// Overrides depend on the ROCm release. Code is built for the GPU that the runtime reports.
#[test]
fn the_override_is_set_only_where_nothing_else_works_or_on_request() {
    let project = Project::new();
    let value = |arguments: &str| {
        let document = json(&project.run(&format!("env {arguments} --format json")).expect(0));
        let set = document["set"].as_array().unwrap().clone();
        let found = set.iter().find(|one| one["name"] == "HSA_OVERRIDE_GFX_VERSION");
        found.map(|one| one["value"].as_str().unwrap().to_owned())
    };
    for rocm in ["6.4", "6.4.1", "7", "7.1", "7.2", "7.2.0", "7.2.1", "7.14", "10", "10.1"] {
        assert_eq!(value(&format!("--gpu gfx1151 --rocm {rocm}")), None, "{rocm}");
    }
    assert_eq!(value("--gpu gfx1151"), None);
    assert_eq!(value("--gpu gfx1151 --spoof").as_deref(), Some("11.0.0"));
    assert_eq!(value("--gpu gfx1031 --rocm 7.2").as_deref(), Some("10.3.0"));
    assert_eq!(value("--gpu gfx1031 --rocm 7.13"), None);
    assert_eq!(value("--gpu gfx1031 --rocm 10"), None);
    assert_eq!(value("--gpu gfx1031 --rocm 10 --spoof").as_deref(), Some("10.3.0"));
    project.run("env --gpu gfx1031 --rocm 10").expect(0).says("add `--spoof`");
    let spoofed = project.run("env --gpu gfx1031 --rocm 10 --spoof").expect(0);
    assert!(!spoofed.stderr.contains("--spoof"), "{}", spoofed.stderr);
    // `7` means 7.0, for every GPU.
    for gpu in ["gfx1031", "gfx1103"] {
        assert!(value(&format!("--gpu {gpu} --rocm 7")).is_some(), "{gpu}");
    }
    assert_eq!(value("--gpu gfx1103 --rocm 7.2").as_deref(), Some("11.0.0"));
    project.run("env --gpu gfx1151 --spoof").expect(0).says("AMD does not support");
    for gpu in ["gfx942", "gfx1010", "gfx1033"] {
        let refused = project.run(&format!("env --gpu {gpu} --spoof")).expect(2);
        refused.says("names no HSA_OVERRIDE_GFX_VERSION for").says("leave out `--spoof`");
    }
    for rocm in ["7.2", "10.0"] {
        let refused = project.run(&format!("env --gpu gfx1151 --rocm {rocm} --spoof")).expect(2);
        let refused = refused.says("programs crash").says("leave out `--spoof`");
        assert_eq!(refused.stdout, "", "nothing that `eval` could set");
    }
    project
        .run("env --gpu gfx1103 --rocm 7.2")
        .expect(0)
        .says("the computer can hang")
        .says("7.13");
    // With an override, code is built for the GPU that the runtime reports.
    project
        .run("env --gpu gfx1031 --rocm 7.2 --build")
        .expect(0)
        .prints("export PYTORCH_ROCM_ARCH=gfx1030;");
    project
        .run("env --gpu gfx1031 --rocm 10 --build")
        .expect(0)
        .prints("export PYTORCH_ROCM_ARCH=gfx1031;");
}

/// Warnings go to standard error, so that `eval` works as without them.
#[test]
fn what_a_gpu_cannot_do_with_a_release_is_said_and_changes_nothing_else() {
    let project = Project::new();
    for (arguments, words) in [
        ("--gpu gfx906 --rocm 7.1", "use PyTorch's packages for ROCm 6.3"),
        ("--gpu gfx950 --rocm 6.4", "use ROCm 7.0 or newer"),
        ("--gpu gfx1010 --rocm 7.2", "a program that uses Vulkan"),
        ("--gpu gfx1033", "wrong results"),
        ("--gpu gfx1201 --rocm 6.0", "use ROCm 6.4 or newer"),
        ("--gpu gfx1151 --rocm 7.3", "AMD has not released ROCm 7.3"),
        ("--gpu gfx1151 --rocm 99.9", "knows the ROCm releases from 5.0 to"),
    ] {
        let ran = project.run(&format!("env {arguments}")).expect(0);
        let ran = ran.says(words);
        let is_shell = |line: &str| line.starts_with("unset ") || line.starts_with("export ");
        assert!(ran.stdout.lines().all(is_shell), "{}", ran.stdout);
    }
    let plain = project.run("env --gpu gfx1151 --rocm 7.2").expect(0);
    assert_eq!(plain.stderr, "");
    for same in ["--rocm rocm7.2", "--rocm v7.2"] {
        let ran = project.run(&format!("env --gpu gfx1151 {same}")).expect(0);
        assert_eq!((ran.stdout, ran.stderr), (plain.stdout.clone(), String::new()), "{same}");
    }
    let named = ["env", "--rocm", "7.2", "--gpu"];
    for name in ["Strix Halo", "GFX1151", "Radeon 8060S"] {
        let command = project.command(&[&named[..], &[name]].concat()).output().unwrap();
        assert_eq!(ran(command).expect(0).stdout, plain.stdout, "{name}");
    }
}

/// Only the rows of a program count, if it is known. Without one, those of the tracks do.
#[test]
fn a_program_has_its_own_variables_and_limits() {
    let project = Project::new();
    let env = |arguments: &str| project.run(&format!("env --gpu {arguments}")).expect(0);
    let all = env("gfx1150 --rocm 7.2");
    let (sglang, ollama) =
        (env("gfx1150 --rocm 7.2 --for SGLang"), env("gfx1150 --rocm 7.2 --for ollama"));
    for (ran, has) in [
        (&all, [true, true, true]),
        (&sglang, [true, false, true]),
        (&ollama, [false, true, false]),
    ] {
        for (name, has) in
            ["SGLANG_USE_AITER", "OLLAMA_IGPU_ENABLE", "TORCH_ROCM_AOTRITON"].iter().zip(has)
        {
            assert_eq!(
                ran.stdout.contains(&format!("export {name}")),
                has,
                "{name}: {}",
                ran.stdout
            );
        }
        assert!(!ran.stdout.contains("VLLM") || ran.stdout == all.stdout, "{}", ran.stdout);
    }
    sglang.says("SGLang's kernels are not built for gfx1150");
    assert_eq!((all.stderr.as_str(), ollama.stderr.as_str()), ("", ""));
    env("gfx1030 --rocm 7.2").says("vLLM");
    assert_eq!(env("gfx1030 --rocm 7.2 --for llama.cpp").stderr, "");
    let unknown = project.run("env --gpu gfx1151 --for blender").expect(2);
    unknown.says("`blender`").says("`llama.cpp`, `ollama`, `pytorch`, `sglang`, `vllm`");
    // A program reads the warnings from the document.
    let document = json(&env("gfx906 --rocm 7.1 --for llama.cpp --format json"));
    assert_eq!(document["program"], "llama.cpp");
    assert!(document["limits"][0]["what"].as_str().unwrap().contains("rocBLAS has no code"));
    assert!(document["limits"][0]["evidence"].as_str().unwrap().contains("#4625"));
    assert_eq!(json(&env("gfx1151 --rocm 7.2 --format json"))["limits"], serde_json::json!([]));
}

/// `env` and `doctor` use the GPU that images are built for.
#[test]
fn the_gpu_that_images_are_built_for_is_used_even_next_to_a_larger_one() {
    let project = with_machine("strix-halo-with-navi4", "");
    project
        .run("env --host-root machine")
        .expect(0)
        .prints("export ROCR_VISIBLE_DEVICES=0;")
        .prints("TORCH_ROCM_AOTRITON");
    project
        .run("env --host-root machine --gpu gfx1201")
        .expect(0)
        .prints("export ROCR_VISIBLE_DEVICES=1;");
    project.run("doctor --host-root machine").expect(1).prints("export ROCR_VISIBLE_DEVICES=0");
    project
        .run("doctor --host-root machine --gpu gfx1201")
        .expect(1)
        .prints("export ROCR_VISIBLE_DEVICES=1")
        .prints("gfx1151 and gfx1201 in one machine");
}

/// Returns one of the test logs.
fn log(file: &str, name: &str) -> String {
    let path = workspace().join("crates/host/tests/logs").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("━━ {name}\n")).unwrap();
    rest.split("━━").next().unwrap().to_owned()
}

#[test]
fn logs_are_read_from_files_and_from_standard_input() {
    let project = Project::new();
    project.write("clean.log", &log("clean.txt", "vllm builds"));
    project.write("failing.log", &log("failing.txt", "memory-access-fault"));
    project.run("diagnose clean.log").expect(0).prints("no known failure in 8 lines");
    project
        .run("diagnose failing.log")
        .expect(1)
        .prints("memory-access-fault: ")
        .prints("  line 3: Memory access fault by GPU node-1")
        .prints("1 known failure in 5 lines");
    let piped = Command::new("sh")
        .args(["-c", "cat failing.log | \"$0\" diagnose --format json"])
        .arg(env!("CARGO_BIN_EXE_build-pipeline"))
        .current_dir(project.path(""))
        .output()
        .unwrap();
    let piped = ran(piped).expect(1);
    assert_eq!(json(&piped)["failures"][0]["name"], "memory-access-fault");
    project.write("unknown.log", "start\nValueError: no\nend\nRuntimeError: see above\n");
    project.run("diagnose unknown.log").expect(0).prints("no known failure in 4 lines").prints(
        "2 lines state errors:\n  line 2: ValueError: no\n  line 4: RuntimeError: see above",
    );
    // What failed is told, but it is no known failure.
    project.write("library.log", "ImportError: libexample.so.5: cannot open shared object file\n");
    project
        .run("diagnose library.log")
        .expect(0)
        .prints("no known failure in 1 line")
        .prints("assessment (not a known failure, check it): the library `libexample.so.5` was ")
        .prints("  line 1: ImportError: libexample.so.5: ");
    let told = json(&project.run("diagnose library.log --format json").expect(0));
    assert_eq!(told["assessment"]["kind"], "shared-library-missing");
    assert_eq!(told["assessment"]["lines"][0]["number"], 1);
    // An excerpt that names no GPU: a known failure only if the GPU is AMD's.
    let excerpt = "    torch._C._cuda_init()\nRuntimeError: No CUDA GPUs are available\n";
    project.write("excerpt.log", excerpt);
    let told = project.run("diagnose excerpt.log").expect(0);
    told.prints("nothing in 2 lines names a GPU; ")
        .prints("  line 2: RuntimeError: No CUDA GPUs are available");
    let told = json(&project.run("diagnose excerpt.log --format json").expect(0));
    assert_eq!(told["failures"].as_array().unwrap().len(), 0);
    assert_eq!(told["possible"][0]["lines"][0]["number"], 2);
    project.write("foreign.log", &format!("NVIDIA GeForce RTX 4090\n{excerpt}"));
    let told = json(&project.run("diagnose foreign.log --format json").expect(0));
    assert_eq!(told["possible"].as_array().unwrap().len(), 0);
    // Standard input is empty here.
    project.run("diagnose").expect(0).prints("no known failure in 0 lines");
}

#[test]
fn logs_in_utf_16_are_decoded_and_other_data_are_refused() {
    let project = Project::new();
    let text = log("failing.txt", "memory-access-fault").replace('\n', "\r\n");
    let units: Vec<u16> = std::iter::once(0xfeff).chain(text.encode_utf16()).collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    for bytes in [little, big] {
        std::fs::write(project.path("windows.log"), bytes).unwrap();
        project
            .run("diagnose windows.log")
            .expect(1)
            .prints("memory-access-fault: ")
            .prints("  line 3: Memory access fault by GPU node-1")
            .prints("1 known failure in 5 lines");
    }
    std::fs::write(project.path("build.gz"), b"\x1f\x8b\x08\0\0\0\0\0").unwrap();
    let told = project.run("diagnose build.gz").expect(2);
    told.says("build.gz` is compressed with gzip")
        .says("`zcat build.gz | build-pipeline diagnose -`");
    std::fs::write(project.path("program"), b"\x7fELF\x02\x01\x01\0\0\0\0\0\x03\0").unwrap();
    project.run("diagnose program").expect(2).says("program` contains binary data, not text");
}
