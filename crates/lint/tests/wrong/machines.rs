//! Files with one mistake each: programs without a terminal, options that are gone, terms of conda.

use super::Wrong;

pub(crate) const WRONG: &[Wrong] = &[
    (
        "terminal-missing",
        "a.service",
        4,
        "[Unit]\nDescription=a\n[Service]\nExecStart=/usr/bin/docker run -it --rm docker.io/a/b@sha256:1\n",
    ),
    (
        "conda-terms",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN curl -fO https://repo.anaconda.com/miniconda/Miniconda3-latest-Linux-x86_64.sh && bash Miniconda3-latest-Linux-x86_64.sh -b\nRUN conda create -y -n a python=3.12\n",
    ),
    (
        "fast-math",
        "build.sh",
        3,
        "#!/bin/bash\ncd llama.cpp\ncmake -B build -DCMAKE_CXX_FLAGS=\"-O3 -ffast-math\"\n",
    ),
    ("option-gone", "run.sh", 1, "vllm serve a/b --device cuda --port 8000\n"),
    (
        "option-gone",
        "setup.sh",
        2,
        "# Fedora\nsudo dnf config-manager --add-repo https://h.example/fedora/a.repo\n",
    ),
    ("command-renamed", "run.sh", 1, "python -m vllm.entrypoints.api_server --model a/b\n"),
    (
        "cuda-package",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch@sha256:1\nRUN pip install --no-cache-dir cupy==13.6.0\n",
    ),
    (
        "service-open",
        "compose.yml",
        4,
        "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    command: --listen --enable-insecure-extension-access\n",
    ),
    (
        "service-open",
        "serve.sh",
        2,
        "#!/bin/bash\nllama-server -m a.gguf -ngl 99 --host 0.0.0.0 --port 8080\n",
    ),
    (
        "variable-without-effect",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    environment:\n      CUDA_VISIBLE_DEVICES: \"0\"\n",
    ),
    (
        "removed-later",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nCOPY dist/a-1-py3-none-any.whl /tmp/\nWORKDIR /a\nRUN pip install --no-cache-dir /tmp/a-1-py3-none-any.whl && rm /tmp/a-1-py3-none-any.whl\n",
    ),
    ("pins-contradict", "requirements.txt", 3, "numpy==1.26.4\nflask\nnumpy>=2.0\n"),
    ("no-such-package", "requirements.txt", 2, "numpy==2.3.1\ntorch-audio\n"),
    (
        "torch-for-cuda",
        "Dockerfile",
        2,
        "FROM rocm/dev-ubuntu-22.04:6.4-complete\nRUN pip install stable-baselines3\n",
    ),
    (
        "pip-other-python",
        "Dockerfile",
        3,
        "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y python3.11 python3-pip\nRUN pip install flask\nCMD [\"python3.11\", \"a.py\"]\n",
    ),
    ("package-misnamed", "requirements.txt", 2, "numpy==2.3.1\nsklearn\n"),
    (
        "shell-state-lost",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN export A=1 && \\\n export B=2 && true\n",
    ),
    (
        "build-status-lost",
        "setup.sh",
        2,
        "#!/bin/bash\npip install --no-deps -r requirements.txt || true\n",
    ),
    ("model-gone", "start.sh", 2, "#!/bin/bash\nMODEL=\"runwayml/stable-diffusion-v1-5\"\n"),
    (
        "model-unpinned",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN python -c \"from sentence_transformers import SentenceTransformer; SentenceTransformer('a/b')\"\n",
    ),
    (
        "download-unchecked",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN python3 -c \"import urllib.request as u; u.urlretrieve('https://h.example/a.bin', 'a.bin')\"\n",
    ),
    (
        "removed-later",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nCOPY a.tgz /\nRUN tar -xzf a.tgz\n",
    ),
    (
        "builder-variable",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nENV PATH=$HOME/.local/bin:$PATH\n",
    ),
];
