//! Files whose settings do not fit together, or have a value that their reader refuses.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "compose-value",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    healthcheck:\n      interval: 30\n      test: [CMD, \"true\"]\n",
    ),
    (
        "compose-conflict",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    network_mode: host\n    networks: [b]\nnetworks: { b: {} }\n",
    ),
    (
        "quadlet-refused",
        "a.container",
        4,
        "[Unit]\nDescription=a\n[Container]\nExec=sleep infinity\n",
    ),
    (
        "image-contract",
        "compose.yml",
        3,
        "services:\n  db:\n    image: docker.io/library/postgres:16\n",
    ),
    (
        "restart-of-job",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    command: python train.py\n    restart: always\n",
    ),
    (
        "socket-mount",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    volumes:\n      - /run/door/door.sock:/run/door.sock\n",
    ),
    (
        "kubernetes-reference",
        "job.yaml",
        6,
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n        - name: a\n          image: localhost/a:1\n",
    ),
    (
        "kubernetes-port",
        "a.yaml",
        8,
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: localhost/a:1\n      ports: [{ containerPort: 80 }]\n      readinessProbe: { tcpSocket: { port: 81 } }\n",
    ),
    (
        "kubernetes-init",
        "a.yaml",
        5,
        "apiVersion: v1\nkind: Pod\nspec:\n  initContainers:\n    - name: wait-for-bridge\n      image: localhost/a:1\n      command: [sh, -c, \"until a; do sleep 1; done\"]\n  containers:\n    - name: bridge\n      image: localhost/a:1\n",
    ),
    (
        "kubernetes-job",
        "a.yaml",
        10,
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: train\n          image: localhost/a:1\n        - name: bridge\n          image: localhost/b:1\n          ports: [{ containerPort: 80 }]\n",
    ),
    (
        "kubernetes-version",
        "a.yaml",
        1,
        "apiVersion: extensions/v1beta1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers: []\n",
    ),
    (
        "example-incomplete",
        "docker-compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a:${ONE}-${TWO}-${THREE}\n    ports:\n      - \"${FOUR}:80\"\n",
    ),
    (
        "secret-in-environment",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    environment:\n      - WALLET_PRIVATE_KEY=${KEY}\n",
    ),
    (
        "rocm-arm64",
        "a.service",
        3,
        "[Service]\nUser=pi\nEnvironment=PATH=/opt/rocm/bin:/usr/bin\nExecStart=/home/pi/a\n",
    ),
    (
        "service-address",
        "compose.yml",
        5,
        "services:\n  web:\n    image: localhost/web\n    environment:\n      OLLAMA_BASE_URL: http://localhost:11434\n  ollama:\n    image: localhost/ollama\n    ports: [\"127.0.0.1:11434:11434\"]\n",
    ),
    (
        "mount-too-late",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    volumes:\n      - ./requirements.txt:/app/requirements.txt\n",
    ),
    ("unit-value", "a.service", 3, "[Service]\nExecStart=/bin/true\nMemoryMax=8GB\n"),
    ("unit-shell", "a.service", 2, "[Service]\nExecStart=/bin/a > /var/log/a.log\n"),
    ("unit-section", "a.service", 3, "[Service]\nExecStart=/bin/true\nTimeoutStart=30\n"),
];
