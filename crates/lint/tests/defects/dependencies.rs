//! What builds with CMake need, and what is left of them.

use lint::{Context, Exists};

use super::{NONE, expect, findings_in};

/// A script in the build context.
#[derive(Debug)]
struct Script<'a>(&'a str);

impl Exists for Script<'_> {
    fn exists(&self, _: &str, path: &str) -> Option<bool> {
        Some(path == "scripts/build.sh")
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        (path == "scripts/build.sh").then(|| self.0.to_owned())
    }
}

/// The part of a Dockerfile that clones and builds llama.cpp.
const CLONE: &str = "RUN git clone https://github.com/ggml-org/llama.cpp /src && cd /src";

fn build(base: &str, install: &str, rest: &str) -> String {
    format!("FROM docker.io/library/{base}\nRUN {install}\n{CLONE} && {rest}\n")
}

const VULKAN: &str = "cmake -B build -DGGML_VULKAN=ON && cmake --build build -j8";
const HIP: &str = "cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1151 && cmake --build build -j8";
const BLAS: &str = "cmake -B build -DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS";

#[test]
fn a_build_needs_the_libraries_of_its_options() {
    let apt = "apt-get update && apt-get install -y cmake git build-essential";
    for (base, install, rest, expected) in [
        // Headers, the compiler for shaders, and since 2026 the headers of SPIR-V.
        ("python:3.12-slim", apt.to_owned(), VULKAN, true),
        ("debian:13", format!("{apt} libvulkan-dev glslc"), VULKAN, true),
        ("debian:13", format!("{apt} libvulkan-dev glslc spirv-headers"), VULKAN, false),
        (
            "fedora:43",
            "dnf install -y cmake git gcc-c++ vulkan-loader-devel glslc".to_owned(),
            VULKAN,
            true,
        ),
        (
            "alpine:3.22",
            "apk add cmake git build-base vulkan-loader-dev shaderc spirv-headers".to_owned(),
            VULKAN,
            false,
        ),
        ("alpine:3.22", "apk add cmake git build-base vulkan-loader-dev".to_owned(), VULKAN, true),
        (
            "archlinux:base-devel",
            "pacman -Syu --noconfirm cmake git vulkan-headers shaderc spirv-headers".to_owned(),
            VULKAN,
            false,
        ),
        (
            "archlinux:base-devel",
            "pacman -Syu --noconfirm cmake git vulkan-headers".to_owned(),
            VULKAN,
            true,
        ),
        (
            "fedora:44",
            "dnf install -y cmake git gcc-c++ rocm-hip-devel hipcc".to_owned(),
            HIP,
            true,
        ),
        (
            "fedora:44",
            "dnf install -y cmake git gcc-c++ rocm-hip-devel hipblas-devel rocblas-devel"
                .to_owned(),
            HIP,
            false,
        ),
        (
            "fedora:44",
            "dnf install -y cmake git gcc-c++ 'rocm-*' 'hipblas-*'".to_owned(),
            HIP,
            false,
        ),
        ("debian:13", format!("{apt} hipcc libhipblas-dev librocblas-dev"), HIP, false),
        ("ubuntu:24.04", apt.to_owned(), "cmake -B b -DWHISPER_SDL2=ON", true),
        ("ubuntu:24.04", format!("{apt} libsdl2-dev"), "cmake -B b -DWHISPER_SDL2=ON", false),
        ("ubuntu:24.04", apt.to_owned(), "cmake -B b -DWHISPER_COMMON_FFMPEG=ON", true),
        (
            "ubuntu:24.04",
            format!("{apt} libavcodec-dev"),
            "cmake -B b -DWHISPER_COMMON_FFMPEG=1",
            false,
        ),
        ("ubuntu:24.04", apt.to_owned(), "cmake -B b -DGGML_OPENCL=ON", true),
        ("ubuntu:24.04", format!("{apt} ocl-icd-opencl-dev"), "cmake -B b -DGGML_OPENCL=ON", false),
        ("ubuntu:24.04", apt.to_owned(), "cmake -B b -DCOMPUTE_BACKEND=hip", true),
        ("ubuntu:24.04", format!("{apt} rocm-hip-sdk"), "cmake -B b -DCOMPUTE_BACKEND=hip", false),
        ("ubuntu:24.04", apt.to_owned(), "cmake -B b -DCOMPUTE_BACKEND=cpu", false),
        ("ubuntu:24.04", apt.to_owned(), BLAS, true),
        ("ubuntu:24.04", format!("{apt} libopenblas-dev"), BLAS, false),
        (
            "debian:13",
            "apt-get update && apt-get install -y --no-install-recommends cmake git make"
                .to_owned(),
            "cmake -B b -DGGML_NATIVE=OFF",
            true,
        ),
        ("debian:13", apt.to_owned(), "cmake -B b -DGGML_NATIVE=OFF -DGGML_VULKAN=OFF", false),
    ] {
        let text = build(base, &install, rest);
        let expected: &[&str] = if expected { &["2 warning"] } else { &[] };
        expect("build-needs-package", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn what_a_stage_has_otherwise_is_not_missing() {
    let base = "FROM docker.io/library/debian:13\n";
    let apt = "RUN apt-get update && apt-get install -y cmake git build-essential\n";
    let vulkan = format!("{CLONE} && {VULKAN}\n");
    for text in [
        format!("{base}{apt}COPY other.sh /\nRUN sh /other.sh\n{vulkan}"),
        format!("{base}{apt}ADD https://h.example/vulkansdk.tar.xz /opt\n{vulkan}"),
        format!("{base}{apt}RUN curl -L https://h.example/a.tar.xz | tar -xJ -C /opt\n{vulkan}"),
        format!("{base}{apt}COPY --from=docker.io/a/sdk /usr/local /usr/local\n{vulkan}"),
        format!("{base}ARG MORE\n{apt}RUN apt-get install -y $MORE\n{vulkan}"),
        // Nothing is known about this base.
        format!("FROM docker.io/a/b:1\n{apt}{vulkan}"),
        // The stage below has the packages.
        format!("{base}AS\n").replace("\nAS", " AS sdk")
            + "RUN apt-get update && apt-get install -y cmake git g++ libvulkan-dev glslc spirv-headers\nFROM sdk\n"
            + &vulkan,
        // A release of its own can be older.
        format!(
            "{base}{apt}RUN apt-get install -y libvulkan-dev glslc\nRUN git clone -b b5000 https://github.com/ggml-org/llama.cpp /src && cd /src && {VULKAN}\n"
        ),
    ] {
        expect("build-needs-package", NONE, &[("Dockerfile", &text, &[])]);
    }
    let text = build("debian:13", "apt-get update && apt-get install -y g++ cmake git", VULKAN);
    let found = findings_in("Dockerfile", &text, Context::default());
    let one = found.iter().find(|one| one.rule.id == "build-needs-package").unwrap();
    assert_eq!(
        one.help,
        "install `glslc`, `libvulkan-dev`, `spirv-headers` in the stage of the build"
    );
}

#[test]
fn a_script_that_the_image_gets_is_part_of_its_builds() {
    let image = "FROM registry.fedoraproject.org/fedora:44\nRUN dnf install -y cmake git gcc-c++ rocm-hip-devel\n\
        COPY scripts/build.sh /usr/bin/build\nCMD [\"/usr/bin/build\"]\n";
    let script = |options: &str| {
        format!(
            "#!/bin/sh\nset -e\ngit clone https://github.com/ggml-org/llama.cpp /src\ncmake -S /src -B /b {options}\n"
        )
    };
    let found = |options: &str| {
        let text = script(options);
        let exists = Script(&text);
        let context = Context { exists: Some(&exists), ..Context::default() };
        let all = findings_in("Containerfile", image, context);
        all.iter().map(|one| format!("{} {}", one.line, one.rule.id)).collect::<Vec<_>>()
    };
    let has = |all: &[String], wanted: &str| all.iter().any(|one| one == wanted);
    let new = found("-DGGML_HIP=ON -DGPU_TARGETS=gfx1151");
    assert!(has(&new, "2 build-needs-package") && !has(&new, "3 build-option-gone"), "{new:?}");
    let old = found("-DGGML_HIPBLAS=ON -DAMDGPU_TARGETS=gfx1151");
    assert!(has(&old, "3 build-option-gone"), "{old:?}");
    let cpu = found("-DGGML_NATIVE=OFF");
    assert!(!has(&cpu, "2 build-needs-package") && !has(&cpu, "3 build-option-gone"), "{cpu:?}");
}

#[test]
fn programs_without_the_libraries_of_a_deleted_build_do_not_start() {
    let base = "FROM docker.io/library/debian:13\nRUN apt-get update && apt-get install -y cmake git g++\n";
    let make = "cmake -B build -DGGML_NATIVE=OFF && cmake --build build -j8";
    for (rest, expected) in [
        (
            format!("{make} && cp build/bin/llama-server /usr/local/bin/ && rm -rf /src"),
            &["3 error"][..],
        ),
        (
            format!("{make} && cp build/bin/llama-server /usr/local/bin/ && cd / && rm -rf src"),
            &["3 error"],
        ),
        (
            format!(
                "{make} && mv build/bin/llama-cli build/bin/llama-server /usr/local/bin/ && rm -rf build"
            ),
            &["3 error"],
        ),
        (format!("{make} && cp build/bin/llama-server /usr/local/bin/"), &[]),
        (format!("{make} && cp build/bin/llama-server /usr/local/bin/ && rm -rf /src/.git"), &[]),
        (
            format!(
                "{make} && cp build/bin/llama-server build/bin/*.so* /usr/local/bin/ && rm -rf /src"
            ),
            &[],
        ),
        (
            format!(
                "{make} && cp build/bin/llama-server /usr/local/bin/ && cp -a build/bin/. /opt/ && rm -rf /src"
            ),
            &[],
        ),
        (
            format!(
                "{make} && cmake --install build && cp build/bin/llama-server /opt/ && rm -rf /src"
            ),
            &[],
        ),
        (
            "cmake -B build -DGGML_NATIVE=OFF -DBUILD_SHARED_LIBS=OFF && cmake --build build -j8 && cp build/bin/llama-server /usr/local/bin/ && rm -rf /src".to_owned(),
            &[],
        ),
    ] {
        let text = format!("{base}{CLONE} && {rest}\n");
        expect("library-not-copied", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_start_can_call_a_program_that_is_gone() {
    let image = |start: &str| {
        format!(
            "FROM docker.io/library/python:3.12-slim\nRUN pip install huggingface_hub\n{start}\n"
        )
    };
    let gone =
        image("CMD [\"sh\", \"-c\", \"ls /m || huggingface-cli download a/b --local-dir /m\"]");
    let new = image("CMD [\"sh\", \"-c\", \"ls /m || hf download a/b --local-dir /m\"]");
    let old = gone.replace("huggingface_hub", "huggingface_hub==0.36.0");
    expect(
        "command-renamed",
        NONE,
        &[
            ("Dockerfile", &gone, &["3 information"]),
            ("Dockerfile", &new, &[]),
            ("Dockerfile", &old, &[]),
        ],
    );
}

#[test]
fn the_tag_of_an_image_shows_how_old_mesa_is() {
    let image = |base: &str| {
        format!(
            "FROM docker.io/rocm/{base}\nRUN apt update && apt install -y mesa-vulkan-drivers\n"
        )
    };
    for (base, expected) in [
        ("pytorch:rocm5.4_ubuntu20.04_py3.8_pytorch_1.12.1", &["1 information"][..]),
        ("dev-ubuntu-22.04:6.4.1", &["1 information"]),
        ("dev-ubuntu-24.04:6.4.1", &[]),
        ("pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.9.1", &[]),
    ] {
        expect("mesa-too-old", NONE, &[("Dockerfile", &image(base), expected)]);
    }
}

#[test]
fn llama_cpp_has_no_rocwmma_any_more() {
    let image = |clone: &str, option: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:7.2-complete\nRUN git clone {clone} /a && cmake -S /a -B /b -DGGML_HIP=ON -DGPU_TARGETS=gfx1151 {option}\n"
        )
    };
    let url = "https://github.com/ggml-org/llama.cpp";
    let old = format!("-b b5000 {url}");
    for (clone, option, expected) in [
        (url, "-DGGML_HIP_ROCWMMA_FATTN=ON", &["2 information"][..]),
        (url, "-DGGML_HIP_ROCWMMA_FATTN=OFF", &[]),
        (url, "-DGGML_HIP_GRAPHS=ON", &[]),
        (&old, "-DGGML_HIP_ROCWMMA_FATTN=ON", &[]),
    ] {
        expect("build-option-gone", NONE, &[("Dockerfile", &image(clone, option), expected)]);
    }
}
