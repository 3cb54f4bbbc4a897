//! Packages that a release of Debian or Ubuntu has or lacks.

use super::{NONE, expect};

/// Returns a Dockerfile that installs packages.
fn install(base: &str, packages: &str) -> String {
    format!("FROM {base}\nRUN apt-get update && apt-get install -y {packages}\n")
}

#[test]
fn a_name_that_debian_does_not_have_is_found() {
    for (base, packages, expected) in [
        ("docker.io/library/debian:13", "rocm-dev-tools", &["2 error"][..]),
        ("docker.io/library/python:3.12-slim-bookworm", "libgl1-mesa-glx nvtop-git", &["2 error"]),
        ("docker.io/library/node:24-trixie", "libwebkit2gtk-4.0-dev", &["2 error"]),
        ("docker.io/library/debian:12", "libpython3.12-dev", &["2 error"]),
        ("docker.io/library/golang:1.25-bookworm", "glslc-dev", &["2 error"]),
        ("ghcr.io/astral-sh/uv:python3.12-trixie-slim", "libgl1-mesa-glx", &["2 error"]),
        ("docker.io/library/ruby:3.4-slim-trixie", "libgl1-mesa-glx", &["2 error"]),
        // Only the component `non-free`, or a backport, has it.
        ("docker.io/library/debian:13", "intel-media-va-driver-non-free", &["2 error"]),
        // One finding is enough for the parts of one package.
        ("docker.io/library/debian:12", "python3.13 python3.13-venv python3.13-dev", &["2 error"]),
    ] {
        expect("package-gone", NONE, &[("Dockerfile", &install(base, packages), expected)]);
    }
}

#[test]
fn what_debian_has_or_another_source_may_have_is_fine() {
    for (base, packages) in [
        ("docker.io/library/debian:13", "git curl ca-certificates libgl1 podman awk"),
        (
            "docker.io/library/debian:12",
            "git=1:2.39.* libc6:amd64 libgl1:i386 'libboost.*-dev' g++",
        ),
        ("docker.io/library/debian:12", "vim- lib$A-dev ${TOOLS} librust-x+y-dev"),
        ("docker.io/library/debian:12", "-t bookworm-backports ollama-x"),
        // Nothing is known about the packages of these.
        ("docker.io/library/debian:10", "zzz-unknown"),
        ("docker.io/library/debian:sid", "zzz-unknown"),
        ("docker.io/a/debian:13", "zzz-unknown"),
        ("docker.io/library/postgres:17-trixie", "postgresql-17-zzz"),
    ] {
        expect("package-gone", NONE, &[("Dockerfile", &install(base, packages), &[])]);
    }
    let base = "FROM docker.io/library/debian:13\n";
    let later = "RUN apt-get update && apt-get install -y zzz-unknown\n";
    for source in [
        "RUN echo 'deb https://h.example stable main' > /etc/apt/sources.list.d/a.list\n",
        "COPY a.sources /etc/apt/sources.list.d/\n",
        "RUN curl -fsSL https://h.example/setup | bash -\n",
        "COPY setup.sh /\nRUN /setup.sh\n",
        "RUN sed -i 's/main/main non-free/' /etc/apt/sources.list.d/debian.sources\n",
    ] {
        let text = format!("{base}{source}{later}");
        expect("package-gone", NONE, &[("Dockerfile", &text, &[])]);
    }
    // The source of another stage does not count, and that of the stage below it does.
    let source = "RUN echo 'deb https://h.example a main' > /etc/apt/sources.list.d/a.list\n";
    let other = format!("{base}{source}{base}{later}");
    expect("package-gone", NONE, &[("Dockerfile", &other, &["4 error"])]);
    let same = format!("FROM docker.io/library/debian:13 AS a\n{source}FROM a\n{later}");
    expect("package-gone", NONE, &[("Dockerfile", &same, &[])]);
}

#[test]
fn a_release_of_ubuntu_has_its_own_pythons() {
    let amd = "docker.io/rocm/dev-ubuntu-22.04:6.4";
    for (base, packages, expected) in [
        (amd, "python3.12 python3.12-venv python3.12-dev", &["2 error"][..]),
        (amd, "python3.11 python3.10-venv", &[]),
        ("docker.io/library/ubuntu:24.04", "python3.11-venv", &["2 error"]),
        ("docker.io/library/ubuntu:24.04", "python3.12-venv python3-pip", &[]),
        ("docker.io/library/ubuntu:20.04", "python3.9", &[]),
        // AMD's images of PyTorch have another Python than Ubuntu, from another source.
        (
            "docker.io/rocm/pytorch:rocm6.4_ubuntu22.04_py3.12_pytorch_release_2.6.0",
            "python3.12-dev",
            &[],
        ),
        // AMD's repository has these.
        (amd, "rocm-dev hipblas-dev", &[]),
    ] {
        expect("package-gone", NONE, &[("Dockerfile", &install(base, packages), expected)]);
    }
    let argument = "ARG PYTHON_VERSION=3.12\nFROM docker.io/rocm/dev-ubuntu-22.04:6.0\nARG PYTHON_VERSION\n\
        RUN apt-get update && apt-get install -y \\\n    python${PYTHON_VERSION} python${PYTHON_VERSION}-dev\n";
    expect("package-gone", NONE, &[("Dockerfile", argument, &["5 error"])]);
}

#[test]
fn the_names_of_packages_for_rocm_are_known() {
    let source = "echo 'deb https://h.example/rocm noble main' > /etc/apt/sources.list.d/rocm.list";
    for (package, expected) in [
        ("rocm-dev-tools", &["2 error"][..]),
        ("rocm-toolkit", &["2 error"]),
        ("rocm-dev", &[]),
        ("rocm-hip-sdk6.4.1", &[]),
        ("rocm-llvm-dev", &[]),
        ("rocm-smi", &[]),
        ("rocm-podman-support", &[]),
        ("rocm-$A", &[]),
    ] {
        let image = format!(
            "FROM docker.io/rocm/pytorch:rocm6.0_ubuntu22.04_py3.10_pytorch_2.1.1\n\
             RUN {source} && apt-get update && apt-get install -y git {package}\n"
        );
        let script = format!("#!/bin/sh\nsudo apt-get install -y {package}\n");
        expect(
            "package-gone",
            NONE,
            &[("Dockerfile", &image, expected), ("a.sh", &script, expected)],
        );
    }
}

#[test]
fn a_name_that_debian_never_had_is_doubtful_in_ubuntu() {
    for (base, packages, expected) in [
        (
            "docker.io/library/ubuntu:24.04",
            "git vulkan-tools libopenblas-devkit",
            &["2 warning"][..],
        ),
        ("docker.io/rocm/dev-ubuntu-22.04:6.4", "python3-torch-rocm", &["2 warning"]),
        // Versions differ between the distributions, and vendors have packages of their own.
        (
            "docker.io/library/ubuntu:24.04",
            "libavcodec60 libjpeg-turbo8-dev linux-tools-generic",
            &[],
        ),
        (
            "docker.io/rocm/dev-ubuntu-22.04:6.4",
            "hipblas-dev comgr miopen-hip-dev rocwmma-dev",
            &[],
        ),
        (
            "docker.io/nvidia/cuda:12.4.1-devel-ubuntu22.04",
            "libcudnn9-dev-cuda-12 cuda-nvcc tensorrt libnccl-dev",
            &[],
        ),
        ("docker.io/a/ubuntu:24.04", "libopenblas-devkit", &[]),
    ] {
        expect("package-gone", NONE, &[("Dockerfile", &install(base, packages), expected)]);
    }
}

#[test]
fn a_repository_for_rocm_with_a_pin_is_right() {
    let source = "echo 'deb https://repo.radeon.com/rocm/apt/6.3.1 noble main' > /etc/apt/sources.list.d/rocm.list";
    let install = "apt-get update && apt-get install -y rocm-hip-runtime";
    let pin = "printf 'Package: *\\nPin: release o=repo.radeon.com\\nPin-Priority: 600\\n' > /etc/apt/preferences.d/rocm-pin-600";
    for (text, expected) in [
        (
            format!("FROM docker.io/library/ubuntu:24.04\nRUN {source} && {install}\n"),
            &["2 warning"][..],
        ),
        (format!("FROM docker.io/library/ubuntu:24.04\nRUN {source} && {pin} && {install}\n"), &[]),
        (
            "FROM docker.io/library/ubuntu:24.04\nCOPY preferences.d /etc/apt/preferences.d\n"
                .to_owned()
                + &format!("RUN {source} && {install}\n"),
            &[],
        ),
        // AMD's images have the pin.
        (format!("FROM docker.io/rocm/dev-ubuntu-24.04:6.3.1\nRUN {source} && {install}\n"), &[]),
    ] {
        expect("rocm-pin-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}
