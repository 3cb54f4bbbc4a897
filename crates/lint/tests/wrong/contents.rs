//! Files with one mistake each: what images, units and distributions contain.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "program-missing",
        "Dockerfile",
        3,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN apt-get update && apt-get install -y cmake\nRUN git clone https://h.example/a /a\n",
    ),
    (
        "program-missing",
        "Dockerfile",
        4,
        "FROM docker.io/library/python:3.12-slim@sha256:1 AS base\nRUN pip install --no-cache-dir a==1\nFROM base\nRUN curl -fsSL https://h.example/a -o /a\n",
    ),
    (
        "program-missing",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN curl -fsSL https://h.example/a.gpg -o /a.gpg\n",
    ),
    (
        "package-gone",
        "Dockerfile",
        3,
        "FROM docker.io/library/python:3.12-slim-trixie@sha256:1\nRUN apt-get update && apt-get install -y --no-install-recommends git \\\n    libgl1-mesa-glx\n",
    ),
    (
        "user-exists",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN useradd -m -u 1000 app\n",
    ),
    ("image-tag-missing", "Dockerfile", 1, "FROM docker.io/ollama/ollama:latest-rocm\n"),
    (
        "image-tag-missing",
        "compose.yml",
        3,
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-hip\n",
    ),
    ("image-tag-missing", "Dockerfile", 1, "FROM docker.io/rocm/dev-ubuntu-24.04:6.1-complete\n"),
    (
        "image-tag-missing",
        "Dockerfile",
        1,
        "FROM docker.io/rocm/pytorch:rocm6.0_ubuntu22.04_py3.10_pytorch_2.1.1\n",
    ),
    (
        "unit-hides-gpu",
        "a.service",
        3,
        "[Service]\nExecStart=/usr/bin/llama-server -m /a\nPrivateDevices=yes\n",
    ),
    (
        "unit-hides-gpu",
        "a.service",
        3,
        "[Service]\nExecStart=/usr/bin/ollama serve\nDeviceAllow=/dev/dri rw\n",
    ),
    (
        "unit-hides-folder",
        "a.service",
        3,
        "[Service]\nExecStart=/home/u/venv/bin/vllm serve m\nProtectHome=true\n",
    ),
    (
        "packages-same-module",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN pip install onnxruntime==1.22.0\nRUN pip install onnxruntime-rocm==1.22.0\n",
    ),
    (
        "missing-file",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nCOPY requirements.txt* /app/ 2>/dev/null || true\n",
    ),
    (
        "instruction-deprecated",
        "Dockerfile",
        1,
        "# syntax=docker/dockerfile:1.0-experimental\nFROM docker.io/a/b@sha256:1\n",
    ),
    (
        "library-not-copied",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1 AS build\nRUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1151 && cmake --build build\nFROM docker.io/a/c@sha256:1\nCOPY --from=build /src/build/bin/llama-server /usr/local/bin/llama-server\n",
    ),
    (
        "healthcheck-useless",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nHEALTHCHECK CMD curl -f http://localhost:8000/ || exit 0\n",
    ),
    (
        "healthcheck-useless",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/ollama/ollama:0.30.0-rocm\n    healthcheck:\n      test: [\"CMD-SHELL\", \"kill -0 1\"]\n",
    ),
    (
        "kubernetes-probe",
        "a.yaml",
        9,
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: a\n      image: docker.io/vllm/vllm-openai-rocm:v0.20.0\n      livenessProbe:\n        initialDelaySeconds: 60\n        httpGet: { path: /health, port: 8000 }\n",
    ),
    (
        "build-status-lost",
        "a.sh",
        2,
        "#!/bin/sh\nsudo apt-get install -y rocminfo 2>/dev/null || true\n",
    ),
    (
        "service-open",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nCMD [\"python\", \"webui.py\", \"--listen\", \"--share\"]\n",
    ),
    (
        "rocm-twice",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:22.04@sha256:1\nRUN apt-get update && apt-get install -y curl rocm-libs\nRUN curl -fsSL https://ollama.com/install.sh | sh\n",
    ),
    (
        "device-path",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/ollama/ollama:0.30.0-rocm\n    devices: [/dev/kfd, /dev/dri]\n    volumes: [\"/dev/dri:/dev/dri\"]\n",
    ),
];
