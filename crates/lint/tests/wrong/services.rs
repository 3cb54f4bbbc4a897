//! Compose files, quadlets and units with one mistake each.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "hsa-override-empty",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    environment:\n      HSA_OVERRIDE_GFX_VERSION: \"\"\n",
    ),
    (
        "shm-size-ignored",
        "compose.yml",
        4,
        "services:\n  a:\n    build: .\n    shm_size: 8gb\n    ipc: host\n",
    ),
    (
        "device-path",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    devices:\n      - /deb/kfd:/dev/kfd\n",
    ),
    (
        "engine-socket",
        "a.container",
        4,
        "[Container]\nImage=localhost/a\nAddDevice=/dev/kfd\nVolume=/run/podman/podman.sock:/s.sock\n",
    ),
    (
        "healthcheck-fails",
        "compose.yml",
        5,
        "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    healthcheck:\n      test: [CMD, curl, -f, 'http://localhost:11434']\n",
    ),
    (
        "rootless-groups",
        "a.container",
        3,
        "[Container]\nImage=localhost/a\nAddDevice=/dev/kfd\n[Install]\nWantedBy=default.target\n",
    ),
    (
        "variable-does-not-exist",
        "compose.yaml",
        5,
        "services:\n  ollama:\n    build: .\n    environment:\n      - OLLAMA_GPU_MEMORY=96GB\n",
    ),
    (
        "variable-build-only",
        "compose.yml",
        4,
        "services:\n  a:\n    environment:\n      PYTORCH_ROCM_ARCH: gfx1151\n",
    ),
    ("image-unpinned", "compose.yml", 3, "services:\n  a:\n    image: ghcr.io/a/b:1.2\n"),
    (
        "vllm-dev-discontinued",
        "compose.yml",
        3,
        "services:\n  a:\n    image: rocm/vllm-dev@sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889\n",
    ),
    (
        "container-host-access",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    devices: [/dev/kfd, /dev/dri]\n    cap_add: [ALL]\n",
    ),
    (
        "port-ignored",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    network_mode: host\n    ports: [\"80:80\"]\n",
    ),
    (
        "port-unused",
        "compose.yml",
        4,
        "services:\n  a:\n    image: docker.io/ollama/ollama:rocm@sha256:1\n    ports: [\"8000:8000\"]\n",
    ),
    (
        "host-tool",
        "compose.yml",
        4,
        "services:\n  a:\n    build: .\n    volumes: [\"/usr/bin/rocm-smi:/usr/bin/rocm-smi:ro\"]\n",
    ),
    (
        "selinux-off",
        "a.container",
        5,
        "[Container]\nImage=localhost/a\nAddDevice=/dev/kfd\nAddDevice=/dev/dri\nSecurityLabelDisable=true\n",
    ),
    (
        "ipc-shared",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    devices: [/dev/kfd, /dev/dri]\n    ipc: host\n",
    ),
    (
        "service-open",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    devices: [/dev/kfd, /dev/dri]\n    ports: [\"11434:11434\"]\n",
    ),
    (
        "service-open",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    environment:\n      WEBUI_AUTH: false\n",
    ),
    (
        "device-driver",
        "compose.yml",
        9,
        "services:\n  a:\n    image: localhost/a\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - capabilities: [gpu]\n              driver: rocm\n",
    ),
    (
        "compose-key",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    resources:\n      limits: { memory: 8G }\n",
    ),
    ("quadlet-key", "a.container", 3, "[Container]\nImage=localhost/a\nSecurityLabel=disable\n"),
    (
        "value-quoted",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    environment:\n      - HIP_VISIBLE_DEVICES=\"0\"\n",
    ),
    (
        "render-group-missing",
        "a.container",
        4,
        "[Container]\nImage=localhost/a\nAddDevice=/dev/kfd /dev/dri\nUser=1000:1000\n",
    ),
    ("image-name-invalid", "compose.yml", 3, "services:\n  a:\n    image: ghcr.io/SomeOne/app:1\n"),
    (
        "nvidia-leftover",
        "compose.yml",
        9,
        "services:\n  a:\n    build: .\n    devices: [/dev/kfd, /dev/dri]\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              count: 1\n",
    ),
    ("unit-variable", "a.service", 2, "[Service]\nUser=$USER\nExecStart=/usr/bin/a\n"),
    ("compose-empty-list", "compose.linux.yml", 3, "services:\n  a:\n    cap_add: []\n"),
];
