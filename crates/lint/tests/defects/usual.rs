//! Files as people usually write them, in which a rule once reported something.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

/// The files of a folder.
#[derive(Debug)]
struct Folder(&'static [(&'static str, &'static str)]);

impl Exists for Folder {
    fn exists(&self, _: &str, path: &str) -> Option<bool> {
        Some(self.text("", path).is_some())
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let (_, text) = self.0.iter().find(|(name, _)| *name == path.trim_start_matches("./"))?;
        Some((*text).to_owned())
    }
}

/// Checks the lines of the findings of a rule in a file of a folder.
fn inside(rule: &str, folder: &Folder, file: &str, expected: &[usize]) {
    let text = folder.text("", file).unwrap();
    let context = Context { exists: Some(folder), ..Context::default() };
    let found = findings_in(file, &text, context);
    let lines: Vec<usize> =
        found.iter().filter(|one| one.rule.id == rule).map(|one| one.line).collect();
    assert_eq!(lines, expected, "{rule} in {file}:\n{text}");
}

/// Checks the findings of a rule in a Dockerfile with some lines after its base.
fn image(rule: &str, lines: &str, expected: &[&str]) {
    let text = format!("FROM docker.io/library/ubuntu:24.04@sha256:1\n{lines}\n");
    expect(rule, NONE, &[("Dockerfile", &text, expected)]);
}

/// Checks that a rule has no finding in a service with these lines.
fn service(rule: &str, lines: &str) {
    let text = format!("services:\n  a:\n{lines}");
    expect(rule, NONE, &[("compose.yml", &text, &[])]);
}

#[test]
fn a_quoted_root_is_root() {
    image("root-missing", "USER \"root\"\nRUN apt-get install -y git", &[]);
}

#[test]
fn a_user_is_one_cause() {
    let lines =
        "USER a\nRUN apt-get update && apt-get install -y git\nRUN apt-get install -y cmake";
    image("root-missing", lines, &["3 error"]);
    image("root-missing", "USER a\nRUN apt-get update; pip install b", &["3 warning"]);
}

#[test]
fn clones_into_mounts_are_not_in_the_image() {
    let run = "RUN --mount=type=tmpfs,target=/s git clone https://h.example/a /s/a\n";
    image("folder-not-empty", &run.repeat(2), &[]);
    let temporary = "RUN cd $(mktemp -d) && git clone https://h.example/a\n";
    image("folder-not-empty", &temporary.repeat(2), &[]);
}

#[test]
fn the_next_run_can_name_the_folder() {
    for next in ["pip install ./foo", "make -C foo", "npm --prefix foo ci", "ninja -C foo/build"] {
        let lines = format!("RUN git clone https://h.example/foo && cd foo\nRUN {next}");
        image("shell-state-lost", &lines, &[]);
    }
}

#[test]
fn systemd_can_be_switched_off() {
    image("host-in-build", "RUN SYSTEMD_OFFLINE=1 systemctl daemon-reload", &[]);
    image("host-in-build", "RUN systemctl daemon-reload", &["2 warning"]);
}

#[test]
fn a_patch_that_is_there_already_is_no_failure() {
    image("build-status-lost", "RUN git apply /a.patch || echo \"already applied\"", &[]);
}

#[test]
fn a_cache_makes_a_repetition_cheap() {
    let run = "RUN --mount=type=cache,target=/root/.cache/pip pip install -r requirements.txt";
    image("copy-too-early", &format!("COPY . .\n{run}"), &[]);
}

#[test]
fn a_wheel_can_be_published_or_the_project_installed() {
    for run in
        ["python3 setup.py bdist_wheel && python3 setup.py install", "uv build && uv publish"]
    {
        image("wheel-unused", &format!("RUN {run}\nCMD [\"serve\"]"), &[]);
    }
}

#[test]
fn rosdep_and_make_install_packages() {
    for run in ["rosdep install --from-paths src -y", "make dependencies"] {
        let lines = format!("RUN apt-get update\nRUN {run}\nCMD [\"serve\"]");
        image("package-lists-stale", &lines, &[]);
    }
}

#[test]
fn a_new_branch_can_be_moved() {
    for next in ["git pull origin release/v1.2.0", "git reset --hard FETCH_HEAD"] {
        let lines = format!(
            "RUN git clone https://h.example/a && cd a && git checkout -b release/v1.2.0 && {next}"
        );
        image("branch-instead-of-tag", &lines, &[]);
    }
}

#[test]
fn a_package_of_pip_is_not_one_of_apt() {
    let lines = "RUN pip install cmake && apt-get update\nRUN apt-get remove -y cmake";
    image("removed-later", lines, &[]);
}

#[test]
fn a_toolchain_is_not_native() {
    let run = "RUN cmake -S llama.cpp -DCMAKE_TOOLCHAIN_FILE=t.cmake -DCMAKE_C_FLAGS=-march=armv8-a -DGGML_HIP=ON";
    image("build-native", run, &[]);
}

const STARTS: &str = "FROM docker.io/a/b@sha256:1\nUSER a\nCMD [\"./start.sh\"]\n";

#[test]
fn a_script_can_install_only_what_is_missing() {
    let asks = Folder(&[
        ("Dockerfile", STARTS),
        ("start.sh", "#!/bin/bash\nset -e\nif ! command -v git; then\n  apt install -y git\nfi\n"),
    ]);
    inside("root-missing", &asks, "Dockerfile", &[]);
    inside("root-missing", &asks, "start.sh", &[]);
    // One finding for a script, where it is.
    let beside = Folder(&[
        ("Dockerfile", STARTS),
        ("start.sh", "#!/bin/bash\nset -e\napt install -y git\n"),
    ]);
    inside("root-missing", &beside, "Dockerfile", &[]);
    inside("root-missing", &beside, "start.sh", &[3]);
    let below = Folder(&[
        (
            "Dockerfile",
            "FROM docker.io/a/b@sha256:1\nCOPY scripts/start.sh /\nUSER a\nCMD [\"/start.sh\"]\n",
        ),
        ("scripts/start.sh", "#!/bin/bash\nset -e\napt install -y git\n"),
    ]);
    inside("root-missing", &below, "Dockerfile", &[3]);
}

#[test]
fn a_script_can_choose_between_packages() {
    let folder = Folder(&[
        ("Dockerfile", "FROM ubuntu:24.04\nCOPY start.sh /\nCMD [\"/start.sh\"]\n"),
        (
            "start.sh",
            "#!/bin/bash\napt-get install -y libgl1 || apt-get install -y libgl1-mesa-glx\nif old; then apt-get install -y libgl1-mesa-glx; fi\n",
        ),
    ]);
    inside("package-gone", &folder, "start.sh", &[]);
}

#[test]
fn podman_and_another_project_folder_find_the_dockerfile() {
    let folder = Folder(&[
        (
            "compose.yml",
            "services:\n  a:\n    build: {context: ., dockerfile: docker/Dockerfile}\n  b:\n    build: ./pod\n  c:\n    build: ./none\n",
        ),
        ("../docker/Dockerfile", "FROM scratch\n"),
        ("pod/Containerfile", "FROM scratch\n"),
    ]);
    inside("compose-build-missing", &folder, "compose.yml", &[7]);
}

#[test]
fn people_fill_folders_and_services_change_owners() {
    let folder = Folder(&[
        (
            "compose.yml",
            "services:\n  a:\n    image: a/b\n    user: \"1000\"\n    volumes: [\"./models:/m\", \"./config:/c\"]\n  b:\n    image: a/b\n    user: \"1000\"\n    userns_mode: keep-id\n    volumes: [\"./data:/data\"]\n",
        ),
        (
            "docker-compose.yml",
            "services:\n  a:\n    image: a/b\n    user: \"1000\"\n    volumes: [\"./data:/data\"]\n  b:\n    image: busybox\n    command: chown -R 1000 /data\n    volumes: [\"./data:/data\"]\n",
        ),
    ]);
    inside("mount-owner", &folder, "compose.yml", &[]);
    inside("mount-owner", &folder, "docker-compose.yml", &[]);
}

#[test]
fn a_clone_that_was_installed_may_be_hidden() {
    let folder = Folder(&[
        ("compose.yml", "services:\n  a:\n    build: .\n    volumes: [\"./:/work\"]\n"),
        (
            "Dockerfile",
            "FROM docker.io/a/b@sha256:1\nWORKDIR /work\nRUN git clone https://h.example/a && cd a && pip install . && cd .. && rm -rf a\nRUN git clone https://h.example/c && cd c && python3 setup.py install\n",
        ),
    ]);
    inside("mount-hides", &folder, "compose.yml", &[]);
}

#[test]
fn a_group_can_have_the_number_of_the_host() {
    let folder = Folder(&[
        (
            "compose.yml",
            "services:\n  a:\n    build: .\n    devices: [/dev/kfd]\n    group_add: [video, render]\n",
        ),
        (
            "Dockerfile",
            "FROM docker.io/a/b@sha256:1\nARG GID=992\nRUN groupadd -g ${GID} render\nUSER app\n",
        ),
    ]);
    inside("group-by-name", &folder, "compose.yml", &[]);
}

#[test]
fn modules_of_the_host_are_added_to_those_of_the_image() {
    service(
        "path-replaced",
        "    image: a/b\n    environment: [\"PYTHONPATH=/app:$PYTHONPATH\"]\n",
    );
}

#[test]
fn notebooks_and_monitors_read_all_folders() {
    for (name, volume) in
        [("quay.io/jupyter/base-notebook", "~:/home/jovyan/work"), ("telegraf", "/:/hostfs:ro")]
    {
        let lines =
            format!("    image: {name}\n    ports: [\"80:80\"]\n    volumes: [\"{volume}\"]\n");
        service("host-folder", &lines);
    }
}

#[test]
fn settings_can_choose_another_port() {
    for (name, setting) in [
        ("searxng/searxng", "    environment: [\"BIND_ADDRESS=0.0.0.0:7333\"]\n"),
        ("searxng/searxng", "    volumes: [\"./settings.yml:/etc/searxng/settings.yml\"]\n"),
        ("qdrant/qdrant", "    volumes: [\"./config.yaml:/qdrant/config/production.yaml\"]\n"),
    ] {
        service(
            "port-unused",
            &format!("    image: {name}:1\n    ports: [\"7333:7333\"]\n{setting}"),
        );
    }
}

#[test]
fn a_terminal_with_a_credential_is_closed() {
    let lines = "    image: tsl0922/ttyd:1.7\n    ports: [\"7681:7681\"]\n    command: ttyd -c user:pass -W bash\n";
    service("service-open", lines);
}

#[test]
fn a_key_for_a_service_on_the_internet_can_have_a_prefix() {
    let lines =
        "    image: a/b\n    ports: [\"80:80\"]\n    environment: [RAG_OPENAI_API_KEY=changeme]\n";
    service("password-in-file", lines);
}

#[test]
fn tests_and_other_services_keep_no_data() {
    let own = "services:\n  a:\n    image: postgres:17\n    ports: [\"5432:5432\"]\n";
    expect("data-lost", NONE, &[("docker-compose.test.yml", own, &[])]);
    service(
        "data-lost",
        "    image: postgres:17\n    ports: [\"5432:5432\"]\n    volumes_from: [b]\n",
    );
}

#[test]
fn jobs_and_folders_that_are_filled_at_each_start_lose_nothing() {
    let pod = |kind: &str, lines: &str| {
        format!(
            "apiVersion: a/v1\nkind: {kind}\nspec:\n  template:\n    spec:\n{lines}      containers:\n        - name: a\n          image: docker.io/ollama/ollama:0.30.0@sha256:1\n          volumeMounts: [{{name: m, mountPath: /root/.ollama}}]\n      volumes: [{{name: m, emptyDir: {{}}}}]\n"
        )
    };
    let fills = "      initContainers:\n        - name: b\n          image: a/b\n          volumeMounts: [{name: m, mountPath: /m}]\n";
    for text in [pod("Job", "      restartPolicy: Never\n"), pod("Deployment", fills)] {
        expect("data-lost", NONE, &[("a.yaml", &text, &[])]);
    }
}

#[test]
fn systemd_skips_sections_of_others() {
    let text =
        "[Service]\nExecStart=/usr/bin/a\n[X-Notes]\nfree text\n[Install]\nWantedBy=a.target\n";
    expect("unit-line-ignored", NONE, &[("a.service", text, &[])]);
}

#[test]
fn people_who_log_in_are_in_the_groups() {
    let text = "[Service]\nUser=ubuntu\nExecStart=/opt/llama-server -ngl 99\n";
    expect("render-group-missing", NONE, &[("a.service", text, &[])]);
}

#[test]
fn a_trial_needs_no_shared_memory() {
    let text = "docker run --rm --device=/dev/kfd docker.io/rocm/pytorch:rocm7.0@sha256:1 python3 -c 'import torch'\n";
    expect("shm-too-small", NONE, &[("a.sh", text, &[])]);
}
