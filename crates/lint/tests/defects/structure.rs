//! Files that come close to a problem of builds, containers or manifests, and do not have it.

use super::{NONE, expect};

/// Checks that a rule has no finding in any of these files.
fn innocent(rule: &str, cases: &[(&str, &str)]) {
    for (file, text) in cases {
        expect(rule, NONE, &[(file, text, &[])]);
    }
}

#[test]
fn what_the_builder_replaces_or_keeps_on_purpose_is_no_command() {
    innocent(
        "command-not-run",
        &[
            ("Dockerfile", "FROM scratch\nENV A=${B:-1} C=\"$D\"\n"),
            ("Dockerfile", "FROM scratch\nENV PS1=\"[$(whoami)] \"\n"),
            ("Dockerfile", "FROM scratch\nENV A='$(nproc)' B=\"\\$(nproc)\"\n"),
            ("Dockerfile", "FROM scratch\nRUN export A=$(nproc)\n"),
            ("Dockerfile", "FROM scratch\n# ENV A=$(nproc)\nENV A=1\n"),
        ],
    );
    innocent(
        "argument-split",
        &[
            ("Dockerfile", "FROM scratch\nARG A B C\n"),
            ("Dockerfile", "FROM scratch\nARG A=\n"),
            ("Dockerfile", "FROM scratch\nARG A=\"x y\" B=2\n"),
            ("Dockerfile", "FROM scratch\nARG A=\\\ngfx1151\n"),
            ("Dockerfile", "FROM scratch\nARG A= B=2\n"),
        ],
    );
}

#[test]
fn what_a_later_instruction_or_stage_settles_is_not_reported() {
    innocent(
        "package-lists-stale",
        &[
            ("Dockerfile", "FROM a/b\nRUN apt-get update && apt-get install -y c\n"),
            (
                "Dockerfile",
                "FROM a/b\nRUN apt-get update\nRUN apt-get update && apt-get install -y c\n",
            ),
            ("Dockerfile", "FROM a/b\nRUN apt-get update\nFROM d/e\nRUN apt-get install -y c\n"),
        ],
    );
    let index = "--index-url https://download.pytorch.org/whl/rocm6.4";
    let python = "FROM docker.io/library/python:3.12\n";
    let cache = "--mount=type=cache,target=/root/.cache/pip";
    innocent(
        "pip-cache",
        &[
            ("Dockerfile", &format!("{python}RUN pip install --no-cache-dir torch {index}\n")),
            (
                "Dockerfile",
                &format!("{python}ENV PIP_NO_CACHE_DIR=1\nRUN pip install torch {index}\n"),
            ),
            ("Dockerfile", &format!("{python}RUN {cache} pip install torch {index}\n")),
            ("Dockerfile", &format!("{python}RUN uv pip install torch {index}\n")),
            ("Dockerfile", &format!("{python}RUN pip install torch {index} && pip cache purge\n")),
            ("Dockerfile", &format!("{python}RUN pip install torch {index}\nFROM scratch\n")),
            ("Dockerfile", &format!("FROM a/b\nRUN pip install torch {index}\n")),
        ],
    );
    let base = "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete\n";
    innocent(
        "rocm-twice",
        &[
            ("Dockerfile", "FROM docker.io/rocm/pytorch:rocm7.2.1\nRUN pip install numpy torch\n"),
            ("Dockerfile", &format!("{base}RUN pip install torch {index} && cmake -B build\n")),
            ("Dockerfile", &format!("{python}RUN pip install torch {index}\n")),
        ],
    );
}

#[test]
fn what_names_one_build_or_asks_for_the_program_is_fixed() {
    let tag = "FROM registry.access.redhat.com/ubi9/python-311:1-77.1726664316\n";
    innocent("image-unpinned", &[("Dockerfile", tag)]);
    let either = "#!/bin/sh\nif command -v hf; then a; else\n  huggingface-cli download a/b\nfi\n";
    innocent("command-renamed", &[("setup.sh", either)]);
}

#[test]
fn an_option_that_conflicts_is_not_called_ignored_too() {
    let image = "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0\n";
    let ignored = "ENV PYTORCH_HIP_ALLOC_CONF=expandable_segments:True\n";
    let both = "ENV PYTORCH_HIP_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\n";
    let rule = "variable-without-effect";
    expect(rule, NONE, &[("Dockerfile", &format!("{image}{ignored}"), &["2 information"])]);
    innocent(rule, &[("Dockerfile", &format!("{image}{both}"))]);
}

#[test]
fn a_build_has_what_it_needs() {
    let build = "RUN cmake -B build -DGGML_VULKAN=ON -DGGML_BLAS_VENDOR=OpenBLAS\n";
    let packages = "cmake g++ glslc spirv-headers libopenblas-dev libvulkan-dev";
    innocent(
        "build-needs-package",
        &[
            ("Dockerfile", &format!("FROM debian:13\nRUN apt-get install -y {packages}\n{build}")),
            (
                "Dockerfile",
                &format!("FROM a/vulkan-sdk\nRUN apt-get install -y libopenblas-dev\n{build}"),
            ),
            ("Dockerfile", &format!("FROM debian:13\nCOPY . .\n{build}")),
            (
                "Dockerfile",
                "FROM debian:13\nRUN apt-get install -y g++ glslc libvulkan-dev && git clone --branch b5000 https://github.com/ggml-org/llama.cpp && cmake -DGGML_VULKAN=ON\n",
            ),
        ],
    );
    let tag = "FROM docker.io/rocm/pytorch:rocm6.3.1_ubuntu22.04_py3.10_pytorch\n";
    innocent("image-tag-missing", &[("Dockerfile", tag)]);
    innocent("image-tag-scheme", &[("Dockerfile", tag)]);
}

#[test]
fn a_driver_or_target_can_come_from_elsewhere() {
    let build = "RUN cmake -B build -DGGML_VULKAN=ON\n";
    innocent(
        "vulkan-driver-missing",
        &[
            ("Dockerfile", &format!("FROM docker.io/a/b\n{build}")),
            (
                "Dockerfile",
                &format!("FROM ubuntu:24.04\nRUN apt-get install -y mesa-vulkan-drivers\n{build}"),
            ),
            ("Dockerfile", &format!("FROM ubuntu:24.04\nRUN ./install.sh\n{build}")),
            ("Dockerfile", &format!("FROM debian:13\nRUN apt install -y libvulkan-dev\n{build}")),
            ("Dockerfile", "FROM ubuntu:24.04\nRUN cmake -B build -DGGML_VULKAN=OFF\n"),
        ],
    );
    innocent(
        "gpu-target-missing",
        &[
            ("Dockerfile", "FROM a/b\nRUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1151\n"),
            (
                "Dockerfile",
                "FROM a/b\nARG CMAKE_ARGS\nRUN cmake -B build -DGGML_HIP=ON $CMAKE_ARGS\n",
            ),
            ("Dockerfile", "FROM a/b\nRUN cmake -B build -DGGML_HIP=OFF\n"),
            ("build.sh", "cmake -B build -DGGML_HIP=ON\n"),
        ],
    );
    innocent(
        "gpu-during-build",
        &[
            (
                "Dockerfile",
                "FROM a/b\nRUN rocminfo --help\nRUN which rocminfo\nRUN echo rocminfo\n",
            ),
            ("Dockerfile", "FROM a/b\nRUN --device=amd.com/gpu=all rocminfo\n"),
            ("Dockerfile", "FROM a/b\nRUN cat > /start.sh <<'EOF'\nrocminfo\nEOF\n"),
            ("Dockerfile", "FROM a/b\nCMD [\"rocminfo\"]\n"),
            ("Dockerfile", "FROM a/b\nRUN python3 -c 'import torch; print(torch.__version__)'\n"),
        ],
    );
    let check = "HEALTHCHECK CMD curl -f http://localhost/\n";
    innocent(
        "healthcheck-fails",
        &[
            ("Dockerfile", &format!("FROM docker.io/a/b\n{check}")),
            ("Dockerfile", &format!("FROM ubuntu:24.04\nRUN apt-get install -y curl\n{check}")),
            (
                "Dockerfile",
                &format!("FROM ubuntu:24.04\nRUN apt-get install -y $PACKAGES\n{check}"),
            ),
            (
                "Dockerfile",
                &format!("FROM ubuntu:24.04 AS a\nRUN apt-get install -y curl\nFROM a\n{check}"),
            ),
            ("Dockerfile", "FROM ubuntu:24.04\nHEALTHCHECK NONE\n"),
        ],
    );
}

#[test]
fn what_is_installed_or_fetched_on_purpose_is_not_reported() {
    innocent(
        "model-in-image",
        &[
            ("Dockerfile", "FROM a/b\nRUN ollama --version\nCMD hf download a/b\n"),
            ("Dockerfile", "FROM a/b\nCOPY <<EOF /start.sh\nollama pull a\nEOF\n"),
            ("start.sh", "hf download a/b\n"),
        ],
    );
    innocent(
        "upgrade-in-image",
        &[
            ("Dockerfile", "FROM a/b\nRUN apt-get update && apt-get install -y --only-upgrade a\n"),
            ("Dockerfile", "FROM a/b\nRUN dnf upgrade -y --advisory a b\n"),
            ("setup.sh", "apt-get upgrade -y\n"),
        ],
    );
    innocent(
        "install-at-start",
        &[
            ("setup.sh", "apt-get install -y ffmpeg\n"),
            ("entrypoint.sh", "pip install -e .\ngit status\n"),
            ("Dockerfile", "FROM a/b\nRUN pip install a==1\n"),
            (
                "compose.yml",
                "services:\n  a:\n    build: .\n    command: [serve, --port, \"80\"]\n",
            ),
        ],
    );
    innocent(
        "release-latest",
        &[
            (
                "Dockerfile",
                "FROM a/b\nRUN curl -LO https://github.com/a/b/releases/download/v1/c.tar.gz\n",
            ),
            ("check.sh", "curl -s https://api.github.com/repos/a/b/releases/latest\n"),
        ],
    );
    let commit = "01efc7ef781391e744ed08c3292817a773d654e6";
    innocent(
        "shallow-clone",
        &[
            (
                "Dockerfile",
                &format!(
                    "FROM a/b\nRUN git clone https://h.example/a && cd a && git checkout {commit}\n"
                ),
            ),
            (
                "Dockerfile",
                &format!(
                    "FROM a/b\nRUN git clone --depth 1 https://h.example/a && cd a && git fetch --depth 1 origin {commit} && git checkout {commit}\n"
                ),
            ),
            (
                "Dockerfile",
                "FROM a/b\nRUN git clone --depth 1 -b v1.2 https://h.example/a && cd a && git checkout v1.2\n",
            ),
            (
                "Dockerfile",
                "FROM a/b\nARG A\nRUN git clone --depth 1 https://h.example/a && cd a && git checkout $A\n",
            ),
        ],
    );
}

#[test]
fn lists_of_requirements_can_name_an_index() {
    innocent(
        "requirement-option",
        &[
            ("requirements.txt", "--index-url https://h.example/rocm\ntorch==2.9.1+rocm6.4\n"),
            ("requirements.txt", "torch==2.9.1 --hash=sha256:1\n# torch --index-url x\n"),
            ("requirements.txt", "torch # --index-url https://h.example/rocm\n"),
        ],
    );
    let index = "--extra-index-url https://download.pytorch.org/whl/rocm6.4\n";
    innocent(
        "extra-index-url",
        &[
            ("requirements.txt", &format!("{index}torch==2.9.1+rocm6.4\n")),
            ("requirements.txt", &format!("{index}torch==2.9.1\n")),
            ("requirements.txt", &format!("{index}numpy\n")),
            ("requirements.txt", "--extra-index-url https://h.example/cpu\ntorch\n"),
        ],
    );
    innocent("version-form", &[("requirements.txt", "torch==2.9.1+rocm6.4\ntorchvision>=0.24\n")]);
}

#[test]
fn containers_and_services_that_are_complete_are_not_reported() {
    let service = "services:\n  a:\n    build: .\n";
    let devices = "    devices: [/dev/kfd, /dev/dri]\n";
    innocent(
        "group-number",
        &[
            (
                "compose.yml",
                &format!(
                    "{service}{devices}    group_add: [\"${{RENDER_GID:-992}}\", \"44\", video]\n"
                ),
            ),
            ("compose.yml", &format!("{service}    group_add: [\"992\"]\n")),
            (
                "compose.yml",
                &format!("{service}{devices}    group_add:\n      - 992 # adjust to your system\n"),
            ),
            ("run.sh", "docker run --device /dev/kfd --group-add \"$(stat -c %g /dev/kfd)\" a/b\n"),
        ],
    );
    innocent(
        "group-by-name",
        &[
            ("compose.yml", &format!("{service}    group_add: [render]\n")),
            ("run.sh", "docker run --device /dev/kfd --group-add render my-image\n"),
        ],
    );
    let server = "    command: vllm serve a --tensor-parallel-size";
    innocent(
        "shm-too-small",
        &[
            ("compose.yml", &format!("{service}{server} 1\n")),
            ("compose.yml", &format!("{service}{server} 2\n    shm_size: 16g\n")),
            ("compose.yml", &format!("{service}{server} 2\n    ipc: host\n")),
            ("compose.yml", &format!("{service}{server} 2\n    tmpfs: [\"/dev/shm:size=8g\"]\n")),
            (
                "compose.yml",
                &format!("{service}{server} 2\n    volumes: [\"/dev/shm:/dev/shm\"]\n"),
            ),
        ],
    );
    let waits = "    depends_on:\n      b: { condition: service_healthy }\n  b:\n";
    innocent(
        "compose-health",
        &[
            (
                "compose.yml",
                &format!("{service}{waits}    image: redis:8\n    healthcheck: {{ test: a }}\n"),
            ),
            ("compose.yml", &format!("{service}{waits}    image: a/b:1\n")),
            ("compose.yml", &format!("{service}{waits}    build: .\n")),
            ("compose.override.yml", &format!("{service}{waits}    image: redis:8\n")),
        ],
    );
    let fragment = "x-a: &a\n  environment: &e\n    B: 1\nservices:\n  a:\n    <<: *a\n";
    innocent(
        "compose-merge",
        &[
            ("compose.yml", fragment),
            ("compose.yml", &format!("{fragment}    environment: {{ <<: *e, C: 1 }}\n")),
            ("compose.yml", &format!("{fragment}    environment: [B=2, C=1]\n")),
            ("compose.yml", &format!("{fragment}    command: a\n")),
        ],
    );
    innocent(
        "compose-reference",
        &[("compose.yml", &format!("{service}    secrets: [t]\nsecrets:\n  t: {{ file: ./t }}\n"))],
    );
}

#[test]
fn manifests_that_use_the_device_plugin_are_not_reported() {
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b@sha256:1\n";
    let gpu = "      resources: { requests: { amd.com/gpu: 1 }, limits: { amd.com/gpu: 1 } }\n";
    let mount = "      volumeMounts: [{ name: kfd, mountPath: /dev/kfd }]\n";
    let volume = "  volumes: [{ name: kfd, hostPath: { path: /dev/kfd } }]\n";
    let privileged = "      securityContext: { privileged: true }\n";
    innocent("kubernetes-gpu", &[("a.yaml", &format!("{pod}{gpu}"))]);
    innocent(
        "kubernetes-device",
        &[
            ("a.yaml", &format!("{pod}{gpu}{mount}{volume}")),
            ("a.yaml", &format!("{pod}{privileged}{mount}{volume}")),
            ("a.yaml", &format!("{}{mount}{volume}", pod.replace("a/b", "rocm/k8s-device-plugin"))),
        ],
    );
    let env = "      env: [{ name: A, value: \"1\" }, { name: B, value: 7.2.1 }, { name: C }]\n";
    innocent(
        "kubernetes-value",
        &[
            ("a.yaml", &format!("{pod}{env}")),
            ("a.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  A: \"true\"\n  B: x\n"),
            ("a.yaml", "apiVersion: v1\nkind: Pod\nspec: {{ .Values.spec }}\n"),
        ],
    );
    let deployment = |strategy: &str, replicas: u8| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: {replicas}\n{strategy}  template:\n    spec:\n      containers:\n        - name: a\n          image: docker.io/a/b@sha256:1\n          resources: {{ limits: {{ amd.com/gpu: 1 }} }}\n"
        )
    };
    innocent(
        "kubernetes-rollout",
        &[
            ("a.yaml", &deployment("  strategy: { type: Recreate }\n", 1)),
            ("a.yaml", &deployment("  strategy: { rollingUpdate: { maxSurge: 0 } }\n", 1)),
            ("a.yaml", &deployment("", 3)),
            ("a.yaml", &deployment("", 1).replace("Deployment", "StatefulSet")),
        ],
    );
    innocent("privileged-container", &[("a.yaml", &format!("{pod}{gpu}"))]);
}
