//! Files with one mistake each in what starts, waits and arrives.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "download-partial",
        "fetch.sh",
        4,
        "#!/bin/bash\nset -euo pipefail\nif [ ! -f \"$MODEL\" ]; then\n  curl -fL -o \"$MODEL\" https://h.example/a/resolve/0123456789abcdef0123456789abcdef01234567/a.gguf\nfi\n",
    ),
    (
        "unit-start-timeout",
        "vllm.container",
        2,
        "[Service]\nExecStartPost=/usr/bin/podman exec a ollama pull b\n[Container]\nImage=docker.io/a/b@sha256:1\n",
    ),
    (
        "unit-as-root",
        "llama.service",
        2,
        "[Service]\nExecStart=/usr/local/bin/llama-server -m /srv/a.gguf\nRestart=on-failure\n[Install]\nWantedBy=multi-user.target\n",
    ),
    ("vllm-hole", "Dockerfile", 1, "FROM docker.io/vllm/vllm-openai-rocm:v0.11.0@sha256:1\n"),
    (
        "servers-unsupervised",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nCMD ollama serve & exec uvicorn app:app\n",
    ),
    (
        "healthcheck-address",
        "compose.yml",
        6,
        "services:\n  a:\n    image: localhost/a\n    ports: [\"127.0.0.1:8028:80\"]\n    healthcheck:\n      test: curl --fail http://localhost:8028/health\n",
    ),
    (
        "healthcheck-early",
        "compose.yml",
        4,
        "services:\n  model:\n    image: docker.io/vllm/vllm-openai-rocm@sha256:1\n    healthcheck:\n      test: curl --fail http://localhost:8000/health\n      interval: 10s\n      retries: 5\n  ui:\n    image: localhost/ui\n    depends_on: {model: {condition: service_healthy}}\n",
    ),
    (
        "compose-start-order",
        "compose.yml",
        5,
        "services:\n  api:\n    image: localhost/a\n    depends_on:\n      - db\n  db:\n    image: docker.io/library/postgres@sha256:1\n    volumes: [\"db:/var/lib/postgresql\"]\nvolumes:\n  db:\n",
    ),
];
