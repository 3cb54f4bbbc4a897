//! Realistic files without mistakes; some of them come close to one.

pub(crate) const CLEAN: &[(&str, &str)] = &[
    ("Dockerfile", "FROM scratch\n"),
    (
        "Dockerfile",
        "FROM docker.io/library/fedora@sha256:6cd815d862109208adf6040ea13391fe6aeb87a9dc80735c2ab07083fdf5e03a AS build\nRUN dnf install -y gcc\nFROM build\n",
    ),
    ("Dockerfile", "ARG BASE=docker.io/a/b@sha256:1\nFROM ${BASE}\n"),
    ("Dockerfile", "ARG BASE\nFROM $BASE\nARG VLLM_COMMIT\nRUN echo \"$VLLM_COMMIT\"\n"),
    (
        "Dockerfile",
        "FROM docker.io/a/b:1.2@sha256:1 AS one\nFROM one AS two\nCOPY --from=one /a /a\nCOPY --from=0 /a /b\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nARG PYTORCH_ROCM_ARCH=gfx1151\nENV PYTORCH_ROCM_ARCH=${PYTORCH_ROCM_ARCH}\n",
    ),
    (
        "Dockerfile",
        "# gfx1151 is Strix Halo, gfx1150 is Strix Point.\nFROM scratch\nENV VLLM_ROCM_USE_AITER=0 HSA_NO_SCRATCH_RECLAIM=1\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nRUN git clone https://h.example/a && cd a && git checkout 01efc7ef781391e744ed08c3292817a773d654e6\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nRUN git init -q . && git fetch --depth 1 origin 01efc7ef781391e744ed08c3292817a773d654e6 && git checkout FETCH_HEAD\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nADD --checksum=sha256:2 https://h.example/a.tar.gz /a.tar.gz\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nRUN curl -fsSLo a.tar.gz https://h.example/a.tar.gz && echo '1  a.tar.gz' | sha256sum --check\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nRUN pip install --index-url https://repo.amd.com/rocm/whl-multi-arch/ torch==2.11.0+rocm7.14.0 torchvision==0.26.0+rocm7.14.0 torchaudio==2.11.0+rocm7.14.0\n",
    ),
    (
        "Dockerfile",
        "FROM docker.io/a/b@sha256:1\nRUN pip install --no-deps --require-hashes -r requirements.lock\nRUN pip install ./dist/a.whl\n",
    ),
    ("Dockerfile", "FROM docker.io/a/b@sha256:1\nRUN <<EOF\nset -eu\ndnf install -y cmake\nEOF\n"),
    (
        "Containerfile",
        "FROM docker.io/vllm/vllm-openai-rocm:v0.19.0@sha256:1\nENV OLLAMA_NUM_PARALLEL=1\n",
    ),
    (
        "run.sh",
        "#!/bin/sh\nset -eu\npodman run --rm --device /dev/kfd --device /dev/dri --group-add keep-groups docker.io/ollama/ollama@sha256:1\n",
    ),
    (
        "run.sh",
        "podman run --rm --device /dev/kfd --env OLLAMA_KEEP_ALIVE=1h docker.io/ollama/ollama:rocm@sha256:1 serve\n",
    ),
    ("run.sh", "exec env -u HSA_OVERRIDE_GFX_VERSION vllm serve \"$@\"\n"),
    ("run.sh", "AMD_SERIALIZE_KERNEL=3 python3 crash.py\n"),
    ("build.sh", "podman build -f Dockerfile.there -t mine:dev .\npodman run --rm mine:dev\n"),
    (
        "build.sh",
        "VLLM_COMMIT=01efc7ef781391e744ed08c3292817a773d654e6\ngit clone -q https://h.example/a\ngit -C a checkout \"$VLLM_COMMIT\"\n",
    ),
    (
        "build.sh",
        ": \"${VLLM_COMMIT:?set VLLM_COMMIT}\"\necho \"${VLLM_VERSION:-none} $GITHUB_SHA\"\n",
    ),
    (
        "build.sh",
        "read -r NEW_TAG\necho \"$NEW_TAG\"\nfor IMAGE_TAG in a b; do echo \"$IMAGE_TAG\"; done\n",
    ),
    ("push.sh", "git push origin \"$1\"\npodman push localhost/a registry.example.org/a:1\n"),
    (
        ".env",
        "# HSA_OVERRIDE_GFX_VERSION=11.0.0 is for gfx1100 only\nOLLAMA_HOST=0.0.0.0\nVLLM_ROCM_USE_AITER=0\n",
    ),
    (".env", "# RX 6700 XT (gfx1031)\nHSA_OVERRIDE_GFX_VERSION=10.3.0\n"),
    (
        "versions.env",
        "VLLM_VERSION=v0.11.0\nVLLM_COMMIT=01efc7ef781391e744ed08c3292817a773d654e6\nLLAMA_CPP_REF=b9010\n",
    ),
    (
        "compose.yml",
        "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    devices: [/dev/kfd, /dev/dri]\n    environment:\n      OLLAMA_FLASH_ATTENTION: 1\n",
    ),
    (
        "compose.yml",
        "services:\n  a:\n    image: ${IMAGE}\n    environment:\n      - HIP_VISIBLE_DEVICES=0\n      - HF_TOKEN\n",
    ),
    (
        "docker-compose.yaml",
        "x-a: &a\n  environment:\n    A: 1\nservices:\n  b:\n    <<: *a\n    build: .\n",
    ),
    (
        "requirements.txt",
        "# torch comes from the ROCm index\nnumpy==2.0.0\nvllm==0.33.0\n-r other.txt\n",
    ),
    ("requirements.txt", "torch==2.9.1\ntorchvision==0.24.1\ntorchaudio==2.9.1\n"),
    ("70-kfd.rules", "SUBSYSTEM==\"kfd\", GROUP=\"render\", MODE=\"0660\"\n"),
    ("ttm.conf", "options ttm pages_limit=32505856\n"),
    ("README.md", "# vLLM on Strix Halo\n\nNeeds ROCm 7.2.1 or newer. gfx1151 is RDNA 3.5.\n"),
    ("README.md", "Release v0.11.0 follows v0.10.2. bitsandbytes supports AMD GPUs since 0.50.\n"),
    ("notes.txt", "Set the carve-out to 512 MB and raise ttm.pages_limit.\n"),
    (
        "versions.toml",
        "schema = 1\nsource-date-epoch = 1795132800\n[source.a]\nurl = 'https://h.example/a'\nref = 'v1'\ncommit = '1111111111111111111111111111111111111111'\n[image.b]\nrepository = 'docker.io/a/a'\ntag = 'x'\ndigest = 'unresolved'\nfollow = true\n",
    ),
    (
        "versions/tracks.toml",
        "schema = 1\ngpu = 'gfx1151'\n[vulkan]\ntitle = 'x'\ndescription = 'x'\nvariant = 'a'\nenv.OLLAMA_NUM_PARALLEL = '1'\nvariants.a.base = 'fedora'\n[[vulkan.variants.a.stage]]\ndockerfile = 'Dockerfile.there'\nname = 'a'\n",
    ),
    (
        "versions/python.toml",
        "schema = 1\n[a]\npython = '3.13'\nplatform = 'x86_64-manylinux_2_40'\nrequirements = ['numpy']\n",
    ),
];
