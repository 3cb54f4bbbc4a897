//! Findings that are correct, but hardly worth a line: they are not reported.

use super::{NONE, PROJECT, expect};

#[test]
fn a_tag_of_one_release_is_kept_by_its_publisher() {
    let usual = [
        "docker.io/library/debian:bookworm-slim",
        "docker.io/library/ubuntu:24.04",
        "docker.io/library/python:3.12-slim",
    ];
    for image in usual {
        let text = format!("FROM {image}\n");
        expect("image-unpinned", NONE, &[("Dockerfile", &text, &[])]);
        expect("image-unpinned", PROJECT, &[("Dockerfile", &text, &["1 information"])]);
    }
    let unpinned = [
        "docker.io/library/golang:1-alpine",
        "docker.io/ollama/ollama:rocm",
        "docker.io/rocm/pytorch:rocm",
        // A private person may push any tag again.
        "docker.io/somebody/vllm-gfx906:0.19.1-rocm-7.2.1",
    ];
    let kept = [
        "docker.io/rocm/dev-ubuntu-24.04:6.3",
        "docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.13_pytorch_release_2.10.0",
        "docker.io/ollama/ollama:0.20.6-rocm",
        "docker.io/vllm/vllm-openai-rocm:v0.23.0",
        "docker.io/library/golang:1.26.1-alpine",
        "ghcr.io/astral-sh/uv:0.11.30",
        "ghcr.io/ggml-org/llama.cpp:server-rocm-b4719",
        "docker.io/rocm/vllm-dev:20251022",
        "registry.redhat.io/rhaiis/vllm-rocm-rhel9:3.2.1",
    ];
    for (images, expected) in [(&unpinned[..], &["1 information"][..]), (&kept[..], &[])] {
        for image in images {
            let text = format!("FROM {image}\n");
            expect("image-unpinned", NONE, &[("Dockerfile", &text, expected)]);
        }
    }
    let short = "FROM rocm/dev-ubuntu-24.04:6.3\n";
    expect("image-short-name", NONE, &[("Dockerfile", short, &[])]);
}

#[test]
fn automatic_updates_are_reported_once() {
    let quadlet = |update: &str| {
        format!("[Container]\nImage=docker.io/ollama/ollama:latest\n{update}ContainerName=a\n")
    };
    let (updated, plain) = (quadlet("AutoUpdate=registry\n"), quadlet(""));
    expect(
        "image-latest",
        NONE,
        &[("a.container", &updated, &[]), ("a.container", &plain, &["2 warning"])],
    );
    expect("image-updated", NONE, &[("a.container", &updated, &["3 information"])]);
}

#[test]
fn an_interactive_container_may_have_the_options_of_amds_guide() {
    let run = |options: &str, command: &str| {
        format!(
            "docker run {options} --device=/dev/kfd --device=/dev/dri --security-opt seccomp=unconfined --cap-add=SYS_PTRACE docker.io/rocm/pytorch:latest{command}\n"
        )
    };
    expect(
        "container-unconfined",
        NONE,
        &[
            ("a.sh", &run("-it", " bash"), &[]),
            ("a.sh", &run("-it", ""), &[]),
            ("a.sh", &run("-d", " python3 serve.py"), &["1 information"]),
        ],
    );
}

#[test]
fn a_wheel_with_a_commit_in_its_name_does_not_change() {
    let text = |file: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install https://repo.radeon.com/rocm/manylinux/rocm-rel-7.2.4/{file}\n"
        )
    };
    let named = text("torch-2.9.1%2Brocm7.2.4.lw.git39497456-cp313-cp313-linux_x86_64.whl");
    let plain = text("torch-2.9.1%2Brocm7.2.4-cp313-cp313-linux_x86_64.whl");
    expect(
        "download-unchecked",
        NONE,
        &[("Dockerfile", &named, &[]), ("Dockerfile", &plain, &["2 warning"])],
    );
}

#[test]
fn sudo_pip_is_about_machines() {
    let script = "sudo pip install torch\n";
    let image = "FROM ubuntu:24.04\nRUN sudo pip install torch\n";
    expect("pip-system", NONE, &[("a.sh", script, &["1 information"]), ("Dockerfile", image, &[])]);
}

#[test]
fn a_comment_that_asks_for_the_own_number_is_enough() {
    let text = |comment: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    devices: [/dev/kfd]\n{comment}    group_add: [\"992\"]\n"
        )
    };
    let asks = text("    # the number that `getent group render` prints\n");
    let plain = text("    # the group render\n");
    expect(
        "group-number",
        NONE,
        &[("compose.yml", &asks, &[]), ("compose.yml", &plain, &["6 information"])],
    );
}

#[test]
fn an_example_in_a_comment_may_have_any_options() {
    let run = "docker run -d --device=/dev/kfd --read-only --ipc=host --network=host --security-opt apparmor=unconfined a/b:1";
    let comment = format!("FROM docker.io/a/b@sha256:1\n# {run}\n");
    for (rule, expected) in [
        ("container-unconfined", &["1 information"][..]),
        ("ipc-shared", &["1 information"]),
        ("network-shared", &["1 information"]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &comment, &[]), ("a.sh", run, expected)]);
    }
}

#[test]
fn a_variable_that_a_script_of_the_file_reads_exists() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - image: docker.io/ollama/ollama@sha256:1\n      command: [sh, -c, \"for m in ${{OLLAMA_PULL_MODELS}}; do ollama pull $m; done\"]\n      env:\n        - name: {name}\n          value: a\n"
        )
    };
    let (read, unread) = (pod("OLLAMA_PULL_MODELS"), pod("OLLAMA_PULL_MODEL"));
    expect("variable-does-not-exist", NONE, &[("pod.yaml", &read, &[])]);
    expect("variable-does-not-exist", NONE, &[("pod.yaml", &unread, &["8 warning"])]);
}

#[test]
fn the_packages_of_a_drivers_repository_need_not_be_a_driver() {
    let text = |packages: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN echo 'deb https://repo.radeon.com/amdgpu/22.40.5/ubuntu jammy main' > /etc/apt/sources.list.d/a.list && apt-get update && apt-get install -y {packages}\n"
        )
    };
    let (driver, libraries) = (text("amdgpu-dkms"), text("rocm-dev"));
    expect(
        "rocm-outdated",
        NONE,
        &[("Dockerfile", &driver, &["2 information"]), ("Dockerfile", &libraries, &[])],
    );
}

#[test]
fn what_the_file_itself_answers_is_not_reported() {
    let ollama = |variable: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/ollama/ollama:0.20.6\n    devices: [/dev/kfd, /dev/dri]\n    environment:\n      - {variable}=1\n"
        )
    };
    let (vulkan, plain) = (ollama("OLLAMA_VULKAN"), ollama("OLLAMA_DEBUG"));
    expect(
        "ollama-without-rocm",
        NONE,
        &[("compose.yml", &vulkan, &[]), ("compose.yml", &plain, &["3 error"])],
    );
    let hub = |release: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install transformers=={release} hf_transfer==0.1.9\nENV HF_HUB_ENABLE_HF_TRANSFER=1\n"
        )
    };
    expect(
        "variable-without-effect",
        NONE,
        &[("Dockerfile", &hub("4.50.3"), &[]), ("Dockerfile", &hub("5.1.0"), &["3 information"])],
    );
    let first = |system: &str| format!("SYSTEM={system}\nGPU=gfx1151\nROCM_VERSION=7.2.0\n");
    let (windows, linux) = (first("WSL2"), first("linux"));
    expect("rocm-7-2-0", NONE, &[("a.env", &windows, &[]), ("a.env", &linux, &["3 warning"])]);
}
