//! Files with one mistake each: variables and options that nothing reads, releases, contradictions.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "variable-unknown",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nENV HSA_ENABLE_CONCURRENT_EXEC=1\n",
    ),
    (
        "variable-unknown",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    environment:\n      GGML_HIP_UNIFIED_MEMORY: 1\n",
    ),
    (
        "variable-unknown",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm:v0.25.0@sha256:1\n    environment:\n      - VLLM_MAX_MODEL_LEN=8192\n",
    ),
    (
        "variable-unknown",
        "run.sh",
        2,
        "#!/bin/sh\nexport FLASH_ATTENTION_TRITON_ENABLE=TRUE\npython3 a.py\n",
    ),
    ("variable-unknown", "a.env", 1, "LLAMA_ARG_NGL=99\n"),
    (
        "variable-without-effect",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nENV GGML_HIP_ROCWMMA_FATTN=1\n",
    ),
    ("variable-without-effect", "a.env", 1, "GPU_FORCE_64BIT_PTR=1\n"),
    ("variable-renamed", "a.env", 1, "VLLM_MOE_PADDING=0\n"),
    (
        "model-gated",
        "compose.yml",
        4,
        "services:\n  a:\n    image: docker.io/vllm/vllm-openai-rocm:v0.25.0@sha256:1\n    command: --model meta-llama/Llama-3.1-8B-Instruct\n",
    ),
    (
        "build-option-unknown",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nRUN git clone https://github.com/ggml-org/llama.cpp && cd llama.cpp && git checkout 01efc7ef781391e744ed08c3292817a773d654e6\nRUN cmake -S llama.cpp -B build -DGGML_HIP=ON \\\n    -DGGML_HIP_FORCE_MMQ=ON\n",
    ),
    (
        "rocm-mixed",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\nRUN pip install --index-url https://download.pytorch.org/whl/rocm6.4 torch==2.9.1\n",
    ),
    (
        "gpu-without-rocblas",
        "Dockerfile",
        1,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.0-complete@sha256:1\nENV AMDGPU_TARGETS=gfx906\nRUN make\n",
    ),
    (
        "hsa-override-other",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN cmake -B build -DAMDGPU_TARGETS=gfx1031\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n",
    ),
    (
        "comment-contradicts",
        "Dockerfile",
        2,
        "# The base image with ROCm 6.4\nFROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\n",
    ),
    ("rocm-too-old", "build.sh", 2, "# gfx1151\nexport ROCM_PATH=/opt/rocm-6.2.4\n"),
    (
        "rocm-too-old",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nLABEL description=\"gfx1151 with ROCm 6.4\"\n",
    ),
];
