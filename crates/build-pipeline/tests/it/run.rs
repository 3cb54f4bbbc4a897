//! `run`: containers in real engines, and the files that it prints.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::dsl::{Project, Ran, Terminal, first_advice, ran};
use crate::engines::{BUSYBOX, Engine, both, podman};
use crate::unfold;

/// A project with a machine in `machine/` that uses other real device nodes as stand-ins.
fn with_devices() -> Project {
    let project = Project::new();
    for (name, group) in [("dev/kfd", 992), ("dev/dri/renderD128", 993), ("dev/dri/card0", 44)] {
        let path = project.path("machine").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let made = Command::new("mknod").arg(&path).args(["-m", "660", "c", "1", "3"]).status();
        assert!(made.unwrap().success(), "mknod needs root");
        std::os::unix::fs::chown(&path, None, Some(group)).unwrap();
    }
    project
}

/// Returns the program, with an engine and an image.
fn command(project: &Project, engine: &Engine, words: &[&str], inside: &[&str]) -> Command {
    let image = ["--image", BUSYBOX, "--network", "none", "--"];
    let mut command = project.command(&[words, &image, inside].concat());
    command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
    command
}

fn run(project: &Project, engine: &Engine, words: &[&str], script: &str) -> Ran {
    ran(command(project, engine, words, &["sh", "-c", script]).output().unwrap())
}

#[test]
fn an_image_without_code_for_the_gpu_is_not_started() {
    for engine in both() {
        let project = with_devices();
        let label = "LABEL%20io.github.build-pipeline.gpu-targets=gfx1151";
        engine.add("localhost/checked", label);
        let start = |image: &str, more: &[&str]| {
            let words = ["run", "official", "--host-root", "machine"];
            let image = ["--image", image, "--network", "none"];
            let program = ["--entrypoint", "/bin/true"];
            let mut command = project.command(&[&words, more, &image[..], &program].concat());
            command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
            ran(command.output().unwrap())
        };
        let run = |more: &[&str]| start("localhost/checked:latest", more);
        let spoofing = "LABEL%20io.github.build-pipeline.gpu-targets=gfx1100&changes=LABEL%20io.github.build-pipeline.spoof=11.0.0";
        engine.add("localhost/spoofing", spoofing);
        start("localhost/spoofing:latest", &["--gpu", "gfx1151"]).expect(0);
        // A GPU of another generation cannot imitate it.
        start("localhost/spoofing:latest", &["--gpu", "gfx942"])
            .expect(1)
            .says("was built for gfx1100, but the GPU is gfx942");
        // Without a spoof, code for another GPU cannot be used.
        engine.add("localhost/other", "LABEL%20io.github.build-pipeline.gpu-targets=gfx1100&changes=LABEL%20io.github.build-pipeline.spoof=off");
        start("localhost/other:latest", &["--gpu", "gfx1151"])
            .expect(1)
            .says("was built for gfx1100");
        run(&["--gpu", "gfx1100"])
            .expect(1)
            .says("`localhost/checked:latest` was built for gfx1151, but the GPU is gfx1100")
            .says("--force");
        run(&["--gpu", "gfx1100", "--force"]).expect(0);
        run(&["--gpu", "gfx1151"]).expect(0);
        // Without a GPU, the code need not match.
        run(&["--gpu", "gfx1100", "--no-gpu"]).expect(0);
        // Without `--gpu`, the GPU of the machine counts.
        let gpu = "machine/sys/class/kfd/kfd/topology/nodes/1/properties";
        project.write(gpu, "gfx_target_version 110000\n");
        run(&[]).expect(1).says("was built for gfx1151, but the GPU is gfx1100");
        project.write(gpu, "gfx_target_version 110501\n");
        run(&[]).expect(0);
    }
}

const NO_GPU: [&str; 3] = ["run", "vulkan", "--no-gpu"];

#[test]
fn a_container_has_what_its_track_needs_and_nothing_else() {
    let script = "ls /dev/dri | tr '\\n' ' '; [ -c /dev/kfd ] && echo kfd; id -G; \
        df -k /dev/shm | awk 'NR==2 {print \"shm\", $2}'; echo \"home $HOME\"; touch $HOME/kept; \
        grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/self/status | tr '\\t' ' '; \
        readlink /proc/self/ns/ipc; echo \"$VLLM_ROCM_USE_AITER $HSA_OVERRIDE_GFX_VERSION.\"; \
        echo bad >&2; exit 7";
    let own_ipc = std::fs::read_link("/proc/self/ns/ipc").unwrap().display().to_string();
    for engine in both() {
        let project = with_devices();
        let ran = run(&project, &engine, &["run", "official", "--host-root", "machine"], script);
        let ran = ran.expect(7).says("bad");
        let lines: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
        assert_eq!(lines[0], "card0 renderD128 kfd", "{}: {}", engine.name, ran.stdout);
        let groups: Vec<&str> = lines[1].split(' ').collect();
        assert!(groups.contains(&"992") && groups.contains(&"993"), "{lines:?}");
        // The group of the display is not passed on.
        assert!(!groups.contains(&"44"), "{lines:?}");
        for line in ["shm 16777216", "home /home/run", "NoNewPrivs: 1", "Seccomp: 2", "0 ."] {
            assert!(lines.contains(&line), "{}: no `{line}` in {lines:?}", engine.name);
        }
        assert!(!lines.contains(&own_ipc.as_str()), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("CapEff: 000001ff")), "{lines:?}");
        let home = project.path("home/.cache/build-pipeline/home/official");
        assert!(home.join("kept").is_file());
        assert!(project.path("home/.cache/huggingface").is_dir());
        assert_eq!(engine.containers(), [""; 0], "{}", engine.name);

        let vulkan = ["run", "vulkan", "--host-root", "machine"];
        let ran =
            run(&project, &engine, &vulkan, "ls /dev/dri; [ -e /dev/kfd ] || echo no kfd; id -G");
        let ran = ran.expect(0).prints("renderD128\nno kfd\n");
        assert!(ran.stdout.contains("993") && !ran.stdout.contains("992"), "{}", ran.stdout);
        let nothing = run(&project, &engine, &NO_GPU, "[ -e /dev/dri ] || echo none");
        nothing.expect(0).prints("none");
    }
}

#[test]
fn variables_and_volumes_of_the_caller_reach_the_container_and_no_file() {
    let project = Project::new();
    project.write("some.env", "# comment\nA=\"x\" y\nHSA_OVERRIDE_GFX_VERSION=11.5.1\nPASSED\n");
    project.write("given/file", "from the host\n");
    let options = [
        "--env",
        "MODE=fast",
        "-e",
        "API_TOKEN=hf_canary_1",
        "--env-file",
        "some.env",
        "--volume",
        "given:/given:ro",
        "--volume",
        "given/file:/etc/file",
    ];
    let script = "echo \"$MODE $API_TOKEN $A $PASSED $HF_TOKEN $HSA_OVERRIDE_GFX_VERSION\"; \
        cat /given/file /etc/file; touch /given/new || echo read-only";
    for engine in both() {
        let words = [&NO_GPU[..], &options].concat();
        let mut command = command(&project, &engine, &words, &["sh", "-c", script]);
        command.env("HF_TOKEN", "hf_canary_2").env("PASSED", "on");
        let ran = ran(command.output().unwrap()).expect(0);
        let wanted = "fast hf_canary_1 \"x\" y on hf_canary_2 11.5.1\nfrom the host\nfrom the host\nread-only\n";
        assert_eq!(ran.stdout, wanted, "{}", engine.name);
    }
    let print = |more: &[&str]| {
        let words = ["run", "official", "--host-root", "machine"];
        let mut command = project.command(&[&words[..], more, &options].concat());
        let ran = ran(command.env("HF_TOKEN", "hf_canary_2").output().unwrap()).expect(0);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{}", ran.stdout);
        ran
    };
    unfold::machine(&project.path("machine"), "strix-halo");
    let given = project.path("given").canonicalize().unwrap().display().to_string();
    let file = project.path("some.env").display().to_string();
    for (form, lines) in [
        ("shell", ["--env HF_TOKEN \\", "--env MODE=fast \\", "--env API_TOKEN \\"]),
        (
            "quadlet",
            ["PassEnvironment=HF_TOKEN", "Environment=MODE=fast", "PodmanArgs=--env API_TOKEN"],
        ),
        ("compose", ["HF_TOKEN:\n", "MODE: \"fast\"", "API_TOKEN:\n"]),
        ("distrobox", ["--env HF_TOKEN", "--env MODE=fast", "--env API_TOKEN"]),
    ] {
        let printed = lines.iter().fold(print(&["--print", form]), |ran, line| ran.prints(line));
        let printed = printed.prints(&given).prints(&file);
        // The env file sets this variable, so the tool's own value is not used.
        assert!(!printed.stdout.contains("HSA_OVERRIDE_GFX_VERSION="), "{}", printed.stdout);
    }
    print(&["--dry-run"]).prints("MODE=fast").prints("HF_TOKEN (its value is not shown)");
    for (line, says) in [
        ("run vulkan --print shell --env 1=hf_canary", "`--env` does not start with the name"),
        ("run vulkan --print shell --env-file nowhere.env", "cannot read `"),
        ("run vulkan --print shell --volume nowhere:/a", "`nowhere` cannot be mounted"),
        ("run vulkan --print shell --volume given", "is not HOST:CONTAINER"),
        ("run vulkan --print shell --volume /:/host", "`/` is too large to mount"),
    ] {
        let ran = project.run(line).expect(2).says(says);
        assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
    }
}

#[test]
fn a_detached_container_belongs_to_the_user() {
    for engine in both() {
        let project = Project::new();
        let words = [&NO_GPU[..], &["--detach"]].concat();
        let ran = run(&project, &engine, &words, "echo started; sleep 3000").expect(0);
        let name = ran.stdout.trim().to_owned();
        let ran = ran.says(&format!("`{} logs --follow {name}`", engine.name));
        ran.says(&format!("`{} rm --force {name}` stops and removes it", engine.name));
        assert_eq!(engine.containers(), [format!("/{name}")]);
        let mut clean = project.command(&["clean"]);
        clean.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
        crate::dsl::ran(clean.output().unwrap()).expect(0);
        assert_eq!(engine.containers(), [format!("/{name}")]);
        engine.remove(&name);
        // A container that cannot be started leaves nothing behind.
        let mut broken = command(&project, &engine, &words, &["no-such-program"]);
        crate::dsl::ran(broken.output().unwrap()).expect(3).says("no-such-program");
        assert_eq!(engine.containers(), [""; 0], "{}", engine.name);
    }
    let project = Project::new();
    project.run("run vulkan --print shell -d").expect(0).prints("podman run --detach");
}

#[test]
fn a_port_that_is_in_use_is_reported_before_anything_starts() {
    let engine = podman();
    let project = Project::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let published = port.to_string();
    let words = ["run", "vulkan", "--no-gpu", "--publish", &published, "--image", BUSYBOX];
    let run = |more: &[&str]| {
        let mut command = project.command(&[&words[..], more].concat());
        command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
        ran(command.output().unwrap())
    };
    let what =
        format!("port {port} on 127.0.0.1, on which track `vulkan` serves, is already in use");
    for more in [&[][..], &["--dry-run"]] {
        run(more).expect(3).says(&what).says("`--publish");
    }
    assert!(!project.path("home/.cache/build-pipeline/home").exists());
    run(&["--print", "shell"]).expect(0);
    drop(taken);
    run(&["--dry-run"]).expect(0);
}

#[test]
fn files_belong_to_whoever_local_uid_names() {
    for engine in both() {
        let project = with_devices();
        std::fs::create_dir(project.path("work")).unwrap();
        for folder in ["work", "home"] {
            std::os::unix::fs::chown(project.path(folder), Some(1234), Some(1235)).unwrap();
        }
        let words = ["run", "trainer", "--no-gpu", "--work", "work"];
        let script = "pwd; id -u; id -g; echo $USER; touch made";
        let mut command = command(&project, &engine, &words, &["sh", "-c", script]);
        command.env("LOCAL_UID", "1234").env("LOCAL_GID", "1235");
        let ran = ran(command.output().unwrap()).expect(0);
        assert_eq!(ran.stdout, "/work\n1234\n1235\nrun\n", "{}", engine.name);
        let made = std::fs::metadata(project.path("work/made")).unwrap();
        let ids = (
            std::os::unix::fs::MetadataExt::uid(&made),
            std::os::unix::fs::MetadataExt::gid(&made),
        );
        assert_eq!(ids, (1234, 1235));
    }
    let project = Project::new();
    let mut command = project.command(&["run", "trainer", "--print", "shell"]);
    ran(command.env("LOCAL_UID", "me").output().unwrap()).expect(2).says("LOCAL_UID `me`");
}

#[test]
fn a_missing_node_is_named_with_what_to_do() {
    let engine = podman();
    let project = Project::new();
    unfold::machine(&project.path("machine"), "no-gpu");
    for (track, node) in [("official", "/dev/kfd"), ("vulkan", "/dev/dri/renderD128")] {
        let words = ["run", track, "--host-root", "machine"];
        let ran = run(&project, &engine, &words, "true").expect(3);
        let ran = ran.says(&format!("the device node `{node}` is missing"));
        ran.says("build-pipeline doctor").says("--no-gpu");
        let line = format!("run {track} --host-root machine --engine docker");
        let dry = project.run(&format!("{line} --dry-run")).expect(3);
        dry.says(&format!("the device node `{node}` is missing"));
        project.run(&format!("{line} --print shell")).expect(0);
        let without = project.run(&format!("{line} --dry-run --no-gpu")).expect(0);
        assert!(!without.stdout.contains("groups"), "{}", without.stdout);
    }
    assert_eq!(engine.containers(), [""; 0]);
}

#[test]
fn signals_go_to_the_command_and_nothing_is_left() {
    let script = "trap 'echo ended by TERM; exit 9' TERM; trap 'echo told by USR1' USR1; \
        echo ready; while :; do sleep 0.1; done";
    for engine in both() {
        let project = Project::new();
        let mut command = command(&project, &engine, &NO_GPU, &["sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        output.read_exact(&mut ready).unwrap();
        assert_eq!(engine.containers().len(), 1);
        let name = engine.containers().remove(0);
        assert!(name.contains("build-pipeline-vulkan"), "{name}");
        let pid = rustix::process::Pid::from_child(&child);
        let mut rest = String::new();
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        let mut told = [0; 13];
        output.read_exact(&mut told).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        output.read_to_string(&mut rest).unwrap();
        let ended = ran(child.wait_with_output().unwrap()).expect(9);
        assert_eq!((rest.as_str(), ended.stderr.as_str()), ("ended by TERM\n", ""));
        assert_eq!(engine.containers(), [""; 0], "{}", engine.name);
    }
}

#[test]
fn on_a_terminal_it_is_one_for_the_command() {
    // Ctrl-C is an ordinary key: it reaches the command, and not the program. Like every client,
    // the program sends the size after the start, so the command waits for it.
    let script = "n=0; until [ \"$(stty size)\" = '33 77' ] || [ $n -gt 3000 ]; do n=$((n + 1)); sleep 0.1; done; stty size; stty -echo; trap 'echo interrupted; exit 4' INT; [ -t 0 ] && [ -t 1 ] && echo ready; \
        read -r -n 5 x; echo got $x; while :; do sleep 0.1; done";
    for engine in both() {
        let project = Project::new();
        let inner = command(&project, &engine, &NO_GPU, &["sh", "-c", script]);
        let terminal = Terminal { lines: 33, columns: 77, wanted: "ready", keys: "hello\u{3}" };
        let ran = terminal.run(&project.path(""), &inner).expect(4);
        for line in ["33 77", "ready", "interrupted"] {
            assert!(ran.stdout.contains(line), "{}: no `{line}` in {:?}", engine.name, ran.stdout);
        }
        assert_eq!(engine.containers(), [""; 0]);
    }
}

#[test]
fn input_is_sent_where_that_is_asked_for() {
    for engine in both() {
        let project = Project::new();
        for (words, expected) in [(&["run", "vulkan", "--no-gpu", "-i"][..], 300_000), (&NO_GPU, 0)]
        {
            let mut command = command(&project, &engine, words, &["sh", "-c", "cat | wc -c"]);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            // A reader that reads nothing closes the pipe.
            drop(input.write_all(&vec![b'x'; 300_000]));
            drop(input);
            let ran = ran(child.wait_with_output().unwrap()).expect(0);
            assert_eq!(ran.stdout.trim().parse::<u32>().unwrap(), expected, "{}", engine.name);
        }
        // Every byte of a large output arrives in order and on the right stream.
        let script = "seq 1 60000; seq 1 60000 >&2";
        let ran = run(&project, &engine, &NO_GPU, script).expect(0);
        let all: String = (1..=60_000).map(|number| format!("{number}\n")).collect();
        assert!(ran.stdout == all && ran.stderr == all, "{}", engine.name);
    }
}

#[test]
fn a_known_failure_is_told_by_itself() {
    let engine = podman();
    let project = Project::new();
    let script = "echo 'Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2.' >&2; \
        sh -c 'kill -6 $$'; exit $?";
    let ran = run(&project, &engine, &NO_GPU, script).expect(134);
    ran.says("[memory-access-fault]").says(&first_advice("memory-access-fault"));
    // A failure that is not known is assessed, and marked as such.
    let unknown = "echo 'vkCreateInstance failed: VK_ERROR_LAYER_NOT_PRESENT' >&2; exit 7";
    let ran = run(&project, &engine, &NO_GPU, unknown).expect(7);
    ran.says("assessment (not a known failure, check it): ")
        .says("[vulkan-layer-missing]")
        .says("hint: install it (Debian: vulkan-validationlayers)");
    let fine =
        run(&project, &engine, &NO_GPU, "echo 'Memory access fault by GPU node-1'").expect(0);
    assert_eq!(fine.stderr, "");
}

#[test]
fn what_cannot_be_started_is_answered() {
    let engine = podman();
    let project = Project::new();
    let missing = |image: &str| {
        let mut command = project.command(&["run", "vulkan", "--no-gpu", "--image", image]);
        command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
        ran(command.output().unwrap()).expect(3)
    };
    missing("localhost/build-pipeline/vulkan:latest")
        .says("podman has no image")
        .says("--track vulkan --load --engine podman");
    missing("registry.example.org/a:b").says("`podman pull registry.example.org/a:b` fetches it");
    let ran = run(&project, &engine, &NO_GPU, "true").expect(0);
    assert_eq!(ran.stderr, "");
    let no_program = command(&project, &engine, &NO_GPU, &["no-such-program"]).output().unwrap();
    crate::dsl::ran(no_program).expect(127).says("the image has no program `no-such-program`");
    let no_program = command(&project, &engine, &NO_GPU, &["/no/such-program"]).output().unwrap();
    crate::dsl::ran(no_program).expect(127).says("the image has no program `/no/such-program`");
    assert_eq!(engine.containers(), [""; 0]);
    for (line, says) in [
        ("run vulkan --no-gpu --models nowhere --dry-run", "`nowhere` cannot be mounted"),
        ("run trainer --work / --dry-run", "`/` is too large to mount"),
        ("run vulkan --publish high --dry-run", "`--publish high` is not an address"),
        (
            "run vulkan --print quadlet --engine docker --host-root machine",
            "quadlets work only with podman",
        ),
        ("run official --gpu 8061S --print shell", "`rocminfo | grep gfx` prints that"),
        ("run trainer --publish 9000 --print shell", "track `trainer` serves on no port"),
        ("run vulkan --network none --publish 9000 --print shell", "there is no network"),
        ("run vulkan --network host --publish 9000 --print shell", "an option of the server"),
    ] {
        if line.contains("--host-root") {
            std::fs::create_dir_all(project.path("machine")).unwrap();
        }
        project.run(line).expect(2).says(says);
    }
}

#[test]
fn files_are_written_without_an_engine() {
    let project = Project::new();
    unfold::machine(&project.path("machine"), "strix-halo");
    let print = |line: &str| project.run(&format!("run {line} --host-root machine")).expect(0);
    print("official --print quadlet").prints("GroupAdd=keep-groups").prints("AddDevice=/dev/kfd");
    print("f --print shell")
        .prints("--publish 127.0.0.1:11434:11434")
        .prints("localhost/build-pipeline/ollama:latest");
    let trainer =
        print("trainer --print compose").prints("  trainer:\n").prints("working_dir: \"/work\"");
    assert!(!trainer.stdout.contains("ports:"));
    print("vulkan --print distrobox --image registry.example.org/a:b")
        .prints("image=registry.example.org/a:b");
    print("official --dry-run")
        .prints("devices      /dev/kfd /dev/dri")
        .prints("the user's groups are kept");
    print("official --print compose").prints("# podman compose --file THIS_FILE up --detach\n");
    let twice = ["", ""].map(|_| print("official --print compose").stdout);
    assert_eq!(twice[0], twice[1]);
    assert!(!Path::new(&project.path("home/.cache/build-pipeline/home")).exists());
}

#[test]
fn a_file_loses_no_character_of_a_value() {
    let project = Project::new();
    unfold::machine(&project.path("machine"), "strix-halo");
    for form in ["shell", "compose", "quadlet", "distrobox"] {
        for (option, more) in [("--env", "A=\u{1b}[31mX"), ("--env", "A=\u{202e}x")] {
            let words =
                ["run", "official", "--host-root", "machine", "--print", form, option, more];
            let ran = ran(project.command(&words).output().unwrap()).expect(2);
            assert_eq!(ran.stdout, "", "{form}");
            ran.says("hint: remove the character");
        }
    }
    let words = ["run", "official", "--host-root", "machine", "--print", "shell"];
    let words = [&words[..], &["--", "a\u{7}b"]].concat();
    ran(project.command(&words).output().unwrap()).expect(2).says("hint: remove the character");
}

/// `run --print compose` prints a hint if no program on this machine can start the file.
#[test]
fn a_compose_file_comes_with_a_hint_if_nothing_starts_it() {
    let project = Project::new();
    let program = Path::new(env!("CARGO_BIN_EXE_build-pipeline"));
    let folder = project.path("");
    let run = || {
        let folders = [program.parent().unwrap(), folder.as_path()];
        let mut command = testkit::Guest::this_machine().command(&folders, "sh");
        let script = "rm -f /usr/*bin/*-compose /usr/local/bin/*-compose
            rm -rf /usr/lib*/docker/cli-plugins /usr/local/lib*/docker/cli-plugins
            exec \"$@\"";
        command.args(["-c", script, "sh", "env", "-C"]).arg(&folder).arg(program);
        command.args(["run", "official", "--print", "compose", "--engine", "docker"]);
        command
            .env_clear()
            .env("HOME", project.path("home"))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        ran(command.output().unwrap()).expect(0)
    };
    run().says("`docker compose` needs a program that is not installed here");
    project.write("home/.docker/cli-plugins/docker-compose", "");
    assert!(!run().stderr.contains("docker compose"));
}

/// A build whose RUN fails reports known failures in its last lines, in addition to the error
/// itself.
#[test]
fn a_failing_build_says_what_is_known_of_its_output() {
    let (engine, base) = (podman(), crate::engines::BusyboxRegistry::serve());
    let project = Project::new();
    let text = "schema = 1\ngpu = \"gfx1151\"\n[vulkan]\ntitle = \"t\"\ndescription = \"d\"\n\
        variant = \"fedora\"\n[vulkan.variants.fedora]\nbase = \"fedora\"\n\
        [[vulkan.variants.fedora.stage]]\nname = \"it\"\ndockerfile = \"dockerfiles/it.Dockerfile\"\n";
    project.write("versions/tracks.toml", text);
    let dockerfile = "ARG BASE\nFROM ${BASE}\nRUN echo 'hipErrorNoBinaryForGpu: no code'; exit 3\n";
    project.write("dockerfiles/it.Dockerfile", dockerfile);
    let (host, digest) = (&base.host, &base.digest);
    let line = format!(
        "--track vulkan --set fedora={digest} --mirror docker.io/library/fedora={host}/base/busybox"
    );
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
    let ran = ran(command.output().unwrap()).expect(1);
    ran.says("ended with status 3")
        .says("[no-kernel-image]")
        .says("use a build of the program for this GPU");
}
