//! Dockerfiles with one mistake each: another Python, an older C library, an image without ROCm.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "python-other",
        "Dockerfile",
        2,
        "FROM ubuntu:24.04\nRUN pip3 install --break-system-packages https://repo.radeon.com/rocm/manylinux/rocm-rel-6.2/torch-2.3.0%2Brocm6.2.0-cp310-cp310-linux_x86_64.whl\n",
    ),
    (
        "python-other",
        "Dockerfile",
        2,
        "FROM rocm/pytorch:rocm7.2.1_ubuntu24.04_py3.12_pytorch_release_2.9.1\nENV PYTHONPATH=/opt/conda/envs/a/lib/python3.10/site-packages\n",
    ),
    (
        "python-other",
        "Dockerfile",
        4,
        "FROM python:3.11-slim AS build\nRUN pip install a==1\nFROM python:3.12-slim\nCOPY --from=build /usr/local/lib/python3.11/site-packages /usr/local/lib/python3.11/site-packages\n",
    ),
    (
        "python-other",
        "Dockerfile",
        4,
        "FROM python:3.12-slim AS build\nRUN python -m venv /opt/venv\nFROM ubuntu:24.04\nCOPY --from=build /opt/venv /opt/venv\n",
    ),
    (
        "glibc-older",
        "Dockerfile",
        4,
        "FROM rust:1.94.1-trixie AS build\nRUN cargo build --release --locked\nFROM ubuntu:24.04\nCOPY --from=build /src/target/release/a /usr/local/bin/a\n",
    ),
    (
        "image-without-rocm",
        "compose.yml",
        3,
        "services:\n  a:\n    image: docker.io/vllm/vllm-openai:v0.8.5\n    devices: [/dev/kfd, /dev/dri]\n",
    ),
    (
        "image-without-rocm",
        "compose.yml",
        3,
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n    devices: [/dev/kfd, /dev/dri]\n",
    ),
    (
        "wheel-python",
        "Dockerfile",
        2,
        "FROM python:3.13-slim\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.0\n",
    ),
    (
        "no-such-version",
        "Dockerfile",
        2,
        "FROM python:3.11-slim\nRUN pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/rocm5.7\n",
    ),
    (
        "no-such-version",
        "requirements.txt",
        2,
        "--extra-index-url https://download.pytorch.org/whl/rocm6.2\ntorch==2.7.1\n",
    ),
    (
        "torch-replaced",
        "Dockerfile",
        2,
        "FROM rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0\nRUN pip install 'torch>=2.4.0'\n",
    ),
    ("program-missing", "Dockerfile", 2, "FROM ubuntu:24.04\nRUN sudo apt-get update\n"),
    ("program-missing", "Dockerfile", 2, "FROM ubuntu:22.04\nRUN locale-gen en_US.UTF-8\n"),
    (
        "program-missing",
        "Dockerfile",
        2,
        "FROM ubuntu:18.04\nRUN wget -q https://h.example/a\n",
    ),
    (
        "healthcheck-fails",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/qdrant/qdrant:v1.12.0\n    healthcheck:\n      test: [CMD, curl, -f, http://localhost:6333/healthz]\n",
    ),
    (
        "rocm-package-gone",
        "a.sh",
        2,
        "set -e\nwget https://repo.radeon.com/amdgpu-install/6.3.1/ubuntu/jammy/amdgpu-install_6.3.60300-1_all.deb\n",
    ),
    (
        "rocm-package-gone",
        "a.sh",
        2,
        "set -e\necho \"deb https://repo.radeon.com/rocm/apt/6.0 noble main\" | sudo tee /etc/apt/sources.list.d/rocm.list\n",
    ),
    (
        "rocm-package-gone",
        "a.sh",
        2,
        "set -e\necho \"deb https://repo.radeon.com/rocm/apt/7.1 bookworm main\" | sudo tee /etc/apt/sources.list.d/rocm.list\n",
    ),
    (
        "rocm-folder-zero",
        "a.sh",
        2,
        "set -e\nwget https://repo.radeon.com/amdgpu-install/6.5/ubuntu/jammy/a.deb\n",
    ),
    (
        "cpu-package",
        "Dockerfile",
        2,
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN git clone -b v0.19.0 https://github.com/pytorch/vision && cd vision && python3 setup.py install\n",
    ),
    (
        "silicon-mixup",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\n#   gfx1200 = RX 9070/XT (RDNA4)\n",
    ),
    (
        "aiter-on-rdna",
        "compose.yml",
        6,
        "services:\n  a:\n    build: .\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=11.0.0\n      - VLLM_ROCM_USE_AITER=1\n",
    ),
    ("variable-unknown", "a.env", 1, "HSE_AMDGPU_TARGET=gfx1100\n"),
    (
        "package-gone",
        "Dockerfile",
        2,
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN apt-get update && apt-get install -y libasound2t64\n",
    ),
    (
        "package-gone",
        "Dockerfile",
        2,
        "FROM debian:12\nRUN apt-get update && apt-get install -y python3.12-venv\n",
    ),
    (
        "packages-do-not-match",
        "requirements.txt",
        2,
        "torch==2.3.1\ntorchvision==0.17.0\n",
    ),
];
