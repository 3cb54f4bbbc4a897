//! Files that lose what the image or the machine has.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "torch-not-held",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1@sha256:1\nRUN pip install --no-cache-dir xformers\n",
    ),
    (
        "selinux-denies",
        "Fedora/llm.container",
        3,
        "[Container]\nImage=docker.io/a/b@sha256:1\nAddDevice=/dev/kfd\n",
    ),
    (
        "context-too-long",
        "a.sh",
        1,
        "llama-server --host 127.0.0.1 -m /models/Meta-Llama-3-8B-Instruct-Q5_K_M.gguf -c 16384\n",
    ),
];
