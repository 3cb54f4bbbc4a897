//! Files with one mistake each, about what an image contains and what a build installs.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "ollama-without-rocm",
        "Dockerfile",
        3,
        "FROM docker.io/library/ubuntu:24.04\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\nRUN curl -fsSL https://ollama.com/install.sh | sh\n",
    ),
    (
        "group-by-name",
        "compose.yml",
        6,
        "services:\n  a:\n    build: .\n    user: '${UID:-1000}:1000'\n    devices: [/dev/kfd]\n    group_add: [render]\n",
    ),
    (
        "rootless-groups",
        "a.container",
        3,
        "[Container]\nImage=docker.io/a/b@sha256:1\nAddDevice=/dev/kfd\n# [Install]\n# WantedBy=default.target\n",
    ),
    (
        "visible-devices-twice",
        "compose.yml",
        6,
        "services:\n  a:\n    build: .\n    environment:\n      ROCR_VISIBLE_DEVICES: ${GPU:-0}\n      HIP_VISIBLE_DEVICES: ${GPU:-0}\n",
    ),
    (
        "visible-devices-twice",
        "run.sh",
        2,
        "#!/bin/bash\nexport HIP_VISIBLE_DEVICES=${HIP_VISIBLE_DEVICES:-0}\nexport ROCR_VISIBLE_DEVICES=${ROCR_VISIBLE_DEVICES:-0}\n",
    ),
    (
        "default-replaces-empty",
        "compose.yml",
        6,
        "services:\n  a:\n    build: .\n    environment:\n      # set to \"\" in .env to disable\n      HSA_OVERRIDE_GFX_VERSION: ${HSA_OVERRIDE_GFX_VERSION:-11.0.0}\n",
    ),
    (
        "device-optional",
        "a.container",
        3,
        "[Container]\nImage=docker.io/a/b:rocm@sha256:1\nAddDevice=-/dev/kfd\nAddDevice=-/dev/dri\n",
    ),
    (
        "torch-kept",
        "Dockerfile",
        3,
        "FROM docker.io/library/python:3.12\nRUN pip install --no-cache-dir openai-whisper\nRUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/rocm7.2\n",
    ),
    (
        "torch-kept",
        "Dockerfile",
        3,
        "FROM docker.io/library/python:3.12\nRUN pip install --no-cache-dir openai-whisper\nRUN pip install --no-cache-dir torch torchvision --index-url https://download.pytorch.org/whl/rocm7.2\n",
    ),
    (
        "package-other-system",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:24.04\nRUN pip install onnxruntime-directml==1.20.0\n",
    ),
    (
        "nightly-removed",
        "Dockerfile",
        3,
        "FROM docker.io/library/ubuntu:24.04\nRUN pip install --pre \\\n    torch==2.5.0.dev20240726 \\\n    --index-url https://download.pytorch.org/whl/nightly/rocm6.1\n",
    ),
    (
        "math-libraries-missing",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1\nRUN git clone https://github.com/ggml-org/llama.cpp .\nRUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1151 && cmake --build build\n",
    ),
    (
        "path-replaced",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch@sha256:1\nENV PATH=/app/bin:/usr/local/bin:/usr/bin:/bin\n",
    ),
    (
        "comment-contradicts",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/pytorch:rocm7.2.2_ubuntu22.04_py3.10_pytorch_release_2.10.0\nLABEL a.title=\"x\" \\\n    a.description=\"ROCm 7.2.3 on Ubuntu 24.04\"\n",
    ),
    (
        "cuda-package",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1\nCOPY requirements-cuda.txt .\nRUN pip install --no-cache-dir -r requirements-cuda.txt\n",
    ),
    (
        "javascript-unpinned",
        "Dockerfile",
        2,
        "FROM docker.io/library/node:24\nRUN npm install -g pnpm\n",
    ),
    (
        "lock-file-missing",
        "Dockerfile",
        4,
        "FROM docker.io/oven/bun:1.3\nWORKDIR /app\nCOPY package*.json ./\nRUN bun install\nCOPY . .\n",
    ),
    (
        "clone-unpinned",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch@sha256:1\nRUN python -c \"import torch; torch.hub.load('snakers4/silero-vad', 'silero_vad', trust_repo=True)\"\n",
    ),
    (
        "version-redirected",
        "Dockerfile",
        3,
        "FROM docker.io/library/ubuntu:24.04\nRUN pip install --no-deps \\\n    totalsegmentator>=2.4 \\\n    && true\n",
    ),
    (
        "build-option-gone",
        "Dockerfile",
        4,
        "ARG TAG=master\nFROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete\nARG TAG\nRUN git clone --branch ${TAG} https://github.com/ggml-org/llama.cpp . && cmake -B build -DLLAMA_HIPBLAS=ON -DGPU_TARGETS=gfx1151\n",
    ),
    (
        "argument-out-of-scope",
        "Dockerfile",
        3,
        "ARG PYTORCH_ROCM_ARCH=\"gfx90a;gfx1100\"\nFROM docker.io/rocm/pytorch@sha256:1\nENV PYTORCH_ROCM_ARCH=${PYTORCH_ROCM_ARCH}\n",
    ),
    (
        "image-latest",
        "rocm-values.yaml",
        4,
        "vllm:\n  image:\n    repository: opea/vllm-rocm\n    tag: latest\n",
    ),
    (
        "silicon-mixup",
        ".env.example",
        1,
        "# the override for other GPUs (e.g. Strix Halo gfx1201 → 11.0.0)\nA=1\n",
    ),
    (
        "render-group-missing",
        "Dockerfile",
        4,
        "FROM docker.io/rocm/pytorch@sha256:1\n# /dev/kfd is granted by the `video`\n# group (see `group_add`).\nUSER app\n",
    ),
    (
        "render-group-missing",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/pytorch@sha256:1\nRUN apt-get update && apt-get install -y --no-install-recommends libxrender1\nUSER app\n",
    ),
    (
        "hsa-override-gfx1151",
        "compose.yml",
        2,
        "x-rocm: &rocm\n  HSA_OVERRIDE_GFX_VERSION: 11.0.0\nservices:\n  # Strix Halo\n  a:\n    build: .\n    environment:\n      <<: *rocm\n      A: b\n",
    ),
    (
        "variable-unknown",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm@sha256:1\n    environment:\n      WILM_USE_TRITON_FLASH_ATTENTION: 0\n",
    ),
];
