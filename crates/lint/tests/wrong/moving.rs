//! Files with one mistake each, about what comes from elsewhere in whatever version is there that
//! day, and about workflows.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    ("model-unpinned", "get.sh", 2, "#!/bin/sh\nhf download a/b-GGUF b.gguf --local-dir /models\n"),
    (
        "image-updated",
        "compose.yml",
        4,
        "services:\n  a:\n    image: docker.io/a/b:rocm\n    pull_policy: always\n",
    ),
    (
        "workflow-retired",
        ".github/workflows/a.yml",
        4,
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-20.04\n    steps:\n      - run: make\n",
    ),
    (
        "visible-devices-fixed",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nENV HIP_VISIBLE_DEVICES=0\n",
    ),
    (
        "build-without-server",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN ollama create a -f Modelfile\n",
    ),
];
