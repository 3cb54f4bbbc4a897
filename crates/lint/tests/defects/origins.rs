//! Settings that are close to a problem of `wrong/origins.rs`, but are right.

use super::{NONE, expect};

/// Checks that a rule has no findings in these Dockerfiles.
fn fine(rule: &str, texts: &[&str]) {
    for text in texts {
        expect(rule, NONE, &[("Dockerfile", text, &[])]);
    }
}

#[test]
fn another_python_can_be_installed() {
    let wheel = "https://repo.radeon.com/rocm/manylinux/a/torch-2.3.0-cp310-cp310-linux_x86_64.whl";
    let own = format!("FROM ubuntu:22.04\nRUN pip3 install {wheel}\n");
    let other = format!("FROM ubuntu:24.04\nRUN python3.10 -m pip install {wheel}\n");
    let conda = format!("FROM ubuntu:24.04\nRUN conda create -n a && pip install {wheel}\n");
    let unknown = format!("FROM rocm/pytorch:latest\nRUN pip install {wheel}\n");
    let argument = format!("ARG BASE=ubuntu:24.04\nFROM $BASE\nRUN pip install {wheel}\n");
    fine("python-other", &[&own, &other, &conda, &unknown, &argument]);
    fine(
        "python-other",
        &[
            "FROM ubuntu:24.04\nRUN pip install https://h.example/a-1-cp38-abi3-linux_x86_64.whl\n",
            "FROM python:3.12-slim\nENV PYTHONPATH=/usr/local/lib/python3.12/site-packages\n",
            "FROM python:3.12 AS a\nFROM python:3.12-slim\nCOPY --from=a /usr/local/lib/python3.12/site-packages /usr/local/lib/python3.12/site-packages\n",
            "FROM python:3.12 AS a\nRUN python -m venv /venv\nFROM python:3.12-slim\nCOPY --from=a /venv /venv\n",
            "FROM python:3.12 AS a\nRUN python -m venv --copies /venv\nFROM ubuntu:24.04\nCOPY --from=a /venv /venv\n",
            "FROM python:3.12 AS a\nRUN python -m venv /venv\nFROM ubuntu:24.04\nCOPY --from=a /venv /venv\nRUN ln -sf /usr/bin/python3 /venv/bin/python\n",
        ],
    );
}

#[test]
fn a_program_may_be_for_the_older_library() {
    let copy = "COPY --from=a /src/target/release/b /usr/local/bin/b\n";
    let build = |from: &str, command: &str, to: &str| {
        format!("FROM {from} AS a\nRUN {command}\nFROM {to}\n{copy}")
    };
    let older = build("rust:1.90-bookworm", "cargo build --release", "ubuntu:24.04");
    let same = build("rust:1.90-trixie", "cargo build --release", "debian:trixie-slim");
    let musl = build(
        "rust:1.90-trixie",
        "cargo build --target x86_64-unknown-linux-musl",
        "debian:bookworm-slim",
    );
    let none = build("debian:trixie", "wget https://h.example/b", "debian:bookworm-slim");
    let other = build("rust:1.90-trixie", "cargo build --release", "alpine:3.22");
    fine("glibc-older", &[&older, &same, &musl, &none, &other]);
}

#[test]
fn an_image_may_use_the_gpu_otherwise() {
    let service = |image: &str, rest: &str| format!("services:\n  a:\n    image: {image}\n{rest}");
    let gpu = "    devices: [/dev/kfd, /dev/dri]\n";
    for (file, text) in [
        ("compose.yml", service("ghcr.io/ggml-org/llama.cpp:server-vulkan", gpu)),
        ("compose.yml", service("ghcr.io/ggml-org/llama.cpp:server-rocm-b9917", gpu)),
        ("compose.yml", service("vllm/vllm-openai:v0.8.5", "    gpus: all\n")),
        ("compose.yml", service("ghcr.io/huggingface/text-generation-inference:3.3.5-rocm", gpu)),
        ("compose.rocm.yml", service("vllm/vllm-openai-rocm:v0.20.0", "")),
    ] {
        expect("image-without-rocm", NONE, &[(file, &text, &[])]);
    }
    let dri = "    devices: [/dev/dri]\n    environment: [OLLAMA_VULKAN=1]\n";
    for (file, text) in [
        ("compose.yml", service("ollama/ollama:0.32.5", "")),
        ("compose.amd.yml", service("ollama/ollama:0.32.5", dri)),
        ("compose.amd64.yml", service("ollama/ollama:0.32.5", "")),
        ("compose.amd.yml", service("ollama/ollama:0.32.5-rocm", "")),
    ] {
        expect("ollama-without-rocm", NONE, &[(file, &text, &[])]);
    }
}

#[test]
fn an_index_of_pytorch_has_these_packages() {
    let install = |base: &str, words: &str| format!("FROM {base}\nRUN {words}\n");
    let index = "--index-url https://download.pytorch.org/whl";
    let texts = [
        install("python:3.11", &format!("pip install torch==2.5.1 {index}/rocm6.2")),
        install("python:3.11", &format!("pip install torch==2.6.* {index}/rocm6.1")),
        install("python:3.11", &format!("pip install torch==2.9.0.dev1 {index}/nightly/rocm6.2")),
        install("python:3.12", &format!("pip install torch==2.4.1 {index}/rocm6.0")),
        install("python:3.13", &format!("python3.12 -m pip install torch {index}/rocm6.0")),
        install("python:3.14", &format!("pip install torch {index}/rocm7.2")),
        install("python:3.12", &format!("pip install torch==2.9.1 {index}/cu128")),
        install("python:3.11", &format!("pip install torch=={{V}} {index}/rocm5.7")),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    fine("no-such-version", &texts);
    fine("wheel-python", &texts);
    for name in ["rocm5.4.2", "rocm6.2.4", "rocm6.4", "rocm7.2", "nightly/rocm6.4", "rocm7.14"] {
        let text = install("python:3.12", &format!("pip install torch {index}/{name}"));
        fine("torch-index-name", &[&text]);
    }
    let image = "rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0";
    for words in [
        "pip install torch==2.3.0",
        "pip install 'torch>=2.1'",
        "pip install 'torch>=2.4' -c constraints.txt",
        "pip install --no-deps 'torch>=2.4'",
        "pip install torchmetrics==1.4",
        "pip install torchvision==0.18.0",
        "pip install --upgrade pip torchmetrics",
        "pip install --upgrade torch --index-url https://download.pytorch.org/whl/rocm6.2",
        "pip install torch==2.4.0+rocm6.2 -f https://repo.radeon.com/a/",
    ] {
        fine("torch-replaced", &[&install(image, words)]);
    }
}

#[test]
fn what_commands_need_can_be_installed() {
    let apt = "RUN apt-get update && apt-get install -y --no-install-recommends";
    let texts = [
        format!("FROM ubuntu:24.04\n{apt} sudo\nRUN sudo true\n"),
        format!("FROM ubuntu:24.04\n{apt} sudo && sudo true\n"),
        "FROM ubuntu:24.04\n# RUN sudo true\nRUN echo sudo true\n".to_owned(),
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN sudo true\n".to_owned(),
        format!("FROM ubuntu:24.04\n{apt} locales\nRUN locale-gen en_US.UTF-8\n"),
        format!("FROM ubuntu:24.04\n{apt} python3 python3-venv\nRUN python3 -m venv /a\n"),
        format!("FROM debian:12\n{apt} python3\nRUN python3 -m venv --without-pip /a\n"),
        format!("FROM ubuntu:24.04\n{apt} python3.12-venv\nRUN python3.12 -m venv /a\n"),
        "FROM python:3.12-slim\nRUN python3 -m venv /a\n".to_owned(),
        format!("FROM debian:12\n{apt} ca-certificates curl\nRUN curl -O https://h.example/a\n"),
        format!("FROM debian:12\n{apt} curl\nRUN curl -kO https://h.example/a\n"),
        format!("FROM debian:12\n{apt} curl\nRUN curl -O http://h.example/a\n"),
        format!("FROM debian:12\n{apt} git python3-pip\nRUN git clone https://h.example/a\n"),
        "FROM debian:12\nRUN apt-get update && apt-get install -y wget\nRUN wget https://h.example/a\n".to_owned(),
        format!("FROM python:3.12-slim\n{apt} wget\nRUN wget https://h.example/a\n"),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    fine("program-missing", &texts);
    fine(
        "package-needs-program",
        &[
            "FROM python:3.12-slim\nRUN apt-get update && apt-get install -y build-essential\nRUN pip install hnswlib==0.8.0\n",
            "FROM python:3.12\nRUN pip install hnswlib==0.8.0\n",
        ],
    );
}

#[test]
fn names_of_releases_exist() {
    let amd = "https://repo.radeon.com";
    for line in [
        format!("wget {amd}/amdgpu-install/6.4.1/ubuntu/noble/amdgpu-install_6.4.60401-1_all.deb"),
        format!("wget {amd}/amdgpu-install/6.4/ubuntu/noble/amdgpu-install_6.4.60400-1_all.deb"),
        format!(
            "wget {amd}/amdgpu-install/22.40.3/ubuntu/jammy/amdgpu-install_5.4.50403-1_all.deb"
        ),
        format!("echo 'deb {amd}/rocm/apt/6.2 noble main' > /etc/apt/sources.list.d/a.list"),
        format!("echo 'deb {amd}/rocm/apt/7.2.4 jammy main' > /etc/apt/sources.list.d/a.list"),
        format!("echo 'deb {amd}/amdgpu/30.20/ubuntu noble main' > /etc/apt/sources.list.d/a.list"),
    ] {
        let text = format!("#!/bin/sh\n{line}\n");
        expect("rocm-package-gone", NONE, &[("a.sh", &text, &[])]);
        expect("rocm-folder-zero", NONE, &[("a.sh", &text, &[])]);
    }
    fine(
        "image-tag-missing",
        &[
            "FROM ubuntu:24.04\n",
            "FROM ubuntu:rolling\n",
            "FROM debian:12-slim\n",
            "FROM python:3.12-slim-bookworm\n",
            "FROM h.example/ubuntu:24.04-slim\n",
        ],
    );
    let install = |base: &str, package: &str| {
        format!("FROM {base}\nRUN apt-get update && apt-get install -y {package}\n")
    };
    let texts = [
        install("ubuntu:24.04", "libasound2t64"),
        install("debian:12", "python3.11-venv"),
        install("debian:13", "python3.13-venv libasound2t64"),
        install("rocm/pytorch:latest", "libgl1"),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    fine("package-gone", &texts);
}

#[test]
fn a_build_can_be_told_about_the_gpu() {
    let clone = "RUN git clone https://github.com/pytorch/vision && cd vision && FORCE_CUDA=1 python3 setup.py install\n";
    fine("cpu-package", &[&format!("FROM rocm/pytorch:rocm6.2\n{clone}")]);
    fine(
        "variable-without-effect",
        &[
            "FROM rocm/dev-ubuntu-22.04:6.4\nENV GPU_TARGETS=gfx1100\nRUN cmake -B b -DGGML_HIP=ON -DGPU_TARGETS=$GPU_TARGETS\n",
            "FROM rocm/dev-ubuntu-22.04:6.4\nENV GPU_TARGETS=gfx1100\nRUN make LLAMA_HIPBLAS=1\n",
        ],
    );
}
