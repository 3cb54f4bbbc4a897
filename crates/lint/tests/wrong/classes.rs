//! Files with one mistake each: detection and lists of GPUs, packages of other languages, devices.

use super::Wrong;

pub(crate) const WRONG: &[Wrong] = &[
    (
        "image-tag-scheme",
        "Dockerfile",
        1,
        "FROM docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_2.9.1\n",
    ),
    ("image-private", "Dockerfile", 1, "FROM docker.io/rocm/pytorch-private:20260101_nightly\n"),
    (
        "lock-file-unused",
        "Dockerfile",
        3,
        "FROM docker.io/library/node@sha256:1\nCOPY package.json package-lock.json ./\nRUN npm install\n",
    ),
    ("package-unpinned", "Dockerfile", 2, "FROM docker.io/a/b@sha256:1\nRUN go mod tidy\n"),
    ("package-unpinned", "Dockerfile", 2, "FROM docker.io/a/b@sha256:1\nRUN cargo install just\n"),
    (
        "operator-missing",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get update \\\n    apt-get install -y git\n",
    ),
    ("gpu-detection", "build.sh", 1, "ARCH=$(rocm_agent_enumerator | head -n 1)\n"),
    ("gpu-detection", "run.sh", 1, "COUNT=$(rocminfo | grep -c \"Name: \")\n"),
    (
        "compose-override-adds",
        "compose.linux.yml",
        5,
        "# docker compose -f compose.yml -f compose.linux.yml up\nservices:\n  a:\n    # Replaces /dev/dxg\n    devices:\n      - /dev/kfd\n",
    ),
    (
        "kubernetes-device-twice",
        "a.yaml",
        11,
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: docker.io/a/b@sha256:1\n      resources:\n        limits:\n          amd.com/gpu: 1\n      volumeMounts:\n        - { name: dri, mountPath: /dev/dri }\n  volumes:\n    - name: dri\n      hostPath: { path: /dev/dri }\n",
    ),
    (
        "release-repeated",
        "Dockerfile",
        3,
        "ARG ROCM_VERSION=7.2.3\nFROM docker.io/rocm/pytorch:rocm${ROCM_VERSION}_ubuntu24.04_py3.12_pytorch_release_2.9.1\nRUN pip install a==1 -f https://repo.radeon.com/rocm/manylinux/rocm-rel-7.2.3/\n",
    ),
    (
        "token-in-arguments",
        "run.sh",
        2,
        "docker run --rm \\\n  -e HF_TOKEN=$HF_TOKEN localhost/a\n",
    ),
    (
        "cpu-package",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1@sha256:1\nRUN pip install faster-whisper==1.2.1\n",
    ),
    (
        "torch-replaced",
        "Dockerfile",
        3,
        "FROM docker.io/library/python@sha256:1\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\nRUN pip install whisperx\n",
    ),
    (
        "target-separator",
        "build.sh",
        1,
        "cmake -B build \"-DCMAKE_HIP_ARCHITECTURES=gfx90a,gfx942\"\n",
    ),
    (
        "gpu-target-list",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\nARG ROCM_DOCKER_ARCH=\"gfx90a;gfx1030;gfx1100\"\nRUN cmake -B build -DGPU_TARGETS=\"$ROCM_DOCKER_ARCH\"\n",
    ),
    (
        "gpu-tool-on-host",
        "run.sh",
        3,
        "if command -v nvidia-smi; then\n  TAG=cuda\nelif command -v rocm-smi; then\n  TAG=rocm\nfi\ndocker build -t app:$TAG .\n",
    ),
    (
        "mesa-too-old",
        "Dockerfile",
        1,
        "FROM docker.io/library/debian:bookworm-slim@sha256:1\nRUN apt-get update && apt-get install -y mesa-va-drivers\n",
    ),
    (
        "sdk-in-image",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1 AS build\nRUN cmake -B /b && cmake --build /b\nFROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\nCOPY --from=build /b/app /app\nCMD [\"/app\"]\n",
    ),
];
