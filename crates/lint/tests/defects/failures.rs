//! Commands whose failure nothing notices, each with similar files without the mistake.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// Returns a Dockerfile with some lines after its base.
fn image(lines: &str) -> String {
    format!("FROM docker.io/library/ubuntu:24.04@sha256:1\n{lines}\n")
}

#[test]
fn what_follows_or_applies_to_the_whole_chain() {
    for (run, expected) in [
        ("git clone -q https://h.example/a && rm -r b || true", &["2 warning"][..]),
        ("git clone -q https://h.example/a && (rm -r b || true)", &[]),
        ("git clone -q https://h.example/a && { rm -r b || true; }", &[]),
        ("git clone -q https://h.example/a && rm -r b || exit 1", &[]),
        ("rm -r b && pip uninstall -y c || true", &[]),
        ("if git clone -q https://h.example/a && rm b; then c; else d; fi", &[]),
        ("apt-get install -y a || true", &["2 information"]),
        ("apt-get install -y a || (apt-get update && apt-get install -y a)", &[]),
        ("apt-get install -y a || { echo failed; exit 1; }", &[]),
        ("apt-get install -y a || echo 'the optional package a is missing'", &[]),
        ("if b; then apt-get install -y a || true; fi", &[]),
        ("(apt-get install -y a || echo no) && b", &[]),
        ("python3 -c 'from a import b; b.from_pretrained(1)' || true", &["2 information"]),
        ("python3 -c 'import torch' || true", &[]),
    ] {
        expect(
            "build-status-lost",
            NONE,
            &[("Dockerfile", &image(&format!("RUN {run}")), expected)],
        );
    }
}

#[test]
fn a_semicolon_hides_the_step_before_it() {
    for (run, expected) in [
        ("pip install a==1; mkdir b", &["2 information"][..]),
        ("set -eux; pip install a==1; mkdir b", &[]),
        ("mkdir b; pip install a==1", &[]),
        ("if b; then pip install a==1; else pip install c==1; fi", &[]),
        ("if b && pip install a==1; then c; fi", &[]),
        ("for b in c d; do pip install $b==1; done", &[]),
        ("(cd a && make -j2 && make install) && rm -r a", &[]),
        ("case $A in b) pip install a==1;; esac; c", &[]),
    ] {
        expect(
            "build-status-lost",
            NONE,
            &[("Dockerfile", &image(&format!("RUN {run}")), expected)],
        );
    }
    let shell =
        "SHELL [\"/bin/bash\", \"-eo\", \"pipefail\", \"-c\"]\nRUN pip install a==1; mkdir b";
    expect("build-status-lost", NONE, &[("Dockerfile", &image(shell), &[])]);
    for (lines, expected) in [
        ("RUN <<EOF\napt-get install -y a\nb\nEOF", &["3 warning"][..]),
        ("RUN <<EOF\nset -e\napt-get install -y a\nb\nEOF", &[]),
        ("RUN <<EOF\nb\napt-get install -y a\nEOF", &[]),
        ("RUN cat > a.sh <<EOF\napt-get install -y a\nb\nEOF", &[]),
    ] {
        expect("build-status-lost", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn scripts_stop_at_an_error_in_several_ways() {
    let steps = "wget https://h.example/a.deb\nsudo apt install ./a.deb\nsudo amdgpu-install -y\n";
    for (start, expected) in [
        ("#!/bin/bash\n", &["1 information"][..]),
        ("#!/bin/bash\nset -euo pipefail\n", &[]),
        ("#!/bin/bash -e\n", &[]),
        ("#!/bin/bash\nset -o errexit\n", &[]),
        ("#!/bin/bash\ntrap 'exit 1' ERR\n", &[]),
        ("#!/bin/bash\nsource ./common.sh\n", &[]),
    ] {
        let text = format!("{start}{steps}b\n");
        expect("errors-ignored", NONE, &[("install.sh", &text, expected)]);
    }
    let chain = "#!/bin/bash\nwget https://h.example/a.deb && sudo apt install ./a.deb && sudo amdgpu-install -y\n";
    let reboot = "#!/bin/bash\nset -e\nsudo apt install -y a\nsudo reboot\n";
    let asks = "#!/bin/bash\nsudo apt install -y a\nread -p 'Restart?'\nsudo reboot\n";
    expect(
        "errors-ignored",
        NONE,
        &[("install.sh", chain, &[]), ("install.sh", reboot, &[]), ("install.sh", asks, &[])],
    );
}

#[test]
fn waits_for_a_server_can_end() {
    let wait = |inside: &str| {
        format!(
            "#!/bin/bash\nollama serve &\nP=$!\nuntil curl -s http://localhost:11434/; do\n  {inside}\ndone\n"
        )
    };
    for (text, expected) in [
        (wait("sleep 1"), &["4 information"][..]),
        (wait("kill -0 $P || exit 1; sleep 1"), &[]),
        (wait("N=$((N + 1)); [ $N -lt 60 ] || break; sleep 1"), &[]),
        (wait("sleep 1").replace("ollama serve &\n", ""), &[]),
        ("#!/bin/bash\nollama serve &\nsleep 5\nollama pull a\n".to_owned(), &["3 information"]),
        ("#!/bin/bash\nollama serve &\nsleep 5\nwait\n".to_owned(), &[]),
        ("#!/bin/bash\na &\nsleep 5\ncurl -fsS https://h.example/\n".to_owned(), &[]),
    ] {
        expect("server-wait", NONE, &[("start.sh", &text, expected)]);
    }
    for (script, expected) in [
        (
            "ollama serve & until ollama list; do sleep 1; done; ollama pull a; wait",
            &["4 information"][..],
        ),
        ("ollama serve & sleep 5; ollama pull a; wait", &["4 information"]),
        ("until ollama list; do sleep 1; done; ollama pull a", &[]),
    ] {
        let text = format!(
            "services:\n  a:\n    image: docker.io/ollama/ollama:rocm@sha256:1\n    entrypoint: [\"/bin/sh\", \"-c\", \"{script}\"]\n"
        );
        expect("server-wait", NONE, &[("compose.yml", &text, expected)]);
    }
}

#[test]
fn curl_fails_only_if_it_is_asked_to() {
    for (text, expected) in [
        ("curl http://a:11434/api/pull -d '{}'\n", &["1 information"][..]),
        ("curl -fsS http://a:11434/api/pull -d '{}'\n", &["1 information"]),
        ("curl -fsS http://a:11434/api/pull -d '{\"stream\": false}'\n", &[]),
        ("curl -fsS http://a:11434/api/pull -d @a.json\n", &[]),
        ("curl http://a:11434/api/pull -d '{}' | grep -q success\n", &[]),
        ("curl http://a:11434/api/tags\n", &[]),
    ] {
        expect("errors-ignored", NONE, &[("pull.sh", text, expected)]);
    }
}

#[test]
fn gpg_overwrites_without_a_question() {
    for (text, expected) in [
        ("gpg --dearmor -o /a/b.gpg\n", &["1 information"][..]),
        ("gpg --yes --dearmor -o /a/b.gpg\n", &[]),
        ("rm -f /a/b.gpg\ngpg --dearmor -o /a/b.gpg\n", &[]),
        ("if [ ! -f /a/b.gpg ]; then\ngpg --dearmor -o /a/b.gpg\nfi\n", &[]),
        ("gpg --dearmor | sudo tee /a/b.gpg > /dev/null\n", &[]),
    ] {
        expect("build-waits", NONE, &[("install.sh", text, expected)]);
    }
    expect(
        "build-waits",
        NONE,
        &[("Dockerfile", &image("RUN a | gpg --dearmor -o /a/b.gpg"), &[])],
    );
}

#[test]
fn shells_have_start_files_and_functions() {
    let fedora = "FROM docker.io/library/fedora:43@sha256:1\nRUN . ~/.bashrc && a\n";
    let printed =
        "#!/bin/bash\necho 'run: source ~/.bashrc'\necho '. ~/.bashrc' > ~/.bash_profile\n";
    let hook = "#!/bin/bash\neval \"$(conda shell.bash hook)\"\nconda activate a\n";
    let login = "#!/bin/bash -l\nconda activate a\n";
    let loaded = "conda activate a\n";
    let interactive = image("SHELL [\"bash\", \"-i\", \"-c\"]\nRUN . ~/.bashrc && a");
    expect(
        "shell-state-lost",
        NONE,
        &[
            ("Dockerfile", fedora, &[]),
            ("Dockerfile", &interactive, &[]),
            ("Dockerfile", &image("RUN A=1 b"), &[]),
            ("install.sh", printed, &[]),
            ("run.sh", hook, &[]),
            ("run.sh", login, &[]),
            ("run.sh", loaded, &[]),
        ],
    );
}

#[test]
fn comments_may_stand_between_commands() {
    for (text, expected) in [
        ("#!/bin/bash\na \\\n  # b\n  --c\n", &["3 error"][..]),
        ("#!/bin/bash\na \\\n  --b\n# c\n", &[]),
        ("#!/bin/bash\nA=(\n  --b \\\n  # c\n  --d\n)\n", &[]),
        ("#!/bin/bash\ncat <<EOF\na \\\n# b\n--c\nEOF\n", &[]),
    ] {
        expect("operator-missing", NONE, &[("run.sh", text, expected)]);
    }
    expect("operator-missing", NONE, &[("Dockerfile", &image("RUN a \\\n  # b\n  --c"), &[])]);
}

#[test]
fn scripts_for_one_release_say_so() {
    let install = "wget https://repo.radeon.com/amdgpu-install/7.2.1/ubuntu/noble/a_1_all.deb\nsudo apt install ./a_1_all.deb\n";
    for (file, start, expected) in [
        ("install.sh", "", &["2 information"][..]),
        ("install.sh", "# For Ubuntu 24.04\n", &[]),
        ("install_ubuntu2404.sh", "", &[]),
        ("install.sh", ". /etc/os-release\n[ \"$VERSION_CODENAME\" = noble ] || exit 1\n", &[]),
    ] {
        let text = format!("#!/bin/bash\n{start}{install}");
        expect("other-distribution", NONE, &[(file, &text, expected)]);
    }
    let printed = "#!/bin/bash\nsudo true\necho \"wget https://repo.radeon.com/amdgpu-install/7.2.1/ubuntu/noble/a.deb\"\n";
    expect("other-distribution", NONE, &[("install.sh", printed, &[])]);
}

#[test]
fn files_that_a_shell_reads_do_not_reach_a_program() {
    let write = "RUN echo 'export A=1' >> ~/.bashrc\n";
    for (end, expected) in [
        ("CMD [\"python3\", \"a.py\"]", &["2 information"][..]),
        ("CMD [\"bash\"]", &[]),
        ("CMD [\"./start.sh\"]", &[]),
        ("", &[]),
        ("ENV A=1\nCMD [\"python3\", \"a.py\"]", &[]),
    ] {
        let text = image(&format!("{write}{end}"));
        expect("variable-without-effect", NONE, &[("Dockerfile", &text, expected)]);
    }
    let sshd = "RUN apt-get install -y openssh-server\nRUN echo A=1 >> /etc/environment";
    expect("variable-without-effect", NONE, &[("Dockerfile", &image(sshd), &[])]);
}

/// A folder with one start script.
#[derive(Debug)]
struct Script(&'static str);

impl Exists for Script {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        (path == "docker/start.sh").then(|| self.0.to_owned())
    }
}

#[test]
fn a_start_script_may_switch_to_the_user() {
    let text = image(
        "RUN useradd -m a\nCOPY docker/start.sh /start.sh\nENTRYPOINT [\"/start.sh\", \"python3\", \"a.py\"]",
    );
    for (script, expected) in [("exec \"$@\"\n", 1), ("exec gosu a \"$@\"\n", 0)] {
        let folder = Script(script);
        let context = Context { exists: Some(&folder), ..Context::default() };
        let found = findings_in("Dockerfile", &text, context);
        assert_eq!(found.iter().filter(|one| one.rule.id == "user-unused").count(), expected);
    }
    expect(
        "user-unused",
        NONE,
        &[
            ("Dockerfile", &text, &[]),
            ("Dockerfile", &image("RUN useradd -m a\nCMD [\"bash\"]"), &[]),
            ("Dockerfile", &image("RUN useradd -r www\nCMD [\"httpd-foreground\"]"), &[]),
            ("Dockerfile", &image("RUN useradd -m a\nUSER a\nCMD [\"node\"]\n# USER b"), &[]),
        ],
    );
    let once =
        "[Unit]\nDescription=x\n[Service]\nType=oneshot\nExecStart=/usr/bin/a-llama-server --x\n";
    expect("user-unused", NONE, &[("a.service", once, &[])]);
}

#[test]
fn units_name_units_of_their_own_manager() {
    let unit = |after: &str, rest: &str| {
        format!("[Unit]\nAfter={after}\n[Service]\nExecStart=/usr/bin/a\n{rest}\n")
    };
    let user = "WorkingDirectory=%h/b\n[Install]\nWantedBy=default.target";
    for (text, expected) in [
        (unit("network-online.target", user), &["2 information"][..]),
        (unit("pipewire.service", user), &[]),
        (unit("network-online.target", "User=a\n[Install]\nWantedBy=multi-user.target"), &[]),
        (unit("pipewire.service", "User=a"), &["2 information"]),
        (unit("network-online.target", "[Install]\nWantedBy=default.target"), &[]),
    ] {
        expect("unit-of-other-manager", NONE, &[("a.service", &text, expected)]);
    }
    for (file, text, expected) in [
        ("a.service", "[Service]\nExecStart=/a %i\n", &["2 warning"][..]),
        ("a@.service", "[Service]\nExecStart=/a %i\n", &[]),
        ("a.service", "# Install it as a@.service\n[Service]\nExecStart=/a %i\n", &[]),
    ] {
        expect("unit-variable", NONE, &[(file, text, expected)]);
    }
}

#[test]
fn development_mode_belongs_in_other_files() {
    let service = |lines: &str| format!("services:\n  a:\n    image: docker.io/a/b:1\n{lines}");
    let reload = service("    command: uvicorn a:app --reload\n");
    let debug = service("    environment: [DEBUG=false, NODE_ENV=production]\n");
    let local = "services:\n  a:\n    image: docker.io/localai/localai:v3@sha256:1\n    environment: [DEBUG=true]\n";
    let builder = "FROM docker.io/library/node:24@sha256:1 AS build\nENV NODE_ENV=development\nFROM docker.io/library/node:24@sha256:1\nCMD [\"npm\", \"start\"]\n";
    expect(
        "development-mode",
        NONE,
        &[
            ("compose.yml", &reload, &["4 information"]),
            ("compose.dev.yml", &reload, &[]),
            ("compose.yml", &debug, &[]),
            ("compose.yml", local, &[]),
            ("Dockerfile", builder, &[]),
        ],
    );
}

#[test]
fn services_have_keys() {
    let service = |variable: &str, port: &str| {
        format!(
            "services:\n  ezapp:\n    build: .\n    environment: [{variable}]\n    ports: [\"{port}\"]\n"
        )
    };
    for (variable, port, expected) in [
        ("EZAPP_API_KEY=", "80:80", &["4 information"][..]),
        ("API_KEY=", "127.0.0.1:80:80", &[]),
        ("API_KEY=a", "80:80", &[]),
        ("OPENAI_API_KEY=", "80:80", &[]),
        ("JUPYTER_TOKEN=", "80:8888", &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &service(variable, port), expected)]);
    }
    for (variable, expected) in
        [("JUPYTER_TOKEN=114514", &["4 information"][..]), ("JUPYTER_TOKEN=${TOKEN:?}", &[])]
    {
        expect(
            "password-in-file",
            NONE,
            &[("compose.yml", &service(variable, "1:8888"), expected)],
        );
    }
    let manifest = |words: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/vllm/vllm-openai-rocm:v0.19.0@sha256:1\n      command: [vllm, serve, a, {words}]\n"
        )
    };
    for (words, expected) in [
        ("--api-key, token-abc123", &["7 information"][..]),
        ("--api-key, $(VLLM_API_KEY)", &[]),
        ("--api-key, dummy", &[]),
    ] {
        expect("password-in-file", NONE, &[("a.yaml", &manifest(words), expected)]);
    }
    let unit = |words: &str| format!("[Service]\nUser=a\nExecStart=/srv/a/uvicorn a:app {words}\n");
    expect(
        "service-open",
        NONE,
        &[
            ("a.service", &unit("--host 0.0.0.0"), &["3 information"]),
            ("a.service", &unit("--host 127.0.0.1"), &[]),
            ("a.service", &unit("--host 0.0.0.0 --ssl-keyfile k"), &[]),
            ("start.sh", "x11vnc -nopw -localhost -forever\n", &[]),
            ("start.sh", "cd /workspace/ComfyUI\npython main.py --listen 0.0.0.0\n", &[]),
            ("start.sh", "cd ~/ComfyUI\npython main.py --listen 127.0.0.1\n", &[]),
        ],
    );
}

#[test]
fn some_folders_are_open_to_all() {
    for (run, expected) in [
        ("chmod -R 777 /models", &["2 information"][..]),
        ("chmod -R 777 /tmp/a", &[]),
        ("chmod -R 777 /a/.cache", &[]),
        ("chmod -R 755 /models", &[]),
        ("chmod 777 /a.sh", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("programs-writable", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_pipeline_has_the_status_of_its_last_command() {
    for (text, expected) in [
        ("if curl -fsS https://h.example/a | bash; then a; fi\n", &["1 information"][..]),
        ("curl -fsS https://h.example/a | sh || exit 1\n", &["1 information"]),
        ("curl -fsS https://h.example/a | sh\n", &[]),
        ("set -o pipefail\nif curl -fsS https://h.example/a | bash; then a; fi\n", &[]),
        ("if curl -fsS https://h.example/a | grep b; then a; fi\n", &[]),
    ] {
        expect("build-status-lost", NONE, &[("install.sh", text, expected)]);
    }
    for (run, expected) in [
        ("cp a b 2>/dev/null; c", &["2 information"][..]),
        ("cp a b; c", &[]),
        ("rm a 2>/dev/null; c", &[]),
        ("for a in b c; do cp $a d 2>/dev/null; done", &[]),
    ] {
        expect(
            "build-status-lost",
            NONE,
            &[("Dockerfile", &image(&format!("RUN {run}")), expected)],
        );
    }
}

/// A folder with a base file.
#[derive(Debug)]
struct Base;

impl Exists for Base {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = "services:\n  init:\n    image: docker.io/ollama/ollama:latest\n";
        (path == "docker-compose.yml").then(|| text.to_owned())
    }
}

#[test]
fn the_entrypoint_of_an_override_runs_in_the_image_of_the_base_file() {
    for (program, expected) in [("curl -sf http://a", 1), ("ollama list", 0)] {
        let text = format!(
            "services:\n  init:\n    entrypoint: sh -c \"until {program}; do sleep 3; done\"\n"
        );
        let context = Context { exists: Some(&Base), ..Context::default() };
        let found = findings_in("docker-compose.amd.yml", &text, context);
        let count = found.iter().filter(|one| one.rule.id == "program-missing").count();
        assert_eq!(count, expected, "{program}");
    }
}

#[test]
fn a_pod_can_have_the_runtime_of_another_vendor() {
    let pod = |runtime: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n{runtime}  containers:\n    - name: a\n      image: docker.io/a/b:1@sha256:1\n      env:\n        - {{ name: NVIDIA_VISIBLE_DEVICES, value: all }}\n"
        )
    };
    for (runtime, expected) in [("", &["8 information"][..]), ("  runtimeClassName: nvidia\n", &[])]
    {
        expect("variable-without-effect", NONE, &[("a.yaml", &pod(runtime), expected)]);
    }
}
