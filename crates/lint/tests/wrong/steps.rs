//! Files with one mistake each: steps of a build, and what an image starts.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    ("host-in-build", "Dockerfile", 2, "FROM docker.io/a/b@sha256:1\nRUN /sbin/modprobe amdgpu\n"),
    (
        "root-missing",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nUSER dockerx\nRUN apt-get update && apt-get install -y git\n",
    ),
    (
        "folder-not-empty",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nRUN git clone https://h.example/a models/x\nRUN git clone https://h.example/b models/x\n",
    ),
    (
        "copy-too-early",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nCOPY . /app\nRUN pip install -r requirements.txt\n",
    ),
    (
        "wheel-unused",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN cd /vllm && python3 setup.py bdist_wheel --dist-dir=dist\nENTRYPOINT [\"vllm\", \"serve\"]\n",
    ),
    (
        "server-unreachable",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nENV LISTEN=127.0.0.1\nEXPOSE 8188\nCMD python3 main.py --listen ${LISTEN}\n",
    ),
    (
        "server-unreachable",
        "compose.yml",
        6,
        "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    command: python3 main.py --host 127.0.0.1 --port 7000\n    ports:\n      - \"7000:7000\"\n",
    ),
    (
        "arguments-unused",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nCOPY scripts/. /home/scripts/\nWORKDIR /app\nCMD [\"bash\", \"/home/scripts/deaf.sh\", \"--user-directory /a\"]\n",
    ),
    (
        "branch-instead-of-tag",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nARG BRANCH=releases/v0.18.1\nRUN git clone https://h.example/vllm && cd vllm && git checkout -b ${BRANCH}\n",
    ),
    (
        "jobs-unlimited",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN cmake --build llama.cpp/build --config Release -j --target llama-server\n",
    ),
    (
        "shell-state-lost",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN cd source && mkdir build && cd build\nRUN cmake ..\n",
    ),
    (
        "other-distribution",
        "Dockerfile",
        2,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN wget https://h.example/decoder-ubuntu-22.04-0.1.4-Linux.deb\n",
    ),
    (
        "package-lists-stale",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get update -y\nCMD [\"jupyter\", \"notebook\"]\n",
    ),
    (
        "torch-check-useless",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch@sha256:1\nENV COMMANDLINE_ARGS=\"--skip-torch-cuda-test\"\n",
    ),
    (
        "torch-check-useless",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch@sha256:1\nCMD [\"python3\", \"launch.py\", \"--listen\", \"--skip-torch-cuda-test\"]\n",
    ),
    (
        "variable-without-effect",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nENV CAP_PERFMON=1\n",
    ),
    (
        "no-such-version",
        "a.sh",
        1,
        "python -m pip install --upgrade pip wheel timm python3.10-venv\n",
    ),
    (
        "build-native",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN cmake llama.cpp -B build -DGGML_VULKAN=ON -DCMAKE_C_FLAGS=\"-march=sandybridge\"\n",
    ),
    (
        "removed-later",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get update && apt-get install -y cmake git && rm -rf /var/lib/apt/lists/*\nRUN apt-get purge -y --auto-remove cmake && rm -rf /tmp/*\n",
    ),
    (
        "build-status-lost",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nCOPY patches /p\nRUN bash -c 'for one in /p/*.patch; do cd /src && patch -p1 -N -i \"$one\" || true; done'\n",
    ),
    (
        "privileged-container",
        "a.sh",
        1,
        "docker run --rm -it --privileged ghcr.io/k/comfyui-amd@sha256:1\n",
    ),
    ("service-open", "a.sh", 1, "docker run --rm -p 8188:8188 ghcr.io/k/comfyui-amd@sha256:1\n"),
    (
        "server-wait",
        "a.sh",
        2,
        "podman run -d --name o docker.io/ollama/ollama@sha256:1\nwhile [[ \"$(podman inspect -f '{{.State.Status}}' o)\" != \"running\" ]]; do\n  sleep 1\ndone\n",
    ),
    (
        "server-wait",
        "a.sh",
        5,
        "podman run -d --name o docker.io/ollama/ollama@sha256:1\nwhile [[ \"$(podman inspect -f '{{.State.Status}}' o)\" != \"running\" ]]; do\n  sleep 1\ndone\npodman exec -it o ollama pull qwen3:8b\n",
    ),
    (
        "package-gone",
        "Dockerfile",
        3,
        "ARG BASE_IMAGE=rocm/pytorch:latest\nFROM ${BASE_IMAGE}\nRUN apt-get update && apt-get install -y libgl1-mesa-glx\nCOPY entrypoint.sh /\nRUN chmod +x /entrypoint.sh\n",
    ),
];
