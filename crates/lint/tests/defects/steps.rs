//! Steps of a build, and what an image starts, each with similar files without the mistake.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// Returns a Dockerfile with some lines after its base.
fn image(lines: &str) -> String {
    format!("FROM docker.io/a/b@sha256:1\n{lines}\n")
}

#[test]
fn a_build_may_enable_services_and_name_modules() {
    for (lines, expected) in [
        ("RUN modprobe amdgpu", &["2 error"][..]),
        ("RUN modprobe amdgpu || true", &["2 warning"]),
        ("RUN sysctl -w vm.max_map_count=1", &["2 warning"]),
        ("RUN apt-get update && systemctl restart docker", &["2 error"]),
        ("RUN systemctl enable docker && echo amdgpu > /etc/modules-load.d/a.conf", &[]),
        ("RUN modprobe --version", &[]),
        ("COPY systemctl.py /usr/bin/systemctl\nRUN systemctl start a", &[]),
        ("RUN printf '#!/bin/sh\\nmodprobe amdgpu\\n' > /start.sh", &[]),
    ] {
        expect("host-in-build", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn only_root_installs_packages() {
    for (lines, expected) in [
        ("USER a\nRUN apt-get install -y git", &["3 error"][..]),
        ("USER 1000:1000\nRUN dnf install -y git", &["3 error"]),
        ("USER a\nRUN sudo apt-get install -y git", &[]),
        ("USER a\nUSER root\nRUN apt-get install -y git", &[]),
        ("USER 0:0\nRUN apt-get install -y git", &[]),
        ("USER ${NAME}\nRUN apt-get install -y git", &[]),
        ("USER a\nRUN apt-get download git && apt list", &[]),
        ("USER a\nFROM docker.io/a/b@sha256:1\nRUN apt-get install -y git", &[]),
    ] {
        expect("root-missing", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
    let chain = "FROM docker.io/a/b@sha256:1 AS base\nUSER a\nFROM base\nRUN apt-get update\n";
    expect("root-missing", NONE, &[("Dockerfile", chain, &["4 error"])]);
}

#[test]
fn a_second_clone_needs_another_folder() {
    let first = "WORKDIR /app\nRUN git clone https://h.example/a x\n";
    for (lines, expected) in [
        ("RUN git clone https://h.example/b x", &["4 error"][..]),
        ("RUN git clone https://h.example/b /app/x/", &["4 error"]),
        ("RUN git clone https://h.example/b y", &[]),
        ("RUN rm -rf x && git clone https://h.example/b x", &[]),
        ("RUN git clone https://h.example/b x || git -C x pull", &[]),
        ("WORKDIR /other\nRUN git clone https://h.example/b x", &[]),
        ("FROM docker.io/a/b@sha256:1\nWORKDIR /app\nRUN git clone https://h.example/b x", &[]),
    ] {
        let text = image(&format!("{first}{lines}"));
        expect("folder-not-empty", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_list_is_copied_before_the_rest() {
    for (lines, expected) in [
        ("COPY . .\nRUN pip install -r requirements.txt", &["2 information"][..]),
        ("COPY . /app\nRUN apt-get update && apt-get install -y git", &["2 information"]),
        ("COPY requirements.txt .\nRUN pip install -r requirements.txt\nCOPY . .", &[]),
        ("COPY . .\nRUN pip install .", &[]),
        ("COPY . .\nRUN pip install -r requirements.txt -e .", &[]),
        ("COPY . .\nRUN apt-get install -y ./a.deb", &[]),
        ("COPY --from=a . .\nRUN apt-get install -y git", &[]),
    ] {
        expect("copy-too-early", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn a_wheel_can_be_installed_later() {
    let end = "CMD [\"vllm\", \"serve\"]";
    for (lines, expected) in [
        ("RUN python3 -m build --wheel", &["2 warning"][..]),
        ("RUN python3 -m build --wheel && pip install dist/*.whl", &[]),
        ("RUN pip wheel -w /w . && pip install --find-links /w a", &[]),
        ("RUN python3 setup.py bdist_wheel && pip install .", &[]),
    ] {
        let text = image(&format!("{lines}\n{end}"));
        expect("wheel-unused", NONE, &[("Dockerfile", &text, expected)]);
    }
    let shell = image("RUN python3 -m build --wheel\nCMD [\"/bin/bash\"]");
    expect("wheel-unused", NONE, &[("Dockerfile", &shell, &[])]);
}

#[test]
fn a_server_is_reached_on_all_addresses() {
    for (lines, expected) in [
        ("EXPOSE 1\nCMD [\"a\", \"--host\", \"127.0.0.1\"]", &["3 warning"][..]),
        ("EXPOSE 11434\nENV OLLAMA_HOST=127.0.0.1:11434\nCMD [\"serve\"]", &["3 warning"]),
        ("EXPOSE 8080\nENV OLLAMA_HOST=127.0.0.1:11434\nCMD [\"open-webui\"]", &[]),
        ("EXPOSE 1\nCMD [\"a\", \"--host\", \"0.0.0.0\"]", &[]),
        ("CMD [\"a\", \"--host\", \"127.0.0.1\"]", &[]),
        ("# docker run --network=host\nEXPOSE 1\nCMD [\"a\", \"--host\", \"127.0.0.1\"]", &[]),
        ("EXPOSE 1\nCMD a --host 127.0.0.1 & nginx -g 'daemon off;'", &[]),
    ] {
        expect("server-unreachable", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
    let host = "services:\n  a:\n    image: a/b:1\n    network_mode: host\n    command: a --host 127.0.0.1\n    ports:\n      - \"7000:7000\"\n";
    expect("server-unreachable", NONE, &[("compose.yml", host, &[])]);
    let client = "services:\n  a:\n    image: a/webui:1\n    environment:\n      OLLAMA_HOST: 127.0.0.1\n    ports:\n      - \"7000:7000\"\n";
    expect("server-unreachable", NONE, &[("compose.yml", client, &[])]);
}

#[test]
fn a_number_of_jobs_is_a_limit() {
    for (command, expected) in [
        ("make -j", &["2 information"][..]),
        ("make -j && make install", &["2 information"]),
        ("cmake --build build --parallel", &["2 information"]),
        ("cd llama.cpp && cmake --build build -j", &["2 warning"]),
        ("make -j8", &[]),
        ("make -j 8", &[]),
        ("make -j $(nproc)", &[]),
        ("make -j -l 8", &[]),
        ("cmake --build build --parallel 4", &[]),
        ("cmake -G Ninja -B build && cmake --build build -j", &[]),
        ("cmake --build --parallel --preset CPU", &[]),
    ] {
        let text = image(&format!("RUN {command}"));
        expect("jobs-unlimited", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_folder_is_used_in_the_same_run() {
    for (lines, expected) in [
        ("RUN mkdir a && cd a\nRUN cmake ..", &["2 warning"][..]),
        ("RUN git clone https://h.example/a && \\\n  cd a\nRUN make", &["3 warning"]),
        ("RUN git clone https://h.example/a && cd a\nRUN pip install -e /a", &[]),
        ("RUN cd a && make && cd ..\nRUN ./b", &[]),
        ("RUN mkdir a && cd a && make\nRUN ./b", &[]),
        ("RUN make && (mkdir a; cd a)\nRUN ./b", &[]),
    ] {
        expect("shell-state-lost", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn packages_are_for_the_release_of_the_base() {
    let on = |base: &str, url: &str| format!("FROM {base}\nRUN wget {url} && dpkg -i x.deb\n");
    let noble = "docker.io/library/ubuntu:24.04@sha256:1";
    for (base, url, expected) in [
        (noble, "https://h.example/a_jammy_amd64.deb", &["2 information"][..]),
        (noble, "https://h.example/ubuntu2204/a.deb", &["2 information"]),
        (noble, "https://h.example/a-ubuntu-24.04.deb", &[]),
        (noble, "https://h.example/a-debian12.deb", &[]),
        (noble, "https://h.example/ubuntu-22.04.tar.gz", &[]),
        ("docker.io/a/b@sha256:1", "https://h.example/a_jammy_amd64.deb", &[]),
    ] {
        expect("other-distribution", NONE, &[("Dockerfile", &on(base, url), expected)]);
    }
}

#[test]
fn lists_are_fetched_for_something() {
    for (lines, expected) in [
        ("RUN apt-get update\nRUN pip install a==1\nCMD [\"a\"]", &["2 information"][..]),
        ("RUN apt-get update && ./install.sh\nCMD [\"a\"]", &[]),
        ("RUN apt-get update\nCMD [\"bash\"]", &[]),
        ("RUN apt-get update\nRUN playwright install-deps\nCMD [\"a\"]", &[]),
        ("RUN apt-get update", &[]),
    ] {
        expect("package-lists-stale", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn a_missing_gpu_is_noticed() {
    for (lines, expected) in [
        ("ENV COMMANDLINE_ARGS=--skip-torch-cuda-test", &["2 information"][..]),
        ("ENV COMMANDLINE_ARGS=\"--use-cpu all --skip-torch-cuda-test\"", &[]),
        ("RUN python3 launch.py --skip-torch-cuda-test --exit", &[]),
    ] {
        expect("torch-check-useless", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn names_of_apt_are_not_names_of_pip() {
    for (text, expected) in [
        ("pip install build-essential a\n", &["1 error"][..]),
        ("pip3 install libssl-dev\n", &["1 error"]),
        ("pip install ffmpeg python-dev-tools libsass\n", &[]),
        ("apt-get install -y python3-venv\npip install a\n", &[]),
    ] {
        expect("no-such-version", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn packages_are_removed_in_their_own_layer() {
    let install = "RUN apt-get update && apt-get install -y cmake && rm -rf /var/lib/apt/lists/*\n";
    for (lines, expected) in [
        ("RUN apt-get purge -y cmake", &["3 information"][..]),
        ("# keeps the image slim\nRUN apt-get purge -y cmake", &["4 warning"]),
        ("RUN apt-get purge -y openssl", &[]),
        ("RUN apt-get purge -y cmake && pip install a==1", &[]),
    ] {
        let text = image(&format!("{install}{lines}"));
        expect("removed-later", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_patch_may_not_be_skipped() {
    for (lines, expected) in [
        ("RUN git apply /a.patch || true", &["2 warning"][..]),
        ("RUN git apply --check /a.patch || true", &[]),
        ("RUN patch --dry-run -i a || true", &[]),
        ("RUN patch -p1 -i a.patch", &[]),
    ] {
        expect("build-status-lost", NONE, &[("Dockerfile", &image(lines), expected)]);
    }
}

#[test]
fn other_containers_may_be_privileged_or_open() {
    let run =
        |options: &str, name: &str| format!("docker run {options} docker.io/{name}@sha256:1\n");
    for (rule, text, expected) in [
        ("privileged-container", run("--privileged", "library/docker"), &[][..]),
        ("privileged-container", run("--privileged --platform linux/amd64", "a/b"), &[]),
        ("service-open", run("-p 127.0.0.1:8188:8188", "k/comfyui"), &[]),
        ("service-open", run("-p 8188:8188", "k/comfyui"), &["1 information"]),
    ] {
        expect(rule, NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn a_loop_may_look_at_the_exit_of_a_container() {
    let own = |body: &str| {
        format!(
            "podman run -d --name o a/b@sha256:1\nwhile [ \"$(podman inspect -f '{{{{.State.Status}}}}' o)\" != running ]; do\n{body}\ndone\n"
        )
    };
    for (body, expected) in [
        ("  sleep 1", &["2 information"][..]),
        ("  sleep 1\n  i=$((i+1)); [ $i -gt 9 ] && exit 1", &[]),
    ] {
        expect("server-wait", NONE, &[("a.sh", &own(body), expected)]);
    }
}

#[test]
fn flags_of_other_programs_are_not_those_of_llama() {
    for (command, expected) in [
        ("cmake llama.cpp -DGGML_VULKAN=ON -DCMAKE_C_FLAGS=-march=znver4", &["2 information"][..]),
        ("cmake llama.cpp -DGGML_NATIVE=OFF -DCMAKE_C_FLAGS=-march=znver4", &[]),
        ("cmake other -DCMAKE_C_FLAGS=-march=znver4", &[]),
    ] {
        let text = image(&format!("RUN {command}"));
        expect("build-native", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_new_branch_can_be_meant() {
    for (command, expected) in [
        ("git checkout -b releases/v0.18.1", &["2 error"][..]),
        ("git switch -c v0.18.1", &["2 error"]),
        ("git checkout -b local-patches", &[]),
        ("git checkout -b v0.18.1 origin/releases/v0.18.1", &[]),
    ] {
        let text = image(&format!("RUN git clone https://h.example/a && cd a && {command}"));
        expect("branch-instead-of-tag", NONE, &[("Dockerfile", &text, expected)]);
    }
}

/// A folder with a Dockerfile, a compose file, and a script.
#[derive(Debug, Default)]
struct Beside {
    dockerfile: &'static str,
    compose: &'static str,
    script: &'static str,
}

impl Exists for Beside {
    fn compose_files(&self, _: &str) -> Vec<String> {
        vec![self.compose.to_owned()]
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = match path {
            "Dockerfile" => self.dockerfile,
            "start.sh" | "scripts/start.sh" => self.script,
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Checks the lines of the findings of a rule in a file of a folder.
fn beside(rule: &str, folder: &Beside, file: &str, expected: &[usize]) {
    let text = if file == "Dockerfile" { folder.dockerfile } else { folder.script };
    let context = Context { exists: Some(folder), ..Context::default() };
    let found = findings_in(file, text, context);
    let lines: Vec<usize> =
        found.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect();
    assert_eq!(lines, expected, "{rule} in {file}:\n{text}");
}

const START: &str = "FROM docker.io/a/b@sha256:1\nCOPY scripts/start.sh /\nENTRYPOINT [\"tini\", \"--\", \"/start.sh\"]\nCMD [\"--port\", \"1\"]\n";

#[test]
fn a_script_reads_its_arguments() {
    for (script, expected) in [
        ("#!/bin/sh\nexec a\n", &[4][..]),
        ("#!/bin/sh\nexec a \"$@\"\n", &[]),
        ("#!/bin/sh\nPORT=${1:-2}\n", &[]),
        ("#!/bin/sh\n. /lib.sh\n", &[]),
    ] {
        let folder = Beside { dockerfile: START, script, ..Beside::default() };
        beside("arguments-unused", &folder, "Dockerfile", expected);
    }
    let alone = "FROM docker.io/a/b@sha256:1\nCOPY scripts/ /\nENTRYPOINT [\"/start.sh\"]\n";
    let folder = Beside { dockerfile: alone, script: "#!/bin/sh\na\n", ..Beside::default() };
    beside("arguments-unused", &folder, "Dockerfile", &[]);
}

#[test]
fn a_script_of_an_ordinary_user_installs_nothing() {
    let dockerfile = "FROM docker.io/a/b@sha256:1\nUSER a\nCMD [\"./start.sh\"]\n";
    let script = "#!/bin/bash\nset -e\napt install -y git\n";
    let folder = Beside { dockerfile, script, ..Beside::default() };
    beside("root-missing", &folder, "Dockerfile", &[]);
    beside("root-missing", &folder, "start.sh", &[3]);
    let asked = Beside { compose: "services:\n  a:\n    user: root\n", ..folder };
    beside("root-missing", &asked, "Dockerfile", &[]);
    beside("root-missing", &asked, "start.sh", &[]);
    let sudo = "#!/bin/bash\nset -e\nsudo apt install -y git\n";
    let folder = Beside { dockerfile, script: sudo, ..Beside::default() };
    beside("root-missing", &folder, "start.sh", &[]);
    let root = "FROM docker.io/a/b@sha256:1\nCMD [\"./start.sh\"]\n";
    let folder = Beside { dockerfile: root, script, ..Beside::default() };
    beside("root-missing", &folder, "start.sh", &[]);
}

#[test]
fn a_script_of_an_image_installs_what_its_release_has() {
    let script = "#!/bin/bash\nset -e\napt-get install -y libgl1-mesa-glx\n";
    let compose = "services:\n  a:\n    build: .\n    volumes:\n      - ./start.sh:/a.sh\n";
    let noble = "FROM ubuntu:24.04\n";
    let folder = Beside { dockerfile: noble, compose, script };
    beside("package-gone", &folder, "start.sh", &[3]);
    beside("package-gone", &Beside { compose: "", ..folder }, "start.sh", &[]);
    let jammy = Beside { dockerfile: "FROM ubuntu:22.04\n", compose, script };
    beside("package-gone", &jammy, "start.sh", &[]);
}
