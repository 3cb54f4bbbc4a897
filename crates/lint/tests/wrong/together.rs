//! Files whose mistake only several files together show.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "python-other",
        "Dockerfile",
        4,
        "FROM docker.io/library/python:3.11-slim@sha256:1\nWORKDIR /app\nCOPY project/pyproject.toml .\nRUN pip install --no-cache-dir .\n",
    ),
    (
        "port-twice",
        "compose.yml",
        7,
        "services:\n  web:\n    image: a/b@sha256:1\n    ports: [\"8080:80\"]\n  api:\n    image: a/c@sha256:1\n    ports: [\"8080:8000\"]\n",
    ),
    ("value-not-replaced", ".env", 2, "API_KEY=a\nBACKEND_API_KEY=$(API_KEY)\n"),
];
