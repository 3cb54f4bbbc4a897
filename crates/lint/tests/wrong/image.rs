//! Files with one mistake each: what an image contains while it is built.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "path-absent",
        "Dockerfile",
        4,
        "FROM docker.io/library/python:3.12@sha256:1\nWORKDIR /app\nRUN git clone https://h.example/a && ls a\nRUN cd b && pip install -r requirements.txt\n",
    ),
    (
        "folder-not-writable",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nENV HF_HOME=/app/cache\nUSER worker\n",
    ),
    ("argument-unused", "Dockerfile", 1, "ARG BASE_IMAGE\nFROM docker.io/a/b@sha256:1\nRUN a\n"),
    (
        "removal-useless",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nENV HF_HOME=/models\nRUN a && rm -rf /root/.cache/huggingface\n",
    ),
    (
        "container-ends",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nCMD [\"bash\", \"-c\", \"source venv/bin/activate\"]\n",
    ),
    (
        "argument-without-value",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nARG TAG\nRUN git clone --branch \"${TAG}\" https://h.example/a\n",
    ),
    (
        "user-missing",
        "Dockerfile",
        2,
        "FROM docker.io/library/debian:trixie@sha256:1\nCOPY --chown=worker . /app\n",
    ),
    (
        "home-missing",
        "Dockerfile",
        3,
        "FROM docker.io/library/python:3.12@sha256:1\nRUN pip install transformers==4.57.1\nRUN useradd worker\nUSER worker\n",
    ),
    (
        "startup-file-unread",
        "Dockerfile",
        2,
        "FROM docker.io/library/debian:trixie@sha256:1\nRUN echo 'a' >> .bashrc\n",
    ),
];
